/* ds_config.json, the file DeepSpeed is configured with, as the release that reads it understands
 * it. Keys and defaults: runtime/config.py, runtime/zero/config.py, offload_config.py,
 * runtime/precision_config.py and runtime/engine.py of the releases 0.5.8 to 0.19.6. */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ds_config.h"
#include "zeroledger/bytes.h"

enum { OLDEST = 5000, NEWEST_MINOR = 19 };

/* sys.maxsize of Python, the default of stage3_model_persistence_threshold. */
static const uint64_t unlimited = INT64_MAX;

/* One number of a version, and the character behind it. */
static bool read_part(const char **text, uint32_t *out)
{
    enum { TOO_LARGE = 1000 };
    char *end = NULL;
    const unsigned long value = isdigit((unsigned char)**text) ? strtoul(*text, &end, 10) : 0;
    if (end == NULL || value >= TOO_LARGE) {
        return false;
    }
    *text = end;
    *out = (uint32_t)value;
    return true;
}

zl_status zl_ds_version_parse(const char *text, uint32_t *out, zl_err *err)
{
    uint32_t part[3] = {0};
    const char *rest = text;
    bool good = read_part(&rest, &part[0]) && *rest == '.';
    for (int i = 1; i < 3 && good && *rest == '.'; i++) {
        rest++;
        good = read_part(&rest, &part[i]);
    }
    if (!good || (*rest != '\0' && *rest != '+' && *rest != '.')) {
        return zl_fail(err, ZL_E_INPUT, "DeepSpeed version must look like 0.19.6, got '%.40s'",
                       text);
    }
    const uint32_t version = part[0] * 1000000 + part[1] * 1000 + part[2];
    if (version < OLDEST || part[0] > 0 || part[1] > NEWEST_MINOR) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "DeepSpeed %.40s is not modelled; modelled: 0.5.0 to 0.%d", text,
                       NEWEST_MINOR);
    }
    *out = version;
    return ZL_OK;
}

/* Whether the step looks for inf and nan in the gradients: fp16 always does; bf16 and fp32 always
 * did before 0.11.2; bf16 does again where bf16.check_grad_overflow says so, from 0.17.1 on, with
 * a default that changed in 0.19.3. Called once the precision is known. */
static bool checks_overflow(const zl_ds_config *ds, const bool *given)
{
    if (ds->fp16 || ds->version < 11002) {
        return true;
    }
    if (!ds->bf16 || ds->version < 17001) {
        return false;
    }
    return given != NULL ? *given : ds->version >= 19003;
}

zl_ds_config zl_ds_config_default(uint32_t version)
{
    const bool pinned = version >= 19005;
    zl_ds_config ds = {
        .version = version,
        .contiguous_gradients = true,
        .reduce_scatter = true,
        .multi_rank_bucket_allreduce = version >= 12004,
        .memory_efficient_linear = true,
        .reduce_bucket_size = 500000000,
        .allgather_bucket_size = 500000000,
        .sub_group_size = 1000000000,
        .prefetch_bucket_size = 50000000,
        .max_live_parameters = 1000000000,
        .max_reuse_distance = 1000000000,
        .param_persistence_threshold = 100000,
        .model_persistence_threshold = unlimited,
        .pin_optimizer = pinned,
        .pin_param = pinned,
        .optimizer_buffer_count = 4,
        .offload_buffer_count = 5,
        .offload_buffer_size = 100000000,
        .initial_scale_power = version >= 8000 ? 16 : 32,
        .optimizer = ZL_DS_CLIENT,
        .accumulation = 1,
        .clips = version >= 19003,
    };
    ds.check_grad_overflow = checks_overflow(&ds, NULL);
    return ds;
}

/* ---- warnings ---- */

void zt_ds_warn(const zt_ds_reader *r, const char *format, ...)
{
    char line[256];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (r->program->warn != NULL) {
        r->program->warn(r->program->context, line);
    }
}

