#include "compare/judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "zeroledger/bytes.h"
#include "zeroledger/predict.h"

/* Ledger of the rank the file's name says, of this run, measured. */
static zl_status load_rank(const zv_judge_input *input, uint64_t rank, zl_ledger **out, zl_err *err)
{
    char path[4096], name[48], wanted[ZL_RUN_ID_SIZE], got[ZL_RUN_ID_SIZE];
    zl_ledger *ledger;
    snprintf(name, sizeof name, "ledger.rank%" PRIu64 ".json", rank);
    snprintf(path, sizeof path, "%s/%s", input->folder, name);
    ZL_TRY(zl_ledger_load(path, &ledger, err));
    zl_run_id(input->run, wanted);
    zl_run_id(&ledger->run, got);
    zl_status status = ZL_OK;
    if (strcmp(wanted, got) != 0) {
        status = zl_fail(err, ZL_E_INPUT, "%s: run %s, not %s", name, got, wanted);
    } else if (ledger->rank != rank) {
        status = zl_fail(err, ZL_E_INPUT, "%s: says it is of rank %" PRIu64, name, ledger->rank);
    } else if (ledger->origin != ZL_ORIGIN_MEASURED) {
        status =
            zl_fail(err, ZL_E_INPUT, "%s: %s, not measured", name, zl_origin_name(ledger->origin));
    }
    if (status != ZL_OK) {
        zl_ledger_free(ledger);
        return status;
    }
    *out = ledger;
    return ZL_OK;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static void add_peaks(zv_verdict *v, const zl_ledger *predicted, const zl_ledger *measured)
{
    size_t n = 0;
    for (int visit = 0; visit < ZL_VISIT_COUNT; visit++) {
        for (int phase = 0; phase < ZL_PHASE_COUNT; phase++) {
            const zl_cell *const p = zl_ledger_at(predicted, (zl_visit)visit, (zl_phase)phase);
            const zl_cell *const m = zl_ledger_at(measured, (zl_visit)visit, (zl_phase)phase);
            if (!p->present || !m->present) {
                continue;
            }
            zv_peak *const peak = &v->peak[n++];
            const bool first = n > v->peak_count;
            if (first ||
                distance(p->peak[ZL_REQUESTED], m->peak[ZL_REQUESTED]) >
                    distance(peak->predicted[ZL_REQUESTED], peak->measured[ZL_REQUESTED])) {
                *peak = (zv_peak){(zl_visit)visit,
                                  (zl_phase)phase,
                                  {p->peak[ZL_REQUESTED], p->peak[ZL_GRANTED]},
                                  {m->peak[ZL_REQUESTED], m->peak[ZL_GRANTED]}};
            }
        }
    }
    v->peak_count = n;
}

static void add_diff(zv_verdict *v, const zv_diff *diff, uint64_t rank)
{
    zv_diff *const all = &v->diff;
    all->cells = zl_add(all->cells, diff->cells);
    all->figures = zl_add(all->figures, diff->figures);
    all->differing = zl_add(all->differing, diff->differing);
    for (int r = 0; r < ZL_RUNG_COUNT; r++) {
        all->off[r] = zl_max(all->off[r], diff->off[r]);
    }
    if (diff->first.found && !all->first.found) {
        char text[ZV_DIFF_TEXT_SIZE];
        all->first = diff->first;
        v->first_rank = rank;
        v->outcome = ZV_DIFFERS;
        zv_difference_text(&diff->first, text, sizeof text);
        snprintf(v->message, sizeof v->message, "rank %" PRIu64 ", %s", rank, text);
    }
}

static void add_witness(zv_verdict *v, const zl_ledger *measured, const zv_tolerance *tolerance)
{
    const zl_witness *const w = &measured->witness;
    v->has_witness = v->has_witness && w->present;
    if (!w->present) {
        return;
    }
    v->outside_steady = zl_max(v->outside_steady, w->outside_steady);
    v->outside_cold = zl_max(v->outside_cold, w->outside_cold);
    if (w->outside_steady > tolerance->outside_steady && v->outcome == ZV_EQUAL) {
        v->outcome = ZV_DIFFERS;
        v->first_rank = measured->rank;
        snprintf(v->message, sizeof v->message,
                 "rank %" PRIu64 ", witness outside_steady: %" PRIu64
                 " bytes grew outside the allocator in a steady step, tolerance %" PRIu64,
                 measured->rank, w->outside_steady, tolerance->outside_steady);
    }
}

static zl_status judge_rank(const zv_judge_input *input, const zl_ledger *measured,
                            zl_ledger *predicted, zv_verdict *v, zl_err *err)
{
    zv_diff diff;
    ZL_TRY(zl_predict(input->run, measured->rank, predicted, err));
    ZL_TRY(zv_diff_ledgers(predicted, measured, false, &diff, err));
    add_diff(v, &diff, measured->rank);
    add_peaks(v, predicted, measured);
    add_witness(v, measured, input->tolerance);
    return ZL_OK;
}

/* A report names no folder of the machine it was made on. */
static const char *without_folder(const char *text, const char *folder)
{
    const size_t length = strlen(folder);
    return strncmp(text, folder, length) == 0 && text[length] == '/' ? text + length + 1 : text;
}

zl_status zv_judge(const zv_judge_input *input, zv_verdict *verdict, zl_err *err)
{
    zl_status status = ZL_OK;
    zv_verdict v = *verdict;
    v.ranks = input->run->ranks;
    v.outcome = ZV_EQUAL;
    v.message[0] = '\0';
    v.diff = (zv_diff){0};
    v.peak_count = 0;
    v.has_witness = true;
    v.outside_steady = v.outside_cold = 0;
    zl_run_id(input->run, v.run_id);
    for (uint64_t rank = 0; rank < v.ranks && status == ZL_OK && v.outcome != ZV_FAILED; rank++) {
        zl_err why = {0};
        zl_ledger *measured;
        if (load_rank(input, rank, &measured, &why) != ZL_OK) {
            v.outcome = ZV_FAILED;
            snprintf(v.message, sizeof v.message, "no measurement of rank %" PRIu64 ": %.400s",
                     rank, without_folder(why.text, input->folder));
            break;
        }
        zl_ledger *const predicted = zl_ledger_new();
        status = predicted == NULL ? zl_fail(err, ZL_E_RESOURCE, "no memory for a predicted ledger")
                                   : judge_rank(input, measured, predicted, &v, err);
        zl_ledger_free(predicted);
        zl_ledger_free(measured);
    }
    v.diff.first.count = v.diff.differing;
    if (status == ZL_OK) {
        *verdict = v;
    }
    return status;
}
