/* Timelines from the walks: of a framework, event by event through the caching allocator, and of
 * the native schedule, buffer by buffer in its arena. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device/arena.h"
#include "timeline.h"
#include "torch/predict.h"
#include "zeroledger/bytes.h"

/* Places it, checks it against what was predicted, and writes it. */
static zl_status finish(zl_timeline *t, const zl_timeline_peak *predicted, const char *path,
                        zl_err *err)
{
    zl_timeline_peak peak;
    if (t->failed) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for the timeline of this run");
    }
    ZL_TRY(zl_timeline_sum(t, &peak, err));
    if (peak.requested != predicted->requested || peak.allocated != predicted->allocated ||
        peak.reserved != predicted->reserved) {
        return zl_fail(err, ZL_E_BUG,
                       "the timeline's peaks are not the predicted ones: requested %" PRIu64
                       " and %" PRIu64 ", allocated %" PRIu64 " and %" PRIu64 ", reserved %" PRIu64
                       " and %" PRIu64,
                       peak.requested, predicted->requested, peak.allocated, predicted->allocated,
                       peak.reserved, predicted->reserved);
    }
    ZL_TRY(zl_timeline_place(t, err));
    return zl_timeline_save(t, path, err);
}

/* ---- a framework ---- */

typedef struct walked {
    zl_timeline *t;
    size_t *allocation_of; /* by block */
    size_t blocks;
    uint64_t begin;        /* of the phase that the next mark ends */
    zl_timeline_peak peak; /* as the allocator's own statistics have it */
} walked;

static size_t *allocation_of(walked *w, zt_block block)
{
    if (block >= w->blocks) {
        const size_t blocks = 2 * (size_t)block + 1024;
        size_t *const more = realloc(w->allocation_of, blocks * sizeof *more);
        if (more == NULL) {
            w->t->failed = true;
            return NULL;
        }
        w->allocation_of = more;
        w->blocks = blocks;
    }
    return &w->allocation_of[block];
}

static zl_timeline_what segment_what(zt_segment_action action)
{
    switch (action) {
    case ZT_SEGMENT_ALLOC:
        return ZL_TIMELINE_SEGMENT_ALLOC;
    case ZT_SEGMENT_FREE:
        return ZL_TIMELINE_SEGMENT_FREE;
    case ZT_SEGMENT_MAP:
        return ZL_TIMELINE_SEGMENT_MAP;
    case ZT_SEGMENT_UNMAP:
        return ZL_TIMELINE_SEGMENT_UNMAP;
    case ZT_SEGMENT_ACTION_COUNT:
        break;
    }
    return ZL_TIMELINE_WHAT_COUNT;
}

static zl_timeline_name name_of(const char *text)
{
    return (zl_timeline_name){.name = text, .kind = text};
}

/* "after_forward_0" ends the phase "forward 0"; what ends at another mark is called like the mark.
 */
static void end_phase(walked *w, const zt_happened *mark)
{
    static const char after[] = "after_";
    const bool is_after = strncmp(mark->at, after, sizeof after - 1) == 0;
    zl_timeline_phase phase = {.step = mark->step, .begin = w->begin, .end = w->t->now};
    snprintf(phase.name, sizeof phase.name, "%s", mark->at + (is_after ? sizeof after - 1 : 0));
    for (char *c = phase.name; *c != '\0'; c++) {
        *c = (char)(*c == '_' ? ' ' : *c);
    }
    zl_timeline_phase_add(w->t, &phase);
    w->begin = w->t->now;
}

static void hear_alloc(walked *w, const zt_happened *h)
{
    size_t *const index = allocation_of(w, h->block);
    const zl_allocation allocation = {.address = h->address,
                                      .requested = h->bytes,
                                      .size = h->size,
                                      .stream = h->stream,
                                      .name = name_of(h->at)};
    if (index != NULL) {
        *index = zl_timeline_alloc(w->t, &allocation);
    }
    w->peak.requested = zl_max(w->peak.requested, h->stats->requested.current);
    w->peak.allocated = zl_max(w->peak.allocated, h->stats->allocated.current);
    w->peak.reserved = zl_max(w->peak.reserved, h->stats->reserved.current);
}

static void hear(void *context, const zt_happened *h)
{
    walked *const w = context;
    if (w->t->failed) {
        return;
    }
    switch (h->what) {
    case ZT_ALLOCATES:
        hear_alloc(w, h);
        break;
    case ZT_FREES:
        zl_timeline_give(w->t, ZL_TIMELINE_FREE_REQUESTED, w->allocation_of[h->block]);
        break;
    case ZT_COMPLETES:
        zl_timeline_give(w->t, ZL_TIMELINE_FREE_COMPLETED, w->allocation_of[h->block]);
        break;
    case ZT_NAMES:
        zl_timeline_rename(w->t, w->allocation_of[h->block], name_of(h->at));
        break;
    case ZT_SEGMENTS:
        zl_timeline_take(
            w->t, segment_what(h->segment),
            (zl_timeline_segment){
                .address = h->address, .size = h->bytes, .stream = h->stream, .small = h->small});
        break;
    case ZT_MARKS:
        end_phase(w, h);
        break;
    case ZT_RESETS:
    case ZT_HAPPENING_COUNT:
        break;
    }
}

