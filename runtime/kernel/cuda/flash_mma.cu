/*
 * Attention without stored probabilities on tensor cores (Dao, arXiv 2307.08691), 16-bit types.
 * Every sum has one owner and one order: no atomics.
 *
 * A block of 4 warps owns a tile of tokens of one head, a warp 16 M rows of it; the tokens that it
 * meets arrive in stages of 64, the next stage while this one is multiplied. Forward and dQ own
 * queries and meet keys. dK and dV own keys and meet the queries of all heads that share them, and
 * compute the scores turned, so that again a row belongs to one warp. Rows narrower than D, and
 * those beyond the end of the sequence, are filled up with zeros, which add nothing.
 */
#include "kernel/cuda/flash_mma.h"

#include <type_traits>

#include "kernel/cuda/attn.cuh"
#include "kernel/cuda/mma.cuh"

#define WARPS     4u
#define THREADS_4 (WARPS * WARP)
#define STAGE     64u /* tokens that arrive together */
#define STEP      32u /* of those, multiplied together in the backward */

static constexpr float log2_e = 1.442695041f;

/* 16-row blocks of a warp. More of them use a right fragment more often and need more registers. */
static constexpr unsigned forward_blocks = 2;
template <unsigned D> static constexpr unsigned backward_blocks = D == 64 ? 2 : 1;

/* Blocks of the generator under way at a time: one waits for its multiplications. */
static constexpr unsigned draws = 4;

/* The fragment's row and columns of the calling lane: row, row + 8; col, col + 1. */
static __device__ __forceinline__ unsigned lane_row(void)
{
    return lane_id() / 4;
}

static __device__ __forceinline__ unsigned lane_col(void)
{
    return lane_id() % 4 * 2;
}

static __device__ __forceinline__ unsigned warp_id(void)
{
    return threadIdx.x / WARP;
}

/* ------------------------------------------------------------------------------- products */

/* Block m of a left fragment whose rows lie in a tile from `rows` on, columns 16 k ... */
template <unsigned D>
static __device__ __forceinline__ fragment load_left(uint32_t rows, unsigned m, unsigned k)
{
    return load_matrices(rows + place<D>(16 * m + lane_id() % 16, 2 * k + lane_id() / 16));
}

/* s = left right^T over D columns; the rows of right lie in a tile. left(m, k) gives a fragment. */
template <typename T, unsigned D, unsigned M, unsigned N, typename L>
static __device__ __forceinline__ void outer(sum16x8 (&s)[M][N], L left, uint32_t right)
{
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
#pragma unroll
        for (unsigned n = 0; n < N; n++) {
            s[m][n] = sum16x8{{0.0f, 0.0f, 0.0f, 0.0f}};
        }
    }
#pragma unroll
    for (unsigned k = 0; k < D / 16; k++) {
        fragment x[M];
#pragma unroll
        for (unsigned m = 0; m < M; m++) {
            x[m] = left(m, k);
        }
#pragma unroll
        for (unsigned n = 0; n < N; n += 2) {
            const unsigned row = 8 * n + lane_id() % 8 + lane_id() / 16 * 8;
            const fragment y = load_matrices(right + place<D>(row, 2 * k + lane_id() / 8 % 2));
#pragma unroll
            for (unsigned m = 0; m < M; m++) {
                multiply_add<T>(s[m][n], x[m], y.at[0], y.at[1]);
                multiply_add<T>(s[m][n + 1], x[m], y.at[2], y.at[3]);
            }
        }
    }
}

/* Rounded sums as left fragments: 8 N columns are N / 2 of them. */
template <typename T, unsigned M, unsigned N>
static __device__ __forceinline__ void round_to_left(fragment (&x)[M][N / 2],
                                                     const sum16x8 (&s)[M][N])
{
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
#pragma unroll
        for (unsigned k = 0; k < N / 2; k++) {
            const sum16x8 &a = s[m][2 * k];
            const sum16x8 &b = s[m][2 * k + 1];
            x[m][k].at[0] = pair_of<T>(a.at[0], a.at[1]);
            x[m][k].at[1] = pair_of<T>(a.at[2], a.at[3]);
            x[m][k].at[2] = pair_of<T>(b.at[0], b.at[1]);
            x[m][k].at[3] = pair_of<T>(b.at[2], b.at[3]);
        }
    }
}

/* sum += left right, the rows of right (16 K, D) lie in a tile. */
template <typename T, unsigned D, unsigned M, unsigned K>
static __device__ __forceinline__ void add_product(sum16x8 (&sum)[M][D / 8],
                                                   const fragment (&left)[M][K], uint32_t right)
{
#pragma unroll
    for (unsigned k = 0; k < K; k++) {
#pragma unroll
        for (unsigned n = 0; n < D / 8; n += 2) {
            const fragment y =
                load_matrices_turned(right + place<D>(16 * k + lane_id() % 16, n + lane_id() / 16));
#pragma unroll
            for (unsigned m = 0; m < M; m++) {
                multiply_add<T>(sum[m][n], left[m][k], y.at[0], y.at[1]);
                multiply_add<T>(sum[m][n + 1], left[m][k], y.at[2], y.at[3]);
            }
        }
    }
}

