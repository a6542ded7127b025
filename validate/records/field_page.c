#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "records/field.h"
#include "zeroledger/bytes.h"
#include "zeroledger/text.h"

enum { RUNS_MAX = 8, TERMS_SHOWN = 4 };

static const char page_head[] =
    "# Field cases\n"
    "\n"
    "Written by `zl-validate field`; a test keeps it up to date and fails when an asserted answer "
    "leaves the\n"
    "rounding that its source allows. The publications are in `validate/records/field-cases.json`, "
    "the setups,\n"
    "as far as they are stated, in `field-setup.json` there. People published these figures about "
    "their own\n"
    "runs: other GPUs, older releases. Nothing was fitted to them: an answer is what the library "
    "says for the\n"
    "setup, and never reads a published number.\n"
    "\n"
    "- *largest*: the largest of the marks of the fourth step; other marks are those of the fourth "
    "step too.\n"
    "- *allowed*: how near the answer has to be, for the reason below the table; empty: shown, not "
    "asserted.\n"
    "- *term*: one of the named parts that add up to the requested bytes; *refusal*: the request "
    "that the\n"
    "  replayed allocator cannot serve within the memory that is left.\n";

/* ---- loading ---- */

static zl_status same_cases(const zv_field *f, zl_err *err)
{
    const size_t count = zl_json_size(f->cases);
    if (zl_json_size(f->setups) != count || count == 0) {
        return zl_fail(err, ZL_E_INPUT, "%zu cases have %zu setups", count,
                       zl_json_size(f->setups));
    }
    for (size_t i = 0; i < count; i++) {
        const char *id = NULL;
        const char *other = NULL;
        ZL_TRY(zl_json_string(zl_json_get(zl_json_item(f->cases, i), "id"), &id, err));
        ZL_TRY(zl_json_string(zl_json_get(zl_json_item(f->setups, i), "id"), &other, err));
        if (strcmp(id, other) != 0) {
            return zl_fail(err, ZL_E_INPUT, "the setup of %s is missing, or not in its place", id);
        }
    }
    return ZL_OK;
}

zl_status zv_field_load(const char *cases, const char *setups, const zv_setup *setup,
                        zv_field **out, zl_err *err)
{
    zl_status status;
    zv_field *const f = calloc(1, sizeof *f);
    if (f == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for %s", cases);
    }
    ZL_TRY_GOTO(status, zl_json_load(cases, &f->cases_doc, err), fail);
    ZL_TRY_GOTO(status, zl_json_load(setups, &f->setups_doc, err), fail);
    const zl_json root = zl_json_root(f->setups_doc);
    f->cases = zl_json_root(f->cases_doc);
    f->setups = zl_json_get(root, "cases");
    f->gpus = zl_json_get(root, "gpus");
    f->models = zl_json_get(root, "models");
    f->setup = setup;
    ZL_TRY_GOTO(status, same_cases(f, err), fail);
    *out = f;
    return ZL_OK;
fail:
    zv_field_free(f);
    return status;
}

void zv_field_free(zv_field *field)
{
    if (field != NULL) {
        zl_json_free(field->cases_doc);
        zl_json_free(field->setups_doc);
        free(field);
    }
}

/* ---- one case ---- */

typedef struct page {
    FILE *out;
    const char *id;
    size_t asserted, wrong;
    char first[256]; /* of the wrong ones */
} page;

static void count(page *p, const char *what, bool right)
{
    p->asserted++;
    p->wrong += !right;
    if (!right && p->first[0] == '\0') {
        snprintf(p->first, sizeof p->first, "%s, %s", p->id, what);
    }
}

static zl_status put_text(page *p, zl_json object, const char *key, const char *end, zl_err *err)
{
    const char *text = NULL;
    ZL_TRY(zl_json_string(zl_json_get(object, key), &text, err));
    fprintf(p->out, "%s%s", text, end);
    return ZL_OK;
}

