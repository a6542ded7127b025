#include "tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct block {
    struct block *next;
    void *data;
} block;

static block *blocks;

static void *borrow(size_t bytes)
{
    block *b = malloc(sizeof *b);
    void *data = malloc(bytes > 0 ? bytes : 1);
    if (b == NULL || data == NULL) {
        fprintf(stderr, "out of memory in a test\n");
        abort();
    }
    *b = (block){blocks, data};
    blocks = b;
    return data;
}

int tensor_free_all(void **state)
{
    (void)state;
    while (blocks != NULL) {
        block *const b = blocks;
        blocks = b->next;
        free(b->data);
        free(b);
    }
    return 0;
}

double *doubles(size_t count)
{
    double *const values = borrow(count * sizeof(double));
    memset(values, 0, count * sizeof(double));
    return values;
}

int32_t *int32s(size_t count)
{
    int32_t *const values = borrow(count * sizeof(int32_t));
    memset(values, 0, count * sizeof(int32_t));
    return values;
}

static size_t bytes_of(zl_dtype dtype, size_t count)
{
    return count * (dtype == ZL_F32 ? 4 : 2);
}

/* Bits of the significand with the hidden one, and the exponent of the smallest normal number. */
static int precision(zl_dtype dtype)
{
    return dtype == ZL_F32 ? 24 : (dtype == ZL_BF16 ? 8 : 11);
}

static int smallest(zl_dtype dtype)
{
    return dtype == ZL_F16 ? -14 : -126;
}

double round_to(zl_dtype dtype, double value)
{
    if (!isfinite(value) || value == 0.0) {
        return value;
    }
    const int exponent = ilogb(value) > smallest(dtype) ? ilogb(value) : smallest(dtype);
    const double unit = ldexp(1.0, exponent - (precision(dtype) - 1));
    const double rounded = nearbyint(value / unit) * unit;
    const double limit = ldexp(1.0, 2 - smallest(dtype)); /* first power of two out of range */
    return fabs(rounded) >= limit ? copysign((double)INFINITY, value) : rounded;
}

/* Value of a 16-bit pattern. */
static double decode(zl_dtype dtype, uint16_t bits)
{
    const int fraction_bits = precision(dtype) - 1;
    const uint32_t fraction = bits & ((1U << fraction_bits) - 1U);
    const uint32_t exponent = (bits & 0x7fffU) >> fraction_bits;
    const uint32_t top = 0x7fffU >> fraction_bits;
    const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
    if (exponent == top) {
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    }
    const uint32_t hidden = exponent > 0 ? 1U << fraction_bits : 0;
    const int power = (exponent > 0 ? (int)exponent - 1 : 0) + smallest(dtype) - fraction_bits;
    return sign * ldexp((double)(hidden + fraction), power);
}

/* The pattern whose value is `value`, which round_to has made representable. */
static uint16_t encode(zl_dtype dtype, double value)
{
    const int fraction_bits = precision(dtype) - 1;
    const uint16_t sign = signbit(value) ? 0x8000U : 0U;
    const double magnitude = fabs(value);
    if (!isfinite(value)) {
        const uint32_t top = (0x7fffU >> fraction_bits) << fraction_bits;
        return (uint16_t)(sign | top | (isnan(value) ? 1U : 0U));
    }
    if (magnitude < ldexp(1.0, smallest(dtype))) {
        return (uint16_t)(sign | (uint32_t)ldexp(magnitude, fraction_bits - smallest(dtype)));
    }
    const int exponent = ilogb(magnitude);
    const uint32_t whole = (uint32_t)ldexp(magnitude, fraction_bits - exponent);
    const uint32_t biased = (uint32_t)(exponent - smallest(dtype) + 1);
    return (uint16_t)(sign | ((biased << fraction_bits) + (whole - (1U << fraction_bits))));
}

tensor tensor_poisoned(zl_dtype dtype, size_t count)
{
    const tensor x = {borrow(bytes_of(dtype, count)), count, dtype};
    memset(x.data, 0xff, bytes_of(dtype, count)); /* a NaN in all three types */
    return x;
}

tensor tensor_from(zl_dtype dtype, size_t count, const double *values)
{
    const tensor x = tensor_poisoned(dtype, count);
    for (size_t i = 0; i < count; i++) {
        if (dtype == ZL_F32) {
            ((float *)x.data)[i] = (float)values[i];
        } else {
            ((uint16_t *)x.data)[i] = encode(dtype, round_to(dtype, values[i]));
        }
    }
    return x;
}

tensor tensor_random(zl_dtype dtype, size_t count, double low, double high)
{
    double *const values = doubles(count);
    for (size_t i = 0; i < count; i++) {
        values[i] = random_between(low, high);
    }
    return tensor_from(dtype, count, values);
}

void *tensor_at(const tensor *x, size_t first)
{
    return (char *)x->data + bytes_of(x->dtype, first);
}

tensor tensor_copy(const tensor *x)
{
    const tensor y = tensor_poisoned(x->dtype, x->count);
    memcpy(y.data, x->data, bytes_of(x->dtype, x->count));
    return y;
}

double *tensor_values(const tensor *x)
{
    double *const values = doubles(x->count);
    for (size_t i = 0; i < x->count; i++) {
        values[i] = x->dtype == ZL_F32 ? (double)((const float *)x->data)[i]
                                       : decode(x->dtype, ((const uint16_t *)x->data)[i]);
    }
    return values;
}

double *tensor_join(const tensor *parts, size_t n)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++) {
        total += parts[i].count;
    }
    double *const all = doubles(total);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(all + at, tensor_values(&parts[i]), parts[i].count * sizeof(double));
        at += parts[i].count;
    }
    return all;
}

bool tensor_same_bits(const tensor *a, const tensor *b)
{
    return a->dtype == b->dtype && a->count == b->count &&
           memcmp(a->data, b->data, bytes_of(a->dtype, a->count)) == 0;
}

double relative_error(const double *got, const double *want, size_t count)
{
    double difference = 0.0;
    double norm = 0.0;
    for (size_t i = 0; i < count; i++) {
        difference += (got[i] - want[i]) * (got[i] - want[i]);
        norm += want[i] * want[i];
    }
    const double error = sqrt(difference / norm);
    return isfinite(error) ? error : (double)INFINITY;
}

double tolerance(zl_dtype dtype)
{
    static const double allowed[ZL_DTYPE_COUNT] = {
        [ZL_F32] = 1e-5, [ZL_BF16] = 1e-2, [ZL_F16] = 2e-3};
    return allowed[dtype];
}

/* Knuth's MMIX generator; the upper bits are good enough for test data. */
static uint64_t random_word(void)
{
    static uint64_t word;
    static bool started;
    if (!started) {
        const char *const seed = getenv("ZL_SEED");
        word = seed != NULL ? strtoull(seed, NULL, 10) : 20240917U;
        started = true;
        printf("# ZL_SEED=%llu\n", (unsigned long long)word);
    }
    word = word * 6364136223846793005U + 1442695040888963407U;
    return word >> 11;
}

double random_between(double low, double high)
{
    return low + (high - low) * ldexp((double)random_word(), -53);
}

uint32_t random_below(uint32_t limit)
{
    return (uint32_t)random_between(0.0, (double)limit);
}
