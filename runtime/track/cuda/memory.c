/* Device memory by CUDA's functions for virtual memory: one reserved range, filled from the front
 * with pieces of physical memory, so that addresses stay when the arena grows. The functions are
 * the driver's; the runtime knows where they are, and the program starts without a driver. */
#include "track/memory.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "zeroledger/bytes.h"

/* Holes between blocks never take a multiple of what is live at once. */
static const uint64_t reserve_factor = 4;
/* As on the host: a NaN in every floating-point type and a negative integer. */
static const unsigned char poison_byte[2] = {0xf7, 0xff};
static const unsigned short poison_word = 0xfff7;
/* More than this outside the arena is not ours: a context of 0.6 GiB, as much of NCCL for a few
 * GPUs, modules; measured on an H200 with CUDA 13.0 and NCCL 2.28. */
static const uint64_t own_overhead = (uint64_t)3 << 30;
enum { PIECE = 4096 }; /* bytes on the host at a time */

/* A function of the driver as it was in CUDA 12.0; NULL if this driver has none. */
static void *driver_function(const char *name)
{
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    if (cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result) !=
        cudaSuccess) {
        return NULL;
    }
    return result == cudaDriverEntryPointSuccess ? found : NULL;
}

typedef struct driver {
    __typeof__(&cuMemAddressReserve) reserve;
    __typeof__(&cuMemAddressFree) release;
    __typeof__(&cuMemCreate) create;
    __typeof__(&cuMemRelease) drop;
    __typeof__(&cuMemMap) map;
    __typeof__(&cuMemUnmap) unmap;
    __typeof__(&cuMemSetAccess) allow;
    __typeof__(&cuMemsetD16) fill;
} driver;

/* False if this driver lacks one of them: then it is older than virtual memory. */
static bool find_driver(driver *out)
{
    const struct {
        const char *name;
        void *place;
    } wanted[] = {
        {"cuMemAddressReserve", &out->reserve},
        {"cuMemAddressFree", &out->release},
        {"cuMemCreate", &out->create},
        {"cuMemRelease", &out->drop},
        {"cuMemMap", &out->map},
        {"cuMemUnmap", &out->unmap},
        {"cuMemSetAccess", &out->allow},
        {"cuMemsetD16", &out->fill},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *const found = driver_function(wanted[i].name);
        if (found == NULL) {
            return false;
        }
        memcpy(wanted[i].place, &found, sizeof found);
    }
    return true;
}

static CUmemAllocationProp kind_of_memory(int device)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
}

uint64_t zr_memory_available(void)
{
    size_t available = 0;
    size_t total = 0;
    return cudaMemGetInfo(&available, &total) == cudaSuccess ? (uint64_t)available : UINT64_MAX;
}

void zr_memory_shortage(const zr_memory *memory, char *text, size_t size)
{
    size_t available = 0;
    size_t total = 0;
    if (cudaMemGetInfo(&available, &total) != cudaSuccess) {
        (void)snprintf(text, size, "and the GPU does not say what is free");
        return;
    }
    const uint64_t used = (uint64_t)total - (uint64_t)available;
    const uint64_t outside = zl_sub(used, zl_min(used, memory->accessible));
    (void)snprintf(text, size,
                   "%zu of the GPU's %zu are free, %" PRIu64 " are this run's buffers%s", available,
                   total, memory->accessible,
                   outside > own_overhead ? "; another process uses the GPU, see nvidia-smi" : "");
}

zl_status zr_memory_reserve(zr_memory *memory, zl_err *err)
{
    driver d;
    size_t available = 0;
    size_t total = 0;
    CUdeviceptr base = 0;
    if (!find_driver(&d)) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "the NVIDIA driver has no virtual memory functions; update it");
    }
    if (cudaMemGetInfo(&available, &total) != cudaSuccess) {
        return zl_fail(err, ZL_E_RESOURCE, "the GPU does not say how much memory it has");
    }
    const uint64_t want = zl_align_up(zl_mul((uint64_t)total, reserve_factor), ZR_MEMORY_STEP);
    if (d.reserve(&base, (size_t)want, (size_t)ZR_MEMORY_STEP, 0, 0) != CUDA_SUCCESS) {
        return zl_fail(err, ZL_E_RESOURCE, "the GPU refuses address space for the arena");
    }
    *memory = (zr_memory){
        .base = (unsigned char *)(uintptr_t)base, /* a device address */
        .reserved = want,
        .mapping = (void *)(uintptr_t)base,
        .mapping_size = (size_t)want,
    };
    return ZL_OK;
}

void zr_memory_release(zr_memory *memory)
{
    driver d;
    if (memory->mapping != NULL && find_driver(&d)) {
        const CUdeviceptr base = (CUdeviceptr)(uintptr_t)memory->mapping;
        (void)cudaDeviceSynchronize();
        if (memory->accessible > 0) {
            (void)d.unmap(base, (size_t)memory->accessible);
        }
        (void)d.release(base, memory->mapping_size);
    }
    *memory = (zr_memory){0};
}

/* The physical piece lives as long as it is mapped. */
static bool map_piece(const driver *d, int device, CUdeviceptr at, uint64_t bytes)
{
    const CUmemAllocationProp kind = kind_of_memory(device);
    const CUmemAccessDesc access = {.location = kind.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle piece;
    if (d->create(&piece, (size_t)bytes, &kind, 0) != CUDA_SUCCESS) {
        return false;
    }
    const bool mapped = d->map(at, (size_t)bytes, 0, piece, 0) == CUDA_SUCCESS;
    (void)d->drop(piece);
    if (mapped && d->allow(at, (size_t)bytes, &access, 1) != CUDA_SUCCESS) {
        (void)d->unmap(at, (size_t)bytes);
        return false;
    }
    return mapped;
}

bool zr_memory_grow(zr_memory *memory, uint64_t more)
{
    driver d;
    int device = 0;
    if (more > memory->reserved - memory->accessible || more > zr_memory_available() ||
        !find_driver(&d) || cudaGetDevice(&device) != cudaSuccess ||
        !map_piece(&d, device, (CUdeviceptr)(uintptr_t)(memory->base + memory->accessible), more)) {
        return false;
    }
    memory->accessible += more;
    return true;
}

void zr_memory_poison(void *p, uint64_t bytes)
{
    driver d;
    if (find_driver(&d)) {
        (void)cudaDeviceSynchronize();
        (void)d.fill((CUdeviceptr)(uintptr_t)p, poison_word, (size_t)(bytes / 2));
        (void)cudaDeviceSynchronize();
    }
}

bool zr_memory_poisoned(const void *p, uint64_t from, uint64_t to)
{
    unsigned char piece[PIECE];
    (void)cudaDeviceSynchronize();
    for (uint64_t at = from; at < to;) {
        const uint64_t count = zl_min(to - at, PIECE);
        if (cudaMemcpy(piece, (const unsigned char *)p + at, (size_t)count,
                       cudaMemcpyDeviceToHost) != cudaSuccess) {
            return false;
        }
        for (uint64_t i = 0; i < count; i++) {
            if (piece[i] != poison_byte[(at + i) % 2]) {
                return false;
            }
        }
        at += count;
    }
    return true;
}
