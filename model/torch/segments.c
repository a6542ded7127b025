#include "torch/segments.h"

#include <stdlib.h>

#include "zeroledger/bytes.h"

void zt_out_of_memory(zt_allocator *a)
{
    if (a->failure.status == ZL_OK) {
        zl_fail(&a->failure, ZL_E_RESOURCE, "out of memory in the model of the caching allocator");
    }
}

static uint32_t *unmapped_of(const zt_allocator *a, const zt_span *s)
{
    return &a->cached[s->stream]->unmapped[s->pool];
}

static void unmapped_insert(zt_allocator *a, uint32_t id)
{
    zt_span *s = zt_span_at(a, id);
    s->state = ZT_SPAN_UNMAPPED;
    s->rank = 0;
    zt_set_insert(a->spans.at, unmapped_of(a, s), id);
}

static void unmapped_remove(zt_allocator *a, uint32_t id)
{
    zt_set_remove(a->spans.at, unmapped_of(a, zt_span_at(a, id)), id);
}

uint64_t zt_absorb(zt_allocator *a, uint32_t id, uint32_t neighbour)
{
    zt_span *s = zt_span_at(a, id);
    const zt_span *n = zt_span_at(a, neighbour);
    if (neighbour == 0 || n->state != s->state) {
        return 0;
    }
    const uint64_t gained = n->size;
    if (n->state == ZT_SPAN_UNMAPPED) {
        unmapped_remove(a, neighbour);
    } else {
        zt_free_remove(a, neighbour);
    }
    if (s->prev == neighbour) {
        s->address = n->address;
        s->prev = n->prev;
        if (s->prev != 0) {
            zt_span_at(a, s->prev)->next = id;
        }
    } else {
        s->next = n->next;
        if (s->next != 0) {
            zt_span_at(a, s->next)->prev = id;
        }
    }
    s->size = zl_add(s->size, gained);
    zt_spans_give(&a->spans, neighbour);
    return gained;
}

uint32_t zt_cut(zt_allocator *a, uint32_t id, uint64_t size)
{
    const uint32_t rest = zt_spans_take(&a->spans);
    if (rest == 0) {
        zt_out_of_memory(a);
        return 0;
    }
    zt_span *s = zt_span_at(a, id);
    zt_span *r = zt_span_at(a, rest);
    *r = *s;
    r->address = zl_add(s->address, size);
    r->size = zl_sub(s->size, size);
    r->prev = id;
    s->next = rest;
    s->size = size;
    if (r->next != 0) {
        zt_span_at(a, r->next)->prev = rest;
    }
    return rest;
}

/* Tells the driver; false: it has no memory left. */
static bool tell(zt_allocator *a, zt_segment_action action, zt_span *s, uint64_t size)
{
    zt_segment_event event = {action, s->address, size, s->stream, s->pool == ZT_POOL_SMALL};
    if (a->driver != NULL && !a->driver(a->driver_context, &event)) {
        return false;
    }
    s->address = event.address;
    return true;
}

/* Alone in its segment. */
static bool is_whole(const zt_span *s)
{
    return s->prev == 0 && s->next == 0;
}

static bool device_has(const zt_allocator *a, uint64_t size)
{
    return zl_add(a->stats.reserved.current, size) <= a->device_free;
}

static uint32_t span_new(zt_allocator *a, const zt_request *request, uint64_t size)
{
    const uint32_t id = zt_spans_take(&a->spans);
    if (id == 0) {
        zt_out_of_memory(a);
        return 0;
    }
    *zt_span_at(a, id) =
        (zt_span){.address = a->addresses == ZT_FROM_DRIVER ? 0 : zt_address_take(a, size),
                  .size = size,
                  .stream = (uint16_t)request->stream,
                  .pool = (uint8_t)request->pool,
                  .state = ZT_SPAN_FREE};
    return id;
}

