/* The keys of ds_config.json, section by section, and what each does to memory. */
#include <stddef.h>
#include <string.h>

#include "ds_config.h"
#include "zeroledger/bytes.h"
#include "zeroledger/text.h"

typedef enum key_kind {
    KEY_NOTHING, /* moves no byte of device or host memory that is modelled */
    KEY_FLAG,
    KEY_COUNT,
    KEY_WHOLE,     /* a count that is whole and at least 1 */
    KEY_OUTSIDE,   /* moves memory in a way outside the model, unless its value switches it off */
    KEY_ELSEWHERE, /* an object or a value that its own function reads */
    KEY_KIND_COUNT
} key_kind;

typedef struct key {
    const char *name;
    key_kind kind;
    size_t field;     /* of zl_ds_config, of KEY_FLAG, KEY_COUNT, KEY_WHOLE */
    uint64_t neutral; /* KEY_OUTSIDE: this number switches it off too */
} key;

#define FIELD(name) offsetof(zl_ds_config, name)

static const key zero_keys[] = {
    {"stage", KEY_ELSEWHERE, 0, 0},
    {"contiguous_gradients", KEY_FLAG, FIELD(contiguous_gradients), 0},
    {"reduce_scatter", KEY_FLAG, FIELD(reduce_scatter), 0},
    {"reduce_bucket_size", KEY_COUNT, FIELD(reduce_bucket_size), 0},
    {"use_multi_rank_bucket_allreduce", KEY_FLAG, FIELD(multi_rank_bucket_allreduce), 0},
    {"allgather_partitions", KEY_NOTHING, 0, 0},
    {"allgather_bucket_size", KEY_COUNT, FIELD(allgather_bucket_size), 0},
    {"overlap_comm", KEY_FLAG, FIELD(overlap_comm), 0},
    {"load_from_fp32_weights", KEY_NOTHING, 0, 0},
    {"elastic_checkpoint", KEY_NOTHING, 0, 0},
    {"offload_param", KEY_ELSEWHERE, 0, 0},
    {"offload_optimizer", KEY_ELSEWHERE, 0, 0},
    {"cpu_offload", KEY_ELSEWHERE, 0, 0},
    {"cpu_offload_param", KEY_ELSEWHERE, 0, 0},
    {"cpu_offload_params", KEY_ELSEWHERE, 0, 0},
    {"cpu_offload_use_pin_memory", KEY_NOTHING, 0, 0},
    {"zenflow", KEY_OUTSIDE, 0, 0},
    {"sub_group_size", KEY_COUNT, FIELD(sub_group_size), 0},
    {"stage3_prefetch_bucket_size", KEY_COUNT, FIELD(prefetch_bucket_size), 0},
    {"prefetch_bucket_size", KEY_COUNT, FIELD(prefetch_bucket_size), 0},
    {"stage3_param_persistence_threshold", KEY_COUNT, FIELD(param_persistence_threshold), 0},
    {"param_persistence_threshold", KEY_COUNT, FIELD(param_persistence_threshold), 0},
    {"stage3_model_persistence_threshold", KEY_COUNT, FIELD(model_persistence_threshold), 0},
    {"model_persistence_threshold", KEY_COUNT, FIELD(model_persistence_threshold), 0},
    {"stage3_max_live_parameters", KEY_COUNT, FIELD(max_live_parameters), 0},
    {"max_live_parameters", KEY_COUNT, FIELD(max_live_parameters), 0},
    {"stage3_max_reuse_distance", KEY_COUNT, FIELD(max_reuse_distance), 0},
    {"max_reuse_distance", KEY_COUNT, FIELD(max_reuse_distance), 0},
    {"stage3_gather_16bit_weights_on_model_save", KEY_NOTHING, 0, 0},
    {"gather_16bit_weights_on_model_save", KEY_NOTHING, 0, 0},
    {"stage3_gather_fp16_weights_on_model_save", KEY_NOTHING, 0, 0},
    {"stage3_module_granularity_threshold", KEY_OUTSIDE, 0, 0},
    {"module_granularity_threshold", KEY_OUTSIDE, 0, 0},
    {"stage3_use_all_reduce_for_fetch_params", KEY_FLAG, FIELD(all_reduce_for_fetch), 0},
    {"use_all_reduce_for_fetch_params", KEY_FLAG, FIELD(all_reduce_for_fetch), 0},
    {"stage3_allgather_sequential", KEY_FLAG, FIELD(allgather_sequential), 0},
    {"allgather_sequential", KEY_FLAG, FIELD(allgather_sequential), 0},
    {"ignore_unused_parameters", KEY_NOTHING, 0, 0},
    {"legacy_stage1", KEY_OUTSIDE, 0, 0},
    {"round_robin_gradients", KEY_FLAG, FIELD(round_robin_gradients), 0},
    {"zero_hpz_partition_size", KEY_OUTSIDE, 0, 1},
    {"zero_quantized_weights", KEY_OUTSIDE, 0, 0},
    {"zero_quantized_nontrainable_weights", KEY_OUTSIDE, 0, 0},
    {"zero_quantized_gradients", KEY_OUTSIDE, 0, 0},
    {"zeropp_loco_param", KEY_OUTSIDE, 0, 0},
    {"mics_shard_size", KEY_OUTSIDE, 0, 0}, /* -1: off */
    {"mics_hierarchical_params_gather", KEY_NOTHING, 0, 0},
    {"memory_efficient_linear", KEY_FLAG, FIELD(memory_efficient_linear), 0},
    {"pipeline_loading_checkpoint", KEY_NOTHING, 0, 0},
    {"override_module_apply", KEY_NOTHING, 0, 0},
    {"log_trace_cache_warnings", KEY_NOTHING, 0, 0},
    {"enable_sanity_checks", KEY_NOTHING, 0, 0},
    {"save_muon_momentum_buffer_in_memory", KEY_NOTHING, 0, 0},
    {"leaf_module", KEY_OUTSIDE, 0, 0},
};

