/* The second witness: what the machine says about memory, beside what the tracker counted.
 *
 * Two numbers, neither from the tracker. Host: resident pages of the arena, from the kernel; and
 * bytes that the process holds from the C library's heap, which is everything that did not ask the
 * tracker. Looking does not allocate. Where the heap is replaced (sanitizers) the second number is
 * not to be had, and the witness is not present. Device: memory of the arena that is mapped, and
 * everything else that is in use on the GPU, by whomever; looking waits for the GPU.
 */
#ifndef ZR_WITNESS_H
#define ZR_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "track/memory.h"
#include "zeroledger/error.h"
#include "zeroledger/ledger.h"

typedef struct zr_witness {
    bool started;
    bool steady;    /* a steady mark has been seen */
    uint64_t first; /* bytes outside at the first mark */
    uint64_t last;  /* bytes outside at the last mark */
    zl_witness seen;
} zr_witness;

/* Looks now. Growth since the first mark counts as cold until the first steady mark; growth since
 * the last mark counts as steady if `steady` is true. */
ZL_NODISCARD zl_status zr_witness_mark(zr_witness *witness, const zr_memory *memory, bool steady,
                                       zl_err *err);

#endif
