#include "run_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "run_fields.h"
#include "text_internal.h"
#include "zeroledger/text.h"

static const char run_schema[] = "zeroledger.run/1";

typedef struct model_count {
    const char *key;
    size_t offset; /* of a uint64_t in zl_model */
} model_count;

typedef struct model_flag {
    const char *key;
    size_t offset; /* of a bool in zl_model */
} model_flag;

static const model_count model_counts[] = {
    {"layers", offsetof(zl_model, layers)},     {"width", offsetof(zl_model, width)},
    {"heads", offsetof(zl_model, heads)},       {"kv_heads", offsetof(zl_model, kv_heads)},
    {"head_dim", offsetof(zl_model, head_dim)}, {"ffn", offsetof(zl_model, ffn)},
    {"vocab", offsetof(zl_model, vocab)},       {"positions", offsetof(zl_model, positions)},
    {"types", offsetof(zl_model, types)},
};

static const model_flag model_flags[] = {
    {"tied", offsetof(zl_model, tied)},         {"qkv_bias", offsetof(zl_model, qkv_bias)},
    {"out_bias", offsetof(zl_model, out_bias)}, {"mlp_bias", offsetof(zl_model, mlp_bias)},
    {"pooler", offsetof(zl_model, pooler)},
};

enum {
    MODEL_COUNTS = sizeof model_counts / sizeof model_counts[0],
    MODEL_FLAGS = sizeof model_flags / sizeof model_flags[0],
    KEY_LIMIT = 32
};

static void put_model(zl_json_writer *w, const zl_model *model, bool labelled)
{
    const char *base = (const char *)model;
    zl_json_begin_object(w, "model");
    if (labelled) {
        zl_json_put_string(w, "name", model->name);
    }
    zl_json_put_string(w, "family", zl_family_name(model->family));
    zl_json_put_string(w, "activation", zl_activation_name(model->activation));
    for (size_t i = 0; i < MODEL_COUNTS; i++) {
        uint64_t count;
        memcpy(&count, base + model_counts[i].offset, sizeof count);
        zl_json_put_u64(w, model_counts[i].key, count);
    }
    for (size_t i = 0; i < MODEL_FLAGS; i++) {
        bool flag;
        memcpy(&flag, base + model_flags[i].offset, sizeof flag);
        zl_json_put_bool(w, model_flags[i].key, flag);
    }
    zl_json_put_real(w, "norm_eps", model->norm_eps);
    zl_json_put_real(w, "rope_theta", model->rope_theta);
    zl_json_end(w);
}

/* A text that zl_config_compact made, as a value. */
static void put_config(zl_json_writer *w, const char *key, const char *text)
{
    zl_json_doc *doc = NULL;
    if (text[0] == '\0' || zl_json_parse(key, text, strlen(text), &doc, NULL) != ZL_OK) {
        zl_json_put_null(w, key);
        return;
    }
    zl_json_put(w, key, zl_json_root(doc));
    zl_json_free(doc);
}

static void put_foreign_model(zl_json_writer *w, const zl_run *run, bool labelled)
{
    zl_json_begin_object(w, "model");
    if (labelled) {
        zl_json_put_string(w, "name", run->model.name);
    }
    put_config(w, "hf_config", run->hf_config);
    zl_json_end(w);
}

/* Frameworks take the model's own dropout where the run has none. */
static void put_real(zl_json_writer *w, const zl_field *field, const zl_run *run)
{
    const double real = zl_field_real(field, run);
    if (real < 0) {
        zl_json_put_null(w, field->key);
    } else {
        zl_json_put_real(w, field->key, real);
    }
}

