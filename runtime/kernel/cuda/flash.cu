/* Attention without stored probabilities: softmax in one pass over key tiles (Milakov and
 * Gimelshein, arXiv 1805.02867; Dao, arXiv 2307.08691), recomputed in the backward. What tensor
 * cores do not take is done here: fp32 multiply-adds out of shared memory, no atomics. */
#include "kernel/cuda/attn_tile.cuh"
#include "kernel/cuda/flash_mma.h"

template <unsigned J>
static __global__ void __launch_bounds__(TILE_THREAD) flash_forward(zr_attn_args a, drop_rule rule)
{
    extern __shared__ float shared[];
    const unsigned d = a.head_dim;
    float *const q = shared;              /* (32, D) */
    float *const kv = q + TILE * d;       /* (32, D + 1) keys, then values */
    float *const p = kv + TILE * (d + 1); /* (32, 32) weights relative to the maximum so far */
    const uint32_t b = blockIdx.z;
    const uint32_t head = blockIdx.y;
    const uint32_t group = a.heads + head / (a.heads / a.kv_heads);
    const uint32_t limit = key_limit(a, b);
    const span queries = make_span(b, blockIdx.x * TILE, a.tokens);
    float max[OWN];
    float sum[OWN];
    sums<J> out;
    clear(out);
#pragma unroll
    for (unsigned r = 0; r < OWN; r++) {
        max[r] = -INFINITY;
        sum[r] = 0.0f;
    }
    load_tile(q, d, a, a.qkv, in_qkv(a, head), queries);
    for (uint32_t first = 0; first < limit; first += TILE) {
        const span keys = make_span(b, first, limit);
        if (!meet(a, queries, keys)) {
            break;
        }
        float s[OWN];
        __syncthreads(); /* the values of the previous tile have been used */
        load_tile(kv, d + 1, a, a.qkv, in_qkv(a, group), keys);
        __syncthreads();
        outer(q, d, kv, d + 1, d, s);
        __syncthreads();
        load_tile(kv, d + 1, a, a.qkv, in_qkv(a, group + a.kv_heads), keys);
        const uint32_t key = first + lane_id();
#pragma unroll
        for (unsigned r = 0; r < OWN; r++) {
            const uint32_t query = queries.first + own_row() + r;
            const float x = visible(a, query, key, limit) ? s[r] * a.scale : -INFINITY;
            const float seen = fmaxf(max[r], warp_max(x));
            const float shift = seen == -INFINITY ? 0.0f : seen;
            const float past = expf(max[r] - shift);
            const float weight = expf(x - shift);
            sum[r] = sum[r] * past + warp_sum(weight);
            max[r] = seen;
            scale_row(out, r, past);
            p[(own_row() + r) * TILE + lane_id()] =
                weight * keep(a, rule, square_of(a, b, head, query, key));
        }
        __syncthreads();
        add_product(out, p, kv, d + 1, d);
    }
#pragma unroll
    for (unsigned r = 0; r < OWN; r++) {
        const bool blind = sum[r] == 0.0f; /* no key at all */
        scale_row(out, r, blind ? 0.0f : 1.0f / sum[r]);
        if (lane_id() == 0 && own_row() + r < queries.n) {
            a.lse[row_of(a, b, head, queries.first + own_row() + r)] =
                blind ? -INFINITY : max[r] + logf(sum[r]);
        }
    }
    store_sums(out, a, a.out, in_out(a, head), queries);
}

zl_status zr_flash_forward(const zr_attn_args *args, zr_stream *stream)
{
    const zr_attn_args *a = args;
    if (!attn_ok(a, stream) || a->out == NULL || a->lse == NULL) {
        return ZL_E_USAGE;
    }
    if (zr_flash_mma_takes(a)) {
        return zr_flash_mma_forward(a, stream);
    }
    const attn_grid grid = {a->heads, 1, 1, 1};
    zl_status status;
    FOR_HEAD_DIM(status, a->head_dim, launch_attn(flash_forward<J>, grid, a, stream));
    return status;
}

