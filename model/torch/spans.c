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

uint32_t zt_spans_append(zt_spans *spans)
{
    return spans->count < spans->capacity || grow(spans) ? spans->count++ : 0;
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

uint32_t zt_bins_next(const zt_span *at, zt_bins *bins, uint32_t id)
{
    const uint32_t bin = at[id].bin;
    const uint32_t found = zt_set_next(at, bins->root[bin], id);
    return found != 0 ? found : zt_bins_first_from(at, bins, bin + 1);
}

uint32_t zt_bins_last(const zt_span *at, const zt_bins *bins)
{
    for (uint32_t bin = ZT_BINS_COUNT; bin-- > 0;) {
        uint32_t id = bins->root[bin];
        if (id != 0) {
            while (at[id].child[1] != 0) {
                id = at[id].child[1];
            }
            return id;
        }
    }
    return 0;
}
