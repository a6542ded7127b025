/* libzltrace.so: CUPTI calls it at every function of the driver that takes or gives back memory,
 * and it writes what happened into the recording. What that amounts to is worked out later, from
 * the recording, by `zl trace`. The driver loads it when CUDA starts, as CUDA_INJECTION64_PATH
 * says. */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cupti.h>

#include "trace/cuda/state.h"
#include "trace/owner.h"
#include "trace/recorder.h"
#include "zeroledger/bytes.h"

#define ZR_EXPORT __attribute__((visibility("default")))

enum { CALL_NAME = 48, DEVICE_NAME = 16 };

/* One call of the driver, at its begin or at its end. */
typedef struct call {
    const CUpti_CallbackData *data;
    const void *params;
    CUresult result; /* at the end */
} call;

typedef struct hook {
    CUpti_driver_api_trace_cbid id;
    void (*begin)(const call *c); /* NULL: nothing */
    void (*end)(const call *c);
    bool changes; /* what is in use */
} hook;

/* The recording's word for the function: without the version of its interface. */
static const char *call_name(const call *c, char name[CALL_NAME])
{
    (void)snprintf(name, CALL_NAME, "%.*s", (int)strcspn(c->data->functionName, "_"),
                   c->data->functionName);
    return name;
}

static const char *device_name(int device, char name[DEVICE_NAME])
{
    (void)snprintf(name, DEVICE_NAME, device < 0 ? "-" : "%d", device);
    return name;
}

static uint32_t owner(void)
{
    const char *name;
    bool fresh;
    const uint32_t id = zr_owner_of_caller(&name, &fresh);
    if (fresh) {
        zr_recorder_line(&zr_recording, "owner %" PRIu32 " %s", id, name);
    }
    return id;
}

static uintptr_t context_of(const call *c)
{
    return (uintptr_t)c->data->context;
}

static void record_alloc(const call *c, int device, uintptr_t key, uint64_t bytes)
{
    char name[CALL_NAME];
    char dev[DEVICE_NAME];
    const uint32_t who = owner();
    if (c->result != CUDA_SUCCESS) {
        zr_recorder_line(&zr_recording, "fail %" PRIu64 " %s %" PRIu32 " %s %" PRIu64 " %d",
                         zr_recorder_now(), device_name(device, dev), who, call_name(c, name),
                         bytes, (int)c->result);
    } else if (key != 0) {
        zr_recorder_line(&zr_recording,
                         "alloc %" PRIu64 " %s %" PRIxPTR " %" PRIu32 " %s %" PRIxPTR " %" PRIu64,
                         zr_recorder_now(), device_name(device, dev), context_of(c), who,
                         call_name(c, name), key, bytes);
    }
}

static void record_free(uintptr_t key)
{
    if (key != 0) {
        zr_recorder_line(&zr_recording, "free %" PRIu64 " %" PRIxPTR, zr_recorder_now(), key);
    }
}

/* Where a call failed, what its pointers point to means nothing. */
static uintptr_t address_at(const call *c, const CUdeviceptr *place)
{
    return c->result == CUDA_SUCCESS ? (uintptr_t)*place : 0;
}

static uintptr_t pointer_at(const call *c, void *const *place)
{
    return c->result == CUDA_SUCCESS ? (uintptr_t)*place : 0;
}

static void end_alloc(const call *c)
{
    const cuMemAlloc_v2_params *const p = c->params;
    record_alloc(c, zr_device_of(c->data->context), address_at(c, p->dptr), p->bytesize);
}

static void end_pitch(const call *c)
{
    const cuMemAllocPitch_v2_params *const p = c->params;
    const size_t pitch = c->result == CUDA_SUCCESS ? *p->pPitch : p->WidthInBytes;
    record_alloc(c, zr_device_of(c->data->context), address_at(c, p->dptr),
                 zl_mul(pitch, p->Height));
}

/* Nobody says where managed memory is. */
static void end_managed(const call *c)
{
    const cuMemAllocManaged_params *const p = c->params;
    record_alloc(c, -1, address_at(c, p->dptr), p->bytesize);
}

static void end_host(const call *c)
{
    const cuMemHostAlloc_params *const p = c->params;
    record_alloc(c, -1, pointer_at(c, p->pp), p->bytesize);
}

static void end_host_old(const call *c)
{
    const cuMemAllocHost_v2_params *const p = c->params;
    record_alloc(c, -1, pointer_at(c, p->pp), p->bytesize);
}

static void end_register(const call *c)
{
    const cuMemHostRegister_v2_params *const p = c->params;
    record_alloc(c, -1, (uintptr_t)p->p, p->bytesize);
}

/* Memory that goes is recorded before it is gone: afterwards its address may be another's. */
static void begin_free(const call *c)
{
    record_free((uintptr_t)((const cuMemFree_v2_params *)c->params)->dptr);
}

