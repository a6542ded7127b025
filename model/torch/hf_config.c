/* A Hugging Face config.json as a zl_hf_config. The keys and what transformers 5.17 takes where one
 * is absent are those of configuration_bert.py, _gpt2.py, _llama.py and _mixtral.py. */
#include <inttypes.h>
#include <string.h>

#include "zeroledger/bytes.h"
#include "zeroledger/json.h"
#include "zeroledger/torch.h"

enum { ALIASES = 2, KEYS = 4, COUNTS = 11, ACTIVATIONS = 4 };

/* Where a value goes in zl_hf_config. */
typedef struct count_key {
    const char *key;   /* NULL ends a list */
    const char *alias; /* a second name that the library accepts, or NULL */
    size_t offset;
    uint64_t absent; /* 0: it follows from other keys */
} count_key;

typedef struct dropout_key {
    const char *key; /* NULL ends a list */
    size_t offset;
    double absent;
} dropout_key;

typedef struct class_name {
    const char *name; /* NULL ends a list */
    zl_hf_arch arch;
} class_name;

typedef struct dialect {
    const char *type;
    class_name classes[KEYS]; /* the first is taken where "architectures" is absent */
    count_key counts[COUNTS];
    dropout_key dropouts[KEYS];
    const char *activation_key;
    const char *activation; /* where the key is absent */
    const char *activations[ACTIVATIONS];
    bool tied;
    bool relative;   /* another class with Llama's operations */
    bool query_bias; /* q, k and v have a bias, the output has none */
    uint64_t window; /* sliding_window where the key is absent; 0: there is no such key */
    const char *must_be_false[KEYS]; /* or 0, or absent: anything else is not modelled */
} dialect;

#define AT(field) offsetof(zl_hf_config, field)

