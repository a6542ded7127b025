/* Constants of a GPU, driver and CUDA from runs that were measured on it: zeroledger.constants/1.
 *
 * A case is a folder with train.json, which says what the whole GPU had in use, and the ledger of
 * its rank, which says what the arena was. What is left, less NCCL's buffers by their closed form
 * (channels from nccl.json), is context and code: one constant, and one more where there are
 * several ranks; fitted by least squares.
 *
 * Runs are put in the order of their ids, those with one rank and those with several each for
 * themselves; of every four, the first calibrates and three judge. The same run measured twice is
 * on one side only.
 *
 *     zv_calibration *c;
 *     ZL_TRY(zv_calibrate(folders, count, &c, err));
 *     ZL_TRY(zv_calibration_save(c, "h200.json", err));
 *     zv_calibration_free(c);
 */
#ifndef ZV_CALIBRATE_H
#define ZV_CALIBRATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fit/stats.h"
#include "zeroledger/device.h"
#include "zeroledger/error.h"
#include "zeroledger/run.h"

enum { ZV_CASE_NAME_SIZE = 96 };

typedef struct zv_case_used {
    char name[ZV_CASE_NAME_SIZE]; /* its folder's */
    char run_id[ZL_RUN_ID_SIZE];
    bool several;       /* ranks, with NCCL between them */
    bool calibrates;    /* else it judges */
    uint64_t used;      /* bytes on the whole GPU */
    uint64_t arena;     /* bytes, by the witness */
    uint64_t predicted; /* bytes on the whole GPU, by the constants and the predicted arena */
} zv_case_used;

/* How far off the predictions of one side were; bytes. */
typedef struct zv_side {
    size_t cases;
    size_t outside; /* of 1 % or 32 MiB */
    uint64_t largest;
    double mean; /* of the distances */
} zv_side;

typedef struct zv_calibration {
    zl_constants constants;
    zv_linear fit;
    zv_case_used *used; /* by number of ranks, then run id */
    size_t cases;
    size_t left_out; /* of several ranks, where no folder has nccl.json */
    zv_side calibrated;
    zv_side judged;
} zv_calibration;

/* ZL_E_INPUT if the folders hold no such case, too few to calibrate and judge, or those of two
 * machines. The caller frees *out. */
ZL_NODISCARD zl_status zv_calibrate(char *const *folders, size_t count, zv_calibration **out,
                                    zl_err *err);
void zv_calibration_free(zv_calibration *calibration);

/* path "-" = stdout. */
ZL_NODISCARD zl_status zv_calibration_save(const zv_calibration *calibration, const char *path,
                                           zl_err *err);

#endif
