/* zl __formulas: observes every formula on the representative runs and prints docs/formulas.md. */
#include "formulas.h"

#include <stdlib.h>
#include <string.h>

enum { TERMS_MAX = 128 };

typedef struct terms {
    size_t count;
    zl_term term[TERMS_MAX];
} terms;

static bool occurs(const zl_formula *formula, size_t sample)
{
    return (formula->occurs[sample / 64] >> sample % 64 & 1) != 0;
}

/* Adds a term, or keeps the larger count of the same one. */
static bool merge(terms *most, const zl_term *term)
{
    for (size_t i = 0; i < most->count; i++) {
        zl_term *known = &most->term[i];
        if (known->buffer == term->buffer && known->each == term->each) {
            *known = term->count > known->count ? *term : *known;
            return true;
        }
    }
    if (most->count == TERMS_MAX) {
        return false;
    }
    most->term[most->count++] = *term;
    return true;
}

/* Adds what a visit of a phase has to what the buffers of the sample take at most. */
static zl_status observe(zl_formulas *all, const zl_run *run, zl_visit visit, zl_phase phase,
                         terms *most, zl_err *err)
{
    terms t;
    if (zl_explain_all(run, visit, phase, t.term, TERMS_MAX, &t.count, NULL) == ZL_E_USAGE) {
        return ZL_OK; /* this visit of the phase does not occur */
    }
    for (size_t i = 0; i < t.count; i++) {
        if (t.count > TERMS_MAX || !merge(most, &t.term[i])) {
            return zl_fail(err, ZL_E_BUG, "more than %d terms: raise the limit", TERMS_MAX);
        }
        all->live[t.term[i].buffer] |= 1U << phase;
    }
    ZL_TRY(zl_explain(run, visit, phase, t.term, TERMS_MAX, &t.count, err));
    for (size_t i = 0; i < t.count && i < TERMS_MAX; i++) {
        all->peak[t.term[i].buffer] |= 1U << phase;
    }
    return ZL_OK;
}

/* Notes that the sample has the term. */
static zl_status note(zl_formulas *all, const zl_term *term, size_t sample, zl_err *err)
{
    size_t at = 0;
    for (; at < all->count; at++) {
        const zl_term *known = &all->formula[at].term;
        if (known->buffer == term->buffer && strcmp(known->symbols, term->symbols) == 0) {
            break;
        }
    }
    if (at == ZL_FORMULAS_MAX) {
        return zl_fail(err, ZL_E_BUG, "more than %d formulas: raise the limit", ZL_FORMULAS_MAX);
    }
    if (at == all->count) {
        all->formula[all->count++] = (zl_formula){.term = *term, .example = sample};
    }
    all->formula[at].occurs[sample / 64] |= UINT64_C(1) << sample % 64;
    return ZL_OK;
}

static zl_status observe_sample(zl_formulas *all, size_t sample, zl_err *err)
{
    terms most;
    most.count = 0;
    for (int i = 0; i < ZL_VISIT_COUNT * ZL_PHASE_COUNT; i++) {
        const zl_visit visit = (zl_visit)(i / ZL_PHASE_COUNT);
        const zl_phase phase = (zl_phase)(i % ZL_PHASE_COUNT);
        ZL_TRY(observe(all, &all->sample[sample].run, visit, phase, &most, err));
    }
    for (size_t i = 0; i < most.count; i++) {
        ZL_TRY(note(all, &most.term[i], sample, err));
    }
    return ZL_OK;
}