/* cudaMalloc. */
static uint32_t segment_alloc(zt_allocator *a, const zt_request *request, uint64_t size)
{
    const uint32_t id = device_has(a, size) ? span_new(a, request, size) : 0;
    if (id == 0) {
        return 0;
    }
    if (!tell(a, ZT_SEGMENT_ALLOC, zt_span_at(a, id), size)) {
        zt_spans_give(&a->spans, id);
        return 0;
    }
    zt_stat_raise(&a->stats.reserved, size);
    zt_stat_raise(&a->stats.segments, 1);
    zt_free_insert(a, id);
    return id;
}

static uint64_t page_of(const zt_allocator *a, uint8_t pool)
{
    return pool == ZT_POOL_SMALL ? zt_small_segment : a->conf.large_segment_size;
}

/* Maps the pages that hold the first `size` bytes of an unmapped span and makes it a free one, with
 * the free spans around it. False: the device is full, nothing changed. */
static bool map(zt_allocator *a, uint32_t id, uint64_t size)
{
    zt_span *s = zt_span_at(a, id);
    const uint64_t mapped = zl_align_up(size, page_of(a, s->pool));
    if (!device_has(a, mapped)) {
        return false;
    }
    unmapped_remove(a, id);
    if (!tell(a, ZT_SEGMENT_MAP, s, mapped)) {
        unmapped_insert(a, id);
        return false;
    }
    if (is_whole(s)) {
        s->base = s->address; /* nothing of the segment was mapped, this is its beginning */
    }
    if (mapped < zt_span_at(a, id)->size) {
        const uint32_t rest = zt_cut(a, id, mapped);
        if (rest == 0) {
            return false;
        }
        unmapped_insert(a, rest);
    }
    s = zt_span_at(a, id);
    s->state = ZT_SPAN_FREE;
    zt_absorb(a, id, s->prev);
    zt_absorb(a, id, s->next);
    zt_free_insert(a, id);
    zt_stat_raise(&a->stats.reserved, mapped);
    return true;
}

static bool has_room(const zt_allocator *a, uint32_t id, uint64_t size)
{
    uint64_t bytes = 0;
    while (id != 0 && bytes < size) {
        const zt_span *s = zt_span_at(a, id);
        if (s->state != ZT_SPAN_FREE && s->state != ZT_SPAN_UNMAPPED) {
            return false;
        }
        bytes = zl_add(bytes, s->size);
        id = s->next;
    }
    return bytes >= size;
}

/* The lowest place of the stream where free and unmapped spans add up to the size; 0: none. */
static uint32_t find_room(const zt_allocator *a, const zt_request *request)
{
    const uint32_t root = a->cached[request->stream]->unmapped[request->pool];
    uint32_t id = zt_set_lower_bound(a->spans.at, root, 0, 0);
    for (; id != 0; id = zt_set_next(a->spans.at, root, id)) {
        const uint32_t below = zt_span_at(a, id)->prev;
        const bool joins = below != 0 && zt_span_at(a, below)->state == ZT_SPAN_FREE;
        const uint32_t start = joins ? below : id;
        if (has_room(a, start, request->size)) {
            return start;
        }
    }
    return 0;
}

/* A reservation of addresses with room for 9/8 of the device, nothing of it mapped. */
static uint32_t range_new(zt_allocator *a, const zt_request *request)
{
    const uint64_t room = zl_add(a->device_total, a->device_total >> 3);
    const uint64_t page = page_of(a, (uint8_t)request->pool);
    const uint32_t id = span_new(a, request, zl_align_up(room, page));
    if (id != 0) {
        zt_span_at(a, id)->expandable = true;
        unmapped_insert(a, id);
    }
    return id;
}

static void drop_range(zt_allocator *a, uint32_t id)
{
    unmapped_remove(a, id);
    zt_spans_give(&a->spans, id);
}

