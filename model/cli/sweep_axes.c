/* Lists and ranges as values of options. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"
#include "zeroledger/bytes.h"

enum { VALUES_MAX = 1 << 20, BASES_MAX = 1024, ITEM_SIZE = 512 };

const char *zl_axis_text(const zl_axis *axis, size_t index, char scratch[static ZL_AXIS_TEXT])
{
    const zl_axis_value *value = &axis->value[index];
    if (value->text != NULL) {
        return value->text;
    }
    (void)snprintf(scratch, ZL_AXIS_TEXT, "%" PRIu64, value->number);
    return scratch;
}

/* ---- one value ---- */

/* Takes the text over, or with NULL the number. */
static zl_status add_value(zl_axis *axis, char *text, uint64_t number, zl_err *err)
{
    char scratch[ZL_AXIS_TEXT];
    const size_t room = axis->count;
    if (room == VALUES_MAX) {
        free(text);
        return zl_fail(err, ZL_E_USAGE, "%s has more than %d values; take a larger step",
                       axis->option->name, VALUES_MAX);
    }
    if ((room & (room - 1)) == 0) { /* full at every power of two */
        zl_axis_value *more = realloc(axis->value, (room == 0 ? 1 : 2 * room) * sizeof *more);
        if (more == NULL) {
            free(text);
            return zl_fail(err, ZL_E_RESOURCE, "out of memory");
        }
        axis->value = more;
    }
    axis->value[axis->count++] = (zl_axis_value){.text = text, .number = number};
    axis->width = zl_max(axis->width, strlen(zl_axis_text(axis, axis->count - 1, scratch)));
    return ZL_OK;
}

static zl_status add_text(zl_axis *axis, const char *text, zl_err *err)
{
    char *copy = strdup(text);
    return copy != NULL ? add_value(axis, copy, 0, err)
                        : zl_fail(err, ZL_E_RESOURCE, "out of memory");
}

/* ---- ranges: LOW..HIGH, LOW..HIGH+STEP, LOW..HIGHxFACTOR ---- */

typedef struct range {
    uint64_t low, high, step;
    bool geometric;
} range;

/* An item of a list and where it begins. */
typedef struct item {
    const zl_axis *axis;
    char text[ITEM_SIZE];
    size_t position; /* of its first character, from 1 */
} item;

static zl_status wrong(const item *it, const char *what, zl_err *err)
{
    return zl_fail(err, ZL_E_USAGE, "%s: '%.60s' at character %zu %s", it->axis->option->name,
                   it->text, it->position, what);
}

static zl_status read_number(const item *it, const char *text, uint64_t *out, zl_err *err)
{
    zl_err found = {.status = ZL_OK};
    const bool bytes = it->axis->type == ZL_VALUE_BYTES;
    const zl_status status = bytes ? zl_parse_bytes(it->axis->option->name, text, out, &found)
                                   : zl_parse_count(it->axis->option->name, text, out, &found);
    return status == ZL_OK
               ? ZL_OK
               : wrong(it, "is no range of numbers, as 1..8, 1..64x2 or 512..4096+512", err);
}

static zl_status read_range(const item *it, range *out, zl_err *err)
{
    char low[ITEM_SIZE];
    char high[ITEM_SIZE];
    const char *dots = strstr(it->text, "..");
    const char *sign = dots + 2 + strcspn(dots + 2, "x+");
    (void)snprintf(low, sizeof low, "%.*s", (int)(dots - it->text), it->text);
    (void)snprintf(high, sizeof high, "%.*s", (int)(sign - dots - 2), dots + 2);
    range r = {.step = 1, .geometric = *sign == 'x'};
    ZL_TRY(read_number(it, low, &r.low, err));
    ZL_TRY(read_number(it, high, &r.high, err));
    if (*sign != '\0') {
        ZL_TRY(read_number(it, sign + 1, &r.step, err));
    }
    if (r.high < r.low) {
        return wrong(it, "goes down; write the smaller number first", err);
    }
    if (r.step < (r.geometric ? 2 : 1)) {
        return wrong(it,
                     r.geometric ? "never ends; the factor must be 2 or more"
                                 : "never ends; the step must be 1 or more",
                     err);
    }
    if (r.geometric && r.low == 0) {
        return wrong(it, "never leaves 0; begin at 1 or more", err);
    }
    *out = r;
    return ZL_OK;
}

static zl_status add_range(const item *it, zl_axis *axis, zl_err *err)
{
    range r = {.step = 1};
    ZL_TRY(read_range(it, &r, err));
    for (uint64_t n = r.low; n <= r.high && !zl_poisoned(n);
         n = r.geometric ? zl_mul(n, r.step) : zl_add(n, r.step)) {
        ZL_TRY(add_value(axis, NULL, n, err));
    }
    return ZL_OK;
}

/* ---- lists ---- */

static bool has_ranges(zl_value_type type)
{
    return type == ZL_VALUE_COUNT || type == ZL_VALUE_BYTES;
}

