/* Measurements that were kept, against today's prediction.
 *
 *     zv_recheck_result result = {0};
 *     ZL_TRY(zv_recheck("docs/results/some-machine", report, context, &result, err));
 */
#ifndef ZV_RECHECK_H
#define ZV_RECHECK_H

#include <stddef.h>

#include "compare/device.h"
#include "compare/diff.h"

/* One rung over all files. */
typedef struct zv_rung_count {
    size_t judged;
    size_t differ;
    size_t unknown;   /* measured, but no constants fit the machine */
    uint64_t largest; /* bytes between predicted and measured, at most */
} zv_rung_count;

typedef struct zv_recheck_result {
    size_t cases;        /* different runs in different folders */
    size_t differ;       /* cases that differ on any rung */
    size_t ledgers;      /* measured ledgers: L0 and L1 */
    size_t unequal;      /* of them those with a figure that is not equal */
    zv_rung_count arena; /* L2, by the ledgers' witness */
    zv_rung_count owner; /* L2, by traces: trainer, NCCL and cuBLAS */
    zv_rung_count nccl;  /* L2, communicators of nccl.json */
    zv_rung_count total; /* L3 */
} zv_recheck_result;

/* Called for each measured ledger. */
typedef void (*zv_recheck_report)(void *context, const char *path, const zv_diff *diff,
                                  const zv_device_verdict *device);

/* Predicts every measured ledger below folder again, and its device; and every communicator of an
 * nccl.json. Other files are passed over. report may be NULL. */
ZL_NODISCARD zl_status zv_recheck(const char *folder, zv_recheck_report report, void *context,
                                  zv_recheck_result *out, zl_err *err);

#endif
