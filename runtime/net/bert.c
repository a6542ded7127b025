/* BERT: an encoder with the norm after each branch, learned positions and token types, a
 * masked-token head with a transform of its own, and for pretraining a pooler that classifies
 * sentence pairs (Devlin et al., "BERT: pre-training of deep bidirectional transformers", 2019). */
#include "net/parts.h"
#include "zeroledger/bytes.h"

static const double DEVIATION = 0.02;

static void units(const zl_model *m, zr_unit *embed, zr_unit *block, zr_unit *head)
{
    const uint64_t packed = zl_mul(zl_add(m->heads, zl_mul(2, m->kv_heads)), m->head_dim);
    const double added = zr_added_deviation(m, DEVIATION);

    zr_unit_matrix(embed, ZR_TOKEN_TABLE, m->vocab, m->width, DEVIATION);
    zr_unit_matrix(embed, ZR_POSITION_TABLE, m->positions, m->width, DEVIATION);
    zr_unit_matrix(embed, ZR_TYPE_TABLE, m->types, m->width, DEVIATION);
    zr_unit_vector(embed, ZR_NORM_W, m->width, 1.0);
    zr_unit_vector(embed, ZR_NORM_B, m->width, 0.0);

    zr_unit_matrix(block, ZR_QKV_W, m->width, packed, DEVIATION);
    zr_unit_vector(block, ZR_QKV_B, packed, 0.0);
    zr_unit_matrix(block, ZR_OUT_W, zl_mul(m->heads, m->head_dim), m->width, added);
    zr_unit_vector(block, ZR_OUT_B, m->width, 0.0);
    zr_unit_vector(block, ZR_NORM1_W, m->width, 1.0);
    zr_unit_vector(block, ZR_NORM1_B, m->width, 0.0);
    zr_unit_matrix(block, ZR_UP_W, m->width, m->ffn, DEVIATION);
    zr_unit_vector(block, ZR_UP_B, m->ffn, 0.0);
    zr_unit_matrix(block, ZR_DOWN_W, m->ffn, m->width, added);
    zr_unit_vector(block, ZR_DOWN_B, m->width, 0.0);
    zr_unit_vector(block, ZR_NORM2_W, m->width, 1.0);
    zr_unit_vector(block, ZR_NORM2_B, m->width, 0.0);

    zr_unit_matrix(head, ZR_TRANSFORM_W, m->width, m->width, DEVIATION);
    zr_unit_vector(head, ZR_TRANSFORM_B, m->width, 0.0);
    zr_unit_vector(head, ZR_NORM_W, m->width, 1.0);
    zr_unit_vector(head, ZR_NORM_B, m->width, 0.0);
    zr_unit_vector(head, ZR_OUTPUT_B, m->vocab, 0.0);
    if (!m->tied) {
        zr_unit_matrix(head, ZR_OUTPUT_W, m->vocab, m->width, DEVIATION);
    }
    if (m->pooler) {
        zr_unit_matrix(head, ZR_POOLER_W, m->width, m->width, DEVIATION);
        zr_unit_vector(head, ZR_POOLER_B, m->width, 0.0);
        zr_unit_matrix(head, ZR_NEXT_W, 2, m->width, DEVIATION);
        zr_unit_vector(head, ZR_NEXT_B, 2, 0.0);
    }
}

static uint64_t stream_bytes(const zr_net *net)
{
    return ZR_SHAPE(net->dtype, net->dim.R, net->dim.C);
}

static zr_norm embed_norm(zr_net *net)
{
    return (zr_norm){0, ZR_NORM_W, ZR_NORM_B, zr_ptr(&net->pass, ZL_BUF_ACT_EMBED),
                     zr_ptr(&net->pass, ZL_BUF_ACT_EMBED_STATS)};
}

static zl_status embed_forward(zr_net *net, zl_err *err)
{
    zr_scope *p = &net->pass;
    zr_scope *first = &net->block[0];
    const zl_buf residual = zr_residual(net);
    ZL_TRY(zr_take(net, p, ZL_BUF_ACT_EMBED, stream_bytes(net), err));
    ZL_TRY(zr_take_stats(net, p, ZL_BUF_ACT_EMBED_STATS, err));
    ZL_TRY(zr_tables_forward(net, zr_ptr(p, ZL_BUF_ACT_EMBED), err));
    ZL_TRY(zr_take(net, first, residual, stream_bytes(net), err));
    const zr_norm norm = embed_norm(net);
    ZL_TRY(zr_norm_forward(net, &norm, zr_ptr(first, residual), err));
    return zr_drop_in_place(net, 0, ZR_PLACE_EMBED, zr_ptr(first, residual), err);
}

