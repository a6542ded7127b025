/* zl_torch_run_from: a run description as a setup of PyTorch. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ds_config.h"
#include "torch/lora.h"
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

/* A factor that nobody gave, out of the total. */
static void note_batch(zl_ds_config *ds, const char *key, uint64_t value, const zt_ds_batch *b)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    zt_ds_note(ds, key, text,
               "train_batch_size %" PRIu64 " = micro-batch %" PRIu64 " x accumulation %" PRIu64
               " x ranks %" PRIu64,
               b->total, b->micro, b->steps, b->ranks);
}

static zl_status decide_batch(zl_run *run, const zt_ds_reader *r, zl_err *err)
{
    zl_ds_config *ds = r->ds;
    static const char micro_key[] = "train_micro_batch_size_per_gpu";
    static const char steps_key[] = "gradient_accumulation_steps";
    const bool micro = ds->micro_batch > 0 || zl_run_given(run, "micro-batch");
    const bool steps = ds->accumulation_set || zl_run_given(run, "accumulation");
    if (ds->micro_batch > 0) {
        ZL_TRY(decide(run, "micro-batch", micro_key, &run->micro_batch, ds->micro_batch, err));
    }
    if (ds->accumulation_set) {
        ZL_TRY(decide(run, "accumulation", steps_key, &run->accumulation, ds->accumulation, err));
    }
    if (ds->train_batch == 0 && !micro) {
        zt_ds_warn(r,
                   "the ds_config.json gives neither train_batch_size nor %s, which DeepSpeed "
                   "refuses; micro-batch %" PRIu64 " is taken, --micro-batch changes it",
                   micro_key, run->micro_batch);
    }
    zt_ds_batch batch = {
        .total = ds->train_batch,
        .micro = micro || ds->train_batch == 0 ? run->micro_batch : 0,
        .steps = steps ? run->accumulation : 0,
        .ranks = run->ranks,
    };
    ZL_TRY(zt_ds_batch_complete(&batch, err));
    if (ds->train_batch > 0 && !micro) {
        note_batch(ds, micro_key, batch.micro, &batch);
    } else if (ds->train_batch > 0 && !steps) {
        note_batch(ds, steps_key, batch.steps, &batch);
    }
    run->micro_batch = batch.micro;
    run->accumulation = batch.steps;
    return ZL_OK;
}

static const char *const ds_optimizers[] = {
    [ZL_DS_CLIENT] = "none", [ZL_DS_ADAM] = "adamw", [ZL_DS_TORCH_ADAM] = "adamw-foreach",
    [ZL_DS_LAMB] = "lamb",   [ZL_DS_SGD] = "sgd",    [ZL_DS_ADAM8BIT] = "adam8bit",
};

