/* libzltrace.so's own code between a CUPTI and a driver that this test plays: what it records at
 * which call. Layouts and names are those of the toolkit's headers. */
#define _GNU_SOURCE /* mkdtemp */
#include "trace_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>
#include <cupti.h>

#include "trace/cuda/state.h"
#include "trace/recording.h"

int InitializeInjection(void);
void zltrace_mark(const char *name);

/* ------------------------------------------------------------------------- the driver, as played
 */

static const size_t total_bytes = (size_t)1 << 30;
static _Atomic size_t in_use;
static uint64_t pool_reserved;
static bool capturing;
static unsigned synchronised;
static unsigned callbacks_enabled;
static CUpti_CallbackFunc callback;
static CUptiResult subscription = CUPTI_SUCCESS;
static struct CUctx_st *const context = (CUcontext)0xc0;
static struct CUmemPoolHandle_st *const pool = (CUmemoryPool)0xbeef;

static CUcontext current; /* of every thread */

static void called(CUpti_driver_api_trace_cbid id, const char *name, CUpti_ApiCallbackSite site,
                   const void *params, CUresult *result, uint64_t *correlation)
{
    const CUpti_CallbackData data = {.callbackSite = site,
                                     .functionName = name,
                                     .functionParams = params,
                                     .functionReturnValue = result,
                                     .context = current,
                                     .correlationData = correlation,
                                     .correlationId = 5};
    callback(NULL, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
}

/* A call of the driver: its begin, what it does, its end. */
#define CALL(function, does, returns, ...)                                                         \
    do {                                                                                           \
        const function##_params params = {__VA_ARGS__};                                            \
        uint64_t correlation = 0;                                                                  \
        CUresult result = (returns);                                                               \
        called(CUPTI_DRIVER_TRACE_CBID_##function, #function, CUPTI_API_ENTER, &params, NULL,      \
               &correlation);                                                                      \
        does;                                                                                      \
        called(CUPTI_DRIVER_TRACE_CBID_##function, #function, CUPTI_API_EXIT, &params, &result,    \
               &correlation);                                                                      \
    } while (0)

CUresult CUDAAPI cuMemGetInfo(size_t *available, size_t *total)
{
    /* The meter's own questions are calls of the driver too, and nobody's. */
    const cuMemGetInfo_v2_params params = {available, total};
    uint64_t correlation = 0;
    CUresult result = CUDA_SUCCESS;
    *total = total_bytes;
    *available = total_bytes - in_use;
    called(CUPTI_DRIVER_TRACE_CBID_cuMemGetInfo_v2, "cuMemGetInfo_v2", CUPTI_API_ENTER, &params,
           NULL, &correlation);
    called(CUPTI_DRIVER_TRACE_CBID_cuMemGetInfo_v2, "cuMemGetInfo_v2", CUPTI_API_EXIT, &params,
           &result, &correlation);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *out)
{
    *out = NULL;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext wanted)
{
    return wanted == context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *out)
{
    *out = context;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize(void)
{
    synchronised++;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    (void)mode;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int size, CUdevice device)
{
    (void)snprintf(name, (size_t)size, "played GPU %d", device);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                              void *value)
{
    (void)device;
    (void)attribute;
    *(cuuint64_t *)value = 0;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool of, CUmemPool_attribute attribute, void *value)
{
    assert_true(of == pool && attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    *(cuuint64_t *)value = pool_reserved;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    (void)device;
    *out = pool;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    *status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc function,
                                    void *data)
{
    (void)subscriber;
    (void)data;
    callback = function;
    return subscription;
}

CUptiResult CUPTIAPI cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                         CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
    (void)subscriber;
    (void)domain;
    (void)id;
    callbacks_enabled += enable;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetDeviceId(CUcontext of, uint32_t *device)
{
    *device = 0;
    return of == context ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_CONTEXT;
}

CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char **text)
{
    *text = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED ? "CUPTI is taken" : "?";
    return CUPTI_SUCCESS;
}

/* -------------------------------------------------------------------------------- the programs */

static void resource(CUpti_CallbackIdResource id)
{
    const CUpti_ResourceData data = {.context = context};
    callback(NULL, CUPTI_CB_DOMAIN_RESOURCE, (CUpti_CallbackId)id, &data);
}

/* The context takes 100 MiB. */
static void make_context(void)
{
    CUcontext made = context;
    assert_int_equal(InitializeInjection(), 1);
    CALL(cuDevicePrimaryCtxRetain, in_use += 100 << 20; current = context;
         resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED), CUDA_SUCCESS, &made, 0);
}

static void allocate(CUdeviceptr at, size_t bytes)
{
    CUdeviceptr p = at;
    CALL(cuMemAlloc_v2, in_use += bytes, CUDA_SUCCESS, &p, bytes);
}

static void everything(void)
{
    CUdeviceptr p = 0x7f0000000000;
    CUdeviceptr async = 0x7e0000000000;
    CUmemGenericAllocationHandle handle = 0xa1;
    const CUmemAllocationProp here = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    const CUmemAllocationProp host = {.location = {.type = CU_MEM_LOCATION_TYPE_HOST}};
    CUmemGenericAllocationHandle foreign = 0xb1;
    void *pinned = (void *)0x1000;
    CUlibrary library = (CUlibrary)0xd0;
    size_t available = 0;
    size_t total = 0;

    make_context();
    CALL(cuMemAlloc_v2, in_use += 4 << 20, CUDA_SUCCESS, &p, 4 << 20);
    CALL(cuMemAlloc_v2, (void)0, CUDA_ERROR_OUT_OF_MEMORY, &p, (size_t)1 << 40);
    CALL(cuMemCreate, in_use += 6 << 20, CUDA_SUCCESS, &handle, 6 << 20, &here, 0);
    CALL(cuMemMap, (void)0, CUDA_SUCCESS, 0x7d0000000000, 6 << 20, 0, 0xa1, 0);
    CALL(cuMemRelease, (void)0, CUDA_SUCCESS, 0xa1);
    CALL(cuMemRetainAllocationHandle, (void)0, CUDA_SUCCESS, &handle, (void *)0x7d0000000000);
    handle = 0xa2;
    CALL(cuMemCreate, (void)0, CUDA_SUCCESS, &handle, 2 << 20, &host, 0);
    CALL(cuMemImportFromShareableHandle, (void)0, CUDA_SUCCESS, &foreign, NULL,
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CALL(cuMemRelease, (void)0, CUDA_SUCCESS, 0xb1);
    CALL(cuMemHostAlloc, (void)0, CUDA_SUCCESS, &pinned, 5000, 0);
    CALL(cuMemAllocAsync, pool_reserved = 32 << 20;
         in_use += 32 << 20, CUDA_SUCCESS, &async, 1 << 20, NULL);
    capturing = true;
    async = 0x7c0000000000;
    CALL(cuMemAllocAsync, (void)0, CUDA_SUCCESS, &async, 1 << 20, NULL);
    capturing = false;
    CALL(cuLibraryLoadData, in_use += 8 << 20, CUDA_SUCCESS, &library, NULL, NULL, NULL, 0, NULL,
         NULL, 0);
    zltrace_mark("warm");
    CALL(cuMemUnmap, (void)0, CUDA_SUCCESS, 0x7d0000000000, 6 << 20);
    CALL(cuMemRelease, in_use -= 6 << 20, CUDA_SUCCESS, 0xa1);
    CALL(cuMemFree_v2, in_use -= 4 << 20, CUDA_SUCCESS, 0x7f0000000000);
    CALL(cuMemFree_v2, (void)0, CUDA_SUCCESS, 0);
    CALL(cuMemGetInfo_v2, available = total_bytes - in_use;
         total = total_bytes, CUDA_SUCCESS, &available, &total);
    CALL(cuLibraryUnload, in_use -= 8 << 20, CUDA_SUCCESS, library);
    CALL(cuStreamSynchronize, (void)0, CUDA_SUCCESS, NULL);
    CALL(cuStreamSynchronize, (void)0, CUDA_SUCCESS, NULL); /* too soon after the other */
}

static atomic_bool stop;

/* Each thread at addresses of its own. */
static void *churn(void *base)
{
    for (CUdeviceptr at = *(CUdeviceptr *)base; !stop; at += 2 << 20) {
        allocate(at, 2 << 20);
        CALL(cuMemFree_v2, in_use -= 2 << 20, CUDA_SUCCESS, at);
    }
    return NULL;
}

/* Marks while four threads take and give: those that are called settled contradict nothing. */
static void restless(void)
{
    enum { THREADS = 4, MARKS = 200 };
    pthread_t thread[THREADS];
    CUdeviceptr base[THREADS];
    make_context();
    for (int i = 0; i < THREADS; i++) {
        base[i] = (CUdeviceptr)(i + 1) << 40;
        if (pthread_create(&thread[i], NULL, churn, &base[i]) != 0) {
            _exit(1);
        }
    }
    for (int i = 0; i < MARKS; i++) {
        zltrace_mark("m");
    }
    stop = true;
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(thread[i], NULL);
    }
}

/* A mark in the middle of a call is not settled. */
static void interrupted(void)
{
    CUdeviceptr p = 0x7f0000000000;
    make_context();
    CALL(cuMemAlloc_v2, zltrace_mark("within"), CUDA_SUCCESS, &p, 2 << 20);
    zltrace_mark("after");
}

static void ended(void)
{
    make_context();
    allocate(0x7f0000000000, 2 << 20);
    CALL(cuDevicePrimaryCtxRelease_v2, resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING),
         CUDA_SUCCESS, 0);
}

