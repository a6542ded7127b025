#include "base_test.h"

#include <sys/stat.h>

#include "zeroledger/model.h"

static zl_model load(const char *config)
{
    zl_model model;
    zl_err err = {.status = ZL_OK};
    write_text("config.json", config);
    assert_ok(zl_model_load("config.json", &model, &err), &err);
    return model;
}

static void assert_refused(const char *config, zl_status status, const char *part)
{
    zl_model model;
    zl_err err = {.status = ZL_OK};
    write_text("config.json", config);
    assert_error(zl_model_load("config.json", &model, &err), &err, status, part);
    assert_non_null(strstr(err.text, "config.json:"));
}

static void absent_keys_take_the_library_defaults(void **state)
{
    (void)state;
    zl_model m = load("{\"model_type\": \"gpt2\"}");
    assert_int_equal(m.family, ZL_FAMILY_GPT2);
    assert_int_equal(m.activation, ZL_ACT_GELU_TANH);
    assert_int_equal(m.layers, 12);
    assert_int_equal(m.width, 768);
    assert_int_equal(m.heads, 12);
    assert_int_equal(m.kv_heads, 12);
    assert_int_equal(m.head_dim, 64);
    assert_int_equal(m.ffn, 3072);
    assert_int_equal(m.vocab, 50257);
    assert_int_equal(m.positions, 1024);
    assert_true(m.tied && m.qkv_bias && m.out_bias && m.mlp_bias);
    m = load("{\"model_type\": \"bert\"}");
    assert_int_equal(m.family, ZL_FAMILY_BERT);
    assert_int_equal(m.activation, ZL_ACT_GELU);
    assert_int_equal(m.vocab, 30522);
    assert_int_equal(m.ffn, 3072);
    assert_int_equal(m.types, 2);
    assert_true(m.tied && !m.pooler);
    m = load("{\"model_type\": \"llama\"}");
    assert_int_equal(m.family, ZL_FAMILY_LLAMA);
    assert_int_equal(m.activation, ZL_ACT_SWIGLU);
    assert_int_equal(m.ffn, 11008);
    assert_int_equal(m.kv_heads, 32);
    assert_int_equal(m.positions, 2048);
    assert_true(!m.tied && !m.qkv_bias && !m.out_bias && !m.mlp_bias);
    assert_true(m.rope_theta >= 10000.0 && m.rope_theta <= 10000.0);
    m = load("{\"model_type\": \"mistral\"}");
    assert_int_equal(m.kv_heads, 8);
    assert_int_equal(m.ffn, 14336);
    assert_true(!m.tied && !m.qkv_bias);
    m = load("{\"model_type\": \"qwen2\"}");
    assert_int_equal(m.kv_heads, 32);
    assert_int_equal(m.vocab, 151936);
    assert_true(!m.tied && m.qkv_bias && !m.out_bias && !m.mlp_bias);
}

static void present_keys_win(void **state)
{
    (void)state;
    zl_model m = load("{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_embd\": 96, \"n_head\": 6, "
                      "\"n_inner\": 100, \"activation_function\": \"gelu\", \"vocab_size\": 300, "
                      "\"n_positions\": 33, \"tie_word_embeddings\": false}");
    assert_int_equal(m.layers, 3);
    assert_int_equal(m.head_dim, 16);
    assert_int_equal(m.ffn, 100);
    assert_int_equal(m.activation, ZL_ACT_GELU);
    assert_int_equal(m.positions, 33);
    assert_false(m.tied);
    m = load("{\"model_type\": \"gpt2\", \"hidden_size\": 96, \"n_inner\": null, \"n_ctx\": 1024}");
    assert_int_equal(m.width, 96);
    assert_int_equal(m.ffn, 384); /* 4 x 96 */
    m = load("{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4, "
             "\"num_key_value_heads\": 2, \"head_dim\": 32, \"attention_bias\": true, "
             "\"mlp_bias\": true, "
             "\"tie_word_embeddings\": true}");
    assert_int_equal(m.head_dim, 32); /* not 64 / 4 */
    assert_true(m.qkv_bias && m.out_bias && m.mlp_bias && m.tied);
    m = load("{\"model_type\": \"bert\", \"architectures\": [\"BertForPreTraining\"], "
             "\"hidden_act\": \"gelu_new\", \"type_vocab_size\": 1}");
    assert_true(m.pooler);
    assert_int_equal(m.activation, ZL_ACT_GELU_TANH);
    assert_int_equal(m.types, 1);
    m = load("{\"model_type\": \"qwen2\", \"num_key_value_heads\": 4, \"attention_bias\": false}");
    assert_true(m.qkv_bias); /* the key means nothing to this type */
    assert_int_equal(m.kv_heads, 4);
}