static zl_status add_item(const item *it, zl_axis *axis, zl_err *err)
{
    if (it->text[0] == '\0') {
        return zl_fail(err, ZL_E_USAGE, "%s: nothing at character %zu; a comma is between values",
                       axis->option->name, it->position);
    }
    if (has_ranges(axis->type) && strstr(it->text, "..") != NULL) {
        return add_range(it, axis, err);
    }
    return add_text(axis, it->text, err);
}

/* A flag has one value, and so has a text, which may have commas of its own. */
static zl_status add_list(zl_axis *axis, const char *list, zl_err *err)
{
    if (axis->type == ZL_VALUE_NONE || axis->type == ZL_VALUE_TEXT) {
        return add_text(axis, list, err);
    }
    for (const char *begin = list; begin != NULL;) {
        const size_t length = strcspn(begin, ",");
        item it = {.axis = axis, .position = (size_t)(begin - list) + 1};
        if (length >= sizeof it.text) {
            return zl_fail(err, ZL_E_USAGE, "%s: the value at character %zu is too long",
                           axis->option->name, it.position);
        }
        (void)snprintf(it.text, sizeof it.text, "%.*s", (int)length, begin);
        ZL_TRY(add_item(&it, axis, err));
        begin = begin[length] == ',' ? begin + length + 1 : NULL;
    }
    return ZL_OK;
}

zl_status zl_axis_set(const zl_axis *axis, size_t index, zl_run *run, zl_err *err)
{
    char scratch[ZL_AXIS_TEXT];
    const char *text = zl_axis_text(axis, index, scratch);
    return zl_run_set(run, axis->option->name, axis->type == ZL_VALUE_NONE ? NULL : text, err);
}

/* ---- the grid ---- */

static bool of_run(const zl_option *option)
{
    const zl_option *row = NULL;
    for (size_t i = 0; (row = zl_run_option(i)) != NULL; i++) {
        if (row == option) {
            return true;
        }
    }
    return false;
}

/* What other options are read by, and what is a file or may be one. */
static bool is_slow(const zl_option *option)
{
    return zl_run_option_type(option) == ZL_VALUE_TEXT || strcmp(option->name, "framework") == 0 ||
           strcmp(option->name, "model") == 0;
}

static zl_axis *axis_of(zl_axis *axis, size_t axes, const zl_option *option)
{
    for (size_t i = 0; i < axes; i++) {
        if (axis[i].option == option) {
            return &axis[i];
        }
    }
    return NULL;
}

static void axis_clear(zl_axis *axis)
{
    for (size_t i = 0; i < axis->count; i++) {
        free(axis->value[i].text);
    }
    free(axis->value);
    *axis = (zl_axis){0};
}

/* Every value must be one by itself, whatever the others are; slow ones are read with their base.
 * Of the numbers of ranges only 0 can be none, and a range begins with its smallest. */
static zl_status check_values(const zl_axis *axis, zl_err *err)
{
    zl_run run;
    zl_run_init(&run);
    for (size_t i = 0; !axis->slow && i < axis->count; i++) {
        if (i == 0 || axis->value[i].text != NULL || axis->value[i].number == 0) {
            ZL_TRY(zl_axis_set(axis, i, &run, err));
        }
    }
    return ZL_OK;
}

