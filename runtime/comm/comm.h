/* Collectives between data-parallel ranks, deterministic: a reduction adds the ranks' contributions
 * in rank order in fp32 and rounds once, so results do not depend on the transport.
 *
 * Host transport: MPI for N > 1, plain copies for N = 1. An operation is issued and later waited for;
 * on the host it may be finished when issue returns. Between the two nobody touches its buffers.
 */
#ifndef ZR_COMM_H
#define ZR_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/vocab.h"

typedef struct zr_comm zr_comm;

/* Whether this program can run more than one rank. */
bool zr_comm_has_mpi(void);

/* Collective over all ranks of the job. Caller frees *out. */
ZL_NODISCARD zl_status zr_comm_new(uint64_t rank, uint64_t ranks, zr_comm **out, zl_err *err);
void zr_comm_free(zr_comm *comm);

uint64_t zr_comm_rank(const zr_comm *comm);
uint64_t zr_comm_ranks(const zr_comm *comm);

/* Scratch of the ordered reduction (host, N > 1): borrowed memory of `bytes` bytes. */
void zr_comm_set_scratch(zr_comm *comm, void *scratch, uint64_t bytes);

/* full: N x count elements. shard: count elements, receives the sum over ranks of piece `rank`; it may be the
 * rank's own piece inside full (in place). */
ZL_NODISCARD zl_status zr_comm_reduce_scatter(zr_comm *comm, const void *full, void *shard, uint64_t count,
                                              zl_dtype dtype, zl_err *err);

/* shard: count elements of this rank. full: N x count elements; the rank's own piece may be shard (in place). */
ZL_NODISCARD zl_status zr_comm_all_gather(zr_comm *comm, const void *shard, void *full, uint64_t bytes_per_rank,
                                          zl_err *err);

/* Waits for every issued operation (no-op where issue is synchronous). */
ZL_NODISCARD zl_status zr_comm_wait(zr_comm *comm, zl_err *err);

/* Sum of one double over ranks in rank order; the same value on every rank. For losses and statistics, not tensors. */
ZL_NODISCARD zl_status zr_comm_sum(zr_comm *comm, double *value, zl_err *err);
ZL_NODISCARD zl_status zr_comm_barrier(zr_comm *comm, zl_err *err);

/* Ends the whole job with the message on stderr; does not return. */
void zr_comm_abort(zr_comm *comm, const zl_err *err) __attribute__((noreturn));

#endif