static void begin_free_host(const call *c)
{
    record_free((uintptr_t)((const cuMemFreeHost_params *)c->params)->p);
}

static void begin_unregister(const call *c)
{
    record_free((uintptr_t)((const cuMemHostUnregister_params *)c->params)->p);
}

static void begin_free_async(const call *c)
{
    record_free((uintptr_t)((const cuMemFreeAsync_params *)c->params)->dptr);
}

/* In a capture the call makes a node of a graph, and takes nothing. */
static bool captured(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static void end_alloc_async(const call *c)
{
    const cuMemAllocAsync_params *const p = c->params;
    const int device = zr_device_of(c->data->context);
    CUmemoryPool pool = NULL;
    if (captured(p->hStream)) {
        return;
    }
    record_alloc(c, device, address_at(c, p->dptr), p->bytesize);
    if (cuDeviceGetMemPool(&pool, (CUdevice)device) == CUDA_SUCCESS) {
        zr_pool_seen(pool, device);
    }
    zr_pools_look(c->data->context, device);
}

static void end_alloc_pool(const call *c)
{
    const cuMemAllocFromPoolAsync_params *const p = c->params;
    const int device = zr_device_of(c->data->context);
    if (captured(p->hStream)) {
        return;
    }
    record_alloc(c, device, address_at(c, p->dptr), p->bytesize);
    zr_pool_seen(p->pool, device);
    zr_pools_look(c->data->context, device);
}

static void begin_pool_destroy(const call *c)
{
    zr_pool_goes(((const cuMemPoolDestroy_params *)c->params)->pool);
}

static void end_create(const call *c)
{
    const cuMemCreate_params *const p = c->params;
    char name[CALL_NAME];
    char dev[DEVICE_NAME];
    const bool here = p->prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    const int device = here ? p->prop->location.id : -1;
    if (c->result != CUDA_SUCCESS) {
        record_alloc(c, device, 0, p->size);
        return;
    }
    zr_recorder_line(&zr_recording, "create %" PRIu64 " %s %" PRIu32 " %s %llx %zu",
                     zr_recorder_now(), device_name(device, dev), owner(), call_name(c, name),
                     *p->handle, p->size);
}

/* The bytes are another process's: a row without any, so that its release is no surprise. */
static void end_import(const call *c)
{
    const cuMemImportFromShareableHandle_params *const p = c->params;
    char name[CALL_NAME];
    if (c->result == CUDA_SUCCESS) {
        zr_recorder_line(&zr_recording, "create %" PRIu64 " - %" PRIu32 " %s %llx 0",
                         zr_recorder_now(), owner(), call_name(c, name), *p->handle);
    }
}

static void end_retain(const call *c)
{
    const cuMemRetainAllocationHandle_params *const p = c->params;
    if (c->result == CUDA_SUCCESS) {
        zr_recorder_line(&zr_recording, "retain %" PRIu64 " %llx %" PRIxPTR, zr_recorder_now(),
                         *p->handle, (uintptr_t)p->addr);
    }
}

static void begin_release(const call *c)
{
    zr_recorder_line(&zr_recording, "release %" PRIu64 " %llx", zr_recorder_now(),
                     ((const cuMemRelease_params *)c->params)->handle);
}

static void end_map(const call *c)
{
    const cuMemMap_params *const p = c->params;
    if (c->result == CUDA_SUCCESS) {
        zr_recorder_line(&zr_recording, "map %" PRIu64 " %llx %zu %llx", zr_recorder_now(), p->ptr,
                         p->size, p->handle);
    }
}

static void begin_unmap(const call *c)
{
    const cuMemUnmap_params *const p = c->params;
    zr_recorder_line(&zr_recording, "unmap %" PRIu64 " %llx %zu", zr_recorder_now(), p->ptr,
                     p->size);
}

/* Modules and arrays: how many bytes they take, only the device can say. */
static void begin_load(const call *c)
{
    size_t available = 0;
    size_t total = 0;
    if (c->data->context != NULL && zr_device_look(c->data->context, &available, &total)) {
        zr_recorder_line(&zr_recording, "before %" PRIu64 " %" PRIu32 " %d %zu", zr_recorder_now(),
                         c->data->correlationId, zr_device_of(c->data->context), available);
    }
}

/* The first parameter of all these functions points to where the new handle goes. */
static void end_load(const call *c)
{
    void *const *const *const p = c->params;
    char name[CALL_NAME];
    size_t available = 0;
    size_t total = 0;
    if (c->result == CUDA_SUCCESS && c->data->context != NULL &&
        zr_device_look(c->data->context, &available, &total)) {
        zr_recorder_line(&zr_recording,
                         "load %" PRIu64 " %" PRIu32 " %d %" PRIxPTR " %" PRIu32 " %s %" PRIxPTR
                         " %zu",
                         zr_recorder_now(), c->data->correlationId, zr_device_of(c->data->context),
                         context_of(c), owner(), call_name(c, name), (uintptr_t) * *p, available);
    }
}

static void begin_unload(const call *c)
{
    void *const *const p = c->params;
    zr_recorder_line(&zr_recording, "unload %" PRIu64 " %" PRIxPTR, zr_recorder_now(),
                     (uintptr_t)*p);
}

static void begin_context_end(const call *c)
{
    (void)c;
    zr_mark("context ends", true, false);
}

static void end_context(const call *c)
{
    const cuDevicePrimaryCtxRetain_params *const p = c->params; /* pctx comes first in all */
    if (c->result == CUDA_SUCCESS) {
        zr_context_look(*p->pctx);
    }
}

static void end_wait(const call *c)
{
    if (c->result == CUDA_SUCCESS) {
        zr_mark_rest(c->data->context);
    }
}

static void begin_ask(const call *c)
{
    *c->data->correlationData = zr_changes();
}

static void end_ask(const call *c)
{
    const cuMemGetInfo_v2_params *const p = c->params;
    if (c->result == CUDA_SUCCESS && p->free != NULL && p->total != NULL) {
        const zr_told told = {
            .available = *p->free, .total = *p->total, .changes = *c->data->correlationData};
        zr_mark_told(c->data->context, &told);
    }
}

#define ID(name) CUPTI_DRIVER_TRACE_CBID_##name
static const hook hooks[] = {
    {ID(cuMemAlloc_v2), NULL, end_alloc, true},
    {ID(cuMemAllocPitch_v2), NULL, end_pitch, true},
    {ID(cuMemAllocManaged), NULL, end_managed, true},
    {ID(cuMemHostAlloc), NULL, end_host, false},
    {ID(cuMemHostAlloc_v2), NULL, end_host, false},
    {ID(cuMemAllocHost_v2), NULL, end_host_old, false},
    {ID(cuMemHostRegister), NULL, end_register, false},
    {ID(cuMemHostRegister_v2), NULL, end_register, false},
    {ID(cuMemFree_v2), begin_free, NULL, true},
    {ID(cuMemFreeHost), begin_free_host, NULL, false},
    {ID(cuMemHostUnregister), begin_unregister, NULL, false},
    {ID(cuMemAllocAsync), NULL, end_alloc_async, true},
    {ID(cuMemAllocAsync_ptsz), NULL, end_alloc_async, true},
    {ID(cuMemAllocFromPoolAsync), NULL, end_alloc_pool, true},
    {ID(cuMemAllocFromPoolAsync_ptsz), NULL, end_alloc_pool, true},
    {ID(cuMemFreeAsync), begin_free_async, NULL, true},
    {ID(cuMemFreeAsync_ptsz), begin_free_async, NULL, true},
    {ID(cuMemPoolDestroy), begin_pool_destroy, NULL, true},
    {ID(cuMemPoolTrimTo), NULL, NULL, true},
    {ID(cuMemCreate), NULL, end_create, true},
    {ID(cuMemImportFromShareableHandle), NULL, end_import, false},
    {ID(cuMemRetainAllocationHandle), NULL, end_retain, false},
    {ID(cuMemRelease), begin_release, NULL, true},
    {ID(cuMemMap), NULL, end_map, false},
    {ID(cuMemUnmap), begin_unmap, NULL, true},
    {ID(cuArrayCreate_v2), begin_load, end_load, true},
    {ID(cuArray3DCreate_v2), begin_load, end_load, true},
    {ID(cuMipmappedArrayCreate), begin_load, end_load, true},
    {ID(cuArrayDestroy), begin_unload, NULL, true},
    {ID(cuMipmappedArrayDestroy), begin_unload, NULL, true},
    {ID(cuModuleLoad), begin_load, end_load, true},
    {ID(cuModuleLoadData), begin_load, end_load, true},
    {ID(cuModuleLoadDataEx), begin_load, end_load, true},
    {ID(cuModuleLoadFatBinary), begin_load, end_load, true},
    {ID(cuModuleUnload), begin_unload, NULL, true},
    {ID(cuLibraryLoadData), begin_load, end_load, true},
    {ID(cuLibraryLoadFromFile), begin_load, end_load, true},
    {ID(cuLibraryUnload), begin_unload, NULL, true},
    {ID(cuCtxCreate_v2), NULL, end_context, true},
    {ID(cuCtxCreate_v3), NULL, end_context, true},
    {ID(cuCtxCreate_v4), NULL, end_context, true},
    {ID(cuDevicePrimaryCtxRetain), NULL, end_context, true},
    {ID(cuCtxDestroy_v2), begin_context_end, NULL, false},
    {ID(cuDevicePrimaryCtxRelease_v2), begin_context_end, NULL, false},
    {ID(cuDevicePrimaryCtxReset_v2), begin_context_end, NULL, false},
    {ID(cuCtxSynchronize), NULL, end_wait, false},
    {ID(cuCtxSynchronize_v2), NULL, end_wait, false},
    {ID(cuStreamSynchronize), NULL, end_wait, false},
    {ID(cuStreamSynchronize_ptsz), NULL, end_wait, false},
    {ID(cuEventSynchronize), NULL, end_wait, false},
    {ID(cuMemGetInfo_v2), begin_ask, end_ask, false},
};
#undef ID

enum { HOOKS = sizeof(hooks) / sizeof(hooks[0]) };

/* Of the function with that number; NULL: we did not ask for it. */
static const hook *hook_of[CUPTI_DRIVER_TRACE_CBID_SIZE];

static void at_driver(CUpti_CallbackId id, const CUpti_CallbackData *data)
{
    const hook *const h = id < CUPTI_DRIVER_TRACE_CBID_SIZE ? hook_of[id] : NULL;
    if (h == NULL) {
        return;
    }
    call c = {.data = data, .params = data->functionParams};
    if (data->callbackSite == CUPTI_API_ENTER) {
        zr_context_look(data->context);
        if (h->changes) {
            zr_change_begins();
        }
        if (h->begin != NULL) {
            h->begin(&c);
        }
        return;
    }
    c.result = *(const CUresult *)data->functionReturnValue;
    if (h->end != NULL) {
        h->end(&c);
    }
    if (h->changes) {
        zr_change_ends();
    }
}

static void at_resource(CUpti_CallbackId id, const CUpti_ResourceData *data)
{
    if (id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED) {
        zr_context_made(data->context);
    } else if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING) {
        zr_context_goes(data->context);
    }
}

