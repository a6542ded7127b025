/* Measurements that were kept, against today's prediction.
 *
 *     zv_recheck_result result = {0};
 *     ZL_TRY(zv_recheck("docs/results/some-machine", report, context, &result, err));
 */
#ifndef ZV_RECHECK_H
#define ZV_RECHECK_H

#include <stddef.h>

#include "compare/diff.h"

typedef struct zv_recheck_result {
    size_t cases;   /* different runs in different folders */
    size_t differ;  /* cases with a ledger that is not equal */
    size_t ledgers; /* measured ledgers */
} zv_recheck_result;

/* Called for each measured ledger. */
typedef void (*zv_recheck_report)(void *context, const char *path, const zv_diff *diff);

/* Predicts every measured ledger below folder again; other files are passed over. report may be
 * NULL. */
ZL_NODISCARD zl_status zv_recheck(const char *folder, zv_recheck_report report, void *context,
                                  zv_recheck_result *out, zl_err *err);

#endif
