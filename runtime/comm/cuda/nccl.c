/* One GPU a rank, and NCCL between them. Its kernels run in the lane; what the host has to say to
 * other ranks goes through the scratch on the device. */
#define _DEFAULT_SOURCE /* nanosleep */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>

#include "comm/cuda/functions.h"
#include "comm/cuda/lane.h"
#include "comm/transport.h"
#include "zeroledger/bytes.h"

typedef struct nccl_state {
    const zr_nccl *nccl;
    ncclComm_t comm;
    double *value;       /* (N) */
    zr_meeting *meeting; /* NULL: the launcher watches */
} nccl_state;

static zl_status check(const nccl_state *state, ncclResult_t result, const char *what, zl_err *err)
{
    if (result == ncclSuccess) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_RESOURCE, "%s: %s (%s)", what, state->nccl->GetErrorString(result),
                   state->nccl->GetLastError(state->comm));
}

/* NCCL asks the runtime questions whose answer may be no; that is not a failure of ours. */
static zl_status queued(const nccl_state *state, ncclResult_t result, const char *what, zl_err *err)
{
    ncclResult_t later = ncclSuccess;
    (void)cudaGetLastError();
    ZL_TRY(check(state, result, what, err));
    ZL_TRY(check(state, state->nccl->CommGetAsyncError(state->comm, &later), what, err));
    return check(state, later, "another rank, or the way to it, failed", err);
}

static ncclDataType_t nccl_type(zl_dtype dtype)
{
    switch (dtype) {
    case ZL_BF16:
        return ncclBfloat16;
    case ZL_F16:
        return ncclFloat16;
    case ZL_F32:
    case ZL_DTYPE_COUNT:
        break;
    }
    return ncclFloat32;
}

static zl_status nccl_reduce_scatter(zr_comm *comm, const void *full, void *shard, uint64_t count,
                                     zl_dtype dtype, zl_err *err)
{
    const nccl_state *const state = comm->state;
    return queued(state,
                  state->nccl->ReduceScatter(full, shard, (size_t)count, nccl_type(dtype), ncclSum,
                                             state->comm, zr_lane_queue(comm->lane)),
                  "ncclReduceScatter", err);
}

static zl_status nccl_all_gather(zr_comm *comm, const void *shard, void *full, uint64_t bytes,
                                 zl_err *err)
{
    const nccl_state *const state = comm->state;
    return queued(state,
                  state->nccl->AllGather(shard, full, (size_t)bytes, ncclUint8, state->comm,
                                         zr_lane_queue(comm->lane)),
                  "ncclAllGather", err);
}

/* Waits on the host for the lane, and sees when the other ranks will not come any more. */
static zl_status finish(const zr_comm *comm, zl_err *err)
{
    const nccl_state *const state = comm->state;
    const struct timespec pause = {.tv_nsec = 5000};
    for (;;) {
        const cudaError_t found = cudaStreamQuery(zr_lane_queue(comm->lane));
        if (found != cudaErrorNotReady) {
            return zr_lane_check(found, "communication", err);
        }
        ZL_TRY(queued(state, ncclSuccess, "communication", err));
        (void)nanosleep(&pause, NULL);
    }
}

/* Bytes [begin, begin + part) of everybody's word of `bytes` bytes. */
static zl_status exchange_piece(zr_comm *comm, unsigned char *table, uint64_t bytes, uint64_t begin,
                                uint64_t part, zl_err *err)
{
    const cudaStream_t queue = zr_lane_queue(comm->lane);
    unsigned char *const own = (unsigned char *)comm->scratch + zl_mul(comm->rank, part);
    const unsigned char *const word = table + zl_mul(comm->rank, bytes) + begin;
    ZL_TRY(zr_lane_check(cudaMemcpyAsync(own, word, (size_t)part, cudaMemcpyHostToDevice, queue),
                         "cudaMemcpyAsync", err));
    ZL_TRY(nccl_all_gather(comm, own, comm->scratch, part, err));
    ZL_TRY(zr_lane_check(cudaMemcpy2DAsync(table + begin, (size_t)bytes, comm->scratch,
                                           (size_t)part, (size_t)part, (size_t)comm->ranks,
                                           cudaMemcpyDeviceToHost, queue),
                         "cudaMemcpy2DAsync", err));
    return finish(comm, err);
}

