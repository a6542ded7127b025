/* deepspeed_config: DeepSpeedPlugin of accelerate, which makes a ds_config.json of its keys or
 * takes one from a file. */
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "accelerate_read.h"

static const zl_acc_key keys[] = {
    {"deepspeed_config_file", ZL_ACC_READ},
    {"zero_stage", ZL_ACC_READ},
    {"offload_optimizer_device", ZL_ACC_READ},
    {"offload_param_device", ZL_ACC_READ},
    {"offload_optimizer_nvme_path", ZL_ACC_NOTHING},
    {"offload_param_nvme_path", ZL_ACC_NOTHING},
    {"gradient_accumulation_steps", ZL_ACC_READ},
    {"gradient_clipping", ZL_ACC_READ},
    {"zero3_init_flag", ZL_ACC_READ},
    {"zero3_save_16bit_model", ZL_ACC_NOTHING},
    {"deepspeed_hostfile", ZL_ACC_NOTHING},
    {"deepspeed_exclusion_filter", ZL_ACC_NOTHING},
    {"deepspeed_inclusion_filter", ZL_ACC_NOTHING},
    {"deepspeed_multinode_launcher", ZL_ACC_NOTHING},
    {"deepspeed_moe_layer_cls_names", ZL_ACC_OFF},
};

static zl_json member(const zl_acc_reader *r, const char *name)
{
    return zl_json_get(zl_json_get(r->root, "deepspeed_config"), name);
}

/* Relative to where accelerate is started, which may be beside the YAML file. */
static void find_file(const char *yaml, const char *name, char path[PATH_MAX])
{
    const char *slash = strrchr(yaml, '/');
    snprintf(path, PATH_MAX, "%s", name);
    if (name[0] != '/' && slash != NULL && access(path, F_OK) != 0) {
        char beside[PATH_MAX];
        const int used =
            snprintf(beside, sizeof beside, "%.*s/%s", (int)(slash - yaml), yaml, name);
        if (used > 0 && (size_t)used < sizeof beside && access(beside, F_OK) == 0) {
            snprintf(path, PATH_MAX, "%s", beside);
        }
    }
}

/* _deepspeed_config_checks of DeepSpeedPlugin */
static zl_status refuse_beside_file(const zl_acc_reader *r, zl_err *err)
{
    static const char *const names[] = {
        "gradient_accumulation_steps", "gradient_clipping",      "zero_stage",
        "offload_optimizer_device",    "offload_param_device",   "offload_optimizer_nvme_path",
        "offload_param_nvme_path",     "zero3_save_16bit_model",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (member(r, names[i]).node != NULL) {
            return zl_fail(err, ZL_E_INPUT,
                           "deepspeed_config.%s beside deepspeed_config_file is refused by "
                           "accelerate; say it in that file only",
                           names[i]);
        }
    }
    return zl_json_get(r->root, "mixed_precision").node != NULL
               ? zl_fail(err, ZL_E_INPUT,
                         "mixed_precision beside deepspeed_config_file is refused "
                         "by accelerate; say it in that file only")
               : ZL_OK;
}

static zl_status take_file(const zl_acc_reader *r, const char *yaml, const char *name, zl_err *err)
{
    char path[PATH_MAX];
    char from[ZL_ACCELERATE_TEXT];
    ZL_TRY(refuse_beside_file(r, err));
    find_file(yaml, name, path);
    if (strlen(path) >= ZL_ACCELERATE_TEXT) {
        return zl_fail(err, ZL_E_INPUT, "the path of deepspeed_config_file is too long: %.80s...",
                       path);
    }
    snprintf(from, sizeof from, "deepspeed_config_file %.150s", name);
    return zl_acc_decide(r, "deepspeed-config", path, from, err);
}

static zl_status put_offload(const zl_acc_reader *r, zl_json_writer *w, const char *name,
                             const char *key, zl_err *err)
{
    const zl_json value = member(r, name);
    char word[ZL_ACC_WORD] = "";
    ZL_TRY(zl_acc_name(r, value, "NONE", word, err));
    const char *device = word[0] == '\0' || strcmp(word, "NONE") == 0 ? "none"
                         : strcmp(word, "CPU") == 0                   ? "cpu"
                         : strcmp(word, "NVME") == 0                  ? "nvme"
                                                                      : NULL;
    if (device == NULL) {
        return zl_fail(err, ZL_E_INPUT, "%s must be one of none, cpu, nvme, got '%.40s'",
                       value.path, word);
    }
    if (strcmp(device, "none") != 0) {
        zl_json_begin_object(w, key);
        zl_json_put_string(w, "device", device);
        zl_json_end(w);
    }
    return ZL_OK;
}

/* A number; "auto" and nothing are the Accelerator's: 1 micro-step, which --accumulation may
 * change, and a norm of 1. */
static bool is_auto(zl_json value)
{
    const char *text = NULL;
    return value.node == NULL ||
           (zl_json_is_string(value) && zl_json_string(value, &text, NULL) == ZL_OK &&
            strcmp(text, "auto") == 0);
}

