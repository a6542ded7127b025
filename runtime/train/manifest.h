/* manifest.json of a checkpoint, "zeroledger.checkpoint/1": where the training stood, and the files
 * that belong together. It is written last and protects itself with a checksum, so a checkpoint
 * with a good manifest is complete.
 *
 *     zr_manifest manifest;
 *     ZL_TRY(zr_manifest_load(path, &manifest, err));
 *     ... manifest.file[r].bytes ...
 *     zr_manifest_release(&manifest);
 */
#ifndef ZR_MANIFEST_H
#define ZR_MANIFEST_H

#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/run.h"

/* Where a training stands between two optimizer steps. */
typedef struct zr_position {
    uint64_t step;     /* optimizer steps done */
    uint64_t updates;  /* of them not skipped: what Adam's bias correction counts */
    uint64_t micro;    /* micro-steps done: they number the dropout masks */
    uint64_t windows;  /* sequences taken from the data, by all ranks together */
    double loss_scale; /* 1 but for fp16-mixed */
    uint64_t good;     /* steps since the loss scale changed */
} zr_position;

typedef struct zr_manifest_file {
    uint64_t bytes;
    uint64_t checksum;
} zr_manifest_file;

typedef struct zr_manifest {
    char run[ZL_RUN_ID_SIZE]; /* of run.json beside it */
    uint64_t seed;
    zr_position position;
    uint64_t ranks;
    zr_manifest_file *file; /* (ranks) */
} zr_manifest;

/* More ranks than that are no manifest. */
enum { ZR_MANIFEST_RANKS = 1 << 20, ZR_MANIFEST_NAME = 64 };

/* "rank-0002-of-0004.zlckpt". */
void zr_manifest_name(uint64_t rank, uint64_t ranks, char name[ZR_MANIFEST_NAME]);

ZL_NODISCARD zl_status zr_manifest_save(const zr_manifest *manifest, const char *path, zl_err *err);
/* ZL_E_INPUT naming path and reason, unless it is what zr_manifest_save wrote. The caller releases.
 */
ZL_NODISCARD zl_status zr_manifest_load(const char *path, zr_manifest *out, zl_err *err);
void zr_manifest_release(zr_manifest *manifest);

#endif