/* Grows an expandable segment until it holds the request. */
static uint32_t segment_grow(zt_allocator *a, const zt_request *request)
{
    uint32_t id = find_room(a, request);
    if (id == 0) {
        id = range_new(a, request);
    }
    if (id == 0) {
        return 0;
    }
    if (zt_span_at(a, id)->state == ZT_SPAN_UNMAPPED &&
        !map(a, id, zl_min(zt_span_at(a, id)->size, request->size))) {
        if (zt_span_at(a, id)->address == 0) {
            drop_range(a, id); /* the driver gave no address yet */
        }
        return 0;
    }
    while (zt_span_at(a, id)->size < request->size) {
        const uint32_t next = zt_span_at(a, id)->next;
        const uint64_t missing = zl_sub(request->size, zt_span_at(a, id)->size);
        if (!map(a, next, zl_min(zt_span_at(a, next)->size, missing))) {
            return 0;
        }
        id = next;
    }
    return id;
}

static uint64_t segment_size(const zt_allocator *a, uint64_t size)
{
    if (size <= zt_small_size) {
        return zt_small_segment;
    }
    return size < zt_min_large ? a->conf.large_segment_size
                               : zl_align_up(size, zt_large_granularity);
}

uint32_t zt_segment_new(zt_allocator *a, const zt_request *request)
{
    const uint64_t size = segment_size(a, request->size);
    if (zl_add(a->stats.reserved.current, size) > a->allowed) {
        return 0;
    }
    return a->conf.expandable_segments ? segment_grow(a, request) : segment_alloc(a, request, size);
}

/* cudaFree of a whole free segment. */
static void segment_free(zt_allocator *a, uint32_t id)
{
    zt_span *s = zt_span_at(a, id);
    (void)tell(a, ZT_SEGMENT_FREE, s, s->size);
    zt_stat_lower(&a->stats.reserved, s->size);
    zt_stat_lower(&a->stats.segments, 1);
    zt_free_remove(a, id);
    zt_spans_give(&a->spans, id);
}

/* Unmaps the pages that lie wholly in a free span of an expandable segment. What is left of the
 * span at both ends stays free. */
static void unmap(zt_allocator *a, uint32_t id)
{
    const zt_span *s = zt_span_at(a, id);
    const uint64_t page = page_of(a, s->pool);
    const uint64_t start = zl_sub(s->address, s->base);
    const uint64_t end = zl_add(start, s->size);
    const uint64_t first = zl_align_up(start, page);
    const uint64_t last = zl_sub(end, end % page);
    if (first >= last) {
        return;
    }
    zt_free_remove(a, id);
    uint32_t middle = id;
    if (first > start) {
        middle = zt_cut(a, id, zl_sub(first, start));
        zt_free_insert(a, id);
    }
    if (last < end && middle != 0) {
        const uint32_t above = zt_cut(a, middle, zl_sub(last, first));
        if (above == 0) {
            return;
        }
        zt_free_insert(a, above);
    }
    if (middle == 0) {
        return;
    }
    zt_span *m = zt_span_at(a, middle);
    (void)tell(a, ZT_SEGMENT_UNMAP, m, m->size);
    zt_stat_lower(&a->stats.reserved, m->size);
    m->state = ZT_SPAN_UNMAPPED;
    zt_absorb(a, middle, m->prev);
    zt_absorb(a, middle, m->next);
    unmapped_insert(a, middle);
    if (is_whole(m)) {
        drop_range(a, middle);
    }
}

static uint32_t pool_first(const zt_allocator *a, zt_pool_name pool, uint32_t stream)
{
    zt_cached *cached = a->cached[stream];
    return cached == NULL ? 0 : zt_bins_lower_bound(a->spans.at, &cached->free[pool], 0);
}

static uint32_t pool_next(const zt_allocator *a, uint32_t id)
{
    return zt_bins_next(a->spans.at, zt_bins_of(a, zt_span_at(a, id)), id);
}

static void release_stream(zt_allocator *a, zt_pool_name pool, uint32_t stream)
{
    uint32_t next = 0;
    for (uint32_t id = pool_first(a, pool, stream); id != 0; id = next) {
        next = pool_next(a, id);
        if (!zt_span_at(a, id)->expandable && is_whole(zt_span_at(a, id))) {
            segment_free(a, id);
        }
    }
}

