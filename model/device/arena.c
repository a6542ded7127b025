/* The size of the arena: docs/schedule.md, section 6, replayed over the requests of the walk. Only
 * places are kept, no memory. */
#include "device/arena.h"

#include <stdlib.h>
#include <string.h>

#include "walk/walk.h"
#include "zeroledger/bytes.h"
#include "zeroledger/device.h"

static const uint64_t step_bytes = UINT64_C(2) << 20;

/* A free block; neighbours are never both free, except at the wall. */
typedef struct hole {
    uint64_t offset;
    uint64_t size;
} hole;

/* What memory looked like. */
typedef struct picture {
    uint64_t size;
    hole *hole;
    size_t holes;
} picture;

enum { PICTURES = 16 };

typedef struct arena {
    zl_placement placement;
    uint64_t size; /* bytes taken from the system */
    uint64_t wall; /* what steps repeat lies before it, what they keep behind; 0: not known yet */
    uint64_t live; /* granted bytes */
    hole *hole;    /* by offset */
    size_t holes;
    size_t room;
    picture seen[PICTURES]; /* a ring: the ends of micro-steps of this optimizer step */
    uint64_t pictures;      /* taken in it */
    uint64_t *place;        /* (ZL_BUF_COUNT, owners): offsets of live blocks */
    uint64_t owners;
    uint64_t init_live;
    uint64_t step_size; /* when the cold step's update began */
    bool settled;
    bool in_step;
    bool short_of_memory;        /* of the host: what follows is void */
    const zl_arena_watch *watch; /* or NULL */
} arena;

static bool make_room(arena *a)
{
    if (a->holes + 1 < a->room) {
        return true;
    }
    const size_t room = a->room == 0 ? 256 : 2 * a->room;
    hole *const more = realloc(a->hole, room * sizeof *more);
    if (more == NULL) {
        a->short_of_memory = true;
        return false;
    }
    memset(&more[a->room], 0, (room - a->room) * sizeof *more);
    a->hole = more;
    a->room = room;
    return true;
}

static void hole_remove(arena *a, size_t at)
{
    a->holes--;
    memmove(&a->hole[at], &a->hole[at + 1], (a->holes - at) * sizeof a->hole[0]);
}

