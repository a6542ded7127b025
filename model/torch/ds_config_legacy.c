/* Older names in zero_optimization, and keys beside their other name. Names: runtime/zero/config.py
 * and constants.py of the releases 0.5.8 to 0.19.6. */
#include <stdio.h>
#include <string.h>

#include "ds_config.h"

typedef struct old_name {
    const char *name;
    const char *now[2]; /* its successor, and the successor's other name */
    const char *write;  /* what says the same today; NULL: nothing, it has no effect */
    uint32_t refused;   /* the release that stopped reading it; 0: none */
    zl_offload *(*offload)(zl_ds_config *ds); /* what true moves to the host, or NULL */
} old_name;

static zl_offload *optimizer_of(zl_ds_config *ds)
{
    return &ds->offload_optimizer;
}

static zl_offload *param_of(zl_ds_config *ds)
{
    return &ds->offload_param;
}

static const old_name old_names[] = {
    {"cpu_offload",
     {"offload_optimizer"},
     "\"offload_optimizer\": {\"device\": \"cpu\"}",
     0,
     optimizer_of},
    {"cpu_offload_param",
     {"offload_param"},
     "\"offload_param\": {\"device\": \"cpu\"}",
     0,
     param_of},
    {"cpu_offload_params",
     {"offload_param", "cpu_offload_param"},
     "\"offload_param\": {\"device\": \"cpu\"}",
     ZT_DS_CHECKED,
     param_of},
    {"cpu_offload_use_pin_memory", {NULL}, NULL, 0, NULL},
    {"stage3_gather_fp16_weights_on_model_save",
     {"stage3_gather_16bit_weights_on_model_save", "gather_16bit_weights_on_model_save"},
     "\"stage3_gather_16bit_weights_on_model_save\"",
     0,
     NULL},
};

/* Keys with two names: with and without this in front. */
static const char stage3[] = "stage3_";
static const char *const two_names[] = {
    "prefetch_bucket_size",         "param_persistence_threshold",
    "model_persistence_threshold",  "max_live_parameters",
    "max_reuse_distance",           "gather_16bit_weights_on_model_save",
    "module_granularity_threshold", "use_all_reduce_for_fetch_params",
    "allgather_sequential",
};

static bool has(zl_json object, const char *key)
{
    return key != NULL && zl_json_get(object, key).node != NULL;
}

static zl_status refuse_both(zl_json zero, const char *old, const char *now, zl_err *err)
{
    return zl_fail(err, ZL_E_INPUT,
                   "%s.%s and %s.%s are two names of one setting, and DeepSpeed refuses both "
                   "together; keep %s",
                   zero.path, old, zero.path, now, now);
}

static void warn_old(const zt_ds_reader *r, zl_json zero, const old_name *old)
{
    if (old->write == NULL) {
        zt_ds_warn(r, "%s.%s is deprecated, and DeepSpeed does nothing with it; leave it out",
                   zero.path, old->name);
    } else if (old->refused != 0 && r->ds->version >= old->refused) {
        zt_ds_warn(r, "%s.%s is a name that DeepSpeed refuses since 0.7.0; write %s", zero.path,
                   old->name, old->write);
    } else {
        zt_ds_warn(r, "%s.%s is deprecated; write %s", zero.path, old->name, old->write);
    }
}

zl_status zt_ds_check_names(const zt_ds_reader *r, zl_json zero, zl_err *err)
{
    for (size_t i = 0; i < sizeof old_names / sizeof old_names[0]; i++) {
        const old_name *old = &old_names[i];
        if (!has(zero, old->name)) {
            continue;
        }
        for (int k = 0; k < 2; k++) {
            if (has(zero, old->now[k])) {
                return refuse_both(zero, old->name, old->now[k], err);
            }
        }
        warn_old(r, zero, old);
    }
    for (size_t i = 0; i < sizeof two_names / sizeof two_names[0]; i++) {
        char longer[64];
        snprintf(longer, sizeof longer, "%s%s", stage3, two_names[i]);
        if (has(zero, two_names[i]) && has(zero, longer)) {
            return refuse_both(zero, two_names[i], longer, err);
        }
    }
    return ZL_OK;
}

zl_status zt_ds_read_old_offload(const zt_ds_reader *r, zl_json zero, zl_err *err)
{
    for (size_t i = 0; i < sizeof old_names / sizeof old_names[0]; i++) {
        const zl_json value = zl_json_get(zero, old_names[i].name);
        bool set = false;
        if (value.node != NULL && old_names[i].offload != NULL && !zt_ds_is_auto(value)) {
            ZL_TRY(zt_ds_flag(r, value, &set, err));
        }
        if (set) {
            *old_names[i].offload(r->ds) = ZL_OFFLOAD_CPU;
        }
    }
    return ZL_OK;
}

/* read_zero_config_deprecated */
zl_status zt_ds_read_boolean(const zt_ds_reader *r, zl_json file, zl_err *err)
{
    const zl_json zero = zl_json_get(file, "zero_optimization");
    const zl_json bucket = zl_json_get(file, "allgather_size");
    bool on = false;
    ZL_TRY(zl_json_bool(zero, &on, err));
    r->ds->stage = on;
    if (on && bucket.node != NULL) {
        ZL_TRY(zt_ds_count(r, bucket, &r->ds->allgather_bucket_size, err));
    }
    zt_ds_warn(r, "%s: %s is deprecated; write {\"stage\": %d}", zero.path, on ? "true" : "false",
               on);
    zt_ds_note(r->ds, "zero_optimization.stage", on ? "1" : "0", "zero_optimization: %s",
               on ? "true" : "false");
    return ZL_OK;
}
