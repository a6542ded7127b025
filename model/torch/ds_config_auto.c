/* "auto" in a ds_config.json. DeepSpeed knows no such value: Hugging Face's Trainer
 * (HfTrainerDeepSpeedConfig of transformers, integrations/deepspeed.py) and accelerate
 * (Accelerator._prepare_deepspeed) replace it from their arguments and the model before DeepSpeed
 * sees it; what is left of it in zero_optimization, DeepSpeed drops for its own default. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ds_config.h"
#include "zeroledger/bytes.h"

void zt_ds_note(zl_ds_config *ds, const char *key, const char *value, const char *format, ...)
{
    if (ds->resolved_count == ZL_DS_RESOLVED_MAX) {
        return;
    }
    zl_ds_resolved *note = &ds->resolved[ds->resolved_count++];
    snprintf(note->key, sizeof note->key, "%s", key);
    snprintf(note->value, sizeof note->value, "%s", value);
    va_list args;
    va_start(args, format);
    vsnprintf(note->why, sizeof note->why, format, args);
    va_end(args);
}

static void note_count(const zt_ds_reader *r, const char *key, uint64_t count, const char *why)
{
    char value[sizeof r->ds->resolved[0].value];
    snprintf(value, sizeof value, "%" PRIu64, count);
    zt_ds_note(r->ds, key, value, "%s", why);
}

typedef zl_status rule_function(const zt_ds_reader *r, const char *key, uint64_t *count,
                                zl_err *err);

static zl_status ask(const char *key, const char *option, zl_err *err)
{
    return zl_fail(err, ZL_E_INPUT,
                   "%s is \"auto\", which Hugging Face's Trainer and accelerate replace; give %s",
                   key, option);
}

static zl_status take_stage(const zt_ds_reader *r, const char *key, uint64_t *count, zl_err *err)
{
    if (!r->program->stage_given) {
        return ask(key, "--stage, or write the number", err);
    }
    *count = r->program->stage;
    note_count(r, key, *count, "--stage");
    return ZL_OK;
}

static zl_status take_micro_batch(const zt_ds_reader *r, const char *key, uint64_t *count,
                                  zl_err *err)
{
    if (r->program->micro_batch == 0) {
        return ask(key, "--micro-batch, or write the number", err);
    }
    *count = r->program->micro_batch;
    note_count(r, key, *count, "--micro-batch");
    return ZL_OK;
}

static zl_status take_accumulation(const zt_ds_reader *r, const char *key, uint64_t *count,
                                   zl_err *err)
{
    (void)err;
    *count = zl_max(r->program->accumulation, 1);
    note_count(r, key, *count,
               r->program->accumulation > 0 ? "--accumulation"
                                            : "the default of Trainer and accelerate; "
                                              "--accumulation changes it");
    return ZL_OK;
}

static zl_status take_hidden(const zt_ds_reader *r, const char *key, uint64_t *out, zl_err *err)
{
    if (r->program->hidden == 0) {
        return zl_fail(err, ZL_E_INPUT,
                       "%s is \"auto\", which the Trainer replaces from the hidden size of the "
                       "model, which is not known; write the number",
                       key);
    }
    *out = r->program->hidden;
    return ZL_OK;
}

/* sys.maxsize of Python. */
static uint64_t at_most(uint64_t count)
{
    return zl_min(count, INT64_MAX);
}

static zl_status take_reduce_bucket(const zt_ds_reader *r, const char *key, uint64_t *count,
                                    zl_err *err)
{
    uint64_t hidden = 0;
    ZL_TRY(take_hidden(r, key, &hidden, err));
    *count = at_most(zl_mul(hidden, hidden));
    note_count(r, key, *count, "hidden size squared");
    return ZL_OK;
}

static zl_status take_prefetch_bucket(const zt_ds_reader *r, const char *key, uint64_t *count,
                                      zl_err *err)
{
    uint64_t hidden = 0;
    ZL_TRY(take_hidden(r, key, &hidden, err));
    /* int(0.9 * hidden * hidden): rounded as Python's doubles round, then cut off. */
    const double real = 0.9 * (double)hidden * (double)hidden;
    *count = real < (double)INT64_MAX ? (uint64_t)real : INT64_MAX;
    note_count(r, key, *count, "0.9 x hidden size squared, cut off");
    return ZL_OK;
}

