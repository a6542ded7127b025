/* A timeline as torch.cuda.memory._dump_snapshot() writes one: the dictionary of segments with
 * their blocks at the end, every event before it, and the allocator's settings, pickled. memory_viz
 * and torch/cuda/_memory_viz.py open it.
 *
 * Where PyTorch has the frames of a stack, there are lines: what the memory is in the end, what it
 * was at first if that is something else, and when it was asked for. Its category, which gives
 * memory_viz its colours and their legend, is what it is in the end.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pickle.h"
#include "timeline.h"
#include "zeroledger/bytes.h"

/* Keys of the dictionaries: each is written out once. */
typedef enum key {
    KEY_ACTION,
    KEY_ACTIVE_SIZE,
    KEY_ADDR,
    KEY_ADDRESS,
    KEY_ALLOCATED_SIZE,
    KEY_BLOCKS,
    KEY_CATEGORY,
    KEY_DEVICE,
    KEY_FILENAME,
    KEY_FRAMES,
    KEY_IS_EXPANDABLE,
    KEY_LINE,
    KEY_NAME,
    KEY_REQUESTED_SIZE,
    KEY_SEGMENT_POOL_ID,
    KEY_SEGMENT_TYPE,
    KEY_SIZE,
    KEY_STATE,
    KEY_STREAM,
    KEY_TIME_US,
    KEY_TOTAL_SIZE,
    KEY_COUNT
} key;

static const char *const key_text[KEY_COUNT] = {
    [KEY_ACTION] = "action",
    [KEY_ACTIVE_SIZE] = "active_size",
    [KEY_ADDR] = "addr",
    [KEY_ADDRESS] = "address",
    [KEY_ALLOCATED_SIZE] = "allocated_size",
    [KEY_BLOCKS] = "blocks",
    [KEY_CATEGORY] = "category",
    [KEY_DEVICE] = "device",
    [KEY_FILENAME] = "filename",
    [KEY_FRAMES] = "frames",
    [KEY_IS_EXPANDABLE] = "is_expandable",
    [KEY_LINE] = "line",
    [KEY_NAME] = "name",
    [KEY_REQUESTED_SIZE] = "requested_size",
    [KEY_SEGMENT_POOL_ID] = "segment_pool_id",
    [KEY_SEGMENT_TYPE] = "segment_type",
    [KEY_SIZE] = "size",
    [KEY_STATE] = "state",
    [KEY_STREAM] = "stream",
    [KEY_TIME_US] = "time_us",
    [KEY_TOTAL_SIZE] = "total_size",
};

static const char *const action_text[ZL_TIMELINE_WHAT_COUNT] = {
    [ZL_TIMELINE_ALLOC] = "alloc",
    [ZL_TIMELINE_FREE_REQUESTED] = "free_requested",
    [ZL_TIMELINE_FREE_COMPLETED] = "free_completed",
    [ZL_TIMELINE_SEGMENT_ALLOC] = "segment_alloc",
    [ZL_TIMELINE_SEGMENT_FREE] = "segment_free",
    [ZL_TIMELINE_SEGMENT_MAP] = "segment_map",
    [ZL_TIMELINE_SEGMENT_UNMAP] = "segment_unmap",
};

/* A text or list that has been written: its number, plus 1. */
typedef uint32_t kept;

/* A frame of the stack: all that tells it from others. */
typedef struct frame {
    const char *name;
    const char *file;
    uint64_t line;
    kept kept;
} frame;

/* memory_viz has ten colours: for what has no category, for all "other", and for eight more. */
enum { CATEGORIES = 8, KINDS_MAX = 64 };

/* What is "unknown" has no category; memory_viz gives its colour to small blocks that it draws as
 * one. It has to be there: older releases fail where others are and it is not. */
typedef enum common_category { CATEGORY_UNKNOWN, CATEGORY_OTHER, CATEGORY_COUNT } common_category;

static const char *const common_text[CATEGORY_COUNT] = {
    [CATEGORY_UNKNOWN] = "unknown",
    [CATEGORY_OTHER] = "other",
};

/* Allocations that are of one kind in the end. */
typedef struct category {
    const char *kind;
    uint64_t bytes; /* requested, now */
    uint64_t since; /* when that changed last */
    uint64_t area;  /* bytes times events, until then: how much of the picture it takes */
    kept kept;
} category;