static zl_status embed_backward(zr_net *net, zl_err *err)
{
    void *dresidual = zr_ptr(&net->pass, ZL_BUF_TEMP_DRESIDUAL);
    const zr_norm norm = embed_norm(net);
    ZL_TRY(zr_drop_in_place(net, 0, ZR_PLACE_EMBED, dresidual, err));
    ZL_TRY(zr_norm_backward(net, &norm, dresidual, dresidual, ZR_GRAD_WRITE, err));
    return zr_tables_backward(net, dresidual, err);
}

/* Steps 1 to 4: attention on the residual stream, then its norm. */
static zl_status attention_half(zr_net *net, uint64_t l, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *b = &net->block[l];
    const void *x = zr_ptr(b, zr_residual(net));
    ZL_TRY(zr_take(net, b, ZL_BUF_ACT_QKV, ZR_SHAPE(net->dtype, d->R, d->Q), err));
    const zr_linear qkv = zr_block_linear(net, l, ZR_QKV_W);
    ZL_TRY(zr_linear_forward(net, &qkv, x, NULL, zr_ptr(b, ZL_BUF_ACT_QKV), err));
    ZL_TRY(zr_attention_forward(net, l, err));
    const zr_branch branch = zr_attention_branch(net, l);
    ZL_TRY(zr_branch_forward(net, &branch, x, b, ZL_BUF_ACT_MID, err));
    ZL_TRY(zr_take_stats(net, b, ZL_BUF_ACT_LN1_STATS, err));
    ZL_TRY(zr_take(net, b, ZL_BUF_ACT_LN1, stream_bytes(net), err));
    const zr_norm norm = zr_block_norm1(net, l, zr_ptr(b, ZL_BUF_ACT_MID));
    return zr_norm_forward(net, &norm, zr_ptr(b, ZL_BUF_ACT_LN1), err);
}

/* Steps 5 to 7. */
static zl_status mlp_half(zr_net *net, uint64_t l, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *b = &net->block[l];
    const void *x = zr_ptr(b, ZL_BUF_ACT_LN1);
    ZL_TRY(zr_take(net, b, ZL_BUF_ACT_FFN_PRE, ZR_SHAPE(net->dtype, d->R, d->F), err));
    const zr_linear up = zr_block_linear(net, l, ZR_UP_W);
    ZL_TRY(zr_linear_forward(net, &up, x, NULL, zr_ptr(b, ZL_BUF_ACT_FFN_PRE), err));
    ZL_TRY(zr_take(net, b, ZL_BUF_ACT_FFN_POST, ZR_SHAPE(net->dtype, d->R, d->F), err));
    ZL_TRY(zr_activation_forward(net, zr_ptr(b, ZL_BUF_ACT_FFN_PRE), zr_ptr(b, ZL_BUF_ACT_FFN_POST),
                                 err));
    const zr_branch branch = zr_mlp_branch(net, l);
    ZL_TRY(zr_branch_forward(net, &branch, x, b, ZL_BUF_ACT_SUM, err));
    if (zr_selective(net)) {
        zr_drop(net, b, ZL_BUF_ACT_FFN_POST);
        zr_drop(net, b, ZL_BUF_ACT_LN1);
    }
    return ZL_OK;
}

static zl_status block_forward(zr_net *net, uint64_t l, zl_err *err)
{
    zr_scope *b = &net->block[l];
    zr_scope *next = &net->block[l + 1];
    const zl_buf residual = zr_residual(net);
    ZL_TRY(attention_half(net, l, err));
    ZL_TRY(mlp_half(net, l, err));
    ZL_TRY(zr_take_stats(net, b, ZL_BUF_ACT_LN2_STATS, err));
    ZL_TRY(zr_take(net, next, residual, stream_bytes(net), err));
    const zr_norm norm = zr_block_norm2(net, l, zr_ptr(b, ZL_BUF_ACT_SUM));
    return zr_norm_forward(net, &norm, zr_ptr(next, residual), err);
}

/* Of the second norm, backward reads the statistics and not the output. */
static zl_status block_again(zr_net *net, uint64_t l, zl_err *err)
{
    zr_scope *b = &net->block[l];
    ZL_TRY(attention_half(net, l, err));
    ZL_TRY(mlp_half(net, l, err));
    ZL_TRY(zr_take_stats(net, b, ZL_BUF_ACT_LN2_STATS, err));
    const zr_norm norm = zr_block_norm2(net, l, zr_ptr(b, ZL_BUF_ACT_SUM));
    return zr_norm_forward(net, &norm, NULL, err);
}

