#include "torch/caching_allocator.h"

#include <inttypes.h>
#include <stdlib.h>

#include "torch/segments.h"
#include "zeroledger/bytes.h"

/* Stands for a device without limit; 9/8 of it for each of 2 x ZT_STREAMS_MAX expandable segments
 * still fit into the address space. */
static const uint64_t no_limit = UINT64_C(1) << 50;

static zl_status check_options(const zt_allocator_options *o, zl_err *err)
{
    if (o->addresses >= ZT_ADDRESSES_COUNT || o->waiting >= ZT_WAIT_COUNT) {
        return zl_fail(err, ZL_E_USAGE, "options of the caching allocator hold an unknown name");
    }
    if (o->addresses == ZT_FROM_DRIVER && o->driver == NULL) {
        return zl_fail(err, ZL_E_USAGE, "addresses from a driver need a driver");
    }
    if (o->device_total > no_limit || o->device_free > no_limit) {
        return zl_fail(err, ZL_E_USAGE, "device memory must be at most 1 PiB, got %" PRIu64,
                       zl_max(o->device_total, o->device_free));
    }
    return zt_alloc_conf_check(&o->conf, err);
}

/* Rounding what is smaller cannot overflow. */
static const uint64_t plain_max = UINT64_C(1) << 60;

/* PyTorch multiplies as doubles and truncates; so do we, to the same byte. */
static uint64_t share_of(double share, uint64_t bytes)
{
    return (uint64_t)(share * (double)bytes);
}

static bool is_plain(const zt_alloc_conf *conf)
{
    uint32_t divisions = 0;
    for (size_t i = 0; i < ZT_ROUNDUP_INTERVALS; i++) {
        divisions |= conf->roundup_power2_divisions[i];
    }
    return divisions <= 1 && !conf->expandable_segments && conf->max_split_size == UINT64_MAX &&
           conf->garbage_collection_threshold <= 0.0;
}

zl_status zt_allocator_new(const zt_allocator_options *options, zt_allocator **out, zl_err *err)
{
    ZL_TRY(check_options(options, err));
    zt_allocator *a = calloc(1, sizeof *a);
    if (a == NULL || !zt_spans_init(&a->spans)) {
        free(a);
        return zl_fail(err, ZL_E_RESOURCE, "out of memory in the model of the caching allocator");
    }
    const double threshold = options->conf.garbage_collection_threshold;
    a->conf = options->conf;
    a->waiting_mode = options->waiting;
    a->addresses = options->addresses;
    a->driver = options->driver;
    a->freed = options->freed;
    a->driver_context = options->driver_context;
    a->device_total = options->device_total != 0 ? options->device_total : no_limit;
    a->device_free = options->device_free != 0 ? options->device_free : a->device_total;
    a->allowed = share_of(a->conf.per_process_memory_fraction, a->device_total);
    a->gc_threshold = threshold > 0.0 ? share_of(threshold, a->allowed) : ZL_POISON;
    a->plain = is_plain(&a->conf);
    *out = a;
    return ZL_OK;
}

void zt_allocator_free(zt_allocator *a)
{
    if (a != NULL) {
        zt_spans_release(&a->spans);
        for (uint32_t stream = 0; stream < a->streams; stream++) {
            free(a->cached[stream]);
        }
        free(a->rests);
        free(a->waiting);
        free(a);
    }
}

/* The size as rounded by roundup_power2_divisions; `divisions` is a power of two above 1. */
static uint64_t round_to_division(uint64_t size, uint64_t divisions)
{
    const uint64_t floor = UINT64_C(1) << (63 - __builtin_clzll(size));
    const uint64_t step = floor >> (63 - __builtin_clzll(divisions));
    if (floor == size) {
        return size;
    }
    return step == 0 ? zl_mul(floor, 2) : zl_align_up(size, step);
}

