/* The flat layout of a unit: which tensors, where each begins, how far the whole is padded.
 *
 *     zr_unit block;
 *     zr_unit_init(&block);
 *     zr_unit_matrix(&block, ZR_QKV_W, width, packed, 0.02);
 *     zr_unit_vector(&block, ZR_QKV_B, packed, 0.0);
 *     zr_unit_close(&block, ZL_BF16, ranks);
 *
 * Parameters, gradients, master weights and optimizer states share the layout at element sizes of
 * their own; it is laid out in the compute type. Rank r owns elements r * shard to (r + 1) * shard.
 */
#ifndef ZR_ZERO_UNIT_H
#define ZR_ZERO_UNIT_H

#include <stdbool.h>
#include <stdint.h>

#include "zeroledger/vocab.h"

/* What a tensor does in its unit; the same words in all families. */
typedef enum zr_role {
    ZR_TOKEN_TABLE,    /* (V, C) */
    ZR_POSITION_TABLE, /* (P, C) */
    ZR_TYPE_TABLE,     /* (Y, C) */
    ZR_NORM_W,         /* the norm of the embedding or of the head */
    ZR_NORM_B,
    ZR_NORM1_W, /* the first norm of a block */
    ZR_NORM1_B,
    ZR_NORM2_W, /* the second */
    ZR_NORM2_B,
    ZR_QKV_W, /* (C, Q) */
    ZR_QKV_B,
    ZR_OUT_W, /* (H D, C) attention output */
    ZR_OUT_B,
    ZR_UP_W, /* (C, F): fc; Llama (C, 2F): gate and up */
    ZR_UP_B,
    ZR_DOWN_W, /* (F, C): proj, down */
    ZR_DOWN_B,
    ZR_TRANSFORM_W, /* (C, C) head of BERT */
    ZR_TRANSFORM_B,
    ZR_OUTPUT_B, /* (V) */
    ZR_OUTPUT_W, /* (V, C), untied */
    ZR_POOLER_W, /* (C, C) */
    ZR_POOLER_B,
    ZR_NEXT_W, /* (2, C) */
    ZR_NEXT_B,
    ZR_ROLE_COUNT
} zr_role;

typedef struct zr_tensor {
    zr_role role;
    bool matrix;  /* normal values at first, decays; else a vector of one value, no decay */
    double start; /* deviation of a matrix, value of a vector */
    uint64_t elements;
    uint64_t offset; /* elements from the unit's begin */
} zr_tensor;

enum { ZR_UNIT_TENSORS = 16 };

typedef struct zr_unit {
    zr_tensor tensor[ZR_UNIT_TENSORS]; /* in packing order */
    uint64_t count;
    uint64_t elements; /* padding included */
    uint64_t shard;    /* elements of one rank */
} zr_unit;

void zr_unit_init(zr_unit *unit);
void zr_unit_matrix(zr_unit *unit, zr_role role, uint64_t rows, uint64_t cols, double deviation);
void zr_unit_vector(zr_unit *unit, zr_role role, uint64_t elements, double value);
/* Places the tensors. Overflow leaves poison in `elements`. */
void zr_unit_close(zr_unit *unit, zl_dtype dtype, uint64_t ranks);

/* Elements up to the end of the last tensor: what does not depend on the number of ranks. */
uint64_t zr_unit_logical(const zr_unit *unit);

/* NULL if the unit has no such tensor. */
const zr_tensor *zr_unit_find(const zr_unit *unit, zr_role role);
/* Where the tensor's stretch ends: the padding behind it included. */
uint64_t zr_unit_stretch_end(const zr_unit *unit, uint64_t index);

#endif
