#include "records/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/text.h"

/* torch_measure.py passes this where a record has no bucket_cap_mb. */
static const double default_bucket_cap_mb = 25;

struct zv_setup {
    zl_json_doc *doc;
    zl_json meta_init; /* an array of labels */
};

void zv_setup_free(zv_setup *setup)
{
    if (setup != NULL) {
        zl_json_free(setup->doc);
        free(setup);
    }
}

zl_status zv_setup_load(const char *path, zv_setup **out, zl_err *err)
{
    static const char *const keys[] = {"source", "fsdp2_meta_init"};
    zl_status status;
    zv_setup *const setup = calloc(1, sizeof *setup);
    if (setup == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for %s", path);
    }
    ZL_TRY_GOTO(status, zl_json_load(path, &setup->doc, err), fail);
    const zl_json root = zl_json_root(setup->doc);
    setup->meta_init = zl_json_get(root, "fsdp2_meta_init");
    ZL_TRY_GOTO(status, zl_json_only(root, keys, sizeof keys / sizeof keys[0], err), fail);
    if (!zl_json_is_array(setup->meta_init)) {
        status = zl_fail(err, ZL_E_INPUT, "%s: fsdp2_meta_init must be a list", path);
        goto fail;
    }
    *out = setup;
    return ZL_OK;
fail:
    zv_setup_free(setup);
    return status;
}

static bool born_on_meta(const zv_setup *setup, const char *label)
{
    for (size_t i = 0; i < zl_json_size(setup->meta_init); i++) {
        zl_err ignored = {0};
        const char *name = "";
        if (zl_json_string(zl_json_item(setup->meta_init, i), &name, &ignored) == ZL_OK &&
            strcmp(name, label) == 0) {
            return true;
        }
    }
    return false;
}

/* A member of `config`; absent ones leave *out alone. */
static zl_status get_count(zl_json config, const char *key, uint64_t *out, zl_err *err)
{
    const zl_json value = zl_json_get(config, key);
    return value.node == NULL ? ZL_OK : zl_json_u64(value, out, err);
}

static zl_status get_flag(zl_json config, const char *key, bool *out, zl_err *err)
{
    const zl_json value = zl_json_get(config, key);
    return value.node == NULL ? ZL_OK : zl_json_bool(value, out, err);
}

static zl_status get_real(zl_json config, const char *key, double *out, zl_err *err)
{
    const zl_json value = zl_json_get(config, key);
    return value.node == NULL ? ZL_OK : zl_json_real(value, out, err);
}

/* Copies a string that fits; absent ones leave it alone. */
static zl_status get_text(zl_json object, const char *key, char *out, size_t size, zl_err *err)
{
    const zl_json value = zl_json_get(object, key);
    const char *text = NULL;
    if (value.node == NULL) {
        return ZL_OK;
    }
    ZL_TRY(zl_json_string(value, &text, err));
    if (strlen(text) >= size) {
        return zl_fail(err, ZL_E_INPUT, "%s is longer than %zu characters", value.path, size - 1);
    }
    memcpy(out, text, strlen(text) + 1);
    return ZL_OK;
}

typedef struct word {
    const char *text;
    unsigned value;
} word;

/* A word of a list; absent: `absent`, or ZL_E_INPUT where that is NULL. */
static zl_status get_word(zl_json config, const char *key, const word *words, size_t count,
                          const char *absent, unsigned *out, zl_err *err)
{
    const zl_json value = zl_json_get(config, key);
    const char *text = absent;
    if (value.node != NULL || absent == NULL) {
        ZL_TRY(zl_json_string(value, &text, err));
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i].text, text) == 0) {
            *out = words[i].value;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_UNMODELLED, "%s '%.60s' is not modelled", key, text);
}

#define GET_WORD(config, key, words, absent, out, err)                                             \
    get_word((config), (key), (words), sizeof(words) / sizeof((words)[0]), (absent), (out), (err))

typedef struct framework_word {
    const char *text;
    zl_torch_framework framework;
    const char *stage;
} framework_word;

static const framework_word frameworks[] = {
    {"single", ZL_TORCH_SINGLE, ""},       {"ddp", ZL_TORCH_DDP, "0"},
    {"zero1", ZL_TORCH_ZERO1, "1"},        {"fsdp1", ZL_TORCH_FSDP1, "3"},
    {"fsdp2", ZL_TORCH_FSDP2, "3"},        {"fsdp2-zero2", ZL_TORCH_FSDP2, "2"},
    {"deepspeed", ZL_TORCH_DEEPSPEED, ""},
};