/* The first hole at or behind an offset. */
static size_t hole_behind(const arena *a, uint64_t offset)
{
    size_t low = 0;
    size_t high = a->holes;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (a->hole[middle].offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* [offset, offset + size) becomes free, together with free neighbours. */
static void release(arena *a, uint64_t offset, uint64_t size)
{
    if (!make_room(a)) {
        return;
    }
    size_t at = hole_behind(a, offset);
    if (at < a->holes && offset + size == a->hole[at].offset && offset + size != a->wall) {
        a->hole[at] = (hole){offset, a->hole[at].size + size};
    } else {
        memmove(&a->hole[at + 1], &a->hole[at], (a->holes - at) * sizeof a->hole[0]);
        a->hole[at] = (hole){offset, size};
        a->holes++;
    }
    if (at > 0 && a->hole[at - 1].offset + a->hole[at - 1].size == offset && offset != a->wall) {
        a->hole[at - 1].size += a->hole[at].size;
        hole_remove(a, at);
    }
}

static uint64_t end_of(const hole *h)
{
    return h->offset + h->size;
}

/* Bytes of the free block at the end, behind the wall; 0 if the last block is live. */
static uint64_t tail(const arena *a)
{
    const hole *const last = a->holes > 0 ? &a->hole[a->holes - 1] : NULL;
    return last != NULL && last->offset >= a->wall && end_of(last) == a->size ? last->size : 0;
}

static void grow(arena *a, uint64_t bytes)
{
    const uint64_t target = zl_align_up(bytes, step_bytes);
    if (target > a->size && !zl_poisoned(target)) {
        const uint64_t from = a->size;
        if (a->watch != NULL) {
            a->watch->grow(a->watch->context, from, target - from);
        }
        a->size = target;
        release(a, from, target - from);
    }
}

/* The smallest hole between two places that is large enough; of equals the lowest. */
static size_t smallest(const arena *a, uint64_t size, uint64_t from, uint64_t to)
{
    size_t best = a->holes;
    for (size_t i = hole_behind(a, from); i < a->holes && end_of(&a->hole[i]) <= to; i++) {
        if (a->hole[i].size >= size && (best == a->holes || a->hole[i].size < a->hole[best].size)) {
            best = i;
        }
    }
    return best;
}

/* The same, but the hole that ends where it is looked for counts as the largest: until the wall
 * stands it can grow, and what is placed with it must be placed so without. */
static size_t smallest_inside(const arena *a, uint64_t size, uint64_t from, uint64_t to)
{
    const size_t inside = smallest(a, size, from, zl_sub(to, 1));
    return inside < a->holes ? inside : smallest(a, size, from, to);
}

/* Where a buffer goes; a->holes: nowhere. */
static size_t choose(const arena *a, zl_buf buf, uint64_t size)
{
    if (a->placement == ZL_PLACEMENT_MIXED) {
        return smallest(a, size, 0, a->size);
    }
    const bool stays = a->in_step && zl_buf_kind(buf) == ZL_KIND_OPT;
    const size_t before = a->wall != 0 && !stays ? smallest_inside(a, size, 0, a->wall) : a->holes;
    return before < a->holes ? before : smallest_inside(a, size, a->wall, a->size);
}

static uint64_t *place_of(const arena *a, zl_buf buf, uint64_t owner)
{
    return &a->place[zl_add(zl_mul((uint64_t)buf, a->owners), owner)];
}

static zl_arena_block block_of(const arena *a, zl_buf buf, uint64_t owner,
                               const uint64_t bytes[ZL_RUNG_COUNT])
{
    return (zl_arena_block){.buffer = buf,
                            .owner = owner,
                            .bytes = {bytes[ZL_REQUESTED], bytes[ZL_GRANTED]},
                            .offset = *place_of(a, buf, owner)};
}

static void on_alloc(void *context, zl_buf buf, uint64_t owner, const uint64_t bytes[ZL_RUNG_COUNT])
{
    arena *const a = context;
    const uint64_t granted = bytes[ZL_GRANTED];
    size_t at = choose(a, buf, granted);
    if (at == a->holes) {
        grow(a, zl_add(a->size, granted - tail(a)));
        at = smallest(a, granted, a->wall, a->size);
    }
    if (at == a->holes) { /* no memory for the table, or an overflow, which the walk reports */
        a->short_of_memory = true;
        return;
    }
    *place_of(a, buf, owner) = a->hole[at].offset;
    if (a->watch != NULL) {
        const zl_arena_block block = block_of(a, buf, owner, bytes);
        a->watch->alloc(a->watch->context, &block);
    }
    a->live = zl_add(a->live, granted);
    a->hole[at].offset += granted;
    a->hole[at].size -= granted;
    if (a->hole[at].size == 0) {
        hole_remove(a, at);
    }
}

static void on_drop(void *context, zl_buf buf, uint64_t owner, const uint64_t bytes[ZL_RUNG_COUNT])
{
    arena *const a = context;
    const uint64_t granted = bytes[ZL_GRANTED];
    if (a->short_of_memory) {
        return;
    }
    if (a->watch != NULL) {
        const zl_arena_block block = block_of(a, buf, owner, bytes);
        a->watch->drop(a->watch->context, &block);
    }
    a->live = zl_sub(a->live, granted);
    release(a, *place_of(a, buf, owner), granted);
}

static void on_enter(void *context, zl_visit visit, zl_phase phase)
{
    arena *const a = context;
    if (a->watch != NULL) {
        a->watch->enter(a->watch->context, visit, phase);
    }
    a->in_step = phase == ZL_PHASE_STEP;
    if (a->in_step) {
        a->pictures = 0;
        a->step_size = a->settled ? a->step_size : a->size;
    }
    if (a->in_step && a->placement == ZL_PLACEMENT_APART && a->wall == 0) {
        a->wall = a->size;
    }
}

static void on_leave(void *context, zl_phase phase)
{
    arena *const a = context;
    if (phase == ZL_PHASE_INIT) {
        a->init_live = a->live;
    } else if (phase == ZL_PHASE_STEP && !a->settled && a->placement == ZL_PLACEMENT_MIXED) {
        a->settled = true;
        grow(a, zl_add(a->size - tail(a), a->step_size - a->init_live));
    }
    if (a->watch != NULL) {
        a->watch->leave(a->watch->context, phase);
    }
}

static bool looks_like(const arena *a, const picture *p)
{
    return a->size == p->size && a->holes == p->holes &&
           memcmp(a->hole, p->hole, a->holes * sizeof a->hole[0]) == 0;
}

static void take_picture(arena *a)
{
    picture *const p = &a->seen[a->pictures % PICTURES];
    hole *const more = realloc(p->hole, (a->holes + 1) * sizeof *more);
    if (more == NULL) {
        a->short_of_memory = true;
        return;
    }
    memcpy(more, a->hole, a->holes * sizeof *more);
    *p = (picture){.size = a->size, .hole = more, .holes = a->holes};
    a->pictures++;
}

/* What is live at the end of a micro-step stays where it is, so memory looks the same if its holes
 * do. */
static uint64_t on_round(void *context)
{
    arena *const a = context;
    for (uint64_t ago = 1; ago <= zl_min(a->pictures, PICTURES); ago++) {
        if (looks_like(a, &a->seen[(a->pictures - ago) % PICTURES])) {
            return ago;
        }
    }
    take_picture(a);
    return 0;
}

zl_status zl_predict_arena(const zl_run *run, zl_placement placement, uint64_t *bytes, zl_err *err)
{
    return zl_arena_watched(run, placement, NULL, bytes, err);
}

zl_status zl_arena_watched(const zl_run *run, zl_placement placement, const zl_arena_watch *watcher,
                           uint64_t *bytes, zl_err *err)
{
    if (run->framework != ZL_FRAMEWORK_NATIVE) {
        return zl_fail(err, ZL_E_UNMODELLED, "framework %s has no arena",
                       zl_framework_name(run->framework));
    }
    arena a = {.placement = placement, .owners = zl_add(run->model.layers, 2), .watch = watcher};
    const zl_walk_watch watch = {on_alloc, on_drop, on_enter, on_leave, on_round, &a};
    a.place = calloc((size_t)zl_mul(ZL_BUF_COUNT, a.owners), sizeof a.place[0]);
    zl_status status = ZL_OK;
    if (a.place == NULL || !make_room(&a)) {
        status = zl_fail(err, ZL_E_RESOURCE, "out of memory for the arena's tables");
    } else {
        status = zl_walk_watched(run, &watch, err);
    }
    if (status == ZL_OK && a.short_of_memory) {
        status = zl_fail(err, ZL_E_RESOURCE, "out of memory for the arena's tables");
    }
    if (status == ZL_OK) {
        *bytes = a.size;
    }
    free(a.place);
    free(a.hole);
    for (size_t i = 0; i < PICTURES; i++) {
        free(a.seen[i].hole);
    }
    return status;
}
