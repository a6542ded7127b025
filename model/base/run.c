#include "zeroledger/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model_config.h"
#include "run_fields.h"
#include "text_internal.h"
#include "zeroledger/bytes.h"
#include "zeroledger/text.h"

static const uint64_t default_seq_limit = 1024;
static const uint64_t slot_limit = 64; /* more than any schedule can use */

void zl_run_init(zl_run *run)
{
    *run = (zl_run){
        .framework = ZL_FRAMEWORK_NATIVE,
        .backend = ZL_BACKEND_HOST,
        .ranks = 1,
        .micro_batch = 1,
        .accumulation = 1,
        .precision = ZL_PRECISION_BF16_MIXED,
        .grad_dtype = ZL_GRAD_MODEL,
        .optimizer = ZL_OPTIMIZER_ADAMW,
        .attention = ZL_ATTENTION_FLASH,
        .recompute = ZL_RECOMPUTE_NONE,
        .clip = 1.0,
        .window = 1,
        .reduce_slots = 2,
        .shard_copy = true,
    };
}

const zl_option *zl_run_option(size_t index)
{
    const zl_field *field = zl_field_at(index);
    return field != NULL ? &field->option : NULL;
}

zl_value_type zl_run_option_type(const zl_option *option)
{
    static const zl_value_type types[] = {
        [ZL_FIELD_MODEL] = ZL_VALUE_NAME,  [ZL_FIELD_COUNT] = ZL_VALUE_COUNT,
        [ZL_FIELD_REAL] = ZL_VALUE_REAL,   [ZL_FIELD_NAME] = ZL_VALUE_NAME,
        [ZL_FIELD_CLEAR] = ZL_VALUE_NONE,  [ZL_FIELD_SET] = ZL_VALUE_NONE,
        [ZL_FIELD_TEXT] = ZL_VALUE_TEXT,   [ZL_FIELD_FRAMEWORK] = ZL_VALUE_NAME,
        [ZL_FIELD_BYTES] = ZL_VALUE_BYTES, [ZL_FIELD_CONFIG] = ZL_VALUE_TEXT,
        [ZL_FIELD_FILE] = ZL_VALUE_TEXT,
    };
    const zl_field *field = NULL;
    for (size_t i = 0; (field = zl_field_at(i)) != NULL; i++) {
        if (&field->option == option) {
            return types[field->type];
        }
    }
    return option->arg == NULL ? ZL_VALUE_NONE : ZL_VALUE_TEXT;
}

static zl_status unknown_option(const char *name, zl_err *err)
{
    const char *names[64];
    size_t count = 0;
    const zl_option *option;
    for (size_t i = 0; (option = zl_run_option(i)) != NULL && count + 2 <= 64; i++) {
        names[count++] = option->name;
        if (option->alias != NULL) {
            names[count++] = option->alias;
        }
    }
    const char *near = zl_nearest(name, names, count);
    return zl_fail(err, ZL_E_USAGE, "unknown option '%.60s'; %s%s%s", name,
                   near != NULL ? "did you mean '" : "see the help for those that exist",
                   near != NULL ? near : "", near != NULL ? "'?" : "");
}

static const zl_field *field_find(const char *name)
{
    const zl_field *field = NULL;
    for (size_t i = 0; (field = zl_field_at(i)) != NULL; i++) {
        const char *alias = field->option.alias;
        if (strcmp(field->option.name, name) == 0 || (alias != NULL && strcmp(alias, name) == 0)) {
            break;
        }
    }
    return field;
}

static bool is_scalar(zl_json value)
{
    return !zl_json_is_object(value) && !zl_json_is_array(value);
}

/* The scalars of an object; with `only`, that one. */
static void keep_scalars(zl_json_writer *w, const char *key, zl_json object, const char *only)
{
    const char *name = NULL;
    zl_json value;
    zl_json_begin_object(w, key);
    for (size_t i = 0; zl_json_each_member(object, &i, &name, &value);) {
        if (is_scalar(value) && (only == NULL || strcmp(name, only) == 0)) {
            zl_json_put(w, name, value);
        }
    }
    zl_json_end(w);
}

