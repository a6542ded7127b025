#include "base_test.h"
#include "zeroledger/run.h"

static zl_run checked(const char *model)
{
    zl_run run;
    zl_err err = {.status = ZL_OK};
    zl_run_init(&run);
    assert_ok(zl_run_set(&run, "model", model, &err), &err);
    assert_ok(zl_run_check(&run, &err), &err);
    return run;
}

static void set(zl_run *run, const char *name, const char *value)
{
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_run_set(run, name, value, &err), &err);
}

static void defaults_are_the_published_ones(void **state)
{
    (void)state;
    zl_run run;
    zl_run_init(&run);
    assert_int_equal(run.framework, ZL_FRAMEWORK_NATIVE);
    assert_int_equal(run.backend, ZL_BACKEND_HOST);
    assert_int_equal(run.stage, 0);
    assert_int_equal(run.ranks, 1);
    assert_int_equal(run.micro_batch, 1);
    assert_int_equal(run.accumulation, 1);
    assert_int_equal(run.seq, 0);
    assert_int_equal(run.precision, ZL_PRECISION_BF16_MIXED);
    assert_int_equal(run.grad_dtype, ZL_GRAD_MODEL);
    assert_int_equal(run.optimizer, ZL_OPTIMIZER_ADAMW);
    assert_int_equal(run.attention, ZL_ATTENTION_FLASH);
    assert_int_equal(run.recompute, ZL_RECOMPUTE_NONE);
    assert_true(run.dropout >= 0.0 && run.dropout <= 0.0);
    assert_true(run.clip >= 1.0 && run.clip <= 1.0);
    assert_int_equal(run.head_chunk, 0);
    assert_int_equal(run.window, 1);
    assert_int_equal(run.reduce_slots, 2);
    assert_true(run.shard_copy);
}

static void seq_is_the_positions_at_most_1024(void **state)
{
    (void)state;
    assert_int_equal(checked("bert-base").seq, 512);
    assert_int_equal(checked("gpt2").seq, 1024);
    assert_int_equal(checked("llama-3-8b").seq, 1024);
}

static void every_option_can_be_set(void **state)
{
    (void)state;
    zl_run run;
    zl_run_init(&run);
    set(&run, "model", "llama-tiny");
    set(&run, "framework", "native");
    set(&run, "backend", "cuda");
    set(&run, "stage", "3");
    set(&run, "gpus", "8");
    set(&run, "micro-batch", "4");
    set(&run, "seq", "64");
    set(&run, "accumulation", "2");
    set(&run, "precision", "fp16-mixed");
    set(&run, "grad-dtype", "fp32");
    set(&run, "optimizer", "sgd");
    set(&run, "attention", "eager");
    set(&run, "recompute", "selective");
    set(&run, "dropout", "0.1");
    set(&run, "clip", "0");
    set(&run, "head-chunk", "16");
    set(&run, "window", "2");
    set(&run, "reduce-slots", "3");
    set(&run, "no-shard-copy", NULL);
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_run_check(&run, &err), &err);
    assert_int_equal(run.backend, ZL_BACKEND_CUDA);
    assert_int_equal(run.ranks, 8);
    assert_int_equal(run.precision, ZL_PRECISION_FP16_MIXED);
    assert_int_equal(run.grad_dtype, ZL_GRAD_FP32);
    assert_int_equal(run.optimizer, ZL_OPTIMIZER_SGD);
    assert_int_equal(run.attention, ZL_ATTENTION_EAGER);
    assert_int_equal(run.recompute, ZL_RECOMPUTE_SELECTIVE);
    assert_int_equal(run.window, 2);
    assert_int_equal(run.reduce_slots, 3);
    assert_false(run.shard_copy);
    char text[256];
    zl_run_describe(&run, text, sizeof text);
    assert_string_equal(
        text, "llama-tiny stage 3, 8 ranks, B 4, T 64, A 2, fp16-mixed, sgd, eager, recompute "
              "selective, gradients fp32, dropout 0.1, head chunk 16, window 2, reduce slots "
              "3, no shard copy, cuda");
}