/* A range of one number: settings are text. */
static zl_status name_single(zl_axis *axis, zl_err *err)
{
    char scratch[ZL_AXIS_TEXT];
    zl_axis_value *value = axis->value;
    if (axis->count == 1 && value->text == NULL) {
        value->text = strdup(zl_axis_text(axis, 0, scratch));
        return value->text != NULL ? ZL_OK : zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    return ZL_OK;
}

/* All options of the run, in the order of their first appearance, with all their values. */
static zl_status read_values(const zl_args *args, zl_axis *axis, size_t *axes, zl_err *err)
{
    for (size_t i = 0; i < args->settings; i++) {
        const zl_option *option = args->setting[i].option;
        if (!of_run(option)) {
            continue;
        }
        zl_axis *a = axis_of(axis, *axes, option);
        if (a == NULL) {
            a = &axis[(*axes)++];
            *a = (zl_axis){
                .option = option, .type = zl_run_option_type(option), .slow = is_slow(option)};
        }
        if (a->type == ZL_VALUE_NONE && a->count > 0) {
            continue;
        }
        ZL_TRY(add_list(a, args->setting[i].value, err));
    }
    for (size_t i = 0; i < *axes; i++) {
        ZL_TRY(check_values(&axis[i], err));
        ZL_TRY(name_single(&axis[i], err));
    }
    return ZL_OK;
}

/* Options with one value decide the bases; the others become the axes. */
static zl_status keep_axes(zl_axis *axis, size_t axes, zl_grid *grid, zl_err *err)
{
    grid->points = 1;
    for (size_t i = 0; i < axes; i++) {
        if (axis[i].count < 2) {
            continue;
        }
        if (grid->axes == ZL_AXES_MAX) {
            return zl_fail(err, ZL_E_USAGE, "more than %d options have several values",
                           ZL_AXES_MAX);
        }
        grid->axis[grid->axes++] = axis[i];
        grid->points = zl_mul(grid->points, axis[i].count);
        axis[i] = (zl_axis){.option = axis[i].option};
    }
    return zl_poisoned(grid->points)
               ? zl_fail(err, ZL_E_USAGE, "the grid has more than 2^64 points; take larger steps")
               : ZL_OK;
}

void zl_grid_digits(const zl_grid *grid, uint64_t point, uint32_t *digit)
{
    for (size_t i = grid->axes; i-- > 0;) {
        digit[i] = (uint32_t)(point % grid->axis[i].count);
        point /= grid->axis[i].count;
    }
}

size_t zl_grid_base(const zl_grid *grid, const uint32_t *digit)
{
    size_t base = 0;
    for (size_t i = 0; i < grid->axes; i++) {
        base = grid->axis[i].slow ? base * grid->axis[i].count + digit[i] : base;
    }
    return base;
}

/* The command line with one value for each option: fast axes left out, slow ones as `base` says. */
static void fix(const zl_args *args, const zl_grid *grid, const zl_axis *fixed, size_t count,
                size_t base, zl_args *out)
{
    *out = *args;
    out->settings = 0;
    for (size_t i = 0; i < args->settings; i++) {
        if (!of_run(args->setting[i].option)) {
            out->setting[out->settings++] = args->setting[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (fixed[i].count == 1) {
            out->setting[out->settings++] = (zl_setting){fixed[i].option, fixed[i].value[0].text};
        }
    }
    for (size_t i = grid->axes; i-- > 0;) {
        const zl_axis *axis = &grid->axis[i];
        if (axis->slow) {
            out->setting[out->settings++] =
                (zl_setting){axis->option, axis->value[base % axis->count].text};
            base /= axis->count;
        }
    }
}

/* A model that a framework does not have refuses its points, not the sweep. */
static zl_status read_bases(const zl_args *args, zl_grid *grid, const zl_axis *fixed, size_t count,
                            zl_err *err)
{
    zl_args one;
    grid->bases = 1;
    for (size_t i = 0; i < grid->axes; i++) {
        grid->bases = zl_mul(grid->bases, grid->axis[i].slow ? grid->axis[i].count : 1);
    }
    if (grid->bases > BASES_MAX) {
        return zl_fail(err, ZL_E_USAGE,
                       "more than %d combinations of models, frameworks and files; sweep in parts",
                       BASES_MAX);
    }
    grid->base = calloc(grid->bases, sizeof *grid->base);
    grid->refusal = calloc(grid->bases, sizeof *grid->refusal);
    if (grid->base == NULL || grid->refusal == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    for (size_t b = 0; b < grid->bases; b++) {
        fix(args, grid, fixed, count, b, &one);
        const zl_status status = zl_args_apply(&one, &grid->base[b], &grid->refusal[b]);
        if (status != ZL_OK && status != ZL_E_UNMODELLED) {
            return zl_fail(err, status, "%s", grid->refusal[b].text);
        }
    }
    return ZL_OK;
}

zl_status zl_grid_read(const zl_args *args, zl_grid *out, zl_err *err)
{
    zl_axis axis[ZL_ARGS_MAX];
    size_t axes = 0;
    *out = (zl_grid){0};
    zl_status status = read_values(args, axis, &axes, err);
    if (status == ZL_OK) {
        status = keep_axes(axis, axes, out, err);
    }
    if (status == ZL_OK) {
        status = read_bases(args, out, axis, axes, err);
    }
    for (size_t i = 0; i < axes; i++) {
        axis_clear(&axis[i]);
    }
    return status;
}

void zl_grid_clear(zl_grid *grid)
{
    for (size_t i = 0; i < grid->axes; i++) {
        axis_clear(&grid->axis[i]);
    }
    free(grid->base);
    free(grid->refusal);
    *grid = (zl_grid){0};
}

static bool is_axis(const zl_grid *grid, const zl_option *option)
{
    for (size_t i = 0; i < grid->axes; i++) {
        if (grid->axis[i].option == option) {
            return true;
        }
    }
    return false;
}

const zl_setting *zl_grid_setting(const zl_grid *grid, const zl_args *args, size_t index)
{
    for (size_t i = 0; i < args->settings; i++) {
        const zl_option *option = args->setting[i].option;
        if (of_run(option) && !is_axis(grid, option) && index-- == 0) {
            return &args->setting[i];
        }
    }
    return NULL;
}

void zl_grid_fixed(const zl_grid *grid, const zl_args *args, char *text, size_t size)
{
    const zl_setting *set = NULL;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; used < size && (set = zl_grid_setting(grid, args, i)) != NULL; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", i == 0 ? "" : ", ",
                                 set->option->name, set->value[0] != '\0' ? " " : "", set->value);
    }
}
