#include "zeroledger/predict.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile.h"
#include "zeroledger/bytes.h"

/* Spreads the rows of a block over its instants. */
static void bag_block(zl_plan *plan, const zl_tape *tape)
{
    plan->next_born = tape->next_born;
    for (size_t i = 0; i < tape->count; i++) {
        const zl_row *row = &tape->row[i];
        /* From the block's end on a kept row is counted with the other blocks' kept rows. */
        const uint32_t own =
            row->kept ? row->live & ((UINT32_C(1) << ZL_AT_FWD_DONE) - 1) : row->live;
        for (uint32_t left = own; left != 0; left &= left - 1) {
            zl_put(&plan->book, &plan->at[__builtin_ctz(left)], row->entry);
        }
        if (row->kept) {
            zl_put(&plan->book, &plan->kept, row->entry);
        }
    }
}

/* Of instants first .. last-1 all are covered but the largest. */
static uint32_t cover(const zl_plan *plan, int first, int last)
{
    int largest = first;
    for (int i = first + 1; i < last; i++) {
        if (plan->at[i].total[ZL_GRANTED] > plan->at[largest].total[ZL_GRANTED]) {
            largest = i;
        }
    }
    const uint32_t all = (UINT32_C(1) << last) - (UINT32_C(1) << first);
    return all & ~(UINT32_C(1) << largest);
}

/* Instants that can be passed over where only the granted peak is wanted: of those of one pass with
 * the same residuals, only the largest can hold it. */
static void find_covered(zl_plan *plan)
{
    const int next = (int)plan->next_born;
    plan->covered = cover(plan, ZL_AT_FWD_QKV, next) | cover(plan, next, ZL_AT_FWD_DONE) |
                    cover(plan, ZL_AT_REDO_ATTN, ZL_AT_BWD_DONE);
}

static void bag_embed_and_head(zl_plan *plan, const zl_family_def *family)
{
    zl_tape tape;
    tape.book = &plan->book;
    tape.count = 0;
    family->embed(plan->run, &tape);
    for (size_t i = 0; i < tape.count; i++) {
        const uint8_t entry = tape.row[i].entry;
        const bool input = zl_buf_kind(plan->book.entry[entry].buffer) == ZL_KIND_INPUT;
        zl_put(&plan->book, input ? &plan->input : &plan->embed, entry);
    }
    tape.count = 0;
    family->head(plan->run, &tape);
    for (size_t i = 0; i < tape.count; i++) {
        for (int k = 0; k < 4; k++) {
            if ((tape.row[i].live >> k & 1) != 0) {
                zl_put(&plan->book, &plan->head[k], tape.row[i].entry);
            }
        }
    }
}

/* Eval keeps a block's buffers to its end and drops nothing out: the forward of full recompute. */
static void bag_eval(zl_plan *plan, const zl_family_def *family)
{
    zl_tape tape;
    tape.book = &plan->book;
    tape.recompute = ZL_RECOMPUTE_FULL;
    tape.dropout = false;
    tape.count = 0;
    family->block(plan->run, &tape);
    for (size_t i = 0; i < tape.count; i++) {
        for (int at = ZL_AT_FWD_QKV; at < ZL_AT_FWD_DONE; at++) {
            if ((tape.row[i].live >> at & 1) != 0) {
                zl_put(&plan->book, &plan->eval_at[at], tape.row[i].entry);
            }
        }
    }
}

static zl_status plan_init(const zl_run *run, zl_plan *plan, zl_err *err)
{
    const zl_profile *profile = zl_profile_get(run->framework);
    if (profile == NULL) {
        return zl_fail(err, ZL_E_UNMODELLED, "framework %s is not modelled",
                       zl_framework_name(run->framework));
    }
    const zl_family_def *family = zl_family_get(run->model.family);
    memset(plan, 0, offsetof(zl_plan, book));
    plan->book.count = 0;
    plan->book.bags = 0;
    plan->run = run;
    zl_dims_run(run, &plan->dims);
    plan->book.dims = &plan->dims;
    plan->book.granule = profile->granule;
    zl_tape tape;
    tape.book = &plan->book;
    tape.recompute = run->recompute;
    tape.dropout = run->dropout > 0;
    tape.count = 0;
    family->block(run, &tape);
    bag_block(plan, &tape);
    find_covered(plan);
    bag_embed_and_head(plan, family);
    if (run->eval) {
        bag_eval(plan, family);
    }
    profile->plan(plan);
    return ZL_OK;
}

