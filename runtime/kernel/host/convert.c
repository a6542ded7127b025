/* Stored types to fp32 and back, without branches inside the loops. */
#include "kernel/host/host.h"

static inline float from_bf16(uint16_t h)
{
    return zr_host_float((uint32_t)h << 16);
}

static inline uint16_t to_bf16(float value)
{
    const uint32_t u = zr_host_bits(value);
    const uint32_t rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
    const uint32_t quiet = (u >> 16) | 0x40U; /* rounding could carry a NaN into infinity */
    return (uint16_t)((u & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

static inline float from_f16(uint16_t h)
{
    const uint32_t magnitude = ((uint32_t)h & 0x7fffU) << 13;
    const uint32_t sign = ((uint32_t)h & 0x8000U) << 16;
    const uint32_t normal = magnitude + (112U << 23);  /* exponent bias 15 to 127 */
    const uint32_t special = magnitude + (224U << 23); /* infinity and NaN: exponent 255 */
    /* A subnormal fraction under exponent -14 is 2^-14 too large. */
    const float tiny = zr_host_float(magnitude + (113U << 23)) - zr_host_float(113U << 23);
    uint32_t bits = magnitude >= (31U << 23) ? special : normal;
    bits = magnitude < (1U << 23) ? zr_host_bits(tiny) : bits;
    return zr_host_float(bits | sign);
}

static inline uint16_t to_f16(float value)
{
    const uint32_t u = zr_host_bits(value);
    const uint32_t magnitude = u & 0x7fffffffU;
    const uint32_t sign = (u >> 16) & 0x8000U;
    const uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - (112U << 23)) >> 13;
    /* The last bit of 0.5 is 2^-24, the unit of a subnormal: the addition does the rounding. */
    const uint32_t tiny = zr_host_bits(zr_host_float(magnitude) + 0.5F) - zr_host_bits(0.5F);
    uint32_t half = magnitude < (113U << 23) ? tiny : normal;
    half = magnitude >= (143U << 23) ? 0x7c00U : half; /* 65536 and more */
    half = magnitude > 0x7f800000U ? 0x7e00U : half;
    return (uint16_t)(half | sign);
}

ZR_HOST_WIDE void zr_host_load(float *restrict dst, const void *src, zl_dtype dtype, uint64_t first,
                               size_t n)
{
    switch (dtype) {
    case ZL_F32: {
        memcpy(dst, (const float *)src + first, n * sizeof(float));
        break;
    }
    case ZL_BF16: {
        const uint16_t *restrict from = (const uint16_t *)src + first;
        for (size_t i = 0; i < n; i++) {
            dst[i] = from_bf16(from[i]);
        }
        break;
    }
    case ZL_F16: {
        const uint16_t *restrict from = (const uint16_t *)src + first;
        for (size_t i = 0; i < n; i++) {
            dst[i] = from_f16(from[i]);
        }
        break;
    }
    case ZL_DTYPE_COUNT:
        break;
    }
}

const float *zr_host_view(float *buf, const void *src, zl_dtype dtype, uint64_t first, size_t n)
{
    if (dtype == ZL_F32) {
        return (const float *)src + first;
    }
    zr_host_load(buf, src, dtype, first, n);
    return buf;
}

ZR_HOST_WIDE void zr_host_store(void *dst, zl_dtype dtype, uint64_t first, const float *src,
                                size_t n)
{
    switch (dtype) {
    case ZL_F32: {
        if (src != (float *)dst + first) {
            memmove((float *)dst + first, src, n * sizeof(float));
        }
        break;
    }
    case ZL_BF16: {
        uint16_t *restrict to = (uint16_t *)dst + first;
        for (size_t i = 0; i < n; i++) {
            to[i] = to_bf16(src[i]);
        }
        break;
    }
    case ZL_F16: {
        uint16_t *restrict to = (uint16_t *)dst + first;
        for (size_t i = 0; i < n; i++) {
            to[i] = to_f16(src[i]);
        }
        break;
    }
    case ZL_DTYPE_COUNT:
        break;
    }
}

float *zr_host_edit(float *buf, void *x, zl_dtype dtype, uint64_t first, size_t n)
{
    if (dtype == ZL_F32) {
        return (float *)x + first;
    }
    zr_host_load(buf, x, dtype, first, n);
    return buf;
}

void zr_host_accumulate(void *dst, zl_dtype dtype, uint64_t first, const double *sum, size_t n)
{
    float buf[ZR_HOST_CHUNK];
    float out[ZR_HOST_CHUNK];
    const float *old = zr_host_view(buf, dst, dtype, first, n);
    for (size_t i = 0; i < n; i++) {
        out[i] = (float)((double)old[i] + sum[i]);
    }
    zr_host_store(dst, dtype, first, out, n);
}

void zr_host_load_weights(float *restrict dst, const float *master, const void *param,
                          zl_dtype dtype, uint64_t first, size_t n)
{
    if (master != NULL) {
        zr_host_load(dst, master, ZL_F32, first, n);
    } else {
        zr_host_load(dst, param, dtype, first, n);
    }
}

void zr_host_store_weights(float *master, void *param, zl_dtype dtype, uint64_t first,
                           const float *src, size_t n)
{
    if (master != NULL) {
        zr_host_store(master, ZL_F32, first, src, n);
    }
    if (param != NULL) {
        zr_host_store(param, dtype, first, src, n);
    }
}