static bool ends_in(const char *name, const char *end)
{
    const size_t length = strlen(name);
    return length >= strlen(end) && strcmp(name + length - strlen(end), end) == 0;
}

/* Lists of modules that stay as they are run to thousands of characters, most of them norms and
 * routers, which nobody quantises. */
static void keep_modules(zl_json_writer *w, const char *key, zl_json list)
{
    zl_json_begin_array(w, key);
    for (size_t i = 0; i < zl_json_size(list); i++) {
        const char *name = "";
        const zl_json item = zl_json_item(list, i);
        const bool text = zl_json_string(item, &name, NULL) == ZL_OK;
        if (!text || !(ends_in(name, "norm") || ends_in(name, ".gate"))) {
            zl_json_put(w, NULL, item);
        }
    }
    zl_json_end(w);
}

/* Scalars and lists; what a list of texts was calibrated with is none of ours. */
static void keep_quantisation(zl_json_writer *w, const char *key, zl_json object)
{
    const char *name = NULL;
    zl_json value;
    zl_json_begin_object(w, key);
    for (size_t i = 0; zl_json_each_member(object, &i, &name, &value);) {
        if (is_scalar(value) || strcmp(name, "weight_block_size") == 0) {
            zl_json_put(w, name, value);
        } else if (strcmp(name, "modules_to_not_convert") == 0 ||
                   strcmp(name, "llm_int8_skip_modules") == 0) {
            keep_modules(w, name, value);
        }
    }
    zl_json_end(w);
}

/* Of the parts of a model of text and images, which they are. */
static void keep_member(zl_json_writer *w, const char *key, zl_json value)
{
    static const char *const whole[] = {"architectures", "mlp_only_layers", "tensors"};
    const size_t length = strlen(key);
    const bool part = length > 7 && strcmp(key + length - 7, "_config") == 0;
    bool kept = is_scalar(value);
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        kept = kept || strcmp(key, whole[i]) == 0;
    }
    if (kept) {
        zl_json_put(w, key, value);
    } else if (strcmp(key, "quantization_config") == 0 && zl_json_is_object(value)) {
        keep_quantisation(w, key, value);
    } else if (zl_json_is_object(value) && (part || strcmp(key, "rope_parameters") == 0)) {
        keep_scalars(w, key, value, part ? "model_type" : NULL);
    }
}

/* What may decide shapes: scalars, the class, the quantisation. Vocabularies of labels may not. */
static zl_status keep_config(zl_json config, const char *path, zl_run *run, zl_err *err)
{
    zl_json_writer *w = zl_json_writer_new();
    zl_json_doc *doc = NULL;
    size_t size = 0;
    const char *key = NULL;
    zl_json_begin_object(w, NULL);
    for (size_t i = 0; (key = zl_json_key(config, i)) != NULL; i++) {
        keep_member(w, key, zl_json_get(config, key));
    }
    zl_json_end(w);
    const char *text = zl_json_writer_text(w, &size);
    zl_status status = text != NULL ? zl_json_parse(path, text, size, &doc, err)
                                    : zl_fail(err, ZL_E_RESOURCE, "out of memory");
    if (status == ZL_OK) {
        status = zl_config_compact(zl_json_root(doc), "what shapes the model", run->hf_config,
                                   sizeof run->hf_config, err);
    }
    zl_json_free(doc);
    zl_json_writer_free(w);
    return status;
}

static zl_status set_model(const char *name_or_path, zl_run *run, zl_err *err)
{
    zl_model_source source = {.doc = NULL};
    ZL_TRY(zl_model_open(name_or_path, &source, err));
    const zl_json config = zl_json_root(source.doc);
    zl_status status = ZL_OK;
    if (run->framework == ZL_FRAMEWORK_NATIVE) {
        status = zl_model_from_config(config, source.name, &run->model, err);
    } else { /* its reader is in the library's room of frameworks */
        run->model = (zl_model){.layers = 0};
        memcpy(run->model.name, source.name, sizeof run->model.name);
    }
    if (status == ZL_OK) {
        status = keep_config(config, source.path, run, err);
    }
    zl_json_free(source.doc);
    if (status != ZL_OK && source.path[0] != '\0') {
        zl_fail_at(err, source.path);
    }
    return status;
}

