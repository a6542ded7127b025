/* What a communicator is inside: sizes that every transport knows, and the transport's functions.
 * Arguments have been checked by comm.c; the meaning of each function is that of comm.h. */
#ifndef ZR_TRANSPORT_H
#define ZR_TRANSPORT_H

#include "comm/comm.h"
#include "comm/lane.h"

typedef struct zr_transport {
    void (*release)(zr_comm *comm); /* everything but the communicator itself */
    /* In the lane, between its begin and its end. */
    zl_status (*reduce_scatter)(zr_comm *comm, const void *full, void *shard, uint64_t count,
                                zl_dtype dtype, zl_err *err);
    zl_status (*all_gather)(zr_comm *comm, const void *shard, void *full, uint64_t bytes,
                            zl_err *err);
    zl_status (*exchange)(zr_comm *comm, void *table, uint64_t bytes, zl_err *err);
    zl_status (*sum)(zr_comm *comm, double *value, zl_err *err);
    zl_status (*barrier)(zr_comm *comm, zl_err *err);
    zl_status (*check)(const zr_comm *comm, zl_err *err);     /* NULL: it would not know */
    void (*show)(zr_comm *comm, const zr_activity *activity); /* NULL: a launcher looks */
    void (*stop)(zr_comm *comm, int code);                    /* ends the other ranks too */
} zr_transport;

struct zr_comm {
    const zr_transport *transport;
    uint64_t rank;
    uint64_t ranks;
    zr_lane *lane;
    uint64_t issued; /* operations so far */
    zr_profile *profile;
    const char *what; /* the next operation is about; NULL: nobody said */
    uint64_t number;
    void *scratch;
    uint64_t scratch_bytes;
    void *state; /* the transport's own */
};

/* Sets transport and state of a communicator that knows its rank and ranks. */
ZL_NODISCARD zl_status zr_comm_open_local(zr_comm *comm, zl_err *err);
/* The backend's transport for N > 1. */
ZL_NODISCARD zl_status zr_comm_open_ranks(zr_comm *comm, zl_err *err);

#endif
