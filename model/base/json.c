#include "zeroledger/json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_scan.h"
#include "text_internal.h"
#include "zeroledger/bytes.h"
#include "zeroledger/text.h"

/* cJSON keeps a number as a double only, so each number node carries its source text in
 * valuestring, which cJSON leaves alone and frees. Integers are read from there, exactly. */
struct zl_json_doc {
    cJSON *root;
};

/* The largest integer up to which every one is exact in the doubles of other JSON readers. */
static const uint64_t integer_limit = UINT64_C(1) << 53;

static const cJSON *node_of(zl_json value)
{
    return value.node;
}

static const char *path_of(const zl_json *value)
{
    return value->path[0] == '\0' ? "the top level" : value->path;
}

static zl_json member(const zl_json *object, const cJSON *node, const char *key)
{
    zl_json value = {.node = node};
    const int used = snprintf(value.path, sizeof value.path, "%s%s%s", object->path,
                              object->path[0] == '\0' ? "" : ".", key);
    if (used >= (int)sizeof value.path) {
        memcpy(value.path + sizeof value.path - 4, "...", 4);
    }
    return value;
}

static zl_json element(const zl_json *array, const cJSON *node, size_t index)
{
    zl_json value = {.node = node};
    const int used = snprintf(value.path, sizeof value.path, "%s[%zu]", array->path, index);
    if (used >= (int)sizeof value.path) {
        memcpy(value.path + sizeof value.path - 4, "...", 4);
    }
    return value;
}

static zl_status attach_numbers(cJSON *node, const char **cursor, const char *end, zl_err *err)
{
    for (; node != NULL; node = node->next) {
        if (cJSON_IsNumber(node)) {
            size_t length = 0;
            const char *token = zl_json_next_number(cursor, end, &length);
            node->valuestring = token != NULL ? cJSON_malloc(length + 1) : NULL;
            if (node->valuestring == NULL) {
                return zl_fail(err, ZL_E_RESOURCE, "out of memory while reading JSON");
            }
            memcpy(node->valuestring, token, length);
            node->valuestring[length] = '\0';
        }
        ZL_TRY(attach_numbers(node->child, cursor, end, err));
    }
    return ZL_OK;
}

static int by_key(const void *a, const void *b)
{
    const cJSON *const *x = a;
    const cJSON *const *y = b;
    return strcmp((*x)->string, (*y)->string);
}

/* Whether two values print alike. */
static zl_status same_value(const cJSON *a, const cJSON *b, bool *out, zl_err *err)
{
    char *x = cJSON_PrintUnformatted(a);
    char *y = cJSON_PrintUnformatted(b);
    const bool complete = x != NULL && y != NULL;
    *out = complete && strcmp(x, y) == 0;
    cJSON_free(x);
    cJSON_free(y);
    return complete ? ZL_OK : zl_fail(err, ZL_E_RESOURCE, "out of memory while reading JSON");
}

/* Members sorted by key, on the heap; NULL in *out where there are fewer than two. */
static zl_status sort_keys(const zl_json *object, const cJSON ***out, size_t *out_count,
                           zl_err *err)
{
    const size_t count = zl_json_is_object(*object) ? zl_json_size(*object) : 0;
    const cJSON **sorted = NULL;
    size_t n = 0;
    if (count > 1) {
        sorted = malloc(count * sizeof *sorted);
        if (sorted == NULL) {
            return zl_fail(err, ZL_E_RESOURCE, "out of memory while reading JSON");
        }
        const cJSON *node = node_of(*object)->child;
        for (; node != NULL && n < count; node = node->next) {
            sorted[n++] = node;
        }
        qsort(sorted, n, sizeof *sorted, by_key);
    }
    *out = sorted;
    *out_count = n;
    return ZL_OK;
}

/* A text being read, and what it was parsed into. */
typedef struct reading {
    const char *name;
    const char *text;
    size_t size;
    const cJSON *root;
    zl_json_lapses *lapses;
} reading;

