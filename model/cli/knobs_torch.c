/* Knobs of PyTorch and of DeepSpeed's ds_config.json. */
#include <inttypes.h>
#include <string.h>

#include "knobs.h"
#include "zeroledger/bytes.h"

static const char ds_file[] = "ds_config.json";

/* ---- PyTorch ---- */

static void say(zl_change *out, const char *value, const char *where, const char *line,
                const char *options)
{
    out->where = where;
    snprintf(out->value, sizeof out->value, "%s", value);
    snprintf(out->line, sizeof out->line, "%s", line);
    snprintf(out->options, sizeof out->options, "%s", options);
}

/* The optimizer is one of PyTorch that the program makes itself. */
static bool client(const zl_torch_run *torch)
{
    return torch->framework != ZL_TORCH_DEEPSPEED || torch->optimizer != ZL_TORCH_FROM_CONFIG ||
           torch->ds.optimizer == ZL_DS_CLIENT;
}

bool zl_turn_fused(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    const bool slow =
        torch->optimizer == ZL_TORCH_ADAMW_FOREACH || torch->optimizer == ZL_TORCH_ADAMW_LOOP ||
        (torch->optimizer == ZL_TORCH_FROM_CONFIG &&
         (torch->ds.optimizer == ZL_DS_CLIENT || torch->ds.optimizer == ZL_DS_TORCH_ADAM));
    if (level > 0 || !slow || torch->ds.offload_optimizer != ZL_OFFLOAD_NONE) {
        return false;
    }
    if (!client(torch)) {
        say(out, "FusedAdam", ds_file, "\"optimizer\": {\"params\": {\"torch_adam\": false}}", "");
        return zl_set_key(run, "optimizer.params.torch_adam", "false");
    }
    say(out, "adamw-fused", "optimizer", "torch.optim.AdamW(model.parameters(), fused=True)",
        "--optimizer adamw-fused");
    return zl_run_set(run, "optimizer", "adamw-fused", NULL) == ZL_OK;
}

bool zl_turn_adam8bit(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    const bool adam = torch->optimizer != ZL_TORCH_SGD && torch->optimizer != ZL_TORCH_ADAM8BIT;
    if (level > 0 || !adam || torch->ds.offload_optimizer != ZL_OFFLOAD_NONE) {
        return false;
    }
    say(out, "", "optimizer", "bitsandbytes.optim.AdamW8bit(model.parameters())",
        "--optimizer adam8bit");
    if (!client(torch) && run->ds_config[0] != '\0') {
        snprintf(out->line, sizeof out->line,
                 "bitsandbytes.optim.AdamW8bit(model.parameters()); in the ds_config.json no "
                 "\"optimizer\", but \"zero_allow_untested_optimizer\": true");
        out->options[0] = '\0';
        if (!zl_set_key(run, "optimizer", "null") ||
            !zl_set_key(run, "zero_allow_untested_optimizer", "true")) {
            return false;
        }
    }
    return zl_run_set(run, "optimizer", "adam8bit", NULL) == ZL_OK;
}

bool zl_turn_bucket_view(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    say(out, "True", "DistributedDataParallel(...)", "gradient_as_bucket_view=True",
        "--bucket-view");
    return level == 0 && !torch->bucket_view && zl_run_set(run, "bucket-view", NULL, NULL) == ZL_OK;
}

bool zl_turn_prefetch(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    say(out, "", "FullyShardedDataParallel(...)", "backward_prefetch=None", "--no-prefetch");
    snprintf(out->accelerate, sizeof out->accelerate,
             "fsdp_config: {fsdp_backward_prefetch: NO_PREFETCH}");
    return level == 0 && !torch->no_prefetch && zl_run_set(run, "no-prefetch", NULL, NULL) == ZL_OK;
}

