/* Keys and defaults: PeftConfig of peft/config.py and LoraConfig of peft/tuners/lora/config.py,
 * 0.19. */
#include "peft.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "zeroledger/json.h"
#include "zeroledger/text.h"

static const char file_name[] = "adapter_config.json";

bool zl_peft_find(const char *text, char *path, size_t size)
{
    static const char end[] = ".json";
    struct stat st;
    const size_t length = strlen(text);
    const bool named = length >= sizeof end && strcmp(text + length - strlen(end), end) == 0;
    const bool folder = !named && stat(text, &st) == 0 && S_ISDIR(st.st_mode);
    const int used =
        snprintf(path, size, "%s%s%s", text, folder ? "/" : "", folder ? file_name : "");
    return used > 0 && (size_t)used < size && (named || (folder && stat(path, &st) == 0));
}

/* What becomes of a key. */
typedef enum rule {
    RULE_NOTHING, /* moves no byte of training */
    RULE_READ,
    RULE_OFF /* moves memory outside the model unless it is null, false or empty */
} rule;

static const struct {
    const char *name;
    rule rule;
} keys[] = {
    {"peft_type", RULE_READ},
    {"r", RULE_READ},
    {"target_modules", RULE_READ},
    {"lora_dropout", RULE_READ},
    {"bias", RULE_READ},
    {"task_type", RULE_READ},
    {"base_model_name_or_path", RULE_READ},
    {"modules_to_save", RULE_OFF},
    {"exclude_modules", RULE_OFF},
    {"layers_to_transform", RULE_OFF},
    {"rank_pattern", RULE_OFF},
    {"use_dora", RULE_OFF},
    {"use_qalora", RULE_OFF},
    {"use_bdlora", RULE_OFF},
    {"lora_bias", RULE_OFF},
    {"layer_replication", RULE_OFF},
    {"target_parameters", RULE_OFF},
    {"trainable_token_indices", RULE_OFF},
    {"megatron_config", RULE_OFF},
    {"alora_invocation_tokens", RULE_OFF},
    {"arrow_config", RULE_OFF},
    {"kasa_config", RULE_OFF},
    {"velora_config", RULE_OFF},
    {"monteclora_config", RULE_OFF},
    {"ensure_weight_tying", RULE_NOTHING}, /* of modules_to_save */
    {"layers_pattern", RULE_NOTHING},      /* of layers_to_transform */
    {"lora_alpha", RULE_NOTHING},
    {"alpha_pattern", RULE_NOTHING},
    {"use_rslora", RULE_NOTHING},
    {"fan_in_fan_out", RULE_NOTHING},
    {"init_lora_weights", RULE_NOTHING}, /* values, as the four below */
    {"loftq_config", RULE_NOTHING},
    {"eva_config", RULE_NOTHING},
    {"corda_config", RULE_NOTHING},
    {"lora_ga_config", RULE_NOTHING},
    {"qalora_group_size", RULE_NOTHING}, /* of use_qalora */
    {"megatron_core", RULE_NOTHING},
    {"inference_mode", RULE_NOTHING}, /* every saved adapter has it */
    {"runtime_config", RULE_NOTHING},
    {"auto_mapping", RULE_NOTHING},
    {"revision", RULE_NOTHING},
    {"peft_version", RULE_NOTHING},
};

enum { KEYS = sizeof keys / sizeof keys[0] };

static bool is_off(zl_json value)
{
    bool flag = false;
    if (zl_json_is_object(value) || zl_json_is_array(value)) {
        return zl_json_size(value) == 0;
    }
    return value.node == NULL ||
           (zl_json_is_bool(value) && zl_json_bool(value, &flag, NULL) == ZL_OK && !flag);
}

static void warn_unknown(const char *name, zl_warn *warn, void *context)
{
    const char *names[KEYS];
    char line[256];
    for (size_t i = 0; i < KEYS; i++) {
        names[i] = keys[i].name;
    }
    const char *near = zl_nearest(name, names, KEYS);
    snprintf(line, sizeof line, "%s: %.60s is not a key of LoRA that is known here%s%s%s",
             file_name, name, near != NULL ? "; did you mean " : "", near != NULL ? near : "",
             near != NULL ? "?" : "");
    if (warn != NULL) {
        warn(context, line);
    }
}

static zl_status check_keys(zl_json root, zl_warn *warn, void *context, zl_err *err)
{
    const char *name = NULL;
    zl_json value;
    for (size_t i = 0; zl_json_each_member(root, &i, &name, &value);) {
        size_t at = 0;
        while (at < KEYS && strcmp(keys[at].name, name) != 0) {
            at++;
        }
        if (at == KEYS) {
            warn_unknown(name, warn, context);
        } else if (keys[at].rule == RULE_OFF && !is_off(zl_json_get(root, name))) {
            return zl_fail(err, ZL_E_UNMODELLED, "%s is not modelled; switch it off", name);
        }
    }
    return ZL_OK;
}

/* A text; `absent` where there is none. */
static zl_status get_text(zl_json root, const char *key, const char *absent, const char **out,
                          zl_err *err)
{
    const zl_json value = zl_json_get(root, key);
    *out = absent;
    return value.node != NULL ? zl_json_string(value, out, err) : ZL_OK;
}

