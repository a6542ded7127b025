#include "compare/read.h"

#include <stdio.h>
#include <string.h>

static zl_status read_text(zl_json value, const zv_member *m, zl_err *err)
{
    const char *text;
    ZL_TRY(zl_json_string(value, &text, err));
    if (strlen(text) >= m->size) {
        return zl_fail(err, ZL_E_INPUT, "%s: longer than %zu characters; shorten it", value.path,
                       m->size - 1);
    }
    snprintf(m->text, m->size, "%s", text);
    return ZL_OK;
}

static bool find_word(const char *word, const zv_member *m)
{
    return (m->visit != NULL && zl_visit_find(word, m->visit)) ||
           (m->phase != NULL && zl_phase_find(word, m->phase)) ||
           (m->kind != NULL && zl_kind_find(word, m->kind)) ||
           (m->buffer != NULL && zl_buf_find(word, m->buffer));
}

static zl_status read_word(zl_json value, const zv_member *m, zl_err *err)
{
    const char *word;
    ZL_TRY(zl_json_string(value, &word, err));
    if (!find_word(word, m)) {
        return zl_fail(err, ZL_E_INPUT, "%s: \"%.60s\" is not in the vocabulary", value.path, word);
    }
    return ZL_OK;
}

static zl_status read_member(zl_json value, const zv_member *m, zl_err *err)
{
    if (m->optional && value.node == NULL) {
        return ZL_OK;
    }
    if (m->count != NULL) {
        return zl_json_u64(value, m->count, err);
    }
    if (m->real != NULL) {
        return zl_json_real(value, m->real, err);
    }
    if (m->flag != NULL) {
        return zl_json_bool(value, m->flag, err);
    }
    if (m->text != NULL) {
        return read_text(value, m, err);
    }
    const bool word = m->visit != NULL || m->phase != NULL || m->kind != NULL || m->buffer != NULL;
    return word ? read_word(value, m, err) : ZL_OK;
}

zl_status zv_read_members(zl_json object, const zv_member *members, size_t count, zl_err *err)
{
    const char *keys[ZV_MEMBERS_MAX];
    if (count > ZV_MEMBERS_MAX) {
        return zl_fail(err, ZL_E_BUG, "an object of %zu members is read; raise the limit", count);
    }
    if (!zl_json_is_object(object)) {
        return zl_fail(err, ZL_E_INPUT, "%s: must be an object",
                       object.path[0] == '\0' ? "the top level" : object.path);
    }
    for (size_t i = 0; i < count; i++) {
        keys[i] = members[i].key;
    }
    ZL_TRY(zl_json_only(object, keys, count, err));
    for (size_t i = 0; i < count; i++) {
        ZL_TRY(read_member(zl_json_get(object, keys[i]), &members[i], err));
    }
    return ZL_OK;
}

zl_status zv_read_tolerance(zl_json object, zv_tolerance *out, zl_err *err)
{
    zv_tolerance t = {0};
    const zv_member members[] = {{.key = "requested", .count = &t.requested},
                                 {.key = "granted", .count = &t.granted},
                                 {.key = "outside_steady", .count = &t.outside_steady}};
    ZL_TRY(zv_read_members(object, members, sizeof members / sizeof members[0], err));
    if (t.requested != 0 || t.granted != 0) {
        return zl_fail(err, ZL_E_INPUT,
                       "%s: requested and granted must be 0, the comparison is exact", object.path);
    }
    *out = t;
    return ZL_OK;
}

zl_status zv_read_list(zl_json object, const char *key, zl_json *out, zl_err *err)
{
    const zl_json list = zl_json_get(object, key);
    if (!zl_json_is_array(list) || zl_json_size(list) == 0) {
        return zl_fail(err, ZL_E_INPUT, "%s: must be a list of at least one element",
                       list.path[0] == '\0' ? key : list.path);
    }
    *out = list;
    return ZL_OK;
}