bool zl_turn_drop_logits(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    say(out, "", "training loop", "loss = model(**batch).loss, and no other name for the output",
        "--drop-logits");
    return level == 0 && !torch->drop_logits && torch->activations == 0 &&
           zl_run_set(run, "drop-logits", NULL, NULL) == ZL_OK;
}

bool zl_turn_segments(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    static const char key[] = "expandable_segments";
    enum { LONGEST = 110 }; /* fits a line whole */
    char conf[ZL_ALLOC_CONF_SIZE];
    const bool some = torch->alloc_conf[0] != '\0';
    const int length =
        snprintf(conf, sizeof conf, "%s%s%s:True", torch->alloc_conf, some ? "," : "", key);
    if (level > 0 || strstr(torch->alloc_conf, key) != NULL || length > LONGEST) {
        return false;
    }
    say(out, "expandable_segments:True", "environment", "", "");
    snprintf(out->line, sizeof out->line, "PYTORCH_ALLOC_CONF=%.150s", conf);
    snprintf(out->options, sizeof out->options, "--alloc-conf %.110s", conf);
    return zl_run_set(run, "alloc-conf", conf, NULL) == ZL_OK;
}

/* The projections that peft adapts by default (its table of model types to target_modules), NULL
 * where nobody says what they are called. */
static const char *lora_targets(const zl_hf_config *model)
{
    switch (model->arch) {
    case ZL_HF_GPT2:
        return "c_attn";
    case ZL_HF_BERT_MLM:
    case ZL_HF_BERT_PRETRAINING:
    case ZL_HF_BERT_PRELN:
    case ZL_HF_ROBERTA:
        return "query,value";
    case ZL_HF_DISTILBERT:
        return "q_lin,v_lin";
    case ZL_HF_GPT_NEOX:
    case ZL_HF_FALCON:
        return "query_key_value";
    case ZL_HF_LLAMA:
        return model->fused_projections ? "qkv_proj" : "q_proj,v_proj";
    case ZL_HF_MIXTRAL:
    case ZL_HF_GPTJ:
    case ZL_HF_OPT:
    case ZL_HF_GEMMA:
    case ZL_HF_GEMMA2:
    case ZL_HF_PHI:
    case ZL_HF_QWEN2_MOE:
        return "q_proj,v_proj";
    case ZL_HF_TENSORS:
    case ZL_HF_ARCH_COUNT:
        break;
    }
    return NULL;
}

/* 'a,b' as '"a", "b"'. */
static void quoted(const char *list, char *text, size_t size)
{
    char name[32];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; zl_list_item(list, i, name, sizeof name) && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s\"%s\"", i == 0 ? "" : ", ", name);
    }
}

bool zl_turn_lora(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    enum { RANK = 16 };
    char value[48];
    char names[64];
    const char *targets = lora_targets(&torch->model);
    if (level > 0 || targets == NULL || torch->lora_rank > 0 || torch->trainable_layers > 0) {
        return false;
    }
    snprintf(value, sizeof value, "%d:%s", RANK, targets);
    quoted(targets, names, sizeof names);
    say(out, value, "get_peft_model(model, ...)", "", "");
    snprintf(out->line, sizeof out->line, "LoraConfig(r=%d, target_modules=[%s])", RANK, names);
    snprintf(out->options, sizeof out->options, "--lora %s", value);
    return zl_run_set(run, "lora", value, NULL) == ZL_OK;
}

/* ---- ds_config.json ---- */

static const uint64_t small_reach = 100000000;
static const uint64_t small_prefetch = 5000000;

static bool zero(const zl_torch_run *torch, uint64_t first, uint64_t last)
{
    return torch->stage >= first && torch->stage <= last;
}

/* One key of zero_optimization; the file is the only place that has it. */
static bool turn_key(zl_run *run, const char *key, const char *shown, const char *value,
                     zl_change *out)
{
    char path[96];
    snprintf(path, sizeof path, "zero_optimization.%s", key);
    say(out, shown, ds_file, "", "");
    snprintf(out->line, sizeof out->line, "\"zero_optimization\": {\"%s\": %s}", key, value);
    return zl_set_key(run, path, value);
}

