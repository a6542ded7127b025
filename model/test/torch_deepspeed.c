#include "base_test.h"

#include <inttypes.h>

#include "zeroledger/json.h"
#include "zeroledger/torch.h"

/* GPT-2 with 2 layers of width 64, vocabulary 1,000, 128 positions. Parameters: token table 64,000,
 * position table 8,192, a layer 128 + 12,480 + 4,160 + 128 + 16,640 + 16,448 = 49,984, final norm
 * 128; together 172,288. */
static const char gpt2_tiny[] =
    "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 64, \"n_head\": 4,"
    " \"vocab_size\": 1000, \"n_positions\": 128}";
static const uint64_t P = 172288;

static const char bert_large[] =
    "{\"model_type\": \"bert\", \"architectures\": [\"BertForPreTraining\"],"
    " \"vocab_size\": 30528, \"hidden_size\": 1024, \"num_hidden_layers\": 24,"
    " \"num_attention_heads\": 16, \"intermediate_size\": 4096}";

static zl_torch_run run_of(const char *model, const char *release, const char *ds_config)
{
    zl_err err = {.status = ZL_OK};
    zl_json_doc *doc = NULL;
    uint32_t version = 0;
    zl_torch_run run;
    zl_torch_run_init(&run);
    assert_ok(zl_json_parse("config.json", model, strlen(model), &doc, &err), &err);
    assert_ok(zl_hf_config_read(zl_json_root(doc), &run.model, &err), &err);
    zl_json_free(doc);
    assert_ok(zl_ds_version_parse(release, &version, &err), &err);
    assert_ok(zl_json_parse("ds_config.json", ds_config, strlen(ds_config), &doc, &err), &err);
    assert_ok(zl_ds_config_read(zl_json_root(doc), version, &run.ds, NULL, NULL, &err), &err);
    zl_json_free(doc);
    run.framework = ZL_TORCH_DEEPSPEED;
    run.optimizer = ZL_TORCH_FROM_CONFIG;
    run.stage = run.ds.stage;
    run.accumulation = run.ds.accumulation;
    run.precision = run.ds.fp16   ? ZL_TORCH_FP16_MIXED
                    : run.ds.bf16 ? ZL_TORCH_BF16_MIXED
                                  : ZL_TORCH_FP32;
    run.micro_batch = 1;
    run.seq = 8;
    run.simulated = true;
    return run;
}

static zl_marks walk(const zl_torch_run *run, uint64_t rank)
{
    zl_err err = {.status = ZL_OK};
    zl_marks marks;
    assert_ok(zl_torch_predict(run, rank, &marks, &err), &err);
    return marks;
}

static const zl_mark *at(const zl_marks *marks, int32_t step, const char *name)
{
    for (size_t i = 0; i < marks->count; i++) {
        if (marks->mark[i].step == step && strcmp(marks->mark[i].at, name) == 0) {
            return &marks->mark[i];
        }
    }
    fail_msg("no mark %s of step %" PRId32, name, step);
    return NULL;
}

static void assert_wrapper(const char *release, const char *ds_config, const char *name)
{
    zl_torch_run run = run_of(gpt2_tiny, release, ds_config);
    run.steps = 1;
    run.ranks = 2;
    zl_marks marks = walk(&run, 0);
    assert_string_equal(marks.optimizer_class, name);
    assert_int_equal(marks.parameters, P);
    zl_marks_clear(&marks);
}

#define ADAM "\"optimizer\": {\"type\": \"AdamW\"}"

static void wrapper_follows_precision_stage_and_release(void **state)
{
    (void)state;
    static const char bf16[] = "{\"bf16\": {\"enabled\": true}, " ADAM "}";
    static const char fp16_torch[] = "{\"fp16\": {\"enabled\": true}, \"optimizer\": {\"type\": "
                                     "\"Adam\", \"params\": {\"torch_adam\": true}}}";
    static const char wide[] =
        "{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 1},"
        " \"data_types\": {\"grad_accum_dtype\": \"fp32\"}, " ADAM "}";
    assert_wrapper("0.19.6", "{" ADAM "}", "FusedAdam");
    assert_wrapper("0.19.6", fp16_torch, "FP16_UnfusedOptimizer");
    assert_wrapper("0.14.5", bf16, "BF16_Optimizer");
    assert_wrapper("0.17.5", bf16, "BF16_Optimizer");
    assert_wrapper("0.17.6", bf16, "FP16_Optimizer");
    assert_wrapper("0.14.5", wide, "BF16_Optimizer");
    assert_wrapper("0.18.4", wide, "FP16_Optimizer");
    assert_wrapper("0.18.5", wide, "BF16_Optimizer");
}

