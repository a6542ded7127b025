/* Attention with stored probabilities. Scores are never stored: they are computed twice, once for
 * the softmax's maximum and sum, once for the probabilities, so that each is rounded once. */
#include "kernel/cuda/attn_tile.cuh"

template <unsigned J>
static __global__ void __launch_bounds__(TILE_THREAD) eager_forward(zr_attn_args a, drop_rule rule)
{
    extern __shared__ float shared[];
    const unsigned d = a.head_dim;
    float *const q = shared;              /* (32, D) */
    float *const kv = q + TILE * d;       /* (32, D + 1) keys, then values */
    float *const p = kv + TILE * (d + 1); /* (32, 32) probabilities as stored */
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
        __syncthreads(); /* the previous keys have been used */
        load_tile(kv, d + 1, a, a.qkv, in_qkv(a, group), keys);
        __syncthreads();
        outer(q, d, kv, d + 1, d, s);
#pragma unroll
        for (unsigned r = 0; r < OWN; r++) {
            const bool shown = visible(a, queries.first + own_row() + r, first + lane_id(), limit);
            const float x = shown ? s[r] * a.scale : -INFINITY;
            const float seen = fmaxf(max[r], warp_max(x));
            const float shift = seen == -INFINITY ? 0.0f : seen;
            sum[r] = sum[r] * expf(max[r] - shift) + warp_sum(expf(x - shift));
            max[r] = seen;
        }
    }
    for (uint32_t first = 0; first < a.tokens; first += TILE) {
        const span keys = make_span(b, first, a.tokens);
        const bool near = meet(a, queries, make_span(b, first, limit));
        float s[OWN] = {0.0f, 0.0f, 0.0f, 0.0f};
        __syncthreads(); /* the previous keys or values have been used */
        if (near) {
            load_tile(kv, d + 1, a, a.qkv, in_qkv(a, group), keys);
            __syncthreads();
            outer(q, d, kv, d + 1, d, s);
            __syncthreads();
            load_tile(kv, d + 1, a, a.qkv, in_qkv(a, group + a.kv_heads), keys);
        }
        const uint32_t key = first + lane_id();
#pragma unroll
        for (unsigned r = 0; r < OWN; r++) {
            const uint32_t query = queries.first + own_row() + r;
            const uint64_t at = square_of(a, b, head, query, key);
            const bool stored = own_row() + r < queries.n && lane_id() < keys.n;
            float x = 0.0f;
            if (visible(a, query, key, limit) && sum[r] != 0.0f) {
                x = rounded(a.dtype, expf(s[r] * a.scale - max[r]) * (1.0f / sum[r]));
            }
            if (stored) {
                store(a.probs, a.dtype, at, x);
            }
            if (a.dropout > 0.0f) {
                x = rounded(a.dtype, x * keep(a, rule, at));
                if (stored) {
                    store(a.dropped, a.dtype, at, x);
                }
            }
            p[(own_row() + r) * TILE + lane_id()] = x;
        }
        __syncthreads();
        if (near) {
            add_product(out, p, kv, d + 1, d);
        }
    }
    store_sums(out, a, a.out, in_out(a, head), queries);
}

static bool eager_ok(const zr_attn_args *a, const zr_stream *stream)
{
    return attn_ok(a, stream) && a->probs != NULL && (a->dropout == 0.0f || a->dropped != NULL);
}

zl_status zr_eager_forward(const zr_attn_args *args, zr_stream *stream)
{
    const zr_attn_args *a = args;
    if (!eager_ok(a, stream) || a->out == NULL) {
        return ZL_E_USAGE;
    }
    const attn_grid grid = {a->heads, 1, 1, 1};
    zl_status status;
    FOR_HEAD_DIM(status, a->head_dim, launch_attn(eager_forward<J>, grid, a, stream));
    return status;
}

