#include "torch/replay.h"

#include <inttypes.h>
#include <stdlib.h>

#include "torch/spans.h"
#include "zeroledger/bytes.h"

/* Segments that nobody recorded get addresses up here, above all recorded ones. */
static const uint64_t unrecorded = UINT64_C(1) << 60;

typedef struct player {
    const zt_trace *trace;
    zt_allocator *allocator;
    zt_addresses addresses;
    /* Blocks by their recorded address: `address` of the span, the handle in `requested`. */
    zt_spans blocks;
    uint32_t root;
    size_t *pending; /* recorded segment events since the last allocation, as indices */
    size_t pendings;
    size_t at;          /* the event that is being replayed */
    bool refused;       /* the driver has said once in this allocation that it is full */
    bool full;          /* an allocation that failed: the driver has nothing */
    uint64_t next_free; /* address for a segment that is not recorded */
    zt_replay result;
} player;

static const zt_event *event_at(const player *p, size_t index)
{
    return &p->trace->event[index];
}

/* Counts a difference in `which`. */
static void differs(player *p, size_t *which)
{
    (*which)++;
    if (p->result.first == SIZE_MAX) {
        p->result.first = p->at;
    }
}

/* ---- segment events: what the model does against what is pending ---- */

static zt_action recorded_as(zt_segment_action action)
{
    switch (action) {
    case ZT_SEGMENT_ALLOC:
        return ZT_TRACE_SEGMENT_ALLOC;
    case ZT_SEGMENT_FREE:
        return ZT_TRACE_SEGMENT_FREE;
    case ZT_SEGMENT_MAP:
        return ZT_TRACE_SEGMENT_MAP;
    case ZT_SEGMENT_UNMAP:
        return ZT_TRACE_SEGMENT_UNMAP;
    case ZT_SEGMENT_ACTION_COUNT:
        break;
    }
    return ZT_OTHER;
}

static bool gives_back(zt_action action)
{
    return action == ZT_TRACE_SEGMENT_FREE || action == ZT_TRACE_SEGMENT_UNMAP;
}

static bool frees_pending(const player *p)
{
    return p->pendings > 0 && gives_back(event_at(p, p->pending[0])->action);
}

static void drop_pending(player *p, size_t index)
{
    p->pendings--;
    for (size_t i = index; i < p->pendings; i++) {
        p->pending[i] = p->pending[i + 1];
    }
}

/* Index in pending of the event that the model's one answers to; SIZE_MAX: none. */
static size_t find_pending(const player *p, const zt_segment_event *event)
{
    const zt_action action = recorded_as(event->action);
    for (size_t i = 0; i < p->pendings; i++) {
        const zt_event *e = event_at(p, p->pending[i]);
        if (e->action == action && (!gives_back(action) || e->address == event->address)) {
            return i;
        }
    }
    return SIZE_MAX;
}

static void place(player *p, zt_segment_event *event, const zt_event *recorded)
{
    if (event->address == 0) {
        event->address = recorded->address;
    } else if (event->address != recorded->address) {
        differs(p, &p->result.misplaced);
    }
}

/* The driver under recorded addresses. */
static bool drive(void *context, zt_segment_event *event)
{
    player *p = context;
    const bool takes = event->action == ZT_SEGMENT_ALLOC || event->action == ZT_SEGMENT_MAP;
    if (takes && (p->full || (frees_pending(p) && !p->refused))) {
        p->refused = true; /* the recording goes on with a release: the device was full */
        return false;
    }
    const size_t index = find_pending(p, event);
    if (index != SIZE_MAX) {
        const zt_event *recorded = event_at(p, p->pending[index]);
        if (recorded->size != event->size || recorded->stream != event->stream) {
            differs(p, &p->result.resized);
        }
        place(p, event, recorded);
        drop_pending(p, index);
        return true;
    }
    differs(p, &p->result.extra);
    if (event->address == 0) {
        event->address = p->next_free;
        p->next_free = zl_add(p->next_free, UINT64_C(1) << 51);
    }
    return true;
}

/* What is pending and nobody predicted. */
static void drop_all_pending(player *p)
{
    while (p->pendings > 0) {
        if (p->addresses == ZT_FROM_DRIVER) {
            differs(p, &p->result.missed);
        }
        drop_pending(p, p->pendings - 1);
    }
}

/* Segments that were released outside an allocation: torch.cuda.empty_cache(). */
static void empty_cache(player *p)
{
    if (frees_pending(p)) {
        zt_empty_cache(p->allocator);
    }
}

static void settle(player *p)
{
    empty_cache(p);
    drop_all_pending(p);
}

/* ---- blocks by recorded address ---- */

static uint32_t lookup(const player *p, uint64_t address)
{
    const uint32_t id = zt_set_lower_bound(p->blocks.at, p->root, 0, address);
    return id != 0 && p->blocks.at[id].address == address ? id : 0;
}

