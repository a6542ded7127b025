#include "base_test.h"
#include "zeroledger/model.h"

/* Parameters of a model from its shapes, counted here tensor by tensor and independently of the
 * formulas: matrices as rows x columns, then the vectors. */
static uint64_t gpt2_block(uint64_t c, uint64_t f)
{
    const uint64_t norms = 4 * c;
    const uint64_t attention = (c * 3 * c + 3 * c) + (c * c + c);
    return norms + attention + (c * f + f) + (f * c + c);
}

static uint64_t llama_block(const zl_model *m)
{
    const uint64_t q = m->heads * m->head_dim;
    const uint64_t kv = m->kv_heads * m->head_dim;
    uint64_t n = 2 * m->width + m->width * (q + 2 * kv) + q * m->width + 3 * m->width * m->ffn;
    n += m->qkv_bias ? q + 2 * kv : 0;
    n += m->out_bias ? m->width : 0;
    n += m->mlp_bias ? 2 * m->ffn + m->width : 0;
    return n;
}

static uint64_t parameters(const zl_model *m)
{
    const uint64_t c = m->width;
    const uint64_t table = m->vocab * c;
    const uint64_t output = m->tied ? 0 : table;
    switch (m->family) {
    case ZL_FAMILY_GPT2:
        return table + m->positions * c + m->layers * gpt2_block(c, m->ffn) + 2 * c + output;
    case ZL_FAMILY_LLAMA:
        return table + m->layers * llama_block(m) + c + output;
    case ZL_FAMILY_BERT: {
        const uint64_t embed = table + m->positions * c + m->types * c + 2 * c;
        const uint64_t head = (c * c + c) + 2 * c + m->vocab;
        const uint64_t pooler = m->pooler ? (c * c + c) + (2 * c + 2) : 0;
        return embed + m->layers * gpt2_block(c, m->ffn) + head + output + pooler;
    }
    case ZL_FAMILY_COUNT:
        break;
    }
    return 0;
}

static void presets_have_the_published_parameter_counts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t parameters;
    } published[] = {
        {"gpt2", 124439808},
        {"gpt2-medium", 354823168},
        {"gpt2-large", 774030080},
        {"gpt2-xl", 1557611200},
        {"bert-base", 109514298},
        {"bert-large", 335174458},
        {"bert-large-pretraining", 336226108},
        {"llama-2-7b", 6738415616},
        {"llama-2-13b", 13015864320},
        {"llama-2-70b", 68976648192},
        {"llama-3-8b", 8030261248},
        {"llama-3-70b", 70553706496},
        {"llama-3.2-1b", 1235814400},
        {"mistral-7b", 7241732096},
        {"qwen2.5-0.5b", 494032768},
        {"qwen2.5-7b", 7615616512},
    };
    for (size_t i = 0; i < COUNT_OF(published); i++) {
        zl_model model;
        zl_err err = {.status = ZL_OK};
        assert_ok(zl_model_load(published[i].name, &model, &err), &err);
        if (parameters(&model) != published[i].parameters) {
            fail_msg("%s", published[i].name);
        }
        assert_string_equal(model.name, published[i].name);
    }
}

static void every_preset_is_listed_and_valid(void **state)
{
    (void)state;
    size_t count = 0;
    for (const char *name; (name = zl_model_preset(count)) != NULL; count++) {
        zl_model model;
        zl_err err = {.status = ZL_OK};
        const bool foreign =
            strcmp(name, "bing-bert-large") == 0 || strcmp(name, "mixtral-8x7b") == 0;
        if (foreign) { /* models of frameworks, not of the native families */
            assert_error(zl_model_load(name, &model, &err), &err, ZL_E_UNMODELLED, "modelled");
            continue;
        }
        assert_ok(zl_model_load(name, &model, &err), &err);
        assert_ok(zl_model_check(&model, &err), &err);
    }
    assert_int_equal(count, 21);
    assert_string_equal(zl_model_preset(0), "gpt2");
}

static void tiny_presets_train_on_bytes(void **state)
{
    (void)state;
    zl_model model;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_model_load("llama-tiny", &model, &err), &err);
    assert_int_equal(model.layers, 4);
    assert_int_equal(model.width, 128);
    assert_int_equal(model.kv_heads, 2);
    assert_int_equal(model.head_dim, 32);
    assert_int_equal(model.ffn, 352);
    assert_int_equal(model.vocab, 256);
    assert_false(model.tied);
    assert_ok(zl_model_load("bert-tiny", &model, &err), &err);
    assert_int_equal(model.vocab, 258);
    assert_int_equal(model.types, 2);
    assert_ok(zl_model_load("gpt2-tiny", &model, &err), &err);
    assert_int_equal(model.ffn, 512);
    assert_int_equal(model.positions, 256);
}

