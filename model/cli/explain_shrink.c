/* Why a phase is not N times smaller, and which option makes it smaller: every figure is predicted,
 * those behind an option by predicting the run again with the option changed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "knobs.h"
#include "zeroledger/bytes.h"

enum { TRIED_MAX = 32 };

/* Every knob, turned by itself, and what is predicted of the run then. */
typedef struct tried {
    zl_change change;
    zl_ledger *ledger;
} tried;

typedef struct all_tried {
    tried at[TRIED_MAX];
    size_t count;
} all_tried;

static void all_tried_clear(all_tried *all)
{
    for (size_t i = 0; i < all->count; i++) {
        zl_ledger_free(all->at[i].ledger);
    }
}

/* What cannot be predicted is no advice. More ranks are not: they are what is asked about. */
static zl_status try_all(const zl_ledger *ledger, all_tried *all, zl_err *err)
{
    const zl_knob *knob = NULL;
    for (size_t i = 0; (knob = zl_knob_at(i)) != NULL; i++) {
        zl_turned turned;
        const unsigned levels = knob->price == ZL_PRICE_RANKS ? 0 : knob->alone;
        for (unsigned level = 0; level < levels && all->count < TRIED_MAX &&
                                 zl_knob_turn(knob, level, &ledger->run, NULL, &turned);
             level++) {
            tried *t = &all->at[all->count];
            const zl_status status = turned.possible
                                         ? zl_predicted(&turned.run, ledger->rank, &t->ledger, NULL)
                                         : ZL_E_USAGE;
            if (status == ZL_E_RESOURCE) {
                return zl_fail(err, ZL_E_RESOURCE, "out of memory");
            }
            t->change = turned.change;
            all->count += status == ZL_OK;
        }
    }
    return ZL_OK;
}

static int by_peak(const void *a, const void *b)
{
    const zl_lowered *x = a;
    const zl_lowered *y = b;
    return x->peak != y->peak ? (x->peak > y->peak ? 1 : -1) : strcmp(x->knob, y->knob);
}

/* Of every knob the level with the smallest peak, the mildest of equals; the best knobs first. */
static void find_lower(const all_tried *all, zl_shrink *s)
{
    zl_lowered found[TRIED_MAX];
    size_t n = 0;
    for (size_t i = 0; i < all->count; i++) {
        const tried *t = &all->at[i];
        zl_visit visit = s->visit;
        if (!zl_largest_visit(t->ledger, s->phase, &visit)) {
            continue;
        }
        const uint64_t peak = zl_ledger_at(t->ledger, visit, s->phase)->peak[ZL_GRANTED];
        const bool again = n > 0 && strcmp(found[n - 1].knob, t->change.knob->name) == 0;
        if (peak >= s->peak || (again && peak >= found[n - 1].peak)) {
            continue;
        }
        zl_lowered *lower = &found[again ? n - 1 : n++];
        *lower = (zl_lowered){.knob = t->change.knob->name, .peak = peak};
        memcpy(lower->value, t->change.value, sizeof lower->value);
    }
    qsort(found, n, sizeof found[0], by_peak);
    s->lowers = n < ZL_LOWERED_SHOWN ? n : ZL_LOWERED_SHOWN;
    memcpy(s->lower, found, s->lowers * sizeof found[0]);
}

static zl_status shrink(const zl_ledger *ledger, const zl_ledger *whole, const all_tried *all,
                        zl_shrink *s, zl_err *err)
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
    find_lower(all, s);
    return ZL_OK;
}

zl_status zl_shrinks_get(const zl_ledger *ledger, zl_shrinks *out, zl_err *err)
{
    zl_run run = ledger->run;
    zl_ledger *whole = NULL;
    all_tried all = {.count = 0};
    *out = (zl_shrinks){0};
    run.ranks = 1;
    run.stage = 0;
    ZL_TRY(zl_run_check(&run, err));
    ZL_TRY(zl_predicted(&run, 0, &whole, err));
    zl_status status = try_all(ledger, &all, err);
    for (int p = 0; p < ZL_PHASE_COUNT && status == ZL_OK; p++) {
        zl_shrink *s = &out->at[out->count];
        s->phase = (zl_phase)p;
        if (zl_largest_visit(ledger, s->phase, &s->visit)) {
            status = shrink(ledger, whole, &all, s, err);
            out->count++;
        }
    }
    all_tried_clear(&all);
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
    for (size_t i = 0; i < s->lowers && used < sizeof knobs; i++) {
        const int more = snprintf(knobs + used, sizeof knobs - used, "%s%s %s lowers it to %s",
                                  i == 0 ? "" : ", ", s->lower[i].knob, s->lower[i].value,
                                  zl_bytes_in(page->view, s->lower[i].peak).text);
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
        for (size_t k = 0; k < s->lowers; k++) {
            zl_json_begin_object(w, NULL);
            zl_json_put_string(w, "option", s->lower[k].knob + 2); /* without "--" */
            zl_json_put_string(w, "value", s->lower[k].value);
            zl_json_put_u64(w, "peak", s->lower[k].peak);
            zl_json_end(w);
        }
        zl_json_end(w);
        zl_json_end(w);
    }
    zl_json_end(w);
}
