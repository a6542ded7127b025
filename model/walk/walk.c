/* Section 3 of docs/schedule.md: micro-steps, reduce, step, publish, eval and save, in the order of
 * the page. */
#include "walk/walk.h"

#include <inttypes.h>

#include "walk/walk_state.h"
#include "zeroledger/bytes.h"

/* Temporaries exist once at a time, so they need no owner. */
static const uint64_t nobody = 0;
static const uint64_t optimizer_steps =
    3; /* one cold, two steady: the second has to repeat the first */

static zl_visit micro_step_visit(const zl_walk_state *w)
{
    if (w->cold) {
        return w->later ? ZL_VISIT_COLD_LATER : ZL_VISIT_COLD;
    }
    return w->later ? ZL_VISIT_STEADY_LATER : ZL_VISIT_STEADY;
}

/* step, publish, eval and save occur once per optimizer step and in no micro-step: cold or steady.
 */
static zl_visit step_visit(const zl_walk_state *w)
{
    return w->cold ? ZL_VISIT_COLD : ZL_VISIT_STEADY;
}

static uint64_t shard_elements(const zl_walk_state *w, uint64_t unit)
{
    return zl_exact_div(zl_walk_unit_elements(w, unit), w->ranks);
}

static void land(zl_walk_state *w, uint64_t unit)
{
    if (w->later) {
        zl_walk_drop(w, ZL_BUF_REDUCE_LANDING, unit);
    }
    w->landed[unit] = 1;
}

static void acquire_gradient(zl_walk_state *w, uint64_t unit)
{
    if (w->run->stage < 2) {
        if (!w->later) {
            zl_walk_alloc(w, ZL_BUF_GRAD_UNIT, unit,
                          zl_prod(zl_walk_unit_elements(w, unit), w->grad_size));
        }
        return;
    }
    if (unit == 0 || unit == w->head_unit) {
        if (!w->landed[unit]) {
            land(w, unit);
        }
        return;
    }
    const uint64_t slot = (w->layers - unit) % w->slots;
    const uint64_t holder = w->holder[slot];
    if (holder != 0 && !w->landed[holder]) {
        land(w, holder);
    }
    w->holder[slot] = unit;
}

static void issue_reduction(zl_walk_state *w, uint64_t unit)
{
    if (w->run->stage < 2) {
        return;
    }
    zl_walk_alloc(w, w->later ? ZL_BUF_REDUCE_LANDING : ZL_BUF_GRAD_SHARD, unit,
                  zl_prod(shard_elements(w, unit), w->grad_size));
    w->landed[unit] = 0;
}

static void alloc_batch(zl_walk_state *w)
{
    zl_walk_alloc(w, ZL_BUF_INPUT_TOKENS, nobody, zl_prod(w->batch, w->tokens, 4));
    zl_walk_alloc(w, ZL_BUF_INPUT_TARGETS, nobody, zl_prod(w->batch, w->tokens, 4));
    if (w->bert) {
        zl_walk_alloc(w, ZL_BUF_INPUT_TYPES, nobody, zl_prod(w->batch, w->tokens, 4));
        zl_walk_alloc(w, ZL_BUF_INPUT_LENGTHS, nobody, zl_prod(w->batch, 4));
    }
    if (w->pooler) {
        zl_walk_alloc(w, ZL_BUF_INPUT_NEXT, nobody, zl_prod(w->batch, 4));
    }
}

static void drop_batch(zl_walk_state *w)
{
    zl_walk_drop(w, ZL_BUF_INPUT_TOKENS, nobody);
    zl_walk_drop(w, ZL_BUF_INPUT_TARGETS, nobody);
    if (w->bert) {
        zl_walk_drop(w, ZL_BUF_INPUT_TYPES, nobody);
        zl_walk_drop(w, ZL_BUF_INPUT_LENGTHS, nobody);
    }
    if (w->pooler) {
        zl_walk_drop(w, ZL_BUF_INPUT_NEXT, nobody);
    }
}

