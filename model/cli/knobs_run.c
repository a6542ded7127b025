/* Knobs that every framework has, and those of the native one. */
#include <inttypes.h>
#include <string.h>

#include "knobs.h"
#include "zeroledger/bytes.h"

static const char ds_file[] = "ds_config.json";

static bool is_deepspeed(const zl_run *run)
{
    return run->framework == ZL_FRAMEWORK_DEEPSPEED;
}

/* Activations that were given do not change with what would change them. */
static bool given(const zl_torch_run *torch)
{
    return torch != NULL && torch->activations > 0;
}

static bool say_option(zl_change *out, const char *option, const char *value)
{
    snprintf(out->value, sizeof out->value, "%s", value);
    snprintf(out->options, sizeof out->options, "--%s %s", option, value);
    return true;
}

/* The option is also the line of zl-train. */
static bool say_native(zl_change *out, const char *option, const char *value)
{
    say_option(out, option, value);
    snprintf(out->line, sizeof out->line, "--%s %s", option, value);
    return true;
}

static bool turn_count(zl_run *run, zl_change *out, const char *option, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return zl_run_set(run, option, text, NULL) == ZL_OK && say_native(out, option, text);
}

/* ---- ranks and stage ---- */

/* train_batch_size, where the file says it, counts all ranks. */
static bool keep_total(zl_run *run, zl_change *out)
{
    char text[24];
    const uint64_t total = zl_prod(run->micro_batch, run->accumulation, run->ranks);
    if (strstr(run->ds_config, "\"train_batch_size\"") == NULL) {
        return true;
    }
    snprintf(text, sizeof text, "%" PRIu64, total);
    out->where = ds_file;
    snprintf(out->line, sizeof out->line, "\"train_batch_size\": %s", text);
    return zl_set_key(run, "train_batch_size", text);
}

/* One GPU shards nothing: with more of them FSDP2, or stage 3 of the native trainer. */
static bool turn_first_ranks(zl_run *run, const char *ranks, zl_change *out)
{
    const bool native = run->framework == ZL_FRAMEWORK_NATIVE;
    const bool autocast = run->precision == ZL_PRECISION_BF16_AUTOCAST;
    const char *precision = autocast ? "bf16-mixed" : zl_precision_name(run->precision);
    if (native) {
        snprintf(out->value, sizeof out->value, "%s --stage 3", ranks);
        snprintf(out->options, sizeof out->options, "--ranks %s --stage 3", ranks);
        memcpy(out->line, out->options, sizeof out->options);
    } else {
        out->where = "launcher, and fully_shard(...)";
        snprintf(out->value, sizeof out->value, "%s --framework fsdp2", ranks);
        snprintf(out->options, sizeof out->options,
                 "--framework fsdp2 --stage 3 --precision %s --ranks %s", precision, ranks);
        snprintf(out->line, sizeof out->line,
                 "torchrun with %s processes in all; fully_shard(layer) for every layer, then "
                 "fully_shard(model)",
                 ranks);
        snprintf(out->accelerate, sizeof out->accelerate,
                 "num_processes: %s; distributed_type: FSDP; fsdp_config: {fsdp_version: 2, "
                 "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}",
                 ranks);
    }
    return (native || (zl_run_set(run, "framework", "fsdp2", NULL) == ZL_OK &&
                       zl_run_set(run, "precision", precision, NULL) == ZL_OK)) &&
           zl_set_count(run, "stage", 3) && zl_run_set(run, "ranks", ranks, NULL) == ZL_OK;
}

bool zl_turn_ranks(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    enum { LEVELS = 6 }; /* twice to 64 times as many */
    char value[24];
    const bool first = run->ranks == 1 && (torch == NULL || torch->framework == ZL_TORCH_SINGLE);
    if (level >= LEVELS || (run->ranks == 1 && !first)) {
        return false;
    }
    snprintf(value, sizeof value, "%" PRIu64, zl_mul(run->ranks, UINT64_C(2) << level));
    if (first) {
        return turn_first_ranks(run, value, out);
    }
    say_native(out, "ranks", value);
    if (torch != NULL) {
        out->where = "launcher";
        snprintf(out->line, sizeof out->line, "torchrun with %s processes in all", value);
        snprintf(out->accelerate, sizeof out->accelerate, "num_processes: %s", value);
    }
    return zl_run_set(run, "ranks", value, NULL) == ZL_OK && keep_total(run, out);
}

