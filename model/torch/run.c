/* zl_torch_run_from: a run description as a setup of PyTorch. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "zeroledger/bytes.h"
#include "zeroledger/json.h"
#include "zeroledger/text.h"
#include "zeroledger/torch.h"

static const uint64_t default_seq_limit = 1024;

/* ---- names ---- */

static const zl_torch_framework frameworks[ZL_FRAMEWORK_COUNT] = {
    [ZL_FRAMEWORK_SINGLE] = ZL_TORCH_SINGLE, [ZL_FRAMEWORK_DDP] = ZL_TORCH_DDP,
    [ZL_FRAMEWORK_ZERO1] = ZL_TORCH_ZERO1,   [ZL_FRAMEWORK_FSDP1] = ZL_TORCH_FSDP1,
    [ZL_FRAMEWORK_FSDP2] = ZL_TORCH_FSDP2,   [ZL_FRAMEWORK_DEEPSPEED] = ZL_TORCH_DEEPSPEED,
};

static const zl_torch_precision precisions[ZL_PRECISION_COUNT] = {
    [ZL_PRECISION_FP32] = ZL_TORCH_FP32,
    [ZL_PRECISION_BF16] = ZL_TORCH_BF16,
    [ZL_PRECISION_BF16_MIXED] = ZL_TORCH_BF16_MIXED,
    [ZL_PRECISION_FP16_MIXED] = ZL_TORCH_FP16_MIXED,
    [ZL_PRECISION_BF16_AUTOCAST] = ZL_TORCH_BF16_AUTOCAST,
};

static const zl_torch_attention attentions[ZL_ATTENTION_COUNT] = {
    [ZL_ATTENTION_FLASH] = ZL_TORCH_FLASH,
    [ZL_ATTENTION_EAGER] = ZL_TORCH_EAGER,
    [ZL_ATTENTION_SDPA] = ZL_TORCH_SDPA,
};

static const zl_torch_optimizer optimizers[ZL_OPTIMIZER_COUNT] = {
    [ZL_OPTIMIZER_ADAMW] = ZL_TORCH_ADAMW_FOREACH, /* torch.optim's default on a GPU */
    [ZL_OPTIMIZER_SGD] = ZL_TORCH_SGD,
    [ZL_OPTIMIZER_ADAMW_FUSED] = ZL_TORCH_ADAMW_FUSED,
    [ZL_OPTIMIZER_ADAMW_FOREACH] = ZL_TORCH_ADAMW_FOREACH,
    [ZL_OPTIMIZER_ADAMW_LOOP] = ZL_TORCH_ADAMW_LOOP,
    [ZL_OPTIMIZER_ADAM8BIT] = ZL_TORCH_ADAM8BIT,
};

/* Which precisions and stages a framework has. */
static const struct {
    uint32_t precisions; /* bit i: zl_precision i */
    uint64_t first_stage, last_stage;
} range[ZL_FRAMEWORK_COUNT] = {
#define BIT(name) (UINT32_C(1) << ZL_PRECISION_##name)
    [ZL_FRAMEWORK_SINGLE] = {BIT(FP32) | BIT(BF16) | BIT(BF16_AUTOCAST), 0, 0},
    [ZL_FRAMEWORK_DDP] = {BIT(FP32) | BIT(BF16) | BIT(BF16_AUTOCAST), 0, 0},
    [ZL_FRAMEWORK_ZERO1] = {BIT(FP32) | BIT(BF16) | BIT(BF16_AUTOCAST), 1, 1},
    [ZL_FRAMEWORK_FSDP1] = {BIT(FP32) | BIT(BF16) | BIT(BF16_MIXED), 3, 3},
    [ZL_FRAMEWORK_FSDP2] = {BIT(FP32) | BIT(BF16) | BIT(BF16_MIXED), 2, 3},
    [ZL_FRAMEWORK_DEEPSPEED] = {BIT(FP32) | BIT(BF16_MIXED) | BIT(FP16_MIXED), 0, 3},
#undef BIT
};

