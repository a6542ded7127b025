/*
 * Sums over the rows of strips of 32 columns, without scratch in device memory. A cluster of blocks
 * has a strip and deals the rows out among its blocks; 32 / N neighbouring lanes read a row, N
 * elements each. The sums of a thread's rows are added over the warp, then warp after warp, then
 * block after block in the shared memory of the first: always in the same order. Before compute
 * capability 9.0 there are no clusters, and a block is alone with its strip.
 *
 *     const strip<N> s = strip_of<N>();
 *     pack<N> sums[1] = {};
 *     for_rows<4>(s, s.col < cols ? rows : 0, [&](uint64_t row) { return load_pack<N>(...); },
 *                 [&](const pack<N> &v) { sums[0].at[j] += ... });
 *     float total[1];
 *     if (column_sums<N>(total, sums)) { ... }      // of column threadIdx.x of the strip
 *     return launch_columns(kernel, cols, stream, args);
 */
#ifndef ZR_KERNEL_CUDA_COLUMNS_CUH
#define ZR_KERNEL_CUDA_COLUMNS_CUH

#include <cooperative_groups.h>

#include "kernel/cuda/device.cuh"

#define STRIP              32u
#define STRIP_BLOCKS       8u    /* of a cluster; every device that has clusters takes 8 */
#define STRIP_THREADS      256u  /* of such a block */
#define LONE_STRIP_THREADS 1024u /* of a block without a cluster */

template <typename... P, typename... A>
static inline zl_status launch_columns(void (*kernel)(P...), uint32_t cols, zr_stream *stream,
                                       A... args)
{
    const int clusters_since = 90; /* the code that was chosen, not the device, has to know them */
    const unsigned strips = (unsigned)blocks_for(cols, STRIP);
    cudaFuncAttributes chosen;
    if (cols == 0) {
        return ZL_OK;
    }
    ZL_TRY(cuda_status(cudaFuncGetAttributes(&chosen, (const void *)kernel)));
    if (chosen.ptxVersion < clusters_since) {
        const launch_shape shape = {dim3(strips), dim3(LONE_STRIP_THREADS), 0};
        return launch(kernel, shape, stream, args...);
    }
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = STRIP_BLOCKS;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(strips * STRIP_BLOCKS);
    config.blockDim = dim3(STRIP_THREADS);
    config.stream = stream->queue;
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cuda_status(cudaLaunchKernelEx(&config, kernel, args...));
}

/* The blocks that share a strip. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
static __device__ __forceinline__ unsigned strip_blocks(void)
{
    return cooperative_groups::this_cluster().num_blocks();
}

/* What lies at x in block `block` of them. */
static __device__ __forceinline__ const float *in_block(const float *x, unsigned block)
{
    return cooperative_groups::this_cluster().map_shared_rank(x, (int)block);
}

/* All have come here, and what they wrote is seen. */
static __device__ __forceinline__ void meet_blocks(void)
{
    cooperative_groups::this_cluster().sync();
}
#else
static __device__ __forceinline__ unsigned strip_blocks(void)
{
    return 1;
}

static __device__ __forceinline__ const float *in_block(const float *x, unsigned block)
{
    (void)block;
    return x;
}

static __device__ __forceinline__ void meet_blocks(void)
{
    __syncthreads();
}
#endif

/* The calling thread's first column and row, and the distance of its rows. */
template <unsigned N> struct strip {
    uint64_t col;
    uint64_t row;
    uint64_t step;
};

static __device__ __forceinline__ uint64_t first_column(void)
{
    return (uint64_t)(blockIdx.x / strip_blocks()) * STRIP;
}

template <unsigned N> static __device__ __forceinline__ strip<N> strip_of(void)
{
    const unsigned lanes = STRIP / N;
    const unsigned rows = blockDim.x / lanes; /* of one block at a time */
    return strip<N>{first_column() + threadIdx.x % lanes * N,
                    blockIdx.x % strip_blocks() * rows + threadIdx.x / lanes,
                    (uint64_t)strip_blocks() * rows};
}

/* add(load(row)) for this thread's rows in order, U of the loads under way at a time. */
template <unsigned U, unsigned N, typename L, typename A>
static __device__ __forceinline__ void for_rows(strip<N> s, uint64_t rows, L load, A add)
{
    uint64_t row = s.row;
    for (; row + (U - 1) * s.step < rows; row += U * s.step) {
        decltype(load(row)) v[U];
#pragma unroll
        for (unsigned u = 0; u < U; u++) {
            v[u] = load(row + u * s.step);
        }
#pragma unroll
        for (unsigned u = 0; u < U; u++) {
            add(v[u]);
        }
    }
    for (; row < rows; row += s.step) {
        add(load(row));
    }
}

/* K sums over all rows of column threadIdx.x of the strip; true in the threads that know them. */
template <unsigned N, unsigned K>
static __device__ __forceinline__ bool column_sums(float (&total)[K], pack<N> (&sums)[K])
{
    __shared__ float part[LONE_STRIP_THREADS / WARP][K][STRIP];
    __shared__ float block_total[K][STRIP];
    const unsigned lanes = STRIP / N;
    const bool first = blockIdx.x % strip_blocks() == 0;
#pragma unroll
    for (unsigned k = 0; k < K; k++) {
#pragma unroll
        for (unsigned step = WARP / 2; step >= lanes; step /= 2) {
#pragma unroll
            for (unsigned j = 0; j < N; j++) {
                sums[k].at[j] += __shfl_xor_sync(0xffffffffu, sums[k].at[j], step);
            }
        }
        if (lane_id() < lanes) {
#pragma unroll
            for (unsigned j = 0; j < N; j++) {
                part[threadIdx.x / WARP][k][lane_id() * N + j] = sums[k].at[j];
            }
        }
    }
    __syncthreads();
    if (threadIdx.x < STRIP) {
#pragma unroll
        for (unsigned k = 0; k < K; k++) {
            float sum = 0.0f;
            for (unsigned warp = 0; warp < blockDim.x / WARP; warp++) {
                sum += part[warp][k][threadIdx.x];
            }
            block_total[k][threadIdx.x] = sum;
        }
    }
    meet_blocks();
    if (first && threadIdx.x < STRIP) {
#pragma unroll
        for (unsigned k = 0; k < K; k++) {
            total[k] = 0.0f;
#pragma unroll
            for (unsigned block = 0; block < STRIP_BLOCKS; block++) {
                const bool there = block < strip_blocks();
                const float x = *in_block(&block_total[k][threadIdx.x], there ? block : 0);
                total[k] += there ? x : 0.0f;
            }
        }
    }
    meet_blocks(); /* nobody leaves before it has been read */
    return first && threadIdx.x < STRIP;
}

#endif
