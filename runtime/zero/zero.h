/* The sharded storage of one rank: parameters, master weights, gradients, optimizer states, and the
 * slots through which stage 2 and 3 see whole units. It decides which memory exists and who moves
 * bytes between ranks; it does not know what a unit computes.
 *
 *     ZL_TRY(zr_gather_use(zero, u, err));            // store[u].weights is the whole unit
 *     ZL_TRY(zr_grad_acquire(zero, u, first, err));   // store[u].dweights accumulates its gradient
 *     ... kernels ...
 *     ZL_TRY(zr_grad_issue(zero, u, first, last, err));
 *
 * Units are numbered in the order of the forward: 0 the embedding, 1 to L the blocks, L + 1 the
 * head.
 */
#ifndef ZR_ZERO_ZERO_H
#define ZR_ZERO_ZERO_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "kernel/kernel.h"
#include "track/track.h"
#include "zero/unit.h"
#include "zeroledger/run.h"

/* What this rank keeps of one unit. */
typedef struct zr_store {
    const zr_unit *unit;
    uint64_t first_tensor; /* number of its first tensor in the whole model */
    zr_mem param;          /* param.unit or param.shard */
    zr_mem master;
    zr_mem grad; /* grad.unit or grad.shard */
    zr_mem landing;
    zr_mem exp_avg;
    zr_mem exp_avg_sq;
    uint64_t
        published;  /* number of the operation that spreads its update; 0: nothing to wait for */
    void *weights;  /* the whole unit in the compute type; NULL while it is not gathered */
    void *dweights; /* the whole unit's gradient; NULL while it is not acquired */
} zr_store;

#define ZR_NO_UNIT UINT64_MAX

typedef struct zr_slot {
    zr_mem mem;
    zr_mem input;    /* gather.input */
    uint64_t holds;  /* the unit in it, or ZR_NO_UNIT */
    uint64_t issued; /* number of the operation that fills or empties it */
    bool pending;    /* not yet waited for */
} zr_slot;

typedef struct zr_zero {
    const zl_run *run;
    zr_track *track;
    zr_comm *comm;
    zr_stream *stream;
    zr_profile *profile; /* borrowed; NULL: none */
    zl_dtype dtype;      /* compute */
    zl_dtype gdtype;     /* gradient */
    zl_dtype sdtype;     /* state */
    bool master;         /* fp32 master weights exist */
    uint64_t rank;
    uint64_t ranks;
    uint64_t seed;
    uint64_t units; /* L + 2 */
    zr_unit embed;
    zr_unit block;
    zr_unit head;
    zr_store *store; /* (L + 2) */
    zr_slot *gather; /* embedding, head, then gather_blocks */
    uint64_t gather_blocks;
    zr_slot *reduce; /* embedding, head, then reduce_blocks */
    uint64_t reduce_blocks;
} zr_zero;

/* The caller has set run to stream, rank, ranks, seed and described the three units (not closed);
 * the rest is derived. Allocates the bookkeeping, no tensor. */
ZL_NODISCARD zl_status zr_zero_init(zr_zero *zero, zl_err *err);
/* Steps 3 to 5 of the init phase: parameters, gather slots, reduce slots. */
ZL_NODISCARD zl_status zr_zero_build(zr_zero *zero, zl_err *err);
void zr_zero_release(zr_zero *zero);

/* Address of a tensor inside the gathered unit or its gradient; NULL if the unit has no such
 * tensor. */
void *zr_zero_weight(const zr_zero *zero, uint64_t u, zr_role role);
void *zr_zero_gradient(const zr_zero *zero, uint64_t u, zr_role role);

/* base + elements of a type: address arithmetic on memory that nobody reads here. */
void *zr_zero_at(void *base, uint64_t elements, zl_dtype dtype);

/* The stretch of unit u that this rank updates: all of it in stage 0, else its shard. */
typedef struct zr_range {
    uint64_t begin;
    uint64_t end;
} zr_range;
zr_range zr_zero_owned(const zr_zero *zero, uint64_t u);

/* Stages 0 to 2: the unit is there, once its update has arrived. Stage 3: gathers it unless its
 * slot holds it, and waits. */
ZL_NODISCARD zl_status zr_gather_use(zr_zero *zero, uint64_t u, zl_err *err);
/* Stage 3: issues the gathers of the next W units upwards, or downwards to the first block. */
ZL_NODISCARD zl_status zr_gather_ahead(zr_zero *zero, uint64_t u, bool upwards, zl_err *err);
/* The parameters have changed: slots hold nothing any more. */
void zr_gather_forget(zr_zero *zero);
/* Stages 1, 2: issues the all-gather of the updated units in place; zr_gather_use waits for each.
 */
ZL_NODISCARD zl_status zr_gather_publish(zr_zero *zero, zl_err *err);

/* Memory for the gradient of unit u, zeroed in its first use of a step (stages 0, 1) or micro-step.
 */
ZL_NODISCARD zl_status zr_grad_acquire(zr_zero *zero, uint64_t u, bool first, zl_err *err);
/* The gradient of unit u is complete in this micro-step. */
ZL_NODISCARD zl_status zr_grad_issue(zr_zero *zero, uint64_t u, bool first, bool last, zl_err *err);
/* Lands every reduction that has not landed. */
ZL_NODISCARD zl_status zr_grad_land_all(zr_zero *zero, zl_err *err);
/* This rank's shard of the reduced gradient, in every stage. */
void *zr_grad_shard(const zr_zero *zero, uint64_t u);
void zr_grad_free_all(zr_zero *zero);

/* Allocates and zeroes the optimizer states of every unit. */
ZL_NODISCARD zl_status zr_zero_states(zr_zero *zero, zl_err *err);

/* What a checkpoint holds of each unit: master weights or, without them, parameters; and the
 * states. The same elements in every stage. */
typedef enum zr_part {
    ZR_PART_WEIGHTS,
    ZR_PART_EXP_AVG,
    ZR_PART_EXP_AVG_SQ, /* AdamW */
    ZR_PART_COUNT
} zr_part;

uint64_t zr_part_count(const zr_zero *zero);
zl_dtype zr_part_dtype(const zr_zero *zero, zr_part part);
/* Where this rank has an element of what it owns of unit u; NULL if the states do not exist yet. */
void *zr_part_at(const zr_zero *zero, uint64_t u, zr_part part, uint64_t element);
/* The parts have been written: everything that follows from them follows. Collective. */
ZL_NODISCARD zl_status zr_part_settle(zr_zero *zero, zl_err *err);

/* Sum over all parameters of a mix of value and position: independent of stage and ranks. Fails if
 * the ranks' whole units differ. */
ZL_NODISCARD zl_status zr_zero_hash(zr_zero *zero, uint64_t *hash, zl_err *err);

/* A kernel's status with a sentence: kernels have none of their own. */
ZL_NODISCARD zl_status zr_did(zl_status status, const char *kernel, zl_err *err);

#endif
