#include "base_test.h"

#include "torch/hf_shapes.h"
#include "torch/modules.h"
#include "torch/predict.h"
#include "zeroledger/bytes.h"
#include "zeroledger/torch.h"

/* What transformers itself registers: its "provenance" says which and how. */
static zl_json_doc *load_truth(void)
{
    zl_json_doc *doc = NULL;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_json_load(ZL_TEST_DATA "/hf_shapes.json", &doc, &err), &err);
    return doc;
}

static zl_hf_config read_config(zl_json config)
{
    zl_hf_config out = {.vocab = 0};
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_hf_config_read(config, &out, &err), &err);
    return out;
}

static zl_tensor_list list_of(const zl_hf_config *config)
{
    zl_tensor_list list = {0};
    zl_err err = {.status = ZL_OK};
    assert_ok(zt_shapes_of(config, &list, &err), &err);
    return list;
}

static const char *text_of(zl_json value)
{
    const char *text = NULL;
    assert_int_equal(zl_json_string(value, &text, NULL), ZL_OK);
    return text;
}

static uint64_t number_of(zl_json value)
{
    uint64_t number = 0;
    assert_int_equal(zl_json_u64(value, &number, NULL), ZL_OK);
    return number;
}

/* ["name", d0, d1] */
static void assert_tensor(const zl_tensor_entry *entry, zl_json wanted)
{
    assert_string_equal(entry->name, text_of(zl_json_item(wanted, 0)));
    assert_int_equal(entry->rank, zl_json_size(wanted) - 1);
    for (uint32_t i = 0; i < entry->rank; i++) {
        assert_int_equal(entry->dim[i], number_of(zl_json_item(wanted, i + 1)));
    }
}

static const zl_tensor_entry nothing;

/* The next entry at or behind *at of one kind, which moves behind it; else `nothing`. */
static const zl_tensor_entry *next_of(const zl_tensor_list *list, size_t *at, bool buffer,
                                      bool tied)
{
    while (*at < list->count) {
        const zl_tensor_entry *entry = &list->entry[(*at)++];
        if (entry->buffer == buffer && (entry->tied != 0) == tied) {
            return entry;
        }
    }
    return &nothing;
}

static void assert_kind(const zl_tensor_list *list, zl_json wanted, bool buffer)
{
    size_t at = 0;
    for (size_t i = 0; i < zl_json_size(wanted); i++) {
        const zl_tensor_entry *entry = next_of(list, &at, buffer, false);
        assert_tensor(entry, zl_json_item(wanted, i));
    }
    assert_ptr_equal(next_of(list, &at, buffer, false), &nothing);
}

/* [["alias", "target"]] */
static void assert_ties(const zl_tensor_list *list, zl_json wanted)
{
    size_t at = 0;
    for (size_t i = 0; i < zl_json_size(wanted); i++) {
        const zl_tensor_entry *entry = next_of(list, &at, false, true);
        const zl_json pair = zl_json_item(wanted, i);
        assert_string_equal(entry->name, text_of(zl_json_item(pair, 0)));
        assert_string_equal(entry->tied > 0 ? list->entry[entry->tied - 1].name : "",
                            text_of(zl_json_item(pair, 1)));
    }
    assert_ptr_equal(next_of(list, &at, false, true), &nothing);
}

static void names_and_shapes_are_those_of_transformers(void **state)
{
    (void)state;
    zl_json_doc *doc = load_truth();
    const zl_json cases = zl_json_get(zl_json_root(doc), "shapes");
    assert_true(zl_json_size(cases) > 30);
    for (size_t i = 0; i < zl_json_size(cases); i++) {
        const zl_json shapes = zl_json_item(cases, i);
        const zl_hf_config config = read_config(zl_json_get(shapes, "config"));
        zl_tensor_list list = list_of(&config);
        assert_kind(&list, zl_json_get(shapes, "parameters"), false);
        assert_kind(&list, zl_json_get(shapes, "buffers"), true);
        assert_ties(&list, zl_json_get(shapes, "tied"));
        zl_tensor_list_clear(&list);
    }
    zl_json_free(doc);
}

