#include "net/parts.h"

#include <math.h>
#include <stddef.h>

#include "zeroledger/bytes.h"

double zr_added_deviation(const zl_model *model, double deviation)
{
    return deviation / sqrt(2.0 * (double)model->layers);
}

zl_status zr_take(zr_net *net, zr_scope *scope, zl_buf buf, uint64_t bytes, zl_err *err)
{
    zr_free(net->track, &scope->mem[buf]); /* live only where a fault kept it */
    return zr_alloc(net->track, buf, bytes, &scope->mem[buf], err);
}

void zr_drop(zr_net *net, zr_scope *scope, zl_buf buf)
{
    zr_free(net->track, &scope->mem[buf]);
}

void zr_drop_all(zr_net *net, zr_scope *scope)
{
    for (unsigned buf = 0; buf < ZL_BUF_COUNT; buf++) {
        zr_free(net->track, &scope->mem[buf]);
    }
}

void *zr_ptr(const zr_scope *scope, zl_buf buf)
{
    return scope->mem[buf].ptr;
}

zl_buf zr_residual(const zr_net *net)
{
    const bool kept = !net->eval && net->run->recompute == ZL_RECOMPUTE_FULL;
    return kept ? ZL_BUF_CKPT_RESIDUAL : ZL_BUF_ACT_RESIDUAL;
}

zr_scope *zr_head_scope(zr_net *net)
{
    return &net->block[net->dim.L];
}

double *zr_scalar_at(const zr_net *net, enum zr_scalar scalar)
{
    return (double *)zr_ptr(&net->constant, ZL_BUF_CONST_SCALARS) + scalar;
}

zr_linear zr_block_linear(const zr_net *net, uint64_t l, zr_role weight)
{
    const zr_dims *d = &net->dim;
    const uint64_t in = weight == ZR_OUT_W ? d->A : weight == ZR_DOWN_W ? d->F : d->C;
    const uint64_t out = weight == ZR_QKV_W ? d->Q : weight == ZR_UP_W ? d->U : d->C;
    return (zr_linear){
        .unit = l + 1,
        .weight = weight,
        .bias = (zr_role)(weight + 1), /* a product's bias follows its matrix in zr_role */
        .rows = d->R,
        .in = in,
        .out = out,
        .ld = in};
}

zl_status zr_product(zr_net *net, const char *name, zr_gemm_args args, zl_err *err)
{
    args.work = net->work.ptr;
    args.work_bytes = net->work.bytes;
    args.alpha = 1.0F;
    args.bias_dtype = net->dtype;
    return zr_did(ZR_TIMED(net->profile, name, zr_gemm(&args, net->stream)), "gemm", err);
}

/* What the three products of a weight are called in a profile. */
typedef struct product_names {
    const char *forward;
    const char *weights;
    const char *input;
} product_names;

static product_names names_of(zr_role weight)
{
    switch ((unsigned)weight) {
    case ZR_QKV_W:
        return (product_names){"qkv", "qkv: dW", "qkv: dx"};
    case ZR_OUT_W:
        return (product_names){"attention out", "attention out: dW", "attention out: dx"};
    case ZR_UP_W:
        return (product_names){"up", "up: dW", "up: dx"};
    case ZR_DOWN_W:
        return (product_names){"down", "down: dW", "down: dx"};
    default: /* BERT's head */
        return (product_names){"transform", "transform: dW", "transform: dx"};
    }
}

zl_status zr_linear_forward(zr_net *net, const zr_linear *lin, const void *x, const void *residual,
                            void *y, zl_err *err)
{
    const zr_gemm_args args = {
        .m = zr_u32(lin->rows),
        .n = zr_u32(lin->out),
        .k = zr_u32(lin->in),
        .a = {x, lin->ld, net->dtype},
        .b = {zr_zero_weight(net->zero, lin->unit, lin->weight), lin->out, net->dtype},
        .c = {y, lin->out, net->dtype},
        .bias = zr_zero_weight(net->zero, lin->unit, lin->bias),
        .residual = {residual, lin->out, net->dtype},
    };
    return zr_product(net, names_of(lin->weight).forward, args, err);
}

