/* What DDP, ZeroRedundancyOptimizer, FSDP1 and FSDP2 keep, on a GPT-2 small enough to count by
 * hand.
 *
 * Width 8, 2 layers of 12 tensors, vocabulary 100, 32 positions: 800 + 256 elements of tables, 872
 * in each layer (16 + 192 + 24 + 64 + 8 + 16 + 256 + 32 + 256 + 8), 16 of the last norm: 2,816 in
 * 28 tensors, fp32. Workspaces of cuBLAS in two threads and of cuBLASLt in one: 68,157,440 bytes.
 * The loss that the training loop keeps is 4 bytes, the ids are 8 x 16. */
#include "base_test.h"

#include "zeroledger/torch.h"

static const uint64_t workspaces = 68157440;

static zl_torch_run tiny(zl_torch_framework framework, uint64_t stage, uint64_t vocab)
{
    static const char format[] = "{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": 2,"
                                 "\"n_head\": 2, \"n_positions\": 32, \"vocab_size\": %d}";
    char text[160];
    zl_json_doc *doc = NULL;
    zl_err err = {.status = ZL_OK};
    zl_torch_run run;
    zl_torch_run_init(&run);
    snprintf(text, sizeof text, format, (int)vocab);
    assert_ok(zl_json_parse("config", text, strlen(text), &doc, &err), &err);
    assert_ok(zl_hf_config_read(zl_json_root(doc), &run.model, &err), &err);
    zl_json_free(doc);
    run.framework = framework;
    run.stage = stage;
    run.ranks = 2;
    run.precision = ZL_TORCH_FP32;
    run.seq = 16;
    return run;
}

/* Requested bytes at a mark. */
static uint64_t requested(const zl_torch_run *run, uint64_t rank, int32_t step, const char *at)
{
    zl_marks marks = {.count = 0};
    zl_err err = {.status = ZL_OK};
    uint64_t bytes = 0;
    bool found = false;
    assert_ok(zl_torch_predict(run, rank, &marks, &err), &err);
    for (size_t i = 0; i < marks.count && !found; i++) {
        found = marks.mark[i].step == step && strcmp(marks.mark[i].at, at) == 0;
        bytes = marks.mark[i].requested;
    }
    zl_marks_clear(&marks);
    assert_true(found);
    return bytes;
}

static void ddp_keeps_one_set_of_buckets(void **state)
{
    (void)state;
    zl_torch_run run = tiny(ZL_TORCH_DDP, 0, 100);
    /* Weights and buckets of 4 x 2,816, two states of that, a step of 4 bytes per tensor. */
    const uint64_t kept = UINT64_C(4) * 11264 + UINT64_C(4) * 28 + workspaces + 4;
    assert_int_equal(requested(&run, 0, 3, "after_zero_grad"), kept);
    assert_int_equal(requested(&run, 0, 3, "after_step"), kept + 11264 + 128);
    run.bucket_view = true; /* gradients are the buckets */
    assert_int_equal(requested(&run, 0, 3, "after_zero_grad"), kept);
    assert_int_equal(requested(&run, 0, 3, "after_step"), kept + 128);
}

static void ddp_accumulates_without_buckets_before_the_last_micro_step(void **state)
{
    (void)state;
    zl_torch_run run = tiny(ZL_TORCH_DDP, 0, 100);
    run.bucket_view = true;
    run.accumulation = 2;
    const uint64_t kept = UINT64_C(4) * 11264 + UINT64_C(4) * 28 + workspaces + 4;
    /* Both micro-steps have their ids from the beginning. */
    assert_int_equal(requested(&run, 1, 3, "after_backward_0"), kept + 11264 + UINT64_C(2) * 128);
    assert_int_equal(requested(&run, 1, 3, "after_backward"), kept + UINT64_C(2) * 128);
}