static void head_forward(zl_walk_state *w)
{
    const uint64_t stream = zl_prod(w->rows, w->width, w->compute_size);  /* (R,C) */
    const uint64_t pooled = zl_prod(w->batch, w->width, w->compute_size); /* (B,C) */
    const uint64_t chunk = w->run->head_chunk == 0 ? w->rows : zl_min(w->run->head_chunk, w->rows);
    const uint64_t losses = w->pooler ? zl_add(w->rows, w->batch) : w->rows;

    acquire_gradient(w, w->head_unit);
    if (w->run->model.tied) {
        acquire_gradient(w, 0);
    }
    if (w->pooler) {
        zl_walk_alloc(w, ZL_BUF_ACT_POOLED, nobody, pooled);
    }
    if (w->bert) {
        zl_walk_alloc(w, ZL_BUF_ACT_HEAD_PRE, nobody, stream);
        zl_walk_alloc(w, ZL_BUF_ACT_HEAD_POST, nobody, stream);
    }
    zl_walk_alloc(w, ZL_BUF_ACT_LNF_STATS, nobody, zl_prod(w->rows, w->stats, 4));
    zl_walk_alloc(w, ZL_BUF_ACT_LNF, nobody, stream);
    zl_walk_alloc(w, ZL_BUF_TEMP_DHEAD, nobody, stream);
    zl_walk_alloc(w, ZL_BUF_TEMP_LOSSES, nobody, zl_prod(losses, 4));
    zl_walk_alloc(w, ZL_BUF_LOGITS_TOKENS, nobody, zl_prod(chunk, w->vocab, w->compute_size));
    if (w->pooler) {
        zl_walk_alloc(w, ZL_BUF_LOGITS_NEXT, nobody, zl_prod(w->batch, 2, w->compute_size));
        zl_walk_alloc(w, ZL_BUF_TEMP_DPOOLED, nobody, pooled);
    }
    zl_walk_drop(w, ZL_BUF_LOGITS_TOKENS, nobody);
    zl_walk_drop(w, ZL_BUF_TEMP_LOSSES, nobody);
    if (w->pooler) {
        zl_walk_drop(w, ZL_BUF_LOGITS_NEXT, nobody);
    }
}

static void forward(zl_walk_state *w)
{
    zl_walk_enter(w, micro_step_visit(w), ZL_PHASE_FORWARD);
    alloc_batch(w);
    if (w->bert) {
        zl_walk_alloc(w, ZL_BUF_ACT_EMBED, nobody, zl_prod(w->rows, w->width, w->compute_size));
        zl_walk_alloc(w, ZL_BUF_ACT_EMBED_STATS, nobody, zl_prod(w->rows, 2, 4));
    }
    zl_walk_residual_alloc(w, 1);
    for (uint64_t unit = 1; unit <= w->layers; unit++) {
        zl_walk_block_forward(w, unit);
    }
    head_forward(w);
    zl_walk_leave(w);
}

static void head_backward(zl_walk_state *w)
{
    zl_walk_alloc(w, ZL_BUF_TEMP_DRESIDUAL, nobody, zl_prod(w->rows, w->width, w->compute_size));
    zl_walk_drop(w, ZL_BUF_TEMP_DHEAD, nobody);
    if (w->pooler) {
        zl_walk_drop(w, ZL_BUF_TEMP_DPOOLED, nobody);
        zl_walk_drop(w, ZL_BUF_ACT_POOLED, nobody);
    }
    zl_walk_drop(w, ZL_BUF_ACT_LNF, nobody);
    zl_walk_drop(w, ZL_BUF_ACT_LNF_STATS, nobody);
    if (w->bert) {
        zl_walk_drop(w, ZL_BUF_ACT_HEAD_POST, nobody);
        zl_walk_drop(w, ZL_BUF_ACT_HEAD_PRE, nobody);
    }
    zl_walk_residual_drop(w, w->head_unit);
    issue_reduction(w, w->head_unit);
}

