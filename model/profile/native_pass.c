/* Forward, backward and eval of the native schedule: which blocks and instants can hold the peak,
 * and what is live there. */
#include "profile/native.h"

/* One pass of one micro-step. */
typedef struct pass {
    const zl_plan *p;
    bool first;
    bool states;
    zl_progress at;
    zl_account *acc;
} pass;

/* Starts a moment: what rests, gradients as far as they have come, the batch and what the embedding
 * saved, `residuals` block inputs, `kept` blocks' saved activations. */
static void begin(const pass *s, uint64_t residuals, uint64_t kept)
{
    zl_begin(s->acc);
    zl_take(s->acc, &s->p->rest, 1);
    zl_take(s->acc, &s->p->states, s->states);
    zl_native_gradients(s->p, s->first, s->at, s->acc);
    zl_take(s->acc, &s->p->input, 1);
    zl_take(s->acc, &s->p->embed, 1);
    zl_take(s->acc, &s->p->residual, residuals);
    zl_take(s->acc, &s->p->kept, kept);
}

/* The bare start or end of a pass: no batch. */
static void close_bare(const pass *s, const char *where, const char *what)
{
    zl_begin(s->acc);
    zl_take(s->acc, &s->p->rest, 1);
    zl_take(s->acc, &s->p->states, s->states);
    zl_native_gradients(s->p, s->first, s->at, s->acc);
    zl_close_moment(s->acc, where, what);
}

/* Where only the peak is wanted, an instant that another one covers can be passed over. */
static bool passed_over(const pass *s, int at)
{
    return zl_only_peaks(s->acc) && (s->p->covered >> at & 1) != 0;
}

/* Saved bytes grow with every block, so the last block holds the maximum of every instant. */
static void last_block_forward(const pass *s)
{
    const zl_plan *p = s->p;
    const uint64_t l = p->dims.n[dim_L] - 1;
    begin(s, l + 1, l);
    zl_keep(s->acc);
    for (int at = ZL_AT_FWD_QKV; at < ZL_AT_FWD_DONE; at++) {
        if (!passed_over(s, at)) {
            zl_take(s->acc, &p->at[at], 1);
            zl_take(s->acc, &p->residual, at >= (int)p->next_born);
            zl_close_moment(s->acc, "last block", zl_instant_text((zl_instant)at));
        }
    }
    begin(s, l + 2, l + 1);
    zl_close_moment(s->acc, "last block", zl_instant_text(ZL_AT_FWD_DONE));
}

static void acquire_head(pass *s)
{
    s->at.head_acquired = true;
    s->at.embed_acquired = s->p->run->model.tied;
}

void zl_native_forward(const zl_plan *p, bool first, bool states, zl_account *acc)
{
    const uint64_t layers = p->dims.n[dim_L];
    pass s = {p, first, states, {0}, acc};
    close_bare(&s, "", "entry");
    last_block_forward(&s);
    acquire_head(&s);
    begin(&s, layers + 1, layers);
    zl_keep(acc);
    zl_take(acc, &p->head[0], 1);
    zl_close_moment(acc, "head", "logits of a chunk");
    zl_take(acc, &p->head[1], 1);
    zl_close_moment(acc, "head", "loss known");
}

static void head_backward(pass *s)
{
    const zl_plan *p = s->p;
    const uint64_t layers = p->dims.n[dim_L];
    acquire_head(s);
    begin(s, layers + 1, layers);
    zl_keep(s->acc);
    zl_take(s->acc, &p->head[1], 1);
    zl_close_moment(s->acc, "", "entry");
    zl_take(s->acc, &p->head[2], 1);
    zl_take(s->acc, &p->dresidual, 1);
    zl_close_moment(s->acc, "head", "norm backward");
    s->at.head_issued = true;
    begin(s, layers, layers);
    zl_take(s->acc, &p->dresidual, 1);
    zl_close_moment(s->acc, "head", "gradients handed to the reduction");
}

/* The j-th block in backward order, blocks 0 .. l-1 waiting for their backward. */
static void block_backward(pass *s, uint64_t j)
{
    const zl_plan *p = s->p;
    const uint64_t l = p->dims.n[dim_L] - 1 - j;
    const char *where = j == 0 ? "last block" : l == 0 ? "first block" : "a block between";
    s->at.blocks_acquired = j + 1;
    s->at.blocks_issued = j;
    begin(s, l + 1, l + 1);
    zl_take(s->acc, &p->dresidual, 1);
    zl_keep(s->acc);
    for (int at = ZL_AT_REDO_ATTN; at < ZL_AT_BWD_DONE; at++) {
        if (!passed_over(s, at)) {
            zl_take(s->acc, &p->at[at], 1);
            zl_close_moment(s->acc, where, zl_instant_text((zl_instant)at));
        }
    }
    s->at.blocks_issued = j + 1;
    begin(s, l, l);
    zl_take(s->acc, &p->dresidual, 1);
    zl_close_moment(s->acc, where, zl_instant_text(ZL_AT_BWD_DONE));
}

static void embed_backward(pass *s)
{
    s->at.embed_acquired = true;
    begin(s, 0, 0);
    zl_take(s->acc, &s->p->dresidual, 1);
    zl_close_moment(s->acc, "embedding", "backward");
    s->at.embed_issued = true;
    close_bare(s, "embedding", "gradients handed to the reduction");
}

/* Going down the blocks, saved bytes fall, gradients grow, and in later micro-steps landings grow
 * until the slots are used up: every buffer and every total is affine in the block between these
 * knots, so no other block can hold a maximum that one of them does not. */
void zl_native_backward(const zl_plan *p, bool first, bool states, zl_account *acc)
{
    const uint64_t layers = p->dims.n[dim_L];
    const uint64_t slots = p->dims.n[dim_reduce_slots];
    const uint64_t knot[] = {0, first ? 0 : slots - 1, first ? 0 : slots, layers - 1};
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

/* Every block keeps its own buffers until its end and hands on one residual: all blocks are alike.
 */
void zl_native_eval(const zl_plan *p, zl_account *acc)
{
    const pass s = {p, true, true, {0}, acc};
    close_bare(&s, "", "entry");
    zl_begin(acc);
    zl_take(acc, &p->rest, 1);
    zl_take(acc, &p->states, 1);
    zl_take(acc, &p->input, 1);
    zl_take(acc, &p->eval_residual, 1);
    zl_keep(acc);
    zl_take(acc, &p->embed, 1);
    zl_close_moment(acc, "embedding", "forward");
    for (int at = ZL_AT_FWD_QKV; at < ZL_AT_FWD_DONE; at++) {
        zl_take(acc, &p->eval_at[at], 1);
        zl_take(acc, &p->eval_residual, at >= (int)p->next_born);
        zl_close_moment(acc, "block", zl_instant_text((zl_instant)at));
    }
    zl_take(acc, &p->head[3], 1);
    zl_close_moment(acc, "head", "logits of a chunk");
    close_bare(&s, "", "end");
}
