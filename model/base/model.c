#define _POSIX_C_SOURCE 200809L

#include "zeroledger/model.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "model_config.h"
#include "safetensors.h"
#include "zeroledger/bytes.h"
#include "zeroledger/json.h"
#include "zeroledger/text.h"

static const char *const family_names[ZL_FAMILY_COUNT] = {
    [ZL_FAMILY_BERT] = "bert",
    [ZL_FAMILY_GPT2] = "gpt2",
    [ZL_FAMILY_LLAMA] = "llama",
};

static const char *const activation_names[ZL_ACT_COUNT] = {
    [ZL_ACT_GELU] = "gelu",
    [ZL_ACT_GELU_TANH] = "gelu-tanh",
    [ZL_ACT_SWIGLU] = "swiglu",
};

const char *zl_family_name(zl_family family)
{
    return family_names[family];
}

const char *zl_activation_name(zl_activation activation)
{
    return activation_names[activation];
}

const char *zl_model_preset(size_t index)
{
    return index < zl_preset_count ? zl_presets[index].name : NULL;
}

static zl_status check_positive(const zl_model *model, zl_err *err)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        {"layers", model->layers},     {"width", model->width},         {"heads", model->heads},
        {"kv heads", model->kv_heads}, {"head dim", model->head_dim},   {"ffn width", model->ffn},
        {"vocab", model->vocab},       {"positions", model->positions},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (counts[i].value == 0 || zl_poisoned(counts[i].value)) {
            return zl_fail(err, ZL_E_INPUT, "model %s: %s must be at least 1, got %" PRIu64,
                           model->name, counts[i].name, counts[i].value);
        }
    }
    return ZL_OK;
}

static zl_status check_heads(const zl_model *model, zl_err *err)
{
    if (model->heads % model->kv_heads != 0) {
        return zl_fail(err, ZL_E_INPUT,
                       "model %s: kv heads must divide heads, got %" PRIu64 " and %" PRIu64,
                       model->name, model->kv_heads, model->heads);
    }
    if (model->family == ZL_FAMILY_LLAMA) {
        if (model->head_dim % 2 != 0) {
            return zl_fail(err, ZL_E_INPUT,
                           "model %s: head dim must be even for rotary embedding, got %" PRIu64,
                           model->name, model->head_dim);
        }
        return ZL_OK;
    }
    if (zl_mul(model->heads, model->head_dim) != model->width) {
        return zl_fail(err, ZL_E_INPUT,
                       "model %s: heads x head dim must be the width %" PRIu64 ", got %" PRIu64
                       " x %" PRIu64,
                       model->name, model->width, model->heads, model->head_dim);
    }
    if (model->kv_heads != model->heads) {
        return zl_fail(err, ZL_E_INPUT,
                       "model %s: %s has no grouped-query attention, so kv heads must be %" PRIu64
                       ", got %" PRIu64,
                       model->name, zl_family_name(model->family), model->heads, model->kv_heads);
    }
    return ZL_OK;
}

/* What only some families have. */
static zl_status check_family(const zl_model *model, zl_err *err)
{
    const bool llama = model->family == ZL_FAMILY_LLAMA;
    const bool bert = model->family == ZL_FAMILY_BERT;
    const char *wrong = NULL;
    if ((model->activation == ZL_ACT_SWIGLU) != llama) {
        wrong = llama ? "activation must be swiglu" : "activation must be gelu or gelu-tanh";
    } else if ((model->types > 0) != bert || zl_poisoned(model->types)) {
        wrong = bert ? "types must be at least 1" : "types must be 0";
    } else if (!llama && !(model->qkv_bias && model->out_bias && model->mlp_bias)) {
        wrong = "qkv_bias, out_bias and mlp_bias must be true";
    } else if (model->pooler && !bert) {
        wrong = "pooler must be false";
    } else if (!isfinite(model->norm_eps) || model->norm_eps <= 0.0) {
        wrong = "norm eps must be a positive number";
    } else if (llama && (!isfinite(model->rope_theta) || model->rope_theta <= 0.0)) {
        wrong = "rope theta must be a positive number";
    } else if (!llama && !(model->rope_theta >= 0.0 && model->rope_theta <= 0.0)) {
        wrong = "rope theta must be 0";
    }
    if (wrong != NULL) {
        return zl_fail(err, ZL_E_INPUT, "model %s: %s in family %s", model->name, wrong,
                       zl_family_name(model->family));
    }
    return ZL_OK;
}

