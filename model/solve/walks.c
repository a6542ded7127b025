/* Inverse questions about frameworks: as few walks as the proof needs.
 *
 * What a program asks for does not depend on the allocator, rises with the quantity (falls with the
 * ranks) and is close to straight in it (in 1/N). So a few walks without a limit find the edge: the
 * best value that asks for no more than the capacity. Nothing beyond it fits. Before it the
 * allocator decides, whose losses between buffers go up and down with every value; from the edge
 * back, walks with the limit find the first value that fits. Walks that look have fewer steps: what
 * runs out of memory in them does so in the whole run, as both begin alike. The answer itself is
 * walked whole.
 */
#include "solve/walks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "zeroledger/bytes.h"
#include "zeroledger/torch.h"

enum {
    LOOK_STEPS = 2,    /* the first step creates the states, the second has them from its start */
    LAYERS_MAX = 4096, /* torch/predict.c walks no deeper models */
    NEAR = 32,         /* values from the edge back, one by one, before the steps grow */
    NEAR_TOKENS = 4,
    RANKS_USUAL = 1024
};

/* More than any device holds, and more ranks than any cluster has. */
static const uint64_t most_sequences = UINT64_C(1) << 24;
static const uint64_t most_tokens = UINT64_C(1) << 24;
static const uint64_t most_ranks = UINT64_C(1) << 14;

/* One value, walked. */
typedef struct point {
    bool known;
    bool fits;
    uint64_t value;
    uint64_t requested, allocated, reserved; /* largest peaks */
} point;

typedef struct search {
    const zl_question *question;
    zl_run run; /* with what its files decide */
    zl_torch_run torch;
    uint64_t low, high;
    bool fewest;    /* the lower the better, and the higher the easier */
    uint32_t steps; /* of a walk that looks */
    uint64_t rank;
    bool skipped;  /* some values between the edge and the answer were not tried */
    point inside;  /* the best value known to ask for no more than the capacity */
    point outside; /* the nearest better one that asks for more */
    point good;    /* a value that fits */
    point bad;     /* the nearest better one that does not */
    zl_fit *fit;
} search;

/* ---- a walk ---- */

static zl_status take_run(search *s, zl_run *run, zl_torch_run *out, zl_err *err)
{
    ZL_TRY(zl_torch_run_from(run, out, NULL, NULL, err));
    if (s->question->chip.capability != 0) {
        out->multiprocessors = s->question->chip.multiprocessors;
        out->capability = s->question->chip.capability;
    }
    return ZL_OK;
}

static void set(const search *s, uint64_t value, zl_torch_run *run)
{
    switch (s->question->quantity) {
    case ZL_QUANTITY_MICRO_BATCH:
        run->micro_batch = value;
        run->ds.micro_batch = value;
        break;
    case ZL_QUANTITY_SEQ:
        run->seq = value;
        break;
    case ZL_QUANTITY_LAYERS:
        run->model.layers = value;
        break;
    case ZL_QUANTITY_RANKS:
        run->ranks = value;
        break;
    case ZL_QUANTITY_STAGE: /* a run of its own */
    case ZL_QUANTITY_COUNT:
        break;
    }
}

static void take_marks(const zl_marks *marks, point *out)
{
    for (size_t i = 0; i < marks->count; i++) {
        const zl_mark *m = &marks->mark[i];
        out->requested = zl_max(out->requested, m->peak_requested);
        out->allocated = zl_max(out->allocated, m->peak_allocated);
        out->reserved = zl_max(out->reserved, m->peak_reserved);
    }
}

/* Walks so many steps of a value; capacity 0: without a limit. What runs out of memory does not
 * fit, and its bytes are not known. */
