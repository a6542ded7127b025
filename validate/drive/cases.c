#define _DEFAULT_SOURCE /* reallocarray */

#include "drive/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/read.h"
#include "drive/case_id.h"

enum { AXES_MAX = 16, CASES_MAX = 4096 };

/* One combination of a group: value[i] of axis i. */
typedef struct combination {
    const char *path;
    zl_json base;
    zl_json axes;
    size_t index[AXES_MAX];
    char text[256]; /* of the option that chosen() was last asked for */
} combination;

static zl_json axis_value(const combination *c, size_t axis)
{
    return zl_json_item(zl_json_get(c->axes, zl_json_key(c->axes, axis)), c->index[axis]);
}

static bool is_option(const zl_option *option, const char *name)
{
    return strcmp(option->name, name) == 0 ||
           (option->alias != NULL && strcmp(option->alias, name) == 0);
}

static const char *chosen(void *context, const zl_option *option)
{
    combination *const c = context;
    zl_json value = {0};
    for (size_t i = 0; i < zl_json_size(c->base); i++) {
        if (is_option(option, zl_json_key(c->base, i))) {
            value = zl_json_get(c->base, zl_json_key(c->base, i));
        }
    }
    for (size_t i = 0; i < zl_json_size(c->axes); i++) {
        if (is_option(option, zl_json_key(c->axes, i))) {
            value = axis_value(c, i);
        }
    }
    bool on = true;
    if (value.node == NULL || zv_option_text(value, c->text, sizeof c->text, NULL) != ZL_OK ||
        (zl_json_is_bool(value) && (zl_json_bool(value, &on, NULL) != ZL_OK || !on))) {
        return NULL;
    }
    return c->text;
}

static zl_status add_case(zv_cases *cases, const zv_case *added, zl_err *err)
{
    char id[ZL_RUN_ID_SIZE], other[ZL_RUN_ID_SIZE];
    zl_run_id(&added->run, id);
    for (size_t i = 0; i < cases->count; i++) {
        const zv_case *const old = &cases->item[i];
        zl_run_id(&old->run, other);
        if (strcmp(old->id, added->id) == 0 || strcmp(id, other) == 0) {
            return zl_fail(err, ZL_E_INPUT, "%s (%s) is the same case as %s (%s); keep one of them",
                           added->id, added->group, old->id, old->group);
        }
    }
    if (cases->count == CASES_MAX) {
        return zl_fail(err, ZL_E_INPUT, "more than %d cases", CASES_MAX);
    }
    zv_case *const grown = reallocarray(cases->item, cases->count + 1, sizeof *grown);
    if (grown == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for case %s", added->id);
    }
    cases->item = grown;
    grown[cases->count++] = *added;
    return ZL_OK;
}

static zl_status make_case(combination *c, const char *group, zv_case *out, zl_err *err)
{
    zl_err why = {0};
    zl_run_init(&out->run);
    ZL_TRY(zv_run_apply(&out->run, c->base, c->path, err));
    for (size_t i = 0; i < zl_json_size(c->axes); i++) {
        ZL_TRY(
            zv_run_apply_one(&out->run, zl_json_key(c->axes, i), axis_value(c, i), c->path, err));
    }
    const zl_status status = zl_run_check(&out->run, &why);
    zv_case_id(&out->run, chosen, c, out->id, sizeof out->id);
    snprintf(out->group, sizeof out->group, "%s", group);
    if (status != ZL_OK) {
        return zl_fail(err, status == ZL_E_USAGE ? ZL_E_INPUT : status, "group %s, %s: %.300s",
                       group, out->id, why.text);
    }
    return ZL_OK;
}

/* The next combination, the last axis fastest; false after the last one. */
static bool advance(combination *c)
{
    for (size_t i = zl_json_size(c->axes); i > 0; i--) {
        if (++c->index[i - 1] < zl_json_size(zl_json_get(c->axes, zl_json_key(c->axes, i - 1)))) {
            return true;
        }
        c->index[i - 1] = 0;
    }
    return false;
}

static zl_status check_axes(const combination *c, zl_err *err)
{
    if (c->axes.node != NULL && !zl_json_is_object(c->axes)) {
        return zl_fail(err, ZL_E_INPUT, "%s: must be an object of lists", c->axes.path);
    }
    if (zl_json_size(c->axes) > AXES_MAX) {
        return zl_fail(err, ZL_E_INPUT, "%s: more than %d axes", c->axes.path, AXES_MAX);
    }
    for (size_t i = 0; i < zl_json_size(c->axes); i++) {
        const char *const option = zl_json_key(c->axes, i);
        const zl_json values = zl_json_get(c->axes, option);
        if (!zl_json_is_array(values) || zl_json_size(values) == 0) {
            return zl_fail(err, ZL_E_INPUT, "%s: must be a list of at least one value",
                           zl_json_get(c->axes, option).path);
        }
        if (zl_json_get(c->base, option).node != NULL) {
            return zl_fail(err, ZL_E_INPUT, "%s: is in base too; keep one of them", values.path);
        }
    }
    return ZL_OK;
}

static zl_status expand(zl_json group, const char *path, zv_cases *cases, zl_err *err)
{
    zv_case added;
    char name[ZV_NAME_SIZE];
    const zv_member members[] = {{.key = "name", .text = name, .size = sizeof name},
                                 {.key = "base"},
                                 {.key = "axes", .optional = true}};
    combination c = {
        .path = path, .base = zl_json_get(group, "base"), .axes = zl_json_get(group, "axes")};
    ZL_TRY(zv_read_members(group, members, sizeof members / sizeof members[0], err));
    ZL_TRY(check_axes(&c, err));
    do {
        ZL_TRY(make_case(&c, name, &added, err));
        ZL_TRY(add_case(cases, &added, err));
    } while (advance(&c));
    return ZL_OK;
}

static zl_status read_all(zl_json root, const char *path, zv_cases *cases, zl_err *err)
{
    const zv_member members[] = {{.key = "schema"},
                                 {.key = "name", .text = cases->name, .size = sizeof cases->name},
                                 {.key = "tolerance"},
                                 {.key = "groups"}};
    zl_json groups;
    ZL_TRY(zl_json_schema(root, "zeroledger.cases/1", err));
    ZL_TRY(zv_read_members(root, members, sizeof members / sizeof members[0], err));
    ZL_TRY(zv_read_tolerance(zl_json_get(root, "tolerance"), &cases->tolerance, err));
    ZL_TRY(zv_read_list(root, "groups", &groups, err));
    for (size_t i = 0; i < zl_json_size(groups); i++) {
        ZL_TRY(expand(zl_json_item(groups, i), path, cases, err));
    }
    return ZL_OK;
}

zl_status zv_cases_load(const char *path, zv_cases *out, zl_err *err)
{
    zl_json_doc *doc;
    zv_cases cases = {0};
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_status status = read_all(zl_json_root(doc), path, &cases, err);
    zl_json_free(doc);
    if (status != ZL_OK) {
        zv_cases_release(&cases);
        zl_fail_at(err, path);
        return status;
    }
    *out = cases;
    return ZL_OK;
}

void zv_cases_release(zv_cases *cases)
{
    free(cases->item);
    *cases = (zv_cases){0};
}
