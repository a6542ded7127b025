/* First weights, decay, and what the engine refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "engine_kit.h"
#include "train/state.h"

static const float *values(const kit_rig *rig, uint64_t u, zr_role role, uint64_t *count)
{
    const zr_store *store = &rig->engine->zero.store[u];
    const zr_tensor *tensor = zr_unit_find(store->unit, role);
    assert_non_null(tensor);
    *count = tensor->elements;
    return (const float *)store->param.ptr + tensor->offset;
}

static double deviation(const kit_rig *rig, uint64_t u, zr_role role)
{
    uint64_t n = 0;
    const float *w = values(rig, u, role, &n);
    double sum = 0.0;
    for (uint64_t i = 0; i < n; i++) {
        sum += (double)w[i] * (double)w[i];
    }
    return sqrt(sum / (double)n);
}

static void assert_all(const kit_rig *rig, uint64_t u, zr_role role, float want)
{
    uint64_t n = 0;
    const float *w = values(rig, u, role, &n);
    for (uint64_t i = 0; i < n; i++) {
        assert_true(!(w[i] < want) && !(w[i] > want));
    }
}

/* 0.02 for a matrix of 24 x 72, 0.02 / sqrt(2 * 2 blocks) = 0.01 for one that is added to the
 * residual stream; 1728 and 576 values put the sample deviation within 10 % (3 sigma: 9 %). */
static void first_weights_are_gpt2s(void **state)
{
    (void)state;
    const zl_run run = kit_run(kit_model(ZL_FAMILY_GPT2));
    kit_rig rig = kit_open(&run, NULL);
    assert_true(fabs(deviation(&rig, 1, ZR_QKV_W) - 0.02) < 0.002);
    assert_true(fabs(deviation(&rig, 1, ZR_OUT_W) - 0.01) < 0.001);
    assert_all(&rig, 1, ZR_QKV_B, 0.0F);
    assert_all(&rig, 1, ZR_NORM1_W, 1.0F);
    uint64_t n = 0;
    const float *first = values(&rig, 1, ZR_QKV_W, &n);
    const float *second = values(&rig, 2, ZR_QKV_W, &n);
    assert_true(memcmp(first, second, n * sizeof *first) != 0);
    kit_close(&rig);
}

/* Gradients of zero leave only decay. 0.1 (learning rate) x 0.5 (warm-up) x 0.1 (decay) = 0.005. */
static void matrices_decay_and_vectors_do_not(void **state)
{
    (void)state;
    zl_run run = kit_run(kit_model(ZL_FAMILY_GPT2));
    run.optimizer = ZL_OPTIMIZER_SGD;
    run.clip = 1e-30;
    kit_rig rig = kit_open(&run, NULL);
    const double before = deviation(&rig, 1, ZR_QKV_W);
    zr_step_result r;
    zl_err err = {0};
    assert_int_equal(zr_engine_step(rig.engine, kit_next, &rig.data, &r, &err), ZL_OK);
    const double after = deviation(&rig, 1, ZR_QKV_W);
    assert_true(fabs(after / before - 0.995) < 1e-5);
    assert_all(&rig, 1, ZR_NORM1_W, 1.0F);
    kit_close(&rig);
}

/* Embedding of GPT-2 micro in fp32: tokens 53 x 24 = 1272 values, 5088 bytes -> 5120; positions 13
 * x 24 = 312, 1248 -> 1280; 6400 bytes padded to 3 x 256 = 768: 6912 bytes, 1728 values, 576 a
 * rank. */
static void units_are_padded_to_ranks_times_256_bytes(void **state)
{
    (void)state;
    zr_unit unit;
    zr_unit_init(&unit);
    zr_unit_matrix(&unit, ZR_TOKEN_TABLE, 53, 24, 0.02);
    zr_unit_matrix(&unit, ZR_POSITION_TABLE, 13, 24, 0.02);
    zr_unit_close(&unit, ZL_F32, 3);
    assert_int_equal(unit.tensor[1].offset, 1280);
    assert_int_equal(unit.elements, 1728);
    assert_int_equal(unit.shard, 576);
    /* bf16: 2544 -> 2560 bytes, 624 -> 768; 3328 -> 3840 bytes, 1920 values. */
    zr_unit_close(&unit, ZL_BF16, 3);
    assert_int_equal(unit.tensor[1].offset, 1280);
    assert_int_equal(unit.elements, 1920);
}

static zl_status refuse_next(void *context, uint64_t step, uint64_t micro, zr_batch *batch,
                             zl_err *err)
{
    const zl_status status = kit_next(context, step, micro, batch, err);
    batch->tokens[3] = 53;
    return status;
}

static zl_status no_target_next(void *context, uint64_t step, uint64_t micro, zr_batch *batch,
                                zl_err *err)
{
    const zl_status status = kit_next(context, step, micro, batch, err);
    batch->targets[2] = micro == 1 ? -1 : 0;
    return status;
}

static void bad_batches_are_refused(void **state)
{
    (void)state;
    zl_run run = kit_run(kit_model(ZL_FAMILY_GPT2));
    run.accumulation = 2;
    zr_step_result r;
    kit_rig rig = kit_open(&run, NULL);
    zl_err err = {0};
    assert_int_equal(zr_engine_step(rig.engine, refuse_next, &rig.data, &r, &err), ZL_E_INPUT);
    assert_string_equal(err.text, "token 53 at element 3 is outside 0..52");
    kit_close(&rig);
    rig = kit_open(&run, NULL);
    err = (zl_err){0};
    assert_int_equal(zr_engine_step(rig.engine, no_target_next, &rig.data, &r, &err), ZL_E_INPUT);
    assert_non_null(strstr(err.text, "equally many loss tokens"));
    kit_close(&rig);
}

static zl_status try_run(const zl_run *run, uint64_t cap)
{
    zr_track *track = NULL;
    zr_comm *comm = NULL;
    zr_engine *engine = NULL;
    zl_err err = {0};
    assert_int_equal(zr_track_new(&(zr_track_options){.cap = cap}, &track, &err), ZL_OK);
    assert_int_equal(zr_comm_new(0, 1, &comm, &err), ZL_OK);
    const zr_engine_options options = {.run = run, .track = track, .comm = comm};
    const zl_status status = zr_engine_new(&options, &engine, &err);
    assert_int_equal(zr_track_live(track) == 0, status != ZL_OK);
    zr_engine_free(engine);
    zr_comm_free(comm);
    zr_track_free(track);
    return status;
}

static void what_is_not_trained_is_refused(void **state)
{
    (void)state;
    const zl_run good = kit_run(kit_model(ZL_FAMILY_GPT2));
    assert_int_equal(try_run(&good, 0), ZL_OK);
    zl_run run = good;
    run.backend = ZL_BACKEND_CUDA;
    assert_int_equal(try_run(&run, 0), ZL_E_UNMODELLED);
    run = good;
    run.model.activation = ZL_ACT_SWIGLU;
    assert_int_equal(try_run(&run, 0), ZL_E_UNMODELLED);
    run = good;
    run.ranks = 2;
    assert_int_equal(try_run(&run, 0), ZL_E_USAGE);
    run = good;
    run.shard_copy = false;
    assert_int_equal(try_run(&run, 0), ZL_E_USAGE);
    assert_int_equal(try_run(&good, 4096), ZL_E_RESOURCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_weights_are_gpt2s),
        cmocka_unit_test(matrices_decay_and_vectors_do_not),
        cmocka_unit_test(units_are_padded_to_ranks_times_256_bytes),
        cmocka_unit_test(bad_batches_are_refused),
        cmocka_unit_test(what_is_not_trained_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
