/* nvidia-smi --query-gpu=... --format=csv: the largest sample of every GPU. */
#include <string.h>

#include "torch/log_read.h"

static const uint64_t mib = UINT64_C(1) << 20;

enum { COLUMNS_MAX = 64, GPUS_MAX = 64 };

typedef struct smi_table {
    size_t used_column;
    size_t index_column; /* COLUMNS_MAX: none */
    size_t columns;
    zt_printed most[GPUS_MAX];
} smi_table;

static zt_cursor line_of(zt_cursor *c)
{
    const char *end = memchr(c->at, '\n', c->left);
    const zt_cursor line = {c->at, end != NULL ? (size_t)(end - c->at) : c->left};
    zt_advance(c, line.left + 1);
    return line;
}

/* The index-th field of a line; false past the end. */
static bool field_of(zt_cursor line, size_t index, zt_cursor *out)
{
    for (;; index--) {
        const char *comma = memchr(line.at, ',', line.left);
        const size_t length = comma != NULL ? (size_t)(comma - line.at) : line.left;
        if (index == 0) {
            *out = (zt_cursor){line.at, length};
            return true;
        }
        if (comma == NULL) {
            return false;
        }
        zt_advance(&line, length + 1);
    }
}

static bool smi_row(zt_cursor line, smi_table *t)
{
    zt_cursor field;
    zt_printed used = {0};
    uint64_t gpu = 0;
    if (!field_of(line, t->columns - 1, &field) || field_of(line, t->columns, &field) ||
        !field_of(line, t->used_column, &field) || !zt_take_number(&field, mib, ZT_DOWN, &used)) {
        return false;
    }
    if (t->index_column < COLUMNS_MAX && field_of(line, t->index_column, &field) &&
        !zt_take_count(&field, &gpu)) {
        return false;
    }
    if (gpu >= GPUS_MAX) {
        return false;
    }
    if (!t->most[gpu].present || used.low > t->most[gpu].low) {
        t->most[gpu] = used;
    }
    return true;
}

/* Rows up to the first that is none. */
static zt_cursor smi_rows(zt_cursor rows, smi_table *t)
{
    while (rows.left > 0) {
        const zt_cursor before = rows;
        if (!smi_row(line_of(&rows), t)) {
            return before;
        }
    }
    return rows;
}

static void add_gpus(zt_log_reader *r, const smi_table *t, const char *at)
{
    for (size_t gpu = 0; gpu < GPUS_MAX; gpu++) {
        zt_sighting *s = t->most[gpu].present ? zt_log_add(r, ZT_NVIDIA_SMI, at) : NULL;
        if (s != NULL) {
            s->number = gpu;
            s->figure[ZT_DEVICE_USED] = t->most[gpu];
            memcpy(s->message, "largest sample", sizeof "largest sample");
        }
    }
}

bool zt_log_read_smi(zt_log_reader *r, zt_cursor *c)
{
    const char *begin = c->at;
    while (begin > r->text && begin[-1] != '\n') {
        begin--;
    }
    zt_cursor ahead = {begin, c->left + (size_t)(c->at - begin)};
    const zt_cursor title = line_of(&ahead);
    smi_table t = {.used_column = COLUMNS_MAX, .index_column = COLUMNS_MAX};
    zt_cursor field;
    for (; t.columns < COLUMNS_MAX && field_of(title, t.columns, &field); t.columns++) {
        if (zt_take(&field, "memory.used")) {
            t.used_column = t.columns;
        } else if (zt_take(&field, "index")) {
            t.index_column = t.columns;
        }
    }
    if (t.used_column == COLUMNS_MAX) {
        return false;
    }
    const zt_cursor rest = smi_rows(ahead, &t);
    add_gpus(r, &t, c->at);
    const bool some = rest.at > ahead.at;
    *c = some ? rest : *c;
    return some;
}

void zt_log_read_bare_smi(zt_log_reader *r)
{
    zt_cursor all = {r->text, r->size};
    zt_cursor rest = all;
    const zt_cursor row = line_of(&rest);
    smi_table t = {.used_column = COLUMNS_MAX, .index_column = COLUMNS_MAX};
    zt_cursor field;
    for (; t.columns < COLUMNS_MAX && field_of(row, t.columns, &field); t.columns++) {
        uint64_t number = 0;
        if (!zt_take_count(&field, &number)) {
            continue;
        }
        if (zt_take(&field, "MiB")) {
            if (t.used_column < COLUMNS_MAX) {
                return; /* used or total, which is which? */
            }
            t.used_column = t.columns;
        } else if (t.used_column == COLUMNS_MAX && t.index_column == COLUMNS_MAX &&
                   field.left == 0) {
            t.index_column = t.columns;
        }
    }
    if (t.used_column < COLUMNS_MAX) {
        rest = smi_rows(all, &t);
        zt_skip_space(&rest);
        if (rest.left == 0) {
            add_gpus(r, &t, r->text);
        }
    }
}
