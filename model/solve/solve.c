#include "zeroledger/solve.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "solve/walks.h"
#include "zeroledger/bytes.h"
#include "zeroledger/json.h"

static const uint64_t no_end = ZL_POISON - 1;

/* ---- names ---- */

const char *zl_quantity_name(zl_quantity quantity)
{
    static const char *const names[ZL_QUANTITY_COUNT] = {
        [ZL_QUANTITY_MICRO_BATCH] = "micro_batch",
        [ZL_QUANTITY_SEQ] = "seq",
        [ZL_QUANTITY_LAYERS] = "layers",
        [ZL_QUANTITY_RANKS] = "ranks",
        [ZL_QUANTITY_STAGE] = "stage",
    };
    return quantity < ZL_QUANTITY_COUNT ? names[quantity] : "";
}

const char *zl_fit_end_name(zl_fit_end end)
{
    static const char *const names[ZL_FIT_END_COUNT] = {
        [ZL_FIT_CAPACITY] = "capacity",
        [ZL_FIT_POSITIONS] = "positions",
        [ZL_FIT_WINDOW] = "sliding_window",
        [ZL_FIT_RANGE] = "range",
    };
    return names[end];
}

/* ---- another value ---- */

static zl_status set_in_config(zl_run *run, const char *path, uint64_t value, zl_err *err)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return zl_run_set_config(run, path, text, err);
}

static zl_status set_stage_in_config(zl_json file, zl_run *run, zl_err *err)
{
    char text[32];
    if (zl_json_is_object(zl_json_get(file, "zero_optimization"))) {
        return set_in_config(run, "zero_optimization.stage", run->stage, err);
    }
    snprintf(text, sizeof text, "{\"stage\": %" PRIu64 "}", run->stage);
    return zl_run_set_config(run, "zero_optimization", text, err);
}

/* What the ds_config.json says of it, it says anew. */
static zl_status follow_in_config(zl_quantity quantity, zl_run *run, zl_err *err)
{
    static const char micro[] = "train_micro_batch_size_per_gpu";
    static const char total[] = "train_batch_size";
    zl_json_doc *doc = NULL;
    ZL_TRY(zl_json_parse("ds_config.json", run->ds_config, strlen(run->ds_config), &doc, err));
    const zl_json file = zl_json_root(doc);
    const bool batch = quantity == ZL_QUANTITY_MICRO_BATCH || quantity == ZL_QUANTITY_RANKS;
    zl_status status = quantity == ZL_QUANTITY_STAGE ? set_stage_in_config(file, run, err) : ZL_OK;
    if (status == ZL_OK && batch && zl_json_is_number(zl_json_get(file, micro))) {
        status = set_in_config(run, micro, run->micro_batch, err);
    }
    if (status == ZL_OK && batch && zl_json_is_number(zl_json_get(file, total))) {
        status = set_in_config(run, total, zl_prod(run->micro_batch, run->accumulation, run->ranks),
                               err);
    }
    zl_json_free(doc);
    return status;
}

zl_status zl_quantity_set(zl_quantity quantity, uint64_t value, zl_run *run, zl_err *err)
{
    static const char *const options[ZL_QUANTITY_COUNT] = {
        [ZL_QUANTITY_MICRO_BATCH] = "micro-batch",
        [ZL_QUANTITY_SEQ] = "seq",
        [ZL_QUANTITY_LAYERS] = "layers",
        [ZL_QUANTITY_RANKS] = "ranks",
        [ZL_QUANTITY_STAGE] = "stage",
    };
    char text[24];
    zl_run changed = *run;
    snprintf(text, sizeof text, "%" PRIu64, value);
    ZL_TRY(zl_run_set(&changed, options[quantity], text, err));
    if (changed.ds_config[0] != '\0') {
        ZL_TRY(follow_in_config(quantity, &changed, err));
    }
    ZL_TRY(zl_run_check(&changed, err));
    *run = changed;
    return ZL_OK;
}

/* ---- native: the closed form of every value ---- */

typedef struct native {
    const zl_question *question;
    zl_run run; /* the quantity is set to each value that is tried */
    uint64_t low, high;
    zl_fit *fit;
} native;

