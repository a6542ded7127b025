/* One rank's file of a checkpoint: its 1/N of every unit, in a form that no stage decides.
 *
 *     head      64 bytes, zr_shard_head
 *     rows      24 bytes for each unit, zr_shard_row
 *     elements  for each unit: weights, then each optimizer state, `shard` elements of each
 *     checksum   8 bytes, of everything before it
 *
 * Numbers are little-endian, elements lie as in memory. All sizes are multiples of 8.
 *
 *     ZL_TRY(zr_shard_write(path, &args, piece, &bytes, &checksum, err));
 *     ZL_TRY(zr_shard_check(path, &args, piece, checksum, err));
 *     ZL_TRY(zr_shard_read(path, &args, piece, err));
 */
#ifndef ZR_SHARD_FILE_H
#define ZR_SHARD_FILE_H

#include <stdint.h>

#include "zero/zero.h"
#include "zeroledger/error.h"

enum { ZR_SHARD_VERSION = 1, ZR_SHARD_PIECE = 1 << 16 };

/* What moves between memory and file at a time. The caller's, so that nothing is allocated here. */
typedef struct zr_piece {
    unsigned char byte[ZR_SHARD_PIECE];
} zr_piece;

typedef struct zr_shard_head {
    unsigned char magic[8];
    uint32_t version;
    uint32_t parts;       /* weights and states of each unit */
    uint32_t weight_type; /* 1 fp32, 2 bf16, 3 fp16 */
    uint32_t state_type;
    uint64_t rank;
    uint64_t ranks;
    uint64_t step;
    uint64_t units;
    uint64_t bytes; /* of the file */
} zr_shard_head;

typedef struct zr_shard_row {
    uint32_t kind; /* 0 embedding, 1 block, 2 head */
    uint32_t unused;
    uint64_t logical; /* elements of the unit without the padding behind its last tensor */
    uint64_t shard;   /* elements in this file */
} zr_shard_row;

/* Which file: of rank `rank` of `ranks`, which may be other than this job's. */
typedef struct zr_shard_args {
    const zr_zero *zero;
    uint64_t rank;
    uint64_t ranks;
    uint64_t step;
} zr_shard_args;

/* The file of this rank, on the disk when this returns. A failure is ZL_E_RESOURCE. */
ZL_NODISCARD zl_status zr_shard_write(const char *path, const zr_shard_args *args, zr_piece *piece,
                                      uint64_t *bytes, uint64_t *checksum, zl_err *err);

/* Reads the whole file: ZL_E_INPUT unless it is complete, undamaged, and of this model. */
ZL_NODISCARD zl_status zr_shard_check(const char *path, const zr_shard_args *args, zr_piece *piece,
                                      uint64_t checksum, zl_err *err);

/* Of a file that has been checked, the elements that this rank owns, into their places. Does not
 * open a file that has none of them. */
ZL_NODISCARD zl_status zr_shard_read(const char *path, const zr_shard_args *args, zr_piece *piece,
                                     zl_err *err);

#define ZR_CHECKSUM_START 0x243f6a8885a308d3U /* digits of pi */

/* Continues a checksum. Different 8-byte words never give the same one, so damage within a word is
 * always seen; the last word is filled up with zeros. */
uint64_t zr_checksum(uint64_t sum, const void *bytes, uint64_t count);

#endif
