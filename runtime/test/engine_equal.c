/* What must not change a bit of the losses, norms and parameters: the stage, recomputation, the
 * prefetch window, the number of slots, the copy of the shard, where gradients of equal value rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <math.h>

#include "engine_kit.h"

enum { STEPS = 4 };

typedef void change(zl_run *run);

static void assert_no_change(const zl_run *base, change *apply, const kit_result *want)
{
    zl_run run = *base;
    apply(&run);
    const kit_result have = kit_train(&run, STEPS);
    char what[256];
    zl_run_describe(&run, what, sizeof what);
    kit_assert_same(want, &have, what);
}

static void stage1(zl_run *run)
{
    run->stage = 1;
}

static void stage2(zl_run *run)
{
    run->stage = 2;
}

static void stage3(zl_run *run)
{
    run->stage = 3;
}

static void stage2_one_slot(zl_run *run)
{
    run->stage = 2;
    run->reduce_slots = 1;
}

static void stage3_no_window(zl_run *run)
{
    run->stage = 3;
    run->window = 0;
    run->reduce_slots = 9;
}

static void stage3_wide_window(zl_run *run)
{
    run->stage = 3;
    run->window = 5;
}

static void stage3_no_shard_copy(zl_run *run)
{
    run->stage = 3;
    run->shard_copy = run->precision == ZL_PRECISION_FP32 || run->precision == ZL_PRECISION_BF16;
}

static void selective(zl_run *run)
{
    run->recompute = ZL_RECOMPUTE_SELECTIVE;
}

static void full(zl_run *run)
{
    run->recompute = ZL_RECOMPUTE_FULL;
}

static void full_stage3(zl_run *run)
{
    run->stage = 3;
    run->recompute = ZL_RECOMPUTE_FULL;
}

static change *const changes[] = {
    stage1,
    stage2,
    stage3,
    stage2_one_slot,
    stage3_no_window,
    stage3_wide_window,
    stage3_no_shard_copy,
    selective,
    full,
    full_stage3,
};

static void check_all(const zl_run *base)
{
    const kit_result want = kit_train(base, STEPS);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        assert_no_change(base, changes[i], &want);
    }
    assert_true(isfinite(want.loss[STEPS - 1]));
    assert_true(want.loss[STEPS - 1] < want.loss[0]);
}

static void check_family(zl_family family)
{
    for (int precision = 0; precision < ZL_PRECISION_NATIVE_COUNT; precision++) {
        zl_run run = kit_run(kit_model(family));
        run.precision = (zl_precision)precision;
        check_all(&run);
        run.dropout = 0.1;
        run.attention = ZL_ATTENTION_EAGER;
        run.grad_dtype = ZL_GRAD_FP32;
        run.head_chunk = 7;
        run.optimizer = ZL_OPTIMIZER_SGD;
        run.model.tied = !run.model.tied;
        check_all(&run);
        run.attention = ZL_ATTENTION_FLASH;
        run.clip = 0.0;
        check_all(&run);
    }
}

static void gpt2_is_the_same_in_every_stage_and_recompute(void **state)
{
    (void)state;
    check_family(ZL_FAMILY_GPT2);
}

static void llama_is_the_same_in_every_stage_and_recompute(void **state)
{
    (void)state;
    check_family(ZL_FAMILY_LLAMA);
}

static void bert_is_the_same_in_every_stage_and_recompute(void **state)
{
    (void)state;
    check_family(ZL_FAMILY_BERT);
}

/* The same sequences in one micro-step or in three: only the order of summation differs. fp32 sums
 * of some hundred terms agree to about 1e-6; four steps of Adam amplify that a little. */
static void accumulation_equals_one_large_batch(void **state)
{
    (void)state;
    for (int family = 0; family < ZL_FAMILY_COUNT; family++) {
        zl_run large = kit_run(kit_model((zl_family)family));
        large.micro_batch = 6;
        const kit_result want = kit_train(&large, STEPS);
        for (uint64_t stage = 0; stage < 4; stage++) {
            zl_run run = large;
            run.stage = stage;
            run.micro_batch = 2;
            run.accumulation = 3;
            const kit_result have = kit_train(&run, STEPS);
            kit_assert_close(&want, &have, 1e-5);
        }
    }
}

/* bf16 rounds to 2^-9 of a value; losses near 4 average many such errors. */
static void bf16_follows_fp32(void **state)
{
    (void)state;
    for (int family = 0; family < ZL_FAMILY_COUNT; family++) {
        zl_run run = kit_run(kit_model((zl_family)family));
        const kit_result want = kit_train(&run, STEPS);
        run.precision = ZL_PRECISION_BF16_MIXED;
        const kit_result bf16 = kit_train(&run, STEPS);
        kit_assert_close(&want, &bf16, 3e-3);
        run.precision = ZL_PRECISION_FP16_MIXED;
        const kit_result fp16 = kit_train(&run, STEPS);
        kit_assert_close(&want, &fp16, 1e-3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_is_the_same_in_every_stage_and_recompute),
        cmocka_unit_test(llama_is_the_same_in_every_stage_and_recompute),
        cmocka_unit_test(bert_is_the_same_in_every_stage_and_recompute),
        cmocka_unit_test(accumulation_equals_one_large_batch),
        cmocka_unit_test(bf16_follows_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