static const word torch_precisions[] = {{"fp32", ZL_TORCH_FP32},
                                        {"bf16", ZL_TORCH_BF16},
                                        {"bf16-autocast", ZL_TORCH_BF16_AUTOCAST},
                                        {"bf16-mp", ZL_TORCH_BF16_MIXED}};
static const word deepspeed_precisions[] = {
    {"fp32", ZL_TORCH_FP32}, {"bf16", ZL_TORCH_BF16_MIXED}, {"fp16", ZL_TORCH_FP16_MIXED}};
static const word attentions[] = {{"eager", ZL_TORCH_EAGER},
                                  {"sdpa", ZL_TORCH_SDPA},
                                  {"flash_attention_2", ZL_TORCH_FLASH},
                                  {"flash", ZL_TORCH_FLASH}};
static const word torch_optimizers[] = {{"adamw-fused", ZL_TORCH_ADAMW_FUSED},
                                        {"adamw-foreach", ZL_TORCH_ADAMW_FOREACH},
                                        {"adamw", ZL_TORCH_ADAMW_FOREACH}, /* torch's default */
                                        {"adamw-loop", ZL_TORCH_ADAMW_LOOP},
                                        {"adam8bit", ZL_TORCH_ADAM8BIT},
                                        {"sgd", ZL_TORCH_SGD}};
static const word deepspeed_optimizers[] = {{"config", ZL_TORCH_FROM_CONFIG},
                                            {"adamw-fused", ZL_TORCH_ADAMW_FUSED},
                                            {"adamw-foreach", ZL_TORCH_ADAMW_FOREACH},
                                            {"adamw-loop", ZL_TORCH_ADAMW_LOOP}};

static void warn_unknown(zl_json config, zl_warn *warn, void *context)
{
    static const char *const known[] = {
        "id",         "model",         "hf_config",   "framework",      "world",
        "precision",  "seq",           "attn",        "optimizer",      "accum",
        "ckpt",       "dropout",       "stage",       "ds_config",      "alloc_conf",
        "lora",       "freeze",        "bucket_view", "version",        "zero_init",
        "fake",       "steps",         "reentrant",   "micro_batch",    "trace",
        "timeout",    "bucket_cap_mb", "drop_logits", "shifted_logits", "rotary_tables",
        "no_prefetch"};
    for (size_t i = 0; warn != NULL && i < zl_json_size(config); i++) {
        const char *const key = zl_json_key(config, i);
        bool found = false;
        for (size_t k = 0; k < sizeof known / sizeof known[0] && !found; k++) {
            found = strcmp(known[k], key) == 0;
        }
        if (!found) {
            char line[160];
            snprintf(line, sizeof line, "config.%.100s is not known; it is ignored", key);
            warn(context, line);
        }
    }
}

