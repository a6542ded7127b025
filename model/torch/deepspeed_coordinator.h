/* Which parameters stage 3 of DeepSpeed gathers and releases, and when: its
 * PartitionedParameterCoordinator (runtime/zero/partitioned_param_coordinator.py, since 0.6.0) as a
 * state machine over module entries and exits. It knows element counts, no memory: gathering,
 * waiting and freeing are calls to whoever uses it.
 *
 *     zt_coordinator *coordinator = zt_coordinator_new(modules, module_count, param_count, &limits,
 * &calls, context); zt_coordinator_reset(trace);                       // the root is called
 *     zt_coordinator_enter(trace, module);               // before a module's forward or backward
 *     zt_coordinator_exit(trace, module);                // after it
 *
 * The first pass records; later ones prefetch. Indices are those of the arrays handed in.
 */
#ifndef ZT_DEEPSPEED_COORDINATOR_H
#define ZT_DEEPSPEED_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zt_coordinator zt_coordinator;

/* Element counts of zero_optimization. */
typedef struct zt_coordinator_limits {
    uint64_t prefetch; /* stage3_prefetch_bucket_size */
    uint64_t live;     /* stage3_max_live_parameters */
    uint64_t reuse;    /* stage3_max_reuse_distance */
} zt_coordinator_limits;

/* Own parameters of a module, in order of registration of the parameters. */
typedef struct zt_coordinator_module {
    const uint32_t *param;
    uint32_t params;
} zt_coordinator_module;

typedef struct zt_coordinator_param {
    uint64_t elements;
    bool persists; /* never released by a module's exit */
} zt_coordinator_param;

typedef struct zt_coordinator_calls {
    /* One asynchronous gather of a set of parameters, in order of registration. */
    void (*gather)(void *context, const uint32_t *param, size_t count);
    void (*wait)(void *context, uint32_t param); /* for one that is in flight */
    void (*release)(void *context, uint32_t param);
} zt_coordinator_calls;

/* Borrows the arrays. Caller frees; NULL if memory ran out. */
zt_coordinator *zt_coordinator_new(const zt_coordinator_module *module, uint32_t modules,
                                   const zt_coordinator_param *param, uint32_t params,
                                   zt_coordinator_limits limits, zt_coordinator_calls calls,
                                   void *context);
void zt_coordinator_free(zt_coordinator *c);

/* One forward and backward is complete: the record becomes the trace. */
void zt_coordinator_reset(zt_coordinator *c);
/* Fetches what the module owns, waits for it, prefetches what comes next. */
void zt_coordinator_enter(zt_coordinator *c, uint32_t module, bool backward);
/* Releases what the module owns and nobody needs soon. */
void zt_coordinator_exit(zt_coordinator *c, uint32_t module);
/* Releases what modules own whose backward has begun and never ended. */
void zt_coordinator_leftovers(zt_coordinator *c);
/* Releases everything. */
void zt_coordinator_release_all(zt_coordinator *c);
/* Notes that parameters were gathered outside of the trace, as after a step. */
void zt_coordinator_gathered(zt_coordinator *c, uint32_t param);

/* Whether a parameter is gathered or in flight; the sum of elements of those that are. */
bool zt_coordinator_present(const zt_coordinator *c, uint32_t param);
uint64_t zt_coordinator_elements(const zt_coordinator *c);

#endif