static void published_models_have_their_parameters(void **state)
{
    (void)state;
    zl_json_doc *doc = load_truth();
    const zl_json totals = zl_json_get(zl_json_root(doc), "totals");
    assert_true(zl_json_size(totals) > 20);
    for (size_t i = 0; i < zl_json_size(totals); i++) {
        const zl_json model = zl_json_item(totals, i);
        const zl_hf_config config = read_config(zl_json_get(model, "config"));
        zl_hf_weights weights = {.parameters = 0};
        zl_err err = {.status = ZL_OK};
        assert_ok(zl_hf_weights_of(&config, &weights, &err), &err);
        assert_int_equal(weights.parameters, number_of(zl_json_get(model, "parameters")));
        assert_int_equal(weights.tensors, number_of(zl_json_get(model, "tensors")));
    }
    zl_json_free(doc);
}

/* ---- the same through the tree that is walked ---- */

static zl_torch_run states_of(const zl_hf_config *config)
{
    zl_torch_run run;
    zl_torch_run_init(&run);
    run.model = *config;
    run.states_only = true;
    run.seq = 8;
    run.micro_batch = 2;
    run.steps = 2;
    return run;
}

static zl_marks walk(const zl_torch_run *run)
{
    zl_marks marks = {0};
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_torch_predict(run, 0, &marks, &err), &err);
    return marks;
}

static const zl_mark *at(const zl_marks *marks, int32_t step, const char *name)
{
    for (size_t i = 0; i < marks->count; i++) {
        if (marks->mark[i].step == step && strcmp(marks->mark[i].at, name) == 0) {
            return &marks->mark[i];
        }
    }
    fail_msg("no mark %s of step %d", name, (int)step);
    return marks->mark;
}

static void the_walk_counts_what_the_list_does(void **state)
{
    (void)state;
    zl_json_doc *doc = load_truth();
    const zl_json cases = zl_json_get(zl_json_root(doc), "shapes");
    for (size_t i = 0; i < zl_json_size(cases); i++) {
        const zl_hf_config config = read_config(zl_json_get(zl_json_item(cases, i), "config"));
        const zl_torch_run run = states_of(&config);
        zl_hf_weights weights = {.parameters = 0};
        zl_err err = {.status = ZL_OK};
        assert_ok(zl_hf_weights_of(&config, &weights, &err), &err);
        zl_marks marks = walk(&run);
        assert_int_equal(marks.parameters, weights.parameters);
        /* Nothing reads the head's own bias where it is not the decoder's. */
        const bool unread = config.arch == ZL_HF_ROBERTA && !config.tied;
        assert_int_equal(marks.trainable, weights.parameters - (unread ? config.vocab : 0));
        zl_marks_clear(&marks);
    }
    zl_json_free(doc);
}

static zl_hf_config parse(const char *text)
{
    zl_json_doc *doc = NULL;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_json_parse("config", text, strlen(text), &doc, &err), &err);
    const zl_hf_config config = read_config(zl_json_root(doc));
    zl_json_free(doc);
    return config;
}

#define SMALL_OPT                                                                                  \
    "{\"model_type\": \"opt\", \"vocab_size\": 109, \"hidden_size\": 12, \"ffn_dim\": 20, "        \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 3, \"max_position_embeddings\": 30}"

/* By hand: table 109 x 12, positions 32 x 12, final norm 24; a layer has 4 (144 + 12), fc1 20 x 12
 * + 20, fc2 12 x 20 + 12, two norms of 24: 1308 + 384 + 24 + 2 x (624 + 260 + 252 + 48) = 4084. */
static const uint64_t opt_elements = 4084;