static zl_status read_lora(zl_json lora, zl_torch_run *run, zl_err *err)
{
    static const char *const keys[] = {"r", "targets", "dropout"};
    if (lora.node == NULL) {
        return ZL_OK;
    }
    ZL_TRY(zl_json_only(lora, keys, sizeof keys / sizeof keys[0], err));
    ZL_TRY(zl_json_u64(zl_json_get(lora, "r"), &run->lora_rank, err));
    ZL_TRY(get_real(lora, "dropout", &run->lora_dropout, err));
    const zl_json targets = zl_json_get(lora, "targets");
    const size_t count = zl_json_size(targets);
    if (!zl_json_is_array(targets) || count == 0 || count > ZL_LORA_TARGETS_MAX) {
        return zl_fail(err, ZL_E_INPUT, "%s must be a list of 1 to %d names", targets.path,
                       ZL_LORA_TARGETS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        const zl_json target = zl_json_item(targets, i);
        const char *name = NULL;
        ZL_TRY(zl_json_string(target, &name, err));
        if (strlen(name) >= ZL_LORA_NAME) {
            return zl_fail(err, ZL_E_INPUT, "%s is longer than %d characters", target.path,
                           ZL_LORA_NAME - 1);
        }
        snprintf(run->lora_target[i], ZL_LORA_NAME, "%s", name);
    }
    run->lora_targets = (uint32_t)count;
    return ZL_OK;
}

/* How both scripts shape the training loop. */
static zl_status read_loop(zl_json config, zl_torch_run *run, zl_err *err)
{
    uint64_t steps = run->steps;
    unsigned attention = run->attention;
    bool reentrant = false;
    ZL_TRY(zl_json_u64(zl_json_get(config, "micro_batch"), &run->micro_batch, err));
    ZL_TRY(zl_json_u64(zl_json_get(config, "seq"), &run->seq, err));
    ZL_TRY(GET_WORD(config, "attn", attentions, NULL, &attention, err));
    ZL_TRY(get_count(config, "steps", &steps, err));
    ZL_TRY(get_flag(config, "ckpt", &run->checkpointing, err));
    ZL_TRY(get_flag(config, "reentrant", &reentrant, err));
    ZL_TRY(get_flag(config, "drop_logits", &run->drop_logits, err));
    ZL_TRY(get_flag(config, "shifted_logits", &run->shifted_logits, err));
    ZL_TRY(get_flag(config, "rotary_tables", &run->rotary_tables, err));
    ZL_TRY(get_flag(config, "no_prefetch", &run->no_prefetch, err));
    if (steps == 0 || steps > ZL_TORCH_STEPS_MAX) {
        return zl_fail(err, ZL_E_UNMODELLED, "config.steps: %" PRIu64 " steps are not modelled",
                       steps);
    }
    if (run->checkpointing && reentrant) {
        return zl_fail(err, ZL_E_UNMODELLED, "config.reentrant is not modelled");
    }
    run->attention = (zl_torch_attention)attention;
    run->steps = (uint32_t)steps;
    return ZL_OK;
}

static zl_status read_torch(zl_json config, zl_torch_run *run, zl_err *err)
{
    unsigned precision = run->precision;
    unsigned optimizer = run->optimizer;
    ZL_TRY(GET_WORD(config, "precision", torch_precisions, NULL, &precision, err));
    ZL_TRY(GET_WORD(config, "optimizer", torch_optimizers, "adamw", &optimizer, err));
    ZL_TRY(get_count(config, "accum", &run->accumulation, err));
    ZL_TRY(get_flag(config, "bucket_view", &run->bucket_view, err));
    ZL_TRY(get_count(config, "freeze", &run->trainable_layers, err));
    ZL_TRY(get_text(config, "alloc_conf", run->alloc_conf, sizeof run->alloc_conf, err));
    ZL_TRY(read_lora(zl_json_get(config, "lora"), run, err));
    run->bucket_cap_mb = default_bucket_cap_mb;
    ZL_TRY(get_real(config, "bucket_cap_mb", &run->bucket_cap_mb, err));
    run->precision = (zl_torch_precision)precision;
    run->optimizer = (zl_torch_optimizer)optimizer;
    return ZL_OK;
}

static zl_status read_deepspeed(zl_json config, const char *version, zl_warn *warn, void *context,
                                zl_torch_run *run, zl_err *err)
{
    const zl_json file = zl_json_get(config, "ds_config");
    unsigned precision = run->precision;
    unsigned optimizer = run->optimizer;
    uint32_t release = 0;
    ZL_TRY(GET_WORD(config, "precision", deepspeed_precisions, NULL, &precision, err));
    ZL_TRY(GET_WORD(config, "optimizer", deepspeed_optimizers, "config", &optimizer, err));
    ZL_TRY(zl_ds_version_parse(version, &release, err));
    ZL_TRY(zl_ds_config_read(file, release, &run->ds, warn, context, err));
    ZL_TRY(get_flag(config, "zero_init", &run->ds.zero_init, err));
    run->accumulation = run->ds.accumulation;
    run->stage = run->ds.stage;
    run->precision = (zl_torch_precision)precision;
    run->optimizer = (zl_torch_optimizer)optimizer;
    return ZL_OK;
}

/* `skipped` counts the skipped steps so far, so a step was skipped where it grew. */
static zl_status read_skipped(zl_json ranks, zl_torch_run *run, zl_err *err)
{
    const zl_json skipped = zl_json_get(zl_json_item(ranks, 0), "skipped");
    uint64_t before = 0;
    for (size_t i = 0; i < zl_json_size(skipped) && i < ZL_TORCH_STEPS_MAX; i++) {
        uint64_t now = 0;
        ZL_TRY(zl_json_u64(zl_json_item(skipped, i), &now, err));
        run->skipped[i] = now > before;
        before = now;
    }
    return ZL_OK;
}

/* Identity: what the record is called and where its measurements are. */
static zl_status read_label(zl_json line, const framework_word **framework, zv_record *out,
                            zl_err *err)
{
    const zl_json config = zl_json_get(line, "config");
    const zl_json env = zl_json_get(line, "env");
    if (!zl_json_is_object(config)) {
        return zl_fail(err, ZL_E_INPUT, "config is missing; is it a record of a training run?");
    }
    ZL_TRY(get_text(config, "id", out->id, sizeof out->id, err));
    ZL_TRY(get_text(config, "framework", out->framework, sizeof out->framework, err));
    ZL_TRY(get_text(env, "torch", out->version, sizeof out->version, err));
    ZL_TRY(get_text(config, "version", out->version, sizeof out->version, err));
    out->ranks = zl_json_get(line, "ranks");
    if (out->id[0] == '\0' || !zl_json_is_array(out->ranks)) {
        return zl_fail(err, ZL_E_INPUT, "%s is missing",
                       out->id[0] == '\0' ? "config.id" : "ranks");
    }
    for (size_t i = 0; i < sizeof frameworks / sizeof frameworks[0]; i++) {
        if (strcmp(frameworks[i].text, out->framework) == 0) {
            *framework = &frameworks[i];
            snprintf(out->stage, sizeof out->stage, "%s", frameworks[i].stage);
            return ZL_OK;
        }
    }
    *framework = NULL;
    return ZL_OK;
}

static zl_status read_run(zl_json config, const framework_word *framework, const zv_setup *setup,
                          zl_warn *warn, void *context, zv_record *out, zl_err *err)
{
    zl_torch_run *const run = &out->run;
    char label[64] = "";
    uint64_t fake = 0; /* rank 0 of that many simulated ranks */
    ZL_TRY(zl_json_u64(zl_json_get(config, "world"), &run->ranks, err));
    ZL_TRY(get_count(config, "fake", &fake, err));
    run->simulated = fake > 0;
    run->ranks = fake > 0 ? fake : run->ranks;
    run->framework = framework->framework;
    if (framework->framework == ZL_TORCH_DEEPSPEED) {
        uint64_t stage = 0;
        ZL_TRY(get_count(config, "stage", &stage, err));
        snprintf(out->stage, sizeof out->stage, "%" PRIu64, stage % 10);
        ZL_TRY(read_deepspeed(config, out->version, warn, context, run, err));
    } else {
        run->stage = framework->stage[0] == '\0' ? 0 : (uint64_t)(framework->stage[0] - '0');
        ZL_TRY(read_torch(config, run, err));
        ZL_TRY(get_text(config, "model", label, sizeof label, err));
        run->meta_init = run->framework == ZL_TORCH_FSDP2 && born_on_meta(setup, label);
    }
    ZL_TRY(read_loop(config, run, err));
    return zl_hf_config_read(zl_json_get(config, "hf_config"), &run->model, err);
}

zl_status zv_record_read(zl_json line, const zv_setup *setup, zl_warn *warn, void *context,
                         zv_record *out, zl_err *err)
{
    const zl_json config = zl_json_get(line, "config");
    const framework_word *framework = NULL;
    *out = (zv_record){0};
    zl_torch_run_init(&out->run);
    ZL_TRY(read_label(line, &framework, out, err));
    warn_unknown(config, warn, context);
    const zl_json failure = zl_json_get(line, "error");
    if (failure.node != NULL) {
        return zl_fail(err, ZL_E_UNMODELLED, "the measurement itself failed");
    }
    if (framework == NULL) {
        return zl_fail(err, ZL_E_UNMODELLED, "framework '%s' is not modelled", out->framework);
    }
    ZL_TRY(read_run(config, framework, setup, warn, context, out, err));
    return read_skipped(out->ranks, &out->run, err);
}

zl_status zv_record_rank(const zv_record *record, zl_json rank, zl_torch_run *run, uint64_t *number,
                         zl_err *err)
{
    *run = record->run;
    ZL_TRY(zl_json_u64(zl_json_get(rank, "rank"), number, err));
    ZL_TRY(get_count(rank, "device_total", &run->device_total, err));
    return get_count(rank, "device_used_context", &run->device_context, err);
}
