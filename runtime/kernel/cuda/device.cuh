/*
 * What the device kernels share: stored types as fp32, sums in a fixed order, launches. Private to
 * runtime/kernel/cuda.
 *
 *     static __global__ void square(void *x, zl_dtype dtype, uint64_t count)
 *     {
 *         for (uint64_t i = first_element(); i < count; i += element_step()) {
 *             const float v = load(x, dtype, i);
 *             store(x, dtype, i, v * v);
 *         }
 *     }
 *     return launch_elements(square, count, stream, x, dtype, count);
 *
 * A storage type is the same for all threads of a launch, so that choosing by it does not diverge.
 * Where memory is the limit the type is a template parameter and elements come in packs, 16 bytes
 * in one access:
 *
 *     template <typename T> static __global__ void square(T *x, bool wide, uint64_t count)
 *     {
 *         for_packs<8>(count, wide, [&](auto n, uint64_t i) {   // n = 8, and 1 for the rest
 *             pack<n> v = load_pack<n>(x, i);
 *             for (unsigned j = 0; j < n; j++) { v.at[j] *= v.at[j]; }
 *             store_pack(x, i, v);
 *         });
 *     }
 *     return for_type(dtype, [&](auto t) {
 *         using T = decltype(t);
 *         return launch_packs<8>(square<T>, count, stream, (T *)x, aligned(x), count);
 *     });
 */
#ifndef ZR_KERNEL_CUDA_DEVICE_CUH
#define ZR_KERNEL_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

#include "kernel/cuda/stream.h"

#define WARP    32u
#define THREADS 256u /* of a block, where nothing else is said */

/* A CUDA failure as ours. The runtime keeps it, for whoever wants its words. */
static inline zl_status cuda_status(cudaError_t error)
{
    return error == cudaSuccess ? ZL_OK : ZL_E_RESOURCE;
}

/* Dynamic shared memory up to this needs no permission. */
static const size_t plain_shared_bytes = 48 << 10;

typedef struct launch_shape {
    dim3 grid;
    dim3 block;
    size_t shared; /* bytes */
} launch_shape;