/* Step 3: the first product of the MLP; its input gradient joins the stream's. */
static zl_status up_backward(zr_net *net, uint64_t l, zl_err *err)
{
    zr_scope *b = &net->block[l];
    zr_scope *p = &net->pass;
    const zr_linear up = zr_block_linear(net, l, ZR_UP_W);
    const zr_norm norm1 = zr_block_norm1(net, l, zr_ptr(b, ZL_BUF_ACT_MID));
    void *dffn = zr_ptr(p, ZL_BUF_TEMP_DFFN);
    if (zr_selective(net)) {
        ZL_TRY(zr_take(net, b, ZL_BUF_ACT_LN1, stream_bytes(net), err));
        ZL_TRY(zr_norm_apply(net, &norm1, zr_ptr(b, ZL_BUF_ACT_LN1), err));
    }
    ZL_TRY(zr_linear_weights(net, &up, zr_ptr(b, ZL_BUF_ACT_LN1), dffn, err));
    if (zr_selective(net)) {
        zr_drop(net, b, ZL_BUF_ACT_LN1);
    }
    ZL_TRY(zr_linear_input(net, &up, dffn, zr_ptr(p, ZL_BUF_TEMP_DRESIDUAL), true, err));
    zr_drop(net, p, ZL_BUF_TEMP_DFFN);
    return ZL_OK;
}

/* Steps 1 to 3. */
static zl_status mlp_backward(zr_net *net, uint64_t l, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *b = &net->block[l];
    zr_scope *p = &net->pass;
    void *dresidual = zr_ptr(p, ZL_BUF_TEMP_DRESIDUAL);
    const void *pre = zr_ptr(b, ZL_BUF_ACT_FFN_PRE);
    const zr_norm norm2 = zr_block_norm2(net, l, zr_ptr(b, ZL_BUF_ACT_SUM));
    ZL_TRY(zr_norm_backward(net, &norm2, dresidual, dresidual, ZR_GRAD_WRITE, err));
    if (zr_selective(net)) {
        ZL_TRY(zr_take(net, b, ZL_BUF_ACT_FFN_POST, ZR_SHAPE(net->dtype, d->R, d->F), err));
        ZL_TRY(zr_activation_forward(net, pre, zr_ptr(b, ZL_BUF_ACT_FFN_POST), err));
    }
    const zr_branch branch = zr_mlp_branch(net, l);
    ZL_TRY(zr_branch_backward(net, &branch, err));
    ZL_TRY(zr_gelu_in_place(net, pre, zr_ptr(p, ZL_BUF_TEMP_DFFN), zl_mul(d->R, d->F), err));
    return up_backward(net, l, err);
}

static zl_status block_backward(zr_net *net, uint64_t l, zl_err *err)
{
    zr_scope *b = &net->block[l];
    zr_scope *p = &net->pass;
    void *dresidual = zr_ptr(p, ZL_BUF_TEMP_DRESIDUAL);
    ZL_TRY(mlp_backward(net, l, err));
    const zr_norm norm1 = zr_block_norm1(net, l, zr_ptr(b, ZL_BUF_ACT_MID));
    ZL_TRY(zr_norm_backward(net, &norm1, dresidual, dresidual, ZR_GRAD_WRITE, err));
    const zr_branch branch = zr_attention_branch(net, l);
    ZL_TRY(zr_branch_backward(net, &branch, err));
    ZL_TRY(zr_attention_backward(net, l, err));
    const zr_linear qkv = zr_block_linear(net, l, ZR_QKV_W);
    const void *dqkv = zr_ptr(p, ZL_BUF_TEMP_DQKV);
    ZL_TRY(zr_linear_weights(net, &qkv, zr_ptr(b, zr_residual(net)), dqkv, err));
    ZL_TRY(zr_linear_input(net, &qkv, dqkv, dresidual, true, err));
    zr_drop(net, p, ZL_BUF_TEMP_DQKV);
    return ZL_OK;
}

static zr_linear transform(const zr_net *net)
{
    const zr_dims *d = &net->dim;
    return (zr_linear){zl_add(d->L, 1), ZR_TRANSFORM_W, ZR_TRANSFORM_B, d->R, d->C, d->C, d->C};
}

/* The first token of every sequence: rows that lie T C elements apart. */
static zr_linear pooler(const zr_net *net)
{
    const zr_dims *d = &net->dim;
    return (zr_linear){zl_add(d->L, 1),   ZR_POOLER_W, ZR_POOLER_B, d->B, d->C, d->C,
                       zl_mul(d->T, d->C)};
}

static zr_norm head_norm(zr_net *net)
{
    zr_scope *h = zr_head_scope(net);
    return (zr_norm){zl_add(net->dim.L, 1), ZR_NORM_W, ZR_NORM_B, zr_ptr(h, ZL_BUF_ACT_HEAD_POST),
                     zr_ptr(h, ZL_BUF_ACT_LNF_STATS)};
}

