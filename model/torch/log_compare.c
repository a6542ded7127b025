#include "torch/log_compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch/predict.h"
#include "zeroledger/bytes.h"

/* ---- the walk's instants ---- */

/* Places of a micro-step, in order: what "Engine before forward" and the others of DeepSpeed's
 * memory_breakdown call, and what people print themselves. */
typedef enum place {
    BEFORE_FORWARD,
    AFTER_FORWARD,
    BEFORE_BACKWARD,
    AFTER_BACKWARD,
    BEFORE_STEP,
    AFTER_STEP,
    PLACES
} place;

static const char *const place_names[PLACES] = {
    [BEFORE_FORWARD] = "before forward",   [AFTER_FORWARD] = "after forward",
    [BEFORE_BACKWARD] = "before backward", [AFTER_BACKWARD] = "after backward",
    [BEFORE_STEP] = "before step",         [AFTER_STEP] = "after step",
};

typedef struct instant {
    int32_t step;
    char at[ZT_AT]; /* of a mark */
    bool printed;   /* by memory_breakdown: */
    place where;
    uint64_t micro;
    bool resets; /* also without any log */
    uint64_t now[ZT_FIGURE_COUNT];
    uint64_t most[ZT_FIGURE_COUNT]; /* since the instant before, at the figure without peak_ */
} instant;

typedef struct timeline {
    const zl_torch_run *run;
    instant *at;
    size_t count, capacity;
    int32_t step;    /* that has begun; -1: none */
    uint64_t resets; /* in it */
    const char *resets_at;
    bool failed;
} timeline;

static instant *instant_new(timeline *t)
{
    if (t->count == t->capacity) {
        const size_t capacity = 2 * t->capacity + 64;
        instant *more = realloc(t->at, capacity * sizeof *more);
        if (more == NULL) {
            t->failed = true;
            return NULL;
        }
        t->at = more;
        t->capacity = capacity;
    }
    instant *made = &t->at[t->count++];
    *made = (instant){.step = t->step};
    return made;
}

/* Within a step only memory_breakdown resets peaks, in the order of the places. */
static void hear_reset(timeline *t, const zt_stats *stats)
{
    instant *i = instant_new(t);
    if (i == NULL) {
        return;
    }
    i->resets = true;
    i->printed = t->step >= 0;
    i->where = (place)(t->resets % PLACES);
    i->micro = t->resets / PLACES;
    t->resets += i->printed ? 1 : 0;
    i->now[ZT_REQUESTED] = stats->requested.current;
    i->now[ZT_ALLOCATED] = stats->allocated.current;
    i->now[ZT_RESERVED] = stats->reserved.current;
    i->most[ZT_REQUESTED] = stats->requested.peak;
    i->most[ZT_ALLOCATED] = stats->allocated.peak;
    i->most[ZT_RESERVED] = stats->reserved.peak;
}

/* Whether a name is one of a comma-separated list; "all" has every name. */
static bool is_listed(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *item = list; item != NULL && *item != '\0';) {
        const size_t size = strcspn(item, ",");
        if ((size == length && memcmp(item, name, length) == 0) ||
            (size == 3 && memcmp(item, "all", 3) == 0)) {
            return true;
        }
        item += size + (item[size] == ',' ? 1 : 0);
    }
    return false;
}

static void hear(void *context, const zt_happened *happened)
{
    timeline *t = context;
    if (happened->what == ZT_RESETS) {
        hear_reset(t, happened->stats);
    } else if (happened->what == ZT_MARKS) {
        if (happened->step != t->step) {
            t->step = happened->step;
            t->resets = 0;
        }
        instant *i = instant_new(t);
        if (i != NULL) {
            snprintf(i->at, sizeof i->at, "%s", happened->at);
            i->resets = is_listed(t->resets_at, happened->at);
        }
    }
}

