/* What a report is made from: the verdicts of a folder, their runs, and the family of cases that
 * its tables and figures look at more closely.
 *
 *     zv_data data;
 *     ZL_TRY(zv_data_load("out", &data, err));
 *     zv_data_release(&data);
 */
#ifndef ZV_DATA_H
#define ZV_DATA_H

#include <stdbool.h>

#include "compare/verdict.h"
#include "zeroledger/ledger.h"
#include "zeroledger/run.h"

enum { ZV_STAGES = 4 };

/* Cases that differ in nothing but the stage. */
typedef struct zv_family {
    zl_run run;                           /* of its lowest stage */
    const zv_verdict *verdict[ZV_STAGES]; /* NULL: not among the cases */
    zl_ledger *ledger[ZV_STAGES];         /* measured, rank 0 */
    size_t stages;
} zv_family;

typedef struct zv_data {
    char folder[4096];
    zv_verdicts verdicts;
    zl_run *run;      /* of each verdict */
    zv_family family; /* stages 0 if no case was measured */
} zv_data;

/* Reads validate.json, every case's run.json and the family's ledgers. The family is the one with
 * the most stages, then the most ranks, then the first. The caller releases *out. */
ZL_NODISCARD zl_status zv_data_load(const char *folder, zv_data *out, zl_err *err);
void zv_data_release(zv_data *data);

/* The verdict of that run, or NULL; failed ones are not found. */
const zv_verdict *zv_data_find(const zv_data *data, const zl_run *run);

/* The visit that stands for a phase: init's only one, else the steady one with the largest
 * requested peak. False if the phase does not occur. */
bool zv_main_visit(const zl_ledger *ledger, zl_phase phase, zl_visit *out);

/* Requested peak of the phase in that visit; 0 if it does not occur. */
uint64_t zv_main_peak(const zl_ledger *ledger, zl_phase phase);
uint64_t zv_measured_peak(const zv_verdict *verdict, zl_phase phase);

/* Phases of a report, in order; ZL_PHASE_COUNT past the end. */
zl_phase zv_report_phase(size_t index);

/* Predicted main peak of each phase on rank 0; peak[ZL_PHASE_COUNT]. */
ZL_NODISCARD zl_status zv_predicted_peaks(const zl_run *run, uint64_t *peak, zl_err *err);

/* "12.345": MiB with three decimals. */
typedef struct zv_text {
    char text[32];
} zv_text;
zv_text zv_mib(uint64_t bytes);
zv_text zv_count(uint64_t n);

#endif
