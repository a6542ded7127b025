/* Cross-entropy, one block a row of logits, the gradient written over them. A row is read twice; of
 * the first time, what fits stays in shared memory. */
#include "kernel/cuda/device.cuh"

#define LOSS_THREADS 1024u
#define LOSS_BLOCKS  2u /* of a multiprocessor */
#define LOSS_PACK    8u /* elements */

/* A sum of exponentials relative to their maximum. */
typedef struct exp_sum {
    float max;
    float sum;
} exp_sum;

/* What exponents are relative to: not -infinity, before any finite logit has been seen. */
static __device__ __forceinline__ float shift_of(float max)
{
    return max == -INFINITY ? 0.0f : max;
}

/* A NaN does not become the maximum, but spoils the sum. */
template <unsigned N> static __device__ __forceinline__ void include(exp_sum &s, const pack<N> &v)
{
    float max = s.max;
#pragma unroll
    for (unsigned j = 0; j < N; j++) {
        max = fmaxf(max, v.at[j]);
    }
    const float shift = shift_of(max);
    float sum = s.sum * __expf(s.max - shift);
#pragma unroll
    for (unsigned j = 0; j < N; j++) {
        sum += __expf(v.at[j] - shift);
    }
    s = exp_sum{max, sum};
}

/* A row, which starts anywhere. Its packs begin `head` elements later, at a multiple of 16 bytes;
 * elements up to `end` are kept from the first reading for the second, by the thread that reads
 * them again. */
template <typename T> struct loss_row {
    T *logits;
    T *kept; /* from `head` on, in shared memory */
    uint32_t count;
    unsigned head;
    uint64_t end;
};

template <typename T>
static __device__ __forceinline__ loss_row<T> make_row(const zr_loss_args &a, uint32_t kept_packs,
                                                       T *kept)
{
    T *const logits = (T *)a.logits + (uint64_t)blockIdx.x * a.ld;
    const unsigned skip = (unsigned)((16 - (uintptr_t)logits % 16) % 16 / sizeof(T));
    const unsigned head = skip < a.vocab ? skip : a.vocab;
    return loss_row<T>{logits, kept, a.vocab, head, head + (uint64_t)kept_packs * LOSS_PACK};
}

/* for_packs over a row; what lies before its packs comes one by one, too. */
template <typename T, typename F>
static __device__ __forceinline__ void for_row(const loss_row<T> &row, F f)
{
    for (unsigned i = threadIdx.x; i < row.head; i += blockDim.x) {
        f(pack_size<1>{}, i);
    }
    for_packs<LOSS_PACK>(row.count - row.head, true, threadIdx.x, blockDim.x,
                         [&](auto n, uint64_t i) { f(n, row.head + i); });
}

template <unsigned N, typename T>
static __device__ __forceinline__ pack<N> read_first(const loss_row<T> &row, uint64_t i)
{
    const raw_pack<T, N> raw = load_raw<N>(row.logits, i);
    if (N == LOSS_PACK && i < row.end) {
        store_raw(row.kept, i - row.head, raw);
    }
    return widened(raw);
}

template <unsigned N, typename T>
static __device__ __forceinline__ pack<N> read_again(const loss_row<T> &row, uint64_t i)
{
    return N == LOSS_PACK && i < row.end ? load_pack<N>(row.kept, i - row.head)
                                         : load_pack<N>(row.logits, i);
}

/* logits = (exp(logit - max) * norm - [target]) * scale, or 0 for an ignored row. */
template <typename T>
static __device__ __forceinline__ void write_gradient(const loss_row<T> &row, int32_t target,
                                                      float max, float norm, float scale)
{
    for_row(row, [&](auto n, uint64_t i) {
        pack<n> v;
        if (target >= 0) {
            v = read_again<n>(row, i);
#pragma unroll
            for (unsigned j = 0; j < n; j++) {
                const float p = __expf(v.at[j] - max) * norm;
                v.at[j] = (i + j == (uint64_t)target ? p - 1.0f : p) * scale;
            }
        } else {
#pragma unroll
            for (unsigned j = 0; j < n; j++) {
                v.at[j] = 0.0f;
            }
        }
        store_pack(row.logits, i, v);
    });
}

template <typename T>
static __global__ void __launch_bounds__(LOSS_THREADS, LOSS_BLOCKS)
    cross_entropy(zr_loss_args a, uint32_t kept_packs)
{
    extern __shared__ uint4 kept[];
    const loss_row<T> row = make_row(a, kept_packs, (T *)kept);
    const int32_t target = a.targets[blockIdx.x];
    float max = 0.0f;
    float sum = 1.0f;
    float loss = 0.0f;
    if (target >= 0) { /* the same for the whole block */
        exp_sum own = {-INFINITY, 0.0f};
        for_row(row, [&](auto n, uint64_t i) { include(own, read_first<n>(row, i)); });
        const float picked = to_float(row.logits[target]);
        max = block_max(own.max);
        sum = block_sum(own.sum * __expf(own.max - shift_of(max)));
        loss = logf(sum) + (max - picked); /* everyone has read before anyone writes */
    }
    if (threadIdx.x == 0) {
        a.loss[blockIdx.x] = loss;
    }
    if (a.gradient) {
        write_gradient(row, target, max, 1.0f / sum, a.scale);
    }
}

/* Bytes of a row that a block may keep beside the others of its multiprocessor. */
static zl_status most_kept(uint32_t *bytes)
{
    const int other = 2048; /* what the system and the sums of a block need */
    int device = 0;
    int all = 0;
    ZL_TRY(cuda_status(cudaGetDevice(&device)));
    ZL_TRY(cuda_status(
        cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device)));
    const int share = all / (int)LOSS_BLOCKS - other;
    *bytes = share > 0 ? (uint32_t)share : 0;
    return ZL_OK;
}

zl_status zr_cross_entropy(const zr_loss_args *args, zr_stream *stream)
{
    const zr_loss_args *a = args;
    if (a->vocab == 0 || a->ld < a->vocab || a->rows > INT32_MAX || stream == NULL) {
        return ZL_E_USAGE;
    }
    uint32_t most = 0;
    if (a->gradient) {
        ZL_TRY(most_kept(&most));
    }
    return for_type(a->dtype, [&](auto t) {
        using T = decltype(t);
        const uint32_t pack_bytes = LOSS_PACK * sizeof(T);
        const uint32_t packs = a->vocab / LOSS_PACK;
        const uint32_t kept = packs < most / pack_bytes ? packs : most / pack_bytes;
        const launch_shape shape = {dim3(a->rows), dim3(LOSS_THREADS), (size_t)kept * pack_bytes};
        return a->rows == 0 ? ZL_OK : launch(cross_entropy<T>, shape, stream, *a, kept);
    });
}
