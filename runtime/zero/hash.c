/* A number for all parameters that does not depend on who stores which part: a sum, modulo 2^64, of
 * mixed (tensor, element, value). Ranks add the sums of their shards. */
#include <string.h>

#include "zero/zero.h"
#include "zeroledger/bytes.h"

enum { PIECE = 1 << 16 }; /* bytes on the host at a time */

/* The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
 * OOPSLA 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

static uint64_t hash_piece(const unsigned char *bytes, uint64_t count, uint64_t size, uint64_t key,
                           uint64_t first)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t wide = 0;
        uint16_t narrow = 0;
        if (size == sizeof wide) {
            memcpy(&wide, bytes + i * size, sizeof wide);
        } else {
            memcpy(&narrow, bytes + i * size, sizeof narrow);
            wide = narrow;
        }
        sum += mix(mix(key + first + i) + wide);
    }
    return sum;
}

/* Elements [begin, end) of unit u, which start at base. */
static zl_status hash_range(const zr_zero *zero, uint64_t u, zr_range range, void *base,
                            zl_dtype dtype, uint64_t *sum, zl_err *err)
{
    const zr_store *store = &zero->store[u];
    const uint64_t size = zl_dtype_size(dtype);
    unsigned char piece[PIECE];
    for (uint64_t t = 0; t < store->unit->count; t++) {
        const zr_tensor *tensor = &store->unit->tensor[t];
        const uint64_t end = zl_min(range.end, tensor->offset + tensor->elements);
        const uint64_t key = mix(store->first_tensor + t + ((uint64_t)dtype << 32));
        uint64_t at = zl_max(range.begin, tensor->offset);
        while (at < end) {
            const uint64_t count = zl_min(end - at, PIECE / size);
            ZL_TRY(zr_did(zr_copy_out(piece, zr_zero_at(base, at - range.begin, dtype),
                                      count * size, zero->stream),
                          "copy_out", err));
            *sum += hash_piece(piece, count, size, key, at - tensor->offset);
            at += count;
        }
    }
    return ZL_OK;
}

/* Adds over ranks; doubles are exact for quarters of a word. */
static zl_status add_over_ranks(zr_comm *comm, uint64_t *sum, zl_err *err)
{
    uint64_t total = 0;
    for (unsigned shift = 0; shift < 64; shift += 16) {
        double quarter = (double)((*sum >> shift) & 0xffffU);
        ZL_TRY(zr_comm_sum(comm, &quarter, err));
        total += (uint64_t)quarter << shift;
    }
    *sum = total;
    return ZL_OK;
}

/* The whole compute copy, and the own shard of the master weights. */
static zl_status hash_unit(zr_zero *zero, uint64_t u, uint64_t *whole, uint64_t *master,
                           zl_err *err)
{
    const zr_store *store = &zero->store[u];
    ZL_TRY(zr_gather_use(zero, u, err));
    const zr_range all = {0, store->unit->elements};
    ZL_TRY(hash_range(zero, u, all, store->weights, zero->dtype, whole, err));
    if (store->master.ptr == NULL) {
        return ZL_OK;
    }
    const uint64_t begin = zl_mul(zero->rank, store->unit->shard);
    const zr_range own = {begin, begin + store->unit->shard};
    const uint64_t skipped = begin - zr_zero_owned(zero, u).begin;
    void *base = zr_zero_at(store->master.ptr, skipped, ZL_F32);
    return hash_range(zero, u, own, base, ZL_F32, master, err);
}

zl_status zr_zero_hash(zr_zero *zero, uint64_t *hash, zl_err *err)
{
    uint64_t whole = 0;
    uint64_t master = 0;
    for (uint64_t u = 0; u < zero->units; u++) {
        ZL_TRY(hash_unit(zero, u, &whole, &master, err));
    }
    uint64_t sum = whole;
    ZL_TRY(add_over_ranks(zero->comm, &sum, err));
    if (sum != whole * zero->ranks) {
        return zl_fail(err, ZL_E_BUG, "the ranks hold different parameters");
    }
    ZL_TRY(add_over_ranks(zero->comm, &master, err));
    *hash = whole + mix(master);
    return ZL_OK;
}