static uint64_t round_size(const zt_alloc_conf *conf, uint64_t size)
{
    if (size < zt_min_block) {
        return zt_min_block;
    }
    /* Intervals begin at 1 MiB = 2^20. */
    const int log2 = 63 - __builtin_clzll(size);
    const int last = ZT_ROUNDUP_INTERVALS - 1;
    const int interval = log2 < 20 ? 0 : log2 - 20;
    const uint64_t divisions = conf->roundup_power2_divisions[interval < last ? interval : last];
    if (divisions > 1 && size > zl_mul(zt_min_block, divisions)) {
        return round_to_division(size, divisions);
    }
    return zl_align_up(size, zt_min_block);
}

/* What a free span could grow to where it lies. */
static uint64_t expandable_size(const zt_allocator *a, const zt_span *s)
{
    const zt_span *next = zt_span_at(a, s->next);
    return s->next != 0 && next->state == ZT_SPAN_UNMAPPED ? zl_add(s->size, next->size) : s->size;
}

/* Best fit, but the tail that can grow counts with all it can grow to. */
static uint32_t pass_over_tail(const zt_allocator *a, zt_bins *bins, uint32_t id)
{
    uint32_t next = zt_bins_next(a->spans.at, bins, id);
    while (next != 0 &&
           expandable_size(a, zt_span_at(a, next)) < expandable_size(a, zt_span_at(a, id))) {
        id = next;
        next = zt_bins_next(a->spans.at, bins, id);
    }
    return id;
}

/* The smallest sufficient free span of the stream, of equals the lowest; it stays in its set. */
static uint32_t find_free(const zt_allocator *a, const zt_request *request)
{
    zt_bins *bins = &a->cached[request->stream]->free[request->pool];
    uint32_t id = zt_bins_lower_bound(a->spans.at, bins, request->size);
    if (id != 0 && a->conf.expandable_segments) {
        id = pass_over_tail(a, bins, id);
    }
    const uint64_t size = zt_span_at(a, id)->size;
    const uint64_t oversize = a->conf.max_split_size;
    const bool refused = request->size < oversize
                             ? size >= oversize
                             : size >= zl_add(request->size, a->conf.max_non_split_rounding);
    return refused ? 0 : id;
}

static uint32_t find_new(zt_allocator *a, const zt_request *request)
{
    if (a->gc_threshold != ZL_POISON) {
        zt_segments_collect(a);
    }
    uint32_t id = zt_segment_new(a, request);
    if (id == 0 && zt_segments_release_oversize(a, request)) {
        id = zt_segment_new(a, request);
    }
    if (id == 0) {
        zt_synchronize(a);
        zt_segments_release(a);
        a->stats.alloc_retries = zl_add(a->stats.alloc_retries, 1);
        id = zt_segment_new(a, request);
    }
    a->new_segments += id != 0 ? 1 : 0;
    return id;
}

/* A free span for the request, in its set: a cached one, or a new one. */
static uint32_t find(zt_allocator *a, const zt_request *request)
{
    if (a->gc_threshold != ZL_POISON) {
        a->searches[request->pool] = zl_add(a->searches[request->pool], 1);
    }
    const uint32_t id = find_free(a, request);
    return id != 0 ? id : find_new(a, request);
}

static bool should_split(const zt_allocator *a, const zt_span *s, uint64_t size)
{
    const uint64_t remaining = s->size - size;
    if (s->pool == ZT_POOL_SMALL || a->conf.expandable_segments) {
        return remaining >= zt_min_block;
    }
    return size < a->conf.max_split_size && remaining > zt_small_size;
}

/* Cuts the front off a span in a set: the rest, which stays there, keeps the name. Returns the
 * front; 0: out of memory. */
static uint32_t cut_front(zt_allocator *a, uint32_t id, uint64_t size)
{
    const uint32_t front = zt_spans_take(&a->spans);
    if (front == 0) {
        zt_out_of_memory(a);
        return 0;
    }
    zt_span *s = zt_span_at(a, id);
    zt_span *f = zt_span_at(a, front);
    *f = (zt_span){.address = s->address,
                   .size = size,
                   .prev = s->prev,
                   .next = id,
                   .stream = s->stream,
                   .pool = s->pool,
                   .expandable = s->expandable,
                   .base = s->base};
    if (s->prev != 0) {
        zt_span_at(a, s->prev)->next = front;
    }
    s->prev = front;
    zt_free_move(a, id, s->size - size, s->address + size);
    return front;
}