/* What is alive when the last step needs most. */
static void put_peak(page *p, const zv_field_answer *a)
{
    const zl_moment *most = NULL;
    const size_t marks = a->moments.count;
    for (size_t i = 0; i < marks; i++) {
        const zl_moment *const here = &a->moments.moment[i];
        const bool last = here->mark.step == a->moments.moment[marks - 1].mark.step;
        if (last && (most == NULL || here->mark.peak_requested > most->mark.peak_requested)) {
            most = here;
        }
    }
    if (most == NULL) {
        return;
    }
    char bytes[32];
    zl_format_bytes(most->mark.peak_requested, ZL_BYTES_GIB, 2, bytes, sizeof bytes);
    fprintf(p->out, "%s GiB before `%s`: ", bytes, most->mark.at);
    for (size_t i = 0; i < most->peak.count && i < TERMS_SHOWN; i++) {
        zl_format_bytes(most->peak.term[i].bytes, ZL_BYTES_GIB, 2, bytes, sizeof bytes);
        fprintf(p->out, "%s%s %s", i == 0 ? "" : ", ", most->peak.term[i].name, bytes);
    }
}

static const char *outcome_of(const zv_field_answer *a)
{
    return a->status == ZL_OK             ? "fits"
           : a->status == ZL_E_UNMODELLED ? "not modelled"
                                          : "does not fit";
}

static zl_status put_run(page *p, zl_json run, const zv_field_answer *a, zl_err *err)
{
    const char *expected = NULL;
    const char *why = NULL;
    if (zl_json_get(run, "expect").node != NULL) {
        ZL_TRY(zl_json_string(zl_json_get(run, "expect"), &expected, err));
        count(p, a->name, strcmp(expected, outcome_of(a)) == 0);
    }
    fprintf(p->out, "| %s | ", a->name);
    if (a->run.device_total > 0) {
        char bytes[32];
        zl_format_bytes(a->run.device_total, ZL_BYTES_GIB, 2, bytes, sizeof bytes);
        ZL_TRY(zl_json_string(zl_json_get(run, "why"), &why, err));
        fprintf(p->out, "%s: %s", bytes, why);
    }
    fprintf(p->out, " | %s | ", expected == NULL ? "" : expected);
    if (a->ledger != NULL) {
        fputs("native closed form", p->out);
    } else if (a->status != ZL_OK) {
        fputs(a->says, p->out);
    } else {
        put_peak(p, a);
    }
    fputs(" |\n", p->out);
    return ZL_OK;
}

static zl_status put_runs(page *p, zl_json runs, const zv_field_answer *answers, zl_err *err)
{
    fputs("\n| setup | memory left, GiB | published outcome | answer: the peak of a step, and its "
          "largest "
          "terms |\n|---|---|---|---|\n",
          p->out);
    for (size_t i = 0; i < zl_json_size(runs); i++) {
        ZL_TRY(put_run(p, zl_json_item(runs, i), &answers[i], err));
    }
    fputs("\n", p->out);
    return ZL_OK;
}

/* Terms that the answer to a question has to name. */
static zl_status put_question(page *p, zl_json ask, const zv_field_answer *answers, size_t runs,
                              zl_err *err)
{
    uint64_t run = 0;
    const char *at = NULL;
    if (ask.node == NULL) {
        return ZL_OK;
    }
    ZL_TRY(zl_json_u64(zl_json_get(ask, "run"), &run, err));
    ZL_TRY(zl_json_string(zl_json_get(ask, "at"), &at, err));
    const zl_moment *const moment = run < runs ? zv_field_moment(&answers[run], at) : NULL;
    if (moment == NULL) {
        return zl_fail(err, ZL_E_INPUT, "%s: there is no such moment", ask.path);
    }
    fprintf(p->out, "- Terms that have to be named (%s, peak before `%s`):", answers[run].name, at);
    const zl_json terms = zl_json_get(ask, "terms");
    for (size_t i = 0; i < zl_json_size(terms); i++) {
        const char *name = NULL;
        char bytes[32];
        ZL_TRY(zl_json_string(zl_json_item(terms, i), &name, err));
        const uint64_t size = zv_field_term(&moment->peak, name);
        zl_format_bytes(size, ZL_BYTES_GIB, 2, bytes, sizeof bytes);
        fprintf(p->out, "%s %s %s", i == 0 ? "" : ",", name, bytes);
        count(p, name, size > 0);
    }
    fputs(".\n", p->out);
    return ZL_OK;
}

static zl_status reason_of(zl_json figures, size_t i, const char **out, zl_err *err)
{
    return zl_json_string(zl_json_get(zl_json_item(figures, i), "why"), out, err);
}

