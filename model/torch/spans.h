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
    union {
        uint64_t rank; /* in its set: the size of a free span, 0 of an unmapped one */
        struct { /* handed out: allocations and new segments that its recorded uses outlast; */
            uint32_t until_allocation; /* waiting: the same, counted from the beginning */
            uint32_t until_segment;
        };
    };
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
    uint16_t bin;  /* of the rank, while it is in bins */
    uint64_t base; /* of an expandable segment: its lowest address; else 0 */
    union {
        uint64_t age;       /* free: searches of the pool when it became so */
        uint64_t requested; /* handed out or waiting */
    };
} zt_span;

_Static_assert(sizeof(zt_span) == 64, "a span fills a line");

typedef struct zt_spans {
    zt_span *at; /* moves when the table grows */
    uint32_t count;
    uint32_t capacity;
    uint32_t unused; /* first of the free rows, 0 = none */
} zt_spans;

/* The caller frees with zt_spans_release. False: out of memory. */
bool zt_spans_init(zt_spans *spans);
void zt_spans_release(zt_spans *spans);
/* A new row behind all others; 0: out of memory. */
uint32_t zt_spans_append(zt_spans *spans);

/* A row, as it was left; 0: out of memory. */
static inline uint32_t zt_spans_take(zt_spans *spans)
{
    const uint32_t id = spans->unused;
    if (id == 0) {
        return zt_spans_append(spans);
    }
    spans->unused = spans->at[id].next;
    return id;
}

static inline void zt_spans_give(zt_spans *spans, uint32_t id)
{
    spans->at[id].state = ZT_SPAN_UNUSED;
    spans->at[id].next = spans->unused;
    spans->unused = id;
}

/* A set is its root; the empty one is 0. Rank and address may not change while a span is in it. */
void zt_set_insert(zt_span *at, uint32_t *root, uint32_t id);
void zt_set_remove(zt_span *at, uint32_t *root, uint32_t id);
/* First member with (rank, address) >= the given ones; 0: none. */
uint32_t zt_set_lower_bound(const zt_span *at, uint32_t root, uint64_t rank, uint64_t address);
/* The member after id; 0: none. */
uint32_t zt_set_next(const zt_span *at, uint32_t root, uint32_t id);

/* Eight sets for every power of two of the rank, up to 2^64: an octave. */
enum { ZT_OCTAVES = 62, ZT_OCTAVE = 8, ZT_BINS_COUNT = ZT_OCTAVES * ZT_OCTAVE };

typedef struct zt_bins {
    /* A bit for each octave, and for each set of it, that may have members: all that have, and some
     * whose last one has left. Searches clear those. */
    uint64_t octaves;
    uint32_t sets[ZT_OCTAVES];
    uint32_t root[ZT_BINS_COUNT];
} zt_bins;

/* Zeroed bins are empty. What follows is the inside of every allocation and free. */

/* Grows with the rank: ranks below 16 have bins of their own, from there on three bits after the
 * leading one choose it. */
static inline uint32_t zt_bin_of(uint64_t rank)
{
    const uint32_t shift = 60 - (uint32_t)__builtin_clzll(rank | 15);
    return ZT_OCTAVE * shift + (uint32_t)(rank >> shift);
}

static inline void zt_bins_insert_in(zt_span *at, zt_bins *bins, uint32_t bin, uint32_t id)
{
    zt_span *s = &at[id];
    s->bin = (uint16_t)bin;
    if (bins->root[bin] != 0) {
        zt_set_insert(at, &bins->root[bin], id);
        return;
    }
    s->child[0] = 0;
    s->child[1] = 0;
    bins->root[bin] = id;
    bins->sets[bin / ZT_OCTAVE] |= UINT32_C(1) << bin % ZT_OCTAVE;
    bins->octaves |= UINT64_C(1) << bin / ZT_OCTAVE;
}

static inline bool zt_bins_is_alone(const zt_span *s, const zt_bins *bins, uint32_t id)
{
    return bins->root[s->bin] == id && (s->child[0] | s->child[1]) == 0;
}

static inline void zt_bins_insert(zt_span *at, zt_bins *bins, uint32_t id)
{
    zt_bins_insert_in(at, bins, zt_bin_of(at[id].rank), id);
}

static inline void zt_bins_remove(zt_span *at, zt_bins *bins, uint32_t id)
{
    zt_span *s = &at[id];
    if (zt_bins_is_alone(s, bins, id)) {
        bins->root[s->bin] = 0;
    } else {
        zt_set_remove(at, &bins->root[s->bin], id);
    }
}

static inline void zt_bins_move(zt_span *at, zt_bins *bins, uint32_t id, uint64_t rank,
                                uint64_t address)
{
    zt_span *s = &at[id];
    const uint32_t to = zt_bin_of(rank);
    const bool alone = zt_bins_is_alone(s, bins, id);
    if (alone && s->bin == to) { /* what is left of a large span mostly is */
        s->rank = rank;
        s->address = address;
        return;
    }
    if (alone) {
        bins->root[s->bin] = 0;
    } else {
        zt_set_remove(at, &bins->root[s->bin], id);
    }
    s->rank = rank;
    s->address = address;
    zt_bins_insert_in(at, bins, to, id);
}

/* The root of the first set with members from a bin on; 0: none. */
static inline uint32_t zt_bins_root_from(zt_bins *bins, uint32_t bin)
{
    uint32_t octave = bin / ZT_OCTAVE;
    uint32_t sets = octave < ZT_OCTAVES ? bins->sets[octave] & UINT32_MAX << bin % ZT_OCTAVE : 0;
    for (;;) {
        if (sets == 0) {
            const uint64_t octaves = bins->octaves >> octave >> 1 << octave << 1;
            if (octaves == 0) {
                return 0;
            }
            octave = (uint32_t)__builtin_ctzll(octaves);
            sets = bins->sets[octave];
            bins->octaves &= ~((uint64_t)(sets == 0) << octave);
            continue;
        }
        const uint32_t set = (uint32_t)__builtin_ctz(sets);
        const uint32_t root = bins->root[ZT_OCTAVE * octave + set];
        if (root != 0) {
            return root;
        }
        bins->sets[octave] &= ~(UINT32_C(1) << set);
        sets &= sets - 1;
    }
}

/* The first member from a bin on. */
static inline uint32_t zt_bins_first_from(const zt_span *at, zt_bins *bins, uint32_t bin)
{
    uint32_t id = zt_bins_root_from(bins, bin);
    while (at[id].child[0] != 0) {
        id = at[id].child[0];
    }
    return id;
}

static inline uint32_t zt_bins_lower_bound(const zt_span *at, zt_bins *bins, uint64_t rank)
{
    const uint32_t bin = zt_bin_of(rank);
    uint32_t found = 0;
    for (uint32_t id = bins->root[bin]; id != 0;) {
        const bool less = at[id].rank < rank;
        found = less ? found : id;
        id = at[id].child[less];
    }
    return found != 0 ? found : zt_bins_first_from(at, bins, bin + 1);
}

/* The member after id; 0: none. */
uint32_t zt_bins_next(const zt_span *at, zt_bins *bins, uint32_t id);
/* The last member; 0: none. */
uint32_t zt_bins_last(const zt_span *at, const zt_bins *bins);

#endif
