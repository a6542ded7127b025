/* From options to a setup of PyTorch, and the account of what is alive. */
#include "base_test.h"

#include "zeroledger/torch.h"

/* Options as name, value, name, value, NULL. */
static zl_run options(const char *const *words)
{
    zl_run run;
    zl_err err = {.status = ZL_OK};
    zl_run_init(&run);
    for (size_t i = 0; words[i] != NULL; i += 2) {
        assert_ok(zl_run_set(&run, words[i], words[i + 1], &err), &err);
    }
    assert_ok(zl_run_check(&run, &err), &err);
    return run;
}

#define OPTIONS(...) options((const char *const[]){__VA_ARGS__, NULL})

static zl_torch_run setup(zl_run *run)
{
    zl_torch_run torch;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_torch_run_from(run, &torch, NULL, NULL, &err), &err);
    return torch;
}

static void set_ds(zl_run *run, const char *text)
{
    snprintf(run->ds_config, sizeof run->ds_config, "%s", text);
}

static void frameworks_have_defaults_of_their_own(void **state)
{
    (void)state;
    zl_run run = OPTIONS("framework", "fsdp2", "model", "gpt2", "ranks", "4");
    const zl_torch_run fsdp = setup(&run);
    assert_int_equal(fsdp.stage, 3);
    assert_int_equal(fsdp.precision, ZL_TORCH_BF16_MIXED);
    assert_int_equal(fsdp.attention, ZL_TORCH_SDPA);
    assert_int_equal(fsdp.optimizer, ZL_TORCH_ADAMW_FOREACH);
    assert_int_equal(fsdp.seq, 1024);
    assert_true(fsdp.model.hidden_dropout > 0.09); /* the model's own */
    run = OPTIONS("framework", "ddp", "model", "gpt2", "ranks", "2", "dropout", "0", "optimizer",
                  "adamw-loop");
    const zl_torch_run ddp = setup(&run);
    assert_int_equal(ddp.precision, ZL_TORCH_BF16_AUTOCAST);
    assert_int_equal(ddp.optimizer, ZL_TORCH_ADAMW_LOOP);
    assert_true(ddp.model.attention_dropout <= 0);
    run = OPTIONS("framework", "deepspeed@0.14.5", "model", "gpt2", "stage", "3", "ranks", "2");
    const zl_torch_run ds = setup(&run);
    assert_int_equal(ds.ds.version, 14005);
    assert_int_equal(ds.ds.stage, 3);
    assert_true(ds.ds.bf16 && ds.ds.overlap_comm);
    assert_int_equal(ds.ds.optimizer, ZL_DS_ADAM);
}

static void the_file_decides(void **state)
{
    (void)state;
    zl_run run = OPTIONS("framework", "deepspeed", "model", "gpt2", "ranks", "4");
    set_ds(&run, "{\"zero_optimization\":{\"stage\":2},\"fp16\":{\"enabled\":true},"
                 "\"train_batch_size\":64,\"gradient_accumulation_steps\":2}");
    const zl_torch_run torch = setup(&run);
    assert_int_equal(run.stage, 2);
    assert_int_equal(run.precision, ZL_PRECISION_FP16_MIXED);
    assert_int_equal(torch.precision, ZL_TORCH_FP16_MIXED);
    assert_int_equal(torch.accumulation, 2);
    assert_int_equal(torch.micro_batch, 8); /* 64 / (2 x 4) */
}

static void refused(const char *const *words, const char *ds, zl_status status, const char *said)
{
    zl_err err = {.status = ZL_OK};
    zl_torch_run torch;
    zl_run run = options(words);
    set_ds(&run, ds);
    assert_int_equal(zl_torch_run_from(&run, &torch, NULL, NULL, &err), status);
    assert_non_null(strstr(err.text, said));
}

#define REFUSED(ds, status, said, ...)                                                             \
    refused((const char *const[]){"model", "gpt2", __VA_ARGS__, NULL}, (ds), (status), (said))

