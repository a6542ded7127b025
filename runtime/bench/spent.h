/* Seconds spent in BLAS, and in each kernel outside BLAS, since zb_spent_reset. Calls are counted
 * by wrappers that the linker puts around them (--wrap), only in the benchmark.
 *
 *     zb_spent_reset();
 *     ZL_TRY(zr_engine_step(...));
 *     for (size_t i = 0; i < ZB_SPENT_COUNT; i++) { printf("%s %g\n", zb_spent_name(i),
 * zb_spent(i)); }
 */
#ifndef ZB_SPENT_H
#define ZB_SPENT_H

#include <stddef.h>

/* X(kernel, type of its arguments) */
#define ZB_KERNELS(X)                                                                              \
    X(adamw, zr_adamw_args)                                                                        \
    X(bias_backward, zr_bias_grad_args)                                                            \
    X(cross_entropy, zr_loss_args)                                                                 \
    X(embed_backward, zr_embed_args)                                                               \
    X(embed_forward, zr_embed_args)                                                                \
    X(flash_backward, zr_attn_args)                                                                \
    X(flash_forward, zr_attn_args)                                                                 \
    X(gelu_backward, zr_gelu_args)                                                                 \
    X(gelu_forward, zr_gelu_args)                                                                  \
    X(gemm, zr_gemm_args)                                                                          \
    X(layernorm_backward, zr_norm_grad_args)                                                       \
    X(layernorm_forward, zr_norm_args)                                                             \
    X(reduce, zr_reduce_args)

typedef enum zb_place {
    ZB_BLAS,
#define ZB_PLACE(kernel, args) ZB_##kernel,
    ZB_KERNELS(ZB_PLACE)
#undef ZB_PLACE
        ZB_fill,
    ZB_sumsq,
    ZB_SPENT_COUNT
} zb_place;

void zb_spent_reset(void);
double zb_spent(zb_place place);
const char *zb_spent_name(zb_place place); /* static storage */

#endif
