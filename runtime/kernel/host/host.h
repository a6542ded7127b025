/*
 * What the host kernels share: rows of a stored type as fp32, sums in a fixed order, a vectorizable
 * exponential and the counter-based generator. Private to runtime/kernel/host.
 *
 *     float buf[ZR_HOST_CHUNK];
 *     const float *row = zr_host_view(buf, x, dtype, first, n);    // x itself if it is fp32
 *     zr_host_store(out, dtype, first, row, n);
 */
#ifndef ZR_KERNEL_HOST_HOST_H
#define ZR_KERNEL_HOST_HOST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernel/kernel.h"

/* Marks a function whose loops are worth compiling twice, for any processor of the architecture and
 * for AVX2; the loader takes what the machine has. Both give the same bits: vectors do the source's
 * IEEE operations element by element, sums run in lanes that the source spells out, and products
 * and sums are never contracted (AVX2 without FMA, -ffp-contract=off). CMake defines it where the
 * compiler can. */
#ifndef ZR_HOST_WIDE
#define ZR_HOST_WIDE
#endif

/* Elements that a kernel handles at a time; a multiple of ZR_HOST_LANES. */
#define ZR_HOST_CHUNK 512
/* Partial sums of a reduction, at least 2. Their number is part of the result's bits. */
#define ZR_HOST_LANES 8

/* Elements first..first+n-1 of src as fp32 in dst. */
void zr_host_load(float *restrict dst, const void *src, zl_dtype dtype, uint64_t first, size_t n);

/* The same without a copy where src is fp32. buf holds n floats; it may be left untouched. */
const float *zr_host_view(float *buf, const void *src, zl_dtype dtype, uint64_t first, size_t n);

/* The same to write on: x itself if it is fp32, else a copy in buf. zr_host_store puts it back. */
float *zr_host_edit(float *buf, void *x, zl_dtype dtype, uint64_t first, size_t n);

/* Rounds n floats into elements first..first+n-1 of dst. src may be the place itself (fp32). */
void zr_host_store(void *dst, zl_dtype dtype, uint64_t first, const float *src, size_t n);

/* Elements first..first+n-1 of dst += sum, rounded once; n <= ZR_HOST_CHUNK. */
void zr_host_accumulate(void *dst, zl_dtype dtype, uint64_t first, const double *sum, size_t n);

/* Weights as an optimizer sees them: from the master copy if there is one, and to both. */
void zr_host_load_weights(float *restrict dst, const float *master, const void *param,
                          zl_dtype dtype, uint64_t first, size_t n);
void zr_host_store_weights(float *master, void *param, zl_dtype dtype, uint64_t first,
                           const float *src, size_t n);

/* n words of the sequence: elements rng->offset + first ... */
void zr_host_random(uint32_t *restrict out, size_t n, const zr_rng *rng, uint64_t first);

/* Factors 0 or 1/(1-p) of n elements, n <= ZR_HOST_CHUNK. p > 0. */
void zr_host_mask(float *restrict out, size_t n, float p, const zr_rng *rng, uint64_t first);

/* Sums of a stretch in ZR_HOST_LANES partial sums: of x, of (x - mean)^2, of a * b. Splitting a
 * row at multiples of ZR_HOST_CHUNK and adding the parts is the one order used everywhere. */
double zr_host_sum(const float *x, size_t n);
double zr_host_sumsq(const float *x, size_t n, double mean);
double zr_host_dot(const float *a, const float *b, size_t n);

static inline size_t zr_host_min(uint64_t a, uint64_t b)
{
    return (size_t)(a < b ? a : b);
}

static inline bool zr_host_dtype_ok(zl_dtype dtype)
{
    return (unsigned)dtype < (unsigned)ZL_DTYPE_COUNT;
}

static inline bool zr_host_probability_ok(float p)
{
    return p >= 0.0F && p < 1.0F;
}

static inline float zr_host_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t zr_host_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* e^x without branches, so that loops over it vectorize; relative error below 2e-7, results
 * below 2e-38 are 0, above the largest number infinity; NaN stays NaN.
 * x = n ln 2 + r with |r| <= ln 2 / 2, e^r by its series up to r^7. */
static inline float zr_host_exp(float x)
{
    const float shift = 12582912.0F; /* 1.5 * 2^23: adding it rounds to an integer */
    const float low = -86.9F;        /* n - 1 stays a normal exponent */
    const float high = 88.72283F;    /* ln of the largest number */
    const float held = x < low ? low : (x > high ? high : x);
    const float t = held * 1.44269504F + shift;
    const float n = t - shift;
    const float r = (held - n * 0.693359375F) + n * 2.12194440e-4F; /* ln 2 in two parts */
    float p = 1.0F / 5040.0F;
    p = p * r + 1.0F / 720.0F;
    p = p * r + 1.0F / 120.0F;
    p = p * r + 1.0F / 24.0F;
    p = p * r + 1.0F / 6.0F;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    /* 2^(n-1), then doubled: n may be 128. The low bits of t are n. */
    const float half_scale = zr_host_float((zr_host_bits(t) << 23) + (126U << 23));
    const float y = (p * half_scale) * 2.0F;
    return x < low ? 0.0F : (x > high ? zr_host_float(0x7f800000U) : y);
}

static inline float zr_host_sigmoid(float x)
{
    return 1.0F / (1.0F + zr_host_exp(-x));
}

#endif