static zl_status set_config(const zl_field *field, zl_run *run, const char *path, zl_err *err)
{
    zl_json_doc *doc = NULL;
    ZL_TRY(zl_json_load_lenient(path, &doc, &run->ds_lapses, err));
    const zl_status status =
        zl_config_compact(zl_json_root(doc), path, (char *)run + field->offset, field->size, err);
    zl_json_free(doc);
    if (status == ZL_OK && run->framework == ZL_FRAMEWORK_NATIVE &&
        !zl_run_given(run, "framework")) {
        run->framework = ZL_FRAMEWORK_DEEPSPEED;
    }
    return status;
}

static zl_status set_field(const zl_field *field, zl_run *run, const char *value, zl_err *err)
{
    const char *name = field->option.name;
    switch (field->type) {
    case ZL_FIELD_MODEL:
        return set_model(value, run, err);
    case ZL_FIELD_FRAMEWORK:
        return zl_field_framework(field, name, value, ZL_E_USAGE, run, err);
    case ZL_FIELD_BYTES: {
        uint64_t bytes = 0;
        ZL_TRY(zl_parse_bytes(name, value, &bytes, err));
        zl_field_put(field, run, &bytes);
        return ZL_OK;
    }
    case ZL_FIELD_TEXT:
        return zl_field_copy(field, name, value, ZL_E_USAGE, run, err);
    case ZL_FIELD_CONFIG:
        return set_config(field, run, value, err);
    case ZL_FIELD_COUNT: {
        uint64_t count = 0;
        ZL_TRY(zl_parse_count(name, value, &count, err));
        if (count == 0 &&
            (field->offset == offsetof(zl_run, seq) || field->offset == offsetof(zl_run, layers))) {
            return zl_fail(err, ZL_E_USAGE,
                           "%s must be at least 1, got 0; leave it out for the default", name);
        }
        zl_field_put(field, run, &count);
        return ZL_OK;
    }
    case ZL_FIELD_REAL: {
        double real = 0;
        ZL_TRY(zl_parse_real(name, value, &real, err));
        zl_field_put(field, run, &real);
        return ZL_OK;
    }
    case ZL_FIELD_NAME:
        return zl_field_name(field, name, value, ZL_E_USAGE, run, err);
    case ZL_FIELD_CLEAR:
        zl_field_put(field, run, &(bool){false});
        return ZL_OK;
    case ZL_FIELD_SET:
        zl_field_put(field, run, &(bool){true});
        return ZL_OK;
    case ZL_FIELD_FILE:
        return zl_run_load(value, run, err);
    }
    return zl_fail(err, ZL_E_BUG, "option '%s' has no type; please report this", name);
}

zl_status zl_run_set(zl_run *run, const char *name, const char *value, zl_err *err)
{
    const zl_field *field = field_find(name);
    if (field == NULL) {
        return unknown_option(name, err);
    }
    const bool flag = field->option.arg == NULL;
    if (flag != (value == NULL)) {
        return flag ? zl_fail(err, ZL_E_USAGE, "%s takes no value, got '%.60s'; leave it out", name,
                              value)
                    : zl_fail(err, ZL_E_USAGE, "%s needs a value (%s)", name, field->option.arg);
    }
    ZL_TRY(set_field(field, run, value, err));
    if (field->type != ZL_FIELD_FILE) {
        zl_field_give(field, run);
    }
    return ZL_OK;
}

bool zl_run_given(const zl_run *run, const char *name)
{
    const zl_field *field = field_find(name);
    return field != NULL && zl_field_given(field, run);
}

static zl_status check_range(const char *what, uint64_t value, uint64_t low, uint64_t high,
                             zl_err *err)
{
    if (value >= low && value <= high) {
        return ZL_OK;
    }
    if (high >= ZL_POISON - 1) {
        return zl_fail(err, ZL_E_USAGE, "%s must be at least %" PRIu64 ", got %" PRIu64, what, low,
                       value);
    }
    return zl_fail(err, ZL_E_USAGE, "%s must be %" PRIu64 "..%" PRIu64 ", got %" PRIu64, what, low,
                   high, value);
}

