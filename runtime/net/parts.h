/* The pieces that families share. Each allocates and frees exactly what docs/schedule.md says, at
 * the point where it says so.
 *
 *     ZL_TRY(zr_take(net, b, ZL_BUF_ACT_QKV, ZR_SHAPE(net->dtype, d->R, d->Q), err));
 *     ZL_TRY(zr_linear_forward(net, &qkv, zr_ptr(b, ZL_BUF_ACT_LN1), zr_ptr(b, ZL_BUF_ACT_QKV),
 * err)); zr_drop(net, b, ZL_BUF_ACT_LN1);
 */
#ifndef ZR_NET_PARTS_H
#define ZR_NET_PARTS_H

#include "net/net.h"

/* Sizes of things that are no floats. */
#define ZR_IDS(...)     zl_mul(sizeof(int32_t), zl_prod(__VA_ARGS__))
#define ZR_DOUBLES(...) zl_mul(sizeof(double), zl_prod(__VA_ARGS__))

/* First deviation of the 2 L products that are added to the residual stream: smaller, because they
 * add up (Radford et al. 2019). */
double zr_added_deviation(const zl_model *model, double deviation);

/* ---- buffers by name */
ZL_NODISCARD zl_status zr_take(zr_net *net, zr_scope *scope, zl_buf buf, uint64_t bytes,
                               zl_err *err);
void zr_drop(zr_net *net, zr_scope *scope, zl_buf buf);
void zr_drop_all(zr_net *net, zr_scope *scope);
void *zr_ptr(const zr_scope *scope, zl_buf buf); /* NULL if it is not live */

/* act.residual, or ckpt.residual if training under full recompute: the name, and the live buffer in
 * a scope. */
zl_buf zr_residual(const zr_net *net);
zr_scope *zr_head_scope(zr_net *net);

static inline bool zr_selective(const zr_net *net)
{
    return !net->eval && net->run->recompute == ZL_RECOMPUTE_SELECTIVE;
}

static inline double zr_dropout_rate(const zr_net *net)
{
    return net->eval ? 0.0 : net->run->dropout;
}

static inline uint32_t zr_u32(uint64_t x)
{
    return (uint32_t)x; /* zr_net_init has refused larger ones */
}

/* zr_gemm with the backend's scratch and alpha 1; name: in a profile, a literal. */
ZL_NODISCARD zl_status zr_product(zr_net *net, const char *name, zr_gemm_args args, zl_err *err);

/* ---- y = x W + b, W (in, out) */
typedef struct zr_linear {
    uint64_t unit;
    zr_role weight;
    zr_role bias; /* the unit may have none */
    uint64_t rows;
    uint64_t in;
    uint64_t out;
    uint64_t ld; /* elements from one row of x to the next */
} zr_linear;

/* A product of a block over all rows: ZR_QKV_W, ZR_OUT_W, ZR_UP_W or ZR_DOWN_W. */
zr_linear zr_block_linear(const zr_net *net, uint64_t l, zr_role weight);

/* y = x W + b + residual (NULL: none); y (rows, out). */
ZL_NODISCARD zl_status zr_linear_forward(zr_net *net, const zr_linear *lin, const void *x,
                                         const void *residual, void *y, zl_err *err);
/* dW += x^T dy, db += column sums of dy. */
ZL_NODISCARD zl_status zr_linear_weights(zr_net *net, const zr_linear *lin, const void *x,
                                         const void *dy, zl_err *err);
/* dx = dy W^T, or dx += dy W^T; dx has the row distance of x. */
ZL_NODISCARD zl_status zr_linear_input(zr_net *net, const zr_linear *lin, const void *dy, void *dx,
                                       bool add, zl_err *err);

/* ---- dropout */
typedef enum zr_place {
    ZR_PLACE_EMBED,
    ZR_PLACE_PROBS,
    ZR_PLACE_ATTENTION,
    ZR_PLACE_MLP,
    ZR_PLACE_COUNT
} zr_place;

/* The mask of one place of block l (the embedding: l = 0): the same in every call of one
 * micro-step, and element by element the same however the batch is spread over ranks. per_rank:
 * elements. */
