/* A timeline as Chrome's trace JSON, which Perfetto opens: counters of requested, allocated and
 * reserved bytes and of every kind, slices of steps and phases, and one of every allocation. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "timeline.h"
#include "zeroledger/bytes.h"

/* Kinds of one run; those beyond are one. */
enum { KINDS_MAX = 64, PROCESS = 1, PHASES = 1, STEPS = 2 };

typedef struct kind {
    const char *name;
    uint64_t bytes;
} kind;

typedef struct trace {
    const zl_timeline *t;
    FILE *out;
    bool first; /* of the events */
    uint64_t requested, allocated, reserved;
    kind kind[KINDS_MAX]; /* name NULL: behind the last */
} trace;

/* Freed, and another stream has not yet done with it: what zl explain calls it, too. */
static const zl_timeline_name late = {.name = "freed late: another stream is not done with it",
                                      .kind = "freed late: another stream is not done with it"};

static void put_text(const trace *p, const char *text)
{
    (void)fputc('"', p->out);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            (void)fputc('\\', p->out);
        }
        (void)fputc((unsigned char)*c < ' ' ? ' ' : *c, p->out);
    }
    (void)fputc('"', p->out);
}

/* The members that every event has; more may follow, and end() ends it. */
static void begin(trace *p, const char *phase, const char *name, uint64_t time)
{
    (void)fprintf(p->out,
                  "%s\n{\"ph\":\"%s\",\"pid\":%d,\"ts\":%" PRIu64 ",\"name\":", p->first ? "" : ",",
                  phase, PROCESS, time);
    put_text(p, name);
    p->first = false;
}

static void end(const trace *p)
{
    (void)fputc('}', p->out);
}

static void put_counter(trace *p, uint64_t time, const char *name, uint64_t bytes)
{
    begin(p, "C", name, time);
    (void)fprintf(p->out, ",\"args\":{\"bytes\":%" PRIu64 "}", bytes);
    end(p);
}

/* A name of the process or of a track. */
static void put_label(trace *p, const char *what, int thread, const char *name)
{
    begin(p, "M", what, 0);
    (void)fprintf(p->out, ",\"tid\":%d,\"args\":{\"name\":", thread);
    put_text(p, name);
    (void)fputc('}', p->out);
    end(p);
}

/* ---- steps and phases ---- */

static void put_slice(trace *p, int thread, const char *name, const zl_timeline_phase *f)
{
    begin(p, "X", name, f->begin);
    (void)fprintf(p->out, ",\"tid\":%d,\"dur\":%" PRIu64 ",\"args\":{\"step\":%" PRId64 "}", thread,
                  zl_sub(f->end, f->begin), f->step);
    end(p);
}

static void put_phases(trace *p)
{
    const zl_timeline *const t = p->t;
    for (size_t i = 0; i < t->phases;) {
        zl_timeline_phase step = t->phase[i];
        for (; i < t->phases && t->phase[i].step == step.step; i++) {
            put_slice(p, PHASES, t->phase[i].name, &t->phase[i]);
            step.end = t->phase[i].end;
        }
        snprintf(step.name, sizeof step.name, "step %" PRId64, step.step);
        put_slice(p, STEPS, step.step < 0 ? "before the first step" : step.name, &step);
    }
}

/* ---- allocations ---- */

/* The last one is for all that find no other. */
static kind *kind_of(trace *p, const char *name)
{
    size_t i = 0;
    while (i < KINDS_MAX - 1 && p->kind[i].name != NULL && strcmp(p->kind[i].name, name) != 0) {
        i++;
    }
    if (p->kind[i].name == NULL) {
        p->kind[i].name = i < KINDS_MAX - 1 ? name : "other";
    }
    return &p->kind[i];
}

/* `more` bytes come to a kind, or leave it. */
static void count_kind(trace *p, uint64_t time, const char *name, uint64_t bytes, bool more)
{
    kind *const k = kind_of(p, name);
    char track[96];
    k->bytes = more ? zl_add(k->bytes, bytes) : zl_sub(k->bytes, bytes);
    (void)snprintf(track, sizeof track, "kind: %s", k->name);
    put_counter(p, time, track, k->bytes);
}

/* The slice of what an allocation is begins ("b") or ends ("e"). */
static void put_edge(trace *p, const char *edge, uint64_t time, size_t index,
                     const zl_timeline_name *name)
{
    const zl_allocation *const a = &p->t->allocation[index];
    begin(p, edge, name->name, time);
    (void)fprintf(p->out, ",\"cat\":\"allocation\",\"id\":%zu", index);
    if (*edge == 'b') {
        (void)fprintf(p->out,
                      ",\"args\":{\"requested\":%" PRIu64 ",\"allocated\":%" PRIu64
                      ",\"address\":\"0x%" PRIx64 "\",\"stream\":%" PRIu32 ",\"owner\":%" PRIu64
                      "}",
                      a->requested, a->size, a->address, a->stream, name->owner);
    }
    end(p);
}

