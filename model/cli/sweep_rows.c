/* Rows of a sweep as text. A million rows a second: no printf on the way of a row. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"
#include "zeroledger/bytes.h"

/* ---- cells ---- */

/* What stands in a cell: a text, or with NULL a number. */
typedef struct cell {
    const char *text;
    uint64_t number;
} cell;

static void column(zl_layout *l, const char *title, size_t width, bool left)
{
    (void)snprintf(l->title[l->columns], ZL_SWEEP_TITLE, "%s", title);
    l->width[l->columns] = width == 0 ? 0 : zl_max(width, strlen(l->title[l->columns]));
    l->left[l->columns] = left;
    l->columns++;
}

static bool is_csv(const zl_sweep *s)
{
    return s->args->view.format == ZL_FORMAT_CSV;
}

/* "peak GiB" for people, "peak_bytes" for programs. */
static void bytes_column(const zl_sweep *s, zl_layout *l, const char *name)
{
    static const size_t widths[ZL_BYTES_COUNT] = {
        [ZL_BYTES_GIB] = 10, [ZL_BYTES_GB] = 10, [ZL_BYTES_MIB] = 12, [ZL_BYTES_B] = 19};
    char title[ZL_SWEEP_TITLE];
    const zl_byte_unit unit = s->args->view.unit;
    if (is_csv(s)) {
        (void)snprintf(title, sizeof title, "%.30s_bytes", name);
    } else {
        (void)snprintf(title, sizeof title, "%.30s %s", name, zl_byte_unit_name(unit));
    }
    column(l, title, widths[unit], false);
}

static void lay_out(const zl_sweep *s, zl_layout *l)
{
    *l = (zl_layout){0};
    for (size_t i = 0; i < s->grid.axes; i++) {
        const zl_axis *axis = &s->grid.axis[i];
        column(l, axis->option->name, axis->width,
               axis->type == ZL_VALUE_NAME || axis->type == ZL_VALUE_TEXT);
    }
    bytes_column(s, l, "peak");
    if (s->framework) {
        bytes_column(s, l, "reserved");
    }
    if (s->capped) {
        column(l, "fits", 4, true);
    }
    for (int k = 0; s->kinds && k < ZL_KIND_COUNT; k++) {
        if (is_csv(s)) {
            bytes_column(s, l, zl_kind_name((zl_kind)k));
        } else {
            column(l, zl_kind_name((zl_kind)k), 7, false);
        }
    }
    if (is_csv(s)) {
        column(l, "phase", 0, true);
        column(l, "status", 0, true);
        column(l, "reason", 0, true);
    } else {
        column(l, "phase of the peak", 0, true);
    }
}

const char *zl_swept_status(const zl_swept *answer)
{
    return answer->refusal.status == ZL_OK             ? "ok"
           : answer->refusal.status == ZL_E_UNMODELLED ? "not_modelled"
                                                       : "impossible";
}

const char *zl_swept_phase(const zl_swept *answer, char scratch[static ZL_PHASE_TEXT])
{
    if (answer->framework) {
        (void)snprintf(scratch, ZL_PHASE_TEXT, "%s%s", answer->at, answer->cold ? " (cold)" : "");
    } else if (answer->visit == ZL_VISIT_STEADY || answer->phase == ZL_PHASE_INIT) {
        return zl_phase_name(answer->phase);
    } else {
        (void)snprintf(scratch, ZL_PHASE_TEXT, "%s (%s)", zl_phase_name(answer->phase),
                       zl_visit_name(answer->visit));
    }
    return scratch;
}

/* One row's cells, in the order of the columns, and the texts that they borrow. */
typedef struct row {
    size_t cells;
    cell cell[ZL_SWEEP_COLUMNS];
    char scratch[ZL_SWEEP_COLUMNS][ZL_PHASE_TEXT];
} row;

static void add_text(row *r, const char *text)
{
    r->cell[r->cells++] = (cell){.text = text};
}

static void add_bytes(const zl_sweep *s, row *r, bool known, uint64_t bytes)
{
    if (!known) {
        add_text(r, is_csv(s) ? "" : "-");
    } else if (is_csv(s)) {
        r->cell[r->cells++] = (cell){.number = bytes};
    } else {
        const zl_figure figure = zl_bytes_in(&s->args->view, bytes);
        (void)snprintf(r->scratch[r->cells], ZL_PHASE_TEXT, "%.60s", figure.text);
        add_text(r, r->scratch[r->cells]);
    }
}

