/* Why a phase is not N times smaller, and which option makes it smaller: every figure is predicted,
 * those behind an option by predicting the run again with the option changed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "zeroledger/bytes.h"

static void turn(zl_knob *knob, const char *option, uint64_t value)
{
    knob->option = option;
    snprintf(knob->value, sizeof knob->value, "%" PRIu64, value);
}

static bool half_batch(const zl_run *run, zl_knob *knob)
{
    if (run->micro_batch < 2) {
        return false;
    }
    turn(knob, "micro-batch", zl_ceil_div(run->micro_batch, 2));
    return true;
}

static bool lower_stage(const zl_run *run, uint64_t stage, zl_knob *knob)
{
    if (run->stage >= stage || run->ranks < 2) {
        return false;
    }
    turn(knob, "stage", stage);
    return true;
}

static bool one_fewer(uint64_t now, uint64_t least, const char *option, zl_knob *knob)
{
    if (now <= least) {
        return false;
    }
    turn(knob, option, least);
    return true;
}

static bool chunk_head(const zl_run *run, zl_knob *knob)
{
    const uint64_t rows = zl_mul(run->micro_batch, run->seq);
    const uint64_t chunk = run->head_chunk == 0 ? rows : zl_min(run->head_chunk, rows);
    const uint64_t less = zl_ceil_div(chunk, 8);
    if (less >= chunk) {
        return false;
    }
    turn(knob, "head-chunk", less);
    return true;
}

static bool flash(const zl_run *run, zl_knob *knob)
{
    *knob = (zl_knob){.option = "attention", .value = "flash"};
    return run->attention == ZL_ATTENTION_EAGER;
}

static bool recompute(const zl_run *run, zl_knob *knob)
{
    *knob = (zl_knob){.option = "recompute", .value = "full"};
    return run->recompute != ZL_RECOMPUTE_FULL;
}

/* The option that makes a buffer smaller; false: there is none. */
static bool knob_of(const zl_run *run, zl_buf buf, zl_knob *knob)
{
    const bool probs =
        buf == ZL_BUF_ACT_PROBS || buf == ZL_BUF_TEMP_PROBS || buf == ZL_BUF_TEMP_DPROBS;
    switch (zl_buf_kind(buf)) {
    case ZL_KIND_PARAM:
        return lower_stage(run, 3, knob);
    case ZL_KIND_PARAM_FULL:
        return buf == ZL_BUF_GATHER_BLOCK && one_fewer(run->window, 0, "window", knob);
    case ZL_KIND_MASTER:
    case ZL_KIND_OPT:
        return lower_stage(run, 1, knob);
    case ZL_KIND_GRAD:
        return lower_stage(run, 2, knob);
    case ZL_KIND_GRAD_FULL:
        return buf == ZL_BUF_GRAD_SLOT_BLOCK &&
               one_fewer(run->reduce_slots, 1, "reduce-slots", knob);
    case ZL_KIND_ACT:
        return (probs && flash(run, knob)) || recompute(run, knob) || half_batch(run, knob);
    case ZL_KIND_TEMP:
        return (probs && flash(run, knob)) || half_batch(run, knob);
    case ZL_KIND_LOGITS:
        return (buf == ZL_BUF_LOGITS_TOKENS && chunk_head(run, knob)) || half_batch(run, knob);
    case ZL_KIND_ACT_CKPT:
    case ZL_KIND_INPUT:
        return half_batch(run, knob);
    case ZL_KIND_COMM_GATHER:
    case ZL_KIND_COMM_REDUCE:
    case ZL_KIND_WORK:
    case ZL_KIND_CONST:
    case ZL_KIND_SLACK:
    case ZL_KIND_LIB:
    case ZL_KIND_COUNT:
        return false;
    }
    return false;
}

/* Predicts the phase's peak with the knob turned. A run that cannot be predicted so is no advice:
 * it leaves the peak as it was. */
static zl_status try_knob(const zl_ledger *ledger, const zl_shrink *s, zl_knob *knob, zl_err *err)
{
    zl_run run = ledger->run;
    zl_ledger *other = NULL;
    knob->peak = s->peak;
    if (zl_run_set(&run, knob->option, knob->value, NULL) != ZL_OK ||
        zl_run_check(&run, NULL) != ZL_OK) {
        return ZL_OK;
    }
    const zl_status status = zl_predicted(&run, ledger->rank, &other, NULL);
    if (status == ZL_E_RESOURCE) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    if (status == ZL_OK) {
        const zl_cell *cell = zl_ledger_at(other, s->visit, s->phase);
        knob->peak = cell->present ? cell->peak[ZL_GRANTED] : s->peak;
    }
    zl_ledger_free(other);
    return ZL_OK;
}

