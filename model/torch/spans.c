#include "torch/spans.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 1024 };

bool zt_spans_init(zt_spans *spans)
{
    *spans = (zt_spans){
        .at = malloc(FIRST_CAPACITY * sizeof(zt_span)), .count = 1, .capacity = FIRST_CAPACITY};
    if (spans->at == NULL) {
        return false;
    }
    spans->at[0] = (zt_span){0}; /* asked for its state and size like any other */
    return true;
}

void zt_spans_release(zt_spans *spans)
{
    free(spans->at);
    *spans = (zt_spans){0};
}

static bool grow(zt_spans *spans)
{
    if (spans->capacity > UINT32_MAX / 2) {
        return false;
    }
    zt_span *at = realloc(spans->at, 2 * (size_t)spans->capacity * sizeof *at);
    if (at == NULL) {
        return false;
    }
    spans->at = at;
    spans->capacity *= 2;
    return true;
}

uint32_t zt_spans_take(zt_spans *spans)
{
    uint32_t id = spans->unused;
    if (id != 0) {
        spans->unused = spans->at[id].next;
    } else if (spans->count < spans->capacity || grow(spans)) {
        id = spans->count++;
    } else {
        return 0;
    }
    spans->at[id] = (zt_span){0};
    return id;
}

void zt_spans_give(zt_spans *spans, uint32_t id)
{
    spans->at[id].state = ZT_SPAN_UNUSED;
    spans->at[id].next = spans->unused;
    spans->unused = id;
}

/* Priorities of the treap: a fixed scramble of the index, so that runs repeat. */
static uint32_t priority(uint32_t id)
{
    const uint32_t x = (id ^ (id >> 16)) * UINT32_C(0x7feb352d);
    return (x ^ (x >> 15)) * UINT32_C(0x846ca68b);
}

/* The index breaks ties that addresses from a damaged trace could leave. */
static bool before(const zt_span *at, uint32_t a, uint32_t b)
{
    if (at[a].rank != at[b].rank) {
        return at[a].rank < at[b].rank;
    }
    return at[a].address != at[b].address ? at[a].address < at[b].address : a < b;
}

void zt_set_insert(zt_span *at, uint32_t *root, uint32_t id)
{
    while (*root != 0 && priority(*root) >= priority(id)) {
        root = &at[*root].child[before(at, *root, id)];
    }
    /* What hangs here is split into what comes before id and what comes after. */
    uint32_t rest = *root;
    uint32_t *side[2] = {&at[id].child[0], &at[id].child[1]};
    *root = id;
    while (rest != 0) {
        const bool after = !before(at, rest, id);
        *side[after] = rest;
        side[after] = &at[rest].child[!after];
        rest = *side[after];
    }
    *side[0] = 0;
    *side[1] = 0;
}

void zt_set_remove(zt_span *at, uint32_t *root, uint32_t id)
{
    while (*root != id) {
        root = &at[*root].child[before(at, *root, id)];
    }
    uint32_t low = at[id].child[0];
    uint32_t high = at[id].child[1];
    while (low != 0 && high != 0) {
        if (priority(low) >= priority(high)) {
            *root = low;
            root = &at[low].child[1];
            low = *root;
        } else {
            *root = high;
            root = &at[high].child[0];
            high = *root;
        }
    }
    *root = low != 0 ? low : high;
}

uint32_t zt_set_lower_bound(const zt_span *at, uint32_t root, uint64_t rank, uint64_t address)
{
    uint32_t found = 0;
    while (root != 0) {
        const zt_span *s = &at[root];
        const bool less = s->rank != rank ? s->rank < rank : s->address < address;
        found = less ? found : root;
        root = s->child[less];
    }
    return found;
}

uint32_t zt_set_next(const zt_span *at, uint32_t root, uint32_t id)
{
    uint32_t found = 0;
    while (root != 0) {
        const bool after = before(at, id, root);
        found = after ? root : found;
        root = at[root].child[!after];
    }
    return found;
}

/* Grows with the rank: ranks below 32 have bins of their own, from there on four bits after the
 * leading one choose it. */
static uint32_t bin_of(uint64_t rank)
{
    const uint32_t shift = 59 - (uint32_t)__builtin_clzll(rank | 31);
    return 16 * shift + (uint32_t)(rank >> shift);
}

/* The first filled bin from this one on; ZT_BINS_COUNT: none. */
static uint32_t filled_from(const zt_bins *bins, uint32_t bin)
{
    uint32_t word = bin / 64;
    uint64_t bits = bins->filled[word] >> bin % 64 << bin % 64;
    while (bits == 0) {
        if (++word == ZT_BINS_WORDS) {
            return ZT_BINS_COUNT;
        }
        bits = bins->filled[word];
    }
    return 64 * word + (uint32_t)__builtin_ctzll(bits);
}

void zt_bins_insert(zt_span *at, zt_bins *bins, uint32_t id)
{
    const uint32_t bin = bin_of(at[id].rank);
    bins->filled[bin / 64] |= UINT64_C(1) << bin % 64;
    zt_set_insert(at, &bins->root[bin], id);
}

void zt_bins_remove(zt_span *at, zt_bins *bins, uint32_t id)
{
    const uint32_t bin = bin_of(at[id].rank);
    zt_set_remove(at, &bins->root[bin], id);
    if (bins->root[bin] == 0) {
        bins->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    }
}

/* The first member from a bin on. */
static uint32_t first_from(const zt_span *at, const zt_bins *bins, uint32_t bin)
{
    bin = filled_from(bins, bin);
    uint32_t id = bin == ZT_BINS_COUNT ? 0 : bins->root[bin];
    while (id != 0 && at[id].child[0] != 0) {
        id = at[id].child[0];
    }
    return id;
}

uint32_t zt_bins_lower_bound(const zt_span *at, const zt_bins *bins, uint64_t rank)
{
    const uint32_t bin = bin_of(rank);
    const uint32_t found = zt_set_lower_bound(at, bins->root[bin], rank, 0);
    return found != 0 ? found : first_from(at, bins, bin + 1);
}

uint32_t zt_bins_next(const zt_span *at, const zt_bins *bins, uint32_t id)
{
    const uint32_t bin = bin_of(at[id].rank);
    const uint32_t found = zt_set_next(at, bins->root[bin], id);
    return found != 0 ? found : first_from(at, bins, bin + 1);
}

uint32_t zt_bins_last(const zt_span *at, const zt_bins *bins)
{
    for (uint32_t word = ZT_BINS_WORDS; word-- > 0;) {
        if (bins->filled[word] != 0) {
            const uint32_t high = 63 - (uint32_t)__builtin_clzll(bins->filled[word]);
            uint32_t id = bins->root[64 * word + high];
            while (at[id].child[1] != 0) {
                id = at[id].child[1];
            }
            return id;
        }
    }
    return 0;
}
