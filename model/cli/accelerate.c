#include "accelerate.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "accelerate_read.h"
#include "yaml_file.h"
#include "zeroledger/bytes.h"

/* ---- values ---- */

void zl_acc_warn(const zl_acc_reader *r, const char *format, ...)
{
    char line[320];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (r->warn != NULL) {
        r->warn(r->context, line);
    }
}

zl_status zl_acc_decide(const zl_acc_reader *r, const char *option, const char *value,
                        const char *from, zl_err *err)
{
    if (r->out->count == ZL_ACCELERATE_MAX) {
        return zl_fail(err, ZL_E_BUG, "no room for %s of the accelerate config", option);
    }
    zl_accelerate_setting *s = &r->out->setting[r->out->count++];
    *s = (zl_accelerate_setting){.option = option};
    snprintf(s->value, sizeof s->value, "%s", value);
    snprintf(s->from, sizeof s->from, "%s", from);
    return ZL_OK;
}

zl_status zl_acc_word(zl_json value, char word[ZL_ACC_WORD], zl_err *err)
{
    const char *text = "";
    char number[32] = "";
    double real = 0;
    bool flag = false;
    if (zl_json_is_bool(value)) {
        ZL_TRY(zl_json_bool(value, &flag, err));
        text = flag ? "True" : "False";
    } else if (zl_json_is_number(value)) {
        ZL_TRY(zl_json_real(value, &real, err));
        snprintf(number, sizeof number, "%.17g", real);
        text = number;
    } else if (value.node != NULL) {
        ZL_TRY(zl_json_string(value, &text, err));
    }
    if (strlen(text) >= ZL_ACC_WORD) {
        return zl_fail(err, ZL_E_INPUT, "%s is longer than %d characters", value.path,
                       ZL_ACC_WORD - 1);
    }
    snprintf(word, ZL_ACC_WORD, "%s", text);
    return ZL_OK;
}

zl_status zl_acc_name(const zl_acc_reader *r, zl_json value, const char *no, char word[ZL_ACC_WORD],
                      zl_err *err)
{
    ZL_TRY(zl_acc_word(value, word, err));
    for (char *c = word; *c != '\0'; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
    if (zl_json_is_bool(value) && strcmp(word, "FALSE") == 0) {
        zl_acc_warn(r,
                    "%s: %s is the boolean false (no, NO and off are, in YAML 1.1), at which "
                    "accelerate may stop; taken as %s, write '%s' with its quotes",
                    r->out->file, value.path, no, no);
        snprintf(word, ZL_ACC_WORD, "%s", no);
    }
    return ZL_OK;
}

zl_status zl_acc_flag(zl_json value, bool *out, zl_err *err)
{
    static const char *const words[][6] = {{"n", "no", "f", "false", "off", "0"},
                                           {"y", "yes", "t", "true", "on", "1"}};
    char word[ZL_ACC_WORD] = "";
    ZL_TRY(zl_acc_word(value, word, err));
    for (size_t i = 0; i < 12; i++) {
        if (strcasecmp(words[i / 6][i % 6], word) == 0) {
            *out = i >= 6;
            return ZL_OK;
        }
    }
    return value.node == NULL ? ZL_OK
                              : zl_fail(err, ZL_E_INPUT, "%s must be true or false, got '%.60s'",
                                        value.path, word);
}

zl_status zl_acc_count(zl_json value, uint64_t *out, zl_err *err)
{
    const char *text = NULL;
    if (zl_json_is_string(value)) {
        ZL_TRY(zl_json_string(value, &text, err));
        zl_err ignored = {.status = ZL_OK};
        if (zl_parse_count(value.path, text, out, &ignored) != ZL_OK) {
            return zl_fail(err, ZL_E_INPUT, "%s must be a whole number, got the text '%.60s'",
                           value.path, text);
        }
        return ZL_OK;
    }
    return value.node != NULL ? zl_json_u64(value, out, err) : ZL_OK;
}

/* ---- members ---- */

static const char *bare(const char *name, const char *prefix)
{
    const size_t length = prefix != NULL ? strlen(prefix) : 0;
    return length > 0 && strncmp(name, prefix, length) == 0 ? name + length : name;
}

zl_json zl_acc_member(zl_json section, const char *name, const char *prefix)
{
    const zl_json full = zl_json_get(section, name);
    if (full.node != NULL) {
        return full;
    }
    const zl_json short_one = zl_json_get(section, bare(name, prefix));
    return short_one.node != NULL ? short_one : full;
}

/* null, false, an empty text, object or list, a word for nothing. */
static bool is_off(zl_json value)
{
    static const char *const words[] = {"", "False", "no", "none", "false", "off", "0", "1"};
    char word[ZL_ACC_WORD] = "";
    if (zl_json_is_object(value) || zl_json_is_array(value)) {
        return zl_json_size(value) == 0;
    }
    const bool size_one = zl_json_is_number(value); /* a degree of 1 */
    bool off = false;
    if (zl_acc_word(value, word, NULL) == ZL_OK) {
        for (size_t i = 0; i < sizeof words / sizeof words[0] - (size_one ? 0 : 1); i++) {
            off |= strcasecmp(words[i], word) == 0;
        }
    }
    return off;
}

static const zl_acc_key *find_key(const char *name, const zl_acc_key *keys, size_t count,
                                  const char *prefix)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(bare(keys[i].name, prefix), bare(name, prefix)) == 0) {
            return &keys[i];
        }
    }
    return NULL;
}

