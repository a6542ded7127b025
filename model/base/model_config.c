#include "model_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text_internal.h"
#include "zeroledger/bytes.h"
#include "zeroledger/text.h"

enum { ALIASES = 2, ARCHITECTURES = 4 };

/* A count and the value that the transformers library takes where the key is absent; 0: it depends
 * on other keys, and the reader fills it in. */
typedef struct count_key {
    const char *names[ALIASES]; /* the key, and a second name for it or NULL */
    uint64_t absent;
} count_key;

/* One model_type: its family, its keys and their defaults (transformers 4.5x, configuration_*.py).
 */
typedef struct dialect {
    const char *type;
    count_key layers;
    count_key width;
    count_key heads;
    count_key kv_heads;
    count_key ffn;
    count_key vocab;
    count_key positions;
    const char *activation_key;
    const char *activation; /* where the key is absent */
    const char *eps_key;
    double eps;
    zl_family family;
    bool tied;
    bool fixed_qkv_bias; /* q, k and v have a bias whatever the file says */
    bool bias_keys;      /* attention_bias and mlp_bias decide */
    bool other_head_dim; /* head_dim may differ from width / heads */
    const char *architectures[ARCHITECTURES];
    const char *must_be_false[ARCHITECTURES]; /* a true value is outside what is modelled */
} dialect;

static const dialect dialects[] = {
    {
        .type = "bert",
        .family = ZL_FAMILY_BERT,
        .layers = {{"num_hidden_layers"}, 12},
        .width = {{"hidden_size"}, 768},
        .heads = {{"num_attention_heads"}, 12},
        .ffn = {{"intermediate_size"}, 3072},
        .vocab = {{"vocab_size"}, 30522},
        .positions = {{"max_position_embeddings"}, 512},
        .activation_key = "hidden_act",
        .activation = "gelu",
        .eps_key = "layer_norm_eps",
        .eps = 1e-12,
        .tied = true,
        .fixed_qkv_bias = true,
        .architectures = {"BertForMaskedLM", "BertForPreTraining", "BertModel"},
        .must_be_false = {"is_decoder", "add_cross_attention"},
    },
    {
        .type = "gpt2",
        .family = ZL_FAMILY_GPT2,
        .layers = {{"n_layer", "num_hidden_layers"}, 12},
        .width = {{"n_embd", "hidden_size"}, 768},
        .heads = {{"n_head", "num_attention_heads"}, 12},
        .ffn = {{"n_inner"}, 0},
        .vocab = {{"vocab_size"}, 50257},
        .positions = {{"n_positions", "max_position_embeddings"}, 1024},
        .activation_key = "activation_function",
        .activation = "gelu_new",
        .eps_key = "layer_norm_epsilon",
        .eps = 1e-5,
        .tied = true,
        .fixed_qkv_bias = true,
        .architectures = {"GPT2LMHeadModel", "GPT2Model"},
        .must_be_false = {"add_cross_attention", "scale_attn_by_inverse_layer_idx",
                          "reorder_and_upcast_attn"},
    },
    {
        .type = "llama",
        .family = ZL_FAMILY_LLAMA,
        .layers = {{"num_hidden_layers"}, 32},
        .width = {{"hidden_size"}, 4096},
        .heads = {{"num_attention_heads"}, 32},
        .kv_heads = {{"num_key_value_heads"}, 0},
        .ffn = {{"intermediate_size"}, 11008},
        .vocab = {{"vocab_size"}, 32000},
        .positions = {{"max_position_embeddings"}, 2048},
        .activation_key = "hidden_act",
        .activation = "silu",
        .eps_key = "rms_norm_eps",
        .eps = 1e-6,
        .bias_keys = true,
        .other_head_dim = true,
        .architectures = {"LlamaForCausalLM", "LlamaModel", "LLaMAForCausalLM"},
    },
    {
        .type = "mistral",
        .family = ZL_FAMILY_LLAMA,
        .layers = {{"num_hidden_layers"}, 32},
        .width = {{"hidden_size"}, 4096},
        .heads = {{"num_attention_heads"}, 32},
        .kv_heads = {{"num_key_value_heads"}, 8},
        .ffn = {{"intermediate_size"}, 14336},
        .vocab = {{"vocab_size"}, 32000},
        .positions = {{"max_position_embeddings"}, 131072},
        .activation_key = "hidden_act",
        .activation = "silu",
        .eps_key = "rms_norm_eps",
        .eps = 1e-6,
        .other_head_dim = true,
        .architectures = {"MistralForCausalLM", "MistralModel"},
    },
    {
        .type = "qwen2",
        .family = ZL_FAMILY_LLAMA,
        .layers = {{"num_hidden_layers"}, 32},
        .width = {{"hidden_size"}, 4096},
        .heads = {{"num_attention_heads"}, 32},
        .kv_heads = {{"num_key_value_heads"}, 32},
        .ffn = {{"intermediate_size"}, 22016},
        .vocab = {{"vocab_size"}, 151936},
        .positions = {{"max_position_embeddings"}, 32768},
        .activation_key = "hidden_act",
        .activation = "silu",
        .eps_key = "rms_norm_eps",
        .eps = 1e-6,
        .fixed_qkv_bias = true,
        .other_head_dim = true,
        .architectures = {"Qwen2ForCausalLM", "Qwen2Model"},
    },
};

