/* A safetensors file, the format in which PyTorch's users exchange weights: the length of a JSON
 * header, the header (for each tensor its type, shape and place; words under __metadata__), the
 * bytes. Here fp32 and int32 only, and a tensor is a flat row of numbers.
 *
 *     tensors *file;
 *     ZL_TRY(tensors_load("gpt2.safetensors", &file, err));
 *     const float *w;
 *     ZL_TRY(tensors_floats(file, "weight.head.norm_w", 36, &w, err));
 *     tensors_free(file);
 */
#ifndef ZR_TEST_TENSORS_H
#define ZR_TEST_TENSORS_H

#include <stdint.h>

#include "zeroledger/error.h"

typedef struct tensors tensors;

/* Caller frees; NULL without memory. */
tensors *tensors_new(void);
void tensors_free(tensors *file);

/* The values, and the words, are copied. What did not fit into memory is reported by save. */
void tensors_put_floats(tensors *file, const char *name, const float *value, uint64_t count);
void tensors_put_ints(tensors *file, const char *name, const int32_t *value, uint64_t count);
void tensors_put_word(tensors *file, const char *key, const char *text);
ZL_NODISCARD zl_status tensors_save(const tensors *file, const char *path, zl_err *err);

/* ZL_E_INPUT naming path and reason if it is no such file. Caller frees *out. */
ZL_NODISCARD zl_status tensors_load(const char *path, tensors **out, zl_err *err);
/* Borrowed; ZL_E_INPUT if there is none of this name and count. */
ZL_NODISCARD zl_status tensors_floats(const tensors *file, const char *name, uint64_t count,
                                      const float **out, zl_err *err);
ZL_NODISCARD zl_status tensors_ints(const tensors *file, const char *name, uint64_t count,
                                    const int32_t **out, zl_err *err);
ZL_NODISCARD zl_status tensors_word(const tensors *file, const char *key, const char **out,
                                    zl_err *err);

#endif