/* The figures of the marks, which the walk keeps. */
static void take_marks(timeline *t, const zl_marks *marks)
{
    size_t next = 0;
    for (size_t k = 0; k < t->count && next < marks->count; k++) {
        instant *i = &t->at[k];
        if (i->at[0] == '\0') {
            continue;
        }
        const zl_mark *m = &marks->mark[next++];
        i->now[ZT_REQUESTED] = m->requested;
        i->now[ZT_ALLOCATED] = m->allocated;
        i->now[ZT_RESERVED] = m->reserved;
        i->now[ZT_DEVICE_USED] = m->device_used;
        i->most[ZT_REQUESTED] = m->peak_requested;
        i->most[ZT_ALLOCATED] = m->peak_allocated;
        i->most[ZT_RESERVED] = m->peak_reserved;
    }
}

static zl_status timeline_new(const zl_torch_run *run, uint64_t rank, const char *resets_at,
                              timeline *out, zl_err *err)
{
    zl_marks marks = {0};
    timeline t = {.run = run, .step = -1, .resets_at = resets_at};
    zl_status status = zt_predict(run, rank, hear, &t, &marks, err);
    if (status == ZL_OK && t.failed) {
        status = zl_fail(err, ZL_E_RESOURCE, "no memory for the instants of this run");
    }
    if (status == ZL_OK) {
        take_marks(&t, &marks);
        *out = t;
    } else {
        free(t.at);
    }
    zl_marks_clear(&marks);
    return status;
}

enum { NOWHERE = -1 };

static int find_mark(const timeline *t, int32_t step, const char *at)
{
    for (size_t i = 0; i < t->count; i++) {
        if (t->at[i].step == step && strcmp(t->at[i].at, at) == 0) {
            return (int)i;
        }
    }
    return NOWHERE;
}

static int find_printed(const timeline *t, int32_t step, place where, uint64_t micro)
{
    for (size_t i = 0; i < t->count; i++) {
        const instant *one = &t->at[i];
        if (one->printed && one->step == step && one->where == where && one->micro == micro) {
            return (int)i;
        }
    }
    return NOWHERE;
}

/* "after_forward" of the last micro-step, "after_forward_0" of the first of several. */
static int find_micro(const timeline *t, int32_t step, const char *at, uint64_t micro)
{
    char name[ZT_AT];
    const bool last = micro + 1 == t->run->accumulation;
    snprintf(name, sizeof name, last ? "%s" : "%s_%" PRIu64, at, micro);
    return find_mark(t, step, name);
}

/* The mark of the training loop where a person prints this. */
static int find_place(const timeline *t, int32_t step, place where, uint64_t micro)
{
    switch (where) {
    case BEFORE_FORWARD: {
        if (micro == 0) {
            return find_mark(t, step, "before_forward");
        }
        const int after_step = find_micro(t, step, "after_step", micro - 1);
        return after_step != NOWHERE ? after_step
                                     : find_micro(t, step, "after_backward", micro - 1);
    }
    case AFTER_FORWARD:
    case BEFORE_BACKWARD:
        return find_micro(t, step, "after_forward", micro);
    case AFTER_BACKWARD:
    case BEFORE_STEP:
        return find_micro(t, step, "after_backward", micro);
    case AFTER_STEP:
        return find_micro(t, step, "after_step", micro);
    case PLACES:
        break;
    }
    return NOWHERE;
}

/* ---- messages ---- */

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* In lower case, without the number at the end. */
static void plain(const char *message, char out[ZT_MESSAGE])
{
    size_t length = strlen(message);
    while (length > 0 && ((message[length - 1] >= '0' && message[length - 1] <= '9') ||
                          message[length - 1] == ' ' || message[length - 1] == ':')) {
        length--;
    }
    for (size_t i = 0; i < length; i++) {
        out[i] = lower(message[i]);
    }
    out[length] = '\0';
}

typedef struct meaning {
    const char *message;
    place where;
} meaning;

