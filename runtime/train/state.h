/* What train/ keeps between calls. Private to train/ and its tests. */
#ifndef ZR_TRAIN_STATE_H
#define ZR_TRAIN_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/profile.h"
#include "device/stage.h"
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

/* Host memory of one micro-batch, which a device may still be reading. */
typedef struct zr_inlet {
    zr_batch batch;
    void *ids;     /* all of its numbers */
    zr_mark *sent; /* behind the copies to the device */
} zr_inlet;

/* While the device reads one micro-batch, the next one is made. */
enum { ZR_INLETS = 2 };

/* What the device has to tell the host: memory of the host that it writes. */
typedef struct zr_news {
    double
        *loss; /* (A + 1, 2) sums over the tokens and the pairs of each micro-step, and of eval */
    double *squares; /* (N, L + 2) of the gradient; NULL without clipping */
    double *words;   /* (N, ...) what ranks tell each other */
    zr_mark *mark;   /* behind what was sent last */
} zr_news;

struct zr_engine {
    zr_engine_options options;
    zr_zero zero;
    zr_net net;
    zr_inlet inlet[ZR_INLETS];
    uint64_t turn;  /* micro-batches so far */
    zr_batch batch; /* the one that is being made or used, in an inlet */
    zr_news news;
    uint64_t step;    /* optimizer steps begun before this one */
    uint64_t begun;   /* the step that this process began with: its cold one */
    uint64_t micro;   /* micro-step of this step */
    uint64_t updates; /* steps that were not skipped */
    uint64_t windows; /* sequences taken by all ranks in the steps done */
    uint64_t targets; /* loss tokens of each micro-step of one rank */
    double loss;      /* mean over all ranks and micro-steps of this step */
    double grad_norm;
    bool skipped;          /* this step made no update */
    uint64_t eval_targets; /* loss tokens of this rank's evaluation batch */
    double eval_loss;      /* mean over all ranks */
    zr_loss_scale scale;
    void *untracked; /* what a fault took behind the tracker's back */
};

/* batch.c: the host's memory of micro-batches. */
ZL_NODISCARD zl_status zr_batch_new(zr_engine *engine, zl_err *err);
void zr_batch_release(zr_engine *engine);
/* engine->batch is the next one's memory, which the device has read. */
ZL_NODISCARD zl_status zr_batch_turn(zr_engine *engine, zl_err *err);
/* The copies of engine->batch are queued. */
ZL_NODISCARD zl_status zr_batch_sent(zr_engine *engine, zl_err *err);
/* Checks ids, counts targets, and that all micro-steps have equally many; zr_news_share compares
 * ranks. */
ZL_NODISCARD zl_status zr_batch_check(zr_engine *engine, zl_err *err);
/* Checks the ids alone. */
ZL_NODISCARD zl_status zr_batch_count(const zr_engine *engine, uint64_t *targets, zl_err *err);
/* Loss tokens, and next-sentence labels, of one optimizer step over all ranks. */
double zr_batch_targets(const zr_engine *engine);
double zr_batch_pairs(const zr_engine *engine);

/* news.c: what the host learns. Its memory exists before init, which is about the device's. */
ZL_NODISCARD zl_status zr_news_new(zr_engine *engine, zl_err *err);
void zr_news_release(zr_engine *engine);
/* Waits on the host, with an eye on the other ranks. */
ZL_NODISCARD zl_status zr_news_wait_for(const zr_engine *engine, const zr_mark *mark, zl_err *err);
/* Sends the two sums of losses that the head has left, as those of a micro-step or, with number A,
 * of eval. */
ZL_NODISCARD zl_status zr_news_losses(zr_engine *engine, uint64_t pass, zl_err *err);
/* Asks for the gradient's norm where it is needed, and waits for everything that was sent. */
ZL_NODISCARD zl_status zr_news_hear(zr_engine *engine, zl_err *err);
/* With the other ranks, after zr_news_hear: the step's loss, and whether all had as many loss
 * tokens. Does not wait for what was queued after it. */
ZL_NODISCARD zl_status zr_news_share(zr_engine *engine, zl_err *err);
/* The same after eval; waits for its losses. */
ZL_NODISCARD zl_status zr_news_share_eval(zr_engine *engine, zl_err *err);

/* pass.c: the bodies of the phases forward and backward of the current micro-step, and of eval. */
ZL_NODISCARD zl_status zr_pass_forward(zr_engine *engine, zl_err *err);
ZL_NODISCARD zl_status zr_pass_backward(zr_engine *engine, zl_err *err);
ZL_NODISCARD zl_status zr_pass_eval(zr_engine *engine, zl_err *err);

#endif
