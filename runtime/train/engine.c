#include "train/engine.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "device/device.h"
#include "fault/fault.h"
#include "net/parts.h"
#include "optim/optim.h"
#include "train/state.h"
#include "zeroledger/bytes.h"

typedef zl_status (*phase_body)(zr_engine *e, zl_err *err);

/* The first step of this process: what a resumed one does is new to its memory too. */
static bool is_cold(const zr_engine *e)
{
    return e->step == e->begun;
}

/* One visit of a phase, with the second witness's mark at its end. */
static zl_status run_phase(zr_engine *e, zl_visit visit, zl_phase phase, phase_body body,
                           zl_err *err)
{
    zr_track *track = e->options.track;
    zr_profile *profile = e->options.profile;
    zr_phase_enter(track, visit, phase);
    zr_profile_begin_both(profile, zl_phase_name(phase), ZR_NO_NUMBER);
    ZL_TRY(zr_profile_end_both(profile, body(e, err)));
    ZL_TRY(zr_phase_leave(track, err));
    if (!zr_device_witnessed(e->step - e->begun)) {
        return ZL_OK;
    }
    zr_profile_begin_both(profile, "witness", ZR_NO_NUMBER);
    return zr_profile_end_both(profile, zr_track_mark(track, !is_cold(e), err));
}

static zl_status check_options(const zr_engine_options *o, zl_err *err)
{
    const zl_run *run = o->run;
    if (run->framework != ZL_FRAMEWORK_NATIVE) {
        return zl_fail(err, ZL_E_UNMODELLED, "framework %s is not trained, only native",
                       zl_framework_name(run->framework));
    }
    if (run->backend != zr_device_backend()) {
        return zl_fail(err, ZL_E_UNMODELLED, "backend %s is not linked here, only %s",
                       zl_backend_name(run->backend), zl_backend_name(zr_device_backend()));
    }
    if (run->ranks != zr_comm_ranks(o->comm)) {
        return zl_fail(err, ZL_E_USAGE,
                       "the run wants %" PRIu64 " ranks, the job has %" PRIu64
                       ": start it with as many processes",
                       run->ranks, zr_comm_ranks(o->comm));
    }
    if (run->save && o->save == NULL) {
        return zl_fail(err, ZL_E_USAGE,
                       "the run saves checkpoints: say where, with --checkpoint or --out");
    }
    return ZL_OK;
}

static void take_position(zr_engine *e, const zr_position *p)
{
    e->step = e->begun = p->step;
    e->updates = p->updates;
    e->windows = p->windows;
    e->net.micro = p->micro;
    if (e->options.run->precision == ZL_PRECISION_FP16_MIXED) {
        e->scale = (zr_loss_scale){.value = p->loss_scale, .good = p->good};
    }
}

static zr_position position_of(const zr_engine *e)
{
    return (zr_position){.step = e->step,
                         .updates = e->updates,
                         .micro = e->net.micro,
                         .windows = e->windows,
                         .loss_scale = e->scale.value,
                         .good = e->scale.good};
}

static zl_status init(zr_engine *e, zl_err *err)
{
    zr_resume *resume = e->options.resume;
    ZL_TRY(zr_net_build(&e->net, err));
    ZL_TRY(zr_zero_build(&e->zero, err));
    if (resume == NULL) {
        return ZL_OK;
    }
    take_position(e, zr_resume_position(resume));
    ZL_TRY(zr_zero_states(&e->zero, err));
    return zr_resume_load(resume, &e->zero, err);
}

static zl_status start(zr_engine *e, zl_err *err)
{
    const zr_engine_options *o = &e->options;
    ZL_TRY(check_options(o, err));
    e->scale = zr_loss_scale_start(o->run->precision, o->loss_scale);
    e->zero = (zr_zero){
        .run = o->run,
        .track = o->track,
        .comm = o->comm,
        .rank = zr_comm_rank(o->comm),
        .ranks = zr_comm_ranks(o->comm),
        .seed = o->seed,
        .profile = o->profile,
    };
    zr_comm_set_profile(o->comm, o->profile);
    const zr_family *family = zr_family_of(o->run->model.family);
    family->units(&o->run->model, &e->zero.embed, &e->zero.block, &e->zero.head);
    ZL_TRY(zr_zero_init(&e->zero, err));
    e->net = (zr_net){
        .run = o->run, .zero = &e->zero, .track = o->track, .seed = o->seed, .profile = o->profile};
    ZL_TRY(zr_net_init(&e->net, err));
    ZL_TRY(zr_batch_new(e, err));
    ZL_TRY(zr_news_new(e, err));
    return run_phase(e, ZL_VISIT_COLD, ZL_PHASE_INIT, init, err);
}

