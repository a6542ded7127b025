/* Cross-entropy, one block a row of logits, the gradient written over them. */
#include "kernel/cuda/device.cuh"

#define LOSS_THREADS 1024u

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

/* for_packs over one row, which starts anywhere: what lies before a multiple of 16 bytes comes one
 * by one, too. */
template <unsigned N, typename T, typename F>
static __device__ __forceinline__ void for_row(const T *row, uint32_t count, F f)
{
    const unsigned skip = (unsigned)((16 - (uintptr_t)row % 16) % 16 / sizeof(T));
    const unsigned head = skip < count ? skip : count;
    for (unsigned i = threadIdx.x; i < head; i += blockDim.x) {
        f(pack_size<1>{}, i);
    }
    for_packs<N>(count - head, true, threadIdx.x, blockDim.x,
                 [&](auto n, uint64_t i) { f(n, head + i); });
}

/* logits = (exp(logit - max) * norm - [target]) * scale, or 0 for an ignored row. */
template <typename T>
static __device__ __forceinline__ void write_gradient(const zr_loss_args &a, T *logits,
                                                      int32_t target, float max, float norm)
{
    for_row<8>(logits, a.vocab, [&](auto n, uint64_t i) {
        pack<n> v;
        if (target >= 0) {
            v = load_pack<n>(logits, i);
#pragma unroll
            for (unsigned j = 0; j < n; j++) {
                const float p = __expf(v.at[j] - max) * norm;
                v.at[j] = (i + j == (uint64_t)target ? p - 1.0f : p) * a.scale;
            }
        } else {
#pragma unroll
            for (unsigned j = 0; j < n; j++) {
                v.at[j] = 0.0f;
            }
        }
        store_pack(logits, i, v);
    });
}

template <typename T>
static __global__ void __launch_bounds__(LOSS_THREADS) cross_entropy(zr_loss_args a)
{
    const uint64_t row = blockIdx.x;
    const int32_t target = a.targets[row];
    T *const logits = (T *)a.logits + row * a.ld;
    float max = 0.0f;
    float sum = 1.0f;
    float loss = 0.0f;
    if (target >= 0) { /* the same for the whole block */
        exp_sum own = {-INFINITY, 0.0f};
        for_row<8>(logits, a.vocab,
                   [&](auto n, uint64_t i) { include(own, load_pack<n>(logits, i)); });
        const float picked = to_float(logits[target]);
        max = block_max(own.max);
        sum = block_sum(own.sum * __expf(own.max - shift_of(max)));
        loss = logf(sum) + (max - picked); /* everyone has read before anyone writes */
    }
    if (threadIdx.x == 0) {
        a.loss[row] = loss;
    }
    if (a.gradient) {
        write_gradient(a, logits, target, max, 1.0f / sum);
    }
}

zl_status zr_cross_entropy(const zr_loss_args *args, zr_stream *stream)
{
    const zr_loss_args *a = args;
    if (a->vocab == 0 || a->ld < a->vocab || a->rows > INT32_MAX || stream == NULL) {
        return ZL_E_USAGE;
    }
    return for_type(a->dtype, [&](auto t) {
        const launch_shape shape = {dim3(a->rows), dim3(LOSS_THREADS), 0};
        return a->rows == 0 ? ZL_OK : launch(cross_entropy<decltype(t)>, shape, stream, *a);
    });
}
