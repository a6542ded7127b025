#include "net/decoder.h"

#include "fault/fault.h"
#include "net/parts.h"
#include "zeroledger/bytes.h"

static bool llama(const zr_net *net)
{
    return net->run->model.family == ZL_FAMILY_LLAMA;
}

static zr_rope_args rope_args(const zr_net *net, void *qkv)
{
    const zr_dims *d = &net->dim;
    return (zr_rope_args){
        .dtype = net->dtype,
        .rows = zr_u32(d->R),
        .tokens = zr_u32(d->T),
        .heads = zr_u32(d->H),
        .kv_heads = zr_u32(d->G),
        .head_dim = zr_u32(d->D),
        .table = zr_ptr(&net->constant, ZL_BUF_CONST_ROPE),
        .qkv = qkv,
    };
}

static zl_status rotate(zr_net *net, void *qkv, zl_err *err)
{
    const zr_rope_args args = rope_args(net, qkv);
    return llama(net)
               ? zr_did(ZR_TIMED(net->profile, "rotation", zr_rope_forward(&args, net->stream)),
                        "rope_forward", err)
               : ZL_OK;
}

static zl_status rotate_back(zr_net *net, void *dqkv, zl_err *err)
{
    const zr_rope_args args = rope_args(net, dqkv);
    return llama(net)
               ? zr_did(ZR_TIMED(net->profile, "rotation", zr_rope_backward(&args, net->stream)),
                        "rope_backward", err)
               : ZL_OK;
}

zl_status zr_decoder_embed_forward(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *first = &net->block[0];
    const zl_buf residual = zr_residual(net);
    ZL_TRY(zr_take(net, first, residual, ZR_SHAPE(net->dtype, d->R, d->C), err));
    ZL_TRY(zr_tables_forward(net, zr_ptr(first, residual), err));
    return zr_drop_in_place(net, 0, ZR_PLACE_EMBED, zr_ptr(first, residual), err);
}

/* Steps 1 to 4: norm, attention, residual stream. */
static zl_status attention_half(zr_net *net, uint64_t l, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *b = &net->block[l];
    const void *x = zr_ptr(b, zr_residual(net));
    ZL_TRY(zr_take_stats(net, b, ZL_BUF_ACT_LN1_STATS, err));
    ZL_TRY(zr_take(net, b, ZL_BUF_ACT_LN1, ZR_SHAPE(net->dtype, d->R, d->C), err));
    const zr_norm norm = zr_block_norm1(net, l, x);
    ZL_TRY(zr_norm_forward(net, &norm, zr_ptr(b, ZL_BUF_ACT_LN1), err));

    ZL_TRY(zr_take(net, b, ZL_BUF_ACT_QKV, ZR_SHAPE(net->dtype, d->R, d->Q), err));
    const zr_linear qkv = zr_block_linear(net, l, ZR_QKV_W);
    ZL_TRY(zr_linear_forward(net, &qkv, zr_ptr(b, ZL_BUF_ACT_LN1), NULL, zr_ptr(b, ZL_BUF_ACT_QKV),
                             err));
    ZL_TRY(rotate(net, zr_ptr(b, ZL_BUF_ACT_QKV), err));
    if (zr_selective(net)) {
        zr_drop(net, b, ZL_BUF_ACT_LN1);
    }
    ZL_TRY(zr_attention_forward(net, l, err));
    const zr_branch branch = zr_attention_branch(net, l);
    return zr_branch_forward(net, &branch, x, b, ZL_BUF_ACT_MID, err);
}