static void refused(void)
{
    subscription = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    (void)InitializeInjection();
    zltrace_mark("nothing");
}

/* ----------------------------------------------------------------------------------- the tests */

/* What the program recorded, in a process of its own, since the meter begins once. */
static zr_recordings run(void (*program)(void))
{
    char folder[] = P_tmpdir "/zt-inject-XXXXXX";
    char command[64];
    int status = 0;
    zr_recordings all = {0};
    zl_err err = {0};
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("ZLTRACE_DIR", folder, 1), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        program();
        exit(0); /* NOLINT(concurrency-mt-unsafe): the handlers at exit are part of the test */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(zr_recordings_load(folder, &all, &err), ZL_OK);
    assert_int_equal(all.count, 1);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a folder of our own */
    return all;
}

static uint64_t peak_of(const zr_meter *m, const char *call)
{
    return row_named(m, "test_unit_trace_inject", call).peak;
}

static const zr_mark_seen *mark_named(const zr_meter *m, const char *name)
{
    static const zr_mark_seen none;
    for (size_t i = 0; i < m->marks; i++) {
        if (strcmp(m->mark[i].name, name) == 0) {
            return &m->mark[i];
        }
    }
    return &none;
}

static void every_call_is_recorded(void **state)
{
    (void)state;
    zr_recordings all = run(everything);
    const zr_meter *const m = &all.process[0].meter;
    assert_true(all.process[0].complete && all.process[0].driver == 13000);
    assert_string_equal(m->device[0].name, "played GPU 0");
    assert_true(row_named(m, "(context)", "context").peak == 100 * mib);
    assert_true(peak_of(m, "cuMemAlloc") == 4 * mib);
    assert_true(peak_of(m, "cuMemCreate") == 6 * mib);
    assert_true(peak_of(m, "cuMemAllocAsync") == 1 * mib);
    assert_true(row_named(m, "test_unit_trace_inject", "cuMemAllocAsync").made == 1);
    assert_true(row_named(m, "(pool)", "cuMemAllocAsync").peak == 31 * mib);
    assert_true(peak_of(m, "cuLibraryLoadData") == 8 * mib);
    assert_true(peak_of(m, "cuMemHostAlloc") == 5000);
    assert_true(peak_of(m, "cuMemImportFromShareableHandle") == 0);
    assert_true(m->refusals == 1 && m->refusal[0].bytes == (uint64_t)1 << 40);
    assert_int_equal(m->unknown, 0);
    /* Everything is traced, so nothing is left over at any mark. The second wait was too soon after
     * the first, unless this machine was busy in between. */
    static const char *const names[] = {"context", "warm", "asked", "rest", "exit"};
    enum { REST = 3, NAMES = sizeof(names) / sizeof(names[0]) };
    const size_t rests = m->marks == NAMES + 1 ? 2 : 1;
    assert_int_equal(m->marks, NAMES - 1 + rests);
    assert_true(rests == 1 || m->mark[REST + 1].time - m->mark[REST - 1].time >= 100000000);
    for (size_t i = 0; i < m->marks; i++) {
        const char *const name = names[i <= REST ? i : i + 1 - rests];
        assert_string_equal(m->mark[i].name, name);
        assert_true(m->mark[i].settled && m->mark[i].used == m->mark[i].traced);
        assert_true(m->mark[i].automatic == (strcmp(name, "warm") != 0));
    }
    assert_true(m->mark[1].used == 150 * mib); /* 100 + 4 + 6 + 32 + 8 */
    assert_true(m->device[0].traced == 132 * mib);
    zr_recordings_release(&all);
}