/* Keys in document order before `wanted`. Depth is bounded by the parser. */
static bool keys_before(const cJSON *node, const cJSON *wanted, /* NOLINT(misc-no-recursion) */
                        size_t *count)
{
    for (; node != NULL; node = node->next) {
        if (node == wanted) {
            return true;
        }
        *count += node->string != NULL;
        if (keys_before(node->child, wanted, count)) {
            return true;
        }
    }
    return false;
}

/* Where the later of two members stands. */
static zl_json_place place_of_later(const reading *r, const cJSON *a, const cJSON *b)
{
    size_t first = 0;
    size_t second = 0;
    keys_before(r->root, a, &first);
    keys_before(r->root, b, &second);
    return zl_json_key_place(r->text, r->size, first > second ? first : second);
}

/* Keys are compared with their case. Equal values are a blemish that foreign files may have;
 * different ones leave open which was meant. */
static zl_status check_pair(const reading *r, const zl_json *object, const cJSON *a, const cJSON *b,
                            zl_err *err)
{
    bool same = false;
    if (strcmp(a->string, b->string) != 0) {
        return ZL_OK;
    }
    ZL_TRY(same_value(a, b, &same, err));
    if (same && r->lapses->repeat != 0) {
        return ZL_OK;
    }
    const zl_json_place place = place_of_later(r, a, b);
    if (same) {
        r->lapses->repeat = place.line;
        return ZL_OK;
    }
    const zl_json twice = member(object, b, b->string);
    return zl_fail(err, ZL_E_INPUT,
                   "%.200s:%zu:%zu: %s is given twice with different values; keep one of them",
                   r->name, place.line, place.column, twice.path);
}

static zl_status check_keys(const reading *r, const zl_json *object, zl_err *err)
{
    const cJSON **sorted = NULL;
    size_t n = 0;
    ZL_TRY(sort_keys(object, &sorted, &n, err));
    zl_status status = ZL_OK;
    for (size_t i = 1; i < n && status == ZL_OK; i++) {
        status = check_pair(r, object, sorted[i - 1], sorted[i], err);
    }
    free(sorted);
    return status;
}

static zl_status check_tree(const reading *r, const zl_json *value, zl_err *err)
{
    ZL_TRY(check_keys(r, value, err));
    size_t index = 0;
    for (const cJSON *node = node_of(*value)->child; node != NULL; node = node->next, index++) {
        if (node->child != NULL) {
            const zl_json inner = node->string != NULL ? member(value, node, node->string)
                                                       : element(value, node, index);
            ZL_TRY(check_tree(r, &inner, err));
        }
    }
    return ZL_OK;
}

/* A text that the scanner accepted. */
static zl_status build(const char *name, const char *text, size_t size, zl_json_lapses *lapses,
                       zl_json_doc **out, zl_err *err)
{
    zl_json_doc *doc = malloc(sizeof *doc);
    cJSON *root = doc != NULL ? cJSON_ParseWithLength(text, size) : NULL;
    if (root == NULL) {
        free(doc);
        return zl_fail(err, ZL_E_RESOURCE, "%.200s: out of memory while reading JSON", name);
    }
    doc->root = root;
    const zl_json top = {.node = root};
    const reading r = {.name = name, .text = text, .size = size, .root = root, .lapses = lapses};
    const char *cursor = text;
    zl_status status = attach_numbers(root, &cursor, text + size, err);
    if (status == ZL_OK) {
        status = check_tree(&r, &top, err);
    }
    if (status != ZL_OK) {
        zl_json_free(doc);
        return status;
    }
    *out = doc;
    return ZL_OK;
}

/* Bytes of the byte order mark that a text begins with. */
static size_t mark_size(const char *text, size_t size)
{
    static const char mark[] = "\xef\xbb\xbf";
    return size >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
}

zl_status zl_json_parse(const char *name, const char *text, size_t size, zl_json_doc **out,
                        zl_err *err)
{
    const size_t mark = mark_size(text, size);
    zl_json_lapses lapses = {0};
    ZL_TRY(zl_json_scan(name, text + mark, size - mark, err));
    return build(name, text + mark, size - mark, &lapses, out, err);
}

