/* A published number and the answer to it, in the published unit. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "peers/estimator.h"
#include "records/field.h"
#include "zeroledger/bytes.h"
#include "zeroledger/text.h"

static const struct {
    const char *name;
    double bytes;
    int decimals; /* shown where the source does not say how many */
} units[] = {
    {"B", 1, 0},    {"B/token", 1, 1},     {"MB", 1e6, 3},
    {"GB", 1e9, 3}, {"MiB", 1048576.0, 1}, {"GiB", 1073741824.0, 3},
};

enum { UNITS = sizeof units / sizeof units[0] };

static const struct {
    const char *name;
    size_t offset;
} quantities[] = {
    {"requested", offsetof(zl_mark, requested)},
    {"peak_requested", offsetof(zl_mark, peak_requested)},
    {"allocated", offsetof(zl_mark, allocated)},
    {"peak_allocated", offsetof(zl_mark, peak_allocated)},
    {"reserved", offsetof(zl_mark, reserved)},
    {"peak_reserved", offsetof(zl_mark, peak_reserved)},
    {"device_used", offsetof(zl_mark, device_used)},
};

static zl_status get_text(zl_json object, const char *key, const char **out, zl_err *err)
{
    const zl_json value = zl_json_get(object, key);
    return value.node == NULL ? ZL_OK : zl_json_string(value, out, err);
}

static zl_status get_count(zl_json object, const char *key, uint64_t *out, zl_err *err)
{
    const zl_json value = zl_json_get(object, key);
    return value.node == NULL ? ZL_OK : zl_json_u64(value, out, err);
}

/* ---- the answer ---- */

const zl_moment *zv_field_moment(const zv_field_answer *answer, const char *at)
{
    for (size_t i = answer->moments.count; i-- > 0;) {
        if (strcmp(answer->moments.moment[i].mark.at, at) == 0) {
            return &answer->moments.moment[i];
        }
    }
    return NULL;
}

uint64_t zv_field_term(const zl_alive *alive, const char *name)
{
    for (size_t i = 0; i < alive->count; i++) {
        if (strcmp(alive->term[i].name, name) == 0) {
            return alive->term[i].bytes;
        }
    }
    return 0;
}

static uint64_t quantity_of(const zl_mark *mark, size_t offset)
{
    uint64_t bytes = 0;
    memcpy(&bytes, (const char *)mark + offset, sizeof bytes);
    return bytes;
}

/* At a mark, or the largest of the marks of the last step. */
static zl_status at_marks(const zv_field_answer *a, const char *at, size_t offset, uint64_t *out,
                          zl_err *err)
{
    const size_t count = a->moments.count;
    const zl_moment *const one = zv_field_moment(a, at);
    if (one != NULL) {
        *out = quantity_of(&one->mark, offset);
        return ZL_OK;
    }
    if (strcmp(at, "largest") != 0 || count == 0) {
        return zl_fail(err, ZL_E_INPUT, "%s has no mark '%s': %s", a->name, at, a->says);
    }
    const int32_t last = a->moments.moment[count - 1].mark.step;
    *out = 0;
    for (size_t i = 0; i < count; i++) {
        const zl_mark *const mark = &a->moments.moment[i].mark;
        *out = mark->step == last ? zl_max(*out, quantity_of(mark, offset)) : *out;
    }
    return ZL_OK;
}

static zl_status at_refusal(const zv_field_answer *a, const char *quantity, uint64_t *out,
                            zl_err *err)
{
    static const char *const names[] = {"asked", "allocated", "reserved"};
    if (a->status != ZL_NO) {
        return zl_fail(err, ZL_E_INPUT, "%s fits", a->name);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], quantity) == 0) {
            *out = a->request[i];
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_INPUT, "a refusal has no quantity '%s'", quantity);
}

/* DeepSpeed's own estimator, given the published number of parameters. */
static zl_status estimated(zl_json published, const zv_field_answer *a, const char *what,
                           uint64_t *out, zl_err *err)
{
    uint64_t parameters = 0;
    zv_estimate estimate = {0};
    ZL_TRY(zl_json_u64(zl_json_get(zl_json_get(published, "model"), "params"), &parameters, err));
    if (!zv_deepspeed_estimate(&a->run, parameters, &estimate)) {
        return zl_fail(err, ZL_E_INPUT, "%s has no estimator", a->name);
    }
    *out = strcmp(what, "host") == 0 ? estimate.host : estimate.device;
    return ZL_OK;
}

/* What a buffer holds at the end of a steady backward. */
static zl_status from_ledger(const zv_field_answer *a, const char *buffer, uint64_t *out,
                             zl_err *err)
{
    zl_buf buf = ZL_BUF_COUNT;
    if (a->ledger == NULL || !zl_buf_find(buffer, &buf)) {
        return zl_fail(err, ZL_E_INPUT, "%s has no buffer '%s'", a->name, buffer);
    }
    const zl_cell *const cell = zl_ledger_at(a->ledger, ZL_VISIT_STEADY, ZL_PHASE_BACKWARD);
    *out = cell->line[buf].bytes[ZL_REQUESTED].end;
    return ZL_OK;
}

