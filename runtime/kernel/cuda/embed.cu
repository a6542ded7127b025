/* Embedding: rows of three tables added up; backward collects the rows that met in one of them. */
#include "kernel/cuda/device.cuh"

/* sum += N elements of x from i on. */
template <typename T, unsigned N>
static __device__ __forceinline__ void add_to(pack<N> &sum, const T *x, uint64_t i)
{
    const pack<N> v = load_pack<N>(x, i);
#pragma unroll
    for (unsigned j = 0; j < N; j++) {
        sum.at[j] = add(sum.at[j], v.at[j]);
    }
}

/* A warp a row, U packs of a lane under way at a time. */
#define EMBED_WARPS 8u

template <typename T, unsigned N> static __global__ void embed_forward(zr_embed_args e)
{
    constexpr unsigned U = 4;
    const uint64_t row = (uint64_t)blockIdx.x * EMBED_WARPS + threadIdx.x / WARP;
    if (row >= e.rows) {
        return;
    }
    const uint64_t tok = (uint64_t)e.ids[row] * e.width;
    const uint64_t pos = row % e.tokens * e.width;
    const uint64_t type = e.type != NULL ? (uint64_t)e.types[row] * e.width : 0;
    for (uint64_t first = lane_id() * N; first < e.width; first += U * WARP * N) {
        pack<N> sum[U];
        const auto for_each = [&](auto f) {
#pragma unroll
            for (unsigned u = 0; u < U; u++) {
                const uint64_t col = first + u * WARP * N;
                if (col < e.width) {
                    f(sum[u], col);
                }
            }
        };
        for_each([&](pack<N> &s, uint64_t col) { s = load_pack<N>((const T *)e.tok, tok + col); });
        if (e.pos != NULL) {
            for_each([&](pack<N> &s, uint64_t col) { add_to(s, (const T *)e.pos, pos + col); });
        }
        if (e.type != NULL) {
            for_each([&](pack<N> &s, uint64_t col) { add_to(s, (const T *)e.type, type + col); });
        }
        for_each([&](pack<N> &s, uint64_t col) { store_pack((T *)e.out, row * e.width + col, s); });
    }
}

/*
 * The gradient of a table, in a time linear in the rows and without scratch in device memory. A
 * block has the ids that agree in their lower bits. It marks where they are, a bit a row; then it
 * takes the first marked row, lists all rows of the same id in order, adds them up, and goes on
 * until no mark is left. Nobody else writes these rows of the table.
 */
#define BUCKETS_MAX 2048u /* blocks, each of which reads all ids once */
#define LISTED      256u  /* rows added up at a time */

/* Their marks fit into the shared memory of a block everywhere. */
static const uint32_t marked_rows_max = 80u * 1024 * 8;

/* The sum of the n of the threads before this one, and of all. */
typedef struct position {
    unsigned before;
    unsigned all;
} position;

static __device__ __forceinline__ position count_before(unsigned n)
{
    __shared__ unsigned part[THREADS / WARP];
    unsigned upto = n;
#pragma unroll
    for (unsigned step = 1; step < WARP; step *= 2) {
        const unsigned lower = __shfl_up_sync(0xffffffffu, upto, step);
        upto += lane_id() >= step ? lower : 0;
    }
    if (lane_id() == WARP - 1) {
        part[threadIdx.x / WARP] = upto;
    }
    __syncthreads();
    position p = {upto - n, 0};
#pragma unroll
    for (unsigned warp = 0; warp < THREADS / WARP; warp++) {
        p.before += warp < threadIdx.x / WARP ? part[warp] : 0;
        p.all += part[warp];
    }
    __syncthreads(); /* part may be used again at once */
    return p;
}

static __device__ __forceinline__ void mark(const int32_t *ids, uint32_t rows, uint32_t bucket,
                                            uint32_t mask, uint32_t *marks)
{
#pragma unroll 8
    for (uint32_t first = threadIdx.x / WARP * WARP; first < rows; first += THREADS) {
        const uint32_t row = first + lane_id();
        const bool ours = row < rows && ((uint32_t)ids[row] & mask) == bucket;
        const uint32_t hits = __ballot_sync(0xffffffffu, ours);
        if (lane_id() == 0) {
            marks[first / WARP] = hits;
        }
    }
    __syncthreads();
}