/* Pure bf16 on one GPU: 2 bytes for a parameter, for its gradient, and twice for AdamW. */
static void states_of_one_gpu_are_worked_out_by_hand(void **state)
{
    (void)state;
    enum { WORKSPACE = 33554432, WITH_BIAS = 1048576, LOSS = 4, IDS = 2 * 8 * 8 };
    const zl_hf_config config = parse(SMALL_OPT);
    zl_torch_run run = states_of(&config);
    run.optimizer = ZL_TORCH_ADAMW_LOOP;
    zl_marks marks = walk(&run);
    assert_int_equal(marks.parameters, opt_elements);
    assert_int_equal(at(&marks, -1, "init")->requested, 2 * opt_elements);
    /* Two threads multiply, the forward one with biases. The logits are the loss's only input. */
    const uint64_t rest = 2 * WORKSPACE + WITH_BIAS + LOSS;
    assert_int_equal(at(&marks, 0, "after_backward")->requested, 4 * opt_elements + rest + IDS);
    assert_int_equal(at(&marks, 0, "after_step")->requested, 8 * opt_elements + rest + IDS);
    assert_int_equal(at(&marks, 1, "before_forward")->requested, 6 * opt_elements + rest + IDS);
    zl_marks_clear(&marks);
}

/* Whatever a layer's share of the activations is, all of it is there when forward ends, and nothing
 * when backward does. */
static void given_activations_come_and_go(void **state)
{
    (void)state;
    static const zl_torch_framework frameworks[] = {ZL_TORCH_SINGLE, ZL_TORCH_DDP, ZL_TORCH_ZERO1,
                                                    ZL_TORCH_FSDP1, ZL_TORCH_FSDP2};
    enum { GIVEN = 1000003 };
    const zl_hf_config configs[] = {parse(SMALL_OPT),
                                    parse("{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": "
                                          "48, \"n_head\": 3, \"vocab_size\": 100}")};
    for (size_t c = 0; c < 2; c++) {
        for (size_t i = 0; i < sizeof frameworks / sizeof frameworks[0]; i++) {
            zl_torch_run run = states_of(&configs[c]);
            run.framework = frameworks[i];
            run.stage = i < 2 ? 0 : i == 2 ? 1 : 3;
            run.ranks = i == 0 ? 1 : 4;
            zl_marks without = walk(&run);
            run.states_only = false;
            run.activations = GIVEN;
            zl_marks given = walk(&run);
            for (int32_t step = 0; step < 2; step++) {
                assert_int_equal(at(&given, step, "after_forward")->requested,
                                 at(&without, step, "after_forward")->requested + GIVEN);
                assert_int_equal(at(&given, step, "after_backward")->requested,
                                 at(&without, step, "after_backward")->requested);
                assert_int_equal(at(&given, step, "after_step")->peak_requested,
                                 at(&without, step, "after_step")->peak_requested);
            }
            zl_marks_clear(&without);
            zl_marks_clear(&given);
        }
    }
}

/* What autograd of the real classes kept from forward to backward, and the loss of the training
 * loop, which is a tensor of its own: 4 bytes. */
static void forward_leaves_what_autograd_saves(void **state)
{
    enum { LOSS = 4 };
    (void)state;
    zl_json_doc *doc = load_truth();
    const zl_json cases = zl_json_get(zl_json_root(doc), "saved");
    assert_true(zl_json_size(cases) > 5);
    for (size_t i = 0; i < zl_json_size(cases); i++) {
        const zl_json saved = zl_json_item(cases, i);
        const zl_hf_config config = read_config(zl_json_get(saved, "config"));
        zl_torch_run run = states_of(&config);
        run.states_only = false;
        run.precision = ZL_TORCH_FP32;
        run.attention = ZL_TORCH_EAGER;
        run.micro_batch = number_of(zl_json_get(saved, "batch"));
        run.seq = number_of(zl_json_get(saved, "seq"));
        zl_marks marks = walk(&run);
        assert_int_equal(at(&marks, 1, "after_forward")->requested -
                             at(&marks, 1, "before_forward")->requested,
                         number_of(zl_json_get(saved, "bytes")) + LOSS);
        zl_marks_clear(&marks);
    }
    zl_json_free(doc);
}