static zl_status check_names(const zl_run *run, zl_err *err)
{
    const zl_field *field;
    for (size_t i = 0; (field = zl_field_at(i)) != NULL; i++) {
        const bool named = field->type == ZL_FIELD_NAME || field->type == ZL_FIELD_FRAMEWORK;
        if (named && zl_field_value(field, run) >= field->name_count) {
            return zl_fail(err, ZL_E_USAGE, "%s has no value number %u; set it by name",
                           field->option.name, zl_field_value(field, run));
        }
    }
    return ZL_OK;
}

static zl_status check_native_name(const zl_field *field, const zl_run *run, zl_err *err)
{
    const unsigned value = field->type == ZL_FIELD_NAME ? zl_field_value(field, run) : 0;
    if (value == 0 || value < field->native_count) {
        return ZL_OK;
    }
    char legal[160];
    zl_join(field->names, field->native_count, legal, sizeof legal);
    return zl_fail(err, ZL_E_UNMODELLED,
                   "%s %s is not modelled for the framework native, which has %s; name another "
                   "--framework",
                   field->option.name, field->names[value], legal);
}

/* Options that the framework does not have. */
static zl_status check_scopes(const zl_run *run, zl_err *err)
{
    const bool native = run->framework == ZL_FRAMEWORK_NATIVE;
    const zl_field *field;
    for (size_t i = 0; (field = zl_field_at(i)) != NULL; i++) {
        if (zl_field_given(field, run) && !zl_field_belongs(field, run)) {
            return zl_fail(err, ZL_E_USAGE,
                           native ? "%s needs another framework than native, got %s; name one with "
                                    "--framework"
                                  : "%s is an option of the framework native, got %s; leave it out",
                           field->option.name, zl_framework_name(run->framework));
        }
        if (native) {
            ZL_TRY(check_native_name(field, run, err));
        }
    }
    return ZL_OK;
}

static zl_status check_reals(const zl_run *run, zl_err *err)
{
    const bool own = run->framework != ZL_FRAMEWORK_NATIVE && run->dropout < 0.0;
    if (!own && !(run->dropout >= 0.0 && run->dropout < 1.0)) {
        return zl_fail(err, ZL_E_USAGE, "dropout must be from 0 to below 1, got %g", run->dropout);
    }
    if (!isfinite(run->clip) || run->clip < 0.0) {
        return zl_fail(err, ZL_E_USAGE,
                       "clip must be a norm of at least 0 (0 does not clip), got %g", run->clip);
    }
    return ZL_OK;
}

static zl_status check_counts(const zl_run *run, zl_err *err)
{
    const uint64_t any = ZL_POISON - 1;
    ZL_TRY(check_range("stage", run->stage, 0, 3, err));
    ZL_TRY(check_range("ranks", run->ranks, 1, any, err));
    ZL_TRY(check_range("micro-batch", run->micro_batch, 1, any, err));
    ZL_TRY(check_range("accumulation", run->accumulation, 1, any, err));
    ZL_TRY(check_range("head-chunk", run->head_chunk, 0, any, err));
    if (run->framework != ZL_FRAMEWORK_NATIVE) {
        return ZL_OK;
    }
    ZL_TRY(check_range("window", run->window, 0, zl_min(run->model.layers, slot_limit), err));
    return check_range("reduce-slots", run->reduce_slots, 1, slot_limit, err);
}

static zl_status check_shard_copy(const zl_run *run, zl_err *err)
{
    const bool mixed =
        run->precision == ZL_PRECISION_BF16_MIXED || run->precision == ZL_PRECISION_FP16_MIXED;
    if (run->shard_copy || (run->stage == 3 && mixed)) {
        return ZL_OK;
    }
    if (run->stage != 3) {
        return zl_fail(err, ZL_E_USAGE,
                       "no-shard-copy needs stage 3, got stage %" PRIu64
                       "; leave it out or set stage 3",
                       run->stage);
    }
    return zl_fail(err, ZL_E_USAGE,
                   "no-shard-copy needs fp32 master weights, got precision %s; leave it out or set "
                   "bf16-mixed or fp16-mixed",
                   zl_precision_name(run->precision));
}