/* delta = sum over D of dout * out, one warp a row: what the softmax subtracts from every dP. */
static __global__ void fill_delta(zr_attn_args a)
{
    const uint64_t rows = (uint64_t)a.batch * a.heads * a.tokens;
    const uint64_t step = element_step() / WARP;
    for (uint64_t row = first_element() / WARP; row < rows; row += step) {
        const uint32_t query = (uint32_t)(row % a.tokens);
        const uint32_t head = (uint32_t)(row / a.tokens % a.heads);
        const uint32_t b = (uint32_t)(row / a.tokens / a.heads);
        const uint64_t at = element_of(a, in_out(a, head), b, query);
        float sum = 0.0f;
        for (unsigned d = lane_id(); d < a.head_dim; d += WARP) {
            sum += load(a.out, a.dtype, at + d) * load(a.dout, a.dtype, at + d);
        }
        sum = warp_sum(sum);
        if (lane_id() == 0) {
            a.delta[row] = sum;
        }
    }
}

/* One element of the backward: the probability as used (dropped), and d of the score. */
typedef struct score_gradient {
    float used;
    float ds;
} score_gradient;

static __device__ __forceinline__ score_gradient differentiate(const zr_attn_args &a,
                                                               drop_rule rule, uint32_t b,
                                                               uint32_t head, uint32_t query,
                                                               uint32_t key, uint32_t limit,
                                                               float s, float dp)
{
    if (query >= a.tokens || !visible(a, query, key, limit)) {
        return score_gradient{0.0f, 0.0f};
    }
    const uint64_t row = row_of(a, b, head, query);
    const float factor = keep(a, rule, row * a.tokens + key);
    const float p = expf(s * a.scale - a.lse[row]);
    return score_gradient{p * factor, p * (dp * factor - a.delta[row]) * a.scale};
}

/* dK and dV of one tile of keys: all queries of all heads that share it, in order. Warps own keys,
 * lanes are queries. */
template <unsigned J>
static __global__ void __launch_bounds__(TILE_THREAD) backward_keys(zr_attn_args a, drop_rule rule)
{
    extern __shared__ float shared[];
    const unsigned d = a.head_dim;
    float *const k = shared;                   /* (32, D) */
    float *const v = k + TILE * d;             /* (32, D) */
    float *const q = v + TILE * d;             /* (32, D + 1) */
    float *const dout = q + TILE * (d + 1);    /* (32, D + 1) */
    float *const used = dout + TILE * (d + 1); /* (32, 32) keys, queries */
    float *const ds = used + TILE * TILE;      /* likewise */
    const uint32_t b = blockIdx.z;
    const uint32_t kv = blockIdx.y;
    const uint32_t share = a.heads / a.kv_heads;
    const uint32_t limit = key_limit(a, b);
    const span keys = make_span(b, blockIdx.x * TILE, a.tokens);
    const span seen = make_span(b, keys.first, limit);
    sums<J> dk;
    sums<J> dv;
    clear(dk);
    clear(dv);
    load_tile(k, d, a, a.qkv, in_qkv(a, a.heads + kv), seen);
    load_tile(v, d, a, a.qkv, in_qkv(a, a.heads + a.kv_heads + kv), seen);
    for (uint32_t head = kv * share; head < (kv + 1) * share; head++) {
        for (uint32_t first = 0; first < a.tokens; first += TILE) {
            const span queries = make_span(b, first, a.tokens);
            if (!meet(a, queries, seen)) {
                continue;
            }
            float s[OWN];
            float dp[OWN];
            __syncthreads(); /* the previous tiles have been used */
            load_tile(q, d + 1, a, a.qkv, in_qkv(a, head), queries);
            load_tile(dout, d + 1, a, a.dout, in_out(a, head), queries);
            __syncthreads();
            outer(k, d, q, d + 1, d, s);
            outer(v, d, dout, d + 1, d, dp);
#pragma unroll
            for (unsigned r = 0; r < OWN; r++) {
                const score_gradient g =
                    differentiate(a, rule, b, head, first + lane_id(), keys.first + own_row() + r,
                                  limit, s[r], dp[r]);
                used[(own_row() + r) * TILE + lane_id()] = g.used;
                ds[(own_row() + r) * TILE + lane_id()] = g.ds;
            }
            __syncwarp();
            add_product(dv, used, dout, d + 1, d);
            add_product(dk, ds, q, d + 1, d);
        }
    }
    store_sums(dk, a, a.dqkv, in_qkv(a, a.heads + kv), keys);
    store_sums(dv, a, a.dqkv, in_qkv(a, a.heads + a.kv_heads + kv), keys);
}

