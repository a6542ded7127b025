/*
 * A set of kernels behind one function, so that two sets with the same names can be loaded into one
 * process: each is a shared module, opened without making its symbols global.
 *
 *     const conform_module *(*get)(void) = ...dlsym(handle, "conform_module_get")...;
 *     const conform_module *m = get();
 *     if (m->open(&device, why, sizeof why) == ZL_OK) { ... m->kernels->gelu_forward(...) ... }
 */
#ifndef ZR_TEST_CONFORM_MODULE_H
#define ZR_TEST_CONFORM_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "kernel/kernel.h"

/* Every function of kernel.h. */
#define CONFORM_KERNELS(X)                                                                         \
    X(gemm)                                                                                        \
    X(bias_backward)                                                                               \
    X(embed_forward)                                                                               \
    X(embed_backward)                                                                              \
    X(layernorm_forward)                                                                           \
    X(layernorm_apply)                                                                             \
    X(layernorm_backward)                                                                          \
    X(rmsnorm_forward)                                                                             \
    X(rmsnorm_apply)                                                                               \
    X(rmsnorm_backward)                                                                            \
    X(gelu_forward)                                                                                \
    X(gelu_backward)                                                                               \
    X(swiglu_forward)                                                                              \
    X(swiglu_backward)                                                                             \
    X(tanh_forward)                                                                                \
    X(tanh_backward)                                                                               \
    X(rope_table)                                                                                  \
    X(rope_forward)                                                                                \
    X(rope_backward)                                                                               \
    X(flash_forward)                                                                               \
    X(flash_backward)                                                                              \
    X(eager_forward)                                                                               \
    X(eager_backward)                                                                              \
    X(eager_backward_values)                                                                       \
    X(eager_backward_scores)                                                                       \
    X(dropout)                                                                                     \
    X(cross_entropy)                                                                               \
    X(adamw)                                                                                       \
    X(sgd)                                                                                         \
    X(fill)                                                                                        \
    X(cast)                                                                                        \
    X(add)                                                                                         \
    X(scale)                                                                                       \
    X(reduce)                                                                                      \
    X(sumsq)                                                                                       \
    X(sum)                                                                                         \
    X(nonfinite)                                                                                   \
    X(copy_in)                                                                                     \
    X(copy_out)                                                                                    \
    X(init_normal)                                                                                 \
    X(init_uniform)

typedef struct conform_kernels {
#define CONFORM_MEMBER(name) __typeof__(zr_##name) *name;
    CONFORM_KERNELS(CONFORM_MEMBER)
#undef CONFORM_MEMBER
} conform_kernels;

/* What a module needs to run: the module's own type. */
typedef struct conform_device conform_device;

typedef struct conform_module {
    const char *name;
    const conform_kernels *kernels;
    /* ZL_NO with a reason if there is no device to run on; free with close. */
    zl_status (*open)(conform_device **device, char *why, size_t size);
    void (*close)(conform_device *device);
    zr_stream *(*stream)(conform_device *device);
    /* The scratch of zr_gemm. */
    void *(*work)(conform_device *device, uint64_t *bytes);
    /* Memory of the device; NULL if there is none left. */
    void *(*get)(conform_device *device, size_t bytes);
    void (*put)(conform_device *device, void *memory);
    bool (*write)(conform_device *device, void *to, const void *from, size_t bytes);
    /* Waits for all kernels first; false if one of them failed. */
    bool (*read)(conform_device *device, void *to, const void *from, size_t bytes);
    /* Members of a JSON object about device and libraries, without braces, one a line. */
    void (*describe)(conform_device *device, FILE *to);
} conform_module;

/* The only symbol of a module that is looked up. */
const conform_module *conform_module_get(void);

/* conform_table.c, compiled into each module. */
const conform_kernels *conform_kernels_get(void);

#endif
