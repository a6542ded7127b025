/* fsdp_config: FullyShardedDataParallelPlugin of accelerate, as its launcher fills it in. */
#include <inttypes.h>
#include <string.h>

#include "accelerate_read.h"

static const char prefix[] = "fsdp_";

static const zl_acc_key keys[] = {
    {"fsdp_version", ZL_ACC_READ},
    {"fsdp_sharding_strategy", ZL_ACC_READ},
    {"fsdp_reshard_after_forward", ZL_ACC_READ},
    {"fsdp_auto_wrap_policy", ZL_ACC_READ},
    {"fsdp_transformer_layer_cls_to_wrap", ZL_ACC_READ},
    {"fsdp_min_num_params", ZL_ACC_NOTHING}, /* of SIZE_BASED_WRAP */
    {"fsdp_backward_prefetch", ZL_ACC_READ},
    {"fsdp_forward_prefetch", ZL_ACC_READ},
    {"fsdp_use_orig_params", ZL_ACC_READ},
    {"fsdp_activation_checkpointing", ZL_ACC_READ},
    {"fsdp_offload_params", ZL_ACC_OFF},
    {"fsdp_ignored_modules", ZL_ACC_OFF},
    {"fsdp_state_dict_type", ZL_ACC_NOTHING},
    {"fsdp_cpu_ram_efficient_loading", ZL_ACC_NOTHING},
    {"fsdp_sync_module_states", ZL_ACC_NOTHING},
};

static zl_json member(const zl_acc_reader *r, const char *name)
{
    return zl_acc_member(zl_json_get(r->root, "fsdp_config"), name, prefix);
}

/* torch.distributed.fsdp.ShardingStrategy; a number counts from 1. */
static const char *const strategies[] = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD",
                                         "HYBRID_SHARD_ZERO2"};
enum { STRATEGIES = sizeof strategies / sizeof strategies[0] };

static zl_status read_strategy(zl_json value, const char *word, const char **out, zl_err *err)
{
    char number[16];
    for (int i = 0; i < STRATEGIES; i++) {
        snprintf(number, sizeof number, "%d", i + 1);
        if (strcmp(number, word) == 0 || strcmp(strategies[i], word) == 0) {
            *out = strategies[i];
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_INPUT,
                   "%s must be one of FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, "
                   "HYBRID_SHARD_ZERO2 or its number 1..5, got '%.40s'",
                   value.path, word);
}

/* The launcher always passes a sharding strategy, so fsdp_reshard_after_forward is never asked. */
static zl_status decide_stage1(const zl_acc_reader *r, zl_err *err)
{
    const zl_json value = member(r, "fsdp_sharding_strategy");
    const zl_json reshard = member(r, "fsdp_reshard_after_forward");
    const char *strategy = strategies[0];
    char word[ZL_ACC_WORD] = "";
    char from[ZL_ACCELERATE_TEXT];
    ZL_TRY(zl_acc_name(r, value, "NO_SHARD", word, err));
    if (word[0] != '\0') {
        ZL_TRY(read_strategy(value, word, &strategy, err));
    }
    ZL_TRY(zl_acc_word(reshard, word, err));
    if (word[0] != '\0' && strcasecmp(word, strategy) != 0 && strcasecmp(word, "true") != 0) {
        zl_acc_warn(r,
                    "%s: %s %.40s is passed over with fsdp_version 1, where fsdp_sharding_strategy "
                    "decides, which is %s",
                    r->out->file, reshard.path, word, strategy);
    }
    if (strategy != strategies[0]) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "fsdp_sharding_strategy %s is not modelled with fsdp_version 1; modelled: "
                       "FULL_SHARD%s",
                       strategy,
                       strategy == strategies[1]
                           ? ", and fsdp_version 2 with fsdp_reshard_after_forward false"
                           : "");
    }
    snprintf(from, sizeof from, "fsdp_sharding_strategy %s", strategy);
    return zl_acc_decide(r, "stage", "3", from, err);
}

static zl_status decide_stage2(const zl_acc_reader *r, zl_err *err)
{
    const zl_json strategy = member(r, "fsdp_sharding_strategy");
    bool reshard = true;
    ZL_TRY(zl_acc_flag(member(r, "fsdp_reshard_after_forward"), &reshard, err));
    if (strategy.node != NULL) {
        zl_acc_warn(r,
                    "%s: %s is passed over with fsdp_version 2, where fsdp_reshard_after_forward "
                    "decides, which is %s",
                    r->out->file, strategy.path, reshard ? "true" : "false");
    }
    return zl_acc_decide(
        r, "stage", reshard ? "3" : "2",
        reshard ? "fsdp_reshard_after_forward true" : "fsdp_reshard_after_forward false", err);
}

