/* One value of a ds_config.json. DeepSpeed hands zero_optimization to pydantic, in its lax mode: a
 * whole number may be a float without fraction or a string of digits, a flag 0, 1 or a word. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ds_config.h"
#include "zeroledger/text.h"

/* sys.maxsize of Python: no count is larger. */
static const uint64_t unlimited = INT64_MAX;

/* DeepSpeedConfigModel: ZeRO's section since 0.7.0, those of the number types since 0.17.1. */
bool zt_ds_is_checked(const zl_ds_config *ds, const char *path)
{
    static const char zero[] = "zero_optimization.";
    const bool types = strncmp(path, "fp16.", 5) == 0 || strncmp(path, "bf16.", 5) == 0;
    return (strncmp(path, zero, sizeof zero - 1) == 0 && ds->version >= ZT_DS_CHECKED) ||
           (types && ds->version >= ZT_DS_CHECKED_TYPES);
}

bool zt_ds_is_auto(zl_json value)
{
    const char *text = NULL;
    return zl_json_is_string(value) && zl_json_string(value, &text, NULL) == ZL_OK &&
           strcmp(text, "auto") == 0;
}

zl_status zt_ds_refuse_auto(zl_json value, zl_err *err)
{
    return !zt_ds_is_auto(value)
               ? ZL_OK
               : zl_fail(err, ZL_E_INPUT,
                         "%s is \"auto\", which neither Hugging Face's Trainer nor accelerate "
                         "replaces there; write the value",
                         value.path);
}

/* Digits; from pydantic 2 on also with a point and zeros behind. */
static bool is_whole_text(const char *text, uint32_t version)
{
    const char *c = text + (*text == '-');
    const char *first = c;
    while (isdigit((unsigned char)*c)) {
        c++;
    }
    if (c == first) {
        return false;
    }
    if (*c == '.' && version >= ZT_DS_STRICT) {
        for (c++; *c == '0'; c++) {
        }
    }
    return *c == '\0';
}

static zl_status read_text(const zt_ds_reader *r, zl_json value, double *out, zl_err *err)
{
    const char *text = NULL;
    ZL_TRY(zl_json_string(value, &text, err));
    if (zl_parse_real(value.path, text, out, NULL) != ZL_OK) {
        return zl_fail(err, ZL_E_INPUT, "%s must be a number, got the string \"%.60s\"", value.path,
                       text);
    }
    if (!zt_ds_is_checked(r->ds, value.path) || !is_whole_text(text, r->ds->version)) {
        zt_ds_warn(r,
                   "%s is the string \"%.40s\", which DeepSpeed refuses; write it without quotes",
                   value.path, text);
    }
    return ZL_OK;
}

zl_status zt_ds_real(const zt_ds_reader *r, zl_json value, double *out, zl_err *err)
{
    ZL_TRY(zt_ds_refuse_auto(value, err));
    return zl_json_is_string(value) ? read_text(r, value, out, err) : zl_json_real(value, out, err);
}

zl_status zt_ds_count(const zt_ds_reader *r, zl_json value, uint64_t *out, zl_err *err)
{
    double real = 0.0;
    ZL_TRY(zt_ds_real(r, value, &real, err));
    if (!(real >= 0.0)) {
        return zl_fail(err, ZL_E_INPUT, "%s must not be negative, got %.15g", value.path, real);
    }
    const uint64_t count = real < (double)unlimited ? (uint64_t)real : unlimited;
    if (r->ds->version >= ZT_DS_STRICT && count < unlimited && (double)count < real) {
        zt_ds_warn(r,
                   "%s is %.15g, a fraction, which DeepSpeed refuses since 0.15.0; write %" PRIu64,
                   value.path, real, count);
    }
    *out = count;
    return ZL_OK;
}

zl_status zt_ds_whole(zl_json value, uint64_t *out, zl_err *err)
{
    uint64_t count = 0;
    ZL_TRY(zl_json_u64(value, &count, err));
    if (count == 0) {
        return zl_fail(err, ZL_E_INPUT, "%s must be at least 1, got 0", value.path);
    }
    *out = count;
    return ZL_OK;
}

static bool is_word(const char *text, const char *const *words, size_t count)
{
    char lowered[8] = "";
    for (size_t i = 0; text[i] != '\0' && i + 1 < sizeof lowered; i++) {
        lowered[i] = (char)tolower((unsigned char)text[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(lowered, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* What else pydantic takes for true and false; false where it is neither. */
static bool flag_of(zl_json value, bool *out)
{
    static const char *const yes[] = {"1", "on", "t", "true", "y", "yes"};
    static const char *const no[] = {"0", "off", "f", "false", "n", "no"};
    const size_t count = sizeof yes / sizeof yes[0];
    const char *text = "";
    double real = -1.0;
    if (zl_json_is_string(value) && zl_json_string(value, &text, NULL) == ZL_OK) {
        *out = is_word(text, yes, count);
        return *out || is_word(text, no, count);
    }
    if (zl_json_is_number(value) && zl_json_real(value, &real, NULL) == ZL_OK) {
        *out = real > 0.5;
        return real == 0.0 || real == 1.0;
    }
    return false;
}

zl_status zt_ds_flag(const zt_ds_reader *r, zl_json value, bool *out, zl_err *err)
{
    bool flag = false;
    ZL_TRY(zt_ds_refuse_auto(value, err));
    const bool word = zl_json_is_string(value); /* elsewhere Python takes every word for true */
    if ((!word || zt_ds_is_checked(r->ds, value.path)) && flag_of(value, &flag)) {
        zt_ds_warn(r, "%s is no JSON flag; it is taken for %s, write that", value.path,
                   flag ? "true" : "false");
        *out = flag;
        return ZL_OK;
    }
    return zl_json_bool(value, out, err);
}

bool zt_ds_is_off(zl_json value, uint64_t neutral)
{
    bool flag = false;
    double real = 0.0;
    const char *text = NULL;
    if (zl_json_is_bool(value)) {
        return zl_json_bool(value, &flag, NULL) == ZL_OK && !flag;
    }
    if (zl_json_is_string(value)) {
        return zl_json_string(value, &text, NULL) == ZL_OK && strcmp(text, "none") == 0;
    }
    if (zl_json_is_number(value)) {
        return zl_json_real(value, &real, NULL) == ZL_OK &&
               (real <= 0.0 || (neutral != 0 && real == (double)neutral));
    }
    if (zl_json_is_object(value)) {
        const zl_json enabled = zl_json_get(value, "enabled");
        return zl_json_size(value) == 0 || zt_ds_is_auto(enabled) ||
               (zl_json_is_bool(enabled) && zl_json_bool(enabled, &flag, NULL) == ZL_OK && !flag);
    }
    return true;
}
