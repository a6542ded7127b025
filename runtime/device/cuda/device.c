/* One GPU of this machine for each rank. */
#include "device/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "comm/cuda/library.h"

/* Looking at the GPU's memory stops it: a few steps are enough, the others keep their speed. */
static const uint64_t witnessed_steps = 3;

zl_backend zr_device_backend(void)
{
    return ZL_BACKEND_CUDA;
}

static zl_status count_devices(uint64_t *out, zl_err *err)
{
    int count = 0;
    int driver = 0;
    const cudaError_t found = cudaGetDeviceCount(&count);
    if (found == cudaSuccess && count > 0) {
        *out = (uint64_t)count;
        return ZL_OK;
    }
    if (found == cudaSuccess || found == cudaErrorNoDevice) {
        return zl_fail(
            err, ZL_E_RESOURCE,
            "no GPU is visible; look at nvidia-smi and CUDA_VISIBLE_DEVICES, or train on "
            "the host with --backend host");
    }
    if (found == cudaErrorInsufficientDriver &&
        (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "this machine has no NVIDIA driver; train on the host with --backend host");
    }
    if (found == cudaErrorInsufficientDriver) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "the NVIDIA driver knows CUDA up to %d.%d and this program needs %d.%d; "
                       "update it",
                       driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                       CUDART_VERSION % 1000 / 10);
    }
    return zl_fail(err, ZL_E_RESOURCE, "the GPUs cannot be used: %s", cudaGetErrorString(found));
}

zl_status zr_device_check(uint64_t ranks, zl_err *err)
{
    uint64_t devices;
    ZL_TRY(count_devices(&devices, err));
    if (ranks > devices) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "%" PRIu64 " ranks need a GPU each, and %" PRIu64
                       " are visible; try --ranks %" PRIu64
                       ", or --loopback 0 for one of them alone",
                       ranks, devices, devices);
    }
    return ZL_OK;
}

zl_status zr_device_open(uint64_t local, zl_err *err)
{
    uint64_t devices;
    ZL_TRY(count_devices(&devices, err));
    if (devices == 1) { /* a launcher that gives each rank its own shows it no other */
        local = 0;
    }
    if (local >= devices) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "rank %" PRIu64 " of this machine has no GPU of its own: %" PRIu64
                       " are visible",
                       local, devices);
    }
    cudaError_t failure = cudaSetDevice((int)local);
    if (failure == cudaSuccess) {
        failure = cudaFree(NULL); /* makes the context now, so that init finds it there */
    }
    if (failure != cudaSuccess) {
        return zl_fail(err, ZL_E_RESOURCE, "GPU %" PRIu64 ": %s", local,
                       cudaGetErrorString(failure));
    }
    return ZL_OK;
}

bool zr_device_witnessed(uint64_t step)
{
    return step < witnessed_steps;
}

uint64_t zr_device_warm_up(void)
{
    return witnessed_steps;
}

uint64_t zr_device_outside_limit(void)
{
    return (uint64_t)4 << 20; /* modules loaded at first use */
}

static void version(int number, char *text, size_t size)
{
    (void)snprintf(text, size, "%d.%d", number / 1000, number % 1000 / 10);
}

static void gpu_name(char *text, size_t size)
{
    int device = 0;
    struct cudaDeviceProp properties;
    const bool known = cudaGetDevice(&device) == cudaSuccess &&
                       cudaGetDeviceProperties(&properties, device) == cudaSuccess;
    (void)snprintf(text, size, "%s", known ? properties.name : "unknown");
}

/* Dense bf16 with sums in fp32, in 10^12 operations per second, from the vendor's data sheets; the
 * first name that is part of the device's own, so slower boards of one name come first. */
static const struct rate {
    const char *name;
    double tera;
} rates[] = {
    {"B200", 2250.0}, {"GH200", 989.4},     {"H200 NVL", 835.5},
    {"H200", 989.4},  {"H100 PCIe", 756.0}, {"H100 NVL", 835.5},
    {"H100", 989.4},  {"A100", 312.0},      {"L40S", 362.0},
};

double zr_device_peak_rate(void)
{
    const double tera = 1e12;
    char name[256];
    gpu_name(name, sizeof name);
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        if (strstr(name, rates[i].name) != NULL) {
            return tera * rates[i].tera;
        }
    }
    return 0.0;
}

uint64_t zr_device_in_use(void)
{
    size_t available = 0;
    size_t total = 0;
    return cudaMemGetInfo(&available, &total) == cudaSuccess ? (uint64_t)total - available : 0;
}

/* "580.159.04" from the kernel module; "CUDA 13.0" where it is out of sight. */
static void driver_version(char *text, size_t size)
{
    char number[64] = "";
    int cuda = 0;
    FILE *const file = fopen("/sys/module/nvidia/version", "re");
    if (file != NULL) {
        if (fgets(number, sizeof number, file) == NULL) {
            number[0] = '\0';
        }
        (void)fclose(file);
    }
    number[strcspn(number, "\n")] = '\0';
    if (number[0] != '\0') {
        (void)snprintf(text, size, "%s", number);
        return;
    }
    (void)cudaDriverGetVersion(&cuda);
    version(cuda, number, sizeof number);
    (void)snprintf(text, size, "CUDA %s", number);
}

bool zr_device_fact(size_t index, const char **name, char *text, size_t size)
{
    static const char *const names[] = {"gpu", "driver", "cuda", "cublaslt", "nccl"};
    int number = 0;
    if (index >= sizeof names / sizeof names[0]) {
        return false;
    }
    *name = names[index];
    switch (index) {
    case 0:
        gpu_name(text, size);
        break;
    case 1:
        driver_version(text, size);
        break;
    case 2:
        (void)cudaRuntimeGetVersion(&number);
        version(number, text, size);
        break;
    case 3:
        (void)snprintf(text, size, "%zu", cublasLtGetVersion());
        break;
    default:
        zr_nccl_version(text, size);
        break;
    }
    return true;
}

const char *zr_device_failure(void)
{
    const cudaError_t failure = cudaPeekAtLastError();
    return cudaGetErrorString(failure != cudaSuccess ? failure : cudaDeviceSynchronize());
}