/* BackwardPrefetch; absent is None. Version 2 has a prefetch of its own. */
static zl_status decide_prefetch(const zl_acc_reader *r, bool second, zl_err *err)
{
    const zl_json value = member(r, "fsdp_backward_prefetch");
    char word[ZL_ACC_WORD] = "";
    ZL_TRY(zl_acc_name(r, value, "NO_PREFETCH", word, err));
    const bool pre = strcmp(word, "BACKWARD_PRE") == 0 || strcmp(word, "1") == 0;
    const bool none = word[0] == '\0' || strcmp(word, "NO_PREFETCH") == 0;
    if (!pre && !none) {
        return strcmp(word, "BACKWARD_POST") == 0 || strcmp(word, "2") == 0
                   ? zl_fail(err, ZL_E_UNMODELLED,
                             "fsdp_backward_prefetch BACKWARD_POST is not modelled; modelled: "
                             "BACKWARD_PRE, NO_PREFETCH")
                   : zl_fail(err, ZL_E_INPUT,
                             "%s must be one of BACKWARD_PRE, BACKWARD_POST, NO_PREFETCH, got "
                             "'%.40s'",
                             value.path, word);
    }
    if (second) {
        return ZL_OK;
    }
    ZL_TRY(zl_acc_decide(r, "no-prefetch", "",
                         pre               ? "fsdp_backward_prefetch BACKWARD_PRE"
                         : word[0] == '\0' ? "fsdp_backward_prefetch, absent,"
                                           : "fsdp_backward_prefetch NO_PREFETCH",
                         err));
    r->out->setting[r->out->count - 1].off = pre;
    return ZL_OK;
}

static zl_status read_units(const zl_acc_reader *r, zl_err *err)
{
    const zl_json value = member(r, "fsdp_auto_wrap_policy");
    char word[ZL_ACC_WORD] = "";
    ZL_TRY(zl_acc_name(r, value, "NO_WRAP", word, err));
    if (strcmp(word, "TRANSFORMER_BASED_WRAP") == 0) {
        r->out->wraps = true;
        ZL_TRY(zl_acc_word(member(r, "fsdp_transformer_layer_cls_to_wrap"), word, err));
        snprintf(r->out->classes, sizeof r->out->classes, "%s", word);
        return ZL_OK;
    }
    if (word[0] != '\0' && strcmp(word, "NO_WRAP") != 0 && strcmp(word, "SIZE_BASED_WRAP") != 0) {
        return zl_fail(err, ZL_E_INPUT,
                       "%s must be one of TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP, NO_WRAP, got "
                       "'%.40s'",
                       value.path, word);
    }
    return zl_fail(
        err, ZL_E_UNMODELLED,
        "fsdp_auto_wrap_policy %s is not modelled; modelled: TRANSFORMER_BASED_WRAP, with "
        "the model's layers as units",
        word[0] != '\0' ? word : "NO_WRAP, which is meant where it is absent,");
}

static zl_status decide_precision(const zl_acc_reader *r, const char *mixed, zl_err *err)
{
    const bool bf16 = strcmp(mixed, "BF16") == 0;
    if (strcmp(mixed, "FP16") == 0) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "mixed_precision fp16 is not modelled for FSDP; modelled: no, bf16");
    }
    ZL_TRY(zl_acc_decide(r, "precision", bf16 ? "bf16-mixed" : "fp32",
                         bf16 ? "mixed_precision bf16" : "mixed_precision no", err));
    r->out->setting[r->out->count - 1].dtypes = !bf16;
    if (bf16) {
        zl_acc_warn(r, "accelerate reduces gradients in bf16 and runs autocast around FSDP's bf16 "
                       "policy, and keeps a copy of the outputs in fp32; the prediction is of the "
                       "policy alone, reducing in fp32");
    }
    return ZL_OK;
}

static zl_status read_flags(const zl_acc_reader *r, bool second, zl_err *err)
{
    bool forward_prefetch = false;
    bool original = true;
    bool checkpointing = false;
    ZL_TRY(zl_acc_flag(member(r, "fsdp_forward_prefetch"), &forward_prefetch, err));
    ZL_TRY(zl_acc_flag(member(r, "fsdp_use_orig_params"), &original, err));
    ZL_TRY(zl_acc_flag(member(r, "fsdp_activation_checkpointing"), &checkpointing, err));
    if (forward_prefetch && !second) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "fsdp_forward_prefetch is not modelled; switch it off");
    }
    if (!original && !second) {
        zl_acc_warn(r,
                    "%s: fsdp_use_orig_params false is predicted as true, which was measured; the "
                    "optimizer's tensors are the padded flat ones then",
                    r->out->file);
    }
    return checkpointing
               ? zl_acc_decide(r, "recompute", "full", "fsdp_activation_checkpointing true", err)
               : ZL_OK;
}

zl_status zl_acc_fsdp(const zl_acc_reader *r, const char *mixed, zl_err *err)
{
    const zl_json section = zl_json_get(r->root, "fsdp_config");
    uint64_t version = 1;
    char from[ZL_ACCELERATE_TEXT];
    ZL_TRY(zl_acc_members(r, section, keys, sizeof keys / sizeof keys[0], prefix, false, err));
    ZL_TRY(zl_acc_count(member(r, "fsdp_version"), &version, err));
    if (version != 1 && version != 2) {
        return zl_fail(err, ZL_E_INPUT, "fsdp_version must be 1 or 2, got %" PRIu64, version);
    }
    const bool second = version == 2;
    snprintf(from, sizeof from, "distributed_type FSDP, fsdp_version %" PRIu64, version);
    ZL_TRY(zl_acc_decide(r, "framework", second ? "fsdp2" : "fsdp1", from, err));
    ZL_TRY(second ? decide_stage2(r, err) : decide_stage1(r, err));
    ZL_TRY(decide_precision(r, mixed, err));
    ZL_TRY(read_units(r, err));
    ZL_TRY(decide_prefetch(r, second, err));
    return read_flags(r, second, err);
}