static const double default_rope_theta = 10000.0;

static zl_status find_dialect(zl_json config, const dialect **out, zl_err *err)
{
    enum { COUNT = sizeof dialects / sizeof dialects[0] };
    const char *types[COUNT];
    const char *type = NULL;
    char modelled[96];
    for (size_t i = 0; i < COUNT; i++) {
        types[i] = dialects[i].type;
    }
    zl_join(types, COUNT, modelled, sizeof modelled);
    const zl_json value = zl_json_get(config, "model_type");
    if (!zl_json_is_object(config)) {
        return zl_fail(err, ZL_E_INPUT, "the top level must be an object; is it a config.json?");
    }
    if (value.node == NULL) {
        return zl_fail(err, ZL_E_INPUT, "model_type is missing; it must be one of %s", modelled);
    }
    ZL_TRY(zl_json_string(value, &type, err));
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(types[i], type) == 0) {
            *out = &dialects[i];
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_UNMODELLED,
                   "model_type '%.60s' is not modelled for the framework native, which has %s; "
                   "others, such as --framework single, have more: see zl list architectures",
                   type, modelled);
}

/* Leaves *out alone if the key is absent or null. */
static zl_status get_flag(zl_json config, const char *key, bool *out, zl_err *err)
{
    const zl_json value = zl_json_get(config, key);
    return value.node != NULL ? zl_json_bool(value, out, err) : ZL_OK;
}

static zl_status get_count(zl_json config, const count_key *key, uint64_t *out, zl_err *err)
{
    uint64_t count = key->absent;
    for (size_t i = ALIASES; i-- > 0;) {
        const zl_json value =
            key->names[i] != NULL ? zl_json_get(config, key->names[i]) : (zl_json){0};
        if (value.node != NULL) {
            ZL_TRY(zl_json_u64(value, &count, err));
            if (count == 0) {
                return zl_fail(err, ZL_E_INPUT, "%s must be at least 1, got 0", key->names[i]);
            }
        }
    }
    *out = count;
    return ZL_OK;
}

static zl_status refuse_true(zl_json config, const char *key, zl_err *err)
{
    bool set = false;
    ZL_TRY(get_flag(config, key, &set, err));
    return set ? zl_fail(err, ZL_E_UNMODELLED, "%s is not modelled; only false is", key) : ZL_OK;
}

