/* What became of the cases of a matrix: the document "zeroledger.verdict/1". A matrix has one in
 * validate.json with all its cases, a finished case has one in its own folder with itself alone.
 *
 *     zv_verdicts verdicts = {0};
 *     ZL_TRY(zv_verdicts_load("out/validate.json", &verdicts, err));
 *     ... verdicts.item[0].outcome ...
 *     zv_verdicts_release(&verdicts);
 */
#ifndef ZV_VERDICT_H
#define ZV_VERDICT_H

#include <stddef.h>
#include <stdint.h>

#include "compare/diff.h"

enum { ZV_ID_SIZE = 160, ZV_NAME_SIZE = 64, ZV_CELLS_MAX = ZL_VISIT_COUNT * ZL_PHASE_COUNT };

typedef enum zv_outcome {
    ZV_EQUAL,   /* every figure of every rank */
    ZV_DIFFERS, /* a figure, or the witness beyond its tolerance */
    ZV_FAILED,  /* no measurement: the trainer failed */
    ZV_OUTCOME_COUNT
} zv_outcome;

/* Largest differences that are not a difference, bytes. The figures of ledgers have none: 0. */
typedef struct zv_tolerance {
    uint64_t requested;
    uint64_t granted;
    uint64_t outside_steady;
} zv_tolerance;

/* Predicted and measured peak of a cell, from the rank that is furthest off, else rank 0. */
typedef struct zv_peak {
    zl_visit visit;
    zl_phase phase;
    uint64_t predicted[ZL_RUNG_COUNT];
    uint64_t measured[ZL_RUNG_COUNT];
} zv_peak;

/* What train.json says about the run besides memory. */
typedef struct zv_train {
    char machine[256];        /* "" if it does not say */
    double tokens_per_second; /* of all ranks, median of the steps after the first; 0: unknown */
    double first_loss;
    double last_loss;
} zv_train;

typedef struct zv_verdict {
    char id[ZV_ID_SIZE];
    char run_id[ZL_RUN_ID_SIZE];
    char trainer[17]; /* hash of the trainer's executable file, hex */
    zv_outcome outcome;
    char message[512]; /* failed: the trainer's; differs: the first difference in words; else "" */
    uint64_t ranks;
    zv_diff diff; /* sums and maxima over ranks; first: that of the first rank that differs */
    uint64_t first_rank;     /* rank of diff.first, or of the witness beyond its tolerance */
    bool has_witness;        /* on every rank */
    uint64_t outside_steady; /* the largest of the ranks */
    uint64_t outside_cold;
    zv_peak peak[ZV_CELLS_MAX]; /* in the order of visits and phases */
    size_t peak_count;
    double seconds; /* of the trainer's process */
    zv_train train;
} zv_verdict;

typedef struct zv_verdicts {
    char name[ZV_NAME_SIZE];   /* of the case file */
    char version[32];          /* of the program that judged */
    char commit[ZV_NAME_SIZE]; /* "" if not given */
    zv_tolerance tolerance;
    uint64_t steps; /* optimizer steps of each case */
    bool poison;    /* buffers were filled with a pattern, and freeing one untouched was an error */
    uint64_t planned; /* cases of the matrix; more than count if it was interrupted */
    zv_verdict *item;
    size_t count;
} zv_verdicts;

const char *zv_outcome_name(zv_outcome outcome); /* "equal", "differs", "failed" */

/* Cases that are not equal: the failed ones count. */
size_t zv_verdicts_differing(const zv_verdicts *verdicts);

/* Copies the verdict to the end. */
ZL_NODISCARD zl_status zv_verdicts_add(zv_verdicts *verdicts, const zv_verdict *verdict,
                                       zl_err *err);
void zv_verdicts_release(zv_verdicts *verdicts);

/* Load: the caller releases *out. Save is atomic. */
ZL_NODISCARD zl_status zv_verdicts_load(const char *path, zv_verdicts *out, zl_err *err);
ZL_NODISCARD zl_status zv_verdicts_save(const zv_verdicts *verdicts, const char *path, zl_err *err);

#endif