static void forget(player *p, uint32_t id)
{
    zt_set_remove(p->blocks.at, &p->root, id);
    zt_spans_give(&p->blocks, id);
}

static bool is_waiting(const player *p, uint32_t id)
{
    return p->blocks.at[id].recorded;
}

static zt_block block_of(const player *p, uint32_t id)
{
    return (zt_block)p->blocks.at[id].requested;
}

static zl_status remember(player *p, uint64_t address, zt_block block, zl_err *err)
{
    const uint32_t id = zt_spans_take(&p->blocks);
    if (id == 0) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory while replaying a trace");
    }
    p->blocks.at[id] = (zt_span){.address = address, .requested = block};
    zt_set_insert(p->blocks.at, &p->root, id);
    return ZL_OK;
}

/* The block of a free; 0: nothing to free. A free of what nobody allocated is a fault of the
 * recording, unless the replay has differed from it before: then it is one more difference. */
static zl_status require(player *p, const zt_event *e, uint32_t *out, zl_err *err)
{
    *out = lookup(p, e->address);
    if (*out != 0) {
        return ZL_OK;
    }
    if (p->result.first != SIZE_MAX) {
        differs(p, &p->result.misplaced);
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_INPUT,
                   "event %zu frees address %" PRIu64 ", which no event before it allocated; the "
                   "recording must begin before the first allocation",
                   p->at, e->address);
}

/* ---- allocations and frees ---- */

/* The recording hands out an address that is still in use: it lacks a free. */
static void free_overdue(player *p, uint64_t address)
{
    const uint32_t id = lookup(p, address);
    if (id == 0) {
        return;
    }
    differs(p, &p->result.misplaced);
    if (is_waiting(p, id)) {
        zt_complete(p->allocator, block_of(p, id));
    } else {
        zt_free(p->allocator, block_of(p, id));
    }
    forget(p, id);
}

static zl_status replay_alloc(player *p, const zt_event *e, zl_err *err)
{
    if (frees_pending(p) &&
        (p->addresses != ZT_FROM_DRIVER || zt_is_cached(p->allocator, e->size, e->stream))) {
        empty_cache(p);
    }
    free_overdue(p, e->address);
    p->refused = false;
    const zt_block block = zt_alloc(p->allocator, e->size, e->stream);
    drop_all_pending(p);
    if (p->addresses == ZT_FROM_DRIVER &&
        (block == ZT_NO_BLOCK || zt_block_address(p->allocator, block) != e->address)) {
        differs(p, &p->result.misplaced);
    }
    return remember(p, e->address, block, err);
}

static void replay_oom(player *p, const zt_event *e)
{
    if (p->addresses != ZT_FROM_DRIVER) {
        settle(p);
        return; /* without the device's limit the model has no reason to fail */
    }
    p->full = true;
    const zt_block block = zt_alloc(p->allocator, e->size, e->stream);
    p->full = false;
    drop_all_pending(p);
    if (block != ZT_NO_BLOCK) {
        differs(p, &p->result.misplaced);
        zt_free(p->allocator, block);
    }
}

static bool completes_at_once(const player *p)
{
    if (p->at + 1 >= p->trace->events) {
        return false;
    }
    const zt_event *next = event_at(p, p->at + 1);
    return next->action == ZT_FREE_COMPLETED && next->address == event_at(p, p->at)->address;
}

/* A free that does not complete at once waits for another stream. The model keeps only whether one
 * was recorded, not which. */
static void record_another_stream(player *p, zt_block block, uint32_t stream)
{
    zt_record_stream(p->allocator, block, stream == 0 ? 1 : 0);
}

static zl_status replay_free(player *p, const zt_event *e, zl_err *err)
{
    uint32_t id = 0;
    ZL_TRY(require(p, e, &id, err));
    if (id == 0) {
        return ZL_OK;
    }
    if (is_waiting(p, id)) {
        differs(p, &p->result.misplaced); /* requested twice */
        return ZL_OK;
    }
    if (!completes_at_once(p)) {
        record_another_stream(p, block_of(p, id), e->stream);
        p->blocks.at[id].recorded = true;
    }
    zt_free(p->allocator, block_of(p, id));
    return ZL_OK;
}

static zl_status replay_completed(player *p, const zt_event *e, zl_err *err)
{
    const bool follows = p->at > 0 && event_at(p, p->at - 1)->action == ZT_FREE_REQUESTED &&
                         event_at(p, p->at - 1)->address == e->address;
    uint32_t id = 0;
    ZL_TRY(require(p, e, &id, err));
    if (id == 0) {
        return ZL_OK;
    }
    if (is_waiting(p, id)) {
        zt_complete(p->allocator, block_of(p, id));
    } else if (!follows) {
        differs(p, &p->result.misplaced); /* nobody requested it */
        zt_free(p->allocator, block_of(p, id));
    }
    forget(p, id);
    return ZL_OK;
}