static zl_status unknown_key(const zl_acc_reader *r, zl_json value, const char *name,
                             const zl_acc_key *keys, size_t count, bool strict, zl_err *err)
{
    enum { NAMES = 48 };
    const char *names[NAMES];
    for (size_t i = 0; i < count && i < NAMES; i++) {
        names[i] = keys[i].name;
    }
    const char *near = zl_nearest(name, names, count < NAMES ? count : NAMES);
    if (strict) {
        return zl_fail(err, ZL_E_INPUT, "%s is no key of accelerate, which refuses the file%s%s%s",
                       value.path, near != NULL ? "; did you mean " : "", near != NULL ? near : "",
                       near != NULL ? "?" : "; leave it out");
    }
    zl_acc_warn(r, "%s: %s is no key of accelerate, which passes over it%s%s%s", r->out->file,
                value.path, near != NULL ? "; did you mean " : "", near != NULL ? near : "",
                near != NULL ? "?" : "");
    return ZL_OK;
}

zl_status zl_acc_members(const zl_acc_reader *r, zl_json section, const zl_acc_key *keys,
                         size_t count, const char *prefix, bool strict, zl_err *err)
{
    const char *name = NULL;
    zl_json value;
    if (section.node != NULL && !zl_json_is_object(section)) {
        return zl_fail(err, ZL_E_INPUT, "%s must have members",
                       section.path[0] != '\0' ? section.path : "the file");
    }
    for (size_t i = 0; zl_json_each_member(section, &i, &name, &value);) {
        const zl_acc_key *key = find_key(name, keys, count, prefix);
        if (key == NULL) {
            ZL_TRY(unknown_key(r, value, name, keys, count, strict, err));
        } else if (key->rule == ZL_ACC_OFF && !is_off(zl_json_get(section, name))) {
            return zl_fail(err, ZL_E_UNMODELLED, "%s is not modelled; switch it off", value.path);
        }
    }
    return ZL_OK;
}

/* ---- the file ---- */

/* Fields of ClusterConfig, and the older ones that process_config turns into them. */
static const zl_acc_key top_keys[] = {
    {"compute_environment", ZL_ACC_READ},
    {"distributed_type", ZL_ACC_READ},
    {"mixed_precision", ZL_ACC_READ},
    {"fp16", ZL_ACC_READ},
    {"num_processes", ZL_ACC_READ},
    {"num_machines", ZL_ACC_READ},
    {"deepspeed_config", ZL_ACC_READ},
    {"fsdp_config", ZL_ACC_READ},
    {"dynamo_backend", ZL_ACC_READ},
    {"dynamo_config", ZL_ACC_READ},
    {"parallelism_config", ZL_ACC_READ},
    {"use_cpu", ZL_ACC_OFF},
    {"fp8_config", ZL_ACC_NOTHING}, /* read where mixed_precision is fp8 */
    {"megatron_lm_config", ZL_ACC_NOTHING},
    {"mpirun_config", ZL_ACC_NOTHING},
    {"debug", ZL_ACC_NOTHING},
    {"machine_rank", ZL_ACC_NOTHING},
    {"gpu_ids", ZL_ACC_NOTHING},
    {"main_process_ip", ZL_ACC_NOTHING},
    {"main_process_port", ZL_ACC_NOTHING},
    {"rdzv_backend", ZL_ACC_NOTHING},
    {"same_network", ZL_ACC_NOTHING},
    {"main_training_function", ZL_ACC_NOTHING},
    {"enable_cpu_affinity", ZL_ACC_NOTHING},
    {"downcast_bf16", ZL_ACC_NOTHING}, /* of TPUs, as all below */
    {"tpu_name", ZL_ACC_NOTHING},
    {"tpu_zone", ZL_ACC_NOTHING},
    {"tpu_use_cluster", ZL_ACC_NOTHING},
    {"tpu_use_sudo", ZL_ACC_NOTHING},
    {"command_file", ZL_ACC_NOTHING},
    {"commands", ZL_ACC_NOTHING},
    {"tpu_vm", ZL_ACC_NOTHING},
    {"tpu_env", ZL_ACC_NOTHING},
};

