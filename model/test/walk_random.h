/* Random runs for property tests: small, odd sizes and every option, from one printed seed.
 *
 *     zl_random random = {.state = seed};
 *     zl_run run;
 *     if (zl_random_run(&random, &run, &err) == ZL_OK) { ... it has passed zl_run_check ... }
 */
#ifndef ZEROLEDGER_TEST_WALK_RANDOM_H
#define ZEROLEDGER_TEST_WALK_RANDOM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "zeroledger/error.h"
#include "zeroledger/run.h"

typedef struct zl_random {
    uint64_t state;
} zl_random;

/* Uniform in low .. high, both included. */
uint64_t zl_random_between(zl_random *random, uint64_t low, uint64_t high);

/* A run that zl_model_check and zl_run_check accept, or the error with which they refuse it. */
ZL_NODISCARD zl_status zl_random_run(zl_random *random, zl_run *out, zl_err *err);

/* True while `run` still shows what is looked for. */
typedef bool (*zl_random_keeps)(const zl_run *run, void *context);

/* Makes the run as plain as possible while keeps(run) holds. */
void zl_random_shrink(zl_run *run, zl_random_keeps keeps, void *context);

/* The run as options of the command line, the model's shape as a comment before them. */
void zl_random_print(const zl_run *run, FILE *stream);

#endif