zl_status zl_timeline_walked(const zl_walked *walk, const char *path, zl_err *err)
{
    zl_timeline t;
    zl_marks marks = {0};
    zl_timeline_init(&t);
    zl_run_describe(&walk->run, t.title, sizeof t.title);
    t.framework = zl_framework_name(walk->run.framework);
    t.settings = walk->torch.alloc_conf;
    walked w = {.t = &t};
    zl_status status = zt_predict(&walk->torch, walk->rank, hear, &w, &marks, err);
    zl_marks_clear(&marks);
    if (status == ZL_OK) {
        status = finish(&t, &w.peak, path, err);
    }
    free(w.allocation_of);
    zl_timeline_free(&t);
    return status;
}

/* ---- the native schedule ---- */

typedef struct native {
    zl_timeline *t;
    size_t *allocation_of; /* (ZL_BUF_COUNT, owners) */
    uint64_t owners;
    zl_timeline_phase phase;
    int64_t step;
} native;

static size_t *place_of(const native *n, const zl_arena_block *block)
{
    return &n->allocation_of[zl_add(zl_mul((uint64_t)block->buffer, n->owners), block->owner)];
}

static void on_grow(void *context, uint64_t offset, uint64_t bytes)
{
    native *const n = context;
    zl_timeline_take(n->t, ZL_TIMELINE_SEGMENT_MAP,
                     (zl_timeline_segment){.address = offset, .size = bytes});
}

static void on_alloc(void *context, const zl_arena_block *block)
{
    native *const n = context;
    const zl_timeline_name name = {.name = zl_buf_name(block->buffer),
                                   .kind = zl_kind_name(zl_buf_kind(block->buffer)),
                                   .owner = block->owner};
    const zl_allocation allocation = {.address = block->offset,
                                      .requested = block->bytes[ZL_REQUESTED],
                                      .size = block->bytes[ZL_GRANTED],
                                      .name = name};
    *place_of(n, block) = zl_timeline_alloc(n->t, &allocation);
}

static void on_drop(void *context, const zl_arena_block *block)
{
    native *const n = context;
    zl_timeline_give(n->t, ZL_TIMELINE_FREE_REQUESTED, *place_of(n, block));
    zl_timeline_give(n->t, ZL_TIMELINE_FREE_COMPLETED, *place_of(n, block));
}

static void on_enter(void *context, zl_visit visit, zl_phase phase)
{
    native *const n = context;
    const bool first = visit == ZL_VISIT_COLD || visit == ZL_VISIT_STEADY;
    n->step += phase == ZL_PHASE_FORWARD && first ? 1 : 0;
    n->phase = (zl_timeline_phase){.step = n->step, .begin = n->t->now};
    snprintf(n->phase.name, sizeof n->phase.name, "%s", zl_cell_label(visit, phase).text);
}

static void on_leave(void *context, zl_phase phase)
{
    native *const n = context;
    (void)phase;
    n->phase.end = n->t->now;
    zl_timeline_phase_add(n->t, &n->phase);
}

/* What the closed form says; the arena's size is what is reserved. */
static zl_status predict(const zl_run *run, uint64_t arena, zl_timeline_peak *out, zl_err *err)
{
    zl_ledger *ledger = NULL;
    ZL_TRY(zl_predicted(run, 0, &ledger, err));
    *out = (zl_timeline_peak){.reserved = arena};
    for (int i = 0; i < ZL_VISIT_COUNT * ZL_PHASE_COUNT; i++) {
        const zl_cell *const cell =
            zl_ledger_at(ledger, (zl_visit)(i / ZL_PHASE_COUNT), (zl_phase)(i % ZL_PHASE_COUNT));
        out->requested = zl_max(out->requested, cell->peak[ZL_REQUESTED]);
        out->allocated = zl_max(out->allocated, cell->peak[ZL_GRANTED]);
    }
    zl_ledger_free(ledger);
    return ZL_OK;
}

zl_status zl_timeline_native(const zl_run *run, const char *path, zl_err *err)
{
    zl_timeline t;
    uint64_t arena = 0;
    zl_timeline_peak predicted;
    zl_timeline_init(&t);
    zl_run_describe(run, t.title, sizeof t.title);
    t.framework = zl_framework_name(run->framework);
    native n = {.t = &t, .owners = zl_add(run->model.layers, 2), .step = -1};
    const zl_arena_watch watch = {on_grow, on_alloc, on_drop, on_enter, on_leave, &n};
    n.allocation_of = calloc((size_t)zl_mul(ZL_BUF_COUNT, n.owners), sizeof *n.allocation_of);
    zl_status status = n.allocation_of != NULL
                           ? zl_arena_watched(run, ZL_PLACEMENT_APART, &watch, &arena, err)
                           : zl_fail(err, ZL_E_RESOURCE, "no memory for the timeline of this run");
    if (status == ZL_OK) {
        status = predict(run, arena, &predicted, err);
    }
    if (status == ZL_OK) {
        status = finish(&t, &predicted, path, err);
    }
    free(n.allocation_of);
    zl_timeline_free(&t);
    return status;
}
