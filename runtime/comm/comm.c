#define _DEFAULT_SOURCE /* nanosleep, write */
#include "comm/comm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "comm/transport.h"
#include "zeroledger/bytes.h"

zl_status zr_comm_new(uint64_t rank, uint64_t ranks, zr_comm **out, zl_err *err)
{
    if (rank >= ranks) {
        return zl_fail(err, ZL_E_BUG, "rank %" PRIu64 " of %" PRIu64 " ranks", rank, ranks);
    }
    zr_comm *const comm = calloc(1, sizeof(*comm));
    if (comm == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the communicator");
    }
    comm->rank = rank;
    comm->ranks = ranks;
    const zl_status status =
        ranks == 1 ? zr_comm_open_local(comm, err) : zr_comm_open_mpi(comm, err);
    if (status != ZL_OK) {
        free(comm);
        return status;
    }
    *out = comm;
    return ZL_OK;
}

void zr_comm_free(zr_comm *comm)
{
    if (comm != NULL) {
        comm->transport->release(comm);
        free(comm);
    }
}

uint64_t zr_comm_rank(const zr_comm *comm)
{
    return comm->rank;
}

uint64_t zr_comm_ranks(const zr_comm *comm)
{
    return comm->ranks;
}

void zr_comm_set_scratch(zr_comm *comm, void *scratch, uint64_t bytes)
{
    comm->scratch = scratch;
    comm->scratch_bytes = bytes;
}

zl_status zr_comm_reduce_scatter(zr_comm *comm, const void *full, void *shard, uint64_t count,
                                 zl_dtype dtype, zl_err *err)
{
    if (zl_poisoned(zl_prod(comm->ranks, count, zl_dtype_size(dtype)))) {
        return zl_fail(err, ZL_E_BUG, "a reduction of %" PRIu64 " elements overflows", count);
    }
    return comm->transport->reduce_scatter(comm, full, shard, count, dtype, err);
}

zl_status zr_comm_all_gather(zr_comm *comm, const void *shard, void *full, uint64_t bytes_per_rank,
                             zl_err *err)
{
    if (zl_poisoned(zl_mul(comm->ranks, bytes_per_rank))) {
        return zl_fail(err, ZL_E_BUG, "a gather of %" PRIu64 " bytes overflows", bytes_per_rank);
    }
    return comm->transport->all_gather(comm, shard, full, bytes_per_rank, err);
}

/* Both transports have finished when issue returns. */
zl_status zr_comm_wait(zr_comm *comm, zl_err *err)
{
    (void)comm;
    (void)err;
    return ZL_OK;
}

zl_status zr_comm_sum(zr_comm *comm, double *value, zl_err *err)
{
    return comm->transport->sum(comm, value, err);
}

zl_status zr_comm_barrier(zr_comm *comm, zl_err *err)
{
    return comm->transport->barrier(comm, err);
}

void zr_comm_abort(zr_comm *comm, const zl_err *err)
{
    char line[sizeof(err->text) + 64];
    int length;
    if (comm->ranks == 1) {
        length = snprintf(line, sizeof(line), "zl-train: %s\n", err->text);
    } else {
        /* A failure that all ranks meet is told once, by rank 0: it ends the others while they
         * still wait here. */
        if (comm->rank != 0) {
            const struct timespec pause = {.tv_nsec = 300000000};
            (void)nanosleep(&pause, NULL);
        }
        length =
            snprintf(line, sizeof(line), "zl-train: rank %" PRIu64 ": %s\n", comm->rank, err->text);
    }
    /* One write, so that lines of several ranks do not mix. If stderr is gone, the code remains. */
    if (length > 0) {
        const ssize_t written = write(STDERR_FILENO, line, (size_t)length);
        (void)written;
    }
    const int code = err->status == ZL_OK ? (int)ZL_E_BUG : (int)err->status;
    comm->transport->stop(comm, code);
    _Exit(code);
}
