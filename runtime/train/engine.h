/* One rank of a sharded training job: owns units, slots, activations and the schedule of
 * docs/schedule.md. main.c gives it batches; it gives back losses.
 *
 *     zr_engine *engine;
 *     ZL_TRY(zr_engine_new(&(zr_engine_options){.run = &run, .track = track, .comm = comm, .seed =
 * 1}, &engine, err)); zr_step_result r; ZL_TRY(zr_engine_step(engine, next_batch, data, &r, err));
 */
#ifndef ZR_ENGINE_H
#define ZR_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "device/profile.h"
#include "track/track.h"
#include "train/resume.h"
#include "train/save.h"
#include "zeroledger/run.h"

typedef struct zr_engine zr_engine;

typedef struct zr_engine_options {
    const zl_run *run; /* checked; borrowed for the engine's life */
    zr_track *track;   /* borrowed */
    zr_comm *comm;     /* borrowed */
    uint64_t seed;
    double learning_rate, beta1, beta2, eps, weight_decay;
    uint64_t warmup;     /* steps of linear learning-rate warm-up */
    double loss_scale;   /* first one of fp16-mixed; 0: 65536 */
    zr_save *save;       /* borrowed; takes the checkpoints of a run that saves, else NULL */
    zr_resume *resume;   /* borrowed until zr_engine_new returns; NULL: a training begins */
    zr_profile *profile; /* borrowed; of the engine's steps; NULL: none */
} zr_engine_options;

/* Host memory with one micro-batch of this rank; filled by the callback. int32, shapes of the
 * schedule. The memory of one call is not that of the next. */
typedef struct zr_batch {
    int32_t *tokens;  /* (B,T) */
    int32_t *targets; /* (B,T), negative: no loss */
    int32_t *types;   /* (B,T), BERT */
    int32_t *lengths; /* (B), BERT */
    int32_t *next;    /* (B), BERT with pooler */
} zr_batch;
/* step counts from 0 from the beginning of the training; micro from 0, or it is ZR_EVAL_BATCH: then
 * the batch is one that training does not see. */
#define ZR_EVAL_BATCH UINT64_MAX
typedef zl_status (*zr_next_batch)(void *context, uint64_t step, uint64_t micro, zr_batch *batch,
                                   zl_err *err);

typedef struct zr_step_result {
    double loss;      /* mean over all tokens of all ranks and micro-steps */
    double grad_norm; /* before clipping; 0 without clipping */
    double eval_loss; /* mean over the evaluation batches of all ranks, after the update; 0 without
                         eval */
    bool skipped;     /* an fp16 gradient overflowed: no update, and half the loss scale */
} zr_step_result;

/* Init phase included. With a checkpoint to resume, states exist from init on, and the first step
 * is the one after it. Caller frees *out. */
ZL_NODISCARD zl_status zr_engine_new(const zr_engine_options *options, zr_engine **out,
                                     zl_err *err);
void zr_engine_free(zr_engine *engine);

/* One optimizer step: A micro-steps, reduce, step, publish, eval, save, with their phase markers
 * and witness marks. It waits for the device once, for the losses and the gradient's norm: when it
 * returns, a device may still be updating. */
ZL_NODISCARD zl_status zr_engine_step(zr_engine *engine, zr_next_batch next, void *context,
                                      zr_step_result *out, zl_err *err);

/* Hash of all parameters in the compute type (and master weights if there are any), the same number
 * in every stage: collective, gathers unit by unit; padding left out. Outside any phase. */
ZL_NODISCARD zl_status zr_engine_hash(zr_engine *engine, uint64_t *hash, zl_err *err);

#endif