static void the_table_names_every_option_once(void **state)
{
    (void)state;
    static const char *const names[] = {"model",
                                        "framework",
                                        "deepspeed-config",
                                        "backend",
                                        "stage",
                                        "ranks",
                                        "micro-batch",
                                        "seq",
                                        "layers",
                                        "accumulation",
                                        "precision",
                                        "grad-dtype",
                                        "optimizer",
                                        "attention",
                                        "recompute",
                                        "dropout",
                                        "clip",
                                        "head-chunk",
                                        "window",
                                        "reduce-slots",
                                        "no-shard-copy",
                                        "eval",
                                        "save",
                                        "lora",
                                        "trainable-layers",
                                        "skipped-step",
                                        "activations",
                                        "zero-init",
                                        "bucket-view",
                                        "no-prefetch",
                                        "drop-logits",
                                        "alloc-conf",
                                        "run"};
    const zl_option *option = NULL;
    size_t count = 0;
    for (; (option = zl_run_option(count)) != NULL; count++) {
        assert_string_equal(option->name, names[count]);
        assert_true(strlen(option->text) > 10);
    }
    assert_int_equal(count, COUNT_OF(names));
    assert_string_equal(zl_run_option(5)->alias, "gpus");
    assert_null(zl_run_option(20)->arg);
}

/* Named before the model or after it, natively or in the config.json of a framework. */
static void layers_replace_the_models_own(void **state)
{
    (void)state;
    static const struct {
        const char *model, *says;
    } models[] = {{"gpt2", "\"n_layer\": 30"}, {"llama-tiny", "\"num_hidden_layers\": 30"}};
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        zl_run run;
        char text[256];
        zl_err err = {.status = ZL_OK};
        zl_run_init(&run);
        assert_ok(zl_run_set(&run, "layers", "30", &err), &err);
        assert_ok(zl_run_set(&run, "model", models[i].model, &err), &err);
        assert_ok(zl_run_check(&run, &err), &err);
        assert_int_equal(run.model.layers, 30);
        zl_run_describe(&run, text, sizeof text);
        assert_non_null(strstr(text, ", 30 layers"));
        assert_ok(zl_run_set(&run, "framework", "fsdp2", &err), &err);
        assert_ok(zl_run_check(&run, &err), &err);
        assert_non_null(strstr(run.hf_config, models[i].says));
    }
    zl_run run;
    zl_err err = {.status = ZL_OK};
    zl_run_init(&run);
    assert_error(zl_run_set(&run, "layers", "0", &err), &err, ZL_E_USAGE,
                 "layers must be at least 1, got 0");
}

/* A table of positions ends; rotations do not. */
static void only_a_table_limits_the_sequence(void **state)
{
    (void)state;
    zl_run run;
    zl_err err = {.status = ZL_OK};
    zl_run_init(&run);
    assert_ok(zl_run_set(&run, "model", "llama-tiny", &err), &err);
    assert_ok(zl_run_set(&run, "seq", "1000000", &err), &err);
    assert_ok(zl_run_check(&run, &err), &err);
    assert_ok(zl_run_set(&run, "model", "gpt2", &err), &err);
    assert_error(zl_run_check(&run, &err), &err, ZL_E_USAGE, "the positions of gpt2");
}

static void legal_values_of_the_table_are_accepted(void **state)
{
    (void)state;
    const zl_option *option = NULL;
    for (size_t i = 0; (option = zl_run_option(i)) != NULL; i++) {
        char values[128];
        snprintf(values, sizeof values, "%s", option->values != NULL ? option->values : "");
        for (char *value = values; *value != '\0';) {
            char *comma = strchr(value, ',');
            char *next = comma != NULL ? comma + 1 : value + strlen(value);
            if (comma != NULL) {
                *comma = '\0';
            }
            zl_run run;
            zl_run_init(&run);
            set(&run, option->name, value);
            value = next;
        }
    }
}

static void wrong_options_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *value;
        zl_status status;
        const char *part;
    } wrong[] = {
        {"micro-bach", "1", ZL_E_USAGE, "unknown option 'micro-bach'; did you mean 'micro-batch'?"},
        {"gpu", "1", ZL_E_USAGE, "did you mean 'gpus'?"},
        {"zzzzzzzz", "1", ZL_E_USAGE, "see the help"},
        {"stage", "three", ZL_E_USAGE, "stage must be a whole number, got 'three'"},
        {"seq", "0", ZL_E_USAGE, "seq must be at least 1, got 0"},
        {"stage", NULL, ZL_E_USAGE, "stage needs a value"},
        {"no-shard-copy", "yes", ZL_E_USAGE, "no-shard-copy takes no value"},
        {"dropout", "nan", ZL_E_USAGE, "dropout must be a finite"},
        {"precision", "bf17", ZL_E_USAGE, "got 'bf17'; did you mean 'bf16'?"},
        {"model", "gpt3", ZL_E_USAGE, "did you mean 'gpt2'?"},
        {"run", "missing.json", ZL_E_INPUT, "missing.json"},
        {"framework", "native2", ZL_E_USAGE, "framework must be one of native, single"},
        {"framework", "fsdp2@2.0", ZL_E_USAGE, "only deepspeed has releases, got 'fsdp2@2.0'"},
        {"framework", "deepspeed@new", ZL_E_USAGE, "a release is three numbers"},
        {"framework", "deepspeed@", ZL_E_USAGE, "a release is three numbers"},
        {"activations", "much", ZL_E_USAGE, "activations"},
        {"deepspeed-config", "missing.json", ZL_E_INPUT, "missing.json"},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        zl_run run;
        zl_run before;
        zl_err err = {.status = ZL_OK};
        memset(&run, 0, sizeof run);
        zl_run_init(&run);
        memcpy(&before, &run, sizeof run);
        assert_error(zl_run_set(&run, wrong[i].name, wrong[i].value, &err), &err, wrong[i].status,
                     wrong[i].part);
        assert_memory_equal(&run, &before, sizeof run);
    }
}

