#include "args_files.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peft.h"
#include "zeroledger/torch.h"

static void warn(void *context, const char *line)
{
    fprintf(stderr, "zl %s: warning: %s\n", (const char *)context, line);
}

zl_status zl_args_accelerate(const zl_args *args, zl_accelerate *out, zl_run *run, zl_err *err)
{
    const char *path = zl_args_value(args, "accelerate-config");
    char name[32];
    *out = (zl_accelerate){.count = 0};
    if (path == NULL) {
        return ZL_OK;
    }
    snprintf(name, sizeof name, "%s", args->command->name);
    ZL_TRY(zl_accelerate_read(path, out, warn, name, err));
    return zl_accelerate_apply(out, args, run, err);
}

static zl_status read_adapter(const zl_args *args, const char *path, zl_peft *out, zl_err *err)
{
    char name[32];
    snprintf(name, sizeof name, "%s", args->command->name);
    return zl_peft_read(path, out, warn, name, err);
}

zl_status zl_args_set(const zl_args *args, const zl_setting *set, zl_run *run, zl_err *err)
{
    char path[PATH_MAX];
    zl_peft peft;
    const char *name = set->option->name;
    const char *value = set->option->arg != NULL ? set->value : NULL;
    if (strcmp(name, "lora") == 0 && zl_peft_find(value, path, sizeof path)) {
        ZL_TRY(read_adapter(args, path, &peft, err));
        return zl_run_set(run, name, peft.lora, err);
    }
    return zl_run_set(run, name, value, err);
}

/* The adapter in the folder that is the model. */
static bool find_adapter(const zl_args *args, char path[PATH_MAX])
{
    const char *model = zl_args_value(args, "model");
    return model != NULL && zl_peft_find(model, path, PATH_MAX) && strcmp(model, path) != 0;
}

zl_status zl_args_check_adapter(const zl_args *args, zl_err *err)
{
    char path[PATH_MAX];
    char config[PATH_MAX];
    zl_peft peft;
    const char *model = zl_args_value(args, "model");
    if (!find_adapter(args, path)) {
        return ZL_OK;
    }
    const int used = snprintf(config, sizeof config, "%s/config.json", model);
    if (used < 0 || (size_t)used >= sizeof config || access(config, F_OK) == 0) {
        return ZL_OK;
    }
    ZL_TRY(read_adapter(args, path, &peft, err));
    return zl_fail(
        err, ZL_E_INPUT,
        "%.100s has an adapter%s%.100s and no config.json; give --lora %.100s, and --model "
        "with the config.json of the model it was made for",
        model, peft.base[0] != '\0' ? " of " : "", peft.base, model);
}

zl_status zl_args_adapter(const zl_args *args, zl_run *run, zl_err *err)
{
    char path[PATH_MAX];
    zl_peft peft;
    if (zl_args_value(args, "lora") != NULL || !find_adapter(args, path)) {
        return ZL_OK;
    }
    if (run->framework == ZL_FRAMEWORK_NATIVE) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "%.200s means LoRA, which the framework native has not; name another "
                       "--framework, or the config.json beside it",
                       path);
    }
    ZL_TRY(read_adapter(args, path, &peft, err));
    fprintf(stderr, "zl %s: from adapter_config.json: --lora %s\n", args->command->name, peft.lora);
    return zl_run_set(run, "lora", peft.lora, err);
}

/* An index says how many bytes its tensors have. */
static zl_status check_total(zl_json weights, char *name, zl_err *err)
{
    char line[128];
    uint64_t said = 0;
    uint64_t found = 0;
    const zl_json total = zl_json_get(weights, "total_size");
    if (total.node == NULL) {
        return ZL_OK;
    }
    ZL_TRY(zl_json_u64(total, &said, err));
    ZL_TRY(zl_json_u64(zl_json_get(weights, "tensor_bytes"), &found, err));
    snprintf(line, sizeof line,
             "metadata.total_size of the index is %" PRIu64 ", its tensors have %" PRIu64 " bytes",
             said, found);
    warn(name, line);
    return ZL_OK;
}

static zl_status compare(zl_json weights, zl_json config, char *name, zl_err *err)
{
    char line[640];
    zl_hf_config *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    zl_err unread = {.status = ZL_OK}; /* told when the run is walked */
    zl_status status = zl_hf_config_read(config, model, &unread);
    if (status == ZL_OK) {
        status = zl_hf_compare(model, zl_json_get(weights, "tensors"), line, sizeof line, err);
        if (status == ZL_OK && line[0] != '\0') {
            warn(name, line);
        }
    } else {
        status = ZL_OK;
    }
    free(model);
    return status;
}

/* The weights beside the config.json that is the model. */
static zl_status compare_folder(const zl_args *args, zl_json config, char *name, zl_err *err)
{
    zl_json_doc *weights = NULL;
    zl_err broken = {.status = ZL_OK};
    const char *folder = zl_args_value(args, "model");
    if (folder == NULL) {
        return ZL_OK;
    }
    if (zl_model_weights(folder, &weights, &broken) != ZL_OK) {
        char line[640];
        snprintf(line, sizeof line, "weights are not compared with the config.json: %s",
                 broken.text);
        warn(name, line);
        return ZL_OK;
    }
    zl_status status = ZL_OK;
    if (weights != NULL) {
        status = check_total(zl_json_root(weights), name, err);
        if (status == ZL_OK) {
            status = compare(zl_json_root(weights), config, name, err);
        }
    }
    zl_json_free(weights);
    return status;
}

/* "model-00001-of-00002.safetensors" is not all of a model. */
static void warn_of_shard(const zl_args *args, char *name)
{
    const char *path = zl_args_value(args, "model");
    if (path == NULL || fnmatch("*-[0-9]*-of-[0-9]*.safetensors", path, 0) != 0 ||
        fnmatch("*-of-00001.safetensors", path, 0) == 0) {
        return;
    }
    char line[320];
    snprintf(line, sizeof line,
             "%.200s has one shard of the weights; its folder or its index has all of them", path);
    warn(name, line);
}

zl_status zl_args_weights(const zl_args *args, const zl_run *run, zl_err *err)
{
    zl_json_doc *doc = NULL;
    char name[32];
    if (run->hf_config[0] == '\0') {
        return ZL_OK;
    }
    snprintf(name, sizeof name, "%s", args->command->name);
    ZL_TRY(zl_json_parse(run->model.name, run->hf_config, strlen(run->hf_config), &doc, err));
    const zl_json config = zl_json_root(doc);
    zl_status status = ZL_OK;
    if (zl_json_get(config, "tensors").node != NULL) {
        warn_of_shard(args, name);
        status = check_total(config, name, err);
    } else {
        zl_hf_config_slips(config, warn, name);
        status =
            run->framework == ZL_FRAMEWORK_NATIVE ? ZL_OK : compare_folder(args, config, name, err);
    }
    zl_json_free(doc);
    return status;
}

zl_status zl_args_no_model(const zl_args *args, zl_err *err)
{
    char path[PATH_MAX];
    zl_peft peft = {.base = ""};
    const char *lora = zl_args_value(args, "lora");
    if (lora != NULL && zl_peft_find(lora, path, sizeof path)) {
        ZL_TRY(read_adapter(args, path, &peft, err));
    }
    return peft.base[0] != '\0'
               ? zl_fail(err, ZL_E_USAGE,
                         "no model; the adapter was made for %s, give --model with its config.json",
                         peft.base)
               : zl_fail(err, ZL_E_USAGE,
                         "no model; give --model NAME ('zl list models' has the names) or --run "
                         "FILE");
}
