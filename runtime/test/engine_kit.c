#include "engine_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

static void must(zl_status status, const zl_err *err)
{
    if (status != ZL_OK) {
        fail_msg("status %d: %s", (int)status, err->text);
    }
}

zl_model kit_model(zl_family family)
{
    zl_model m = {
        .name = "micro",
        .family = family,
        .activation = ZL_ACT_GELU_TANH,
        .layers = 2,
        .width = 24,
        .heads = 3,
        .kv_heads = 3,
        .head_dim = 8,
        .ffn = 40,
        .vocab = 53,
        .positions = 13,
        .tied = true,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .norm_eps = 1e-5,
    };
    if (family == ZL_FAMILY_LLAMA) {
        m.activation = ZL_ACT_SWIGLU;
        m.heads = 6;
        m.kv_heads = 2;
        m.head_dim = 6; /* 6 heads of 6 do not make the width */
        m.tied = m.qkv_bias = m.out_bias = m.mlp_bias = false;
        m.rope_theta = 10000.0;
    }
    if (family == ZL_FAMILY_BERT) {
        m.activation = ZL_ACT_GELU;
        m.types = 2;
        m.pooler = true;
    }
    return m;
}

zl_run kit_run(zl_model model)
{
    zl_run run;
    zl_run_init(&run);
    run.model = model;
    run.precision = ZL_PRECISION_FP32;
    run.micro_batch = 2;
    run.seq = 11;
    return run;
}

