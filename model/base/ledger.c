#include "zeroledger/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"

static const char *const origin_names[ZL_ORIGIN_COUNT] = {
    [ZL_ORIGIN_PREDICTED] = "predicted",
    [ZL_ORIGIN_MEASURED] = "measured",
    [ZL_ORIGIN_WALKED] = "walked",
    [ZL_ORIGIN_IMPORTED] = "imported",
};

const char *zl_origin_name(zl_origin origin)
{
    return origin_names[origin];
}

zl_ledger *zl_ledger_new(void)
{
    return calloc(1, sizeof(zl_ledger));
}

void zl_ledger_free(zl_ledger *ledger)
{
    free(ledger);
}

uint64_t zl_cell_kind_at_peak(const zl_cell *cell, zl_kind kind, zl_rung rung)
{
    uint64_t sum = 0;
    for (unsigned b = 0; b < ZL_BUF_COUNT; b++) {
        if (zl_buf_kind((zl_buf)b) == kind) {
            sum = zl_add(sum, cell->line[b].bytes[rung].at_peak);
        }
    }
    return sum;
}

uint64_t zl_cell_kind_end(const zl_cell *cell, zl_kind kind, zl_rung rung)
{
    uint64_t sum = 0;
    for (unsigned b = 0; b < ZL_BUF_COUNT; b++) {
        if (zl_buf_kind((zl_buf)b) == kind) {
            sum = zl_add(sum, cell->line[b].bytes[rung].end);
        }
    }
    return sum;
}

uint64_t zl_cell_end(const zl_cell *cell, zl_rung rung)
{
    uint64_t sum = 0;
    for (unsigned b = 0; b < ZL_BUF_COUNT; b++) {
        sum = zl_add(sum, cell->line[b].bytes[rung].end);
    }
    return sum;
}

/* What is poisoned in a cell, or NULL. */
static const char *poisoned(const zl_cell *cell)
{
    for (unsigned r = 0; r < ZL_RUNG_COUNT; r++) {
        for (unsigned b = 0; b < ZL_BUF_COUNT; b++) {
            const zl_amount *amount = &cell->line[b].bytes[r];
            if (zl_poisoned(amount->end) || zl_poisoned(amount->at_peak) ||
                zl_poisoned(amount->max)) {
                return zl_buf_name((zl_buf)b);
            }
        }
        for (unsigned k = 0; k < ZL_KIND_COUNT; k++) {
            if (zl_poisoned(cell->kind_max[k][r])) {
                return zl_kind_name((zl_kind)k);
            }
        }
        if (zl_poisoned(cell->peak[r])) {
            return "peak";
        }
    }
    return NULL;
}

zl_status zl_ledger_check(const zl_ledger *ledger, zl_err *err)
{
    for (unsigned v = 0; v < ZL_VISIT_COUNT; v++) {
        for (unsigned p = 0; p < ZL_PHASE_COUNT; p++) {
            const zl_cell *cell = &ledger->cell[v][p];
            const char *what = cell->present ? poisoned(cell) : NULL;
            if (what != NULL) {
                return zl_fail(
                    err, ZL_E_USAGE,
                    "sizes overflow 64 bits: %s in %s of the %s visit; reduce the batch, the "
                    "sequence or the model",
                    what, zl_phase_name((zl_phase)p), zl_visit_name((zl_visit)v));
            }
        }
    }
    return ZL_OK;
}

/* Where a comparison stands; figures are counted, the first difference is kept. */
typedef struct comparison {
    zl_difference first;
    zl_visit visit;
    zl_phase phase;
} comparison;

/* buffer: the buffer of the figure, or ZL_BUF_COUNT. */
static void figure(comparison *c, zl_rung rung, const char *what, zl_buf buffer, zl_kind kind,
                   uint64_t a, uint64_t b)
{
    if (a == b) {
        return;
    }
    if (!c->first.found) {
        c->first = (zl_difference){
            .found = true,
            .visit = c->visit,
            .phase = c->phase,
            .rung = rung,
            .what = what,
            .has_buffer = buffer != ZL_BUF_COUNT,
            .buffer = buffer != ZL_BUF_COUNT ? buffer : (zl_buf)0,
            .kind = kind,
            .a = a,
            .b = b,
        };
    }
    c->first.count++;
}

