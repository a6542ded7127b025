/* zl list: names that options take and outputs use. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "formulas.h"
#include "zeroledger/json.h"
#include "zeroledger/model.h"
#include "zeroledger/torch.h"
#include "zeroledger/vocab.h"

static void head(zl_table *table, const char *const *titles, size_t count)
{
    for (size_t c = 0; c < count; c++) {
        zl_table_column(table, titles[c], ZL_LEFT);
    }
}

#define HEAD(table, ...)                                                                           \
    head(table, (const char *const[]){__VA_ARGS__},                                                \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* A model that is none of the native families: the library of frameworks reads it. */
static zl_status list_foreign(zl_table *table, const char *name, zl_err *err)
{
    zl_run run;
    zl_torch_run torch;
    zl_marks marks = {0};
    zl_run_init(&run);
    ZL_TRY(zl_run_set(&run, "framework", "deepspeed", err));
    ZL_TRY(zl_run_set(&run, "model", name, err));
    ZL_TRY(zl_run_set(&run, "activations", "1", err));
    ZL_TRY(zl_run_check(&run, err));
    ZL_TRY(zl_torch_run_from(&run, &torch, NULL, NULL, err));
    ZL_TRY(zl_torch_predict(&torch, 0, &marks, err));
    const zl_hf_config *c = &torch.model;
    const uint64_t counts[] = {marks.parameters, c->layers, c->hidden, c->heads,
                               c->kv_heads,      c->ffn,    c->vocab,  c->positions};
    zl_marks_clear(&marks);
    zl_table_text(table, "%s", name);
    zl_table_text(table, "%s", zl_hf_class_name(c));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        zl_table_count(table, counts[i]);
    }
    return ZL_OK;
}

static zl_status list_models(zl_table *table, zl_err *err)
{
    static const char *const numbers[] = {"params",   "layers", "width", "heads",
                                          "kv_heads", "ffn",    "vocab", "positions"};
    HEAD(table, "name", "family");
    for (size_t c = 0; c < sizeof numbers / sizeof numbers[0]; c++) {
        zl_table_column(table, numbers[c], ZL_RIGHT);
    }
    const char *name = NULL;
    for (size_t i = 0; (name = zl_model_preset(i)) != NULL; i++) {
        zl_model model;
        zl_err found = {.status = ZL_OK};
        const zl_status status = zl_model_load(name, &model, &found);
        if (status == ZL_E_UNMODELLED) {
            ZL_TRY(list_foreign(table, name, err));
            continue;
        }
        if (status != ZL_OK) {
            return zl_fail(err, status, "%s", found.text);
        }
        zl_table_text(table, "%s", name);
        zl_table_text(table, "%s", zl_family_name(model.family));
        zl_table_count(table, zl_params(&model));
        zl_table_count(table, model.layers);
        zl_table_count(table, model.width);
        zl_table_count(table, model.heads);
        zl_table_count(table, model.kv_heads);
        zl_table_count(table, model.ffn);
        zl_table_count(table, model.vocab);
        zl_table_count(table, model.positions);
    }
    return ZL_OK;
}

/* What a config.json may say. */
static zl_status list_architectures(zl_table *table, zl_err *err)
{
    zl_hf_type type;
    (void)err;
    HEAD(table, "model_type", "class", "modelled");
    for (size_t i = 0; zl_hf_type_at(i, &type); i++) {
        zl_table_text(table, "%s", type.name);
        zl_table_text(table, "%s", type.architecture);
        zl_table_text(table, "%s",
                      type.operations ? "all" : "shapes and states; activations where given");
    }
    return ZL_OK;
}

static zl_status list_gpus(zl_table *table, zl_err *err)
{
    (void)err;
    HEAD(table, "name", "chip");
    zl_table_column(table, "bytes", ZL_RIGHT);
    zl_table_column(table, "multiprocessors", ZL_RIGHT);
    HEAD(table, "capability", "text");
    const zl_gpu *gpu = NULL;
    for (size_t i = 0; (gpu = zl_gpu_at(i)) != NULL; i++) {
        zl_table_text(table, "%s", gpu->name);
        zl_table_text(table, "%s", gpu->chip);
        zl_table_count(table, gpu->bytes);
        zl_table_count(table, gpu->multiprocessors);
        zl_table_text(table, "%u.%u", gpu->capability / 10, gpu->capability % 10);
        zl_table_text(table, "%s", gpu->text);
    }
    return ZL_OK;
}

