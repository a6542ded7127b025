#include "run_fields.h"

#include <string.h>

#include "text_internal.h"
#include "zeroledger/text.h"

_Static_assert(sizeof(zl_framework) == sizeof(unsigned) && sizeof(zl_recompute) == sizeof(unsigned),
               "enums of a run are stored as unsigned");

static const char *const frameworks[ZL_FRAMEWORK_COUNT] = {
    [ZL_FRAMEWORK_NATIVE] = "native",
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
};

static const char *const grad_dtypes[ZL_GRAD_COUNT] = {
    [ZL_GRAD_MODEL] = "model",
    [ZL_GRAD_FP32] = "fp32",
};

static const char *const optimizers[ZL_OPTIMIZER_COUNT] = {
    [ZL_OPTIMIZER_ADAMW] = "adamw",
    [ZL_OPTIMIZER_SGD] = "sgd",
};

static const char *const attentions[ZL_ATTENTION_COUNT] = {
    [ZL_ATTENTION_FLASH] = "flash",
    [ZL_ATTENTION_EAGER] = "eager",
};

static const char *const recomputes[ZL_RECOMPUTE_COUNT] = {
    [ZL_RECOMPUTE_NONE] = "none",
    [ZL_RECOMPUTE_SELECTIVE] = "selective",
    [ZL_RECOMPUTE_FULL] = "full",
};

static const char *const other_frameworks[] = {"single", "ddp",       "zero1", "fsdp1",
                                               "fsdp2",  "deepspeed", NULL};
static const char *const other_precisions[] = {"bf16-autocast", NULL};
static const char *const other_optimizers[] = {"adamw-fused", "adamw-foreach", "adamw-loop",
                                               "adam8bit", NULL};
static const char *const other_attentions[] = {"sdpa", NULL};

#define NAMED(field, table, others)                                                                \
    .type = ZL_FIELD_NAME, .offset = offsetof(zl_run, field), .names = (table),                    \
    .name_count = sizeof(table) / sizeof((table)[0]), .unmodelled = (others)
#define COUNT(field) .type = ZL_FIELD_COUNT, .offset = offsetof(zl_run, field)
#define REAL(field)  .type = ZL_FIELD_REAL, .offset = offsetof(zl_run, field)

static const zl_field fields[] = {
    {.option = {"model", NULL, "NAME", NULL,
                "preset, config.json of Hugging Face, or a folder that holds one"},
     .key = "model",
     .type = ZL_FIELD_MODEL},
    {.option = {"framework", NULL, "NAME", "native", "whose schedule of allocations is followed"},
     .key = "framework",
     NAMED(framework, frameworks, other_frameworks)},
    {.option = {"backend", NULL, "NAME", "host,cuda", "where the native trainer computes"},
     .key = "backend",
     NAMED(backend, backends, NULL)},
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
    {.option = {"accumulation", NULL, "A", NULL, "micro-steps per optimizer step"},
     .key = "accumulation",
     COUNT(accumulation)},
    {.option = {"precision", NULL, "NAME", "fp32,bf16,bf16-mixed,fp16-mixed",
                "number types; -mixed keeps fp32 master weights, bf16 is pure"},
     .key = "precision",
     NAMED(precision, precisions, other_precisions)},
    {.option = {"grad-dtype", NULL, "NAME", "model,fp32", "type of the gradients at rest"},
     .key = "grad_dtype",
     NAMED(grad_dtype, grad_dtypes, NULL)},
    {.option = {"optimizer", NULL, "NAME", "adamw,sgd", "update rule, which decides the states"},
     .key = "optimizer",
     NAMED(optimizer, optimizers, other_optimizers)},
    {.option = {"attention", NULL, "NAME", "flash,eager",
                "eager stores the attention probabilities, flash does not"},
     .key = "attention",
     NAMED(attention, attentions, other_attentions)},
    {.option = {"recompute", NULL, "NAME", "none,selective,full",
                "recompute nothing, norms and activation functions, or whole blocks"},
     .key = "recompute",
     NAMED(recompute, recomputes, NULL)},
    {.option = {"dropout", NULL, "P", NULL, "dropout probability, from 0 to below 1"},
     .key = "dropout",
     REAL(dropout)},
    {.option = {"clip", NULL, "NORM", NULL, "largest global gradient norm; 0 does not clip"},
     .key = "clip",
     REAL(clip)},
    {.option = {"head-chunk", NULL, "TOKENS", NULL,
                "tokens per chunk of the head; 0 takes all at once"},
     .key = "head_chunk",
     COUNT(head_chunk)},
    {.option = {"window", NULL, "W", NULL, "units gathered ahead of use in stage 3"},
     .key = "window",
     COUNT(window)},
    {.option = {"reduce-slots", NULL, "K", NULL, "reduce slots of blocks in stages 2 and 3"},
     .key = "reduce_slots",
     COUNT(reduce_slots)},
    {.option = {"no-shard-copy", NULL, NULL, NULL,
                "stage 3 keeps no 16-bit shard at rest and casts the master shard instead"},
     .key = "shard_copy",
     .type = ZL_FIELD_CLEAR,
     .offset = offsetof(zl_run, shard_copy)},
    {.option = {"eval", NULL, NULL, NULL, "with a forward without gradients after each step"},
     .key = "eval",
     .type = ZL_FIELD_SET,
     .offset = offsetof(zl_run, eval)},
    {.option = {"save", NULL, NULL, NULL, "with a checkpoint after each step"},
     .key = "save",
     .type = ZL_FIELD_SET,
     .offset = offsetof(zl_run, save)},
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

void zl_field_put(const zl_field *field, zl_run *run, const void *value)
{
    static const size_t sizes[] = {
        [ZL_FIELD_MODEL] = 0,
        [ZL_FIELD_COUNT] = sizeof(uint64_t),
        [ZL_FIELD_REAL] = sizeof(double),
        [ZL_FIELD_NAME] = sizeof(unsigned),
        [ZL_FIELD_CLEAR] = sizeof(bool),
        [ZL_FIELD_SET] = sizeof(bool),
        [ZL_FIELD_FILE] = 0,
    };
    memcpy((char *)run + field->offset, value, sizes[field->type]);
}

/* "deepspeed@0.13" is deepspeed at a version. */
static bool is_unmodelled(const zl_field *field, const char *text)
{
    const size_t length = strcspn(text, "@");
    for (const char *const *name = field->unmodelled; name != NULL && *name != NULL; name++) {
        if (strlen(*name) == length && strncmp(*name, text, length) == 0) {
            return true;
        }
    }
    return false;
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
    if (is_unmodelled(field, text)) {
        return zl_fail(err, ZL_E_UNMODELLED, "%s '%.60s' is not modelled; modelled: %s", what, text,
                       legal);
    }
    const char *near = zl_nearest(text, field->names, field->name_count);
    return zl_fail(err, bad, "%s must be %s%s, got '%.60s'%s%s%s", what,
                   field->name_count > 1 ? "one of " : "", legal, text,
                   near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "");
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