zl_status zl_json_parse_lenient(const char *name, const char *text, size_t size, zl_json_doc **out,
                                zl_json_lapses *lapses, zl_err *err)
{
    const size_t mark = mark_size(text, size);
    zl_json_lapses found = {.mark = mark > 0};
    size -= mark;
    char *blanked = malloc(size + 1);
    if (blanked == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "%.200s: out of memory while reading JSON", name);
    }
    zl_status status = zl_json_scan_lenient(name, text + mark, size, blanked, &found, err);
    if (status == ZL_OK) {
        status = build(name, blanked, size, &found, out, err);
    }
    free(blanked);
    if (status == ZL_OK) {
        *lapses = found;
    }
    return status;
}

static const char *shown_path(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

zl_status zl_json_load(const char *path, zl_json_doc **out, zl_err *err)
{
    char *text = NULL;
    size_t size = 0;
    ZL_TRY(zl_file_read(path, &text, &size, err));
    const zl_status status = zl_json_parse(shown_path(path), text, size, out, err);
    free(text);
    return status;
}

zl_status zl_json_load_lenient(const char *path, zl_json_doc **out, zl_json_lapses *lapses,
                               zl_err *err)
{
    char *text = NULL;
    size_t size = 0;
    ZL_TRY(zl_file_read(path, &text, &size, err));
    const zl_status status = zl_json_parse_lenient(shown_path(path), text, size, out, lapses, err);
    free(text);
    return status;
}

void zl_json_free(zl_json_doc *doc)
{
    if (doc != NULL) {
        cJSON_Delete(doc->root);
        free(doc);
    }
}

zl_json zl_json_root(const zl_json_doc *doc)
{
    return (zl_json){.node = doc->root};
}

zl_json zl_json_get(zl_json object, const char *key)
{
    const cJSON *node = NULL;
    if (zl_json_is_object(object)) {
        node = cJSON_GetObjectItemCaseSensitive(node_of(object), key);
    }
    return member(&object, cJSON_IsNull(node) ? NULL : node, key);
}

zl_json zl_json_item(zl_json array, size_t index)
{
    const cJSON *node = zl_json_is_array(array) ? node_of(array)->child : NULL;
    for (size_t i = 0; i < index && node != NULL; i++) {
        node = node->next;
    }
    return element(&array, node, index);
}

bool zl_json_each(zl_json array, size_t *index, zl_json *item)
{
    const cJSON *node = NULL;
    if (*index > 0) {
        node = node_of(*item)->next;
    } else if (zl_json_is_array(array)) {
        node = node_of(array)->child;
    }
    if (node == NULL) {
        return false;
    }
    *item = element(&array, node, *index);
    (*index)++;
    return true;
}

bool zl_json_each_member(zl_json object, size_t *index, const char **key, zl_json *value)
{
    const cJSON *node = NULL;
    if (*index > 0) {
        node = node_of(*value)->next;
    } else if (zl_json_is_object(object)) {
        node = node_of(object)->child;
    }
    if (node == NULL) {
        return false;
    }
    *key = node->string;
    *value = member(&object, node, node->string);
    (*index)++;
    return true;
}

size_t zl_json_size(zl_json value)
{
    size_t count = 0;
    if (zl_json_is_object(value) || zl_json_is_array(value)) {
        for (const cJSON *node = node_of(value)->child; node != NULL; node = node->next) {
            count++;
        }
    }
    return count;
}

const char *zl_json_key(zl_json object, size_t index)
{
    const cJSON *node = zl_json_is_object(object) ? node_of(object)->child : NULL;
    for (size_t i = 0; i < index && node != NULL; i++) {
        node = node->next;
    }
    return node != NULL ? node->string : NULL;
}

bool zl_json_is_object(zl_json value)
{
    return cJSON_IsObject(node_of(value));
}

bool zl_json_is_array(zl_json value)
{
    return cJSON_IsArray(node_of(value));
}

bool zl_json_is_string(zl_json value)
{
    return cJSON_IsString(node_of(value));
}

bool zl_json_is_number(zl_json value)
{
    return cJSON_IsNumber(node_of(value));
}

bool zl_json_is_bool(zl_json value)
{
    return cJSON_IsBool(node_of(value));
}

/* "PATH must be WANTED, got VALUE". */
static zl_status wrong(zl_json value, const char *wanted, zl_err *err)
{
    const cJSON *node = node_of(value);
    if (node == NULL) {
        return zl_fail(err, ZL_E_INPUT, "%s is missing; it must be %s", path_of(&value), wanted);
    }
    if (cJSON_IsString(node)) {
        return zl_fail(err, ZL_E_INPUT, "%s must be %s, got the string \"%.60s\"", path_of(&value),
                       wanted, node->valuestring);
    }
    const char *got = cJSON_IsNumber(node)   ? node->valuestring
                      : cJSON_IsTrue(node)   ? "true"
                      : cJSON_IsFalse(node)  ? "false"
                      : cJSON_IsObject(node) ? "an object"
                      : cJSON_IsArray(node)  ? "an array"
                                             : "null";
    return zl_fail(err, ZL_E_INPUT, "%s must be %s, got %s", path_of(&value), wanted, got);
}

/* A decimal number taken apart: digits without point and leading zeros, times ten^exponent. */
typedef struct decimal {
    char digits[ZL_JSON_NUMBER_SIZE];
    long exponent;
} decimal;

static decimal decimal_of(const char *token)
{
    decimal d = {.exponent = 0};
    size_t n = 0;
    bool point = false;
    const char *c = token + (*token == '-');
    for (; *c != '\0' && *c != 'e' && *c != 'E'; c++) {
        if (*c == '.') {
            point = true;
            continue;
        }
        d.exponent -= point;
        if (n > 0 || *c != '0') {
            d.digits[n++] = *c;
        }
    }
    if (*c != '\0') {
        /* Saturates far beyond any length a token can have. */
        const long written = strtol(c + 1, NULL, 10);
        d.exponent += written > 1000 ? 1000 : written < -1000 ? -1000 : written;
    }
    while (n > 0 && d.digits[n - 1] == '0') {
        n--;
        d.exponent++;
    }
    d.digits[n] = '\0';
    return d;
}

zl_status zl_json_u64(zl_json value, uint64_t *out, zl_err *err)
{
    if (!zl_json_is_number(value)) {
        return wrong(value, "a whole number", err);
    }
    const char *token = node_of(value)->valuestring;
    const decimal d = decimal_of(token);
    uint64_t n = 0;
    if (d.digits[0] != '\0') {
        if (d.exponent < 0) {
            return wrong(value, "a whole number", err);
        }
        if (*token == '-') {
            return wrong(value, "a whole number that is not negative", err);
        }
        if (!zl_count_scan(d.digits, &n)) {
            n = ZL_POISON;
        }
        for (long i = 0; i < d.exponent && n <= integer_limit; i++) {
            n = zl_mul(n, 10);
        }
    }
    if (n > integer_limit) {
        return wrong(value,
                     "a whole number up to 2^53 = 9007199254740992 (JSON carries no more exactly)",
                     err);
    }
    *out = n;
    return ZL_OK;
}

zl_status zl_json_real(zl_json value, double *out, zl_err *err)
{
    if (!zl_json_is_number(value)) {
        return wrong(value, "a number", err);
    }
    return zl_real_scan(node_of(value)->valuestring, out) ? ZL_OK
                                                          : wrong(value, "a finite number", err);
}

zl_status zl_json_bool(zl_json value, bool *out, zl_err *err)
{
    if (!zl_json_is_bool(value)) {
        return wrong(value, "true or false", err);
    }
    *out = cJSON_IsTrue(node_of(value));
    return ZL_OK;
}

zl_status zl_json_string(zl_json value, const char **out, zl_err *err)
{
    if (!zl_json_is_string(value)) {
        return wrong(value, "a string", err);
    }
    *out = node_of(value)->valuestring;
    return ZL_OK;
}

/* In our own files every key stands once. */
static zl_status refuse_repeats(const zl_json *object, zl_err *err)
{
    const cJSON **sorted = NULL;
    size_t n = 0;
    ZL_TRY(sort_keys(object, &sorted, &n, err));
    zl_status status = ZL_OK;
    for (size_t i = 1; i < n && status == ZL_OK; i++) {
        if (strcmp(sorted[i - 1]->string, sorted[i]->string) == 0) {
            const zl_json twice = member(object, sorted[i], sorted[i]->string);
            status = zl_fail(err, ZL_E_INPUT, "%s is given twice; keep one of them", twice.path);
        }
    }
    free(sorted);
    return status;
}

zl_status zl_json_only(zl_json object, const char *const *keys, size_t count, zl_err *err)
{
    if (!zl_json_is_object(object)) {
        return wrong(object, "an object", err);
    }
    for (const cJSON *node = node_of(object)->child; node != NULL; node = node->next) {
        size_t i = 0;
        while (i < count && strcmp(keys[i], node->string) != 0) {
            i++;
        }
        if (i == count) {
            const zl_json unknown = member(&object, node, node->string);
            const char *near = zl_nearest(node->string, keys, count);
            return zl_fail(err, ZL_E_INPUT, "%s is not a known key; %s%s", unknown.path,
                           near != NULL ? "did you mean " : "remove it", near != NULL ? near : "");
        }
    }
    return refuse_repeats(&object, err);
}

zl_status zl_json_schema(zl_json object, const char *schema, zl_err *err)
{
    const char *got = "";
    if (!zl_json_is_object(object)) {
        return wrong(object, "an object", err);
    }
    const zl_json value = zl_json_get(object, "schema");
    ZL_TRY(zl_json_string(value, &got, err));
    if (strcmp(got, schema) != 0) {
        return zl_fail(err, ZL_E_INPUT, "%s must be \"%s\", got \"%.60s\"", value.path, schema,
                       got);
    }
    return ZL_OK;
}

static void put_number(zl_json_writer *w, const char *key, zl_json value)
{
    uint64_t count = 0;
    double real = 0;
    if (zl_json_u64(value, &count, NULL) == ZL_OK) {
        zl_json_put_u64(w, key, count);
    } else if (zl_json_real(value, &real, NULL) == ZL_OK) {
        zl_json_put_real(w, key, real);
    } else { /* too large for a double: whoever reads it says so */
        zl_json_put_number(w, key, node_of(value)->valuestring);
    }
}

/* Depth is bounded by the parser. NOLINTNEXTLINE(misc-no-recursion) */
static void put_members(zl_json_writer *w, zl_json value)
{
    const cJSON *item = NULL;
    const bool object = zl_json_is_object(value);
    cJSON_ArrayForEach(item, node_of(value))
    {
        const char *key = object ? item->string : NULL;
        if (!object || cJSON_GetObjectItemCaseSensitive(node_of(value), key) == item) {
            zl_json_put(w, key, (zl_json){.node = item});
        }
    }
}

/* NOLINTNEXTLINE(misc-no-recursion) */
void zl_json_put(zl_json_writer *w, const char *key, zl_json value)
{
    const cJSON *node = node_of(value);
    if (zl_json_is_object(value) || zl_json_is_array(value)) {
        zl_json_is_object(value) ? zl_json_begin_object(w, key) : zl_json_begin_array(w, key);
        put_members(w, value);
        zl_json_end(w);
    } else if (zl_json_is_string(value)) {
        zl_json_put_string(w, key, node->valuestring);
    } else if (zl_json_is_number(value)) {
        put_number(w, key, value);
    } else if (zl_json_is_bool(value)) {
        zl_json_put_bool(w, key, cJSON_IsTrue(node));
    } else {
        zl_json_put_null(w, key);
    }
}
