#include "run_fields.h"

#include <stdio.h>
#include <string.h>

#include "text_internal.h"
#include "zeroledger/text.h"

_Static_assert(sizeof(zl_framework) == sizeof(unsigned) && sizeof(zl_recompute) == sizeof(unsigned),
               "enums of a run are stored as unsigned");

static const char *const frameworks[ZL_FRAMEWORK_COUNT] = {
    [ZL_FRAMEWORK_NATIVE] = "native",
    [ZL_FRAMEWORK_SINGLE] = "single",
    [ZL_FRAMEWORK_DDP] = "ddp",
    [ZL_FRAMEWORK_ZERO1] = "zero1",
    [ZL_FRAMEWORK_FSDP1] = "fsdp1",
    [ZL_FRAMEWORK_FSDP2] = "fsdp2",
    [ZL_FRAMEWORK_DEEPSPEED] = "deepspeed",
};

static const char *const backends[ZL_BACKEND_COUNT] = {
    [ZL_BACKEND_HOST] = "host",
    [ZL_BACKEND_CUDA] = "cuda",
};

static const char *const precisions[ZL_PRECISION_COUNT] = {
    [ZL_PRECISION_FP32] = "fp32",
    [ZL_PRECISION_BF16] = "bf16",
    [ZL_PRECISION_BF16_MIXED] = "bf16-mixed",
    [ZL_PRECISION_FP16_MIXED] = "fp16-mixed",
    [ZL_PRECISION_BF16_AUTOCAST] = "bf16-autocast",
};

static const char *const grad_dtypes[ZL_GRAD_COUNT] = {
    [ZL_GRAD_MODEL] = "model",
    [ZL_GRAD_FP32] = "fp32",
};

static const char *const optimizers[ZL_OPTIMIZER_COUNT] = {
    [ZL_OPTIMIZER_ADAMW] = "adamw",
    [ZL_OPTIMIZER_SGD] = "sgd",
    [ZL_OPTIMIZER_ADAMW_FUSED] = "adamw-fused",
    [ZL_OPTIMIZER_ADAMW_FOREACH] = "adamw-foreach",
    [ZL_OPTIMIZER_ADAMW_LOOP] = "adamw-loop",
    [ZL_OPTIMIZER_ADAM8BIT] = "adam8bit",
};

static const char *const attentions[ZL_ATTENTION_COUNT] = {
    [ZL_ATTENTION_FLASH] = "flash",
    [ZL_ATTENTION_EAGER] = "eager",
    [ZL_ATTENTION_SDPA] = "sdpa",
};

static const char *const recomputes[ZL_RECOMPUTE_COUNT] = {
    [ZL_RECOMPUTE_NONE] = "none",
    [ZL_RECOMPUTE_SELECTIVE] = "selective",
    [ZL_RECOMPUTE_FULL] = "full",
};

#define NAMED(field, table, native)                                                                \
    .type = ZL_FIELD_NAME, .offset = offsetof(zl_run, field), .names = (table),                    \
    .name_count = sizeof(table) / sizeof((table)[0]), .native_count = (native)
#define COUNT(field) .type = ZL_FIELD_COUNT, .offset = offsetof(zl_run, field)
#define REAL(field)  .type = ZL_FIELD_REAL, .offset = offsetof(zl_run, field)
#define TEXT(field)                                                                                \
    .type = ZL_FIELD_TEXT, .offset = offsetof(zl_run, field), .size = sizeof((zl_run *)0)->field