static zl_status check_outside(zl_json config, const dialect *d, zl_err *err)
{
    const zl_json quantization = zl_json_get(config, "quantization_config");
    if (quantization.node != NULL) {
        const zl_json method = zl_json_get(quantization, "quant_method");
        const char *name = "of an unnamed method";
        if (zl_json_is_string(method)) {
            ZL_TRY(zl_json_string(method, &name, err));
        }
        return zl_fail(
            err, ZL_E_UNMODELLED,
            "quantization_config (%.60s) is not modelled; take the config of the unquantized "
            "model",
            name);
    }
    ZL_TRY(refuse_true(config, "is_encoder_decoder", err));
    for (size_t i = 0; i < ARCHITECTURES && d->must_be_false[i] != NULL; i++) {
        ZL_TRY(refuse_true(config, d->must_be_false[i], err));
    }
    return ZL_OK;
}

static zl_status get_architecture(zl_json config, const dialect *d, zl_model *model, zl_err *err)
{
    const zl_json list = zl_json_get(config, "architectures");
    if (list.node != NULL && !zl_json_is_array(list)) {
        return zl_fail(err, ZL_E_INPUT, "architectures must be an array of names");
    }
    if (zl_json_size(list) == 0) {
        return ZL_OK;
    }
    const char *name = NULL;
    ZL_TRY(zl_json_string(zl_json_item(list, 0), &name, err));
    size_t count = 0;
    bool known = false;
    for (; count < ARCHITECTURES && d->architectures[count] != NULL; count++) {
        known = known || strcmp(d->architectures[count], name) == 0;
    }
    if (!known) {
        char modelled[96];
        zl_join(d->architectures, count, modelled, sizeof modelled);
        return zl_fail(err, ZL_E_UNMODELLED,
                       "architecture '%.60s' is not modelled; modelled for %s: %s", name, d->type,
                       modelled);
    }
    model->pooler = strcmp(name, "BertForPreTraining") == 0;
    return ZL_OK;
}

static zl_status get_activation(zl_json config, const dialect *d, zl_activation *out, zl_err *err)
{
    static const struct {
        const char *name;
        zl_activation activation;
    } known[] = {
        {"gelu", ZL_ACT_GELU},
        {"gelu_new", ZL_ACT_GELU_TANH},
        {"gelu_pytorch_tanh", ZL_ACT_GELU_TANH},
        {"silu", ZL_ACT_SWIGLU},
    };
    const zl_json value = zl_json_get(config, d->activation_key);
    const char *name = d->activation;
    const bool gated = d->family == ZL_FAMILY_LLAMA;
    if (value.node != NULL) {
        ZL_TRY(zl_json_string(value, &name, err));
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, name) == 0 && (known[i].activation == ZL_ACT_SWIGLU) == gated) {
            *out = known[i].activation;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_UNMODELLED, "%s '%.60s' is not modelled for %s; modelled: %s",
                   d->activation_key, name, d->type,
                   gated ? "silu" : "gelu, gelu_new, gelu_pytorch_tanh");
}

static zl_status get_shapes(zl_json config, const dialect *d, zl_model *model, zl_err *err)
{
    ZL_TRY(get_count(config, &d->layers, &model->layers, err));
    ZL_TRY(get_count(config, &d->width, &model->width, err));
    ZL_TRY(get_count(config, &d->heads, &model->heads, err));
    ZL_TRY(get_count(config, &d->kv_heads, &model->kv_heads, err));
    ZL_TRY(get_count(config, &d->ffn, &model->ffn, err));
    ZL_TRY(get_count(config, &d->vocab, &model->vocab, err));
    ZL_TRY(get_count(config, &d->positions, &model->positions, err));
    if (model->kv_heads == 0) {
        model->kv_heads = model->heads;
    }
    if (model->ffn == 0) {
        model->ffn = zl_mul(4, model->width);
    }
    if (d->family == ZL_FAMILY_BERT) {
        ZL_TRY(get_count(config, &(count_key){{"type_vocab_size"}, 2}, &model->types, err));
    }
    if (d->other_head_dim) {
        ZL_TRY(get_count(config, &(count_key){{"head_dim"}, 0}, &model->head_dim, err));
    }
    if (model->head_dim == 0) {
        model->head_dim = zl_exact_div(model->width, model->heads);
        if (zl_poisoned(model->head_dim)) {
            return zl_fail(err, ZL_E_INPUT, "%s must divide %s, got %" PRIu64 " and %" PRIu64,
                           d->heads.names[0], d->width.names[0], model->heads, model->width);
        }
    }
    return ZL_OK;
}