template <unsigned M, unsigned N> static __device__ __forceinline__ void clear(sum16x8 (&sum)[M][N])
{
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
#pragma unroll
        for (unsigned n = 0; n < N; n++) {
            sum[m][n] = sum16x8{{0.0f, 0.0f, 0.0f, 0.0f}};
        }
    }
}

/* ---------------------------------------------------------------------------------- tiles */

/* n rows of one head in memory, `stride` elements apart, the first at `first`. */
template <typename T> struct head_rows {
    T *first;
    uint64_t stride;
    unsigned n;
};

template <typename T>
static __device__ __forceinline__ head_rows<T> rows_of(const zr_attn_args &a, T *x, packed p,
                                                       uint32_t b, uint32_t first, uint32_t limit)
{
    return head_rows<T>{x + element_of(a, p, b, first), (uint64_t)p.heads * a.head_dim,
                        first < limit ? limit - first : 0};
}

/* Starts to fill a tile of ROWS rows, with zeros beyond n and the head's width. */
template <unsigned D, unsigned ROWS, typename T>
static __device__ __forceinline__ void fetch_tile(uint32_t tile, head_rows<T> x, unsigned width)
{
#pragma unroll
    for (unsigned i = 0; i < ROWS * (D / CHUNK) / THREADS_4; i++) {
        const unsigned at = i * THREADS_4 + threadIdx.x;
        const unsigned row = at / (D / CHUNK);
        const unsigned chunk = at % (D / CHUNK);
        const bool wanted = row < x.n && chunk * CHUNK < width;
        copy_async16(tile + place<D>(row, chunk),
                     wanted ? x.first + row * x.stride + chunk * CHUNK : x.first, wanted);
    }
}

/* Stores 16 M rows of sums, row r times factor[r / 16][r / 8 % 2], by way of rows of a tile that
 * nobody else uses. */
template <typename T, unsigned D, unsigned M>
static __device__ __forceinline__ void store_rows(const sum16x8 (&sum)[M][D / 8],
                                                  const float (&factor)[M][2], uint32_t tile,
                                                  head_rows<T> x, unsigned width)
{
    __syncwarp(); /* all lanes have read what the tile held */
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
#pragma unroll
        for (unsigned n = 0; n < D / 8; n++) {
            const uint32_t to = tile + place<D>(16 * m + lane_row(), n) + lane_col() * 2;
            const uint32_t below = tile + place<D>(16 * m + 8 + lane_row(), n) + lane_col() * 2;
            const sum16x8 &s = sum[m][n];
            store_shared(to, pair_of<T>(s.at[0] * factor[m][0], s.at[1] * factor[m][0]));
            store_shared(below, pair_of<T>(s.at[2] * factor[m][1], s.at[3] * factor[m][1]));
        }
    }
    __syncwarp();
#pragma unroll
    for (unsigned i = 0; i < 16 * M * (D / CHUNK) / WARP; i++) {
        const unsigned at = i * WARP + lane_id();
        const unsigned row = at / (D / CHUNK);
        const unsigned chunk = at % (D / CHUNK);
        if (row < x.n && chunk * CHUNK < width) {
            *(uint4 *)(x.first + row * x.stride + chunk * CHUNK) =
                load_shared16(tile + place<D>(row, chunk));
        }
    }
}

/* -------------------------------------------------------------------------------- dropout */

/* One of four: bits of `word` that are kept. */
static __device__ __forceinline__ uint32_t kept_bits(random_block words, drop_rule rule)
{
    uint32_t bits = 0;
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        bits |= (words.word[i] < rule.threshold ? 0u : 1u) << i;
    }
    return bits;
}

/* Four elements that lie in one block of the generator have to be drawn but once. */
static __device__ __forceinline__ bool blocks_align(const zr_attn_args &a)
{
    return a.tokens % 4 == 0 && a.rng.offset % 4 == 0;
}

/* Of N sums side by side whose rows are queries and whose columns are keys: bit 4 n + i, element i
 * of sum n is kept. `row` is the place of the lane's row, first key, in (B, H, T, T). Two
 * neighbours draw for one another: the even one for its row, the odd one 8 rows below. */
template <unsigned N>
static __device__ uint32_t keep_in_rows(const zr_attn_args &a, drop_rule rule, uint64_t row)
{
    const uint64_t below = row + 8 * (uint64_t)a.tokens;
    uint32_t bits = 0;
    if (!blocks_align(a)) {
#pragma unroll 1
        for (unsigned n = 0; n < N; n++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                const uint64_t at = (i < 2 ? row : below) + 8 * n + lane_col() + i % 2;
                bits |= (random_word(a.rng, at) < rule.threshold ? 0u : 1u) << (4 * n + i);
            }
        }
        return bits;
    }
    const bool odd = lane_id() % 2 != 0;
    const uint64_t mine = a.rng.offset + (odd ? below : row) + lane_col() / 4 * 4;
