/* Whether what `zl predict --timeline` wrote is right in itself: events in order, frees of what is
 * there, allocations inside memory that was taken and beside each other, kinds that add up.
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
    } else if (strncmp(name, "kind: ", 6) == 0) {
        set_kind(c, name, bytes);
    } else if (!is(name, "allocated")) {
        die(event.path, "an unknown counter");
    }
}

/* open: by id, whether its slice is. */
static void hear_slice(bool *open, size_t ids, zl_json event, bool begins)
{
    const uint64_t id = number(event, "id");
    if (id >= ids || open[id] == begins) {
        die(event.path, begins ? "begins twice" : "ends, and was not begun");
    }
    open[id] = begins;
}

static void check_trace(zl_json root)
{
    const zl_json events = zl_json_get(root, "traceEvents");
    const size_t ids = zl_json_size(events);
    bool *const open = room_for(ids, sizeof *open);
    counters c = {0};
    zl_json event = {0};
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
        } else {
            hear_slice(open, ids, event, is(phase, "b"));
        }
    }
    check_kinds(&c);
    for (size_t i = 0; i < ids; i++) {
        if (open[i]) {
            die("traceEvents", "a slice that never ends");
        }
    }
    free(open);
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

/* The picture at the end shows what the events left: blocks and holes fill every segment. */
static void check_segment(const memory *m, zl_json segment, size_t *next, uint64_t *reserved)
{
    uint64_t at = number(segment, "address");
    const uint64_t end = zl_add(at, number(segment, "total_size"));
    zl_json block = {0};
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
        hear(&m, item);
    }
    for (size_t i = 0; zl_json_each(segments, &i, &item);) {
        check_segment(&m, item, &next, &reserved);
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
