/* Which release of DeepSpeed behaves how. Each switch was read in the repository's history; the
 * commits are named where one commit made the change. */
#include "torch/deepspeed.h"

static bool within(uint32_t version, uint32_t first, uint32_t end)
{
    return version >= first && version < end;
}

zt_ds_release zt_ds_release_of(const zl_ds_config *config)
{
    const uint32_t v = config->version;
    return (zt_ds_release){
        .output_hooks = v >= 18003,
        .scales_outputs = within(v, 18003, 19006),
        .keeps_mean_loss = within(v, 13003, 18003), /* fac1df9 */
        .named_device = v >= 17003,                 /* ee286e5 */
        .lazy_states = v >= 13002,                  /* 1817980 */
        .silent_init = v >= 18008,                  /* 285cae3 */
        .float_buffers_keep = v >= 19002,           /* b919284 */
        .efficient_linear = v >= 19004,             /* 617061d */
        .barrier_tensor = v < 11000,
        .flatten_on_device = v >= 18007, /* 84af822 */
        .flatten_by_scalars = within(v, 13000, 18007),
        .stage1_like_stage2 = v >= 13000, /* af03383 */
        .stage1_plain = v < 7002 || within(v, 8000, 13000),
        .lazy_bucket = v >= 18003,                                              /* 53e91a0 */
        .multi_rank_reduce = v >= 12004 && config->multi_rank_bucket_allreduce, /* 2afa1c7 */
        .gather_in_place = v >= 12004,                                          /* fd0a52c */
        .norms_on_device = v >= 13002,
        .records_buckets = v >= 19000, /* dac1525 */
        .step_by_group = v >= 6006,    /* c1af73f */
        .overflow_masks = v >= 13003,  /* 1c9e5ef */
        .overflow_reductions = v >= 19006,
        .frees_gradients = v >= 16005, /* b418cf6 */
        .norm_buffers = v >= 12006,    /* d5a7c1e */
        .stage3_rewritten = v >= 6000, /* 4912e0a */
        .world1_shard = v >= 9000,
        .accumulation_dtype = v >= 10001, /* 8afcda2 */
        .master_converted = v >= 18003,   /* 39a682d */
        .lone_gather_once = v >= 18005,   /* 6087609 */
        .norm_scalars = v >= 13000,
        .releases_leftovers = v >= 19003, /* a31eb31 */
        .holds_outputs = v < 19000,
    };
}

bool zt_ds_is_adam(const zl_torch_run *run)
{
    return run->optimizer == ZL_TORCH_FROM_CONFIG && run->ds.optimizer == ZL_DS_ADAM;
}

/* runtime/engine.py, _do_optimizer_sanity_check and _configure_optimizer. */
zl_status zt_ds_wrapper_of(const zl_torch_run *run, zt_ds_wrapper *out, zl_err *err)
{
    const zl_ds_config *ds = &run->ds;
    const uint32_t v = ds->version;
    const bool wide = ds->bf16 && ds->grad_accum_fp32;
    const bool offload = ds->offload_optimizer != ZL_OFFLOAD_NONE;
    const zt_ds_wrapper plain = zt_ds_is_adam(run) ? ZT_DS_FP16 : ZT_DS_FP16_UNFUSED;
    if (ds->stage == 3) {
        *out = ZT_DS_ZERO3;
    } else if (ds->stage == 0 && !ds->fp16 && !ds->bf16) {
        *out = ZT_DS_BARE;
    } else if (ds->stage == 0 && ds->bf16 && within(v, 7007, 17006)) {
        *out = ZT_DS_BF16;
    } else if (ds->stage == 0 && wide && v >= 18005) { /* 09885ef raises */
        return zl_fail(err, ZL_E_USAGE,
                       "DeepSpeed since 0.18.5 refuses bf16 with grad_accum_dtype fp32 at stage 0; "
                       "take stage 1");
    } else if (ds->stage == 0) {
        *out = plain;
    } else if (ds->stage == 1 && wide && !offload && v >= 8001) { /* 8d87c89 */
        /* 0.17.6 to 0.18.4: two wrapper names shared one string (1393f75). */
        *out = within(v, 17006, 18005) ? plain : ZT_DS_BF16;
    } else if (ds->stage == 1 && ds->grad_accum_fp32 && (ds->fp16 || ds->bf16) && v >= 10001) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "data_types.grad_accum_dtype fp32 is not modelled at stage 1 with %s",
                       offload ? "an offloaded optimizer" : "fp16");
    } else {
        *out = ZT_DS_ZERO12;
    }
    return ZL_OK;
}
