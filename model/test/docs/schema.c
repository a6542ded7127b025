#define _POSIX_C_SOURCE 200809L /* regex */
#include "schema.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>

/* A schema, the file it is in, and what it is for. */
typedef struct rule {
    zt_schemas *all;
    const char *file;
    zl_json schema;
    zl_err *err;
} rule;

static zl_status check(const rule *r, zl_json value);

void zt_schemas_release(zt_schemas *schemas)
{
    for (size_t i = 0; i < schemas->count; i++) {
        zl_json_free(schemas->file[i].doc);
    }
    schemas->count = 0;
}

static zl_status open_file(zt_schemas *all, const char *name, size_t *out, zl_err *err)
{
    char path[4096];
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->file[i].name, name) == 0) {
            *out = i;
            return ZL_OK;
        }
    }
    if (all->count == ZT_SCHEMAS_MAX || strlen(name) >= sizeof all->file[0].name) {
        return zl_fail(err, ZL_E_INPUT, "%s: too many schemas, or too long a name", name);
    }
    snprintf(path, sizeof path, "%s/%s", all->folder, name);
    ZL_TRY(zl_json_load(path, &all->file[all->count].doc, err));
    snprintf(all->file[all->count].name, sizeof all->file[0].name, "%s", name);
    *out = all->count++;
    return ZL_OK;
}

static const char *text_of(zl_json value)
{
    const char *text = NULL;
    return zl_json_is_string(value) && zl_json_string(value, &text, NULL) == ZL_OK ? text : NULL;
}

static const char *place(const zl_json *value)
{
    return value->path[0] != '\0' ? value->path : "the document";
}

/* Whole numbers below 0, which zl_json_u64 does not read: a step before the first is -1. */
static bool is_negative_whole(zl_json value)
{
    double x = 0.0;
    return zl_json_real(value, &x, NULL) == ZL_OK && x < 0.0 && x >= -1e15 &&
           x >= (double)(int64_t)x && x <= (double)(int64_t)x;
}

static bool is_type(zl_json value, const char *type)
{
    uint64_t whole = 0;
    if (strcmp(type, "object") == 0) {
        return zl_json_is_object(value);
    }
    if (strcmp(type, "array") == 0) {
        return zl_json_is_array(value);
    }
    if (strcmp(type, "string") == 0) {
        return zl_json_is_string(value);
    }
    if (strcmp(type, "boolean") == 0) {
        return zl_json_is_bool(value);
    }
    if (strcmp(type, "number") == 0) {
        return zl_json_is_number(value);
    }
    if (strcmp(type, "integer") == 0) {
        return zl_json_is_number(value) &&
               (zl_json_u64(value, &whole, NULL) == ZL_OK || is_negative_whole(value));
    }
    return strcmp(type, "null") == 0 &&
           !(zl_json_is_object(value) || zl_json_is_array(value) || zl_json_is_string(value) ||
             zl_json_is_number(value) || zl_json_is_bool(value));
}

static zl_status check_type(const rule *r, zl_json types, zl_json value)
{
    const char *one = text_of(types);
    bool fits = one != NULL && is_type(value, one);
    for (size_t i = 0; i < zl_json_size(types); i++) {
        const char *type = text_of(zl_json_item(types, i));
        fits = fits || (type != NULL && is_type(value, type));
    }
    return fits ? ZL_OK
                : zl_fail(r->err, ZL_NO, "%s: is not of type %s", place(&value),
                          one != NULL ? one : "allowed");
}

/* Scalars only: nothing else stands in an enum of ours. */
static bool equal(zl_json a, zl_json b)
{
    const char *const text = text_of(a);
    const char *const other = text_of(b);
    double x = 0;
    double y = 0;
    if (text != NULL || other != NULL) {
        return text != NULL && other != NULL && strcmp(text, other) == 0;
    }
    if (!zl_json_is_number(a) || !zl_json_is_number(b) || zl_json_real(a, &x, NULL) != ZL_OK ||
        zl_json_real(b, &y, NULL) != ZL_OK) {
        return false;
    }
    return !(x < y) && !(x > y);
}