static zl_status walk(const search *s, uint64_t value, uint64_t rank, uint32_t steps,
                      uint64_t capacity, point *out, zl_err *err)
{
    zl_torch_run run = s->torch;
    zl_marks marks = {0};
    zl_err found = {.status = ZL_OK};
    set(s, value, &run);
    run.steps = steps;
    run.device_total = capacity;
    const zl_status status = zl_torch_predict(&run, rank, &marks, &found);
    *out = (point){.known = true, .fits = status == ZL_OK, .value = value};
    s->fit->walks++;
    if (status == ZL_OK) {
        take_marks(&marks, out);
        s->fit->parameters = marks.parameters;
        s->fit->trainable = marks.trainable;
        snprintf(s->fit->optimizer_class, sizeof s->fit->optimizer_class, "%s",
                 marks.optimizer_class);
    }
    zl_marks_clear(&marks);
    return status == ZL_OK || status == ZL_NO ? ZL_OK : zl_fail(err, status, "%s", found.text);
}

/* ---- the edge ---- */

/* Without a limit: what the beginning of a run asks for. */
static zl_status ask(search *s, uint64_t value, zl_err *err)
{
    point at;
    ZL_TRY(walk(s, value, s->rank, s->steps, 0, &at, err));
    if (!at.fits) { /* one buffer is more than any GPU has */
        at.requested = at.allocated = at.reserved = ZL_POISON;
    }
    at.fits = at.reserved <= s->question->capacity;
    *(at.requested <= s->question->capacity ? &s->inside : &s->outside) = at;
    return ZL_OK;
}

/* The straight line through two points, in the value or in its reciprocal, meets the capacity near
 * this value. A guess where to look, no figure. */
static double guess(const search *s, const point *a, const point *b)
{
    const double x = s->fewest ? 1.0 / (double)a->value : (double)a->value;
    const double y = s->fewest ? 1.0 / (double)b->value : (double)b->value;
    const double rise = (double)b->requested - (double)a->requested;
    const double at = x + ((double)s->question->capacity - (double)a->requested) * (y - x) / rise;
    return s->fewest ? 1.0 / at : at;
}

static uint64_t clamp(double value, uint64_t low, uint64_t high)
{
    return value > (double)low ? value < (double)high ? (uint64_t)value : high : low;
}

static uint64_t gap(const point *a, const point *b)
{
    return a->value > b->value ? a->value - b->value : b->value - a->value;
}

/* Until inside and outside are neighbours. Halves the gap where the line did not. */
static zl_status close_in(search *s, zl_err *err)
{
    bool halve = false;
    while (gap(&s->inside, &s->outside) > 1) {
        const uint64_t before = gap(&s->inside, &s->outside);
        const uint64_t least = zl_min(s->inside.value, s->outside.value);
        uint64_t value = least + before / 2;
        if (!halve && !zl_poisoned(s->outside.requested)) {
            value = clamp(guess(s, &s->inside, &s->outside), least + 1, least + before - 1);
        }
        ZL_TRY(ask(s, value, err));
        halve = gap(&s->inside, &s->outside) > before / 2;
    }
    return ZL_OK;
}

/* From a value inside up to one outside, or to the last: twice as far, then as far as the line
 * reaches, then twice as far again. */
static zl_status reach_up(search *s, zl_err *err)
{
    point before = {.known = false};
    while (!s->outside.known && s->inside.value < s->high) {
        uint64_t value = zl_min(zl_mul(2, s->inside.value), s->high);
        if (before.known && before.requested < s->inside.requested) {
            value = clamp(guess(s, &before, &s->inside) + 1, s->inside.value + 1, s->high);
            before.known = false;
        } else {
            before = s->inside;
        }
        ZL_TRY(ask(s, value, err));
    }
    return ZL_OK;
}

static zl_status edge_of_most(search *s, uint64_t start, zl_err *err)
{
    ZL_TRY(ask(s, start, err));
    if (s->inside.known) {
        ZL_TRY(reach_up(s, err));
    } else if (start > s->low) {
        ZL_TRY(ask(s, s->low, err));
    }
    return s->inside.known && s->outside.known ? close_in(s, err) : ZL_OK;
}

/* Bytes that more ranks than these do not get below. A peak falls with 1/N along a curve that bends
 * up but for rounding, so it stays above the line through N/2 and N ranks, at 1/N = 0. */