template <typename... P, typename... A>
static inline zl_status launch(void (*kernel)(P...), launch_shape shape, zr_stream *stream,
                               A... args)
{
    if (shape.shared > plain_shared_bytes) {
        ZL_TRY(cuda_status(cudaFuncSetAttribute(
            (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shape.shared)));
    }
    kernel<<<shape.grid, shape.block, shape.shared, stream->queue>>>(args...);
    return cuda_status(cudaPeekAtLastError());
}

static inline uint64_t blocks_for(uint64_t count, uint64_t per_block)
{
    return count / per_block + (count % per_block != 0);
}

/* One block for each of `rows`. */
template <typename... P, typename... A>
static inline zl_status launch_rows(void (*kernel)(P...), uint32_t rows, zr_stream *stream,
                                    A... args)
{
    if (rows == 0) {
        return ZL_OK;
    }
    if (rows > INT32_MAX) {
        return ZL_E_USAGE;
    }
    const launch_shape shape = {dim3(rows), dim3(THREADS), 0};
    return launch(kernel, shape, stream, args...);
}

/* Enough blocks to fill a device; each thread takes every element_step()-th element. */
template <typename... P, typename... A>
static inline zl_status launch_elements(void (*kernel)(P...), uint64_t count, zr_stream *stream,
                                        A... args)
{
    const uint64_t most = 4096;
    const uint64_t blocks = blocks_for(count, THREADS);
    if (count == 0) {
        return ZL_OK;
    }
    const launch_shape shape = {dim3((unsigned)(blocks < most ? blocks : most)), dim3(THREADS), 0};
    return launch(kernel, shape, stream, args...);
}

template <unsigned N, typename... P, typename... A>
static inline zl_status launch_packs(void (*kernel)(P...), uint64_t count, zr_stream *stream,
                                     A... args)
{
    return launch_elements(kernel, blocks_for(count, N), stream, args...);
}

/* What packs ask of a pointer. */
static inline bool aligned(const void *x)
{
    return (uintptr_t)x % 16 == 0;
}

template <typename... P> static inline bool aligned(const void *x, const P *...more)
{
    return aligned(x) && aligned(more...);
}

/* f(t) with a value t of the storage type. */
template <typename F> static inline zl_status for_type(zl_dtype dtype, F f)
{
    switch (dtype) {
    case ZL_F32:
        return f(float{});
    case ZL_BF16:
        return f(__nv_bfloat16{});
    case ZL_F16:
        return f(__half{});
    case ZL_DTYPE_COUNT:
        break;
    }
    return ZL_E_USAGE;
}

static __device__ __forceinline__ uint64_t first_element(void)
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ uint64_t element_step(void)
{
    return (uint64_t)gridDim.x * blockDim.x;
}

static __device__ __forceinline__ unsigned lane_id(void)
{
    return threadIdx.x % WARP;
}

static inline bool dtype_ok(zl_dtype dtype)
{
    return (unsigned)dtype < (unsigned)ZL_DTYPE_COUNT;
}

static inline bool probability_ok(float p)
{
    return p >= 0.0f && p < 1.0f;
}

/* Element i of x as fp32. */
static __device__ __forceinline__ float load(const void *x, zl_dtype dtype, uint64_t i)
{
    switch (dtype) {
    case ZL_F32:
        return ((const float *)x)[i];
    case ZL_BF16:
        return __bfloat162float(((const __nv_bfloat16 *)x)[i]);
    case ZL_F16:
        return __half2float(((const __half *)x)[i]);
    case ZL_DTYPE_COUNT:
        break;
    }
    return 0.0f;
}

/* Rounds to nearest even. */
static __device__ __forceinline__ void store(void *x, zl_dtype dtype, uint64_t i, float value)
{
    switch (dtype) {
    case ZL_F32:
        ((float *)x)[i] = value;
        break;
    case ZL_BF16:
        ((__nv_bfloat16 *)x)[i] = __float2bfloat16_rn(value);
        break;
    case ZL_F16:
        ((__half *)x)[i] = __float2half_rn(value);
        break;
    case ZL_DTYPE_COUNT:
        break;
    }
}

static __device__ __forceinline__ float to_float(float x)
{
    return x;
}

static __device__ __forceinline__ float to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

static __device__ __forceinline__ float to_float(__half x)
{
    return __half2float(x);
}

/* Rounds to nearest even. */
template <typename T> static __device__ __forceinline__ T from_float(float x)
{
    if constexpr (std::is_same<T, __nv_bfloat16>::value) {
        return __float2bfloat16_rn(x);
    } else if constexpr (std::is_same<T, __half>::value) {
        return __float2half_rn(x);
    } else {
        return x;
    }
}

/* N elements as fp32. */
template <unsigned N> struct pack {
    float at[N];
};

/* What one access moves. */
template <size_t BYTES> struct word_of;
template <> struct word_of<2> {
    using type = uint16_t;
};
template <> struct word_of<4> {
    using type = uint32_t;
};
template <> struct word_of<8> {
    using type = uint2;
};
template <> struct word_of<16> {
    using type = uint4;
};

/* N elements as they are stored. */
template <typename T, unsigned N> union raw_pack {
    static constexpr size_t bytes = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
    using word = typename word_of<bytes>::type;
    static constexpr unsigned words = N * sizeof(T) / bytes;
    word word_at[words];
    T at[N];
    __device__ raw_pack() {}
};

/* Elements i ... i + N - 1 of x, whose address is a multiple of N elements or of 16 bytes. */
template <unsigned N, typename T>
static __device__ __forceinline__ raw_pack<T, N> load_raw(const T *x, uint64_t i)
{
    using raw = raw_pack<T, N>;
    raw r;
#pragma unroll
    for (unsigned j = 0; j < raw::words; j++) {
        r.word_at[j] = ((const typename raw::word *)(x + i))[j];
    }
    return r;
}

template <typename T, unsigned N>
static __device__ __forceinline__ pack<N> widened(const raw_pack<T, N> &r)
{
    pack<N> v;
#pragma unroll
    for (unsigned j = 0; j < N; j++) {
        v.at[j] = to_float(r.at[j]);
    }
    return v;
}

template <unsigned N, typename T>
static __device__ __forceinline__ pack<N> load_pack(const T *x, uint64_t i)
{
    return widened(load_raw<N>(x, i));
}

template <typename T, unsigned N>
static __device__ __forceinline__ void store_raw(T *x, uint64_t i, const raw_pack<T, N> &r)
{
    using raw = raw_pack<T, N>;
#pragma unroll
    for (unsigned j = 0; j < raw::words; j++) {
        ((typename raw::word *)(x + i))[j] = r.word_at[j];
    }
}

/* Rounds to nearest even. */
template <typename T, unsigned N>
static __device__ __forceinline__ void store_pack(T *x, uint64_t i, const pack<N> &v)
{
    raw_pack<T, N> r;
#pragma unroll
    for (unsigned j = 0; j < N; j++) {
        r.at[j] = from_float<T>(v.at[j]);
    }
    store_raw(x, i, r);
}

/* A number that is a constant also as an argument. */
template <unsigned N> struct pack_size {
    __host__ __device__ constexpr operator unsigned() const
    {
        return N;
    }
};

/* f(n, i) for the packs of n elements from i on that this thread has: n is N where the range is
 * `wide`, that is aligned, and 1 for what is left. `first` and `step` number threads. */
template <unsigned N, typename F>
static __device__ __forceinline__ void for_packs(uint64_t count, bool wide, uint64_t first,
                                                 uint64_t step, F f)
{
    const uint64_t packs = wide ? count / N : 0;
    for (uint64_t p = first; p < packs; p += step) {
        f(pack_size<N>{}, p * N);
    }
    for (uint64_t i = packs * N + first; i < count; i += step) {
        f(pack_size<1>{}, i);
    }
}

/* The same by all threads of a launch. */
template <unsigned N, typename F>
static __device__ __forceinline__ void for_packs(uint64_t count, bool wide, F f)
{
    for_packs<N>(count, wide, first_element(), element_step(), f);
}

/* value as it is read back after a store. */
static __device__ __forceinline__ float rounded(zl_dtype dtype, float value)
{
    switch (dtype) {
    case ZL_BF16:
        return __bfloat162float(__float2bfloat16_rn(value));
    case ZL_F16:
        return __half2float(__float2half_rn(value));
    case ZL_F32:
    case ZL_DTYPE_COUNT:
        break;
    }
    return value;
}

/* Element i of x += value. */
static __device__ __forceinline__ void accumulate(void *x, zl_dtype dtype, uint64_t i, float value)
{
    store(x, dtype, i, load(x, dtype, i) + value);
}

/* Products and sums that the compiler must not fuse: the host rounds each, and so do we. */
static __device__ __forceinline__ float mul(float a, float b)
{
    return __fmul_rn(a, b);
}

static __device__ __forceinline__ float add(float a, float b)
{
    return __fadd_rn(a, b);
}

static __device__ __forceinline__ float sub(float a, float b)
{
    return __fsub_rn(a, b);
}

/* e^x and quotients with an error of some 2^-22 times what the thresholds of kernels allow; the
 * exact ones make kernels wait for arithmetic that could wait for memory. */
static __device__ __forceinline__ float sigmoid(float x)
{
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

/* The sum, the maximum over a warp, in every lane, always added in the same pairs. */
template <typename T> static __device__ __forceinline__ T warp_sum(T v)
{
#pragma unroll
    for (unsigned step = WARP / 2; step > 0; step /= 2) {
        v += __shfl_xor_sync(0xffffffffu, v, step);
    }
    return v;
}

/* A NaN does not win. */
static __device__ __forceinline__ float warp_max(float v)
{
#pragma unroll
    for (unsigned step = WARP / 2; step > 0; step /= 2) {
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
    }
    return v;
}

/* The same over a block of whole warps along x, in every thread. */
template <typename T> static __device__ __forceinline__ T block_sum(T v)
{
    __shared__ T part[WARP];
    v = warp_sum(v);
    if (threadIdx.x % WARP == 0) {
        part[threadIdx.x / WARP] = v;
    }
    __syncthreads();
    v = part[0];
    for (unsigned warp = 1; warp < blockDim.x / WARP; warp++) {
        v += part[warp];
    }
    __syncthreads(); /* part may be used again at once */
    return v;
}

static __device__ __forceinline__ float block_max(float v)
{
    __shared__ float part[WARP];
    v = warp_max(v);
    if (threadIdx.x % WARP == 0) {
        part[threadIdx.x / WARP] = v;
    }
    __syncthreads();
    v = part[0];
    for (unsigned warp = 1; warp < blockDim.x / WARP; warp++) {
        v = fmaxf(v, part[warp]);
    }
    __syncthreads();
    return v;
}

#endif
