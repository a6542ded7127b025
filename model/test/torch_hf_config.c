#include "base_test.h"

#include "zeroledger/torch.h"

static zl_status read_config(const char *text, zl_hf_config *out, zl_err *err)
{
    zl_json_doc *doc;
    ZL_TRY(zl_json_parse("config", text, strlen(text), &doc, err));
    const zl_status status = zl_hf_config_read(zl_json_root(doc), out, err);
    zl_json_free(doc);
    return status;
}

static zl_hf_config load(const char *text)
{
    zl_hf_config config = {.vocab = 0};
    zl_err err = {.status = ZL_OK};
    assert_ok(read_config(text, &config, &err), &err);
    return config;
}

static void assert_refused(const char *text, zl_status status, const char *part)
{
    zl_hf_config config;
    zl_err err = {.status = ZL_OK};
    assert_error(read_config(text, &config, &err), &err, status, part);
}

static bool is(double value, double expected)
{
    return value >= expected && value <= expected;
}

static void absent_keys_take_the_library_defaults(void **state)
{
    (void)state;
    zl_hf_config c = load("{\"model_type\": \"gpt2\"}");
    assert_int_equal(c.arch, ZL_HF_GPT2);
    assert_int_equal(c.activation, ZL_HF_GELU_NEW);
    assert_int_equal(c.vocab, 50257);
    assert_int_equal(c.hidden, 768);
    assert_int_equal(c.layers, 12);
    assert_int_equal(c.kv_heads, 12);
    assert_int_equal(c.head_dim, 64);
    assert_int_equal(c.ffn, 3072);
    assert_int_equal(c.positions, 1024);
    assert_true(c.tied && is(c.attention_dropout, 0.1) && is(c.embedding_dropout, 0.1));
    c = load("{\"model_type\": \"bert\"}");
    assert_int_equal(c.arch, ZL_HF_BERT_MLM);
    assert_int_equal(c.activation, ZL_HF_GELU);
    assert_int_equal(c.types, 2);
    assert_true(c.tied && is(c.hidden_dropout, 0.1));
    c = load("{\"model_type\": \"llama\"}");
    assert_int_equal(c.arch, ZL_HF_LLAMA);
    assert_int_equal(c.activation, ZL_HF_SILU);
    assert_int_equal(c.ffn, 11008);
    assert_int_equal(c.head_dim, 128);
    assert_true(!c.tied && !c.attention_bias && is(c.attention_dropout, 0));
    c = load("{\"model_type\": \"mixtral\"}");
    assert_int_equal(c.arch, ZL_HF_MIXTRAL);
    assert_int_equal(c.kv_heads, 8);
    assert_int_equal(c.experts, 8);
    assert_int_equal(c.experts_per_token, 2);
    assert_int_equal(c.ffn, 14336);
}

static void given_keys_win(void **state)
{
    (void)state;
    zl_hf_config c =
        load("{\"model_type\": \"gpt2\", \"hidden_size\": 1024, \"n_head\": 16,"
             "\"n_inner\": null, \"attn_pdrop\": 0.0, \"tie_word_embeddings\": false}");
    assert_int_equal(c.hidden, 1024);
    assert_int_equal(c.ffn, 4096);
    assert_int_equal(c.head_dim, 64);
    assert_true(!c.tied && is(c.attention_dropout, 0) && is(c.hidden_dropout, 0.1));
    c = load("{\"model_type\": \"bert\", \"architectures\": [\"BertForPreTraining\"],"
             "\"hidden_dropout_prob\": 0.2}");
    assert_int_equal(c.arch, ZL_HF_BERT_PRETRAINING);
    assert_true(is(c.embedding_dropout, 0.2) && is(c.hidden_dropout, 0.2));
    c = load("{\"model_type\": \"llama\", \"head_dim\": 64, \"num_key_value_heads\": 4,"
             "\"attention_bias\": true}");
    assert_int_equal(c.head_dim, 64);
    assert_int_equal(c.kv_heads, 4);
    assert_true(c.attention_bias && !c.mlp_bias);
}

static void what_is_not_modelled_is_named(void **state)
{
    (void)state;
    assert_refused("{\"model_type\": \"t5\"}", ZL_E_UNMODELLED, "model_type 't5'");
    assert_refused("{\"model_type\": \"bert\", \"architectures\": [\"BertForQuestionAnswering\"]}",
                   ZL_E_UNMODELLED, "BertForQuestionAnswering");
    assert_refused("{\"model_type\": \"bert\", \"hidden_act\": \"relu\"}", ZL_E_UNMODELLED,
                   "hidden_act 'relu'");
    assert_refused("{\"model_type\": \"llama\", \"quantization_config\": {\"bits\": 4}}",
                   ZL_E_UNMODELLED, "quantization_config");
    assert_refused("{\"model_type\": \"mixtral\", \"sliding_window\": 4096}", ZL_E_UNMODELLED,
                   "sliding_window");
    assert_refused("{\"model_type\": \"bert\", \"is_decoder\": true}", ZL_E_UNMODELLED,
                   "is_decoder");
}

static void nonsense_is_an_input_error(void **state)
{
    (void)state;
    assert_refused("[]", ZL_E_INPUT, "config.json");
    assert_refused("{}", ZL_E_INPUT, "model_type");
    assert_refused("{\"model_type\": \"gpt2\", \"n_layer\": 0}", ZL_E_INPUT, "n_layer");
    assert_refused("{\"model_type\": \"gpt2\", \"n_head\": 7}", ZL_E_INPUT, "must divide");
    assert_refused("{\"model_type\": \"llama\", \"num_key_value_heads\": 5}", ZL_E_INPUT,
                   "num_key_value_heads");
    assert_refused("{\"model_type\": \"gpt2\", \"resid_pdrop\": 1}", ZL_E_INPUT, "resid_pdrop");
    assert_refused("{\"model_type\": \"mixtral\", \"num_experts_per_tok\": 9}", ZL_E_INPUT,
                   "num_experts_per_tok");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_keys_take_the_library_defaults),
        cmocka_unit_test(given_keys_win),
        cmocka_unit_test(what_is_not_modelled_is_named),
        cmocka_unit_test(nonsense_is_an_input_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
