#include "explain_framework.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"

static const char *const spans[ZL_SPANS] = {"init", "forward", "backward", "step"};
static const char *const ends[ZL_SPANS] = {"init", "after_forward", "after_backward", "after_step"};

typedef struct answer {
    zl_walked w;
    zl_moments moments;
    zl_moments twice; /* the same on twice the ranks; empty where that cannot be */
    zl_moments whole; /* the same on one rank at stage 0, which shards nothing; or empty */
    bool cold;
    bool end; /* what is there at the marks, not the peaks before them */
    bool shown[ZL_SPANS];
    zl_turn turn[ZL_TURNS_MAX];
    size_t turns;
} answer;

const char *zl_span_name(zl_span span)
{
    return spans[span];
}

/* "after_forward" and, of several micro-steps, "after_forward_0"; not "after_forwards". */
static bool ends_span(const zl_mark *mark, zl_span span)
{
    const size_t length = strlen(ends[span]);
    return strncmp(mark->at, ends[span], length) == 0 &&
           (mark->at[length] == '\0' || mark->at[length] == '_');
}

const zl_moment *zl_span_moment(const zl_moments *moments, zl_span span, bool cold, uint32_t steps)
{
    const int32_t step = span == ZL_SPAN_INIT ? -1 : cold ? 0 : (int32_t)steps - 1;
    const zl_moment *most = NULL;
    for (size_t i = 0; i < moments->count; i++) {
        const zl_moment *m = &moments->moment[i];
        if (m->mark.step == step && ends_span(&m->mark, span) &&
            (most == NULL || m->mark.peak_requested > most->mark.peak_requested)) {
            most = m;
        }
    }
    return most;
}

static const zl_moment *moment_of(const answer *a, zl_span span)
{
    return zl_span_moment(&a->moments, span, a->cold, a->w.torch.steps);
}

/* What activations move is unknown where they are. */
static zl_depends unknown_of(const answer *a, const zl_mark *mark)
{
    return a->w.torch.states_only ? zl_mark_depends(mark) : (zl_depends){.requested = false};
}

/* The end is shown where it is asked for, or where the peak is unknown. */
static bool at_end(const answer *a, const zl_moment *m)
{
    return a->end || unknown_of(a, &m->mark).peak_requested;
}

static const zl_alive *alive_of(const answer *a, const zl_moment *m)
{
    return at_end(a, m) ? &m->here : &m->peak;
}

static uint64_t total_of(const answer *a, const zl_moment *m)
{
    return at_end(a, m) ? m->mark.requested : m->mark.peak_requested;
}

/* The same term of the same phase on twice the ranks. */
static uint64_t on_twice(const answer *a, zl_span span, const char *name)
{
    const zl_moment *m = zl_span_moment(&a->twice, span, a->cold, a->w.torch.steps);
    const zl_alive *alive = m != NULL ? alive_of(a, m) : NULL;
    for (size_t i = 0; alive != NULL && i < alive->count; i++) {
        if (strcmp(alive->term[i].name, name) == 0) {
            return alive->term[i].bytes;
        }
    }
    return 0;
}

/* ---- the page ---- */