zl_status zl_predict(const zl_run *run, uint64_t rank, zl_ledger *out, zl_err *err)
{
    if (rank >= run->ranks) {
        return zl_fail(err, ZL_E_USAGE, "rank must be below ranks (%" PRIu64 "), got %" PRIu64,
                       run->ranks, rank);
    }
    zl_plan plan;
    ZL_TRY(plan_init(run, &plan, err));
    const zl_profile *profile = zl_profile_get(run->framework);
    memset(out, 0, sizeof *out);
    out->origin = ZL_ORIGIN_PREDICTED;
    out->run = *run;
    out->rank = rank;
    out->granule = profile->granule;
    zl_account acc;
    for (int v = 0; v < ZL_VISIT_COUNT; v++) {
        for (int p = 0; p < ZL_PHASE_COUNT; p++) {
            if (profile->occurs(run, (zl_visit)v, (zl_phase)p)) {
                zl_account_open(&acc, &plan.book, &out->cell[v][p]);
                profile->account(&plan, (zl_visit)v, (zl_phase)p, &acc);
            }
        }
    }
    return zl_ledger_check(out, err);
}

/* Largest granted peak of a plan. A cold visit has what its steady twin has, but for optimizer
 * state.
 */
static uint64_t peak_of(const zl_plan *plan, zl_visit *visit, zl_phase *phase)
{
    const zl_profile *profile = zl_profile_get(plan->run->framework);
    uint64_t largest = 0;
    zl_account acc;
    for (int v = 0; v < ZL_VISIT_COUNT; v++) {
        for (int p = 0; p < ZL_PHASE_COUNT; p++) {
            const bool twin = zl_visit_is_cold((zl_visit)v) && p != ZL_PHASE_INIT;
            if (twin || !profile->occurs(plan->run, (zl_visit)v, (zl_phase)p)) {
                continue;
            }
            zl_account_open(&acc, &plan->book, NULL);
            profile->account(plan, (zl_visit)v, (zl_phase)p, &acc);
            if (acc.peak[ZL_GRANTED] <= largest) {
                continue;
            }
            largest = acc.peak[ZL_GRANTED];
            if (visit != NULL) {
                *visit = (zl_visit)v;
            }
            if (phase != NULL) {
                *phase = (zl_phase)p;
            }
        }
    }
    return largest;
}

zl_status zl_predict_peak(const zl_run *run, uint64_t *bytes, zl_visit *visit, zl_phase *phase,
                          zl_err *err)
{
    zl_plan plan;
    ZL_TRY(plan_init(run, &plan, err));
    *bytes = peak_of(&plan, visit, phase);
    return ZL_OK;
}

/* ---- many peaks ---- */

/* What a plan of the native framework was made for: everything but the counts that enter it through
 * letters alone. */
enum { NATIVE_PART = offsetof(zl_run, version), PLANS = 16 };
typedef struct zl_shape {
    unsigned char run[NATIVE_PART]; /* the fields before, counts cleared */
    bool alone;                     /* one rank has no collectives */
    bool head_at_once;              /* what a head chunk decides besides its letter */
} zl_shape;

struct zl_planner {
    size_t plans;
    size_t latest;  /* the plan of the run before */
    size_t replace; /* the next to go */
    zl_shape shape[PLANS];
    zl_plan plan[PLANS];
};

static void take_shape(const zl_run *run, zl_shape *out)
{
    static const size_t counts[] = {
        offsetof(zl_run, ranks),        offsetof(zl_run, micro_batch), offsetof(zl_run, seq),
        offsetof(zl_run, accumulation), offsetof(zl_run, head_chunk),  offsetof(zl_run, window),
        offsetof(zl_run, reduce_slots),
    };
    memset(out, 0, sizeof *out);
    memcpy(out->run, run, NATIVE_PART);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        memset(out->run + counts[i], 0, sizeof(uint64_t));
    }
    out->alone = run->ranks == 1;
    out->head_at_once =
        run->head_chunk == 0 || run->head_chunk >= zl_mul(run->micro_batch, run->seq);
}

/* Takes the letters of another run of the same shape. */
static void replan(zl_plan *plan, const zl_run *run)
{
    const zl_dims before = plan->dims;
    uint64_t changed = 0;
    plan->run = run;
    zl_dims_counts(run, run->ranks, &plan->dims);
    for (int i = 0; i < ZL_DIM_COUNT; i++) {
        changed |= (uint64_t)(plan->dims.n[i] != before.n[i]) << i;
    }
    zl_book_update(&plan->book, changed);
    find_covered(plan);
}