/* ---- sections ---- */

static zl_status read_device(const zt_ds_reader *r, zl_json object, zl_offload *out, zl_err *err)
{
    const zl_json value = zl_json_get(object, "device");
    const char *name = "none";
    if (zt_ds_is_auto(value)) {
        zt_ds_note(r->ds, value.path, name, "the default of accelerate; write cpu or nvme for one");
        return ZL_OK;
    }
    if (value.node != NULL) {
        ZL_TRY(zl_json_string(value, &name, err));
    }
    if (strcmp(name, "none") == 0) {
        *out = ZL_OFFLOAD_NONE;
    } else if (strcmp(name, "cpu") == 0) {
        *out = ZL_OFFLOAD_CPU;
    } else if (strcmp(name, "nvme") == 0) {
        *out = ZL_OFFLOAD_NVME;
    } else {
        return zl_fail(err, ZL_E_INPUT, "%s must be none, cpu or nvme, got '%.40s'", value.path,
                       name);
    }
    return ZL_OK;
}

static zl_status read_stage(const zt_ds_reader *r, zl_json zero, zl_err *err)
{
    const zl_json value = zl_json_get(zero, "stage");
    double stage = 0.0;
    if (value.node == NULL) {
        return ZL_OK;
    }
    if (zt_ds_is_auto(value)) {
        return zt_ds_auto(r, value, &r->ds->stage, err);
    }
    ZL_TRY(zt_ds_real(r, value, &stage, err));
    for (uint64_t i = 0; i <= 3; i++) {
        if (stage == (double)i) {
            r->ds->stage = i;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_INPUT, "%s must be 0..3, got %.15g", value.path, stage);
}

/* Stages 1 and 2 know one offload, that of the optimizer, and keep it in host memory: only stage 3
 * has a swapper. Without ZeRO nobody reads either. */
static zl_status fit_offload_to_stage(const zt_ds_reader *r, zl_json zero, zl_err *err)
{
    zl_ds_config *const ds = r->ds;
    if (ds->stage == 3) {
        return ZL_OK;
    }
    if (ds->offload_param != ZL_OFFLOAD_NONE) {
        zt_ds_warn(r, "%s.offload_param needs stage 3; at stage %" PRIu64 " DeepSpeed ignores it",
                   zero.path, ds->stage);
        ds->offload_param = ZL_OFFLOAD_NONE;
    }
    if (ds->stage == 0) {
        ds->offload_optimizer = ZL_OFFLOAD_NONE;
    }
    if (ds->offload_optimizer == ZL_OFFLOAD_NVME) {
        if (ds->version > ZT_DS_CHECKED && ds->version < ZT_DS_SWAP_OR_HOST) {
            return zl_fail(err, ZL_E_INPUT,
                           "%s.offload_optimizer.device nvme needs stage 3 in DeepSpeed 0.7.1 to "
                           "0.10.0, got stage %" PRIu64 "; write cpu",
                           zero.path, ds->stage);
        }
        ds->offload_optimizer = ZL_OFFLOAD_CPU;
        zt_ds_note(ds, "zero_optimization.offload_optimizer.device", "cpu",
                   "nvme at stage %" PRIu64 " is host memory, only stage 3 swaps", ds->stage);
    }
    return ZL_OK;
}

static zl_status read_zero(const zt_ds_reader *r, zl_json file, zl_err *err)
{
    const zl_json zero = zl_json_get(file, "zero_optimization");
    const zl_json overlap = zl_json_get(zero, "overlap_comm");
    if (zl_json_is_bool(zero)) {
        ZL_TRY(zt_ds_read_boolean(r, file, err));
    } else {
        ZL_TRY(read_stage(r, zero, err)); /* other keys depend on it */
        ZL_TRY(zt_ds_read_keys(r, zero, ZT_DS_ZERO, err));
        ZL_TRY(zt_ds_check_names(r, zero, err));
    }
    if (overlap.node == NULL || zt_ds_is_auto(overlap)) {
        r->ds->overlap_comm = r->ds->stage == 3;
    }
    if (r->ds->version < 12004) {
        r->ds->multi_rank_bucket_allreduce = false;
    }
    const zl_json optimizer = zl_json_get(zero, "offload_optimizer");
    const zl_json param = zl_json_get(zero, "offload_param");
    ZL_TRY(zt_ds_read_keys(r, optimizer, ZT_DS_OFFLOAD_OPTIMIZER, err));
    ZL_TRY(zt_ds_read_keys(r, param, ZT_DS_OFFLOAD_PARAM, err));
    ZL_TRY(read_device(r, optimizer, &r->ds->offload_optimizer, err));
    ZL_TRY(read_device(r, param, &r->ds->offload_param, err));
    ZL_TRY(zt_ds_read_old_offload(r, zero, err));
    return fit_offload_to_stage(r, zero, err);
}

/* DeepSpeedConfig takes train_batch_size apart, or makes it. */
static zl_status read_batch(const zt_ds_reader *r, zl_json file, zl_err *err)
{
    const zl_json total = zl_json_get(file, "train_batch_size");
    r->ds->accumulation_set = zl_json_get(file, "gradient_accumulation_steps").node != NULL;
    if (zt_ds_is_auto(total)) {
        return zt_ds_auto_total(r, err);
    }
    return total.node == NULL ? ZL_OK : zt_ds_whole(total, &r->ds->train_batch, err);
}

static zl_status read_dtype(zl_json value, const char **out, zl_err *err)
{
    static const char *const spellings[][4] = {
        {"fp32", "float32", "float", "torch.float32"},
        {"fp16", "float16", "half", "torch.float16"},
        {"bf16", "bfloat16", "bfp16", "torch.bfloat16"},
    };
    const char *name = NULL;
    ZL_TRY(zt_ds_refuse_auto(value, err));
    ZL_TRY(zl_json_string(value, &name, err));
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        for (size_t k = 0; k < sizeof spellings[0] / sizeof spellings[0][0]; k++) {
            if (strcmp(spellings[i][k], name) == 0) {
                *out = spellings[i][0];
                return ZL_OK;
            }
        }
    }
    return zl_fail(err, ZL_E_INPUT, "%s must be fp32, fp16 or bf16, got '%.40s'", value.path, name);
}

