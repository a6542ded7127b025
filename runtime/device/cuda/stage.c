#include "device/stage.h"

#include <inttypes.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "kernel/cuda/stream.h"

static zl_status check(cudaError_t failure, const char *what, zl_err *err)
{
    return failure == cudaSuccess
               ? ZL_OK
               : zl_fail(err, ZL_E_RESOURCE, "%s: %s", what, cudaGetErrorString(failure));
}

zl_status zr_stage_new(uint64_t bytes, void **out, zl_err *err)
{
    void *stage = NULL;
    if (cudaHostAlloc(&stage, (size_t)bytes, cudaHostAllocDefault) != cudaSuccess) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "out of memory: %" PRIu64 " page-locked bytes of the host", bytes);
    }
    memset(stage, 0, (size_t)bytes);
    *out = stage;
    return ZL_OK;
}

void zr_stage_free(void *stage)
{
    if (stage != NULL) {
        (void)cudaFreeHost(stage);
    }
}

static zl_status copy(void *to, const void *from, uint64_t bytes, enum cudaMemcpyKind kind,
                      zr_stream *stream, zl_err *err)
{
    return check(cudaMemcpyAsync(to, from, (size_t)bytes, kind, stream->queue), "cudaMemcpyAsync",
                 err);
}

zl_status zr_stage_in(void *device, const void *stage, uint64_t bytes, zr_stream *stream,
                      zl_err *err)
{
    return copy(device, stage, bytes, cudaMemcpyHostToDevice, stream, err);
}

zl_status zr_stage_out(void *stage, const void *device, uint64_t bytes, zr_stream *stream,
                       zl_err *err)
{
    return copy(stage, device, bytes, cudaMemcpyDeviceToHost, stream, err);
}

/* An event is a pointer already: the mark is the event. */
static cudaEvent_t event_of(const zr_mark *mark)
{
    return (cudaEvent_t)(uintptr_t)mark;
}

zl_status zr_mark_new(zr_mark **out, zl_err *err)
{
    cudaEvent_t event;
    ZL_TRY(check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event", err));
    *out = (zr_mark *)event;
    return ZL_OK;
}

void zr_mark_free(zr_mark *mark)
{
    if (mark != NULL) {
        (void)cudaEventDestroy(event_of(mark));
    }
}

zl_status zr_mark_set(zr_mark *mark, zr_stream *stream, zl_err *err)
{
    return check(cudaEventRecord(event_of(mark), stream->queue), "cudaEventRecord", err);
}

zl_status zr_mark_passed(const zr_mark *mark, bool *passed, zl_err *err)
{
    const cudaError_t found = cudaEventQuery(event_of(mark));
    *passed = found == cudaSuccess;
    if (found == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* an answer, and no failure */
        return ZL_OK;
    }
    return check(found, "the device", err);
}
