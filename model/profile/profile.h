/* A profile describes how one framework spends memory around a family's tape. */
#ifndef ZL_PROFILE_H
#define ZL_PROFILE_H

#include <stdbool.h>

#include "family/family.h"
#include "predict/account.h"
#include "zeroledger/run.h"

/* Everything of a run that lives and dies together, derived once per prediction: bags to take into
 * moments. */
typedef struct zl_plan {
    const zl_run *run;
    zl_dims dims;
    zl_instant next_born;
    uint32_t covered;            /* bit i: another instant of the same pass has at least as much */
    zl_bag kept;                 /* saved activations of one block */
    zl_bag at[ZL_INSTANT_COUNT]; /* what else a block has live at an instant */
    zl_bag input;                /* the batch */
    zl_bag embed;                /* what the embedding saved */
    zl_bag head[4];              /* at the logits, the loss, in backward, at the logits of eval */
    zl_bag residual;             /* one residual stream, or checkpoint */
    zl_bag dresidual;            /* its gradient */
    zl_bag rest;                 /* lives from init to the end of the run */
    zl_bag states;               /* optimizer state */
    zl_bag grad[ZL_UNIT_COUNT];  /* gradients at rest of one unit */
    zl_bag landing[ZL_UNIT_COUNT]; /* where a later micro-step's gradients of one unit land */
    zl_bag norm;
    zl_bag eval_at[ZL_AT_FWD_DONE]; /* what a block has live at a forward instant of eval */
    zl_bag eval_residual;
    zl_book book; /* last: a plan begins with zeros, but for the entries of its book */
} zl_plan;

typedef struct zl_profile {
    uint64_t granule; /* of the allocator */
    /* Fills the bags that the framework, not the family, decides. */
    void (*plan)(zl_plan *plan);
    bool (*occurs)(const zl_run *run, zl_visit visit, zl_phase phase);
    /* Closes the moments of one visit in program order. */
    void (*account)(const zl_plan *plan, zl_visit visit, zl_phase phase, zl_account *acc);
} zl_profile;

extern const zl_profile zl_profile_native;

const zl_profile *zl_profile_get(zl_framework framework);

static inline bool zl_visit_is_first(zl_visit visit)
{
    return visit == ZL_VISIT_COLD || visit == ZL_VISIT_STEADY;
}

static inline bool zl_visit_is_cold(zl_visit visit)
{
    return visit == ZL_VISIT_COLD || visit == ZL_VISIT_COLD_LATER;
}

#endif