/* What the file decides, against the options. */
static zl_status take_ds_file(zl_run *run, const zl_ds_program *program, zl_torch_run *out,
                              zl_err *err)
{
    zl_ds_config *ds = &out->ds;
    const zt_ds_reader reader = {.ds = ds, .program = program};
    const zl_precision precision = ds->fp16   ? ZL_PRECISION_FP16_MIXED
                                   : ds->bf16 ? ZL_PRECISION_BF16_MIXED
                                              : ZL_PRECISION_FP32;
    ZL_TRY(decide(run, "stage", "zero_optimization.stage", &run->stage, ds->stage, err));
    ZL_TRY(decide_name(run, "precision", zl_precision_name(run->precision), "fp16 and bf16",
                       zl_precision_name(precision), err));
    run->precision = precision;
    ZL_TRY(decide_batch(run, &reader, err));
    if (ds->grad_accum_set) {
        ZL_TRY(decide_name(run, "grad-dtype", zl_grad_dtype_name(run->grad_dtype),
                           "data_types.grad_accum_dtype", ds->grad_accum_fp32 ? "fp32" : "model",
                           err));
        run->grad_dtype = ds->grad_accum_fp32 ? ZL_GRAD_FP32 : ZL_GRAD_MODEL;
    }
    if (ds->optimizer != ZL_DS_CLIENT) {
        ZL_TRY(decide_name(run, "optimizer", zl_optimizer_name(run->optimizer), "optimizer.type",
                           ds_optimizers[ds->optimizer], err));
        run->optimizer = ds->optimizer == ZL_DS_TORCH_ADAM ? ZL_OPTIMIZER_ADAMW_FOREACH
                         : ds->optimizer == ZL_DS_SGD      ? ZL_OPTIMIZER_SGD
                                                           : ZL_OPTIMIZER_ADAMW;
    } else if (zl_run_given(run, "optimizer")) {
        out->optimizer = optimizers[run->optimizer];
        if (run->optimizer == ZL_OPTIMIZER_ADAMW) { /* which of them, for a run.json */
            run->optimizer = ZL_OPTIMIZER_ADAMW_FOREACH;
        }
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

zl_status zl_ds_config_of_options(zl_run *run, zl_err *err)
{
    zl_json_doc *doc = NULL;
    size_t size = 0;
    if (run->ds_config[0] != '\0') {
        return ZL_OK;
    }
    ZL_TRY(write_ds_file(run, &doc, err));
    zl_json_writer *w = zl_json_writer_new();
    zl_json_put(w, NULL, zl_json_root(doc));
    const char *text = zl_json_writer_text(w, &size);
    zl_status status = text != NULL ? zl_run_set_config(run, "", text, err)
                                    : zl_fail(err, ZL_E_RESOURCE, "out of memory");
    if (status == ZL_OK && run->optimizer != ZL_OPTIMIZER_ADAMW) { /* a file names it, or the run */
        status = zl_run_set(run, "optimizer", zl_optimizer_name(run->optimizer), err);
    }
    zl_json_writer_free(w);
    zl_json_free(doc);
    return status;
}

/* What of the file only some of its readers accept. */
static void warn_lapses(const zl_json_lapses *lapses, uint32_t version, zl_warn *warn,
                        void *context)
{
    static const char others[] = "Hugging Face's Trainer and accelerate read strict JSON and "
                                 "refuse the file";
    const struct {
        uint64_t line;
        const char *what;
    } found[] = {
        {lapses->mark, "begins with a byte order mark"},
        {lapses->comment, "has comments"},
        {lapses->comma, "has trailing commas"},
    };
    char line[256];
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
        if (found[i].line > 0) {
            snprintf(line, sizeof line, "the ds_config.json %s (line %" PRIu64 "), which %s; %s",
                     found[i].what, found[i].line,
                     version >= ZT_DS_HJSON ? "DeepSpeed reads over where it is given the path"
                                            : "DeepSpeed refuses before 0.8.1",
                     others);
            warn(context, line);
        }
    }
    if (lapses->repeat > 0) {
        snprintf(line, sizeof line,
                 "the ds_config.json gives a key twice (line %" PRIu64
                 "), with the same value, which DeepSpeed refuses where it is given the path",
                 lapses->repeat);
        warn(context, line);
    }
}

/* The arguments that the Trainer would have. */
static zl_ds_program program_of(const zl_run *run, const zl_torch_run *made, uint32_t version)
{
    return (zl_ds_program){
        .version = version,
        .hidden = made->model.hidden,
        .ranks = run->ranks,
        .micro_batch = zl_run_given(run, "micro-batch") ? run->micro_batch : 0,
        .accumulation = zl_run_given(run, "accumulation") ? run->accumulation : 0,
        .precision_given = zl_run_given(run, "precision"),
        .precision = run->precision,
        .stage_given = zl_run_given(run, "stage"),
        .stage = run->stage,
        .clip_given = zl_run_given(run, "clip"),
        .clip = run->clip,
    };
}

static zl_status read_deepspeed(zl_run *run, zl_warn *warn, void *context, zl_torch_run *out,
                                zl_err *err)
{
    static const char name[] = "ds_config.json";
    zl_json_doc *doc = NULL;
    uint32_t version = 0;
    const bool file = run->ds_config[0] != '\0';
    ZL_TRY(zl_ds_version_parse(run->version, &version, err));
    zl_ds_program program = program_of(run, out, version);
    program.warn = warn;
    program.context = context;
    if (warn != NULL) {
        warn_lapses(&run->ds_lapses, version, warn, context);
    }
    ZL_TRY(file ? zl_json_parse(name, run->ds_config, strlen(run->ds_config), &doc, err)
                : write_ds_file(run, &doc, err));
    out->optimizer = ZL_TORCH_FROM_CONFIG;
    zl_status status = zl_ds_config_read_in(zl_json_root(doc), &program, &out->ds, err);
    if (status != ZL_OK && file) {
        zl_fail_at(err, name);
    }
    if (status == ZL_OK && file) {
        status = take_ds_file(run, &program, out, err);
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

/* More ranks than this are not compared one by one. */
enum { RANKS_COMPARED = 16 };

bool zl_torch_rank_at(const zl_torch_run *run, uint64_t index, uint64_t *rank)
{
    /* Elsewhere every rank holds as much as rank 0 or, at the end of what is split, less. */
    const bool differ = run->framework == ZL_TORCH_ZERO1 ||
                        (run->framework == ZL_TORCH_DEEPSPEED && run->stage < 3);
    const uint64_t count = differ ? zl_min(run->ranks, RANKS_COMPARED) : 1;
    if (index >= count) {
        return false;
    }
    *rank = differ && index + 1 == count ? run->ranks - 1 : index;
    return true;
}

uint64_t zl_hf_longest(const zl_hf_config *model)
{
    static const bool table[ZL_HF_ARCH_COUNT] = {
        [ZL_HF_BERT_MLM] = true,   [ZL_HF_BERT_PRETRAINING] = true,
        [ZL_HF_BERT_PRELN] = true, [ZL_HF_GPT2] = true,
        [ZL_HF_ROBERTA] = true,    [ZL_HF_DISTILBERT] = true,
        [ZL_HF_GPTJ] = true,       [ZL_HF_OPT] = true,
    };
    /* RoBERTa's positions begin behind that of the padding token, which is 1. */
    const uint64_t unused = model->arch == ZL_HF_ROBERTA ? 2 : 0;
    return table[model->arch] && model->positions > unused ? model->positions - unused
                                                           : ZL_POISON - 1;
}

static zl_status read_model(zl_run *run, zl_torch_run *out, zl_err *err)
{
    zl_json_doc *doc = NULL;
    const char *config = run->hf_config;
    ZL_TRY(zl_json_parse(run->model.name, config, strlen(config), &doc, err));
    const zl_status status = zl_hf_config_read(zl_json_root(doc), &out->model, err);
    zl_json_free(doc);
    ZL_TRY(status);
    const uint64_t positions = out->model.positions;
    if (run->seq == 0) {
        run->seq = positions > 0 ? zl_min(positions, default_seq_limit) : default_seq_limit;
        run->seq = zl_min(run->seq, zl_hf_longest(&out->model));
    }
    if (run->seq > zl_hf_longest(&out->model)) {
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
    if (resolved.no_prefetch && made.framework != ZL_TORCH_FSDP1) {
        return zl_fail(err, ZL_E_USAGE, "no-prefetch is of fsdp1, got %s; leave it out",
                       zl_framework_name(resolved.framework));
    }
    if (resolved.bucket_view && made.framework != ZL_TORCH_DDP &&
        made.framework != ZL_TORCH_ZERO1) {
        return zl_fail(err, ZL_E_USAGE, "bucket-view needs the buckets of ddp or zero1, got %s",
                       zl_framework_name(resolved.framework));
    }
    ZL_TRY(zt_lora_read(resolved.lora, &made, err));
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
    made.bucket_view = resolved.bucket_view;
    made.no_prefetch = resolved.no_prefetch;
    made.drop_logits = resolved.drop_logits;
    memcpy(made.alloc_conf, resolved.alloc_conf, sizeof made.alloc_conf);
    for (uint32_t i = 0; i < made.steps; i++) {
        made.skipped[i] = resolved.skipped_step;
    }
    *run = resolved;
    *out = made;
    return ZL_OK;
}
