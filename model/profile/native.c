#include "profile/native.h"

#include "zeroledger/bytes.h"

static bool is_mixed(const zl_run *run)
{
    return run->precision == ZL_PRECISION_BF16_MIXED || run->precision == ZL_PRECISION_FP16_MIXED;
}

/* Letters of a unit's elements: whole, or this rank's share. */
static const uint8_t whole[ZL_UNIT_COUNT] = {dim_unit_embed, dim_unit_block, dim_unit_head};
static const uint8_t share[ZL_UNIT_COUNT] = {dim_shard_embed, dim_shard_block, dim_shard_head};

/* One buffer per unit, blocks as often as `blocks` says. */
static void emit_units(zl_plan *p, zl_bag *bag, zl_buf buffer, const uint8_t *elements,
                       zl_dim blocks, zl_dim element)
{
    zl_emit(&p->book, bag, buffer, dim_one, ZL_FORM(elements[ZL_UNIT_EMBED], (uint8_t)element));
    zl_emit(&p->book, bag, buffer, blocks, ZL_FORM(elements[ZL_UNIT_BLOCK], (uint8_t)element));
    zl_emit(&p->book, bag, buffer, dim_one, ZL_FORM(elements[ZL_UNIT_HEAD], (uint8_t)element));
}

static void emit_const_and_work(zl_plan *p)
{
    zl_emit(&p->book, &p->rest, ZL_BUF_CONST_SCALARS, dim_one, ZL_FORM(dim_scalars, dim_f64));
    if (p->run->model.family == ZL_FAMILY_LLAMA) {
        zl_emit(&p->book, &p->rest, ZL_BUF_CONST_ROPE, dim_one, ZL_FORM(dim_T, dim_D, dim_f32));
    }
    if (p->run->backend == ZL_BACKEND_CUDA) {
        zl_emit(&p->book, &p->rest, ZL_BUF_WORK_CUDA_GEMM, dim_one, ZL_FORM(dim_workspace));
        zl_emit(&p->book, &p->rest, ZL_BUF_WORK_CUDA_SUMS, dim_one, ZL_FORM(dim_sums, dim_f64));
        return;
    }
    if (p->run->precision != ZL_PRECISION_FP32) {
        zl_emit(&p->book, &p->rest, ZL_BUF_WORK_HOST_GEMM, dim_one,
                ZL_FORM(dim_three, dim_tile, dim_tile, dim_f32));
    }
    if (p->run->ranks > 1) {
        zl_emit(&p->book, &p->rest, ZL_BUF_WORK_HOST_REDUCE, dim_one, ZL_FORM(dim_mib));
    }
}

static void emit_parameters(zl_plan *p, const uint8_t *owned)
{
    if (p->run->stage < 3) {
        emit_units(p, &p->rest, ZL_BUF_PARAM_UNIT, whole, dim_L, dim_e);
    } else if (p->run->shard_copy) {
        emit_units(p, &p->rest, ZL_BUF_PARAM_SHARD, share, dim_L, dim_e);
    }
    if (is_mixed(p->run)) {
        emit_units(p, &p->rest, ZL_BUF_MASTER_WEIGHTS, owned, dim_L, dim_f32);
    }
}

/* Stage 3 gathers into slots; the embedding and the head have their own. Without the shard copy
 * each slot has an input beside it, cast from the master shard. */
static void emit_gather_slots(zl_plan *p)
{
    zl_emit(&p->book, &p->rest, ZL_BUF_GATHER_EMBED, dim_one, ZL_FORM(dim_unit_embed, dim_e));
    zl_emit(&p->book, &p->rest, ZL_BUF_GATHER_BLOCK, dim_gather_slots,
            ZL_FORM(dim_unit_block, dim_e));
    zl_emit(&p->book, &p->rest, ZL_BUF_GATHER_HEAD, dim_one, ZL_FORM(dim_unit_head, dim_e));
    if (!p->run->shard_copy) {
        emit_units(p, &p->rest, ZL_BUF_GATHER_INPUT, share, dim_gather_slots, dim_e);
    }
}

