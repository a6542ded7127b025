/* Whether what `zl predict --timeline` wrote is right in itself: events in order, frees of what is
 * there, allocations inside memory that was taken and beside each other, kinds that add up. And
 * whether everything is there that Perfetto's and memory_viz's views show or fail without.
 * usage: timeline_check trace FILE.json
 *        timeline_check snapshot FILE.json      a snapshot as JSON
 * Prints "requested BYTES reserved BYTES", the peaks.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"
#include "zeroledger/json.h"

static zl_err err;

static _Noreturn void die(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(1);
}

static uint64_t number(zl_json object, const char *key)
{
    uint64_t value = 0;
    if (zl_json_u64(zl_json_get(object, key), &value, &err) != ZL_OK) {
        die(object.path, err.text);
    }
    return value;
}

static const char *text(zl_json object, const char *key)
{
    const char *value = "";
    if (zl_json_string(zl_json_get(object, key), &value, &err) != ZL_OK) {
        die(object.path, err.text);
    }
    return value;
}

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static void *room_for(size_t count, size_t size)
{
    void *const room = calloc(count + 1, size);
    if (room == NULL) {
        die("timeline_check", "out of memory");
    }
    return room;
}

/* ---- a trace ---- */

enum { KINDS_MAX = 64 };

typedef struct counters {
    uint64_t requested, reserved;
    uint64_t peak_requested, peak_reserved;
    struct {
        const char *name;
        uint64_t bytes;
    } kind[KINDS_MAX];
    size_t kinds;
    uint64_t time;
} counters;

static void set_kind(counters *c, const char *name, uint64_t bytes)
{
    size_t i = 0;
    while (i < c->kinds && !is(c->kind[i].name, name)) {
        i++;
    }
    if (i == KINDS_MAX) {
        die("timeline_check", "too many kinds");
    }
    c->kinds += i == c->kinds;
    c->kind[i].name = name;
    c->kind[i].bytes = bytes;
}

/* Everything of one time has been heard. */
static void check_kinds(const counters *c)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->kinds; i++) {
        sum = zl_add(sum, c->kind[i].bytes);
    }
    if (sum != c->requested) {
        fprintf(stderr,
                "at %" PRIu64 " the kinds add up to %" PRIu64 ", requested is %" PRIu64 "\n",
                c->time, sum, c->requested);
        exit(1);
    }
}

static void hear_counter(counters *c, zl_json event)
{
    const char *const name = text(event, "name");
    const uint64_t bytes = number(zl_json_get(event, "args"), "bytes");
    if (is(name, "requested")) {
        c->requested = bytes;
        c->peak_requested = zl_max(c->peak_requested, bytes);
    } else if (is(name, "reserved")) {
        c->reserved = bytes;
        c->peak_reserved = zl_max(c->peak_reserved, bytes);
    } else if (strncmp(name, "requested: ", 11) == 0) {
        set_kind(c, name, bytes);
    } else if (!is(name, "allocated")) {
        die(event.path, "an unknown counter");
    }
}

/* Slices by their number, names by allocation. */
typedef struct slices {
    const char **open;   /* what it is called; NULL: not open */
    const char **called; /* (allocations): by its last slice */
    size_t count;
} slices;

static size_t id_of(const slices *s, zl_json event)
{
    const char *const local = text(zl_json_get(event, "id2"), "local");
    const uint64_t id = strtoull(local, NULL, 16);
    if (id >= s->count) {
        die(event.path, "has a number that is too large");
    }
    return (size_t)id;
}

/* What is called something else from now on gets a slice and a track of that name. */
static void hear_begin(slices *s, zl_json event)
{
    const size_t id = id_of(s, event);
    const char *const name = text(event, "name");
    const uint64_t allocation = number(zl_json_get(event, "args"), "allocation");
    if (s->open[id] != NULL) {
        die(event.path, "begins twice");
    }
    if (allocation >= s->count) {
        die(event.path, "is of no allocation");
    }
    if (s->called[allocation] != NULL && is(s->called[allocation], name)) {
        die(event.path, "is called what it was called before");
    }
    s->open[id] = name;
    s->called[allocation] = name;
}

static void hear_end(slices *s, zl_json event)
{
    const size_t id = id_of(s, event);
    if (s->open[id] == NULL || !is(s->open[id], text(event, "name"))) {
        die(event.path, "ends, and was not begun");
    }
    s->open[id] = NULL;
}

/* Groups of tracks: the run first, then its allocations. */
static void check_groups(zl_json events)
{
    int names = 0;
    uint64_t place = 0;
    zl_json event = {0};
    for (size_t i = 0; zl_json_each(events, &i, &event);) {
        if (!is(text(event, "ph"), "M")) {
            continue;
        }
        const zl_json args = zl_json_get(event, "args");
        if (is(text(event, "name"), "process_sort_index")) {
            if (number(args, "sort_index") != place++) {
                die(event.path, "is a process out of its place");
            }
        } else if (text(args, "name")[0] == '\0') {
            die(event.path, "is a process or thread without a name");
        } else {
            names++;
        }
    }
    if (names != 4 || place != 2) {
        die("traceEvents", "need names of two processes and of two threads");
    }
}

