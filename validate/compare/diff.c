#include "compare/diff.h"

#include <stdio.h>
#include <string.h>

#include "zeroledger/bytes.h"
#include "zeroledger/text.h"

static const char *const words[] = {"present", "peak", "end", "at_peak", "max", "kind max"};
enum { PRESENT, PEAK, END, AT_PEAK, MAX, KIND_MAX };

/* Where a figure stands; `a` and `b` of a zl_difference are filled by note. */
typedef struct place {
    zl_visit visit;
    zl_phase phase;
    zl_rung rung;
} place;

typedef struct pair {
    const zl_cell *predicted;
    const zl_cell *measured;
    bool skip_work;
} pair;

static zl_difference figure(place at, int word)
{
    return (zl_difference){
        .found = true, .visit = at.visit, .phase = at.phase, .rung = at.rung, .what = words[word]};
}

static void note(zv_diff *diff, zl_difference figure, uint64_t predicted, uint64_t measured)
{
    diff->figures += predicted != 0 || measured != 0;
    if (predicted == measured) {
        return;
    }
    diff->differing++;
    const uint64_t off = predicted > measured ? predicted - measured : measured - predicted;
    diff->off[figure.rung] = zl_max(diff->off[figure.rung], off);
    if (!diff->first.found) {
        figure.a = predicted;
        figure.b = measured;
        diff->first = figure;
    }
}

static uint64_t amount(const zl_cell *cell, zl_buf buffer, zl_rung rung, int word)
{
    const zl_amount *const bytes = &cell->line[buffer].bytes[rung];
    return word == MAX ? bytes->max : word == END ? bytes->end : bytes->at_peak;
}

static void note_buffers(zv_diff *diff, const pair *cells, place at, int word)
{
    for (zl_buf b = (zl_buf)0; b < ZL_BUF_COUNT; b++) {
        if (cells->skip_work && zl_buf_kind(b) == ZL_KIND_WORK) {
            continue;
        }
        zl_difference f = figure(at, word);
        f.has_buffer = true;
        f.buffer = b;
        f.kind = zl_buf_kind(b);
        note(diff, f, amount(cells->predicted, b, at.rung, word),
             amount(cells->measured, b, at.rung, word));
    }
}

static void note_kinds(zv_diff *diff, const pair *cells, place at)
{
    for (zl_kind k = (zl_kind)0; k < ZL_KIND_COUNT; k++) {
        if (cells->skip_work && k == ZL_KIND_WORK) {
            continue;
        }
        zl_difference f = figure(at, KIND_MAX);
        f.kind = k;
        note(diff, f, cells->predicted->kind_max[k][at.rung],
             cells->measured->kind_max[k][at.rung]);
    }
}

static uint64_t peak(const zl_cell *cell, zl_rung rung, bool skip_work)
{
    const uint64_t work = skip_work ? zl_cell_kind_at_peak(cell, ZL_KIND_WORK, rung) : 0;
    return zl_sub(cell->peak[rung], work);
}

static void note_cell(zv_diff *diff, const pair *cells, place at)
{
    const zl_cell *const p = cells->predicted;
    const zl_cell *const m = cells->measured;
    if (!p->present && !m->present) {
        return;
    }
    diff->cells++;
    if (p->present != m->present) {
        note(diff, figure(at, PRESENT), p->present, m->present);
        return;
    }
    for (int r = 0; r < ZL_RUNG_COUNT; r++) {
        at.rung = (zl_rung)r;
        note_buffers(diff, cells, at, MAX);
        note_buffers(diff, cells, at, END);
        note_buffers(diff, cells, at, AT_PEAK);
        note_kinds(diff, cells, at);
        note(diff, figure(at, PEAK), peak(p, at.rung, cells->skip_work),
             peak(m, at.rung, cells->skip_work));
    }
}

zl_status zv_diff_ledgers(const zl_ledger *predicted, const zl_ledger *measured, bool skip_work,
                          zv_diff *out, zl_err *err)
{
    zl_difference other;
    ZL_TRY(zl_ledger_compare(predicted, measured, skip_work, &other, err));
    zv_diff diff = {0};
    for (int v = 0; v < ZL_VISIT_COUNT; v++) {
        for (int p = 0; p < ZL_PHASE_COUNT; p++) {
            const place at = {.visit = (zl_visit)v, .phase = (zl_phase)p};
            const pair cells = {zl_ledger_at(predicted, at.visit, at.phase),
                                zl_ledger_at(measured, at.visit, at.phase), skip_work};
            note_cell(&diff, &cells, at);
        }
    }
    diff.first.count = diff.differing;
    if (!skip_work && other.found != diff.first.found) {
        return zl_fail(err, ZL_E_BUG, "two comparisons of the same ledgers disagree: one finds %s",
                       other.found ? other.what : diff.first.what);
    }
    *out = diff;
    return ZL_OK;
}

void zv_difference_text(const zl_difference *d, char *text, size_t size)
{
    char a[32], b[32], subject[96] = "all buffers together";
    if (d->what == words[PRESENT]) {
        snprintf(text, size, "%s %s: occurs only in the %s", zl_visit_name(d->visit),
                 zl_phase_name(d->phase), d->a != 0 ? "prediction" : "measurement");
        return;
    }
    zl_format_count(d->a, a, sizeof a);
    zl_format_count(d->b, b, sizeof b);
    if (d->has_buffer) {
        snprintf(subject, sizeof subject, "%s (%s)", zl_buf_name(d->buffer), zl_kind_name(d->kind));
    } else if (d->what == words[KIND_MAX]) {
        snprintf(subject, sizeof subject, "kind %s", zl_kind_name(d->kind));
    }
    snprintf(text, size, "%s %s: %s, %s, %s: predicted %s bytes, measured %s",
             zl_visit_name(d->visit), zl_phase_name(d->phase), subject, d->what,
             zl_rung_name(d->rung), a, b);
}

const char *zv_difference_what(const char *name)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i], name) == 0) {
            return words[i];
        }
    }
    return NULL;
}