static void rope_theta_is_found_in_old_and_new_places(void **state)
{
    (void)state;
    static const char *const configs[] = {
        "{\"model_type\": \"llama\", \"rope_theta\": 500000.0, \"rope_scaling\": {\"factor\": "
        "8.0}}",
        "{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"default\", "
        "\"rope_theta\": 500000.0}}",
        "{\"model_type\": \"llama\", \"rope_theta\": null, \"rope_scaling\": {\"rope_theta\": "
        "5e5}}",
    };
    for (size_t i = 0; i < COUNT_OF(configs); i++) {
        const zl_model m = load(configs[i]);
        assert_true(m.rope_theta >= 500000.0 && m.rope_theta <= 500000.0);
    }
    assert_refused("{\"model_type\": \"llama\", \"rope_scaling\": \"x\"}", ZL_E_INPUT,
                   "rope_scaling");
    assert_refused("{\"model_type\": \"llama\", \"rope_theta\": \"x\"}", ZL_E_INPUT, "rope_theta");
}

static void what_is_not_modelled_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        const char *part;
    } outside[] = {
        {"{\"model_type\": \"mixtral\"}", "model_type 'mixtral' is not modelled for the framework "
                                          "native, which has bert, gpt2, llama, "
                                          "mistral, qwen2; others, such as --framework single, "
                                          "have more: see zl list architectures"},
        {"{\"model_type\": \"bert\", \"is_decoder\": true}", "is_decoder is not modelled"},
        {"{\"model_type\": \"bert\", \"add_cross_attention\": true}", "add_cross_attention"},
        {"{\"model_type\": \"llama\", \"is_encoder_decoder\": true}", "is_encoder_decoder"},
        {"{\"model_type\": \"gpt2\", \"add_cross_attention\": true}", "add_cross_attention"},
        {"{\"model_type\": \"llama\", \"quantization_config\": {\"quant_method\": \"gptq\"}}",
         "quantization_config (gptq)"},
        {"{\"model_type\": \"llama\", \"hidden_act\": \"gelu\"}", "hidden_act 'gelu'"},
        {"{\"model_type\": \"bert\", \"hidden_act\": \"relu\"}", "hidden_act 'relu'"},
        {"{\"model_type\": \"gpt2\", \"activation_function\": \"silu\"}",
         "activation_function 'silu'"},
        {"{\"model_type\": \"bert\", \"architectures\": [\"BertLMHeadModel\"]}",
         "'BertLMHeadModel'"},
        {"{\"model_type\": \"bert\", \"position_embedding_type\": \"relative_key\"}",
         "relative_key"},
    };
    for (size_t i = 0; i < COUNT_OF(outside); i++) {
        assert_refused(outside[i].config, ZL_E_UNMODELLED, outside[i].part);
    }
}

static void wrong_values_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        const char *part;
    } wrong[] = {
        {"{}", "model_type is missing"},
        {"[]", "the top level must be an object"},
        {"{\"model_type\": 3}", "model_type must be a string, got 3"},
        {"{\"model_type\": \"gpt2\", \"n_layer\": \"12\"}", "n_layer must be a whole number"},
        {"{\"model_type\": \"gpt2\", \"n_layer\": -1}",
         "n_layer must be a whole number that is not neg"},
        {"{\"model_type\": \"gpt2\", \"n_layer\": 1.5}", "n_layer must be a whole number, got 1.5"},
        {"{\"model_type\": \"gpt2\", \"n_layer\": 0}", "n_layer must be at least 1, got 0"},
        {"{\"model_type\": \"gpt2\", \"vocab_size\": 9007199254740993}", "2^53"},
        {"{\"model_type\": \"gpt2\", \"n_head\": 7}", "n_head must divide n_embd, got 7 and 768"},
        {"{\"model_type\": \"llama\", \"num_key_value_heads\": 5}", "kv heads must divide heads"},
        {"{\"model_type\": \"llama\", \"head_dim\": 33}", "head dim must be even"},
        {"{\"model_type\": \"llama\", \"rms_norm_eps\": 1e999}", "rms_norm_eps must be a finite"},
        {"{\"model_type\": \"llama\", \"rms_norm_eps\": 0}", "norm eps must be a positive"},
        {"{\"model_type\": \"llama\", \"rope_theta\": 0}", "rope theta must be a positive"},
        {"{\"model_type\": \"gpt2\", \"tie_word_embeddings\": 1}",
         "tie_word_embeddings must be true or"},
        {"{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_layer\": 4}", "n_layer is given twice"},
        {"{\"model_type\": \"gpt2\", \"architectures\": \"x\"}", "architectures must be an array"},
        {"{\"model_type\": \"gpt2\",", ":1:23: expected a key in double quotes, but the text ends"},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_refused(wrong[i].config, ZL_E_INPUT, wrong[i].part);
    }
}

