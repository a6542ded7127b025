/* The walk: docs/schedule.md performed event by event, as the independent check of the closed form,
 * and as the sequence of requests that the arena's size follows from.
 *
 * It knows no formula for a peak. It keeps a table of what is live, performs every allocation and
 * every free of the schedule in order, over all blocks and all micro-steps of three optimizer
 * steps, and writes down what it saw. It is written from the schedule alone and stays deliberately
 * dull.
 *
 *     zl_ledger *ledger = zl_ledger_new();
 *     if (zl_walk(&run, 0, ledger, &err) != ZL_OK) { ... err.text ... }
 */
#ifndef ZL_WALK_H
#define ZL_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/ledger.h"
#include "zeroledger/run.h"
#include "zeroledger/vocab.h"

/* Fills every cell that occurs, origin ZL_ORIGIN_WALKED. The run has passed zl_run_check. Overflow
 * is ZL_E_USAGE; ZL_E_BUG if the schedule frees what is not live, leaves a buffer behind, or if two
 * repetitions of one cell differ. */
ZL_NODISCARD zl_status zl_walk(const zl_run *run, uint64_t rank, zl_ledger *out, zl_err *err);

/* A mutant: the same walk with one allocation a granule larger. Only for the test of the test. */
typedef struct zl_walk_mutation {
    uint64_t event;  /* in: number of the allocation, from 1 over the whole walk; 0 = none */
    uint64_t events; /* out: allocations of the walk */
    zl_buf buffer;   /* out: whose allocation was changed */
} zl_walk_mutation;

/* zl_walk with a mutation: a comparison with zl_walk has to notice it, if the mutant does not
 * refuse itself with ZL_E_BUG because repetitions of a cell now differ. */
ZL_NODISCARD zl_status zl_walk_mutant(const zl_run *run, uint64_t rank, zl_walk_mutation *mutation,
                                      zl_ledger *out, zl_err *err);

/* Who is told of every event, in the order of the schedule. `bytes` are what is asked for and what
 * the allocator rounds that up to. */
typedef struct zl_walk_watch {
    void (*alloc)(void *context, zl_buf buf, uint64_t owner, const uint64_t bytes[ZL_RUNG_COUNT]);
    void (*drop)(void *context, zl_buf buf, uint64_t owner, const uint64_t bytes[ZL_RUNG_COUNT]);
    void (*enter)(void *context, zl_visit visit, zl_phase phase);
    void (*leave)(void *context, zl_phase phase);
    /* Asked at the end of every micro-step: how many micro-steps of this optimizer step ago memory
     * looked the same; 0: it never did. Later ones go around in that circle, and the walk leaves
     * out as many whole rounds as there are. */
    uint64_t (*round)(void *context);
    void *context; /* borrowed */
} zl_walk_watch;

/* The walk for its events alone. Owners are 0 .. layers + 1. */
ZL_NODISCARD zl_status zl_walk_watched(const zl_run *run, const zl_walk_watch *watch, zl_err *err);

#endif
