/* Evaluation: the loss of the forward that training would see without dropout, and nothing of the
 * training changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "engine_kit.h"

enum { STEPS = 3 };

static uint64_t bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static void assert_bits(double a, double b, const zl_run *run, uint64_t step)
{
    if (bits(a) != bits(b)) {
        char what[256];
        zl_run_describe(run, what, sizeof what);
        fail_msg("%s, step %d: %.17g and %.17g", what, (int)step + 1, a, b);
    }
}

/* The kit evaluates with the batch of the next step: the same parameters, the same sequences. */
static void check_loss(zl_run run)
{
    run.eval = true;
    const kit_result r = kit_train(&run, STEPS);
    for (uint64_t i = 0; i + 1 < STEPS; i++) {
        assert_bits(r.eval[i], r.loss[i + 1], &run, i);
    }
}

static void evaluation_is_the_forward_of_the_next_step(void **state)
{
    (void)state;
    for (int family = 0; family < ZL_FAMILY_COUNT; family++) {
        for (int recompute = 0; recompute < ZL_RECOMPUTE_COUNT; recompute++) {
            zl_run run = kit_run(kit_model((zl_family)family));
            run.recompute = (zl_recompute)recompute;
            run.stage = 3;
            check_loss(run);
            run.stage = 1;
            run.precision = ZL_PRECISION_BF16_MIXED;
            run.attention = ZL_ATTENTION_EAGER;
            run.head_chunk = 7;
            run.model.tied = !run.model.tied;
            check_loss(run);
        }
    }
}

/* The evaluation is the same as well, whatever is recomputed in training. */
static void check_training(zl_run run)
{
    run.eval = false;
    const kit_result want = kit_train(&run, STEPS);
    run.eval = true;
    const kit_result first = kit_train(&run, STEPS);
    for (int recompute = 0; recompute < ZL_RECOMPUTE_COUNT; recompute++) {
        run.recompute = (zl_recompute)recompute;
        const kit_result have = kit_train(&run, STEPS);
        char what[256];
        zl_run_describe(&run, what, sizeof what);
        kit_assert_same(&want, &have, what);
        for (uint64_t i = 0; i < STEPS; i++) {
            assert_bits(first.eval[i], have.eval[i], &run, i);
        }
    }
}

/* With dropout, whose masks are numbered, and accumulation. */
static void training_is_the_same_with_evaluation_and_without(void **state)
{
    (void)state;
    for (int family = 0; family < ZL_FAMILY_COUNT; family++) {
        zl_run run = kit_run(kit_model((zl_family)family));
        run.dropout = 0.1;
        run.accumulation = 2;
        for (run.stage = 0; run.stage < 4; run.stage++) {
            check_training(run);
        }
    }
}

/* Where gradients are clipped to nothing, and only the decay changes the parameters, dropout makes
 * no difference to them: so it makes none to the evaluation. */
static void evaluation_has_no_dropout(void **state)
{
    (void)state;
    for (int family = 0; family < ZL_FAMILY_COUNT; family++) {
        zl_run run = kit_run(kit_model((zl_family)family));
        run.eval = true;
        run.optimizer = ZL_OPTIMIZER_SGD;
        run.clip = 1e-30;
        const kit_result without = kit_train(&run, 1);
        for (int attention = 0; attention < ZL_ATTENTION_NATIVE_COUNT; attention++) {
            run.attention = (zl_attention)attention;
            run.dropout = 0.3;
            const kit_result with = kit_train(&run, 1);
            assert_true(fabs(with.loss[0] - without.loss[0]) > 1e-4);
            assert_true(fabs(with.eval[0] - without.eval[0]) < 1e-6 * without.eval[0]);
        }
    }
}

static zl_status no_target_next(void *context, uint64_t step, uint64_t micro, zr_batch *batch,
                                zl_err *err)
{
    const kit_data *data = context;
    const zl_status status = kit_next(context, step, micro, batch, err);
    for (uint64_t i = 0; micro == ZR_EVAL_BATCH && i < data->run->micro_batch * data->run->seq;
         i++) {
        batch->targets[i] = -1;
    }
    return status;
}

/* Other than a training batch it may have any number of them but none. */
static void an_evaluation_without_loss_tokens_is_refused(void **state)
{
    (void)state;
    zl_run run = kit_run(kit_model(ZL_FAMILY_GPT2));
    run.eval = true;
    kit_rig rig = kit_open(&run, NULL);
    zr_step_result r;
    zl_err err = {0};
    assert_int_equal(zr_engine_step(rig.engine, no_target_next, &rig.data, &r, &err), ZL_E_INPUT);
    assert_string_equal(err.text, "the evaluation batch of step 1 has no loss token");
    kit_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluation_is_the_forward_of_the_next_step),
        cmocka_unit_test(training_is_the_same_with_evaluation_and_without),
        cmocka_unit_test(evaluation_has_no_dropout),
        cmocka_unit_test(an_evaluation_without_loss_tokens_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
