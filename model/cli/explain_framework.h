/* zl explain of a framework other than native: the phases of a step, their terms, closed forms of
 * these and what makes a peak smaller. */
#ifndef ZL_CLI_EXPLAIN_FRAMEWORK_H
#define ZL_CLI_EXPLAIN_FRAMEWORK_H

#include "frameworks.h"

/* The mark that ends a phase, of the micro-step with the largest peak. */
typedef enum zl_span {
    ZL_SPAN_INIT,
    ZL_SPAN_FORWARD,
    ZL_SPAN_BACKWARD,
    ZL_SPAN_STEP,
    ZL_SPANS
} zl_span;

const char *zl_span_name(zl_span span); /* "forward" */
/* NULL: the walk has no such mark. cold: of the first step, else of the last. */
const zl_moment *zl_span_moment(const zl_moments *moments, zl_span span, bool cold, uint32_t steps);

/* ---- closed forms (explain_forms.c) ---- */

typedef struct zl_formula {
    char symbols[48];  /* "8 n3"; "" where there is no closed form */
    char numbers[128]; /* "8 x 42,029,289" */
} zl_formula;

/* The closed form that gives exactly these bytes, if the term has one. */
zl_formula zl_term_formula(const zl_torch_run *run, const zl_moments *moments,
                           const zl_named_bytes *term);
/* What the letters mean: rows of text, NULL past the end. */
const char *zl_formula_legend(size_t index);

/* ---- what makes it smaller (explain_knobs.c) ---- */

enum { ZL_TURNS_MAX = 32 };

/* One setting changed, everything predicted again. */
typedef struct zl_turn {
    const char *option; /* "reduce_bucket_size", "--recompute" */
    char value[64];
    uint64_t peak[ZL_SPANS]; /* requested, of the same step */
} zl_turn;

/* Those that lower some phase's peak; a setting that cannot be predicted is left out. */
zl_status zl_turns_find(const zl_walked *w, const zl_moments *moments, bool cold, zl_turn *out,
                        size_t *count, zl_err *err);

#endif