/* What a framework takes where nothing was said. */
static void take_defaults(zl_run *run)
{
    static const struct {
        uint64_t stage;
        zl_precision precision;
    } usual[ZL_FRAMEWORK_COUNT] = {
        [ZL_FRAMEWORK_SINGLE] = {0, ZL_PRECISION_BF16_AUTOCAST},
        [ZL_FRAMEWORK_DDP] = {0, ZL_PRECISION_BF16_AUTOCAST},
        [ZL_FRAMEWORK_ZERO1] = {1, ZL_PRECISION_BF16_AUTOCAST},
        [ZL_FRAMEWORK_FSDP1] = {3, ZL_PRECISION_BF16_MIXED},
        [ZL_FRAMEWORK_FSDP2] = {3, ZL_PRECISION_BF16_MIXED},
        [ZL_FRAMEWORK_DEEPSPEED] = {0, ZL_PRECISION_BF16_MIXED},
    };
    if (!zl_run_given(run, "stage")) {
        run->stage = usual[run->framework].stage;
    }
    if (!zl_run_given(run, "precision")) {
        run->precision = usual[run->framework].precision;
    }
    if (!zl_run_given(run, "attention")) {
        run->attention = ZL_ATTENTION_SDPA;
    }
    if (!zl_run_given(run, "dropout")) {
        run->dropout = -1;
    }
    if (run->framework == ZL_FRAMEWORK_DEEPSPEED && run->version[0] == '\0') {
        snprintf(run->version, sizeof run->version, "%s", ZL_DEEPSPEED_NEWEST);
    }
}

static zl_status check_framework(zl_run *run, zl_err *err)
{
    if (run->hf_config[0] == '\0') {
        return zl_fail(err, ZL_E_USAGE,
                       "no model given; name a preset, a config.json or its folder");
    }
    if (run->ds_config[0] != '\0' && run->framework != ZL_FRAMEWORK_DEEPSPEED) {
        return zl_fail(err, ZL_E_USAGE,
                       "deepspeed-config needs the framework deepspeed, got %s; leave one out",
                       zl_framework_name(run->framework));
    }
    if (run->recompute == ZL_RECOMPUTE_SELECTIVE) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "recompute selective is not modelled for %s; modelled: none, full",
                       zl_framework_name(run->framework));
    }
    take_defaults(run);
    return run->layers != 0 ? zl_config_take_layers(run, err) : ZL_OK;
}

/* The model may have been named while the framework was another. */
static zl_status read_native(zl_run *run, zl_err *err)
{
    zl_json_doc *doc = NULL;
    char name[sizeof run->model.name];
    memcpy(name, run->model.name, sizeof name);
    ZL_TRY(zl_json_parse(name, run->hf_config, strlen(run->hf_config), &doc, err));
    const zl_status status = zl_model_from_config(zl_json_root(doc), name, &run->model, err);
    zl_json_free(doc);
    return status;
}

static zl_status check_native(zl_run *run, zl_err *err)
{
    if (run->model.layers == 0 && run->model.width == 0) {
        if (run->hf_config[0] == '\0') {
            return zl_fail(err, ZL_E_USAGE,
                           "no model given; name a preset, a config.json or its folder");
        }
        ZL_TRY(read_native(run, err));
    }
    run->model.layers = run->layers != 0 ? run->layers : run->model.layers;
    return zl_model_check(&run->model, err);
}

