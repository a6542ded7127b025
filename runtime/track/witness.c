#define _DEFAULT_SOURCE
#include "track/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zeroledger/bytes.h"

/* Sums the Rss lines below the mappings that lie in a range. */
typedef struct smaps_sum {
    uint64_t begin;
    uint64_t end;
    bool inside;
    uint64_t bytes;
} smaps_sum;

static void smaps_line(smaps_sum *sum, const char *line)
{
    static const char key[] = "Rss:";
    if (strncmp(line, key, sizeof(key) - 1) == 0) {
        if (sum->inside) {
            /* The file says kB and means KiB. */
            const uint64_t kib = strtoull(line + sizeof(key) - 1, NULL, 10);
            sum->bytes = zl_add(sum->bytes, zl_mul(kib, 1024));
        }
        return;
    }
    char *after;
    const uint64_t from = strtoull(line, &after, 16);
    if (after != line && *after == '-') {
        const uint64_t to = strtoull(after + 1, NULL, 16);
        sum->inside = from >= sum->begin && to <= sum->end;
    }
}

/* Resident bytes of the mappings inside the arena's range. */
static zl_status resident_bytes(const zr_memory *memory, uint64_t *out, zl_err *err)
{
    const int fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return zl_fail(err, ZL_E_RESOURCE, "/proc/self/smaps: %s", strerror(errno));
    }
    const uint64_t begin = (uint64_t)(uintptr_t)memory->base;
    smaps_sum sum = {.begin = begin, .end = zl_add(begin, memory->reserved)};
    char text[8192];
    size_t held = 0;
    ssize_t got;
    while ((got = read(fd, text + held, sizeof(text) - 1 - held)) > 0) {
        held += (size_t)got;
        text[held] = '\0';
        char *line = text;
        for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            smaps_line(&sum, line);
        }
        held = strlen(line);
        if (held == sizeof(text) - 1) { /* a path of absurd length: no number in it */
            held = 0;
        }
        memmove(text, line, held);
    }
    const int failure = errno;
    close(fd);
    if (got < 0) {
        return zl_fail(err, ZL_E_RESOURCE, "/proc/self/smaps: %s", strerror(failure));
    }
    *out = sum.bytes;
    return ZL_OK;
}

static uint64_t heap_bytes(void)
{
    const struct mallinfo2 info = mallinfo2();
    return zl_add((uint64_t)info.uordblks, (uint64_t)info.hblkhd);
}

static uint64_t growth(uint64_t before, uint64_t now)
{
    return now > before ? now - before : 0;
}

zl_status zr_witness_mark(zr_witness *witness, const zr_memory *memory, bool steady, zl_err *err)
{
    const uint64_t heap = heap_bytes(); /* before anything that could disturb it */
    uint64_t resident = 0;
    ZL_TRY(resident_bytes(memory, &resident, err));
    zl_witness *const seen = &witness->seen;
    seen->present = heap > 0; /* a heap that the C library does not count witnesses nothing */
    seen->arena_resident = resident;
    if (!witness->started) {
        witness->started = true;
        witness->first = heap;
    } else if (steady) {
        witness->steady = true;
        seen->outside_steady = zl_max(seen->outside_steady, growth(witness->last, heap));
    } else if (!witness->steady) {
        seen->outside_cold = zl_max(seen->outside_cold, growth(witness->first, heap));
    }
    witness->last = heap;
    return ZL_OK;
}
