#include "device/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device/tick.h"

enum { DEPTH_MAX = 16, SUMS_MAX = 512, REGIONS_AT_FIRST = 1024, NO_PARENT = SUMS_MAX };

/* All regions that have the same names around them. */
typedef struct node {
    const char *name;
    zr_profile_track track;
    uint32_t parent; /* NO_PARENT: none */
    uint64_t depth;
    uint64_t count;
    double seconds;
} node;

typedef struct region {
    uint32_t node;
    uint64_t number;
    bool ended;
    zr_tick begin;
    zr_tick end;
} region;

/* The regions of one step. While the device is still busy with them, the next step has the other.
 */
typedef struct pass {
    uint64_t step;
    bool counts;
    bool full;      /* to be read */
    zr_tick origin; /* of the compute queue */
    region *region;
    size_t used;
    size_t room;
} pass;

struct zr_profile {
    FILE *file;
    uint64_t rank;
    void *queue[ZR_PROFILE_TRACKS];
    pass pass[2];
    uint64_t steps; /* begun */
    bool inside;    /* a step */
    size_t open[ZR_PROFILE_TRACKS][DEPTH_MAX];
    uint64_t depth[ZR_PROFILE_TRACKS];
    node node[SUMS_MAX];
    uint32_t nodes;
    double origin; /* of the step that is read next, in seconds since the first */
    double begun;  /* the host's clock at the first step */
    bool counting; /* a step that counts has been read; without one, all do */
    zl_err failure;
};

static pass *current(zr_profile *p)
{
    return &p->pass[(p->steps + 1) % 2]; /* steps counts from 1 inside a step */
}

const char *zr_profile_track_name(zr_profile_track track)
{
    switch (track) {
    case ZR_PROFILE_HOST:
        return "host";
    case ZR_PROFILE_COMPUTE:
        return "compute";
    case ZR_PROFILE_COMM:
        return "communication";
    case ZR_PROFILE_TRACKS:
        break;
    }
    return "";
}

static void put_names(zr_profile *p)
{
    (void)fprintf(p->file,
                  "{\"schema\": \"zeroledger.profile/1\", \"displayTimeUnit\": \"ms\", "
                  "\"traceEvents\": [\n"
                  "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %" PRIu64
                  ", \"args\": {\"name\": \"rank %" PRIu64 "\"}}",
                  p->rank, p->rank);
    for (unsigned t = 0; t < ZR_PROFILE_TRACKS; t++) {
        (void)fprintf(p->file,
                      ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %" PRIu64
                      ", \"tid\": %u, \"args\": {\"name\": \"%s\"}}",
                      p->rank, t, zr_profile_track_name((zr_profile_track)t));
    }
}

zl_status zr_profile_new(const char *path, uint64_t rank, zr_profile **out, zl_err *err)
{
    zr_profile *const p = calloc(1, sizeof *p);
    if (p == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the profile");
    }
    p->file = fopen(path, "we");
    if (p->file == NULL) {
        const int failure = errno;
        free(p);
        return zl_fail(err, ZL_E_RESOURCE, "%s: %s", path, strerror(failure));
    }
    p->rank = rank;
    put_names(p);
    *out = p;
    return ZL_OK;
}

static void release(pass *s)
{
    for (size_t i = 0; i < s->room; i++) {
        zr_tick_release(&s->region[i].begin);
        zr_tick_release(&s->region[i].end);
    }
    zr_tick_release(&s->origin);
    free(s->region);
}

void zr_profile_free(zr_profile *profile)
{
    if (profile == NULL) {
        return;
    }
    release(&profile->pass[0]);
    release(&profile->pass[1]);
    if (profile->file != NULL) {
        (void)fclose(profile->file);
    }
    free(profile);
}

void zr_profile_queue(zr_profile *profile, zr_profile_track track, void *queue)
{
    if (profile != NULL) {
        profile->queue[track] = queue;
    }
}

/* The first failure is kept. */
static void set(zr_profile *p, zr_tick *tick, zr_profile_track track)
{
    if (p->queue[track] == NULL) {
        tick->seconds = zr_tick_now();
    } else if (p->failure.status == ZL_OK) {
        const zl_status status = zr_tick_set(tick, p->queue[track], &p->failure);
        p->failure.status = status;
    }
}

/* SUMS_MAX if there is no room for another name. */
static uint32_t node_of(zr_profile *p, zr_profile_track track, uint32_t parent, const char *name)
{
    for (uint32_t i = 0; i < p->nodes; i++) {
        const node *const n = &p->node[i];
        if (n->track == track && n->parent == parent && strcmp(n->name, name) == 0) {
            return i;
        }
    }
    if (p->nodes < SUMS_MAX) {
        p->node[p->nodes] =
            (node){.name = name, .track = track, .parent = parent, .depth = p->depth[track]};
        return p->nodes++;
    }
    return SUMS_MAX;
}

