/* The generated stream of allocations and frees of a run against its recording: which tensor, how
 * many bytes, which stream, in order, between every two marks.
 *
 *     torch_trace SETUP.json TRACE.json.gz RECORDS.jsonl...
 *
 * Prints each interval that differs with the first event where it does (and ZL_CONTEXT=N events
 * around it), and a sum. Exit 1 if an interval differs. A freed tensor is the same if it was
 * allocated by the same event; where PyTorch frees in the order of a hash table, any order will do.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/gunzip.h"
#include "records/record.h"
#include "torch/predict.h"
#include "torch/trace.h"

typedef struct step_event {
    bool allocates;
    bool any_order;
    uint32_t tensor; /* number of its allocation, from 1 */
    uint32_t stream; /* in order of appearance */
    uint64_t bytes;
} step_event;

typedef struct interval {
    size_t first, count;
    char at[80]; /* the mark that ends it */
} interval;

enum { INTERVALS_MAX = 512, STREAMS_MAX = 256 };

typedef struct stream_of_events {
    step_event *event;
    size_t count, capacity;
    interval interval[INTERVALS_MAX];
    size_t intervals;
    uint32_t allocations;
    uint32_t *tensor_of; /* by block of the model */
    size_t tensors;
    uint64_t stream_name[STREAMS_MAX];
    uint32_t streams;
} stream_of_events;

static _Noreturn void die(const char *what, const zl_err *err)
{
    fprintf(stderr, "torch_trace: %s: %s\n", what, err == NULL ? "no memory" : err->text);
    exit(2);
}

static void *grow(void *array, size_t need, size_t *capacity, size_t size)
{
    if (need <= *capacity) {
        return array;
    }
    const size_t more = need * 2 + 1024;
    char *grown = realloc(array, more * size);
    if (grown == NULL) {
        die("events", NULL);
    }
    memset(grown + *capacity * size, 0, (more - *capacity) * size);
    *capacity = more;
    return grown;
}

static uint32_t stream_number(stream_of_events *s, uint64_t name)
{
    for (uint32_t i = 0; i < s->streams; i++) {
        if (s->stream_name[i] == name) {
            return i;
        }
    }
    s->stream_name[s->streams] = name;
    return s->streams++;
}

static void add(stream_of_events *s, step_event event)
{
    s->event = grow(s->event, s->count + 1, &s->capacity, sizeof *s->event);
    s->event[s->count++] = event;
}

static void end_interval(stream_of_events *s, int64_t step, const char *at)
{
    const size_t first = s->intervals == 0 ? 0
                                           : s->interval[s->intervals - 1].first +
                                                 s->interval[s->intervals - 1].count;
    if (s->intervals == INTERVALS_MAX) {
        return;
    }
    interval *i = &s->interval[s->intervals++];
    i->first = first;
    i->count = s->count - first;
    snprintf(i->at, sizeof i->at, "%" PRId64 " %s", step, at);
}

/* ---- the two sides ---- */

static void hear(void *context, const zt_happened *h)
{
    stream_of_events *s = context;
    if (h->what == ZT_MARKS) {
        end_interval(s, h->step, h->at);
        return;
    }
    if (h->what != ZT_ALLOCATES && h->what != ZT_FREES) {
        return;
    }
    s->tensor_of = grow(s->tensor_of, h->block + 1U, &s->tensors, sizeof *s->tensor_of);
    if (h->what == ZT_ALLOCATES) {
        s->tensor_of[h->block] = ++s->allocations;
    }
    add(s, (step_event){.allocates = h->what == ZT_ALLOCATES,
                        .any_order = h->any_order,
                        .tensor = s->tensor_of[h->block],
                        .stream = stream_number(s, h->stream),
                        .bytes = h->bytes});
}

typedef struct address_entry {
    uint64_t address;
    uint32_t tensor;
} address_entry;