static void put_field(zl_json_writer *w, const zl_field *field, const zl_run *run, bool labelled)
{
    char framework[48];
    switch (field->type) {
    case ZL_FIELD_MODEL:
        if (run->framework == ZL_FRAMEWORK_NATIVE) {
            put_model(w, &run->model, labelled);
        } else {
            put_foreign_model(w, run, labelled);
        }
        break;
    case ZL_FIELD_FRAMEWORK:
        zl_run_framework(run, framework, sizeof framework);
        zl_json_put_string(w, field->key, framework);
        break;
    case ZL_FIELD_BYTES:
    case ZL_FIELD_COUNT:
        zl_json_put_u64(w, field->key, zl_field_count(field, run));
        break;
    case ZL_FIELD_REAL:
        put_real(w, field, run);
        break;
    case ZL_FIELD_TEXT:
        zl_json_put_string(w, field->key, zl_field_text(field, run));
        break;
    case ZL_FIELD_CONFIG:
        put_config(w, field->key, zl_field_text(field, run));
        break;
    case ZL_FIELD_NAME:
        zl_json_put_string(w, field->key, field->names[zl_field_value(field, run)]);
        break;
    case ZL_FIELD_CLEAR:
    case ZL_FIELD_SET:
        zl_json_put_bool(w, field->key, zl_field_flag(field, run));
        break;
    case ZL_FIELD_FILE:
        break;
    }
}

void zl_run_put(zl_json_writer *w, const zl_run *run, bool labelled)
{
    const zl_field *field;
    for (size_t i = 0; (field = zl_field_at(i)) != NULL; i++) {
        const bool silent = field->optional && !zl_field_flag(field, run);
        if (field->key != NULL && zl_field_belongs(field, run) && !silent) {
            put_field(w, field, run, labelled);
        }
    }
}

static zl_status get_choice(zl_json object, const char *key, const char *(*name)(unsigned),
                            unsigned count, unsigned *out, zl_err *err)
{
    const zl_json value = zl_json_get(object, key);
    const char *text = NULL;
    const char *names[8];
    ZL_TRY(zl_json_string(value, &text, err));
    for (unsigned i = 0; i < count && i < 8; i++) {
        names[i] = name(i);
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return ZL_OK;
        }
    }
    char legal[96];
    zl_join(names, count, legal, sizeof legal);
    return zl_fail(err, ZL_E_INPUT, "%s must be one of %s, got \"%.60s\"", value.path, legal, text);
}

static const char *family_at(unsigned i)
{
    return zl_family_name((zl_family)i);
}

static const char *activation_at(unsigned i)
{
    return zl_activation_name((zl_activation)i);
}

static zl_status get_model_keys(zl_json object, zl_err *err)
{
    const char *keys[KEY_LIMIT] = {"name", "family", "activation", "norm_eps", "rope_theta"};
    size_t n = 5;
    for (size_t i = 0; i < MODEL_COUNTS; i++) {
        keys[n++] = model_counts[i].key;
    }
    for (size_t i = 0; i < MODEL_FLAGS; i++) {
        keys[n++] = model_flags[i].key;
    }
    return zl_json_only(object, keys, n, err);
}

static zl_status get_model(zl_json object, zl_model *out, zl_err *err)
{
    zl_model model = {.layers = 0};
    const char *name = NULL;
    unsigned family = 0;
    unsigned activation = 0;
    ZL_TRY(get_model_keys(object, err));
    ZL_TRY(zl_json_string(zl_json_get(object, "name"), &name, err));
    if (strlen(name) >= sizeof model.name) {
        return zl_fail(err, ZL_E_INPUT, "%s.name must be shorter than 64 bytes, got \"%.80s...\"",
                       object.path, name);
    }
    snprintf(model.name, sizeof model.name, "%s", name);
    ZL_TRY(get_choice(object, "family", family_at, ZL_FAMILY_COUNT, &family, err));
    ZL_TRY(get_choice(object, "activation", activation_at, ZL_ACT_COUNT, &activation, err));
    model.family = (zl_family)family;
    model.activation = (zl_activation)activation;
    for (size_t i = 0; i < MODEL_COUNTS; i++) {
        uint64_t count = 0;
        ZL_TRY(zl_json_u64(zl_json_get(object, model_counts[i].key), &count, err));
        memcpy((char *)&model + model_counts[i].offset, &count, sizeof count);
    }
    for (size_t i = 0; i < MODEL_FLAGS; i++) {
        bool flag = false;
        ZL_TRY(zl_json_bool(zl_json_get(object, model_flags[i].key), &flag, err));
        memcpy((char *)&model + model_flags[i].offset, &flag, sizeof flag);
    }
    ZL_TRY(zl_json_real(zl_json_get(object, "norm_eps"), &model.norm_eps, err));
    ZL_TRY(zl_json_real(zl_json_get(object, "rope_theta"), &model.rope_theta, err));
    *out = model;
    return ZL_OK;
}