/* Only steps that are longer than all before ask for memory: the first ones. */
static bool make_room(pass *s)
{
    if (s->used < s->room) {
        return true;
    }
    const size_t room = s->room == 0 ? REGIONS_AT_FIRST : 2 * s->room;
    region *const more = realloc(s->region, room * sizeof *more);
    if (more == NULL) {
        return false;
    }
    memset(more + s->room, 0, (room - s->room) * sizeof *more);
    s->region = more;
    s->room = room;
    return true;
}

void zr_profile_begin(zr_profile *profile, zr_profile_track track, const char *name,
                      uint64_t number)
{
    if (profile == NULL || !profile->inside) {
        return;
    }
    pass *const s = current(profile);
    const uint64_t depth = profile->depth[track];
    const uint32_t parent =
        depth == 0 ? NO_PARENT : s->region[profile->open[track][depth - 1]].node;
    const uint32_t n = node_of(profile, track, parent, name);
    if (n == SUMS_MAX || depth == DEPTH_MAX || !make_room(s)) {
        if (profile->failure.status == ZL_OK) {
            profile->failure.status =
                zl_fail(&profile->failure, ZL_E_BUG, "the profile has no room for region %s", name);
        }
        profile->inside = false; /* no end without a beginning */
        return;
    }
    region *const r = &s->region[s->used];
    r->node = n;
    r->number = number;
    r->ended = false;
    set(profile, &r->begin, track);
    profile->open[track][depth] = s->used++;
    profile->depth[track] = depth + 1;
}

zl_status zr_profile_end(zr_profile *profile, zr_profile_track track, zl_status status)
{
    if (profile == NULL || !profile->inside || profile->depth[track] == 0) {
        return status;
    }
    region *const r = &current(profile)->region[profile->open[track][--profile->depth[track]]];
    set(profile, &r->end, track);
    r->ended = true;
    return status;
}

void zr_profile_begin_both(zr_profile *profile, const char *name, uint64_t number)
{
    zr_profile_begin(profile, ZR_PROFILE_HOST, name, number);
    zr_profile_begin(profile, ZR_PROFILE_COMPUTE, name, number);
}

zl_status zr_profile_end_both(zr_profile *profile, zl_status status)
{
    (void)zr_profile_end(profile, ZR_PROFILE_COMPUTE, status);
    return zr_profile_end(profile, ZR_PROFILE_HOST, status);
}

/* The queues rest before the first step: what they are given then happens at once, so that their
 * beginning is the host's. */
void zr_profile_step_begin(zr_profile *profile, uint64_t step, bool counts)
{
    if (profile == NULL) {
        return;
    }
    if (profile->steps == 0) {
        profile->begun = zr_tick_now();
    }
    profile->steps++;
    profile->inside = true;
    memset(profile->depth, 0, sizeof profile->depth);
    pass *const s = current(profile);
    s->step = step;
    s->counts = counts;
    s->used = 0;
    s->full = true;
    set(profile, &s->origin, ZR_PROFILE_COMPUTE);
    zr_profile_begin_both(profile, "step", step);
}

/* Seconds from the first step's beginning. */
static zl_status read(const zr_profile *p, const pass *s, const zr_tick *tick,
                      zr_profile_track track, double *seconds, zl_err *err)
{
    if (p->queue[track] == NULL) {
        *seconds = tick->seconds - p->begun;
        return ZL_OK;
    }
    ZL_TRY(zr_tick_since(&s->origin, tick, seconds, err));
    *seconds += p->origin;
    return ZL_OK;
}

static uint64_t nanoseconds(double seconds)
{
    return seconds > 0.0 ? (uint64_t)(1e9 * seconds + 0.5) : 0;
}

static zl_status put_region(zr_profile *p, const pass *s, const region *r, zl_err *err)
{
    node *const n = &p->node[r->node];
    double begin = 0.0;
    double end = 0.0;
    ZL_TRY(read(p, s, &r->begin, n->track, &begin, err));
    ZL_TRY(read(p, s, &r->end, n->track, &end, err));
    if (s->counts || !p->counting) {
        n->count++;
        n->seconds += end - begin;
    }
    /* Whole nanoseconds, so that a region inside another stays inside it. */
    const uint64_t from = nanoseconds(begin);
    const uint64_t to = nanoseconds(end);
    const uint64_t length = to > from ? to - from : 0;
    (void)fprintf(p->file, ",\n{\"ph\": \"X\", \"name\": \"%s", n->name);
    if (r->number != ZR_NO_NUMBER) {
        (void)fprintf(p->file, " %" PRIu64, r->number);
    }
    (void)fprintf(p->file,
                  "\", \"pid\": %" PRIu64 ", \"tid\": %d, \"ts\": %" PRIu64 ".%03" PRIu64
                  ", \"dur\": %" PRIu64 ".%03" PRIu64 "}",
                  p->rank, (int)n->track, from / 1000, from % 1000, length / 1000, length % 1000);
    return ZL_OK;
}

static void forget_sums(zr_profile *p)
{
    for (uint32_t i = 0; i < p->nodes; i++) {
        p->node[i].count = 0;
        p->node[i].seconds = 0.0;
    }
}

