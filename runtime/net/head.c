/* The two ends that hold the vocabulary: embedding tables, and the head's product with its loss. */
#include "fault/fault.h"
#include "net/parts.h"
#include "zeroledger/bytes.h"

static zr_embed_args embed_args(const zr_net *net)
{
    const zr_dims *d = &net->dim;
    return (zr_embed_args){
        .dtype = net->dtype,
        .gdtype = net->gdtype,
        .rows = zr_u32(d->R),
        .tokens = zr_u32(d->T),
        .width = zr_u32(d->C),
        .vocab = zr_u32(d->V),
        .positions = zr_u32(d->P),
        .kinds = zr_u32(d->Y),
        .ids = zr_ptr(&net->pass, ZL_BUF_INPUT_TOKENS),
        .types = zr_ptr(&net->pass, ZL_BUF_INPUT_TYPES),
    };
}

zl_status zr_tables_forward(zr_net *net, void *out, zl_err *err)
{
    zr_embed_args args = embed_args(net);
    args.tok = zr_zero_weight(net->zero, 0, ZR_TOKEN_TABLE);
    args.pos = zr_zero_weight(net->zero, 0, ZR_POSITION_TABLE);
    args.type = zr_zero_weight(net->zero, 0, ZR_TYPE_TABLE);
    args.out = out;
    return zr_did(zr_embed_forward(&args, net->stream), "embed_forward", err);
}

zl_status zr_tables_backward(zr_net *net, const void *dout, zl_err *err)
{
    zr_embed_args args = embed_args(net);
    args.tok_grad = zr_zero_gradient(net->zero, 0, ZR_TOKEN_TABLE);
    args.pos_grad = zr_zero_gradient(net->zero, 0, ZR_POSITION_TABLE);
    args.type_grad = zr_zero_gradient(net->zero, 0, ZR_TYPE_TABLE);
    args.dout = dout;
    return zr_did(zr_embed_backward(&args, net->stream), "embed_backward", err);
}

/* Some rows of the head: hidden (rows, C), logits (rows, V) = hidden E^T + bias, E (V, C). */
typedef struct chunk {
    uint64_t first;
    uint64_t rows;
    const void *hidden;
    void *dhidden;
    void *logits;
} chunk;

static zl_status gemm(zr_net *net, zr_gemm_args args, zl_err *err)
{
    const zr_mem *work = &net->constant.mem[ZL_BUF_WORK_HOST_GEMM];
    args.alpha = 1.0F;
    args.work = work->ptr;
    args.work_bytes = work->bytes;
    return zr_did(zr_gemm(&args, net->stream), "gemm", err);
}

static uint64_t head_unit(const zr_net *net)
{
    return net->dim.L + 1;
}

static const void *output_matrix(const zr_net *net)
{
    return net->run->model.tied ? zr_zero_weight(net->zero, 0, ZR_TOKEN_TABLE)
                                : zr_zero_weight(net->zero, head_unit(net), ZR_OUTPUT_W);
}

static void *output_gradient(const zr_net *net)
{
    return net->run->model.tied ? zr_zero_gradient(net->zero, 0, ZR_TOKEN_TABLE)
                                : zr_zero_gradient(net->zero, head_unit(net), ZR_OUTPUT_W);
}

static zl_status chunk_logits(zr_net *net, const chunk *c, zl_err *err)
{
    const zr_dims *d = &net->dim;
    const zr_gemm_args args = {
        .m = zr_u32(c->rows),
        .n = zr_u32(d->V),
        .k = zr_u32(d->C),
        .trans_b = true,
        .a = {c->hidden, d->C, net->dtype},
        .b = {output_matrix(net), d->C, net->dtype},
        .c = {c->logits, d->V, net->dtype},
        .bias = zr_zero_weight(net->zero, head_unit(net), ZR_OUTPUT_B),
        .bias_dtype = net->dtype,
    };
    return gemm(net, args, err);
}

