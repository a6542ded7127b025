/* One rank alone: every collective is a copy, or nothing. It may be one of N that are not there
 * (loopback): then the pieces of the others are copies of its own. */
#include <string.h>

#include "comm/transport.h"
#include "zeroledger/bytes.h"

static void local_release(zr_comm *comm)
{
    (void)comm;
}

static unsigned char *at(void *base, uint64_t offset)
{
    return (unsigned char *)base + offset;
}

static zl_status local_reduce_scatter(zr_comm *comm, const void *full, void *shard, uint64_t count,
                                      zl_dtype dtype, zl_err *err)
{
    const uint64_t bytes = zl_mul(count, zl_dtype_size(dtype));
    const unsigned char *const own = (const unsigned char *)full + zl_mul(comm->rank, bytes);
    return own == shard ? ZL_OK : zr_lane_copy(comm->lane, shard, own, bytes, err);
}

/* What is there is copied behind itself until all N pieces are there. */
static zl_status local_all_gather(zr_comm *comm, const void *shard, void *full, uint64_t bytes,
                                  zl_err *err)
{
    if (shard != full) {
        ZL_TRY(zr_lane_copy(comm->lane, full, shard, bytes, err));
    }
    uint64_t pieces = 1;
    while (pieces < comm->ranks) {
        const uint64_t more = zl_min(pieces, comm->ranks - pieces);
        ZL_TRY(zr_lane_copy(comm->lane, at(full, zl_mul(pieces, bytes)), full, zl_mul(more, bytes),
                            err));
        pieces += more;
    }
    return ZL_OK;
}

static zl_status local_exchange(zr_comm *comm, void *table, uint64_t bytes, zl_err *err)
{
    (void)err;
    const unsigned char *const own = at(table, zl_mul(comm->rank, bytes));
    for (uint64_t r = 0; r < comm->ranks; r++) {
        if (r != comm->rank) {
            memcpy(at(table, zl_mul(r, bytes)), own, (size_t)bytes);
        }
    }
    return ZL_OK;
}

static zl_status local_sum(zr_comm *comm, double *value, zl_err *err)
{
    (void)err;
    *value *= (double)comm->ranks;
    return ZL_OK;
}

static zl_status local_barrier(zr_comm *comm, zl_err *err)
{
    (void)comm;
    (void)err;
    return ZL_OK;
}

static void local_stop(zr_comm *comm, int code)
{
    (void)comm;
    (void)code;
}

zl_status zr_comm_open_local(zr_comm *comm, zl_err *err)
{
    static const zr_transport local = {
        .release = local_release,
        .reduce_scatter = local_reduce_scatter,
        .all_gather = local_all_gather,
        .exchange = local_exchange,
        .sum = local_sum,
        .barrier = local_barrier,
        .stop = local_stop,
    };
    (void)err;
    comm->transport = &local;
    return ZL_OK;
}
