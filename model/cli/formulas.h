/* docs/formulas.md: every buffer with its formulas, the conditions under which each occurs, and an
 * example, all observed on representative runs.
 *
 * A *sample* is a run that differs from the usual one in a few *axes*. A *formula* is one text that
 * zl_explain_all gave for what a buffer takes at most, with the set of samples in which it did; its
 * condition is read off that set.
 */
#ifndef ZL_CLI_FORMULAS_H
#define ZL_CLI_FORMULAS_H

#include "cmd.h"

enum { ZL_AXES = 18, ZL_AXIS_VALUES = 4, ZL_SAMPLES_MAX = 4096, ZL_FORMULAS_MAX = 256 };

/* An option and the values that samples give it; the first is the usual one. */
typedef struct zl_axis {
    const char *option;                /* of the run's table, or "" for the model's own flag */
    const char *value[ZL_AXIS_VALUES]; /* as for zl_run_set; "" leaves the option out */
    const char *before;                /* what words for values begin with */
    const char *word[ZL_AXIS_VALUES];
} zl_axis;
/* The index must be below ZL_AXES. */
const zl_axis *zl_axis_at(size_t index);
size_t zl_axis_count(const zl_axis *axis);

typedef struct zl_sample {
    zl_run run;
    uint8_t value[ZL_AXES]; /* index into each axis */
    unsigned changes;       /* axes that are not usual */
} zl_sample;

/* Most changes of a sample. A condition needs one change fewer, so that every other axis is seen to
 * vary under it. */
enum { ZL_CHANGES_MAX = 3 };
/* All samples that can be run, those with few changes first. */
zl_status zl_samples(zl_sample *samples, size_t *count, zl_err *err);

/* What a buffer takes at most in a run. */
typedef struct zl_formula {
    zl_term term;   /* the first one seen */
    size_t example; /* its sample */
    uint64_t occurs[ZL_SAMPLES_MAX / 64];
} zl_formula;

typedef struct zl_formulas {
    size_t samples;
    zl_sample sample[ZL_SAMPLES_MAX];
    size_t count;
    zl_formula formula[ZL_FORMULAS_MAX];
    unsigned live[ZL_BUF_COUNT]; /* bit p: live in phase p of some sample */
    unsigned peak[ZL_BUF_COUNT]; /* bit p: live at a peak of phase p of some sample */
} zl_formulas;

/* Observes, into *all that starts zeroed, the usual run, every single change of it, and what else
 * it takes to see every buffer. */
zl_status zl_formulas_usual(zl_formulas *all, zl_err *err);
/* Of a buffer: the lowest stage at which more ranks make it smaller, UINT64_MAX: none; and the sum
 * of its formulas in the first run that has it: "E_embed·e + L·E_block·e + E_head·e". */
uint64_t zl_formulas_stage(const zl_formulas *all, zl_buf buffer);
void zl_formulas_sum(const zl_formulas *all, zl_buf buffer, char *text, size_t size);

/* "stage 1, 2 or 3; precision bf16-mixed or fp16-mixed", "always"; with "only if " in front where
 * the condition is necessary but not sufficient. */
void zl_formula_condition(const zl_formulas *all, const zl_formula *formula, char *text,
                          size_t size);

/* Prose, legend and units above the buffers. */
zl_status zl_formulas_intro(FILE *out, const zl_formulas *all, zl_err *err);

#endif
