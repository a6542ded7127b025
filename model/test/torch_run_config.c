/* The ds_config.json inside a run: one value changed, written from options, read back. */
#include "base_test.h"

#include <string.h>

#include "zeroledger/run.h"
#include "zeroledger/torch.h"

static void set(zl_run *run, const char *name, const char *value)
{
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_run_set(run, name, value, &err), &err);
}

static zl_run deepspeed(const char *file)
{
    zl_run run;
    zl_err err = {.status = ZL_OK};
    zl_run_init(&run);
    set(&run, "framework", "deepspeed");
    set(&run, "model", "gpt2-tiny");
    set(&run, "ranks", "4");
    if (file != NULL) {
        assert_ok(zl_run_set_config(&run, "", file, &err), &err);
    }
    assert_ok(zl_run_check(&run, &err), &err);
    return run;
}

static void change(zl_run *run, const char *path, const char *value)
{
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_run_set_config(run, path, value, &err), &err);
}

static void a_value_is_replaced_where_it_is(void **state)
{
    (void)state;
    zl_run run =
        deepspeed("{\"zero_optimization\": {\"stage\": 1, \"overlap_comm\": true}, \"bf16\": "
                  "{\"enabled\": true}}");
    change(&run, "zero_optimization.stage", "3");
    assert_string_equal(run.ds_config, "{\"zero_optimization\": {\"stage\": 3,\"overlap_comm\": "
                                       "true},\"bf16\": {\"enabled\": true}}");
}

static void objects_on_the_way_are_made(void **state)
{
    (void)state;
    zl_run run = deepspeed(NULL);
    change(&run, "zero_optimization.offload_optimizer.device", "\"cpu\"");
    assert_string_equal(run.ds_config,
                        "{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\"}}}");
    change(&run, "train_batch_size", "8");
    change(&run, "zero_optimization.offload_optimizer", "{\"device\": \"none\"}");
    assert_string_equal(run.ds_config,
                        "{\"zero_optimization\": {\"offload_optimizer\": {\"device\": "
                        "\"none\"}},\"train_batch_size\": 8}");
}

static void what_cannot_be_set_leaves_the_run_alone(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"zero_optimization.stage", "3"}, /* true is no object */
        {"bf16..enabled", "true"},        /* a key without a name */
        {"bf16", "{\"enabled\": tru}"},   /* no JSON */
        {"bf16", ""},
    };
    const zl_run before = deepspeed("{\"zero_optimization\": true}");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        zl_run run = before;
        zl_err err = {.status = ZL_OK};
        assert_int_equal(zl_run_set_config(&run, wrong[i][0], wrong[i][1], &err), ZL_E_INPUT);
        assert_string_equal(run.ds_config, before.ds_config);
    }
    char huge[ZL_CONFIG_SIZE + 3];
    zl_run run = before;
    zl_err err = {.status = ZL_OK};
    memset(huge, 'x', sizeof huge);
    huge[0] = huge[sizeof huge - 2] = '"';
    huge[sizeof huge - 1] = '\0';
    assert_int_equal(zl_run_set_config(&run, "comment", huge, &err), ZL_E_INPUT);
    assert_string_equal(run.ds_config, before.ds_config);
}

static zl_marks predicted(zl_run run)
{
    zl_torch_run torch;
    zl_marks marks = {0};
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_torch_run_from(&run, &torch, NULL, NULL, &err), &err);
    assert_ok(zl_torch_predict(&torch, 0, &marks, &err), &err);
    return marks;
}

static void assert_same_marks(const zl_run *a, const zl_run *b)
{
    zl_marks x = predicted(*a);
    zl_marks y = predicted(*b);
    assert_int_equal(x.count, y.count);
    for (size_t i = 0; i < x.count; i++) {
        assert_string_equal(x.mark[i].at, y.mark[i].at);
        assert_int_equal(x.mark[i].peak_requested, y.mark[i].peak_requested);
        assert_int_equal(x.mark[i].allocated, y.mark[i].allocated);
        assert_int_equal(x.mark[i].peak_reserved, y.mark[i].peak_reserved);
    }
    zl_marks_clear(&x);
    zl_marks_clear(&y);
}