/* Steps 5 to 7: norm and MLP up to its activation function. */
static zl_status mlp_half(zr_net *net, uint64_t l, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *b = &net->block[l];
    ZL_TRY(zr_take_stats(net, b, ZL_BUF_ACT_LN2_STATS, err));
    ZL_TRY(zr_take(net, b, ZL_BUF_ACT_LN2, ZR_SHAPE(net->dtype, d->R, d->C), err));
    const zr_norm norm = zr_block_norm2(net, l, zr_ptr(b, ZL_BUF_ACT_MID));
    ZL_TRY(zr_norm_forward(net, &norm, zr_ptr(b, ZL_BUF_ACT_LN2), err));

    ZL_TRY(zr_take(net, b, ZL_BUF_ACT_FFN_PRE, ZR_SHAPE(net->dtype, d->R, d->U), err));
    const zr_linear up = zr_block_linear(net, l, ZR_UP_W);
    ZL_TRY(zr_linear_forward(net, &up, zr_ptr(b, ZL_BUF_ACT_LN2), NULL,
                             zr_ptr(b, ZL_BUF_ACT_FFN_PRE), err));
    if (zr_selective(net)) {
        zr_drop(net, b, ZL_BUF_ACT_LN2);
    }
    ZL_TRY(zr_take(net, b, ZL_BUF_ACT_FFN_POST, ZR_SHAPE(net->dtype, d->R, d->F), err));
    return zr_activation_forward(net, zr_ptr(b, ZL_BUF_ACT_FFN_PRE), zr_ptr(b, ZL_BUF_ACT_FFN_POST),
                                 err);
}

zl_status zr_decoder_block_again(zr_net *net, uint64_t l, zl_err *err)
{
    ZL_TRY(attention_half(net, l, err));
    return mlp_half(net, l, err);
}

zl_status zr_decoder_block_forward(zr_net *net, uint64_t l, zl_err *err)
{
    zr_scope *b = &net->block[l];
    ZL_TRY(zr_decoder_block_again(net, l, err));
    const zr_branch branch = zr_mlp_branch(net, l);
    ZL_TRY(zr_branch_forward(net, &branch, zr_ptr(b, ZL_BUF_ACT_MID), &net->block[l + 1],
                             zr_residual(net), err));
    if (zr_selective(net)) {
        zr_drop(net, b, ZL_BUF_ACT_FFN_POST);
    }
    return ZL_OK;
}

/* Step 2: from temp.dffn, the gradient behind the activation function, to the one before it. */
static zl_status activation_backward(zr_net *net, uint64_t l, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *p = &net->pass;
    const void *pre = zr_ptr(&net->block[l], ZL_BUF_ACT_FFN_PRE);
    if (!llama(net)) {
        return zr_gelu_in_place(net, pre, zr_ptr(p, ZL_BUF_TEMP_DFFN), d->R * d->F, err);
    }
    ZL_TRY(zr_take(net, p, ZL_BUF_TEMP_DGATEUP, ZR_SHAPE(net->dtype, d->R, d->U), err));
    const zr_swiglu_args args = {
        .dtype = net->dtype,
        .rows = zr_u32(d->R),
        .width = zr_u32(d->F),
        .pre = pre,
        .dout = zr_ptr(p, ZL_BUF_TEMP_DFFN),
        .dpre = zr_ptr(p, ZL_BUF_TEMP_DGATEUP),
    };
    ZL_TRY(zr_did(ZR_TIMED(net->profile, "activation", zr_swiglu_backward(&args, net->stream)),
                  "swiglu_backward", err));
    zr_drop(net, p, ZL_BUF_TEMP_DFFN);
    return ZL_OK;
}

/* A product fed by a norm: its weight gradient, with the norm's output recomputed for it under
 * selective recompute; then temp.dln, the gradient of that output. Frees dy. */
typedef struct normed_product {
    zr_linear lin;
    zr_norm norm;
    zl_buf x;  /* the norm's output, in the block's scope */
    zl_buf dy; /* in the pass's scope */
} normed_product;

static zl_status normed_product_backward(zr_net *net, zr_scope *b, const normed_product *n,
                                         zl_err *err)
{
    const uint64_t bytes = ZR_SHAPE(net->dtype, net->dim.R, net->dim.C);
    zr_scope *p = &net->pass;
    if (zr_selective(net)) {
        ZL_TRY(zr_take(net, b, n->x, bytes, err));
        ZL_TRY(zr_norm_apply(net, &n->norm, zr_ptr(b, n->x), err));
    }
    ZL_TRY(zr_linear_weights(net, &n->lin, zr_ptr(b, n->x), zr_ptr(p, n->dy), err));
    if (zr_selective(net)) {
        zr_drop(net, b, n->x);
    }
    ZL_TRY(zr_take(net, p, ZL_BUF_TEMP_DLN, bytes, err));
    ZL_TRY(zr_linear_input(net, &n->lin, zr_ptr(p, n->dy), zr_ptr(p, ZL_BUF_TEMP_DLN), false, err));
    zr_drop(net, p, n->dy);
    ZL_TRY(zr_norm_backward(net, &n->norm, zr_ptr(p, ZL_BUF_TEMP_DLN),
                            zr_ptr(p, ZL_BUF_TEMP_DRESIDUAL), ZR_GRAD_ADD, err));
    zr_drop(net, p, ZL_BUF_TEMP_DLN);
    return ZL_OK;
}