zr_rng zr_mask(const zr_net *net, uint64_t l, zr_place place, uint64_t per_rank);
/* (R, C) in place, forward and backward alike; nothing without dropout. */
ZL_NODISCARD zl_status zr_drop_in_place(zr_net *net, uint64_t l, zr_place place, void *x,
                                        zl_err *err);

/* ---- a branch: a product added to the residual stream, through temp.branch under dropout */
typedef struct zr_branch {
    uint64_t l;
    zr_linear lin;
    zr_place place;
    zl_buf x;        /* input, in the block's scope */
    zl_buf dx;       /* its gradient, in the pass's scope */
    bool recomputed; /* backward has x only for the weight gradient */
} zr_branch;

zr_branch zr_attention_branch(const zr_net *net, uint64_t l);
zr_branch zr_mlp_branch(const zr_net *net, uint64_t l);

/* Allocates `result` in scope `to`: residual + dropout(x W + b). */
ZL_NODISCARD zl_status zr_branch_forward(zr_net *net, const zr_branch *branch, const void *residual,
                                         zr_scope *to, zl_buf result, zl_err *err);
/* From temp.dresidual: the weight gradient, then allocates dx. */
ZL_NODISCARD zl_status zr_branch_backward(zr_net *net, const zr_branch *branch, zl_err *err);

/* ---- norms: LayerNorm, Llama RMSNorm */
typedef struct zr_norm {
    uint64_t unit;
    zr_role gain;
    zr_role bias;
    const void *x;
    void *stats;
} zr_norm;

ZL_NODISCARD zl_status zr_norm_forward(zr_net *net, const zr_norm *norm, void *out, zl_err *err);
/* The same output from the saved statistics. */
ZL_NODISCARD zl_status zr_norm_apply(zr_net *net, const zr_norm *norm, void *out, zl_err *err);
/* dx = or += the gradient of x; weight and bias gradients accumulate. */
ZL_NODISCARD zl_status zr_norm_backward(zr_net *net, const zr_norm *norm, const void *dy, void *dx,
                                        zr_grad_mode mode, zl_err *err);
/* Allocates `stats` (R, S) in scope. */
ZL_NODISCARD zl_status zr_take_stats(zr_net *net, zr_scope *scope, zl_buf stats, zl_err *err);
/* A norm of a block over x, its statistics in scope b. */
zr_norm zr_block_norm1(const zr_net *net, uint64_t l, const void *x);
zr_norm zr_block_norm2(const zr_net *net, uint64_t l, const void *x);

/* ---- the MLP's activation function, between act.ffn.pre and act.ffn.post */
ZL_NODISCARD zl_status zr_activation_forward(zr_net *net, const void *pre, void *post, zl_err *err);
/* GELU on `count` elements in place: grad is d out, then d pre. */
ZL_NODISCARD zl_status zr_gelu_in_place(zr_net *net, const void *pre, void *grad, uint64_t count,
                                        zl_err *err);
ZL_NODISCARD zl_status zr_gelu_of(zr_net *net, const void *pre, void *out, uint64_t count,
                                  zl_err *err);

/* ---- attention, attention.c */
ZL_NODISCARD zl_status zr_attention_forward(zr_net *net, uint64_t l, zl_err *err);
/* From temp.dattn to temp.dqkv, both in net->pass. */
ZL_NODISCARD zl_status zr_attention_backward(zr_net *net, uint64_t l, zl_err *err);

/* ---- embedding tables and the head's product, head.c */
ZL_NODISCARD zl_status zr_tables_forward(zr_net *net, void *out, zl_err *err);
ZL_NODISCARD zl_status zr_tables_backward(zr_net *net, const void *dout, zl_err *err);
/* Steps 4.4 to 4.6 of forward on act.lnf: temp.dhead, temp.losses, the logits chunk by chunk; sums
 * of the losses go to const.scalars. In eval no gradient, and none of its buffers. */
ZL_NODISCARD zl_status zr_head_losses(zr_net *net, zl_err *err);

enum zr_scalar { ZR_SCALAR_LOSS, ZR_SCALAR_NEXT_LOSS, ZR_SCALAR_FLAG, ZR_SCALAR_COUNT = 64 };
double *zr_scalar_at(const zr_net *net, enum zr_scalar scalar);

#endif
