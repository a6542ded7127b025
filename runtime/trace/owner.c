#define _GNU_SOURCE /* dladdr */
#include "trace/owner.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { FRAMES = 48, SITES = 4096 };

/* A place that was looked up before; places repeat, and looking up is slow in large libraries. */
typedef struct site {
    const void *address;
    bool passes_on;
    uint32_t owner;
} site;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char owner_name[ZR_OWNERS_MAX][ZR_OWNER_NAME];
static uint32_t owners;
static site sites[SITES];

static const char unknown[] = "(unknown)";

static const char *base_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool zr_owner_passes_on(const char *path)
{
    static const char *const prefixes[] = {
        "libcuda.so",    "libcudart.so", "libcudart-", "libcupti.so", "libnvidia-",
        "libzltrace.so", "libasan.so",   "libtsan.so"}; /* sanitizers stand before backtrace */
    const char *const name = base_name(path);
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The last id is for all that find no place. */
static uint32_t id_of(const char *name)
{
    uint32_t id = 0;
    while (id < owners && strncmp(owner_name[id], name, ZR_OWNER_NAME - 1) != 0) {
        id++;
    }
    if (id < owners) {
        return id;
    }
    if (owners == ZR_OWNERS_MAX - 1) {
        name = unknown;
    }
    if (owners < ZR_OWNERS_MAX) {
        (void)snprintf(owner_name[owners], ZR_OWNER_NAME, "%s", name);
        owners++;
    }
    return owners - 1;
}

static site look_up(const void *address)
{
    site *const known = &sites[((uintptr_t)address >> 2) % SITES];
    if (known->address == address && address != NULL) {
        return *known;
    }
    Dl_info info;
    const char *const file = dladdr(address, &info) != 0 ? info.dli_fname : NULL;
    *known = (site){.address = address, .passes_on = true};
    if (file != NULL && !zr_owner_passes_on(file)) {
        known->passes_on = false;
        known->owner = id_of(base_name(file));
    }
    return *known;
}

uint32_t zr_owner_of(void *const *frame, size_t frames, const char **name, bool *fresh)
{
    (void)pthread_mutex_lock(&lock);
    const uint32_t before = owners;
    site found = {.passes_on = true};
    for (size_t i = 0; i < frames && found.passes_on; i++) {
        found = look_up(frame[i]);
    }
    const uint32_t id = found.passes_on ? id_of(unknown) : found.owner;
    *name = owner_name[id];
    *fresh = owners > before;
    (void)pthread_mutex_unlock(&lock);
    return id;
}

uint32_t zr_owner_of_caller(const char **name, bool *fresh)
{
    void *frame[FRAMES];
    const int frames = backtrace(frame, FRAMES);
    return zr_owner_of(frame, frames > 0 ? (size_t)frames : 0, name, fresh);
}

void zr_owner_prepare(void)
{
    void *frame[1];
    (void)backtrace(frame, 1);
}
