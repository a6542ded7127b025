#include "track/account.h"

#include <inttypes.h>

#include "zeroledger/bytes.h"

static void peak_here(zr_account *account, zl_rung rung)
{
    account->cell.peak[rung] = account->total[rung];
    for (int b = 0; b < ZL_BUF_COUNT; b++) {
        account->cell.line[b].bytes[rung].at_peak = account->live[b][rung];
    }
}

void zr_account_enter(zr_account *account)
{
    account->cell = (zl_cell){.present = true};
    for (zl_rung rung = ZL_REQUESTED; rung < ZL_RUNG_COUNT; rung++) {
        peak_here(account, rung);
        for (int b = 0; b < ZL_BUF_COUNT; b++) {
            account->cell.line[b].bytes[rung].max = account->live[b][rung];
        }
        for (int k = 0; k < ZL_KIND_COUNT; k++) {
            account->cell.kind_max[k][rung] = account->kind[k][rung];
        }
    }
}

void zr_account_add(zr_account *account, zl_buf buf, uint64_t requested, uint64_t granted)
{
    const uint64_t bytes[ZL_RUNG_COUNT] = {[ZL_REQUESTED] = requested, [ZL_GRANTED] = granted};
    const zl_kind kind = zl_buf_kind(buf);
    for (zl_rung rung = ZL_REQUESTED; rung < ZL_RUNG_COUNT; rung++) {
        uint64_t *const line_max = &account->cell.line[buf].bytes[rung].max;
        uint64_t *const kind_max = &account->cell.kind_max[kind][rung];
        account->total[rung] = zl_add(account->total[rung], bytes[rung]);
        account->kind[kind][rung] = zl_add(account->kind[kind][rung], bytes[rung]);
        account->live[buf][rung] = zl_add(account->live[buf][rung], bytes[rung]);
        *line_max = zl_max(*line_max, account->live[buf][rung]);
        *kind_max = zl_max(*kind_max, account->kind[kind][rung]);
        if (account->total[rung] > account->cell.peak[rung]) { /* equal: the first instant stays */
            peak_here(account, rung);
        }
    }
}

void zr_account_sub(zr_account *account, zl_buf buf, uint64_t requested, uint64_t granted)
{
    const uint64_t bytes[ZL_RUNG_COUNT] = {[ZL_REQUESTED] = requested, [ZL_GRANTED] = granted};
    const zl_kind kind = zl_buf_kind(buf);
    for (zl_rung rung = ZL_REQUESTED; rung < ZL_RUNG_COUNT; rung++) {
        account->total[rung] = zl_sub(account->total[rung], bytes[rung]);
        account->kind[kind][rung] = zl_sub(account->kind[kind][rung], bytes[rung]);
        account->live[buf][rung] = zl_sub(account->live[buf][rung], bytes[rung]);
    }
}

void zr_account_leave(zr_account *account, zl_cell *out)
{
    for (zl_rung rung = ZL_REQUESTED; rung < ZL_RUNG_COUNT; rung++) {
        for (int b = 0; b < ZL_BUF_COUNT; b++) {
            account->cell.line[b].bytes[rung].end = account->live[b][rung];
        }
    }
    *out = account->cell;
}

/* Where two cells differ; figure NULL: nowhere. */
typedef struct difference {
    const char *figure;
    const char *name; /* of the buffer or kind; "" for the total */
    zl_rung rung;
    uint64_t first;
    uint64_t again;
} difference;

static void differ(difference *d, const char *figure, const char *name, zl_rung rung,
                   uint64_t first, uint64_t again)
{
    if (first != again && d->figure == NULL) {
        *d = (difference){
            .figure = figure, .name = name, .rung = rung, .first = first, .again = again};
    }
}

zl_status zr_cell_same(const zl_cell *first, const zl_cell *again, zl_visit visit, zl_phase phase,
                       zl_err *err)
{
    difference d = {0};
    /* Buffers first: they say most about the cause. */
    for (zl_rung rung = ZL_REQUESTED; rung < ZL_RUNG_COUNT; rung++) {
        for (int b = 0; b < ZL_BUF_COUNT; b++) {
            const zl_amount *const x = &first->line[b].bytes[rung];
            const zl_amount *const y = &again->line[b].bytes[rung];
            const char *const name = zl_buf_name((zl_buf)b);
            differ(&d, "maximum", name, rung, x->max, y->max);
            differ(&d, "end", name, rung, x->end, y->end);
            differ(&d, "share of the peak", name, rung, x->at_peak, y->at_peak);
        }
        for (int k = 0; k < ZL_KIND_COUNT; k++) {
            differ(&d, "maximum", zl_kind_name((zl_kind)k), rung, first->kind_max[k][rung],
                   again->kind_max[k][rung]);
        }
        differ(&d, "peak", "all buffers", rung, first->peak[rung], again->peak[rung]);
    }
    if (d.figure == NULL) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_BUG,
                   "%s (%s) does not repeat: the %s of %s (%s) was %" PRIu64
                   " bytes at first and is %" PRIu64 " now",
                   zl_phase_name(phase), zl_visit_name(visit), d.figure, d.name,
                   zl_rung_name(d.rung), d.first, d.again);
}