/* LlamaForCausalLM with two layers, and the same tensors as a file of weights has them. */
#define SMALL_LLAMA                                                                                \
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64, "                  \
    "\"num_attention_heads\": 4, \"intermediate_size\": 96, \"vocab_size\": 100}"
#define SMALL_LLAMA_FILE                                                                           \
    "{\"tensors\": {\"lm_head\": {\"weight\": \"BF16[100,64]\"}, \"model\": {"                     \
    "\"embed_tokens\": {\"weight\": \"BF16[100,64]\"}, \"layers\": {\"0-1\": {"                    \
    "\"input_layernorm\": {\"weight\": \"BF16[64]\"}, \"mlp\": {"                                  \
    "\"down_proj\": {\"weight\": \"BF16[64,96]\"}, \"gate_proj\": {\"weight\": \"BF16[96,64]\"}, " \
    "\"up_proj\": {\"weight\": \"BF16[96,64]\"}}, "                                                \
    "\"post_attention_layernorm\": {\"weight\": \"BF16[64]\"}, \"self_attn\": {"                   \
    "\"k_proj\": {\"weight\": \"BF16[64,64]\"}, \"o_proj\": {\"weight\": \"BF16[64,64]\"}, "       \
    "\"q_proj\": {\"weight\": \"BF16[64,64]\"}, \"v_proj\": {\"weight\": \"BF16[64,64]\"}}}}, "    \
    "\"norm\": {\"weight\": \"BF16[64]\"}}}}"

static void assert_same_states(const zl_marks *states, const zl_marks *modelled, uint64_t buffers)
{
    assert_int_equal(states->count, modelled->count);
    assert_int_equal(states->parameters, modelled->parameters);
    for (size_t m = 0; m < states->count; m++) {
        const zl_mark *mark = &states->mark[m];
        if (!zl_mark_depends(mark).requested) {
            assert_int_equal(mark->requested + buffers, modelled->mark[m].requested);
        }
        /* At init DDP broadcasts a copy of the buffers. */
        if (!zl_mark_depends(mark).peak_requested && (buffers == 0 || mark->step >= 0)) {
            assert_int_equal(mark->peak_requested + buffers, modelled->mark[m].peak_requested);
        }
    }
}

/* A modelled architecture without its activations, and its tensors alone, have the states that its
 * operations have. A file of weights does not have the rotary frequencies: two buffers of 8. */
static void states_do_not_need_the_operations(void **state)
{
    (void)state;
    static const struct {
        zl_torch_framework framework;
        zl_torch_precision precision;
        uint64_t stage;
    } runs[] = {
        {ZL_TORCH_SINGLE, ZL_TORCH_BF16, 0},      {ZL_TORCH_SINGLE, ZL_TORCH_BF16_AUTOCAST, 0},
        {ZL_TORCH_DDP, ZL_TORCH_BF16, 0},         {ZL_TORCH_ZERO1, ZL_TORCH_BF16, 1},
        {ZL_TORCH_FSDP1, ZL_TORCH_BF16_MIXED, 3}, {ZL_TORCH_FSDP2, ZL_TORCH_BF16_MIXED, 3},
        {ZL_TORCH_FSDP2, ZL_TORCH_BF16, 2}};
    const zl_hf_config config = parse(SMALL_LLAMA);
    const zl_hf_config file = parse(SMALL_LLAMA_FILE);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        zl_torch_run run = states_of(&config);
        run.framework = runs[i].framework;
        run.precision = runs[i].precision;
        run.stage = runs[i].stage;
        run.ranks = i < 2 ? 1 : 4;
        zl_marks states = walk(&run);
        run.states_only = false;
        zl_marks modelled = walk(&run);
        assert_same_states(&states, &modelled, 0);
        zl_marks_clear(&states);
        run.states_only = true;
        run.model = file;
        states = walk(&run);
        assert_same_states(&states, &modelled, run.precision == ZL_TORCH_BF16 ? 32 : 64);
        zl_marks_clear(&states);
        zl_marks_clear(&modelled);
    }
}