static zl_status bound_beyond(search *s, uint64_t *floor, zl_err *err)
{
    const point at = s->outside;
    ZL_TRY(ask(s, zl_max(at.value / 2, s->low), err));
    const uint64_t half = s->outside.requested;
    s->outside = at;
    *floor = half > at.requested ? at.requested - zl_min(half - at.requested, at.requested)
                                 : at.requested;
    return ZL_OK;
}

/* From the lowest number up to one that is enough, or until no number can be. */
static zl_status edge_of_ranks(search *s, zl_err *err)
{
    ZL_TRY(ask(s, s->low, err));
    const point lowest = s->outside;
    uint64_t value = zl_min(s->high, zl_max(s->low, RANKS_USUAL));
    while (!s->inside.known && s->outside.value < s->high) {
        uint64_t floor = 0;
        ZL_TRY(ask(s, value, err));
        if (s->inside.known) {
            break;
        }
        ZL_TRY(bound_beyond(s, &floor, err));
        if (s->inside.known) { /* half as many are enough, as padding grows with the ranks */
            s->outside = lowest;
        } else if (floor > s->question->capacity) {
            s->fit->floor = floor;
            return ZL_OK;
        }
        value = zl_min(zl_mul(4, value), s->high);
    }
    return s->inside.known && s->outside.known ? close_in(s, err) : ZL_OK;
}

/* ---- from the edge back ---- */

/* The value that is easier by so many, or the easiest; false: this is it. */
static bool easier(const search *s, uint64_t by, uint64_t *value)
{
    const uint64_t end = s->fewest ? s->high : s->low;
    const uint64_t left = s->fewest ? end - *value : *value - end;
    *value = s->fewest ? *value + zl_min(by, left) : *value - zl_min(by, left);
    return left > 0;
}

static zl_status look(search *s, uint64_t value, zl_err *err)
{
    point at = s->inside;
    if (at.value != value || !at.fits) { /* else even what is reserved is within the capacity */
        ZL_TRY(walk(s, value, s->rank, s->steps, s->question->capacity, &at, err));
    }
    *(at.fits ? &s->good : &s->bad) = at;
    return ZL_OK;
}

/* The first value that fits, from this one on: one by one, then in steps that double and bisected
 * back. */
static zl_status go_back(search *s, uint64_t value, zl_err *err)
{
    const int near = s->question->quantity == ZL_QUANTITY_SEQ ? NEAR_TOKENS : NEAR;
    uint64_t step = 1;
    s->good.known = false;
    ZL_TRY(look(s, value, err));
    for (int i = 1; !s->good.known && easier(s, step, &value); i++) {
        s->skipped |= step > 1;
        ZL_TRY(look(s, value, err));
        step = i < near ? 1 : zl_mul(2, step);
    }
    while (s->good.known && s->bad.known && gap(&s->good, &s->bad) > 1) {
        value = zl_min(s->good.value, s->bad.value) + gap(&s->good, &s->bad) / 2;
        ZL_TRY(look(s, value, err));
    }
    return ZL_OK;
}

/* The whole run of the rank at hand, and the beginning of the others that may be heavier. */
static zl_status prove(search *s, bool *proved, zl_err *err)
{
    const zl_question *q = s->question;
    zl_torch_run run = s->torch;
    point at;
    point other = {.fits = true};
    uint64_t rank = 0;
    set(s, s->good.value, &run);
    for (uint64_t i = 0; !q->one_rank && other.fits && zl_torch_rank_at(&run, i, &rank); i++) {
        s->fit->looked = i + 1;
        if (rank != s->rank) {
            ZL_TRY(walk(s, s->good.value, rank, s->steps, q->capacity, &other, err));
        }
    }
    if (!other.fits) {
        s->rank = rank;
        *proved = false;
        return ZL_OK;
    }
    ZL_TRY(walk(s, s->good.value, s->rank, s->torch.steps, q->capacity, &at, err));
    s->steps = at.fits ? s->steps : s->torch.steps;
    *proved = at.fits;
    s->good.allocated = at.fits ? at.allocated : s->good.allocated;
    s->good.reserved = at.fits ? at.reserved : s->good.reserved;
    return ZL_OK;
}

