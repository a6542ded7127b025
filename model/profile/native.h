/* The native schedule (docs/schedule.md) in two halves: what rests (native.c) and what passes
 * (native_pass.c). */
#ifndef ZL_NATIVE_H
#define ZL_NATIVE_H

#include "profile/profile.h"

/* How far the gradients of one micro-step have come. */
typedef struct zl_progress {
    bool head_acquired, head_issued;
    uint64_t blocks_acquired, blocks_issued; /* in backward order */
    bool embed_acquired, embed_issued;
} zl_progress;

/* Takes gradients at rest and landings, given the progress of a first or a later micro-step. */
void zl_native_gradients(const zl_plan *p, bool first, zl_progress at, zl_account *acc);
/* Takes all gradients at rest, every reduction landed. */
void zl_native_all_gradients(const zl_plan *p, zl_account *acc);

/* `states`: whether optimizer state exists. */
void zl_native_forward(const zl_plan *p, bool first, bool states, zl_account *acc);
void zl_native_eval(const zl_plan *p, zl_account *acc);
void zl_native_backward(const zl_plan *p, bool first, bool states, zl_account *acc);

#endif
