/* Through libyaml's events: docs/decisions/0004 says why zl alone may know it. */
#include "yaml_file.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "zeroledger/text.h"

enum { DEPTH_MAX = 32, LINE_SIZE = 320 };

typedef struct reader {
    yaml_parser_t parser;
    const char *path;
    zl_json_writer *out;
    zl_warn *warn;
    void *context;
} reader;

/* ---- scalars: the resolvers of PyYAML's SafeLoader (resolver.py, constructor.py) ---- */

static bool is_one_of(const char *text, const char *const *words, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        found |= strcmp(words[i], text) == 0;
    }
    return found;
}

#define ONE_OF(text, words) is_one_of((text), (words), sizeof(words) / sizeof(words)[0])

/* The digits of a number of some base without their underscores; false: another character. */
static bool digits_of(const char *text, const char *digits, char *out)
{
    size_t used = 0;
    for (; *text != '\0'; text++) {
        if (*text != '_') {
            if (strchr(digits, *text) == NULL || used + 1 >= ZL_YAML_VALUE) {
                return false;
            }
            out[used++] = *text;
        }
    }
    out[used] = '\0';
    return used > 0;
}

/* 190:20:30 counts in sixties. */
static bool sexagesimal(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    bool colon = false;
    for (const char *c = text; *c != '\0';) {
        const size_t length = strspn(c, "0123456789");
        const bool small = length == 1 || (length == 2 && *c <= '5');
        if (length == 0 || length > 9 || (c > text && !small) || (c == text && *c == '0')) {
            return false;
        }
        value = value * 60 + strtoull(c, NULL, 10);
        c += length;
        colon |= *c == ':';
        if (*c != '\0' && (*c != ':' || *++c == '\0' || value > UINT64_MAX / 3600)) {
            return false;
        }
    }
    *out = value;
    return colon;
}

/* A whole number without its sign. */
static bool whole(const char *text, uint64_t *out)
{
    char digits[ZL_YAML_VALUE];
    const bool zero = text[0] == '0';
    int base = 10;
    bool good = false;
    if (zero && text[1] == 'b') {
        base = 2;
        good = digits_of(text + 2, "01", digits);
    } else if (zero && text[1] == 'x') {
        base = 16;
        good = digits_of(text + 2, "0123456789abcdefABCDEF", digits);
    } else if (zero && text[1] != '\0') {
        base = 8;
        good = digits_of(text + 1, "01234567", digits);
    } else {
        good = isdigit((unsigned char)text[0]) && digits_of(text, "0123456789", digits);
    }
    if (!good) {
        return sexagesimal(text, out);
    }
    char *end = NULL;
    errno = 0;
    *out = strtoull(digits, &end, base);
    return errno == 0 && *end == '\0';
}

/* Digits with a point, and an exponent only with its sign:
 * [-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)? and [-+]?\.[0-9][0-9_]*([eE][-+][0-9]+)? */
static bool real(const char *text, char value[ZL_YAML_VALUE])
{
    size_t used = 0;
    bool point = false;
    const char *c = text + (*text == '-' || *text == '+');
    if (!isdigit((unsigned char)*c) && !(*c == '.' && isdigit((unsigned char)c[1]))) {
        return false;
    }
    if (*text == '-') {
        value[used++] = '-';
    }
    for (; isdigit((unsigned char)*c) || *c == '_' || (*c == '.' && !point); c++) {
        point |= *c == '.';
        if (*c != '_' && used + 1 < ZL_YAML_VALUE) {
            value[used++] = *c;
        }
    }
    if (*c == 'e' || *c == 'E') {
        const size_t digits = c[1] == '-' || c[1] == '+' ? strspn(c + 2, "0123456789") : 0;
        if (digits == 0 || c[2 + digits] != '\0' || used + digits + 3 > ZL_YAML_VALUE) {
            return false;
        }
        memcpy(value + used, c, digits + 2);
        used += digits + 2;
        c += digits + 2;
    }
    value[used] = '\0';
    return point && *c == '\0' && used + 1 < ZL_YAML_VALUE;
}