static void set(native *n, uint64_t value)
{
    switch (n->question->quantity) {
    case ZL_QUANTITY_MICRO_BATCH:
        n->run.micro_batch = value;
        break;
    case ZL_QUANTITY_SEQ:
        n->run.seq = value;
        break;
    case ZL_QUANTITY_LAYERS:
        n->run.layers = value;
        n->run.model.layers = value;
        break;
    case ZL_QUANTITY_RANKS:
        n->run.ranks = value;
        break;
    case ZL_QUANTITY_STAGE:
        n->run.stage = value;
        break;
    case ZL_QUANTITY_COUNT:
        break;
    }
}

/* Overflow counts as more than any capacity. */
static zl_status try_value(native *n, uint64_t value, zl_trial *out, zl_err *err)
{
    uint64_t bytes = 0;
    set(n, value);
    ZL_TRY(zl_predict_peak(&n->run, &bytes, NULL, NULL, err));
    *out = (zl_trial){
        .tried = true, .fits = bytes <= n->question->capacity, .value = value, .bytes = bytes};
    return ZL_OK;
}

/* Every term grows with the batch, the sequence and the depth, so doubling brackets the answer and
 * bisection finds it. */
static zl_status find_most(native *n, zl_err *err)
{
    zl_trial good = {0};
    zl_trial bad = {0};
    zl_trial at;
    ZL_TRY(try_value(n, n->low, &at, err));
    while (at.fits && at.value < n->high) {
        good = at;
        ZL_TRY(try_value(n, zl_min(zl_mul(2, good.value), n->high), &at, err));
    }
    *(at.fits ? &good : &bad) = at;
    while (good.tried && bad.tried && bad.value - good.value > 1) {
        ZL_TRY(try_value(n, good.value + (bad.value - good.value) / 2, &at, err));
        *(at.fits ? &good : &bad) = at;
    }
    n->fit->best = good;
    n->fit->next = bad;
    return ZL_OK;
}

/* With this many ranks every shard is as small as it gets, and the padding only grows. */
static uint64_t ranks_that_matter(const zl_run *run)
{
    zl_run alone = *run;
    uint64_t most = 1;
    alone.ranks = 1;
    for (int u = 0; u < ZL_UNIT_COUNT; u++) {
        most = zl_max(most, zl_unit_elements(&alone, (zl_unit)u));
    }
    return most;
}

/* Nothing fits: the power of two that comes nearest. */
static zl_status find_nearest(native *n, zl_err *err)
{
    zl_trial at;
    for (uint64_t ranks = n->low; ranks <= n->high; ranks = zl_mul(2, ranks)) {
        ZL_TRY(try_value(n, ranks, &at, err));
        if (!n->fit->next.tried || at.bytes < n->fit->next.bytes) {
            n->fit->next = at;
        }
    }
    return ZL_OK;
}

/* Padding makes the peak of more ranks now larger, now smaller. So stretches of ranks are left out
 * only where a bound of all of them is above the capacity, and the first rank that is left and fits
 * is the answer. */
static zl_status find_fewest_ranks(native *n, zl_err *err)
{
    uint64_t floor = ZL_POISON;
    uint64_t stretch = 1;
    uint64_t first = n->low;
    while (first <= n->high) {
        const uint64_t last = zl_min(zl_add(first, stretch - 1), n->high);
        uint64_t bound = 0;
        set(n, first);
        ZL_TRY(zl_predict_floor(&n->run, last, &bound, err));
        if (bound > n->question->capacity) {
            floor = zl_min(floor, bound);
            first = last + 1;
            stretch *= 2;
        } else if (first == last) {
            break;
        } else {
            stretch /= 2;
        }
    }
    if (first > n->high) {
        n->fit->floor = floor;
        return find_nearest(n, err);
    }
    ZL_TRY(try_value(n, first, &n->fit->best, err));
    return first > n->low ? try_value(n, first - 1, &n->fit->next, err) : ZL_OK;
}

static zl_status find_stage(native *n, zl_err *err)
{
    for (uint64_t s = n->low; s <= n->high; s++) {
        ZL_TRY(try_value(n, s, &n->fit->stage[s], err));
    }
    zl_fit_take_stage(n->fit);
    return ZL_OK;
}

