/* The arena of the cuda backend, block by block: docs/schedule.md, section 6, replayed over the
 * requests of the walk. zl_predict_arena is its size; who watches sees where every buffer lies.
 */
#ifndef ZL_DEVICE_ARENA_H
#define ZL_DEVICE_ARENA_H

#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/ledger.h"
#include "zeroledger/run.h"
#include "zeroledger/vocab.h"

/* A buffer that is allocated or freed; owner tells buffers of one name apart (a unit, a slot). */
typedef struct zl_arena_block {
    zl_buf buffer;
    uint64_t owner;
    uint64_t bytes[ZL_RUNG_COUNT];
    uint64_t offset; /* in the arena */
} zl_arena_block;

/* Who is told, in the order of the schedule. */
typedef struct zl_arena_watch {
    void (*grow)(void *context, uint64_t offset, uint64_t bytes); /* taken from the system */
    void (*alloc)(void *context, const zl_arena_block *block);
    void (*drop)(void *context, const zl_arena_block *block);
    void (*enter)(void *context, zl_visit visit, zl_phase phase);
    void (*leave)(void *context, zl_phase phase);
    void *context; /* borrowed */
} zl_arena_watch;

/* As zl_predict_arena; watch may be NULL. Owners are 0 .. layers + 1. Of micro-steps that repeat
 * earlier ones exactly whole rounds are left out. */
ZL_NODISCARD zl_status zl_arena_watched(const zl_run *run, zl_placement placement,
                                        const zl_arena_watch *watch, uint64_t *bytes, zl_err *err);

#endif
