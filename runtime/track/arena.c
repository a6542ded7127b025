#include "track/arena.h"

#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"

zl_status zr_arena_init(zr_arena *arena, uint64_t granule, zl_err *err)
{
    const size_t room = 4096;
    zr_memory memory;
    ZL_TRY(zr_memory_reserve(&memory, err));
    zr_block *const block = calloc(room, sizeof(*block));
    if (block == NULL) {
        zr_memory_release(&memory);
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the arena's tables");
    }
    *arena = (zr_arena){.memory = memory, .granule = granule, .block = block, .block_room = room};
    return ZL_OK;
}

void zr_arena_release(zr_arena *arena)
{
    zr_memory_release(&arena->memory);
    free(arena->block);
    *arena = (zr_arena){0};
}

static void block_insert(zr_arena *arena, size_t at, zr_block value)
{
    memmove(&arena->block[at + 1], &arena->block[at], (arena->blocks - at) * sizeof(value));
    arena->block[at] = value;
    arena->blocks++;
}

static void block_remove(zr_arena *arena, size_t at)
{
    arena->blocks--;
    memmove(&arena->block[at], &arena->block[at + 1],
            (arena->blocks - at) * sizeof(arena->block[0]));
}

/* One take adds at most two blocks: the new free tail, and the rest of a split. */
static bool make_room(zr_arena *arena)
{
    if (arena->blocks + 2 <= arena->block_room) {
        return true;
    }
    const size_t room = arena->block_room * 2;
    zr_block *const block = realloc(arena->block, room * sizeof(*block));
    if (block == NULL) {
        return false;
    }
    arena->block = block;
    arena->block_room = room;
    return true;
}

/* Whether the block before a place and the one behind it may be one. */
static bool joins(const zr_arena *arena, uint64_t place)
{
    return arena->wall == 0 || place != arena->wall;
}

/* Makes at least `bytes` accessible, without touching them. False if that cannot be had. */
static bool grow(zr_arena *arena, uint64_t bytes)
{
    const uint64_t front = arena->memory.accessible;
    const uint64_t target = zl_align_up(bytes, ZR_MEMORY_STEP);
    if (target > arena->memory.reserved || !make_room(arena) ||
        !zr_memory_grow(&arena->memory, target - front)) {
        return false;
    }
    const uint64_t more = target - front;
    if (arena->blocks > 0 && !arena->block[arena->blocks - 1].live && joins(arena, front)) {
        arena->block[arena->blocks - 1].size += more;
    } else {
        block_insert(arena, arena->blocks, (zr_block){.offset = front, .size = more});
    }
    return true;
}

static uint64_t end_of(const zr_block *b)
{
    return b->offset + b->size;
}

/* The block for a size between two places, the one at the end last; arena->blocks: none. */
static size_t best_fit(const zr_arena *arena, uint64_t size, uint64_t from, uint64_t to)
{
    size_t best = arena->blocks;
    for (size_t i = 0; i < arena->blocks; i++) {
        const zr_block *const b = &arena->block[i];
        if (b->live || b->size < size || b->offset < from || end_of(b) > to) {
            continue;
        }
        if (best == arena->blocks || (b->size < arena->block[best].size && end_of(b) < to)) {
            best = i;
        }
    }
    return best;
}

static void *hand_out(zr_arena *arena, size_t at, uint64_t size)
{
    const zr_block taken = arena->block[at];
    arena->block[at].live = true;
    if (taken.size > size) {
        arena->block[at].size = size;
        block_insert(arena, at + 1,
                     (zr_block){.offset = taken.offset + size, .size = taken.size - size});
    }
    return arena->memory.base + taken.offset;
}

/* The free block at the end, if there is one behind the wall. */
static uint64_t tail(const zr_arena *arena)
{
    const zr_block *const last = arena->blocks > 0 ? &arena->block[arena->blocks - 1] : NULL;
    return last != NULL && !last->live && last->offset >= arena->wall ? last->size : 0;
}

bool zr_arena_take_behind(zr_arena *arena, uint64_t size, void **out)
{
    size = zl_align_up(size, arena->granule);
    if (zl_poisoned(size) || size == 0 || !make_room(arena)) {
        return false;
    }
    size_t at = best_fit(arena, size, arena->wall, arena->memory.accessible);
    if (at == arena->blocks) {
        if (!grow(arena, zl_add(arena->memory.accessible, zl_sub(size, tail(arena))))) {
            return false;
        }
        at = best_fit(arena, size, arena->wall, arena->memory.accessible);
    }
    *out = hand_out(arena, at, size);
    return true;
}

bool zr_arena_take(zr_arena *arena, uint64_t size, void **out)
{
    const uint64_t granted = zl_align_up(size, arena->granule);
    if (arena->wall != 0 && granted != 0 && !zl_poisoned(granted) && make_room(arena)) {
        const size_t at = best_fit(arena, granted, 0, arena->wall);
        if (at < arena->blocks) {
            *out = hand_out(arena, at, granted);
            return true;
        }
    }
    return zr_arena_take_behind(arena, size, out);
}

void zr_arena_wall(zr_arena *arena)
{
    arena->wall = arena->wall != 0 ? arena->wall : arena->memory.accessible;
}

bool zr_arena_give(zr_arena *arena, const void *p)
{
    const uintptr_t address = (uintptr_t)p;
    const uintptr_t base = (uintptr_t)arena->memory.base;
    if (address < base || address - base >= arena->memory.accessible) {
        return false;
    }
    const uint64_t offset = (uint64_t)(address - base);
    size_t low = 0;
    size_t high = arena->blocks;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (arena->block[middle].offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == arena->blocks || arena->block[low].offset != offset || !arena->block[low].live) {
        return false;
    }
    arena->block[low].live = false;
    if (low + 1 < arena->blocks && !arena->block[low + 1].live &&
        joins(arena, arena->block[low + 1].offset)) {
        arena->block[low].size += arena->block[low + 1].size;
        block_remove(arena, low + 1);
    }
    if (low > 0 && !arena->block[low - 1].live && joins(arena, offset)) {
        arena->block[low - 1].size += arena->block[low].size;
        block_remove(arena, low);
    }
    return true;
}
