#include "table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"
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

/* Text of figures and bars that a cell does not hold itself. */
typedef struct scratch {
    char text[128];
} scratch;

/* A bar of at most `width` characters for n of at most `most`, rounded up: what is there is seen.
 */
static void draw(scratch *bar, uint64_t n, uint64_t most, int width, bool utf8)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
    const unsigned unit = utf8 ? 8 : 1;
    const uint64_t whole = (uint64_t)width * unit;
    uint64_t left = most > 0 ? zl_min(zl_ceil_div(zl_mul(n, whole), most), whole) : 0;
    size_t used = 0;
    bar->text[0] = '\0';
    while (left > 0 && used < sizeof bar->text) {
        const uint64_t piece = zl_min(left, unit);
        used += (size_t)snprintf(bar->text + used, sizeof bar->text - used, "%s",
                                 utf8 ? eighths[piece] : "#");
        left -= piece;
    }
}

/* The largest number of a column. */
static uint64_t most_of(const zl_table *table, size_t column)
{
    uint64_t most = 0;
    for (size_t i = column; i < table->count; i += table->columns) {
        most = zl_max(most, table->cells[i].number);
    }
    return most;
}

/* What a cell shows; the text is borrowed from the cell or from the scratch. */
static const char *shown(const zl_table *table, size_t i, zl_format format, scratch *s)
{
    const cell *c = &table->cells[i];
    if (c->text != NULL) {
        return c->text;
    }
    if (format == ZL_FORMAT_CSV) {
        snprintf(s->text, sizeof s->text, "%" PRIu64, c->number);
    } else {
        zl_format_count(c->number, s->text, sizeof s->text);
    }
    return s->text;
}

int zl_text_width(const char *text, size_t length)
{
    int width = 0;
    for (size_t i = 0; i < length; i++) {
        width += ((unsigned char)text[i] & 0xc0U) != 0x80U;
    }
    return width;
}

/* How an aligned table is laid out: as one block, or, where that is wider than the terminal, as
 * several that repeat the first columns. */
typedef struct layout {
    const zl_table *table;
    const zl_look *look;
    int width[COLUMNS_MAX];
    int word[COLUMNS_MAX]; /* the widest piece without a space */
    uint64_t most[COLUMNS_MAX];
    size_t keys; /* leading columns that every block repeats */
} layout;

typedef struct block {
    size_t column[COLUMNS_MAX];
    size_t count;
    int width;
} block;

enum { GAP = 2, BAR_MIN = 8, BAR_MAX = 32, BAR_USUAL = 20, FOLD_MIN = 20 };

static void measure_text(layout *l, size_t c, const char *text)
{
    const int width = zl_text_width(text, strlen(text));
    l->width[c] = width > l->width[c] ? width : l->width[c];
    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        const int word = zl_text_width(text, length);
        l->word[c] = word > l->word[c] ? word : l->word[c];
        text += length + strspn(text + length, " ");
    }
}

static void measure(layout *l)
{
    const zl_table *table = l->table;
    scratch s;
    for (size_t c = 0; c < table->columns; c++) {
        measure_text(l, c, table->title[c]);
        if (table->align[c] == ZL_BAR) {
            l->most[c] = most_of(table, c);
            l->width[c] = l->look->width > 0 ? BAR_MIN : BAR_USUAL;
        }
    }
    for (size_t i = 0; i < table->count; i++) {
        if (table->align[i % table->columns] != ZL_BAR) {
            measure_text(l, i % table->columns, shown(table, i, ZL_FORMAT_TABLE, &s));
        }
    }
}

/* The first column, and those of text after it, as long as they take a third of the width. */
static void choose_keys(layout *l)
{
    int used = l->width[0];
    l->keys = 1;
    while (l->keys < l->table->columns && l->table->align[l->keys] == ZL_LEFT &&
           (used + GAP + l->width[l->keys]) * 3 <= l->look->width) {
        used += GAP + l->width[l->keys++];
    }
}

/* The length of what of a text fits, cut at a space; all of it where no space is near enough. */
static size_t piece_of(const char *text, int width)
{
    const size_t all = strlen(text);
    size_t cut = 0;
    if (zl_text_width(text, all) <= width) {
        return all;
    }
    for (size_t i = 1; i < all && zl_text_width(text, i) <= width; i++) {
        cut = text[i] == ' ' ? i : cut;
    }
    return cut > 0 ? cut : strcspn(text, " ");
}

static void put_padded(FILE *out, const char *text, size_t length, int width, zl_align align,
                       bool last)
{
    const int pad = width - zl_text_width(text, length);
    if (align == ZL_RIGHT) {
        fprintf(out, "%*s%.*s", pad, "", (int)length, text);
    } else {
        fprintf(out, "%.*s%*s", (int)length, text, last ? 0 : pad, "");
    }
}