#pragma unroll(draws)
    for (unsigned n = 0; n < N; n++) {
        const random_block words = random_words(a.rng.seed, a.rng.stream, mine / 4 + 2 * n);
        bits |= kept_bits(words, rule) << (4 * n);
    }
    const uint32_t other = __shfl_xor_sync(0xffffffffu, bits, 1);
    const uint32_t upper = 0xccccccccu; /* the two columns of the odd lane, the row below */
    return odd ? (other & upper) >> 2 | (bits & upper) : (bits & ~upper) | (other & ~upper) << 2;
}

/* The same of M x N sums whose rows are keys and whose columns are queries, bit 4 (m N + n) + i.
 * `first` is the place of the sums' first query and key. Four lanes of one column and neighbouring
 * keys draw for one another: each one of the four elements that a lane has in a sum. */
template <unsigned M, unsigned N>
static __device__ uint32_t keep_in_columns(const zr_attn_args &a, drop_rule rule, uint64_t first)
{
    uint32_t bits = 0;
    if (!blocks_align(a)) {
#pragma unroll 1
        for (unsigned sum = 0; sum < M * N; sum++) {
            const uint64_t query = sum % N * 8 + lane_col();
            const uint64_t key = sum / N * 16 + lane_row();
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                const uint64_t at = first + (query + i % 2) * a.tokens + key + i / 2 * 8;
                bits |= (random_word(a.rng, at) < rule.threshold ? 0u : 1u) << (4 * sum + i);
            }
        }
        return bits;
    }
    const unsigned own = lane_row() % 4; /* the element that this lane draws for all four */
#pragma unroll(draws)
    for (unsigned sum = 0; sum < M * N; sum++) {
        const uint64_t query = sum % N * 8 + lane_col() + own % 2;
        const uint64_t key = sum / N * 16 + own / 2 * 8 + lane_row() / 4 * 4;
        const uint64_t at = a.rng.offset + first + query * a.tokens + key;
        bits |= kept_bits(random_words(a.rng.seed, a.rng.stream, at / 4), rule) << (4 * sum);
    }
    uint32_t mine = 0;
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        const uint32_t drawn = __shfl_sync(0xffffffffu, bits, (lane_id() & ~12u) | i << 2);
        mine |= (drawn >> own & 0x11111111u) << i;
    }
    return mine;
}

static __device__ __forceinline__ bool is_kept(uint32_t bits, unsigned sum, unsigned i)
{
    return (bits >> (4 * sum + i) & 1u) != 0;
}

/* -------------------------------------------------------------------------------- forward */

static __device__ __forceinline__ float quad_max(float v)
{
    v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
    return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}

static __device__ __forceinline__ float quad_sum(float v)
{
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

/* Running maximum of the scores, and sum of the weights in the lane's columns, of its rows. */
template <unsigned M> struct online {
    float max[M][2];
    float sum[M][2];
};

/* Scores at and after the first hidden key of their row become -infinity. */
template <unsigned M, unsigned N>
static __device__ __forceinline__ void hide(sum16x8 (&s)[M][N], bool causal, uint32_t query,
                                            uint32_t key, uint32_t limit)
{
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
#pragma unroll
        for (unsigned h = 0; h < 2; h++) {
            const uint32_t seen = query + 16 * m + 8 * h + 1;
            const uint32_t end = causal && seen < limit ? seen : limit;
#pragma unroll
            for (unsigned n = 0; n < N; n++) {
#pragma unroll
                for (unsigned e = 0; e < 2; e++) {
                    if (key + 8 * n + e >= end) {
                        s[m][n].at[2 * h + e] = -INFINITY;
                    }
                }
            }
        }
    }
}

/* Scores become weights relative to the new maximum; the past is scaled to it. */
template <unsigned M, unsigned N, unsigned W>
static __device__ __forceinline__ void weigh(sum16x8 (&s)[M][N], online<M> &o, sum16x8 (&out)[M][W],
                                             float factor)
{
    float past[M][2];
    bool changed = false;
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
#pragma unroll
        for (unsigned h = 0; h < 2; h++) {
            float max = o.max[m][h];
#pragma unroll
            for (unsigned n = 0; n < N; n++) {
                max = fmaxf(max, fmaxf(s[m][n].at[2 * h], s[m][n].at[2 * h + 1]));
            }
            max = quad_max(max);
            past[m][h] = exp2_fast((o.max[m][h] - max) * factor);
            changed = changed || max != o.max[m][h];
            o.max[m][h] = max;
            const float shift = max * factor;
            float sum = 0.0f;
#pragma unroll
            for (unsigned n = 0; n < N; n++) {
#pragma unroll
                for (unsigned e = 0; e < 2; e++) {
                    float &x = s[m][n].at[2 * h + e];
                    x = exp2_fast(fmaf(x, factor, -shift));
                    sum += x;
                }
            }
            o.sum[m][h] = fmaf(o.sum[m][h], past[m][h], sum);
        }
    }
    if (!__any_sync(0xffffffffu, changed)) {
        return; /* all factors are 1 */
    }
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
#pragma unroll
        for (unsigned n = 0; n < W; n++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                out[m][n].at[i] *= past[m][i / 2];
            }
        }
    }
}