static void zero1_gives_the_largest_to_the_least_loaded(void **state)
{
    (void)state;
    const zl_torch_run run = tiny(ZL_TORCH_ZERO1, 1, 100);
    /* Both get 1,408 elements: rank 0 the token table, one of five tensors of 256, of 192 and of
     * 64, a bias of 32, and eight tensors of 8, 13 in all; rank 1 the other 15. */
    const uint64_t kept = UINT64_C(2) * 11264 + UINT64_C(8) * 1408 + workspaces + 4;
    assert_int_equal(requested(&run, 0, 3, "after_zero_grad"), kept + UINT64_C(4) * 13);
    assert_int_equal(requested(&run, 1, 3, "after_zero_grad"), kept + UINT64_C(4) * 15);
}

static void fsdp1_keeps_gradients_until_the_next_forward(void **state)
{
    (void)state;
    const zl_torch_run run = tiny(ZL_TORCH_FSDP1, 3, 100);
    /* Half of everything, gradients too. Rank 0 has a piece of the token table and of nine tensors
     * of each layer, up to half of c_fc.weight. */
    assert_int_equal(requested(&run, 0, 3, "before_forward"),
                     UINT64_C(4) * 5632 + UINT64_C(4) * 19 + workspaces + 4 + 128);
    /* Rank 1 the rest: the token table, positions and the norm; of each layer the last four. */
    assert_int_equal(requested(&run, 1, 3, "before_forward"),
                     UINT64_C(4) * 5632 + UINT64_C(4) * 12 + workspaces + 4 + 128);
}

static void fsdp2_pads_weights_but_not_states(void **state)
{
    (void)state;
    const zl_torch_run run = tiny(ZL_TORCH_FSDP2, 3, 101);
    /* 51 rows of the token table on both, of which rank 1 has one for padding: 1,416 elements. */
    const uint64_t kept = UINT64_C(4) * 1416 + UINT64_C(4) * 28 + workspaces + 4;
    assert_int_equal(requested(&run, 0, 3, "after_zero_grad"), kept + UINT64_C(8) * 1416);
    assert_int_equal(requested(&run, 1, 3, "after_zero_grad"), kept + UINT64_C(8) * 1408);
    /* Gradients are padded. */
    assert_int_equal(requested(&run, 1, 3, "after_step"),
                     kept + UINT64_C(8) * 1408 + UINT64_C(4) * 1416 + 128);
}

static void fsdp2_without_reshard_keeps_gathered_weights_for_backward(void **state)
{
    (void)state;
    const zl_torch_run reshard = tiny(ZL_TORCH_FSDP2, 3, 100);
    const zl_torch_run keep = tiny(ZL_TORCH_FSDP2, 2, 100);
    assert_int_equal(requested(&keep, 0, 3, "after_forward"),
                     requested(&reshard, 0, 3, "after_forward") + 11264);
    assert_int_equal(requested(&keep, 0, 3, "after_backward"),
                     requested(&reshard, 0, 3, "after_backward"));
}

static void what_fsdp1_cannot_do_is_named(void **state)
{
    (void)state;
    zl_torch_run run = tiny(ZL_TORCH_FSDP1, 3, 100);
    zl_marks marks = {.count = 0};
    zl_err err = {.status = ZL_OK};
    run.ranks = 1;
    assert_error(zl_torch_predict(&run, 0, &marks, &err), &err, ZL_E_UNMODELLED, "one rank");
    run.ranks = 2;
    run.trainable_layers = 1;
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_torch_predict(&run, 0, &marks, &err), &err, ZL_E_UNMODELLED, "frozen");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ddp_keeps_one_set_of_buckets),
        cmocka_unit_test(ddp_accumulates_without_buckets_before_the_last_micro_step),
        cmocka_unit_test(zero1_gives_the_largest_to_the_least_loaded),
        cmocka_unit_test(fsdp1_keeps_gradients_until_the_next_forward),
        cmocka_unit_test(fsdp2_pads_weights_but_not_states),
        cmocka_unit_test(fsdp2_without_reshard_keeps_gathered_weights_for_backward),
        cmocka_unit_test(what_fsdp1_cannot_do_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