/* The owned elements of a stored square at (query own_row() + r, key lane_id()), 0 outside. */
static __device__ __forceinline__ float stored_at(const zr_attn_args &a, const void *x,
                                                  uint32_t head, span queries, span keys,
                                                  unsigned row, unsigned col)
{
    if (row >= queries.n || col >= keys.n) {
        return 0.0f;
    }
    const uint64_t at = square_of(a, queries.b, head, queries.first + row, keys.first + col);
    return load(x, a.dtype, at);
}

/* dP of the stored probabilities of one tile: dout V^T under the same dropout. Loads V into v. */
static __device__ __forceinline__ void prob_gradient(const zr_attn_args &a, drop_rule rule,
                                                     uint32_t head, span queries, span keys,
                                                     const float *dout, float *v, float (&dp)[OWN])
{
    const unsigned d = a.head_dim;
    const uint32_t group = a.heads + head / (a.heads / a.kv_heads);
    __syncthreads(); /* the previous tile has been used */
    load_tile(v, d + 1, a, a.qkv, in_qkv(a, group + a.kv_heads), keys);
    __syncthreads();
    outer(dout, d, v, d + 1, d, dp);
#pragma unroll
    for (unsigned r = 0; r < OWN; r++) {
        dp[r] *= keep(
            a, rule,
            square_of(a, queries.b, head, queries.first + own_row() + r, keys.first + lane_id()));
    }
}

/* Writes dprobs, which holds d scores (times scale) from here on, and collects dQ. */
template <unsigned J>
static __global__ void __launch_bounds__(TILE_THREAD)
    backward_queries(zr_attn_args a, drop_rule rule)
{
    extern __shared__ float shared[];
    const unsigned d = a.head_dim;
    float *const dout = shared;            /* (32, D) */
    float *const kv = dout + TILE * d;     /* (32, D + 1) values, then keys */
    float *const ds = kv + TILE * (d + 1); /* (32, 32) */
    const uint32_t b = blockIdx.z;
    const uint32_t head = blockIdx.y;
    const uint32_t group = a.heads + head / (a.heads / a.kv_heads);
    const span queries = make_span(b, blockIdx.x * TILE, a.tokens);
    float delta[OWN] = {0.0f, 0.0f, 0.0f, 0.0f};
    sums<J> dq;
    clear(dq);
    load_tile(dout, d, a, a.dout, in_out(a, head), queries);
    for (uint32_t first = 0; first < a.tokens; first += TILE) {
        const span keys = make_span(b, first, a.tokens);
        if (!meet(a, queries, keys)) {
            break;
        }
        float dp[OWN];
        prob_gradient(a, rule, head, queries, keys, dout, kv, dp);
#pragma unroll
        for (unsigned r = 0; r < OWN; r++) {
            delta[r] += warp_sum(
                stored_at(a, a.probs, head, queries, keys, own_row() + r, lane_id()) * dp[r]);
        }
    }
    for (uint32_t first = 0; first < a.tokens; first += TILE) {
        const span keys = make_span(b, first, a.tokens);
        if (!meet(a, queries, keys)) {
            break; /* and nobody will read these tiles */
        }
        float dp[OWN];
        prob_gradient(a, rule, head, queries, keys, dout, kv, dp);
#pragma unroll
        for (unsigned r = 0; r < OWN; r++) {
            const unsigned row = own_row() + r;
            const float p = stored_at(a, a.probs, head, queries, keys, row, lane_id());
            const float g = rounded(a.dtype, p * (dp[r] - delta[r]) * a.scale);
            if (row < queries.n && lane_id() < keys.n) {
                const uint64_t at =
                    square_of(a, b, head, queries.first + row, keys.first + lane_id());
                store(a.dprobs, a.dtype, at, g);
            }
            ds[row * TILE + lane_id()] = g;
        }
        __syncthreads(); /* the values have been used */
        load_tile(kv, d + 1, a, a.qkv, in_qkv(a, group), keys);
        __syncthreads();
        add_product(dq, ds, kv, d + 1, d);
    }
    store_sums(dq, a, a.dqkv, in_qkv(a, head), queries);
}