static void embedding_backward(zl_walk_state *w)
{
    if (!w->run->model.tied) {
        acquire_gradient(w, 0);
    }
    zl_walk_drop(w, ZL_BUF_TEMP_DRESIDUAL, nobody);
    if (w->bert) {
        zl_walk_drop(w, ZL_BUF_ACT_EMBED, nobody);
        zl_walk_drop(w, ZL_BUF_ACT_EMBED_STATS, nobody);
    }
    drop_batch(w);
    issue_reduction(w, 0);
}

static void backward(zl_walk_state *w)
{
    zl_walk_enter(w, micro_step_visit(w), ZL_PHASE_BACKWARD);
    head_backward(w);
    for (uint64_t unit = w->layers; unit >= 1; unit--) {
        acquire_gradient(w, unit);
        if (w->full) {
            zl_walk_block_recompute(w, unit);
        }
        zl_walk_block_backward(w, unit);
        zl_walk_block_drop_saved(w, unit);
        zl_walk_residual_drop(w, unit);
        issue_reduction(w, unit);
    }
    embedding_backward(w);
    zl_walk_leave(w);
}

static void reduce(zl_walk_state *w)
{
    zl_walk_enter(w, micro_step_visit(w), ZL_PHASE_REDUCE);
    for (uint64_t unit = 0; unit <= w->head_unit; unit++) {
        if (!w->landed[unit]) {
            land(w, unit);
        }
    }
    zl_walk_leave(w);
}

static void step(zl_walk_state *w)
{
    zl_walk_enter(w, step_visit(w), ZL_PHASE_STEP);
    if (w->run->clip > 0.0) {
        zl_walk_alloc(w, ZL_BUF_TEMP_NORM, nobody, zl_prod(w->ranks, zl_add(w->layers, 2), 8));
        zl_walk_drop(w, ZL_BUF_TEMP_NORM, nobody);
    }
    for (uint64_t unit = 0; w->cold && unit <= w->head_unit; unit++) {
        const uint64_t elements =
            w->run->stage == 0 ? zl_walk_unit_elements(w, unit) : shard_elements(w, unit);
        zl_walk_alloc(w, ZL_BUF_OPT_EXP_AVG, unit, zl_prod(elements, w->state_size));
        if (w->run->optimizer == ZL_OPTIMIZER_ADAMW) {
            zl_walk_alloc(w, ZL_BUF_OPT_EXP_AVG_SQ, unit, zl_prod(elements, w->state_size));
        }
    }
    for (uint64_t unit = 0; unit <= w->head_unit; unit++) {
        zl_walk_drop(w, w->run->stage < 2 ? ZL_BUF_GRAD_UNIT : ZL_BUF_GRAD_SHARD, unit);
    }
    zl_walk_leave(w);
}

static void publish(zl_walk_state *w)
{
    zl_walk_enter(w, step_visit(w), ZL_PHASE_PUBLISH);
    zl_walk_leave(w);
}

static void eval_embedding(zl_walk_state *w)
{
    const uint64_t stream = zl_prod(w->rows, w->width, w->compute_size); /* (R,C) */
    if (w->bert) {
        zl_walk_alloc(w, ZL_BUF_ACT_EMBED, nobody, stream);
        zl_walk_alloc(w, ZL_BUF_ACT_EMBED_STATS, nobody, zl_prod(w->rows, 2, 4));
    }
    zl_walk_residual_alloc(w, 1);
    if (w->bert) {
        zl_walk_drop(w, ZL_BUF_ACT_EMBED, nobody);
        zl_walk_drop(w, ZL_BUF_ACT_EMBED_STATS, nobody);
    }
}