/* FP16_Optimizer: 2 P parameters, 4 P masters, 8 P states and 4 bytes of FusedAdam; at the
 * concatenation of the fp32 gradients 2 P gradients and two times 4 P are there too. */
static void stage0_steps_on_24_bytes_per_parameter(void **state)
{
    (void)state;
    zl_torch_run run = run_of(gpt2_tiny, "0.19.6", "{\"fp16\": {\"enabled\": true}, " ADAM "}");
    zl_marks marks = walk(&run, 0);
    assert_int_equal(at(&marks, -1, "init")->requested, 14 * P + 4);
    assert_int_equal(at(&marks, 2, "after_step")->peak_requested -
                         at(&marks, 2, "before_forward")->requested,
                     10 * P);
    zl_marks_clear(&marks);
}

/* Rank 1 of 4 owns elements 43,072 to 86,144: the end of the token table, the position table, norm,
 * attention's weight and bias, the beginning of the projection: whole tensors of 64,000 + 8,192 +
 * 64 + 64 + 12,288 + 192 + 4,096 = 88,896 elements. */
static void stage2_keeps_the_gradients_of_its_partition(void **state)
{
    (void)state;
    zl_torch_run run =
        run_of(gpt2_tiny, "0.19.6",
               "{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 2}, " ADAM "}");
    run.ranks = 4;
    zl_marks marks = walk(&run, 1);
    const uint64_t local = P / 4;
    assert_int_equal(at(&marks, -1, "init")->requested, 2 * P + 4 * local + 4);
    const uint64_t before = at(&marks, 2, "before_forward")->requested;
    const uint64_t after = at(&marks, 2, "after_backward")->requested;
    assert_int_equal(after - before, 2 * 88896);
    /* Flat gradient, its fp32 copy, two norms of 4 bytes. */
    assert_int_equal(at(&marks, 2, "after_step")->peak_requested - after, 6 * local + 8);
    zl_marks_clear(&marks);
}

/* Shards 2, masters 4 and gradients 2 bytes per local element, the bucket, 4 + 1 bytes of flags;
 * all tensors divide by 4. */
static void stage3_cuts_every_tensor(void **state)
{
    (void)state;
    zl_torch_run run = run_of(gpt2_tiny, "0.19.6",
                              "{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": "
                              "3, \"reduce_bucket_size\": 1000}, " ADAM "}");
    run.ranks = 4;
    zl_marks marks = walk(&run, 0);
    assert_int_equal(at(&marks, -1, "init")->requested, 8 * (P / 4) + 2000 + 5);
    zl_marks_clear(&marks);
}

/* Since 0.13.2 the states appear with the first step that is executed. */
static void a_skipped_step_makes_no_states(void **state)
{
    (void)state;
    zl_torch_run run =
        run_of(gpt2_tiny, "0.19.6",
               "{\"fp16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 1}, " ADAM "}");
    run.ranks = 4;
    run.skipped[0] = true;
    zl_marks marks = walk(&run, 0);
    assert_int_equal(at(&marks, 1, "after_step")->requested -
                         at(&marks, 0, "after_step")->requested,
                     8 * (P / 4) + 4); /* and the norm the engine keeps */
    zl_marks_clear(&marks);
}

/* Pinned blocks are powers of two: masters and gradients in fp32 (4 n = 172,288 -> 262,144 each),
 * bf16 staging (86,144 -> 131,072) and the largest gradient (128,000 -> 131,072); the states, 8 n,
 * are pageable and come with the first step. */
static void offload_fills_the_host(void **state)
{
    (void)state;
    zl_torch_run run = run_of(gpt2_tiny, "0.19.6",
                              "{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": "
                              "2, \"offload_optimizer\": {\"device\": \"cpu\"}}, " ADAM "}");
    run.ranks = 4;
    zl_marks marks = walk(&run, 0);
    zl_torch_run pageable = run;
    pageable.ds.pin_optimizer = false;
    zl_marks other = walk(&pageable, 0);
    assert_int_equal(at(&marks, -1, "init")->host_rss - at(&other, -1, "init")->host_rss,
                     262144 - 172288);
    assert_int_equal(at(&marks, 0, "after_step")->host_rss -
                         at(&marks, 0, "after_backward")->host_rss,
                     8 * (P / 4));
    zl_marks_clear(&marks);
    zl_marks_clear(&other);
}

static void assert_gib(uint64_t bytes, uint64_t hundredths)
{
    const uint64_t gib = UINT64_C(1) << 30;
    const uint64_t wanted = hundredths * gib / 100;
    const uint64_t allowed = 3 * gib / 100;
    if (bytes + allowed < wanted || bytes > wanted + allowed) {
        fail_msg("%" PRIu64 " bytes are not %" PRIu64 "/100 GiB", bytes, hundredths);
    }
}