/* A file written from the options is what they meant. */
static void options_and_their_file_are_the_same_run(void **state)
{
    (void)state;
    static const char *const stages[] = {"0", "1", "2", "3"};
    static const char *const precisions[] = {"fp32", "bf16-mixed", "fp16-mixed"};
    static const char *const optimizers[] = {"adamw", "adamw-fused", "adamw-loop", "sgd",
                                             "adam8bit"};
    enum { RUNS = 60 }; /* 4 stages, 3 precisions, 5 optimizers */
    for (size_t i = 0; i < RUNS; i++) {
        zl_run run = deepspeed(NULL);
        set(&run, "stage", stages[i % 4]);
        set(&run, "precision", precisions[i / 4 % 3]);
        set(&run, "optimizer", optimizers[i / 12]);
        if (i % 2 == 1) {
            set(&run, "micro-batch", "2");
            set(&run, "accumulation", "3");
        }
        zl_run file = run;
        zl_err err = {.status = ZL_OK};
        assert_ok(zl_ds_config_of_options(&file, &err), &err);
        assert_true(file.ds_config[0] == '{');
        assert_same_marks(&run, &file);
    }
    zl_run kept = deepspeed("{\"bf16\": {\"enabled\": true}}");
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_ds_config_of_options(&kept, &err), &err);
    assert_string_equal(kept.ds_config, "{\"bf16\": {\"enabled\": true}}");
}

/* What the file decides is no contradiction of it once it was written down. */
static void a_run_with_a_file_reads_back(void **state)
{
    (void)state;
    static const char *const files[] = {
        "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"torch_adam\": true}}, \"bf16\": "
        "{\"enabled\": true}, \"zero_optimization\": {\"stage\": 3}}",
        "{\"optimizer\": {\"type\": \"Lamb\"}, \"fp16\": {\"enabled\": true}}",
        "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"momentum\": 0.9}}, "
        "\"zero_optimization\": "
        "{\"stage\": 1}}",
        "{\"bf16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": \"fp32\"}, "
        "\"zero_optimization\": {\"stage\": 1}}",
        "{\"train_batch_size\": 16, \"gradient_accumulation_steps\": 2, \"zero_optimization\": "
        "{\"stage\": 2}}",
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        zl_run run = deepspeed(files[i]);
        zl_run again;
        zl_torch_run torch;
        zl_err err = {.status = ZL_OK};
        const zl_run before = run;
        assert_ok(zl_torch_run_from(&run, &torch, NULL, NULL, &err), &err);
        assert_ok(zl_run_save(&run, "run.json", &err), &err);
        assert_ok(zl_run_load("run.json", &again, &err), &err);
        assert_same_marks(&before, &again);
    }
}

static void a_client_optimizer_reads_back(void **state)
{
    (void)state;
    static const char file[] =
        "{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 2}}";
    static const char *const optimizers[] = {NULL, "adamw", "adamw-fused", "adam8bit"};
    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++) {
        zl_run run = deepspeed(file);
        zl_run again;
        zl_torch_run torch;
        zl_err err = {.status = ZL_OK};
        if (optimizers[i] != NULL) {
            set(&run, "optimizer", optimizers[i]);
        }
        const zl_run before = run;
        assert_ok(zl_torch_run_from(&run, &torch, NULL, NULL, &err), &err);
        assert_ok(zl_run_save(&run, "run.json", &err), &err);
        assert_ok(zl_run_load("run.json", &again, &err), &err);
        assert_same_marks(&before, &again);
    }
}

static void flags_of_the_program_are_written_where_they_are_set(void **state)
{
    (void)state;
    zl_run run;
    zl_run again;
    zl_torch_run torch;
    zl_err err = {.status = ZL_OK};
    zl_run_init(&run);
    set(&run, "framework", "ddp");
    set(&run, "model", "gpt2-tiny");
    set(&run, "ranks", "2");
    set(&run, "bucket-view", NULL);
    set(&run, "drop-logits", NULL);
    assert_ok(zl_run_check(&run, &err), &err);
    assert_ok(zl_torch_run_from(&run, &torch, NULL, NULL, &err), &err);
    assert_true(torch.bucket_view && torch.drop_logits);
    assert_ok(zl_run_save(&run, "run.json", &err), &err);
    assert_ok(zl_run_load("run.json", &again, &err), &err);
    assert_true(again.bucket_view && again.drop_logits);
    set(&run, "framework", "fsdp2");
    set(&run, "precision", "bf16-mixed");
    set(&run, "stage", "3");
    assert_int_equal(zl_torch_run_from(&run, &torch, NULL, NULL, &err), ZL_E_USAGE);
    assert_string_equal(err.text, "bucket-view needs the buckets of ddp or zero1, got fsdp2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_replaced_where_it_is),
        cmocka_unit_test(objects_on_the_way_are_made),
        cmocka_unit_test(what_cannot_be_set_leaves_the_run_alone),
        cmocka_unit_test(options_and_their_file_are_the_same_run),
        cmocka_unit_test(a_run_with_a_file_reads_back),
        cmocka_unit_test(a_client_optimizer_reads_back),
        cmocka_unit_test(flags_of_the_program_are_written_where_they_are_set),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
