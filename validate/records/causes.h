/* Why a figure misses: a small file of causes that people wrote, applied to the misses of a
 * judgement. A miss without one is unexplained. */
#ifndef ZV_CAUSES_H
#define ZV_CAUSES_H

#include "records/figures.h"

/* Misses of a record that have quantity, mark and figures in common, over steps and ranks. */
typedef struct zv_miss {
    const zv_judged *record;
    const zv_row *row; /* the first */
    uint64_t steps;    /* bit i: step i - 1 */
    uint64_t ranks;    /* bit r: rank r; the last bit stands for all beyond */
    const char *cause; /* NULL: unexplained; borrowed from the causes */
    size_t number;     /* of the cause in its file, from 1 */
} zv_miss;

typedef struct zv_causes zv_causes;

/* Reads {"causes": [{"records": ["gpt2_fsdp1_*"], "quantities": [...], "at": [...], "cause"}]}:
 * names of records may hold * and ?; without quantities or at it means all. The first that matches
 * counts. The caller frees *out with zv_causes_free. */
ZL_NODISCARD zl_status zv_causes_load(const char *path, zv_causes **out, zl_err *err);
void zv_causes_free(zv_causes *causes);

/* All misses, by record, quantity and mark; the caller frees *out with free(). ZL_NO names a cause
 * that speaks of one of these records and explains nothing any more. */
ZL_NODISCARD zl_status zv_misses_of(const zv_judgement *all, const zv_causes *causes, zv_miss **out,
                                    size_t *count, zl_err *err);

#endif
