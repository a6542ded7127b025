/* The table of live buffers that the walk keeps, and the events that change it. Private to the
 * walk.
 *
 *     zl_walk_enter(w, ZL_VISIT_COLD, ZL_PHASE_FORWARD);
 *     zl_walk_alloc(w, ZL_BUF_ACT_QKV, unit, zl_prod(w->rows, w->packed, w->compute_size));
 *     zl_walk_drop(w, ZL_BUF_ACT_QKV, unit);
 *     zl_walk_leave(w);
 *
 * Events return nothing: the first thing that goes wrong stays in `status`, which is read once at
 * the end.
 */
#ifndef ZL_WALK_STATE_H
#define ZL_WALK_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "walk/walk.h"
#include "zeroledger/error.h"
#include "zeroledger/ledger.h"
#include "zeroledger/run.h"
#include "zeroledger/vocab.h"

typedef struct zl_walk_state {
    const zl_run *run;
    zl_err *err;
    zl_status status;

    /* The letters of the schedule. */
    uint64_t batch;     /* B */
    uint64_t tokens;    /* T */
    uint64_t rows;      /* R = B T */
    uint64_t width;     /* C */
    uint64_t heads;     /* H */
    uint64_t head_dim;  /* D */
    uint64_t attn;      /* H D */
    uint64_t packed;    /* Q = (H + 2G) D */
    uint64_t ffn;       /* F */
    uint64_t vocab;     /* V */
    uint64_t positions; /* P */
    uint64_t types;     /* Y */
    uint64_t layers;    /* L */
    uint64_t ranks;     /* N */
    uint64_t stats;     /* numbers per row that a norm keeps: 2, RMSNorm 1 */

    /* Bytes of an element. */
    uint64_t compute_size;
    uint64_t grad_size;
    uint64_t state_size;

    bool bert;
    bool llama;
    bool pooler;
    bool flash;
    bool dropout;
    bool selective;
    bool full;
    bool mixed;
    uint64_t head_unit; /* units: 0 the embedding, 1 .. L the blocks, L + 1 the head */

    /* Where the walk is. */
    bool cold;        /* first optimizer step */
    bool later;       /* a later micro-step */
    uint64_t *landed; /* (L + 2): 0 while a unit's reduction is on its way */
    uint64_t *holder; /* (min(K, L)): the block unit that used the slot last; 0 = none yet */
    uint64_t slots;   /* min(K, L) */

    /* The live table. `held` has one row per buffer: requested bytes by owner, 0 = not live. */
    uint64_t owners;
    uint64_t *held; /* (ZL_BUF_COUNT, owners) */
    uint64_t live[ZL_RUNG_COUNT][ZL_BUF_COUNT];
    uint64_t kind_live[ZL_RUNG_COUNT][ZL_KIND_COUNT];
    uint64_t total[ZL_RUNG_COUNT];

    zl_walk_mutation *mutation; /* counts the allocations */
    const zl_walk_watch *watch; /* or NULL */

    zl_ledger *ledger;
    zl_cell cell; /* the phase that is being walked */
    zl_visit visit;
    zl_phase phase;
} zl_walk_state;

/* Blocks are visited one by one, in every micro-step: with more than this the walk never ends. */
extern const uint64_t zl_walk_most_blocks;

/* Letters, sizes and an empty table; watch may be NULL. The caller releases w, also after a
 * failure. */
ZL_NODISCARD zl_status zl_walk_state_init(zl_walk_state *w, const zl_run *run,
                                          const zl_walk_watch *watch, zl_ledger *ledger,
                                          zl_err *err);
void zl_walk_state_release(zl_walk_state *w);

/* A phase begins with what is live; leaving compares with an earlier visit of the same cell. */
void zl_walk_enter(zl_walk_state *w, zl_visit visit, zl_phase phase);
void zl_walk_leave(zl_walk_state *w);

/* One buffer of `bytes` requested bytes; owner tells buffers of one name apart. */
void zl_walk_alloc(zl_walk_state *w, zl_buf buf, uint64_t owner, uint64_t bytes);
void zl_walk_drop(zl_walk_state *w, zl_buf buf, uint64_t owner);
bool zl_walk_live(const zl_walk_state *w, zl_buf buf, uint64_t owner);

/* Records a broken promise of the schedule. */
void zl_walk_broken(zl_walk_state *w, zl_buf buf, uint64_t owner, const char *what);

/* walk_block.c: the residual entering a unit, and section 4. */
void zl_walk_residual_alloc(zl_walk_state *w, uint64_t unit);
void zl_walk_residual_drop(zl_walk_state *w, uint64_t unit);
void zl_walk_block_forward(zl_walk_state *w, uint64_t unit);
void zl_walk_block_recompute(zl_walk_state *w, uint64_t unit);
void zl_walk_block_backward(zl_walk_state *w, uint64_t unit);
void zl_walk_block_drop_saved(zl_walk_state *w, uint64_t unit);

/* walk_unit.c: section 1 in elements, section 2 as events. */
uint64_t zl_walk_unit_elements(const zl_walk_state *w, uint64_t unit);
void zl_walk_init(zl_walk_state *w);

#endif
