#include <inttypes.h>
#include <stdio.h>

#include "report/parts.h"

void zv_section_cases(FILE *out, const zv_data *data)
{
    const zv_verdicts *const all = &data->verdicts;
    fputs("## Cases\n\n"
          "Visits: visits of phases that were compared, over all ranks. Figures: "
          "numbers compared that are not 0 on both sides. Off: "
          "the largest difference of any figure, in bytes. Witness: largest growth outside the "
          "allocator within a steady step, in bytes.\n\n"
          "| case | verdict | visits | figures | L0 off | L1 off | witness |\n"
          "|---|---|---:|---:|---:|---:|---:|\n",
          out);
    for (size_t i = 0; i < all->count; i++) {
        const zv_verdict *const v = &all->item[i];
        if (v->outcome == ZV_FAILED) {
            fprintf(out, "| %s | **failed** | | | | | |\n", v->id);
            continue;
        }
        fprintf(out, "| %s | %s | %s | %s | %s | %s | %s |\n", v->id,
                v->outcome == ZV_EQUAL ? "equal" : "**differs**", zv_count(v->diff.cells).text,
                zv_count(v->diff.figures).text, zv_count(v->diff.off[ZL_REQUESTED]).text,
                zv_count(v->diff.off[ZL_GRANTED]).text,
                v->has_witness ? zv_count(v->outside_steady).text : "none");
    }
    fputs("\n", out);
    if (zv_verdicts_differing(all) == 0) {
        return;
    }
    fputs("What differs, or failed:\n\n", out);
    for (size_t i = 0; i < all->count; i++) {
        if (all->item[i].outcome != ZV_EQUAL) {
            fprintf(out, "- %s: `%s`\n", all->item[i].id, all->item[i].message);
        }
    }
    fputs("\n", out);
}

static void stage_columns(FILE *out, const zv_family *family, const char *suffix)
{
    for (size_t stage = 0; stage < ZV_STAGES; stage++) {
        if (family->verdict[stage] != NULL) {
            fprintf(out, " stage %zu%s |", stage, suffix);
        }
    }
    fputs("\n|---|", out);
    for (size_t i = 0; i < family->stages; i++) {
        fputs("---:|", out);
    }
    fputs("\n", out);
}

void zv_section_memory(FILE *out, const zv_data *data)
{
    const zv_family *const family = &data->family;
    char description[256];
    zl_run_describe(&family->run, description, sizeof description);
    fprintf(
        out,
        "## Memory per phase and stage\n\n"
        "Measured peaks of requested bytes on rank 0, in MiB, for the cases that differ only in "
        "the "
        "stage from: %s. Of several such families, this is the one with the most stages, then the "
        "most ranks. Phases are those of a steady step; init is the start of the run.\n\n| phase |",
        description);
    stage_columns(out, family, "");
    for (size_t i = 0; zv_report_phase(i) != ZL_PHASE_COUNT; i++) {
        fprintf(out, "| %s |", zl_phase_name(zv_report_phase(i)));
        for (size_t stage = 0; stage < ZV_STAGES; stage++) {
            if (family->ledger[stage] == NULL) {
                continue;
            }
            const uint64_t peak = zv_main_peak(family->ledger[stage], zv_report_phase(i));
            fprintf(out, " %s |", peak == 0 ? "–" : zv_mib(peak).text);
        }
        fputs("\n", out);
    }
    fputs("\n![Stacked bars of what each kind of memory had live at the peak of each phase, for "
          "every "
          "stage](peaks.svg)\n\n",
          out);
}

zl_status zv_section_reduction(FILE *out, const zv_data *data, zl_err *err)
{
    const zv_family *const family = &data->family;
    uint64_t base[ZL_PHASE_COUNT];
    uint64_t peak[ZV_STAGES][ZL_PHASE_COUNT];
    zl_run run = family->run;
    run.stage = 0;
    run.ranks = 1;
    ZL_TRY(zv_predicted_peaks(&run, base, err));
    run.ranks = family->run.ranks;
    for (run.stage = 0; run.stage < ZV_STAGES; run.stage++) {
        ZL_TRY(zv_predicted_peaks(&run, peak[run.stage], err));
    }
    fprintf(
        out,
        "## Reduction factors\n\n"
        "Predicted peak of stage 0 on one rank, divided by the predicted peak on one of %" PRIu64
        " ranks; the same batch per rank. Publish does not occur in stage 0, so it has no "
        "factor.\n\n"
        "| phase | stage 0, 1 rank, MiB (predicted) | stage 0 (predicted) | stage 1 (predicted) | "
        "stage 2 (predicted) | stage 3 (predicted) |\n|---|---:|---:|---:|---:|---:|\n",
        family->run.ranks);
    for (size_t i = 0; zv_report_phase(i) != ZL_PHASE_COUNT; i++) {
        const zl_phase p = zv_report_phase(i);
        if (base[p] == 0) {
            continue;
        }
        fprintf(out, "| %s | %s |", zl_phase_name(p), zv_mib(base[p]).text);
        for (size_t stage = 0; stage < ZV_STAGES; stage++) {
            fprintf(out, " %.2fx |", (double)base[p] / (double)peak[stage][p]);
        }
        fputs("\n", out);
    }
    fputs("\n![Reduction factors of each phase against the number of ranks, one line for each "
          "stage](reduction.svg)\n\n",
          out);
    return ZL_OK;
}