static size_t slot_of(const address_entry *table, size_t mask, uint64_t address)
{
    size_t i = (size_t)(address >> 9) * 2654435761U & mask;
    while (table[i].address != 0 && table[i].address != address) {
        i = (i + 1) & mask;
    }
    return i;
}

static void read_recording(const zt_trace *trace, stream_of_events *s)
{
    const size_t size = (size_t)1 << 20;
    address_entry *table = calloc(size, sizeof *table);
    if (table == NULL) {
        die("addresses", NULL);
    }
    size_t mark = 0;
    for (size_t i = 0; i <= trace->events; i++) {
        while (mark < trace->marks && trace->mark[mark].events_before == i) {
            end_interval(s, trace->mark[mark].step, trace->mark[mark].at);
            mark++;
        }
        if (i == trace->events ||
            (trace->event[i].action != ZT_ALLOC && trace->event[i].action != ZT_FREE_REQUESTED)) {
            continue;
        }
        const zt_event *e = &trace->event[i];
        address_entry *entry = &table[slot_of(table, size - 1, e->address)];
        if (e->action == ZT_ALLOC) {
            *entry = (address_entry){e->address, ++s->allocations};
        }
        add(s, (step_event){.allocates = e->action == ZT_ALLOC,
                            .tensor = entry->tensor,
                            .stream = stream_number(s, e->stream),
                            .bytes = e->size});
    }
    free(table);
}

/* ---- comparing ---- */

static void print_event(const char *side, const stream_of_events *s, size_t first, size_t i,
                        size_t end)
{
    if (i >= end) {
        printf("    %s nothing\n", side);
        return;
    }
    const step_event *e = &s->event[i];
    printf("    %s %zu: %c%" PRIu32 " %" PRIu64 " stream %" PRIu32 "\n", side, i - first,
           e->allocates ? '+' : '-', e->tensor, e->bytes, e->stream);
}

typedef struct pairing {
    uint32_t *recorded; /* by generated tensor */
    size_t count;
} pairing;

static bool alike(const step_event *g, const step_event *r, pairing *pairs)
{
    if (g->allocates != r->allocates || g->bytes != r->bytes || g->stream != r->stream) {
        return false;
    }
    pairs->recorded = grow(pairs->recorded, g->tensor + 1U, &pairs->count, sizeof(uint32_t));
    if (g->allocates) {
        pairs->recorded[g->tensor] = r->tensor;
        return true;
    }
    return pairs->recorded[g->tensor] == 0 || pairs->recorded[g->tensor] == r->tensor;
}