static zl_status get_foreign_model(zl_json object, zl_run *run, zl_err *err)
{
    static const char *const keys[] = {"name", "hf_config"};
    const char *name = NULL;
    ZL_TRY(zl_json_only(object, keys, sizeof keys / sizeof keys[0], err));
    ZL_TRY(zl_json_string(zl_json_get(object, "name"), &name, err));
    if (strlen(name) >= sizeof run->model.name) {
        return zl_fail(err, ZL_E_INPUT, "%s.name must be shorter than 64 bytes, got \"%.80s...\"",
                       object.path, name);
    }
    snprintf(run->model.name, sizeof run->model.name, "%s", name);
    const zl_json config = zl_json_get(object, "hf_config");
    if (!zl_json_is_object(config)) {
        return zl_fail(err, ZL_E_INPUT, "%s.hf_config must be an object", object.path);
    }
    return zl_config_compact(config, config.path, run->hf_config, sizeof run->hf_config, err);
}

static zl_status get_config(zl_json value, const zl_field *field, zl_run *run, zl_err *err)
{
    return value.node == NULL ? ZL_OK
                              : zl_config_compact(value, value.path, (char *)run + field->offset,
                                                  field->size, err);
}

static zl_status get_count(zl_json value, const zl_field *field, zl_run *run, zl_err *err)
{
    uint64_t count = 0;
    ZL_TRY(zl_json_u64(value, &count, err));
    if (count == 0 && field->offset == offsetof(zl_run, seq)) {
        return zl_fail(err, ZL_E_INPUT, "%s must be at least 1, got 0", value.path);
    }
    zl_field_put(field, run, &count);
    return ZL_OK;
}

static zl_status get_real(zl_json value, const zl_field *field, zl_run *run, zl_err *err)
{
    double real = -1;
    const bool own = run->framework != ZL_FRAMEWORK_NATIVE &&
                     field->offset == offsetof(zl_run, dropout) && value.node == NULL;
    if (!own) {
        ZL_TRY(zl_json_real(value, &real, err));
    }
    zl_field_put(field, run, &real);
    return ZL_OK;
}

static zl_status get_field(zl_json object, const zl_field *field, zl_run *run, zl_err *err)
{
    const zl_json value = zl_json_get(object, field->key);
    const char *text = NULL;
    bool flag = false;
    switch (field->type) {
    case ZL_FIELD_MODEL:
        return run->framework == ZL_FRAMEWORK_NATIVE ? get_model(value, &run->model, err)
                                                     : get_foreign_model(value, run, err);
    case ZL_FIELD_COUNT:
    case ZL_FIELD_BYTES:
        return get_count(value, field, run, err);
    case ZL_FIELD_REAL:
        return get_real(value, field, run, err);
    case ZL_FIELD_NAME:
        ZL_TRY(zl_json_string(value, &text, err));
        return zl_field_name(field, value.path, text, ZL_E_INPUT, run, err);
    case ZL_FIELD_FRAMEWORK:
        ZL_TRY(zl_json_string(value, &text, err));
        return zl_field_framework(field, value.path, text, ZL_E_INPUT, run, err);
    case ZL_FIELD_CLEAR:
    case ZL_FIELD_SET:
        ZL_TRY(zl_json_bool(value, &flag, err));
        zl_field_put(field, run, &flag);
        return ZL_OK;
    case ZL_FIELD_TEXT:
        ZL_TRY(zl_json_string(value, &text, err));
        return zl_field_copy(field, value.path, text, ZL_E_INPUT, run, err);
    case ZL_FIELD_CONFIG:
        return get_config(value, field, run, err);
    case ZL_FIELD_FILE:
        break;
    }
    return ZL_OK;
}

/* "adamw" and "model" are what a framework takes by itself, so they contradict no ds_config.json.
 */
static bool says_nothing(const zl_field *field, const zl_run *run)
{
    const bool decided = field->offset == offsetof(zl_run, optimizer) ||
                         field->offset == offsetof(zl_run, grad_dtype);
    return field->type == ZL_FIELD_NAME && decided && zl_field_value(field, run) == 0;
}