/* FSDP2 in place of DDP: what its policy calls mixed is what autocast computes in. */
static bool turn_fsdp(zl_run *run, uint64_t stage, zl_change *out)
{
    const bool autocast = run->precision == ZL_PRECISION_BF16_AUTOCAST;
    const char *precision = autocast ? "bf16-mixed" : zl_precision_name(run->precision);
    out->where = "fully_shard(...) in place of DDP";
    snprintf(out->value, sizeof out->value, "%" PRIu64 " --framework fsdp2", stage);
    snprintf(out->options, sizeof out->options,
             "--framework fsdp2 --stage %" PRIu64 " --precision %s", stage, precision);
    snprintf(out->line, sizeof out->line, "reshard_after_forward=%s%s",
             stage == 3 ? "True" : "False",
             autocast ? ", mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, "
                        "reduce_dtype=torch.float32)"
                      : "");
    snprintf(
        out->accelerate, sizeof out->accelerate,
        "distributed_type: FSDP; fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: %s, "
        "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}",
        stage == 3 ? "true" : "false");
    run->bucket_view = false;
    return zl_run_set(run, "framework", "fsdp2", NULL) == ZL_OK &&
           zl_run_set(run, "precision", precision, NULL) == ZL_OK &&
           zl_set_count(run, "stage", stage);
}

static bool turn_zero1(zl_run *run, zl_change *out)
{
    out->where = "optimizer";
    snprintf(out->value, sizeof out->value, "1 --framework zero1");
    snprintf(out->options, sizeof out->options, "--framework zero1 --stage 1");
    snprintf(
        out->line, sizeof out->line,
        "ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=lr)");
    return zl_run_set(run, "framework", "zero1", NULL) == ZL_OK && zl_set_count(run, "stage", 1);
}

bool zl_turn_stage(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    char value[24];
    const uint64_t stage = zl_add(run->stage, zl_add(level, 1));
    (void)torch;
    if (stage > 3 || run->ranks < 2) {
        return false;
    }
    snprintf(value, sizeof value, "%" PRIu64, stage);
    switch (run->framework) {
    case ZL_FRAMEWORK_NATIVE:
        return zl_run_set(run, "stage", value, NULL) == ZL_OK && say_native(out, "stage", value);
    case ZL_FRAMEWORK_DEEPSPEED:
        out->where = ds_file;
        say_option(out, "stage", value);
        snprintf(out->accelerate, sizeof out->accelerate, "deepspeed_config: {zero_stage: %s}",
                 value);
        snprintf(out->line, sizeof out->line, "\"zero_optimization\": {\"stage\": %s}", value);
        return zl_set_both(run, "stage", "zero_optimization.stage", value);
    case ZL_FRAMEWORK_DDP:
    case ZL_FRAMEWORK_ZERO1:
        return stage == 1 ? turn_zero1(run, out) : turn_fsdp(run, stage, out);
    case ZL_FRAMEWORK_FSDP2:
        out->where = "fully_shard(...)";
        say_option(out, "stage", value);
        snprintf(out->line, sizeof out->line, "reshard_after_forward=True");
        snprintf(out->accelerate, sizeof out->accelerate,
                 "fsdp_config: {fsdp_reshard_after_forward: true}");
        return zl_run_set(run, "stage", value, NULL) == ZL_OK;
    case ZL_FRAMEWORK_SINGLE:
    case ZL_FRAMEWORK_FSDP1:
    case ZL_FRAMEWORK_COUNT:
        break;
    }
    return false;
}

/* ---- batch and sequence ---- */

/* The level-th divisor below B, the largest first; 0 past the end. Of huge batches the halves. */
static uint64_t smaller_batch(uint64_t batch, unsigned level)
{
    enum { DIVISORS_TO = 4096 };
    if (batch > DIVISORS_TO) {
        const uint64_t half = level < 63 ? batch >> (level + 1) : 0;
        return zl_mul(half, UINT64_C(2) << level) == batch ? half : 0;
    }
    for (uint64_t d = batch / 2; d > 0; d--) {
        if (batch % d == 0 && level-- == 0) {
            return d;
        }
    }
    return 0;
}