static zl_status take_threshold(const zt_ds_reader *r, const char *key, uint64_t *count,
                                zl_err *err)
{
    uint64_t hidden = 0;
    ZL_TRY(take_hidden(r, key, &hidden, err));
    *count = at_most(zl_mul(10, hidden));
    note_count(r, key, *count, "10 x hidden size");
    return ZL_OK;
}

static const struct rule {
    const char *key;
    rule_function *take;
    bool stage3; /* replaced at stage 3 only; nobody reads it elsewhere */
} rules[] = {
    {"zero_optimization.stage", take_stage, false},
    {"train_micro_batch_size_per_gpu", take_micro_batch, false},
    {"gradient_accumulation_steps", take_accumulation, false},
    {"zero_optimization.reduce_bucket_size", take_reduce_bucket, false},
    {"zero_optimization.stage3_prefetch_bucket_size", take_prefetch_bucket, true},
    {"zero_optimization.stage3_param_persistence_threshold", take_threshold, true},
};

zl_status zt_ds_auto(const zt_ds_reader *r, zl_json value, uint64_t *count, zl_err *err)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (count != NULL && strcmp(value.path, rules[i].key) == 0 &&
            (!rules[i].stage3 || r->ds->stage == 3)) {
            return rules[i].take(r, value.path, count, err);
        }
    }
    if (!zt_ds_is_checked(r->ds, value.path)) {
        return zt_ds_refuse_auto(value, err);
    }
    zt_ds_note(r->ds, value.path, "default", "nobody replaces it, and DeepSpeed leaves it out");
    return ZL_OK;
}

static const char *flag_text(bool flag)
{
    return flag ? "true" : "false";
}

static bool is_bf16(const zl_ds_program *program)
{
    return program->precision != ZL_PRECISION_FP16_MIXED && program->precision != ZL_PRECISION_FP32;
}

/* DeepSpeedPlugin.set_mixed_precision of accelerate, through which the Trainer goes too. */
void zt_ds_add_precision(const zt_ds_reader *r, bool fp16, bool bf16)
{
    static const char why[] = "--precision; accelerate adds what the file lacks";
    if (!r->program->precision_given) {
        return;
    }
    if (fp16 && r->program->precision == ZL_PRECISION_FP16_MIXED) {
        r->ds->fp16 = true;
        zt_ds_note(r->ds, "fp16.enabled", "true", why);
    }
    if (bf16 && is_bf16(r->program)) {
        r->ds->bf16 = true;
        zt_ds_note(r->ds, "bf16.enabled", "true", why);
    }
}

zl_status zt_ds_auto_precision(const zt_ds_reader *r, bool fp16, bool bf16, zl_err *err)
{
    zl_ds_config *const ds = r->ds;
    const zl_precision precision = r->program->precision;
    const bool other = fp16 ? ds->bf16 && !bf16 : ds->fp16 && !fp16;
    const char *why = "the other one is enabled";
    if (!other) {
        if (!r->program->precision_given) {
            return ask(fp16 ? "fp16.enabled" : "bf16.enabled",
                       "--precision bf16-mixed, fp16-mixed or fp32", err);
        }
        why = "--precision";
        ds->fp16 = fp16 ? precision == ZL_PRECISION_FP16_MIXED : ds->fp16;
        ds->bf16 = bf16 ? is_bf16(r->program) : ds->bf16;
    }
    if (fp16) {
        zt_ds_note(ds, "fp16.enabled", flag_text(ds->fp16), "%s", why);
    }
    if (bf16) {
        zt_ds_note(ds, "bf16.enabled", flag_text(ds->bf16), "%s", why);
    }
    return ZL_OK;
}

zl_status zt_ds_auto_total(const zt_ds_reader *r, zl_err *err)
{
    static const char key[] = "train_batch_size";
    char value[sizeof r->ds->resolved[0].value];
    const uint64_t micro = r->ds->micro_batch > 0 ? r->ds->micro_batch : r->program->micro_batch;
    const uint64_t steps = r->ds->accumulation_set        ? r->ds->accumulation
                           : r->program->accumulation > 0 ? r->program->accumulation
                                                          : 1;
    if (micro == 0) {
        return ask(key, "--micro-batch, or write train_micro_batch_size_per_gpu", err);
    }
    if (r->program->ranks > 0) {
        snprintf(value, sizeof value, "%" PRIu64, zl_prod(micro, steps, r->program->ranks));
        zt_ds_note(r->ds, key, value,
                   "micro-batch %" PRIu64 " x accumulation %" PRIu64 " x ranks %" PRIu64, micro,
                   steps, r->program->ranks);
    }
    return ZL_OK;
}