/* What people print around the calls of a step; and DeepSpeed's own six, behind "engine ". */
static const meaning meanings[] = {
    {"before forward", BEFORE_FORWARD},     {"after forward", AFTER_FORWARD},
    {"before backward", BEFORE_BACKWARD},   {"after backward", AFTER_BACKWARD},
    {"before step", BEFORE_STEP},           {"before optimizer", BEFORE_STEP},
    {"before optimizer step", BEFORE_STEP}, {"after step", AFTER_STEP},
    {"after optimizer", AFTER_STEP},        {"after optimizer step", AFTER_STEP},
};

static place place_of(const char *message)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (strcmp(message, meanings[i].message) == 0) {
            return meanings[i].where;
        }
    }
    return PLACES;
}

/* DeepSpeed's messages of initialize() that fall together with a mark. */
static const struct {
    const char *message;
    const char *at;
} init_messages[] = {
    {"deepspeed engine: after args sanity test", "before_init"},
    {"deepspeed engine: before configure distributed model", "before_init"},
    {"after initializing zero optimizer", "init"},
    {"end bf16_optimizer", "init"},
    {"end bf16_ optimizer", "init"},
};

static const char engine[] = "engine ";

/* Counts the micro-steps of a log by the order of its messages. */
typedef struct counter {
    bool begun;
    place last;
    uint64_t micro_steps; /* before the present one */
} counter;

static void count_place(counter *c, place where)
{
    if (c->begun && where <= c->last) {
        c->micro_steps++;
    }
    c->begun = true;
    c->last = where;
}

typedef struct reading {
    const zt_compare_options *options;
    counter own, by_engine;
} reading;

/* Steps beyond those walked are like the last one. */
static int32_t step_of(const timeline *t, const reading *r, uint64_t micro_steps)
{
    const uint64_t step = zl_add(micro_steps / t->run->accumulation, r->options->first_step);
    return (int32_t)zl_min(step, t->run->steps - 1);
}

/* Where the message of a mark of initialize() resets the peaks itself, that is its instant. */
static int find_init(const timeline *t, const char *at)
{
    const int mark = find_mark(t, -1, at);
    return mark > 0 && t->at[mark - 1].resets && t->at[mark - 1].at[0] == '\0' ? mark - 1 : mark;
}

static int locate_usage(const timeline *t, reading *r, const char *message)
{
    char name[ZT_MESSAGE];
    plain(message, name);
    for (size_t i = 0; i < sizeof init_messages / sizeof init_messages[0]; i++) {
        if (strcmp(name, init_messages[i].message) == 0) {
            return find_init(t, init_messages[i].at);
        }
    }
    const bool by_engine = strncmp(name, engine, sizeof engine - 1) == 0;
    const place where = place_of(by_engine ? name + sizeof engine - 1 : name);
    if (where == PLACES) {
        return NOWHERE;
    }
    counter *c = by_engine ? &r->by_engine : &r->own;
    count_place(c, where);
    const int32_t step = step_of(t, r, c->micro_steps);
    const uint64_t micro = c->micro_steps % t->run->accumulation;
    return by_engine ? find_printed(t, step, where, micro) : find_place(t, step, where, micro);
}

/* Where the timer prints: just before "Engine after step". */
static int find_end(const timeline *t, int32_t step)
{
    const int printed = find_printed(t, step, AFTER_STEP, t->run->accumulation - 1);
    return printed != NOWHERE ? printed : find_mark(t, step, "after_step");
}

static int locate(const timeline *t, reading *r, const zt_sighting *s)
{
    const int32_t last = (int32_t)t->run->steps - 1;
    const char *at = r->options->at != NULL ? r->options->at : "after_step";
    switch (s->source) {
    case ZT_SEE_MEMORY_USAGE:
    case ZT_GIGABYTES:
        return locate_usage(t, r, s->message);
    case ZT_THROUGHPUT_TIMER:
        return find_end(t,
                        s->number == 0 ? last : (int32_t)zl_min(s->number - 1, t->run->steps - 1));
    case ZT_MEMORY_SUMMARY:
    case ZT_NVIDIA_SMI:
    case ZT_SNAPSHOT: {
        const int in_step = find_mark(t, last, at);
        return in_step != NOWHERE ? in_step : find_mark(t, -1, at);
    }
    case ZT_OVERFLOW:
    case ZT_OUT_OF_MEMORY: /* where it happened is what zt_oom_candidates answers */
    case ZT_SOURCE_COUNT:
        break;
    }
    return NOWHERE;
}