zl_status zr_linear_weights(zr_net *net, const zr_linear *lin, const void *x, const void *dy,
                            zl_err *err)
{
    const zr_gemm_args args = {
        .m = zr_u32(lin->in),
        .n = zr_u32(lin->out),
        .k = zr_u32(lin->rows),
        .trans_a = true,
        .a = {x, lin->ld, net->dtype},
        .b = {dy, lin->out, net->dtype},
        .c = {zr_zero_gradient(net->zero, lin->unit, lin->weight), lin->out, net->gdtype},
        .beta = 1.0F,
    };
    ZL_TRY(zr_product(net, names_of(lin->weight).weights, args, err));
    const zr_bias_grad_args bias = {
        .dtype = net->dtype,
        .gdtype = net->gdtype,
        .rows = zr_u32(lin->rows),
        .cols = zr_u32(lin->out),
        .ld = lin->out,
        .dout = dy,
        .dbias = zr_zero_gradient(net->zero, lin->unit, lin->bias),
    };
    return bias.dbias == NULL
               ? ZL_OK
               : zr_did(ZR_TIMED(net->profile, "bias: db", zr_bias_backward(&bias, net->stream)),
                        "bias_backward", err);
}

zl_status zr_linear_input(zr_net *net, const zr_linear *lin, const void *dy, void *dx, bool add,
                          zl_err *err)
{
    const zr_gemm_args args = {
        .m = zr_u32(lin->rows),
        .n = zr_u32(lin->in),
        .k = zr_u32(lin->out),
        .trans_b = true,
        .a = {dy, lin->out, net->dtype},
        .b = {zr_zero_weight(net->zero, lin->unit, lin->weight), lin->out, net->dtype},
        .c = {dx, lin->ld, net->dtype},
        .beta = add ? 1.0F : 0.0F,
    };
    return zr_product(net, names_of(lin->weight).input, args, err);
}

zr_rng zr_mask(const zr_net *net, uint64_t l, zr_place place, uint64_t per_rank)
{
    /* The upper half of the streams: the lower one numbers the tensors of the first weights. */
    const uint64_t where = (net->micro * net->dim.L + l) * ZR_PLACE_COUNT + place;
    return (zr_rng){.seed = net->seed,
                    .stream = where | (uint64_t)1 << 63,
                    .offset = net->zero->rank * per_rank};
}

static zl_status dropout(zr_net *net, zr_rng rng, const void *residual, const void *in, void *out,
                         zl_err *err)
{
    const zr_dropout_args args = {
        .dtype = net->dtype,
        .count = net->dim.R * net->dim.C,
        .p = (float)zr_dropout_rate(net),
        .rng = rng,
        .residual = residual,
        .in = in,
        .out = out,
    };
    return zr_did(ZR_TIMED(net->profile, "dropout", zr_dropout(&args, net->stream)), "dropout",
                  err);
}

static zr_rng stream_mask(const zr_net *net, uint64_t l, zr_place place)
{
    return zr_mask(net, l, place, net->dim.R * net->dim.C);
}

zl_status zr_drop_in_place(zr_net *net, uint64_t l, zr_place place, void *x, zl_err *err)
{
    return zr_dropout_rate(net) > 0.0 ? dropout(net, stream_mask(net, l, place), NULL, x, x, err)
                                      : ZL_OK;
}

zr_branch zr_attention_branch(const zr_net *net, uint64_t l)
{
    return (zr_branch){.l = l,
                       .lin = zr_block_linear(net, l, ZR_OUT_W),
                       .place = ZR_PLACE_ATTENTION,
                       .x = ZL_BUF_ACT_ATTN,
                       .dx = ZL_BUF_TEMP_DATTN};
}

