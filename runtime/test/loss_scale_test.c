/* fp16's loss scale: a step whose gradient overflows changes the scale and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint_kit.h"
#include "train/state.h"
#include "zeroledger/ledger.h"

/* At 2^24 the gradient of one of 22 tokens, 762600 at most, passes fp16's 65504 at once. */
static void a_skipped_step_changes_the_scale_alone(void **state)
{
    (void)state;
    zl_run run = kit_run(kit_model(ZL_FAMILY_GPT2));
    run.precision = ZL_PRECISION_FP16_MIXED;
    zl_ledger *skipped = zl_ledger_new();
    zl_ledger *usual = zl_ledger_new();
    zl_err err = {0};
    uint64_t before = 0;
    zr_step_result r;
    kit_rig rig = kit_open_at(&run, NULL, &(kit_start){.loss_scale = 16777216.0});
    assert_int_equal(zr_engine_hash(rig.engine, &before, &err), ZL_OK);
    assert_int_equal(zr_engine_step(rig.engine, kit_next, &rig.data, &r, &err), ZL_OK);
    uint64_t after = 0;
    assert_int_equal(zr_engine_hash(rig.engine, &after, &err), ZL_OK);
    assert_true(r.skipped);
    assert_int_equal(after, before);
    assert_true(rig.engine->scale.value > 8388607.0 && rig.engine->scale.value < 8388609.0);
    assert_int_equal(rig.engine->updates, 0);
    for (int i = 0; r.skipped && i < 20; i++) {
        assert_int_equal(zr_engine_step(rig.engine, kit_next, &rig.data, &r, &err), ZL_OK);
    }
    assert_false(r.skipped); /* it has found a scale that fits, and trains */
    assert_int_equal(zr_engine_hash(rig.engine, &after, &err), ZL_OK);
    assert_int_not_equal(after, before);
    assert_int_equal(zr_track_export(rig.track, skipped, &err), ZL_OK);
    kit_close(&rig);

    /* States came in the cold step although it was skipped: the cells are those of any run. */
    rig = kit_open(&run, NULL);
    (void)kit_steps(&rig, 2);
    assert_int_equal(zr_track_export(rig.track, usual, &err), ZL_OK);
    kit_close(&rig);
    skipped->run = usual->run = run;
    zl_difference difference;
    assert_int_equal(zl_ledger_compare(usual, skipped, false, &difference, &err), ZL_OK);
    assert_false(difference.found);
    zl_ledger_free(usual);
    zl_ledger_free(skipped);
}

/* Two skipped steps before the checkpoint, others behind it; Adam counts updates, not steps. */
static void the_loss_scale_goes_on(void **state)
{
    (void)state;
    zl_run run = kit_run(kit_model(ZL_FAMILY_LLAMA));
    run.precision = ZL_PRECISION_FP16_MIXED;
    const kit_start start = {.loss_scale = 16777216.0};
    kit_rig rig = kit_open_at(&run, NULL, &start);
    kit_result want = kit_steps(&rig, 9);
    const zr_loss_scale scale = rig.engine->scale;
    const uint64_t updates = rig.engine->updates;
    kit_close(&rig);
    assert_true(updates > 0 && updates < 7);
    kit_save(run, 6, &start);
    rig = kit_open_at(&run, NULL, &(kit_start){.resume = kit_root});
    const kit_result have = kit_steps(&rig, 3);
    assert_memory_equal(&have.loss[0], &want.loss[6], 3 * sizeof have.loss[0]);
    assert_int_equal(have.hash, want.hash);
    assert_memory_equal(&rig.engine->scale.value, &scale.value, sizeof scale.value);
    assert_int_equal(rig.engine->scale.good, scale.good);
    assert_int_equal(rig.engine->updates, updates);
    kit_close(&rig);
    kit_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_skipped_step_changes_the_scale_alone),
        cmocka_unit_test(the_loss_scale_goes_on),
    };
    return cmocka_run_group_tests(tests, kit_make_root, kit_remove_root);
}
