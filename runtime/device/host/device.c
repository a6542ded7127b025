/* The machine itself: there is nothing to open. */
#include "device/device.h"

zl_backend zr_device_backend(void)
{
    return ZL_BACKEND_HOST;
}

zl_status zr_device_check(uint64_t ranks, zl_err *err)
{
    (void)ranks;
    (void)err;
    return ZL_OK;
}

zl_status zr_device_open(uint64_t local, zl_err *err)
{
    (void)local;
    (void)err;
    return ZL_OK;
}

bool zr_device_witnessed(uint64_t step)
{
    (void)step;
    return true;
}

uint64_t zr_device_warm_up(void)
{
    return 1;
}

double zr_device_peak_rate(void)
{
    return 0.0;
}

uint64_t zr_device_in_use(void)
{
    return 0;
}

uint64_t zr_device_outside_limit(void)
{
    return (uint64_t)1 << 20; /* buffers of the C library and MPI */
}

/* The type of the device's function. NOLINTNEXTLINE(readability-non-const-parameter) */
bool zr_device_fact(size_t index, const char **name, char *text, size_t size)
{
    (void)index;
    (void)name;
    (void)text;
    (void)size;
    return false;
}

const char *zr_device_failure(void)
{
    return "";
}
