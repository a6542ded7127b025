/*
 * The kernels of the trainer: what each one computes, on which shapes, and who owns what.
 *
 * Every function here exists once per backend under the same name; the host version (plain C and
 * a CBLAS) is the reference that the device version is compared with. Linking decides which one
 * runs. A training step is a sequence of these calls and nothing else:
 *
 *     const zr_norm_args norm = {.dtype = ZL_BF16, .rows = R, .width = C, .eps = 1e-5f, .x = x,
 *                                .gain = gain, .bias = bias, .out = y, .stats = stats};
 *     ZL_TRY(zr_layernorm_forward(&norm, stream));
 *
 * Rules that hold for every function:
 *   - No kernel allocates. Every pointer is borrowed for the call (until the stream has passed it).
 *   - Tensors are dense and row major. Letters: B sequences, T tokens, R = B * T rows, C width,
 *     F hidden width of the feed-forward, H query heads, G key/value heads, D head width,
 *     V vocabulary. `rows` counts R; row r is token r % T of sequence r / T.
 *   - `dtype` is the storage type of activations and weights, `gdtype` that of weight gradients.
 *     Arithmetic is fp32 (sums of many terms: fp64 on the host) and every stored value is rounded
 *     once, to nearest even.
 *   - "Accumulates" means read, add, write. Weight gradients always accumulate (except those of
 *     zr_gemm, which obey beta): whoever owns the buffer zeroes it with zr_fill.
 *   - Outputs named "written" are never read, so they may hold anything before the call.
 *   - Two pointers may be equal only where a field says so; otherwise buffers do not overlap.
 *   - Results are bitwise reproducible for equal inputs, shapes and BLAS thread count.
 *   - The stream comes last; it is NULL on the host, where a call has finished when it returns.
 * Errors: ZL_OK; ZL_E_USAGE for a shape or pointer that the kernel does not take (nothing is
 * written then); a device backend can add launch errors. The host version has no other failure.
 */
#ifndef ZR_KERNEL_KERNEL_H
#define ZR_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/vocab.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An ordered queue of a device. The host has none: pass NULL. */
typedef struct zr_stream zr_stream;

/* ------------------------------------------------------------------ matrix multiplication */

/* Side of one fp32 conversion tile of the host's 16-bit products, and the bytes of the three. */
#define ZR_HOST_GEMM_TILE 256
#define ZR_HOST_GEMM_WORK_BYTES                                                                    \
    ((uint64_t)3 * ZR_HOST_GEMM_TILE * ZR_HOST_GEMM_TILE * (uint64_t)sizeof(float))

typedef struct zr_const_matrix {
    const void *data;
    uint64_t ld; /* elements from one stored row to the next */
    zl_dtype dtype;
} zr_const_matrix;

typedef struct zr_matrix {
    void *data;
    uint64_t ld;
    zl_dtype dtype;
} zr_matrix;

typedef struct zr_gemm_args {
    uint32_t m, n, k;
    bool trans_a;      /* a is stored (k, m) and used transposed */
    bool trans_b;      /* b is stored (n, k) and used transposed */
    zr_const_matrix a; /* (m, k) after transposition */
    zr_const_matrix b; /* (k, n) after transposition */
    zr_matrix c;       /* (m, n) written if beta is 0, else read and written */
    float alpha;       /* 0 is refused: it is a forgotten initializer */
    float beta;        /* 0 writes, 1 accumulates */
    const void *bias;  /* (n) added to every row, or NULL */
    zl_dtype bias_dtype;
    zr_const_matrix residual; /* (m, n) added; data NULL for none; data may equal c.data */
    void *work;               /* fixed scratch of the backend; NULL is fine if all types are fp32 */
    uint64_t work_bytes;      /* host: at least ZR_HOST_GEMM_WORK_BYTES if any type is 16-bit */
} zr_gemm_args;

/* c = alpha * op(a) op(b) + beta * c + bias + residual, each with a type of its own.
 * k = 0 is allowed (the product is zero). Sums run over k in fp32 and are rounded once, on cuda
 * twice if types are 16-bit and k is long and no multiple of 8. */
ZL_NODISCARD zl_status zr_gemm(const zr_gemm_args *args, zr_stream *stream);