/* Steps 1 to 4. */
static zl_status mlp_backward(zr_net *net, uint64_t l, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *b = &net->block[l];
    if (zr_selective(net)) {
        ZL_TRY(zr_take(net, b, ZL_BUF_ACT_FFN_POST, ZR_SHAPE(net->dtype, d->R, d->F), err));
        ZL_TRY(zr_activation_forward(net, zr_ptr(b, ZL_BUF_ACT_FFN_PRE),
                                     zr_ptr(b, ZL_BUF_ACT_FFN_POST), err));
    }
    const zr_branch branch = zr_mlp_branch(net, l);
    ZL_TRY(zr_branch_backward(net, &branch, err));
    ZL_TRY(activation_backward(net, l, err));
    const normed_product up = {
        .lin = zr_block_linear(net, l, ZR_UP_W),
        .norm = zr_block_norm2(net, l, zr_ptr(b, ZL_BUF_ACT_MID)),
        .x = ZL_BUF_ACT_LN2,
        .dy = llama(net) ? ZL_BUF_TEMP_DGATEUP : ZL_BUF_TEMP_DFFN,
    };
    return normed_product_backward(net, b, &up, err);
}

zl_status zr_decoder_block_backward(zr_net *net, uint64_t l, zl_err *err)
{
    zr_scope *b = &net->block[l];
    ZL_TRY(mlp_backward(net, l, err));
    const zr_branch branch = zr_attention_branch(net, l);
    ZL_TRY(zr_branch_backward(net, &branch, err));
    ZL_TRY(zr_attention_backward(net, l, err));
    ZL_TRY(rotate_back(net, zr_ptr(&net->pass, ZL_BUF_TEMP_DQKV), err));
    const normed_product qkv = {
        .lin = zr_block_linear(net, l, ZR_QKV_W),
        .norm = zr_block_norm1(net, l, zr_ptr(b, zr_residual(net))),
        .x = ZL_BUF_ACT_LN1,
        .dy = ZL_BUF_TEMP_DQKV,
    };
    return normed_product_backward(net, b, &qkv, err);
}

static zr_norm final_norm(zr_net *net)
{
    zr_scope *h = zr_head_scope(net);
    return (zr_norm){net->dim.L + 1, ZR_NORM_W, ZR_NORM_B, zr_ptr(h, zr_residual(net)),
                     zr_ptr(h, ZL_BUF_ACT_LNF_STATS)};
}

zl_status zr_decoder_head_forward(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *h = zr_head_scope(net);
    ZL_TRY(zr_take_stats(net, h, ZL_BUF_ACT_LNF_STATS, err));
    ZL_TRY(zr_take(net, h, ZL_BUF_ACT_LNF, ZR_SHAPE(net->dtype, d->R, d->C), err));
    const zr_norm norm = final_norm(net);
    ZL_TRY(zr_norm_forward(net, &norm, zr_ptr(h, ZL_BUF_ACT_LNF), err));
    return zr_head_losses(net, err);
}

zl_status zr_decoder_head_backward(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *p = &net->pass;
    ZL_TRY(zr_take(net, p, ZL_BUF_TEMP_DRESIDUAL, ZR_SHAPE(net->dtype, d->R, d->C), err));
    const zr_norm norm = final_norm(net);
    ZL_TRY(zr_norm_backward(net, &norm, zr_ptr(p, ZL_BUF_TEMP_DHEAD),
                            zr_ptr(p, ZL_BUF_TEMP_DRESIDUAL), ZR_GRAD_WRITE, err));
    zr_drop(net, p, ZL_BUF_TEMP_DHEAD);
    return ZL_OK;
}

zl_status zr_decoder_embed_backward(zr_net *net, zl_err *err)
{
    void *dresidual = zr_ptr(&net->pass, ZL_BUF_TEMP_DRESIDUAL);
    ZL_TRY(zr_drop_in_place(net, 0, ZR_PLACE_EMBED, dresidual, err));
    return zr_tables_backward(net, dresidual, err);
}