enum { KNOBS_TRIED = 16 };

static bool known(const zl_knob *knobs, size_t count, const zl_knob *knob)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(knobs[i].option, knob->option) == 0) {
            return true;
        }
    }
    return false;
}

static int by_peak(const void *a, const void *b)
{
    const zl_knob *x = a;
    const zl_knob *y = b;
    return x->peak != y->peak ? (x->peak > y->peak ? 1 : -1) : strcmp(x->option, y->option);
}

/* Knobs of the terms that do not shard; those that lower the peak are kept, the best first. */
static zl_status find_knobs(const zl_ledger *ledger, const zl_terms *terms, zl_shrink *s,
                            zl_err *err)
{
    zl_share all[ZL_BUF_COUNT];
    const size_t count = zl_terms_largest(terms, ledger->run.ranks == 1, all, ZL_BUF_COUNT);
    zl_knob tried[KNOBS_TRIED];
    size_t n = 0;
    for (size_t i = 0; i < count && n < KNOBS_TRIED; i++) {
        zl_knob knob = {0};
        if (knob_of(&ledger->run, all[i].buffer, &knob) && !known(tried, n, &knob)) {
            ZL_TRY(try_knob(ledger, s, &knob, err));
            tried[n++] = knob;
        }
    }
    qsort(tried, n, sizeof tried[0], by_peak);
    while (s->knobs < n && s->knobs < ZL_KNOBS_MAX && tried[s->knobs].peak < s->peak) {
        s->knob[s->knobs] = tried[s->knobs];
        s->knobs++;
    }
    return ZL_OK;
}

static zl_status shrink(const zl_ledger *ledger, const zl_ledger *whole, zl_shrink *s, zl_err *err)
{
    const zl_cell *cell = zl_ledger_at(ledger, s->visit, s->phase);
    const zl_cell *other = zl_ledger_at(whole, s->visit, s->phase);
    zl_visit visit = s->visit;
    if (!other->present && zl_largest_visit(whole, s->phase, &visit)) {
        other = zl_ledger_at(whole, visit, s->phase);
    }
    s->paired = other->present;
    s->whole_peak = other->peak[ZL_GRANTED];
    s->peak = cell->peak[ZL_GRANTED];
    s->whole_end = zl_cell_end(other, ZL_GRANTED);
    s->end = zl_cell_end(cell, ZL_GRANTED);
    zl_terms terms;
    ZL_TRY(zl_terms_get(ledger, s->visit, s->phase, false, &terms, err));
    const bool alone = ledger->run.ranks == 1;
    for (size_t i = 0; i < terms.count; i++) {
        const bool whole_here = alone || !terms.term[i].shards;
        s->unsharded = zl_add(s->unsharded, whole_here ? terms.term[i].bytes : 0);
    }
    s->shares = zl_terms_largest(&terms, alone, s->share, ZL_SHARES_SHOWN);
    return find_knobs(ledger, &terms, s, err);
}

zl_status zl_shrinks_get(const zl_ledger *ledger, zl_shrinks *out, zl_err *err)
{
    zl_run run = ledger->run;
    zl_ledger *whole = NULL;
    zl_status status = ZL_OK;
    *out = (zl_shrinks){0};
    run.ranks = 1;
    run.stage = 0;
    ZL_TRY(zl_run_check(&run, err));
    ZL_TRY(zl_predicted(&run, 0, &whole, err));
    for (int p = 0; p < ZL_PHASE_COUNT && status == ZL_OK; p++) {
        zl_shrink *s = &out->at[out->count];
        s->phase = (zl_phase)p;
        if (zl_largest_visit(ledger, s->phase, &s->visit)) {
            status = shrink(ledger, whole, s, err);
            out->count++;
        }
    }
    zl_ledger_free(whole);
    return status;
}

