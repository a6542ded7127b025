#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_scan.h"
#include "text_internal.h"
#include "zeroledger/json.h"
#include "zeroledger/text.h"

typedef struct level {
    bool array;
    bool filled; /* has a member already */
} level;

struct zl_json_writer {
    char *text;
    size_t size;
    size_t capacity;
    level levels[ZL_JSON_DEPTH];
    size_t depth;
    zl_status status; /* ZL_E_RESOURCE: memory ran out; ZL_E_BUG: misuse */
};

zl_json_writer *zl_json_writer_new(void)
{
    return calloc(1, sizeof(zl_json_writer));
}

void zl_json_writer_free(zl_json_writer *w)
{
    if (w != NULL) {
        free(w->text);
        free(w);
    }
}

static bool usable(const zl_json_writer *w)
{
    return w != NULL && w->status == ZL_OK;
}

static void append(zl_json_writer *w, const char *text, size_t size)
{
    if (w->status != ZL_OK) {
        return;
    }
    if (w->capacity - w->size <= size) {
        const size_t capacity = 2 * (w->capacity + size) + 1024;
        char *grown = realloc(w->text, capacity);
        if (grown == NULL) {
            w->status = ZL_E_RESOURCE;
            return;
        }
        w->text = grown;
        w->capacity = capacity;
    }
    memcpy(w->text + w->size, text, size);
    w->size += size;
    w->text[w->size] = '\0';
}

static void append_text(zl_json_writer *w, const char *text)
{
    append(w, text, strlen(text));
}

static void append_quoted(zl_json_writer *w, const char *text)
{
    append_text(w, "\"");
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            append_text(w, "\\");
            append(w, c, 1);
        } else if (*c == '\n') {
            append_text(w, "\\n");
        } else if (*c == '\t') {
            append_text(w, "\\t");
        } else if ((unsigned char)*c < 0x20) {
            char escape[8];
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*c);
            append_text(w, escape);
        } else {
            append(w, c, 1);
        }
    }
    append_text(w, "\"");
}

static void new_line(zl_json_writer *w)
{
    append_text(w, "\n");
    for (size_t i = 0; i < w->depth; i++) {
        append_text(w, "  ");
    }
}

/* Comma, line and key of a value; false if no value may stand here. */
static bool open_value(zl_json_writer *w, const char *key)
{
    if (!usable(w)) {
        return false;
    }
    const bool keyed = w->depth > 0 && !w->levels[w->depth - 1].array;
    if (keyed != (key != NULL) || (w->depth == 0 && w->size > 0)) {
        w->status = ZL_E_BUG;
        return false;
    }
    if (w->depth > 0) {
        level *parent = &w->levels[w->depth - 1];
        if (parent->filled) {
            append_text(w, ",");
        }
        parent->filled = true;
        new_line(w);
    }
    if (key != NULL) {
        append_quoted(w, key);
        append_text(w, ": ");
    }
    return true;
}

static void begin(zl_json_writer *w, const char *key, bool array)
{
    if (!open_value(w, key)) {
        return;
    }
    if (w->depth == ZL_JSON_DEPTH) {
        w->status = ZL_E_BUG;
        return;
    }
    w->levels[w->depth] = (level){.array = array};
    w->depth++;
    append_text(w, array ? "[" : "{");
}

void zl_json_begin_object(zl_json_writer *w, const char *key)
{
    begin(w, key, false);
}

void zl_json_begin_array(zl_json_writer *w, const char *key)
{
    begin(w, key, true);
}

/* A document ends with a newline. */
static void close_value(zl_json_writer *w)
{
    if (w->depth == 0) {
        append_text(w, "\n");
    }
}

void zl_json_end(zl_json_writer *w)
{
    if (!usable(w)) {
        return;
    }
    if (w->depth == 0) {
        w->status = ZL_E_BUG;
        return;
    }
    w->depth--;
    const level closed = w->levels[w->depth];
    if (closed.filled) {
        new_line(w);
    }
    append_text(w, closed.array ? "]" : "}");
    close_value(w);
}

static void put(zl_json_writer *w, const char *key, const char *text)
{
    if (open_value(w, key)) {
        append_text(w, text);
        close_value(w);
    }
}

void zl_json_put_string(zl_json_writer *w, const char *key, const char *value)
{
    if (open_value(w, key)) {
        append_quoted(w, value);
        close_value(w);
    }
}

void zl_json_put_u64(zl_json_writer *w, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    put(w, key, text);
}

void zl_json_put_real(zl_json_writer *w, const char *key, double value)
{
    char text[ZL_REAL_SIZE];
    if (!isfinite(value)) {
        if (usable(w)) {
            w->status = ZL_E_BUG;
        }
        return;
    }
    zl_real_format(value, text);
    put(w, key, text);
}

void zl_json_put_number(zl_json_writer *w, const char *key, const char *digits)
{
    put(w, key, digits);
}

void zl_json_put_bool(zl_json_writer *w, const char *key, bool value)
{
    put(w, key, value ? "true" : "false");
}

void zl_json_put_null(zl_json_writer *w, const char *key)
{
    put(w, key, "null");
}

const char *zl_json_writer_text(const zl_json_writer *w, size_t *size)
{
    if (!usable(w)) {
        return NULL;
    }
    if (size != NULL) {
        *size = w->size;
    }
    return w->text != NULL ? w->text : "";
}

zl_status zl_json_writer_save(const zl_json_writer *w, const char *path, zl_err *err)
{
    if (w == NULL || w->status == ZL_E_RESOURCE) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory while writing %.200s", path);
    }
    if (w->status != ZL_OK || w->depth > 0 || w->size == 0) {
        return zl_fail(err, ZL_E_BUG,
                       "a JSON document for %.200s was not finished; please report this", path);
    }
    return zl_file_write(path, w->text, w->size, err);
}