static void add_axes(const zl_grid *grid, uint64_t point, row *r)
{
    uint32_t digit[ZL_AXES_MAX];
    zl_grid_digits(grid, point, digit);
    for (size_t i = 0; i < grid->axes; i++) {
        const zl_axis_value *value = &grid->axis[i].value[digit[i]];
        r->cell[r->cells++] = (cell){value->text, value->number};
    }
}

static void fill(const zl_sweep *s, uint64_t point, const zl_swept *answer, row *r)
{
    const bool known = answer->refusal.status == ZL_OK;
    r->cells = 0;
    add_axes(&s->grid, point, r);
    add_bytes(s, r, known, answer->peak);
    if (s->framework) {
        add_bytes(s, r, known && answer->framework, answer->reserved);
    }
    if (s->capped) {
        add_text(r, !known ? (is_csv(s) ? "" : "-") : answer->fits ? "yes" : "no");
    }
    for (int k = 0; s->kinds && k < ZL_KIND_COUNT; k++) {
        add_bytes(s, r, known, answer->kind[k]);
    }
    const char *phase = known ? zl_swept_phase(answer, r->scratch[r->cells]) : "";
    if (is_csv(s)) {
        add_text(r, phase);
        add_text(r, zl_swept_status(answer));
    }
    if (is_csv(s) || !known) {
        add_text(r, answer->refusal.text);
    } else {
        add_text(r, phase);
    }
}

/* ---- tables and csv ---- */