static const dialect dialects[] = {
    {
        .type = "bert",
        .classes = {{"BertForMaskedLM", ZL_HF_BERT_MLM},
                    {"BertForPreTraining", ZL_HF_BERT_PRETRAINING},
                    {"BertForPreTrainingPreLN", ZL_HF_BERT_PRELN}},
        .counts = {{"vocab_size", NULL, AT(vocab), 30522},
                   {"hidden_size", NULL, AT(hidden), 768},
                   {"num_hidden_layers", NULL, AT(layers), 12},
                   {"num_attention_heads", NULL, AT(heads), 12},
                   {"intermediate_size", NULL, AT(ffn), 3072},
                   {"max_position_embeddings", NULL, AT(positions), 512},
                   {"type_vocab_size", NULL, AT(types), 2}},
        .dropouts = {{"hidden_dropout_prob", AT(hidden_dropout), 0.1},
                     {"hidden_dropout_prob", AT(embedding_dropout), 0.1},
                     {"attention_probs_dropout_prob", AT(attention_dropout), 0.1}},
        .activation_key = "hidden_act",
        .activation = "gelu",
        .activations = {"gelu", "gelu_pytorch_tanh", "gelu_new"},
        .tied = true,
        .must_be_false = {"is_decoder", "add_cross_attention", "chunk_size_feed_forward"},
    },
    {
        .type = "gpt2",
        .classes = {{"GPT2LMHeadModel", ZL_HF_GPT2}},
        .counts = {{"vocab_size", NULL, AT(vocab), 50257},
                   {"n_embd", "hidden_size", AT(hidden), 768},
                   {"n_layer", "num_hidden_layers", AT(layers), 12},
                   {"n_head", "num_attention_heads", AT(heads), 12},
                   {"n_inner", NULL, AT(ffn), 0},
                   {"n_positions", "max_position_embeddings", AT(positions), 1024}},
        .dropouts = {{"resid_pdrop", AT(hidden_dropout), 0.1},
                     {"embd_pdrop", AT(embedding_dropout), 0.1},
                     {"attn_pdrop", AT(attention_dropout), 0.1}},
        .activation_key = "activation_function",
        .activation = "gelu_new",
        .activations = {"gelu_new", "gelu", "gelu_pytorch_tanh"},
        .tied = true,
        .must_be_false = {"add_cross_attention", "scale_attn_by_inverse_layer_idx",
                          "reorder_and_upcast_attn"},
    },
    {
        .type = "llama",
        .classes = {{"LlamaForCausalLM", ZL_HF_LLAMA}},
        .counts = {{"vocab_size", NULL, AT(vocab), 32000},
                   {"hidden_size", NULL, AT(hidden), 4096},
                   {"num_hidden_layers", NULL, AT(layers), 32},
                   {"num_attention_heads", NULL, AT(heads), 32},
                   {"num_key_value_heads", NULL, AT(kv_heads), 0},
                   {"head_dim", NULL, AT(head_dim), 0},
                   {"intermediate_size", NULL, AT(ffn), 11008},
                   {"max_position_embeddings", NULL, AT(positions), 2048}},
        .dropouts = {{"attention_dropout", AT(attention_dropout), 0}},
        .activation_key = "hidden_act",
        .activation = "silu",
        .activations = {"silu"},
    },
    {
        .type = "mistral",
        .classes = {{"MistralForCausalLM", ZL_HF_LLAMA}},
        .counts = {{"vocab_size", NULL, AT(vocab), 32000},
                   {"hidden_size", NULL, AT(hidden), 4096},
                   {"num_hidden_layers", NULL, AT(layers), 32},
                   {"num_attention_heads", NULL, AT(heads), 32},
                   {"num_key_value_heads", NULL, AT(kv_heads), 8},
                   {"head_dim", NULL, AT(head_dim), 0},
                   {"intermediate_size", NULL, AT(ffn), 14336},
                   {"max_position_embeddings", NULL, AT(positions), 131072}},
        .dropouts = {{"attention_dropout", AT(attention_dropout), 0}},
        .activation_key = "hidden_act",
        .activation = "silu",
        .activations = {"silu"},
        .relative = true,
        .window = 4096,
    },
    {
        .type = "qwen2",
        .classes = {{"Qwen2ForCausalLM", ZL_HF_LLAMA}},
        .counts = {{"vocab_size", NULL, AT(vocab), 151936},
                   {"hidden_size", NULL, AT(hidden), 4096},
                   {"num_hidden_layers", NULL, AT(layers), 32},
                   {"num_attention_heads", NULL, AT(heads), 32},
                   {"num_key_value_heads", NULL, AT(kv_heads), 32},
                   {"head_dim", NULL, AT(head_dim), 0},
                   {"intermediate_size", NULL, AT(ffn), 22016},
                   {"max_position_embeddings", NULL, AT(positions), 32768}},
        .dropouts = {{"attention_dropout", AT(attention_dropout), 0}},
        .activation_key = "hidden_act",
        .activation = "silu",
        .activations = {"silu"},
        .must_be_false = {"use_sliding_window"},
        .relative = true,
        .query_bias = true,
    },
    {
        .type = "mixtral",
        .classes = {{"MixtralForCausalLM", ZL_HF_MIXTRAL}},
        .counts = {{"vocab_size", NULL, AT(vocab), 32000},
                   {"hidden_size", NULL, AT(hidden), 4096},
                   {"num_hidden_layers", NULL, AT(layers), 32},
                   {"num_attention_heads", NULL, AT(heads), 32},
                   {"num_key_value_heads", NULL, AT(kv_heads), 8},
                   {"head_dim", NULL, AT(head_dim), 0},
                   {"intermediate_size", NULL, AT(ffn), 14336},
                   {"max_position_embeddings", NULL, AT(positions), 131072},
                   {"num_local_experts", NULL, AT(experts), 8},
                   {"num_experts_per_tok", NULL, AT(experts_per_token), 2}},
        .dropouts = {{"attention_dropout", AT(attention_dropout), 0}},
        .activation_key = "hidden_act",
        .activation = "silu",
        .activations = {"silu"},
        .must_be_false = {"sliding_window", "router_jitter_noise", "output_router_logits"},
    },
};

static const struct {
    const char *name;
    zl_hf_activation activation;
} activations[] = {
    {"gelu", ZL_HF_GELU},
    {"gelu_pytorch_tanh", ZL_HF_GELU}, /* the same operation with another constant */
    {"gelu_new", ZL_HF_GELU_NEW},
    {"silu", ZL_HF_SILU},
};

static uint64_t *count_of(zl_hf_config *config, const count_key *key)
{
    return (uint64_t *)(void *)((char *)config + key->offset);
}

