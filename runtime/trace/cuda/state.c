#include "trace/cuda/state.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <cupti.h>

enum { CONTEXTS = 64, POOLS = 64, TRIES = 8, NAME = 128 };

/* Between marks that nobody asked for. Looking costs tens of microseconds. */
static const uint64_t rest_interval = 100000000; /* nanoseconds */
/* The pool that memory nodes of graphs come from has no handle. */
static struct CUmemPoolHandle_st *const graph_pool = NULL;

typedef struct context {
    CUcontext context; /* NULL: free place */
    bool looked;
    int device;
} context;

typedef struct pool {
    CUmemoryPool pool;
    int device;
    uint64_t reserved;
} pool;

zr_recorder zr_recording = {.fd = -1};
_Thread_local bool zr_inside;

/* The driver may hold locks of its own when it tells of contexts: under the first lock it is never
 * called. Under the second it is, so that no pool is destroyed while we ask it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static context contexts[CONTEXTS];
static bool announced; /* that contexts are made: those we were not told of are gone */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static pool pools[POOLS];
static size_t pool_count;
static atomic_uint busy;
static _Atomic uint64_t changes_done;
static _Atomic uint64_t last_rest;

void zr_change_begins(void)
{
    atomic_fetch_add(&busy, 1);
}

void zr_change_ends(void)
{
    atomic_fetch_add(&changes_done, 1);
    atomic_fetch_sub(&busy, 1);
}

uint64_t zr_changes(void)
{
    const uint64_t done = atomic_load(&changes_done);
    return atomic_load(&busy) == 0 ? done : ZR_CHANGING;
}

static context *find_context(CUcontext wanted)
{
    for (size_t i = 0; i < CONTEXTS; i++) {
        if (contexts[i].context == wanted) {
            return &contexts[i];
        }
    }
    return NULL;
}

int zr_device_of(CUcontext wanted)
{
    int device = -1;
    uint32_t id = 0;
    if (wanted == NULL) {
        return -1;
    }
    (void)pthread_mutex_lock(&lock);
    const context *const known = find_context(wanted);
    if (known != NULL && known->looked) {
        device = known->device;
    }
    (void)pthread_mutex_unlock(&lock);
    if (device < 0 && cuptiGetDeviceId(wanted, &id) == CUPTI_SUCCESS) {
        device = (int)id;
    }
    return device;
}

void zr_context_made(CUcontext made)
{
    (void)pthread_mutex_lock(&lock);
    announced = true;
    context *place = find_context(made);
    place = place != NULL ? place : find_context(NULL);
    if (place != NULL) {
        *place = (context){.context = made};
    }
    (void)pthread_mutex_unlock(&lock);
}

void zr_context_goes(CUcontext going)
{
    (void)pthread_mutex_lock(&lock);
    context *const place = find_context(going);
    const bool known = place != NULL;
    if (known) {
        *place = (context){0};
    }
    (void)pthread_mutex_unlock(&lock);
    if (known) {
        zr_recorder_line(&zr_recording, "close %" PRIu64 " %" PRIxPTR, zr_recorder_now(),
                         (uintptr_t)going);
    }
}

bool zr_device_look(CUcontext wanted, size_t *available, size_t *total)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* a capture must not notice us */
    CUcontext current = NULL;
    if (cuCtxGetCurrent(&current) != CUDA_SUCCESS) {
        return false;
    }
    const bool push = current != wanted;
    if (push && cuCtxPushCurrent(wanted) != CUDA_SUCCESS) {
        return false;
    }
    (void)cuThreadExchangeStreamCaptureMode(&mode);
    const bool told = cuMemGetInfo(available, total) == CUDA_SUCCESS;
    (void)cuThreadExchangeStreamCaptureMode(&mode);
    if (push) {
        (void)cuCtxPopCurrent(&current);
    }
    return told;
}

void zr_context_look(CUcontext wanted)
{
    bool fresh = false;
    size_t available = 0;
    size_t total = 0;
    char name[NAME] = "unknown";
    if (wanted == NULL) {
        return;
    }
    const int device = zr_device_of(wanted);
    (void)pthread_mutex_lock(&lock);
    context *known = find_context(wanted);
    known = known != NULL || announced ? known : find_context(NULL);
    if (known != NULL && !known->looked && device >= 0) {
        *known = (context){.context = wanted, .looked = true, .device = device};
        fresh = true;
    }
    (void)pthread_mutex_unlock(&lock);
    if (fresh && zr_device_look(wanted, &available, &total)) {
        (void)cuDeviceGetName(name, sizeof(name), (CUdevice)device);
        zr_recorder_line(&zr_recording, "context %" PRIu64 " %d %" PRIxPTR " %zu %zu %s",
                         zr_recorder_now(), device, (uintptr_t)wanted, available, total, name);
    }
}

