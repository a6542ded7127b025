/* Attention of one block, flash or eager, forward and backward. */
#include <math.h>

#include "net/parts.h"
#include "zeroledger/bytes.h"

static bool eager(const zr_net *net)
{
    return net->run->attention == ZL_ATTENTION_EAGER;
}

static zr_attn_args attn_args(const zr_net *net, uint64_t l)
{
    const zr_dims *d = &net->dim;
    const bool bert = net->run->model.family == ZL_FAMILY_BERT;
    const zr_scope *b = &net->block[l];
    return (zr_attn_args){
        .dtype = net->dtype,
        .batch = zr_u32(d->B),
        .tokens = zr_u32(d->T),
        .heads = zr_u32(d->H),
        .kv_heads = zr_u32(d->G),
        .head_dim = zr_u32(d->D),
        .causal = !bert,
        .lengths = bert ? zr_ptr(&net->pass, ZL_BUF_INPUT_LENGTHS) : NULL,
        .scale = (float)(1.0 / sqrt((double)d->D)),
        .dropout = (float)zr_dropout_rate(net),
        .rng = zr_mask(net, l, ZR_PLACE_PROBS, d->B * d->H * d->T * d->T),
        .qkv = zr_ptr(b, ZL_BUF_ACT_QKV),
        .out = zr_ptr(b, ZL_BUF_ACT_ATTN),
        .lse = zr_ptr(b, ZL_BUF_ACT_LSE),
        .probs = zr_ptr(b, ZL_BUF_ACT_PROBS),
        .dropped = zr_ptr(&net->pass, ZL_BUF_TEMP_PROBS),
        .dprobs = zr_ptr(&net->pass, ZL_BUF_TEMP_DPROBS),
        .delta = zr_ptr(&net->pass, ZL_BUF_TEMP_DELTA),
        .dout = zr_ptr(&net->pass, ZL_BUF_TEMP_DATTN),
        .dqkv = zr_ptr(&net->pass, ZL_BUF_TEMP_DQKV),
    };
}

static uint64_t square(const zr_net *net)
{
    const zr_dims *d = &net->dim;
    return ZR_SHAPE(net->dtype, d->B, d->H, d->T, d->T);
}

static zl_status flash_forward(zr_net *net, uint64_t l, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *b = &net->block[l];
    ZL_TRY(zr_take(net, b, ZL_BUF_ACT_ATTN, ZR_SHAPE(net->dtype, d->R, d->A), err));
    ZL_TRY(zr_take(net, b, ZL_BUF_ACT_LSE, ZR_SHAPE(ZL_F32, d->B, d->H, d->T), err));
    const zr_attn_args args = attn_args(net, l);
    return zr_did(zr_flash_forward(&args, net->stream), "flash_forward", err);
}

static zl_status eager_forward(zr_net *net, uint64_t l, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *b = &net->block[l];
    ZL_TRY(zr_take(net, b, ZL_BUF_ACT_PROBS, square(net), err));
    if (zr_dropout_rate(net) > 0.0) {
        ZL_TRY(zr_take(net, &net->pass, ZL_BUF_TEMP_PROBS, square(net), err));
    }
    ZL_TRY(zr_take(net, b, ZL_BUF_ACT_ATTN, ZR_SHAPE(net->dtype, d->R, d->A), err));
    const zr_attn_args args = attn_args(net, l);
    ZL_TRY(zr_did(zr_eager_forward(&args, net->stream), "eager_forward", err));
    zr_drop(net, &net->pass, ZL_BUF_TEMP_PROBS);
    return ZL_OK;
}

zl_status zr_attention_forward(zr_net *net, uint64_t l, zl_err *err)
{
    return ZR_TIMED(net->profile, "attention",
                    eager(net) ? eager_forward(net, l, err) : flash_forward(net, l, err));
}

static zl_status flash_backward(zr_net *net, uint64_t l, zl_err *err)
{
    const zr_dims *d = &net->dim;
    ZL_TRY(zr_take(net, &net->pass, ZL_BUF_TEMP_DELTA, ZR_SHAPE(ZL_F32, d->B, d->H, d->T), err));
    const zr_attn_args args = attn_args(net, l);
    ZL_TRY(zr_did(zr_flash_backward(&args, net->stream), "flash_backward", err));
    zr_drop(net, &net->pass, ZL_BUF_TEMP_DELTA);
    return ZL_OK;
}

/* The dropped probabilities once more, from the saved ones and the counter. */
static zl_status drop_probs(zr_net *net, const zr_attn_args *a, zl_err *err)
{
    const zr_dims *d = &net->dim;
    const zr_dropout_args args = {
        .dtype = net->dtype,
        .count = d->B * d->H * d->T * d->T,
        .p = a->dropout,
        .rng = a->rng,
        .in = a->probs,
        .out = a->dropped,
    };
    return zr_did(zr_dropout(&args, net->stream), "dropout", err);
}

static zl_status eager_backward(zr_net *net, uint64_t l, zl_err *err)
{
    if (zr_dropout_rate(net) > 0.0) {
        ZL_TRY(zr_take(net, &net->pass, ZL_BUF_TEMP_PROBS, square(net), err));
    }
    zr_attn_args args = attn_args(net, l);
    if (zr_dropout_rate(net) > 0.0) {
        ZL_TRY(drop_probs(net, &args, err));
    }
    ZL_TRY(zr_did(zr_eager_backward_values(&args, net->stream), "eager_backward_values", err));
    zr_drop(net, &net->pass, ZL_BUF_TEMP_PROBS);
    ZL_TRY(zr_take(net, &net->pass, ZL_BUF_TEMP_DPROBS, square(net), err));
    args = attn_args(net, l);
    ZL_TRY(zr_did(zr_eager_backward_scores(&args, net->stream), "eager_backward_scores", err));
    zr_drop(net, &net->pass, ZL_BUF_TEMP_DPROBS);
    return ZL_OK;
}

zl_status zr_attention_backward(zr_net *net, uint64_t l, zl_err *err)
{
    const zr_dims *d = &net->dim;
    ZL_TRY(zr_take(net, &net->pass, ZL_BUF_TEMP_DQKV, ZR_SHAPE(net->dtype, d->R, d->Q), err));
    ZL_TRY(ZR_TIMED(net->profile, "attention",
                    eager(net) ? eager_backward(net, l, err) : flash_backward(net, l, err)));
    zr_drop(net, &net->pass, ZL_BUF_TEMP_DATTN);
    return ZL_OK;
}