bool zl_turn_micro_batch(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    char micro[24];
    char steps[24];
    const uint64_t batch = smaller_batch(run->micro_batch, level);
    if (batch == 0 || given(torch)) {
        return false;
    }
    snprintf(micro, sizeof micro, "%" PRIu64, batch);
    snprintf(steps, sizeof steps, "%" PRIu64,
             zl_mul(run->accumulation, zl_exact_div(run->micro_batch, batch)));
    snprintf(out->value, sizeof out->value, "%s --accumulation %s", micro, steps);
    snprintf(out->options, sizeof out->options, "--micro-batch %s --accumulation %s", micro, steps);
    if (is_deepspeed(run)) {
        out->where = ds_file;
        snprintf(out->line, sizeof out->line,
                 "\"train_micro_batch_size_per_gpu\": %s, \"gradient_accumulation_steps\": %s",
                 micro, steps);
        snprintf(out->accelerate, sizeof out->accelerate,
                 "deepspeed_config: {gradient_accumulation_steps: %s}", steps);
        return zl_set_both(run, "micro-batch", "train_micro_batch_size_per_gpu", micro) &&
               zl_set_both(run, "accumulation", "gradient_accumulation_steps", steps);
    }
    if (torch != NULL) {
        out->where = "TrainingArguments(...)";
        snprintf(out->line, sizeof out->line,
                 "per_device_train_batch_size=%s, gradient_accumulation_steps=%s", micro, steps);
    } else {
        memcpy(out->line, out->options, sizeof out->options);
    }
    return zl_run_set(run, "micro-batch", micro, NULL) == ZL_OK &&
           zl_run_set(run, "accumulation", steps, NULL) == ZL_OK;
}

bool zl_turn_seq(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    enum { LEVELS = 3, LEAST = 128 };
    const uint64_t seq = level < LEVELS ? run->seq >> (level + 1) : 0;
    if (seq < LEAST || given(torch) || !turn_count(run, out, "seq", seq)) {
        return false;
    }
    if (torch != NULL) {
        out->where = "tokenizer";
        snprintf(out->line, sizeof out->line, "max_length=%s, truncation=True", out->value);
    }
    return true;
}

/* ---- activations ---- */

bool zl_turn_recompute(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    const unsigned first = torch != NULL ? ZL_RECOMPUTE_FULL : (unsigned)run->recompute + 1;
    if (zl_add(first, level) > ZL_RECOMPUTE_FULL || run->recompute == ZL_RECOMPUTE_FULL ||
        given(torch)) {
        return false;
    }
    const char *value = zl_recompute_name((zl_recompute)(first + level));
    say_native(out, "recompute", value);
    if (torch != NULL) {
        out->where = "model";
        snprintf(out->line, sizeof out->line,
                 "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs="
                 "{\"use_reentrant\": False})");
    }
    if (run->framework == ZL_FRAMEWORK_FSDP1 || run->framework == ZL_FRAMEWORK_FSDP2) {
        snprintf(out->accelerate, sizeof out->accelerate,
                 "fsdp_config: {fsdp_activation_checkpointing: true}");
    }
    return zl_run_set(run, "recompute", value, NULL) == ZL_OK;
}

bool zl_turn_attention(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    static const char *const better[] = {"sdpa", "flash"};
    if (torch == NULL) {
        return level == 0 && run->attention == ZL_ATTENTION_EAGER &&
               zl_run_set(run, "attention", "flash", NULL) == ZL_OK &&
               say_native(out, "attention", "flash");
    }
    const unsigned first = torch->attention == ZL_TORCH_EAGER  ? 0
                           : torch->attention == ZL_TORCH_SDPA ? 1
                                                               : 2;
    if (level >= 2 || first + level >= 2 || given(torch)) {
        return false;
    }
    const char *value = better[first + level];
    say_option(out, "attention", value);
    out->where = "from_pretrained(...)";
    snprintf(out->line, sizeof out->line, "attn_implementation=\"%s\"",
             first + level == 0 ? "sdpa" : "flash_attention_2");
    return zl_run_set(run, "attention", value, NULL) == ZL_OK;
}

/* ---- numbers ---- */

/* Types with fewer bytes, as far as the framework has them. */
static size_t narrower(const zl_run *run, zl_precision out[2])
{
    const bool fp32 = run->precision == ZL_PRECISION_FP32;
    const bool mixes = run->framework == ZL_FRAMEWORK_NATIVE || is_deepspeed(run) ||
                       run->framework == ZL_FRAMEWORK_FSDP1 || run->framework == ZL_FRAMEWORK_FSDP2;
    size_t count = 0;
    if (fp32) {
        out[count++] = mixes ? ZL_PRECISION_BF16_MIXED : ZL_PRECISION_BF16_AUTOCAST;
    }
    if (!is_deepspeed(run) && run->precision != ZL_PRECISION_BF16) {
        out[count++] = ZL_PRECISION_BF16;
    }
    return count;
}

