/* The lower half of the caching allocator: segments taken from the driver and given back, spans
 * merged, and the state that both halves share. For caching_allocator.c and segments.c alone. */
#ifndef ZT_SEGMENTS_H
#define ZT_SEGMENTS_H

#include "torch/caching_allocator.h"
#include "torch/spans.h"
#include "zeroledger/bytes.h"

/* Sizes of c10/cuda/CUDACachingAllocator.cpp; newer trees keep them in c10/core/AllocatorConfig.h.
 */
static const uint64_t zt_min_block = 512;             /* kMinBlockSize: what sizes are rounded to */
static const uint64_t zt_small_size = 1048576;        /* kSmallSize: largest of the small pool */
static const uint64_t zt_small_segment = 2097152;     /* kSmallBuffer: segment of the small pool */
static const uint64_t zt_min_large = 10485760;        /* kMinLargeAlloc: from here a segment each */
static const uint64_t zt_large_granularity = 2097152; /* kRoundLarge: of those segments */

typedef enum zt_pool_name { ZT_POOL_SMALL, ZT_POOL_LARGE, ZT_POOL_COUNT } zt_pool_name;

/* What one stream may take without asking the driver for memory. */
typedef struct zt_cached {
    zt_bins free[ZT_POOL_COUNT];      /* by size */
    uint32_t unmapped[ZT_POOL_COUNT]; /* sets, of expandable segments */
} zt_cached;

/* The rest of a slot above its segment, under ZT_DESCENDING. */
typedef struct zt_rest {
    uint64_t address;
    uint64_t size;
} zt_rest;

struct zt_allocator {
    zt_alloc_conf conf;
    bool plain; /* requests are rounded to multiples of zt_min_block, and any free span of enough
                   bytes may serve them: what conf says by default */
    zt_waiting waiting_mode;
    zt_addresses addresses;
    zt_driver *driver;
    zt_freed *freed;
    void *driver_context;
    uint64_t device_total;
    uint64_t device_free;
    uint64_t allowed;      /* reserved may not exceed it */
    uint64_t gc_threshold; /* reserved from where garbage is collected; ZL_POISON = never */
    uint64_t next_address; /* lowest unused (ascending), lowest used (descending) */
    zt_rest *rests;        /* newest last */
    uint32_t rest_count;
    uint32_t rest_capacity;
    zt_spans spans;
    zt_cached *cached[ZT_STREAMS_MAX]; /* NULL: the stream was not seen yet */
    uint32_t streams;                  /* largest seen + 1 */
    uint64_t searches[ZT_POOL_COUNT];  /* counted only if garbage is collected */
    uint32_t *waiting;                 /* spans in ZT_SPAN_WAITING, oldest first */
    uint32_t waiting_count;
    uint32_t waiting_capacity;
    uint32_t allocations;
    uint32_t new_segments; /* allocations that had to ask the driver */
    zt_stats stats;
    zl_err failure;
};

/* What zt_alloc looks for. */
typedef struct zt_request {
    uint64_t size; /* rounded */
    zt_pool_name pool;
    uint32_t stream;
} zt_request;

static inline zt_span *zt_span_at(const zt_allocator *a, uint32_t id)
{
    return &a->spans.at[id];
}

/* What is counted are sizes of spans, or parts of them: at most what the device has, 1 PiB, so that
 * no sum overflows. */
static inline void zt_stat_raise(zt_stat *stat, uint64_t amount)
{
    stat->current += amount;
    stat->peak = zl_max(stat->peak, stat->current);
}

static inline void zt_stat_lower(zt_stat *stat, uint64_t amount)
{
    stat->current -= amount;
}

void zt_out_of_memory(zt_allocator *a);

/* The sets of free spans that a span belongs to. */
static inline zt_bins *zt_bins_of(const zt_allocator *a, const zt_span *s)
{
    return &a->cached[s->stream]->free[s->pool];
}

/* Puts a span into its set, as a free one. */
static inline void zt_free_insert(zt_allocator *a, uint32_t id)
{
    zt_span *s = zt_span_at(a, id);
    s->state = ZT_SPAN_FREE;
    s->rank = s->size;
    s->age = a->searches[s->pool];
    zt_bins_insert(a->spans.at, zt_bins_of(a, s), id);
}

static inline void zt_free_remove(zt_allocator *a, uint32_t id)
{
    zt_bins_remove(a->spans.at, zt_bins_of(a, zt_span_at(a, id)), id);
}

/* A span in such a set changes its size and place. */
static inline void zt_free_move(zt_allocator *a, uint32_t id, uint64_t size, uint64_t address)
{
    zt_span *s = zt_span_at(a, id);
    s->size = size;
    s->age = a->searches[s->pool];
    zt_bins_move(a->spans.at, zt_bins_of(a, s), id, size, address);
}

/* Merges a neighbour into `id` if both are free, or both unmapped; `id` is in no set, the neighbour
 * is. Returns the bytes gained. */
uint64_t zt_absorb(zt_allocator *a, uint32_t id, uint32_t neighbour);
/* Cuts the front `size` bytes off; returns the new span that holds the rest, in no set. 0: out of
 * memory. */
uint32_t zt_cut(zt_allocator *a, uint32_t id, uint64_t size);

/* A free span of at least the requested size from the driver, in its set; 0: the device or the
 * allowed share of it is full. */
uint32_t zt_segment_new(zt_allocator *a, const zt_request *request);
/* Whole free segments of all streams go back to the driver, and whole free pages. */
void zt_segments_release(zt_allocator *a);
/* With max_split_size: oversize segments of the request's stream, just enough of them. False: they
 * are not enough. */
bool zt_segments_release_oversize(zt_allocator *a, const zt_request *request);
/* With garbage_collection_threshold: whole free segments that were not used for long. */
void zt_segments_collect(zt_allocator *a);

/* An address for a segment of a size by the policy; ZL_POISON: the driver is to say. */
uint64_t zt_address_take(zt_allocator *a, uint64_t size);

#endif
