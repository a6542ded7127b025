/* The functions of kernel.h that this module was linked with. */
#include "conform_module.h"

const conform_kernels *conform_kernels_get(void)
{
    static const conform_kernels kernels = {
#define CONFORM_VALUE(name) .name = zr_##name,
        CONFORM_KERNELS(CONFORM_VALUE)
#undef CONFORM_VALUE
    };
    return &kernels;
}
