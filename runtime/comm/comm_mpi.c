/* Ranks are processes of one MPI job. Messages are plain sends and receives into memory that the
 * caller owns: MPI adds no numbers (its order of summation is its own affair) and gets no buffers
 * as large as a tensor. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include "comm/transport.h"
#include "kernel/kernel.h"
#include "zeroledger/bytes.h"

/* Counts of MPI are int. */
static const uint64_t largest_message = (uint64_t)1 << 30;

typedef struct mpi_state {
    MPI_Request *request; /* (2 N) */
    int requests;
    double *value; /* (N) */
} mpi_state;

static zl_status check(int code, const char *what, zl_err *err)
{
    if (code == MPI_SUCCESS) {
        return ZL_OK;
    }
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) {
        length = 0;
    }
    text[length] = '\0';
    return zl_fail(err, ZL_E_RESOURCE, "%s: %s", what, text);
}

static unsigned char *at(void *base, uint64_t offset)
{
    return (unsigned char *)base + offset;
}

static const unsigned char *at_const(const void *base, uint64_t offset)
{
    return (const unsigned char *)base + offset;
}

static zl_status post_receive(mpi_state *state, void *into, uint64_t bytes, uint64_t from,
                              zl_err *err)
{
    return check(MPI_Irecv(into, (int)bytes, MPI_BYTE, (int)from, 0, MPI_COMM_WORLD,
                           &state->request[state->requests++]),
                 "MPI_Irecv", err);
}

static zl_status post_send(mpi_state *state, const void *out, uint64_t bytes, uint64_t to,
                           zl_err *err)
{
    return check(MPI_Isend(out, (int)bytes, MPI_BYTE, (int)to, 0, MPI_COMM_WORLD,
                           &state->request[state->requests++]),
                 "MPI_Isend", err);
}

static zl_status finish(mpi_state *state, zl_err *err)
{
    const int requests = state->requests;
    state->requests = 0;
    return check(MPI_Waitall(requests, state->request, MPI_STATUSES_IGNORE), "MPI_Waitall", err);
}

/* Elements [begin, begin + count) of this rank's piece: everybody's contribution meets in the
 * scratch, in rank order, and is summed from there. The own one is copied before the sum may
 * overwrite it, so shard may be the piece itself. */
static zl_status reduce_chunk(zr_comm *comm, const void *full, void *shard, uint64_t begin,
                              uint64_t count, uint64_t piece, zl_dtype dtype, zl_err *err)
{
    mpi_state *const state = comm->state;
    const uint64_t size = zl_dtype_size(dtype);
    const uint64_t bytes = zl_mul(count, size);
    for (uint64_t r = 0; r < comm->ranks; r++) {
        if (r != comm->rank) {
            ZL_TRY(post_receive(state, at(comm->scratch, zl_mul(r, bytes)), bytes, r, err));
        }
    }
    for (uint64_t k = 1; k < comm->ranks; k++) {
        const uint64_t r = (comm->rank + k) % comm->ranks; /* not all to rank 0 first */
        const uint64_t element = zl_add(zl_mul(r, piece), begin);
        ZL_TRY(post_send(state, at_const(full, zl_mul(element, size)), bytes, r, err));
    }
    const uint64_t own = zl_add(zl_mul(comm->rank, piece), begin);
    memcpy(at(comm->scratch, zl_mul(comm->rank, bytes)), at_const(full, zl_mul(own, size)),
           (size_t)bytes);
    ZL_TRY(finish(state, err));
    const zr_reduce_args sum = {
        .count = count,
        .stride = count,
        .pieces = (uint32_t)comm->ranks,
        .piece_dtype = dtype,
        .out_dtype = dtype,
        .in = comm->scratch,
        .out = at(shard, zl_mul(begin, size)),
        .scale = 1.0f,
    };
    const zl_status status = zr_reduce(&sum, NULL);
    return status == ZL_OK ? ZL_OK : zl_fail(err, status, "the sum over ranks was refused");
}

static zl_status mpi_reduce_scatter(zr_comm *comm, const void *full, void *shard, uint64_t count,
                                    zl_dtype dtype, zl_err *err)
{
    const uint64_t row = zl_mul(comm->ranks, zl_dtype_size(dtype));
    const uint64_t room = row == 0 ? 0 : zl_min(comm->scratch_bytes, largest_message) / row;
    if (comm->scratch == NULL || room == 0) {
        return zl_fail(err, ZL_E_BUG,
                       "a reduction over %" PRIu64 " ranks needs scratch; there are %" PRIu64
                       " bytes of it",
                       comm->ranks, comm->scratch_bytes);
    }
    for (uint64_t begin = 0; begin < count; begin += room) {
        const uint64_t part = zl_min(room, count - begin);
        ZL_TRY(reduce_chunk(comm, full, shard, begin, part, count, dtype, err));
    }
    return ZL_OK;
}

