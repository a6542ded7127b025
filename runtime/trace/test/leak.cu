/* Takes memory after it said that it is warm, in one of several ways, and ends.
 * usage: leak none|malloc|create|async|stack */
#include <cstdio>
#include <cstring>

#include <cuda.h>
#include <cuda_runtime.h>

#include "trace/zltrace.h"

enum { WORDS = 1024 }; /* 4 KiB of stack a thread: 1.03 GiB on 132 processors of 2048 threads */

__global__ void stack_kernel(unsigned *out, unsigned step)
{
    unsigned word[WORDS];
    for (unsigned i = 0; i < WORDS; i++) {
        word[i] = i * step + threadIdx.x;
    }
    unsigned at = threadIdx.x;
    for (unsigned i = 0; i < WORDS; i++) { /* an index that only the run knows keeps it in memory */
        at = word[(at + step) % WORDS];
    }
    out[threadIdx.x] = at;
}

__global__ void small_kernel(unsigned *out)
{
    out[threadIdx.x] = threadIdx.x;
}

static int failed(const char *what, int code)
{
    fprintf(stderr, "leak: %s: error %d\n", what, code);
    return 1;
}

static int leak_create(size_t bytes)
{
    CUmemAllocationProp kind = {};
    CUmemGenericAllocationHandle handle;
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    const CUresult result = cuMemCreate(&handle, bytes, &kind, 0);
    return result == CUDA_SUCCESS ? 0 : failed("cuMemCreate", (int)result);
}

static int leak(const char *how, unsigned *work)
{
    const size_t bytes = (size_t)64 << 20;
    void *lost = nullptr;
    cudaError_t result = cudaSuccess;
    if (strcmp(how, "malloc") == 0) {
        result = cudaMalloc(&lost, bytes);
    } else if (strcmp(how, "create") == 0) {
        return leak_create(bytes);
    } else if (strcmp(how, "async") == 0) {
        result = cudaMallocAsync(&lost, bytes, 0);
    } else if (strcmp(how, "stack") == 0) {
        stack_kernel<<<1, 32>>>(work, 7);
        result = cudaGetLastError();
    } else if (strcmp(how, "none") != 0) {
        return failed(how, 2);
    }
    return result == cudaSuccess ? 0 : failed(how, (int)result);
}

int main(int argc, char **argv)
{
    unsigned *work = nullptr;
    void *brief = nullptr;
    const char *const how = argc > 1 ? argv[1] : "none";
    cudaError_t result = cudaMalloc((void **)&work, WORDS * sizeof(unsigned));
    if (result != cudaSuccess) {
        return failed("cudaMalloc", (int)result);
    }
    /* Everything that is not leaked is used once before: modules, the pool. */
    small_kernel<<<1, 32>>>(work);
    result = cudaMallocAsync(&brief, 1 << 20, 0);
    if (result != cudaSuccess || cudaFreeAsync(brief, 0) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess) {
        return failed("warming up", (int)result);
    }
    zltrace_mark("warm");
    const int code = leak(how, work);
    result = cudaDeviceSynchronize();
    zltrace_mark("leaked");
    return code != 0 ? code : result == cudaSuccess ? 0 : failed("the end", (int)result);
}
