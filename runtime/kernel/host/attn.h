/*
 * Tiles of packed attention tensors and the sums over them, shared by flash.c and eager.c. Private.
 *
 * A tile is ZR_ATTN_TILE rows (tokens of one sequence) of one head. Score tiles are square with
 * ZR_ATTN_TILE floats from row to row, whatever the number of rows and columns in use.
 */
#ifndef ZR_KERNEL_HOST_ATTN_H
#define ZR_KERNEL_HOST_ATTN_H

#include "kernel/host/host.h"

#define ZR_ATTN_TILE   64
#define ZR_ATTN_SCORES (ZR_ATTN_TILE * ZR_ATTN_TILE)
#define ZR_ATTN_ROWS   (ZR_ATTN_TILE * ZR_ATTN_HEAD_DIM_MAX)

/* Tokens first..first+n-1 of a sequence; n <= ZR_ATTN_TILE. */
typedef struct zr_span {
    uint32_t first;
    uint32_t n;
} zr_span;

/* rows x head_dim floats, ld from row to row. */
typedef struct zr_rows {
    const float *data;
    int ld;
} zr_rows;

/* Shapes and pointers common to all four functions. */
bool zr_attn_ok(const zr_attn_args *a);

/* Keys that any query of sequence b may see. */
uint32_t zr_attn_keys(const zr_attn_args *a, uint32_t b);

/* The tile that starts at `first` of `limit` tokens; n is 0 at and after the limit. */
zr_span zr_attn_span(uint32_t first, uint32_t limit);

/* Keys of the tile `keys` that query number `query` of the sequence sees: the first so many. */
uint32_t zr_attn_visible(const zr_attn_args *a, uint32_t query, zr_span keys);

/* A key tile is worth visiting for a query tile. */
bool zr_attn_meet(const zr_attn_args *a, zr_span queries, zr_span keys);

/* Head number `head` of the packed rows: 0..H-1 queries, H..H+G-1 keys, then values. */
zr_rows zr_attn_load(float *buf, const zr_attn_args *a, uint32_t b, uint32_t head, zr_span span);
/* Head `head` of out or dout (R, H D). */
zr_rows zr_attn_load_out(float *buf, const zr_attn_args *a, const void *out, uint32_t b,
                         uint32_t head, zr_span span);

/* Rounds a tile of head_dim floats a row into the packed gradient, or into out. */
void zr_attn_store(const zr_attn_args *a, uint32_t b, uint32_t head, zr_span span,
                   const float *rows);
void zr_attn_store_out(const zr_attn_args *a, uint32_t b, uint32_t head, zr_span span,
                       const float *rows);

/* s (queries, keys) = factor * x y^T. */
void zr_attn_outer(const zr_attn_args *a, float factor, zr_rows x, uint32_t nx, zr_rows y,
                   uint32_t ny, float *s);
/* sum (nx, D) += s y, s (nx, ny);  sum (ny, D) += s^T x, s (nx, ny). */
void zr_attn_add(const zr_attn_args *a, const float *s, uint32_t nx, zr_rows y, uint32_t ny,
                 float *sum);
void zr_attn_add_transposed(const zr_attn_args *a, const float *s, uint32_t nx, zr_rows x,
                            uint32_t ny, float *sum);

/* The key head that query head `head` reads; its value head is kv_heads further. */
static inline uint32_t zr_attn_key_head(const zr_attn_args *a, uint32_t head)
{
    return a->heads + (uint32_t)((uint64_t)head * a->kv_heads / a->heads);
}

/* Element of (B, H, T) and of (B, H, T, T) where a row of them starts. */
uint64_t zr_attn_row(const zr_attn_args *a, uint32_t b, uint32_t head, uint32_t query);
uint64_t zr_attn_square(const zr_attn_args *a, uint32_t b, uint32_t head, uint32_t query);

/* x[0..n) *= 0 or 1/(1-p); nothing if dropout is 0. `element` is the place in (B, H, T, T). */
void zr_attn_drop(const zr_attn_args *a, float *x, uint32_t n, uint64_t element);

/* One row of a score tile becomes -infinity from `visible` on. */
static inline void zr_attn_hide(float *restrict row, uint32_t visible)
{
    for (uint32_t c = visible; c < ZR_ATTN_TILE; c++) {
        row[c] = zr_host_float(0xff800000U);
    }
}

static inline float zr_attn_row_max(const float *restrict row)
{
    float lane[16];
    memcpy(lane, row, sizeof lane);
    for (uint32_t c = 16; c < ZR_ATTN_TILE; c += 16) {
        for (uint32_t k = 0; k < 16; k++) {
            lane[k] = row[c + k] > lane[k] ? row[c + k] : lane[k];
        }
    }
    float best = lane[0];
    for (uint32_t k = 1; k < 16; k++) {
        best = lane[k] > best ? lane[k] : best;
    }
    return best;
}

/* row = exp(row - shift) over the whole tile width. */
static inline void zr_attn_row_exp(float *restrict row, float shift)
{
    for (uint32_t c = 0; c < ZR_ATTN_TILE; c++) {
        row[c] = zr_host_exp(row[c] - shift);
    }
}

#endif