/* The first of all words from `from` on that has a mark, or `words`; known to all threads. */
static __device__ __forceinline__ uint32_t next_word(const uint32_t *marks, uint32_t from,
                                                     uint32_t words)
{
    __shared__ uint32_t next;
    for (; from < words; from += THREADS) {
        const uint32_t at = from + threadIdx.x;
        const bool marked = at < words && marks[at] != 0;
        const position p = count_before(marked ? 1 : 0);
        if (marked && p.before == 0) {
            next = at;
        }
        if (p.all > 0) {
            __syncthreads();
            return next; /* and barriers follow, before it is written again */
        }
    }
    return words;
}

static __device__ __forceinline__ uint32_t first_row(uint32_t word, uint32_t marks)
{
    return word * WARP + (uint32_t)__ffs((int)marks) - 1;
}

/* Those marks of a word that are of rows with this id. */
static __device__ __forceinline__ uint32_t select(const int32_t *ids, int32_t id, uint32_t word,
                                                  uint32_t marks)
{
    uint32_t selected = 0;
    for (uint32_t left = marks; left != 0; left &= left - 1) {
        selected |= ids[first_row(word, left)] == id ? left & (~left + 1) : 0;
    }
    return selected;
}

/* sum += the listed rows of dout in order, U of them under way at a time. */
template <typename T, unsigned N>
static __device__ __forceinline__ void add_listed(pack<N> &sum, const T *dout, uint64_t width,
                                                  const uint32_t *list, unsigned n)
{
    constexpr unsigned U = 32 / N;
    unsigned at = 0;
    for (; at + U <= n; at += U) {
        pack<N> v[U];
#pragma unroll
        for (unsigned u = 0; u < U; u++) {
            v[u] = load_pack<N>(dout, list[at + u] * width);
        }
#pragma unroll
        for (unsigned u = 0; u < U; u++) {
#pragma unroll
            for (unsigned j = 0; j < N; j++) {
                sum.at[j] = add(sum.at[j], v[u].at[j]);
            }
        }
    }
    for (; at < n; at++) {
        add_to(sum, dout, list[at] * width);
    }
}

template <typename T, typename G, unsigned N>
static __global__ void __launch_bounds__(THREADS)
    scatter(zr_embed_args e, const int32_t *ids, void *table, uint32_t mask)
{
    extern __shared__ uint32_t marks[]; /* one word for 32 rows */
    __shared__ uint32_t list[LISTED];
    const uint32_t words = (e.rows + WARP - 1) / WARP;
    const uint64_t width = e.width;
    const uint64_t col = ((uint64_t)blockIdx.y * THREADS + threadIdx.x) * N;
    mark(ids, e.rows, blockIdx.x, mask, marks);
    for (uint32_t from = next_word(marks, 0, words); from < words;
         from = next_word(marks, from, words)) {
        const int32_t id = ids[first_row(from, marks[from])];
        pack<N> sum = {};
        for (uint32_t first = from; first < words; first += THREADS) {
            const uint32_t word = first + threadIdx.x;
            uint32_t same = word < words ? select(ids, id, word, marks[word]) : 0;
            const position p = count_before((unsigned)__popc(same));
            if (same != 0) {
                marks[word] &= ~same;
            }
            unsigned place = p.before;
            for (unsigned begin = 0; begin < p.all; begin += LISTED) {
                for (; same != 0 && place < begin + LISTED; same &= same - 1) {
                    list[place++ - begin] = first_row(word, same);
                }
                __syncthreads();
                if (col < width) {
                    const unsigned left = p.all - begin;
                    add_listed(sum, (const T *)e.dout + col, width, list,
                               left < LISTED ? left : LISTED);
                }
                __syncthreads(); /* the list may be written again */
            }
        }
        if (col < width) {
            const uint64_t at = (uint64_t)id * width + col;
            pack<N> v = load_pack<N>((const G *)table, at);
#pragma unroll
            for (unsigned j = 0; j < N; j++) {
                v.at[j] = add(v.at[j], sum.at[j]);
            }
            store_pack((G *)table, at, v);
        }
    }
}

