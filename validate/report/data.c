#include "report/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drive/files.h"
#include "zeroledger/bytes.h"
#include "zeroledger/predict.h"
#include "zeroledger/text.h"

typedef struct run_key {
    char text[ZL_RUN_ID_SIZE];
} run_key;

static run_key key_of(const zl_run *run)
{
    run_key key;
    zl_run_id(run, key.text);
    return key;
}

/* Equal for the cases of a family. */
static run_key family_key(const zl_run *run)
{
    zl_run any = *run;
    any.stage = 0;
    return key_of(&any);
}

static zl_status load_runs(zv_data *data, zl_err *err)
{
    char folder[ZV_PATH_SIZE], path[ZV_PATH_SIZE];
    if (data->verdicts.count == 0) {
        return ZL_OK;
    }
    data->run = calloc(data->verdicts.count, sizeof *data->run);
    if (data->run == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for %zu runs", data->verdicts.count);
    }
    for (size_t i = 0; i < data->verdicts.count; i++) {
        ZL_TRY(zv_path(folder, data->folder, data->verdicts.item[i].id, err));
        ZL_TRY(zv_path(path, folder, "run.json", err));
        ZL_TRY(zl_run_load(path, &data->run[i], err));
    }
    return ZL_OK;
}

/* The family of case i, without ledgers. */
static zv_family gather(const zv_data *data, size_t i)
{
    zv_family family = {.run = data->run[i]};
    const run_key key = family_key(&data->run[i]);
    for (size_t k = 0; k < data->verdicts.count; k++) {
        const zl_run *const run = &data->run[k];
        if (run->stage < ZV_STAGES && data->verdicts.item[k].outcome != ZV_FAILED &&
            strcmp(family_key(run).text, key.text) == 0) {
            family.stages += family.verdict[run->stage] == NULL;
            family.verdict[run->stage] = &data->verdicts.item[k];
            if (run->stage < family.run.stage) {
                family.run = *run;
            }
        }
    }
    return family;
}

static bool is_better(const zv_family *a, const zv_family *b)
{
    return a->stages > b->stages ||
           (a->stages == b->stages && a->stages > 0 && a->run.ranks > b->run.ranks);
}

static zl_status load_ledger(zv_data *data, size_t stage, zl_err *err)
{
    char folder[ZV_PATH_SIZE], path[ZV_PATH_SIZE];
    ZL_TRY(zv_path(folder, data->folder, data->family.verdict[stage]->id, err));
    ZL_TRY(zv_path(path, folder, "ledger.rank0.json", err));
    return zl_ledger_load(path, &data->family.ledger[stage], err);
}

static zl_status load_family(zv_data *data, zl_err *err)
{
    for (size_t i = 0; i < data->verdicts.count; i++) {
        const zv_family family = gather(data, i);
        if (is_better(&family, &data->family)) {
            data->family = family;
        }
    }
    for (size_t stage = 0; stage < ZV_STAGES; stage++) {
        if (data->family.verdict[stage] != NULL) {
            ZL_TRY(load_ledger(data, stage, err));
        }
    }
    return ZL_OK;
}

zl_status zv_data_load(const char *folder, zv_data *out, zl_err *err)
{
    char path[ZV_PATH_SIZE];
    zv_data data = {0};
    zl_status status;
    ZL_TRY(zv_path(path, folder, "validate.json", err));
    snprintf(data.folder, sizeof data.folder, "%s", folder);
    ZL_TRY(zv_verdicts_load(path, &data.verdicts, err));
    ZL_TRY_GOTO(status, load_runs(&data, err), out);
    ZL_TRY_GOTO(status, load_family(&data, err), out);
    *out = data;
    return ZL_OK;
out:
    zv_data_release(&data);
    return status;
}

void zv_data_release(zv_data *data)
{
    for (size_t stage = 0; stage < ZV_STAGES; stage++) {
        zl_ledger_free(data->family.ledger[stage]);
    }
    free(data->run);
    zv_verdicts_release(&data->verdicts);
    *data = (zv_data){0};
}

const zv_verdict *zv_data_find(const zv_data *data, const zl_run *run)
{
    const run_key key = key_of(run);
    for (size_t i = 0; i < data->verdicts.count; i++) {
        const zv_verdict *const v = &data->verdicts.item[i];
        if (v->outcome != ZV_FAILED && strcmp(v->run_id, key.text) == 0) {
            return v;
        }
    }
    return NULL;
}

zl_phase zv_report_phase(size_t index)
{
    static const zl_phase phases[] = {ZL_PHASE_INIT,   ZL_PHASE_FORWARD, ZL_PHASE_BACKWARD,
                                      ZL_PHASE_REDUCE, ZL_PHASE_STEP,    ZL_PHASE_PUBLISH};
    return index < sizeof phases / sizeof phases[0] ? phases[index] : ZL_PHASE_COUNT;
}

static bool stands_for(zl_visit visit, zl_phase phase)
{
    return phase == ZL_PHASE_INIT ? visit == ZL_VISIT_COLD
                                  : visit == ZL_VISIT_STEADY || visit == ZL_VISIT_STEADY_LATER;
}

bool zv_main_visit(const zl_ledger *ledger, zl_phase phase, zl_visit *out)
{
    bool found = false;
    for (int v = 0; v < ZL_VISIT_COUNT; v++) {
        const zl_cell *const cell = zl_ledger_at(ledger, (zl_visit)v, phase);
        if (!stands_for((zl_visit)v, phase) || !cell->present) {
            continue;
        }
        if (!found ||
            cell->peak[ZL_REQUESTED] > zl_ledger_at(ledger, *out, phase)->peak[ZL_REQUESTED]) {
            *out = (zl_visit)v;
        }
        found = true;
    }
    return found;
}

uint64_t zv_main_peak(const zl_ledger *ledger, zl_phase phase)
{
    zl_visit visit;
    return zv_main_visit(ledger, phase, &visit)
               ? zl_ledger_at(ledger, visit, phase)->peak[ZL_REQUESTED]
               : 0;
}

uint64_t zv_measured_peak(const zv_verdict *verdict, zl_phase phase)
{
    uint64_t most = 0;
    for (size_t i = 0; i < verdict->peak_count; i++) {
        const zv_peak *const p = &verdict->peak[i];
        if (p->phase == phase && stands_for(p->visit, phase)) {
            most = zl_max(most, p->measured[ZL_REQUESTED]);
        }
    }
    return most;
}

zl_status zv_predicted_peaks(const zl_run *run, uint64_t *peak, zl_err *err)
{
    zl_run checked = *run;
    ZL_TRY(zl_run_check(&checked, err));
    zl_ledger *const ledger = zl_ledger_new();
    if (ledger == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for a predicted ledger");
    }
    const zl_status status = zl_predict(&checked, 0, ledger, err);
    for (int p = 0; p < ZL_PHASE_COUNT && status == ZL_OK; p++) {
        peak[p] = zv_main_peak(ledger, (zl_phase)p);
    }
    zl_ledger_free(ledger);
    return status;
}

zv_text zv_mib(uint64_t bytes)
{
    zv_text out;
    zl_format_bytes(bytes, ZL_BYTES_MIB, 3, out.text, sizeof out.text);
    return out;
}

zv_text zv_count(uint64_t n)
{
    zv_text out;
    zl_format_count(n, out.text, sizeof out.text);
    return out;
}