/* The legal values of an option of the run. */
static const char *values_of(const char *name)
{
    const zl_option *row = NULL;
    for (size_t i = 0; (row = zl_run_option(i)) != NULL; i++) {
        if (strcmp(row->name, name) == 0) {
            return row->values;
        }
    }
    return NULL;
}

/* Whether a small run with these settings can be predicted. */
static bool can_run(const char *framework, const char *stage, const char *precision)
{
    const char *const settings[][2] = {{"framework", framework},
                                       {"model", "gpt2-tiny"},
                                       {"stage", stage},
                                       {"precision", precision}};
    zl_run run;
    zl_torch_run torch;
    zl_run_init(&run);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (zl_run_set(&run, settings[i][0], settings[i][1], NULL) != ZL_OK) {
            return false;
        }
    }
    return zl_run_check(&run, NULL) == ZL_OK &&
           (run.framework == ZL_FRAMEWORK_NATIVE ||
            zl_torch_run_from(&run, &torch, NULL, NULL, NULL) == ZL_OK);
}

/* The stages, and the precisions, with which a framework can be run: "0 1 2 3". */
static void add_allowed(zl_table *table, const char *framework, const char *wanted,
                        const char *other)
{
    const char *const values[] = {values_of(wanted), values_of(other)};
    const bool stages = strcmp(wanted, "stage") == 0;
    char value[2][48];
    char text[96];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; zl_list_item(values[0], i, value[0], sizeof value[0]); i++) {
        bool allowed = false;
        for (size_t k = 0; zl_list_item(values[1], k, value[1], sizeof value[1]); k++) {
            allowed = allowed || can_run(framework, value[stages ? 0 : 1], value[stages ? 1 : 0]);
        }
        if (allowed && used < sizeof text) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " " : "",
                                     value[0]);
        }
    }
    zl_table_text(table, "%s", text);
}

/* "0.10.3 0.14.5" */
static void measured_releases(char *text, size_t size)
{
    size_t used = 0;
    uint32_t release = 0;
    text[0] = '\0';
    for (size_t i = 0; used < size && (release = zl_ds_measured_release(i)) != 0; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%u.%u.%u", i == 0 ? "" : " ",
                                 release / 1000000, release / 1000 % 1000, release % 1000);
    }
}

static zl_status list_frameworks(zl_table *table, zl_err *err)
{
    static const struct {
        const char *releases, *measured, *text;
    } rows[ZL_FRAMEWORK_COUNT] = {
        [ZL_FRAMEWORK_NATIVE] = {"", "",
                                 "zl-train: schedule, allocator and phases of docs/schedule.md"},
        [ZL_FRAMEWORK_SINGLE] = {"2.11", "2.11", "PyTorch on one GPU"},
        [ZL_FRAMEWORK_DDP] = {"2.11", "2.11", "PyTorch's DistributedDataParallel"},
        [ZL_FRAMEWORK_ZERO1] = {"2.11", "2.11", "the same and ZeroRedundancyOptimizer"},
        [ZL_FRAMEWORK_FSDP1] = {"2.11", "2.11", "FullyShardedDataParallel"},
        [ZL_FRAMEWORK_FSDP2] = {"2.11", "2.11",
                                "fully_shard; stage 3 reshards after forward, stage 2 does not"},
        [ZL_FRAMEWORK_DEEPSPEED] = {"0.5 to 0.19", NULL,
                                    "ZeRO, as in deepspeed@0.14.5; without a release "
                                    "deepspeed@" ZL_DEEPSPEED_NEWEST},
    };
    char measured[96];
    (void)err;
    measured_releases(measured, sizeof measured);
    HEAD(table, "name", "stages", "precisions", "releases", "measured", "text");
    for (int i = 0; i < ZL_FRAMEWORK_COUNT; i++) {
        const char *name = zl_framework_name((zl_framework)i);
        zl_table_text(table, "%s", name);
        add_allowed(table, name, "stage", "precision");
        add_allowed(table, name, "precision", "stage");
        zl_table_text(table, "%s", rows[i].releases);
        zl_table_text(table, "%s", rows[i].measured != NULL ? rows[i].measured : measured);
        zl_table_text(table, "%s", rows[i].text);
    }
    return ZL_OK;
}