zr_branch zr_mlp_branch(const zr_net *net, uint64_t l)
{
    return (zr_branch){.l = l,
                       .lin = zr_block_linear(net, l, ZR_DOWN_W),
                       .place = ZR_PLACE_MLP,
                       .x = ZL_BUF_ACT_FFN_POST,
                       .dx = ZL_BUF_TEMP_DFFN,
                       .recomputed = zr_selective(net)};
}

zl_status zr_branch_forward(zr_net *net, const zr_branch *branch, const void *residual,
                            zr_scope *to, zl_buf result, zl_err *err)
{
    const void *x = zr_ptr(&net->block[branch->l], branch->x);
    const uint64_t bytes = ZR_SHAPE(net->dtype, net->dim.R, net->dim.C);
    if (!(zr_dropout_rate(net) > 0.0)) {
        ZL_TRY(zr_take(net, to, result, bytes, err));
        return zr_linear_forward(net, &branch->lin, x, residual, zr_ptr(to, result), err);
    }
    ZL_TRY(zr_take(net, &net->pass, ZL_BUF_TEMP_BRANCH, bytes, err));
    void *product = zr_ptr(&net->pass, ZL_BUF_TEMP_BRANCH);
    ZL_TRY(zr_linear_forward(net, &branch->lin, x, NULL, product, err));
    ZL_TRY(zr_take(net, to, result, bytes, err));
    ZL_TRY(dropout(net, stream_mask(net, branch->l, branch->place), residual, product,
                   zr_ptr(to, result), err));
    zr_drop(net, &net->pass, ZL_BUF_TEMP_BRANCH);
    return ZL_OK;
}

zl_status zr_branch_backward(zr_net *net, const zr_branch *branch, zl_err *err)
{
    const zr_linear *lin = &branch->lin;
    zr_scope *b = &net->block[branch->l];
    const void *dy = zr_ptr(&net->pass, ZL_BUF_TEMP_DRESIDUAL);
    if (zr_dropout_rate(net) > 0.0) {
        ZL_TRY(zr_take(net, &net->pass, ZL_BUF_TEMP_DBRANCH,
                       ZR_SHAPE(net->dtype, net->dim.R, net->dim.C), err));
        void *masked = zr_ptr(&net->pass, ZL_BUF_TEMP_DBRANCH);
        ZL_TRY(dropout(net, stream_mask(net, branch->l, branch->place), NULL, dy, masked, err));
        dy = masked;
    }
    ZL_TRY(zr_linear_weights(net, lin, zr_ptr(b, branch->x), dy, err));
    if (branch->recomputed) {
        zr_drop(net, b, branch->x);
    }
    ZL_TRY(zr_take(net, &net->pass, branch->dx, ZR_SHAPE(net->dtype, lin->rows, lin->in), err));
    ZL_TRY(zr_linear_input(net, lin, dy, zr_ptr(&net->pass, branch->dx), false, err));
    zr_drop(net, &net->pass, ZL_BUF_TEMP_DBRANCH);
    return ZL_OK;
}

static bool rms(const zr_net *net)
{
    return net->dim.S == 1;
}

static zr_norm_args norm_args(const zr_net *net, const zr_norm *norm, void *out)
{
    return (zr_norm_args){
        .dtype = net->dtype,
        .rows = zr_u32(net->dim.R),
        .width = zr_u32(net->dim.C),
        .eps = (float)net->run->model.norm_eps,
        .x = norm->x,
        .gain = zr_zero_weight(net->zero, norm->unit, norm->gain),
        .bias = rms(net) ? NULL : zr_zero_weight(net->zero, norm->unit, norm->bias),
        .out = out,
        .stats = norm->stats,
    };
}

zl_status zr_norm_forward(zr_net *net, const zr_norm *norm, void *out, zl_err *err)
{
    const zr_norm_args args = norm_args(net, norm, out);
    return zr_did(ZR_TIMED(net->profile, "norm",
                           rms(net) ? zr_rmsnorm_forward(&args, net->stream)
                                    : zr_layernorm_forward(&args, net->stream)),
                  "norm_forward", err);
}