/* One step, once the device has done it. */
static zl_status put_pass(zr_profile *p, pass *s, zl_err *err)
{
    s->full = false;
    if (s->counts && !p->counting) {
        p->counting = true;
        forget_sums(p);
    }
    for (size_t i = 0; i < s->used; i++) {
        if (s->region[i].ended) {
            ZL_TRY(put_region(p, s, &s->region[i], err));
        }
    }
    if (ferror(p->file)) {
        return zl_fail(err, ZL_E_RESOURCE, "the profile cannot be written: %s", strerror(errno));
    }
    return ZL_OK;
}

/* The step before this one: what this step had to wait for includes all of it. */
static zl_status put_before(zr_profile *p, const pass *now, pass *before, zl_err *err)
{
    if (!before->full) {
        return ZL_OK;
    }
    double length = 0.0;
    ZL_TRY(put_pass(p, before, err));
    if (p->queue[ZR_PROFILE_COMPUTE] != NULL) {
        ZL_TRY(zr_tick_since(&before->origin, &now->origin, &length, err));
    }
    p->origin += length;
    return ZL_OK;
}

zl_status zr_profile_step_end(zr_profile *profile, zl_err *err)
{
    if (profile == NULL) {
        return ZL_OK;
    }
    pass *const now = current(profile);
    (void)zr_profile_end_both(profile, ZL_OK);
    profile->inside = false;
    if (profile->failure.status != ZL_OK) {
        return zl_fail(err, profile->failure.status, "%s", profile->failure.text);
    }
    return put_before(profile, now, &profile->pass[profile->steps % 2], err);
}

static zl_status close_file(zr_profile *p, zl_err *err)
{
    (void)fputs("\n]}\n", p->file);
    const bool bad = ferror(p->file) != 0;
    const bool closed = fclose(p->file) == 0;
    p->file = NULL;
    return bad || !closed
               ? zl_fail(err, ZL_E_RESOURCE, "the profile cannot be written: %s", strerror(errno))
               : ZL_OK;
}

zl_status zr_profile_finish(zr_profile *profile, zl_err *err)
{
    if (profile == NULL) {
        return ZL_OK;
    }
    if (current(profile)->full) {
        ZL_TRY(put_pass(profile, current(profile), err));
    }
    return close_file(profile, err);
}

static double seconds_of_steps(const zr_profile *p)
{
    for (uint32_t i = 0; i < p->nodes; i++) {
        if (p->node[i].track == ZR_PROFILE_COMPUTE && p->node[i].depth == 0) {
            return p->node[i].seconds;
        }
    }
    return 0.0;
}

/* The first node behind `after` (SUMS_MAX: from the beginning) inside `parent` of a track. */
static uint32_t next_inside(const zr_profile *p, zr_profile_track track, uint32_t parent,
                            uint32_t after)
{
    for (uint32_t i = after == SUMS_MAX ? 0 : after + 1; i < p->nodes; i++) {
        if (p->node[i].track == track && p->node[i].parent == parent) {
            return i;
        }
    }
    return SUMS_MAX;
}

/* The node that follows in the order of the tree; SUMS_MAX behind the last. */
static uint32_t next_node(const zr_profile *p, uint32_t at)
{
    const zr_profile_track track = p->node[at].track;
    uint32_t next = next_inside(p, track, at, SUMS_MAX);
    while (next == SUMS_MAX && at != NO_PARENT) {
        next = next_inside(p, track, p->node[at].parent, at);
        at = p->node[at].parent;
    }
    for (unsigned t = (unsigned)track + 1; next == SUMS_MAX && t < ZR_PROFILE_TRACKS; t++) {
        next = next_inside(p, (zr_profile_track)t, NO_PARENT, SUMS_MAX);
    }
    return next;
}

bool zr_profile_sum_at(const zr_profile *profile, uint64_t index, zr_profile_sum *out)
{
    uint32_t at =
        profile->nodes == 0 ? SUMS_MAX : next_inside(profile, ZR_PROFILE_HOST, NO_PARENT, SUMS_MAX);
    for (uint64_t i = 0; i < index && at != SUMS_MAX; i++) {
        at = next_node(profile, at);
    }
    if (at == SUMS_MAX) {
        return false;
    }
    const node *const n = &profile->node[at];
    const double all = seconds_of_steps(profile);
    *out = (zr_profile_sum){.track = n->track,
                            .depth = n->depth,
                            .name = n->name,
                            .count = n->count,
                            .seconds = n->seconds,
                            .share = all > 0.0 ? n->seconds / all : 0.0};
    return true;
}

void zr_profile_show(const zr_profile *profile, FILE *out)
{
    zr_profile_sum sum;
    (void)fprintf(out, "%-14s %-40s %8s %12s %8s\n", "track", "region", "count", "ms", "share");
    for (uint64_t i = 0; zr_profile_sum_at(profile, i, &sum); i++) {
        const int indent = (int)(2 * sum.depth);
        (void)fprintf(out, "%-14s %*s%-*s %8" PRIu64 " %12.3f %7.2f%%\n",
                      zr_profile_track_name(sum.track), indent, "", 40 - indent, sum.name,
                      sum.count, 1e3 * sum.seconds, 100.0 * sum.share);
    }
}