typedef struct zr_bias_grad_args {
    zl_dtype dtype, gdtype;
    uint32_t rows, cols;
    uint64_t ld;      /* elements from one row of dout to the next */
    const void *dout; /* (rows, cols) */
    void *dbias;      /* (cols) gdtype, accumulates */
} zr_bias_grad_args;

/* dbias += column sums of dout. */
ZL_NODISCARD zl_status zr_bias_backward(const zr_bias_grad_args *args, zr_stream *stream);

/* ------------------------------------------------------------------------------ embedding */

typedef struct zr_embed_args {
    zl_dtype dtype, gdtype;
    uint32_t rows, tokens, width;          /* R, T, C; R is a multiple of T */
    uint32_t vocab, positions, kinds;      /* rows of the three tables */
    const int32_t *ids;                    /* (R), 0 <= id < vocab */
    const int32_t *types;                  /* (R), 0 <= type < kinds; NULL: no type table */
    const void *tok, *pos, *type;          /* forward: (vocab, C), (positions, C), (kinds, C) */
    void *out;                             /* forward: (R, C) written */
    const void *dout;                      /* backward: (R, C) */
    void *tok_grad, *pos_grad, *type_grad; /* backward: gradients of the tables, accumulate */
} zr_embed_args;

/* out[r] = tok[ids[r]] + pos[r % T] + type[types[r]]; pos and type are NULL where absent.
 * ZL_E_USAGE for an id outside its table (host only: a device does not look) or T > positions. */
ZL_NODISCARD zl_status zr_embed_forward(const zr_embed_args *args, zr_stream *stream);

/* Adds dout to the rows of the gradient tables that are not NULL. All rows that meet in one table
 * row are summed in row order in fp32, then added and rounded once. */
ZL_NODISCARD zl_status zr_embed_backward(const zr_embed_args *args, zr_stream *stream);

/* ---------------------------------------------------------------------------------- norms */

typedef struct zr_norm_args {
    zl_dtype dtype;
    uint32_t rows, width;
    float eps;
    const void *x;    /* (R, C) */
    const void *gain; /* (C) */
    const void *bias; /* (C); NULL for RMSNorm */
    void *out;        /* (R, C) written; may equal x */
    float *stats;     /* layer norm: (R, 2) mean, 1/sigma; RMSNorm: (R, 1) 1/rms */
} zr_norm_args;

typedef enum zr_grad_mode {
    ZR_GRAD_WRITE, /* dx is written; dx may equal dy */
    ZR_GRAD_ADD,   /* dx accumulates; it is the gradient of the residual stream */
    ZR_GRAD_MODE_COUNT
} zr_grad_mode;

typedef struct zr_norm_grad_args {
    zl_dtype dtype, gdtype;
    uint32_t rows, width;
    zr_grad_mode mode;
    const void *x;      /* (R, C) the input of the forward */
    const void *gain;   /* (C) */
    const float *stats; /* as saved by the forward */
    const void *dy;     /* (R, C) */
    void *dx;           /* (R, C), see mode */
    void *dgain;        /* (C) gdtype, accumulates */
    void *dbias;        /* (C) gdtype, accumulates; NULL for RMSNorm */
} zr_norm_grad_args;

/* out = (x - mean) / sqrt(var + eps) * gain + bias; variance over C, not C - 1. Writes stats.
 * out NULL: only stats. */
ZL_NODISCARD zl_status zr_layernorm_forward(const zr_norm_args *args, zr_stream *stream);
/* The same out, bit for bit, from saved stats, which are only read. eps is not used. */
ZL_NODISCARD zl_status zr_layernorm_apply(const zr_norm_args *args, zr_stream *stream);
ZL_NODISCARD zl_status zr_layernorm_backward(const zr_norm_grad_args *args, zr_stream *stream);

/* out = x / sqrt(mean(x^2) + eps) * gain. Writes stats. */
ZL_NODISCARD zl_status zr_rmsnorm_forward(const zr_norm_args *args, zr_stream *stream);
/* The same out, bit for bit, from saved stats, which are only read. */
ZL_NODISCARD zl_status zr_rmsnorm_apply(const zr_norm_args *args, zr_stream *stream);
ZL_NODISCARD zl_status zr_rmsnorm_backward(const zr_norm_grad_args *args, zr_stream *stream);

