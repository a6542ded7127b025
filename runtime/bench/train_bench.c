/* A training step of GPT-2 at full width: how much of it is BLAS, and where the rest goes. One
 * rank, as many BLAS threads as OPENBLAS_NUM_THREADS says, else as there are cores. With GPT-2's
 * vocabulary the head is half of the work; with 1024 words nearly all of it is in the blocks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "spent.h"
#include "train/engine.h"

enum { LAYERS = 4, STEPS = 7, NAME_MAX_BYTES = 48 };

/* One run: its figures of every step after the first. */
typedef struct series {
    const char *title;
    const char *precision;
    uint64_t vocab; /* instead of GPT-2's own; 0: its own */
    char name[ZB_SPENT_COUNT + 2][NAME_MAX_BYTES];
    double step[STEPS];
    double rest[STEPS];
    double percent[ZB_SPENT_COUNT][STEPS];
} series;

/* Any tokens will do: time does not depend on them. */
static zl_status next(void *context, uint64_t step, uint64_t micro, zr_batch *batch, zl_err *err)
{
    const zl_run *run = context;
    const uint64_t tokens = run->micro_batch * run->seq;
    (void)micro;
    (void)err;
    for (uint64_t i = 0; i < tokens; i++) {
        const uint64_t mixed = (step * tokens + i) * 2654435761U;
        batch->tokens[i] = (int32_t)(mixed % run->model.vocab);
        batch->targets[i] = (int32_t)(mixed / 7 % run->model.vocab);
    }
    return ZL_OK;
}

static zl_status describe(const series *s, zl_run *run, zl_err *err)
{
    zl_run_init(run);
    ZL_TRY(zl_run_set(run, "model", "gpt2", err));
    ZL_TRY(zl_run_set(run, "precision", s->precision, err));
    run->model.layers = LAYERS;
    run->model.vocab = s->vocab != 0 ? s->vocab : run->model.vocab;
    run->micro_batch = 2;
    run->seq = 256;
    return zl_run_check(run, err);
}

static void record(series *s, size_t i, double seconds)
{
    double known = 0.0;
    s->step[i] = seconds;
    for (size_t place = 0; place < ZB_SPENT_COUNT; place++) {
        s->percent[place][i] = 100.0 * zb_spent((zb_place)place) / seconds;
        known += s->percent[place][i];
    }
    s->rest[i] = 100.0 - known;
}

/* The first step is not counted: it makes the optimizer states and touches memory first. */
static zl_status steps(zr_engine *engine, zl_run *run, series *s, zl_err *err)
{
    for (size_t i = 0; i <= STEPS; i++) {
        zr_step_result result;
        zb_spent_reset();
        const double begin = zb_seconds();
        ZL_TRY(zr_engine_step(engine, next, run, &result, err));
        if (i > 0) {
            record(s, i - 1, zb_seconds() - begin);
        }
    }
    return ZL_OK;
}

static zl_status train(series *s, zl_err *err)
{
    zl_run run;
    zr_track *track = NULL;
    zr_comm *comm = NULL;
    zr_engine *engine = NULL;
    zl_status status = ZL_OK;
    ZL_TRY(describe(s, &run, err));
    ZL_TRY_GOTO(status, zr_track_new(&(zr_track_options){.poison = false}, &track, err), out);
    ZL_TRY_GOTO(status, zr_comm_new(0, 1, &comm, err), out);
    const zr_engine_options options = {
        .run = &run,
        .track = track,
        .comm = comm,
        .seed = 1,
        .learning_rate = 1e-4,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
        .weight_decay = 0.01,
    };
    ZL_TRY_GOTO(status, zr_engine_new(&options, &engine, err), out);
    status = steps(engine, &run, s, err);
out:
    zr_engine_free(engine);
    zr_comm_free(comm);
    zr_track_free(track);
    return status;
}

static const char *name(series *s, size_t at, const char *what)
{
    (void)snprintf(s->name[at], sizeof s->name[at], "%s: %s", s->title, what);
    return s->name[at];
}

static void show(series *s, zb_report *report)
{
    zb_add(report, (zb_figure){.name = name(s, ZB_SPENT_COUNT, "a step"), .unit = "s"}, s->step,
           STEPS);
    for (size_t place = 0; place < ZB_SPENT_COUNT; place++) {
        const char *what = zb_spent_name((zb_place)place);
        zb_figure figure = {.name = name(s, place, what), .unit = "%"};
        if (place == ZB_BLAS) {
            figure.aim = ZB_AT_LEAST;
            figure.limit = 60.0;
        }
        zb_add(report, figure, s->percent[place], STEPS);
    }
    zb_add(report, (zb_figure){.name = name(s, ZB_SPENT_COUNT + 1, "the rest"), .unit = "%"},
           s->rest, STEPS);
}

int main(int argc, char **argv)
{
    static series all[] = {
        {.title = "fp32", .precision = "fp32"},
        {.title = "bf16-mixed", .precision = "bf16-mixed"},
        {.title = "fp32, V 1024", .precision = "fp32", .vocab = 1024},
        {.title = "bf16-mixed, V 1024", .precision = "bf16-mixed", .vocab = 1024},
    };
    zb_report report;
    zl_err err = {0};
    bool json;
    if (!zb_options(argc, argv, &json)) {
        return ZL_E_USAGE;
    }
    zb_report_init(&report, "train-bench");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const zl_status status = train(&all[i], &err);
        if (status != ZL_OK) {
            (void)fprintf(stderr, "train-bench: %s\n", err.text);
            return (int)status;
        }
        show(&all[i], &report);
    }
    return zb_report_show(&report, json) ? ZL_OK : ZL_E_RESOURCE;
}