static zl_status check_range(const zl_run *run, zl_err *err)
{
    const char *framework = zl_framework_name(run->framework);
    const char *names[ZL_PRECISION_COUNT];
    char legal[96] = "";
    size_t used = 0;
    for (int i = 0; i < ZL_PRECISION_COUNT; i++) {
        names[i] = zl_precision_name((zl_precision)i);
        if ((range[run->framework].precisions >> i & 1) != 0) {
            used += (size_t)snprintf(legal + used, sizeof legal - used, "%s%s",
                                     used == 0 ? "" : ", ", names[i]);
        }
    }
    if ((range[run->framework].precisions >> run->precision & 1) == 0) {
        return zl_fail(err, ZL_E_USAGE, "precision of %s must be one of %s, got %s", framework,
                       legal, names[run->precision]);
    }
    const uint64_t first = range[run->framework].first_stage;
    const uint64_t last = range[run->framework].last_stage;
    if (run->stage < first || run->stage > last) {
        return first == last ? zl_fail(err, ZL_E_USAGE,
                                       "stage of %s is %" PRIu64 ", got %" PRIu64 "; leave it out",
                                       framework, first, run->stage)
                             : zl_fail(err, ZL_E_USAGE,
                                       "stage of %s must be %" PRIu64 "..%" PRIu64 ", got %" PRIu64,
                                       framework, first, last, run->stage);
    }
    if (run->framework == ZL_FRAMEWORK_SINGLE && run->ranks > 1) {
        return zl_fail(err, ZL_E_USAGE,
                       "ranks of single is 1, got %" PRIu64 "; name ddp, zero1, fsdp1, fsdp2 or "
                       "deepspeed",
                       run->ranks);
    }
    return ZL_OK;
}

/* ---- LoRA ---- */

static zl_status read_lora(const char *text, zl_torch_run *out, zl_err *err)
{
    char rank[24];
    const char *colon = strchr(text, ':');
    if (text[0] == '\0') {
        return ZL_OK;
    }
    if (colon == NULL || colon[1] == '\0' || (size_t)(colon - text) >= sizeof rank) {
        return zl_fail(err, ZL_E_USAGE,
                       "lora must be a rank and names of modules, as in 16:q_proj,v_proj, got "
                       "'%.60s'",
                       text);
    }
    snprintf(rank, sizeof rank, "%.*s", (int)(colon - text), text);
    ZL_TRY(zl_parse_count("lora", rank, &out->lora_rank, err));
    if (out->lora_rank == 0) {
        return zl_fail(err, ZL_E_USAGE, "the rank of lora must be at least 1, got '%.60s'", text);
    }
    for (const char *name = colon + 1; *name != '\0';) {
        const size_t length = strcspn(name, ",");
        if (length == 0 || length >= ZL_LORA_NAME || out->lora_targets == ZL_LORA_TARGETS_MAX) {
            return zl_fail(err, ZL_E_USAGE,
                           "targets of lora must be 1 to %d names shorter than %d, got '%.60s'",
                           ZL_LORA_TARGETS_MAX, ZL_LORA_NAME, text);
        }
        snprintf(out->lora_target[out->lora_targets++], ZL_LORA_NAME, "%.*s", (int)length, name);
        name += length + (name[length] == ',');
    }
    return ZL_OK;
}

/* ---- DeepSpeed ---- */

/* An option that was given against what the file decides; the file wins where nothing was said. */
static zl_status decide(zl_run *run, const char *option, const char *key, uint64_t *value,
                        uint64_t decided, zl_err *err)
{
    if (zl_run_given(run, option) && *value != decided) {
        return zl_fail(err, ZL_E_USAGE,
                       "%s %" PRIu64 " contradicts %s %" PRIu64
                       " of the ds_config.json; leave one out",
                       option, *value, key, decided);
    }
    *value = decided;
    return ZL_OK;
}

static zl_status decide_name(const zl_run *run, const char *option, const char *given,
                             const char *key, const char *decided, zl_err *err)
{
    if (!zl_run_given(run, option) || strcmp(given, decided) == 0) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_USAGE,
                   "%s %s contradicts %s of the ds_config.json, which is %s; leave one out", option,
                   given, key, decided);
}

static bool says(zl_json file, const char *key)
{
    return zl_json_get(file, key).node != NULL;
}

static uint64_t part_of(uint64_t total, uint64_t by)
{
    return by == 0 ? 0 : total / by;
}

/* DeepSpeedConfig._set_batch_related_parameters: train_batch_size = micro-batch x accumulation x
 * ranks, and two of them are enough. */