/* dQ of one tile of queries. Warps own queries, lanes are keys. */
template <unsigned J>
static __global__ void __launch_bounds__(TILE_THREAD)
    backward_queries(zr_attn_args a, drop_rule rule)
{
    extern __shared__ float shared[];
    const unsigned d = a.head_dim;
    float *const q = shared;              /* (32, D) */
    float *const dout = q + TILE * d;     /* (32, D) */
    float *const k = dout + TILE * d;     /* (32, D + 1) */
    float *const v = k + TILE * (d + 1);  /* (32, D + 1) */
    float *const ds = v + TILE * (d + 1); /* (32, 32) queries, keys */
    const uint32_t b = blockIdx.z;
    const uint32_t head = blockIdx.y;
    const uint32_t group = a.heads + head / (a.heads / a.kv_heads);
    const uint32_t limit = key_limit(a, b);
    const span queries = make_span(b, blockIdx.x * TILE, a.tokens);
    sums<J> dq;
    clear(dq);
    load_tile(q, d, a, a.qkv, in_qkv(a, head), queries);
    load_tile(dout, d, a, a.dout, in_out(a, head), queries);
    for (uint32_t first = 0; first < limit; first += TILE) {
        const span keys = make_span(b, first, limit);
        if (!meet(a, queries, keys)) {
            break;
        }
        float s[OWN];
        float dp[OWN];
        __syncthreads(); /* the previous tiles have been used */
        load_tile(k, d + 1, a, a.qkv, in_qkv(a, group), keys);
        load_tile(v, d + 1, a, a.qkv, in_qkv(a, group + a.kv_heads), keys);
        __syncthreads();
        outer(q, d, k, d + 1, d, s);
        outer(dout, d, v, d + 1, d, dp);
#pragma unroll
        for (unsigned r = 0; r < OWN; r++) {
            const score_gradient g = differentiate(a, rule, b, head, queries.first + own_row() + r,
                                                   first + lane_id(), limit, s[r], dp[r]);
            ds[(own_row() + r) * TILE + lane_id()] = g.ds;
        }
        __syncwarp();
        add_product(dq, ds, k, d + 1, d);
    }
    store_sums(dq, a, a.dqkv, in_qkv(a, head), queries);
}

zl_status zr_flash_backward(const zr_attn_args *args, zr_stream *stream)
{
    const zr_attn_args *a = args;
    if (!attn_ok(a, stream) || a->out == NULL || a->lse == NULL || a->delta == NULL ||
        a->dout == NULL || a->dqkv == NULL) {
        return ZL_E_USAGE;
    }
    if (zr_flash_mma_takes(a)) {
        return zr_flash_mma_backward(a, stream);
    }
    const uint64_t rows = (uint64_t)a->batch * a->heads * a->tokens;
    const attn_grid keys = {a->kv_heads, 2, 2, 2};
    const attn_grid queries = {a->heads, 2, 2, 1};
    zl_status status;
    ZL_TRY(launch_elements(fill_delta, rows * WARP, stream, *a));
    FOR_HEAD_DIM(status, a->head_dim, launch_attn(backward_keys<J>, keys, a, stream));
    ZL_TRY(status);
    FOR_HEAD_DIM(status, a->head_dim, launch_attn(backward_queries<J>, queries, a, stream));
    return status;
}
