/* Bytes between host and device. Both calls wait, so that the host's side may be used at once. */
#include "kernel/cuda/device.cuh"

static zl_status copy(void *to, const void *from, uint64_t bytes, cudaMemcpyKind kind,
                      zr_stream *stream)
{
    if (stream == NULL) {
        return ZL_E_USAGE;
    }
    ZL_TRY(cuda_status(cudaMemcpyAsync(to, from, bytes, kind, stream->queue)));
    return zr_stream_wait(stream);
}

zl_status zr_copy_in(void *dst, const void *host, uint64_t bytes, zr_stream *stream)
{
    return copy(dst, host, bytes, cudaMemcpyHostToDevice, stream);
}

zl_status zr_copy_out(void *host, const void *src, uint64_t bytes, zr_stream *stream)
{
    return copy(host, src, bytes, cudaMemcpyDeviceToHost, stream);
}