static void say_precision(const zl_run *run, zl_precision precision, zl_change *out)
{
    const bool fsdp = run->framework == ZL_FRAMEWORK_FSDP1 || run->framework == ZL_FRAMEWORK_FSDP2;
    const char *line = "";
    if (precision == ZL_PRECISION_BF16) {
        out->where = "from_pretrained(...)";
        line = "dtype=torch.bfloat16";
    } else if (is_deepspeed(run)) {
        out->where = ds_file;
        line = "\"bf16\": {\"enabled\": true}";
    } else if (fsdp) {
        out->where = "MixedPrecisionPolicy(...)";
        line = "param_dtype=torch.bfloat16, reduce_dtype=torch.float32";
    } else {
        out->where = "forward";
        line = "torch.autocast(\"cuda\", dtype=torch.bfloat16)";
    }
    snprintf(out->line, sizeof out->line, "%s", line);
}

bool zl_turn_precision(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    zl_precision choice[2];
    const size_t count = narrower(run, choice);
    if (level >= count || given(torch)) {
        return false;
    }
    const char *value = zl_precision_name(choice[level]);
    say_native(out, "precision", value);
    if (torch != NULL) {
        say_precision(run, choice[level], out);
        snprintf(out->accelerate, sizeof out->accelerate, "%s",
                 choice[level] == ZL_PRECISION_BF16 ? "" : "mixed_precision: bf16");
    }
    if (is_deepspeed(run) && run->ds_config[0] != '\0') {
        return zl_set_key(run, "bf16.enabled", "true") &&
               (!zl_run_given(run, "precision") ||
                zl_run_set(run, "precision", value, NULL) == ZL_OK);
    }
    return zl_run_set(run, "precision", value, NULL) == ZL_OK;
}

bool zl_turn_grad_dtype(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    const bool wide = torch != NULL ? torch->ds.grad_accum_fp32 : run->grad_dtype == ZL_GRAD_FP32;
    const bool narrow = run->precision != ZL_PRECISION_FP32;
    if (level > 0 || !wide || !narrow) {
        return false;
    }
    say_native(out, "grad-dtype", "model");
    if (torch == NULL) {
        return zl_run_set(run, "grad-dtype", "model", NULL) == ZL_OK;
    }
    const char *dtype = run->precision == ZL_PRECISION_FP16_MIXED ? "\"fp16\"" : "\"bf16\"";
    out->where = ds_file;
    out->options[0] = '\0';
    snprintf(out->line, sizeof out->line, "\"data_types\": {\"grad_accum_dtype\": %s}", dtype);
    return zl_set_key(run, "data_types.grad_accum_dtype", dtype) &&
           (!zl_run_given(run, "grad-dtype") ||
            zl_run_set(run, "grad-dtype", "model", NULL) == ZL_OK);
}

/* ---- native only ---- */

bool zl_turn_head_chunk(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    enum { LEVELS = 2, PARTS = 8, LEAST = 64 };
    const uint64_t rows = zl_mul(run->micro_batch, run->seq);
    const uint64_t now = run->head_chunk == 0 ? rows : zl_min(run->head_chunk, rows);
    uint64_t chunk = now;
    (void)torch;
    for (unsigned i = 0; i <= level && level < LEVELS; i++) {
        chunk = zl_ceil_div(chunk, PARTS);
    }
    return chunk < now && (level == 0 || chunk >= LEAST) &&
           turn_count(run, out, "head-chunk", chunk);
}

bool zl_turn_window(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    (void)torch;
    return level == 0 && run->stage == 3 && run->window > 0 && turn_count(run, out, "window", 0);
}

bool zl_turn_reduce_slots(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    (void)torch;
    return level == 0 && run->stage >= 2 && run->reduce_slots > 1 &&
           turn_count(run, out, "reduce-slots", 1);
}

bool zl_turn_shard_copy(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out)
{
    (void)torch;
    snprintf(out->line, sizeof out->line, "--no-shard-copy");
    snprintf(out->options, sizeof out->options, "--no-shard-copy");
    return level == 0 && run->stage == 3 && run->shard_copy &&
           zl_run_set(run, "no-shard-copy", NULL, NULL) == ZL_OK;
}