/* Of a free span in its set, splits off and hands out what is asked for. Returns that. */
static uint32_t hand_out(zt_allocator *a, uint32_t id, uint64_t size, uint64_t requested)
{
    zt_span *s = zt_span_at(a, id);
    const bool was_split = s->prev != 0 || s->next != 0;
    const bool counts = !s->expandable;
    if (should_split(a, s, size)) {
        const uint64_t rest = s->size - size;
        id = cut_front(a, id, size);
        if (id == 0) {
            return 0;
        }
        s = zt_span_at(a, id);
        if (counts && !was_split) {
            zt_stat_raise(&a->stats.inactive_split, rest);
        }
    } else {
        zt_free_remove(a, id);
    }
    if (counts && was_split) {
        zt_stat_lower(&a->stats.inactive_split, s->size);
    }
    s->state = ZT_SPAN_ALLOCATED;
    s->until_allocation = 0;
    s->until_segment = 0;
    s->requested = requested;
    zt_stat_raise(&a->stats.allocated, s->size);
    zt_stat_raise(&a->stats.active, s->size);
    zt_stat_raise(&a->stats.requested, requested);
    return id;
}

static bool usable(const zt_allocator *a)
{
    return a->failure.status == ZL_OK;
}

static zt_pool_name pool_of(uint64_t size)
{
    return size <= zt_small_size ? ZT_POOL_SMALL : ZT_POOL_LARGE;
}

static zt_request request_of(const zt_allocator *a, uint64_t bytes, uint32_t stream)
{
    const uint64_t size = round_size(&a->conf, bytes);
    return (zt_request){size, pool_of(size), stream};
}

bool zt_is_cached(const zt_allocator *a, uint64_t bytes, uint32_t stream)
{
    if (bytes == 0 || stream >= ZT_STREAMS_MAX || a->cached[stream] == NULL) {
        return false;
    }
    const zt_request request = request_of(a, bytes, stream);
    return find_free(a, &request) != 0;
}

/* Whether a block is in one of the states; anything else is remembered as a misuse. */
static bool check_block(zt_allocator *a, zt_block block, zt_span_state state, const char *what)
{
    if (!usable(a) || block == ZT_NO_BLOCK) {
        return false;
    }
    if (block >= a->spans.count || zt_span_at(a, block)->state != state) {
        zl_fail(&a->failure, ZL_E_BUG, "block %" PRIu32 " cannot be %s: it is not %s", block, what,
                state == ZT_SPAN_ALLOCATED ? "handed out" : "waiting");
        return false;
    }
    return true;
}

/* A freed span goes into the free one below it, and the free one above as well. */
static uint32_t join_below(zt_allocator *a, uint32_t id, uint32_t below)
{
    const zt_span *s = zt_span_at(a, id);
    zt_span *n = zt_span_at(a, below);
    uint64_t size = n->size + s->size;
    const uint32_t above = s->next;
    n->next = above;
    if (above != 0 && zt_span_at(a, above)->state == ZT_SPAN_FREE) {
        zt_free_remove(a, above);
        size += zt_span_at(a, above)->size;
        n->next = zt_span_at(a, above)->next;
        zt_spans_give(&a->spans, above);
    }
    if (n->next != 0) {
        zt_span_at(a, n->next)->prev = below;
    }
    zt_free_move(a, below, size, n->address);
    zt_spans_give(&a->spans, id);
    return below;
}

/* A span that is in no set joins the free ones beside it. Returns what they are now. */
static uint32_t join(zt_allocator *a, uint32_t id)
{
    const zt_span *s = zt_span_at(a, id);
    const uint32_t below = s->prev;
    const uint32_t above = s->next;
    if (below != 0 && zt_span_at(a, below)->state == ZT_SPAN_FREE) {
        return join_below(a, id, below);
    }
    if (above != 0 && zt_span_at(a, above)->state == ZT_SPAN_FREE) {
        zt_span *n = zt_span_at(a, above);
        n->prev = below;
        if (below != 0) {
            zt_span_at(a, below)->next = above;
        }
        zt_free_move(a, above, n->size + s->size, s->address);
        zt_spans_give(&a->spans, id);
        return above;
    }
    zt_free_insert(a, id);
    return id;
}