static void nonsense_is_refused_with_its_range(void **state)
{
    (void)state;
    zl_run run[14];
    for (size_t i = 0; i < COUNT_OF(run); i++) {
        run[i] = checked("gpt2");
    }
    run[0].stage = 4;
    run[1].ranks = 0;
    run[2].micro_batch = 0;
    run[3].accumulation = 0;
    run[4].seq = 1025;
    run[5].window = 13;
    run[6].reduce_slots = 0;
    run[7].reduce_slots = 65;
    run[8].dropout = 1.0;
    run[9].clip = -1.0;
    run[10].shard_copy = false;
    run[11].stage = 3;
    run[11].shard_copy = false;
    run[11].precision = ZL_PRECISION_BF16;
    run[12].precision = ZL_PRECISION_COUNT;
    run[13].model = (zl_model){.layers = 0};
    run[13].hf_config[0] = '\0';
    static const char *const parts[] = {
        "stage must be 0..3, got 4",
        "ranks must be at least 1, got 0",
        "micro-batch must be at least 1, got 0",
        "accumulation must be at least 1, got 0",
        "seq must be 1..1024, the positions of gpt2, got 1025",
        "window must be 0..12, got 13",
        "reduce-slots must be 1..64, got 0",
        "reduce-slots must be 1..64, got 65",
        "dropout must be from 0 to below 1, got 1",
        "clip must be a norm of at least 0 (0 does not clip), got -1",
        "no-shard-copy needs stage 3, got stage 0",
        "no-shard-copy needs fp32 master weights, got precision bf16",
        "precision has no value number 5",
        "no model given",
    };
    for (size_t i = 0; i < COUNT_OF(run); i++) {
        zl_err err = {.status = ZL_OK};
        assert_error(zl_run_check(&run[i], &err), &err, ZL_E_USAGE, parts[i]);
    }
}

static void a_window_is_at_most_64_units(void **state)
{
    (void)state;
    zl_run run = checked("llama-2-70b"); /* 80 layers */
    zl_err err = {.status = ZL_OK};
    run.window = 64;
    assert_ok(zl_run_check(&run, &err), &err);
    run.window = 65;
    assert_error(zl_run_check(&run, &err), &err, ZL_E_USAGE, "window must be 0..64, got 65");
}

static void huge_counts_are_left_to_the_prediction(void **state)
{
    (void)state;
    zl_run run = checked("gpt2");
    zl_err err = {.status = ZL_OK};
    set(&run, "ranks", "9223372036854775808");
    set(&run, "micro-batch", "9223372036854775808");
    assert_ok(zl_run_check(&run, &err), &err);
}

static void people_recognise_the_run(void **state)
{
    (void)state;
    zl_run run = checked("gpt2");
    char text[160];
    char small[8];
    set(&run, "stage", "3");
    set(&run, "ranks", "4");
    set(&run, "micro-batch", "2");
    set(&run, "seq", "128");
    zl_run_describe(&run, text, sizeof text);
    assert_string_equal(
        text, "gpt2 stage 3, 4 ranks, B 2, T 128, A 1, bf16-mixed, adamw, flash, recompute none");
    zl_run_describe(&run, small, sizeof small);
    assert_string_equal(small, "gpt2 st");
}

static void values_have_names(void **state)
{
    (void)state;
    assert_string_equal(zl_framework_name(ZL_FRAMEWORK_NATIVE), "native");
    assert_string_equal(zl_backend_name(ZL_BACKEND_CUDA), "cuda");
    assert_string_equal(zl_precision_name(ZL_PRECISION_FP16_MIXED), "fp16-mixed");
    assert_string_equal(zl_grad_dtype_name(ZL_GRAD_MODEL), "model");
    assert_string_equal(zl_optimizer_name(ZL_OPTIMIZER_SGD), "sgd");
    assert_string_equal(zl_attention_name(ZL_ATTENTION_EAGER), "eager");
    assert_string_equal(zl_recompute_name(ZL_RECOMPUTE_FULL), "full");
}