static zl_trial trial_of(const point *at)
{
    return at->known ? (zl_trial){.tried = true,
                                  .fits = at->fits,
                                  .value = at->value,
                                  .bytes = at->allocated,
                                  .reserved = at->reserved}
                     : (zl_trial){.tried = false};
}

/* The value that does not fit, whole and without the limit: its bytes; the model is the answer's.
 */
static zl_status show_next(search *s, zl_err *err)
{
    point at;
    const zl_fit fit = *s->fit;
    ZL_TRY(walk(s, s->bad.value, s->rank, s->torch.steps, 0, &at, err));
    s->bad.allocated = at.fits ? at.allocated : ZL_POISON;
    s->bad.reserved = at.fits ? at.reserved : ZL_POISON;
    if (fit.best.tried) {
        s->fit->parameters = fit.parameters;
        s->fit->trainable = fit.trainable;
        memcpy(s->fit->optimizer_class, fit.optimizer_class, sizeof fit.optimizer_class);
    }
    s->fit->next = trial_of(&s->bad);
    return ZL_OK;
}

static zl_status find(search *s, uint64_t start, zl_err *err)
{
    bool proved = false;
    ZL_TRY(s->fewest ? edge_of_ranks(s, err) : edge_of_most(s, start, err));
    s->bad = s->outside;
    uint64_t value = s->inside.value;
    while (s->inside.known && !proved) {
        ZL_TRY(go_back(s, value, err));
        if (!s->good.known) {
            break;
        }
        ZL_TRY(prove(s, &proved, err));
        value = s->good.value;
        if (!proved) { /* what looked as if it fitted is the nearest that does not */
            s->bad = s->good;
            s->bad.fits = false;
            s->good.known = false;
            if (!easier(s, 1, &value)) {
                break;
            }
        }
    }
    s->fit->best = trial_of(&s->good);
    return s->bad.known ? show_next(s, err) : ZL_OK;
}

/* ---- stages ---- */

/* The whole run at one stage; a stage that the framework or its file does not have is not tried.
 * Other ranks are looked at where it would be the answer. */
static zl_status try_stage(search *s, uint64_t stage, bool answer, zl_err *err)
{
    zl_run run = s->run;
    zl_torch_run torch;
    bool proved = true;
    zl_err refused = {.status = ZL_OK};
    if (zl_quantity_set(ZL_QUANTITY_STAGE, stage, &run, &refused) != ZL_OK ||
        take_run(s, &run, &torch, &refused) != ZL_OK) {
        return refused.status == ZL_E_RESOURCE ? zl_fail(err, refused.status, "%s", refused.text)
                                               : ZL_OK;
    }
    s->torch = torch;
    s->rank = s->question->one_rank ? s->question->rank : 0;
    ZL_TRY(walk(s, stage, s->rank, torch.steps, 0, &s->good, err));
    s->good.fits = s->good.fits && s->good.reserved <= s->question->capacity;
    if (!s->good.fits && s->good.requested <= s->question->capacity) {
        point limited;
        ZL_TRY(walk(s, stage, s->rank, torch.steps, s->question->capacity, &limited, err));
        s->good.fits = limited.fits;
    }
    if (s->good.fits && answer) {
        ZL_TRY(prove(s, &proved, err));
    }
    s->good.fits = s->good.fits && proved;
    s->fit->stage[stage] = trial_of(&s->good);
    return ZL_OK;
}

static zl_status find_stage(search *s, zl_err *err)
{
    bool found = false;
    for (uint64_t stage = s->low; stage <= s->high; stage++) {
        const zl_fit before = *s->fit;
        ZL_TRY(try_stage(s, stage, !found, err));
        if (found) { /* the rank, the parameters and the like are the answer's */
            const zl_trial trial = s->fit->stage[stage];
            const uint64_t walks = s->fit->walks;
            *s->fit = before;
            s->fit->stage[stage] = trial;
            s->fit->walks = walks;
        } else {
            s->fit->rank = s->rank;
            found = s->fit->stage[stage].fits;
        }
    }
    zl_fit_take_stage(s->fit);
    return ZL_OK;
}

