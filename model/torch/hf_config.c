/* A Hugging Face config.json as a zl_hf_config. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/run_fields.h"
#include "base/text_internal.h"
#include "torch/hf_dialects.h"
#include "torch/hf_quantization.h"
#include "torch/hf_shapes.h"
#include "zeroledger/bytes.h"
#include "zeroledger/json.h"
#include "zeroledger/text.h"
#include "zeroledger/torch.h"

static const struct {
    const char *name;
    zl_hf_activation activation;
} activations[] = {
    {"gelu", ZL_HF_GELU},
    {"gelu_pytorch_tanh", ZL_HF_GELU}, /* the same operation with another constant */
    {"gelu_new", ZL_HF_GELU_NEW},
    {"silu", ZL_HF_SILU},
};

static uint64_t *count_of(zl_hf_config *config, const zt_count_key *key)
{
    return (uint64_t *)(void *)((char *)config + key->offset);
}

/* ---- which model ---- */

static const zt_dialect *dialect_of(const char *type)
{
    const zt_dialect *d = zt_dialects;
    while (d->type != NULL && strcmp(d->type, type) != 0) {
        d++;
    }
    return d->type != NULL ? d : NULL;
}

bool zl_hf_operations_modelled(const zl_hf_config *model)
{
    return model->arch < ZL_HF_MODELLED_COUNT && model->arch != ZL_HF_BERT_PRELN;
}

bool zl_hf_type_at(size_t index, zl_hf_type *out)
{
    for (const zt_dialect *d = zt_dialects; d->type != NULL; d++) {
        if (index-- == 0) {
            *out = (zl_hf_type){.name = d->type,
                                .architecture = d->classes[0].name,
                                .operations = d->activation_key != NULL};
            return true;
        }
    }
    return false;
}

enum { TYPES_MAX = 64 };

static zl_status unknown_type(const char *type, const char *parts, zl_err *err)
{
    const char *names[TYPES_MAX];
    char list[320];
    size_t count = 0;
    for (const zt_dialect *d = zt_dialects; d->type != NULL && count < TYPES_MAX; d++) {
        names[count++] = d->type;
    }
    const char *near = zl_nearest(type, names, count);
    zl_join(names, count, list, sizeof list);
    if (parts[0] != '\0') {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "%.40s is more than text: %s is not modelled; to ask for the text, save its "
                       "keys as a config.json of their own, with a model_type%s%s; modelled: %s",
                       type, parts, near != NULL ? " such as " : "", near != NULL ? near : "",
                       list);
    }
    return zl_fail(
        err, ZL_E_UNMODELLED,
        "model_type '%.60s' is not modelled%s%s; modelled: %s; a model.safetensors of it "
        "has its shapes",
        type, near != NULL ? ", the nearest is " : "", near != NULL ? near : "", list);
}

/* "vision_config (clip_vision_model)" */
static void add_part(char *text, size_t size, const char *key, zl_json part)
{
    const size_t used = strlen(text);
    const char *type = "";
    const bool named = zl_json_is_string(zl_json_get(part, "model_type")) &&
                       zl_json_string(zl_json_get(part, "model_type"), &type, NULL) == ZL_OK;
    snprintf(text + used, size - used, "%s%.40s%s%.40s%s", used > 0 ? ", " : "", key,
             named ? " (" : "", type, named ? ")" : "");
}

static bool is_part(const char *key, zl_json value)
{
    static const char end[] = "_config";
    const size_t length = strlen(key);
    return zl_json_is_object(value) && length > strlen(end) &&
           strcmp(key + length - strlen(end), end) == 0 && strcmp(key, "quantization_config") != 0;
}

/* Where a model of text and something else keeps that of text; NULL: nowhere. */
static const char *text_key_of(zl_json config)
{
    static const char *const keys[] = {"text_config", "llm_config", "language_config"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (zl_json_is_object(zl_json_get(config, keys[i]))) {
            return keys[i];
        }
    }
    return NULL;
}

/* Models of text and something else have a configuration for each. */
static zl_status refuse_parts(zl_json config, const char *type, zl_err *err)
{
    const char *const text_key = text_key_of(config);
    const char *text_type = "";
    const char *key = NULL;
    zl_json value = config;
    char others[160] = "";
    if (text_key == NULL) {
        return ZL_OK;
    }
    const zl_json text = zl_json_get(config, text_key);
    if (zl_json_is_string(zl_json_get(text, "model_type"))) {
        ZL_TRY(zl_json_string(zl_json_get(text, "model_type"), &text_type, err));
    }
    for (size_t i = 0; zl_json_each_member(config, &i, &key, &value);) {
        if (is_part(key, value) && strcmp(key, text_key) != 0) {
            add_part(others, sizeof others, key, value);
        }
    }
    const zt_dialect *d = dialect_of(text_type);
    const char *far = d == NULL                   ? "nothing"
                      : d->activation_key != NULL ? "everything"
                                                  : "the tensors";
    return zl_fail(err, ZL_E_UNMODELLED,
                   "%.40s is more than text: %s is not modelled, of %s (%.40s) %s is; to ask for "
                   "that, save what is in %s as a config.json of its own",
                   type, others[0] != '\0' ? others : "the rest", text_key,
                   text_type[0] != '\0' ? text_type : "without a model_type", far, text_key);
}