static zl_status decide_batch(zl_run *run, zl_json file, const zl_ds_config *ds, zl_err *err)
{
    static const char micro_key[] = "train_micro_batch_size_per_gpu";
    static const char steps_key[] = "gradient_accumulation_steps";
    uint64_t total = 0;
    const bool micro = says(file, micro_key);
    const bool steps = says(file, steps_key);
    if (micro) {
        ZL_TRY(decide(run, "micro-batch", micro_key, &run->micro_batch, ds->micro_batch, err));
    }
    if (steps) {
        ZL_TRY(decide(run, "accumulation", steps_key, &run->accumulation, ds->accumulation, err));
    }
    if (!says(file, "train_batch_size")) {
        return ZL_OK;
    }
    ZL_TRY(zl_json_u64(zl_json_get(file, "train_batch_size"), &total, err));
    const bool free_micro = !micro && !zl_run_given(run, "micro-batch");
    const bool free_steps = !steps && !zl_run_given(run, "accumulation");
    if (free_micro) {
        run->micro_batch = part_of(total, zl_mul(run->accumulation, run->ranks));
    } else if (free_steps) {
        run->accumulation = part_of(total, zl_mul(run->micro_batch, run->ranks));
    }
    if (total == 0 || zl_prod(run->micro_batch, run->accumulation, run->ranks) != total) {
        return zl_fail(err, ZL_E_USAGE,
                       "train_batch_size %" PRIu64
                       " of the ds_config.json is not micro-batch %" PRIu64
                       " x accumulation %" PRIu64 " x ranks %" PRIu64,
                       total, run->micro_batch, run->accumulation, run->ranks);
    }
    return ZL_OK;
}

static const char *const ds_optimizers[] = {
    [ZL_DS_CLIENT] = "none", [ZL_DS_ADAM] = "adamw", [ZL_DS_TORCH_ADAM] = "adamw-foreach",
    [ZL_DS_LAMB] = "lamb",   [ZL_DS_SGD] = "sgd",    [ZL_DS_ADAM8BIT] = "adam8bit",
};

/* What the file decides, against the options. */
static zl_status take_ds_file(zl_run *run, zl_json file, zl_torch_run *out, zl_err *err)
{
    const zl_ds_config *ds = &out->ds;
    const zl_precision precision = ds->fp16   ? ZL_PRECISION_FP16_MIXED
                                   : ds->bf16 ? ZL_PRECISION_BF16_MIXED
                                              : ZL_PRECISION_FP32;
    ZL_TRY(decide(run, "stage", "zero_optimization.stage", &run->stage, ds->stage, err));
    ZL_TRY(decide_name(run, "precision", zl_precision_name(run->precision), "fp16 and bf16",
                       zl_precision_name(precision), err));
    run->precision = precision;
    ZL_TRY(decide_batch(run, file, ds, err));
    if (ds->grad_accum_set) {
        ZL_TRY(decide_name(run, "grad-dtype", zl_grad_dtype_name(run->grad_dtype),
                           "data_types.grad_accum_dtype", ds->grad_accum_fp32 ? "fp32" : "model",
                           err));
    }
    if (ds->optimizer != ZL_DS_CLIENT) {
        return decide_name(run, "optimizer", zl_optimizer_name(run->optimizer), "optimizer.type",
                           ds_optimizers[ds->optimizer], err);
    }
    if (zl_run_given(run, "optimizer")) {
        out->optimizer = optimizers[run->optimizer];
    }
    return ZL_OK;
}

/* Without a file: the options, as a file would say them. The caller frees the document. */
static zl_status write_ds_file(const zl_run *run, zl_json_doc **out, zl_err *err)
{
    size_t size = 0;
    zl_json_writer *w = zl_json_writer_new();
    zl_json_begin_object(w, NULL);
    zl_json_put_u64(w, "train_micro_batch_size_per_gpu", run->micro_batch);
    zl_json_put_u64(w, "gradient_accumulation_steps", run->accumulation);
    zl_json_begin_object(w, "zero_optimization");
    zl_json_put_u64(w, "stage", run->stage);
    zl_json_end(w);
    if (run->precision != ZL_PRECISION_FP32) {
        zl_json_begin_object(w, run->precision == ZL_PRECISION_FP16_MIXED ? "fp16" : "bf16");
        zl_json_put_bool(w, "enabled", true);
        zl_json_end(w);
    }
    if (run->optimizer == ZL_OPTIMIZER_ADAMW) {
        zl_json_begin_object(w, "optimizer");
        zl_json_put_string(w, "type", "AdamW");
        zl_json_end(w);
    }
    if (run->grad_dtype == ZL_GRAD_FP32) {
        zl_json_begin_object(w, "data_types");
        zl_json_put_string(w, "grad_accum_dtype", "fp32");
        zl_json_end(w);
    }
    zl_json_end(w);
    const char *text = zl_json_writer_text(w, &size);
    const zl_status status = text != NULL ? zl_json_parse("options", text, size, out, err)
                                          : zl_fail(err, ZL_E_RESOURCE, "out of memory");
    zl_json_writer_free(w);
    return status;
}