static const key offload_optimizer_keys[] = {
    {"device", KEY_ELSEWHERE, 0, 0},
    {"nvme_path", KEY_NOTHING, 0, 0},
    {"buffer_count", KEY_COUNT, FIELD(optimizer_buffer_count), 0},
    {"pin_memory", KEY_FLAG, FIELD(pin_optimizer), 0},
    {"pipeline_read", KEY_NOTHING, 0, 0},
    {"pipeline_write", KEY_NOTHING, 0, 0},
    {"pipeline", KEY_NOTHING, 0, 0},
    {"fast_init", KEY_NOTHING, 0, 0},
    {"ratio", KEY_OUTSIDE, 0, 1},
    {"super_offload", KEY_OUTSIDE, 0, 0},
    {"cpuadam_cores_perc", KEY_NOTHING, 0, 0},
};

static const key offload_param_keys[] = {
    {"device", KEY_ELSEWHERE, 0, 0},
    {"nvme_path", KEY_NOTHING, 0, 0},
    {"buffer_count", KEY_COUNT, FIELD(offload_buffer_count), 0},
    {"buffer_size", KEY_COUNT, FIELD(offload_buffer_size), 0},
    {"max_in_cpu", KEY_NOTHING, 0, 0},
    {"pin_memory", KEY_FLAG, FIELD(pin_param), 0},
};