/* Of a model whose keys of text stand beside those parts, as those of qwen2_vl. */
static void find_senses(zl_json config, char *text, size_t size)
{
    static const char *const senses[] = {"vision", "visual",    "image", "video",
                                         "audio",  "perceiver", "speech"};
    const char *key = NULL;
    zl_json value = config;
    text[0] = '\0';
    for (size_t i = 0; zl_json_each_member(config, &i, &key, &value);) {
        for (size_t s = 0; is_part(key, value) && s < sizeof senses / sizeof senses[0]; s++) {
            if (strncmp(key, senses[s], strlen(senses[s])) == 0) {
                add_part(text, size, key, value);
                break;
            }
        }
    }
}

static zl_status find_dialect(zl_json config, const zt_dialect **out, zl_err *err)
{
    const char *type = NULL;
    ZL_TRY(zl_json_string(zl_json_get(config, "model_type"), &type, err));
    ZL_TRY(refuse_parts(config, type, err));
    const zt_dialect *d = dialect_of(type);
    if (d == NULL) {
        char parts[160];
        find_senses(config, parts, sizeof parts);
        return unknown_type(type, parts, err);
    }
    *out = d;
    return ZL_OK;
}

static zl_status get_class(zl_json config, const zt_dialect *d, zl_hf_arch *out, zl_err *err)
{
    const zl_json list = zl_json_get(config, "architectures");
    const char *name = d->classes[0].name;
    if (zl_json_size(list) > 0) {
        ZL_TRY(zl_json_string(zl_json_item(list, 0), &name, err));
    }
    for (const zt_class_name *c = d->classes; c->name != NULL; c++) {
        if (strcmp(c->name, name) == 0) {
            *out = c->arch;
            return ZL_OK;
        }
    }
    const char *names[ZT_HF_CLASSES];
    char known[160];
    size_t count = 0;
    for (const zt_class_name *c = d->classes; c->name != NULL; c++) {
        names[count++] = c->name;
    }
    zl_join(names, count, known, sizeof known);
    return zl_fail(err, ZL_E_UNMODELLED,
                   "architecture '%.60s' is not modelled; modelled for %s: %s", name, d->type,
                   known);
}

/* ---- keys ---- */

static zl_status get_count(zl_json config, const zt_count_key *key, zl_hf_config *out, zl_err *err)
{
    zl_json value = zl_json_get(config, key->key);
    if (value.node == NULL && key->alias != NULL) {
        value = zl_json_get(config, key->alias);
    }
    uint64_t count = key->absent;
    if (value.node != NULL) {
        ZL_TRY(zl_json_u64(value, &count, err));
        if (count == 0 && key->absent != 0) {
            return zl_fail(err, ZL_E_INPUT, "%s must be at least 1, got 0", value.path);
        }
    }
    *count_of(out, key) = count;
    return ZL_OK;
}