static void check_trace(zl_json root)
{
    const zl_json events = zl_json_get(root, "traceEvents");
    const size_t ids = zl_json_size(events); /* no more slices than events */
    slices s = {.open = room_for(ids, sizeof *s.open),
                .called = room_for(ids, sizeof *s.called),
                .count = ids};
    counters c = {0};
    zl_json event = {0};
    check_groups(events);
    for (size_t i = 0; zl_json_each(events, &i, &event);) {
        const char *const phase = text(event, "ph");
        if (is(phase, "M") || is(phase, "X")) {
            continue;
        }
        const uint64_t time = number(event, "ts");
        if (time < c.time) {
            die(event.path, "goes back in time");
        }
        if (time > c.time) {
            check_kinds(&c);
            c.time = time;
        }
        if (is(phase, "C")) {
            hear_counter(&c, event);
        } else if (is(phase, "b")) {
            hear_begin(&s, event);
        } else {
            hear_end(&s, event);
        }
    }
    check_kinds(&c);
    for (size_t i = 0; i < ids; i++) {
        if (s.open[i] != NULL) {
            die("traceEvents", "a slice that never ends");
        }
    }
    free(s.open);
    free(s.called);
    printf("requested %" PRIu64 " reserved %" PRIu64 "\n", c.peak_requested, c.peak_reserved);
}

/* ---- a snapshot ---- */

typedef struct piece {
    uint64_t begin, end; /* of a block: as requested */
    bool waits;
} piece;

/* By begin; nothing overlaps. */
typedef struct pieces {
    piece *at;
    size_t count;
} pieces;

