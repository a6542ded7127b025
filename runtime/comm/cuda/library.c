#define _DEFAULT_SOURCE /* setenv */
#include "comm/cuda/library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/cuda/functions.h"

/* One library a process, loaded once. */
static zr_nccl functions;
static bool loaded;

static bool find(void *library, const char *name, void *place, zl_err *err)
{
    void *const found = dlsym(library, name);
    if (found == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "libnccl.so.2 has no %s; NCCL 2.18 or newer is needed",
                       name) == ZL_OK;
    }
    memcpy(place, &found, sizeof found);
    return true;
}

zl_status zr_nccl_find(const zr_nccl **out, zl_err *err)
{
    *out = &functions;
    if (loaded) {
        return ZL_OK;
    }
    /* Multicast can take a machine's GPUs out of service when a job dies, and is not needed. */
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    void *const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return zl_fail(
            err, ZL_E_RESOURCE,
            "more than one rank needs NCCL, and libnccl.so.2 is not found; install it or "
            "put its folder into LD_LIBRARY_PATH");
    }
#define ZR_NCCL_FIND(name)                                                                         \
    if (!find(library, "nccl" #name, &functions.name, err)) {                                      \
        return ZL_E_RESOURCE;                                                                      \
    }
    ZR_NCCL_FUNCTIONS(ZR_NCCL_FIND)
#undef ZR_NCCL_FIND
    loaded = true;
    return ZL_OK;
}

void zr_nccl_version(char *text, size_t size)
{
    int version = 0;
    if (!loaded || functions.GetVersion(&version) != ncclSuccess) {
        (void)snprintf(text, size, "not loaded");
        return;
    }
    (void)snprintf(text, size, "%d.%d.%d", version / 10000, version % 10000 / 100, version % 100);
}