static const zl_acc_key parallelism_keys[] = {
    {"parallelism_config_dp_replicate_size", ZL_ACC_OFF},
    {"parallelism_config_dp_shard_size", ZL_ACC_NOTHING},
    {"parallelism_config_tp_size", ZL_ACC_OFF},
    {"parallelism_config_cp_size", ZL_ACC_OFF},
    {"parallelism_config_cp_backend", ZL_ACC_NOTHING},
    {"parallelism_config_cp_comm_strategy", ZL_ACC_NOTHING},
    {"parallelism_config_sp_size", ZL_ACC_OFF},
    {"parallelism_config_sp_backend", ZL_ACC_NOTHING},
    {"parallelism_config_sp_seq_length", ZL_ACC_NOTHING},
    {"parallelism_config_sp_seq_length_is_variable", ZL_ACC_NOTHING},
    {"parallelism_config_sp_attn_implementation", ZL_ACC_NOTHING},
};

static const zl_acc_key dynamo_keys[] = {
    {"dynamo_backend", ZL_ACC_READ},
    {"dynamo_mode", ZL_ACC_NOTHING},
    {"dynamo_use_fullgraph", ZL_ACC_NOTHING},
    {"dynamo_use_dynamic", ZL_ACC_NOTHING},
    {"dynamo_use_regional_compilation", ZL_ACC_NOTHING},
};

#define KEYS(table) (table), sizeof(table) / sizeof(table)[0]

static zl_status refuse_compiled(const zl_acc_reader *r, zl_json backend, zl_err *err)
{
    char word[ZL_ACC_WORD] = "";
    ZL_TRY(zl_acc_name(r, backend, "NO", word, err));
    return word[0] == '\0' || strcmp(word, "NO") == 0
               ? ZL_OK
               : zl_fail(err, ZL_E_UNMODELLED,
                         "%s %s is not modelled: a compiled model; modelled: "
                         "NO",
                         backend.path, word);
}

static zl_status refuse_outside(const zl_acc_reader *r, zl_err *err)
{
    static const char parallelism_prefix[] = "parallelism_config_";
    static const char dynamo_prefix[] = "dynamo_";
    const zl_json parallelism = zl_json_get(r->root, "parallelism_config");
    const zl_json dynamo = zl_json_get(r->root, "dynamo_config");
    char word[ZL_ACC_WORD] = "";
    ZL_TRY(zl_acc_word(zl_json_get(r->root, "compute_environment"), word, err));
    if (word[0] != '\0' && strcmp(word, "LOCAL_MACHINE") != 0) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "compute_environment %s is not modelled; modelled: LOCAL_MACHINE", word);
    }
    ZL_TRY(zl_acc_members(r, parallelism, KEYS(parallelism_keys), parallelism_prefix, false, err));
    ZL_TRY(zl_acc_members(r, dynamo, KEYS(dynamo_keys), dynamo_prefix, false, err));
    ZL_TRY(refuse_compiled(r, zl_acc_member(dynamo, "dynamo_backend", dynamo_prefix), err));
    return refuse_compiled(r, zl_json_get(r->root, "dynamo_backend"), err);
}

/* num_processes counts the processes of all machines, each of which starts num_processes //
 * num_machines (utils/launch.py, prepare_multi_gpu_env). */
