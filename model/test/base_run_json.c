#include "base_test.h"
#include "zeroledger/run.h"

static zl_run example(void)
{
    zl_run run;
    zl_err err = {.status = ZL_OK};
    zl_run_init(&run);
    assert_ok(zl_run_set(&run, "model", "gpt2", &err), &err);
    assert_ok(zl_run_set(&run, "stage", "3", &err), &err);
    assert_ok(zl_run_set(&run, "ranks", "4", &err), &err);
    assert_ok(zl_run_check(&run, &err), &err);
    return run;
}

static void save(const zl_run *run, const char *path)
{
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_run_save(run, path, &err), &err);
}

static void the_text_is_canonical(void **state)
{
    (void)state;
    const zl_run run = example();
    save(&run, "run.json");
    char *text = read_text("run.json");
    assert_string_equal(text, "{\n"
                              "  \"schema\": \"zeroledger.run/1\",\n"
                              "  \"model\": {\n"
                              "    \"name\": \"gpt2\",\n"
                              "    \"family\": \"gpt2\",\n"
                              "    \"activation\": \"gelu-tanh\",\n"
                              "    \"layers\": 12,\n"
                              "    \"width\": 768,\n"
                              "    \"heads\": 12,\n"
                              "    \"kv_heads\": 12,\n"
                              "    \"head_dim\": 64,\n"
                              "    \"ffn\": 3072,\n"
                              "    \"vocab\": 50257,\n"
                              "    \"positions\": 1024,\n"
                              "    \"types\": 0,\n"
                              "    \"tied\": true,\n"
                              "    \"qkv_bias\": true,\n"
                              "    \"out_bias\": true,\n"
                              "    \"mlp_bias\": true,\n"
                              "    \"pooler\": false,\n"
                              "    \"norm_eps\": 1e-05,\n"
                              "    \"rope_theta\": 0\n"
                              "  },\n"
                              "  \"framework\": \"native\",\n"
                              "  \"backend\": \"host\",\n"
                              "  \"stage\": 3,\n"
                              "  \"ranks\": 4,\n"
                              "  \"micro_batch\": 1,\n"
                              "  \"seq\": 1024,\n"
                              "  \"accumulation\": 1,\n"
                              "  \"precision\": \"bf16-mixed\",\n"
                              "  \"grad_dtype\": \"model\",\n"
                              "  \"optimizer\": \"adamw\",\n"
                              "  \"attention\": \"flash\",\n"
                              "  \"recompute\": \"none\",\n"
                              "  \"dropout\": 0,\n"
                              "  \"clip\": 1,\n"
                              "  \"head_chunk\": 0,\n"
                              "  \"window\": 1,\n"
                              "  \"reduce_slots\": 2,\n"
                              "  \"shard_copy\": true,\n"
                              "  \"eval\": false,\n"
                              "  \"save\": false\n"
                              "}\n");
    free(text);
}

static void loading_and_saving_changes_nothing(void **state)
{
    (void)state;
    zl_run run = example();
    zl_run again;
    zl_err err = {.status = ZL_OK};
    run.dropout = 0.1;
    run.clip = 1.0 / 3.0;
    run.shard_copy = false;
    run.optimizer = ZL_OPTIMIZER_SGD;
    run.backend = ZL_BACKEND_CUDA;
    save(&run, "a.json");
    assert_ok(zl_run_load("a.json", &again, &err), &err);
    save(&again, "b.json");
    char *a = read_text("a.json");
    char *b = read_text("b.json");
    assert_string_equal(a, b);
    free(a);
    free(b);
    assert_false(again.shard_copy);
    assert_memory_equal(&again.clip, &run.clip, sizeof run.clip);
}

static void every_preset_survives_the_file(void **state)
{
    (void)state;
    const char *name = NULL;
    for (size_t i = 0; (name = zl_model_preset(i)) != NULL; i++) {
        zl_run run;
        zl_run again;
        char id[ZL_RUN_ID_SIZE];
        char again_id[ZL_RUN_ID_SIZE];
        zl_err err = {.status = ZL_OK};
        zl_run_init(&run);
        if (zl_run_set(&run, "model", name, &err) == ZL_E_UNMODELLED) {
            continue; /* a model of frameworks */
        }
        assert_ok(zl_run_check(&run, &err), &err);
        save(&run, "preset.json");
        assert_ok(zl_run_set(&again, "run", "preset.json", &err), &err);
        zl_run_id(&run, id);
        zl_run_id(&again, again_id);
        assert_string_equal(id, again_id);
    }
}

static void the_id_is_pinned_and_ignores_the_label(void **state)
{
    (void)state;
    zl_run run = example();
    char id[ZL_RUN_ID_SIZE];
    zl_run_id(&run, id);
    /* FNV-1a of the text of the_text_is_canonical without its name line, by a script of its own. */
    assert_string_equal(id, "cb03500600a7fcb6");
    snprintf(run.model.name, sizeof run.model.name, "renamed");
    zl_run_id(&run, id);
    assert_string_equal(id, "cb03500600a7fcb6");
    run.accumulation = 2;
    zl_run_id(&run, id);
    assert_string_not_equal(id, "cb03500600a7fcb6");
}