zl_status zl_run_check(zl_run *run, zl_err *err)
{
    const bool native = run->framework == ZL_FRAMEWORK_NATIVE;
    ZL_TRY(check_names(run, err));
    ZL_TRY(native ? check_native(run, err) : check_framework(run, err));
    ZL_TRY(check_scopes(run, err));
    ZL_TRY(check_counts(run, err));
    ZL_TRY(check_reals(run, err));
    if (!native) {
        return ZL_OK;
    }
    ZL_TRY(check_shard_copy(run, err));
    const uint64_t seq = run->seq != 0 ? run->seq : zl_min(run->model.positions, default_seq_limit);
    const bool table = run->model.family != ZL_FAMILY_LLAMA; /* rotations have no last position */
    if (table && seq > run->model.positions) {
        return zl_fail(err, ZL_E_USAGE,
                       "seq must be 1..%" PRIu64 ", the positions of %s, got %" PRIu64,
                       run->model.positions, run->model.name, seq);
    }
    run->seq = seq;
    return ZL_OK;
}

/* Appends to a text of fixed size; what does not fit is cut. */
static void add(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t size, const char *format, ...)
{
    const size_t at = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + at, size - at, format, args);
    va_end(args);
}

void zl_run_framework(const zl_run *run, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s", zl_framework_name(run->framework),
             run->version[0] != '\0' ? "@" : "", run->version);
}

static void describe_framework(const zl_run *run, char *text, size_t size)
{
    if (run->lora[0] != '\0') {
        add(text, size, ", LoRA %s", run->lora);
    }
    if (run->trainable_layers > 0) {
        add(text, size, ", last %" PRIu64 " layers train", run->trainable_layers);
    }
    if (run->skipped_step) {
        add(text, size, ", steps skipped");
    }
    if (run->activations > 0) {
        add(text, size, ", activations %" PRIu64 " B as given", run->activations);
    }
    if (run->zero_init) {
        add(text, size, ", zero.Init");
    }
    if (run->no_prefetch) {
        add(text, size, ", no prefetch");
    }
    if (run->bucket_view) {
        add(text, size, ", bucket views");
    }
    if (run->drop_logits) {
        add(text, size, ", logits dropped");
    }
    if (run->alloc_conf[0] != '\0') {
        add(text, size, ", %s", run->alloc_conf);
    }
}

void zl_run_describe(const zl_run *run, char *text, size_t size)
{
    zl_run usual;
    char framework[48];
    zl_run_init(&usual);
    if (size == 0) {
        return;
    }
    text[0] = '\0';
    zl_run_framework(run, framework, sizeof framework);
    const bool native = run->framework == ZL_FRAMEWORK_NATIVE;
    add(text, size,
        "%s%s%s stage %" PRIu64 ", %" PRIu64 " rank%s, B %" PRIu64 ", T %" PRIu64 ", A %" PRIu64,
        run->model.name, native ? "" : " on ", native ? "" : framework, run->stage, run->ranks,
        run->ranks == 1 ? "" : "s", run->micro_batch, run->seq, run->accumulation);
    add(text, size, ", %s, %s, %s, recompute %s", zl_precision_name(run->precision),
        zl_optimizer_name(run->optimizer), zl_attention_name(run->attention),
        zl_recompute_name(run->recompute));
    /* The rest is said only where it is unusual. */
    if (run->layers != 0) {
        add(text, size, ", %" PRIu64 " layers", run->layers);
    }
    if (run->grad_dtype != usual.grad_dtype) {
        add(text, size, ", gradients %s", zl_grad_dtype_name(run->grad_dtype));
    }
    if (run->dropout > 0.0) {
        add(text, size, ", dropout %g", run->dropout);
    }
    if (run->head_chunk != usual.head_chunk) {
        add(text, size, ", head chunk %" PRIu64, run->head_chunk);
    }
    if (run->window != usual.window) {
        add(text, size, ", window %" PRIu64, run->window);
    }
    if (run->reduce_slots != usual.reduce_slots) {
        add(text, size, ", reduce slots %" PRIu64, run->reduce_slots);
    }
    if (!run->shard_copy) {
        add(text, size, ", no shard copy");
    }
    if (run->eval) {
        add(text, size, ", eval");
    }
    if (run->save) {
        add(text, size, ", save");
    }
    describe_framework(run, text, size);
    if (run->backend != usual.backend) {
        add(text, size, ", %s", zl_backend_name(run->backend));
    }
}