static void without_activations_there_is_no_answer(void **state)
{
    (void)state;
    const zl_hf_config config = parse(SMALL_OPT);
    zl_torch_run run = states_of(&config);
    zl_marks marks = {0};
    zl_err err = {.status = ZL_OK};
    run.states_only = false;
    assert_error(zl_torch_predict(&run, 0, &marks, &err), &err, ZL_E_UNMODELLED, "--activations");
}

/* ---- quantisation ---- */

static zl_hf_weights weights_of(const char *text)
{
    const zl_hf_config config = parse(text);
    zl_hf_weights weights = {.parameters = 0};
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_hf_weights_of(&config, &weights, &err), &err);
    return weights;
}

/* One layer of width 64 without biases: q, k, v, o 64 x 64, gate, up 128 x 64, down 64 x 128: 40960
 * in matrices; the tables 100 x 64 twice, three norms of 64. */
#define LLAMA(quantisation)                                                                        \
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"hidden_size\": 64, "                  \
    "\"num_attention_heads\": 2, \"intermediate_size\": 128, \"vocab_size\": 100, "                \
    "\"torch_dtype\": \"bfloat16\", \"quantization_config\": {" quantisation "}}"

enum { MATRICES = 4 * 64 * 64 + 3 * 128 * 64, OTHERS = 2 * (2 * 100 * 64 + 3 * 64) };

static void quantised_weights_have_the_documented_bytes(void **state)
{
    (void)state;
    zl_hf_weights w =
        weights_of(LLAMA("\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true"));
    assert_int_equal(w.parameters, MATRICES + OTHERS / 2);
    assert_int_equal(w.quantised, MATRICES);
    /* half a byte, 4 bytes for 64 elements: 64 blocks of each square, 128 of the others */
    assert_int_equal(w.bytes, MATRICES / 2 + 4 * (4 * 64 + 3 * 128) + OTHERS);
    w = weights_of(LLAMA("\"load_in_4bit\": true, \"bnb_4bit_use_double_quant\": true"));
    /* a byte for each block, and for each matrix one scale of 256 of them and a mean, fp32 */
    assert_int_equal(w.bytes, MATRICES / 2 + (4 * 64 + 3 * 128) + 7 * 8 + OTHERS);
    w = weights_of(LLAMA("\"quant_method\": \"bitsandbytes\", \"load_in_8bit\": true"));
    /* fp32 for each row: q, k, v, o, down 64, gate, up 128 */
    assert_int_equal(w.bytes, MATRICES + 4 * (5 * 64 + 2 * 128) + OTHERS);
    w = weights_of(LLAMA("\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 32"));
    /* half a byte; for each group of 32 inputs and output half a byte and fp16; int32 per input */
    assert_int_equal(w.bytes, MATRICES / 2 + MATRICES / 32 * 5 / 2 + 4 * (6 * 64 + 128) + OTHERS);
    w = weights_of(LLAMA("\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 32"));
    assert_int_equal(w.bytes, MATRICES / 2 + MATRICES / 32 * 5 / 2 + OTHERS);
    w = weights_of(LLAMA("\"quant_method\": \"fp8\", \"weight_block_size\": [64, 64]"));
    /* one fp32 for each square, two for the others */
    assert_int_equal(w.bytes, MATRICES + 4 * (4 + 3 * 2) + OTHERS);
    /* all inputs one group; q_proj is left alone */
    w = weights_of(LLAMA("\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": -1, "
                         "\"modules_to_not_convert\": [\"q_proj\"]"));
    assert_int_equal(w.quantised, MATRICES - 64 * 64);
    assert_int_equal(w.bytes,
                     (MATRICES - 64 * 64) / 2 + (4 * 64 + 2 * 128) * 5 / 2 + OTHERS + 2 * 64 * 64);
}