static const char *model_dtype(const zl_ds_config *ds)
{
    return ds->fp16 ? "fp16" : ds->bf16 ? "bf16" : "fp32";
}

/* Whether the Trainer or accelerate completes the file. */
static bool has_auto(zl_json file)
{
    const char *name = NULL;
    zl_json value = file;
    for (size_t i = 0; zl_json_each_member(file, &i, &name, &value);) {
        if (zt_ds_is_auto(value)) {
            return true;
        }
    }
    return false;
}

static zl_status read_enabled(const zt_ds_reader *r, zl_json file, zl_json fp16, zl_json bf16,
                              zl_err *err)
{
    const zl_json fp16_enabled = zl_json_get(fp16, "enabled");
    const zl_json bf16_enabled = zl_json_get(bf16, "enabled");
    const bool fp16_auto = zt_ds_is_auto(fp16_enabled);
    const bool bf16_auto = zt_ds_is_auto(bf16_enabled);
    if (fp16_enabled.node != NULL && !fp16_auto) {
        ZL_TRY(zt_ds_flag(r, fp16_enabled, &r->ds->fp16, err));
    }
    if (bf16_enabled.node != NULL && !bf16_auto) {
        ZL_TRY(zt_ds_flag(r, bf16_enabled, &r->ds->bf16, err));
    }
    if (fp16_auto || bf16_auto || has_auto(file)) {
        zt_ds_add_precision(r, fp16.node == NULL && !r->ds->bf16,
                            bf16.node == NULL && !r->ds->fp16);
    }
    return fp16_auto || bf16_auto ? zt_ds_auto_precision(r, fp16_auto, bf16_auto, err) : ZL_OK;
}