typedef struct snapshot {
    const zl_timeline *t;
    zl_pickle p;
    kept key[KEY_COUNT];
    kept action[ZL_TIMELINE_WHAT_COUNT];
    frame *frame; /* a hash table, at most half full */
    size_t frames, frame_room;
    category category[KINDS_MAX]; /* the first CATEGORIES have colours of their own */
    size_t categories;
    kept common[CATEGORY_COUNT];
    bool *lives;    /* (allocations): not yet gone */
    bool *waits;    /* (allocations): freed, not yet completed */
    uint64_t *born; /* (allocations): its phase when it was asked for */
    bool failed;
} snapshot;

static void put_once(zl_pickle *p, kept *k, const char *text)
{
    if (*k != 0) {
        zl_pickle_again(p, *k - 1);
    } else {
        zl_pickle_text(p, text);
        *k = zl_pickle_keep(p) + 1;
    }
}

static void put_key(snapshot *s, key k)
{
    put_once(&s->p, &s->key[k], key_text[k]);
}

static void put_count(snapshot *s, key k, uint64_t value)
{
    put_key(s, k);
    zl_pickle_count(&s->p, value);
}

static void put_text(snapshot *s, key k, const char *text)
{
    put_key(s, k);
    zl_pickle_text(&s->p, text);
}

/* ---- frames ---- */

static size_t frame_hash(const frame *f)
{
    uint64_t hash = f->line * UINT64_C(0x9e3779b97f4a7c15);
    for (const char *c = f->name; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3); /* FNV-1a */
    }
    for (const char *c = f->file; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    return (size_t)(hash ^ hash >> 32);
}

static bool same_frame(const frame *a, const frame *b)
{
    return a->line == b->line && strcmp(a->name, b->name) == 0 && strcmp(a->file, b->file) == 0;
}

/* Where a frame stands in a table, or would. */
static frame *frame_place(frame *table, size_t room, const frame *f)
{
    size_t at = frame_hash(f) & (room - 1);
    while (table[at].name != NULL && !same_frame(&table[at], f)) {
        at = (at + 1) & (room - 1);
    }
    return &table[at];
}

static bool frames_grow(snapshot *s)
{
    const size_t room = s->frame_room == 0 ? 256 : 2 * s->frame_room;
    frame *const larger = calloc(room, sizeof *larger);
    if (larger == NULL) {
        s->failed = true;
        return false;
    }
    for (size_t i = 0; i < s->frame_room; i++) {
        if (s->frame[i].name != NULL) {
            *frame_place(larger, room, &s->frame[i]) = s->frame[i];
        }
    }
    free(s->frame);
    s->frame = larger;
    s->frame_room = room;
    return true;
}

static void put_frame(snapshot *s, const char *name, const char *file, uint64_t line)
{
    const frame wanted = {.name = name, .file = file, .line = line};
    if (2 * s->frames >= s->frame_room && !frames_grow(s)) {
        return;
    }
    frame *const f = frame_place(s->frame, s->frame_room, &wanted);
    if (f->name != NULL) {
        zl_pickle_again(&s->p, f->kept - 1);
        return;
    }
    zl_pickle_dict(&s->p);
    put_text(s, KEY_NAME, name);
    put_text(s, KEY_FILENAME, file);
    put_count(s, KEY_LINE, line);
    zl_pickle_end(&s->p);
    *f = wanted;
    f->kept = zl_pickle_keep(&s->p) + 1;
    s->frames++;
}

/* The phase that a time falls in, at or behind `from`; phases: none. */
static uint64_t phase_at(const zl_timeline *t, uint64_t from, uint64_t time)
{
    while (from < t->phases && t->phase[from].end <= time) {
        from++;
    }
    return from;
}

/* "act.qkv" of "act", owner 3; "gradients" of "at first"; "forward" of "step", 1. a NULL: memory of
 * the driver. */
static void put_frames(snapshot *s, const zl_allocation *a, uint64_t phase)
{
    const zl_timeline *const t = s->t;
    put_key(s, KEY_FRAMES);
    zl_pickle_list(&s->p);
    if (a != NULL) {
        put_frame(s, a->last.name, a->last.kind == a->last.name ? t->framework : a->last.kind,
                  a->last.owner);
    }
    if (a != NULL && !zl_timeline_same_name(&a->name, &a->last)) {
        put_frame(s, a->name.name, "at first", a->name.owner);
    }
    if (phase < t->phases) {
        const zl_timeline_phase *const f = &t->phase[phase];
        put_frame(s, f->name, f->step < 0 ? "before the first step" : "step",
                  f->step < 0 ? 0 : (uint64_t)f->step);
    }
    zl_pickle_end(&s->p);
}

