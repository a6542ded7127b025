/* The table of knobs, and how one is turned. */
#include "knobs.h"

#include <inttypes.h>
#include <string.h>

#include "zeroledger/bytes.h"

static const zl_knob knobs[ZL_KNOBS] = {
    {"reduce_bucket_size", ZL_PRICE_NONE, "more and smaller reductions", ZL_ON_DEEPSPEED, 1,
     zl_turn_reduce_bucket},
    {"allgather_bucket_size", ZL_PRICE_NONE, "more and smaller gathers after the step",
     ZL_ON_DEEPSPEED, 1, zl_turn_gather_bucket},
    {"overlap_comm", ZL_PRICE_TIME, "backward waits for its reductions", ZL_ON_DEEPSPEED, 1,
     zl_turn_overlap},
    {"stage3_max_live_parameters and stage3_max_reuse_distance 1e8, stage3_prefetch_bucket_size",
     ZL_PRICE_TIME, "parameters are gathered again sooner, and later ahead", ZL_ON_DEEPSPEED, 1,
     zl_turn_gathered},
    {"sub_group_size", ZL_PRICE_NONE, "the step runs in more and smaller parts", ZL_ON_DEEPSPEED, 1,
     zl_turn_sub_group},
    {"offload_optimizer.device", ZL_PRICE_TIME,
     "the update runs on the CPU; gradients go there and parameters come back", ZL_ON_DEEPSPEED, 1,
     zl_turn_offload},
    {"offload_param.device", ZL_PRICE_TIME, "parameters come from the host for every use",
     ZL_ON_DEEPSPEED, 0, zl_turn_offload_param},
    {"--zero-init", ZL_PRICE_NONE, "nothing; the model is never whole on one GPU", ZL_ON_DEEPSPEED,
     0, zl_turn_zero_init},
    {"--ranks", ZL_PRICE_RANKS, "more GPUs, and the global batch grows with them", ZL_ON_ALL, 1,
     zl_turn_ranks},
    {"--stage", ZL_PRICE_TIME, "more communication", ZL_ON_ALL, 3, zl_turn_stage},
    {"--optimizer", ZL_PRICE_NONE, "nothing; one kernel in place of many", ZL_ON_WALKED, 1,
     zl_turn_fused},
    {"gradient_as_bucket_view", ZL_PRICE_NONE, "nothing; gradients may not be detached",
     ZL_ON_BUCKETS, 1, zl_turn_bucket_view},
    {"--no-prefetch", ZL_PRICE_TIME, "backward waits for its gathers", ZL_ON(FSDP1), 1,
     zl_turn_prefetch},
    {"--drop-logits", ZL_PRICE_NONE, "nothing; the output is gone once the loss is there",
     ZL_ON_WALKED, 0, zl_turn_drop_logits},
    {"--alloc-conf", ZL_PRICE_NONE, "little; segments grow instead of being cut", ZL_ON_WALKED, 0,
     zl_turn_segments},
    {"--window", ZL_PRICE_TIME, "gathers are waited for", ZL_ON_NATIVE, 1, zl_turn_window},
    {"--reduce-slots", ZL_PRICE_TIME, "reductions are waited for", ZL_ON_NATIVE, 1,
     zl_turn_reduce_slots},
    {"--no-shard-copy", ZL_PRICE_TIME, "every gather casts the master shard first", ZL_ON_NATIVE, 0,
     zl_turn_shard_copy},
    {"--head-chunk", ZL_PRICE_NONE, "more and smaller products in the head", ZL_ON_NATIVE, 1,
     zl_turn_head_chunk},
    {"--attention", ZL_PRICE_NONE, "nothing; faster", ZL_ON_ALL, 1, zl_turn_attention},
    {"--recompute", ZL_PRICE_TIME, "what is not kept is computed again in backward", ZL_ON_ALL, 2,
     zl_turn_recompute},
    {"--micro-batch", ZL_PRICE_TIME,
     "same result with more accumulation; smaller products are less efficient", ZL_ON_ALL, 1,
     zl_turn_micro_batch},
    {"--grad-dtype", ZL_PRICE_RESULT, "gradients are added up in 16 bits",
     ZL_ON_NATIVE | ZL_ON_DEEPSPEED, 0, zl_turn_grad_dtype},
    {"--optimizer adam8bit", ZL_PRICE_RESULT, "states in 8 bits, block-wise quantised",
     ZL_ON_WALKED, 0, zl_turn_adam8bit},
    {"--precision", ZL_PRICE_RESULT, "less precise numbers", ZL_ON_ALL, 0, zl_turn_precision},
    {"--seq", ZL_PRICE_RESULT, "shorter context, fewer tokens in a step", ZL_ON_ALL, 0,
     zl_turn_seq},
    {"--lora", ZL_PRICE_RESULT, "only adapters train", ZL_ON_WALKED, 0, zl_turn_lora},
};

const zl_knob *zl_knob_at(size_t index)
{
    return index < ZL_KNOBS && knobs[index].name != NULL ? &knobs[index] : NULL;
}

void zl_change_label(const zl_change *change, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s", change->knob->name, change->value[0] != '\0' ? " " : "",
             change->value);
}

static bool resolve(const zl_torch_run *torch, zl_turned *turned)
{
    if (zl_run_check(&turned->run, NULL) != ZL_OK) {
        return false;
    }
    if (torch == NULL) {
        return true;
    }
    if (zl_torch_run_from(&turned->run, &turned->torch, NULL, NULL, NULL) != ZL_OK) {
        return false;
    }
    turned->torch.multiprocessors = torch->multiprocessors;
    turned->torch.capability = torch->capability;
    turned->torch.device_total = torch->device_total;
    return true;
}

bool zl_knob_turn(const zl_knob *knob, unsigned level, const zl_run *run, const zl_torch_run *torch,
                  zl_turned *out)
{
    const bool has = (knob->frameworks >> run->framework & 1) != 0;
    out->run = *run;
    out->change = (zl_change){.knob = knob, .where = "zl-train"};
    if (!has || !knob->turn(torch, level, &out->run, &out->change)) {
        return false;
    }
    out->possible = resolve(torch, out);
    return true;
}

bool zl_set_count(zl_run *run, const char *option, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return zl_run_set(run, option, text, NULL) == ZL_OK;
}

const char *zl_key_spelled(const zl_run *run, const char *key)
{
    static const char prefix[] = "stage3_";
    const size_t length = sizeof prefix - 1;
    zl_json_doc *doc = NULL;
    const char *text = run->ds_config;
    if (strncmp(key, prefix, length) != 0 ||
        zl_json_parse("ds_config.json", text, strlen(text), &doc, NULL) != ZL_OK) {
        return key;
    }
    const zl_json object = zl_json_get(zl_json_root(doc), "zero_optimization");
    const bool older = zl_json_get(object, key + length).node != NULL;
    zl_json_free(doc);
    return older ? key + length : key;
}

bool zl_set_key(zl_run *run, const char *path, const char *value)
{
    return zl_ds_config_of_options(run, NULL) == ZL_OK &&
           zl_run_set_config(run, path, value, NULL) == ZL_OK;
}

bool zl_set_both(zl_run *run, const char *option, const char *path, const char *value)
{
    const bool file = run->ds_config[0] != '\0';
    if (file && !zl_set_key(run, path, value)) {
        return false;
    }
    return (file && !zl_run_given(run, option)) || zl_run_set(run, option, value, NULL) == ZL_OK;
}