/* ---- beside each other ---- */

static bool is_peak(zt_figure figure)
{
    return figure == ZT_PEAK_REQUESTED || figure == ZT_PEAK_ALLOCATED || figure == ZT_PEAK_RESERVED;
}

/* Peaks count from the instant after `from`, which may be unknown. */
typedef struct since {
    bool known;
    int from; /* NOWHERE: the beginning */
} since;

static since since_reset(const timeline *t, since given, int here)
{
    for (int i = here - 1; i > given.from; i--) {
        if (t->at[i].resets) {
            return (since){given.known, i};
        }
    }
    return given;
}

static uint64_t most_since(const timeline *t, int from, int here, zt_figure now)
{
    uint64_t most = 0;
    for (int i = from + 1; i <= here; i++) {
        most = zl_max(most, t->at[i].most[now]);
    }
    return most;
}

static void judge(zt_beside *b, const zt_printed *figure, uint64_t predicted)
{
    b->predicted = predicted;
    b->verdict = zt_agrees(figure, predicted) ? ZT_AGREES : ZT_DIFFERS;
    b->off_by = zt_off_by(figure, predicted);
}

static void compare_figures(const timeline *t, const zt_sighting *s, int here, since before,
                            zt_row *row)
{
    const since interval = since_reset(t, before, here);
    for (zt_figure f = 0; f < ZT_FIGURE_COUNT; f++) {
        if (!s->figure[f].present || f == ZT_HOST_USED || f == ZT_DEVICE_USED) {
            continue;
        }
        if (!is_peak(f)) {
            judge(&row->figure[f], &s->figure[f], t->at[here].now[f]);
        } else if (interval.known) {
            /* A peak follows its figure in zt_figure. */
            judge(&row->figure[f], &s->figure[f],
                  most_since(t, interval.from, here, (zt_figure)(f - 1)));
        }
    }
    if (s->source == ZT_NVIDIA_SMI) {
        /* Contexts, libraries and other processes are not predicted: a lower bound. */
        const zt_printed *used = &s->figure[ZT_DEVICE_USED];
        const uint64_t reserved = most_since(t, NOWHERE, here, ZT_RESERVED);
        zt_beside *b = &row->figure[ZT_DEVICE_USED];
        b->predicted = reserved;
        b->verdict = used->high < reserved ? ZT_DIFFERS : ZT_NOT_COMPARED;
        b->off_by = zt_off_by(used, reserved);
    }
}

static bool resets(zt_source source)
{
    return source == ZT_SEE_MEMORY_USAGE;
}

static void name_instant(const instant *i, zt_row *row)
{
    row->placed = true;
    row->step = i->step;
    snprintf(row->at, sizeof row->at, "%s",
             i->printed         ? place_names[i->where]
             : i->at[0] != '\0' ? i->at
                                : "init");
}

static zl_status make_rows(const zt_log *log, const timeline *t, const zt_compare_options *options,
                           zt_compared *out, zl_err *err)
{
    reading r = {.options = options};
    since before = {true, NOWHERE};
    out->row = calloc(log->count > 0 ? log->count : 1, sizeof *out->row);
    if (out->row == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for the rows of the log");
    }
    for (size_t i = 0; i < log->count; i++) {
        const zt_sighting *s = &log->sighting[i];
        if (s->source == ZT_OVERFLOW) {
            continue;
        }
        zt_row *row = &out->row[out->rows++];
        const int here = locate(t, &r, s);
        row->sighting = i;
        row->times = 1;
        if (here != NOWHERE) {
            name_instant(&t->at[here], row);
            /* A log that goes on in the same step again knows no instant before. */
            compare_figures(t, s, here, before.from < here ? before : (since){false, NOWHERE}, row);
        }
        if (resets(s->source)) {
            before = (since){here != NOWHERE, here};
        }
    }
    return ZL_OK;
}