static zl_status read_precision(const zt_ds_reader *r, zl_json file, zl_err *err)
{
    zl_ds_config *const ds = r->ds;
    const zl_json fp16 = zl_json_get(file, "fp16");
    const zl_json newer = zl_json_get(file, "bf16");
    const zl_json bf16 = newer.node != NULL ? newer : zl_json_get(file, "bfloat16");
    ZL_TRY(zt_ds_read_keys(r, fp16, ZT_DS_FP16, err));
    ZL_TRY(zt_ds_read_keys(r, bf16, ZT_DS_BF16, err));
    ZL_TRY(read_enabled(r, file, fp16, bf16, err));
    if (ds->fp16 && ds->bf16) {
        return zl_fail(err, ZL_E_INPUT, "fp16 and bf16 are both enabled; keep one of them");
    }
    const zl_json power = zl_json_get(fp16, "initial_scale_power");
    if (power.node != NULL && ds->fp16 && !zt_ds_is_auto(power)) {
        uint64_t count = 0;
        ZL_TRY(zt_ds_count(r, power, &count, err));
        ds->initial_scale_power = (uint32_t)zl_min(count, UINT32_MAX);
    }
    const zl_json check = zl_json_get(bf16, "check_grad_overflow");
    const bool said = check.node != NULL && !zt_ds_is_auto(check);
    bool given = false;
    if (said) {
        ZL_TRY(zt_ds_flag(r, check, &given, err));
    }
    ds->check_grad_overflow = checks_overflow(ds, said ? &given : NULL);
    return ZL_OK;
}

/* "auto" is the Trainer's max_grad_norm, 1 unless it is told otherwise. */
static zl_status read_clipping(const zt_ds_reader *r, zl_json file, zl_err *err)
{
    const zl_json value = zl_json_get(file, "gradient_clipping");
    double most = r->program->clip_given ? r->program->clip : 1.0;
    if (value.node == NULL) {
        return ZL_OK;
    }
    if (zt_ds_is_auto(value)) {
        char text[24];
        snprintf(text, sizeof text, "%.6g", most);
        zt_ds_note(r->ds, value.path, text, "%s",
                   r->program->clip_given ? "--clip"
                                          : "the default of Trainer and accelerate; --clip "
                                            "changes it");
    } else {
        ZL_TRY(zt_ds_real(r, value, &most, err));
    }
    r->ds->clips = most > 0.0;
    return ZL_OK;
}

static zl_status read_data_types(const zt_ds_reader *r, zl_json file, zl_err *err)
{
    const zl_json types = zl_json_get(file, "data_types");
    ZL_TRY(zt_ds_read_keys(r, types, ZT_DS_DATA_TYPES, err));
    const zl_json accumulate = zl_json_get(types, "grad_accum_dtype");
    const char *dtype = model_dtype(r->ds);
    if (accumulate.node != NULL) {
        ZL_TRY(read_dtype(accumulate, &dtype, err));
        r->ds->grad_accum_set = true;
    }
    const bool wide = strcmp(dtype, "fp32") == 0;
    if (!wide && strcmp(dtype, model_dtype(r->ds)) != 0) {
        return zl_fail(err, ZL_E_UNMODELLED, "%s '%s' of a model in %s is not modelled",
                       accumulate.path, dtype, model_dtype(r->ds));
    }
    /* From 0.7.7 to 0.17.5 bf16 without ZeRO accumulates in fp32 unless told otherwise. */
    const bool wide_default =
        r->ds->bf16 && r->ds->stage == 0 && r->ds->version >= 7007 && r->ds->version < 17006;
    r->ds->grad_accum_fp32 = r->ds->grad_accum_set ? wide : wide || wide_default;
    const zl_json communication = zl_json_get(file, "communication_data_type");
    if (communication.node != NULL) {
        ZL_TRY(read_dtype(communication, &dtype, err));
        if (strcmp(dtype, model_dtype(r->ds)) != 0) {
            return zl_fail(err, ZL_E_UNMODELLED, "%s '%s' of a model in %s is not modelled",
                           communication.path, dtype, model_dtype(r->ds));
        }
    }
    return ZL_OK;
}