template <unsigned M, unsigned N>
static __device__ __forceinline__ void drop_rows(sum16x8 (&s)[M][N], const zr_attn_args &a,
                                                 drop_rule rule, uint64_t row)
{
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
        const uint32_t bits = keep_in_rows<N>(a, rule, row + (uint64_t)16 * m * a.tokens);
#pragma unroll
        for (unsigned n = 0; n < N; n++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                s[m][n].at[i] = is_kept(bits, n, i) ? s[m][n].at[i] : 0.0f;
            }
        }
    }
}

/* Long rows of a causal triangle start first. */
static __device__ __forceinline__ uint32_t query_tile(const zr_attn_args &a)
{
    return a.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
}

/* Stages of keys that queries first..first+n-1 meet. */
static __device__ __forceinline__ uint32_t key_stages(const zr_attn_args &a, uint32_t first,
                                                      unsigned n, uint32_t limit)
{
    const uint32_t end = a.causal && first + n < limit ? first + n : limit;
    return (end + STAGE - 1) / STAGE;
}

/* Keys and values of a stage, of query head `head`. */
template <typename T, unsigned D>
static __device__ __forceinline__ void fetch_keys(uint32_t tile, const zr_attn_args &a, uint32_t b,
                                                  uint32_t head, uint32_t first, uint32_t limit)
{
    const uint32_t key_head = a.heads + head / (a.heads / a.kv_heads);
    const T *const qkv = (const T *)a.qkv;
    fetch_tile<D, STAGE>(tile, rows_of(a, qkv, in_qkv(a, key_head), b, first, limit), a.head_dim);
    fetch_tile<D, STAGE>(tile + STAGE * D * 2,
                         rows_of(a, qkv, in_qkv(a, key_head + a.kv_heads), b, first, limit),
                         a.head_dim);
}

template <typename T, unsigned D, bool DROP>
static __global__ void __launch_bounds__(THREADS_4) forward(zr_attn_args a, drop_rule rule)
{
    constexpr unsigned M = forward_blocks;
    constexpr unsigned queries = WARPS * 16 * M;
    constexpr bool held = D == 64; /* Q stays in registers */
    extern __shared__ uint4 shared[];
    const uint32_t q = shared_address(shared);   /* (queries, D) */
    const uint32_t stages = q + queries * D * 2; /* 2 x (keys (64, D), values (64, D)) */
    const uint32_t own = q + warp_id() * 16 * M * D * 2;
    const uint32_t b = blockIdx.z;
    const uint32_t head = blockIdx.y;
    const uint32_t limit = key_limit(a, b);
    const uint32_t first = query_tile(a) * queries;
    const uint32_t own_first = first + warp_id() * 16 * M;
    const uint32_t count = key_stages(a, first, queries, limit);
    const float scale = a.scale * log2_e;
    online<M> o;
    sum16x8 out[M][D / 8];
    fragment held_q[held ? M : 1][held ? D / 16 : 1];
    clear(out);
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
#pragma unroll
        for (unsigned h = 0; h < 2; h++) {
            o.max[m][h] = -INFINITY;
            o.sum[m][h] = 0.0f;
        }
    }
    if (count > 0) {
        fetch_tile<D, queries>(q, rows_of(a, (const T *)a.qkv, in_qkv(a, head), b, first, a.tokens),
                               a.head_dim);
        fetch_keys<T, D>(stages, a, b, head, 0, limit);
        await_copies();
        __syncthreads();
    }
    if constexpr (held) {
#pragma unroll
        for (unsigned m = 0; m < M; m++) {
#pragma unroll
            for (unsigned k = 0; k < D / 16; k++) {
                held_q[m][k] = load_left<D>(own, m, k);
            }
        }
    }
    const auto left = [&](unsigned m, unsigned k) {
        if constexpr (held) {
            return held_q[m][k];
        } else {
            return load_left<D>(own, m, k);
        }
    };
    for (uint32_t stage = 0; stage < count; stage++) {
        const uint32_t keys = stages + stage % 2 * (STAGE * D * 4);
        const uint32_t key = stage * STAGE;
        await_copies();
        __syncthreads(); /* this stage is here, and everyone is done with the one before */
        if (stage + 1 < count) {
            fetch_keys<T, D>(stages + (stage + 1) % 2 * (STAGE * D * 4), a, b, head, key + STAGE,
                             limit);
        }
        if (a.causal && key >= own_first + 16 * M) {
            continue;
        }
        sum16x8 s[M][STAGE / 8];
        outer<T, D>(s, left, keys);
        if (key + STAGE > limit || (a.causal && key + STAGE > own_first + 1)) {
            hide(s, a.causal, own_first + lane_row(), key + lane_col(), limit);
        }
        weigh(s, o, out, scale);
        if constexpr (DROP) {
            drop_rows(s, a, rule, square_of(a, b, head, own_first + lane_row(), key));
        }
        fragment p[M][STAGE / 16];
        round_to_left<T>(p, s);
        add_product<T, D>(out, p, keys + STAGE * D * 2);
    }
    float norm[M][2];
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
#pragma unroll
        for (unsigned h = 0; h < 2; h++) {
            const float sum = quad_sum(o.sum[m][h]);
            const bool blind = sum == 0.0f; /* no key at all */
            const uint32_t query = own_first + 16 * m + 8 * h + lane_row();
            norm[m][h] = blind ? 0.0f : (DROP ? rule.kept : 1.0f) / sum;
            if (lane_col() == 0 && query < a.tokens) {
                a.lse[row_of(a, b, head, query)] =
                    blind ? -INFINITY : o.max[m][h] * a.scale + logf(sum);
            }
        }
    }
    store_rows<T, D>(out, norm, own,
                     rows_of(a, (T *)a.out, in_out(a, head), b, own_first, a.tokens), a.head_dim);
}