static void put_alloc(trace *p, const zl_timeline_event *e, const zl_timeline_name *now)
{
    const zl_allocation *const a = &p->t->allocation[e->allocation];
    p->requested = zl_add(p->requested, a->requested);
    p->allocated = zl_add(p->allocated, a->size);
    put_counter(p, e->time, "requested", p->requested);
    put_counter(p, e->time, "allocated", p->allocated);
    count_kind(p, e->time, now->kind, a->requested, true);
    put_edge(p, "b", e->time, e->allocation, now);
}

/* It is something else from now on. */
static void put_rename(trace *p, const zl_timeline_event *e, zl_timeline_name *now,
                       const zl_timeline_name *name)
{
    const uint64_t bytes = p->t->allocation[e->allocation].requested;
    put_edge(p, "e", e->time, e->allocation, now);
    count_kind(p, e->time, now->kind, bytes, false);
    *now = *name;
    count_kind(p, e->time, now->kind, bytes, true);
    put_edge(p, "b", e->time, e->allocation, now);
}

static void put_completed(trace *p, const zl_timeline_event *e, const zl_timeline_name *now)
{
    const zl_allocation *const a = &p->t->allocation[e->allocation];
    p->requested = zl_sub(p->requested, a->requested);
    put_edge(p, "e", e->time, e->allocation, now);
    count_kind(p, e->time, now->kind, a->requested, false);
    put_counter(p, e->time, "requested", p->requested);
}

static void put_reserved(trace *p, const zl_timeline_event *e, bool more)
{
    p->reserved =
        more ? zl_add(p->reserved, e->segment.size) : zl_sub(p->reserved, e->segment.size);
    put_counter(p, e->time, "reserved", p->reserved);
}

/* now: what the event's allocation is. */
static void put_event(trace *p, size_t i, zl_timeline_name *now)
{
    const zl_timeline_event *const e = &p->t->event[i];
    switch (e->what) {
    case ZL_TIMELINE_ALLOC:
        put_alloc(p, e, &now[e->allocation]);
        break;
    case ZL_TIMELINE_FREE_REQUESTED:
        p->allocated = zl_sub(p->allocated, p->t->allocation[e->allocation].size);
        put_counter(p, e->time, "allocated", p->allocated);
        if (!zl_timeline_at_once(p->t, i)) {
            put_rename(p, e, &now[e->allocation], &late);
        }
        break;
    case ZL_TIMELINE_FREE_COMPLETED:
        put_completed(p, e, &now[e->allocation]);
        break;
    case ZL_TIMELINE_SEGMENT_ALLOC:
    case ZL_TIMELINE_SEGMENT_MAP:
        put_reserved(p, e, true);
        break;
    case ZL_TIMELINE_SEGMENT_FREE:
    case ZL_TIMELINE_SEGMENT_UNMAP:
        put_reserved(p, e, false);
        break;
    case ZL_TIMELINE_RENAME:
        put_rename(p, e, &now[e->allocation], &e->name);
        break;
    case ZL_TIMELINE_WHAT_COUNT:
        break;
    }
}

zl_status zl_timeline_perfetto(const zl_timeline *t, FILE *out, zl_err *err)
{
    trace p = {.t = t, .out = out, .first = true};
    zl_timeline_name *const now = calloc(t->allocations + 1, sizeof *now);
    bool *const gone = calloc(t->allocations + 1, sizeof *gone);
    if (now == NULL || gone == NULL) {
        free(now);
        free(gone);
        return zl_fail(err, ZL_E_RESOURCE, "no memory for a timeline");
    }
    for (size_t i = 0; i < t->allocations; i++) {
        now[i] = t->allocation[i].name;
    }
    (void)fprintf(out, "{\"schema\":\"zeroledger.timeline/1\",\"displayTimeUnit\":\"ns\",\n"
                       "\"time\":\"a microsecond is one event of the allocator, not time\",\n"
                       "\"traceEvents\":[");
    put_label(&p, "process_name", 0, t->title);
    put_label(&p, "thread_name", STEPS, "steps");
    put_label(&p, "thread_name", PHASES, "phases");
    put_phases(&p);
    for (size_t i = 0; i < t->events; i++) {
        put_event(&p, i, now);
        gone[t->event[i].allocation] |= t->event[i].what == ZL_TIMELINE_FREE_COMPLETED;
    }
    for (size_t i = 0; i < t->allocations; i++) {
        if (!gone[i]) {
            put_edge(&p, "e", t->now, i, &now[i]);
        }
    }
    (void)fprintf(out, "\n]}\n");
    free(now);
    free(gone);
    return ZL_OK;
}