static zl_status put_steps(const zl_acc_reader *r, zl_json_writer *w, zl_err *err)
{
    const zl_json value = member(r, "gradient_accumulation_steps");
    uint64_t steps = 1;
    char text[24];
    char from[ZL_ACCELERATE_TEXT];
    if (is_auto(value)) {
        return ZL_OK;
    }
    ZL_TRY(zl_acc_count(value, &steps, err));
    zl_json_put_u64(w, "gradient_accumulation_steps", steps);
    snprintf(text, sizeof text, "%" PRIu64, steps);
    snprintf(from, sizeof from, "gradient_accumulation_steps %" PRIu64, steps);
    return zl_acc_decide(r, "accumulation", text, from, err);
}

static zl_status put_clipping(const zl_acc_reader *r, zl_json_writer *w, zl_err *err)
{
    const zl_json value = member(r, "gradient_clipping");
    double norm = 1.0;
    const char *text = NULL;
    if (is_auto(value)) {
        norm = 1.0;
    } else if (zl_json_is_string(value)) {
        ZL_TRY(zl_json_string(value, &text, err));
        ZL_TRY(zl_parse_real(value.path, text, &norm, err));
    } else {
        ZL_TRY(zl_json_real(value, &norm, err));
    }
    if (!(norm >= 0)) {
        return zl_fail(err, ZL_E_INPUT, "%s must be a norm of at least 0", value.path);
    }
    if (norm > 0) {
        zl_json_put_real(w, "gradient_clipping", norm);
    }
    return ZL_OK;
}

static zl_status put_zero(const zl_acc_reader *r, zl_json_writer *w, zl_err *err)
{
    const zl_json value = member(r, "zero_stage");
    uint64_t stage = 2;
    char text[24];
    char from[ZL_ACCELERATE_TEXT];
    ZL_TRY(zl_acc_count(value, &stage, err));
    if (stage > 3) {
        return zl_fail(err, ZL_E_INPUT, "%s must be 0..3, got %" PRIu64, value.path, stage);
    }
    snprintf(text, sizeof text, "%" PRIu64, stage);
    snprintf(from, sizeof from, "zero_stage%s %" PRIu64,
             value.node == NULL ? ", absent and so" : "", stage);
    zl_json_begin_object(w, "zero_optimization");
    zl_json_put_u64(w, "stage", stage);
    ZL_TRY(put_offload(r, w, "offload_optimizer_device", "offload_optimizer", err));
    ZL_TRY(put_offload(r, w, "offload_param_device", "offload_param", err));
    zl_json_end(w);
    return zl_acc_decide(r, "stage", text, from, err);
}

static zl_status put_precision(const zl_acc_reader *r, zl_json_writer *w, const char *mixed,
                               zl_err *err)
{
    const bool fp16 = strcmp(mixed, "FP16") == 0;
    const bool bf16 = strcmp(mixed, "BF16") == 0;
    if (fp16 || bf16) {
        zl_json_begin_object(w, fp16 ? "fp16" : "bf16");
        zl_json_put_bool(w, "enabled", true);
        zl_json_end(w);
    }
    return zl_acc_decide(r, "precision",
                         fp16   ? "fp16-mixed"
                         : bf16 ? "bf16-mixed"
                                : "fp32",
                         fp16   ? "mixed_precision fp16"
                         : bf16 ? "mixed_precision bf16"
                                : "mixed_precision no",
                         err);
}

/* What DeepSpeedPlugin makes of its arguments where there is no file. */
static zl_status make_file(const zl_acc_reader *r, zl_json_writer *w, const char *mixed,
                           zl_err *err)
{
    size_t size = 0;
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "train_micro_batch_size_per_gpu", "auto"); /* of the data loader */
    ZL_TRY(put_steps(r, w, err));
    ZL_TRY(put_zero(r, w, err));
    ZL_TRY(put_precision(r, w, mixed, err));
    ZL_TRY(put_clipping(r, w, err));
    zl_json_end(w);
    const char *text = zl_json_writer_text(w, &size);
    if (text == NULL || size >= sizeof r->out->deepspeed) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    memcpy(r->out->deepspeed, text, size + 1);
    return ZL_OK;
}

zl_status zl_acc_deepspeed(const zl_acc_reader *r, const char *path, const char *mixed, zl_err *err)
{
    const zl_json section = zl_json_get(r->root, "deepspeed_config");
    char file[ZL_ACC_WORD] = "";
    ZL_TRY(zl_acc_members(r, section, keys, sizeof keys / sizeof keys[0], NULL, false, err));
    ZL_TRY(zl_acc_decide(r, "framework", "deepspeed", "distributed_type DEEPSPEED", err));
    r->out->zero_init = true;
    ZL_TRY(zl_acc_flag(member(r, "zero3_init_flag"), &r->out->zero_init, err));
    ZL_TRY(zl_acc_word(member(r, "deepspeed_config_file"), file, err));
    if (file[0] != '\0' && strcmp(file, "none") != 0) {
        return take_file(r, path, file, err);
    }
    zl_json_writer *w = zl_json_writer_new();
    const zl_status status = make_file(r, w, mixed, err);
    zl_json_writer_free(w);
    return status;
}