static void contradictions_name_both_values(void **state)
{
    (void)state;
    static const char stage3[] = "{\"zero_optimization\":{\"stage\":3}}";
    REFUSED(stage3, ZL_E_USAGE, "stage 2 contradicts zero_optimization.stage 3", "framework",
            "deepspeed", "stage", "2");
    REFUSED("{\"bf16\":{\"enabled\":true}}", ZL_E_USAGE,
            "precision fp16-mixed contradicts fp16 and bf16 of the ds_config.json, which is "
            "bf16-mixed",
            "framework", "deepspeed", "precision", "fp16-mixed");
    REFUSED("{\"optimizer\":{\"type\":\"Adam\"}}", ZL_E_USAGE, "optimizer sgd contradicts",
            "framework", "deepspeed", "optimizer", "sgd");
    REFUSED("{\"gradient_accumulation_steps\":4}", ZL_E_USAGE,
            "accumulation 2 contradicts gradient_accumulation_steps 4", "framework", "deepspeed",
            "accumulation", "2");
    REFUSED("", ZL_E_USAGE, "lora must be a rank", "framework", "single", "lora", "c_attn");
    REFUSED("", ZL_E_USAGE, "ranks of single is 1", "framework", "single", "ranks", "2");
    REFUSED("", ZL_E_USAGE, "seq must be 1..1024", "framework", "single", "seq", "2048");
}

static uint64_t sum(const zl_alive *alive)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < alive->count; i++) {
        bytes += alive->term[i].bytes;
    }
    return bytes;
}

static uint64_t term(const zl_alive *alive, const char *name)
{
    for (size_t i = 0; i < alive->count; i++) {
        if (strcmp(alive->term[i].name, name) == 0) {
            return alive->term[i].bytes;
        }
    }
    return 0;
}

/* Index of a mark. */
static size_t index_of(const zl_moments *moments, int32_t step, const char *at)
{
    size_t i = 0;
    while (i < moments->count &&
           (moments->moment[i].mark.step != step || strcmp(moments->moment[i].mark.at, at) != 0)) {
        i++;
    }
    assert_true(i < moments->count);
    return i;
}

/* The account says what zl_torch_predict says, and its terms add up. */
static void same_account(const zl_torch_run *run)
{
    zl_err err = {.status = ZL_OK};
    zl_moments moments = {0};
    zl_marks marks = {0};
    assert_ok(zl_torch_explain(run, 0, &moments, &err), &err);
    assert_ok(zl_torch_predict(run, 0, &marks, &err), &err);
    assert_int_equal(moments.count, marks.count);
    for (size_t i = 0; i < marks.count; i++) {
        const zl_moment *m = &moments.moment[i];
        assert_memory_equal(&m->mark, &marks.mark[i], sizeof m->mark);
        assert_int_equal(sum(&m->peak), m->mark.peak_requested);
        assert_int_equal(sum(&m->here), m->mark.requested);
    }
    zl_moments_clear(&moments);
    zl_marks_clear(&marks);
}

static void terms_add_up_everywhere(void **state)
{
    (void)state;
    static const char *const frameworks[][2] = {
        {"ddp", "0"},
        {"zero1", "1"},
        {"fsdp1", "3"},
        {"fsdp2", "2"},
        {"fsdp2", "3"},
        {"deepspeed@0.5.9", "3"},
        {"deepspeed@0.10.3", "1"},
        {"deepspeed@0.14.5", "2"},
        {"deepspeed@0.18.4", "3"},
        {"deepspeed", "0"},
        {"deepspeed", "2"},
        {"deepspeed", "3"},
    };
    for (size_t i = 0; i < sizeof frameworks / sizeof frameworks[0]; i++) {
        zl_run run = OPTIONS("framework", frameworks[i][0], "stage", frameworks[i][1], "model",
                             "gpt2-tiny", "ranks", "4", "micro-batch", "2", "accumulation", "2");
        const zl_torch_run torch = setup(&run);
        same_account(&torch);
    }
}