zl_status zr_engine_new(const zr_engine_options *options, zr_engine **out, zl_err *err)
{
    zr_engine *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory: the engine");
    }
    e->options = *options;
    const zl_status status = start(e, err);
    if (status != ZL_OK) {
        zr_engine_free(e);
        return status;
    }
    *out = e;
    return ZL_OK;
}

/* A workspace that the tracker does not see. Each holds the address of the one before. */
static zl_status take_untracked(zr_engine *e, zl_err *err)
{
    const size_t bytes = (size_t)2 << 20;
    void **block = malloc(bytes);
    if (block == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory: %zu bytes", bytes);
    }
    *block = e->untracked;
    e->untracked = block;
    return ZL_OK;
}

static void free_untracked(zr_engine *e)
{
    while (e->untracked != NULL) {
        void **block = e->untracked;
        e->untracked = *block;
        free(block);
    }
}

void zr_engine_free(zr_engine *e)
{
    if (e == NULL) {
        return;
    }
    free_untracked(e);
    if (e->net.track != NULL) {
        zr_net_release(&e->net); /* from here on no queue uses the host's memory */
    }
    zr_news_release(e);
    zr_batch_release(e);
    if (e->zero.track != NULL) {
        zr_zero_release(&e->zero);
    }
    free(e);
}

static zl_status reduce(zr_engine *e, zl_err *err)
{
    return zr_grad_land_all(&e->zero, err);
}

static double learning_rate(const zr_engine *e)
{
    const double done = (double)e->step + 1.0;
    const double warmup = (double)e->options.warmup;
    return done < warmup ? e->options.learning_rate * done / warmup : e->options.learning_rate;
}

/* Factor that brings the gradient's norm down to the largest one allowed. */
static double clip_factor(double norm, double clip)
{
    return clip > 0.0 && norm > clip ? clip / norm : 1.0;
}

static zl_status update(zr_engine *e, zl_err *err)
{
    const zr_engine_options *o = &e->options;
    const double unscale = 1.0 / e->scale.value;
    const zr_hyper hyper = {
        .learning_rate = learning_rate(e),
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .eps = o->eps,
        .weight_decay = o->weight_decay,
        .grad_scale = unscale * clip_factor(e->grad_norm, o->run->clip),
        .step = ++e->updates,
    };
    return zr_optim_update(&e->zero, &hyper, err);
}

/* fp16 gradients overflow now and then, and the loss scale learns from it; others must not. One
 * element that is not finite makes the norm so. */
static zl_status check_overflow(zr_engine *e, bool *overflow, zl_err *err)
{
    const bool fp16 = e->options.run->precision == ZL_PRECISION_FP16_MIXED;
    *overflow = fp16 && !isfinite(e->grad_norm);
    if (fp16 && !(e->options.run->clip > 0.0)) {
        return zr_optim_overflow(&e->zero, zr_scalar_at(&e->net, ZR_SCALAR_FLAG), overflow, err);
    }
    if (!fp16 && !isfinite(e->grad_norm)) {
        return zl_fail(err, ZL_NO,
                       "the gradient's norm is not finite in step %" PRIu64
                       ": lower the learning rate",
                       e->step + 1);
    }
    return ZL_OK;
}

static zl_status optimizer_step(zr_engine *e, zl_err *err)
{
    ZL_TRY(zr_news_hear(e, err));
    if (is_cold(e)) {
        ZL_TRY(zr_zero_states(&e->zero, err)); /* a resumed training has them */
    }
    ZL_TRY(check_overflow(e, &e->skipped, err));
    if (!e->skipped) {
        ZL_TRY(update(e, err));
    }
    ZL_TRY(zr_news_share(e, err)); /* while the device updates */
    zr_loss_scale_after(&e->scale, e->options.run->precision, e->skipped);
    zr_grad_free_all(&e->zero);
    zr_net_drop_pass(&e->net); /* nothing, unless a fault kept it until here */
    return zr_fault(ZR_FAULT_UNTRACKED_WORKSPACE) && !is_cold(e) ? take_untracked(e, err) : ZL_OK;
}