/* Every buffer has a formula, and every formula is seen with room for one more change. */
static zl_status check(const zl_formulas *all, zl_err *err)
{
    bool reached[ZL_BUF_COUNT] = {false};
    for (size_t i = 0; i < all->count; i++) {
        const zl_formula *formula = &all->formula[i];
        reached[formula->term.buffer] = true;
        if (all->sample[formula->example].changes == ZL_CHANGES_MAX) {
            return zl_fail(err, ZL_E_BUG, "%s %s needs %d changes: raise ZL_CHANGES_MAX",
                           zl_buf_name(formula->term.buffer), formula->term.symbols,
                           ZL_CHANGES_MAX);
        }
    }
    for (int b = 0; b < ZL_BUF_COUNT; b++) {
        if (!reached[b]) {
            return zl_fail(err, ZL_E_BUG, "no sample reaches buffer %s: add an axis",
                           zl_buf_name((zl_buf)b));
        }
    }
    return ZL_OK;
}

static zl_status fill(zl_formulas *all, zl_err *err)
{
    ZL_TRY(zl_samples(all->sample, &all->samples, err));
    for (size_t s = 0; s < all->samples; s++) {
        ZL_TRY(observe_sample(all, s, err));
    }
    return check(all, err);
}

zl_status zl_formulas_usual(zl_formulas *all, zl_err *err)
{
    bool reached[ZL_BUF_COUNT] = {false};
    int missing = ZL_BUF_COUNT;
    ZL_TRY(zl_samples(all->sample, &all->samples, err));
    for (size_t s = 0; s < all->samples && (missing > 0 || all->sample[s].changes < 2); s++) {
        size_t known = all->count;
        ZL_TRY(observe_sample(all, s, err));
        for (; known < all->count; known++) {
            const zl_buf buffer = all->formula[known].term.buffer;
            missing -= !reached[buffer];
            reached[buffer] = true;
        }
    }
    return check(all, err);
}

uint64_t zl_formulas_stage(const zl_formulas *all, zl_buf buffer)
{
    uint64_t stage = UINT64_MAX;
    for (size_t i = 0; i < all->count; i++) {
        const zl_formula *f = &all->formula[i];
        for (size_t s = 0; s < all->samples && f->term.buffer == buffer && f->term.shards; s++) {
            const uint64_t other = all->sample[s].run.stage;
            stage = occurs(f, s) && other < stage ? other : stage;
        }
    }
    return stage;
}

void zl_formulas_sum(const zl_formulas *all, zl_buf buffer, char *text, size_t size)
{
    const zl_formula *first = NULL;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < all->count && used < size; i++) {
        const zl_formula *f = &all->formula[i];
        if (f->term.buffer == buffer && (first == NULL || f->example == first->example)) {
            used += (size_t)snprintf(text + used, size - used, "%s%s", first != NULL ? " + " : "",
                                     f->term.symbols);
            first = first != NULL ? first : f;
        }
    }
}

/* Allowed values of each axis, a bit each. */
typedef struct box {
    unsigned allowed[ZL_AXES];
} box;

static bool inside(const box *b, const zl_sample *sample)
{
    for (size_t a = 0; a < ZL_AXES; a++) {
        if ((b->allowed[a] >> sample->value[a] & 1) == 0) {
            return false;
        }
    }
    return true;
}

/* The box holds the samples of the formula and no other. */
static bool exact(const box *b, const zl_formulas *all, const zl_formula *formula)
{
    for (size_t s = 0; s < all->samples; s++) {
        if (inside(b, &all->sample[s]) != occurs(formula, s)) {
            return false;
        }
    }
    return true;
}

/* The smallest box around the samples of the formula, then without the axes that others imply. */
static bool enclose(box *b, const zl_formulas *all, const zl_formula *formula)
{
    *b = (box){{0}};
    for (size_t s = 0; s < all->samples; s++) {
        for (size_t a = 0; a < ZL_AXES && occurs(formula, s); a++) {
            b->allowed[a] |= 1U << all->sample[s].value[a];
        }
    }
    const bool is_exact = exact(b, all, formula);
    for (size_t a = ZL_AXES; is_exact && a-- > 0;) {
        const unsigned kept = b->allowed[a];
        b->allowed[a] = ~0U;
        if (!exact(b, all, formula)) {
            b->allowed[a] = kept;
        }
    }
    return is_exact;
}