static const key top_keys[] = {
    {"train_batch_size", KEY_ELSEWHERE, 0, 0},
    {"train_micro_batch_size_per_gpu", KEY_WHOLE, FIELD(micro_batch), 0},
    {"gradient_accumulation_steps", KEY_WHOLE, FIELD(accumulation), 0},
    {"managed_gradient_accumulation", KEY_NOTHING, 0, 0},
    {"optimizer", KEY_ELSEWHERE, 0, 0},
    {"scheduler", KEY_NOTHING, 0, 0},
    {"zero_optimization", KEY_ELSEWHERE, 0, 0},
    {"allgather_size", KEY_NOTHING, 0, 0}, /* beside zero_optimization: true, its bucket */
    {"fp16", KEY_ELSEWHERE, 0, 0},
    {"bf16", KEY_ELSEWHERE, 0, 0},
    {"bfloat16", KEY_ELSEWHERE, 0, 0},
    {"data_types", KEY_ELSEWHERE, 0, 0},
    {"communication_data_type", KEY_ELSEWHERE, 0, 0},
    {"gradient_clipping", KEY_ELSEWHERE, 0, 0},
    {"amp", KEY_OUTSIDE, 0, 0},
    {"torch_autocast", KEY_OUTSIDE, 0, 0},
    {"sparse_gradients", KEY_OUTSIDE, 0, 0},
    {"sparse_attention", KEY_OUTSIDE, 0, 0},
    {"progressive_layer_drop", KEY_OUTSIDE, 0, 0},
    {"eigenvalue", KEY_OUTSIDE, 0, 0},
    {"compression_training", KEY_OUTSIDE, 0, 0},
    {"quantize_training", KEY_OUTSIDE, 0, 0},
    {"hybrid_engine", KEY_OUTSIDE, 0, 0},
    {"tensor_parallel", KEY_OUTSIDE, 0, 0},
    {"pipeline", KEY_OUTSIDE, 0, 0},
    {"compile", KEY_OUTSIDE, 0, 0},
    {"flops_profiler", KEY_OUTSIDE, 0, 0},
    {"autotuning", KEY_OUTSIDE, 0, 0},
    {"expert_parallel", KEY_OUTSIDE, 0, 0},
    {"sequence_parallel_size", KEY_OUTSIDE, 0, 1},
    {"memory_breakdown", KEY_FLAG, FIELD(memory_breakdown), 0},
    /* Only models that call deepspeed.checkpointing read this; those of Hugging Face do not. */
    {"activation_checkpointing", KEY_NOTHING, 0, 0},
    {"prescale_gradients", KEY_NOTHING, 0, 0},
    {"gradient_predivide_factor", KEY_NOTHING, 0, 0},
    {"gradient_allreduce_op", KEY_NOTHING, 0, 0},
    {"zero_allow_untested_optimizer", KEY_NOTHING, 0, 0},
    {"zero_force_ds_cpu_optimizer", KEY_NOTHING, 0, 0},
    {"steps_per_print", KEY_NOTHING, 0, 0},
    {"wall_clock_breakdown", KEY_NOTHING, 0, 0},
    {"dump_state", KEY_NOTHING, 0, 0},
    {"disable_allgather", KEY_NOTHING, 0, 0},
    {"seq_parallel_communication_data_type", KEY_NOTHING, 0, 0},
    {"aio", KEY_NOTHING, 0, 0},
    {"tensorboard", KEY_NOTHING, 0, 0},
    {"wandb", KEY_NOTHING, 0, 0},
    {"comet", KEY_NOTHING, 0, 0},
    {"csv_monitor", KEY_NOTHING, 0, 0},
    {"comms_logger", KEY_NOTHING, 0, 0},
    {"timers", KEY_NOTHING, 0, 0},
    {"elasticity", KEY_OUTSIDE, 0, 0},
    {"checkpoint", KEY_NOTHING, 0, 0},
    {"curriculum_learning", KEY_NOTHING, 0, 0},
    {"data_efficiency", KEY_NOTHING, 0, 0},
    {"dataloader_drop_last", KEY_NOTHING, 0, 0},
    {"nebula", KEY_NOTHING, 0, 0},
    {"load_universal_checkpoint", KEY_NOTHING, 0, 0},
    {"use_data_before_expert_parallelism", KEY_NOTHING, 0, 0},
    {"log_level", KEY_NOTHING, 0, 0},
    {"vocabulary_size", KEY_NOTHING, 0, 0},
    {"_comment", KEY_NOTHING, 0, 0},
};

static const key fp16_keys[] = {
    {"enabled", KEY_ELSEWHERE, 0, 0},
    {"auto_cast", KEY_NOTHING, 0, 0},
    {"loss_scale", KEY_NOTHING, 0, 0},
    {"initial_scale_power", KEY_ELSEWHERE, 0, 0},
    {"loss_scale_window", KEY_NOTHING, 0, 0},
    {"hysteresis", KEY_NOTHING, 0, 0},
    {"consecutive_hysteresis", KEY_NOTHING, 0, 0},
    {"min_loss_scale", KEY_NOTHING, 0, 0},
    {"fp16_master_weights_and_grads", KEY_OUTSIDE, 0, 0},
};

static const key bf16_keys[] = {
    {"enabled", KEY_ELSEWHERE, 0, 0},
    {"immediate_grad_update", KEY_OUTSIDE, 0, 0},
    {"check_grad_overflow", KEY_ELSEWHERE, 0, 0},
    {"bf16_master_weights_and_grads", KEY_OUTSIDE, 0, 0},
    {"bf16_optimizer_states", KEY_OUTSIDE, 0, 0},
    /* Read by nobody, but found in files copied from fp16. */
    {"auto_cast", KEY_NOTHING, 0, 0},
    {"loss_scale", KEY_NOTHING, 0, 0},
    {"initial_scale_power", KEY_NOTHING, 0, 0},
    {"loss_scale_window", KEY_NOTHING, 0, 0},
    {"hysteresis", KEY_NOTHING, 0, 0},
    {"min_loss_scale", KEY_NOTHING, 0, 0},
};

