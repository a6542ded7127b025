/* What train/ keeps between calls. Private to train/ and its tests. */
#ifndef ZR_TRAIN_STATE_H
#define ZR_TRAIN_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/net.h"
#include "train/engine.h"
#include "zero/zero.h"

/* Dynamic loss scale of fp16: doubled after many good steps, halved when a gradient overflowed. */
typedef struct zr_loss_scale {
    double value;
    uint64_t good; /* steps since the last change */
} zr_loss_scale;

/* first 0: the usual one. */
zr_loss_scale zr_loss_scale_start(zl_precision precision, double first);
void zr_loss_scale_after(zr_loss_scale *scale, zl_precision precision, bool overflow);

struct zr_engine {
    zr_engine_options options;
    zr_zero zero;
    zr_net net;
    zr_batch batch;   /* host memory */
    uint64_t step;    /* optimizer steps begun before this one */
    uint64_t begun;   /* the step that this process began with: its cold one */
    uint64_t micro;   /* micro-step of this step */
    uint64_t updates; /* steps that were not skipped */
    uint64_t windows; /* sequences taken by all ranks in the steps done */
    uint64_t targets; /* loss tokens of each micro-step of one rank */
    double loss;      /* sums over this rank's micro-steps of this step */
    double next_loss;
    double grad_norm;
    bool skipped;          /* this step made no update */
    uint64_t eval_targets; /* loss tokens of this rank's evaluation batch */
    double eval_loss;      /* sums over them */
    double eval_next_loss;
    zr_loss_scale scale;
    void *untracked; /* what a fault took behind the tracker's back */
};

/* batch.c: checks ids, counts targets, and that all ranks and micro-steps have equally many. */
ZL_NODISCARD zl_status zr_batch_new(zr_engine *engine, zl_err *err);
void zr_batch_release(zr_engine *engine);
ZL_NODISCARD zl_status zr_batch_check(zr_engine *engine, zl_err *err);
/* Checks the ids alone. */
ZL_NODISCARD zl_status zr_batch_count(const zr_engine *engine, uint64_t *targets, zl_err *err);
/* Loss tokens, and next-sentence labels, of one optimizer step over all ranks. */
double zr_batch_targets(const zr_engine *engine);
double zr_batch_pairs(const zr_engine *engine);

/* pass.c: the bodies of the phases forward and backward of the current micro-step, and of eval. */
ZL_NODISCARD zl_status zr_pass_forward(zr_engine *engine, zl_err *err);
ZL_NODISCARD zl_status zr_pass_backward(zr_engine *engine, zl_err *err);
ZL_NODISCARD zl_status zr_pass_eval(zr_engine *engine, zl_err *err);

#endif
