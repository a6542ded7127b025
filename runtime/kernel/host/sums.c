/* Reductions in a fixed order: the shared inner sums, and the three that look at a whole range. */
#include "kernel/host/host.h"

#define LANES ZR_HOST_LANES

/* Adds the lanes in pairs. */
static double fold(const double lane[LANES])
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

ZR_HOST_WIDE double zr_host_sum(const float *x, size_t n)
{
    double lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lane[k] += (double)x[i + k];
        }
    }
    for (size_t k = 0; i + k < n; k++) {
        lane[k] += (double)x[i + k];
    }
    return fold(lane);
}

ZR_HOST_WIDE double zr_host_sumsq(const float *x, size_t n, double mean)
{
    double lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            const double d = (double)x[i + k] - mean;
            lane[k] += d * d;
        }
    }
    for (size_t k = 0; i + k < n; k++) {
        const double d = (double)x[i + k] - mean;
        lane[k] += d * d;
    }
    return fold(lane);
}

ZR_HOST_WIDE double zr_host_dot(const float *a, const float *b, size_t n)
{
    double lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lane[k] += (double)a[i + k] * (double)b[i + k];
        }
    }
    for (size_t k = 0; i + k < n; k++) {
        lane[k] += (double)a[i + k] * (double)b[i + k];
    }
    return fold(lane);
}

zl_status zr_sumsq(const void *x, uint64_t count, zl_dtype dtype, double *out, zr_stream *stream)
{
    (void)stream;
    if (!zr_host_dtype_ok(dtype)) {
        return ZL_E_USAGE;
    }
    float buf[ZR_HOST_CHUNK];
    double total = 0.0;
    for (uint64_t at = 0; at < count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, count - at);
        total += zr_host_sumsq(zr_host_view(buf, x, dtype, at, n), n, 0.0);
    }
    *out = total;
    return ZL_OK;
}

zl_status zr_sum(const void *x, uint64_t count, zl_dtype dtype, double *out, zr_stream *stream)
{
    (void)stream;
    if (!zr_host_dtype_ok(dtype)) {
        return ZL_E_USAGE;
    }
    float buf[ZR_HOST_CHUNK];
    double total = 0.0;
    for (uint64_t at = 0; at < count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, count - at);
        total += zr_host_sum(zr_host_view(buf, x, dtype, at, n), n);
    }
    *out = total;
    return ZL_OK;
}

zl_status zr_nonfinite(const void *x, uint64_t count, zl_dtype dtype, uint32_t *flag,
                       zr_stream *stream)
{
    (void)stream;
    if (!zr_host_dtype_ok(dtype)) {
        return ZL_E_USAGE;
    }
    float buf[ZR_HOST_CHUNK];
    uint32_t found = 0;
    for (uint64_t at = 0; at < count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, count - at);
        const float *v = zr_host_view(buf, x, dtype, at, n);
        for (size_t i = 0; i < n; i++) {
            found |= (zr_host_bits(v[i]) & 0x7f800000U) == 0x7f800000U;
        }
    }
    if (found != 0) {
        *flag = 1;
    }
    return ZL_OK;
}