static zl_status find_dialect(zl_json config, const dialect **out, zl_err *err)
{
    const char *type = NULL;
    ZL_TRY(zl_json_string(zl_json_get(config, "model_type"), &type, err));
    for (size_t i = 0; i < sizeof dialects / sizeof dialects[0]; i++) {
        if (strcmp(dialects[i].type, type) == 0) {
            *out = &dialects[i];
            return ZL_OK;
        }
    }
    return zl_fail(
        err, ZL_E_UNMODELLED,
        "model_type '%.60s' is not modelled; modelled: bert, gpt2, llama, mistral, mixtral, "
        "qwen2",
        type);
}

static zl_status get_class(zl_json config, const dialect *d, zl_hf_arch *out, zl_err *err)
{
    const zl_json list = zl_json_get(config, "architectures");
    const char *name = d->classes[0].name;
    if (zl_json_size(list) > 0) {
        ZL_TRY(zl_json_string(zl_json_item(list, 0), &name, err));
    }
    for (const class_name *c = d->classes; c->name != NULL; c++) {
        if (strcmp(c->name, name) == 0) {
            *out = c->arch;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_UNMODELLED,
                   "architecture '%.60s' is not modelled; modelled for %s: %s", name, d->type,
                   d->classes[0].name);
}

static zl_status get_count(zl_json config, const count_key *key, zl_hf_config *out, zl_err *err)
{
    zl_json value = zl_json_get(config, key->key);
    if (value.node == NULL && key->alias != NULL) {
        value = zl_json_get(config, key->alias);
    }
    uint64_t count = key->absent;
    if (value.node != NULL) {
        ZL_TRY(zl_json_u64(value, &count, err));
        if (count == 0) {
            return zl_fail(err, ZL_E_INPUT, "%s must be at least 1, got 0", value.path);
        }
    }
    *count_of(out, key) = count;
    return ZL_OK;
}

static zl_status get_counts(zl_json config, const dialect *d, zl_hf_config *out, zl_err *err)
{
    for (const count_key *key = d->counts; key < d->counts + COUNTS && key->key != NULL; key++) {
        ZL_TRY(get_count(config, key, out, err));
    }
    if (out->ffn == 0) {
        out->ffn = zl_mul(4, out->hidden);
    }
    if (out->kv_heads == 0) {
        out->kv_heads = out->heads;
    }
    if (out->head_dim == 0) {
        out->head_dim = zl_exact_div(out->hidden, out->heads);
    }
    if (zl_poisoned(out->head_dim)) {
        return zl_fail(err, ZL_E_INPUT,
                       "the number of attention heads must divide the hidden size, got %" PRIu64
                       " and %" PRIu64,
                       out->heads, out->hidden);
    }
    if (out->kv_heads > out->heads || out->heads % out->kv_heads != 0) {
        return zl_fail(err, ZL_E_INPUT,
                       "num_key_value_heads must divide num_attention_heads, got %" PRIu64
                       " and %" PRIu64,
                       out->kv_heads, out->heads);
    }
    if (out->experts_per_token > out->experts) {
        return zl_fail(err, ZL_E_INPUT,
                       "num_experts_per_tok must be at most num_local_experts, got %" PRIu64
                       " of %" PRIu64,
                       out->experts_per_token, out->experts);
    }
    return ZL_OK;
}

static zl_status get_dropouts(zl_json config, const dialect *d, zl_hf_config *out, zl_err *err)
{
    for (const dropout_key *key = d->dropouts; key < d->dropouts + KEYS && key->key != NULL;
         key++) {
        const zl_json value = zl_json_get(config, key->key);
        double probability = key->absent;
        if (value.node != NULL) {
            ZL_TRY(zl_json_real(value, &probability, err));
        }
        if (!(probability >= 0 && probability < 1)) {
            return zl_fail(err, ZL_E_INPUT, "%s must be a probability below 1", value.path);
        }
        memcpy((char *)out + key->offset, &probability, sizeof probability);
    }
    return ZL_OK;
}

static zl_status get_activation(zl_json config, const dialect *d, zl_hf_activation *out,
                                zl_err *err)
{
    const zl_json value = zl_json_get(config, d->activation_key);
    const char *name = d->activation;
    if (value.node != NULL) {
        ZL_TRY(zl_json_string(value, &name, err));
    }
    for (size_t i = 0; i < ACTIVATIONS && d->activations[i] != NULL; i++) {
        for (size_t a = 0; a < sizeof activations / sizeof activations[0]; a++) {
            if (strcmp(d->activations[i], name) == 0 && strcmp(activations[a].name, name) == 0) {
                *out = activations[a].activation;
                return ZL_OK;
            }
        }
    }
    return zl_fail(err, ZL_E_UNMODELLED, "%s '%.60s' is not modelled for %s", d->activation_key,
                   name, d->type);
}

/* Leaves *out alone if the key is absent or null. */
static zl_status get_flag(zl_json config, const char *key, bool *out, zl_err *err)
{
    const zl_json value = zl_json_get(config, key);
    return value.node != NULL ? zl_json_bool(value, out, err) : ZL_OK;
}

/* sliding_window: null says that there is none. zl_json_get does not tell null from absent. */
static zl_status get_window(zl_json config, const dialect *d, uint64_t *out, zl_err *err)
{
    const zl_json value = zl_json_get(config, "sliding_window");
    bool named = false;
    const char *key = NULL;
    for (size_t i = 0; d->window != 0 && (key = zl_json_key(config, i)) != NULL; i++) {
        named |= strcmp(key, "sliding_window") == 0;
    }
    *out = named ? 0 : d->window;
    return d->window != 0 && value.node != NULL ? zl_json_u64(value, out, err) : ZL_OK;
}

static zl_status refuse(zl_json config, const char *key, zl_err *err)
{
    const zl_json value = zl_json_get(config, key);
    bool flag = false;
    double number = 0;
    if (zl_json_is_bool(value)) {
        ZL_TRY(zl_json_bool(value, &flag, err));
    } else if (zl_json_is_number(value)) {
        ZL_TRY(zl_json_real(value, &number, err));
    } else if (value.node != NULL) {
        return zl_fail(err, ZL_E_INPUT, "%s must be false, a number or null", value.path);
    }
    return flag || number != 0
               ? zl_fail(err, ZL_E_UNMODELLED, "%s is not modelled; only false or absent is", key)
               : ZL_OK;
}

static zl_status refuse_outside(zl_json config, const dialect *d, zl_err *err)
{
    if (zl_json_get(config, "quantization_config").node != NULL) {
        return zl_fail(err, ZL_E_UNMODELLED, "quantization_config is not modelled");
    }
    const zl_json positions = zl_json_get(config, "position_embedding_type");
    if (positions.node != NULL) {
        const char *name = NULL;
        ZL_TRY(zl_json_string(positions, &name, err));
        if (strcmp(name, "absolute") != 0) {
            return zl_fail(err, ZL_E_UNMODELLED, "position_embedding_type '%.60s' is not modelled",
                           name);
        }
    }
    for (size_t i = 0; i < KEYS && d->must_be_false[i] != NULL; i++) {
        ZL_TRY(refuse(config, d->must_be_false[i], err));
    }
    return ZL_OK;
}

zl_status zl_hf_config_read(zl_json config, zl_hf_config *out, zl_err *err)
{
    const dialect *d = &dialects[0];
    if (!zl_json_is_object(config)) {
        return zl_fail(err, ZL_E_INPUT, "%s must be the object of a config.json",
                       config.path[0] == '\0' ? "the top level" : config.path);
    }
    ZL_TRY(find_dialect(config, &d, err));
    zl_hf_config read = {.tied = d->tied,
                         .relative = d->relative,
                         .attention_bias = d->query_bias,
                         .plain_output = d->query_bias};
    ZL_TRY(get_class(config, d, &read.arch, err));
    ZL_TRY(refuse_outside(config, d, err));
    ZL_TRY(get_counts(config, d, &read, err));
    ZL_TRY(get_dropouts(config, d, &read, err));
    ZL_TRY(get_activation(config, d, &read.activation, err));
    ZL_TRY(get_flag(config, "tie_word_embeddings", &read.tied, err));
    ZL_TRY(get_window(config, d, &read.window, err));
    if (read.arch == ZL_HF_LLAMA && !d->relative) {
        ZL_TRY(get_flag(config, "attention_bias", &read.attention_bias, err));
        ZL_TRY(get_flag(config, "mlp_bias", &read.mlp_bias, err));
    }
    *out = read;
    return ZL_OK;
}