static void assert_refused(const char *from, const char *to, zl_status status, const char *part)
{
    const zl_run good = example();
    zl_run run;
    zl_err err = {.status = ZL_OK};
    save(&good, "good.json");
    char *text = read_text("good.json");
    char *bad = replaced(text, from, to);
    write_text("bad.json", bad);
    free(text);
    free(bad);
    assert_error(zl_run_load("bad.json", &run, &err), &err, status, part);
    assert_non_null(strstr(err.text, "bad.json"));
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *from;
        const char *to;
        const char *part;
    } wrong[] = {
        {"zeroledger.run/1", "zeroledger.run/2", "schema must be \"zeroledger.run/1\""},
        {"\"schema\": \"zeroledger.run/1\",", "", "schema is missing"},
        {"\"stage\"", "\"stag\"", "stag is not a known key; did you mean stage"},
        {"\"stage\"", "\"Stage\"", "Stage is not a known key"},
        {"\"stage\": 3,", "", "stage is missing"},
        {"\"stage\": 3", "\"stage\": 3, \"stage\": 3", "stage is given twice"},
        {"\"stage\": 3", "\"stage\": 3, \"stage\": 2", "stage is given twice"},
        {"\"stage\": 3", "\"stage\": 4", "stage must be 0..3, got 4"},
        {"\"stage\": 3", "\"stage\": -1", "stage must be a whole number that is not negative"},
        {"\"stage\": 3", "\"stage\": 2.5", "stage must be a whole number, got 2.5"},
        {"\"stage\": 3", "\"stage\": \"3\"", "stage must be a whole number, got the string"},
        {"\"stage\": 3", "\"stage\": NaN", ":26:12: expected a value"},
        {"\"ranks\": 4", "\"ranks\": 0", "ranks must be at least 1"},
        {"\"ranks\": 4", "\"ranks\": 9007199254740993", "2^53"},
        {"\"seq\": 1024", "\"seq\": 0", "seq must be at least 1, got 0"},
        {"\"seq\": 1024", "\"seq\": 1025", "seq must be 1..1024"},
        {"\"micro_batch\": 1", "\"micro_batch\": 0", "micro-batch must be at least 1"},
        {"\"precision\": \"bf16-mixed\"", "\"precision\": \"bf16-mixt\"",
         "did you mean 'bf16-mixed'?"},
        {"\"dropout\": 0", "\"dropout\": 1e999", "dropout must be a finite number"},
        {"\"dropout\": 0", "\"dropout\": 1", "dropout must be from 0 to below 1"},
        {"\"clip\": 1", "\"clip\": -1", "clip must be a norm"},
        {"\"window\": 1", "\"window\": 99999999", "window must be 0..12"},
        {"\"shard_copy\": true", "\"shard_copy\": 1", "shard_copy must be true or false, got 1"},
        {"\"save\": false\n", "\"save\": false\n} {", "the end of the text behind one value"},
        {"\"save\": false\n}", "", "the text ends"},
        {"\"family\": \"gpt2\"", "\"family\": \"gpt3\"",
         "model.family must be one of bert, gpt2, llama"},
        {"\"family\": \"gpt2\"", "\"family\": \"bert\"", "types must be at least 1 in family bert"},
        {"\"gelu-tanh\"", "\"tanh\"", "model.activation must be one of gelu, gelu-tanh, swiglu"},
        {"\"layers\": 12", "\"layers\": 0", "layers must be at least 1"},
        {"\"layers\"", "\"layer\"", "model.layer is not a known key; did you mean layers"},
        {"\"head_dim\": 64", "\"head_dim\": 63", "heads x head dim must be the width"},
        {"\"tied\": true", "\"tied\": null", "model.tied is missing"},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_refused(wrong[i].from, wrong[i].to, ZL_E_INPUT, wrong[i].part);
    }
    assert_refused("\"native\"", "\"fsdp2\"", ZL_E_INPUT, "backend is not a known key");
    assert_refused("\"native\"", "\"fsdp3\"", ZL_E_INPUT, "framework must be one of native");
    assert_refused("\"adamw\"", "\"adam8bit\"", ZL_E_UNMODELLED,
                   "optimizer adam8bit is not modelled");
    char name[120];
    memset(name, 'n', sizeof name);
    name[0] = '"';
    snprintf(name + 100, sizeof name - 100, "\",");
    assert_refused("\"gpt2\",", name, ZL_E_INPUT, "model.name must be shorter than 64");
}

static void a_failed_load_leaves_the_run_alone(void **state)
{
    (void)state;
    zl_run run = example();
    zl_err err = {.status = ZL_OK};
    write_text("broken.json", "{\"schema\": \"zeroledger.run/1\", \"stage\": 1}");
    assert_error(zl_run_load("broken.json", &run, &err), &err, ZL_E_INPUT, "model");
    assert_int_equal(run.stage, 3);
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_run_save(&run, "no/such/run.json", &err), &err, ZL_E_RESOURCE,
                 "no/such/run.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_canonical),
        cmocka_unit_test(loading_and_saving_changes_nothing),
        cmocka_unit_test(every_preset_survives_the_file),
        cmocka_unit_test(the_id_is_pinned_and_ignores_the_label),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(a_failed_load_leaves_the_run_alone),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
