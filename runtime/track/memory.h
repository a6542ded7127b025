/* The system's side of the arena: one range of address space, of which a growing front is memory.
 * Host: pages of this process. Device: memory of the GPU, mapped piece by piece into one range.
 *
 *     zr_memory memory;
 *     ZL_TRY(zr_memory_reserve(&memory, err));
 *     if (zr_memory_grow(&memory, 2 MiB)) {      // base[0] to base[2 MiB - 1] are there
 *     }
 *     zr_memory_release(&memory);
 *
 * Device memory is not for the host to touch; the functions here that look or write can do it.
 */
#ifndef ZR_MEMORY_H
#define ZR_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"

/* Memory grows in steps of this: the smallest piece that a GPU maps. */
#define ZR_MEMORY_STEP ((uint64_t)2 << 20)

typedef struct zr_memory {
    unsigned char *base; /* aligned to a step */
    uint64_t reserved;   /* bytes of address space behind base */
    uint64_t accessible; /* bytes of it that are memory; never shrinks */
    void *mapping;       /* the system's own idea of the range */
    size_t mapping_size;
} zr_memory;

/* Address space only. The caller releases. */
ZL_NODISCARD zl_status zr_memory_reserve(zr_memory *memory, zl_err *err);
void zr_memory_release(zr_memory *memory);

/* Makes `more` bytes behind the front accessible. `more` is a multiple of the step. False, and
 * nothing changed, if the system does not give them. */
bool zr_memory_grow(zr_memory *memory, uint64_t more);

/* Memory that the system could still give, in bytes; UINT64_MAX if it does not say. */
uint64_t zr_memory_available(void);
/* Why it does not give more, as the end of a sentence: what is free of how much, and whether others
 * hold a part of it. */
void zr_memory_shortage(const zr_memory *memory, char *text, size_t size);

/* Fills p with a pattern that is a NaN in every floating-point type and a negative integer. On a
 * device it waits for all that runs, before and after. p is aligned to 256, bytes a multiple. */
void zr_memory_poison(void *p, uint64_t bytes);
/* Whether bytes [from, to) of p still have that pattern. */
bool zr_memory_poisoned(const void *p, uint64_t from, uint64_t to);

#endif