/* rope_theta stands at the top level in older files, inside rope_parameters in newer ones; scaled
 * variants change the angles and no shape. */
static zl_status get_rope(zl_json config, zl_model *model, zl_err *err)
{
    static const char *const objects[] = {"rope_parameters", "rope_scaling"};
    zl_json theta = zl_json_get(config, "rope_theta");
    for (size_t i = 0; i < 2 && theta.node == NULL; i++) {
        const zl_json object = zl_json_get(config, objects[i]);
        if (object.node != NULL && !zl_json_is_object(object)) {
            return zl_fail(err, ZL_E_INPUT, "%s must be an object or null", objects[i]);
        }
        theta = zl_json_get(object, "rope_theta");
    }
    model->rope_theta = default_rope_theta;
    return theta.node != NULL ? zl_json_real(theta, &model->rope_theta, err) : ZL_OK;
}

static zl_status get_biases(zl_json config, const dialect *d, zl_model *model, zl_err *err)
{
    if (d->family != ZL_FAMILY_LLAMA) {
        model->qkv_bias = true;
        model->out_bias = true;
        model->mlp_bias = true;
        return ZL_OK;
    }
    model->qkv_bias = d->fixed_qkv_bias;
    if (!d->bias_keys) {
        return ZL_OK;
    }
    ZL_TRY(get_flag(config, "attention_bias", &model->qkv_bias, err));
    model->out_bias = model->qkv_bias;
    return get_flag(config, "mlp_bias", &model->mlp_bias, err);
}

static zl_status get_position_type(zl_json config, zl_err *err)
{
    const zl_json value = zl_json_get(config, "position_embedding_type");
    const char *name = "absolute";
    if (value.node != NULL) {
        ZL_TRY(zl_json_string(value, &name, err));
    }
    return strcmp(name, "absolute") == 0
               ? ZL_OK
               : zl_fail(err, ZL_E_UNMODELLED,
                         "position_embedding_type '%.60s' is not modelled; modelled: absolute",
                         name);
}

zl_status zl_model_from_config(zl_json config, const char *name, zl_model *out, zl_err *err)
{
    const dialect *d = &dialects[0];
    if (zl_json_get(config, "tensors").node != NULL) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "the framework native needs a config.json, safetensors have the shapes of "
                       "the weights only; name another --framework");
    }
    ZL_TRY(find_dialect(config, &d, err));
    zl_model model = {.family = d->family, .tied = d->tied, .norm_eps = d->eps};
    snprintf(model.name, sizeof model.name, "%s", name);
    ZL_TRY(check_outside(config, d, err));
    ZL_TRY(get_architecture(config, d, &model, err));
    ZL_TRY(get_activation(config, d, &model.activation, err));
    ZL_TRY(get_shapes(config, d, &model, err));
    ZL_TRY(get_biases(config, d, &model, err));
    ZL_TRY(get_flag(config, "tie_word_embeddings", &model.tied, err));
    const zl_json eps = zl_json_get(config, d->eps_key);
    if (eps.node != NULL) {
        ZL_TRY(zl_json_real(eps, &model.norm_eps, err));
    }
    if (d->family == ZL_FAMILY_BERT) {
        ZL_TRY(get_position_type(config, err));
    }
    if (d->family == ZL_FAMILY_LLAMA) {
        ZL_TRY(get_rope(config, &model, err));
    }
    ZL_TRY(zl_model_check(&model, err));
    *out = model;
    return ZL_OK;
}