/* Block t adds the rows t, t + T, ... in order. */
template <typename T, typename G>
static __global__ void scatter_positions(zr_embed_args e, bool wide)
{
    const uint64_t t = blockIdx.x;
    for_packs<4>(e.width, wide, threadIdx.x, blockDim.x, [&](auto n, uint64_t i) {
        pack<n> sum = {};
#pragma unroll 4
        for (uint64_t row = t; row < e.rows; row += e.tokens) {
            add_to(sum, (const T *)e.dout, row * e.width + i);
        }
        pack<n> v = load_pack<n>((const G *)e.pos_grad, t * e.width + i);
#pragma unroll
        for (unsigned j = 0; j < n; j++) {
            v.at[j] = add(v.at[j], sum.at[j]);
        }
        store_pack((G *)e.pos_grad, t * e.width + i, v);
    });
}

static bool embed_ok(const zr_embed_args *e, const zr_stream *stream)
{
    return dtype_ok(e->dtype) && e->tokens > 0 && e->rows % e->tokens == 0 &&
           ((e->pos == NULL && e->pos_grad == NULL) || e->tokens <= e->positions) &&
           ((e->type == NULL && e->type_grad == NULL) || e->types != NULL) && e->ids != NULL &&
           stream != NULL;
}

zl_status zr_embed_forward(const zr_embed_args *args, zr_stream *stream)
{
    if (!embed_ok(args, stream) || args->tok == NULL) {
        return ZL_E_USAGE;
    }
    const bool all_aligned = aligned(args->tok, args->pos, args->type, args->out);
    const launch_shape shape = {dim3((unsigned)blocks_for(args->rows, EMBED_WARPS)),
                                dim3(EMBED_WARPS * WARP), 0};
    return for_type(args->dtype, [&](auto t) {
        using T = decltype(t);
        constexpr unsigned N = 16 / sizeof(T);
        const bool wide = all_aligned && args->width % N == 0;
        return args->rows == 0
                   ? ZL_OK
                   : launch(wide ? embed_forward<T, N> : embed_forward<T, 1>, shape, stream, *args);
    });
}

/* f(t, g) with values of the types of the activations and of the gradients. */
template <typename F> static zl_status for_types(const zr_embed_args *e, F f)
{
    return for_type(e->dtype,
                    [&](auto t) { return for_type(e->gdtype, [&](auto g) { return f(t, g); }); });
}

/* A power of two: as many blocks as there can be ids, within the limit. */
static uint32_t buckets_for(uint32_t rows, uint32_t kinds)
{
    uint32_t n = 1;
    while (n < BUCKETS_MAX && n < rows && n < kinds) {
        n *= 2;
    }
    return n;
}

static zl_status scatter_rows(const zr_embed_args *e, const int32_t *ids, void *table,
                              uint32_t kinds, zr_stream *stream)
{
    if (table == NULL || e->rows == 0 || e->width == 0) {
        return ZL_OK;
    }
    /* With few ids, columns are all there is to share out. */
    const bool wide = e->width % 4 == 0 && kinds > 32 && aligned(e->dout, table);
    const uint32_t buckets = buckets_for(e->rows, kinds);
    const uint64_t strips = blocks_for(e->width, wide ? 4 * THREADS : THREADS);
    const launch_shape shape = {dim3(buckets, (unsigned)strips), dim3(THREADS),
                                blocks_for(e->rows, WARP) * sizeof(uint32_t)};
    return for_types(e, [&](auto t, auto g) {
        using T = decltype(t);
        using G = decltype(g);
        return launch(wide ? scatter<T, G, 4> : scatter<T, G, 1>, shape, stream, *e, ids, table,
                      buckets - 1);
    });
}

zl_status zr_embed_backward(const zr_embed_args *args, zr_stream *stream)
{
    const zr_embed_args *e = args;
    if (!embed_ok(e, stream) || !dtype_ok(e->gdtype) || e->rows > marked_rows_max) {
        return ZL_E_USAGE;
    }
    ZL_TRY(scatter_rows(e, e->ids, e->tok_grad, e->vocab, stream));
    if (e->pos_grad != NULL) {
        const uint32_t used = e->tokens < e->rows ? e->tokens : e->rows;
        const bool wide = e->width % 4 == 0 && aligned(e->dout, e->pos_grad);
        ZL_TRY(for_types(e, [&](auto t, auto g) {
            return launch_rows(scatter_positions<decltype(t), decltype(g)>, used, stream, *e, wide);
        }));
    }
    return scatter_rows(e, e->types, e->type_grad, e->kinds, stream);
}