/* The plan of this shape, the latest one first; false: there is none. */
static bool find_plan(zl_planner *planner, const zl_shape *shape)
{
    for (size_t i = 0; i < planner->plans; i++) {
        const size_t at = (planner->latest + i) % planner->plans;
        if (memcmp(&planner->shape[at], shape, sizeof *shape) == 0) {
            planner->latest = at;
            return true;
        }
    }
    return false;
}

static zl_status new_plan(zl_planner *planner, const zl_run *run, const zl_shape *shape,
                          zl_err *err)
{
    const size_t at = planner->plans < PLANS ? planner->plans : planner->replace;
    memset(&planner->shape[at], 0, sizeof planner->shape[at]); /* no run's, should this fail */
    ZL_TRY(plan_init(run, &planner->plan[at], err));
    zl_book_index(&planner->plan[at].book);
    planner->shape[at] = *shape;
    planner->latest = at;
    planner->replace = (at + 1) % PLANS;
    planner->plans += planner->plans < PLANS;
    return ZL_OK;
}

zl_planner *zl_planner_new(void)
{
    return calloc(1, sizeof(zl_planner));
}

void zl_planner_free(zl_planner *planner)
{
    free(planner);
}

zl_status zl_planner_peak(zl_planner *planner, const zl_run *run, uint64_t *bytes, zl_visit *visit,
                          zl_phase *phase, zl_err *err)
{
    zl_shape shape;
    take_shape(run, &shape);
    if (find_plan(planner, &shape)) {
        replan(&planner->plan[planner->latest], run);
    } else {
        ZL_TRY(new_plan(planner, run, &shape, err));
    }
    *bytes = peak_of(&planner->plan[planner->latest], visit, phase);
    return ZL_OK;
}

zl_status zl_predict_floor(const zl_run *run, uint64_t most_ranks, uint64_t *bytes, zl_err *err)
{
    zl_plan plan;
    ZL_TRY(plan_init(run, &plan, err));
    zl_dims_least(run, most_ranks, &plan.dims);
    zl_book_index(&plan.book);
    zl_book_update(&plan.book, UINT64_MAX);
    find_covered(&plan);
    *bytes = peak_of(&plan, NULL, NULL);
    return ZL_OK;
}

/* How people write "so many times": L, L-1, or the number. */
static void times_text(uint64_t times, uint64_t layers, char *text, size_t size)
{
    if (layers > 1 && times == layers) {
        (void)snprintf(text, size, "L");
    } else if (layers > 1 && times == zl_add(layers, 1)) {
        (void)snprintf(text, size, "(L+1)");
    } else if (layers > 2 && zl_add(times, 1) == layers) {
        (void)snprintf(text, size, "(L-1)");
    } else {
        (void)snprintf(text, size, "%" PRIu64, times);
    }
}

/* One entry, taken so many times, as a line for people. */
static void term_write(const zl_plan *plan, const zl_entry *entry, uint64_t times,
                       const char *symbol, zl_term *out)
{
    memset(out, 0, sizeof *out);
    const uint64_t pieces = plan->dims.n[entry->count];
    out->buffer = entry->buffer;
    out->count = zl_mul(times, pieces);
    out->each = zl_form_value(entry->form, &plan->dims);
    out->bytes = zl_mul(times, entry->bytes[ZL_REQUESTED]);
    for (int i = 0; i < ZL_FORM_MAX; i++) {
        out->shards = out->shards || zl_dim_shards((zl_dim)entry->form.letter[i]);
    }
    zl_form_text(entry->form, symbol, out->count, &plan->dims, false, out->symbols,
                 sizeof out->symbols);
    zl_form_text(entry->form, symbol, out->count, &plan->dims, true, out->numbers,
                 sizeof out->numbers);
}

/* The same for the peak moment. */
static void term_from(const zl_plan *plan, const zl_entry *entry, uint64_t times,
                      const zl_moment *peak, zl_term *out)
{
    char symbol[32];
    if (times == 1) {
        (void)snprintf(symbol, sizeof symbol, "%s", zl_dim_symbol(entry->count));
    } else {
        times_text(times, plan->dims.n[dim_L], symbol, sizeof symbol);
    }
    term_write(plan, entry, times, symbol, out);
    (void)snprintf(out->instant, sizeof out->instant, "%s%s%s", peak->where,
                   peak->where[0] != '\0' ? ", " : "", peak->what);
}

/* Lists the peak moment in vocabulary order; entries of one buffer keep their order. Returns their
 * number. */
