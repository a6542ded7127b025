#define _DEFAULT_SOURCE /* reallocarray */

#include "compare/verdict.h"

#include <stdlib.h>

static const char *const outcome_names[ZV_OUTCOME_COUNT] = {
    [ZV_EQUAL] = "equal", [ZV_DIFFERS] = "differs", [ZV_FAILED] = "failed"};

const char *zv_outcome_name(zv_outcome outcome)
{
    return outcome_names[outcome];
}

size_t zv_verdicts_differing(const zv_verdicts *verdicts)
{
    size_t n = 0;
    for (size_t i = 0; i < verdicts->count; i++) {
        n += verdicts->item[i].outcome != ZV_EQUAL;
    }
    return n;
}

zl_status zv_verdicts_add(zv_verdicts *verdicts, const zv_verdict *verdict, zl_err *err)
{
    zv_verdict *const grown =
        reallocarray(verdicts->item, verdicts->count + 1, sizeof verdicts->item[0]);
    if (grown == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for another verdict after %zu",
                       verdicts->count);
    }
    verdicts->item = grown;
    grown[verdicts->count++] = *verdict;
    return ZL_OK;
}

void zv_verdicts_release(zv_verdicts *verdicts)
{
    free(verdicts->item);
    *verdicts = (zv_verdicts){0};
}