static int by_tensor(const void *a, const void *b)
{
    const step_event *x = a;
    const step_event *y = b;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* Frees in a row of which nobody knows the order: both sides by the tensor's age. */
static void sort_free_order(const stream_of_events *g, const stream_of_events *r,
                            const interval *gi, const interval *ri)
{
    for (size_t i = 0; i < gi->count; i++) {
        size_t n = 0;
        while (i + n < gi->count && i + n < ri->count && g->event[gi->first + i + n].any_order &&
               !r->event[ri->first + i + n].allocates) {
            n++;
        }
        qsort(&g->event[gi->first + i], n, sizeof *g->event, by_tensor);
        qsort(&r->event[ri->first + i], n, sizeof *r->event, by_tensor);
        i += n;
    }
}

static bool compare_interval(const stream_of_events *g, const stream_of_events *r, size_t n,
                             pairing *pairs)
{
    const interval *gi = &g->interval[n];
    const interval *ri = &r->interval[n];
    const size_t longest = gi->count > ri->count ? gi->count : ri->count;
    sort_free_order(g, r, gi, ri);
    size_t i = 0;
    while (i < longest && i < gi->count && i < ri->count &&
           alike(&g->event[gi->first + i], &r->event[ri->first + i], pairs)) {
        i++;
    }
    if (i == longest) {
        return true;
    }
    printf("%s: generated %zu events, recorded %zu, differ at %zu\n", ri->at, gi->count, ri->count,
           i);
    const char *context_text = getenv("ZL_CONTEXT");
    const size_t context = context_text == NULL ? 0 : (size_t)strtoul(context_text, NULL, 10);
    for (size_t k = i > context ? i - context : 0; k <= i + context; k++) {
        print_event("generated", g, gi->first, gi->first + k, gi->first + gi->count);
        print_event("recorded ", r, ri->first, ri->first + k, ri->first + ri->count);
    }
    return false;
}

static int compare(const stream_of_events *g, const stream_of_events *r)
{
    pairing pairs = {0};
    const size_t n = g->intervals < r->intervals ? g->intervals : r->intervals;
    size_t equal = 0;
    for (size_t i = 0; i < n; i++) {
        equal += compare_interval(g, r, i, &pairs);
    }
    free(pairs.recorded);
    printf("%zu of %zu intervals alike, %zu events\n", equal, r->intervals, r->count);
    return equal == r->intervals && g->intervals == r->intervals ? 0 : 1;
}

/* ---- the record of the recording ---- */

static bool find_run(const char *file, const zv_setup *setup, const char *id, zl_torch_run *run)
{
    zl_err err = {0};
    char *text = NULL;
    size_t size = 0;
    if (zl_gunzip(file, &text, &size, &err) != ZL_OK) {
        die(file, &err);
    }
    bool found = false;
    for (char *line = strtok(text, "\n"); line != NULL && !found; line = strtok(NULL, "\n")) {
        zl_json_doc *doc = NULL;
        zv_record record;
        if (strstr(line, id) == NULL || zl_json_parse(file, line, strlen(line), &doc, &err)) {
            continue;
        }
        zl_err bad = {0};
        const zl_status status =
            zv_record_read(zl_json_root(doc), setup, NULL, NULL, &record, &bad);
        found = strcmp(record.id, id) == 0;
        if (found && status != ZL_OK) {
            die(id, &bad);
        }
        *run = record.run;
        zl_json_free(doc);
    }
    free(text);
    return found;
}

static void read_trace(const char *file, zt_trace *trace)
{
    zl_err err = {0};
    char *text = NULL;
    size_t size = 0;
    zl_json_doc *doc = NULL;
    if (zl_gunzip(file, &text, &size, &err) != ZL_OK ||
        zl_json_parse(file, text, size, &doc, &err) != ZL_OK ||
        zt_trace_read(zl_json_root(doc), UINT64_MAX, trace, &err) != ZL_OK) {
        die(file, &err);
    }
    zl_json_free(doc);
    free(text);
}

int main(int argc, char **argv)
{
    enum { SETUP = 1, TRACE, RECORDS };
    static stream_of_events generated;
    static stream_of_events recorded;
    zl_err err = {0};
    zl_torch_run run;
    zt_trace trace = {0};
    zl_marks marks = {0};
    zv_setup *setup = NULL;
    bool found = false;
    if (argc <= RECORDS) {
        fprintf(stderr, "usage: torch_trace SETUP.json TRACE.json.gz RECORDS.jsonl...\n");
        return 2;
    }
    if (zv_setup_load(argv[SETUP], &setup, &err) != ZL_OK) {
        die(argv[SETUP], &err);
    }
    read_trace(argv[TRACE], &trace);
    for (int i = RECORDS; i < argc && !found; i++) {
        found = find_run(argv[i], setup, trace.id, &run);
    }
    zv_setup_free(setup);
    if (!found) {
        fprintf(stderr, "torch_trace: no record of %s\n", trace.id);
        return 2;
    }
    read_recording(&trace, &recorded);
    if (zt_predict(&run, 0, hear, &generated, &marks, &err) != ZL_OK) {
        die(trace.id, &err);
    }
    const int answer = compare(&generated, &recorded);
    zl_marks_clear(&marks);
    zt_trace_release(&trace);
    free(generated.event);
    free(generated.tensor_of);
    free(recorded.event);
    free(recorded.tensor_of);
    return answer;
}
