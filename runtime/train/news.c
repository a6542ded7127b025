/* What the host has to learn in a step: losses, the gradient's norm, and what the other ranks say.
 * The device sends it when it gets there; the host waits once, when it needs the norm. */
#define _DEFAULT_SOURCE /* sched_yield */
#include <inttypes.h>
#include <sched.h>

#include "net/parts.h"
#include "optim/optim.h"
#include "train/state.h"
#include "zeroledger/bytes.h"

/* What a rank tells the others after its micro-steps, or after eval. */
enum { WORD_LOSS, WORD_NEXT_LOSS, WORD_TARGETS, WORDS };

zl_status zr_news_new(zr_engine *engine, zl_err *err)
{
    const zr_zero *zero = &engine->zero;
    const zl_run *run = engine->options.run;
    const uint64_t size = sizeof(double);
    zr_news *const news = &engine->news;
    void *place = NULL;
    ZL_TRY(zr_mark_new(&news->mark, err));
    ZL_TRY(zr_stage_new(zl_prod(size, zl_add(run->accumulation, 1), 2), &place, err));
    news->loss = place;
    ZL_TRY(zr_stage_new(zl_prod(size, zero->ranks, WORDS), &place, err));
    news->words = place;
    if (run->clip > 0.0) {
        ZL_TRY(zr_stage_new(zl_prod(size, zero->ranks, zero->units), &place, err));
        news->squares = place;
    }
    return ZL_OK;
}

void zr_news_release(zr_engine *engine)
{
    zr_news *const news = &engine->news;
    zr_stage_free(news->squares);
    zr_stage_free(news->words);
    zr_stage_free(news->loss);
    zr_mark_free(news->mark);
    *news = (zr_news){.loss = NULL};
}

zl_status zr_news_wait_for(const zr_engine *engine, const zr_mark *mark, zl_err *err)
{
    enum { LOOKS = 4096 }; /* between two looks at the other ranks */
    bool passed = false;
    zr_profile *const profile = engine->options.profile;
    zr_profile_begin(profile, ZR_PROFILE_HOST, "wait", ZR_NO_NUMBER);
    for (uint64_t i = 1; !passed; i++) {
        ZL_TRY(zr_mark_passed(mark, &passed, err));
        if (!passed && i % LOOKS == 0) {
            ZL_TRY(zr_comm_check(engine->options.comm, err));
        }
        if (!passed) {
            (void)sched_yield();
        }
    }
    return zr_profile_end(profile, ZR_PROFILE_HOST, ZL_OK);
}

zl_status zr_news_losses(zr_engine *engine, uint64_t pass, zl_err *err)
{
    const zr_net *net = &engine->net;
    ZL_TRY(zr_stage_out(engine->news.loss + zl_mul(2, pass), zr_scalar_at(net, ZR_SCALAR_LOSS),
                        2 * sizeof(double), net->stream, err));
    return zr_mark_set(engine->news.mark, net->stream, err);
}

zl_status zr_news_hear(zr_engine *engine, zl_err *err)
{
    const zr_news *news = &engine->news;
    zr_zero *zero = &engine->zero;
    engine->grad_norm = 0.0;
    if (news->squares != NULL) {
        ZL_TRY(zr_optim_squares(zero, news->squares, err));
        ZL_TRY(zr_mark_set(news->mark, zero->stream, err));
    }
    ZL_TRY(zr_news_wait_for(engine, news->mark, err));
    if (news->squares != NULL) {
        engine->grad_norm = zr_optim_norm(zero, news->squares) / engine->scale.value;
    }
    return ZL_OK;
}

/* Every rank's words, in the order of ranks. */
static zl_status exchange(zr_engine *engine, const double own[WORDS], zl_err *err)
{
    double *const words = engine->news.words;
    for (uint64_t i = 0; i < WORDS; i++) {
        words[engine->zero.rank * WORDS + i] = own[i];
    }
    return zr_comm_exchange_now(engine->options.comm, words, WORDS * sizeof(double), err);
}

static double sum_over_ranks(const zr_engine *engine, unsigned word)
{
    double sum = 0.0;
    for (uint64_t r = 0; r < engine->zero.ranks; r++) {
        sum += engine->news.words[r * WORDS + word];
    }
    return sum;
}

/* Gradients are divided by the number of loss tokens of the whole step as soon as they arise, so
 * every rank has to have as many. */
static zl_status check_targets(const zr_engine *engine, zl_err *err)
{
    const double own = (double)engine->targets;
    for (uint64_t r = 0; r < engine->zero.ranks; r++) {
        const double other = engine->news.words[r * WORDS + WORD_TARGETS];
        if (other < own || other > own) {
            return zl_fail(err, ZL_E_INPUT,
                           "every micro-batch of every rank needs equally many loss tokens: got "
                           "%" PRIu64 " here, %.0f on rank %" PRIu64,
                           engine->targets, other, r);
        }
    }
    return ZL_OK;
}

zl_status zr_news_share(zr_engine *engine, zl_err *err)
{
    double own[WORDS] = {[WORD_TARGETS] = (double)engine->targets};
    for (uint64_t i = 0; i < engine->options.run->accumulation; i++) {
        own[WORD_LOSS] += engine->news.loss[2 * i];
        own[WORD_NEXT_LOSS] += engine->news.loss[2 * i + 1];
    }
    ZL_TRY(exchange(engine, own, err));
    ZL_TRY(check_targets(engine, err));
    engine->loss = sum_over_ranks(engine, WORD_LOSS) / zr_batch_targets(engine) +
                   sum_over_ranks(engine, WORD_NEXT_LOSS) / zr_batch_pairs(engine);
    return ZL_OK;
}

/* Ranks may have different numbers of loss tokens here: nothing is divided before the end. */
zl_status zr_news_share_eval(zr_engine *engine, zl_err *err)
{
    const double *const loss = engine->news.loss + 2 * engine->options.run->accumulation;
    ZL_TRY(zr_news_wait_for(engine, engine->news.mark, err));
    const double own[WORDS] = {[WORD_LOSS] = loss[0],
                               [WORD_NEXT_LOSS] = loss[1],
                               [WORD_TARGETS] = (double)engine->eval_targets};
    ZL_TRY(exchange(engine, own, err));
    const double targets = sum_over_ranks(engine, WORD_TARGETS);
    if (!(targets > 0.0)) {
        return zl_fail(err, ZL_E_INPUT,
                       "the evaluation batch of step %" PRIu64 " has no loss token",
                       engine->step + 1);
    }
    engine->eval_loss = sum_over_ranks(engine, WORD_LOSS) / targets +
                        sum_over_ranks(engine, WORD_NEXT_LOSS) /
                            (double)zl_mul(engine->net.dim.B, engine->zero.ranks);
    return ZL_OK;
}