static zl_status chunk_loss(zr_net *net, const chunk *c, zl_err *err)
{
    const zr_dims *d = &net->dim;
    const zr_loss_args args = {
        .dtype = net->dtype,
        .rows = zr_u32(c->rows),
        .vocab = zr_u32(d->V),
        .ld = d->V,
        .targets = (const int32_t *)zr_ptr(&net->pass, ZL_BUF_INPUT_TARGETS) + c->first,
        .logits = c->logits,
        .loss = (float *)zr_ptr(&net->pass, ZL_BUF_TEMP_LOSSES) + c->first,
        .scale = net->loss_scale,
        .gradient = true,
    };
    return zr_did(zr_cross_entropy(&args, net->stream), "cross_entropy", err);
}

/* dE += dlogits^T hidden; bias; dhidden = dlogits E. */
static zl_status chunk_gradient(zr_net *net, const chunk *c, zl_err *err)
{
    const zr_dims *d = &net->dim;
    const zr_gemm_args matrix = {
        .m = zr_u32(d->V),
        .n = zr_u32(d->C),
        .k = zr_u32(c->rows),
        .trans_a = true,
        .a = {c->logits, d->V, net->dtype},
        .b = {c->hidden, d->C, net->dtype},
        .c = {output_gradient(net), d->C, net->gdtype},
        .beta = 1.0F,
    };
    ZL_TRY(gemm(net, matrix, err));
    const zr_bias_grad_args bias = {
        .dtype = net->dtype,
        .gdtype = net->gdtype,
        .rows = zr_u32(c->rows),
        .cols = zr_u32(d->V),
        .ld = d->V,
        .dout = c->logits,
        .dbias = zr_zero_gradient(net->zero, head_unit(net), ZR_OUTPUT_B),
    };
    if (bias.dbias != NULL) {
        ZL_TRY(zr_did(zr_bias_backward(&bias, net->stream), "bias_backward", err));
    }
    const zr_gemm_args input = {
        .m = zr_u32(c->rows),
        .n = zr_u32(d->C),
        .k = zr_u32(d->V),
        .a = {c->logits, d->V, net->dtype},
        .b = {output_matrix(net), d->C, net->dtype},
        .c = {c->dhidden, d->C, net->dtype},
    };
    return gemm(net, input, err);
}

static zl_status token_losses(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    void *hidden = zr_ptr(zr_head_scope(net), ZL_BUF_ACT_LNF);
    void *dhidden = zr_ptr(&net->pass, ZL_BUF_TEMP_DHEAD);
    for (uint64_t first = 0; first < d->R; first += d->M) {
        const chunk c = {
            .first = first,
            .rows = zl_min(d->M, d->R - first),
            .hidden = zr_zero_at(hidden, first * d->C, net->dtype),
            .dhidden = zr_zero_at(dhidden, first * d->C, net->dtype),
            .logits = zr_ptr(&net->pass, ZL_BUF_LOGITS_TOKENS),
        };
        ZL_TRY(chunk_logits(net, &c, err));
        ZL_TRY(chunk_loss(net, &c, err));
        ZL_TRY(chunk_gradient(net, &c, err));
    }
    return ZL_OK;
}

/* pooled (B, C) to two logits a sequence, N (2, C): next^T, so that the product reads like the
 * others. */