static void CUPTIAPI at_callback(void *nothing, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                 const void *data)
{
    (void)nothing;
    if (zr_inside) {
        return;
    }
    const int kept = errno;
    zr_inside = true;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
        at_driver(id, data);
    } else if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
        at_resource(id, data);
    }
    zr_inside = false;
    errno = kept;
}

static void at_exit(void)
{
    if (!zr_inside && zr_recorder_ours(&zr_recording)) {
        zr_inside = true;
        zr_mark("exit", true, false);
        zr_recorder_end(&zr_recording);
    }
}

/* NULL if it went well. */
static const char *subscribe(void)
{
    CUpti_SubscriberHandle subscriber;
    const char *reason = NULL;
    CUptiResult result = cuptiSubscribe(&subscriber, (CUpti_CallbackFunc)at_callback, NULL);
    for (size_t i = 0; i < HOOKS && result == CUPTI_SUCCESS; i++) {
        hook_of[hooks[i].id] = &hooks[i];
        result = cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, hooks[i].id);
    }
    const CUpti_CallbackId contexts[] = {CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
                                         CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING};
    for (size_t i = 0; i < 2 && result == CUPTI_SUCCESS; i++) {
        result = cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, contexts[i]);
    }
    if (result == CUPTI_SUCCESS) {
        return NULL;
    }
    return cuptiGetResultString(result, &reason) == CUPTI_SUCCESS ? reason : "CUPTI fails";
}

