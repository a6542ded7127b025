/* The host's kernels as a module: memory is the process's own. */
#include <stdlib.h>
#include <string.h>

#include "conform_module.h"

struct conform_device {
    unsigned char work[ZR_HOST_GEMM_WORK_BYTES];
};

static zl_status open_host(conform_device **device, char *why, size_t size)
{
    *device = malloc(sizeof **device);
    if (*device == NULL) {
        snprintf(why, size, "out of memory");
        return ZL_E_RESOURCE;
    }
    return ZL_OK;
}

static void close_host(conform_device *device)
{
    free(device);
}

static zr_stream *stream(conform_device *device)
{
    (void)device;
    return NULL;
}

static void *work(conform_device *device, uint64_t *bytes)
{
    *bytes = sizeof device->work;
    return device->work;
}

static void *get(conform_device *device, size_t bytes)
{
    (void)device;
    return malloc(bytes);
}

static void put(conform_device *device, void *memory)
{
    (void)device;
    free(memory);
}

static bool copy(conform_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
    return true;
}

static void describe(conform_device *device, FILE *to)
{
    (void)device;
    fprintf(to, "    \"kind\": \"host\"");
}

const conform_module *conform_module_get(void)
{
    static conform_module module = {
        .name = "host",
        .open = open_host,
        .close = close_host,
        .stream = stream,
        .work = work,
        .get = get,
        .put = put,
        .write = copy,
        .read = copy,
        .describe = describe,
    };
    module.kernels = conform_kernels_get();
    return &module;
}