/* s (keys, queries) = a stored square, turned. */
static __device__ __forceinline__ void load_transposed(const zr_attn_args &a, const void *x,
                                                       uint32_t head, span queries, span keys,
                                                       float *s)
{
#pragma unroll
    for (unsigned r = 0; r < OWN; r++) {
        const unsigned row = own_row() + r;
        s[row * TILE + lane_id()] = stored_at(a, x, head, queries, keys, lane_id(), row);
    }
}

/* One tile of keys: sum over the queries of the heads that share it, in order, of a stored square,
 * turned, times rows of x. That is dV of P and dO, and dK of dS and Q. */
template <unsigned J>
static __device__ __forceinline__ void sum_queries(const zr_attn_args &a, const void *square,
                                                   const void *x, bool x_is_qkv, uint32_t target)
{
    extern __shared__ float shared[];
    const unsigned d = a.head_dim;
    float *const rows = shared;             /* (32, D + 1) */
    float *const s = rows + TILE * (d + 1); /* (32, 32) keys, queries */
    const uint32_t b = blockIdx.z;
    const uint32_t kv = blockIdx.y;
    const uint32_t share = a.heads / a.kv_heads;
    const span keys = make_span(b, blockIdx.x * TILE, a.tokens);
    sums<J> sum;
    clear(sum);
    for (uint32_t head = kv * share; head < (kv + 1) * share; head++) {
        for (uint32_t first = 0; first < a.tokens; first += TILE) {
            const span queries = make_span(b, first, a.tokens);
            if (!meet(a, queries, keys)) {
                continue;
            }
            __syncthreads(); /* the previous tiles have been used */
            load_transposed(a, square, head, queries, keys, s);
            load_tile(rows, d + 1, a, x, x_is_qkv ? in_qkv(a, head) : in_out(a, head), queries);
            __syncthreads();
            add_product(sum, s, rows, d + 1, d);
        }
    }
    store_sums(sum, a, a.dqkv, in_qkv(a, target + kv), keys);
}

template <unsigned J>
static __global__ void __launch_bounds__(TILE_THREAD) backward_values(zr_attn_args a, drop_rule)
{
    const void *const used = a.dropout > 0.0f ? a.dropped : a.probs;
    sum_queries<J>(a, used, a.dout, false, a.heads + a.kv_heads);
}

template <unsigned J>
static __global__ void __launch_bounds__(TILE_THREAD) backward_keys(zr_attn_args a, drop_rule)
{
    sum_queries<J>(a, a.dprobs, a.qkv, true, a.heads);
}

zl_status zr_eager_backward_values(const zr_attn_args *args, zr_stream *stream)
{
    const zr_attn_args *a = args;
    if (!eager_ok(a, stream) || a->dout == NULL || a->dqkv == NULL) {
        return ZL_E_USAGE;
    }
    const attn_grid grid = {a->kv_heads, 0, 1, 1};
    zl_status status;
    FOR_HEAD_DIM(status, a->head_dim, launch_attn(backward_values<J>, grid, a, stream));
    return status;
}

zl_status zr_eager_backward_scores(const zr_attn_args *args, zr_stream *stream)
{
    const zr_attn_args *a = args;
    if (!attn_ok(a, stream) || a->probs == NULL || a->dprobs == NULL || a->dout == NULL ||
        a->dqkv == NULL) {
        return ZL_E_USAGE;
    }
    const attn_grid queries = {a->heads, 1, 1, 1};
    const attn_grid keys = {a->kv_heads, 0, 1, 1};
    zl_status status;
    FOR_HEAD_DIM(status, a->head_dim, launch_attn(backward_queries<J>, queries, a, stream));
    ZL_TRY(status);
    FOR_HEAD_DIM(status, a->head_dim, launch_attn(backward_keys<J>, keys, a, stream));
    return status;
}

zl_status zr_eager_backward(const zr_attn_args *args, zr_stream *stream)
{
    if (args->dprobs == NULL) {
        return ZL_E_USAGE; /* before the first half writes */
    }
    ZL_TRY(zr_eager_backward_values(args, stream));
    return zr_eager_backward_scores(args, stream);
}
