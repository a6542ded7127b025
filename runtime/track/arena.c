#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "track/arena.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zeroledger/bytes.h"

static const uint64_t grow_step = (uint64_t)2 << 20;
/* Holes between blocks never take a multiple of what is live at once, so address space of this
 * many times the machine's memory is not the limit; memory is. */
static const uint64_t reserve_factor = 4;
/* Behind and before the range: aligns the base to a step and keeps other mappings from touching
 * it, so that the arena's pages can be told apart. */
static const uint64_t margin = (uint64_t)4 << 20;
static const uint64_t smallest_reserve = (uint64_t)64 << 20;

uint64_t zr_machine_available(void)
{
    char text[2048];
    const int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return UINT64_MAX;
    }
    const ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got <= 0) {
        return UINT64_MAX;
    }
    text[got] = '\0';
    static const char key[] = "MemAvailable:";
    const char *const line = strstr(text, key);
    if (line == NULL) {
        return UINT64_MAX;
    }
    return zl_mul(strtoull(line + sizeof(key) - 1, NULL, 10), 1024); /* the file says kB: KiB */
}

static uint64_t machine_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? zl_mul((uint64_t)pages, (uint64_t)page) : smallest_reserve;
}

zl_status zr_arena_init(zr_arena *arena, uint64_t granule, zl_err *err)
{
    uint64_t want = zl_align_up(zl_mul(machine_memory(), reserve_factor), grow_step);
    void *mapping = MAP_FAILED;
    /* A limit on address space makes us ask for less. */
    while (want >= smallest_reserve) {
        mapping = mmap(NULL, (size_t)zl_add(want, margin), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapping != MAP_FAILED) {
            break;
        }
        want = zl_align_up(zl_ceil_div(want, 2), grow_step);
    }
    const size_t room = 4096;
    zr_block *const block = calloc(room, sizeof(*block));
    if (mapping == MAP_FAILED || block == NULL) {
        free(block);
        if (mapping != MAP_FAILED) {
            munmap(mapping, (size_t)zl_add(want, margin));
        }
        return zl_fail(
            err, ZL_E_RESOURCE,
            "the system refuses address space for the arena; raise the limit (ulimit -v)");
    }
    const uint64_t start = (uint64_t)(uintptr_t)mapping;
    const uint64_t base = zl_align_up(zl_add(start, 1), grow_step);
    *arena = (zr_arena){
        .base = (unsigned char *)mapping + (base - start),
        .granule = granule,
        .reserved = want,
        .block = block,
        .block_room = room,
        .mapping = mapping,
        .mapping_size = (size_t)zl_add(want, margin),
    };
    return ZL_OK;
}

void zr_arena_release(zr_arena *arena)
{
    if (arena->mapping != NULL) {
        munmap(arena->mapping, arena->mapping_size);
    }
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

bool zr_arena_reserve(zr_arena *arena, uint64_t bytes)
{
    const uint64_t target = zl_align_up(bytes, grow_step);
    if (target <= arena->accessible) {
        return true;
    }
    if (target > arena->reserved || !make_room(arena)) {
        return false;
    }
    const uint64_t more = target - arena->accessible;
    if (more > zr_machine_available() ||
        mprotect(arena->base + arena->accessible, (size_t)more, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    if (arena->blocks > 0 && !arena->block[arena->blocks - 1].live) {
        arena->block[arena->blocks - 1].size += more;
    } else {
        block_insert(arena, arena->blocks, (zr_block){.offset = arena->accessible, .size = more});
    }
    arena->accessible = target;
    return true;
}

static bool best_fit(const zr_arena *arena, uint64_t size, size_t *out)
{
    size_t best = arena->blocks;
    for (size_t i = 0; i < arena->blocks; i++) {
        const zr_block *const b = &arena->block[i];
        if (!b->live && b->size >= size &&
            (best == arena->blocks || b->size < arena->block[best].size)) {
            best = i;
        }
    }
    *out = best;
    return best < arena->blocks;
}

bool zr_arena_take(zr_arena *arena, uint64_t size, void **out)
{
    size = zl_align_up(size, arena->granule);
    if (zl_poisoned(size) || size == 0 || !make_room(arena)) {
        return false;
    }
    size_t at;
    if (!best_fit(arena, size, &at)) {
        const zr_block *const last = arena->blocks > 0 ? &arena->block[arena->blocks - 1] : NULL;
        const uint64_t tail = last != NULL && !last->live ? last->size : 0;
        if (!zr_arena_reserve(arena, zl_add(arena->accessible, zl_sub(size, tail))) ||
            !best_fit(arena, size, &at)) {
            return false;
        }
    }
    const zr_block taken = arena->block[at];
    arena->block[at].live = true;
    if (taken.size > size) {
        arena->block[at].size = size;
        block_insert(arena, at + 1,
                     (zr_block){.offset = taken.offset + size, .size = taken.size - size});
    }
    *out = arena->base + taken.offset;
    return true;
}

bool zr_arena_give(zr_arena *arena, const void *p)
{
    const uintptr_t address = (uintptr_t)p;
    const uintptr_t base = (uintptr_t)arena->base;
    if (address < base || address - base >= arena->accessible) {
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
    if (low + 1 < arena->blocks && !arena->block[low + 1].live) {
        arena->block[low].size += arena->block[low + 1].size;
        block_remove(arena, low + 1);
    }
    if (low > 0 && !arena->block[low - 1].live) {
        arena->block[low - 1].size += arena->block[low].size;
        block_remove(arena, low);
    }
    return true;
}

uint64_t zr_arena_live_end(const zr_arena *arena)
{
    for (size_t i = arena->blocks; i > 0; i--) {
        const zr_block *const b = &arena->block[i - 1];
        if (b->live) {
            return zl_add(b->offset, b->size);
        }
    }
    return 0;
}
