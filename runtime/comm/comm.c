#define _DEFAULT_SOURCE /* nanosleep, write */
#include "comm/comm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "comm/transport.h"
#include "zeroledger/bytes.h"

typedef zl_status open_transport(zr_comm *comm, zl_err *err);

static zl_status comm_new(uint64_t rank, uint64_t ranks, open_transport *open, zr_comm **out,
                          zl_err *err)
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
    const zl_status status = open(comm, err);
    if (status != ZL_OK) {
        free(comm);
        return status;
    }
    *out = comm;
    return ZL_OK;
}

zl_status zr_comm_new(uint64_t rank, uint64_t ranks, zr_comm **out, zl_err *err)
{
    return comm_new(rank, ranks, ranks == 1 ? zr_comm_open_local : zr_comm_open_ranks, out, err);
}

zl_status zr_comm_new_loopback(uint64_t rank, uint64_t ranks, zr_comm **out, zl_err *err)
{
    return comm_new(rank, ranks, zr_comm_open_local, out, err);
}

void zr_comm_free(zr_comm *comm)
{
    if (comm != NULL) {
        comm->transport->release(comm);
        zr_lane_close(comm->lane);
        free(comm);
    }
}

zl_status zr_comm_attach(zr_comm *comm, zr_stream *compute, zl_err *err)
{
    zr_lane_close(comm->lane); /* of an engine before this one */
    comm->lane = NULL;
    comm->issued = 0;
    ZL_TRY(zr_lane_open(compute, &comm->lane, err));
    zr_lane_profile(comm->lane, comm->profile);
    return ZL_OK;
}

void zr_comm_set_profile(zr_comm *comm, zr_profile *profile)
{
    comm->profile = profile;
}

void zr_comm_label(zr_comm *comm, const char *what, uint64_t number)
{
    comm->what = what;
    comm->number = number;
}

/* Begins an operation in the lane, as a region of the profile. */
static zl_status begin(zr_comm *comm, const char *operation, zl_err *err)
{
    ZL_TRY(zr_lane_begin(comm->lane, err));
    zr_profile_begin(comm->profile, ZR_PROFILE_COMM, comm->what != NULL ? comm->what : operation,
                     comm->what != NULL ? comm->number : ZR_NO_NUMBER);
    comm->what = NULL;
    return ZL_OK;
}

static zl_status end(zr_comm *comm, zl_err *err)
{
    (void)zr_profile_end(comm->profile, ZR_PROFILE_COMM, ZL_OK);
    return zr_lane_end(comm->lane, ++comm->issued, err);
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
    ZL_TRY(begin(comm, "reduce-scatter", err));
    ZL_TRY(comm->transport->reduce_scatter(comm, full, shard, count, dtype, err));
    return end(comm, err);
}

zl_status zr_comm_all_gather(zr_comm *comm, const void *shard, void *full, uint64_t bytes_per_rank,
                             zl_err *err)
{
    if (zl_poisoned(zl_mul(comm->ranks, bytes_per_rank))) {
        return zl_fail(err, ZL_E_BUG, "a gather of %" PRIu64 " bytes overflows", bytes_per_rank);
    }
    ZL_TRY(begin(comm, "all-gather", err));
    ZL_TRY(comm->transport->all_gather(comm, shard, full, bytes_per_rank, err));
    return end(comm, err);
}

uint64_t zr_comm_issued(const zr_comm *comm)
{
    return comm->issued;
}

zl_status zr_comm_wait_for(zr_comm *comm, uint64_t issued, zl_err *err)
{
    return issued == 0 ? ZL_OK : zr_lane_wait(comm->lane, issued, err);
}

zl_status zr_comm_wait(zr_comm *comm, zl_err *err)
{
    return zr_comm_wait_for(comm, comm->issued, err);
}

/* What goes through the scratch comes after what computes there. */
static zl_status after_compute(const zr_comm *comm, zl_err *err)
{
    return comm->lane != NULL ? zr_lane_begin(comm->lane, err) : ZL_OK;
}

zl_status zr_comm_exchange_now(zr_comm *comm, void *table, uint64_t bytes, zl_err *err)
{
    if (zl_poisoned(zl_mul(comm->ranks, bytes))) {
        return zl_fail(err, ZL_E_BUG, "an exchange of %" PRIu64 " bytes overflows", bytes);
    }
    return comm->transport->exchange(comm, table, bytes, err);
}

zl_status zr_comm_exchange(zr_comm *comm, void *table, uint64_t bytes, zl_err *err)
{
    ZL_TRY(after_compute(comm, err));
    return zr_comm_exchange_now(comm, table, bytes, err);
}

zl_status zr_comm_sum(zr_comm *comm, double *value, zl_err *err)
{
    ZL_TRY(after_compute(comm, err));
    return comm->transport->sum(comm, value, err);
}

zl_status zr_comm_barrier(zr_comm *comm, zl_err *err)
{
    ZL_TRY(after_compute(comm, err));
    return comm->transport->barrier(comm, err);
}

zl_status zr_comm_check(const zr_comm *comm, zl_err *err)
{
    return comm->transport->check == NULL ? ZL_OK : comm->transport->check(comm, err);
}

void zr_comm_show(zr_comm *comm, const zr_activity *activity)
{
    if (comm->transport->show != NULL) {
        comm->transport->show(comm, activity);
    }
}

static void say(uint64_t rank, uint64_t ranks, const zl_err *err)
{
    char line[sizeof(err->text) + 64];
    int length;
    if (ranks == 1) {
        length = snprintf(line, sizeof(line), "zl-train: %s\n", err->text);
    } else {
        /* A failure that all ranks meet is told once, by rank 0: it ends the others while they
         * still wait here. */
        if (rank != 0) {
            const struct timespec pause = {.tv_nsec = 300000000};
            (void)nanosleep(&pause, NULL);
        }
        length = snprintf(line, sizeof(line), "zl-train: rank %" PRIu64 ": %s\n", rank, err->text);
    }
    /* One write, so that lines of several ranks do not mix. If stderr is gone, the code remains. */
    if (length > 0) {
        const ssize_t written = write(STDERR_FILENO, line, (size_t)length);
        (void)written;
    }
}

static int exit_code(const zl_err *err)
{
    return err->status == ZL_OK ? (int)ZL_E_BUG : (int)err->status;
}

zl_status zr_comm_give_up(uint64_t rank, uint64_t ranks, const zl_err *err)
{
    if (ranks > 1) {
        say(rank, ranks, err);
        zr_comm_decline(rank, ranks, err->status);
        _Exit(exit_code(err));
    }
    return err->status;
}

void zr_comm_abort(zr_comm *comm, const zl_err *err)
{
    say(comm->rank, comm->ranks, err);
    const int code = exit_code(err);
    comm->transport->stop(comm, code);
    _Exit(code);
}
