/* One value of the ds_config.json that a run carries, changed by its path. */
#include <stdio.h>
#include <string.h>

#include "run_fields.h"
#include "zeroledger/json.h"
#include "zeroledger/run.h"

enum { KEY_SIZE = 64 };

/* What replaces the value at the end of a path. */
typedef struct edit {
    const char *path; /* NULL: here */
    zl_json value;
} edit;

static void put_edited(zl_json_writer *w, const char *key, zl_json old, edit e);

/* The members of `old`, the one that the path names edited, or added behind the others. */
static void put_members(zl_json_writer *w, zl_json old, edit e)
{
    char name[KEY_SIZE];
    const size_t length = strcspn(e.path, ".");
    const char *rest = e.path[length] == '.' ? e.path + length + 1 : NULL;
    const edit below = {.path = rest, .value = e.value};
    const char *key = NULL;
    bool seen = false;
    snprintf(name, sizeof name, "%.*s", (int)length, e.path);
    for (size_t i = 0; (key = zl_json_key(old, i)) != NULL; i++) {
        const zl_json member = zl_json_get(old, key);
        if (strcmp(key, name) != 0) {
            zl_json_put(w, key, member);
        } else if (!seen) { /* a key that is there twice has the same value twice */
            put_edited(w, key, member, below);
            seen = true;
        }
    }
    if (!seen) {
        put_edited(w, name, (zl_json){.node = NULL}, below);
    }
}

static void put_edited(zl_json_writer *w, const char *key, zl_json old, edit e)
{
    if (e.path == NULL) {
        zl_json_put(w, key, e.value);
        return;
    }
    zl_json_begin_object(w, key);
    put_members(w, old, e);
    zl_json_end(w);
}

/* Everything on the way to the value has to be an object, or not to be there; every key has a name.
 */
static zl_status check_path(zl_json at, const char *path, zl_err *err)
{
    char name[KEY_SIZE];
    const char *rest = path;
    for (size_t length = strcspn(rest, "."); true; length = strcspn(rest, ".")) {
        if (length == 0 || length >= sizeof name || (at.node != NULL && !zl_json_is_object(at))) {
            return zl_fail(err, ZL_E_INPUT, "%s has no room for %s; make it an object",
                           at.path[0] != '\0' ? at.path : "ds_config.json", path);
        }
        if (rest[length] == '\0') {
            return ZL_OK;
        }
        snprintf(name, sizeof name, "%.*s", (int)length, rest);
        at = zl_json_get(at, name);
        rest += length + 1;
    }
}

static zl_status save(const zl_json_writer *w, zl_run *run, zl_err *err)
{
    static const char what[] = "the ds_config.json";
    char compact[sizeof run->ds_config];
    size_t size = 0;
    zl_json_doc *doc = NULL;
    const char *text = zl_json_writer_text(w, &size);
    if (text == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    ZL_TRY(zl_json_parse(what, text, size, &doc, err));
    const zl_status status =
        zl_config_compact(zl_json_root(doc), what, compact, sizeof compact, err);
    zl_json_free(doc);
    if (status == ZL_OK) {
        memcpy(run->ds_config, compact, sizeof compact);
    }
    return status;
}

zl_status zl_run_set_config(zl_run *run, const char *path, const char *value, zl_err *err)
{
    const char *old = run->ds_config[0] != '\0' ? run->ds_config : "{}";
    zl_json_doc *was = NULL;
    zl_json_doc *is = NULL;
    zl_json_writer *w = zl_json_writer_new();
    zl_status status = zl_json_parse("ds_config.json", old, strlen(old), &was, err);
    if (status == ZL_OK) {
        status = zl_json_parse(path, value, strlen(value), &is, err);
    }
    if (status == ZL_OK && path[0] != '\0') {
        status = check_path(zl_json_root(was), path, err);
    }
    if (status == ZL_OK) {
        const edit e = {.path = path[0] != '\0' ? path : NULL, .value = zl_json_root(is)};
        put_edited(w, NULL, zl_json_root(was), e);
        status = save(w, run, err);
    }
    zl_json_writer_free(w);
    zl_json_free(is);
    zl_json_free(was);
    return status;
}