static zl_status read_adam(const zt_ds_reader *r, zl_json params, zl_err *err)
{
    static const char *const choices[] = {"fused", "foreach", "amsgrad"};
    const zl_json torch_adam = zl_json_get(params, "torch_adam");
    bool torch = false;
    if (torch_adam.node != NULL) {
        ZL_TRY(zt_ds_flag(r, torch_adam, &torch, err));
    }
    r->ds->optimizer = torch ? ZL_DS_TORCH_ADAM : ZL_DS_ADAM;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        const zl_json value = zl_json_get(params, choices[i]);
        if (!zt_ds_is_off(value, 0)) {
            return zl_fail(err, ZL_E_UNMODELLED, "%s is not modelled", value.path);
        }
    }
    return ZL_OK;
}

/* DeepSpeed compares the names of its own optimizers without case. */
static void lower(const char *text, char *out, size_t size)
{
    size_t i = 0;
    for (; text[i] != '\0' && i + 1 < size; i++) {
        out[i] = (char)tolower((unsigned char)text[i]);
    }
    out[i] = '\0';
}

static zl_status read_optimizer(const zt_ds_reader *r, zl_json file, zl_err *err)
{
    const zl_json object = zl_json_get(file, "optimizer");
    if (object.node == NULL) {
        return ZL_OK;
    }
    const zl_json type = zl_json_get(object, "type");
    const zl_json params = zl_json_get(object, "params");
    const char *name = NULL;
    ZL_TRY(zt_ds_refuse_auto(type, err));
    ZL_TRY(zl_json_string(type, &name, err));
    char lowered[32];
    lower(name, lowered, sizeof lowered);
    if (strcmp(lowered, "adam") == 0 || strcmp(lowered, "adamw") == 0) {
        return read_adam(r, params, err);
    }
    if (strcmp(lowered, "lamb") == 0) {
        r->ds->optimizer = ZL_DS_LAMB;
        return ZL_OK;
    }
    if (strcmp(lowered, "sgd") == 0) {
        r->ds->optimizer = ZL_DS_SGD;
        r->ds->momentum = !zt_ds_is_off(zl_json_get(params, "momentum"), 0);
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_UNMODELLED,
                   "optimizer '%.40s' is not modelled; modelled: Adam, AdamW, Lamb, SGD", name);
}

zl_status zl_ds_config_read_in(zl_json file, const zl_ds_program *program, zl_ds_config *out,
                               zl_err *err)
{
    zl_ds_config ds = zl_ds_config_default(program->version);
    const zt_ds_reader r = {.ds = &ds, .program = program};
    ZL_TRY(zt_ds_read_keys(&r, file, ZT_DS_TOP, err));
    ZL_TRY(read_batch(&r, file, err));
    ZL_TRY(read_zero(&r, file, err));
    ZL_TRY(read_precision(&r, file, err));
    ZL_TRY(read_data_types(&r, file, err));
    ZL_TRY(read_optimizer(&r, file, err));
    ZL_TRY(read_clipping(&r, file, err));
    *out = ds;
    return ZL_OK;
}

zl_status zl_ds_config_read(zl_json file, uint32_t version, zl_ds_config *out, zl_warn *warn,
                            void *context, zl_err *err)
{
    const zl_ds_program alone = {.version = version, .warn = warn, .context = context};
    return zl_ds_config_read_in(file, &alone, out, err);
}
