/* Runs the cases of a matrix, one after the other, and judges each. Every case has a folder
 * <out>/<id> with run.json, ledgers, train.json, zl-train.log and verdict.json.
 *
 *     zv_verdicts verdicts = {0};
 *     bool interrupted;
 *     ZL_TRY(zv_matrix_run(&(zv_matrix){.cases = &cases, .trainer = &trainer, .out = "out"},
 * &verdicts, &interrupted, err));
 *
 * A case that has a verdict of the same run, tolerance, program version and trainer is not trained
 * again; its ledgers are judged again, because that costs nothing. A failed case is tried again.
 */
#ifndef ZV_MATRIX_H
#define ZV_MATRIX_H

#include <stdbool.h>

#include "compare/verdict.h"
#include "drive/cases.h"
#include "drive/trainer.h"

/* One finished case. */
typedef struct zv_progress {
    size_t done; /* cases finished, this one included */
    size_t total;
    const zv_verdict *verdict;
    bool resumed;     /* not trained again */
    double remaining; /* seconds that the other cases will take, guessed; 0: no guess */
} zv_progress;

typedef struct zv_matrix {
    const zv_cases *cases;
    const zv_trainer *trainer;
    const char *out;                                              /* folder; made if missing */
    const char *commit;                                           /* or NULL */
    bool fresh;                                                   /* train every case again */
    void (*progress)(void *context, const zv_progress *progress); /* or NULL */
    void *context;
} zv_matrix;

/* The caller releases *out. Signals must be blocked. Trainers that fail are verdicts, not errors.
 * *interrupted: stopped early on request; *out holds the cases that were finished. */
ZL_NODISCARD zl_status zv_matrix_run(const zv_matrix *matrix, zv_verdicts *out, bool *interrupted,
                                     zl_err *err);

#endif