static const zl_field fields[] = {
    {.option = {"model", NULL, "NAME", NULL,
                "preset, config.json of Hugging Face, safetensors, or a folder with one of them"},
     .key = "model",
     .type = ZL_FIELD_MODEL},
    {.option = {"framework", NULL, "NAME", "native,single,ddp,zero1,fsdp1,fsdp2,deepspeed",
                "whose schedule of allocations is followed; deepspeed@X.Y.Z is a release"},
     .key = "framework",
     .type = ZL_FIELD_FRAMEWORK,
     .offset = offsetof(zl_run, framework),
     .names = frameworks,
     .name_count = ZL_FRAMEWORK_COUNT},
    {.option = {"deepspeed-config", NULL, "FILE", NULL,
                "ds_config.json; implies deepspeed, and other options may not contradict it"},
     .key = "deepspeed_config",
     .type = ZL_FIELD_CONFIG,
     .offset = offsetof(zl_run, ds_config),
     .size = ZL_CONFIG_SIZE,
     .scope = ZL_SCOPE_FRAMEWORK},
    {.option = {"backend", NULL, "NAME", "host,cuda", "where the native trainer computes"},
     .key = "backend",
     .scope = ZL_SCOPE_NATIVE,
     NAMED(backend, backends, ZL_BACKEND_COUNT)},
    {.option = {"stage", NULL, "0..3", "0,1,2,3",
                "what is sharded: nothing, optimizer, gradients too, parameters too"},
     .key = "stage",
     COUNT(stage)},
    {.option = {"ranks", "gpus", "N", NULL, "data-parallel ranks"}, .key = "ranks", COUNT(ranks)},
    {.option = {"micro-batch", NULL, "B", NULL, "sequences per rank and micro-step"},
     .key = "micro_batch",
     COUNT(micro_batch)},
    {.option = {"seq", NULL, "T", NULL,
                "tokens per sequence; by default the model's positions, at most 1024"},
     .key = "seq",
     COUNT(seq)},
    {.option = {"layers", NULL, "L", NULL, "layers, instead of the model's own depth"},
     COUNT(layers)},
    {.option = {"accumulation", NULL, "A", NULL, "micro-steps per optimizer step"},
     .key = "accumulation",
     COUNT(accumulation)},
    {.option = {"precision", NULL, "NAME", "fp32,bf16,bf16-mixed,fp16-mixed,bf16-autocast",
                "number types; -mixed keeps fp32 master weights, bf16 is pure"},
     .key = "precision",
     NAMED(precision, precisions, ZL_PRECISION_NATIVE_COUNT)},
    {.option = {"grad-dtype", NULL, "NAME", "model,fp32", "type of the gradients at rest"},
     .key = "grad_dtype",
     NAMED(grad_dtype, grad_dtypes, ZL_GRAD_COUNT)},
    {.option = {"optimizer", NULL, "NAME",
                "adamw,sgd,adamw-fused,adamw-foreach,adamw-loop,adam8bit",
                "update rule and its kernels, which decide states and temporaries"},
     .key = "optimizer",
     NAMED(optimizer, optimizers, ZL_OPTIMIZER_NATIVE_COUNT)},
    {.option = {"attention", NULL, "NAME", "flash,eager,sdpa",
                "eager stores the attention probabilities, flash and sdpa do not"},
     .key = "attention",
     NAMED(attention, attentions, ZL_ATTENTION_NATIVE_COUNT)},
    {.option = {"recompute", NULL, "NAME", "none,selective,full",
                "recompute nothing, norms and activation functions, or whole blocks"},
     .key = "recompute",
     NAMED(recompute, recomputes, ZL_RECOMPUTE_COUNT)},
    {.option = {"dropout", NULL, "P", NULL, "dropout probability, from 0 to below 1"},
     .key = "dropout",
     REAL(dropout)},
    {.option = {"clip", NULL, "NORM", NULL, "largest global gradient norm; 0 does not clip"},
     .key = "clip",
     REAL(clip)},
    {.option = {"head-chunk", NULL, "TOKENS", NULL,
                "tokens per chunk of the head; 0 takes all at once"},
     .key = "head_chunk",
     .scope = ZL_SCOPE_NATIVE,
     COUNT(head_chunk)},
    {.option = {"window", NULL, "W", NULL, "units gathered ahead of use in stage 3"},
     .key = "window",
     .scope = ZL_SCOPE_NATIVE,
     COUNT(window)},
    {.option = {"reduce-slots", NULL, "K", NULL, "reduce slots of blocks in stages 2 and 3"},
     .key = "reduce_slots",
     .scope = ZL_SCOPE_NATIVE,
     COUNT(reduce_slots)},
    {.option = {"no-shard-copy", NULL, NULL, NULL,
                "stage 3 keeps no 16-bit shard at rest and casts the master shard instead"},
     .key = "shard_copy",
     .type = ZL_FIELD_CLEAR,
     .offset = offsetof(zl_run, shard_copy),
     .scope = ZL_SCOPE_NATIVE},
    {.option = {"eval", NULL, NULL, NULL, "with a forward without gradients after each step"},
     .key = "eval",
     .type = ZL_FIELD_SET,
     .offset = offsetof(zl_run, eval),
     .scope = ZL_SCOPE_NATIVE},
    {.option = {"save", NULL, NULL, NULL, "with a checkpoint after each step"},
     .key = "save",
     .type = ZL_FIELD_SET,
     .offset = offsetof(zl_run, save),
     .scope = ZL_SCOPE_NATIVE},
    {.option = {"lora", NULL, "R:TARGETS", NULL,
                "adapters of rank R on modules with these names, as in 16:q_proj,v_proj; or peft's "
                "adapter_config.json"},
     .key = "lora",
     .scope = ZL_SCOPE_FRAMEWORK,
     TEXT(lora)},
    {.option = {"trainable-layers", NULL, "K", NULL, "only the last K layers train"},
     .key = "trainable_layers",
     .scope = ZL_SCOPE_FRAMEWORK,
     COUNT(trainable_layers)},
    {.option = {"skipped-step", NULL, NULL, NULL, "fp16 overflows, so every step is skipped"},
     .key = "skipped_step",
     .type = ZL_FIELD_SET,
     .offset = offsetof(zl_run, skipped_step),
     .scope = ZL_SCOPE_FRAMEWORK},
    {.option = {"activations", NULL, "BYTES", NULL,
                "what forward leaves for backward, given instead of modelled"},
     .key = "activations",
     .type = ZL_FIELD_BYTES,
     .offset = offsetof(zl_run, activations),
     .scope = ZL_SCOPE_FRAMEWORK},
    {.option = {"zero-init", NULL, NULL, NULL, "the model is built under deepspeed.zero.Init"},
     .key = "zero_init",
     .type = ZL_FIELD_SET,
     .offset = offsetof(zl_run, zero_init),
     .scope = ZL_SCOPE_FRAMEWORK},
    {.option = {"bucket-view", NULL, NULL, NULL,
                "gradients are views of DDP's buckets (gradient_as_bucket_view)"},
     .key = "bucket_view",
     .type = ZL_FIELD_SET,
     .offset = offsetof(zl_run, bucket_view),
     .scope = ZL_SCOPE_FRAMEWORK,
     .optional = true},
    {.option = {"no-prefetch", NULL, NULL, NULL,
                "FSDP1 gathers no unit ahead in backward (backward_prefetch=None)"},
     .key = "no_prefetch",
     .type = ZL_FIELD_SET,
     .offset = offsetof(zl_run, no_prefetch),
     .scope = ZL_SCOPE_FRAMEWORK,
     .optional = true},
    {.option = {"drop-logits", NULL, NULL, NULL,
                "the program lets go of the model's output before backward"},
     .key = "drop_logits",
     .type = ZL_FIELD_SET,
     .offset = offsetof(zl_run, drop_logits),
     .scope = ZL_SCOPE_FRAMEWORK,
     .optional = true},
    {.option = {"alloc-conf", NULL, "TEXT", NULL, "PYTORCH_ALLOC_CONF of the process"},
     .key = "alloc_conf",
     .scope = ZL_SCOPE_FRAMEWORK,
     TEXT(alloc_conf)},
    {.option = {"run", NULL, "FILE", NULL, "a run.json; options after it override it"},
     .type = ZL_FIELD_FILE},
};

