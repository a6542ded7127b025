/* The cuda kernels as a module. Memory comes straight from the driver: the test has no tracker. */
#include <stdlib.h>

#include "conform_module.h"
#include "kernel/cuda/stream.h"
#if ZR_WITH_NCCL
#include <nccl.h>
#endif

struct conform_device {
    zr_stream stream;
    double *sums;
    void *work;
};

static bool fine(cudaError_t error)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "conform: %s\n", cudaGetErrorString(error));
        (void)cudaGetLastError();
    }
    return error == cudaSuccess;
}

static void close_cuda(conform_device *d)
{
    if (d == NULL) {
        return;
    }
    if (d->stream.lt != NULL) {
        zr_stream_release(&d->stream);
    }
    (void)cudaFree(d->work);
    (void)cudaFree(d->sums);
    free(d);
}

/* A GPU is there, of a generation that the kernels were built for. */
static zl_status look(char *why, size_t size)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        (void)cudaGetLastError();
        snprintf(why, size, "no GPU: %s",
                 error != cudaSuccess ? cudaGetErrorString(error) : "the driver lists none");
        return ZL_NO;
    }
    struct cudaDeviceProp prop;
    if (!fine(cudaGetDeviceProperties(&prop, 0))) {
        snprintf(why, size, "the properties of GPU 0 cannot be read");
        return ZL_E_RESOURCE;
    }
    if (prop.major < 8) {
        snprintf(why, size, "%s has compute capability %d.%d, the kernels need 8.0 or newer",
                 prop.name, prop.major, prop.minor);
        return ZL_NO;
    }
    return ZL_OK;
}

static zl_status open_cuda(conform_device **device, char *why, size_t size)
{
    ZL_TRY(look(why, size));
    conform_device *d = calloc(1, sizeof *d);
    if (d == NULL || !fine(cudaMalloc((void **)&d->sums, ZR_CUDA_SUMS_BYTES)) ||
        !fine(cudaMalloc(&d->work, ZR_CUDA_GEMM_WORK_BYTES)) ||
        zr_stream_init(&d->stream, d->sums) != ZL_OK) {
        snprintf(why, size, "GPU 0 is there, but it cannot be used");
        close_cuda(d);
        return ZL_E_RESOURCE;
    }
    *device = d;
    return ZL_OK;
}

static zr_stream *stream(conform_device *device)
{
    return &device->stream;
}

static void *work(conform_device *device, uint64_t *bytes)
{
    *bytes = ZR_CUDA_GEMM_WORK_BYTES;
    return device->work;
}

static void *get(conform_device *device, size_t bytes)
{
    (void)device;
    void *memory = NULL;
    return fine(cudaMalloc(&memory, bytes)) ? memory : NULL;
}

static void put(conform_device *device, void *memory)
{
    (void)device;
    (void)cudaFree(memory);
}

/* On the kernels' own stream, which does not wait for the default one. */
static bool copy(conform_device *device, void *to, const void *from, size_t bytes,
                 enum cudaMemcpyKind kind)
{
    return fine(cudaMemcpyAsync(to, from, bytes, kind, device->stream.queue)) &&
           fine(cudaStreamSynchronize(device->stream.queue));
}

static bool write_cuda(conform_device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, to, from, bytes, cudaMemcpyHostToDevice);
}

static bool read_cuda(conform_device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, to, from, bytes, cudaMemcpyDeviceToHost);
}

static void describe(conform_device *device, FILE *to)
{
    (void)device;
    struct cudaDeviceProp prop = {0};
    int driver = 0;
    int runtime = 0;
    int nccl = 0;
    size_t unused = 0;
    size_t total = 0;
    (void)fine(cudaGetDeviceProperties(&prop, 0));
    (void)fine(cudaDriverGetVersion(&driver));
    (void)fine(cudaRuntimeGetVersion(&runtime));
    (void)fine(cudaMemGetInfo(&unused, &total));
#if ZR_WITH_NCCL
    if (ncclGetVersion(&nccl) != ncclSuccess) {
        nccl = 0;
    }
#endif
    fprintf(to, "    \"kind\": \"cuda\",\n    \"gpu\": \"%s\",\n", prop.name);
    fprintf(to, "    \"compute_capability\": \"%d.%d\",\n", prop.major, prop.minor);
    fprintf(to, "    \"multiprocessors\": %d,\n", prop.multiProcessorCount);
    fprintf(to, "    \"shared_bytes_per_block\": %zu,\n", prop.sharedMemPerBlockOptin);
    fprintf(to, "    \"memory_bytes\": %zu,\n", total);
    fprintf(to, "    \"cuda_driver_version\": %d,\n", driver);
    fprintf(to, "    \"cuda_runtime_version\": %d,\n", runtime);
    fprintf(to, "    \"cublaslt_version\": %zu,\n", cublasLtGetVersion());
    fprintf(to, "    \"nccl_version\": %d", nccl);
}

const conform_module *conform_module_get(void)
{
    static conform_module module = {
        .name = "cuda",
        .open = open_cuda,
        .close = close_cuda,
        .stream = stream,
        .work = work,
        .get = get,
        .put = put,
        .write = write_cuda,
        .read = read_cuda,
        .describe = describe,
    };
    module.kernels = conform_kernels_get();
    return &module;
}
