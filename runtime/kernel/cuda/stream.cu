/* The queue of the cuda backend. */
#include <string.h>

#include "kernel/cuda/device.cuh"

zl_status zr_stream_init(zr_stream *stream, double *sums)
{
    cudaStream_t queue;
    cublasLtHandle_t lt;
    if (sums == NULL) {
        return ZL_E_USAGE;
    }
    ZL_TRY(cuda_status(cudaStreamCreateWithFlags(&queue, cudaStreamNonBlocking)));
    if (cublasLtCreate(&lt) != CUBLAS_STATUS_SUCCESS) {
        (void)cudaStreamDestroy(queue);
        return ZL_E_RESOURCE;
    }
    memset(stream, 0, sizeof *stream);
    stream->queue = queue;
    stream->lt = lt;
    stream->sums = sums;
    return ZL_OK;
}

void zr_stream_release(zr_stream *stream)
{
    (void)cublasLtDestroy(stream->lt);
    (void)cudaStreamDestroy(stream->queue);
    memset(stream, 0, sizeof *stream);
}

zl_status zr_stream_wait(zr_stream *stream)
{
    return stream == NULL ? ZL_E_USAGE : cuda_status(cudaStreamSynchronize(stream->queue));
}
