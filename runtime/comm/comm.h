/* Collectives between data-parallel ranks, deterministic.
 *
 * Host: MPI for N > 1, plain copies for N = 1. A reduction adds the ranks' contributions in rank
 * order in fp32 and rounds once. Device: NCCL for N > 1, which adds in the type of the elements,
 * along its ring: the same bits in every run, and for two ranks those of the host.
 *
 * An operation is issued and later waited for; on the host it may be finished when issue returns.
 * Between the two nobody touches its buffers. On a device issue and wait only queue: an operation
 * begins after everything that computes at its issue, and what computes after the wait comes after
 * it. Memory that an operation uses may be given back once it has been waited for.
 */
#ifndef ZR_COMM_H
#define ZR_COMM_H

#include <stdint.h>

#include "comm/meeting.h"
#include "device/profile.h"
#include "kernel/kernel.h"
#include "zeroledger/error.h"
#include "zeroledger/vocab.h"

typedef struct zr_comm zr_comm;

/* ZL_E_RESOURCE, with the remedy, if this program cannot run more than one rank. */
ZL_NODISCARD zl_status zr_comm_can_join(zl_err *err);

/* Collective over all ranks of the job. Caller frees *out. */
ZL_NODISCARD zl_status zr_comm_new(uint64_t rank, uint64_t ranks, zr_comm **out, zl_err *err);
/* A communicator of one rank among N that are not there: every collective moves as many bytes,
 * between the same buffers, and what would come from others is a copy of the own. For measuring
 * memory. */
ZL_NODISCARD zl_status zr_comm_new_loopback(uint64_t rank, uint64_t ranks, zr_comm **out,
                                            zl_err *err);
void zr_comm_free(zr_comm *comm);

/* Device: the queue whose work collectives are ordered with. Before the first collective. */
ZL_NODISCARD zl_status zr_comm_attach(zr_comm *comm, zr_stream *compute, zl_err *err);

/* Operations become regions of the profile's communication track. Borrowed; NULL: of none. Before
 * zr_comm_attach. */
void zr_comm_set_profile(zr_comm *comm, zr_profile *profile);
/* What the next operation is about, in the profile: a literal, and the number of a unit. */
void zr_comm_label(zr_comm *comm, const char *what, uint64_t number);

uint64_t zr_comm_rank(const zr_comm *comm);
uint64_t zr_comm_ranks(const zr_comm *comm);

/* Borrowed memory of `bytes` bytes for N > 1. Host: scratch of the ordered reduction. Device:
 * through it go the numbers of the host, at least one double of each rank. */
void zr_comm_set_scratch(zr_comm *comm, void *scratch, uint64_t bytes);

/* full: N x count elements. shard: count elements, receives the sum over ranks of piece `rank`; it
 * may be the rank's own piece inside full (in place). */
ZL_NODISCARD zl_status zr_comm_reduce_scatter(zr_comm *comm, const void *full, void *shard,
                                              uint64_t count, zl_dtype dtype, zl_err *err);

/* shard: count elements of this rank. full: N x count elements; the rank's own piece may be shard
 * (in place). */
ZL_NODISCARD zl_status zr_comm_all_gather(zr_comm *comm, const void *shard, void *full,
                                          uint64_t bytes_per_rank, zl_err *err);

/* Waits for every issued operation (no-op where issue is synchronous). */
ZL_NODISCARD zl_status zr_comm_wait(zr_comm *comm, zl_err *err);
/* The number of the operation issued last, and a wait for that one and all before it. */
uint64_t zr_comm_issued(const zr_comm *comm);
ZL_NODISCARD zl_status zr_comm_wait_for(zr_comm *comm, uint64_t issued, zl_err *err);

/* All-gather of host memory: table has N words of `bytes` bytes, this rank's own filled in;
 * complete at return. For words, not tensors. On a device it begins after everything that computes,
 * because computing may use the scratch. */
ZL_NODISCARD zl_status zr_comm_exchange(zr_comm *comm, void *table, uint64_t bytes, zl_err *err);
/* The same for a caller who knows that nothing queued uses the scratch: it waits for the operations
 * issued before, and not for what computes. */
ZL_NODISCARD zl_status zr_comm_exchange_now(zr_comm *comm, void *table, uint64_t bytes,
                                            zl_err *err);

/* Sum of one double over ranks in rank order; the same value on every rank. For losses and
 * statistics, not tensors. */
ZL_NODISCARD zl_status zr_comm_sum(zr_comm *comm, double *value, zl_err *err);
ZL_NODISCARD zl_status zr_comm_barrier(zr_comm *comm, zl_err *err);

/* ZL_E_RESOURCE if it is known that an operation issued before cannot finish, because another rank
 * or the way to it has failed. Waits for nothing: for loops that wait. */
ZL_NODISCARD zl_status zr_comm_check(const zr_comm *comm, zl_err *err);

/* What this rank is doing, for others to say if it dies. Borrowed for the communicator's life. */
void zr_comm_show(zr_comm *comm, const zr_activity *activity);
/* This rank of a job has no communicator and will not have one: the others need not wait for it. */
void zr_comm_decline(uint64_t rank, uint64_t ranks, zl_status status);

/* Says what failed on this rank, which has no communicator yet, tells the others, and ends it with
 * that status; one rank alone just returns it. */
zl_status zr_comm_give_up(uint64_t rank, uint64_t ranks, const zl_err *err);

/* Ends the whole job with the message on stderr; does not return. */
void zr_comm_abort(zr_comm *comm, const zl_err *err) __attribute__((noreturn));

#endif
