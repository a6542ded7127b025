/* Walks of a tiny model on one GPU, against figures worked out by hand.
 *
 * GPT-2 with vocabulary 10, width 4, one layer of 2 heads, MLP 16, 8 positions has 324 parameters
 * in 16 tensors: wte 40, wpe 32, ln_1 4 + 4, c_attn 48 + 12, c_proj 16 + 4, ln_2 4 + 4, c_fc 64 +
 * 16, c_proj 64 + 4, ln_f 4 + 4.
 */
#include "base_test.h"

#include <string.h>

#include "zeroledger/torch.h"

static const uint64_t workspaces = 2 * UINT64_C(33554432) + 1048576; /* cuBLAS, cuBLASLt */
static const uint64_t parameters = 324;
static const uint64_t ids = 8 * UINT64_C(6);
static const uint64_t loss = 4;

static zl_torch_run tiny(void)
{
    zl_torch_run run;
    zl_torch_run_init(&run);
    run.model = (zl_hf_config){
        .arch = ZL_HF_GPT2,
        .activation = ZL_HF_GELU_NEW,
        .vocab = 10,
        .hidden = 4,
        .layers = 1,
        .heads = 2,
        .kv_heads = 2,
        .head_dim = 2,
        .ffn = 16,
        .positions = 8,
        .tied = true,
    };
    run.micro_batch = 2;
    run.seq = 3;
    run.steps = 2;
    return run;
}

static zl_mark at(const zl_torch_run *run, int32_t step, const char *name)
{
    zl_marks marks = {0};
    zl_err err = {0};
    zl_mark found = {.step = -2};
    assert_int_equal(zl_torch_predict(run, 0, &marks, &err), ZL_OK);
    for (size_t i = 0; i < marks.count; i++) {
        if (marks.mark[i].step == step && strcmp(marks.mark[i].at, name) == 0) {
            found = marks.mark[i];
        }
    }
    zl_marks_clear(&marks);
    assert_int_equal(found.step, step);
    return found;
}

static void parameters_are_counted_once(void **state)
{
    (void)state;
    const zl_torch_run run = tiny();
    zl_marks marks = {0};
    assert_int_equal(zl_torch_predict(&run, 0, &marks, NULL), ZL_OK);
    assert_int_equal(marks.parameters, 324);
    assert_int_equal(marks.trainable, 324);
    assert_string_equal(marks.mark[0].at, "init");
    assert_int_equal(marks.mark[0].requested, 2 * 324);
    zl_marks_clear(&marks);
}

/* Weights, two states and a step count for each tensor; ids, the loss kept by the caller. */
static void fused_adam_keeps_two_states_and_a_count(void **state)
{
    (void)state;
    const zl_torch_run run = tiny();
    assert_int_equal(at(&run, 1, "before_forward").requested,
                     6 * parameters + 4 * UINT64_C(16) + workspaces + ids + loss);
}

static void sgd_keeps_one_state(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    run.optimizer = ZL_TORCH_SGD;
    assert_int_equal(at(&run, 1, "before_forward").requested,
                     4 * parameters + workspaces + ids + loss);
}

/* No tensor reaches 4096 elements: fp32 states; with a vocabulary of 1250, wte has 5000: one byte
 * each, 20 blocks of 256 with an fp32 scale each, and two maps of 256 fp32. */
static void adam8bit_quantises_large_tensors_only(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    run.optimizer = ZL_TORCH_ADAM8BIT;
    assert_int_equal(at(&run, 1, "before_forward").requested,
                     (2 + 8) * parameters + workspaces + ids + loss);
    run.model.vocab = 1250;
    const uint64_t states = 8 * UINT64_C(284) + 2 * UINT64_C(5000) + 8 * UINT64_C(20) + 2048;
    assert_int_equal(at(&run, 1, "before_forward").requested,
                     2 * UINT64_C(5284) + states + workspaces + ids + loss);
}

/* All 16 square roots at once after the gradients, states and weights. */
static void foreach_adam_makes_all_roots_at_once(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    run.optimizer = ZL_TORCH_ADAMW_FOREACH;
    const zl_mark step = at(&run, 1, "after_step");
    assert_int_equal(step.peak_requested - step.requested, 2 * parameters);
}

/* Root and quotient of the MLP's c_proj, while the quotient of c_fc's bias still has its name. */
static void looping_adam_makes_one_root_at_a_time(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    run.optimizer = ZL_TORCH_ADAMW_LOOP;
    const zl_mark step = at(&run, 1, "after_step");
    assert_int_equal(step.peak_requested - step.requested, 2 * 2 * 64 + 2 * 16);
}