/* ---------------------------------------------------------------------------- activations */

typedef enum zr_gelu {
    ZR_GELU_TANH, /* GPT-2's approximation */
    ZR_GELU_ERF,  /* BERT's exact form */
    ZR_GELU_COUNT
} zr_gelu;

typedef struct zr_gelu_args {
    zr_gelu kind;
    zl_dtype dtype;
    uint64_t count;  /* elements, R * F */
    const void *pre; /* input of the forward */
    void *out;       /* forward: written; may equal pre */
    void *grad;      /* backward: d out on entry, d pre on return */
} zr_gelu_args;

ZL_NODISCARD zl_status zr_gelu_forward(const zr_gelu_args *args, zr_stream *stream);
ZL_NODISCARD zl_status zr_gelu_backward(const zr_gelu_args *args, zr_stream *stream);

typedef struct zr_swiglu_args {
    zl_dtype dtype;
    uint32_t rows, width; /* R, F */
    const void *pre;      /* (R, 2F): a row is F gates, then F ups */
    void *out;            /* forward: (R, F) written */
    const void *dout;     /* backward: (R, F) */
    void *dpre;           /* backward: (R, 2F) written; may equal pre */
} zr_swiglu_args;

/* out = gate * sigmoid(gate) * up. */
ZL_NODISCARD zl_status zr_swiglu_forward(const zr_swiglu_args *args, zr_stream *stream);
ZL_NODISCARD zl_status zr_swiglu_backward(const zr_swiglu_args *args, zr_stream *stream);

/* out = tanh(x), out may equal x; backward turns grad (d out) into d x, from the saved output. */
ZL_NODISCARD zl_status zr_tanh_forward(const void *x, void *out, uint64_t count, zl_dtype dtype,
                                       zr_stream *stream);
ZL_NODISCARD zl_status zr_tanh_backward(const void *out, void *grad, uint64_t count, zl_dtype dtype,
                                        zr_stream *stream);

/* ------------------------------------------------------------------------------ attention */

typedef struct zr_rope_args {
    zl_dtype dtype;
    uint32_t rows, tokens;              /* R, T */
    uint32_t heads, kv_heads, head_dim; /* H, G, D; D is even */
    const float *table;                 /* (T, D) of zr_rope_table */
    void *qkv;                          /* (R, (H + 2G) D): H queries, G keys, G values; in place */
} zr_rope_args;

/* Fills (T, D) fp32: row t is D/2 cosines, then D/2 sines of t * theta^(-2i/D). */
ZL_NODISCARD zl_status zr_rope_table(float *table, uint32_t tokens, uint32_t head_dim, double theta,
                                     zr_stream *stream);
/* Rotates pairs (i, i + D/2) of queries and keys; values are left alone. Backward turns back. */
ZL_NODISCARD zl_status zr_rope_forward(const zr_rope_args *args, zr_stream *stream);
ZL_NODISCARD zl_status zr_rope_backward(const zr_rope_args *args, zr_stream *stream);

/* Random numbers by position. Element i of a call is element `offset + i` of the sequence named
 * by (seed, stream), whoever asks and in whatever order. The generator is Philox-4x32-10 (Salmon
 * et al., SC 2011): key = seed, counter = (element / 4, stream), word = element % 4. An element
 * is dropped if its word is below p * 2^32. */
typedef struct zr_rng {
    uint64_t seed;
    uint64_t stream; /* one per use: step, micro-step, layer and place, numbered by the caller */
    uint64_t offset; /* first element; a rank adds what the ranks before it hold */
} zr_rng;

/* Widest head that the kernels take. */
#define ZR_ATTN_HEAD_DIM_MAX 128