/* Requested and, what programs print, allocated bytes around a phase; and what one rank holds. */
static zl_status print_summary(zl_page *page, const answer *a, zl_err *err)
{
    static const char *const titles[] = {"phase", "before",       "peak",
                                         "after", "allocated",    "peak_allocated",
                                         "after", "peak, 1 rank", "smaller"};
    const size_t columns = sizeof titles / sizeof titles[0] - (a->whole.count > 0 ? 0 : 2);
    zl_table *table = zl_table_new();
    for (size_t c = 0; c < columns; c++) {
        zl_table_column(table, titles[c], c == 0 ? ZL_LEFT : ZL_RIGHT);
    }
    for (int s = 0; s < ZL_SPANS; s++) {
        const zl_moment *m = moment_of(a, (zl_span)s);
        if (m == NULL) {
            continue;
        }
        const zl_mark none = {.step = -1};
        const zl_mark *before = m == a->moments.moment ? &none : &m[-1].mark;
        const uint64_t bytes[] = {before->requested, m->mark.peak_requested, m->mark.requested,
                                  before->allocated, m->mark.peak_allocated, m->mark.allocated};
        const zl_depends no_start = unknown_of(a, before);
        const zl_depends no_end = unknown_of(a, &m->mark);
        const bool unknown[] = {no_start.requested, no_end.peak_requested, no_end.requested,
                                no_start.others,    no_end.others,         no_end.others};
        zl_table_text(table, "%s", spans[s]);
        for (size_t c = 0; c < sizeof bytes / sizeof bytes[0]; c++) {
            zl_table_text(table, "%s",
                          unknown[c] ? "not modelled" : zl_bytes_in(page->view, bytes[c]).text);
        }
        const zl_moment *one = zl_span_moment(&a->whole, (zl_span)s, a->cold, a->w.torch.steps);
        if (a->whole.count > 0) {
            const uint64_t peak = one != NULL ? one->mark.peak_requested : 0;
            const bool known = !no_end.peak_requested;
            zl_table_text(table, "%s", known ? zl_bytes_in(page->view, peak).text : "not modelled");
            zl_table_text(table, "%s", known ? zl_ratio(peak, m->mark.peak_requested).text : "");
        }
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

static zl_table *terms_new(const answer *a, bool bars)
{
    zl_table *table = zl_table_new();
    zl_table_column(table, "term", ZL_LEFT);
    zl_table_column(table, "bytes", ZL_RIGHT);
    zl_table_column(table, "share", ZL_RIGHT);
    if (a->twice.count > 0) {
        zl_table_column(table, "on 2 N ranks", ZL_RIGHT);
    }
    if (bars) {
        zl_table_column(table, "bytes", ZL_BAR);
    }
    zl_table_column(table, "formula", ZL_LEFT);
    zl_table_column(table, "numbers", ZL_LEFT);
    return table;
}

static zl_status print_terms(zl_page *page, const answer *a, zl_span span, const zl_moment *m,
                             zl_err *err)
{
    const zl_alive *alive = alive_of(a, m);
    zl_table *table = terms_new(a, page->view->bars);
    for (size_t i = 0; i < alive->count; i++) {
        const zl_named_bytes *term = &alive->term[i];
        const zl_formula f = zl_term_formula(&a->w.torch, &a->moments, term);
        zl_table_text(table, "%s", term->name);
        zl_table_text(table, "%s", zl_bytes_in(page->view, term->bytes).text);
        zl_table_text(table, "%s", zl_percent(term->bytes, total_of(a, m)).text);
        if (a->twice.count > 0) {
            const uint64_t there = on_twice(a, span, term->name);
            zl_table_text(table, "%s", there > 0 ? zl_bytes_in(page->view, there).text : "-");
        }
        if (page->view->bars) {
            zl_table_count(table, term->bytes);
        }
        zl_table_text(table, "%s", f.symbols);
        zl_table_text(table, "%s", f.numbers);
    }
    zl_page_break(page);
    zl_page_say(page, "%s%s: %s requested %s, the sum of", spans[span],
                a->cold && span != ZL_SPAN_INIT ? " (cold)" : "",
                zl_bytes_exact(page->view, total_of(a, m)).text,
                at_end(a, m) ? "when it ends" : "at its peak");
    zl_page_break(page);
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

static void say_turns(zl_page *page, const answer *a, zl_span span, const zl_moment *m)
{
    size_t said = 0;
    for (size_t i = 0; i < a->turns; i++) {
        const zl_turn *turn = &a->turn[i];
        const zl_figure here = zl_bytes_in(page->view, m->mark.peak_requested);
        const zl_figure there = zl_bytes_in(page->view, turn->peak[span]);
        if (turn->peak[span] < m->mark.peak_requested && strcmp(here.text, there.text) != 0) {
            if (said++ == 0) {
                zl_page_break(page);
                zl_page_say(page, "What lowers this peak, one setting at a time, predicted again:");
            }
            zl_page_say(page, "  %s %s: %s", turn->option, turn->value,
                        zl_bytes_named(page->view, turn->peak[span]).text);
        }
    }
}

static zl_status fill_page(zl_page *page, const answer *a, zl_err *err)
{
    zl_walked_head(page, &a->w);
    zl_page_break(page);
    zl_page_say(page,
                "%s of one rank in %s, before a phase, at its peak and after it: as requested,",
                zl_byte_unit_name(page->view->unit), a->cold ? "the first step" : "a steady step");
    zl_page_say(page, "then as allocated, which is what programs print. Forward ends \"before");
    zl_page_say(page, "backward\", backward ends \"before optimizer\".%s",
                a->whole.count > 0 ? " On 1 rank nothing is sharded." : "");
    zl_page_break(page);
    ZL_TRY(print_summary(page, a, err));
    for (int s = 0; s < ZL_SPANS; s++) {
        const zl_moment *m = a->shown[s] ? moment_of(a, (zl_span)s) : NULL;
        if (m != NULL && unknown_of(a, &m->mark).requested) {
            zl_page_break(page);
            zl_page_say(page, "%s: not modelled, activations are not", spans[s]);
        } else if (m != NULL) {
            ZL_TRY(print_terms(page, a, (zl_span)s, m, err));
            if (!a->end) {
                say_turns(page, a, (zl_span)s, m);
            }
        }
    }
    zl_page_break(page);
    const char *line = NULL;
    for (size_t i = 0; (line = zl_formula_legend(i)) != NULL; i++) {
        zl_page_say(page, "%s", line);
    }
    return ZL_OK;
}

/* Files say only what was asked for. */
static bool is_said(const answer *a, const zl_moment *m)
{
    const zl_depends unknown = unknown_of(a, &m->mark);
    return a->end ? !unknown.requested : !unknown.peak_requested;
}

static zl_status print_csv(zl_page *page, const answer *a, zl_err *err)
{
    static const char *const titles[] = {"phase", "term", "bytes", "formula", "numbers"};
    zl_table *table = zl_table_new();
    for (size_t c = 0; c < sizeof titles / sizeof titles[0]; c++) {
        zl_table_column(table, titles[c], c == 2 ? ZL_RIGHT : ZL_LEFT);
    }
    for (int s = 0; s < ZL_SPANS; s++) {
        const zl_moment *m = a->shown[s] ? moment_of(a, (zl_span)s) : NULL;
        const zl_alive *alive = m != NULL && is_said(a, m) ? alive_of(a, m) : NULL;
        for (size_t i = 0; alive != NULL && i < alive->count; i++) {
            const zl_formula f = zl_term_formula(&a->w.torch, &a->moments, &alive->term[i]);
            zl_table_text(table, "%s", spans[s]);
            zl_table_text(table, "%s", alive->term[i].name);
            zl_table_count(table, alive->term[i].bytes);
            zl_table_text(table, "%s", f.symbols);
            zl_table_text(table, "%s", f.numbers);
        }
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

static zl_status print_page(const zl_args *args, const answer *a, zl_err *err)
{
    zl_page page;
    ZL_TRY(zl_page_open(&page, &args->view, err));
    return zl_page_end(&page,
                       args->view.format == ZL_FORMAT_CSV ? print_csv(&page, a, err)
                                                          : fill_page(&page, a, err),
                       err);
}

/* ---- json ---- */

static void json_terms(const answer *a, zl_span span, const zl_moment *m, zl_json_writer *j)
{
    const zl_alive *alive = alive_of(a, m);
    zl_json_begin_array(j, "terms");
    for (size_t i = 0; i < alive->count && is_said(a, m); i++) {
        const zl_formula f = zl_term_formula(&a->w.torch, &a->moments, &alive->term[i]);
        zl_json_begin_object(j, NULL);
        zl_json_put_string(j, "name", alive->term[i].name);
        zl_json_put_u64(j, "bytes", alive->term[i].bytes);
        if (a->twice.count > 0) {
            zl_json_put_u64(j, "on_twice_the_ranks", on_twice(a, span, alive->term[i].name));
        }
        zl_json_put_string(j, "formula", f.symbols);
        zl_json_put_string(j, "numbers", f.numbers);
        zl_json_end(j);
    }
    zl_json_end(j);
}

static void json_figures(const answer *a, const zl_moment *m, zl_json_writer *j)
{
    const zl_depends unknown = unknown_of(a, &m->mark);
    if (!unknown.requested) {
        zl_json_put_u64(j, "requested", m->mark.requested);
    }
    if (!unknown.peak_requested) {
        zl_json_put_u64(j, "peak_requested", m->mark.peak_requested);
    }
    if (!unknown.others) {
        zl_json_put_u64(j, "allocated", m->mark.allocated);
        zl_json_put_u64(j, "peak_allocated", m->mark.peak_allocated);
        zl_json_put_u64(j, "reserved", m->mark.reserved);
        zl_json_put_u64(j, "peak_reserved", m->mark.peak_reserved);
    }
}

static void json_phase(const answer *a, zl_span span, const zl_moment *m, zl_json_writer *j)
{
    zl_json_begin_object(j, NULL);
    zl_json_put_string(j, "phase", spans[span]);
    json_figures(a, m, j);
    const zl_moment *one = zl_span_moment(&a->whole, span, a->cold, a->w.torch.steps);
    if (one != NULL && !unknown_of(a, &m->mark).peak_requested) {
        zl_json_put_u64(j, "one_rank_peak_requested", one->mark.peak_requested);
    }
    json_terms(a, span, m, j);
    zl_json_begin_array(j, "options");
    for (size_t i = 0; i < a->turns; i++) {
        if (a->turn[i].peak[span] < m->mark.peak_requested) {
            zl_json_begin_object(j, NULL);
            zl_json_put_string(j, "option", a->turn[i].option);
            zl_json_put_string(j, "value", a->turn[i].value);
            zl_json_put_u64(j, "peak", a->turn[i].peak[span]);
            zl_json_end(j);
        }
    }
    zl_json_end(j);
    zl_json_end(j);
}

static zl_status print_json(const zl_args *args, const answer *a, zl_err *err)
{
    zl_json_writer *j = zl_json_writer_new();
    zl_json_begin_object(j, NULL);
    zl_json_put_string(j, "schema", "zeroledger.moments/1");
    zl_walked_json(&a->w, j);
    zl_json_put_string(j, "visit", a->cold ? "cold" : "steady");
    zl_json_put_string(j, "at", a->end ? "end" : "peak");
    zl_json_begin_array(j, "phases");
    for (int s = 0; s < ZL_SPANS; s++) {
        const zl_moment *m = a->shown[s] ? moment_of(a, (zl_span)s) : NULL;
        if (m != NULL) {
            json_phase(a, (zl_span)s, m, j);
        }
    }
    zl_json_end(j);
    zl_json_end(j);
    const zl_status status = zl_json_writer_save(j, args->view.out, err);
    zl_json_writer_free(j);
    return status;
}

/* ---- the question ---- */

static zl_status take_question(const zl_args *args, answer *a, zl_err *err)
{
    const char *phase = zl_args_value(args, "phase");
    const char *visit = zl_args_value(args, "visit");
    const char *at = zl_args_value(args, "at");
    bool known = phase == NULL;
    for (int s = 0; s < ZL_SPANS; s++) {
        const bool named = phase != NULL && strcmp(spans[s], phase) == 0;
        a->shown[s] = named || (phase == NULL && s != ZL_SPAN_INIT);
        known |= named;
    }
    if (!known) {
        return zl_fail(err, ZL_E_USAGE,
                       "phase must be one of init, forward, backward, step for %s, got %s",
                       zl_framework_name(a->w.run.framework), phase);
    }
    a->cold = visit != NULL && strncmp(visit, "cold", 4) == 0;
    a->end = at != NULL && strcmp(at, "end") == 0;
    return ZL_OK;
}

/* What cannot be predicted so is left empty: it is no answer, but no failure either. */
static void explain_other(const zl_torch_run *run, uint64_t rank, zl_moments *out)
{
    if (zl_torch_explain(run, rank, out, NULL) != ZL_OK) {
        *out = (zl_moments){0};
    }
}

static zl_status fill(const zl_args *args, answer *a, zl_err *err)
{
    const zl_torch_run *run = &a->w.torch;
    ZL_TRY(take_question(args, a, err));
    ZL_TRY(zl_torch_explain(run, a->w.rank, &a->moments, err));
    if (run->ranks > 1) {
        zl_torch_run other = *run;
        other.ranks = zl_mul(2, run->ranks);
        explain_other(&other, a->w.rank, &a->twice);
        other = *run;
        other.ranks = 1;
        if (run->framework == ZL_TORCH_DEEPSPEED) {
            other.stage = 0;
            other.ds.stage = 0;
        }
        explain_other(&other, 0, &a->whole);
    }
    return run->states_only /* what would lower a peak is no more known than the peak */
               ? ZL_OK
               : zl_turns_find(&a->w, &a->moments, a->cold, a->turn, &a->turns, err);
}

zl_status zl_explain_framework(const zl_args *args, zl_run *run, zl_err *err)
{
    answer *a = calloc(1, sizeof *a);
    if (a == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    zl_status status = zl_walked_states(args, run, &a->w, err);
    if (status == ZL_OK && a->w.marks.count == 0) {
        status = zl_walked_verdict(&a->w, err);
    }
    if (status == ZL_OK) {
        status = fill(args, a, err);
    }
    if (status == ZL_OK) {
        status = args->view.format == ZL_FORMAT_JSON ? print_json(args, a, err)
                                                     : print_page(args, a, err);
    }
    if (status == ZL_OK) {
        status = zl_walked_verdict(&a->w, err);
    }
    zl_moments_clear(&a->twice);
    zl_moments_clear(&a->whole);
    zl_moments_clear(&a->moments);
    zl_marks_clear(&a->w.marks);
    free(a);
    return status;
}