static uint64_t peak_of(const zl_cell *cell, zl_rung rung, bool skip_work)
{
    const uint64_t work = skip_work ? zl_cell_kind_at_peak(cell, ZL_KIND_WORK, rung) : 0;
    return zl_sub(cell->peak[rung], work);
}

static void compare_cells(comparison *c, const zl_cell *a, const zl_cell *b, bool skip_work)
{
    for (unsigned r = 0; r < ZL_RUNG_COUNT; r++) {
        const zl_rung rung = (zl_rung)r;
        figure(c, rung, "peak", ZL_BUF_COUNT, (zl_kind)0, peak_of(a, rung, skip_work),
               peak_of(b, rung, skip_work));
    }
    for (unsigned i = 0; i < ZL_BUF_COUNT; i++) {
        const zl_buf buf = (zl_buf)i;
        const zl_kind kind = zl_buf_kind(buf);
        for (unsigned r = 0; r < ZL_RUNG_COUNT && !(skip_work && kind == ZL_KIND_WORK); r++) {
            const zl_amount *x = &a->line[i].bytes[r];
            const zl_amount *y = &b->line[i].bytes[r];
            figure(c, (zl_rung)r, "end", buf, kind, x->end, y->end);
            figure(c, (zl_rung)r, "at_peak", buf, kind, x->at_peak, y->at_peak);
            figure(c, (zl_rung)r, "max", buf, kind, x->max, y->max);
        }
    }
    for (unsigned k = 0; k < ZL_KIND_COUNT; k++) {
        for (unsigned r = 0; r < ZL_RUNG_COUNT && !(skip_work && k == ZL_KIND_WORK); r++) {
            figure(c, (zl_rung)r, "kind max", ZL_BUF_COUNT, (zl_kind)k, a->kind_max[k][r],
                   b->kind_max[k][r]);
        }
    }
}

/* Two backends run the same experiment, so with skip_work the backend is left out of the id. */
static zl_status check_same_run(const zl_run *a, const zl_run *b, bool skip_work, zl_err *err)
{
    zl_run x = *a;
    zl_run y = *b;
    if (skip_work) {
        y.backend = x.backend;
    }
    char x_id[ZL_RUN_ID_SIZE];
    char y_id[ZL_RUN_ID_SIZE];
    zl_run_id(&x, x_id);
    zl_run_id(&y, y_id);
    if (strcmp(x_id, y_id) == 0) {
        return ZL_OK;
    }
    zl_run_id(a, x_id);
    zl_run_id(b, y_id);
    return zl_fail(
        err, ZL_E_USAGE,
        "the ledgers belong to different runs, %s and %s; compare ledgers of one run.json", x_id,
        y_id);
}

zl_status zl_ledger_compare(const zl_ledger *a, const zl_ledger *b, bool skip_work,
                            zl_difference *out, zl_err *err)
{
    ZL_TRY(check_same_run(&a->run, &b->run, skip_work, err));
    comparison c = {.first = {.found = false}};
    for (unsigned v = 0; v < ZL_VISIT_COUNT; v++) {
        for (unsigned p = 0; p < ZL_PHASE_COUNT; p++) {
            const zl_cell *x = &a->cell[v][p];
            const zl_cell *y = &b->cell[v][p];
            c.visit = (zl_visit)v;
            c.phase = (zl_phase)p;
            if (x->present && y->present) {
                compare_cells(&c, x, y, skip_work);
            } else {
                figure(&c, ZL_REQUESTED, "present", ZL_BUF_COUNT, (zl_kind)0, x->present,
                       y->present);
            }
        }
    }
    *out = c.first;
    return ZL_OK;
}