/* Only a term of what is alive, or all but a term. */
static zl_status part_of(const zv_field_answer *a, const char *at, const char *quantity,
                         zl_json figure, uint64_t *bytes, zl_err *err)
{
    const char *term = NULL;
    const char *without = NULL;
    ZL_TRY(get_text(figure, "term", &term, err));
    ZL_TRY(get_text(figure, "without", &without, err));
    const zl_moment *const moment = zv_field_moment(a, at);
    if (term == NULL && without == NULL) {
        return ZL_OK;
    }
    if (moment == NULL || strstr(quantity, "requested") == NULL) {
        return zl_fail(err, ZL_E_INPUT, "%s: only requested bytes at a mark have terms",
                       figure.path);
    }
    const zl_alive *const alive =
        strcmp(quantity, "requested") == 0 ? &moment->here : &moment->peak;
    *bytes =
        term != NULL ? zv_field_term(alive, term) : zl_sub(*bytes, zv_field_term(alive, without));
    return ZL_OK;
}

static zl_status answer_of(zl_json published, zl_json figure, const zv_field_answer *answers,
                           size_t count, uint64_t *out, zl_err *err)
{
    static const char estimate[] = "estimate.";
    static const char native[] = "native.";
    uint64_t run = 0;
    const char *at = NULL;
    const char *quantity = NULL;
    ZL_TRY(zl_json_u64(zl_json_get(figure, "run"), &run, err));
    ZL_TRY(zl_json_string(zl_json_get(figure, "at"), &at, err));
    ZL_TRY(zl_json_string(zl_json_get(figure, "quantity"), &quantity, err));
    if (run >= count) {
        return zl_fail(err, ZL_E_INPUT, "%s: there is no run %" PRIu64, figure.path, run);
    }
    const zv_field_answer *const a = &answers[run];
    if (strncmp(quantity, estimate, strlen(estimate)) == 0) {
        return estimated(published, a, quantity + strlen(estimate), out, err);
    }
    if (strncmp(quantity, native, strlen(native)) == 0) {
        return from_ledger(a, quantity + strlen(native), out, err);
    }
    if (strcmp(at, "refusal") == 0) {
        return at_refusal(a, quantity, out, err);
    }
    for (size_t i = 0; i < sizeof quantities / sizeof quantities[0]; i++) {
        if (strcmp(quantities[i].name, quantity) == 0) {
            ZL_TRY(at_marks(a, at, quantities[i].offset, out, err));
            return part_of(a, at, quantity, figure, out, err);
        }
    }
    return zl_fail(err, ZL_E_INPUT, "%s: there is no quantity '%s'", figure.path, quantity);
}

/* In the unit. `less`: another answer is subtracted, or where `negative` it is subtracted from;
 * `multiple`: rounded up; `per`: divided. */
static zl_status value_of(zl_json published, zl_json figure, const zv_field_answer *answers,
                          size_t count, double unit, double *out, zl_err *err)
{
    uint64_t bytes = 0;
    uint64_t other = 0;
    uint64_t multiple = 1;
    uint64_t per = 1;
    const zl_json less = zl_json_get(figure, "less");
    ZL_TRY(get_count(figure, "multiple", &multiple, err));
    ZL_TRY(get_count(figure, "per", &per, err));
    ZL_TRY(answer_of(published, figure, answers, count, &bytes, err));
    if (less.node != NULL) {
        const bool negative = zl_json_get(figure, "negative").node != NULL;
        ZL_TRY(answer_of(published, less, answers, count, &other, err));
        bytes = negative ? zl_sub(other, bytes) : zl_sub(bytes, other);
    }
    bytes = zl_align_up(bytes, multiple);
    if (zl_poisoned(bytes) || per == 0) {
        return zl_fail(err, ZL_E_INPUT, "%s: no such number of bytes", figure.path);
    }
    *out = (double)bytes / (double)per / unit;
    return ZL_OK;
}

/* ---- the published number ---- */

/* "measured.1.value.0": keys and indices. */
static zl_json follow(zl_json value, const char *path)
{
    char key[32];
    while (*path != '\0' && value.node != NULL) {
        const size_t length = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)length, path);
        value = zl_json_is_array(value) ? zl_json_item(value, strtoull(key, NULL, 10))
                                        : zl_json_get(value, key);
        path += length + (path[length] == '.');
    }
    return value;
}

/* A number, "~54", or `number` which occurs in a text. */
static zl_status read_published(zl_json published, zl_json figure, double *out, zl_err *err)
{
    const char *path = NULL;
    const char *text = NULL;
    const char *number = NULL;
    ZL_TRY(zl_json_string(zl_json_get(figure, "published"), &path, err));
    ZL_TRY(get_text(figure, "number", &number, err));
    const zl_json value = follow(published, path);
    if (number == NULL && zl_json_is_number(value)) {
        return zl_json_real(value, out, err);
    }
    ZL_TRY(zl_json_string(value, &text, err));
    if (number == NULL) {
        number = text[0] == '~' ? text + 1 : text;
    } else if (strstr(text, number) == NULL) {
        return zl_fail(err, ZL_E_INPUT, "%s does not occur in %s", number, value.path);
    }
    return zl_parse_real(path, number, out, err);
}