static zl_torch_run bing_bert(const char *release, const char *ds_config, uint64_t ranks)
{
    zl_torch_run run = run_of(bert_large, release, ds_config);
    run.attention = ZL_TORCH_EAGER;
    run.micro_batch = 8;
    run.seq = 128;
    run.ranks = ranks;
    run.ds.decay_groups = true;
    run.ds.pooler_outside = true;
    run.activations = UINT64_C(1524713390); /* 1.42 GiB */
    return run;
}

#define FP16 "\"fp16\": {\"enabled\": true}, \"optimizer\": {\"type\": \"Adam\"}"

/* The log that the project began with: BERT-large with fp16 and Adam on DeepSpeed 0.5.9, one GPU
 * without ZeRO and eight with stage 3, where the step before was skipped. */
static void bing_bert_uses_what_its_log_says(void **state)
{
    (void)state;
    zl_torch_run run = bing_bert("0.5.9", "{" FP16 "}", 1);
    zl_marks marks = walk(&run, 0);
    assert_gib(at(&marks, 2, "before_forward")->allocated, 438);
    assert_gib(at(&marks, 1, "after_step")->peak_allocated, 750);
    assert_gib(at(&marks, 2, "after_forward")->allocated, 580);
    assert_gib(at(&marks, 2, "after_forward")->peak_allocated, 580);
    assert_gib(at(&marks, 2, "after_backward")->allocated, 501);
    assert_gib(at(&marks, 2, "after_backward")->peak_allocated, 586);
    zl_marks_clear(&marks);

    run = bing_bert("0.5.9", "{" FP16 ", \"zero_optimization\": {\"stage\": 3}}", 8);
    run.ds.zero_init = true;
    run.skipped[1] = true;
    marks = walk(&run, 0);
    assert_gib(at(&marks, 2, "before_forward")->allocated, 55);
    assert_gib(at(&marks, 1, "after_step")->peak_allocated, 64);
    assert_gib(at(&marks, 2, "after_forward")->allocated, 197);
    assert_gib(at(&marks, 2, "after_forward")->peak_allocated, 197);
    assert_gib(at(&marks, 2, "after_backward")->allocated, 63);
    assert_gib(at(&marks, 2, "after_backward")->peak_allocated, 404);
    zl_marks_clear(&marks);
}

/* What would have helped: a bucket of 5e7 elements, or one bucket instead of two. */
static void bing_bert_would_need_less_with_other_buckets(void **state)
{
    (void)state;
    zl_torch_run run = bing_bert(
        "0.5.9", "{" FP16 ", \"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": 5e7}}",
        8);
    run.ds.zero_init = true;
    zl_marks marks = walk(&run, 0);
    assert_gib(at(&marks, 2, "after_backward")->peak_allocated, 234);
    zl_marks_clear(&marks);
    run.ds.reduce_bucket_size = 500000000;
    run.ds.overlap_comm = false;
    marks = walk(&run, 0);
    assert_gib(at(&marks, 2, "after_backward")->peak_allocated, 309);
    zl_marks_clear(&marks);
}

static void what_a_release_refuses_is_an_error(void **state)
{
    (void)state;
    zl_err err = {.status = ZL_OK};
    zl_marks marks;
    zl_torch_run run = run_of(gpt2_tiny, "0.19.6",
                              "{\"bf16\": {\"enabled\": true}, \"data_types\": "
                              "{\"grad_accum_dtype\": \"fp32\"}, " ADAM "}");
    assert_error(zl_torch_predict(&run, 0, &marks, &err), &err, ZL_E_USAGE, "stage 0");
    err = (zl_err){.status = ZL_OK};
    run = run_of(gpt2_tiny, "0.19.6",
                 "{\"fp16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 1},"
                 " \"data_types\": {\"grad_accum_dtype\": \"fp32\"}, " ADAM "}");
    assert_error(zl_torch_predict(&run, 0, &marks, &err), &err, ZL_E_UNMODELLED,
                 "grad_accum_dtype");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrapper_follows_precision_stage_and_release),
        cmocka_unit_test(stage0_steps_on_24_bytes_per_parameter),
        cmocka_unit_test(stage2_keeps_the_gradients_of_its_partition),
        cmocka_unit_test(stage3_cuts_every_tensor),
        cmocka_unit_test(a_skipped_step_makes_no_states),
        cmocka_unit_test(offload_fills_the_host),
        cmocka_unit_test(bing_bert_uses_what_its_log_says),
        cmocka_unit_test(bing_bert_would_need_less_with_other_buckets),
        cmocka_unit_test(what_a_release_refuses_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
