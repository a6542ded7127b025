/*
 * Sums over the rows of a strip of 32 columns by one block, without scratch: lane x of warp y adds
 * rows y, y + 32, ... of column x; the 32 partial sums of a column are added in order.
 *
 *     float sum = 0.0f;
 *     for (uint64_t row = threadIdx.y; row < rows; row += COLUMN_WARPS) { ... sum += ...; }
 *     sum = column_sum(sum);           // complete in warp 0
 *     return launch_columns(kernel, cols, stream, args);
 */
#ifndef ZR_KERNEL_CUDA_COLUMNS_CUH
#define ZR_KERNEL_CUDA_COLUMNS_CUH

#include "kernel/cuda/device.cuh"

#define COLUMN_WARPS 32u

template <typename... P, typename... A>
static inline zl_status launch_columns(void (*kernel)(P...), uint32_t cols, zr_stream *stream,
                                       A... args)
{
    if (cols == 0) {
        return ZL_OK;
    }
    const launch_shape shape = {dim3((unsigned)blocks_for(cols, WARP)), dim3(WARP, COLUMN_WARPS),
                                0};
    return launch(kernel, shape, stream, args...);
}

static __device__ __forceinline__ float column_sum(float v)
{
    __shared__ float part[COLUMN_WARPS][WARP];
    part[threadIdx.y][threadIdx.x] = v;
    __syncthreads();
    if (threadIdx.y == 0) {
        for (unsigned y = 1; y < COLUMN_WARPS; y++) {
            v += part[y][threadIdx.x];
        }
    }
    __syncthreads(); /* part may be used again at once */
    return v;
}

#endif