static void names_of_frameworks_need_one(void **state)
{
    (void)state;
    static const char *const options[][3] = {
        {"precision", "bf16-autocast", "precision bf16-autocast is not modelled for the framework"},
        {"optimizer", "adamw-fused", "optimizer adamw-fused is not modelled for the framework"},
        {"optimizer", "adam8bit", "which has adamw, sgd"},
        {"attention", "sdpa", "which has flash, eager"},
    };
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        zl_run run;
        zl_err err = {.status = ZL_OK};
        zl_run_init(&run);
        assert_ok(zl_run_set(&run, "model", "gpt2", &err), &err);
        assert_ok(zl_run_set(&run, options[i][0], options[i][1], &err), &err);
        assert_error(zl_run_check(&run, &err), &err, ZL_E_UNMODELLED, options[i][2]);
        err = (zl_err){.status = ZL_OK};
        assert_ok(zl_run_set(&run, "framework", "single", &err), &err);
        assert_ok(zl_run_check(&run, &err), &err);
    }
}

static void options_belong_to_a_framework(void **state)
{
    (void)state;
    zl_run run;
    zl_err err = {.status = ZL_OK};
    zl_run_init(&run);
    assert_ok(zl_run_set(&run, "model", "gpt2", &err), &err);
    assert_ok(zl_run_set(&run, "skipped-step", NULL, &err), &err);
    assert_error(zl_run_check(&run, &err), &err, ZL_E_USAGE,
                 "skipped-step needs another framework");
    zl_run_init(&run);
    err = (zl_err){.status = ZL_OK};
    assert_ok(zl_run_set(&run, "framework", "ddp", &err), &err);
    assert_ok(zl_run_set(&run, "model", "mixtral-8x7b", &err), &err);
    assert_ok(zl_run_set(&run, "head-chunk", "64", &err), &err);
    assert_error(zl_run_check(&run, &err), &err, ZL_E_USAGE,
                 "head-chunk is an option of the framework native, got ddp");
}

static zl_value_type type_of(const char *name)
{
    const zl_option *option = NULL;
    for (size_t i = 0; (option = zl_run_option(i)) != NULL; i++) {
        if (strcmp(option->name, name) == 0) {
            return zl_run_option_type(option);
        }
    }
    fail_msg("no option %s", name);
    return ZL_VALUE_NONE;
}

static void options_say_what_their_values_are(void **state)
{
    (void)state;
    assert_int_equal(type_of("stage"), ZL_VALUE_COUNT);
    assert_int_equal(type_of("activations"), ZL_VALUE_BYTES);
    assert_int_equal(type_of("clip"), ZL_VALUE_REAL);
    assert_int_equal(type_of("model"), ZL_VALUE_NAME);
    assert_int_equal(type_of("framework"), ZL_VALUE_NAME);
    assert_int_equal(type_of("precision"), ZL_VALUE_NAME);
    assert_int_equal(type_of("lora"), ZL_VALUE_TEXT);
    assert_int_equal(type_of("deepspeed-config"), ZL_VALUE_TEXT);
    assert_int_equal(type_of("run"), ZL_VALUE_TEXT);
    assert_int_equal(type_of("eval"), ZL_VALUE_NONE);
    assert_int_equal(type_of("no-shard-copy"), ZL_VALUE_NONE);
    /* Not of the run: its argument says whether it has a value. */
    const zl_option flag = {"kinds", NULL, NULL, NULL, ""};
    const zl_option file = {"svg", NULL, "FILE", NULL, ""};
    assert_int_equal(zl_run_option_type(&flag), ZL_VALUE_NONE);
    assert_int_equal(zl_run_option_type(&file), ZL_VALUE_TEXT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_say_what_their_values_are),
        cmocka_unit_test(defaults_are_the_published_ones),
        cmocka_unit_test(seq_is_the_positions_at_most_1024),
        cmocka_unit_test(every_option_can_be_set),
        cmocka_unit_test(the_table_names_every_option_once),
        cmocka_unit_test(layers_replace_the_models_own),
        cmocka_unit_test(only_a_table_limits_the_sequence),
        cmocka_unit_test(legal_values_of_the_table_are_accepted),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(nonsense_is_refused_with_its_range),
        cmocka_unit_test(a_window_is_at_most_64_units),
        cmocka_unit_test(huge_counts_are_left_to_the_prediction),
        cmocka_unit_test(people_recognise_the_run),
        cmocka_unit_test(values_have_names),
        cmocka_unit_test(names_of_frameworks_need_one),
        cmocka_unit_test(options_belong_to_a_framework),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
