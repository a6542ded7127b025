/* Judges the measurement of one case: predicts every rank's ledger from the run alone, compares it
 * with the measured one, and looks at the second witness.
 *
 *     zv_verdict verdict = {0};
 *     ZL_TRY(zv_judge(&(zv_judge_input){.run = &run, .folder = "out/gpt2-tiny/z0-n1", ...},
 * &verdict, err));
 */
#ifndef ZV_JUDGE_H
#define ZV_JUDGE_H

#include "compare/verdict.h"
#include "zeroledger/run.h"

typedef struct zv_judge_input {
    const zl_run *run;  /* checked */
    const char *folder; /* holds ledger.rank<R>.json of every rank */
    const zv_tolerance *tolerance;
} zv_judge_input;

/* Fills run_id, ranks, outcome, message, diff, first_rank, the witness and the peaks; leaves the
 * rest. A ledger that is missing, broken or of another run makes the outcome failed, not an error:
 * errors are those of the prediction. */
ZL_NODISCARD zl_status zv_judge(const zv_judge_input *input, zv_verdict *verdict, zl_err *err);

#endif
