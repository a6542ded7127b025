#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "track/memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zeroledger/bytes.h"

/* Holes between blocks never take a multiple of what is live at once, so address space of this
 * many times the machine's memory is not the limit; memory is. */
static const uint64_t reserve_factor = 4;
/* Behind and before the range: aligns the base to a step and keeps other mappings from touching
 * it, so that the arena's pages can be told apart. */
static const uint64_t margin = (uint64_t)4 << 20;
static const uint64_t smallest_reserve = (uint64_t)64 << 20;
/* A NaN in every floating-point type and a negative integer, so that whoever reads a buffer before
 * writing it computes nonsense that shows. */
static const unsigned char poison_byte[2] = {0xf7, 0xff};

uint64_t zr_memory_available(void)
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

void zr_memory_shortage(const zr_memory *memory, char *text, size_t size)
{
    (void)memory;
    (void)snprintf(text, size, "%" PRIu64 " available on this machine", zr_memory_available());
}

static uint64_t machine_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? zl_mul((uint64_t)pages, (uint64_t)page) : smallest_reserve;
}

zl_status zr_memory_reserve(zr_memory *memory, zl_err *err)
{
    uint64_t want = zl_align_up(zl_mul(machine_memory(), reserve_factor), ZR_MEMORY_STEP);
    void *mapping = MAP_FAILED;
    /* A limit on address space makes us ask for less. */
    while (want >= smallest_reserve) {
        mapping = mmap(NULL, (size_t)zl_add(want, margin), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapping != MAP_FAILED) {
            break;
        }
        want = zl_align_up(zl_ceil_div(want, 2), ZR_MEMORY_STEP);
    }
    if (mapping == MAP_FAILED) {
        return zl_fail(
            err, ZL_E_RESOURCE,
            "the system refuses address space for the arena; raise the limit (ulimit -v)");
    }
    const uint64_t start = (uint64_t)(uintptr_t)mapping;
    const uint64_t base = zl_align_up(zl_add(start, 1), ZR_MEMORY_STEP);
    *memory = (zr_memory){
        .base = (unsigned char *)mapping + (base - start),
        .reserved = want,
        .mapping = mapping,
        .mapping_size = (size_t)zl_add(want, margin),
    };
    return ZL_OK;
}

void zr_memory_release(zr_memory *memory)
{
    if (memory->mapping != NULL) {
        munmap(memory->mapping, memory->mapping_size);
    }
    *memory = (zr_memory){0};
}

bool zr_memory_grow(zr_memory *memory, uint64_t more)
{
    if (more > memory->reserved - memory->accessible || more > zr_memory_available() ||
        mprotect(memory->base + memory->accessible, (size_t)more, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    memory->accessible += more;
    return true;
}

void zr_memory_poison(void *p, uint64_t bytes)
{
    unsigned char *const to = p;
    for (uint64_t i = 0; i < bytes; i++) {
        to[i] = poison_byte[i % 2];
    }
}

bool zr_memory_poisoned(const void *p, uint64_t from, uint64_t to)
{
    const unsigned char *const at = p;
    for (uint64_t i = from; i < to; i++) {
        if (at[i] != poison_byte[i % 2]) {
            return false;
        }
    }
    return true;
}
