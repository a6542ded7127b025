/* Older code that people still publish figures of, on a tiny Llama: vocabulary 10, width 4, two
 * layers of 2 heads, MLP 16, 8 positions, everything bf16, two sequences of three tokens. */
#include "base_test.h"

#include "zeroledger/torch.h"

static zl_torch_run tiny(void)
{
    zl_torch_run run;
    zl_torch_run_init(&run);
    run.model = (zl_hf_config){
        .arch = ZL_HF_LLAMA,
        .activation = ZL_HF_SILU,
        .vocab = 10,
        .hidden = 4,
        .layers = 2,
        .heads = 2,
        .kv_heads = 2,
        .head_dim = 2,
        .ffn = 16,
        .positions = 8,
    };
    run.micro_batch = 2;
    run.seq = 3;
    run.steps = 2;
    return run;
}

/* The last mark of that name. */
static zl_mark at(const zl_torch_run *run, const char *name)
{
    zl_marks marks = {0};
    zl_err err = {0};
    zl_mark found = {.step = -2};
    assert_int_equal(zl_torch_predict(run, 0, &marks, &err), ZL_OK);
    for (size_t i = 0; i < marks.count; i++) {
        if (strcmp(marks.mark[i].at, name) == 0) {
            found = marks.mark[i];
        }
    }
    zl_marks_clear(&marks);
    assert_int_not_equal(found.step, -2);
    return found;
}

/* Each layer: one frequency, 8 x 2 cosines and sines, 2 bytes each; the model's own two frequencies
 * are gone. FSDP does not shard them. */
static void every_layer_keeps_its_rotary_tables(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    const uint64_t shared = at(&run, "init").requested;
    run.rotary_tables = true;
    assert_int_equal(at(&run, "init").requested - shared, 2 * (2 + 32 + 32) - 4);
    run.framework = ZL_TORCH_FSDP1;
    run.stage = 3;
    run.ranks = 2;
    const uint64_t sharded = at(&run, "init").requested;
    run.rotary_tables = false;
    assert_int_equal(sharded - at(&run, "init").requested, 2 * (2 + 32 + 32) - 4);
}

/* 6 tokens, of which 4 have a next one. Now: bf16 logits 120, their fp32 copy 240, padded labels
 * 8 (6 + 2), targets 48, log-softmax 240. Then: fp32 logits 240, their copy 4 x 10 x 4 = 160,
 * targets 32, log-softmax 160. Kept for backward: targets, log-softmax, and what the caller holds:
 * logits and the loss before it is scaled. */
static void the_loss_copied_shifted_logits(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    const zl_mark now = at(&run, "after_forward");
    run.shifted_logits = true;
    const zl_mark then = at(&run, "after_forward");
    assert_int_equal(now.peak_requested - then.peak_requested,
                     (120 + 240 + 64 + 48 + 240) - (240 + 160 + 32 + 160));
    assert_int_equal(then.requested - now.requested, (240 + 32 + 160) - (120 + 48 + 240));
    run.drop_logits = true;
    assert_int_equal(then.requested - at(&run, "after_forward").requested, 240 + 4);
}

/* Then the slices of a single sequence of six tokens are contiguous: nothing is copied. As nothing
 * goes either, the scaled loss comes on top. */
static void one_sequence_is_not_copied(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    run.micro_batch = 1;
    run.seq = 6;
    const zl_mark now = at(&run, "after_forward");
    run.shifted_logits = true;
    assert_int_equal(now.peak_requested - at(&run, "after_forward").peak_requested,
                     (120 + 240 + 56 + 240) - (240 + 40 + 200 + 4));
}

static void other_models_have_no_such_code(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    zl_marks marks = {0};
    zl_err err = {0};
    run.model.arch = ZL_HF_GPT2;
    run.model.activation = ZL_HF_GELU_NEW;
    run.shifted_logits = true;
    assert_error(zl_torch_predict(&run, 0, &marks, &err), &err, ZL_E_USAGE, "Llama and Mixtral");
}

/* With a vocabulary of 1,000 the peak is at the loss, where the last layer is gathered already: 4
 * matrices of 16 and 3 of 64 elements, two norms of 4, the second 16 bytes behind the first; the
 * flat parameter ends with it. 2 bytes each. */
static void without_prefetch_a_layer_less_is_gathered(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    run.model.vocab = 1000;
    run.framework = ZL_TORCH_FSDP1;
    run.stage = 3;
    run.ranks = 2;
    const uint64_t ahead = at(&run, "after_backward").peak_requested;
    run.no_prefetch = true;
    assert_int_equal(ahead - at(&run, "after_backward").peak_requested,
                     2 * (4 * 16 + 3 * 64 + 8 + 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_keeps_its_rotary_tables),
        cmocka_unit_test(the_loss_copied_shifted_logits),
        cmocka_unit_test(one_sequence_is_not_copied),
        cmocka_unit_test(other_models_have_no_such_code),
        cmocka_unit_test(without_prefetch_a_layer_less_is_gathered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