const zl_field *zl_field_at(size_t index)
{
    return index < sizeof fields / sizeof fields[0] ? &fields[index] : NULL;
}

static void load(const zl_field *field, const zl_run *run, void *out, size_t size)
{
    memcpy(out, (const char *)run + field->offset, size);
}

uint64_t zl_field_count(const zl_field *field, const zl_run *run)
{
    uint64_t value;
    load(field, run, &value, sizeof value);
    return value;
}

double zl_field_real(const zl_field *field, const zl_run *run)
{
    double value;
    load(field, run, &value, sizeof value);
    return value;
}

unsigned zl_field_value(const zl_field *field, const zl_run *run)
{
    unsigned value;
    load(field, run, &value, sizeof value);
    return value;
}

bool zl_field_flag(const zl_field *field, const zl_run *run)
{
    bool value;
    load(field, run, &value, sizeof value);
    return value;
}

const char *zl_field_text(const zl_field *field, const zl_run *run)
{
    return (const char *)run + field->offset;
}

bool zl_field_belongs(const zl_field *field, const zl_run *run)
{
    const bool native = run->framework == ZL_FRAMEWORK_NATIVE;
    return field->scope == ZL_SCOPE_ALL || (field->scope == ZL_SCOPE_NATIVE) == native;
}

static uint64_t bit_of(const zl_field *field)
{
    return UINT64_C(1) << (field - fields);
}

_Static_assert(sizeof fields / sizeof fields[0] <= 64, "zl_run.given has a bit per option");

bool zl_field_given(const zl_field *field, const zl_run *run)
{
    return (run->given & bit_of(field)) != 0;
}

void zl_field_give(const zl_field *field, zl_run *run)
{
    run->given |= bit_of(field);
}

