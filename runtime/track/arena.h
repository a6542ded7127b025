/* One contiguous range of memory, cut into granules and handed out by best fit.
 *
 * It grows in steps of 2 MiB, only when no free block is large enough, and nothing is given back.
 * A wall may be put where it ends, once: what is taken afterwards still lies before it, so that
 * calls that repeat find the same blocks again, and what is kept from then on lies behind.
 * The same sequence of calls always gives the same offsets. Bookkeeping lives outside the range and
 * grows only with the number of blocks.
 *
 *     zr_arena arena;
 *     ZL_TRY(zr_arena_init(&arena, 256, err));
 *     void *p;
 *     if (zr_arena_take(&arena, 1000, &p)) {     // p is aligned to 256
 *         zr_arena_give(&arena, p);
 *     }
 *     zr_arena_release(&arena);
 */
#ifndef ZR_ARENA_H
#define ZR_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "track/memory.h"
#include "zeroledger/error.h"

typedef struct zr_block {
    uint64_t offset;
    uint64_t size; /* multiple of the granule */
    bool live;
} zr_block;

typedef struct zr_arena {
    zr_memory memory;
    uint64_t granule;
    uint64_t wall;   /* 0: none */
    zr_block *block; /* every block in address order: they cover [0, memory.accessible) */
    size_t blocks;
    size_t block_room;
} zr_arena;

/* Reserves address space. The caller releases. */
ZL_NODISCARD zl_status zr_arena_init(zr_arena *arena, uint64_t granule, zl_err *err);
void zr_arena_release(zr_arena *arena);

/* Smallest free block before the wall that holds size bytes, the lowest one among equals; the one
 * at the end counts as the largest, as it grows where no other is large enough. If nothing before
 * the wall is: behind it. False, and nothing changed, if neither a free block nor the machine's
 * memory is large enough. size > 0. */
ZL_NODISCARD bool zr_arena_take(zr_arena *arena, uint64_t size, void **out);
/* The same behind the wall. */
ZL_NODISCARD bool zr_arena_take_behind(zr_arena *arena, uint64_t size, void **out);
/* Puts the wall where the arena ends, if there is none. */
void zr_arena_wall(zr_arena *arena);
/* False if p is not the start of a live block. */
ZL_NODISCARD bool zr_arena_give(zr_arena *arena, const void *p);

#endif
