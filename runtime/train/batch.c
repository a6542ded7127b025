/* One micro-batch on the host, and what its numbers promise. */
#include <inttypes.h>

#include "train/state.h"
#include "zeroledger/bytes.h"

/* One stretch of memory: three words a token, two a sequence. */
static zl_status open_inlet(const zr_dims *d, zr_inlet *inlet, zl_err *err)
{
    const uint64_t words = zl_add(zl_mul(3, d->R), zl_mul(2, d->B));
    ZL_TRY(zr_mark_new(&inlet->sent, err));
    ZL_TRY(zr_stage_new(zl_mul(sizeof(int32_t), words), &inlet->ids, err));
    int32_t *const ids = inlet->ids;
    inlet->batch = (zr_batch){
        .tokens = ids,
        .targets = ids + d->R,
        .types = ids + 2 * d->R,
        .lengths = ids + 3 * d->R,
        .next = ids + 3 * d->R + d->B,
    };
    return ZL_OK;
}

zl_status zr_batch_new(zr_engine *engine, zl_err *err)
{
    for (unsigned i = 0; i < ZR_INLETS; i++) {
        ZL_TRY(open_inlet(&engine->net.dim, &engine->inlet[i], err));
    }
    engine->batch = engine->inlet[0].batch;
    return ZL_OK;
}

void zr_batch_release(zr_engine *engine)
{
    for (unsigned i = 0; i < ZR_INLETS; i++) {
        zr_stage_free(engine->inlet[i].ids);
        zr_mark_free(engine->inlet[i].sent);
        engine->inlet[i] = (zr_inlet){.ids = NULL};
    }
    engine->batch = (zr_batch){0};
}

zl_status zr_batch_turn(zr_engine *engine, zl_err *err)
{
    const zr_inlet *inlet = &engine->inlet[++engine->turn % ZR_INLETS];
    ZL_TRY(zr_news_wait_for(engine, inlet->sent, err));
    engine->batch = inlet->batch;
    return ZL_OK;
}

zl_status zr_batch_sent(zr_engine *engine, zl_err *err)
{
    return zr_mark_set(engine->inlet[engine->turn % ZR_INLETS].sent, engine->net.stream, err);
}

static zl_status check_ids(const char *what, const int32_t *ids, uint64_t count, int64_t low,
                           uint64_t limit, zl_err *err)
{
    for (uint64_t i = 0; i < count; i++) {
        if (ids[i] < low || ids[i] >= (int64_t)limit) {
            return zl_fail(err, ZL_E_INPUT,
                           "%s %" PRId32 " at element %" PRIu64 " is outside %" PRId64 "..%" PRIu64,
                           what, ids[i], i, low, limit - 1);
        }
    }
    return ZL_OK;
}

static zl_status check_values(const zr_engine *engine, zl_err *err)
{
    const zr_dims *d = &engine->net.dim;
    const zl_model *model = &engine->options.run->model;
    const zr_batch *b = &engine->batch;
    ZL_TRY(check_ids("token", b->tokens, d->R, 0, d->V, err));
    ZL_TRY(check_ids("target", b->targets, d->R, INT32_MIN, d->V, err));
    if (model->family == ZL_FAMILY_BERT) {
        ZL_TRY(check_ids("token type", b->types, d->R, 0, d->Y, err));
        ZL_TRY(check_ids("length", b->lengths, d->B, 1, zl_add(d->T, 1), err));
    }
    return model->pooler ? check_ids("next-sentence label", b->next, d->B, 0, 2, err) : ZL_OK;
}

zl_status zr_batch_count(const zr_engine *engine, uint64_t *targets, zl_err *err)
{
    ZL_TRY(check_values(engine, err));
    uint64_t count = 0;
    for (uint64_t i = 0; i < engine->net.dim.R; i++) {
        count += engine->batch.targets[i] >= 0;
    }
    *targets = count;
    return ZL_OK;
}

/* The number of loss tokens of the step is known from its first micro-step only if all have equally
 * many. */
zl_status zr_batch_check(zr_engine *engine, zl_err *err)
{
    uint64_t count;
    ZL_TRY(zr_batch_count(engine, &count, err));
    if (engine->micro == 0) {
        engine->targets = count;
    }
    if (count == 0 || count != engine->targets) {
        return zl_fail(
            err, ZL_E_INPUT,
            "every micro-batch of every rank needs equally many loss tokens, at least 1: "
            "got %" PRIu64 " here, %" PRIu64 " in the first",
            count, engine->targets);
    }
    return ZL_OK;
}

double zr_batch_targets(const zr_engine *engine)
{
    return (double)zl_prod(engine->targets, engine->zero.ranks, engine->options.run->accumulation);
}

double zr_batch_pairs(const zr_engine *engine)
{
    return (double)zl_prod(engine->net.dim.B, engine->zero.ranks,
                           engine->options.run->accumulation);
}