/* Stages 2 and 3 reduce out of slots; stages 0 and 1 reduce in place. */
static void emit_reduce_slots(zl_plan *p)
{
    zl_emit(&p->book, &p->rest, ZL_BUF_GRAD_SLOT_EMBED, dim_one, ZL_FORM(dim_unit_embed, dim_g));
    zl_emit(&p->book, &p->rest, ZL_BUF_GRAD_SLOT_BLOCK, dim_reduce_slots,
            ZL_FORM(dim_unit_block, dim_g));
    zl_emit(&p->book, &p->rest, ZL_BUF_GRAD_SLOT_HEAD, dim_one, ZL_FORM(dim_unit_head, dim_g));
}

/* Gradients of each unit: whole in stages 0 and 1, else a shard, and a landing of the same size. */
static void emit_gradients(zl_plan *p)
{
    const bool full = p->run->stage < 2;
    for (int u = 0; u < ZL_UNIT_COUNT; u++) {
        zl_emit(&p->book, &p->grad[u], full ? ZL_BUF_GRAD_UNIT : ZL_BUF_GRAD_SHARD, dim_one,
                ZL_FORM(full ? whole[u] : share[u], dim_g));
        if (!full) {
            zl_emit(&p->book, &p->landing[u], ZL_BUF_REDUCE_LANDING, dim_one,
                    ZL_FORM(share[u], dim_g));
        }
    }
}

/* What the schedule, not the family, keeps around the loss. */
static void emit_head(zl_plan *p)
{
    const zl_form stream = ZL_FORM(dim_B, dim_T, dim_C, dim_e);
    const zl_form losses = ZL_FORM(dim_losses, dim_f32);
    const zl_form rows = ZL_FORM(dim_B, dim_T, dim_f32);
    const bool pooler = p->run->model.pooler;
    const bool chunked = p->dims.n[dim_M] != zl_mul(p->run->micro_batch, p->run->seq);
    const zl_form logits =
        chunked ? ZL_FORM(dim_M, dim_V, dim_e) : ZL_FORM(dim_B, dim_T, dim_V, dim_e);
    const uint8_t dhead = zl_write(&p->book, ZL_BUF_TEMP_DHEAD, dim_one, stream);
    for (int i = 0; i < 3; i++) {
        zl_put(&p->book, &p->head[i], dhead);
    }
    const uint8_t passing[] = {
        zl_write(&p->book, ZL_BUF_TEMP_LOSSES, dim_one, pooler ? losses : rows),
        zl_write(&p->book, ZL_BUF_LOGITS_TOKENS, dim_one, logits),
    };
    for (size_t i = 0; i < sizeof passing; i++) {
        zl_put(&p->book, &p->head[0], passing[i]);
        zl_put(&p->book, &p->head[3], passing[i]);
    }

    const bool full = p->run->recompute == ZL_RECOMPUTE_FULL;
    zl_emit(&p->book, &p->residual, full ? ZL_BUF_CKPT_RESIDUAL : ZL_BUF_ACT_RESIDUAL, dim_one,
            stream);
    zl_emit(&p->book, &p->eval_residual, ZL_BUF_ACT_RESIDUAL, dim_one, stream);
    zl_emit(&p->book, &p->dresidual, ZL_BUF_TEMP_DRESIDUAL, dim_one, stream);
}

static void plan(zl_plan *p)
{
    const zl_run *run = p->run;
    const uint8_t *owned = run->stage == 0 ? whole : share;
    emit_const_and_work(p);
    emit_parameters(p, owned);
    if (run->stage == 3) {
        emit_gather_slots(p);
    }
    if (run->stage >= 2) {
        emit_reduce_slots(p);
    }
    emit_gradients(p);
    emit_units(p, &p->states, ZL_BUF_OPT_EXP_AVG, owned, dim_L, dim_s);
    if (run->optimizer == ZL_OPTIMIZER_ADAMW) {
        emit_units(p, &p->states, ZL_BUF_OPT_EXP_AVG_SQ, owned, dim_L, dim_s);
    }
    if (run->clip > 0) {
        zl_emit(&p->book, &p->norm, ZL_BUF_TEMP_NORM, dim_one, ZL_FORM(dim_N, dim_units, dim_f64));
    }
    emit_head(p);
}

void zl_native_all_gradients(const zl_plan *p, zl_account *acc)
{
    zl_take(acc, &p->grad[ZL_UNIT_EMBED], 1);
    zl_take(acc, &p->grad[ZL_UNIT_BLOCK], p->dims.n[dim_L]);
    zl_take(acc, &p->grad[ZL_UNIT_HEAD], 1);
}