/* Each reason once, with the rows that it is for. */
static zl_status put_reasons(page *p, zl_json figures, zl_err *err)
{
    const size_t rows = zl_json_size(figures);
    for (size_t i = 0; i < rows; i++) {
        const char *why = NULL;
        const char *other = NULL;
        size_t first = 0;
        ZL_TRY(reason_of(figures, i, &why, err));
        for (other = NULL; first < i; first++) {
            ZL_TRY(reason_of(figures, first, &other, err));
            if (strcmp(why, other) == 0) {
                break;
            }
        }
        if (first < i) {
            continue;
        }
        fprintf(p->out, "- %zu", i + 1);
        for (size_t k = i + 1; k < rows; k++) {
            ZL_TRY(reason_of(figures, k, &other, err));
            if (strcmp(why, other) == 0) {
                fprintf(p->out, ", %zu", k + 1);
            }
        }
        fprintf(p->out, ": %s\n", why);
    }
    return ZL_OK;
}

static zl_status put_figures(page *p, zl_json published, zl_json figures,
                             const zv_field_answer *answers, size_t runs, zl_err *err)
{
    fputs("\n| | figure | published | answer | off | allowed | |\n|---|---|---|---|---|---|---|\n",
          p->out);
    for (size_t i = 0; i < zl_json_size(figures); i++) {
        zv_field_figure f;
        ZL_TRY(zv_field_figure_of(published, zl_json_item(figures, i), answers, runs, &f, err));
        if (f.asserted) {
            count(p, f.what, f.right);
        }
        fprintf(p->out, "| %zu | %s | %s | %s | %s | %s | %s |\n", i + 1, f.what, f.published,
                f.ours, f.off, f.allowed,
                !f.asserted ? ""
                : f.right   ? "yes"
                            : "**no**");
    }
    fputs("\n", p->out);
    return put_reasons(p, figures, err);
}

static zl_status put_answers(page *p, zl_json published, zl_json setup,
                             const zv_field_answer *answers, size_t runs, zl_err *err)
{
    fprintf(p->out, "\n## %s: ", p->id);
    ZL_TRY(put_text(p, published, "title", "\n\nPublished in: ", err));
    ZL_TRY(put_text(p, published, "source", ".\n", err));
    ZL_TRY(put_runs(p, zl_json_get(setup, "runs"), answers, err));
    ZL_TRY(put_question(p, zl_json_get(setup, "ask"), answers, runs, err));
    const zl_json notes = zl_json_get(setup, "notes");
    for (size_t i = 0; i < zl_json_size(notes); i++) {
        const char *note = NULL;
        ZL_TRY(zl_json_string(zl_json_item(notes, i), &note, err));
        fprintf(p->out, "- %s\n", note);
    }
    return put_figures(p, published, zl_json_get(setup, "figures"), answers, runs, err);
}

static zl_status put_case(page *p, const zv_field *field, size_t index, zl_err *err)
{
    static const char *const keys[] = {"id", "gpu", "config", "runs", "figures", "ask", "notes"};
    const zl_json published = zl_json_item(field->cases, index);
    const zl_json setup = zl_json_item(field->setups, index);
    const zl_json runs = zl_json_get(setup, "runs");
    const size_t count_of_runs = zl_json_size(runs);
    zv_field_answer answers[RUNS_MAX] = {0};
    zl_status status;
    ZL_TRY(zl_json_only(setup, keys, sizeof keys / sizeof keys[0], err));
    ZL_TRY(zl_json_string(zl_json_get(setup, "id"), &p->id, err));
    if (count_of_runs == 0 || count_of_runs > RUNS_MAX) {
        return zl_fail(err, ZL_E_INPUT, "%s must have 1 to %d runs", p->id, RUNS_MAX);
    }
    for (size_t i = 0; i < count_of_runs; i++) {
        ZL_TRY_GOTO(status, zv_field_ask(field, setup, zl_json_item(runs, i), &answers[i], err),
                    out);
    }
    status = put_answers(p, published, setup, answers, count_of_runs, err);
out:
    for (size_t i = 0; i < count_of_runs; i++) {
        zv_field_answer_clear(&answers[i]);
    }
    return status;
}

zl_status zv_field_page(FILE *out, const zv_field *field, zl_err *err)
{
    page p = {.out = out};
    fputs(page_head, out);
    for (size_t i = 0; i < zl_json_size(field->cases); i++) {
        ZL_TRY(put_case(&p, field, i, err));
    }
    fprintf(out, "\n%zu cases, %zu asserted, %zu differ\n", zl_json_size(field->cases), p.asserted,
            p.wrong);
    return p.wrong == 0 ? ZL_OK
                        : zl_fail(err, ZL_NO, "%zu answers leave their rounding, the first: %s",
                                  p.wrong, p.first);
}
