/*
 * Tiles of packed attention tensors in fp32, shared by flash.cu and eager.cu. Private.
 *
 * A block of 8 warps works on tiles of 32 tokens of one head, as fp32 in shared memory. Of a tile
 * of scores (32 x 32) a warp owns 4 rows and a lane one column; of a tile of sums (32 x D) a warp
 * owns the same 4 rows and a lane every 32nd column, in registers: J columns for D <= 32 J.
 * So a row of scores never leaves its warp, and every sum has one owner and one order.
 *
 * Tiles that lanes read row by row have D + 1 floats from row to row, against bank conflicts.
 */
#ifndef ZR_KERNEL_CUDA_ATTN_TILE_CUH
#define ZR_KERNEL_CUDA_ATTN_TILE_CUH

#include "kernel/cuda/attn.cuh"

#define TILE        32u
#define TILE_WARPS  8u
#define OWN         (TILE / TILE_WARPS) /* rows of a tile that a warp owns */
#define TILE_THREAD (TILE_WARPS * WARP)

static_assert(ZR_ATTN_HEAD_DIM_MAX <= 256, "the widest instantiation is J = 8");

/* Tokens first..first+n-1 of sequence b. */
typedef struct span {
    uint32_t b;
    uint32_t first;
    uint32_t n;
} span;

static __device__ __forceinline__ span make_span(uint32_t b, uint32_t first, uint32_t limit)
{
    const uint32_t left = first < limit ? limit - first : 0;
    return span{b, first, left < TILE ? left : TILE};
}

/* A key tile is worth visiting for a query tile. The same for all threads of a block. */
static __device__ __forceinline__ bool meet(const zr_attn_args &a, span queries, span keys)
{
    return queries.n > 0 && keys.n > 0 && (!a.causal || keys.first < queries.first + queries.n);
}

/* tile (32, ld) = the span of one head, zero below its end. The caller synchronizes. */
static __device__ void load_tile(float *tile, unsigned ld, const zr_attn_args &a, const void *x,
                                 packed p, span s)
{
    for (unsigned i = threadIdx.x; i < TILE * a.head_dim; i += blockDim.x) {
        const unsigned row = i / a.head_dim;
        const unsigned col = i % a.head_dim;
        float v = 0.0f;
        if (row < s.n) {
            v = load(x, a.dtype, element_of(a, p, s.b, s.first + row) + col);
        }
        tile[row * ld + col] = v;
    }
}

/* The first of the rows that the calling warp owns. */
static __device__ __forceinline__ unsigned own_row(void)
{
    return threadIdx.x / WARP * OWN;
}

/* s[r] = row own_row() + r of x times row lane_id() of y. */
static __device__ __forceinline__ void outer(const float *x, unsigned ldx, const float *y,
                                             unsigned ldy, unsigned head_dim, float (&s)[OWN])
{
    const float *own = x + own_row() * ldx;
    const float *other = y + lane_id() * ldy;
#pragma unroll
    for (unsigned r = 0; r < OWN; r++) {
        s[r] = 0.0f;
    }
    for (unsigned d = 0; d < head_dim; d++) {
        const float v = other[d];
#pragma unroll
        for (unsigned r = 0; r < OWN; r++) {
            s[r] += own[r * ldx + d] * v;
        }
    }
}

/* A (4, D) part of a tile of sums. */
template <unsigned J> struct sums {
    float at[OWN][J];
};

template <unsigned J> static __device__ __forceinline__ void clear(sums<J> &sum)
{
#pragma unroll
    for (unsigned r = 0; r < OWN; r++) {
#pragma unroll
        for (unsigned j = 0; j < J; j++) {
            sum.at[r][j] = 0.0f;
        }
    }
}

template <unsigned J>
static __device__ __forceinline__ void scale_row(sums<J> &sum, unsigned r, float factor)
{
#pragma unroll
    for (unsigned j = 0; j < J; j++) {
        sum.at[r][j] *= factor;
    }
}

/* sum += weight y, where weight (32, 32) holds the owned rows and y is (32, ld). */
template <unsigned J>
static __device__ __forceinline__ void add_product(sums<J> &sum, const float *weight,
                                                   const float *y, unsigned ld, unsigned head_dim)
{
    const float *own = weight + own_row() * TILE;
    for (unsigned k = 0; k < TILE; k++) {
#pragma unroll
        for (unsigned j = 0; j < J; j++) {
            const unsigned col = lane_id() + j * WARP;
            const float v = col < head_dim ? y[k * ld + col] : 0.0f;
#pragma unroll
            for (unsigned r = 0; r < OWN; r++) {
                sum.at[r][j] += own[r * TILE + k] * v;
            }
        }
    }
}

/* Rounds the owned rows that lie in the span into x. */
template <unsigned J>
static __device__ __forceinline__ void store_sums(const sums<J> &sum, const zr_attn_args &a,
                                                  void *x, packed p, span s)
{
#pragma unroll
    for (unsigned r = 0; r < OWN; r++) {
        if (own_row() + r < s.n) {
            const uint64_t at = element_of(a, p, s.b, s.first + own_row() + r);
#pragma unroll
            for (unsigned j = 0; j < J; j++) {
                const unsigned col = lane_id() + j * WARP;
                if (col < a.head_dim) {
                    store(x, a.dtype, at + col, sum.at[r][j]);
                }
            }
        }
    }
}

/* One block for every tile, head and sequence, with `tiles` tiles of D floats a row, `padded` of
 * D + 1, and `squares` of 32 floats a row in shared memory. */
typedef struct attn_grid {
    uint32_t heads;
    unsigned tiles, padded, squares;
} attn_grid;

static inline zl_status launch_attn(void (*kernel)(zr_attn_args, drop_rule), attn_grid g,
                                    const zr_attn_args *a, zr_stream *stream)
{
    if (a->batch == 0 || a->tokens == 0) {
        return ZL_OK;
    }
    const size_t floats =
        (size_t)TILE * (g.tiles * a->head_dim + g.padded * (a->head_dim + 1) + g.squares * TILE);
    const launch_shape shape = {
        dim3((unsigned)blocks_for(a->tokens, TILE), g.heads, a->batch),
        dim3(TILE_THREAD),
        floats * sizeof(float),
    };
    return launch(kernel, shape, stream, *a, make_drop_rule(a->dropout));
}

/* Calls function<J> for the narrowest J that holds D. */
#define FOR_HEAD_DIM(status, head_dim, call)                                                       \
    do {                                                                                           \
        if ((head_dim) <= 2 * WARP) {                                                              \
            constexpr unsigned J = 2;                                                              \
            (status) = (call);                                                                     \
        } else if ((head_dim) <= 4 * WARP) {                                                       \
            constexpr unsigned J = 4;                                                              \
            (status) = (call);                                                                     \
        } else {                                                                                   \
            constexpr unsigned J = 8;                                                              \
            (status) = (call);                                                                     \
        }                                                                                          \
    } while (0)

#endif
