/* zl predict: memory of every phase, by kind. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "device.h"
#include "timeline.h"
#include "zeroledger/bytes.h"

const zl_option zl_predict_options[] = {
    {"rank", NULL, "R", NULL, "whose memory: 0 to ranks - 1 (default 0)"},
    {"visits", NULL, "NAME", "main,all", "main leaves out visits that show nothing new"},
    {"buffers", NULL, NULL, NULL, "one more table: every buffer of these phases"},
    {"gpu", NULL, "NAME", NULL,
     "whose constants the whole GPU (--backend cuda), whose kernels a framework is predicted with"},
    {"bars", NULL, "NAME", "auto,always,never",
     "bars in proportion to the bytes; auto draws them on a terminal"},
    {"timeline", NULL, "FILE", NULL,
     "write every allocation there in order: *.json[.gz] for Perfetto, *.pickle for memory_viz"},
    {"save-run", NULL, "FILE", NULL, "write the resolved run there as run.json"},
    {0},
};

/* Rows of the table: which cells. */
typedef struct row {
    zl_visit visit;
    zl_phase phase;
} row;

typedef struct rows {
    row at[ZL_VISIT_COUNT * ZL_PHASE_COUNT];
    size_t count;
} rows;

static uint64_t slack_at_peak(const zl_cell *cell)
{
    return zl_sub(cell->peak[ZL_GRANTED], cell->peak[ZL_REQUESTED]);
}

/* Column SLACK is what the allocator's rounding adds, so that the columns add up to the peak. */
static uint64_t kind_bytes(const zl_cell *cell, zl_kind kind)
{
    return kind == ZL_KIND_SLACK ? slack_at_peak(cell)
                                 : zl_cell_kind_at_peak(cell, kind, ZL_REQUESTED);
}

static bool shows(const zl_view *view, uint64_t bytes)
{
    zl_figure zero;
    zl_figure figure;
    zl_format_bytes(0, view->unit, view->decimals, zero.text, sizeof zero.text);
    zl_format_bytes(bytes, view->unit, view->decimals, figure.text, sizeof figure.text);
    return strcmp(zero.text, figure.text) != 0;
}

/* Whether two visits look alike, the optimizer's state aside: it appears in the first step, and
 * every cold visit would differ by it alone. */
static bool look_alike(const zl_view *view, const zl_cell *a, const zl_cell *b)
{
    for (int k = 0; k < ZL_KIND_COUNT; k++) {
        const zl_kind kind = (zl_kind)k;
        if (kind == ZL_KIND_OPT || kind == ZL_KIND_SLACK) {
            continue;
        }
        const uint64_t pairs[][2] = {
            {zl_cell_kind_at_peak(a, kind, ZL_REQUESTED),
             zl_cell_kind_at_peak(b, kind, ZL_REQUESTED)},
            {zl_cell_kind_end(a, kind, ZL_REQUESTED), zl_cell_kind_end(b, kind, ZL_REQUESTED)}};
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            const zl_figure x = zl_bytes_in(view, pairs[i][0]);
            const zl_figure y = zl_bytes_in(view, pairs[i][1]);
            if (strcmp(x.text, y.text) != 0) {
                return false;
            }
        }
    }
    return true;
}

/* A visit is left out if one already taken of the same phase looks alike. */
static bool is_news(const zl_view *view, const zl_ledger *ledger, const rows *taken, row where)
{
    const zl_cell *cell = zl_ledger_at(ledger, where.visit, where.phase);
    for (size_t i = 0; i < taken->count; i++) {
        const row *other = &taken->at[i];
        if (other->phase == where.phase &&
            look_alike(view, cell, zl_ledger_at(ledger, other->visit, other->phase))) {
            return false;
        }
    }
    return true;
}

static void choose(const zl_view *view, const zl_ledger *ledger, bool all, rows *out)
{
    *out = (rows){0};
    for (int p = 0; p < ZL_PHASE_COUNT; p++) {
        for (size_t v = 0; v < ZL_VISIT_COUNT; v++) {
            const row where = {zl_visit_order[v], (zl_phase)p};
            const bool present = zl_ledger_at(ledger, where.visit, where.phase)->present;
            if (present && (all || is_news(view, ledger, out, where))) {
                out->at[out->count++] = where;
            }
        }
    }
}