static zl_status print_factors(zl_page *page, const zl_shrinks *all, zl_err *err)
{
    static const char *const titles[] = {"phase",       "peak, 1 rank", "peak, here", "smaller",
                                         "end, 1 rank", "end, here",    "smaller"};
    zl_table *table = zl_table_new();
    for (size_t c = 0; c < sizeof titles / sizeof titles[0]; c++) {
        zl_table_column(table, titles[c], c == 0 ? ZL_LEFT : ZL_RIGHT);
    }
    for (size_t i = 0; i < all->count; i++) {
        const zl_shrink *s = &all->at[i];
        const uint64_t bytes[][2] = {{s->whole_peak, s->peak}, {s->whole_end, s->end}};
        zl_table_text(table, "%s", zl_cell_label(s->visit, s->phase).text);
        for (size_t k = 0; k < 2; k++) {
            zl_table_text(table, "%s", s->paired ? zl_bytes_in(page->view, bytes[k][0]).text : "-");
            zl_table_text(table, "%s", zl_bytes_in(page->view, bytes[k][1]).text);
            zl_table_text(table, "%s", s->paired ? zl_ratio(bytes[k][0], bytes[k][1]).text : "-");
        }
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

static void say_phase(zl_page *page, const zl_shrink *s, bool sharded)
{
    char shares[256];
    char knobs[256] = "no option lowers this peak";
    size_t used = 0;
    zl_shares_text(page->view, s->share, s->shares, shares, sizeof shares);
    for (size_t i = 0; i < s->knobs && used < sizeof knobs; i++) {
        const int more = snprintf(knobs + used, sizeof knobs - used, "%s--%s %s lowers it to %s",
                                  i == 0 ? "" : ", ", s->knob[i].option, s->knob[i].value,
                                  zl_bytes_in(page->view, s->knob[i].peak).text);
        used += more > 0 ? (size_t)more : 0;
    }
    if (sharded) {
        zl_page_say(page, "%s: of %s %s does not become 1/N, most of it %s; %s.",
                    zl_cell_label(s->visit, s->phase).text,
                    zl_bytes_named(page->view, s->peak).text,
                    zl_bytes_in(page->view, s->unsharded).text, shares, knobs);
    } else {
        zl_page_say(page, "%s: of %s most is %s; %s.", zl_cell_label(s->visit, s->phase).text,
                    zl_bytes_named(page->view, s->peak).text, shares, knobs);
    }
}

zl_status zl_shrinks_print(zl_page *page, const zl_run *run, const zl_shrinks *all, zl_err *err)
{
    const bool sharded = run->ranks > 1;
    if (sharded) {
        zl_page_say(page,
                    "Why not %s times smaller? Granted %s of the same run on 1 rank at stage "
                    "0, and here.",
                    zl_count(run->ranks).text, zl_byte_unit_name(page->view->unit));
        zl_page_say(page, "Forward ends \"before backward\", reduce ends \"before step\"; the last "
                          "end is \"before forward\".");
    } else {
        zl_page_say(page, "One rank holds everything whole. What makes each phase smaller, one "
                          "option at a time:");
    }
    zl_page_break(page);
    if (sharded) {
        ZL_TRY(print_factors(page, all, err));
        zl_page_break(page);
        zl_page_say(page, "What does not shard, and what lowers the peak, one option at a time:");
        zl_page_break(page);
    }
    for (size_t i = 0; i < all->count; i++) {
        say_phase(page, &all->at[i], sharded);
    }
    return ZL_OK;
}

void zl_shrinks_json(const zl_shrinks *all, zl_json_writer *w)
{
    zl_json_begin_array(w, "phases");
    for (size_t i = 0; i < all->count; i++) {
        const zl_shrink *s = &all->at[i];
        zl_json_begin_object(w, NULL);
        zl_json_put_string(w, "visit", zl_visit_name(s->visit));
        zl_json_put_string(w, "phase", zl_phase_name(s->phase));
        zl_json_put_u64(w, "peak", s->peak);
        zl_json_put_u64(w, "end", s->end);
        if (s->paired) {
            zl_json_put_u64(w, "one_rank_peak", s->whole_peak);
            zl_json_put_u64(w, "one_rank_end", s->whole_end);
        }
        zl_json_put_u64(w, "unsharded", s->unsharded);
        zl_json_begin_array(w, "largest");
        for (size_t k = 0; k < s->shares; k++) {
            zl_json_begin_object(w, NULL);
            zl_json_put_string(w, "buffer", zl_buf_name(s->share[k].buffer));
            zl_json_put_u64(w, "bytes", s->share[k].bytes);
            zl_json_end(w);
        }
        zl_json_end(w);
        zl_json_begin_array(w, "options");
        for (size_t k = 0; k < s->knobs; k++) {
            zl_json_begin_object(w, NULL);
            zl_json_put_string(w, "option", s->knob[k].option);
            zl_json_put_string(w, "value", s->knob[k].value);
            zl_json_put_u64(w, "peak", s->knob[k].peak);
            zl_json_end(w);
        }
        zl_json_end(w);
        zl_json_end(w);
    }
    zl_json_end(w);
}