static void eval_head_alloc(zl_walk_state *w)
{
    const uint64_t stream = zl_prod(w->rows, w->width, w->compute_size); /* (R,C) */
    const uint64_t chunk = w->run->head_chunk == 0 ? w->rows : zl_min(w->run->head_chunk, w->rows);
    const uint64_t losses = w->pooler ? zl_add(w->rows, w->batch) : w->rows;

    if (w->pooler) {
        zl_walk_alloc(w, ZL_BUF_ACT_POOLED, nobody, zl_prod(w->batch, w->width, w->compute_size));
    }
    if (w->bert) {
        zl_walk_alloc(w, ZL_BUF_ACT_HEAD_PRE, nobody, stream);
        zl_walk_alloc(w, ZL_BUF_ACT_HEAD_POST, nobody, stream);
    }
    zl_walk_alloc(w, ZL_BUF_ACT_LNF_STATS, nobody, zl_prod(w->rows, w->stats, 4));
    zl_walk_alloc(w, ZL_BUF_ACT_LNF, nobody, stream);
    zl_walk_alloc(w, ZL_BUF_TEMP_LOSSES, nobody, zl_prod(losses, 4));
    zl_walk_alloc(w, ZL_BUF_LOGITS_TOKENS, nobody, zl_prod(chunk, w->vocab, w->compute_size));
    if (w->pooler) {
        zl_walk_alloc(w, ZL_BUF_LOGITS_NEXT, nobody, zl_prod(w->batch, 2, w->compute_size));
    }
}

static void eval_head_drop(zl_walk_state *w)
{
    if (w->pooler) {
        zl_walk_drop(w, ZL_BUF_ACT_POOLED, nobody);
        zl_walk_drop(w, ZL_BUF_LOGITS_NEXT, nobody);
    }
    if (w->bert) {
        zl_walk_drop(w, ZL_BUF_ACT_HEAD_PRE, nobody);
        zl_walk_drop(w, ZL_BUF_ACT_HEAD_POST, nobody);
    }
    zl_walk_drop(w, ZL_BUF_ACT_LNF_STATS, nobody);
    zl_walk_drop(w, ZL_BUF_ACT_LNF, nobody);
    zl_walk_drop(w, ZL_BUF_TEMP_LOSSES, nobody);
    zl_walk_drop(w, ZL_BUF_LOGITS_TOKENS, nobody);
    zl_walk_residual_drop(w, w->head_unit);
}

/* Blocks run without dropout and free nothing before their end, whatever the run's recompute mode;
 * with the three options off, section 4 does just that and names every residual act.residual. */
static void eval(zl_walk_state *w)
{
    const bool dropout = w->dropout;
    const bool selective = w->selective;
    const bool full = w->full;
    w->dropout = false;
    w->selective = false;
    w->full = false;
    zl_walk_enter(w, step_visit(w), ZL_PHASE_EVAL);
    alloc_batch(w);
    eval_embedding(w);
    for (uint64_t unit = 1; unit <= w->layers; unit++) {
        zl_walk_block_forward(w, unit);
        zl_walk_block_drop_saved(w, unit);
        zl_walk_residual_drop(w, unit);
    }
    eval_head_alloc(w);
    eval_head_drop(w);
    drop_batch(w);
    zl_walk_leave(w);
    w->dropout = dropout;
    w->selective = selective;
    w->full = full;
}

static void save(zl_walk_state *w)
{
    zl_walk_enter(w, step_visit(w), ZL_PHASE_SAVE);
    zl_walk_leave(w);
}

/* Between optimizer steps only what init and the cold step made may be live. */
static void check_nothing_left(zl_walk_state *w)
{
    for (int i = 0; i < ZL_BUF_COUNT; i++) {
        const zl_buf buf = (zl_buf)i;
        const zl_kind kind = zl_buf_kind(buf);
        const bool of_the_step = kind == ZL_KIND_GRAD || kind == ZL_KIND_ACT ||
                                 kind == ZL_KIND_ACT_CKPT || kind == ZL_KIND_TEMP ||
                                 kind == ZL_KIND_LOGITS || kind == ZL_KIND_INPUT ||
                                 kind == ZL_KIND_COMM_REDUCE;
        const uint64_t live = w->live[ZL_REQUESTED][buf];
        if (of_the_step && live != 0 && !zl_poisoned(live)) {
            zl_walk_broken(w, buf, nobody, "is left behind");
        }
    }
}