zl_yaml_kind zl_yaml_resolve(const char *text, char value[ZL_YAML_VALUE])
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    static const char *const trues[] = {"true", "True", "TRUE", "yes", "Yes",
                                        "YES",  "on",   "On",   "ON"};
    static const char *const falses[] = {"false", "False", "FALSE", "no", "No",
                                         "NO",    "off",   "Off",   "OFF"};
    uint64_t count = 0;
    value[0] = '\0';
    if (ONE_OF(text, nulls)) {
        return ZL_YAML_NULL;
    }
    if (ONE_OF(text, trues) || ONE_OF(text, falses)) {
        snprintf(value, ZL_YAML_VALUE, "%s", ONE_OF(text, trues) ? "true" : "false");
        return ZL_YAML_BOOL;
    }
    const bool negative = text[0] == '-';
    if (whole(text + (negative || text[0] == '+'), &count)) {
        snprintf(value, ZL_YAML_VALUE, "%s%" PRIu64, negative && count > 0 ? "-" : "", count);
        return negative && count > 0 ? ZL_YAML_REAL : ZL_YAML_COUNT;
    }
    return real(text, value) ? ZL_YAML_REAL : ZL_YAML_STRING;
}

/* 5e7, 1e-5, 1.5e8: numbers elsewhere. */
static bool would_be_number(const char *text)
{
    char *end = NULL;
    const bool begins = isdigit((unsigned char)text[0]) || text[0] == '.' || text[0] == '-';
    if (!begins || strpbrk(text, "eE") == NULL || strpbrk(text, "xX") != NULL) {
        return false;
    }
    strtod(text, &end);
    return *end == '\0';
}

/* ---- events ---- */

static zl_status fail_here(const reader *r, yaml_mark_t mark, const char *what, zl_err *err)
{
    return zl_fail(err, ZL_E_INPUT, "%.200s:%zu:%zu: %s", r->path, mark.line + 1, mark.column + 1,
                   what);
}

/* The caller deletes the event. */
static zl_status next(reader *r, yaml_event_t *event, zl_err *err)
{
    if (yaml_parser_parse(&r->parser, event) != 0) {
        return ZL_OK;
    }
    memset(event, 0, sizeof *event);
    if (r->parser.error == YAML_MEMORY_ERROR) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory while reading %.200s", r->path);
    }
    return fail_here(r, r->parser.problem_mark,
                     r->parser.problem != NULL ? r->parser.problem : "this is no YAML", err);
}

/* The text of a scalar; its tag has to be one of JSON's types. */
static zl_status scalar_text(const reader *r, const yaml_event_t *event, const char **out,
                             zl_err *err)
{
    const char *text = (const char *)event->data.scalar.value;
    const char *tag = (const char *)event->data.scalar.tag;
    if (strlen(text) != event->data.scalar.length) {
        return fail_here(r, event->start_mark, "a text with a zero byte; leave it out", err);
    }
    if (tag != NULL && strcmp(tag, YAML_STR_TAG) != 0) {
        return fail_here(r, event->start_mark, "tags are not read; leave it out", err);
    }
    *out = text;
    return ZL_OK;
}

static void warn_number(const reader *r, const yaml_event_t *event, const char *key,
                        const char *text)
{
    char line[LINE_SIZE];
    if (r->warn != NULL && would_be_number(text)) {
        snprintf(
            line, sizeof line,
            "%.100s:%zu: %.60s%s%.40s is a text in YAML 1.1, whose exponents need a point and a "
            "sign, as in 5.0e+7",
            r->path, event->start_mark.line + 1, key != NULL ? key : "", key != NULL ? ": " : "",
            text);
        r->warn(r->context, line);
    }
}

static zl_status put_scalar(const reader *r, const yaml_event_t *event, const char *key,
                            zl_err *err)
{
    char value[ZL_YAML_VALUE];
    const char *text = "";
    ZL_TRY(scalar_text(r, event, &text, err));
    const bool plain =
        event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && event->data.scalar.tag == NULL;
    switch (plain ? zl_yaml_resolve(text, value) : ZL_YAML_STRING) {
    case ZL_YAML_STRING:
        zl_json_put_string(r->out, key, text);
        if (plain) {
            warn_number(r, event, key, text);
        }
        break;
    case ZL_YAML_NULL:
        zl_json_put_null(r->out, key);
        break;
    case ZL_YAML_BOOL:
        zl_json_put_bool(r->out, key, value[0] == 't');
        break;
    case ZL_YAML_COUNT:
        zl_json_put_u64(r->out, key, strtoull(value, NULL, 10));
        break;
    case ZL_YAML_REAL:
        zl_json_put_real(r->out, key, strtod(value, NULL));
        break;
    }
    return ZL_OK;
}

static zl_status put_value(reader *r, const yaml_event_t *event, const char *key, int depth,
                           zl_err *err);