/* In the first micro-step gradients at rest appear: whole units when acquired, shards when issued.
 * A later micro-step finds them all; its shards go to landings, which live until their slot is
 * needed again: acquiring the j-th block lands the (j - K)-th. */
void zl_native_gradients(const zl_plan *p, bool first, zl_progress at, zl_account *acc)
{
    const bool full = p->run->stage < 2;
    const zl_bag *bag = first ? p->grad : p->landing;
    uint64_t blocks = full ? at.blocks_acquired : at.blocks_issued;
    if (!first) {
        zl_native_all_gradients(p, acc);
        const uint64_t slots = p->dims.n[dim_reduce_slots];
        blocks = at.blocks_issued - (at.blocks_acquired > slots ? at.blocks_acquired - slots : 0);
    }
    zl_take(acc, &bag[ZL_UNIT_EMBED], full ? at.embed_acquired : at.embed_issued);
    zl_take(acc, &bag[ZL_UNIT_BLOCK], blocks);
    zl_take(acc, &bag[ZL_UNIT_HEAD], full ? at.head_acquired : at.head_issued);
}

static bool occurs(const zl_run *run, zl_visit visit, zl_phase phase)
{
    const bool first = zl_visit_is_first(visit);
    switch (phase) {
    case ZL_PHASE_INIT:
        return visit == ZL_VISIT_COLD;
    case ZL_PHASE_FORWARD:
    case ZL_PHASE_BACKWARD:
        return first || run->accumulation > 1;
    case ZL_PHASE_REDUCE:
        if (run->stage >= 2) {
            return first || run->accumulation > 1;
        }
        return first == (run->accumulation == 1); /* once a step, after the last micro-step */
    case ZL_PHASE_STEP:
        return first;
    case ZL_PHASE_PUBLISH:
        return first && (run->stage == 1 || run->stage == 2);
    case ZL_PHASE_EVAL:
        return first && run->eval;
    case ZL_PHASE_SAVE:
        return first && run->save;
    case ZL_PHASE_COUNT:
        break;
    }
    return false;
}

static void begin(const zl_plan *p, bool states, zl_account *acc)
{
    zl_begin(acc);
    zl_take(acc, &p->rest, 1);
    zl_take(acc, &p->states, states);
}

static void reduce(const zl_plan *p, bool first, bool states, zl_account *acc)
{
    const uint64_t layers = p->dims.n[dim_L];
    begin(p, states, acc);
    zl_native_gradients(p, first, (zl_progress){true, true, layers, layers, true, true}, acc);
    zl_close_moment(acc, "", "last reductions under way");
    begin(p, states, acc);
    zl_native_all_gradients(p, acc);
    zl_close_moment(acc, "", "all gradients reduced");
}

static void step(const zl_plan *p, bool states, zl_account *acc)
{
    begin(p, states, acc);
    zl_native_all_gradients(p, acc);
    zl_take(acc, &p->norm, 1);
    zl_close_moment(acc, "", "norm of the gradients");
    begin(p, true, acc);
    zl_native_all_gradients(p, acc);
    zl_close_moment(acc, "", "update");
    begin(p, true, acc);
    zl_close_moment(acc, "", "gradients released");
}

static void account(const zl_plan *p, zl_visit visit, zl_phase phase, zl_account *acc)
{
    const bool first = zl_visit_is_first(visit);
    const bool states = !zl_visit_is_cold(visit);
    switch (phase) {
    case ZL_PHASE_INIT:
        begin(p, false, acc);
        zl_close_moment(acc, "", "everything at rest exists");
        break;
    case ZL_PHASE_FORWARD:
        zl_native_forward(p, first, states, acc);
        break;
    case ZL_PHASE_BACKWARD:
        zl_native_backward(p, first, states, acc);
        break;
    case ZL_PHASE_REDUCE:
        reduce(p, first, states, acc);
        break;
    case ZL_PHASE_STEP:
        step(p, states, acc);
        break;
    case ZL_PHASE_PUBLISH:
    case ZL_PHASE_SAVE:
        begin(p, true, acc);
        zl_close_moment(acc, "", "nothing but what rests");
        break;
    case ZL_PHASE_EVAL:
        zl_native_eval(p, acc);
        break;
    case ZL_PHASE_COUNT:
        break;
    }
}

const zl_profile zl_profile_native = {256, plan, occurs, account};