/* Unmapping leaves smaller free spans behind; those without a whole page are passed over. */
static void unmap_stream(zt_allocator *a, zt_pool_name pool, uint32_t stream)
{
    uint32_t next = 0;
    for (uint32_t id = pool_first(a, pool, stream); id != 0 && a->failure.status == ZL_OK;
         id = next) {
        next = pool_next(a, id);
        unmap(a, id);
    }
}

void zt_segments_release(zt_allocator *a)
{
    static const zt_pool_name order[] = {ZT_POOL_LARGE, ZT_POOL_SMALL};
    for (size_t p = 0; p < ZT_POOL_COUNT; p++) {
        for (uint32_t stream = 0; stream < a->streams; stream++) {
            if (a->conf.expandable_segments) {
                unmap_stream(a, order[p], stream);
            } else {
                release_stream(a, order[p], stream);
            }
        }
    }
}

bool zt_segments_release_oversize(zt_allocator *a, const zt_request *request)
{
    if (a->conf.max_split_size == UINT64_MAX || a->conf.expandable_segments) {
        return false;
    }
    const uint64_t wanted = zl_max(request->size, a->conf.max_split_size);
    zt_bins *bins = &a->cached[request->stream]->free[request->pool];
    const uint32_t enough = zt_bins_lower_bound(a->spans.at, bins, wanted);
    if (enough != 0) {
        segment_free(a, enough);
        return true;
    }
    uint64_t released = 0;
    uint32_t id = zt_bins_last(a->spans.at, bins);
    while (id != 0 && released < wanted && zt_span_at(a, id)->size >= a->conf.max_split_size) {
        released = zl_add(released, zt_span_at(a, id)->size);
        segment_free(a, id);
        id = zt_bins_last(a->spans.at, bins);
    }
    return released >= wanted;
}

static uint64_t age_of(const zt_allocator *a, const zt_span *s)
{
    return zl_sub(a->searches[s->pool], s->age);
}

/* Whole free segments of the large pool, and the sum of their ages. */
typedef struct garbage {
    uint64_t count;
    uint64_t age;
} garbage;

static garbage count_garbage(const zt_allocator *a)
{
    garbage g = {0};
    for (uint32_t stream = 0; stream < a->streams; stream++) {
        for (uint32_t id = pool_first(a, ZT_POOL_LARGE, stream); id != 0; id = pool_next(a, id)) {
            if (is_whole(zt_span_at(a, id))) {
                g.count = zl_add(g.count, 1);
                g.age = zl_add(g.age, age_of(a, zt_span_at(a, id)));
            }
        }
    }
    return g;
}

/* Frees what is at least as old as the mean when it began; returns the bytes. */
static uint64_t collect_older(zt_allocator *a, garbage *g)
{
    const garbage mean = *g;
    uint64_t freed = 0;
    for (uint32_t stream = 0; stream < a->streams; stream++) {
        uint32_t next = 0;
        for (uint32_t id = pool_first(a, ZT_POOL_LARGE, stream); id != 0; id = next) {
            const zt_span *s = zt_span_at(a, id);
            const uint64_t age = age_of(a, s);
            next = pool_next(a, id);
            if (is_whole(s) && !s->expandable && zl_mul(age, mean.count) >= mean.age) {
                freed = zl_add(freed, s->size);
                g->age = zl_sub(g->age, age);
                g->count = zl_sub(g->count, 1);
                segment_free(a, id);
            }
        }
    }
    return freed;
}

void zt_segments_collect(zt_allocator *a)
{
    if (a->stats.reserved.current <= a->gc_threshold) {
        return;
    }
    const uint64_t target = zl_sub(a->stats.reserved.current, a->gc_threshold);
    garbage g = count_garbage(a);
    uint64_t reclaimed = 0;
    uint64_t freed = 0;
    do {
        freed = collect_older(a, &g);
        reclaimed = zl_add(reclaimed, freed);
    } while (reclaimed < target && freed > 0);
}