/* A key and its value. */
static zl_status put_member(reader *r, const yaml_event_t *key, int depth, zl_err *err)
{
    yaml_event_t event;
    const char *name = "";
    if (key->type != YAML_SCALAR_EVENT) {
        return fail_here(r, key->start_mark, "a key must be a text", err);
    }
    ZL_TRY(scalar_text(r, key, &name, err));
    if (strcmp(name, "<<") == 0) {
        return fail_here(r, key->start_mark, "merge keys are not read; write the members out", err);
    }
    ZL_TRY(next(r, &event, err));
    const zl_status status = put_value(r, &event, name, depth, err);
    yaml_event_delete(&event);
    return status;
}

static zl_status put_collection(reader *r, bool mapping, const char *key, int depth, zl_err *err)
{
    const yaml_event_type_t end = mapping ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    zl_status status = ZL_OK;
    bool ended = false;
    if (mapping) {
        zl_json_begin_object(r->out, key);
    } else {
        zl_json_begin_array(r->out, key);
    }
    while (status == ZL_OK && !ended) {
        yaml_event_t event;
        ZL_TRY(next(r, &event, err));
        ended = event.type == end;
        if (!ended) {
            status = mapping ? put_member(r, &event, depth + 1, err)
                             : put_value(r, &event, NULL, depth + 1, err);
        }
        yaml_event_delete(&event);
    }
    zl_json_end(r->out);
    return status;
}

static zl_status put_value(reader *r, const yaml_event_t *event, const char *key, int depth,
                           zl_err *err)
{
    const bool mapping = event->type == YAML_MAPPING_START_EVENT;
    if (event->type == YAML_ALIAS_EVENT) {
        return fail_here(r, event->start_mark, "aliases are not read; write the value out", err);
    }
    if (event->type == YAML_SCALAR_EVENT) {
        return put_scalar(r, event, key, err);
    }
    if (!mapping && event->type != YAML_SEQUENCE_START_EVENT) {
        return fail_here(r, event->start_mark, "a value is missing", err);
    }
    const yaml_char_t *tag =
        mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag;
    if (tag != NULL) {
        return fail_here(r, event->start_mark, "tags are not read; leave it out", err);
    }
    if (depth == DEPTH_MAX) {
        return fail_here(r, event->start_mark, "nesting may be at most 32 deep", err);
    }
    return put_collection(r, mapping, key, depth, err);
}

/* One event of the stream around the document. */
static zl_status skip(reader *r, yaml_event_type_t wanted, const char *otherwise, zl_err *err)
{
    yaml_event_t event;
    ZL_TRY(next(r, &event, err));
    const zl_status status =
        event.type == wanted ? ZL_OK : fail_here(r, event.start_mark, otherwise, err);
    yaml_event_delete(&event);
    return status;
}

static zl_status put_document(reader *r, zl_err *err)
{
    yaml_event_t event;
    ZL_TRY(skip(r, YAML_STREAM_START_EVENT, "this is no YAML", err));
    ZL_TRY(skip(r, YAML_DOCUMENT_START_EVENT, "the file is empty", err));
    ZL_TRY(next(r, &event, err));
    const zl_status status = put_value(r, &event, NULL, 0, err);
    yaml_event_delete(&event);
    ZL_TRY(status);
    ZL_TRY(skip(r, YAML_DOCUMENT_END_EVENT, "this is no YAML", err));
    return skip(r, YAML_STREAM_END_EVENT, "a second document; keep one", err);
}

const char *zl_yaml_version(void)
{
    return yaml_get_version_string();
}

zl_status zl_yaml_load(const char *path, zl_json_doc **out, zl_warn *warn, void *context,
                       zl_err *err)
{
    char *text = NULL;
    size_t size = 0;
    const bool standard = strcmp(path, "-") == 0;
    reader r = {.path = standard ? "standard input" : path, .warn = warn, .context = context};
    ZL_TRY(zl_file_read(path, &text, &size, err));
    r.out = zl_json_writer_new();
    if (yaml_parser_initialize(&r.parser) == 0) {
        zl_json_writer_free(r.out);
        free(text);
        return zl_fail(err, ZL_E_RESOURCE, "out of memory while reading %.200s", r.path);
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
    zl_status status = put_document(&r, err);
    yaml_parser_delete(&r.parser);
    free(text);
    if (status == ZL_OK) {
        size_t length = 0;
        const char *json = zl_json_writer_text(r.out, &length);
        status = json != NULL
                     ? zl_json_parse(r.path, json, length, out, err)
                     : zl_fail(err, ZL_E_RESOURCE, "out of memory while reading %.200s", r.path);
    }
    zl_json_writer_free(r.out);
    return status;
}
