/* Reductions of a whole range. Every block adds a part of it in fp64; a last block adds the parts.
 * The number of blocks depends on the count alone, so the order of additions does too. */
#include "kernel/cuda/device.cuh"

/* A thread adds packs of 4, whether they can be read at once or not: the order is the same. */
template <typename T>
static __device__ __forceinline__ pack<4> load_four(const T *x, uint64_t i, bool wide)
{
    if (wide) {
        return load_pack<4>(x, i);
    }
    return pack<4>{{to_float(x[i]), to_float(x[i + 1]), to_float(x[i + 2]), to_float(x[i + 3])}};
}

template <typename T>
static __global__ void add_parts(const T *x, uint64_t count, bool wide, bool squares, double *parts)
{
    double sum = 0.0;
#pragma unroll 4
    for (uint64_t p = first_element(); p < count / 4; p += element_step()) {
        const pack<4> v = load_four(x, 4 * p, wide);
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            sum += squares ? (double)v.at[j] * (double)v.at[j] : (double)v.at[j];
        }
    }
    const uint64_t rest = count / 4 * 4 + first_element();
    if (rest < count) {
        const double v = (double)to_float(x[rest]);
        sum += squares ? v * v : v;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
    }
}

static __global__ void add_up(const double *parts, unsigned n, double *out)
{
    double sum = 0.0;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        sum += parts[i];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        *out = sum;
    }
}

static zl_status add_range(const void *x, uint64_t count, zl_dtype dtype, bool squares, double *out,
                           zr_stream *stream)
{
    if (!dtype_ok(dtype) || stream == NULL) {
        return ZL_E_USAGE;
    }
    const uint64_t wanted = blocks_for(count, 4 * THREADS);
    const unsigned blocks = (unsigned)(wanted < ZR_CUDA_SUM_BLOCKS ? wanted : ZR_CUDA_SUM_BLOCKS);
    if (blocks > 0) {
        const launch_shape parts = {dim3(blocks), dim3(THREADS), 0};
        ZL_TRY(for_type(dtype, [&](auto t) {
            using T = decltype(t);
            return launch(add_parts<T>, parts, stream, (const T *)x, count, aligned(x), squares,
                          stream->sums);
        }));
    }
    return launch_rows(add_up, 1, stream, (const double *)stream->sums, blocks, out);
}

zl_status zr_sumsq(const void *x, uint64_t count, zl_dtype dtype, double *out, zr_stream *stream)
{
    return add_range(x, count, dtype, true, out, stream);
}

zl_status zr_sum(const void *x, uint64_t count, zl_dtype dtype, double *out, zr_stream *stream)
{
    return add_range(x, count, dtype, false, out, stream);
}

/* Whoever finds one writes the same 1. */
template <typename T>
static __global__ void find_nonfinite(const T *x, uint64_t count, bool wide, uint32_t *flag)
{
    bool found = false;
    for_packs<8>(count, wide, [&](auto n, uint64_t i) {
        const pack<n> v = load_pack<n>(x, i);
#pragma unroll
        for (unsigned j = 0; j < n; j++) {
            found = found || !isfinite(v.at[j]);
        }
    });
    if (found) {
        *flag = 1;
    }
}

zl_status zr_nonfinite(const void *x, uint64_t count, zl_dtype dtype, uint32_t *flag,
                       zr_stream *stream)
{
    if (stream == NULL) {
        return ZL_E_USAGE;
    }
    return for_type(dtype, [&](auto t) {
        using T = decltype(t);
        return launch_packs<8>(find_nonfinite<T>, count, stream, (const T *)x, count, aligned(x),
                               flag);
    });
}
