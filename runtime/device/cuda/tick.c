#include "device/tick.h"

#include <stddef.h>

#include <cuda_runtime_api.h>

static zl_status check(cudaError_t failure, const char *what, zl_err *err)
{
    return failure == cudaSuccess
               ? ZL_OK
               : zl_fail(err, ZL_E_RESOURCE, "%s: %s", what, cudaGetErrorString(failure));
}

zl_status zr_tick_set(zr_tick *tick, void *queue, zl_err *err)
{
    if (tick->event == NULL) {
        cudaEvent_t event;
        ZL_TRY(check(cudaEventCreate(&event), "cudaEventCreate", err));
        tick->event = event;
    }
    return check(cudaEventRecord(tick->event, queue), "cudaEventRecord", err);
}

zl_status zr_tick_since(const zr_tick *from, const zr_tick *to, double *seconds, zl_err *err)
{
    float milliseconds = 0.0F;
    ZL_TRY(check(cudaEventSynchronize(from->event), "cudaEventSynchronize", err));
    ZL_TRY(check(cudaEventSynchronize(to->event), "cudaEventSynchronize", err));
    ZL_TRY(check(cudaEventElapsedTime(&milliseconds, from->event, to->event),
                 "cudaEventElapsedTime", err));
    *seconds = 1e-3 * (double)milliseconds;
    return ZL_OK;
}

void zr_tick_release(zr_tick *tick)
{
    if (tick->event != NULL) {
        (void)cudaEventDestroy(tick->event);
    }
    *tick = (zr_tick){.event = NULL};
}
