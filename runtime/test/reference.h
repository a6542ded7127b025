/*
 * The kernels' functions in fp64, written for clarity alone: the inputs of a function lie in one
 * array x, in the order said here; a shape is the kernel's own argument struct, of which no pointer
 * to a float tensor is used.
 */
#ifndef ZR_TEST_REFERENCE_H
#define ZR_TEST_REFERENCE_H

#include "kernel/kernel.h"

typedef void reference(const void *shape, const double *x, double *y);

/* zr_gemm_args: a, b as stored without gaps; bias (n) and residual (m, n) if present -> (m, n) */
reference reference_gemm;
/* zr_embed_args: tok, pos, type -> (R, C) */
reference reference_embed;
/* zr_norm_args: x, gain, bias -> (R, C);  x, gain -> (R, C) */
reference reference_layernorm;
reference reference_rmsnorm;
/* zr_gelu_args: pre -> out */
reference reference_gelu;
/* zr_swiglu_args: pre -> out */
reference reference_swiglu;
/* zr_tanh: shape is a const uint64_t count */
reference reference_tanh;
/* zr_rope_args and theta: qkv -> qkv */
typedef struct reference_rope_shape {
    zr_rope_args args;
    double theta;
} reference_rope_shape;
reference reference_rope;
/* zr_attn_args: qkv -> out (R, H D) */
reference reference_attention;
/* zr_dropout_args: in, residual if present -> out */
reference reference_dropout;
/* zr_loss_args: logits (rows, ld) -> loss (rows) */
reference reference_cross_entropy;

/* Philox-4x32-10 of one counter: the four words replace it. */
void reference_philox(uint32_t counter[4], uint64_t seed);
/* One word of zr_rng's sequence. */
uint32_t reference_word(const zr_rng *rng, uint64_t element);
/* 0 or 1/(1-p). */
double reference_mask(const zr_rng *rng, uint64_t element, float p);
/* lse (B, H, T) of attention. */
void reference_lse(const zr_attn_args *a, const double *qkv, double *lse);

#endif