static zl_status replay_event(player *p, const zt_event *e, zl_err *err)
{
    switch (e->action) {
    case ZT_ALLOC:
        p->result.events++;
        return replay_alloc(p, e, err);
    case ZT_FREE_REQUESTED:
        p->result.events++;
        settle(p);
        return replay_free(p, e, err);
    case ZT_FREE_COMPLETED: /* may stand among the segment events of an allocation */
        p->result.events++;
        return replay_completed(p, e, err);
    case ZT_TRACE_SEGMENT_ALLOC:
    case ZT_TRACE_SEGMENT_FREE:
    case ZT_TRACE_SEGMENT_MAP:
    case ZT_TRACE_SEGMENT_UNMAP:
        p->result.segments++;
        p->pending[p->pendings++] = p->at;
        return ZL_OK;
    case ZT_OOM:
        replay_oom(p, e);
        return ZL_OK;
    case ZT_OTHER:
    case ZT_ACTION_COUNT:
        break;
    }
    settle(p);
    return ZL_OK;
}

/* ---- the whole ---- */

static zt_replay_row row_of(const player *p)
{
    const zt_stats *stats = zt_allocator_stats(p->allocator);
    return (zt_replay_row){stats->allocated.current, stats->reserved.current};
}

/* Marks stand between operations, so whatever is pending is settled first. */
static void take_marks(player *p, size_t before, size_t *next)
{
    while (*next < p->trace->marks && p->trace->mark[*next].events_before == before) {
        settle(p);
        p->result.row[(*next)++] = row_of(p);
    }
}

static bool alike(const zt_piece *a, const zt_piece *b)
{
    return a->address == b->address && a->size == b->size && a->requested == b->requested &&
           a->active == b->active && a->allocated == b->allocated && a->small == b->small;
}

static zl_status compare_final(player *p, zl_err *err)
{
    zt_piece *pieces = NULL;
    size_t count = 0;
    ZL_TRY(zt_allocator_pieces(p->allocator, &pieces, &count, err));
    const zt_trace *trace = p->trace;
    size_t i = 0;
    size_t k = 0;
    while (i < count || k < trace->finals) {
        if (i < count && k < trace->finals && alike(&pieces[i], &trace->final[k])) {
            i++;
            k++;
            continue;
        }
        differs(p, &p->result.final);
        const uint64_t mine = i < count ? pieces[i].address : UINT64_MAX;
        const uint64_t theirs = k < trace->finals ? trace->final[k].address : UINT64_MAX;
        i += mine <= theirs;
        k += theirs <= mine;
    }
    free(pieces);
    return ZL_OK;
}

static zl_status play(player *p, zl_err *err)
{
    size_t mark = 0;
    for (p->at = 0; p->at < p->trace->events; p->at++) {
        take_marks(p, p->at, &mark);
        ZL_TRY(replay_event(p, event_at(p, p->at), err));
        ZL_TRY(zt_allocator_status(p->allocator, err));
    }
    settle(p);
    take_marks(p, p->at, &mark);
    p->result.row[p->trace->marks] = row_of(p);
    p->result.stats = *zt_allocator_stats(p->allocator);
    if (p->addresses == ZT_FROM_DRIVER && p->trace->has_final) {
        ZL_TRY(compare_final(p, err));
    }
    return zt_allocator_status(p->allocator, err);
}

static zl_status prepare(player *p, const zt_replay_options *options, zl_err *err)
{
    const bool recorded = options->addresses == ZT_FROM_DRIVER;
    const zt_allocator_options of_allocator = {.conf = options->conf,
                                               .addresses = options->addresses,
                                               .waiting = ZT_WAIT_SYNC,
                                               .device_total = options->device_total,
                                               .driver = recorded ? drive : NULL,
                                               .driver_context = p};
    ZL_TRY(zt_allocator_new(&of_allocator, &p->allocator, err));
    p->result.row = calloc(p->trace->marks + 1, sizeof *p->result.row);
    p->pending = calloc(p->trace->events + 1, sizeof *p->pending);
    if (p->result.row == NULL || p->pending == NULL || !zt_spans_init(&p->blocks)) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory while replaying a trace");
    }
    return ZL_OK;
}

zl_status zt_replay_run(const zt_trace *trace, const zt_replay_options *options, zt_replay *out,
                        zl_err *err)
{
    player p = {.trace = trace,
                .addresses = options->addresses,
                .next_free = unrecorded,
                .result = {.first = SIZE_MAX}};
    zl_status status = prepare(&p, options, err);
    if (status == ZL_OK) {
        status = play(&p, err);
    }
    zt_allocator_free(p.allocator);
    zt_spans_release(&p.blocks);
    free(p.pending);
    if (status != ZL_OK) {
        zt_replay_release(&p.result);
        return status;
    }
    *out = p.result;
    return ZL_OK;
}

size_t zt_replay_differ(const zt_replay *replay)
{
    return replay->missed + replay->extra + replay->resized + replay->misplaced + replay->final;
}

void zt_replay_release(zt_replay *replay)
{
    free(replay->row);
    *replay = (zt_replay){0};
}
