/* Where new segments lie, when nobody says. No address is given out twice: what a driver does with
 * addresses that were given back is not known. */
#include <stdlib.h>

#include "torch/segments.h"
#include "zeroledger/bytes.h"

/* Room for 2^62 bytes in either direction. */
static const uint64_t lowest = UINT64_C(1) << 21;
static const uint64_t highest = UINT64_C(1) << 62;

static const uint64_t page = UINT64_C(2) << 20;  /* the driver's granularity */
static const uint64_t slot = UINT64_C(32) << 20; /* see ZT_DESCENDING */
static const uint64_t shares_a_slot = UINT64_C(16) << 20;

static uint64_t take_above(zt_allocator *a, uint64_t size)
{
    const uint64_t address = zl_max(a->next_address, lowest);
    a->next_address = zl_add(address, zl_align_up(size, page));
    return address;
}

static uint64_t take_rest(zt_allocator *a, uint64_t size)
{
    for (uint32_t i = a->rest_count; i-- > 0;) {
        zt_rest *rest = &a->rests[i];
        if (rest->size >= size) {
            const uint64_t address = rest->address;
            rest->address = zl_add(rest->address, size);
            rest->size = zl_sub(rest->size, size);
            return address;
        }
    }
    return ZL_POISON;
}

static void keep_rest(zt_allocator *a, zt_rest rest)
{
    if (rest.size == 0) {
        return;
    }
    if (a->rest_count == a->rest_capacity) {
        const uint32_t capacity = a->rest_capacity == 0 ? 64 : 2 * a->rest_capacity;
        zt_rest *rests = realloc(a->rests, capacity * sizeof *rests);
        if (rests == NULL) {
            zt_out_of_memory(a);
            return;
        }
        a->rests = rests;
        a->rest_capacity = capacity;
    }
    a->rests[a->rest_count++] = rest;
}

static uint64_t take_below(zt_allocator *a, uint64_t size)
{
    if (size <= shares_a_slot) {
        const uint64_t address = take_rest(a, size);
        if (!zl_poisoned(address)) {
            return address;
        }
    }
    const uint64_t slots = zl_align_up(size, slot);
    const uint64_t top = a->next_address == 0 ? highest : a->next_address;
    const uint64_t address = zl_sub(top, slots);
    a->next_address = address;
    keep_rest(a, (zt_rest){zl_add(address, size), zl_sub(slots, size)});
    return address;
}

uint64_t zt_address_take(zt_allocator *a, uint64_t size)
{
    const uint64_t aligned = zl_align_up(size, page);
    const uint64_t address =
        a->addresses == ZT_ASCENDING ? take_above(a, aligned) : take_below(a, aligned);
    if (address > highest && a->failure.status == ZL_OK) {
        zl_fail(&a->failure, ZL_E_RESOURCE, "the allocator ran out of address space");
    }
    return address;
}
