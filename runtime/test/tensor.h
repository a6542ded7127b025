/*
 * Tensors of a stored type for the kernel tests, seen as fp64. Decoding and rounding are written
 * here a second time, by arithmetic instead of bits, so that the kernels cannot vouch for
 * themselves.
 *
 *     tensor x = tensor_random(ZL_BF16, 12, -1.0, 1.0);
 *     tensor y = tensor_poisoned(ZL_BF16, 12);              // all NaN
 *     assert_true(relative_error(tensor_values(&y), want, 12) < tolerance(ZL_BF16));
 *
 * Everything made here is freed by tensor_free_all, a cmocka teardown.
 */
#ifndef ZR_TEST_TENSOR_H
#define ZR_TEST_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/vocab.h"

typedef struct tensor {
    void *data; /* (count) of dtype, an allocation of its own: overruns are seen */
    size_t count;
    zl_dtype dtype;
} tensor;

tensor tensor_poisoned(zl_dtype dtype, size_t count);
tensor tensor_random(zl_dtype dtype, size_t count, double low, double high);
/* The stored values are the nearest ones to `values`. */
tensor tensor_from(zl_dtype dtype, size_t count, const double *values);
tensor tensor_copy(const tensor *x);
/* Where element `first` lies. */
void *tensor_at(const tensor *x, size_t first);

/* Freed by tensor_free_all. */
double *tensor_values(const tensor *x);
double *doubles(size_t count);
int32_t *int32s(size_t count);
/* The inputs of a function in one array. */
double *tensor_join(const tensor *parts, size_t n);

bool tensor_same_bits(const tensor *a, const tensor *b);
int tensor_free_all(void **state);

double round_to(zl_dtype dtype, double value);

/* ||got - want|| / ||want||; infinite if anything is not finite or want is all zero. */
double relative_error(const double *got, const double *want, size_t count);
/* What the storage type allows: fp32 1e-5, bf16 1e-2, fp16 2e-3. */
double tolerance(zl_dtype dtype);

/* Uniform in [low, high); started by ZL_SEED or a fixed number, printed by the first use. */
double random_between(double low, double high);
uint32_t random_below(uint32_t limit);

#endif