/* Kinds that occur; slack only if it shows in the decimals. */
static size_t columns(const zl_view *view, const zl_ledger *ledger, const rows *r,
                      zl_kind kinds[ZL_KIND_COUNT])
{
    size_t count = 0;
    for (int k = 0; k < ZL_KIND_COUNT; k++) {
        bool occurs = false;
        for (size_t i = 0; i < r->count; i++) {
            const zl_cell *cell = zl_ledger_at(ledger, r->at[i].visit, r->at[i].phase);
            const uint64_t bytes = kind_bytes(cell, (zl_kind)k);
            occurs |= (zl_kind)k == ZL_KIND_SLACK ? shows(view, bytes) : bytes > 0;
        }
        if (occurs) {
            kinds[count++] = (zl_kind)k;
        }
    }
    return count;
}

static zl_status print_phases(zl_page *page, const zl_ledger *ledger, const rows *r, zl_err *err)
{
    zl_kind kinds[ZL_KIND_COUNT];
    const size_t count = columns(page->view, ledger, r, kinds);
    zl_table *table = zl_table_new();
    zl_table_column(table, "phase", ZL_LEFT);
    for (size_t k = 0; k < count; k++) {
        zl_table_column(table, zl_kind_name(kinds[k]), ZL_RIGHT);
    }
    zl_table_column(table, "peak", ZL_RIGHT);
    zl_table_column(table, "end", ZL_RIGHT);
    if (page->view->bars) {
        zl_table_column(table, "peak", ZL_BAR);
    }
    for (size_t i = 0; i < r->count; i++) {
        const zl_cell *cell = zl_ledger_at(ledger, r->at[i].visit, r->at[i].phase);
        zl_table_text(table, "%s", zl_cell_label(r->at[i].visit, r->at[i].phase).text);
        for (size_t k = 0; k < count; k++) {
            const uint64_t bytes = kind_bytes(cell, kinds[k]);
            zl_table_text(table, "%s", bytes > 0 ? zl_bytes_in(page->view, bytes).text : "-");
        }
        zl_table_text(table, "%s", zl_bytes_in(page->view, cell->peak[ZL_GRANTED]).text);
        zl_table_text(table, "%s", zl_bytes_in(page->view, zl_cell_end(cell, ZL_GRANTED)).text);
        if (page->view->bars) {
            zl_table_count(table, cell->peak[ZL_GRANTED]);
        }
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

static zl_status print_buffers(zl_page *page, const zl_ledger *ledger, const rows *r, zl_err *err)
{
    static const char *const titles[] = {"phase", "buffer", "kind", "at peak", "end", "max"};
    zl_table *table = zl_table_new();
    for (size_t c = 0; c < sizeof titles / sizeof titles[0]; c++) {
        zl_table_column(table, titles[c], c < 3 ? ZL_LEFT : ZL_RIGHT);
    }
    for (size_t i = 0; i < r->count; i++) {
        const zl_cell *cell = zl_ledger_at(ledger, r->at[i].visit, r->at[i].phase);
        for (int b = 0; b < ZL_BUF_COUNT; b++) {
            const zl_amount *amount = &cell->line[b].bytes[ZL_GRANTED];
            if (amount->max == 0) {
                continue;
            }
            zl_table_text(table, "%s", zl_cell_label(r->at[i].visit, r->at[i].phase).text);
            zl_table_text(table, "%s", zl_buf_name((zl_buf)b));
            zl_table_text(table, "%s", zl_kind_name(zl_buf_kind((zl_buf)b)));
            zl_table_text(table, "%s", zl_bytes_in(page->view, amount->at_peak).text);
            zl_table_text(table, "%s", zl_bytes_in(page->view, amount->end).text);
            zl_table_text(table, "%s", zl_bytes_in(page->view, amount->max).text);
        }
    }
    zl_page_break(page);
    zl_page_say(page, "Every buffer, granted bytes. Largest amounts (max) fall at different "
                      "instants and add up to no peak.");
    zl_page_break(page);
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

static void csv_row(zl_table *table, row where, zl_rung rung, const char *const names[2],
                    zl_amount amount)
{
    zl_table_text(table, "%s", zl_visit_name(where.visit));
    zl_table_text(table, "%s", zl_phase_name(where.phase));
    zl_table_text(table, "%s", names[0]);
    zl_table_text(table, "%s", names[1]);
    zl_table_text(table, "%s", zl_rung_name(rung));
    zl_table_count(table, amount.end);
    zl_table_count(table, amount.at_peak);
    zl_table_count(table, amount.max);
}

/* One row per buffer, and one of kind "total" whose at_peak is the peak. */
static void csv_cell(zl_table *table, const zl_cell *cell, row where, zl_rung rung)
{
    for (int b = 0; b < ZL_BUF_COUNT; b++) {
        const zl_buf buf = (zl_buf)b;
        if (cell->line[b].bytes[rung].max > 0) {
            const char *const names[] = {zl_kind_name(zl_buf_kind(buf)), zl_buf_name(buf)};
            csv_row(table, where, rung, names, cell->line[b].bytes[rung]);
        }
    }
    const zl_amount total = {zl_cell_end(cell, rung), cell->peak[rung], cell->peak[rung]};
    csv_row(table, where, rung, (const char *const[]){"total", ""}, total);
}

static zl_status print_csv(const zl_view *view, const zl_ledger *ledger, zl_err *err)
{
    zl_page page;
    ZL_TRY(zl_page_open(&page, view, err));
    static const char *const titles[] = {"visit", "phase", "kind",    "buffer",
                                         "rung",  "end",   "at_peak", "max"};
    zl_table *table = zl_table_new();
    for (size_t c = 0; c < sizeof titles / sizeof titles[0]; c++) {
        zl_table_column(table, titles[c], ZL_LEFT);
    }
    for (int i = 0; i < ZL_VISIT_COUNT * ZL_PHASE_COUNT; i++) {
        const row where = {(zl_visit)(i / ZL_PHASE_COUNT), (zl_phase)(i % ZL_PHASE_COUNT)};
        const zl_cell *cell = zl_ledger_at(ledger, where.visit, where.phase);
        for (int r = 0; cell->present && r < ZL_RUNG_COUNT; r++) {
            csv_cell(table, cell, where, (zl_rung)r);
        }
    }
    const zl_status status = zl_page_table(&page, table, err);
    zl_table_free(table);
    return zl_page_end(&page, status, err);
}

/* Live bytes where people look at them, over one steady optimizer step. */
static zl_status print_boundaries(zl_page *page, const zl_ledger *ledger, zl_err *err)
{
    static const char *const titles[] = {"before forward", "after forward", "after backward",
                                         "after step"};
    const zl_cell *publish = zl_ledger_at(ledger, ZL_VISIT_STEADY, ZL_PHASE_PUBLISH);
    const zl_cell *step = zl_ledger_at(ledger, ZL_VISIT_STEADY, ZL_PHASE_STEP);
    const bool many = zl_ledger_at(ledger, ZL_VISIT_STEADY_LATER, ZL_PHASE_BACKWARD)->present;
    const zl_visit last = many ? ZL_VISIT_STEADY_LATER : ZL_VISIT_STEADY;
    const zl_cell *cells[] = {
        publish->present ? publish : step, zl_ledger_at(ledger, last, ZL_PHASE_FORWARD),
        zl_ledger_at(ledger, last, ZL_PHASE_REDUCE), publish->present ? publish : step};
    zl_table *table = zl_table_new();
    for (size_t c = 0; c < sizeof titles / sizeof titles[0]; c++) {
        zl_table_column(table, titles[c], ZL_RIGHT);
        zl_table_text(table, "%s", zl_bytes_in(page->view, zl_cell_end(cells[c], ZL_GRANTED)).text);
    }
    zl_page_say(page, "Live at the boundaries of a steady step%s:",
                many ? " (forward and backward of its last micro-step)" : "");
    zl_page_break(page);
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

/* The kinds of a peak, with bars. */
static zl_status print_kinds(zl_page *page, const zl_cell *cell, zl_err *err)
{
    zl_table *table = zl_table_new();
    zl_table_column(table, "kind", ZL_LEFT);
    zl_table_column(table, zl_byte_unit_name(page->view->unit), ZL_RIGHT);
    zl_table_column(table, "share", ZL_RIGHT);
    zl_table_column(table, "bytes", ZL_BAR);
    for (int k = 0; k < ZL_KIND_COUNT; k++) {
        const uint64_t bytes = kind_bytes(cell, (zl_kind)k);
        if (bytes > 0) {
            zl_table_text(table, "%s", zl_kind_name((zl_kind)k));
            zl_table_text(table, "%s", zl_bytes_in(page->view, bytes).text);
            zl_table_text(table, "%s", zl_percent(bytes, cell->peak[ZL_GRANTED]).text);
            zl_table_count(table, bytes);
        }
    }
    zl_page_break(page);
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    zl_page_break(page);
    return status;
}

static zl_status print_largest(zl_page *page, const zl_ledger *ledger, zl_err *err)
{
    zl_visit visit = ZL_VISIT_COLD;
    zl_phase phase = ZL_PHASE_INIT;
    zl_largest_cell(ledger, &visit, &phase);
    const zl_cell *cell = zl_ledger_at(ledger, visit, phase);
    zl_page_say(page, "Largest peak: %s in %s",
                zl_bytes_exact(page->view, cell->peak[ZL_GRANTED]).text,
                zl_cell_label(visit, phase).text);
    return page->view->bars ? print_kinds(page, cell, err) : ZL_OK;
}

/* How the table is to be read. */
static void say_reading(zl_page *page, bool all)
{
    zl_page_say(page, "%s of one rank. Kinds are what is live at the instant of the phase's peak,",
                zl_byte_unit_name(page->view->unit));
    zl_page_say(page, "and add up to that peak; end is what is live when the phase ends.");
    if (all) {
        zl_page_say(page, "All visits that occur; a phase without a mark is of a steady step.");
    } else {
        zl_page_say(page, "Phases of a steady step; other visits, in parentheses, only where more");
        zl_page_say(page,
                    "differs than the optimizer state that the first step does not have yet.");
    }
    zl_page_break(page);
}

static zl_status fill_page(zl_page *page, const zl_args *args, const zl_ledger *ledger,
                           const zl_device_answer *device, zl_err *err)
{
    const char *visits = zl_args_value(args, "visits");
    const bool all = visits != NULL && strcmp(visits, "all") == 0;
    char tail[96];
    rows r;
    choose(page->view, ledger, all, &r);
    snprintf(tail, sizeof tail, ", rank %" PRIu64 " of %" PRIu64, ledger->rank, ledger->run.ranks);
    zl_page_run(page, &ledger->run, tail);
    zl_page_break(page);
    say_reading(page, all);
    ZL_TRY(print_phases(page, ledger, &r, err));
    zl_page_break(page);
    ZL_TRY(print_largest(page, ledger, err));
    ZL_TRY(print_boundaries(page, ledger, err));
    if (zl_args_value(args, "buffers") != NULL) {
        ZL_TRY(print_buffers(page, ledger, &r, err));
    }
    return zl_device_print(page, device, err);
}

static zl_status print_page(const zl_args *args, const zl_ledger *ledger,
                            const zl_device_answer *device, zl_err *err)
{
    zl_page page;
    ZL_TRY(zl_page_open(&page, &args->view, err));
    return zl_page_end(&page, fill_page(&page, args, ledger, device, err), err);
}

static zl_status print(const zl_args *args, const zl_ledger *ledger, zl_err *err)
{
    zl_device_answer device;
    ZL_TRY(zl_device_ask(args, &ledger->run, &device, err));
    switch (args->view.format) {
    case ZL_FORMAT_JSON:
        return zl_ledger_save(ledger, args->view.out, err);
    case ZL_FORMAT_CSV:
        return print_csv(&args->view, ledger, err);
    case ZL_FORMAT_TABLE:
    case ZL_FORMAT_MD:
    case ZL_FORMAT_COUNT:
        break;
    }
    return print_page(args, ledger, &device, err);
}

zl_status zl_args_rank(const zl_args *args, const zl_run *run, bool *given, uint64_t *out,
                       zl_err *err)
{
    uint64_t rank = 0;
    const char *wish = zl_args_value(args, "rank");
    if (wish != NULL) {
        ZL_TRY(zl_parse_count("rank", wish, &rank, err));
    }
    if (rank >= run->ranks) {
        return zl_fail(err, ZL_E_USAGE, "rank must be 0..%" PRIu64 ", got %" PRIu64, run->ranks - 1,
                       rank);
    }
    *given = wish != NULL;
    *out = rank;
    return ZL_OK;
}

zl_status zl_cmd_predict(const zl_args *args, zl_err *err)
{
    zl_run run;
    uint64_t rank = 0;
    bool wished = false;
    const char *save = zl_args_value(args, "save-run");
    const char *timeline = zl_args_value(args, "timeline");
    if (timeline != NULL) {
        ZL_TRY(zl_timeline_check(timeline, err));
    }
    ZL_TRY(zl_args_run(args, &run, err));
    if (run.framework != ZL_FRAMEWORK_NATIVE) {
        return zl_predict_framework(args, &run, err);
    }
    ZL_TRY(zl_args_rank(args, &run, &wished, &rank, err));
    zl_ledger *ledger = NULL;
    ZL_TRY(zl_predicted(&run, rank, &ledger, err));
    zl_status status = save != NULL ? zl_run_save(&run, save, err) : ZL_OK;
    if (status == ZL_OK && timeline != NULL) {
        status = zl_timeline_native(&run, timeline, err);
    }
    if (status == ZL_OK) {
        status = print(args, ledger, err);
    }
    zl_ledger_free(ledger);
    return status;
}
