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

/* X(kernel, its parameters, their names); a struct of arguments and a stream, or longer lists. */
#define ZB_KERNELS(X)                                                                              \
    ZB_PLAIN(X, adamw, zr_adamw_args)                                                              \
    ZB_PLAIN(X, bias_backward, zr_bias_grad_args)                                                  \
    ZB_PLAIN(X, cross_entropy, zr_loss_args)                                                       \
    ZB_PLAIN(X, embed_backward, zr_embed_args)                                                     \
    ZB_PLAIN(X, embed_forward, zr_embed_args)                                                      \
    ZB_PLAIN(X, flash_backward, zr_attn_args)                                                      \
    ZB_PLAIN(X, flash_forward, zr_attn_args)                                                       \
    ZB_PLAIN(X, gelu_backward, zr_gelu_args)                                                       \
    ZB_PLAIN(X, gelu_forward, zr_gelu_args)                                                        \
    ZB_PLAIN(X, gemm, zr_gemm_args)                                                                \
    ZB_PLAIN(X, layernorm_backward, zr_norm_grad_args)                                             \
    ZB_PLAIN(X, layernorm_forward, zr_norm_args)                                                   \
    ZB_PLAIN(X, reduce, zr_reduce_args)                                                            \
    X(fill, (void *x, uint64_t count, zl_dtype dtype, float value, zr_stream *stream),             \
      (x, count, dtype, value, stream))                                                            \
    X(sumsq, (const void *x, uint64_t count, zl_dtype dtype, double *out, zr_stream *stream),      \
      (x, count, dtype, out, stream))
#define ZB_PLAIN(X, kernel, type) X(kernel, (const type *args, zr_stream *stream), (args, stream))

typedef enum zb_place {
    ZB_BLAS,
#define ZB_PLACE(kernel, parameters, names) ZB_##kernel,
    ZB_KERNELS(ZB_PLACE)
#undef ZB_PLACE
        ZB_SPENT_COUNT
} zb_place;

void zb_spent_reset(void);
double zb_spent(zb_place place);
const char *zb_spent_name(zb_place place); /* static storage */

#endif