zl_status zl_model_check(const zl_model *model, zl_err *err)
{
    if (model->family >= ZL_FAMILY_COUNT || model->activation >= ZL_ACT_COUNT) {
        return zl_fail(err, ZL_E_INPUT, "model %s: family and activation must be set by name",
                       model->name);
    }
    ZL_TRY(check_positive(model, err));
    ZL_TRY(check_heads(model, err));
    return check_family(model, err);
}

/* Start of the last part of the path that ends at `end`. */
static const char *last_part(const char *path, const char *end)
{
    while (end > path && end[-1] != '/') {
        end--;
    }
    return end;
}

static bool part_is(const char *part, const char *end, const char *text)
{
    return (size_t)(end - part) == strlen(text) && memcmp(part, text, strlen(text)) == 0;
}

/* Names that say nothing, in a folder that does. */
static bool is_usual(const char *part, const char *end)
{
    static const char *const usual[] = {"config.json", "model.safetensors",
                                        "model.safetensors.index.json"};
    bool found = false;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        found |= part_is(part, end, usual[i]);
    }
    return found;
}

/* The label of a file: its folder if its name is a usual one, else its name without extensions. */
static void label(const char *path, char *name, size_t size)
{
    static const char *const extensions[] = {".json", ".index", ".safetensors"};
    const char *end = path + strlen(path);
    const char *part = last_part(path, end);
    if (is_usual(part, end)) {
        const char *own = part;
        for (end = part; end > path && end[-1] == '/'; end--) {
        }
        part = last_part(path, end);
        if (part_is(part, end, "") || part_is(part, end, ".") || part_is(part, end, "..")) {
            part = own;
            end = own + strcspn(own, ".");
        }
    }
    for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        const ptrdiff_t length = (ptrdiff_t)strlen(extensions[i]);
        if (end - part > length && part_is(end - length, end, extensions[i])) {
            end -= length;
        }
    }
    size_t n = 0;
    for (; part < end && n + 1 < size; part++) {
        name[n++] = *part >= 0x20 && *part < 0x7f ? *part : '?';
    }
    name[n] = '\0';
}