static zl_status check_enum(const rule *r, zl_json list, zl_json value)
{
    for (size_t i = 0; i < zl_json_size(list); i++) {
        if (equal(zl_json_item(list, i), value)) {
            return ZL_OK;
        }
    }
    return zl_fail(r->err, ZL_NO, "%s: is none of the values allowed", place(&value));
}

static zl_status check_pattern(const rule *r, zl_json pattern, zl_json value)
{
    regex_t regex;
    const char *text = text_of(value);
    const char *source = text_of(pattern);
    if (source == NULL || regcomp(&regex, source, REG_EXTENDED | REG_NOSUB) != 0) {
        return zl_fail(r->err, ZL_E_INPUT, "%s: no regular expression", place(&pattern));
    }
    const bool fits = text == NULL || regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return fits ? ZL_OK : zl_fail(r->err, ZL_NO, "%s: must match %s", place(&value), source);
}

static zl_status check_minimum(const rule *r, zl_json limit, zl_json value)
{
    double low = 0;
    double got = 0;
    ZL_TRY(zl_json_real(limit, &low, r->err));
    if (!zl_json_is_number(value) || zl_json_real(value, &got, NULL) != ZL_OK || got >= low) {
        return ZL_OK;
    }
    return zl_fail(r->err, ZL_NO, "%s: must be at least %g", place(&value), low);
}

static zl_status check_required(const rule *r, zl_json names, zl_json value)
{
    for (size_t i = 0; zl_json_is_object(value) && i < zl_json_size(names); i++) {
        const char *name = text_of(zl_json_item(names, i));
        bool found = false;
        const char *key = NULL;
        for (size_t k = 0; name != NULL && (key = zl_json_key(value, k)) != NULL; k++) {
            found = found || strcmp(key, name) == 0;
        }
        if (!found) {
            return zl_fail(r->err, ZL_NO, "%s: %s is missing", place(&value),
                           name != NULL ? name : "a key");
        }
    }
    return ZL_OK;
}

static zl_status check_part(const rule *r, zl_json schema, zl_json value)
{
    const rule part = {r->all, r->file, schema, r->err};
    return check(&part, value);
}

/* properties, and additionalProperties for the others. */
static zl_status check_members(const rule *r, zl_json value)
{
    const zl_json named = zl_json_get(r->schema, "properties");
    const zl_json others = zl_json_get(r->schema, "additionalProperties");
    const char *key = NULL;
    bool allowed = true;
    if (zl_json_is_bool(others)) {
        ZL_TRY(zl_json_bool(others, &allowed, r->err));
    }
    for (size_t i = 0; (key = zl_json_key(value, i)) != NULL; i++) {
        const zl_json schema = zl_json_get(named, key);
        if (schema.node != NULL) {
            ZL_TRY(check_part(r, schema, zl_json_get(value, key)));
        } else if (!allowed) {
            return zl_fail(r->err, ZL_NO, "%s: unknown key %s", place(&value), key);
        } else if (zl_json_is_object(others)) {
            ZL_TRY(check_part(r, others, zl_json_get(value, key)));
        }
    }
    return ZL_OK;
}

/* Every key as a string of its own. */
static zl_status check_names(const rule *r, zl_json schema, zl_json value)
{
    const char *key = NULL;
    for (size_t i = 0; (key = zl_json_key(value, i)) != NULL; i++) {
        zl_json_doc *doc = NULL;
        zl_err why = {0};
        char text[128];
        const int size = snprintf(text, sizeof text, "[\"%s\"]", key);
        ZL_TRY(zl_json_parse("key", text, (size_t)size, &doc, r->err));
        const rule part = {r->all, r->file, schema, &why};
        const zl_status status = check(&part, zl_json_item(zl_json_root(doc), 0));
        zl_json_free(doc);
        if (status != ZL_OK) {
            return zl_fail(r->err, status, "%s: the name %s: %.200s", place(&value), key, why.text);
        }
    }
    return ZL_OK;
}

static zl_status check_items(const rule *r, zl_json schema, zl_json value)
{
    zl_json item = {0};
    for (size_t i = 0; zl_json_each(value, &i, &item);) {
        ZL_TRY(check_part(r, schema, item));
    }
    return ZL_OK;
}