/* The micro-step that follows; whole rounds that would only repeat what was are left out. */
static uint64_t next_micro_step(zl_walk_state *w, uint64_t micro, uint64_t last)
{
    const uint64_t round = w->watch != NULL ? w->watch->round(w->watch->context) : 0;
    if (round > 0 && micro < last) {
        return last - (last - micro - 1) % round;
    }
    if (w->status == ZL_OK && micro < last && zl_prod(w->layers, micro) > zl_walk_most_blocks) {
        w->status = zl_fail(w->err, ZL_E_UNMODELLED,
                            "after %" PRIu64 " micro-steps memory never looks as it did", micro);
    }
    return w->status == ZL_OK ? micro + 1 : last + 1;
}

static void optimizer_step(zl_walk_state *w)
{
    const uint64_t last = w->run->accumulation - 1;
    for (uint64_t micro = 0; micro <= last; micro = next_micro_step(w, micro, last)) {
        w->later = micro > 0;
        forward(w);
        backward(w);
        if (w->run->stage >= 2 || micro == last) {
            reduce(w);
        }
    }
    step(w);
    if (w->run->stage == 1 || w->run->stage == 2) {
        publish(w);
    }
    if (w->run->eval) {
        eval(w);
    }
    if (w->run->save) {
        save(w);
    }
    check_nothing_left(w);
}

static zl_status walk_all(zl_walk_state *w)
{
    zl_walk_init(w);
    for (uint64_t i = 0; i < optimizer_steps && w->status == ZL_OK; i++) {
        w->cold = i == 0;
        optimizer_step(w);
    }
    ZL_TRY(w->status);
    return zl_ledger_check(w->ledger, w->err);
}

/* All that a walk needs, for one of its purposes. */
static zl_status perform(zl_walk_state *w, const zl_walk_watch *watch, zl_walk_mutation *mutation,
                         zl_ledger *ledger, zl_err *err)
{
    ledger->origin = ZL_ORIGIN_WALKED;
    ledger->granule = 256;
    ZL_TRY(zl_walk_state_init(w, &ledger->run, watch, ledger, err));
    w->mutation = mutation;
    mutation->events = 0;
    return walk_all(w);
}

zl_status zl_walk_mutant(const zl_run *run, uint64_t rank, zl_walk_mutation *mutation,
                         zl_ledger *out, zl_err *err)
{
    if (rank >= run->ranks) {
        return zl_fail(err, ZL_E_USAGE, "rank must be below %" PRIu64 ", got %" PRIu64, run->ranks,
                       rank);
    }
    zl_ledger *ledger = zl_ledger_new();
    if (ledger == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for a ledger");
    }
    ledger->run = *run;
    ledger->rank = rank;
    zl_walk_state w = {0};
    const zl_status status = perform(&w, NULL, mutation, ledger, err);
    if (status == ZL_OK) {
        *out = *ledger;
    }
    zl_walk_state_release(&w);
    zl_ledger_free(ledger);
    return status;
}

zl_status zl_walk(const zl_run *run, uint64_t rank, zl_ledger *out, zl_err *err)
{
    zl_walk_mutation none = {0};
    return zl_walk_mutant(run, rank, &none, out, err);
}

zl_status zl_walk_watched(const zl_run *run, const zl_walk_watch *watch, zl_err *err)
{
    zl_ledger *ledger = zl_ledger_new();
    if (ledger == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for a ledger");
    }
    ledger->run = *run;
    zl_walk_state w = {0};
    zl_walk_mutation none = {0};
    const zl_status status = perform(&w, watch, &none, ledger, err);
    zl_walk_state_release(&w);
    zl_ledger_free(ledger);
    return status;
}