/* ---- categories ---- */

/* NULL: there are too many kinds. */
static category *category_of(snapshot *s, const char *kind)
{
    for (size_t i = 0; i < s->categories; i++) {
        if (strcmp(s->category[i].kind, kind) == 0) {
            return &s->category[i];
        }
    }
    if (s->categories == KINDS_MAX) {
        return NULL;
    }
    s->category[s->categories] = (category){.kind = kind};
    return &s->category[s->categories++];
}

/* The largest first. */
static int by_area(const void *x, const void *y)
{
    const category *const a = x;
    const category *const b = y;
    if (a->area != b->area) {
        return a->area < b->area ? 1 : -1;
    }
    return strcmp(a->kind, b->kind);
}

static void advance(category *c, uint64_t time)
{
    c->area = zl_add(c->area, zl_mul(c->bytes, zl_sub(time, c->since)));
    c->since = time;
}

static void find_categories(snapshot *s)
{
    for (size_t i = 0; i < s->t->events; i++) {
        const zl_timeline_event *const e = &s->t->event[i];
        const zl_allocation *const a = &s->t->allocation[e->allocation];
        const bool comes = e->what == ZL_TIMELINE_ALLOC;
        category *const c =
            comes || e->what == ZL_TIMELINE_FREE_COMPLETED ? category_of(s, a->last.kind) : NULL;
        if (c != NULL) {
            advance(c, e->time);
            c->bytes = comes ? zl_add(c->bytes, a->requested) : zl_sub(c->bytes, a->requested);
        }
    }
    for (size_t i = 0; i < s->categories; i++) {
        advance(&s->category[i], s->t->now);
    }
    qsort(s->category, s->categories, sizeof s->category[0], by_area);
}

/* a NULL: memory of the driver. */
static void put_category(snapshot *s, const zl_allocation *a)
{
    const common_category common = a == NULL ? CATEGORY_UNKNOWN : CATEGORY_OTHER;
    put_key(s, KEY_CATEGORY);
    for (size_t i = 0; a != NULL && i < s->categories && i < CATEGORIES; i++) {
        if (strcmp(s->category[i].kind, a->last.kind) == 0) {
            put_once(&s->p, &s->category[i].kept, a->last.kind);
            return;
        }
    }
    put_once(&s->p, &s->common[common], common_text[common]);
}

/* ---- events ---- */

/* What is known of an allocation after the event. */
static void follow(snapshot *s, const zl_timeline_event *e, uint64_t phase)
{
    if (e->what == ZL_TIMELINE_ALLOC) {
        s->lives[e->allocation] = true;
        s->born[e->allocation] = phase;
    } else if (e->what == ZL_TIMELINE_FREE_REQUESTED) {
        s->waits[e->allocation] = true;
    } else if (e->what == ZL_TIMELINE_FREE_COMPLETED) {
        s->lives[e->allocation] = false;
    }
}

static bool takes(zl_timeline_what what)
{
    return what == ZL_TIMELINE_SEGMENT_ALLOC || what == ZL_TIMELINE_SEGMENT_MAP;
}

static bool gives(zl_timeline_what what)
{
    return what == ZL_TIMELINE_SEGMENT_FREE || what == ZL_TIMELINE_SEGMENT_UNMAP;
}

static void put_event(snapshot *s, const zl_timeline_event *e, uint64_t phase)
{
    const bool segment = takes(e->what) || gives(e->what);
    const zl_allocation *const a = segment ? NULL : &s->t->allocation[e->allocation];
    zl_pickle_dict(&s->p);
    put_key(s, KEY_ACTION);
    put_once(&s->p, &s->action[e->what], action_text[e->what]);
    put_count(s, KEY_ADDR, segment ? e->segment.address : a->address);
    put_count(s, KEY_SIZE, segment ? e->segment.size : a->requested);
    put_count(s, KEY_STREAM, segment ? e->segment.stream : a->stream);
    put_count(s, KEY_TIME_US, e->time);
    put_frames(s, a, phase);
    if (segment || e->what == ZL_TIMELINE_ALLOC) {
        put_category(s, a);
    }
    zl_pickle_end(&s->p);
}

/* One device. */
static void put_events(snapshot *s)
{
    const zl_timeline *const t = s->t;
    uint64_t phase = 0;
    zl_pickle_text(&s->p, "device_traces");
    zl_pickle_list(&s->p);
    zl_pickle_list(&s->p);
    for (size_t i = 0; i < t->events; i++) {
        const zl_timeline_event *const e = &t->event[i];
        phase = phase_at(t, phase, e->time);
        follow(s, e, phase);
        if (e->what != ZL_TIMELINE_RENAME) {
            put_event(s, e, phase);
        }
    }
    zl_pickle_end(&s->p);
    zl_pickle_end(&s->p);
}