/* Bytes [begin, begin + count) of every rank's piece. */
static zl_status gather_chunk(zr_comm *comm, void *full, uint64_t begin, uint64_t count,
                              uint64_t piece, zl_err *err)
{
    mpi_state *const state = comm->state;
    for (uint64_t k = 1; k < comm->ranks; k++) {
        const uint64_t r = (comm->rank + comm->ranks - k) % comm->ranks;
        void *const into = at(full, zl_add(zl_mul(r, piece), begin));
        ZL_TRY(post_receive(state, into, count, r, err));
    }
    const void *const own = at_const(full, zl_add(zl_mul(comm->rank, piece), begin));
    for (uint64_t k = 1; k < comm->ranks; k++) {
        ZL_TRY(post_send(state, own, count, (comm->rank + k) % comm->ranks, err));
    }
    return finish(state, err);
}

static zl_status mpi_all_gather(zr_comm *comm, const void *shard, void *full, uint64_t bytes,
                                zl_err *err)
{
    unsigned char *const own = at(full, zl_mul(comm->rank, bytes));
    if (own != shard) {
        memcpy(own, shard, (size_t)bytes);
    }
    for (uint64_t begin = 0; begin < bytes; begin += largest_message) {
        const uint64_t part = zl_min(largest_message, bytes - begin);
        ZL_TRY(gather_chunk(comm, full, begin, part, bytes, err));
    }
    return ZL_OK;
}

static zl_status mpi_exchange(zr_comm *comm, void *table, uint64_t bytes, zl_err *err)
{
    return mpi_all_gather(comm, at(table, zl_mul(comm->rank, bytes)), table, bytes, err);
}

static zl_status mpi_sum(zr_comm *comm, double *value, zl_err *err)
{
    mpi_state *const state = comm->state;
    ZL_TRY(check(MPI_Allgather(value, 1, MPI_DOUBLE, state->value, 1, MPI_DOUBLE, MPI_COMM_WORLD),
                 "MPI_Allgather", err));
    double sum = 0.0;
    for (uint64_t r = 0; r < comm->ranks; r++) {
        sum += state->value[r];
    }
    *value = sum;
    return ZL_OK;
}

static zl_status mpi_barrier(zr_comm *comm, zl_err *err)
{
    (void)comm;
    return check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier", err);
}

static void mpi_stop(zr_comm *comm, int code)
{
    (void)comm;
    MPI_Abort(MPI_COMM_WORLD, code);
}

static void mpi_release(zr_comm *comm)
{
    mpi_state *const state = comm->state;
    free(state->request);
    free(state->value);
    free(state);
    MPI_Finalize();
}

static zl_status start(const zr_comm *comm, zl_err *err)
{
    int done = 0;
    ZL_TRY(check(MPI_Initialized(&done), "MPI_Initialized", err));
    if (!done) {
        ZL_TRY(check(MPI_Init(NULL, NULL), "MPI_Init", err));
    }
    ZL_TRY(check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
                 "MPI_Comm_set_errhandler", err));
    int rank = -1;
    int ranks = -1;
    ZL_TRY(check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank", err));
    ZL_TRY(check(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size", err));
    if ((uint64_t)rank != comm->rank || (uint64_t)ranks != comm->ranks) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "MPI says rank %d of %d, the launcher said %" PRIu64 " of %" PRIu64
                       "; start the job with the mpirun of the MPI that zl-train was built with",
                       rank, ranks, comm->rank, comm->ranks);
    }
    return ZL_OK;
}

zl_status zr_comm_open_ranks(zr_comm *comm, zl_err *err)
{
    static const zr_transport mpi = {
        .release = mpi_release,
        .reduce_scatter = mpi_reduce_scatter,
        .all_gather = mpi_all_gather,
        .exchange = mpi_exchange,
        .sum = mpi_sum,
        .barrier = mpi_barrier,
        .stop = mpi_stop,
    };
    if (comm->ranks > INT_MAX / 2) {
        return zl_fail(err, ZL_E_USAGE, "%" PRIu64 " ranks are more than MPI counts", comm->ranks);
    }
    ZL_TRY(start(comm, err));
    mpi_state *const state = calloc(1, sizeof(*state));
    if (state != NULL) {
        state->request = calloc((size_t)comm->ranks, 2 * sizeof(MPI_Request));
        state->value = calloc((size_t)comm->ranks, sizeof(double));
    }
    if (state == NULL || state->request == NULL || state->value == NULL) {
        if (state != NULL) {
            free(state->request);
            free(state->value);
        }
        free(state);
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the communicator");
    }
    comm->transport = &mpi;
    comm->state = state;
    return ZL_OK;
}

zl_status zr_comm_can_join(zl_err *err)
{
    (void)err;
    return ZL_OK;
}

/* The launcher ends the others. */
void zr_comm_decline(uint64_t rank, uint64_t ranks, zl_status status)
{
    (void)rank;
    (void)ranks;
    (void)status;
}