/* A word for a position: SplitMix64's finalizer. */
static uint64_t word(uint64_t x)
{
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

double kit_uniform(uint64_t i)
{
    return (double)(word(i) >> 11) / 9007199254740992.0 - 0.5;
}

/* Sequence number g: random tokens; the target is a function of the token, so there is something
 * to learn. BERT takes a loss at every third token of the first T - 3, which all sequences have. */
static void fill(const zl_run *run, uint64_t g, uint64_t b, zr_batch *batch)
{
    const bool bert = run->model.family == ZL_FAMILY_BERT;
    const uint64_t T = run->seq;
    for (uint64_t t = 0; t < T; t++) {
        const uint64_t at = b * T + t;
        batch->tokens[at] = (int32_t)(word(g * T + t) % run->model.vocab);
        batch->targets[at] = (batch->tokens[at] * 7 + 3) % (int32_t)run->model.vocab;
        if (bert) {
            batch->types[at] = (int32_t)(2 * t / T);
            if (t % 3 != 1 || t + 3 > T) {
                batch->targets[at] = -1;
            }
        }
    }
    batch->lengths[b] = (int32_t)(T - g % 3);
    batch->next[b] = (int32_t)(word(g) % 2);
}

zl_status kit_next(void *context, uint64_t step, uint64_t micro, zr_batch *batch, zl_err *err)
{
    (void)err;
    const kit_data *data = context;
    const zl_run *run = data->run;
    if (micro == ZR_EVAL_BATCH) {
        step++;
        micro = 0;
    }
    const uint64_t before = ((step * run->accumulation + micro) * run->ranks + data->rank);
    for (uint64_t b = 0; b < run->micro_batch; b++) {
        fill(run, before * run->micro_batch + b, b, batch);
    }
    return ZL_OK;
}

static zr_save *open_save(const zl_run *run, zr_comm *comm, const kit_start *start)
{
    zl_err err = {0};
    zr_save *save = NULL;
    const zr_save_options options = {.root = start->root,
                                     .keep = start->keep == 0 ? 2 : start->keep,
                                     .run = run,
                                     .seed = 7,
                                     .comm = comm};
    if (run->save) {
        must(zr_save_folder(start->root, &err), &err);
        must(zr_save_new(&options, &save, &err), &err);
    }
    return save;
}

static zr_resume *open_resume(const zl_run *run, const kit_start *start)
{
    zl_err err = {0};
    zr_resume *resume = NULL;
    const zr_resume_want want = {.run = run, .seed = 7};
    if (start->resume != NULL) {
        must(zr_resume_open(start->resume, &want, &resume, &err), &err);
    }
    return resume;
}

kit_rig kit_open(const zl_run *run, zr_comm *comm)
{
    return kit_open_at(run, comm, &(kit_start){.keep = 0});
}

kit_rig kit_open_at(const zl_run *run, zr_comm *comm, const kit_start *start)
{
    kit_rig rig = {.data = {run, comm == NULL ? 0 : zr_comm_rank(comm)}};
    zl_err err = {0};
    if (comm == NULL) {
        must(zr_comm_new(0, 1, &rig.own, &err), &err);
        comm = rig.own;
    }
    must(zr_track_new(&(zr_track_options){.poison = true}, &rig.track, &err), &err);
    rig.save = open_save(run, comm, start);
    zr_resume *resume = open_resume(run, start);
    const zr_engine_options options = {
        .run = run,
        .track = rig.track,
        .comm = comm,
        .seed = 7,
        .learning_rate = run->optimizer == ZL_OPTIMIZER_SGD ? 0.1 : 0.01,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
        .weight_decay = 0.1,
        .warmup = 2,
        .loss_scale = start->loss_scale,
        .save = rig.save,
        .resume = resume,
    };
    must(zr_engine_new(&options, &rig.engine, &err), &err);
    zr_resume_free(resume);
    return rig;
}

void kit_close(kit_rig *rig)
{
    zr_engine_free(rig->engine);
    zr_save_free(rig->save);
    assert_int_equal(zr_track_live(rig->track), 0);
    zr_comm_free(rig->own);
    zr_track_free(rig->track);
}

kit_result kit_steps(kit_rig *rig, uint64_t steps)
{
    kit_result result = {.steps = steps};
    zl_err err = {0};
    for (uint64_t i = 0; i < steps; i++) {
        zr_step_result r;
        must(zr_engine_step(rig->engine, kit_next, &rig->data, &r, &err), &err);
        result.loss[i] = r.loss;
        result.norm[i] = r.grad_norm;
        result.eval[i] = r.eval_loss;
    }
    must(zr_engine_hash(rig->engine, &result.hash, &err), &err);
    return result;
}

kit_result kit_train_on(zr_comm *comm, const zl_run *run, uint64_t steps)
{
    kit_rig rig = kit_open(run, comm);
    const kit_result result = kit_steps(&rig, steps);
    kit_close(&rig);
    return result;
}

kit_result kit_train(const zl_run *run, uint64_t steps)
{
    return kit_train_on(NULL, run, steps);
}

static uint64_t bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

void kit_assert_same(const kit_result *a, const kit_result *b, const char *what)
{
    for (uint64_t i = 0; i < a->steps; i++) {
        if (bits(a->loss[i]) != bits(b->loss[i]) || bits(a->norm[i]) != bits(b->norm[i])) {
            fail_msg("%s: step %d has loss %.17g, norm %.17g instead of %.17g, %.17g", what,
                     (int)i + 1, b->loss[i], b->norm[i], a->loss[i], a->norm[i]);
        }
    }
    if (a->hash != b->hash) {
        fail_msg("%s: equal losses, other parameters", what);
    }
}

void kit_assert_close(const kit_result *a, const kit_result *b, double tolerance)
{
    for (uint64_t i = 0; i < a->steps; i++) {
        if (!(fabs(a->loss[i] - b->loss[i]) <= tolerance * a->loss[i])) {
            fail_msg("step %d: loss %.9g and %.9g", (int)i + 1, a->loss[i], b->loss[i]);
        }
        if (!(fabs(a->norm[i] - b->norm[i]) <= 100.0 * tolerance * a->norm[i])) {
            fail_msg("step %d: norm %.9g and %.9g", (int)i + 1, a->norm[i], b->norm[i]);
        }
    }
}