static zl_status list_buffers(zl_table *table, zl_err *err)
{
    char text[256];
    zl_formulas *all = calloc(1, sizeof *all);
    if (all == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    const zl_status status = zl_formulas_usual(all, err);
    HEAD(table, "name", "kind", "sharded", "formula", "text");
    for (int i = 0; i < ZL_BUF_COUNT && status == ZL_OK; i++) {
        const uint64_t stage = zl_formulas_stage(all, (zl_buf)i);
        zl_table_text(table, "%s", zl_buf_name((zl_buf)i));
        zl_table_text(table, "%s", zl_kind_name(zl_buf_kind((zl_buf)i)));
        zl_table_text(table, stage < UINT64_MAX ? "stage %" PRIu64 : "no", stage);
        zl_formulas_sum(all, (zl_buf)i, text, sizeof text);
        zl_table_text(table, "%s", text);
        zl_table_text(table, "%s", zl_buf_text((zl_buf)i));
    }
    free(all);
    return status;
}

static zl_status list_kinds(zl_table *table, zl_err *err)
{
    (void)err;
    HEAD(table, "name", "text");
    for (int i = 0; i < ZL_KIND_COUNT; i++) {
        zl_table_text(table, "%s", zl_kind_name((zl_kind)i));
        zl_table_text(table, "%s", zl_kind_text((zl_kind)i));
    }
    return ZL_OK;
}

static zl_status list_phases(zl_table *table, zl_err *err)
{
    (void)err;
    HEAD(table, "name", "text");
    for (int i = 0; i < ZL_PHASE_COUNT; i++) {
        zl_table_text(table, "%s", zl_phase_name((zl_phase)i));
        zl_table_text(table, "%s", zl_phase_text((zl_phase)i));
    }
    return ZL_OK;
}

static zl_status list_visits(zl_table *table, zl_err *err)
{
    (void)err;
    HEAD(table, "name", "text");
    for (int i = 0; i < ZL_VISIT_COUNT; i++) {
        zl_table_text(table, "%s", zl_visit_name((zl_visit)i));
        zl_table_text(table, "%s", zl_visit_text((zl_visit)i));
    }
    return ZL_OK;
}

typedef zl_status (*lister)(zl_table *table, zl_err *err);

static lister find(const char *what)
{
    static const struct {
        const char *what;
        lister list;
    } lists[] = {
        {"models", list_models},         {"gpus", list_gpus},
        {"frameworks", list_frameworks}, {"buffers", list_buffers},
        {"kinds", list_kinds},           {"phases", list_phases},
        {"visits", list_visits},         {"architectures", list_architectures},
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (strcmp(lists[i].what, what) == 0) {
            return lists[i].list;
        }
    }
    return NULL;
}

zl_status zl_print_list(const zl_view *view, const char *what, const zl_table *table, zl_err *err)
{
    if (view->format != ZL_FORMAT_JSON) {
        zl_page page;
        ZL_TRY(zl_page_open(&page, view, err));
        return zl_page_end(&page, zl_page_table(&page, table, err), err);
    }
    zl_json_writer *w = zl_json_writer_new();
    if (w == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", "zeroledger.list/1");
    zl_json_put_string(w, "what", what);
    zl_table_json(table, "items", w);
    zl_json_end(w);
    const zl_status status = zl_json_writer_save(w, view->out, err);
    zl_json_writer_free(w);
    return status;
}

zl_status zl_cmd_list(const zl_args *args, zl_err *err)
{
    if (args->operand == NULL) {
        return zl_one_of(args->command->operand, "", args->command->operands, err);
    }
    const lister list = find(args->operand);
    if (list == NULL) {
        return zl_fail(err, ZL_E_BUG, "no list of '%.60s': please report this", args->operand);
    }
    zl_table *table = zl_table_new();
    zl_status status = list(table, err);
    if (status == ZL_OK) {
        status = zl_print_list(&args->view, args->operand, table, err);
    }
    zl_table_free(table);
    return status;
}