static zl_status get_fields(zl_json object, zl_run *run, zl_err *err)
{
    const zl_field *field;
    for (size_t i = 0; (field = zl_field_at(i)) != NULL; i++) {
        const bool absent = field->optional && zl_json_get(object, field->key).node == NULL;
        if (field->key != NULL && zl_field_belongs(field, run) && !absent) {
            ZL_TRY(get_field(object, field, run, err));
            if (!says_nothing(field, run)) {
                zl_field_give(field, run);
            }
        }
    }
    return ZL_OK;
}

/* Which fields there are depends on the framework; a wrong one is told when its turn comes. */
static zl_framework framework_of(zl_json object)
{
    const zl_field *field;
    zl_run run = {.framework = ZL_FRAMEWORK_NATIVE};
    for (size_t i = 0; (field = zl_field_at(i)) != NULL; i++) {
        if (field->type == ZL_FIELD_FRAMEWORK && get_field(object, field, &run, NULL) != ZL_OK) {
            break;
        }
    }
    return run.framework;
}

static zl_status only_known(zl_json object, const zl_run *run, bool schema, zl_err *err)
{
    const char *keys[KEY_LIMIT] = {"schema"};
    size_t n = schema ? 1 : 0;
    const zl_field *field;
    for (size_t i = 0; (field = zl_field_at(i)) != NULL; i++) {
        if (field->key != NULL && zl_field_belongs(field, run) && n < KEY_LIMIT) {
            keys[n++] = field->key;
        }
    }
    return zl_json_only(object, keys, n, err);
}

/* In a file, what would be a wrong option is a wrong file. */
static zl_status check(zl_run *run, zl_err *err)
{
    zl_err found = {.status = ZL_OK};
    const zl_status status = zl_run_check(run, &found);
    if (status == ZL_OK) {
        return ZL_OK;
    }
    return zl_fail(err, status == ZL_E_USAGE ? ZL_E_INPUT : status, "%s", found.text);
}

zl_status zl_run_get(zl_json object, bool schema, zl_run *out, zl_err *err)
{
    if (schema) {
        ZL_TRY(zl_json_schema(object, run_schema, err));
    }
    zl_run run;
    zl_run_init(&run);
    run.framework = framework_of(object);
    ZL_TRY(only_known(object, &run, schema, err));
    ZL_TRY(get_fields(object, &run, err));
    ZL_TRY(check(&run, err));
    *out = run;
    return ZL_OK;
}

void zl_run_write(const zl_run *run, zl_json_writer *w)
{
    zl_json_put_string(w, "schema", run_schema);
    zl_run_put(w, run, true);
}

static zl_json_writer *document(const zl_run *run, bool labelled)
{
    zl_json_writer *w = zl_json_writer_new();
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", run_schema);
    zl_run_put(w, run, labelled);
    zl_json_end(w);
    return w;
}

zl_status zl_run_load(const char *path, zl_run *out, zl_err *err)
{
    zl_json_doc *doc = NULL;
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_status status = zl_run_get(zl_json_root(doc), true, out, err);
    zl_json_free(doc);
    if (status != ZL_OK) {
        zl_fail_at(err, strcmp(path, "-") == 0 ? "standard input" : path);
    }
    return status;
}

zl_status zl_run_save(const zl_run *run, const char *path, zl_err *err)
{
    zl_json_writer *w = document(run, true);
    const zl_status status = zl_json_writer_save(w, path, err);
    zl_json_writer_free(w);
    return status;
}

void zl_run_id(const zl_run *run, char id[ZL_RUN_ID_SIZE])
{
    /* FNV-1a, 64 bits: offset basis and prime of its authors. Without memory the id is that of the
     * empty text, which no run has. */
    uint64_t hash = UINT64_C(14695981039346656037);
    zl_json_writer *w = document(run, false);
    size_t size = 0;
    const char *text = zl_json_writer_text(w, &size);
    for (size_t i = 0; text != NULL && i < size; i++) {
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    }
    snprintf(id, ZL_RUN_ID_SIZE, "%016" PRIx64, hash);
    zl_json_writer_free(w);
}