zl_status zr_norm_apply(zr_net *net, const zr_norm *norm, void *out, zl_err *err)
{
    const zr_norm_args args = norm_args(net, norm, out);
    return zr_did(ZR_TIMED(net->profile, "norm again",
                           rms(net) ? zr_rmsnorm_apply(&args, net->stream)
                                    : zr_layernorm_apply(&args, net->stream)),
                  "norm_apply", err);
}

zl_status zr_norm_backward(zr_net *net, const zr_norm *norm, const void *dy, void *dx,
                           zr_grad_mode mode, zl_err *err)
{
    const zr_norm_grad_args args = {
        .dtype = net->dtype,
        .gdtype = net->gdtype,
        .rows = zr_u32(net->dim.R),
        .width = zr_u32(net->dim.C),
        .mode = mode,
        .x = norm->x,
        .gain = zr_zero_weight(net->zero, norm->unit, norm->gain),
        .stats = norm->stats,
        .dy = dy,
        .dx = dx,
        .dgain = zr_zero_gradient(net->zero, norm->unit, norm->gain),
        .dbias = rms(net) ? NULL : zr_zero_gradient(net->zero, norm->unit, norm->bias),
    };
    return zr_did(ZR_TIMED(net->profile, "norm",
                           rms(net) ? zr_rmsnorm_backward(&args, net->stream)
                                    : zr_layernorm_backward(&args, net->stream)),
                  "norm_backward", err);
}

zl_status zr_take_stats(zr_net *net, zr_scope *scope, zl_buf stats, zl_err *err)
{
    return zr_take(net, scope, stats, ZR_SHAPE(ZL_F32, net->dim.R, net->dim.S), err);
}

zr_norm zr_block_norm1(const zr_net *net, uint64_t l, const void *x)
{
    void *stats = zr_ptr(&net->block[l], ZL_BUF_ACT_LN1_STATS);
    return (zr_norm){l + 1, ZR_NORM1_W, ZR_NORM1_B, x, stats};
}

zr_norm zr_block_norm2(const zr_net *net, uint64_t l, const void *x)
{
    void *stats = zr_ptr(&net->block[l], ZL_BUF_ACT_LN2_STATS);
    return (zr_norm){l + 1, ZR_NORM2_W, ZR_NORM2_B, x, stats};
}

static zr_gelu_args gelu_args(const zr_net *net, const void *pre, uint64_t count)
{
    return (zr_gelu_args){
        .kind = net->run->model.activation == ZL_ACT_GELU ? ZR_GELU_ERF : ZR_GELU_TANH,
        .dtype = net->dtype,
        .count = count,
        .pre = pre,
    };
}

zl_status zr_gelu_of(zr_net *net, const void *pre, void *out, uint64_t count, zl_err *err)
{
    zr_gelu_args args = gelu_args(net, pre, count);
    args.out = out;
    return zr_did(ZR_TIMED(net->profile, "activation", zr_gelu_forward(&args, net->stream)),
                  "gelu_forward", err);
}

zl_status zr_gelu_in_place(zr_net *net, const void *pre, void *grad, uint64_t count, zl_err *err)
{
    zr_gelu_args args = gelu_args(net, pre, count);
    args.grad = grad;
    return zr_did(ZR_TIMED(net->profile, "activation", zr_gelu_backward(&args, net->stream)),
                  "gelu_backward", err);
}

zl_status zr_activation_forward(zr_net *net, const void *pre, void *post, zl_err *err)
{
    const zr_dims *d = &net->dim;
    if (net->run->model.activation != ZL_ACT_SWIGLU) {
        return zr_gelu_of(net, pre, post, d->R * d->F, err);
    }
    const zr_swiglu_args args = {
        .dtype = net->dtype,
        .rows = zr_u32(d->R),
        .width = zr_u32(d->F),
        .pre = pre,
        .out = post,
    };
    return zr_did(ZR_TIMED(net->profile, "activation", zr_swiglu_forward(&args, net->stream)),
                  "swiglu_forward", err);
}
