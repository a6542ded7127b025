#include "zeroledger/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "run_fields.h"
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

static zl_status set_field(const zl_field *field, zl_run *run, const char *value, zl_err *err)
{
    const char *name = field->option.name;
    switch (field->type) {
    case ZL_FIELD_MODEL:
        return zl_model_load(value, &run->model, err);
    case ZL_FIELD_COUNT: {
        uint64_t count = 0;
        ZL_TRY(zl_parse_count(name, value, &count, err));
        if (count == 0 && field->offset == offsetof(zl_run, seq)) {
            return zl_fail(err, ZL_E_USAGE,
                           "seq must be at least 1, got 0; leave it out for the default");
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
    return set_field(field, run, value, err);
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
        if (field->type == ZL_FIELD_NAME && zl_field_value(field, run) >= field->name_count) {
            return zl_fail(err, ZL_E_USAGE, "%s has no value number %u; set it by name",
                           field->option.name, zl_field_value(field, run));
        }
    }
    return ZL_OK;
}

static zl_status check_reals(const zl_run *run, zl_err *err)
{
    if (!(run->dropout >= 0.0 && run->dropout < 1.0)) {
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

zl_status zl_run_check(zl_run *run, zl_err *err)
{
    if (run->model.layers == 0 && run->model.width == 0) {
        return zl_fail(err, ZL_E_USAGE,
                       "no model given; name a preset, a config.json or its folder");
    }
    ZL_TRY(zl_model_check(&run->model, err));
    ZL_TRY(check_names(run, err));
    ZL_TRY(check_counts(run, err));
    ZL_TRY(check_reals(run, err));
    ZL_TRY(check_shard_copy(run, err));
    const uint64_t seq = run->seq != 0 ? run->seq : zl_min(run->model.positions, default_seq_limit);
    if (seq > run->model.positions) {
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

void zl_run_describe(const zl_run *run, char *text, size_t size)
{
    zl_run usual;
    zl_run_init(&usual);
    if (size == 0) {
        return;
    }
    text[0] = '\0';
    add(text, size,
        "%s stage %" PRIu64 ", %" PRIu64 " rank%s, B %" PRIu64 ", T %" PRIu64 ", A %" PRIu64,
        run->model.name, run->stage, run->ranks, run->ranks == 1 ? "" : "s", run->micro_batch,
        run->seq, run->accumulation);
    add(text, size, ", %s, %s, %s, recompute %s", zl_precision_name(run->precision),
        zl_optimizer_name(run->optimizer), zl_attention_name(run->attention),
        zl_recompute_name(run->recompute));
    /* The rest is said only where it is unusual. */
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
    if (run->backend != usual.backend) {
        add(text, size, ", %s", zl_backend_name(run->backend));
    }
}
