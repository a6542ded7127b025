/* Pages and the figures on them. */
#include "cmd.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"

zl_status zl_page_open(zl_page *page, const zl_view *view, zl_err *err)
{
    *page = (zl_page){.view = view};
    page->file = open_memstream(&page->text, &page->size);
    return page->file != NULL ? ZL_OK : zl_fail(err, ZL_E_RESOURCE, "out of memory");
}

static bool for_people(const zl_page *page)
{
    return page->view->format == ZL_FORMAT_TABLE || page->view->format == ZL_FORMAT_MD;
}

/* A line of words, folded between them where a terminal is narrower; continued lines are indented.
 * A line that begins with a space is to be copied, and stays whole. */
static void put_line(zl_page *page, const char *text)
{
    const int limit = page->view->width;
    int at = 0;
    if (limit == 0 || page->view->format != ZL_FORMAT_TABLE || *text == ' ') {
        fputs(text, page->file);
        return;
    }
    while (*text != '\0') {
        const size_t gap = strspn(text, " ");
        const size_t length = gap + strcspn(text + gap, " ");
        const int width = zl_text_width(text, length);
        const bool next = at > 0 && at + width > limit;
        fprintf(page->file, "%s%.*s", next ? "\n  " : "", (int)(next ? length - gap : length),
                next ? text + gap : text);
        at = next ? 2 + width - (int)gap : at + width;
        text += length;
    }
}

void zl_page_say(zl_page *page, const char *format, ...)
{
    char *text = NULL;
    if (!for_people(page)) {
        return;
    }
    va_list args;
    va_start(args, format);
    const int length = vasprintf(&text, format, args);
    va_end(args);
    if (length >= 0) {
        put_line(page, text);
        free(text);
    }
    /* Two spaces end a line of a markdown paragraph. */
    fputs(page->view->format == ZL_FORMAT_MD ? "  \n" : "\n", page->file);
}

void zl_page_break(zl_page *page)
{
    if (for_people(page)) {
        fputc('\n', page->file);
    }
}

zl_status zl_page_table(zl_page *page, const zl_table *table, zl_err *err)
{
    const zl_look look = {.format = page->view->format,
                          .color = page->view->color,
                          .utf8 = page->view->utf8,
                          .width = page->view->width};
    return zl_table_print(table, &look, page->file, err);
}

static zl_status write_page(zl_page *page, zl_err *err)
{
    const bool broken = ferror(page->file) != 0;
    zl_status status = ZL_OK;
    if (fclose(page->file) != 0 || broken) {
        status = zl_fail(err, ZL_E_RESOURCE, "out of memory");
    } else {
        status = zl_file_write(page->view->out, page->text, page->size, err);
    }
    free(page->text);
    *page = (zl_page){0};
    return status;
}

zl_status zl_page_end(zl_page *page, zl_status so_far, zl_err *err)
{
    if (so_far == ZL_OK) {
        return write_page(page, err);
    }
    fclose(page->file);
    free(page->text);
    *page = (zl_page){0};
    return so_far;
}

zl_figure zl_bytes_in(const zl_view *view, uint64_t bytes)
{
    zl_figure figure;
    if (view->unit == ZL_BYTES_B && view->format != ZL_FORMAT_CSV) {
        return zl_count(bytes);
    }
    zl_format_bytes(bytes, view->unit, view->decimals, figure.text, sizeof figure.text);
    return figure;
}

zl_figure zl_bytes_named(const zl_view *view, uint64_t bytes)
{
    zl_figure figure;
    const zl_figure number = zl_bytes_in(view, bytes);
    snprintf(figure.text, sizeof figure.text, "%.32s %.8s", number.text,
             zl_byte_unit_name(view->unit));
    return figure;
}

zl_figure zl_bytes_exact(const zl_view *view, uint64_t bytes)
{
    zl_figure figure = zl_bytes_named(view, bytes);
    if (view->unit != ZL_BYTES_B) {
        const zl_figure named = figure;
        snprintf(figure.text, sizeof figure.text, "%.20s (%.26s B)", named.text,
                 zl_count(bytes).text);
    }
    return figure;
}

zl_figure zl_count(uint64_t n)
{
    zl_figure figure;
    zl_format_count(n, figure.text, sizeof figure.text);
    return figure;
}

