/* Spans of address space, and ordered sets of them.
 *
 * A span is a piece of a segment: handed out, free, or (expandable segments) not mapped. Spans live
 * in one growing table and are named by their index, so that names survive the growth; index 0 is
 * no span. Sets are treaps threaded through the spans, ordered by (rank, address). Bins are such a
 * set cut by rank, for many members of few ranks: each search is among few.
 */
#ifndef ZT_SPANS_H
#define ZT_SPANS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum zt_span_state {
    ZT_SPAN_UNUSED, /* no span: a free row of the table */
    ZT_SPAN_FREE,
    ZT_SPAN_ALLOCATED,
    ZT_SPAN_WAITING, /* freed, until its recorded uses end */
    ZT_SPAN_UNMAPPED
} zt_span_state;

typedef struct zt_span {
    uint64_t rank; /* in its set: the size of a free span, 0 of an unmapped one */
    uint64_t address;
    uint32_t child[2]; /* of the set */
    uint64_t size;
    uint32_t prev; /* neighbours in the segment, 0 = none; next chains unused rows */
    uint32_t next;
    uint16_t stream;
    uint8_t pool;
    uint8_t state; /* zt_span_state */
    bool recorded; /* used on another stream */
    bool expandable;
    uint64_t requested;
    uint64_t base; /* of an expandable segment: its lowest address; else 0 */
    uint64_t age;  /* searches of the pool when it became free */
    /* Allocations and new segments that its recorded uses outlast; of the allocator, once freed. */
    uint32_t until_allocation;
    uint32_t until_segment;
} zt_span;

typedef struct zt_spans {
    zt_span *at; /* moves when the table grows */
    uint32_t count;
    uint32_t capacity;
    uint32_t unused; /* first of the free rows, 0 = none */
} zt_spans;

/* The caller frees with zt_spans_release. False: out of memory. */
bool zt_spans_init(zt_spans *spans);
void zt_spans_release(zt_spans *spans);
/* A zeroed row; 0: out of memory. */
uint32_t zt_spans_take(zt_spans *spans);
void zt_spans_give(zt_spans *spans, uint32_t id);

/* A set is its root; the empty one is 0. Rank and address may not change while a span is in it. */
void zt_set_insert(zt_span *at, uint32_t *root, uint32_t id);
void zt_set_remove(zt_span *at, uint32_t *root, uint32_t id);
/* First member with (rank, address) >= the given ones; 0: none. */
uint32_t zt_set_lower_bound(const zt_span *at, uint32_t root, uint64_t rank, uint64_t address);
/* The member after id; 0: none. */
uint32_t zt_set_next(const zt_span *at, uint32_t root, uint32_t id);

/* Sixteen sets for every power of two of the rank, up to 2^64. */
enum { ZT_BINS_COUNT = 976, ZT_BINS_WORDS = 16 };

typedef struct zt_bins {
    uint64_t filled[ZT_BINS_WORDS]; /* a bit for each set with members */
    uint32_t root[ZT_BINS_COUNT];
} zt_bins;

/* Zeroed bins are empty. */
void zt_bins_insert(zt_span *at, zt_bins *bins, uint32_t id);
void zt_bins_remove(zt_span *at, zt_bins *bins, uint32_t id);
/* First member of at least this rank; 0: none. */
uint32_t zt_bins_lower_bound(const zt_span *at, const zt_bins *bins, uint64_t rank);
/* The member after id; 0: none. */
uint32_t zt_bins_next(const zt_span *at, const zt_bins *bins, uint32_t id);
/* The last member; 0: none. */
uint32_t zt_bins_last(const zt_span *at, const zt_bins *bins);

#endif
