#include "drive/cases.h"

#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>

#include "drive/files.h"

zl_status zv_option_text(zl_json value, char *text, size_t size, zl_err *err)
{
    text[0] = '\0';
    if (zl_json_is_bool(value)) {
        return ZL_OK;
    }
    if (zl_json_is_string(value)) {
        const char *given;
        ZL_TRY(zl_json_string(value, &given, err));
        if (strlen(given) >= size) {
            return zl_fail(err, ZL_E_INPUT, "%s: longer than %zu characters", value.path, size - 1);
        }
        snprintf(text, size, "%s", given);
        return ZL_OK;
    }
    uint64_t whole;
    double real;
    if (zl_json_u64(value, &whole, NULL) == ZL_OK) {
        snprintf(text, size, "%" PRIu64, whole);
        return ZL_OK;
    }
    if (!zl_json_is_number(value)) {
        return zl_fail(err, ZL_E_INPUT, "%s: must be a string, a number, true or false",
                       value.path);
    }
    ZL_TRY(zl_json_real(value, &real, err));
    snprintf(text, size, "%.15g", real);
    return ZL_OK;
}

/* A model's file is named relative to the file that names it. out[ZV_PATH_SIZE]. */
static zl_status beside(const char *text, const char *path, char *out, zl_err *err)
{
    char folder[ZV_PATH_SIZE];
    if (text[0] == '/' || strchr(text, '/') == NULL) {
        snprintf(out, ZV_PATH_SIZE, "%s", text);
        return ZL_OK;
    }
    snprintf(folder, sizeof folder, "%s", path);
    return zv_path(out, dirname(folder), text, err);
}

zl_status zv_run_apply_one(zl_run *run, const char *option, zl_json value, const char *path,
                           zl_err *err)
{
    char text[1024], value_text[ZV_PATH_SIZE];
    zl_err why = {0};
    bool on = true;
    ZL_TRY(zv_option_text(value, text, sizeof text, err));
    if (zl_json_is_bool(value)) {
        ZL_TRY(zl_json_bool(value, &on, err));
    }
    if (strcmp(option, "model") == 0) {
        ZL_TRY(beside(text, path, value_text, err));
    } else {
        snprintf(value_text, sizeof value_text, "%s", text);
    }
    zl_run unused = *run;
    const zl_status status =
        zl_run_set(on ? run : &unused, option, zl_json_is_bool(value) ? NULL : value_text, &why);
    if (status != ZL_OK) {
        return zl_fail(err, status == ZL_E_USAGE ? ZL_E_INPUT : status, "%s: %s", value.path,
                       why.text);
    }
    return ZL_OK;
}

zl_status zv_run_apply(zl_run *run, zl_json options, const char *path, zl_err *err)
{
    if (!zl_json_is_object(options)) {
        return zl_fail(err, ZL_E_INPUT, "%s: must be an object of options", options.path);
    }
    for (size_t i = 0; i < zl_json_size(options); i++) {
        const char *const option = zl_json_key(options, i);
        ZL_TRY(zv_run_apply_one(run, option, zl_json_get(options, option), path, err));
    }
    return ZL_OK;
}