static void gradients_live_from_backward_to_zero_grad(void **state)
{
    (void)state;
    const zl_torch_run run = tiny();
    const uint64_t before = at(&run, 1, "before_forward").requested;
    assert_int_equal(at(&run, 1, "after_backward").requested, before + 2 * parameters);
    assert_int_equal(at(&run, 1, "after_zero_grad").requested, before - ids);
}

/* 2 bytes for each of 6 x 10 logits: the loss itself reads an fp32 copy. */
static void dropping_the_output_frees_the_logits(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    const uint64_t kept = at(&run, 1, "after_forward").requested;
    run.drop_logits = true;
    assert_int_equal(kept - at(&run, 1, "after_forward").requested, 2 * 60 + 4);
}

static void micro_steps_have_numbered_marks(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    run.accumulation = 2;
    const uint64_t first = at(&run, 1, "after_backward_0").requested;
    assert_int_equal(at(&run, 1, "after_backward").requested, first);
}

/* Adapters of rank 3 at c_attn: A (3, 4), B (12, 3), and nothing else trains. */
static void adapters_train_alone(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    run.lora_rank = 3;
    run.lora_targets = 1;
    strcpy(run.lora_target[0], "c_attn");
    zl_marks marks = {0};
    assert_int_equal(zl_torch_predict(&run, 0, &marks, NULL), ZL_OK);
    assert_int_equal(marks.parameters, 324 + 48);
    assert_int_equal(marks.trainable, 48);
    zl_marks_clear(&marks);
}

static void too_little_memory_is_a_no(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    zl_marks marks = {0};
    zl_err err = {0};
    run.device_total = 48 << 20;
    assert_int_equal(zl_torch_predict(&run, 0, &marks, &err), ZL_NO);
    assert_non_null(strstr(err.text, "33554432 bytes"));
    assert_null(marks.mark);
}

static void impossible_runs_are_refused(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    zl_marks marks = {0};
    assert_int_equal(zl_torch_predict(&run, 1, &marks, NULL), ZL_E_USAGE);
    run.model.kv_heads = 3;
    assert_int_equal(zl_torch_predict(&run, 0, &marks, NULL), ZL_E_USAGE);
    run = tiny();
    run.micro_batch = 0;
    assert_int_equal(zl_torch_predict(&run, 0, &marks, NULL), ZL_E_USAGE);
    run = tiny();
    run.micro_batch = UINT64_MAX / 2;
    assert_int_equal(zl_torch_predict(&run, 0, &marks, NULL), ZL_E_USAGE);
    run = tiny();
    run.model.arch = ZL_HF_ARCH_COUNT;
    assert_int_equal(zl_torch_predict(&run, 0, &marks, NULL), ZL_E_UNMODELLED);
    run = tiny();
    run.precision = ZL_TORCH_FP16_MIXED;
    assert_int_equal(zl_torch_predict(&run, 0, &marks, NULL), ZL_E_USAGE);
    run.precision = ZL_TORCH_FP32;
    run.attention = ZL_TORCH_FLASH;
    assert_int_equal(zl_torch_predict(&run, 0, &marks, NULL), ZL_E_USAGE);
    run = tiny();
    run.optimizer = ZL_TORCH_FROM_CONFIG;
    assert_int_equal(zl_torch_predict(&run, 0, &marks, NULL), ZL_E_USAGE);
    run = tiny();
    strcpy(run.alloc_conf, "nonsense:");
    assert_int_equal(zl_torch_predict(&run, 0, &marks, NULL), ZL_E_USAGE);
    assert_null(marks.mark);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_counted_once),
        cmocka_unit_test(fused_adam_keeps_two_states_and_a_count),
        cmocka_unit_test(sgd_keeps_one_state),
        cmocka_unit_test(adam8bit_quantises_large_tensors_only),
        cmocka_unit_test(foreach_adam_makes_all_roots_at_once),
        cmocka_unit_test(looping_adam_makes_one_root_at_a_time),
        cmocka_unit_test(gradients_live_from_backward_to_zero_grad),
        cmocka_unit_test(dropping_the_output_frees_the_logits),
        cmocka_unit_test(micro_steps_have_numbered_marks),
        cmocka_unit_test(adapters_train_alone),
        cmocka_unit_test(too_little_memory_is_a_no),
        cmocka_unit_test(impossible_runs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
