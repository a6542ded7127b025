/* A timeline as Chrome's trace JSON, which Perfetto opens: counters of requested, allocated and
 * reserved bytes and of every kind, slices of steps and phases, and one of every allocation.
 *
 * Perfetto shows a process as a group, in it first its threads and then its counters by name. The
 * run is one group, which fits on a screen. Allocations are another: those that are alive at once
 * take a line each. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "timeline.h"
#include "zeroledger/bytes.h"

/* Kinds of one run; those beyond are one. */
enum { KINDS_MAX = 64 };

/* Numbers of processes and threads: a thread that has its process's is shown as the main one. */
enum { RUN = 10, ALLOCATIONS = 20, STEPS = 1, PHASES = 2 };

typedef struct kind {
    const char *name;
    uint64_t bytes;
} kind;

/* The slice that shows an allocation now. */
typedef struct shown {
    zl_timeline_name name;
    uint64_t slice; /* its number; an allocation that becomes something else gets a new one */
} shown;

typedef struct trace {
    const zl_timeline *t;
    FILE *out;
    bool first;     /* of the events */
    uint64_t slice; /* the number of the next one */
    shown *shown;   /* (allocations); name.name NULL: not there */
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
static void begin(trace *p, const char *phase, int process, const char *name, uint64_t time)
{
    (void)fprintf(p->out,
                  "%s\n{\"ph\":\"%s\",\"pid\":%d,\"ts\":%" PRIu64 ",\"name\":", p->first ? "" : ",",
                  phase, process, time);
    put_text(p, name);
    p->first = false;
}

static void end(const trace *p)
{
    (void)fputc('}', p->out);
}

static void put_counter(trace *p, uint64_t time, const char *name, uint64_t bytes)
{
    begin(p, "C", RUN, name, time);
    (void)fprintf(p->out, ",\"args\":{\"bytes\":%" PRIu64 "}", bytes);
    end(p);
}

/* A name of the process or of a track. */
static void put_label(trace *p, const char *what, int process, int thread, const char *name)
{
    begin(p, "M", process, what, 0);
    (void)fprintf(p->out, ",\"tid\":%d,\"args\":{\"name\":", thread);
    put_text(p, name);
    (void)fputc('}', p->out);
    end(p);
}

/* A process by its name; the one with the lowest place comes first. */
static void put_process(trace *p, int process, int place, const char *name)
{
    put_label(p, "process_name", process, 0, name);
    begin(p, "M", process, "process_sort_index", 0);
    (void)fprintf(p->out, ",\"tid\":0,\"args\":{\"sort_index\":%d}", place);
    end(p);
}

/* ---- steps and phases ---- */

static void put_slice(trace *p, int thread, const char *name, const zl_timeline_phase *f)
{
    begin(p, "X", RUN, name, f->begin);
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
    (void)snprintf(track, sizeof track, "requested: %s", k->name);
    put_counter(p, time, track, k->bytes);
}

/* The slice of what an allocation is from now on begins. Perfetto shows slices of one name as one
 * track. */
static void put_begin(trace *p, uint64_t time, size_t index, const zl_timeline_name *name)
{
    const zl_allocation *const a = &p->t->allocation[index];
    p->shown[index] = (shown){.name = *name, .slice = p->slice++};
    begin(p, "b", ALLOCATIONS, name->name, time);
    (void)fprintf(p->out,
                  ",\"cat\":\"allocation\",\"id2\":{\"local\":\"0x%" PRIx64 "\"},\"args\":{"
                  "\"allocation\":%zu,\"requested\":%" PRIu64 ",\"allocated\":%" PRIu64
                  ",\"address\":\"0x%" PRIx64 "\",\"stream\":%" PRIu32 ",\"owner\":%" PRIu64 "}",
                  p->shown[index].slice, index, a->requested, a->size, a->address, a->stream,
                  name->owner);
    end(p);
}

static void put_end(trace *p, uint64_t time, size_t index)
{
    begin(p, "e", ALLOCATIONS, p->shown[index].name.name, time);
    (void)fprintf(p->out, ",\"cat\":\"allocation\",\"id2\":{\"local\":\"0x%" PRIx64 "\"}",
                  p->shown[index].slice);
    end(p);
    p->shown[index].name.name = NULL;
}

static void put_alloc(trace *p, const zl_timeline_event *e)
{
    const zl_allocation *const a = &p->t->allocation[e->allocation];
    p->requested = zl_add(p->requested, a->requested);
    p->allocated = zl_add(p->allocated, a->size);
    put_counter(p, e->time, "requested", p->requested);
    put_counter(p, e->time, "allocated", p->allocated);
    count_kind(p, e->time, a->name.kind, a->requested, true);
    put_begin(p, e->time, e->allocation, &a->name);
}

/* It is something else from now on. */
static void put_rename(trace *p, const zl_timeline_event *e, const zl_timeline_name *name)
{
    const uint64_t bytes = p->t->allocation[e->allocation].requested;
    count_kind(p, e->time, p->shown[e->allocation].name.kind, bytes, false);
    put_end(p, e->time, e->allocation);
    count_kind(p, e->time, name->kind, bytes, true);
    put_begin(p, e->time, e->allocation, name);
}

static void put_completed(trace *p, const zl_timeline_event *e)
{
    const zl_allocation *const a = &p->t->allocation[e->allocation];
    p->requested = zl_sub(p->requested, a->requested);
    count_kind(p, e->time, p->shown[e->allocation].name.kind, a->requested, false);
    put_end(p, e->time, e->allocation);
    put_counter(p, e->time, "requested", p->requested);
}

static void put_reserved(trace *p, const zl_timeline_event *e, bool more)
{
    p->reserved =
        more ? zl_add(p->reserved, e->segment.size) : zl_sub(p->reserved, e->segment.size);
    put_counter(p, e->time, "reserved", p->reserved);
}

static void put_event(trace *p, size_t i)
{
    const zl_timeline_event *const e = &p->t->event[i];
    switch (e->what) {
    case ZL_TIMELINE_ALLOC:
        put_alloc(p, e);
        break;
    case ZL_TIMELINE_FREE_REQUESTED:
        p->allocated = zl_sub(p->allocated, p->t->allocation[e->allocation].size);
        put_counter(p, e->time, "allocated", p->allocated);
        if (!zl_timeline_at_once(p->t, i)) {
            put_rename(p, e, &late);
        }
        break;
    case ZL_TIMELINE_FREE_COMPLETED:
        put_completed(p, e);
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
        put_rename(p, e, &e->name);
        break;
    case ZL_TIMELINE_WHAT_COUNT:
        break;
    }
}

zl_status zl_timeline_perfetto(const zl_timeline *t, FILE *out, zl_err *err)
{
    trace p = {.t = t, .out = out, .first = true};
    p.shown = calloc(t->allocations + 1, sizeof *p.shown);
    if (p.shown == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for a timeline");
    }
    (void)fprintf(out, "{\"schema\":\"zeroledger.timeline/1\",\"displayTimeUnit\":\"ns\",\n"
                       "\"time\":\"a microsecond is one event of the allocator, not time\",\n"
                       "\"traceEvents\":[");
    put_process(&p, RUN, 0, t->title);
    put_process(&p, ALLOCATIONS, 1, "every allocation");
    put_label(&p, "thread_name", RUN, STEPS, "steps");
    put_label(&p, "thread_name", RUN, PHASES, "phases");
    put_phases(&p);
    for (size_t i = 0; i < t->events; i++) {
        put_event(&p, i);
    }
    for (size_t i = 0; i < t->allocations; i++) {
        if (p.shown[i].name.name != NULL) {
            put_end(&p, t->now, i);
        }
    }
    (void)fprintf(out, "\n]}\n");
    free(p.shown);
    return ZL_OK;
}