static void assert_refused(const char *text, zl_status status, const char *part)
{
    zl_json_doc *doc = NULL;
    zl_hf_config config;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_json_parse("config", text, strlen(text), &doc, &err), &err);
    assert_error(zl_hf_config_read(zl_json_root(doc), &config, &err), &err, status, part);
    zl_json_free(doc);
}

static void other_quantisation_is_named(void **state)
{
    (void)state;
    assert_refused(LLAMA("\"quant_method\": \"hqq\""), ZL_E_UNMODELLED, "'hqq'");
    assert_refused(LLAMA("\"bits\": 4"), ZL_E_UNMODELLED, "without quant_method");
    assert_refused(LLAMA("\"quant_method\": \"bitsandbytes\""), ZL_E_INPUT, "neither");
    assert_refused(LLAMA("\"quant_method\": \"gptq\", \"bits\": 64"), ZL_E_INPUT, "2 to 8 bits");
}

/* ---- what cannot be read ---- */

static void parts_of_a_model_of_several_are_named(void **state)
{
    (void)state;
    assert_refused("{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\"}, "
                   "\"vision_config\": {\"model_type\": \"clip_vision_model\"}}",
                   ZL_E_UNMODELLED, "vision_config (clip_vision_model)");
    assert_refused("{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": "
                   "\"gemma3_text\"}, \"vision_config\": {}}",
                   ZL_E_UNMODELLED, "of text_config (gemma3_text) nothing is");
}

static void the_nearest_type_is_named(void **state)
{
    (void)state;
    assert_refused("{\"model_type\": \"qwen2_mo\"}", ZL_E_UNMODELLED, "the nearest is qwen2_moe");
    assert_refused("{\"model_type\": \"qwen2_moe\", \"mlp_only_layers\": [1]}", ZL_E_UNMODELLED,
                   "mlp_only_layers");
}

static void old_and_new_keys_mean_the_same(void **state)
{
    (void)state;
    const zl_hf_config old =
        parse("{\"model_type\": \"phi\", \"rope_theta\": 10000.0, "
              "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}, "
              "\"partial_rotary_factor\": 0.25, \"torch_dtype\": \"float16\"}");
    const zl_hf_config new = parse("{\"model_type\": \"phi\", \"rope_parameters\": {\"rope_type\": "
                                   "\"linear\", \"factor\": 2.0, \"rope_theta\": 10000.0, "
                                   "\"partial_rotary_factor\": 0.25}, \"dtype\": \"float16\"}");
    assert_int_equal(old.rotary, 16);
    assert_int_equal(new.rotary, 16);
    assert_string_equal(old.stored, "float16");
    assert_string_equal(new.stored, "float16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_shapes_are_those_of_transformers),
        cmocka_unit_test(published_models_have_their_parameters),
        cmocka_unit_test(the_walk_counts_what_the_list_does),
        cmocka_unit_test(states_of_one_gpu_are_worked_out_by_hand),
        cmocka_unit_test(given_activations_come_and_go),
        cmocka_unit_test(forward_leaves_what_autograd_saves),
        cmocka_unit_test(states_do_not_need_the_operations),
        cmocka_unit_test(without_activations_there_is_no_answer),
        cmocka_unit_test(quantised_weights_have_the_documented_bytes),
        cmocka_unit_test(other_quantisation_is_named),
        cmocka_unit_test(parts_of_a_model_of_several_are_named),
        cmocka_unit_test(the_nearest_type_is_named),
        cmocka_unit_test(old_and_new_keys_mean_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
