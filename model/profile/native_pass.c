/* Forward and backward of the native schedule: which blocks and instants can hold the peak, and
 * what is live there. */
#include "profile/native.h"

/* One pass of one micro-step. */
typedef struct pass {
    const zl_plan *p;
    bool first;
    bool states;
    zl_progress at;
    zl_account *acc;
} pass;

/* What every moment of a pass has: what rests, and gradients as far as they have come. */
static void take_common(const pass *s)
{
    zl_take(s->acc, &s->p->rest, 1);
    zl_take(s->acc, &s->p->states, s->states);
    zl_native_gradients(s->p, s->first, s->at, s->acc);
}

/* The batch, `residuals` block inputs, `kept` blocks' saved activations. */
static void take_saved(const pass *s, uint64_t residuals, uint64_t kept)
{
    zl_take(s->acc, &s->p->input, 1);
    zl_take(s->acc, &s->p->embed, 1);
    zl_take(s->acc, &s->p->residual, residuals);
    zl_take(s->acc, &s->p->kept, kept);
}

/* An instant of block `l`, blocks 0 .. l-1 waiting for their backward. */
static void close_block(const pass *s, uint64_t l, int at, const char *where)
{
    const zl_plan *p = s->p;
    const bool forward = at <= ZL_AT_FWD_DONE;
    const bool gone = at == ZL_AT_BWD_DONE;
    const bool next_lives = forward && at >= (int)p->next_born;
    const bool holds_kept = at >= ZL_AT_FWD_DONE && !gone;
    take_common(s);
    take_saved(s, l + !gone + next_lives, l + holds_kept);
    zl_take(s->acc, &p->at[at], 1);
    zl_take(s->acc, &p->dresidual, !forward);
    zl_close_moment(s->acc, where, zl_instant_text((zl_instant)at));
}

/* Saved bytes grow with every block, so the last block holds the maximum of every instant. */
void zl_native_forward(const zl_plan *p, bool first, bool states, zl_account *acc)
{
    const uint64_t layers = p->dims.n[dim_L];
    pass s = {p, first, states, {0}, acc};
    take_common(&s);
    zl_close_moment(acc, "", "entry");
    for (int at = ZL_AT_FWD_QKV; at <= ZL_AT_FWD_DONE; at++) {
        close_block(&s, layers - 1, at, "last block");
    }
    s.at.head_acquired = true;
    s.at.embed_acquired = p->run->model.tied;
    for (int i = 0; i < 2; i++) {
        take_common(&s);
        take_saved(&s, layers + 1, layers);
        zl_take(acc, &p->head[i], 1);
        zl_close_moment(acc, "head", i == 0 ? "logits of a chunk" : "loss known");
    }
}

static void head_backward(pass *s)
{
    const uint64_t layers = s->p->dims.n[dim_L];
    s->at.head_acquired = true;
    s->at.embed_acquired = s->p->run->model.tied;
    for (int i = 1; i < 3; i++) {
        take_common(s);
        take_saved(s, layers + 1, layers);
        zl_take(s->acc, &s->p->head[i], 1);
        zl_take(s->acc, &s->p->dresidual, i == 2);
        zl_close_moment(s->acc, i == 1 ? "" : "head", i == 1 ? "entry" : "norm backward");
    }
    s->at.head_issued = true;
    take_common(s);
    take_saved(s, layers, layers);
    zl_take(s->acc, &s->p->dresidual, 1);
    zl_close_moment(s->acc, "head", "gradients handed to the reduction");
}

/* The j-th block in backward order. */
static void block_backward(pass *s, uint64_t j)
{
    const uint64_t l = s->p->dims.n[dim_L] - 1 - j;
    const char *where = j == 0 ? "last block" : l == 0 ? "first block" : "a block between";
    s->at.blocks_acquired = j + 1;
    s->at.blocks_issued = j;
    for (int at = ZL_AT_REDO_ATTN; at < ZL_AT_BWD_DONE; at++) {
        close_block(s, l, at, where);
    }
    s->at.blocks_issued = j + 1;
    close_block(s, l, ZL_AT_BWD_DONE, where);
}

static void embed_backward(pass *s)
{
    s->at.embed_acquired = true;
    take_common(s);
    take_saved(s, 0, 0);
    zl_take(s->acc, &s->p->dresidual, 1);
    zl_close_moment(s->acc, "embedding", "backward");
    s->at.embed_issued = true;
    take_common(s);
    zl_close_moment(s->acc, "embedding", "gradients handed to the reduction");
}

/* Going down the blocks, saved bytes fall, gradients grow, and landings grow until the slots are
 * used up: every buffer and every total is affine in the block between these knots, so no other
 * block can hold a maximum that one of them does not. */
void zl_native_backward(const zl_plan *p, bool first, bool states, zl_account *acc)
{
    const uint64_t layers = p->dims.n[dim_L];
    const uint64_t slots = p->dims.n[dim_reduce_slots];
    const uint64_t knot[] = {0, slots - 1, slots, layers - 1};
    pass s = {p, first, states, {0}, acc};
    head_backward(&s);
    uint64_t next = 0;
    for (size_t k = 0; k < sizeof knot / sizeof knot[0]; k++) {
        if (knot[k] >= next && knot[k] < layers) {
            block_backward(&s, knot[k]);
            next = knot[k] + 1;
        }
    }
    embed_backward(&s);
}

/* An instant of eval: `residuals` streams, and one bag. */
static void close_eval(const zl_plan *p, uint64_t residuals, const zl_bag *bag, zl_account *acc,
                       const char *where, const char *what)
{
    zl_take(acc, &p->rest, 1);
    zl_take(acc, &p->states, 1);
    zl_take(acc, &p->eval_residual, residuals);
    if (bag != NULL) {
        zl_take(acc, &p->input, 1);
        zl_take(acc, bag, 1);
    }
    zl_close_moment(acc, where, what);
}

/* Every block keeps its own buffers until its end and hands on one residual: all blocks are alike.
 */
void zl_native_eval(const zl_plan *p, zl_account *acc)
{
    close_eval(p, 0, NULL, acc, "", "entry");
    close_eval(p, 1, &p->embed, acc, "embedding", "forward");
    for (int at = ZL_AT_FWD_QKV; at < ZL_AT_FWD_DONE; at++) {
        const bool next_lives = at >= (int)p->next_born;
        close_eval(p, UINT64_C(1) + next_lives, &p->eval_at[at], acc, "block",
                   zl_instant_text((zl_instant)at));
    }
    close_eval(p, 1, &p->head[3], acc, "head", "logits of a chunk");
    close_eval(p, 0, NULL, acc, "", "end");
}