/* ------------------------------------------------------------------------------- backward */

/* delta = sum over D of dout * out: what the softmax subtracts from every dP. 16 lanes a row. */
template <typename T> static __global__ void fill_delta(zr_attn_args a)
{
    const uint64_t rows = (uint64_t)a.batch * a.tokens * a.heads;
    const unsigned lane = threadIdx.x % 16;
    const unsigned col = lane * CHUNK;
    for (uint64_t row = first_element() / 16; row < rows; row += element_step() / 16) {
        float sum = 0.0f;
        if (col < a.head_dim) {
            const pack<CHUNK> x = load_pack<CHUNK>((const T *)a.out, row * a.head_dim + col);
            const pack<CHUNK> y = load_pack<CHUNK>((const T *)a.dout, row * a.head_dim + col);
#pragma unroll
            for (unsigned i = 0; i < CHUNK; i++) {
                sum += x.at[i] * y.at[i];
            }
        }
#pragma unroll
        for (unsigned step = 8; step > 0; step /= 2) { /* the other half may be done */
            sum += __shfl_xor_sync(0xffffu << lane_id() / 16 * 16, sum, step);
        }
        if (lane == 0) {
            const uint64_t token = row / a.heads;
            const uint32_t head = (uint32_t)(row % a.heads);
            a.delta[row_of(a, (uint32_t)(token / a.tokens), head, (uint32_t)(token % a.tokens))] =
                sum;
        }
    }
}

/* What the four products of a step need of one score s and dp, the gradient of its probability:
 * p as it was used, without 1/(1-p), and the gradient of the score, without the scale. */
static __device__ __forceinline__ void
differentiate(float &s, float &dp, float shifted, float delta, bool seen, bool kept, float factor)
{
    const float p = seen ? exp2_fast(shifted) : 0.0f;
    dp = p * ((kept ? dp * factor : 0.0f) - delta);
    s = kept ? p : 0.0f;
}

/* Queries and d out of a stage, lse and delta of them. */
template <typename T, unsigned D>
static __device__ __forceinline__ void fetch_queries(uint32_t tile, uint32_t stats,
                                                     const zr_attn_args &a, uint32_t b,
                                                     uint32_t head, uint32_t first)
{
    fetch_tile<D, STAGE>(tile, rows_of(a, (const T *)a.qkv, in_qkv(a, head), b, first, a.tokens),
                         a.head_dim);
    fetch_tile<D, STAGE>(tile + STAGE * D * 2,
                         rows_of(a, (const T *)a.dout, in_out(a, head), b, first, a.tokens),
                         a.head_dim);
    const unsigned i = threadIdx.x % STAGE;
    const float *const from = threadIdx.x < STAGE ? a.lse : a.delta;
    const bool wanted = first + i < a.tokens;
    copy_async4(stats + threadIdx.x * (unsigned)sizeof(float),
                from + row_of(a, b, head, wanted ? first + i : first), wanted);
}

static_assert(THREADS_4 == 2 * STAGE, "a thread for each lse and each delta of a stage");