static void an_unknown_name_suggests_the_nearest(void **state)
{
    (void)state;
    zl_model model;
    zl_err err = {.status = ZL_OK};
    assert_error(zl_model_load("gpt2-xxl", &model, &err), &err, ZL_E_USAGE,
                 "did you mean 'gpt2-xl'?");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_model_load("something-else", &model, &err), &err, ZL_E_USAGE, "unknown model");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_model_load("", &model, &err), &err, ZL_E_USAGE, "unknown model ''");
}

/* "./././..." is the folder that we are in, in any number of characters. */
static void a_folder_without_room_for_a_name_is_refused(void **state)
{
    (void)state;
    char path[4095];
    zl_model model;
    zl_err err = {.status = ZL_OK};
    memset(path, '/', sizeof path);
    for (size_t i = 0; i < sizeof path; i += 2) {
        path[i] = '.';
    }
    path[sizeof path - 1] = '\0';
    assert_error(zl_model_load(path, &model, &err), &err, ZL_E_INPUT, "is too long; move it");
}

static void impossible_shapes_are_refused(void **state)
{
    (void)state;
    zl_model gpt2;
    zl_model llama;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_model_load("gpt2", &gpt2, &err), &err);
    assert_ok(zl_model_load("llama-3-8b", &llama, &err), &err);
    const struct {
        zl_model model;
        const char *part;
    } bad[] = {
        {{.family = ZL_FAMILY_COUNT}, "family and activation"},
        {{.family = ZL_FAMILY_GPT2, .activation = ZL_ACT_GELU}, "layers must be at least 1, got 0"},
        {.model = gpt2, .part = "kv heads must divide heads"},
        {.model = gpt2, .part = "heads x head dim must be the width"},
        {.model = gpt2, .part = "no grouped-query attention"},
        {.model = gpt2, .part = "types must be 0"},
        {.model = gpt2, .part = "pooler must be false"},
        {.model = gpt2, .part = "norm eps"},
        {.model = gpt2, .part = "activation must be gelu"},
        {.model = gpt2, .part = "rope theta must be 0"},
        {.model = llama, .part = "head dim must be even"},
        {.model = llama, .part = "rope theta must be a positive"},
        {.model = llama, .part = "activation must be swiglu"},
        {.model = gpt2, .part = "qkv_bias, out_bias and mlp_bias must be true"},
    };
    zl_model m[COUNT_OF(bad)];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        m[i] = bad[i].model;
    }
    m[2].kv_heads = 5;
    m[3].head_dim = 65;
    m[4].kv_heads = 6;
    m[5].types = 2;
    m[6].pooler = true;
    m[7].norm_eps = 0.0;
    m[8].activation = ZL_ACT_SWIGLU;
    m[9].rope_theta = 10000.0;
    m[10].head_dim = 127;
    m[11].rope_theta = -1.0;
    m[12].activation = ZL_ACT_GELU;
    m[13].out_bias = false;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        err = (zl_err){.status = ZL_OK};
        assert_error(zl_model_check(&m[i], &err), &err, ZL_E_INPUT, bad[i].part);
    }
}

static void families_and_activations_have_names(void **state)
{
    (void)state;
    assert_string_equal(zl_family_name(ZL_FAMILY_BERT), "bert");
    assert_string_equal(zl_family_name(ZL_FAMILY_GPT2), "gpt2");
    assert_string_equal(zl_family_name(ZL_FAMILY_LLAMA), "llama");
    assert_string_equal(zl_activation_name(ZL_ACT_GELU), "gelu");
    assert_string_equal(zl_activation_name(ZL_ACT_GELU_TANH), "gelu-tanh");
    assert_string_equal(zl_activation_name(ZL_ACT_SWIGLU), "swiglu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_the_published_parameter_counts),
        cmocka_unit_test(every_preset_is_listed_and_valid),
        cmocka_unit_test(tiny_presets_train_on_bytes),
        cmocka_unit_test(an_unknown_name_suggests_the_nearest),
        cmocka_unit_test(a_folder_without_room_for_a_name_is_refused),
        cmocka_unit_test(impossible_shapes_are_refused),
        cmocka_unit_test(families_and_activations_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
