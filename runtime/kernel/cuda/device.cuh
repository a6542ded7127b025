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
 */
#ifndef ZR_KERNEL_CUDA_DEVICE_CUH
#define ZR_KERNEL_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

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

static __device__ __forceinline__ uint64_t first_element(void)
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ uint64_t element_step(void)
{
    return (uint64_t)gridDim.x * blockDim.x;
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

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
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