static size_t list_terms(const zl_plan *plan, const zl_moment *peak, zl_term *terms, size_t cap)
{
    size_t n = 0;
    for (int b = 0; b < ZL_BUF_COUNT; b++) {
        for (size_t p = 0; p < peak->count; p++) {
            for (int i = 0; i < peak->part[p].bag->count; i++) {
                const zl_entry *entry = &plan->book.entry[peak->part[p].bag->entry[i]];
                if ((int)entry->buffer != b) {
                    continue;
                }
                if (n < cap) {
                    term_from(plan, entry, peak->part[p].times, peak, &terms[n]);
                }
                n++;
            }
        }
    }
    return n;
}

static zl_status check_occurs(const zl_run *run, zl_visit visit, zl_phase phase, zl_err *err)
{
    if (zl_profile_get(run->framework)->occurs(run, visit, phase)) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_USAGE,
                   "phase %s (%s) does not occur in this run; see zl predict --visits all",
                   zl_phase_name(phase), zl_visit_name(visit));
}

static zl_status explain(const zl_run *run, zl_visit visit, zl_phase phase, bool end,
                         zl_term *terms, size_t cap, size_t *n, zl_err *err)
{
    zl_plan plan;
    ZL_TRY(plan_init(run, &plan, err));
    ZL_TRY(check_occurs(run, visit, phase, err));
    zl_cell *cell = malloc(sizeof *cell);
    if (cell == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the explanation");
    }
    zl_account acc;
    zl_account_open(&acc, &plan.book, cell);
    zl_profile_get(run->framework)->account(&plan, visit, phase, &acc);
    free(cell);
    if (zl_poisoned(acc.peak[ZL_REQUESTED])) {
        return zl_fail(err, ZL_E_USAGE,
                       "sizes overflow 64 bits in phase %s: use a smaller model, batch or sequence",
                       zl_phase_name(phase));
    }
    *n = list_terms(&plan, end ? &acc.end_moment : &acc.peak_moment, terms, cap);
    return ZL_OK;
}

zl_status zl_explain(const zl_run *run, zl_visit visit, zl_phase phase, zl_term *terms, size_t cap,
                     size_t *n, zl_err *err)
{
    return explain(run, visit, phase, false, terms, cap, n, err);
}

zl_status zl_explain_end(const zl_run *run, zl_visit visit, zl_phase phase, zl_term *terms,
                         size_t cap, size_t *n, zl_err *err)
{
    return explain(run, visit, phase, true, terms, cap, n, err);
}

static bool is_landing(const zl_plan *plan, size_t entry)
{
    for (int u = 0; u < ZL_UNIT_COUNT; u++) {
        for (int i = 0; i < plan->landing[u].count; i++) {
            if (plan->landing[u].entry[i] == entry) {
                return true;
            }
        }
    }
    return false;
}

/* An entry with the most pieces that it ever has. Of landings that is one per reduce slot. */
static void most_term(const zl_plan *plan, size_t index, uint64_t most, zl_term *out)
{
    char symbol[32];
    const zl_entry *entry = &plan->book.entry[index];
    if (most == 1) {
        (void)snprintf(symbol, sizeof symbol, "%s", zl_dim_symbol(entry->count));
    } else if (most == plan->dims.n[dim_reduce_slots] && is_landing(plan, index)) {
        (void)snprintf(symbol, sizeof symbol, "%s", zl_dim_symbol(dim_reduce_slots));
    } else {
        times_text(most, plan->dims.n[dim_L], symbol, sizeof symbol);
    }
    term_write(plan, entry, most, symbol, out);
}

zl_status zl_explain_all(const zl_run *run, zl_visit visit, zl_phase phase, zl_term *terms,
                         size_t cap, size_t *n, zl_err *err)
{
    zl_plan plan;
    zl_account acc;
    uint64_t most[ZL_BOOK_MAX] = {0};
    ZL_TRY(plan_init(run, &plan, err));
    ZL_TRY(check_occurs(run, visit, phase, err));
    zl_account_open(&acc, &plan.book, NULL);
    acc.most = most;
    zl_profile_get(run->framework)->account(&plan, visit, phase, &acc);
    size_t count = 0;
    for (int b = 0; b < ZL_BUF_COUNT; b++) {
        for (size_t i = 0; i < plan.book.count; i++) {
            if ((int)plan.book.entry[i].buffer != b || most[i] == 0) {
                continue;
            }
            if (count < cap) {
                most_term(&plan, i, most[i], &terms[count]);
            }
            count++;
        }
    }
    *n = count;
    return ZL_OK;
}