static zl_status get_counts(zl_json config, const zt_dialect *d, zl_hf_config *out, zl_err *err)
{
    for (const zt_count_key *key = d->counts; key < d->counts + ZT_HF_COUNTS && key->key != NULL;
         key++) {
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
    if (out->sparse_step == 0) {
        out->sparse_step = 1;
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

static zl_status get_dropouts(zl_json config, const zt_dialect *d, zl_hf_config *out, zl_err *err)
{
    for (const zt_dropout_key *key = d->dropouts;
         key < d->dropouts + ZT_HF_DROPOUTS && key->key != NULL; key++) {
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

static zl_status get_activation(zl_json config, const zt_dialect *d, zl_hf_activation *out,
                                zl_err *err)
{
    const zl_json value = zl_json_get(config, d->activation_key);
    const char *name = d->activation;
    if (d->activation_key == NULL) {
        return ZL_OK;
    }
    if (value.node != NULL) {
        ZL_TRY(zl_json_string(value, &name, err));
    }
    for (size_t i = 0; i < ZT_HF_ACTIVATIONS && d->activations[i] != NULL; i++) {
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
static zl_status get_window(zl_json config, const zt_dialect *d, uint64_t *out, zl_err *err)
{
    const zl_json value = zl_json_get(config, "sliding_window");
    bool named = false;
    const char *key = NULL;
    for (size_t i = 0; d->window != 0 && (key = zl_json_key(config, i)) != NULL; i++) {
        named |= strcmp(key, "sliding_window") == 0;
    }
    *out = named || d->window == ZT_HF_NO_WINDOW ? 0 : d->window;
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

static zl_status refuse_outside(zl_json config, const zt_dialect *d, zl_err *err)
{
    if (zl_json_size(zl_json_get(config, "mlp_only_layers")) > 0) {
        return zl_fail(err, ZL_E_UNMODELLED, "mlp_only_layers are not modelled; an empty list is");
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
    for (size_t i = 0; i < ZT_HF_REFUSED && d->must_be_false[i] != NULL; i++) {
        ZL_TRY(refuse(config, d->must_be_false[i], err));
    }
    return ZL_OK;
}

static zl_status get_flags(zl_json config, const zt_dialect *d, zl_hf_config *out, zl_err *err)
{
    for (const zt_flag_key *key = d->flags; key < d->flags + ZT_HF_FLAGS && key->key != NULL;
         key++) {
        bool *flag = (bool *)(void *)((char *)out + key->offset);
        *flag = key->absent;
        ZL_TRY(get_flag(config, key->key, flag, err));
    }
    return ZL_OK;
}

/* partial_rotary_factor, in rope_parameters since transformers 5. */
static zl_status get_turning(zl_json config, const zt_dialect *d, zl_hf_config *out, zl_err *err)
{
    static const char usual[] = "partial_rotary_factor";
    const zl_json in_rope = zl_json_get(zl_json_get(config, "rope_parameters"), usual);
    double share = d->turning_absent;
    if (d->turning == NULL) {
        return ZL_OK;
    }
    zl_json value = in_rope.node != NULL ? in_rope : zl_json_get(config, usual);
    value = value.node != NULL ? value : zl_json_get(config, d->turning);
    if (value.node != NULL) {
        ZL_TRY(zl_json_real(value, &share, err));
    }
    if (!(share > 0 && share <= 1)) {
        return zl_fail(err, ZL_E_INPUT, "%s must be above 0 and at most 1", value.path);
    }
    out->rotary = (uint64_t)((double)out->head_dim * share); /* int() in Python */
    return ZL_OK;
}

/* What several keys decide together. */
static zl_status get_special(zl_json config, zl_hf_config *out, zl_err *err)
{
    if (out->arch == ZL_HF_OPT) {
        bool removed = false;
        ZL_TRY(get_flag(config, "_remove_final_layer_norm", &removed, err));
        out->final_norm = out->final_norm && !removed;
    }
    if (out->arch == ZL_HF_FALCON) {
        uint64_t norms = out->grouped_queries ? 2 : 1;
        const zl_json value = zl_json_get(config, "num_ln_in_parallel_attn");
        if (value.node != NULL) {
            ZL_TRY(zl_json_u64(value, &norms, err));
        }
        out->two_norms = norms == 2;
    }
    return ZL_OK;
}

/* "dtype" since transformers 5, "torch_dtype" before; an object there names one for each part. */
static zl_status get_stored(zl_json config, zl_hf_config *out, zl_err *err)
{
    zl_json value = zl_json_get(config, "dtype");
    value = value.node != NULL ? value : zl_json_get(config, "torch_dtype");
    const char *name = NULL;
    if (!zl_json_is_string(value)) {
        return ZL_OK;
    }
    ZL_TRY(zl_json_string(value, &name, err));
    const char *dot = strrchr(name, '.'); /* "torch.bfloat16" */
    snprintf(out->stored, sizeof out->stored, "%s", dot != NULL ? dot + 1 : name);
    return ZL_OK;
}

/* The tensors of a safetensors file. */
static zl_status read_tensors(zl_json tensors, zl_hf_config *out, zl_err *err)
{
    zl_hf_config read = {.arch = ZL_HF_TENSORS};
    zl_tensor_list list = {0};
    ZL_TRY(zl_config_compact(tensors, "the tensors", read.tensors, sizeof read.tensors, err));
    ZL_TRY(zt_shapes_of(&read, &list, err));
    zl_tensor_list_clear(&list);
    *out = read;
    return ZL_OK;
}

zl_status zl_hf_config_read(zl_json config, zl_hf_config *out, zl_err *err)
{
    const zt_dialect *d = zt_dialects;
    if (!zl_json_is_object(config)) {
        return zl_fail(err, ZL_E_INPUT, "%s must be the object of a config.json",
                       config.path[0] == '\0' ? "the top level" : config.path);
    }
    const zl_json tensors = zl_json_get(config, "tensors");
    if (zl_json_is_object(tensors)) {
        return read_tensors(tensors, out, err);
    }
    ZL_TRY(find_dialect(config, &d, err));
    zl_hf_config read = {.tied = d->tied,
                         .relative = d->relative ? d->classes[0].name : NULL,
                         .attention_bias = d->query_bias,
                         .plain_output = d->query_bias,
                         .query_norm = d->query_norm,
                         .fused_projections = d->fused_projections};
    ZL_TRY(get_class(config, d, &read.arch, err));
    ZL_TRY(refuse_outside(config, d, err));
    ZL_TRY(get_counts(config, d, &read, err));
    ZL_TRY(get_flags(config, d, &read, err));
    ZL_TRY(get_dropouts(config, d, &read, err));
    ZL_TRY(get_activation(config, d, &read.activation, err));
    ZL_TRY(get_flag(config, "tie_word_embeddings", &read.tied, err));
    ZL_TRY(get_window(config, d, &read.window, err));
    ZL_TRY(get_turning(config, d, &read, err));
    ZL_TRY(get_special(config, &read, err));
    ZL_TRY(get_stored(config, &read, err));
    ZL_TRY(zt_quantization_read(config, &read, err));
    *out = read;
    return ZL_OK;
}