static zl_status read_deepspeed(zl_run *run, zl_warn *warn, void *context, zl_torch_run *out,
                                zl_err *err)
{
    static const char name[] = "ds_config.json";
    zl_json_doc *doc = NULL;
    uint32_t version = 0;
    const bool file = run->ds_config[0] != '\0';
    ZL_TRY(zl_ds_version_parse(run->version, &version, err));
    ZL_TRY(file ? zl_json_parse(name, run->ds_config, strlen(run->ds_config), &doc, err)
                : write_ds_file(run, &doc, err));
    const zl_json root = zl_json_root(doc);
    out->optimizer = ZL_TORCH_FROM_CONFIG;
    zl_status status = zl_ds_config_read(root, version, &out->ds, warn, context, err);
    if (status == ZL_OK && file) {
        status = take_ds_file(run, root, out, err);
        if (status != ZL_OK) {
            goto out;
        }
    } else if (run->optimizer != ZL_OPTIMIZER_ADAMW) {
        out->optimizer = optimizers[run->optimizer];
    }
    /* What the program of bing_bert does: prepare_optimizer_parameters of deepspeed_train.py; and
     * zero.Init, or stage 3 would hold every weight of a Linear from forward to backward, which its
     * log does not show. */
    const bool bing = out->model.arch == ZL_HF_BERT_PRELN;
    out->ds.decay_groups = bing;
    out->ds.pooler_outside = bing;
    out->ds.zero_init = run->zero_init || (bing && out->ds.stage == 3);
    out->ds.micro_batch = run->micro_batch;
    out->ds.accumulation = run->accumulation;
out:
    zl_json_free(doc);
    return status;
}

/* ---- the run ---- */

static zl_status read_model(zl_run *run, zl_torch_run *out, zl_err *err)
{
    zl_json_doc *doc = NULL;
    const char *config = run->hf_config;
    ZL_TRY(zl_json_parse(run->model.name, config, strlen(config), &doc, err));
    const zl_status status = zl_hf_config_read(zl_json_root(doc), &out->model, err);
    zl_json_free(doc);
    ZL_TRY(status);
    const uint64_t positions = out->model.positions;
    const bool table = positions > 0;
    if (run->seq == 0) {
        run->seq = table ? zl_min(positions, default_seq_limit) : default_seq_limit;
    }
    if (table && run->seq > positions) {
        return zl_fail(err, ZL_E_USAGE,
                       "seq must be 1..%" PRIu64 ", the positions of %s, got %" PRIu64, positions,
                       run->model.name, run->seq);
    }
    if (run->dropout >= 0) {
        out->model.embedding_dropout = run->dropout;
        out->model.attention_dropout = run->dropout;
        out->model.hidden_dropout = run->dropout;
    }
    return ZL_OK;
}

zl_status zl_torch_run_from(zl_run *run, zl_torch_run *out, zl_warn *warn, void *context,
                            zl_err *err)
{
    zl_torch_run made;
    zl_run resolved = *run;
    zl_torch_run_init(&made);
    if (run->framework == ZL_FRAMEWORK_NATIVE) {
        return zl_fail(err, ZL_E_USAGE, "the framework native has a closed form of its own");
    }
    ZL_TRY(read_model(&resolved, &made, err));
    made.framework = frameworks[resolved.framework];
    made.optimizer = optimizers[resolved.optimizer];
    if (made.framework == ZL_TORCH_DEEPSPEED) {
        ZL_TRY(read_deepspeed(&resolved, warn, context, &made, err));
    }
    ZL_TRY(check_range(&resolved, err));
    if (resolved.activations > 0 && made.framework != ZL_TORCH_DEEPSPEED) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "given activations are modelled for the framework deepspeed only, got %s",
                       zl_framework_name(resolved.framework));
    }
    ZL_TRY(read_lora(resolved.lora, &made, err));
    made.stage = resolved.stage;
    made.ranks = resolved.ranks;
    made.precision = precisions[resolved.precision];
    made.micro_batch = resolved.micro_batch;
    made.seq = resolved.seq;
    made.accumulation = resolved.accumulation;
    made.attention = attentions[resolved.attention];
    made.checkpointing = resolved.recompute == ZL_RECOMPUTE_FULL;
    made.trainable_layers = resolved.trainable_layers;
    made.activations = resolved.activations;
    memcpy(made.alloc_conf, resolved.alloc_conf, sizeof made.alloc_conf);
    for (uint32_t i = 0; i < made.steps; i++) {
        made.skipped[i] = resolved.skipped_step;
    }
    *run = resolved;
    *out = made;
    return ZL_OK;
}