/* The free completes. */
static void complete(zt_allocator *a, uint32_t id)
{
    if (a->freed != NULL) {
        a->freed(a->driver_context, id);
    }
    zt_span *s = zt_span_at(a, id);
    const uint64_t size = s->size;
    zt_stat_lower(&a->stats.active, size);
    zt_stat_lower(&a->stats.requested, s->requested);
    s->state = ZT_SPAN_FREE;
    s->recorded = false;
    s = zt_span_at(a, join(a, id));
    if (s->expandable) {
        return;
    }
    const bool split = s->prev != 0 || s->next != 0;
    zt_stat_lower(&a->stats.inactive_split, s->size - size);
    zt_stat_raise(&a->stats.inactive_split, split ? s->size : 0);
}

static void wait_for(zt_allocator *a, uint32_t id)
{
    if (a->waiting_count == a->waiting_capacity) {
        const uint32_t capacity = a->waiting_capacity == 0 ? 64 : 2 * a->waiting_capacity;
        uint32_t *waiting = realloc(a->waiting, capacity * sizeof *waiting);
        if (waiting == NULL) {
            zt_out_of_memory(a);
            return;
        }
        a->waiting = waiting;
        a->waiting_capacity = capacity;
    }
    a->waiting[a->waiting_count++] = id;
    zt_span *s = zt_span_at(a, id);
    s->until_allocation += a->allocations;
    s->until_segment += a->new_segments;
    s->state = ZT_SPAN_WAITING;
}

void zt_free(zt_allocator *a, zt_block block)
{
    if (!check_block(a, block, ZT_SPAN_ALLOCATED, "freed")) {
        return;
    }
    zt_stat_lower(&a->stats.allocated, zt_span_at(a, block)->size);
    if (zt_span_at(a, block)->recorded) {
        wait_for(a, block);
    } else {
        complete(a, block);
    }
}

void zt_record_stream(zt_allocator *a, zt_block block, uint32_t stream)
{
    if (check_block(a, block, ZT_SPAN_ALLOCATED, "recorded") &&
        zt_span_at(a, block)->stream != stream) {
        zt_span_at(a, block)->recorded = true;
    }
}

void zt_outlast(zt_allocator *a, zt_block block, uint32_t allocations, uint32_t segments)
{
    if (check_block(a, block, ZT_SPAN_ALLOCATED, "outlasted")) {
        zt_span_at(a, block)->until_allocation = allocations;
        zt_span_at(a, block)->until_segment = segments;
    }
}

void zt_device_idle(zt_allocator *a)
{
    for (uint32_t i = 0; i < a->waiting_count; i++) {
        zt_span_at(a, a->waiting[i])->until_allocation = 0;
        zt_span_at(a, a->waiting[i])->until_segment = 0;
    }
}

/* process_events: the frees whose recorded uses have ended complete. */
static void complete_ended(zt_allocator *a)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->waiting_count; i++) {
        const zt_span *s = zt_span_at(a, a->waiting[i]);
        if (s->until_allocation > a->allocations || s->until_segment > a->new_segments) {
            a->waiting[kept++] = a->waiting[i];
        } else {
            complete(a, a->waiting[i]);
        }
    }
    a->waiting_count = kept;
}

/* False: out of memory. */
static bool stream_new(zt_allocator *a, uint32_t stream)
{
    a->cached[stream] = calloc(1, sizeof *a->cached[stream]);
    if (a->cached[stream] == NULL) {
        zt_out_of_memory(a);
        return false;
    }
    a->streams = stream >= a->streams ? stream + 1 : a->streams;
    return true;
}

