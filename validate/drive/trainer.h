/* The trainer as a process: it gets a run.json and leaves ledgers and train.json.
 *
 *     zv_trainer trainer;
 *     ZL_TRY(zv_trainer_find("/usr/bin", &trainer, err));   // beside us, or $ZL_TRAIN
 *     ZL_TRY(zv_trainer_run(&trainer, &(zv_job){.run = &run, .folder = "out/case"}, &verdict,
 * err));
 */
#ifndef ZV_TRAINER_H
#define ZV_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "compare/verdict.h"
#include "drive/files.h"
#include "zeroledger/run.h"

typedef struct zv_trainer {
    char path[ZV_PATH_SIZE]; /* absolute */
    char hash[17];           /* of the executable file */
    uint64_t steps;          /* optimizer steps of a case */
    bool poison;
    unsigned limit; /* seconds a case may take; 0: any */
} zv_trainer;

/* One training run. */
typedef struct zv_job {
    const zl_run *run;  /* checked */
    const char *folder; /* exists */
    const char *fault;  /* value of ZR_FAULT, or NULL */
} zv_job;

/* The program at $ZL_TRAIN, else `zl-train` in folder. Sets 3 steps, poison, 600 seconds. */
ZL_NODISCARD zl_status zv_trainer_find(const char *folder, zv_trainer *out, zl_err *err);
/* The program at path. */
ZL_NODISCARD zl_status zv_trainer_at(const char *path, zv_trainer *out, zl_err *err);

/* Writes run.json into the folder and trains there. Fills ranks, run_id, trainer, seconds, and
 * train on success; where the trainer fails, outcome and message. A trainer that was stopped
 * because this process shall stop has failed too: ask zv_interrupted. */
ZL_NODISCARD zl_status zv_trainer_run(const zv_trainer *trainer, const zv_job *job,
                                      zv_verdict *verdict, zl_err *err);

#endif
