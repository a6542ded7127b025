/* The weights of a checkpoint against what its config.json makes of the model. */
#include "base_test.h"

#include "zeroledger/json.h"
#include "zeroledger/torch.h"

/* GPT-2 of one layer, width 4, 10 tokens, 8 positions: what GPT2LMHeadModel registers, without the
 * tied lm_head.weight. */
#define LAYER(c_fc)                                                                                \
    "\"h\":{\"0\":{\"attn\":{\"c_attn\":{\"bias\":\"F32[12]\",\"weight\":\"F32[4,12]\"},"          \
    "\"c_proj\":{\"bias\":\"F32[4]\",\"weight\":\"F32[4,4]\"}},"                                   \
    "\"ln_1\":{\"bias\":\"F32[4]\",\"weight\":\"F32[4]\"},"                                        \
    "\"ln_2\":{\"bias\":\"F32[4]\",\"weight\":\"F32[4]\"},"                                        \
    "\"mlp\":{\"c_fc\":{\"bias\":\"F32[16]\",\"weight\":\"F32" c_fc "\"},"                         \
    "\"c_proj\":{\"bias\":\"F32[4]\",\"weight\":\"F32[16,4]\"}}}}"
#define NORM   "\"ln_f\":{\"bias\":\"F32[4]\",\"weight\":\"F32[4]\"}"
#define TABLES "\"wpe\":{\"weight\":\"F32[8,4]\"},\"wte\":{\"weight\":\"F32[10,4]\"}"

static char said[640];

static const char *compare(const char *tensors)
{
    static const char config[] = "{\"model_type\":\"gpt2\",\"n_embd\":4,\"n_layer\":1,\"n_head\":1,"
                                 "\"vocab_size\":10,\"n_positions\":8}";
    static zl_hf_config model;
    zl_json_doc *ours = NULL;
    zl_json_doc *theirs = NULL;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_json_parse("config", config, strlen(config), &ours, &err), &err);
    assert_ok(zl_hf_config_read(zl_json_root(ours), &model, &err), &err);
    assert_ok(zl_json_parse("tensors", tensors, strlen(tensors), &theirs, &err), &err);
    assert_ok(zl_hf_compare(&model, zl_json_root(theirs), said, sizeof said, &err), &err);
    zl_json_free(ours);
    zl_json_free(theirs);
    return said;
}

static void equal_weights_are_not_spoken_of(void **state)
{
    (void)state;
    assert_string_equal(compare("{\"transformer\":{" LAYER("[4,16]") "," NORM "," TABLES "}}"), "");
    /* The output beside the table that it is. */
    assert_string_equal(compare("{\"lm_head\":{\"weight\":\"F32[10,4]\"},\"transformer\":{" LAYER(
                            "[4,16]") "," NORM "," TABLES "}}"),
                        "");
    /* As GPT2Model has them, without the model's name. */
    assert_string_equal(compare("{" LAYER("[4,16]") "," NORM "," TABLES "}"), "");
    /* The names of norms in the oldest checkpoints. */
    assert_string_equal(compare("{" LAYER("[4,16]") ",\"ln_f\":{\"beta\":\"F32[4]\",\"gamma\":"
                                                    "\"F32[4]\"}," TABLES "}"),
                        "");
}

static void another_shape_is_named_with_both(void **state)
{
    (void)state;
    assert_string_equal(compare("{" LAYER("[4,32]") "," NORM "," TABLES "}"),
                        "h.0.mlp.c_fc.weight is 4 x 32 in the weights and 4 x 16 by the "
                        "config.json, which is taken; the first that differs");
}

/* 324 parameters: tables 40 + 32, layer 244, last norm 8. */
static void what_only_one_side_has_is_named(void **state)
{
    (void)state;
    assert_string_equal(compare("{" LAYER("[4,16]") "," TABLES "}"),
                        "the weights have 316 parameters and the config.json, which is taken, "
                        "makes 324; the first tensor that only the config.json has is "
                        "transformer.ln_f.bias");
    assert_string_equal(
        compare("{\"score\":{\"weight\":\"F32[2,4]\"}," LAYER("[4,16]") "," NORM "," TABLES "}"),
        "the weights have 332 parameters and the config.json, which is taken, "
        "makes 324; the first tensor that only the weights have is score.weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_weights_are_not_spoken_of),
        cmocka_unit_test(another_shape_is_named_with_both),
        cmocka_unit_test(what_only_one_side_has_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