static void marks_among_threads_are_true_or_unsettled(void **state)
{
    (void)state;
    zr_recordings all = run(restless);
    const zr_meter *const m = &all.process[0].meter;
    assert_true(all.process[0].complete);
    assert_int_equal(m->unknown, 0);
    for (size_t i = 0; i < m->marks; i++) {
        assert_true(!m->mark[i].settled || m->mark[i].used == m->mark[i].traced);
    }
    zr_recordings_release(&all);
}

static void a_mark_within_a_call_is_not_settled(void **state)
{
    (void)state;
    zr_recordings all = run(interrupted);
    const zr_meter *const m = &all.process[0].meter;
    assert_true(mark_named(m, "within")->time > 0 && !mark_named(m, "within")->settled);
    assert_true(mark_named(m, "after")->settled);
    zr_recordings_release(&all);
}

static void a_context_that_ends_is_marked_before(void **state)
{
    (void)state;
    zr_recordings all = run(ended);
    const zr_meter *const m = &all.process[0].meter;
    assert_true(mark_named(m, "context ends")->traced == 102 * mib);
    assert_true(mark_named(m, "exit")->time == 0); /* nobody is left to be asked */
    assert_true(m->device[0].traced == 0 && m->device[0].peak == 102 * mib);
    zr_recordings_release(&all);
}

static void without_cupti_the_recording_says_so(void **state)
{
    (void)state;
    zr_recordings all = run(refused);
    assert_string_equal(all.process[0].broken, "CUPTI is taken");
    zr_recordings_release(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_is_recorded),
        cmocka_unit_test(marks_among_threads_are_true_or_unsettled),
        cmocka_unit_test(a_mark_within_a_call_is_not_settled),
        cmocka_unit_test(a_context_that_ends_is_marked_before),
        cmocka_unit_test(without_cupti_the_recording_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