static const key data_types_keys[] = {
    {"grad_accum_dtype", KEY_ELSEWHERE, 0, 0},
    {"param_dtype", KEY_NOTHING, 0, 0},
    {"buffer_dtype", KEY_NOTHING, 0, 0},
};

#define KEYS(table)                                                                                \
    {                                                                                              \
        (table), sizeof(table) / sizeof(table)[0]                                                  \
    }

static const struct {
    const key *key;
    size_t count;
} sections[ZT_DS_KEYS_COUNT] = {
    [ZT_DS_TOP] = KEYS(top_keys),
    [ZT_DS_ZERO] = KEYS(zero_keys),
    [ZT_DS_OFFLOAD_OPTIMIZER] = KEYS(offload_optimizer_keys),
    [ZT_DS_OFFLOAD_PARAM] = KEYS(offload_param_keys),
    [ZT_DS_FP16] = KEYS(fp16_keys),
    [ZT_DS_BF16] = KEYS(bf16_keys),
    [ZT_DS_DATA_TYPES] = KEYS(data_types_keys),
};

/* NULL: it is none of them. */
static const key *find(zt_ds_keys keys, const char *name)
{
    for (size_t i = 0; i < sections[keys].count; i++) {
        if (strcmp(sections[keys].key[i].name, name) == 0) {
            return &sections[keys].key[i];
        }
    }
    return NULL;
}

static void warn_unknown(const zt_ds_reader *r, const char *object, const char *name,
                         zt_ds_keys keys)
{
    enum { NAMES = 96 };
    const char *names[NAMES];
    if (object[0] == '\0' && find(ZT_DS_ZERO, name) != NULL) {
        zt_ds_warn(r, "%.60s is read in zero_optimization only; move it there", name);
        return;
    }
    if (object[0] != '\0' && find(ZT_DS_TOP, name) != NULL) {
        zt_ds_warn(r, "%.60s.%.60s is read at the top level only; move it there", object, name);
        return;
    }
    const size_t count = zl_min(sections[keys].count, NAMES);
    for (size_t i = 0; i < count; i++) {
        names[i] = sections[keys].key[i].name;
    }
    const char *near = zl_nearest(name, names, count);
    zt_ds_warn(r, "%.60s%s%.60s is not a key of DeepSpeed that is known here%s%.60s%s", object,
               object[0] != '\0' ? "." : "", name, near != NULL ? "; did you mean " : "",
               near != NULL ? near : "", near != NULL ? "?" : "");
}

static zl_status read_outside(const zt_ds_reader *r, zl_json value, uint64_t neutral, zl_err *err)
{
    if (zt_ds_is_auto(value)) {
        return zt_ds_auto(r, value, NULL, err);
    }
    return zt_ds_is_off(value, neutral)
               ? ZL_OK
               : zl_fail(err, ZL_E_UNMODELLED, "%s is not modelled; switch it off", value.path);
}

static zl_status read_key(const zt_ds_reader *r, zl_json value, const key *k, zl_err *err)
{
    void *const field = (char *)r->ds + k->field;
    const bool automatic = zt_ds_is_auto(value);
    switch (k->kind) {
    case KEY_FLAG:
        return automatic ? zt_ds_auto(r, value, NULL, err) : zt_ds_flag(r, value, field, err);
    case KEY_COUNT:
        return automatic ? zt_ds_auto(r, value, field, err) : zt_ds_count(r, value, field, err);
    case KEY_WHOLE:
        return automatic ? zt_ds_auto(r, value, field, err) : zt_ds_whole(value, field, err);
    case KEY_OUTSIDE:
        return read_outside(r, value, k->neutral, err);
    case KEY_NOTHING:
    case KEY_ELSEWHERE:
    case KEY_KIND_COUNT:
        break;
    }
    return ZL_OK;
}

zl_status zt_ds_read_keys(const zt_ds_reader *r, zl_json object, zt_ds_keys keys, zl_err *err)
{
    if (object.node == NULL) {
        return ZL_OK;
    }
    if (!zl_json_is_object(object)) {
        ZL_TRY(zt_ds_refuse_auto(object, err));
        return zl_json_only(object, NULL, 0, err); /* names it and what it is */
    }
    for (size_t i = 0; i < zl_json_size(object); i++) {
        const char *name = zl_json_key(object, i);
        const key *known = find(keys, name);
        const zl_json value = zl_json_get(object, name);
        if (known == NULL) {
            warn_unknown(r, object.path, name, keys);
        } else if (value.node != NULL) {
            ZL_TRY(read_key(r, value, known, err));
        }
    }
    return ZL_OK;
}
