/* Setups of field cases as runs of the library, and its answers. */
#include <stdlib.h>
#include <string.h>

#include "records/field.h"
#include "zeroledger/bytes.h"
#include "zeroledger/predict.h"

static const char refusal[] = "does not fit: ";
static const uint64_t mib = UINT64_C(1) << 20;

/* Copies `over`'s members, and those of `base` that it does not have; a model's name stands for its
 * config.json. */
static zl_status put_members(zl_json_writer *w, zl_json base, zl_json over, zl_json models,
                             zl_err *err)
{
    for (size_t i = 0; i < zl_json_size(base); i++) {
        const char *const key = zl_json_key(base, i);
        const zl_json replaced = zl_json_get(over, key);
        zl_json value = replaced.node != NULL ? replaced : zl_json_get(base, key);
        if (strcmp(key, "hf_config") == 0) {
            const char *name = NULL;
            ZL_TRY(zl_json_string(value, &name, err));
            value = zl_json_get(models, name);
        }
        zl_json_put(w, key, value);
    }
    for (size_t i = 0; i < zl_json_size(over); i++) {
        const char *const key = zl_json_key(over, i);
        if (zl_json_get(base, key).node == NULL) {
            zl_json_put(w, key, zl_json_get(over, key));
        }
    }
    return ZL_OK;
}

/* {"config": ..., "ranks": []}, as a line of a file of records. */
static zl_status make_record(zl_json id, zl_json base, zl_json over, zl_json models,
                             zl_json_doc **out, zl_err *err)
{
    size_t size = 0;
    zl_status status;
    zl_json_writer *const w = zl_json_writer_new();
    zl_json_begin_object(w, NULL);
    zl_json_begin_object(w, "config");
    zl_json_put(w, "id", id);
    ZL_TRY_GOTO(status, put_members(w, base, over, models, err), out);
    zl_json_end(w);
    zl_json_begin_array(w, "ranks");
    zl_json_end(w);
    zl_json_end(w);
    const char *const text = zl_json_writer_text(w, &size);
    status = text != NULL ? zl_json_parse("field-setup.json", text, size, out, err)
                          : zl_fail(err, ZL_E_RESOURCE, "no memory for a setup");
out:
    zl_json_writer_free(w);
    return status;
}

static zl_status take_gpu(const zv_field *field, zl_json setup, zl_torch_run *run, zl_err *err)
{
    const char *name = NULL;
    uint64_t capability = 0;
    uint64_t multiprocessors = 0;
    ZL_TRY(zl_json_string(zl_json_get(setup, "gpu"), &name, err));
    const zl_json gpu = zl_json_get(field->gpus, name);
    ZL_TRY(zl_json_u64(zl_json_get(gpu, "capability"), &capability, err));
    ZL_TRY(zl_json_u64(zl_json_get(gpu, "multiprocessors"), &multiprocessors, err));
    run->capability = (uint32_t)capability;
    run->multiprocessors = (uint32_t)multiprocessors;
    return ZL_OK;
}

static zl_status take_budget(zl_json run, uint64_t *out, zl_err *err)
{
    const zl_json budget = zl_json_get(run, "budget_mib");
    if (budget.node != NULL) {
        ZL_TRY(zl_json_u64(budget, out, err));
        *out = zl_mul(*out, mib);
    }
    return ZL_OK;
}

/* "does not fit: 3 bytes are asked for, 2 are allocated, 1 of 4 are reserved" */
static void read_refusal(zv_field_answer *a)
{
    char *at = a->says + strlen(refusal);
    for (size_t i = 0; i < sizeof a->request / sizeof a->request[0]; i++) {
        at += strcspn(at, "0123456789");
        a->request[i] = strtoull(at, &at, 10);
    }
}

static zl_status explain(zv_field_answer *a, zl_err *err)
{
    zl_err why = {0};
    a->status = zl_torch_explain(&a->run, 0, &a->moments, &why);
    if (a->status != ZL_OK && a->status != ZL_NO && a->status != ZL_E_UNMODELLED) {
        return zl_fail(err, a->status, "%s: %s", a->name, why.text);
    }
    memcpy(a->says, why.text, sizeof a->says);
    if (a->status == ZL_NO) {
        if (strncmp(a->says, refusal, strlen(refusal)) != 0) {
            return zl_fail(err, ZL_E_BUG, "%s: unknown refusal '%.80s'", a->name, a->says);
        }
        read_refusal(a);
    }
    return ZL_OK;
}

static zl_status ask_torch(const zv_field *field, zl_json setup, zl_json run, zv_field_answer *a,
                           zl_err *err)
{
    zl_status status;
    zl_json_doc *doc = NULL;
    zv_record record = {0};
    ZL_TRY(make_record(zl_json_get(setup, "id"), zl_json_get(setup, "config"),
                       zl_json_get(run, "config"), field->models, &doc, err));
    ZL_TRY_GOTO(status, zv_record_read(zl_json_root(doc), field->setup, NULL, NULL, &record, err),
                out);
    a->run = record.run;
    ZL_TRY_GOTO(status, take_gpu(field, setup, &a->run, err), out);
    ZL_TRY_GOTO(status, take_budget(run, &a->run.device_total, err), out);
    status = explain(a, err);
out:
    zl_json_free(doc);
    return status;
}

static zl_status ask_native(zl_json options, uint64_t vocabulary, zv_field_answer *a, zl_err *err)
{
    zl_run run;
    zl_run_init(&run);
    for (size_t i = 0; i < zl_json_size(options); i++) {
        const char *const key = zl_json_key(options, i);
        const char *value = NULL;
        ZL_TRY(zl_json_string(zl_json_get(options, key), &value, err));
        ZL_TRY(zl_run_set(&run, key, value, err));
    }
    run.model.vocab = vocabulary;
    ZL_TRY(zl_run_check(&run, err));
    a->ledger = zl_ledger_new();
    return a->ledger == NULL ? zl_fail(err, ZL_E_RESOURCE, "no memory for a ledger")
                             : zl_predict(&run, 0, a->ledger, err);
}

zl_status zv_field_ask(const zv_field *field, zl_json setup, zl_json run, zv_field_answer *out,
                       zl_err *err)
{
    static const char *const keys[] = {"name",   "config", "budget_mib", "expect",
                                       "native", "vocab",  "why"};
    *out = (zv_field_answer){0};
    ZL_TRY(zl_json_only(run, keys, sizeof keys / sizeof keys[0], err));
    ZL_TRY(zl_json_string(zl_json_get(run, "name"), &out->name, err));
    const zl_json native = zl_json_get(run, "native");
    if (native.node == NULL) {
        return ask_torch(field, setup, run, out, err);
    }
    uint64_t vocabulary = 0;
    ZL_TRY(zl_json_u64(zl_json_get(run, "vocab"), &vocabulary, err));
    return ask_native(native, vocabulary, out, err);
}

void zv_field_answer_clear(zv_field_answer *answer)
{
    zl_moments_clear(&answer->moments);
    zl_ledger_free(answer->ledger);
    *answer = (zv_field_answer){0};
}