static zl_status check_kind(zl_json root, zl_err *err)
{
    /* Those of other tasks have a head that trains too (peft/peft_model.py). */
    static const char *const tasks[] = {"", "CAUSAL_LM", "FEATURE_EXTRACTION"};
    const char *kind = NULL;
    const char *bias = NULL;
    const char *task = NULL;
    bool known = false;
    ZL_TRY(zl_json_string(zl_json_get(root, "peft_type"), &kind, err));
    ZL_TRY(get_text(root, "bias", "none", &bias, err));
    ZL_TRY(get_text(root, "task_type", "", &task, err));
    if (strcasecmp(kind, "LORA") != 0) {
        return zl_fail(err, ZL_E_UNMODELLED, "peft_type %.40s is not modelled; modelled: LORA",
                       kind);
    }
    if (strcmp(bias, "none") != 0) {
        return zl_fail(err, ZL_E_UNMODELLED, "bias '%.40s' is not modelled; modelled: none", bias);
    }
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        known |= strcmp(tasks[i], task) == 0;
    }
    return known ? ZL_OK
                 : zl_fail(err, ZL_E_UNMODELLED,
                           "task_type %.40s is not modelled; modelled: CAUSAL_LM, "
                           "FEATURE_EXTRACTION",
                           task);
}

static zl_status too_long(zl_err *err)
{
    return zl_fail(err, ZL_E_UNMODELLED, "target_modules of more than %d characters are not read",
                   ZL_LORA_SIZE - 32);
}

/* Adapters of embeddings, and of a head that is one, are made in another way. */
static zl_status check_target(const char *name, zl_err *err)
{
    static const char *const others[] = {"embed_tokens", "wte",     "wpe",      "word_embeddings",
                                         "lm_head",      "decoder", "embed_out"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(dot != NULL ? dot + 1 : name, others[i]) == 0) {
            return zl_fail(err, ZL_E_UNMODELLED,
                           "target_modules: an adapter of %.60s is not modelled; modelled: of the "
                           "layers' linear modules",
                           name);
        }
    }
    return strpbrk(name, ",:/") != NULL || name[0] == '\0'
               ? zl_fail(err, ZL_E_INPUT, "target_modules: '%.60s' is no name of a module", name)
               : ZL_OK;
}

static zl_status put_list(zl_json list, char *text, size_t size, zl_err *err)
{
    zl_json item;
    size_t used = 0;
    for (size_t i = 0; zl_json_each(list, &i, &item);) {
        const char *name = NULL;
        ZL_TRY(zl_json_string(item, &name, err));
        ZL_TRY(check_target(name, err));
        const int more = snprintf(text + used, size - used, "%s%s", used > 0 ? "," : "", name);
        if (more < 0 || (size_t)more >= size - used) {
            return too_long(err);
        }
        used += (size_t)more;
    }
    return used > 0 ? ZL_OK
                    : zl_fail(err, ZL_E_INPUT, "target_modules is empty; name at least one module");
}

static zl_status put_targets(zl_json root, char *text, size_t size, zl_err *err)
{
    const zl_json targets = zl_json_get(root, "target_modules");
    const char *word = NULL;
    if (zl_json_is_array(targets)) {
        return put_list(targets, text, size, err);
    }
    if (targets.node == NULL) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "target_modules is missing or null, which peft fills in by the model's "
                       "type; write the modules that it took");
    }
    ZL_TRY(zl_json_string(targets, &word, err));
    const bool all = strcasecmp(word, "all-linear") == 0;
    const int used = snprintf(text, size, all ? "all-linear" : "/%s/", word);
    return used < 0 || (size_t)used >= size ? too_long(err) : ZL_OK;
}

static zl_status read_root(zl_json root, zl_peft *out, zl_err *err)
{
    const char *base = NULL;
    uint64_t rank = 8;
    double dropout = 0;
    const zl_json r = zl_json_get(root, "r");
    const zl_json p = zl_json_get(root, "lora_dropout");
    ZL_TRY(check_kind(root, err));
    if (r.node != NULL) {
        ZL_TRY(zl_json_u64(r, &rank, err));
    }
    if (p.node != NULL) {
        ZL_TRY(zl_json_real(p, &dropout, err));
    }
    if (rank == 0 || !(dropout >= 0 && dropout < 1)) {
        return zl_fail(err, ZL_E_INPUT,
                       "r must be at least 1 and lora_dropout from 0 to below 1, got %" PRIu64
                       " and %g",
                       rank, dropout);
    }
    int used = snprintf(out->lora, sizeof out->lora, "%" PRIu64, rank);
    if (dropout > 0) {
        used += snprintf(out->lora + used, sizeof out->lora - (size_t)used, "@%.6g", dropout);
    }
    used += snprintf(out->lora + used, sizeof out->lora - (size_t)used, ":");
    ZL_TRY(put_targets(root, out->lora + used, sizeof out->lora - (size_t)used, err));
    ZL_TRY(get_text(root, "base_model_name_or_path", "", &base, err));
    snprintf(out->base, sizeof out->base, "%s", base);
    return ZL_OK;
}

zl_status zl_peft_read(const char *path, zl_peft *out, zl_warn *warn, void *context, zl_err *err)
{
    zl_json_doc *doc = NULL;
    zl_peft read = {.base = ""};
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_json root = zl_json_root(doc);
    zl_status status = zl_json_is_object(root)
                           ? check_keys(root, warn, context, err)
                           : zl_fail(err, ZL_E_INPUT, "the top level must be an object");
    if (status == ZL_OK) {
        status = read_root(root, &read, err);
    }
    zl_json_free(doc);
    if (status != ZL_OK) {
        zl_fail_at(err, path);
        return status;
    }
    *out = read;
    return ZL_OK;
}