/* dK and dV of one tile of keys: all queries of all heads that share it, in order. */
template <typename T, unsigned D, bool DROP>
static __global__ void __launch_bounds__(THREADS_4) backward_keys(zr_attn_args a, drop_rule rule)
{
    constexpr unsigned M = backward_blocks<D>;
    constexpr unsigned N = STEP / 8;
    constexpr unsigned keys = WARPS * 16 * M;
    constexpr unsigned stage_bytes = 2 * STAGE * D * 2 + 2 * STAGE * (unsigned)sizeof(float);
    extern __shared__ uint4 shared[];
    const uint32_t k = shared_address(shared); /* (keys, D) */
    const uint32_t v = k + keys * D * 2;       /* (keys, D) */
    const uint32_t stages = v + keys * D * 2;  /* 2 x (Q (64, D), dO (64, D), lse, delta (64)) */
    const uint32_t own_k = k + warp_id() * 16 * M * D * 2;
    const uint32_t own_v = v + warp_id() * 16 * M * D * 2;
    const uint32_t b = blockIdx.z;
    const uint32_t kv = blockIdx.y;
    const uint32_t share = a.heads / a.kv_heads;
    const uint32_t limit = key_limit(a, b);
    const uint32_t first = blockIdx.x * keys;
    const uint32_t own_first = first + warp_id() * 16 * M;
    const uint32_t begin = a.causal ? first / STAGE : 0; /* the first stage that sees a key */
    const uint32_t each = (a.tokens + STAGE - 1) / STAGE - begin; /* stages of one head */
    const uint32_t count = first < limit ? each * share : 0;
    const float scale = a.scale * log2_e;
    sum16x8 dk[M][D / 8];
    sum16x8 dv[M][D / 8];
    clear(dk);
    clear(dv);
    if (count > 0) {
        const T *const qkv = (const T *)a.qkv;
        const packed key_head = in_qkv(a, a.heads + kv);
        const packed value_head = in_qkv(a, a.heads + a.kv_heads + kv);
        fetch_tile<D, keys>(k, rows_of(a, qkv, key_head, b, first, limit), a.head_dim);
        fetch_tile<D, keys>(v, rows_of(a, qkv, value_head, b, first, limit), a.head_dim);
        fetch_queries<T, D>(stages, stages + 2 * STAGE * D * 2, a, b, kv * share, begin * STAGE);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t head = kv * share + i / each;
        const uint32_t stage_first = (begin + i % each) * STAGE;
        const uint32_t tile = stages + i % 2 * stage_bytes;
        await_copies();
        __syncthreads(); /* this stage is here, and everyone is done with the one before */
        if (i + 1 < count) {
            const uint32_t next = stages + (i + 1) % 2 * stage_bytes;
            fetch_queries<T, D>(next, next + 2 * STAGE * D * 2, a, b, kv * share + (i + 1) / each,
                                (begin + (i + 1) % each) * STAGE);
        }
#pragma unroll 1
        for (unsigned at = 0; at < STAGE; at += STEP) {
            const uint32_t query = stage_first + at;
            if (query >= a.tokens || (a.causal && query + STEP <= own_first)) {
                continue; /* nobody there, or nobody who sees these keys */
            }
            const uint32_t q = tile + at * D * 2;
            const uint32_t dout = q + STAGE * D * 2;
            const uint32_t stats =
                tile + 2 * STAGE * D * 2 + (at + lane_col()) * (unsigned)sizeof(float);
            const bool whole = !a.causal || query + 1 >= own_first + 16 * M;
            sum16x8 s[M][N];
            sum16x8 dp[M][N];
            outer<T, D>(
                s, [&](unsigned m, unsigned j) { return load_left<D>(own_k, m, j); }, q);
            outer<T, D>(
                dp, [&](unsigned m, unsigned j) { return load_left<D>(own_v, m, j); }, dout);
            uint32_t bits = 0xffffffffu;
            if constexpr (DROP) {
                bits = keep_in_columns<M, N>(a, rule, square_of(a, b, head, query, own_first));
            }
#pragma unroll
            for (unsigned n = 0; n < N; n++) {
                const float2 lse = load_shared_pair(stats + 8 * n * (unsigned)sizeof(float));
                const float2 delta =
                    load_shared_pair(stats + (STAGE + 8 * n) * (unsigned)sizeof(float));
#pragma unroll
                for (unsigned m = 0; m < M; m++) {
#pragma unroll
                    for (unsigned e = 0; e < 4; e++) {
                        const float row_lse = e % 2 == 0 ? lse.x : lse.y;
                        const float row_delta = e % 2 == 0 ? delta.x : delta.y;
                        const uint32_t key = own_first + 16 * m + e / 2 * 8 + lane_row();
                        const bool seen = whole || key <= query + 8 * n + lane_col() + e % 2;
                        differentiate(s[m][n].at[e], dp[m][n].at[e],
                                      fmaf(s[m][n].at[e], scale, -row_lse * log2_e), row_delta,
                                      seen, !DROP || is_kept(bits, m * N + n, e),
                                      DROP ? rule.kept : 1.0f);
                    }
                }
            }
            fragment left[M][N / 2];
            round_to_left<T>(left, s);
            add_product<T, D>(dv, left, dout);
            round_to_left<T>(left, dp);
            add_product<T, D>(dk, left, q);
        }
    }
    float dk_factor[M][2];
    float dv_factor[M][2];
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
#pragma unroll
        for (unsigned h = 0; h < 2; h++) {
            const bool seen = own_first + 16 * m + 8 * h + lane_row() < limit;
            dk_factor[m][h] = a.scale;
            dv_factor[m][h] = DROP ? rule.kept : 1.0f;
            if (!seen) {
#pragma unroll
                for (unsigned n = 0; n < D / 8; n++) {
                    dk[m][n].at[2 * h] = 0.0f;
                    dk[m][n].at[2 * h + 1] = 0.0f;
                    dv[m][n].at[2 * h] = 0.0f;
                    dv[m][n].at[2 * h + 1] = 0.0f;
                }
            }
        }
    }
    T *const dqkv = (T *)a.dqkv;
    store_rows<T, D>(dk, dk_factor, own_k,
                     rows_of(a, dqkv, in_qkv(a, a.heads + kv), b, own_first, a.tokens), a.head_dim);
    store_rows<T, D>(dv, dv_factor, own_v,
                     rows_of(a, dqkv, in_qkv(a, a.heads + a.kv_heads + kv), b, own_first, a.tokens),
                     a.head_dim);
}