/* ---- segments at the end ---- */

/* Addresses that belong to the process: a segment, or pages of one. */
typedef struct extent {
    uint64_t begin, end;
    uint64_t phase; /* when its first bytes were taken */
    uint32_t stream;
    bool small;
    bool expandable;
} extent;

typedef struct extents {
    extent *at; /* by begin */
    size_t count;
} extents;

/* An extent of its own, in its place. The array has room: one for every event. */
static void extents_add(extents *x, extent new)
{
    size_t i = x->count++;
    for (; i > 0 && x->at[i - 1].begin > new.begin; i--) {
        x->at[i] = x->at[i - 1];
    }
    x->at[i] = new;
}

/* [begin, end) belongs to the process no longer. */
static void extents_remove(extents *x, uint64_t begin, uint64_t end)
{
    for (size_t i = 0; i < x->count;) {
        const extent old = x->at[i];
        if (old.end <= begin || old.begin >= end) {
            i++;
            continue;
        }
        x->count--;
        memmove(&x->at[i], &x->at[i + 1], (x->count - i) * sizeof x->at[0]);
        if (old.begin < begin) {
            extent below = old;
            below.end = begin;
            extents_add(x, below);
            i++;
        }
        if (old.end > end) {
            extent above = old;
            above.begin = end;
            extents_add(x, above);
            i++;
        }
    }
}

/* Pages of one stream that lie together are one segment. */
static void extents_join(extents *x)
{
    size_t joined = 0;
    for (size_t i = 0; i < x->count; i++) {
        extent *const last = joined > 0 ? &x->at[joined - 1] : NULL;
        const extent *const e = &x->at[i];
        if (last != NULL && last->expandable && e->expandable && last->end == e->begin &&
            last->stream == e->stream && last->small == e->small) {
            last->end = e->end;
        } else {
            x->at[joined++] = *e;
        }
    }
    x->count = joined;
}

static void find_extents(const zl_timeline *t, extents *out)
{
    uint64_t phase = 0;
    for (size_t i = 0; i < t->events; i++) {
        const zl_timeline_event *const e = &t->event[i];
        const zl_timeline_segment *const g = &e->segment;
        phase = phase_at(t, phase, e->time);
        if (takes(e->what)) {
            extents_add(out, (extent){.begin = g->address,
                                      .end = zl_add(g->address, g->size),
                                      .phase = phase,
                                      .stream = g->stream,
                                      .small = g->small,
                                      .expandable = e->what == ZL_TIMELINE_SEGMENT_MAP});
        } else if (gives(e->what)) {
            extents_remove(out, g->address, zl_add(g->address, g->size));
        }
    }
    extents_join(out);
}

/* An allocation that lives on, where it lies. */
typedef struct survivor {
    uint64_t address;
    size_t allocation;
} survivor;

static int by_address(const void *x, const void *y)
{
    const survivor *const a = x;
    const survivor *const b = y;
    return a->address < b->address ? -1 : a->address > b->address;
}

static void put_block(snapshot *s, uint64_t address, uint64_t size, uint64_t requested,
                      const char *state)
{
    zl_pickle_dict(&s->p);
    put_count(s, KEY_ADDRESS, address);
    put_count(s, KEY_SIZE, size);
    put_count(s, KEY_REQUESTED_SIZE, requested);
    put_text(s, KEY_STATE, state);
}

static void put_hole(snapshot *s, uint64_t begin, uint64_t end)
{
    if (begin < end) {
        put_block(s, begin, zl_sub(end, begin), 0, "inactive");
        put_key(s, KEY_FRAMES);
        zl_pickle_list(&s->p);
        zl_pickle_end(&s->p);
        zl_pickle_end(&s->p);
    }
}

/* Survivors from *next on that lie in the extent, with the holes around them. */
static void put_blocks(snapshot *s, const extent *x, const survivor *alive, size_t count,
                       size_t *next)
{
    uint64_t at = x->begin;
    put_key(s, KEY_BLOCKS);
    zl_pickle_list(&s->p);
    for (; *next < count && alive[*next].address < x->end; (*next)++) {
        const size_t index = alive[*next].allocation;
        const zl_allocation *const a = &s->t->allocation[index];
        put_hole(s, at, a->address);
        put_block(s, a->address, a->size, a->requested,
                  s->waits[index] ? "active_pending_free" : "active_allocated");
        put_frames(s, a, s->born[index]);
        zl_pickle_end(&s->p);
        at = zl_add(a->address, a->size);
    }
    put_hole(s, at, x->end);
    zl_pickle_end(&s->p);
}

