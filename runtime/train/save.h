/* Checkpoints on the disk: ROOT/step-00000012 holds one file of each rank, run.json and
 * manifest.json; ROOT/latest holds the name of the newest.
 *
 * A step's folder has another name until everything in it is on the disk: one with that name is
 * complete. A failure, or the death of a rank, leaves the older ones as they were.
 *
 *     zr_save *save;
 *     ZL_TRY(zr_save_new(&(zr_save_options){.root = "ckpt", .keep = 2, .run = &run, .seed = 1,
 *                                           .comm = comm}, &save, err));
 *     ZL_TRY(zr_save_step(save, &zero, &position, err));
 *     zr_save_free(save);
 */
#ifndef ZR_SAVE_H
#define ZR_SAVE_H

#include <stdint.h>

#include "comm/comm.h"
#include "train/manifest.h"
#include "zero/zero.h"
#include "zeroledger/error.h"
#include "zeroledger/run.h"

typedef struct zr_save zr_save;

typedef struct zr_save_options {
    const char *root;  /* exists; borrowed for the life of the zr_save */
    uint64_t keep;     /* at least 1: checkpoints that stay, the new one included */
    const zl_run *run; /* borrowed likewise */
    uint64_t seed;
    zr_comm *comm; /* borrowed likewise */
} zr_save_options;

/* Makes the folder if it is not there: ZL_E_RESOURCE if nothing can be written into it. */
ZL_NODISCARD zl_status zr_save_folder(const char *root, zl_err *err);

/* Allocates all memory that saving will need. The caller frees. */
ZL_NODISCARD zl_status zr_save_new(const zr_save_options *options, zr_save **out, zl_err *err);
void zr_save_free(zr_save *save);

/* Collective; every rank returns the same. A checkpoint of the same step is replaced; of the older
 * ones keep - 1 stay. A failure is ZL_E_RESOURCE and leaves nothing new behind. */
ZL_NODISCARD zl_status zr_save_step(zr_save *save, const zr_zero *zero, const zr_position *position,
                                    zl_err *err);

#endif