/* Files that lie beside a config.json and are taken for one. */
static zl_status refuse_other(const char *path, zl_json file, zl_err *err)
{
    static const struct {
        const char *key;
        const char *what;
    } others[] = {
        {"peft_type", "the configuration of an adapter; give it to --lora, and --model the "
                      "config.json of the model it was made for"},
        {"weight_map", "the index of PyTorch's own weights, which says no shapes; give the "
                       "config.json, or weights in safetensors"},
        {"zero_optimization", "a ds_config.json; give it to --deepspeed-config, and --model the "
                              "config.json of the model"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (zl_json_is_object(file) && zl_json_get(file, "model_type").node == NULL &&
            zl_json_get(file, others[i].key).node != NULL) {
            return zl_fail(err, ZL_E_INPUT, "%.200s is %s", path, others[i].what);
        }
    }
    return ZL_OK;
}

static zl_status open_file(const char *path, zl_model_source *out, zl_err *err)
{
    label(path, out->name, sizeof out->name);
    snprintf(out->path, sizeof out->path, "%s", path);
    if (zl_safetensors_named(path)) {
        return zl_safetensors_load(path, &out->doc, err);
    }
    ZL_TRY(zl_json_load(path, &out->doc, err));
    const zl_status status = refuse_other(path, zl_json_root(out->doc), err);
    if (status != ZL_OK) {
        zl_json_free(out->doc);
        out->doc = NULL;
    }
    return status;
}

static zl_status unknown_model(const char *name, zl_err *err)
{
    const char *names[64];
    size_t count = 0;
    for (; count < 64 && zl_model_preset(count) != NULL; count++) {
        names[count] = zl_model_preset(count);
    }
    /* "meta-llama/Llama-3-8B" is what hubs call it; nothing is looked up there. */
    const char *slash = strrchr(name, '/');
    const char *near = zl_nearest(slash != NULL ? slash + 1 : name, names, count);
    char remedy[96] = "name a preset, a config.json or its folder";
    if (near != NULL) {
        snprintf(remedy, sizeof remedy, "did you mean '%.64s'?", near);
    }
    return slash != NULL
               ? zl_fail(err, ZL_E_INPUT,
                         "cannot read %.80s: no such file, and nothing is downloaded; %s", name,
                         remedy)
               : zl_fail(err, ZL_E_USAGE, "unknown model '%.80s', neither a preset nor a file; %s",
                         name, remedy);
}

static zl_status open_preset(const zl_preset *preset, zl_model_source *out, zl_err *err)
{
    snprintf(out->name, sizeof out->name, "%s", preset->name);
    out->path[0] = '\0';
    return zl_json_parse(preset->name, preset->config, strlen(preset->config), &out->doc, err);
}

/* config.json decides; without one the shapes of the weights are better than nothing. */
static zl_status open_folder(const char *folder, zl_model_source *out, zl_err *err)
{
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors",
                                        "config.json"};
    char path[PATH_MAX];
    struct stat st;
    for (size_t i = sizeof names / sizeof names[0]; i-- > 0;) {
        const int used = snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (used < 0 || (size_t)used >= sizeof path) {
            return zl_fail(err, ZL_E_INPUT, "the path of %.80s... is too long; move it", folder);
        }
        if (stat(path, &st) == 0) {
            return open_file(path, out, err);
        }
    }
    return zl_fail(err, ZL_E_INPUT,
                   "%.200s has neither a config.json nor a model.safetensors; name the file",
                   folder);
}

zl_status zl_model_open(const char *name_or_path, zl_model_source *out, zl_err *err)
{
    for (size_t i = 0; i < zl_preset_count; i++) {
        if (strcmp(zl_presets[i].name, name_or_path) == 0) {
            return open_preset(&zl_presets[i], out, err);
        }
    }
    struct stat st;
    const size_t length = strlen(name_or_path);
    if (stat(name_or_path, &st) != 0) {
        const char *slash = strchr(name_or_path, '/');
        const bool of_a_hub = slash != NULL && slash != name_or_path && name_or_path[0] != '.' &&
                              strchr(slash + 1, '/') == NULL;
        const bool pathlike = (slash != NULL && !of_a_hub) || zl_safetensors_named(name_or_path) ||
                              (length > 5 && strcmp(name_or_path + length - 5, ".json") == 0);
        return pathlike ? open_file(name_or_path, out, err) : unknown_model(name_or_path, err);
    }
    if (!S_ISDIR(st.st_mode)) {
        return open_file(name_or_path, out, err);
    }
    return open_folder(name_or_path, out, err);
}

zl_status zl_model_weights(const char *folder, zl_json_doc **out, zl_err *err)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    char path[PATH_MAX];
    struct stat st;
    *out = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const int used = snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (used > 0 && (size_t)used < sizeof path && stat(path, &st) == 0) {
            return zl_safetensors_load(path, out, err);
        }
    }
    return ZL_OK;
}

zl_status zl_model_load(const char *name_or_path, zl_model *out, zl_err *err)
{
    zl_model_source source = {.doc = NULL};
    ZL_TRY(zl_model_open(name_or_path, &source, err));
    const zl_status status = zl_model_from_config(zl_json_root(source.doc), source.name, out, err);
    zl_json_free(source.doc);
    if (status != ZL_OK && source.path[0] != '\0') {
        zl_fail_at(err, source.path);
    }
    return status;
}