/* The first that ends behind the address. */
static size_t find(const pieces *p, uint64_t address)
{
    size_t low = 0;
    size_t high = p->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (p->at[middle].end <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void insert(pieces *p, zl_json event, piece new)
{
    const size_t i = find(p, new.begin);
    if (i < p->count && p->at[i].begin < new.end) {
        die(event.path, "overlaps what is there");
    }
    memmove(&p->at[i + 1], &p->at[i], (p->count - i) * sizeof new);
    p->at[i] = new;
    p->count++;
}

static void drop(pieces *p, size_t i)
{
    p->count--;
    memmove(&p->at[i], &p->at[i + 1], (p->count - i) * sizeof p->at[0]);
}

/* [begin, end) goes, out of as many pieces as it lies in. */
static void cut(pieces *p, zl_json event, piece old)
{
    while (old.begin < old.end) {
        const size_t i = find(p, old.begin);
        if (i == p->count || p->at[i].begin > old.begin) {
            die(event.path, "gives back what was not taken");
        }
        const piece whole = p->at[i];
        drop(p, i);
        if (whole.begin < old.begin) {
            insert(p, event, (piece){.begin = whole.begin, .end = old.begin});
        }
        if (whole.end > old.end) {
            insert(p, event, (piece){.begin = old.end, .end = whole.end});
        }
        old.begin = zl_min(whole.end, old.end);
    }
}

static bool is_mapped(const pieces *segments, piece block)
{
    while (block.begin < block.end) {
        const size_t i = find(segments, block.begin);
        if (i == segments->count || segments->at[i].begin > block.begin) {
            return false;
        }
        block.begin = segments->at[i].end;
    }
    return true;
}

typedef struct memory {
    pieces segments, blocks;
    uint64_t requested, reserved, peak_requested, peak_reserved;
} memory;

static size_t block_of(const memory *m, zl_json event, piece which)
{
    const size_t i = find(&m->blocks, which.begin);
    if (i == m->blocks.count || m->blocks.at[i].begin != which.begin ||
        m->blocks.at[i].end != which.end) {
        die(event.path, "frees what is not there");
    }
    return i;
}

static void hear(memory *m, zl_json event)
{
    const char *const action = text(event, "action");
    const uint64_t address = number(event, "addr");
    const uint64_t bytes = number(event, "size");
    const piece here = {.begin = address, .end = zl_add(address, bytes)};
    if (is(action, "segment_alloc") || is(action, "segment_map")) {
        insert(&m->segments, event, here);
        m->reserved = zl_add(m->reserved, bytes);
    } else if (is(action, "segment_free") || is(action, "segment_unmap")) {
        cut(&m->segments, event, here);
        m->reserved = zl_sub(m->reserved, bytes);
    } else if (is(action, "alloc")) {
        insert(&m->blocks, event, here);
        m->requested = zl_add(m->requested, bytes);
        if (!is_mapped(&m->segments, here)) {
            die(event.path, "lies outside of the segments");
        }
    } else if (is(action, "free_requested")) {
        m->blocks.at[block_of(m, event, here)].waits = true;
    } else if (is(action, "free_completed")) {
        const size_t i = block_of(m, event, here);
        if (!m->blocks.at[i].waits) {
            die(event.path, "completes what nobody asked for");
        }
        drop(&m->blocks, i);
        m->requested = zl_sub(m->requested, bytes);
    } else {
        die(event.path, "an unknown action");
    }
    m->peak_requested = zl_max(m->peak_requested, m->requested);
    m->peak_reserved = zl_max(m->peak_reserved, m->reserved);
}

/* memory_viz prints "FILENAME:LINE:NAME", and reasons why there may be none where there are none.
 */
static void check_frames(zl_json item)
{
    const zl_json frames = zl_json_get(item, "frames");
    zl_json frame = {0};
    if (zl_json_size(frames) == 0) {
        die(item.path, "has no frames");
    }
    for (size_t i = 0; zl_json_each(frames, &i, &frame);) {
        (void)number(frame, "line");
        if (text(frame, "name")[0] == '\0' || text(frame, "filename")[0] == '\0') {
            die(frame.path, "says nothing");
        }
    }
}

/* memory_viz's colours: it has ten, and older releases fail where nothing is "unknown". */
enum { COLOURS = 10 };

typedef struct categories {
    const char *name[COLOURS];
    size_t count;
} categories;

static void hear_category(categories *c, zl_json event)
{
    const char *const action = text(event, "action");
    if (strncmp(action, "free", 4) == 0) {
        return;
    }
    const char *const name = text(event, "category");
    if (is(name, "unknown") == is(action, "alloc")) {
        die(event.path, "is of the wrong category");
    }
    for (size_t i = 0; i < c->count; i++) {
        if (is(c->name[i], name)) {
            return;
        }
    }
    if (c->count == COLOURS) {
        die(event.path, "is of a category that has no colour");
    }
    c->name[c->count++] = name;
}

/* The picture at the end shows what the events left: blocks and holes fill every segment. */
static void check_segment(const memory *m, zl_json segment, size_t *next, uint64_t *reserved)
{
    uint64_t at = number(segment, "address");
    const uint64_t end = zl_add(at, number(segment, "total_size"));
    zl_json block = {0};
    if (number(segment, "device") != 0 || number(segment, "stream") > UINT32_MAX ||
        zl_json_size(zl_json_get(segment, "segment_pool_id")) != 2) {
        die(segment.path, "is of another device, or of no stream or pool");
    }
    check_frames(segment);
    *reserved = zl_add(*reserved, zl_sub(end, at));
    if (!is_mapped(&m->segments, (piece){.begin = at, .end = end})) {
        die(segment.path, "is not there at the end");
    }
    const zl_json blocks = zl_json_get(segment, "blocks");
    for (size_t i = 0; zl_json_each(blocks, &i, &block);) {
        if (number(block, "address") != at) {
            die(block.path, "does not follow the one before");
        }
        if (!is(text(block, "state"), "inactive")) {
            const piece *const p = *next < m->blocks.count ? &m->blocks.at[*next] : NULL;
            const char *const state =
                p != NULL && p->waits ? "active_pending_free" : "active_allocated";
            if (p == NULL || p->begin != at ||
                p->end != zl_add(at, number(block, "requested_size")) ||
                !is(text(block, "state"), state)) {
                die(block.path, "is not what the events left");
            }
            check_frames(block);
            (*next)++;
        }
        at = zl_add(at, number(block, "size"));
    }
    if (at != end) {
        die(segment.path, "is not filled by its blocks");
    }
}

static void check_snapshot(zl_json root)
{
    const zl_json events = zl_json_item(zl_json_get(root, "device_traces"), 0);
    const zl_json segments = zl_json_get(root, "segments");
    const size_t count = zl_json_size(events);
    memory m = {0};
    categories seen = {0};
    uint64_t time = 0;
    uint64_t reserved = 0;
    size_t next = 0;
    zl_json item = {0};
    m.segments.at = room_for(2 * count, sizeof *m.segments.at);
    m.blocks.at = room_for(count, sizeof *m.blocks.at);
    for (size_t i = 0; zl_json_each(events, &i, &item);) {
        if (number(item, "time_us") != time++) {
            die(item.path, "is not at its time, the number of the event");
        }
        check_frames(item);
        hear_category(&seen, item);
        hear(&m, item);
    }
    for (size_t i = 0; zl_json_each(segments, &i, &item);) {
        check_segment(&m, item, &next, &reserved);
    }
    if (seen.count < 2 ||
        text(zl_json_get(root, "allocator_settings"), "predicted run")[0] == '\0') {
        die(root.path, "does not say what it is");
    }
    if (next != m.blocks.count || reserved != m.reserved) {
        die("segments", "lack something that the events left");
    }
    free(m.segments.at);
    free(m.blocks.at);
    printf("requested %" PRIu64 " reserved %" PRIu64 "\n", m.peak_requested, m.peak_reserved);
}

int main(int argc, char **argv)
{
    zl_json_doc *doc = NULL;
    if (argc != 3 || (!is(argv[1], "trace") && !is(argv[1], "snapshot"))) {
        fputs("usage: timeline_check trace|snapshot FILE.json\n", stderr);
        return ZL_E_USAGE;
    }
    if (zl_json_load(argv[2], &doc, &err) != ZL_OK) {
        die(argv[2], err.text);
    }
    if (is(argv[1], "trace")) {
        check_trace(zl_json_root(doc));
    } else {
        check_snapshot(zl_json_root(doc));
    }
    zl_json_free(doc);
    return 0;
}