/* ---- together ---- */

static zl_status describe(zl_json figure, const zv_field_answer *answers, zv_field_figure *out,
                          zl_err *err)
{
    uint64_t run = 0;
    const char *at = NULL;
    const char *quantity = NULL;
    const char *term = NULL;
    const char *without = NULL;
    ZL_TRY(zl_json_u64(zl_json_get(figure, "run"), &run, err));
    ZL_TRY(zl_json_string(zl_json_get(figure, "at"), &at, err));
    ZL_TRY(zl_json_string(zl_json_get(figure, "quantity"), &quantity, err));
    ZL_TRY(get_text(figure, "term", &term, err));
    ZL_TRY(get_text(figure, "without", &without, err));
    const bool mark = strcmp(at, "-") != 0;
    snprintf(out->what, sizeof out->what, "%s: %s%s%s%s%s%s%s", answers[run].name,
             mark ? at : quantity, mark ? ", " : "", mark ? quantity : "", term != NULL ? ", " : "",
             term != NULL ? term : "", without != NULL ? ", without " : "",
             without != NULL ? without : "");
    return ZL_OK;
}

/* How near it has to be, and whether it is; *shown: decimals of ours. */
static zl_status judge(zl_json figure, double published, double ours, int *shown,
                       zv_field_figure *out, zl_err *err)
{
    const zl_json decimals = zl_json_get(figure, "decimals");
    const zl_json percent = zl_json_get(figure, "percent");
    out->asserted = true;
    if (decimals.node != NULL) {
        uint64_t digits = 0;
        char rounded[32];
        char wanted[32];
        ZL_TRY(zl_json_u64(decimals, &digits, err));
        snprintf(rounded, sizeof rounded, "%.*f", (int)digits, ours);
        snprintf(wanted, sizeof wanted, "%.*f", (int)digits, published);
        snprintf(out->allowed, sizeof out->allowed, "%" PRIu64 " decimal%s", digits,
                 digits == 1 ? "" : "s");
        *shown = (int)digits > *shown ? (int)digits : *shown;
        out->right = strcmp(rounded, wanted) == 0;
    } else if (percent.node != NULL) {
        double bound = 0;
        ZL_TRY(zl_json_real(percent, &bound, err));
        snprintf(out->allowed, sizeof out->allowed, "%g %%", bound);
        out->right = fabs(ours - published) <= bound / 100 * published;
    } else if (zl_json_get(figure, "floor").node != NULL) {
        snprintf(out->allowed, sizeof out->allowed, "cut off");
        out->right = floor(ours) == published;
    } else {
        out->asserted = false;
    }
    return ZL_OK;
}

static zl_status unit_of(zl_json figure, size_t *out, zl_err *err)
{
    const char *name = NULL;
    ZL_TRY(zl_json_string(zl_json_get(figure, "unit"), &name, err));
    for (size_t i = 0; i < UNITS; i++) {
        if (strcmp(units[i].name, name) == 0) {
            *out = i;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_INPUT, "%s: there is no unit '%s'", figure.path, name);
}

zl_status zv_field_figure_of(zl_json published, zl_json figure, const zv_field_answer *answers,
                             size_t count, zv_field_figure *out, zl_err *err)
{
    static const char *const keys[] = {
        "run",  "published", "number", "unit",     "at",       "quantity", "term",  "without",
        "less", "negative",  "per",    "multiple", "decimals", "percent",  "floor", "why"};
    const char *number = NULL;
    double theirs = 0;
    double ours = 0;
    size_t unit = 0;
    *out = (zv_field_figure){0};
    ZL_TRY(zl_json_only(figure, keys, sizeof keys / sizeof keys[0], err));
    ZL_TRY(unit_of(figure, &unit, err));
    ZL_TRY(value_of(published, figure, answers, count, units[unit].bytes, &ours, err));
    ZL_TRY(read_published(published, figure, &theirs, err));
    ZL_TRY(describe(figure, answers, out, err));
    int shown = units[unit].decimals;
    ZL_TRY(judge(figure, theirs, ours, &shown, out, err));
    ZL_TRY(zl_json_string(zl_json_get(figure, "why"), &out->why, err));
    ZL_TRY(get_text(figure, "number", &number, err));
    if (number != NULL) {
        snprintf(out->published, sizeof out->published, "%s %s", number, units[unit].name);
    } else {
        snprintf(out->published, sizeof out->published, "%.15g %s", theirs, units[unit].name);
    }
    snprintf(out->ours, sizeof out->ours, "%.*f %s", shown, ours, units[unit].name);
    snprintf(out->off, sizeof out->off, "%+.3f %%", 100 * (ours - theirs) / theirs);
    return ZL_OK;
}