typedef struct zr_attn_args {
    zl_dtype dtype;
    uint32_t batch, tokens;             /* B, T */
    uint32_t heads, kv_heads, head_dim; /* H, G, D; G divides H; D <= ZR_ATTN_HEAD_DIM_MAX */
    bool causal;                        /* query t sees keys 0..t; else all keys */
    const int32_t *lengths;             /* (B) keys at and after lengths[b] are hidden; or NULL */
    float scale;                        /* of the scores, usually 1/sqrt(D) */
    float dropout;                      /* p of the probabilities, 0 <= p < 1 */
    zr_rng rng;                         /* element ((b H + h) T + query) T + key */
    const void *qkv;                    /* (R, (H + 2G) D): H queries, G keys, G values */
    void *out;                          /* (R, H D); forward: written, flash backward: read */
    /* flash only */
    float *lse;   /* (B, H, T) log of the sum of exponentials; forward: written, backward: read */
    float *delta; /* (B, H, T) backward: temporary, written */
    /* eager only */
    void *probs;   /* (B, H, T, T) forward: written, backward: read */
    void *dropped; /* (B, H, T, T) probs after dropout, likewise; NULL if dropout is 0 */
    void *dprobs;  /* (B, H, T, T) backward: temporary, written */
    /* backward */
    const void *dout; /* (R, H D) */
    void *dqkv;       /* (R, (H + 2G) D) written */
} zr_attn_args;

/* softmax(scale * Q K^T, masked) V, never storing the probabilities. A query that sees no key
 * has output 0 and lse -infinity, and passes no gradient. Backward is deterministic: one pass
 * over key tiles, one over query tiles, both recompute the scores. */
ZL_NODISCARD zl_status zr_flash_forward(const zr_attn_args *args, zr_stream *stream);
ZL_NODISCARD zl_status zr_flash_backward(const zr_attn_args *args, zr_stream *stream);

/* The same function with the probabilities stored (masked ones are 0) and read back. */
ZL_NODISCARD zl_status zr_eager_forward(const zr_attn_args *args, zr_stream *stream);
ZL_NODISCARD zl_status zr_eager_backward(const zr_attn_args *args, zr_stream *stream);
/* The two halves of zr_eager_backward, for a caller that has not room for dropped and dprobs at
 * once: d values from dropped (probs without dropout), then d queries and d keys through dprobs. */
ZL_NODISCARD zl_status zr_eager_backward_values(const zr_attn_args *args, zr_stream *stream);
ZL_NODISCARD zl_status zr_eager_backward_scores(const zr_attn_args *args, zr_stream *stream);

/* ---------------------------------------------------------------------------- dropout, loss */

typedef struct zr_dropout_args {
    zl_dtype dtype;
    uint64_t count;
    float p; /* 0 <= p < 1 */
    zr_rng rng;
    const void *residual; /* added undropped, or NULL */
    const void *in;
    void *out; /* written; may equal in or residual */
} zr_dropout_args;

/* out = residual + kept * in / (1 - p). The backward is the same call on the gradient, with the
 * same rng and no residual. With p = 0 it is a plain copy or sum. */
ZL_NODISCARD zl_status zr_dropout(const zr_dropout_args *args, zr_stream *stream);

typedef struct zr_loss_args {
    zl_dtype dtype;
    uint32_t rows, vocab;
    uint64_t ld;            /* elements from one row of logits to the next, >= vocab */
    const int32_t *targets; /* (rows) < vocab; negative: the row has loss 0 and gradient 0 */
    void *logits;           /* (rows, ld); with `gradient`: replaced by scale * d loss / d logits */
    float *loss;            /* (rows) written, unscaled */
    float scale;            /* of the gradient: loss scale / number of targets */
    bool gradient;          /* false: logits are only read */
} zr_loss_args;

/* loss = log(sum(exp(logits))) - logits[target]. Columns vocab..ld-1 are not touched. */
ZL_NODISCARD zl_status zr_cross_entropy(const zr_loss_args *args, zr_stream *stream);

/* ------------------------------------------------------------------------------ optimizers */

typedef struct zr_adamw_args {
    uint64_t count;
    zl_dtype param_dtype, gdtype, state_dtype;
    void *param;   /* compute copy, written; NULL is fine if master is given */
    float *master; /* fp32 weights, read and written; NULL: param is the only copy */
    const void *grad;
    void *exp_avg;    /* state_dtype, read and written */
    void *exp_avg_sq; /* state_dtype, read and written */
    float grad_scale; /* grad is multiplied by this first: clip / loss scale */
    double lr, beta1, beta2, eps, weight_decay;
    uint64_t step; /* 1 in the first step */
} zr_adamw_args;

/* Decoupled decay, bias correction, eps outside the root:
 *     w -= lr * weight_decay * w;  w -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
 */
