/* A stream of high priority, so that a transfer that is due does not queue behind kernels; and
 * events in both directions. */
#include "comm/cuda/lane.h"

#include <stdlib.h>

#include "kernel/cuda/stream.h"

/* Of the operations issued last. Whoever waits for an older one waits for a newer one as well. */
enum { EVENTS = 64 };

struct zr_lane {
    cudaStream_t queue;
    zr_stream *compute;
    cudaEvent_t computed;     /* all that computed before the operation that begins */
    cudaEvent_t done[EVENTS]; /* operation n is at n % EVENTS */
};

zl_status zr_lane_check(cudaError_t failure, const char *what, zl_err *err)
{
    if (failure == cudaSuccess) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_RESOURCE, "%s: %s", what, cudaGetErrorString(failure));
}

static zl_status open_lane(zr_lane *lane, zl_err *err)
{
    const unsigned plain = cudaEventDisableTiming;
    int lowest = 0;
    int highest = 0;
    ZL_TRY(zr_lane_check(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
                         "the communication stream", err));
    ZL_TRY(zr_lane_check(cudaStreamCreateWithPriority(&lane->queue, cudaStreamNonBlocking, highest),
                         "the communication stream", err));
    ZL_TRY(zr_lane_check(cudaEventCreateWithFlags(&lane->computed, plain), "an event", err));
    for (unsigned i = 0; i < EVENTS; i++) {
        ZL_TRY(zr_lane_check(cudaEventCreateWithFlags(&lane->done[i], plain), "an event", err));
    }
    return ZL_OK;
}

zl_status zr_lane_open(zr_stream *compute, zr_lane **out, zl_err *err)
{
    zr_lane *const lane = calloc(1, sizeof *lane);
    if (lane == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the communication stream");
    }
    lane->compute = compute;
    const zl_status status = open_lane(lane, err);
    if (status != ZL_OK) {
        zr_lane_close(lane);
        return status;
    }
    *out = lane;
    return ZL_OK;
}

void zr_lane_close(zr_lane *lane)
{
    if (lane == NULL) {
        return;
    }
    for (unsigned i = 0; i < EVENTS; i++) {
        if (lane->done[i] != NULL) {
            (void)cudaEventDestroy(lane->done[i]);
        }
    }
    if (lane->computed != NULL) {
        (void)cudaEventDestroy(lane->computed);
    }
    if (lane->queue != NULL) {
        (void)cudaStreamDestroy(lane->queue);
    }
    free(lane);
}

cudaStream_t zr_lane_queue(const zr_lane *lane)
{
    return lane->queue;
}

zl_status zr_lane_begin(zr_lane *lane, zl_err *err)
{
    ZL_TRY(zr_lane_check(cudaEventRecord(lane->computed, lane->compute->queue), "cudaEventRecord",
                         err));
    return zr_lane_check(cudaStreamWaitEvent(lane->queue, lane->computed, 0), "cudaStreamWaitEvent",
                         err);
}

zl_status zr_lane_end(zr_lane *lane, uint64_t number, zl_err *err)
{
    return zr_lane_check(cudaEventRecord(lane->done[number % EVENTS], lane->queue),
                         "cudaEventRecord", err);
}

zl_status zr_lane_wait(zr_lane *lane, uint64_t number, zl_err *err)
{
    return zr_lane_check(cudaStreamWaitEvent(lane->compute->queue, lane->done[number % EVENTS], 0),
                         "cudaStreamWaitEvent", err);
}

void zr_lane_profile(const zr_lane *lane, zr_profile *profile)
{
    zr_profile_queue(profile, ZR_PROFILE_COMPUTE, lane->compute->queue);
    zr_profile_queue(profile, ZR_PROFILE_COMM, lane->queue);
}

zl_status zr_lane_copy(zr_lane *lane, void *to, const void *from, uint64_t bytes, zl_err *err)
{
    return zr_lane_check(
        cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, lane->queue),
        "cudaMemcpyAsync", err);
}