/* dQ of one tile of queries. */
template <typename T, unsigned D, bool DROP>
static __global__ void __launch_bounds__(THREADS_4) backward_queries(zr_attn_args a, drop_rule rule)
{
    constexpr unsigned M = backward_blocks<D>;
    constexpr unsigned N = STEP / 8;
    constexpr unsigned queries = WARPS * 16 * M;
    extern __shared__ uint4 shared[];
    const uint32_t q = shared_address(shared);      /* (queries, D) */
    const uint32_t dout = q + queries * D * 2;      /* (queries, D) */
    const uint32_t stages = dout + queries * D * 2; /* 2 x (keys (64, D), values (64, D)) */
    const uint32_t own_q = q + warp_id() * 16 * M * D * 2;
    const uint32_t own_dout = dout + warp_id() * 16 * M * D * 2;
    const uint32_t b = blockIdx.z;
    const uint32_t head = blockIdx.y;
    const uint32_t limit = key_limit(a, b);
    const uint32_t first = query_tile(a) * queries;
    const uint32_t own_first = first + warp_id() * 16 * M;
    const uint32_t count = key_stages(a, first, queries, limit);
    const float scale = a.scale * log2_e;
    float lse[M][2];
    float delta[M][2];
    sum16x8 dq[M][D / 8];
    clear(dq);
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
#pragma unroll
        for (unsigned h = 0; h < 2; h++) {
            const uint32_t query = own_first + 16 * m + 8 * h + lane_row();
            const bool there = query < a.tokens;
            lse[m][h] = there ? a.lse[row_of(a, b, head, query)] * log2_e : 0.0f;
            delta[m][h] = there ? a.delta[row_of(a, b, head, query)] : 0.0f;
        }
    }
    if (count > 0) {
        fetch_tile<D, queries>(q, rows_of(a, (const T *)a.qkv, in_qkv(a, head), b, first, a.tokens),
                               a.head_dim);
        fetch_tile<D, queries>(
            dout, rows_of(a, (const T *)a.dout, in_out(a, head), b, first, a.tokens), a.head_dim);
        fetch_keys<T, D>(stages, a, b, head, 0, limit);
    }
    for (uint32_t stage = 0; stage < count; stage++) {
        const uint32_t tile = stages + stage % 2 * (STAGE * D * 4);
        await_copies();
        __syncthreads(); /* this stage is here, and everyone is done with the one before */
        if (stage + 1 < count) {
            fetch_keys<T, D>(stages + (stage + 1) % 2 * (STAGE * D * 4), a, b, head,
                             (stage + 1) * STAGE, limit);
        }
#pragma unroll 1
        for (unsigned at = 0; at < STAGE; at += STEP) {
            const uint32_t key = stage * STAGE + at;
            if (key >= limit || (a.causal && key >= own_first + 16 * M)) {
                break; /* nothing that these queries see */
            }
            const uint32_t k = tile + at * D * 2;
            const uint32_t v = k + STAGE * D * 2;
            const bool whole = key + STEP <= limit && (!a.causal || key + STEP <= own_first + 1);
            sum16x8 s[M][N];
            sum16x8 dp[M][N];
            outer<T, D>(
                s, [&](unsigned m, unsigned j) { return load_left<D>(own_q, m, j); }, k);
            outer<T, D>(
                dp, [&](unsigned m, unsigned j) { return load_left<D>(own_dout, m, j); }, v);
#pragma unroll
            for (unsigned m = 0; m < M; m++) {
                const uint32_t query = own_first + 16 * m + lane_row();
                uint32_t bits = 0xffffffffu;
                if constexpr (DROP) {
                    bits = keep_in_rows<N>(a, rule, square_of(a, b, head, query, key));
                }
#pragma unroll
                for (unsigned n = 0; n < N; n++) {
#pragma unroll
                    for (unsigned e = 0; e < 4; e++) {
                        const bool seen = whole || visible(a, query + e / 2 * 8,
                                                           key + 8 * n + lane_col() + e % 2, limit);
                        differentiate(s[m][n].at[e], dp[m][n].at[e],
                                      fmaf(s[m][n].at[e], scale, -lse[m][e / 2]), delta[m][e / 2],
                                      seen, !DROP || is_kept(bits, n, e), DROP ? rule.kept : 1.0f);
                    }
                }
            }
            fragment left[M][N / 2];
            round_to_left<T>(left, dp);
            add_product<T, D>(dq, left, k);
        }
    }
    float factors[M][2];
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
        factors[m][0] = a.scale;
        factors[m][1] = a.scale;
    }
    store_rows<T, D>(dq, factors, own_q,
                     rows_of(a, (T *)a.dqkv, in_qkv(a, head), b, own_first, a.tokens), a.head_dim);
}