/* ---- the question ---- */

static void natural_range(search *s)
{
    const zl_torch_run *run = &s->torch;
    const zl_question *q = s->question;
    s->low = 1;
    switch (q->quantity) {
    case ZL_QUANTITY_MICRO_BATCH:
        s->high = most_sequences;
        break;
    case ZL_QUANTITY_SEQ:
        s->high = zl_min(most_tokens, zl_hf_longest(&run->model));
        s->high = run->model.window != 0 ? zl_min(s->high, run->model.window - 1) : s->high;
        break;
    case ZL_QUANTITY_LAYERS:
        s->low = zl_max(1, run->trainable_layers);
        s->high = LAYERS_MAX;
        break;
    case ZL_QUANTITY_RANKS:
        s->low = q->one_rank ? zl_add(q->rank, 1) : 1;
        s->high = run->framework == ZL_TORCH_SINGLE ? 1 : most_ranks;
        break;
    case ZL_QUANTITY_STAGE:
        s->low = 0;
        s->high = ZL_STAGES - 1;
        break;
    case ZL_QUANTITY_COUNT:
        break;
    }
}

static zl_status check_activations(const search *s, zl_err *err)
{
    const zl_quantity q = s->question->quantity;
    if (s->torch.activations == 0 || q == ZL_QUANTITY_RANKS || q == ZL_QUANTITY_STAGE) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_USAGE,
                   "given activations do not grow with %s; leave --activations out",
                   q == ZL_QUANTITY_MICRO_BATCH ? "the micro-batch"
                   : q == ZL_QUANTITY_SEQ       ? "the sequence"
                                                : "the layers");
}

static zl_fit_end end_of(const search *s)
{
    if (s->fit->next.tried) {
        return ZL_FIT_CAPACITY;
    }
    if (s->question->quantity == ZL_QUANTITY_SEQ && s->fit->found) {
        const uint64_t window = s->torch.model.window;
        if (s->fit->best.value == zl_hf_longest(&s->torch.model)) {
            return ZL_FIT_POSITIONS;
        }
        if (window != 0 && s->fit->best.value == window - 1) {
            return ZL_FIT_WINDOW;
        }
    }
    return ZL_FIT_RANGE;
}

static uint64_t value_of(const search *s)
{
    const zl_torch_run *run = &s->torch;
    switch (s->question->quantity) {
    case ZL_QUANTITY_MICRO_BATCH:
        return run->micro_batch;
    case ZL_QUANTITY_SEQ:
        return run->seq;
    case ZL_QUANTITY_LAYERS:
        return run->model.layers;
    case ZL_QUANTITY_RANKS:
    case ZL_QUANTITY_STAGE:
    case ZL_QUANTITY_COUNT:
        break;
    }
    return 1;
}

zl_status zl_solve_walks(const zl_run *run, const zl_question *question, zl_fit *fit, zl_err *err)
{
    search s = {
        .question = question,
        .run = *run,
        .fewest = question->quantity == ZL_QUANTITY_RANKS,
        .steps = LOOK_STEPS,
        .rank = question->one_rank ? question->rank : 0,
        .fit = fit,
    };
    fit->looked = 1;
    ZL_TRY(take_run(&s, &s.run, &s.torch, err));
    ZL_TRY(check_activations(&s, err));
    natural_range(&s);
    ZL_TRY(zl_fit_range(question, &s.low, &s.high, err));
    s.steps = s.steps < s.torch.steps ? s.steps : s.torch.steps;
    if (question->quantity == ZL_QUANTITY_STAGE) {
        ZL_TRY(find_stage(&s, err));
    } else {
        ZL_TRY(find(&s, zl_min(zl_max(value_of(&s), s.low), s.high), err));
    }
    fit->rank = question->quantity == ZL_QUANTITY_STAGE ? fit->rank : s.rank;
    fit->exact = !s.skipped;
    fit->edge = s.outside.known ? s.outside.value : 0;
    fit->found = fit->best.tried;
    fit->end = end_of(&s);
    return ZL_OK;
}
