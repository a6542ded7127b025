/* One micro-batch on the host, and what its numbers promise. */
#include <inttypes.h>
#include <stdlib.h>

#include "train/state.h"
#include "zeroledger/bytes.h"

static int32_t *ids_new(uint64_t count)
{
    return calloc(count, sizeof(int32_t));
}

zl_status zr_batch_new(zr_engine *engine, zl_err *err)
{
    const zr_dims *d = &engine->net.dim;
    engine->batch = (zr_batch){
        .tokens = ids_new(d->R),
        .targets = ids_new(d->R),
        .types = ids_new(d->R),
        .lengths = ids_new(d->B),
        .next = ids_new(d->B),
    };
    const zr_batch *b = &engine->batch;
    if (b->tokens == NULL || b->targets == NULL || b->types == NULL || b->lengths == NULL ||
        b->next == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory: host batch of %" PRIu64 " tokens", d->R);
    }
    return ZL_OK;
}

void zr_batch_release(zr_engine *engine)
{
    free(engine->batch.next);
    free(engine->batch.lengths);
    free(engine->batch.types);
    free(engine->batch.targets);
    free(engine->batch.tokens);
    engine->batch = (zr_batch){0};
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

/* Gradients are divided by the step's number of loss tokens as soon as they arise, so that number
 * is known from the first micro-step only if all have equally many. */
zl_status zr_batch_check(zr_engine *engine, zl_err *err)
{
    uint64_t count;
    ZL_TRY(zr_batch_count(engine, &count, err));
    if (engine->micro == 0) {
        engine->targets = count;
    }
    double total = (double)count;
    ZL_TRY(zr_comm_sum(engine->options.comm, &total, err));
    const double expected = (double)zl_mul(engine->targets, engine->zero.ranks);
    if (count == 0 || count != engine->targets || total < expected || total > expected) {
        return zl_fail(
            err, ZL_E_INPUT,
            "every micro-batch of every rank needs equally many loss tokens, at least 1: "
            "got %" PRIu64 " here, %" PRIu64 " in the first, %.0f over all ranks",
            count, engine->targets, total);
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