static void put_segment(snapshot *s, const extent *x, const survivor *alive, size_t count,
                        size_t *next)
{
    uint64_t allocated = 0;
    uint64_t active = 0;
    for (size_t i = *next; i < count && alive[i].address < x->end; i++) {
        const size_t index = alive[i].allocation;
        active = zl_add(active, s->t->allocation[index].size);
        allocated = zl_add(allocated, s->waits[index] ? 0 : s->t->allocation[index].size);
    }
    zl_pickle_dict(&s->p);
    put_count(s, KEY_DEVICE, 0);
    put_count(s, KEY_ADDRESS, x->begin);
    put_count(s, KEY_TOTAL_SIZE, zl_sub(x->end, x->begin));
    put_count(s, KEY_ALLOCATED_SIZE, allocated);
    put_count(s, KEY_ACTIVE_SIZE, active);
    put_count(s, KEY_STREAM, x->stream);
    put_text(s, KEY_SEGMENT_TYPE, x->small ? "small" : "large");
    put_key(s, KEY_SEGMENT_POOL_ID); /* a tuple in PyTorch; nobody asks which */
    zl_pickle_list(&s->p);
    zl_pickle_count(&s->p, 0);
    zl_pickle_count(&s->p, 0);
    zl_pickle_end(&s->p);
    put_key(s, KEY_IS_EXPANDABLE);
    zl_pickle_bool(&s->p, x->expandable);
    put_frames(s, NULL, x->phase);
    put_blocks(s, x, alive, count, next);
    zl_pickle_end(&s->p);
}

static void put_segments(snapshot *s)
{
    const zl_timeline *const t = s->t;
    extents x = {.at = calloc(2 * t->events + 1, sizeof *x.at)};
    survivor *const alive = calloc(t->allocations + 1, sizeof *alive);
    size_t count = 0;
    size_t next = 0;
    if (x.at == NULL || alive == NULL) {
        s->failed = true;
        goto out;
    }
    find_extents(t, &x);
    for (size_t i = 0; i < t->allocations; i++) {
        if (s->lives[i]) {
            alive[count++] = (survivor){t->allocation[i].address, i};
        }
    }
    qsort(alive, count, sizeof *alive, by_address);
    zl_pickle_text(&s->p, "segments");
    zl_pickle_list(&s->p);
    for (size_t i = 0; i < x.count; i++) {
        put_segment(s, &x.at[i], alive, count, &next);
    }
    zl_pickle_end(&s->p);
out:
    free(x.at);
    free(alive);
}

/* ---- the whole ---- */

/* memory_viz shows them as they are: the one place for what run this is. */
static void put_settings(snapshot *s)
{
    zl_pickle_text(&s->p, "allocator_settings");
    zl_pickle_dict(&s->p);
    zl_pickle_text(&s->p, "PYTORCH_CUDA_ALLOC_CONF");
    zl_pickle_text(&s->p, s->t->settings);
    zl_pickle_text(&s->p, "predicted run");
    zl_pickle_text(&s->p, s->t->title);
    zl_pickle_end(&s->p);
}

zl_status zl_timeline_snapshot(const zl_timeline *t, FILE *out, zl_err *err)
{
    snapshot s = {.t = t};
    s.lives = calloc(t->allocations + 1, sizeof *s.lives);
    s.waits = calloc(t->allocations + 1, sizeof *s.waits);
    s.born = calloc(t->allocations + 1, sizeof *s.born);
    s.failed = s.lives == NULL || s.waits == NULL || s.born == NULL;
    if (!s.failed) {
        find_categories(&s);
        zl_pickle_begin(&s.p, out);
        zl_pickle_dict(&s.p);
        zl_pickle_text(&s.p, "id"); /* PyTorch has none; zl replay prints it */
        zl_pickle_text(&s.p, t->title);
        put_events(&s);
        put_segments(&s);
        put_settings(&s);
        zl_pickle_end(&s.p);
        zl_pickle_stop(&s.p);
    }
    free(s.lives);
    free(s.waits);
    free(s.born);
    free(s.frame);
    return s.failed ? zl_fail(err, ZL_E_RESOURCE, "no memory for a snapshot") : ZL_OK;
}