void zl_fit_take_stage(zl_fit *fit)
{
    for (int s = 0; s < ZL_STAGES && !fit->best.tried; s++) {
        if (fit->stage[s].fits) {
            fit->best = fit->stage[s];
            fit->next = s > 0 ? fit->stage[s - 1] : (zl_trial){0};
        }
    }
    for (int s = 0; s < ZL_STAGES && !fit->best.tried; s++) {
        const zl_trial *at = &fit->stage[s];
        fit->next =
            at->tried && (!fit->next.tried || at->bytes < fit->next.bytes) ? *at : fit->next;
    }
}

/* Values that the run allows. */
static void natural_range(native *n, uint64_t *low, uint64_t *high)
{
    const zl_run *run = &n->run;
    *low = 1;
    *high = no_end;
    switch (n->question->quantity) {
    case ZL_QUANTITY_MICRO_BATCH:
        break;
    case ZL_QUANTITY_SEQ:
        if (run->model.family != ZL_FAMILY_LLAMA) { /* rotations have no last position */
            *high = run->model.positions;
        }
        break;
    case ZL_QUANTITY_LAYERS:
        *low = zl_max(1, run->window);
        break;
    case ZL_QUANTITY_RANKS:
        *high = ranks_that_matter(run);
        break;
    case ZL_QUANTITY_STAGE:
        *low = run->shard_copy ? 0 : 3;
        *high = 3;
        break;
    case ZL_QUANTITY_COUNT:
        break;
    }
}

zl_status zl_fit_range(const zl_question *question, uint64_t *low, uint64_t *high, zl_err *err)
{
    const uint64_t first = *low;
    const uint64_t last = *high;
    *low = zl_max(first, question->low);
    *high = question->high != 0 ? zl_min(last, question->high) : last;
    if (*low <= *high) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_USAGE,
                   "no %s from %" PRIu64 " to %" PRIu64 " is possible here; %" PRIu64 " to %" PRIu64
                   " are",
                   zl_quantity_name(question->quantity), question->low,
                   question->high != 0 ? question->high : last, first, last);
}

/* Where the peak of what limits falls: of the neighbour, or of the answer where there is none. */
static zl_status find_peak(native *n, zl_err *err)
{
    uint64_t bytes = 0;
    const zl_trial *at = n->fit->next.tried ? &n->fit->next : &n->fit->best;
    set(n, at->value);
    return zl_predict_peak(&n->run, &bytes, &n->fit->visit, &n->fit->phase, err);
}

static zl_status solve_native(const zl_run *run, const zl_question *question, zl_fit *fit,
                              zl_err *err)
{
    native n = {.question = question, .run = *run, .fit = fit};
    natural_range(&n, &n.low, &n.high);
    const uint64_t last = n.high;
    ZL_TRY(zl_fit_range(question, &n.low, &n.high, err));
    if (question->quantity == ZL_QUANTITY_STAGE) {
        ZL_TRY(find_stage(&n, err));
    } else if (question->quantity == ZL_QUANTITY_RANKS) {
        ZL_TRY(find_fewest_ranks(&n, err));
    } else {
        ZL_TRY(find_most(&n, err));
    }
    fit->exact = true;
    fit->found = fit->best.tried;
    fit->end = fit->next.tried ? ZL_FIT_CAPACITY : ZL_FIT_RANGE;
    if (question->quantity == ZL_QUANTITY_SEQ && fit->best.value == last && last != no_end) {
        fit->end = ZL_FIT_POSITIONS;
    }
    return find_peak(&n, err);
}

zl_status zl_solve(const zl_run *run, const zl_question *question, zl_fit *out, zl_err *err)
{
    zl_fit fit = {0};
    if (question->capacity == 0 || zl_poisoned(question->capacity)) {
        return zl_fail(err, ZL_E_USAGE,
                       "capacity must be positive and below 2^64 - 1, got %" PRIu64,
                       question->capacity);
    }
    ZL_TRY(run->framework == ZL_FRAMEWORK_NATIVE ? solve_native(run, question, &fit, err)
                                                 : zl_solve_walks(run, question, &fit, err));
    *out = fit;
    return ZL_OK;
}
