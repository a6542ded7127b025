/* The second witness: what the machine says about memory, beside what the tracker counted.
 *
 * Two numbers: resident pages of the arena, from the kernel; and bytes that the process holds from
 * the C library's heap, which is everything that did not ask the tracker. Looking does not
 * allocate. Where the heap is replaced (sanitizers) the second number is not to be had and stays 0.
 */
#ifndef ZR_WITNESS_H
#define ZR_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/ledger.h"

typedef struct zr_witness {
    bool started;
    bool steady;    /* a steady mark has been seen */
    uint64_t first; /* heap bytes at the first mark */
    uint64_t last;  /* heap bytes at the last mark */
    zl_witness seen;
} zr_witness;

/* Looks now. [base, base + size) is the arena's mapping. Growth since the first mark counts as cold
 * until the first steady mark; growth since the last mark counts as steady if `steady` is true. */
ZL_NODISCARD zl_status zr_witness_mark(zr_witness *witness, const void *base, uint64_t size,
                                       bool steady, zl_err *err);

/* Resident bytes of the mappings inside [base, base + size). */
ZL_NODISCARD zl_status zr_resident(const void *base, uint64_t size, uint64_t *out, zl_err *err);

#endif