ZL_NODISCARD zl_status zr_adamw(const zr_adamw_args *args, zr_stream *stream);

typedef struct zr_sgd_args {
    uint64_t count;
    zl_dtype param_dtype, gdtype, state_dtype;
    void *param;   /* as above */
    float *master; /* as above */
    const void *grad;
    void *momentum;   /* state_dtype, read and written, 0 at first; NULL if mu is 0 */
    float grad_scale; /* as above */
    double lr, mu, weight_decay;
} zr_sgd_args;

/* g += weight_decay * w;  buf = mu * buf + g;  w -= lr * buf. */
ZL_NODISCARD zl_status zr_sgd(const zr_sgd_args *args, zr_stream *stream);

/* ----------------------------------------------------------------------- plain vector work */

/* x[i] = value; value 0 is how gradients are cleared. */
ZL_NODISCARD zl_status zr_fill(void *x, uint64_t count, zl_dtype dtype, float value,
                               zr_stream *stream);

typedef struct zr_pair_args {
    uint64_t count;
    zl_dtype dst_dtype, src_dtype;
    void *dst;
    const void *src;
} zr_pair_args;

/* dst = src, rounded. In place only if the types are equal. */
ZL_NODISCARD zl_status zr_cast(const zr_pair_args *args, zr_stream *stream);
/* dst += src. */
ZL_NODISCARD zl_status zr_add(const zr_pair_args *args, zr_stream *stream);
/* x *= factor. */
ZL_NODISCARD zl_status zr_scale(void *x, uint64_t count, zl_dtype dtype, float factor,
                                zr_stream *stream);

typedef struct zr_reduce_args {
    uint64_t count;  /* elements of one piece */
    uint64_t stride; /* elements from one piece to the next, >= count */
    uint32_t pieces; /* N >= 1 */
    zl_dtype piece_dtype, out_dtype;
    const void *in; /* (N, stride) */
    void *out;      /* (count) written; may equal a piece if the types are equal */
    float scale;    /* 1 for a sum, 1/N for a mean */
} zr_reduce_args;

/* out = scale * (((piece 0 + piece 1) + piece 2) + ...) in fp32, rounded once. */
ZL_NODISCARD zl_status zr_reduce(const zr_reduce_args *args, zr_stream *stream);

/* *out = sum of squares in fp64, in an order that depends on count alone. Written. A non-finite
 * element makes it non-finite. */
ZL_NODISCARD zl_status zr_sumsq(const void *x, uint64_t count, zl_dtype dtype, double *out,
                                zr_stream *stream);
/* *out = sum of x in fp64, likewise. For the losses of a chunk. Written. */
ZL_NODISCARD zl_status zr_sum(const void *x, uint64_t count, zl_dtype dtype, double *out,
                              zr_stream *stream);
/* Sets *flag to 1 if an element is infinite or NaN, else leaves it: clear it first. */
ZL_NODISCARD zl_status zr_nonfinite(const void *x, uint64_t count, zl_dtype dtype, uint32_t *flag,
                                    zr_stream *stream);

/* Bytes from the host to the device, and back; the host's side is ready for use at return. */
ZL_NODISCARD zl_status zr_copy_in(void *dst, const void *host, uint64_t bytes, zr_stream *stream);
ZL_NODISCARD zl_status zr_copy_out(void *host, const void *src, uint64_t bytes, zr_stream *stream);

/* ------------------------------------------------------------------------- initial weights */

typedef struct zr_init_args {
    zl_dtype dtype;
    uint64_t begin, end; /* elements of the tensor, begin <= end */
    void *out;           /* (end - begin) written; element `begin` comes first */
    uint64_t seed;
    uint64_t tensor; /* number of the tensor; element i depends on seed, tensor and i alone */
    float a, b;      /* normal: mean, deviation; uniform: low, high */
} zr_init_args;

/* Normal values (Box-Muller on pairs of words of zr_rng's generator, stream = tensor), or uniform
 * ones from a to b (the upper 24 bits of a word). */
ZL_NODISCARD zl_status zr_init_normal(const zr_init_args *args, zr_stream *stream);
ZL_NODISCARD zl_status zr_init_uniform(const zr_init_args *args, zr_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