static zl_status publish(zr_engine *e, zl_err *err)
{
    return zr_gather_publish(&e->zero, err);
}

static zl_visit visit_of(const zr_engine *e)
{
    const bool later = e->micro > 0;
    if (is_cold(e)) {
        return later ? ZL_VISIT_COLD_LATER : ZL_VISIT_COLD;
    }
    return later ? ZL_VISIT_STEADY_LATER : ZL_VISIT_STEADY;
}

static zl_status take_batch(zr_engine *e, uint64_t micro, zr_next_batch next, void *context,
                            zl_err *err)
{
    zr_profile *profile = e->options.profile;
    ZL_TRY(zr_batch_turn(e, err));
    zr_profile_begin(profile, ZR_PROFILE_HOST, "batch", ZR_NO_NUMBER);
    return zr_profile_end(profile, ZR_PROFILE_HOST, next(context, e->step, micro, &e->batch, err));
}

static zl_status micro_step(zr_engine *e, zr_next_batch next, void *context, zl_err *err)
{
    const zl_run *run = e->options.run;
    const zl_visit visit = visit_of(e);
    ZL_TRY(take_batch(e, e->micro, next, context, err));
    ZL_TRY(zr_batch_check(e, err));
    ZL_TRY(run_phase(e, visit, ZL_PHASE_FORWARD, zr_pass_forward, err));
    ZL_TRY(run_phase(e, visit, ZL_PHASE_BACKWARD, zr_pass_backward, err));
    if (run->stage >= 2 || e->micro + 1 == run->accumulation) {
        ZL_TRY(run_phase(e, visit, ZL_PHASE_REDUCE, reduce, err));
    }
    e->net.micro++;
    return ZL_OK;
}

static zl_status evaluate(zr_engine *e, zl_visit visit, zr_next_batch next, void *context,
                          zl_err *err)
{
    ZL_TRY(take_batch(e, ZR_EVAL_BATCH, next, context, err));
    ZL_TRY(zr_batch_count(e, &e->eval_targets, err));
    ZL_TRY(run_phase(e, visit, ZL_PHASE_EVAL, zr_pass_eval, err));
    return zr_news_share_eval(e, err);
}

static zl_status save(zr_engine *e, zl_err *err)
{
    zr_position position = position_of(e);
    position.step++; /* this one is done */
    return zr_save_step(e->options.save, &e->zero, &position, err);
}

/* Micro-steps, step, publish. */
static zl_status train(zr_engine *e, zl_visit visit, zr_next_batch next, void *context, zl_err *err)
{
    const zl_run *run = e->options.run;
    for (e->micro = 0; e->micro < run->accumulation; e->micro++) {
        ZL_TRY(micro_step(e, next, context, err));
    }
    ZL_TRY(run_phase(e, visit, ZL_PHASE_STEP, optimizer_step, err));
    if (run->stage == 1 || run->stage == 2) {
        ZL_TRY(run_phase(e, visit, ZL_PHASE_PUBLISH, publish, err));
    }
    e->windows += zl_prod(run->accumulation, run->ranks, run->micro_batch);
    return ZL_OK;
}

zl_status zr_engine_step(zr_engine *e, zr_next_batch next, void *context, zr_step_result *out,
                         zl_err *err)
{
    const zl_run *run = e->options.run;
    const zl_visit visit = is_cold(e) ? ZL_VISIT_COLD : ZL_VISIT_STEADY;
    zr_profile *profile = e->options.profile;
    e->eval_loss = 0.0;
    zr_profile_step_begin(profile, e->step + 1, e->step - e->begun >= zr_device_warm_up());
    ZL_TRY(train(e, visit, next, context, err));
    if (run->eval) {
        ZL_TRY(evaluate(e, visit, next, context, err));
    }
    if (run->save) {
        ZL_TRY(run_phase(e, visit, ZL_PHASE_SAVE, save, err));
    }
    ZL_TRY(zr_profile_step_end(profile, err));
    e->step++;
    *out = (zr_step_result){.loss = e->loss,
                            .grad_norm = e->grad_norm,
                            .eval_loss = e->eval_loss,
                            .skipped = e->skipped};
    return ZL_OK;
}

zl_status zr_engine_hash(zr_engine *engine, uint64_t *hash, zl_err *err)
{
    return zr_zero_hash(&engine->zero, hash, err);
}
