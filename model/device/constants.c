#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "device/hardware.h"
#include "zeroledger/device.h"
#include "zeroledger/json.h"

static zl_status read_text(zl_json object, const char *key, char *text, size_t size, zl_err *err)
{
    const char *value = NULL;
    ZL_TRY(zl_json_string(zl_json_get(object, key), &value, err));
    if (strlen(value) >= size) {
        return zl_fail(err, ZL_E_INPUT, "%s: longer than %zu characters", key, size - 1);
    }
    (void)snprintf(text, size, "%s", value);
    return ZL_OK;
}

/* {"bytes": ..., "error": ...} */
static zl_status read_fitted(zl_json fitted, uint64_t *bytes, zl_err *err)
{
    static const char *const keys[] = {"bytes", "error"};
    ZL_TRY(zl_json_only(fitted, keys, sizeof keys / sizeof keys[0], err));
    return zl_json_u64(zl_json_get(fitted, "bytes"), bytes, err);
}

/* The two that only runs on several GPUs can tell: both are there, or neither. */
static zl_status read_several(zl_json root, zl_constants *out, zl_err *err)
{
    static const char *const keys[] = {"version", "rings", "own"};
    const zl_json nccl = zl_json_get(root, "nccl");
    const zl_json communication = zl_json_get(root, "communication");
    if (nccl.node == NULL && communication.node == NULL) {
        return ZL_OK;
    }
    ZL_TRY(read_fitted(communication, &out->communication, err));
    ZL_TRY(zl_json_only(nccl, keys, sizeof keys / sizeof keys[0], err));
    ZL_TRY(read_text(nccl, "version", out->nccl, sizeof out->nccl, err));
    ZL_TRY(zl_json_u64(zl_json_get(nccl, "own"), &out->own, err));
    return zl_json_u64(zl_json_get(nccl, "rings"), &out->rings, err);
}

static zl_status read_root(zl_json root, zl_constants *out, zl_err *err)
{
    static const char *const keys[] = {"schema", "gpu",  "driver",     "cuda",
                                       "commit", "date", "context",    "communication",
                                       "nccl",   "rule", "calibrated", "judged"};
    zl_constants c = {.context = 0};
    ZL_TRY(zl_json_schema(root, "zeroledger.constants/1", err));
    ZL_TRY(zl_json_only(root, keys, sizeof keys / sizeof keys[0], err));
    ZL_TRY(read_text(root, "gpu", c.gpu, sizeof c.gpu, err));
    ZL_TRY(read_text(root, "driver", c.driver, sizeof c.driver, err));
    ZL_TRY(read_text(root, "cuda", c.cuda, sizeof c.cuda, err));
    ZL_TRY(read_text(root, "commit", c.commit, sizeof c.commit, err));
    ZL_TRY(read_text(root, "date", c.date, sizeof c.date, err));
    ZL_TRY(read_fitted(zl_json_get(root, "context"), &c.context, err));
    ZL_TRY(read_several(root, &c, err));
    *out = c;
    return ZL_OK;
}

bool zl_constants_at(size_t index, zl_constants *out)
{
    for (size_t i = 0; zl_hardware_files[i].name != NULL; i++) {
        const zl_hardware_file *const file = &zl_hardware_files[i];
        zl_json_doc *doc = NULL;
        if (i == index &&
            zl_json_parse(file->name, (const char *)file->text, file->size, &doc, NULL) == ZL_OK) {
            const zl_status status = read_root(zl_json_root(doc), out, NULL);
            zl_json_free(doc);
            return status == ZL_OK;
        }
    }
    return false;
}

/* Whether a name has a part, in capitals or not. */
static bool has(const char *name, const char *part)
{
    const size_t length = strlen(part);
    for (; strlen(name) >= length; name++) {
        if (strncasecmp(name, part, length) == 0) {
            return true;
        }
    }
    return false;
}

bool zl_constants_find(const char *gpu, const char *driver, const char *cuda, zl_constants *out)
{
    bool found = false;
    zl_constants c;
    for (size_t i = 0; zl_constants_at(i, &c); i++) {
        if (has(c.gpu, gpu) && (driver == NULL || strcmp(c.driver, driver) == 0) &&
            (cuda == NULL || strcmp(c.cuda, cuda) == 0) &&
            (!found || strcmp(c.date, out->date) > 0)) {
            *out = c;
            found = true;
        }
    }
    return found;
}

zl_status zl_constants_load(const char *path, zl_constants *out, zl_err *err)
{
    zl_json_doc *doc = NULL;
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_status status = read_root(zl_json_root(doc), out, err);
    zl_json_free(doc);
    return status == ZL_OK || err == NULL ? status : zl_fail_at(err, path);
}