zt_block zt_alloc(zt_allocator *a, uint64_t bytes, uint32_t stream)
{
    if (!usable(a) || bytes == 0) {
        return ZT_NO_BLOCK;
    }
    if (stream >= ZT_STREAMS_MAX) {
        zl_fail(&a->failure, ZL_E_USAGE, "stream must be 0..%d, got %" PRIu32, ZT_STREAMS_MAX - 1,
                stream);
        return ZT_NO_BLOCK;
    }
    if (a->cached[stream] == NULL && !stream_new(a, stream)) {
        return ZT_NO_BLOCK;
    }
    if (a->waiting_count > 0 && a->waiting_mode == ZT_WAIT_NEXT_ALLOC) {
        complete_ended(a);
    }
    a->allocations++;
    uint64_t size = 0;
    uint32_t id = 0;
    if (a->plain && bytes < plain_max) { /* the same as below, and nearly always so */
        size = (bytes + zt_min_block - 1) & ~(zt_min_block - 1);
        id = zt_bins_lower_bound(a->spans.at, &a->cached[stream]->free[pool_of(size)], size);
    }
    if (id == 0) {
        const zt_request request = request_of(a, bytes, stream);
        size = request.size;
        id = find(a, &request);
    }
    if (id != 0) {
        id = hand_out(a, id, size, bytes);
    } else {
        a->stats.ooms = zl_add(a->stats.ooms, 1);
    }
    return usable(a) ? id : ZT_NO_BLOCK;
}

void zt_complete(zt_allocator *a, zt_block block)
{
    if (!check_block(a, block, ZT_SPAN_WAITING, "completed")) {
        return;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->waiting_count; i++) {
        if (a->waiting[i] != block) {
            a->waiting[kept++] = a->waiting[i];
        }
    }
    a->waiting_count = kept;
    complete(a, block);
}

void zt_synchronize(zt_allocator *a)
{
    for (uint32_t i = 0; i < a->waiting_count; i++) {
        complete(a, a->waiting[i]);
    }
    a->waiting_count = 0;
}

void zt_empty_cache(zt_allocator *a)
{
    if (usable(a)) {
        zt_synchronize(a);
        zt_segments_release(a);
    }
}

void zt_reset_peaks(zt_allocator *a)
{
    zt_stats *s = &a->stats;
    zt_stat *const all[] = {&s->requested, &s->allocated,      &s->active,
                            &s->reserved,  &s->inactive_split, &s->segments};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        all[i]->peak = all[i]->current;
    }
}

const zt_stats *zt_allocator_stats(const zt_allocator *a)
{
    return &a->stats;
}

zl_status zt_allocator_status(const zt_allocator *a, zl_err *err)
{
    if (a->failure.status == ZL_OK) {
        return ZL_OK;
    }
    return zl_fail(err, a->failure.status, "%s", a->failure.text);
}

uint64_t zt_block_address(const zt_allocator *a, zt_block block)
{
    return block < a->spans.count ? zt_span_at(a, block)->address : 0;
}

uint64_t zt_block_size(const zt_allocator *a, zt_block block)
{
    return block < a->spans.count ? zt_span_at(a, block)->size : 0;
}

static int by_address(const void *a, const void *b)
{
    const zt_piece *x = a;
    const zt_piece *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static zt_piece piece_of(const zt_allocator *a, const zt_span *s)
{
    const bool allocated = s->state == ZT_SPAN_ALLOCATED;
    const bool active = allocated || s->state == ZT_SPAN_WAITING;
    const bool first = s->prev == 0 || zt_span_at(a, s->prev)->state == ZT_SPAN_UNMAPPED;
    return (zt_piece){.address = s->address,
                      .size = s->size,
                      .requested = active ? s->requested : 0,
                      .stream = s->stream,
                      .allocated = allocated,
                      .active = active,
                      .small = s->pool == ZT_POOL_SMALL,
                      .expandable = s->expandable,
                      .first = first};
}

zl_status zt_allocator_pieces(const zt_allocator *a, zt_piece **out, size_t *count, zl_err *err)
{
    zt_piece *pieces = malloc(a->spans.count * sizeof *pieces);
    if (pieces == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory in the model of the caching allocator");
    }
    size_t n = 0;
    for (uint32_t id = 1; id < a->spans.count; id++) {
        const zt_span *s = zt_span_at(a, id);
        if (s->state != ZT_SPAN_UNUSED && s->state != ZT_SPAN_UNMAPPED) {
            pieces[n++] = piece_of(a, s);
        }
    }
    qsort(pieces, n, sizeof *pieces, by_address);
    *out = pieces;
    *count = n;
    return ZL_OK;
}