/* One row: its cells side by side, on as many lines as the longest of them needs. */
static void put_row(const layout *l, const block *b, const char *text[static COLUMNS_MAX],
                    bool bold, FILE *out)
{
    bool more = true;
    while (more) {
        more = false;
        fputs(bold ? "\033[1m" : "", out);
        for (size_t k = 0; k < b->count; k++) {
            const size_t c = b->column[k];
            const size_t length = piece_of(text[c], l->width[c]);
            put_padded(out, text[c], length, l->width[c], l->table->align[c], k + 1 == b->count);
            fprintf(out, "%*s", k + 1 < b->count ? GAP : 0, "");
            text[c] += length + strspn(text[c] + length, " ");
            more |= *text[c] != '\0';
        }
        fputs(bold ? "\033[0m\n" : "\n", out);
    }
}

static void put_block(layout *l, const block *b, FILE *out)
{
    const zl_table *table = l->table;
    scratch s[COLUMNS_MAX] = {{{0}}};
    const char *text[COLUMNS_MAX];
    for (size_t k = 0; k < b->count; k++) {
        const size_t c = b->column[k];
        const int room = l->look->width - b->width;
        if (table->align[c] == ZL_BAR && room > 0) {
            l->width[c] += room < BAR_MAX - BAR_MIN ? room : BAR_MAX - BAR_MIN;
        }
        text[c] = table->title[c];
    }
    put_row(l, b, text, l->look->color, out);
    for (size_t row = 0; row < table->count; row += table->columns) {
        for (size_t k = 0; k < b->count; k++) {
            const size_t c = b->column[k];
            if (table->align[c] == ZL_BAR) {
                draw(&s[c], table->cells[row + c].number, l->most[c], l->width[c], l->look->utf8);
                text[c] = s[c].text;
            } else {
                text[c] = shown(table, row + c, ZL_FORMAT_TABLE, &s[c]);
            }
        }
        put_row(l, b, text, false, out);
    }
}

static void block_add(const layout *l, block *b, size_t column)
{
    b->width += (b->count > 0 ? GAP : 0) + l->width[column];
    b->column[b->count++] = column;
}

static block block_of_keys(const layout *l)
{
    block b = {.count = 0};
    for (size_t c = 0; c < l->keys; c++) {
        block_add(l, &b, c);
    }
    return b;
}

/* Text is folded between words if it is the last column, or wider than any block leaves it. */
static bool folds(const layout *l, size_t column, int room, bool fresh)
{
    return l->table->align[column] == ZL_LEFT && room >= FOLD_MIN && l->word[column] <= room &&
           (fresh || column + 1 == l->table->columns);
}

static void print_aligned(layout *l, FILE *out)
{
    measure(l);
    const int limit = l->look->width;
    if (limit > 0) {
        choose_keys(l);
    }
    block b = block_of_keys(l);
    for (size_t c = l->keys; c < l->table->columns; c++) {
        const int room = limit - b.width - GAP;
        const bool fresh = b.count == l->keys;
        if (limit > 0 && l->width[c] > room) {
            if (folds(l, c, room, fresh)) {
                l->width[c] = room;
            } else if (!fresh) {
                put_block(l, &b, out);
                fputc('\n', out);
                b = block_of_keys(l);
                c--;
                continue;
            }
        }
        block_add(l, &b, c);
    }
    put_block(l, &b, out);
}

static void put_markdown(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        fputs(*text == '|' ? "\\" : "", out);
        fputc(*text, out);
    }
}

static void print_markdown(const zl_table *table, bool utf8, FILE *out)
{
    scratch s;
    const size_t last = table->columns - 1;
    for (size_t c = 0; c <= last; c++) {
        fprintf(out, "| %s %s", table->title[c], c == last ? "|\n" : "");
    }
    for (size_t c = 0; c <= last; c++) {
        fprintf(out, "|%s%s", table->align[c] == ZL_RIGHT ? "---:" : "---", c == last ? "|\n" : "");
    }
    for (size_t i = 0; i < table->count; i++) {
        const size_t c = i % table->columns;
        fputs("| ", out);
        if (table->align[c] == ZL_BAR) {
            draw(&s, table->cells[i].number, most_of(table, c), BAR_USUAL, utf8);
            fputs(s.text, out);
        } else {
            put_markdown(out, shown(table, i, ZL_FORMAT_MD, &s));
        }
        fputs(c == last ? " |\n" : " ", out);
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
    scratch s;
    const size_t last = table->columns - 1;
    for (size_t c = 0; c <= last; c++) {
        put_csv(out, table->title[c]);
        fputc(c == last ? '\n' : ',', out);
    }
    for (size_t i = 0; i < table->count; i++) {
        put_csv(out, shown(table, i, ZL_FORMAT_CSV, &s));
        fputc(i % table->columns == last ? '\n' : ',', out);
    }
}

zl_status zl_table_print(const zl_table *table, const zl_look *look, FILE *out, zl_err *err)
{
    layout l = {.table = table, .look = look};
    if (table == NULL || table->failed) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    if (table->columns == 0 || table->count % table->columns != 0) {
        return zl_fail(err, ZL_E_BUG, "a table of %zu columns has %zu cells: please report this",
                       table->columns, table->count);
    }
    switch (look->format) {
    case ZL_FORMAT_CSV:
        print_csv(table, out);
        break;
    case ZL_FORMAT_MD:
        print_markdown(table, look->utf8, out);
        break;
    case ZL_FORMAT_TABLE:
    case ZL_FORMAT_JSON:
    case ZL_FORMAT_COUNT:
        print_aligned(&l, out);
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
