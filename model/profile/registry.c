#include "profile/profile.h"

#include <stddef.h>

const zl_profile *zl_profile_get(zl_framework framework)
{
    switch (framework) {
    case ZL_FRAMEWORK_NATIVE:
        return &zl_profile_native;
    case ZL_FRAMEWORK_COUNT:
        break;
    }
    return NULL;
}