static zl_status decide_ranks(const zl_acc_reader *r, bool single, zl_err *err)
{
    const zl_json value = zl_json_get(r->root, "num_processes");
    uint64_t processes = single ? 1 : 0;
    uint64_t machines = 1;
    char ranks[24];
    char from[ZL_ACCELERATE_TEXT];
    ZL_TRY(zl_acc_count(zl_json_get(r->root, "num_machines"), &machines, err));
    if (!single && value.node == NULL) {
        return ZL_OK; /* of accelerate's command line then, and of ours */
    }
    if (!single) {
        ZL_TRY(zl_acc_count(value, &processes, err));
    }
    if (processes == 0 || machines == 0 || processes / machines == 0) {
        return zl_fail(err, ZL_E_INPUT,
                       "num_processes %" PRIu64 " on num_machines %" PRIu64
                       " leaves a machine without a process",
                       processes, machines);
    }
    const uint64_t started = zl_mul(processes / machines, machines);
    if (started != processes) {
        zl_acc_warn(r,
                    "%s: of num_processes %" PRIu64 " on num_machines %" PRIu64
                    " accelerate starts %" PRIu64 ", the same number on each",
                    r->out->file, processes, machines, started);
    }
    snprintf(ranks, sizeof ranks, "%" PRIu64, started);
    if (single) {
        snprintf(from, sizeof from, "distributed_type NO");
    } else {
        snprintf(from, sizeof from, "num_processes %" PRIu64, processes);
    }
    return zl_acc_decide(r, "ranks", ranks, from, err);
}

/* mixed_precision in upper case: NO, FP16, BF16, FP8; "" where it is absent. */
static zl_status read_mixed(const zl_acc_reader *r, char mixed[ZL_ACC_WORD], zl_err *err)
{
    static const char *const legal[] = {"", "NO", "FP16", "BF16"};
    bool fp16 = false;
    ZL_TRY(zl_acc_flag(zl_json_get(r->root, "fp16"), &fp16, err));
    ZL_TRY(zl_acc_name(r, zl_json_get(r->root, "mixed_precision"), "no", mixed, err));
    if (strcmp(mixed, "no") == 0 || (mixed[0] == '\0' && fp16)) {
        snprintf(mixed, ZL_ACC_WORD, "%s", fp16 ? "FP16" : "NO");
    }
    for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++) {
        if (strcmp(legal[i], mixed) == 0) {
            return ZL_OK;
        }
    }
    return strcmp(mixed, "FP8") == 0
               ? zl_fail(err, ZL_E_UNMODELLED, "mixed_precision fp8 is not modelled")
               : zl_fail(err, ZL_E_INPUT,
                         "mixed_precision must be one of no, fp16, bf16, fp8, got "
                         "'%.40s'",
                         mixed);
}

/* Without a wrapper: autocast where there is mixed precision. */
static zl_status decide_plain(const zl_acc_reader *r, const char *framework, const char *from,
                              const char *mixed, zl_err *err)
{
    const bool autocast = strcmp(mixed, "BF16") == 0;
    ZL_TRY(zl_acc_decide(r, "framework", framework, from, err));
    if (strcmp(mixed, "FP16") == 0) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "mixed_precision fp16 is not modelled for %s; "
                       "modelled: no, bf16",
                       from);
    }
    ZL_TRY(zl_acc_decide(r, "precision", autocast ? "bf16-autocast" : "fp32",
                         autocast ? "mixed_precision bf16" : "mixed_precision no", err));
    r->out->setting[r->out->count - 1].dtypes = !autocast;
    if (autocast) {
        zl_acc_warn(r, "accelerate also keeps a copy of the model's outputs in fp32 "
                       "(convert_outputs_to_fp32), which is not modelled: 4 bytes for each logit");
    }
    return ZL_OK;
}

static zl_status unknown_type(const char *type, zl_err *err)
{
    static const char *const others[] = {"MULTI_CPU",    "MULTI_XPU",  "MULTI_NPU", "MULTI_MLU",
                                         "MULTI_SDAA",   "MULTI_MUSA", "MULTI_HPU", "XLA",
                                         "MEGATRON_LM",  "TPU",        "TP",        "MULTI_NEURON",
                                         "DATA_PARALLEL"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(others[i], type) == 0) {
            return zl_fail(err, ZL_E_UNMODELLED,
                           "distributed_type %s is not modelled; modelled: NO, MULTI_GPU, FSDP, "
                           "DEEPSPEED",
                           type);
        }
    }
    return type[0] == '\0' ? zl_fail(err, ZL_E_INPUT,
                                     "distributed_type is missing, accelerate needs it: NO, "
                                     "MULTI_GPU, FSDP or DEEPSPEED")
                           : zl_fail(err, ZL_E_INPUT,
                                     "distributed_type must be one of NO, MULTI_GPU, FSDP, "
                                     "DEEPSPEED, got '%.40s'",
                                     type);
}

