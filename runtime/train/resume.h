/* A checkpoint to go on from: found, refused if it is not of this training, and loaded.
 *
 * The number of ranks and the stage may be others than those that wrote it; so may everything that
 * has no share in the stored elements. Model, precision, optimizer and seed may not.
 *
 *     zr_resume *resume;
 *     ZL_TRY(zr_resume_open("ckpt", &(zr_resume_want){.run = &run, .seed = 1}, &resume, err));
 *     const zr_position at = *zr_resume_position(resume);
 *     ZL_TRY(zr_resume_load(resume, &zero, err));            // collective
 *     zr_resume_free(resume);
 *
 * Whatever is wrong with the files is ZL_E_INPUT, with file and reason; then nothing was loaded.
 */
#ifndef ZR_RESUME_H
#define ZR_RESUME_H

#include <stdint.h>

#include "train/manifest.h"
#include "zero/zero.h"
#include "zeroledger/error.h"
#include "zeroledger/run.h"

typedef struct zr_resume zr_resume;

typedef struct zr_resume_want {
    const zl_run *run;
    uint64_t seed;
} zr_resume_want;

/* path: a step's folder, or the folder of all checkpoints, then `latest` tells the step. Reads
 * manifest.json and run.json, and sees that every file is there in its size. The caller frees. */
ZL_NODISCARD zl_status zr_resume_open(const char *path, const zr_resume_want *want, zr_resume **out,
                                      zl_err *err);
void zr_resume_free(zr_resume *resume);

const zr_position *zr_resume_position(const zr_resume *resume);

/* Checks every file, the ranks in turn, then reads what this rank owns into parameters and states,
 * which exist. Collective; every rank returns the same. */
ZL_NODISCARD zl_status zr_resume_load(zr_resume *resume, zr_zero *zero, zl_err *err);

#endif