/* "stage 1, 2 or 3" */
static void put_axis(FILE *out, const zl_axis *axis, unsigned allowed)
{
    const size_t count = zl_axis_count(axis);
    size_t left = 0;
    for (size_t v = 0; v < count; v++) {
        left += allowed >> v & 1;
    }
    fputs(axis->before, out);
    for (size_t v = 0; v < count; v++) {
        if ((allowed >> v & 1) != 0) {
            left--;
            fprintf(out, "%s%s", axis->word[v], left > 1 ? ", " : left == 1 ? " or " : "");
        }
    }
}

void zl_formula_condition(const zl_formulas *all, const zl_formula *formula, char *text,
                          size_t size)
{
    box b;
    const bool is_exact = enclose(&b, all, formula);
    bool any = false;
    FILE *out = fmemopen(text, size, "w");
    if (out == NULL) {
        text[0] = '\0';
        return;
    }
    fputs(is_exact ? "" : "only if ", out);
    for (size_t a = 0; a < ZL_AXES; a++) {
        const zl_axis *axis = zl_axis_at(a);
        const unsigned every = (1U << zl_axis_count(axis)) - 1;
        if ((b.allowed[a] & every) != every) {
            fputs(any ? "; " : "", out);
            put_axis(out, axis, b.allowed[a]);
            any = true;
        }
    }
    fputs(any ? "" : "always", out);
    fclose(out);
}

static void put_phases(FILE *out, unsigned phases)
{
    bool any = false;
    for (int p = 0; p < ZL_PHASE_COUNT; p++) {
        if ((phases >> p & 1) != 0) {
            fprintf(out, "%s%s", any ? ", " : "", zl_phase_name((zl_phase)p));
            any = true;
        }
    }
    fputs(any ? "" : "none", out);
}

static void put_buffer(FILE *out, const zl_formulas *all, zl_buf buffer)
{
    const zl_formula *first = NULL;
    char text[512];
    fprintf(out,
            "\n<a id=\"%s\"></a>\n### %s\n\nKind `%s`: %s.\n\n"
            "| bytes | when | per rank |\n|---|---|---|\n",
            zl_buf_name(buffer), zl_buf_name(buffer), zl_kind_name(zl_buf_kind(buffer)),
            zl_buf_text(buffer));
    for (size_t i = 0; i < all->count; i++) {
        const zl_formula *formula = &all->formula[i];
        if (formula->term.buffer != buffer) {
            continue;
        }
        zl_formula_condition(all, formula, text, sizeof text);
        fprintf(out, "| `%s` | %s | %s |\n", formula->term.symbols, text,
                formula->term.shards ? "1/N" : "whole");
        first = first != NULL ? first : formula;
    }
    fputs("\nLive in: ", out);
    put_phases(out, all->live[buffer]);
    fputs(". At a peak of: ", out);
    put_phases(out, all->peak[buffer]);
    if (first != NULL) {
        zl_run_describe(&all->sample[first->example].run, text, sizeof text);
        fprintf(out, ".\nExample: `%s` = %s B in %s.\n", first->term.numbers,
                zl_count(first->term.bytes).text, text);
    }
}

zl_status zl_cmd_formulas(int argc, char **argv, zl_err *err)
{
    (void)argc;
    (void)argv;
    const zl_view view = {.out = "-"};
    zl_formulas *all = calloc(1, sizeof *all);
    zl_page page;
    if (all == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    zl_status status = fill(all, err);
    if (status == ZL_OK) {
        status = zl_page_open(&page, &view, err);
    }
    if (status == ZL_OK) {
        status = zl_formulas_intro(page.file, all, err);
        for (int b = 0; b < ZL_BUF_COUNT && status == ZL_OK; b++) {
            put_buffer(page.file, all, (zl_buf)b);
        }
        status = zl_page_end(&page, status, err);
    }
    free(all);
    return status;
}