static void the_step_holds_the_gradient_twice(void **state)
{
    (void)state;
    zl_err err = {.status = ZL_OK};
    zl_moments moments = {0};
    zl_run run = OPTIONS("framework", "deepspeed", "model", "gpt2-tiny", "precision", "fp16-mixed");
    const zl_torch_run torch = setup(&run);
    assert_ok(zl_torch_explain(&torch, 0, &moments, &err), &err);
    const zl_alive *alive = &moments.moment[index_of(&moments, 3, "after_step")].peak;
    const uint64_t p = moments.parameters;
    /* 24 bytes per parameter: FP16_Optimizer at its concatenation. */
    assert_int_equal(term(alive, "parameters"), 2 * p);
    assert_int_equal(term(alive, "fp32 masters"), 4 * p);
    assert_int_equal(term(alive, "optimizer states"), 8 * p);
    assert_int_equal(term(alive, "gradients"), 2 * p);
    assert_int_equal(term(alive, "list of fp32 gradients"), 4 * p);
    assert_int_equal(term(alive, "fp32 gradient of the step"), 4 * p);
    zl_moments_clear(&moments);
}

static void what_was_not_measured_says_so(void **state)
{
    (void)state;
    char why[128] = "";
    zl_run run = OPTIONS("framework", "deepspeed", "model", "gpt2", "stage", "2", "ranks", "8");
    zl_torch_run torch = setup(&run);
    assert_false(zl_torch_unmeasured(&torch, why, sizeof why));
    torch.ds.version = 16000;
    assert_true(zl_torch_unmeasured(&torch, why, sizeof why));
    assert_string_equal(why, "deepspeed 0.16.0 was not measured");
    torch.ds.version = 19006;
    torch.stage = 1;
    torch.model.arch = ZL_HF_MIXTRAL;
    assert_true(zl_torch_unmeasured(&torch, why, sizeof why));
    assert_string_equal(why, "deepspeed at stage 1 was not measured with MixtralForCausalLM");
}

static void relatives_of_llama_are_read(void **state)
{
    (void)state;
    char why[128] = "";
    zl_err err = {.status = ZL_OK};
    zl_marks marks = {0};
    zl_run run = OPTIONS("framework", "single", "model", "mistral-7b", "seq", "4096");
    zl_torch_run torch = setup(&run);
    assert_true(zl_torch_unmeasured(&torch, why, sizeof why));
    assert_error(zl_torch_predict(&torch, 0, &marks, &err), &err, ZL_E_UNMODELLED,
                 "with a sliding window of 4096 are not modelled");
    run = OPTIONS("framework", "single", "model", "qwen2.5-0.5b", "seq", "64");
    torch = setup(&run);
    assert_true(torch.model.attention_bias && torch.model.plain_output && torch.model.tied);
    assert_int_equal(torch.model.window, 0);
    err = (zl_err){.status = ZL_OK};
    assert_ok(zl_torch_predict(&torch, 0, &marks, &err), &err);
    assert_int_equal(marks.parameters, 494032768); /* model.safetensors of Qwen2.5-0.5B */
    zl_marks_clear(&marks);
}

static void run_json_of_a_framework_reads_back(void **state)
{
    (void)state;
    zl_run run = OPTIONS("framework", "fsdp2", "model", "bert-tiny", "ranks", "2", "lora",
                         "4:query,value", "trainable-layers", "1");
    zl_run back;
    zl_err err = {.status = ZL_OK};
    char id[ZL_RUN_ID_SIZE];
    char other[ZL_RUN_ID_SIZE];
    (void)setup(&run);
    assert_ok(zl_run_save(&run, "run.json", &err), &err);
    assert_ok(zl_run_load("run.json", &back, &err), &err);
    zl_run_id(&run, id);
    zl_run_id(&back, other);
    assert_string_equal(id, other);
    assert_string_equal(back.lora, "4:query,value");
    assert_string_equal(back.hf_config, run.hf_config);
    assert_true(back.dropout < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frameworks_have_defaults_of_their_own),
        cmocka_unit_test(the_file_decides),
        cmocka_unit_test(contradictions_name_both_values),
        cmocka_unit_test(terms_add_up_everywhere),
        cmocka_unit_test(the_step_holds_the_gradient_twice),
        cmocka_unit_test(what_was_not_measured_says_so),
        cmocka_unit_test(relatives_of_llama_are_read),
        cmocka_unit_test(run_json_of_a_framework_reads_back),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