void zl_field_put(const zl_field *field, zl_run *run, const void *value)
{
    static const size_t sizes[] = {
        [ZL_FIELD_MODEL] = 0,
        [ZL_FIELD_COUNT] = sizeof(uint64_t),
        [ZL_FIELD_REAL] = sizeof(double),
        [ZL_FIELD_NAME] = sizeof(unsigned),
        [ZL_FIELD_CLEAR] = sizeof(bool),
        [ZL_FIELD_SET] = sizeof(bool),
        [ZL_FIELD_FRAMEWORK] = sizeof(unsigned),
        [ZL_FIELD_BYTES] = sizeof(uint64_t),
        [ZL_FIELD_TEXT] = 0,
        [ZL_FIELD_CONFIG] = 0,
        [ZL_FIELD_FILE] = 0,
    };
    memcpy((char *)run + field->offset, value, sizes[field->type]);
}

zl_status zl_field_name(const zl_field *field, const char *what, const char *text, zl_status bad,
                        zl_run *run, zl_err *err)
{
    for (unsigned i = 0; i < field->name_count; i++) {
        if (strcmp(field->names[i], text) == 0) {
            zl_field_put(field, run, &i);
            return ZL_OK;
        }
    }
    char legal[160];
    zl_join(field->names, field->name_count, legal, sizeof legal);
    const char *near = zl_nearest(text, field->names, field->name_count);
    return zl_fail(err, bad, "%s must be %s%s, got '%.60s'%s%s%s", what,
                   field->name_count > 1 ? "one of " : "", legal, text,
                   near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "");
}

zl_status zl_field_copy(const zl_field *field, const char *what, const char *text, zl_status bad,
                        zl_run *run, zl_err *err)
{
    if (strlen(text) >= field->size) {
        return zl_fail(err, bad, "%s must be shorter than %zu characters, got '%.60s...'", what,
                       field->size, text);
    }
    snprintf((char *)run + field->offset, field->size, "%s", text);
    return ZL_OK;
}

zl_status zl_field_framework(const zl_field *field, const char *what, const char *text,
                             zl_status bad, zl_run *run, zl_err *err)
{
    char name[32];
    const char *at = strchr(text, '@');
    zl_run other = *run;
    snprintf(name, sizeof name, "%.*s", at != NULL ? (int)(at - text) : 31, text);
    ZL_TRY(zl_field_name(field, what, name, bad, &other, err));
    if (at != NULL && other.framework != ZL_FRAMEWORK_DEEPSPEED) {
        return zl_fail(err, bad, "%s: only deepspeed has releases, got '%.60s'; write %s", what,
                       text, name);
    }
    const char *version = at != NULL ? at + 1 : "";
    const size_t length = strlen(version);
    if (strspn(version, "0123456789.") != length || length >= ZL_VERSION_SIZE ||
        (at != NULL && length == 0)) {
        return zl_fail(err, bad, "%s: a release is three numbers, as in deepspeed@%s, got '%.60s'",
                       what, ZL_DEEPSPEED_NEWEST, text);
    }
    run->framework = other.framework;
    snprintf(run->version, sizeof run->version, "%s", version);
    return ZL_OK;
}

zl_status zl_config_compact(zl_json value, const char *what, char *text, size_t size, zl_err *err)
{
    size_t length = 0;
    size_t used = 0;
    zl_json_writer *w = zl_json_writer_new();
    zl_json_put(w, NULL, value);
    const char *pretty = zl_json_writer_text(w, &length);
    for (size_t i = 0; pretty != NULL && i < length && used < size; i++) {
        if (pretty[i] == '\n') { /* a line and its indentation; no string holds a bare one */
            i += strspn(pretty + i + 1, " ");
        } else {
            text[used++] = pretty[i];
        }
    }
    zl_json_writer_free(w);
    if (pretty == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    if (used == size) {
        return zl_fail(err, ZL_E_INPUT, "%s is longer than %zu characters", what, size - 1);
    }
    text[used] = '\0';
    return ZL_OK;
}

const char *zl_framework_name(zl_framework framework)
{
    return frameworks[framework];
}

const char *zl_backend_name(zl_backend backend)
{
    return backends[backend];
}

const char *zl_precision_name(zl_precision precision)
{
    return precisions[precision];
}

const char *zl_grad_dtype_name(zl_grad_dtype grad_dtype)
{
    return grad_dtypes[grad_dtype];
}

const char *zl_optimizer_name(zl_optimizer optimizer)
{
    return optimizers[optimizer];
}

const char *zl_attention_name(zl_attention attention)
{
    return attentions[attention];
}

const char *zl_recompute_name(zl_recompute recompute)
{
    return recomputes[recompute];
}