static zl_status pool(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *h = zr_head_scope(net);
    const zr_linear lin = pooler(net);
    ZL_TRY(zr_take(net, h, ZL_BUF_ACT_POOLED, ZR_SHAPE(net->dtype, d->B, d->C), err));
    void *pooled = zr_ptr(h, ZL_BUF_ACT_POOLED);
    ZL_TRY(zr_linear_forward(net, &lin, zr_ptr(h, zr_residual(net)), NULL, pooled, err));
    return zr_did(zr_tanh_forward(pooled, pooled, zl_mul(d->B, d->C), net->dtype, net->stream),
                  "tanh_forward", err);
}

static zl_status transform_forward(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *h = zr_head_scope(net);
    void *pre = zr_ptr(h, ZL_BUF_ACT_HEAD_PRE);
    const zr_linear lin = transform(net);
    const zr_norm norm = head_norm(net);
    ZL_TRY(zr_linear_forward(net, &lin, zr_ptr(h, zr_residual(net)), NULL, pre, err));
    ZL_TRY(zr_gelu_of(net, pre, zr_ptr(h, ZL_BUF_ACT_HEAD_POST), zl_mul(d->R, d->C), err));
    return zr_norm_forward(net, &norm, zr_ptr(h, ZL_BUF_ACT_LNF), err);
}

static zl_status head_forward(zr_net *net, zl_err *err)
{
    zr_scope *h = zr_head_scope(net);
    if (net->run->model.pooler) {
        ZL_TRY(pool(net, err));
    }
    ZL_TRY(zr_take(net, h, ZL_BUF_ACT_HEAD_PRE, stream_bytes(net), err));
    ZL_TRY(zr_take(net, h, ZL_BUF_ACT_HEAD_POST, stream_bytes(net), err));
    ZL_TRY(zr_take_stats(net, h, ZL_BUF_ACT_LNF_STATS, err));
    ZL_TRY(zr_take(net, h, ZL_BUF_ACT_LNF, stream_bytes(net), err));
    ZL_TRY(transform_forward(net, err));
    return zr_head_losses(net, err);
}

/* temp.dpooled joins the gradient of each sequence's first token. */
static zl_status pool_backward(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *h = zr_head_scope(net);
    void *dpooled = zr_ptr(&net->pass, ZL_BUF_TEMP_DPOOLED);
    const zr_linear lin = pooler(net);
    ZL_TRY(zr_did(zr_tanh_backward(zr_ptr(h, ZL_BUF_ACT_POOLED), dpooled, zl_mul(d->B, d->C),
                                   net->dtype, net->stream),
                  "tanh_backward", err));
    ZL_TRY(zr_linear_weights(net, &lin, zr_ptr(h, zr_residual(net)), dpooled, err));
    return zr_linear_input(net, &lin, dpooled, zr_ptr(&net->pass, ZL_BUF_TEMP_DRESIDUAL), true,
                           err);
}

static zl_status head_backward(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *h = zr_head_scope(net);
    zr_scope *p = &net->pass;
    ZL_TRY(zr_take(net, p, ZL_BUF_TEMP_DRESIDUAL, stream_bytes(net), err));
    void *dresidual = zr_ptr(p, ZL_BUF_TEMP_DRESIDUAL);
    void *dhead = zr_ptr(p, ZL_BUF_TEMP_DHEAD);
    const zr_norm norm = head_norm(net);
    ZL_TRY(zr_norm_backward(net, &norm, dhead, dhead, ZR_GRAD_WRITE, err));
    ZL_TRY(zr_gelu_in_place(net, zr_ptr(h, ZL_BUF_ACT_HEAD_PRE), dhead, zl_mul(d->R, d->C), err));
    const zr_linear lin = transform(net);
    ZL_TRY(zr_linear_weights(net, &lin, zr_ptr(h, zr_residual(net)), dhead, err));
    ZL_TRY(zr_linear_input(net, &lin, dhead, dresidual, false, err));
    if (net->run->model.pooler) {
        ZL_TRY(pool_backward(net, err));
    }
    zr_drop(net, p, ZL_BUF_TEMP_DHEAD);
    zr_drop(net, p, ZL_BUF_TEMP_DPOOLED);
    return ZL_OK;
}

const zr_family zr_bert = {
    .units = units,
    .embed_forward = embed_forward,
    .block_forward = block_forward,
    .block_again = block_again,
    .block_backward = block_backward,
    .head_forward = head_forward,
    .head_backward = head_backward,
    .embed_backward = embed_backward,
};