static void foreign_keys_are_accepted(void **state)
{
    (void)state;
    const zl_model m =
        load("\xef\xbb\xbf{\"model_type\": \"gpt2\", \"N_LAYER\": 99, \"torch_dtype\": "
             "\"float16\", \"huge\": 1e30, \"big\": 99999999999999999999}");
    assert_int_equal(m.layers, 12);
}

static void a_folder_means_its_config(void **state)
{
    (void)state;
    zl_model model;
    zl_err err = {.status = ZL_OK};
    assert_int_equal(mkdir("my-model", 0777), 0);
    assert_error(zl_model_load("my-model", &model, &err), &err, ZL_E_INPUT,
                 "my-model has neither a config.json nor a model.safetensors");
    write_text("my-model/config.json", "{\"model_type\": \"gpt2\"}");
    write_text("other.json", "{\"model_type\": \"gpt2\"}");
    static const struct {
        const char *path;
        const char *name;
    } good[] = {
        {"my-model", "my-model"}, {"my-model/", "my-model"}, {"./my-model/config.json", "my-model"},
        {"other.json", "other"},  {"./other.json", "other"}, {"my-model/../other.json", "other"},
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        err = (zl_err){.status = ZL_OK};
        assert_ok(zl_model_load(good[i].path, &model, &err), &err);
        assert_string_equal(model.name, good[i].name);
    }
    write_text("config.json", "{\"model_type\": \"gpt2\"}");
    static const char *const unnamed[] = {"config.json", "./config.json", "."};
    for (size_t i = 0; i < COUNT_OF(unnamed); i++) {
        assert_ok(zl_model_load(unnamed[i], &model, &err), &err);
        assert_string_equal(model.name, "config");
    }
}

static void odd_names_become_plain_labels(void **state)
{
    (void)state;
    zl_model model;
    zl_err err = {.status = ZL_OK};
    static const char config[] = "{\"model_type\": \"gpt2\"}";
    write_text("a\x1b\xff\n.json", config);
    assert_ok(zl_model_load("a\x1b\xff\n.json", &model, &err), &err);
    assert_string_equal(model.name, "a???");
    char path[120];
    memset(path, 'n', 100);
    snprintf(path + 100, sizeof path - 100, ".json");
    write_text(path, config);
    assert_ok(zl_model_load(path, &model, &err), &err);
    assert_int_equal(strlen(model.name), sizeof model.name - 1);
}

static void a_missing_file_is_bad_input(void **state)
{
    (void)state;
    zl_model model;
    zl_err err = {.status = ZL_OK};
    assert_error(zl_model_load("nowhere.json", &model, &err), &err, ZL_E_INPUT,
                 "cannot read nowhere.json");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_model_load("no/where", &model, &err), &err, ZL_E_INPUT, "cannot read no/where");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_keys_take_the_library_defaults),
        cmocka_unit_test(present_keys_win),
        cmocka_unit_test(rope_theta_is_found_in_old_and_new_places),
        cmocka_unit_test(what_is_not_modelled_is_named),
        cmocka_unit_test(wrong_values_are_named),
        cmocka_unit_test(foreign_keys_are_accepted),
        cmocka_unit_test(a_folder_means_its_config),
        cmocka_unit_test(odd_names_become_plain_labels),
        cmocka_unit_test(a_missing_file_is_bad_input),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