static void put_quoted(zl_ink *out, const char *text)
{
    if (strpbrk(text, ",\"") == NULL) {
        zl_ink_put(out, text);
        return;
    }
    zl_ink_put(out, "\"");
    for (; *text != '\0'; text++) {
        zl_ink_bytes(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    }
    zl_ink_put(out, "\"");
}

static void put_csv(const row *r, zl_ink *out)
{
    for (size_t i = 0; i < r->cells; i++) {
        zl_ink_bytes(out, ",", i > 0);
        if (r->cell[i].text != NULL) {
            put_quoted(out, r->cell[i].text);
        } else {
            zl_ink_count(out, r->cell[i].number);
        }
    }
    zl_ink_put(out, "\n");
}

static void put_aligned(const zl_layout *l, const row *r, zl_ink *out)
{
    for (size_t i = 0; i < r->cells; i++) {
        char number[ZL_AXIS_TEXT];
        (void)snprintf(number, sizeof number, "%" PRIu64, r->cell[i].number);
        const char *text = r->cell[i].text != NULL ? r->cell[i].text : number;
        const size_t length = strlen(text);
        const size_t pad = l->width[i] > length ? l->width[i] - length : 0;
        zl_ink_bytes(out, "  ", i > 0 ? 2 : 0);
        zl_ink_spaces(out, l->left[i] ? 0 : pad);
        zl_ink_bytes(out, text, length);
        zl_ink_spaces(out, l->left[i] && i + 1 < r->cells ? pad : 0);
    }
    zl_ink_put(out, "\n");
}

static void put_markdown(const row *r, zl_ink *out)
{
    for (size_t i = 0; i < r->cells; i++) {
        zl_ink_put(out, i == 0 ? "| " : " | ");
        if (r->cell[i].text == NULL) {
            zl_ink_count(out, r->cell[i].number);
            continue;
        }
        for (const char *c = r->cell[i].text; *c != '\0'; c++) {
            zl_ink_bytes(out, "\\", *c == '|');
            zl_ink_bytes(out, c, 1);
        }
    }
    zl_ink_put(out, " |\n");
}

static void put_row(const zl_sweep *s, const zl_layout *l, const row *r, zl_ink *out)
{
    switch (s->args->view.format) {
    case ZL_FORMAT_CSV:
        put_csv(r, out);
        break;
    case ZL_FORMAT_MD:
        put_markdown(r, out);
        break;
    case ZL_FORMAT_TABLE:
    case ZL_FORMAT_JSON:
    case ZL_FORMAT_COUNT:
        put_aligned(l, r, out);
        break;
    }
}

/* ---- the three parts ---- */

static bool for_people(const zl_sweep *s)
{
    return s->args->view.format == ZL_FORMAT_TABLE || s->args->view.format == ZL_FORMAT_MD;
}

static void say(const zl_sweep *s, const char *text, zl_ink *out)
{
    zl_ink_put(out, text);
    zl_ink_put(out, s->args->view.format == ZL_FORMAT_MD ? "  \n" : "\n");
}

static void put_titles(const zl_sweep *s, const zl_layout *l, zl_ink *out)
{
    row r = {.cells = l->columns};
    for (size_t i = 0; i < l->columns; i++) {
        r.cell[i].text = l->title[i];
    }
    const bool bold = s->args->view.color && s->args->view.format == ZL_FORMAT_TABLE;
    zl_ink_put(out, bold ? "\033[1m" : "");
    put_row(s, l, &r, out);
    if (bold) { /* before the end of the line */
        out->size -= out->size > 0;
        zl_ink_put(out, "\033[0m\n");
    }
    for (size_t i = 0; s->args->view.format == ZL_FORMAT_MD && i < l->columns; i++) {
        zl_ink_put(out, l->left[i] ? "|---" : "|---:");
    }
    zl_ink_put(out, s->args->view.format == ZL_FORMAT_MD ? "|\n" : "");
}

static void put_question(const zl_sweep *s, zl_ink *out)
{
    char text[512];
    const zl_view *view = &s->args->view;
    zl_grid_fixed(&s->grid, s->args, text, sizeof text);
    if (text[0] != '\0') {
        say(s, text, out);
    }
    (void)snprintf(text, sizeof text, "%s point%s of %zu option%s with several values",
                   zl_count(s->grid.points).text, s->grid.points == 1 ? "" : "s", s->grid.axes,
                   s->grid.axes == 1 ? "" : "s");
    say(s, text, out);
    if (s->native) {
        say(s, "native: the largest granted bytes of all phases", out);
    }
    if (s->framework) {
        say(s, "frameworks: the largest peak_allocated and peak_reserved of four steps", out);
    }
    if (s->kinds) {
        (void)snprintf(text, sizeof text, "kinds: granted bytes at that peak, in %s",
                       zl_byte_unit_name(view->unit));
        say(s, text, out);
    }
    if (s->capped) {
        (void)snprintf(text, sizeof text, "Capacity%s%s %s, headroom %s, usable %s",
                       s->c.gpu != NULL ? " of " : "", s->c.gpu != NULL ? s->c.gpu : "",
                       zl_bytes_named(view, s->c.capacity).text,
                       zl_bytes_named(view, s->c.headroom).text,
                       zl_bytes_exact(view, s->c.usable).text);
        say(s, text, out);
    }
    zl_ink_put(out, "\n");
}

void zl_sweep_head(zl_sweep *s, zl_ink *out)
{
    if (s->args->view.format == ZL_FORMAT_JSON) {
        zl_sweep_json_head(s, out);
        return;
    }
    if (for_people(s)) {
        put_question(s, out);
    }
    lay_out(s, &s->layout);
    put_titles(s, &s->layout, out);
}

void zl_sweep_row(const zl_sweep *s, uint64_t point, const zl_swept *answer, zl_ink *out)
{
    if (s->args->view.format == ZL_FORMAT_JSON) {
        zl_sweep_json_row(s, point, answer, out);
        return;
    }
    row r;
    fill(s, point, answer, &r);
    put_row(s, &s->layout, &r, out);
}

void zl_tally_text(const zl_sweep *s, const zl_tally *tally, char *text, size_t size)
{
    int used = snprintf(text, size, "%s point%s: %s answered", zl_count(tally->points).text,
                        tally->points == 1 ? "" : "s", zl_count(tally->answered).text);
    if (s->capped) {
        used += snprintf(text + used, size - (size_t)used, ", %s of them fit",
                         zl_count(tally->fit).text);
    }
    if (tally->impossible > 0) {
        used += snprintf(text + used, size - (size_t)used, ", %s impossible",
                         zl_count(tally->impossible).text);
    }
    if (tally->unmodelled > 0) {
        (void)snprintf(text + used, size - (size_t)used, ", %s not modelled",
                       zl_count(tally->unmodelled).text);
    }
}

void zl_sweep_tail(const zl_sweep *s, const zl_tally *tally, bool whole, zl_ink *out)
{
    char text[256];
    if (s->args->view.format == ZL_FORMAT_JSON) {
        zl_sweep_json_tail(s, tally, whole, out);
    } else if (for_people(s)) {
        zl_tally_text(s, tally, text, sizeof text);
        zl_ink_put(out, "\n");
        say(s, text, out);
    }
}
