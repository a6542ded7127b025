/*
 * The queue of the cuda backend: a CUDA stream, the cuBLASLt handle, and what was chosen for it.
 *
 *     zr_stream stream;
 *     ZL_TRY(zr_stream_init(&stream, sums));       // sums: ZR_CUDA_SUMS_BYTES on the device
 *     ZL_TRY(zr_layernorm_forward(&norm, &stream));
 *     ZL_TRY(zr_stream_wait(&stream));
 *     zr_stream_release(&stream);
 *
 * It owns no memory of ours: every scratch buffer is the caller's. The kernels of this backend take
 * device pointers throughout, also for results of one number, and never a NULL stream. Calls return
 * once the work is queued; a failure on the device itself surfaces in a later call.
 */
#ifndef ZR_KERNEL_CUDA_STREAM_H
#define ZR_KERNEL_CUDA_STREAM_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "kernel/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scratch of zr_gemm (args.work). Less is allowed and costs speed, not correctness. */
#define ZR_CUDA_GEMM_WORK_BYTES ((uint64_t)32 << 20)

/* Scratch of zr_sum and zr_sumsq: one fp64 partial sum of each block. */
#define ZR_CUDA_SUM_BLOCKS 1024
#define ZR_CUDA_SUMS_BYTES ((uint64_t)ZR_CUDA_SUM_BLOCKS * (uint64_t)sizeof(double))

/* Matrix products remembered; a trainer has about a dozen. */
#define ZR_CUDA_PLANS      64
#define ZR_CUDA_PLAN_WORDS 12

/* How one shape is multiplied. The choice is made once, so that equal calls give equal bits. */
typedef struct zr_gemm_plan {
    uint64_t key[ZR_CUDA_PLAN_WORDS]; /* shape, types, strides, alignments, scratch */
    cublasLtMatmulAlgo_t algo;
    bool taken; /* false: cuBLASLt does not take it, the plain kernel does */
} zr_gemm_plan;

struct zr_stream {
    cudaStream_t queue;
    cublasLtHandle_t lt;
    double *sums;   /* (ZR_CUDA_SUM_BLOCKS) borrowed, on the device */
    uint32_t plans; /* plans made so far; the oldest gives way when all places are taken */
    zr_gemm_plan plan[ZR_CUDA_PLANS];
};

/* `sums` is borrowed until release and serves one stream. ZL_E_RESOURCE if there is no device. */
ZL_NODISCARD zl_status zr_stream_init(zr_stream *stream, double *sums);
void zr_stream_release(zr_stream *stream);

/* Returns when all work queued so far is done; ZL_E_RESOURCE if any of it failed. */
ZL_NODISCARD zl_status zr_stream_wait(zr_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