/* ---- why ---- */

/* How well a term is the difference: exactly within the rounding of the log, nearly (a hundredth of
 * it is something else), or not. */
typedef enum match { NOT, NEARLY, EXACTLY } match;

static match match_of(const zt_printed *figure, const zt_beside *b, uint64_t term)
{
    const bool less = b->off_by < 0;
    const uint64_t rounded = zl_align_up(term, 512);
    const uint64_t with = less ? zl_sub(b->predicted, rounded) : zl_add(b->predicted, rounded);
    /* A term below the rounding of the log is no evidence. */
    if (zl_poisoned(with) || rounded <= figure->high - figure->low) {
        return NOT;
    }
    const uint64_t missed = (uint64_t)llabs(zt_off_by(figure, with));
    return missed == 0 ? EXACTLY : zl_mul(100, missed) <= rounded ? NEARLY : NOT;
}

static void name_cause(const zt_printed *figure, const zl_alive *alive, zt_beside *b)
{
    match best = NOT;
    for (size_t i = 0; i < alive->count; i++) {
        const zl_named_bytes *term = &alive->term[i];
        const match whole = match_of(figure, b, term->bytes);
        /* Two buckets take turns under overlap_comm. */
        const match half =
            strcmp(term->name, "ipg bucket") == 0 ? match_of(figure, b, term->bytes / 2) : NOT;
        const match found = whole >= half ? whole : half;
        if (found > best) {
            best = found;
            snprintf(b->cause, sizeof b->cause, "%s%s %s%.72s", found == NEARLY ? "nearly " : "",
                     b->off_by < 0 ? "without" : "once more", half > whole ? "half the " : "",
                     term->name);
        }
    }
}

/* The moment of the walk at or after an instant. */
static const zl_moment *moment_of(const zl_moments *moments, const timeline *t, const zt_row *row)
{
    for (size_t i = 0; i < moments->count; i++) {
        const zl_mark *mark = &moments->moment[i].mark;
        if (mark->step == row->step && strcmp(mark->at, row->at) == 0) {
            return &moments->moment[i];
        }
    }
    size_t marks = 0;
    for (size_t i = 0; i < t->count; i++) {
        const instant *one = &t->at[i];
        if (one->printed && one->step == row->step &&
            strcmp(place_names[one->where], row->at) == 0) {
            return marks < moments->count ? &moments->moment[marks] : NULL;
        }
        marks += one->at[0] != '\0' ? 1 : 0;
    }
    return NULL;
}

static zl_status name_causes(const zt_log *log, const timeline *t, uint64_t rank,
                             zt_compared *compared, zl_err *err)
{
    zl_moments moments = {0};
    ZL_TRY(zl_torch_explain(t->run, rank, &moments, err));
    for (size_t i = 0; i < compared->rows; i++) {
        zt_row *row = &compared->row[i];
        const zl_moment *moment = row->placed ? moment_of(&moments, t, row) : NULL;
        for (zt_figure f = 0; f < ZT_FIGURE_COUNT && moment != NULL; f++) {
            if (row->figure[f].verdict == ZT_DIFFERS && f != ZT_RESERVED && f != ZT_PEAK_RESERVED) {
                name_cause(&log->sighting[row->sighting].figure[f],
                           is_peak(f) ? &moment->peak : &moment->here, &row->figure[f]);
            }
        }
    }
    zl_moments_clear(&moments);
    return ZL_OK;
}

/* ---- the comparison ---- */

static bool same_figures(const zt_printed *a, const zt_printed *b)
{
    for (int f = 0; f < ZT_FIGURE_COUNT; f++) {
        if (f != ZT_HOST_USED &&
            (a[f].present != b[f].present || a[f].low != b[f].low || a[f].high != b[f].high)) {
            return false;
        }
    }
    return true;
}

static bool same_verdicts(const zt_row *a, const zt_row *b)
{
    for (int f = 0; f < ZT_FIGURE_COUNT; f++) {
        if (a->figure[f].verdict != b->figure[f].verdict ||
            a->figure[f].predicted != b->figure[f].predicted) {
            return false;
        }
    }
    return true;
}

