/* tanh of the pooler: too few elements to be worth more than the C library's. */
#include <math.h>

#include "kernel/host/host.h"

zl_status zr_tanh_forward(const void *x, void *out, uint64_t count, zl_dtype dtype,
                          zr_stream *stream)
{
    (void)stream;
    if (!zr_host_dtype_ok(dtype)) {
        return ZL_E_USAGE;
    }
    float y[ZR_HOST_CHUNK];
    for (uint64_t at = 0; at < count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, count - at);
        zr_host_load(y, x, dtype, at, n);
        for (size_t i = 0; i < n; i++) {
            y[i] = tanhf(y[i]);
        }
        zr_host_store(out, dtype, at, y, n);
    }
    return ZL_OK;
}

zl_status zr_tanh_backward(const void *out, void *grad, uint64_t count, zl_dtype dtype,
                           zr_stream *stream)
{
    (void)stream;
    if (!zr_host_dtype_ok(dtype)) {
        return ZL_E_USAGE;
    }
    float buf[ZR_HOST_CHUNK];
    float g[ZR_HOST_CHUNK];
    for (uint64_t at = 0; at < count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, count - at);
        const float *y = zr_host_view(buf, out, dtype, at, n);
        zr_host_load(g, grad, dtype, at, n);
        for (size_t i = 0; i < n; i++) {
            g[i] *= 1.0F - y[i] * y[i];
        }
        zr_host_store(grad, dtype, at, g, n);
    }
    return ZL_OK;
}