/* The driver calls it, by this name, when CUDA starts. Whatever fails, the program goes on. */
ZR_EXPORT int InitializeInjection(void);
int InitializeInjection(void)
{
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    int version = 0;
    const char *const folder = getenv("ZLTRACE_DIR");
    if (atomic_flag_test_and_set(&begun)) {
        return 1;
    }
    if (!zr_recorder_open(&zr_recording, folder != NULL ? folder : ".")) {
        (void)fprintf(stderr, "zltrace: %s: no recording can be written there: %s\n",
                      folder != NULL ? folder : ".", strerror(errno));
        return 1;
    }
    zr_owner_prepare();
    if (cuDriverGetVersion(&version) == CUDA_SUCCESS) {
        zr_recorder_line(&zr_recording, "driver %d", version);
    }
    const char *const failure = subscribe();
    if (failure != NULL) {
        zr_recorder_line(&zr_recording, "broken %s", failure);
    } else if (atexit(at_exit) != 0) {
        zr_recorder_line(&zr_recording, "broken atexit fails");
    }
    return 1;
}

/* See zltrace.h. */
ZR_EXPORT void zltrace_mark(const char *name);
void zltrace_mark(const char *name)
{
    if (!zr_inside && zr_recorder_ours(&zr_recording)) {
        const int kept = errno;
        zr_inside = true;
        zr_mark(name != NULL ? name : "", false, true);
        zr_inside = false;
        errno = kept;
    }
}