static zl_status read_root(const zl_acc_reader *r, const char *path, zl_err *err)
{
    char type[ZL_ACC_WORD] = "";
    char mixed[ZL_ACC_WORD] = "";
    if (!zl_json_is_object(r->root)) {
        return zl_fail(err, ZL_E_INPUT, "the file must have members, as accelerate config writes");
    }
    ZL_TRY(zl_acc_members(r, r->root, KEYS(top_keys), NULL, true, err));
    ZL_TRY(refuse_outside(r, err));
    ZL_TRY(zl_acc_name(r, zl_json_get(r->root, "distributed_type"), "NO", type, err));
    ZL_TRY(read_mixed(r, mixed, err));
    ZL_TRY(decide_ranks(r, strcmp(type, "NO") == 0, err));
    if (strcmp(type, "NO") == 0) {
        return decide_plain(r, "single", "distributed_type NO", mixed, err);
    }
    if (strcmp(type, "MULTI_GPU") == 0) {
        return decide_plain(r, "ddp", "distributed_type MULTI_GPU", mixed, err);
    }
    if (strcmp(type, "FSDP") == 0) {
        return zl_acc_fsdp(r, mixed, err);
    }
    return strcmp(type, "DEEPSPEED") == 0 ? zl_acc_deepspeed(r, path, mixed, err)
                                          : unknown_type(type, err);
}

zl_status zl_accelerate_read(const char *path, zl_accelerate *out, zl_warn *warn, void *context,
                             zl_err *err)
{
    zl_accelerate read = {.count = 0};
    zl_json_doc *doc = NULL;
    const char *slash = strrchr(path, '/');
    snprintf(read.file, sizeof read.file, "%s", slash != NULL ? slash + 1 : path);
    ZL_TRY(zl_yaml_load(path, &doc, warn, context, err));
    const zl_acc_reader r = {
        .out = &read, .root = zl_json_root(doc), .warn = warn, .context = context};
    const zl_status status = read_root(&r, path, err);
    zl_json_free(doc);
    if (status != ZL_OK) {
        zl_fail_at(err, path);
        return status;
    }
    *out = read;
    return ZL_OK;
}

/* ---- onto a run ---- */

static const char *value_of(const zl_accelerate_setting *s)
{
    return s->value[0] != '\0' ? s->value : NULL;
}

/* deepspeed.zero.Init is for stage 3 only, whatever the file says. */
static zl_status take_zero_init(const zl_accelerate *a, const zl_args *args, zl_run *run,
                                zl_err *err)
{
    zl_json_doc *doc = NULL;
    uint64_t stage = 0;
    if (!a->zero_init || run->ds_config[0] == '\0') {
        return ZL_OK;
    }
    ZL_TRY(zl_json_parse("ds_config.json", run->ds_config, strlen(run->ds_config), &doc, err));
    const zl_json value = zl_json_get(zl_json_get(zl_json_root(doc), "zero_optimization"), "stage");
    const bool stage3 = zl_json_u64(value, &stage, NULL) == ZL_OK && stage == 3;
    zl_json_free(doc);
    if (!stage3) {
        return ZL_OK;
    }
    fprintf(stderr, "zl %s: from %s: zero3_init_flag true at stage 3 means --zero-init\n",
            args->command->name, a->file);
    return zl_run_set(run, "zero-init", NULL, err);
}

zl_status zl_accelerate_apply(const zl_accelerate *a, const zl_args *args, zl_run *run, zl_err *err)
{
    for (size_t i = 0; i < a->count; i++) {
        const zl_accelerate_setting *s = &a->setting[i];
        if (s->off || zl_args_value(args, s->option) != NULL) {
            continue;
        }
        fprintf(stderr, "zl %s: from %s: %s means --%s%s%s\n", args->command->name, a->file,
                s->from, s->option, s->value[0] != '\0' ? " " : "", s->value);
        ZL_TRY(zl_run_set(run, s->option, value_of(s), err));
    }
    if (a->deepspeed[0] != '\0') {
        ZL_TRY(zl_run_set_config(run, "", a->deepspeed, err));
    }
    return take_zero_init(a, args, run, err);
}