/* a x scale / b, rounded half up; poison if that overflows. */
static uint64_t scaled(uint64_t a, uint64_t scale, uint64_t b)
{
    const uint64_t twice = zl_add(zl_prod(2, a, scale), b);
    /* floor(x / y) = ceil((x + 1) / y) - 1 */
    return zl_sub(zl_ceil_div(zl_add(twice, 1), zl_mul(2, b)), 1);
}

static zl_figure one_decimal(uint64_t tenths, const char *unit)
{
    zl_figure figure = {"-"};
    if (!zl_poisoned(tenths)) {
        snprintf(figure.text, sizeof figure.text, "%" PRIu64 ".%u%s", tenths / 10,
                 (unsigned)(tenths % 10), unit);
    }
    return figure;
}

zl_figure zl_ratio(uint64_t a, uint64_t b)
{
    return one_decimal(scaled(a, 10, b), "x");
}

zl_figure zl_percent(uint64_t a, uint64_t b)
{
    return one_decimal(scaled(a, 1000, b), " %");
}

uint64_t zl_ppm(uint64_t part, uint64_t whole)
{
    return scaled(part, 1000000, whole);
}

zl_figure zl_cell_label(zl_visit visit, zl_phase phase)
{
    zl_figure figure;
    if (visit == ZL_VISIT_STEADY || phase == ZL_PHASE_INIT) {
        snprintf(figure.text, sizeof figure.text, "%s", zl_phase_name(phase));
    } else {
        snprintf(figure.text, sizeof figure.text, "%s (%s)", zl_phase_name(phase),
                 zl_visit_name(visit));
    }
    return figure;
}

zl_status zl_predicted(const zl_run *run, uint64_t rank, zl_ledger **out, zl_err *err)
{
    zl_ledger *ledger = zl_ledger_new();
    if (ledger == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    const zl_status status = zl_predict(run, rank, ledger, err);
    if (status != ZL_OK) {
        zl_ledger_free(ledger);
        return status;
    }
    *out = ledger;
    return ZL_OK;
}

const zl_visit zl_visit_order[ZL_VISIT_COUNT] = {ZL_VISIT_STEADY, ZL_VISIT_STEADY_LATER,
                                                 ZL_VISIT_COLD, ZL_VISIT_COLD_LATER};

bool zl_largest_visit(const zl_ledger *ledger, zl_phase phase, zl_visit *out)
{
    bool found = false;
    uint64_t largest = 0;
    for (size_t i = 0; i < ZL_VISIT_COUNT; i++) {
        const zl_cell *cell = zl_ledger_at(ledger, zl_visit_order[i], phase);
        if (cell->present && (!found || cell->peak[ZL_GRANTED] > largest)) {
            *out = zl_visit_order[i];
            largest = cell->peak[ZL_GRANTED];
            found = true;
        }
    }
    return found;
}

void zl_page_run(zl_page *page, const zl_run *run, const char *tail)
{
    char text[512];
    char id[ZL_RUN_ID_SIZE];
    zl_run_describe(run, text, sizeof text);
    zl_run_id(run, id);
    zl_page_say(page, "%s", text);
    zl_page_say(page, "%s parameters, run %s%s", zl_count(zl_params(&run->model)).text, id, tail);
    if (run->backend == ZL_BACKEND_CUDA && run->ranks > 2) {
        zl_page_say(page, "predicted only: more than two GPUs were not measured; one and two were, "
                          "and single ranks of larger jobs in loopback (docs/results)");
    }
}

void zl_largest_cell(const zl_ledger *ledger, zl_visit *visit, zl_phase *phase)
{
    uint64_t largest = 0;
    for (size_t v = 0; v < ZL_VISIT_COUNT; v++) {
        for (int p = 0; p < ZL_PHASE_COUNT; p++) {
            const zl_cell *cell = zl_ledger_at(ledger, zl_visit_order[v], (zl_phase)p);
            if (cell->present && cell->peak[ZL_GRANTED] > largest) {
                largest = cell->peak[ZL_GRANTED];
                *visit = zl_visit_order[v];
                *phase = (zl_phase)p;
            }
        }
    }
}