static zl_status check_count(const rule *r, zl_json limit, zl_json value)
{
    uint64_t least = 0;
    ZL_TRY(zl_json_u64(limit, &least, r->err));
    return !zl_json_is_array(value) || zl_json_size(value) >= least
               ? ZL_OK
               : zl_fail(r->err, ZL_NO, "%s: has too few items", place(&value));
}

static zl_status check_any(const rule *r, zl_json schemas, zl_json value)
{
    for (size_t i = 0; i < zl_json_size(schemas); i++) {
        zl_err why = {0};
        const rule part = {r->all, r->file, zl_json_item(schemas, i), &why};
        const zl_status status = check(&part, value);
        if (status != ZL_NO) {
            return status == ZL_OK ? ZL_OK : zl_fail(r->err, status, "%s", why.text);
        }
    }
    return zl_fail(r->err, ZL_NO, "%s: fits none of the forms allowed", place(&value));
}

/* "FILE#/a/b": FILE is this one if it is empty. */
static zl_status check_ref(const rule *r, zl_json reference, zl_json value)
{
    char name[64];
    char step[64];
    size_t file = 0;
    const char *ref = text_of(reference);
    const char *hash = ref != NULL ? strchr(ref, '#') : NULL;
    if (hash == NULL || (size_t)(hash - ref) >= sizeof name) {
        return zl_fail(r->err, ZL_E_INPUT, "%s: no reference with a '#'", place(&reference));
    }
    snprintf(name, sizeof name, "%.*s", (int)(hash - ref), ref);
    ZL_TRY(open_file(r->all, hash == ref ? r->file : name, &file, r->err));
    zl_json schema = zl_json_root(r->all->file[file].doc);
    for (const char *at = hash + 1; *at == '/';) {
        const size_t length = strcspn(at + 1, "/");
        snprintf(step, sizeof step, "%.*s", (int)length, at + 1);
        schema = zl_json_get(schema, step);
        at += length + 1;
    }
    if (schema.node == NULL) {
        return zl_fail(r->err, ZL_E_INPUT, "%s refers to nothing", ref);
    }
    const rule there = {r->all, r->all->file[file].name, schema, r->err};
    return check(&there, value);
}

typedef zl_status (*checker)(const rule *r, zl_json keyword, zl_json value);

static zl_status check_const(const rule *r, zl_json expected, zl_json value)
{
    return equal(expected, value)
               ? ZL_OK
               : zl_fail(r->err, ZL_NO, "%s: is not the value it must be", place(&value));
}

/* A remark, or a keyword that check_members reads. */
static zl_status check_nothing(const rule *r, zl_json keyword, zl_json value)
{
    (void)r;
    (void)keyword;
    (void)value;
    return ZL_OK;
}

static checker find(const char *keyword)
{
    static const struct {
        const char *keyword;
        checker check;
    } all[] = {
        {"type", check_type},
        {"const", check_const},
        {"enum", check_enum},
        {"pattern", check_pattern},
        {"minimum", check_minimum},
        {"minItems", check_count},
        {"required", check_required},
        {"propertyNames", check_names},
        {"items", check_items},
        {"anyOf", check_any},
        {"$ref", check_ref},
        {"properties", check_nothing},
        {"$schema", check_nothing},
        {"title", check_nothing},
        {"$comment", check_nothing},
        {"$defs", check_nothing},
        {"additionalProperties", check_nothing},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].keyword, keyword) == 0) {
            return all[i].check;
        }
    }
    return NULL;
}

static zl_status check(const rule *r, zl_json value)
{
    const char *keyword = NULL;
    for (size_t i = 0; (keyword = zl_json_key(r->schema, i)) != NULL; i++) {
        const checker one = find(keyword);
        if (one == NULL) {
            return zl_fail(r->err, ZL_E_INPUT, "%s: the keyword %s is not known here", r->file,
                           keyword);
        }
        ZL_TRY(one(r, zl_json_get(r->schema, keyword), value));
    }
    return check_members(r, value);
}

zl_status zt_schema_check(zt_schemas *schemas, const char *name, zl_json value, zl_err *err)
{
    size_t file = 0;
    ZL_TRY(open_file(schemas, name, &file, err));
    const rule root = {schemas, schemas->file[file].name, zl_json_root(schemas->file[file].doc),
                       err};
    return check(&root, value);
}