static zl_status next_losses(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    const uint64_t unit = head_unit(net);
    void *logits = zr_ptr(&net->pass, ZL_BUF_LOGITS_NEXT);
    const void *pooled = zr_ptr(zr_head_scope(net), ZL_BUF_ACT_POOLED);
    zr_gemm_args product = {
        .m = zr_u32(d->B),
        .n = 2,
        .k = zr_u32(d->C),
        .trans_b = true,
        .a = {pooled, d->C, net->dtype},
        .b = {zr_zero_weight(net->zero, unit, ZR_NEXT_W), d->C, net->dtype},
        .c = {logits, 2, net->dtype},
        .bias = zr_zero_weight(net->zero, unit, ZR_NEXT_B),
        .bias_dtype = net->dtype,
    };
    ZL_TRY(gemm(net, product, err));
    const zr_loss_args loss = {
        .dtype = net->dtype,
        .rows = zr_u32(d->B),
        .vocab = 2,
        .ld = 2,
        .targets = zr_ptr(&net->pass, ZL_BUF_INPUT_NEXT),
        .logits = logits,
        .loss = (float *)zr_ptr(&net->pass, ZL_BUF_TEMP_LOSSES) + d->R,
        .scale = net->next_scale,
        .gradient = true,
    };
    ZL_TRY(zr_did(zr_cross_entropy(&loss, net->stream), "cross_entropy", err));
    const zr_gemm_args matrix = {
        .m = 2,
        .n = zr_u32(d->C),
        .k = zr_u32(d->B),
        .trans_a = true,
        .a = {logits, 2, net->dtype},
        .b = {pooled, d->C, net->dtype},
        .c = {zr_zero_gradient(net->zero, unit, ZR_NEXT_W), d->C, net->gdtype},
        .beta = 1.0F,
    };
    ZL_TRY(gemm(net, matrix, err));
    const zr_bias_grad_args bias = {
        .dtype = net->dtype,
        .gdtype = net->gdtype,
        .rows = zr_u32(d->B),
        .cols = 2,
        .ld = 2,
        .dout = logits,
        .dbias = zr_zero_gradient(net->zero, unit, ZR_NEXT_B),
    };
    ZL_TRY(zr_did(zr_bias_backward(&bias, net->stream), "bias_backward", err));
    const zr_gemm_args input = {
        .m = zr_u32(d->B),
        .n = zr_u32(d->C),
        .k = 2,
        .a = {logits, 2, net->dtype},
        .b = {zr_zero_weight(net->zero, unit, ZR_NEXT_W), d->C, net->dtype},
        .c = {zr_ptr(&net->pass, ZL_BUF_TEMP_DPOOLED), d->C, net->dtype},
    };
    return gemm(net, input, err);
}

static zl_status sum_losses(zr_net *net, uint64_t first, uint64_t count, enum zr_scalar scalar,
                            zl_err *err)
{
    const float *losses = (const float *)zr_ptr(&net->pass, ZL_BUF_TEMP_LOSSES) + first;
    return zr_did(zr_sum(losses, count, ZL_F32, zr_scalar_at(net, scalar), net->stream), "sum",
                  err);
}

zl_status zr_head_losses(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *p = &net->pass;
    const bool pooler = net->run->model.pooler;
    const uint64_t losses = pooler ? zl_add(d->R, d->B) : d->R;
    ZL_TRY(zr_take(net, p, ZL_BUF_TEMP_DHEAD, ZR_SHAPE(net->dtype, d->R, d->C), err));
    ZL_TRY(zr_take(net, p, ZL_BUF_TEMP_LOSSES, ZR_SHAPE(ZL_F32, losses), err));
    ZL_TRY(zr_take(net, p, ZL_BUF_LOGITS_TOKENS, ZR_SHAPE(net->dtype, d->M, d->V), err));
    if (pooler) {
        ZL_TRY(zr_take(net, p, ZL_BUF_LOGITS_NEXT, ZR_SHAPE(net->dtype, d->B, 2), err));
        ZL_TRY(zr_take(net, p, ZL_BUF_TEMP_DPOOLED, ZR_SHAPE(net->dtype, d->B, d->C), err));
    }
    ZL_TRY(token_losses(net, err));
    ZL_TRY(sum_losses(net, 0, d->R, ZR_SCALAR_LOSS, err));
    if (pooler) {
        ZL_TRY(next_losses(net, err));
        ZL_TRY(sum_losses(net, d->R, d->B, ZR_SCALAR_NEXT_LOSS, err));
    }
    if (!zr_fault(ZR_FAULT_LOGITS_KEPT)) {
        zr_drop(net, p, ZL_BUF_LOGITS_TOKENS);
    }
    zr_drop(net, p, ZL_BUF_TEMP_LOSSES);
    zr_drop(net, p, ZL_BUF_LOGITS_NEXT);
    return ZL_OK;
}