/* -------------------------------------------------------------------------------- launches */

bool zr_flash_mma_takes(const zr_attn_args *args)
{
    const zr_attn_args *a = args;
    return (a->dtype == ZL_BF16 || a->dtype == ZL_F16) && a->head_dim % CHUNK == 0 &&
           a->scale > 0.0f && aligned(a->qkv, a->out, a->dout, a->dqkv);
}

/* f(element, width of a tile, dropout?) with values whose types say it. */
template <typename T, typename F> static zl_status for_width(const zr_attn_args *a, F f)
{
    const std::integral_constant<unsigned, 64> narrow;
    const std::integral_constant<unsigned, 128> wide;
    const std::true_type drop;
    const std::false_type whole;
    if (a->head_dim <= narrow) {
        return a->dropout > 0.0f ? f(T{}, narrow, drop) : f(T{}, narrow, whole);
    }
    return a->dropout > 0.0f ? f(T{}, wide, drop) : f(T{}, wide, whole);
}

template <typename F> static zl_status for_kind(const zr_attn_args *a, F f)
{
    return a->dtype == ZL_BF16 ? for_width<__nv_bfloat16>(a, f) : for_width<__half>(a, f);
}

/* `tokens` of a tile, `tiles` of `rows` rows in all in shared memory. */
static zl_status launch_tiles(void (*kernel)(zr_attn_args, drop_rule), unsigned tokens,
                              uint32_t heads, size_t shared, const zr_attn_args *a,
                              zr_stream *stream)
{
    const uint32_t limit = 65535; /* of gridDim.y and gridDim.z */
    if (a->batch == 0 || a->tokens == 0) {
        return ZL_OK;
    }
    if (a->batch > limit || heads > limit) {
        return ZL_E_USAGE;
    }
    const launch_shape shape = {dim3((unsigned)blocks_for(a->tokens, tokens), heads, a->batch),
                                dim3(THREADS_4), shared};
    return launch(kernel, shape, stream, *a, make_drop_rule(a->dropout));
}

zl_status zr_flash_mma_forward(const zr_attn_args *args, zr_stream *stream)
{
    return for_kind(args, [&](auto element, auto width, auto drop) {
        constexpr unsigned D = decltype(width)::value;
        constexpr unsigned queries = WARPS * 16 * forward_blocks;
        return launch_tiles(forward<decltype(element), D, decltype(drop)::value>, queries,
                            args->heads, (queries + 4 * STAGE) * D * 2, args, stream);
    });
}

zl_status zr_flash_mma_backward(const zr_attn_args *args, zr_stream *stream)
{
    const uint64_t rows = (uint64_t)args->batch * args->tokens * args->heads;
    return for_kind(args, [&](auto element, auto width, auto drop) {
        using T = decltype(element);
        constexpr unsigned D = decltype(width)::value;
        constexpr bool DROP = decltype(drop)::value;
        constexpr unsigned tokens = WARPS * 16 * backward_blocks<D>;
        const size_t tiles = (2 * tokens + 4 * STAGE) * D * 2;
        ZL_TRY(launch_elements(fill_delta<T>, rows * 16, stream, *args));
        ZL_TRY(launch_tiles(backward_keys<T, D, DROP>, tokens, args->kv_heads,
                            tiles + 4 * STAGE * sizeof(float), args, stream));
        return launch_tiles(backward_queries<T, D, DROP>, tokens, args->heads, tiles, args, stream);
    });
}