/* Buckets by level, elements. */
static const struct {
    uint64_t elements;
    const char *shown, *value;
} buckets[] = {
    {50000000, "5e7", "50000000"},
    {5000000, "5e6", "5000000"},
    {500000, "5e5", "500000"},
};

static bool turn_bucket(zl_run *run, const char *key, uint64_t now, unsigned level, zl_change *out)
{
    return level < sizeof buckets / sizeof buckets[0] && now > buckets[level].elements &&
           turn_key(run, key, buckets[level].shown, buckets[level].value, out);
}

bool zl_turn_reduce_bucket(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    return zero(torch, 1, 3) &&
           turn_bucket(run, "reduce_bucket_size", torch->ds.reduce_bucket_size, level, out);
}

bool zl_turn_gather_bucket(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    return zero(torch, 1, 2) &&
           turn_bucket(run, "allgather_bucket_size", torch->ds.allgather_bucket_size, level, out);
}

bool zl_turn_overlap(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    return level == 0 && zero(torch, 1, 3) && torch->ds.overlap_comm &&
           turn_key(run, "overlap_comm", "false", "false", out);
}

bool zl_turn_sub_group(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    return level == 0 && zero(torch, 3, 3) && torch->ds.sub_group_size > small_reach &&
           turn_key(run, "sub_group_size", "1e8", "100000000", out);
}

/* Together: any one of them alone keeps what the others let stay. */
bool zl_turn_gathered(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    const struct {
        const char *key;
        uint64_t now, to;
    } keys[] = {
        {"stage3_max_live_parameters", torch->ds.max_live_parameters, small_reach},
        {"stage3_max_reuse_distance", torch->ds.max_reuse_distance, small_reach},
        {"stage3_prefetch_bucket_size", torch->ds.prefetch_bucket_size, small_prefetch},
    };
    char line[192] = "";
    size_t used = 0;
    if (level > 0 || !zero(torch, 3, 3)) {
        return false;
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char path[96];
        char value[24];
        if (keys[i].now > keys[i].to) {
            const char *key = zl_key_spelled(run, keys[i].key);
            snprintf(value, sizeof value, "%" PRIu64, keys[i].to);
            snprintf(path, sizeof path, "zero_optimization.%s", key);
            used += (size_t)snprintf(line + used, sizeof line - used, "%s\"%s\": %s",
                                     used == 0 ? "" : ", ", key, value);
            if (!zl_set_key(run, path, value)) {
                return false;
            }
        }
    }
    say(out, "5e6", ds_file, "", "");
    snprintf(out->line, sizeof out->line, "\"zero_optimization\": {%s}", line);
    return used > 0;
}

static bool turn_offload(zl_run *run, const char *what, zl_change *out)
{
    char key[32];
    snprintf(key, sizeof key, "offload_%s", what);
    const bool turned = turn_key(run, key, "cpu", "{\"device\": \"cpu\"}", out);
    snprintf(out->accelerate, sizeof out->accelerate, "deepspeed_config: {%s_device: cpu}", key);
    return turned;
}

bool zl_turn_offload(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    return level == 0 && zero(torch, 1, 3) && torch->ds.offload_optimizer == ZL_OFFLOAD_NONE &&
           turn_offload(run, "optimizer", out);
}

bool zl_turn_offload_param(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    return level == 0 && zero(torch, 3, 3) && torch->ds.offload_param == ZL_OFFLOAD_NONE &&
           turn_offload(run, "param", out);
}

bool zl_turn_zero_init(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    say(out, "", "where the model is made",
        "with deepspeed.zero.Init(config_dict_or_path=...):", "--zero-init");
    return level == 0 && zero(torch, 3, 3) && !torch->ds.zero_init &&
           zl_run_set(run, "zero-init", NULL, NULL) == ZL_OK;
}
