#include "table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/text.h"

enum { COLUMNS_MAX = 32, TITLE_SIZE = 40, CELL_SIZE = 512 };

typedef struct cell {
    char *text; /* NULL: a number */
    uint64_t number;
} cell;

struct zl_table {
    char title[COLUMNS_MAX][TITLE_SIZE];
    zl_align align[COLUMNS_MAX];
    size_t columns;
    cell *cells;
    size_t count;
    size_t capacity;
    bool failed;
};

zl_table *zl_table_new(void)
{
    return calloc(1, sizeof(zl_table));
}

void zl_table_free(zl_table *table)
{
    if (table == NULL) {
        return;
    }
    for (size_t i = 0; i < table->count; i++) {
        free(table->cells[i].text);
    }
    free(table->cells);
    free(table);
}

void zl_table_column(zl_table *table, const char *title, zl_align align)
{
    if (table == NULL || table->columns == COLUMNS_MAX) {
        return;
    }
    snprintf(table->title[table->columns], TITLE_SIZE, "%s", title);
    table->align[table->columns] = align;
    table->columns++;
}

/* Takes the text over. */
static void append(zl_table *table, char *text, uint64_t number)
{
    if (table->count == table->capacity) {
        const size_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;
        cell *cells = realloc(table->cells, capacity * sizeof *cells);
        if (cells == NULL) {
            free(text);
            table->failed = true;
            return;
        }
        table->cells = cells;
        table->capacity = capacity;
    }
    table->cells[table->count++] = (cell){.text = text, .number = number};
}

void zl_table_text(zl_table *table, const char *format, ...)
{
    if (table == NULL) {
        return;
    }
    char text[CELL_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char *copy = strdup(text);
    table->failed |= copy == NULL;
    append(table, copy, 0);
}

void zl_table_count(zl_table *table, uint64_t n)
{
    if (table != NULL) {
        append(table, NULL, n);
    }
}

/* What a cell shows; the text is borrowed from the cell or from the scratch. */
static const char *shown(const cell *c, zl_format format, char scratch[static 32])
{
    if (c->text != NULL) {
        return c->text;
    }
    if (format == ZL_FORMAT_CSV) {
        snprintf(scratch, 32, "%" PRIu64, c->number);
    } else {
        zl_format_count(c->number, scratch, 32);
    }
    return scratch;
}

/* Columns that a terminal needs for UTF-8 text of narrow characters. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xc0U) != 0x80U;
    }
    return width;
}

static void put_padded(FILE *out, const char *text, int width, zl_align align, bool last)
{
    const int pad = width - width_of(text);
    if (align == ZL_RIGHT) {
        fprintf(out, "%*s%s", pad, "", text);
    } else {
        fprintf(out, "%s%*s", text, last ? 0 : pad, "");
    }
}

static void print_aligned(const zl_table *table, const int *width, bool color, FILE *out)
{
    char scratch[32];
    const size_t last = table->columns - 1;
    fputs(color ? "\033[1m" : "", out);
    for (size_t c = 0; c <= last; c++) {
        put_padded(out, table->title[c], width[c], table->align[c], c == last);
        fputs(c < last ? "  " : "", out);
    }
    fputs(color ? "\033[0m\n" : "\n", out);
    for (size_t i = 0; i < table->count; i++) {
        const size_t c = i % table->columns;
        const char *text = shown(&table->cells[i], ZL_FORMAT_TABLE, scratch);
        put_padded(out, text, width[c], table->align[c], c == last);
        fputs(c < last ? "  " : "\n", out);
    }
}

static void put_markdown(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        fputs(*text == '|' ? "\\" : "", out);
        fputc(*text, out);
    }
}

static void print_markdown(const zl_table *table, FILE *out)
{
    char scratch[32];
    const size_t last = table->columns - 1;
    for (size_t c = 0; c <= last; c++) {
        fprintf(out, "| %s %s", table->title[c], c == last ? "|\n" : "");
    }
    for (size_t c = 0; c <= last; c++) {
        fprintf(out, "|%s%s", table->align[c] == ZL_RIGHT ? "---:" : "---", c == last ? "|\n" : "");
    }
    for (size_t i = 0; i < table->count; i++) {
        fputs("| ", out);
        put_markdown(out, shown(&table->cells[i], ZL_FORMAT_MD, scratch));
        fputs(i % table->columns == last ? " |\n" : " ", out);
    }
}

/* RFC 4180: quoted where a comma, a quote or a line break is inside. */
static void put_csv(FILE *out, const char *text)
{
    if (strpbrk(text, ",\"\n\r") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        fputs(*text == '"' ? "\"" : "", out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void print_csv(const zl_table *table, FILE *out)
{
    char scratch[32];
    const size_t last = table->columns - 1;
    for (size_t c = 0; c <= last; c++) {
        put_csv(out, table->title[c]);
        fputc(c == last ? '\n' : ',', out);
    }
    for (size_t i = 0; i < table->count; i++) {
        put_csv(out, shown(&table->cells[i], ZL_FORMAT_CSV, scratch));
        fputc(i % table->columns == last ? '\n' : ',', out);
    }
}

static void measure(const zl_table *table, int width[static COLUMNS_MAX])
{
    char scratch[32];
    for (size_t c = 0; c < table->columns; c++) {
        width[c] = width_of(table->title[c]);
    }
    for (size_t i = 0; i < table->count; i++) {
        const size_t c = i % table->columns;
        const int wide = width_of(shown(&table->cells[i], ZL_FORMAT_TABLE, scratch));
        width[c] = wide > width[c] ? wide : width[c];
    }
}

zl_status zl_table_print(const zl_table *table, zl_format format, bool color, FILE *out,
                         zl_err *err)
{
    int width[COLUMNS_MAX] = {0};
    if (table == NULL || table->failed) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    if (table->columns == 0 || table->count % table->columns != 0) {
        return zl_fail(err, ZL_E_BUG, "a table of %zu columns has %zu cells: please report this",
                       table->columns, table->count);
    }
    switch (format) {
    case ZL_FORMAT_CSV:
        print_csv(table, out);
        break;
    case ZL_FORMAT_MD:
        print_markdown(table, out);
        break;
    case ZL_FORMAT_TABLE:
    case ZL_FORMAT_JSON:
    case ZL_FORMAT_COUNT:
        measure(table, width);
        print_aligned(table, width, color, out);
        break;
    }
    return ZL_OK;
}

void zl_table_json(const zl_table *table, const char *key, zl_json_writer *w)
{
    zl_json_begin_array(w, key);
    for (size_t i = 0; table != NULL && i < table->count; i++) {
        const size_t c = i % table->columns;
        const cell *value = &table->cells[i];
        if (c == 0) {
            zl_json_begin_object(w, NULL);
        }
        if (value->text != NULL) {
            zl_json_put_string(w, table->title[c], value->text);
        } else {
            zl_json_put_u64(w, table->title[c], value->number);
        }
        if (c + 1 == table->columns) {
            zl_json_end(w);
        }
    }
    zl_json_end(w);
}