/* A long log says the same again in every step: rows alike become one. */
static void fold(const zt_log *log, zt_compared *c)
{
    enum { BACK = 32 };
    size_t kept = 0;
    for (size_t i = 0; i < c->rows; i++) {
        const zt_row row = c->row[i];
        const zt_sighting *s = &log->sighting[row.sighting];
        bool folded = false;
        for (size_t k = kept; k > 0 && kept - k < BACK && !folded; k--) {
            zt_row *other = &c->row[k - 1];
            const zt_sighting *o = &log->sighting[other->sighting];
            if (s->source == o->source && s->source != ZT_OUT_OF_MEMORY &&
                row.placed == other->placed && strcmp(s->message, o->message) == 0 &&
                strcmp(row.at, other->at) == 0 && same_figures(s->figure, o->figure) &&
                same_verdicts(&row, other)) {
                other->times++;
                folded = true;
            }
        }
        if (!folded) {
            c->row[kept++] = row;
        }
    }
    c->rows = kept;
}

static void count_verdicts(zt_compared *c)
{
    for (size_t i = 0; i < c->rows; i++) {
        for (int f = 0; f < ZT_FIGURE_COUNT; f++) {
            c->agree += c->row[i].figure[f].verdict == ZT_AGREES ? 1 : 0;
            c->differ += c->row[i].figure[f].verdict == ZT_DIFFERS ? 1 : 0;
        }
    }
}

/* What the log itself says of the run: that it prints its memory, which steps were skipped. */
static void learn(const zt_log *log, const zt_compare_options *options, zl_torch_run *run)
{
    counter c = {0};
    for (size_t i = 0; i < log->count; i++) {
        const zt_sighting *s = &log->sighting[i];
        char name[ZT_MESSAGE];
        plain(s->message, name);
        const bool by_engine = strncmp(name, engine, sizeof engine - 1) == 0;
        const place where = place_of(by_engine ? name + sizeof engine - 1 : name);
        if (s->source == ZT_OVERFLOW) {
            const uint64_t step = zl_add(c.micro_steps / run->accumulation, options->first_step);
            if (c.begun && step < ZL_TORCH_STEPS_MAX) {
                run->skipped[step] = true;
            }
        } else if (where != PLACES && (by_engine || !run->ds.memory_breakdown)) {
            count_place(&c, where);
        }
        run->ds.memory_breakdown |= by_engine && where != PLACES;
    }
}

static zl_status compare(const zt_log *log, const zl_torch_run *run, uint64_t rank,
                         const zt_compare_options *options, bool causes, zt_compared *out,
                         zl_err *err)
{
    zl_torch_run learned = *run;
    zt_compared compared = {0};
    timeline t = {0};
    learn(log, options, &learned);
    ZL_TRY(timeline_new(&learned, rank, options->resets_at, &t, err));
    zl_status status = make_rows(log, &t, options, &compared, err);
    if (status == ZL_OK) {
        count_verdicts(&compared);
        fold(log, &compared);
        if (causes && compared.differ > 0) {
            status = name_causes(log, &t, rank, &compared, err);
        }
    }
    free(t.at);
    if (status != ZL_OK) {
        zt_compared_release(&compared);
        return status;
    }
    *out = compared;
    return ZL_OK;
}

zl_status zt_log_compare(const zt_log *log, const zl_torch_run *run, uint64_t rank,
                         const zt_compare_options *options, zt_compared *out, zl_err *err)
{
    return compare(log, run, rank, options, true, out, err);
}

zl_status zt_log_compare_figures(const zt_log *log, const zl_torch_run *run, uint64_t rank,
                                 const zt_compare_options *options, zt_compared *out, zl_err *err)
{
    return compare(log, run, rank, options, false, out, err);
}

void zt_compared_release(zt_compared *compared)
{
    free(compared->row);
    *compared = (zt_compared){0};
}
