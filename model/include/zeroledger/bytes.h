/* Byte arithmetic that cannot go wrong silently.
 *
 * Bytes and counts are uint64_t. Overflow gives ZL_POISON, and poison absorbs everything (even a
 * product with zero), so a formula stays readable and is checked once, when its result is used:
 *
 *     uint64_t bytes = zl_add(zl_prod(2, b, t, c), zl_align_up(n, 256));
 *     if (zl_poisoned(bytes)) { ... }
 */
#ifndef ZEROLEDGER_BYTES_H
#define ZEROLEDGER_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZL_POISON UINT64_MAX

static inline bool zl_poisoned(uint64_t x)
{
    return x == ZL_POISON;
}

static inline uint64_t zl_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? ZL_POISON : sum;
}

/* a - b; a negative difference is poison. */
static inline uint64_t zl_sub(uint64_t a, uint64_t b)
{
    return a == ZL_POISON || b == ZL_POISON || b > a ? ZL_POISON : a - b;
}

static inline uint64_t zl_mul(uint64_t a, uint64_t b)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return ZL_POISON;
    }
    /* Poison overflows or stays poison, but for a factor 0. */
    return product == 0 && (a == ZL_POISON || b == ZL_POISON) ? ZL_POISON : product;
}

/* Smallest q with q * b >= a; division by zero is poison. */
static inline uint64_t zl_ceil_div(uint64_t a, uint64_t b)
{
    if (a == ZL_POISON || b == ZL_POISON || b == 0) {
        return ZL_POISON;
    }
    return a / b + (a % b != 0);
}

/* a / b where b divides a; anything else is poison. */
static inline uint64_t zl_exact_div(uint64_t a, uint64_t b)
{
    return a == ZL_POISON || b == ZL_POISON || b == 0 || a % b != 0 ? ZL_POISON : a / b;
}

/* Smallest multiple of unit that is at least a. Powers of two, the usual units, need no division.
 */
static inline uint64_t zl_align_up(uint64_t a, uint64_t unit)
{
    if (unit != 0 && (unit & (unit - 1)) == 0) {
        const uint64_t over = zl_add(a, unit - 1);
        return zl_poisoned(over) ? ZL_POISON : over & ~(unit - 1);
    }
    return zl_mul(zl_ceil_div(a, unit), unit);
}

static inline uint64_t zl_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Poison is the largest value, so it wins. */
static inline uint64_t zl_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t zl_prod_n(const uint64_t *factor, size_t n)
{
    uint64_t product = 1;
    for (size_t i = 0; i < n; i++) {
        product = zl_mul(product, factor[i]);
    }
    return product;
}

/* Product of any number of counts: zl_prod(2, b, t, c). C only. */
#define zl_prod(...)                                                                               \
    zl_prod_n((const uint64_t[]){__VA_ARGS__},                                                     \
              sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

#endif