static zl_status nccl_exchange(zr_comm *comm, void *table, uint64_t bytes, zl_err *err)
{
    const uint64_t room = comm->scratch_bytes / comm->ranks;
    if (comm->lane == NULL || comm->scratch == NULL || room == 0) {
        return zl_fail(err, ZL_E_BUG,
                       "an exchange between %" PRIu64
                       " ranks needs a stream and scratch; there are "
                       "%" PRIu64 " bytes of it",
                       comm->ranks, comm->scratch_bytes);
    }
    for (uint64_t begin = 0; begin < bytes; begin += room) {
        ZL_TRY(exchange_piece(comm, table, bytes, begin, zl_min(room, bytes - begin), err));
    }
    return ZL_OK;
}

static zl_status nccl_sum(zr_comm *comm, double *value, zl_err *err)
{
    const nccl_state *const state = comm->state;
    state->value[comm->rank] = *value;
    ZL_TRY(nccl_exchange(comm, state->value, sizeof(double), err));
    double sum = 0.0;
    for (uint64_t r = 0; r < comm->ranks; r++) {
        sum += state->value[r];
    }
    *value = sum;
    return ZL_OK;
}

static zl_status nccl_barrier(zr_comm *comm, zl_err *err)
{
    double nothing = 0.0;
    return nccl_sum(comm, &nothing, err);
}

static void nccl_show(zr_comm *comm, const zr_activity *activity)
{
    const nccl_state *const state = comm->state;
    zr_meeting_show(state->meeting, activity);
}

static zl_status nccl_check(const zr_comm *comm, zl_err *err)
{
    return queued(comm->state, ncclSuccess, "communication", err);
}

/* Kernels of ours that wait for other ranks end too. */
static void nccl_stop(zr_comm *comm, int code)
{
    const nccl_state *const state = comm->state;
    zr_meeting_fail(state->meeting, code);
    (void)state->nccl->CommAbort(state->comm);
}

static void nccl_release(zr_comm *comm)
{
    nccl_state *const state = comm->state;
    (void)state->nccl->CommDestroy(state->comm);
    zr_meeting_leave(state->meeting);
    free(state->value);
    free(state);
}

static zl_status join(const zr_comm *comm, nccl_state *state, zl_err *err)
{
    ncclUniqueId id = {.internal = {0}};
    ZL_TRY(zr_nccl_find(&state->nccl, err));
    if (comm->rank == 0) {
        ZL_TRY(check(state, state->nccl->GetUniqueId(&id), "ncclGetUniqueId", err));
    }
    ZL_TRY(zr_meet(comm->rank, comm->ranks, &id, sizeof id, &state->meeting, err));
    const ncclResult_t result =
        state->nccl->CommInitRank(&state->comm, (int)comm->ranks, id, (int)comm->rank);
    (void)cudaGetLastError();
    const zl_status status = check(state, result, "ncclCommInitRank", err);
    if (status != ZL_OK) {
        zr_meeting_fail(state->meeting, (int)status);
    }
    return status;
}

zl_status zr_comm_open_ranks(zr_comm *comm, zl_err *err)
{
    static const zr_transport transport = {
        .release = nccl_release,
        .reduce_scatter = nccl_reduce_scatter,
        .all_gather = nccl_all_gather,
        .exchange = nccl_exchange,
        .sum = nccl_sum,
        .barrier = nccl_barrier,
        .check = nccl_check,
        .show = nccl_show,
        .stop = nccl_stop,
    };
    if (comm->ranks > INT_MAX) {
        return zl_fail(err, ZL_E_USAGE, "%" PRIu64 " ranks are more than NCCL counts", comm->ranks);
    }
    nccl_state *const state = calloc(1, sizeof *state);
    double *const value = calloc((size_t)comm->ranks, sizeof *value);
    if (state == NULL || value == NULL) {
        free(value);
        free(state);
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the communicator");
    }
    state->value = value;
    const zl_status status = join(comm, state, err);
    if (status != ZL_OK) {
        free(value);
        free(state);
        return status;
    }
    comm->transport = &transport;
    comm->state = state;
    return ZL_OK;
}

void zr_comm_decline(uint64_t rank, uint64_t ranks, zl_status status)
{
    if (ranks > 1) {
        zr_meeting_decline(rank, ranks, (int)status);
    }
}

zl_status zr_comm_can_join(zl_err *err)
{
    const zr_nccl *nccl;
    return zr_nccl_find(&nccl, err);
}