/* Whether the option, set as the file has it, leaves the run as it is. */
static zl_status agrees(const zl_accelerate_setting *s, const char *given, const zl_run *run,
                        bool *out, zl_err *err)
{
    char before[ZL_RUN_ID_SIZE];
    char after[ZL_RUN_ID_SIZE];
    zl_run other = *run;
    const size_t length = strlen(s->value);
    const bool release = strcmp(s->option, "framework") == 0 &&
                         strncmp(given, s->value, length) == 0 && given[length] == '@';
    const bool weights = s->dtypes && strcmp(given, "bf16") == 0;
    if (release || weights || s->off) {
        *out = !s->off;
        return ZL_OK;
    }
    ZL_TRY(zl_run_set(&other, s->option, value_of(s), err));
    zl_run_id(run, before);
    zl_run_id(&other, after);
    *out = strcmp(before, after) == 0;
    return ZL_OK;
}

/* The class that transformers makes the layers of a model of. */
static const char *layer_class(const char *type)
{
    static const struct {
        const char *type, *name;
    } classes[] = {
        {"bert", "BertLayer"},
        {"distilbert", "TransformerBlock"},
        {"falcon", "FalconDecoderLayer"},
        {"gemma", "GemmaDecoderLayer"},
        {"gemma2", "Gemma2DecoderLayer"},
        {"gpt2", "GPT2Block"},
        {"gpt_neox", "GPTNeoXLayer"},
        {"gptj", "GPTJBlock"},
        {"llama", "LlamaDecoderLayer"},
        {"mistral", "MistralDecoderLayer"},
        {"mixtral", "MixtralDecoderLayer"},
        {"opt", "OPTDecoderLayer"},
        {"phi", "PhiDecoderLayer"},
        {"phi3", "Phi3DecoderLayer"},
        {"qwen2", "Qwen2DecoderLayer"},
        {"qwen2_moe", "Qwen2MoeDecoderLayer"},
        {"qwen3", "Qwen3DecoderLayer"},
        {"roberta", "RobertaLayer"},
    };
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (strcmp(classes[i].type, type) == 0) {
            return classes[i].name;
        }
    }
    return NULL;
}

/* FSDP's units are the layers. Where the file names no class, transformers' _no_split_modules does,
 * and for BERT and RoBERTa that has more than the layers. */
static zl_status check_units(const zl_accelerate *a, const zl_run *run, zl_err *err)
{
    zl_json_doc *doc = NULL;
    const char *type = "";
    char model[64];
    if (!a->wraps || run->hf_config[0] == '\0') {
        return ZL_OK;
    }
    ZL_TRY(zl_json_parse(run->model.name, run->hf_config, strlen(run->hf_config), &doc, err));
    const zl_json value = zl_json_get(zl_json_root(doc), "model_type");
    const bool typed = zl_json_string(value, &type, NULL) == ZL_OK;
    snprintf(model, sizeof model, "%s", typed ? type : "");
    zl_json_free(doc);
    const char *layer = layer_class(model);
    const bool more = strcmp(model, "bert") == 0 || strcmp(model, "roberta") == 0;
    if (layer == NULL || (a->classes[0] == '\0' && !more) || strcmp(a->classes, layer) == 0) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_UNMODELLED,
                   "%s: fsdp_transformer_layer_cls_to_wrap %s%.100s is not modelled for %s; "
                   "modelled: %s",
                   a->file, a->classes[0] == '\0' ? "as transformers has it (embeddings too)" : "",
                   a->classes, model, layer);
}

zl_status zl_accelerate_check(const zl_accelerate *a, const zl_args *args, const zl_run *run,
                              zl_err *err)
{
    if (a->deepspeed[0] != '\0' && zl_args_value(args, "deepspeed-config") != NULL) {
        return zl_fail(err, ZL_E_USAGE,
                       "deepspeed-config contradicts deepspeed_config of %s, which says the same "
                       "things itself; leave one out",
                       a->file);
    }
    bool counted = a->count == 0 || zl_args_value(args, "ranks") != NULL;
    for (size_t i = 0; i < a->count; i++) {
        const zl_accelerate_setting *s = &a->setting[i];
        const char *given = zl_args_value(args, s->option);
        bool good = true;
        counted |= strcmp(s->option, "ranks") == 0;
        if (given != NULL) {
            ZL_TRY(agrees(s, given, run, &good, err));
        }
        if (!good) {
            return zl_fail(err, ZL_E_USAGE, "%s%s%s contradicts %s of %s%s%s; leave one out",
                           s->option, *given != '\0' ? " " : "", given, s->from, a->file,
                           s->off ? "" : ", which means ", s->off ? "" : s->value);
        }
    }
    if (!counted) {
        return zl_fail(err, ZL_E_USAGE, "%s has no num_processes; give --ranks", a->file);
    }
    return check_units(a, run, err);
}