void zr_pool_seen(CUmemoryPool seen, int device)
{
    (void)pthread_mutex_lock(&pool_lock);
    size_t i = 0;
    while (i < pool_count && (pools[i].pool != seen || pools[i].device != device)) {
        i++;
    }
    if (i == pool_count && i < POOLS) {
        pools[pool_count++] = (pool){.pool = seen, .device = device};
    }
    (void)pthread_mutex_unlock(&pool_lock);
}

static void record_pool(const pool *changed)
{
    if (changed->device >= 0) {
        zr_recorder_line(&zr_recording, "pool %" PRIu64 " %d %" PRIxPTR " %" PRIu64,
                         zr_recorder_now(), changed->device, (uintptr_t)changed->pool,
                         changed->reserved);
    }
}

void zr_pool_goes(CUmemoryPool going)
{
    (void)pthread_mutex_lock(&pool_lock);
    for (size_t i = 0; i < pool_count; i++) {
        if (pools[i].pool == going && going != graph_pool) {
            pools[i].reserved = 0;
            record_pool(&pools[i]);
            pools[i] = pools[--pool_count];
            break;
        }
    }
    (void)pthread_mutex_unlock(&pool_lock);
}

static bool reserved_now(const pool *of, uint64_t *out)
{
    cuuint64_t bytes = 0;
    const CUresult told =
        of->pool == graph_pool
            ? cuDeviceGetGraphMemAttribute((CUdevice)of->device,
                                           CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes)
            : cuMemPoolGetAttribute(of->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes);
    *out = bytes;
    return told == CUDA_SUCCESS;
}

void zr_pools_look(CUcontext current, int device)
{
    if (current == NULL) {
        return;
    }
    zr_pool_seen(graph_pool, device);
    (void)pthread_mutex_lock(&pool_lock);
    for (size_t i = 0; i < pool_count; i++) {
        uint64_t reserved = 0;
        if (pools[i].device == device && reserved_now(&pools[i], &reserved) &&
            reserved != pools[i].reserved) {
            pools[i].reserved = reserved;
            record_pool(&pools[i]);
        }
    }
    (void)pthread_mutex_unlock(&pool_lock);
}

/* What the device said, and whether what is recorded up to here is what it spoke of: nothing may
 * have changed from before it was asked (changes) until the line is written. */
static void record_mark(int device, const char *name, bool automatic, const zr_told *told)
{
    const uint64_t time = zr_recorder_now();
    zr_recorder_line(&zr_recording, "mark %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %d %s", time,
                     device, told->available, told->total, automatic ? 1 : 0, name);
    if (told->changes != ZR_CHANGING && zr_changes() == told->changes) {
        zr_recorder_line(&zr_recording, "settled %" PRIu64, time);
    }
}

/* Once more if memory changed meanwhile. */
static void mark_device(const context *c, const char *name, bool automatic, bool wait)
{
    zr_told told = {0};
    bool settled = false;
    CUcontext current = NULL;
    if (wait && cuCtxPushCurrent(c->context) == CUDA_SUCCESS) {
        (void)cuCtxSynchronize();
        (void)cuCtxPopCurrent(&current);
    }
    for (int i = 0; i < TRIES && !settled; i++) {
        size_t available = 0;
        size_t total = 0;
        told.changes = zr_changes();
        zr_pools_look(c->context, c->device);
        if (!zr_device_look(c->context, &available, &total)) {
            return;
        }
        told.available = available;
        told.total = total;
        settled = told.changes != ZR_CHANGING && zr_changes() == told.changes;
    }
    record_mark(c->device, name, automatic, &told);
}

/* One context of each device is enough. */
void zr_mark(const char *name, bool automatic, bool wait)
{
    context chosen[CONTEXTS];
    size_t count = 0;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < CONTEXTS; i++) {
        bool wanted = contexts[i].context != NULL && contexts[i].looked;
        for (size_t k = 0; k < count; k++) {
            wanted = wanted && chosen[k].device != contexts[i].device;
        }
        if (wanted) {
            chosen[count++] = contexts[i];
        }
    }
    (void)pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < count; i++) {
        mark_device(&chosen[i], name, automatic, wait);
    }
}

void zr_mark_told(CUcontext seen, const zr_told *told)
{
    const int device = zr_device_of(seen);
    if (device >= 0) {
        zr_pools_look(seen, device);
        record_mark(device, "asked", true, told);
    }
}

void zr_mark_rest(CUcontext rests)
{
    const int device = zr_device_of(rests);
    uint64_t last = atomic_load(&last_rest);
    const uint64_t now = zr_recorder_now();
    if (device >= 0 && now - last >= rest_interval &&
        atomic_compare_exchange_strong(&last_rest, &last, now)) {
        const context c = {.context = rests, .device = device, .looked = true};
        mark_device(&c, "rest", true, false);
    }
}
