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
    return zr_did(ZR_TIMED(net->profile, "tables", zr_embed_forward(&args, net->stream)),
                  "embed_forward", err);
}

zl_status zr_tables_backward(zr_net *net, const void *dout, zl_err *err)
{
    zr_embed_args args = embed_args(net);
    args.tok_grad = zr_zero_gradient(net->zero, 0, ZR_TOKEN_TABLE);
    args.pos_grad = zr_zero_gradient(net->zero, 0, ZR_POSITION_TABLE);
    args.type_grad = zr_zero_gradient(net->zero, 0, ZR_TYPE_TABLE);
    args.dout = dout;
    return zr_did(ZR_TIMED(net->profile, "tables", zr_embed_backward(&args, net->stream)),
                  "embed_backward", err);
}

/* A classification of rows: logits (rows, V) = hidden E^T + bias, E (V, C), and back. The tokens of
 * a chunk are one, the next sentences of a batch (V = 2) another. */
typedef struct classes {
    uint64_t rows;
    uint64_t V;
    uint64_t ld;        /* elements from one row of logits to the next */
    const void *hidden; /* (rows, C) */
    void *dhidden;      /* (rows, C); the three gradients are NULL in eval */
    void *logits;       /* (rows, V) at distance ld, then their gradient */
    const int32_t *targets;
    float *losses;
    float scale;
    const void *matrix;
    void *dmatrix;
    const void *bias; /* NULL: none */
    void *dbias;
} classes;

static zl_status logits(zr_net *net, const classes *c, zl_err *err)
{
    const uint64_t C = net->dim.C;
    const zr_gemm_args args = {
        .m = zr_u32(c->rows),
        .n = zr_u32(c->V),
        .k = zr_u32(C),
        .trans_b = true,
        .a = {c->hidden, C, net->dtype},
        .b = {c->matrix, C, net->dtype},
        .c = {c->logits, c->ld, net->dtype},
        .bias = c->bias,
    };
    return zr_product(net, "logits", args, err);
}

static zl_status loss(zr_net *net, const classes *c, zl_err *err)
{
    const zr_loss_args args = {
        .dtype = net->dtype,
        .rows = zr_u32(c->rows),
        .vocab = zr_u32(c->V),
        .ld = c->ld,
        .targets = c->targets,
        .logits = c->logits,
        .loss = c->losses,
        .scale = c->scale,
        .gradient = !net->eval,
    };
    return zr_did(ZR_TIMED(net->profile, "loss", zr_cross_entropy(&args, net->stream)),
                  "cross_entropy", err);
}

/* dE += dlogits^T hidden, and the bias. */
static zl_status weight_gradient(zr_net *net, const classes *c, zl_err *err)
{
    const uint64_t C = net->dim.C;
    const zr_gemm_args matrix = {
        .m = zr_u32(c->V),
        .n = zr_u32(C),
        .k = zr_u32(c->rows),
        .trans_a = true,
        .a = {c->logits, c->ld, net->dtype},
        .b = {c->hidden, C, net->dtype},
        .c = {c->dmatrix, C, net->gdtype},
        .beta = 1.0F,
    };
    ZL_TRY(zr_product(net, "logits: dW", matrix, err));
    const zr_bias_grad_args bias = {
        .dtype = net->dtype,
        .gdtype = net->gdtype,
        .rows = zr_u32(c->rows),
        .cols = zr_u32(c->V),
        .ld = c->ld,
        .dout = c->logits,
        .dbias = c->dbias,
    };
    return c->dbias == NULL
               ? ZL_OK
               : zr_did(ZR_TIMED(net->profile, "bias: db", zr_bias_backward(&bias, net->stream)),
                        "bias_backward", err);
}

/* dhidden = dlogits E. */
static zl_status input_gradient(zr_net *net, const classes *c, zl_err *err)
{
    const uint64_t C = net->dim.C;
    const zr_gemm_args args = {
        .m = zr_u32(c->rows),
        .n = zr_u32(C),
        .k = zr_u32(c->V),
        .a = {c->logits, c->ld, net->dtype},
        .b = {c->matrix, C, net->dtype},
        .c = {c->dhidden, C, net->dtype},
    };
    return zr_product(net, "logits: dx", args, err);
}

static zl_status classify(zr_net *net, const classes *c, zl_err *err)
{
    ZL_TRY(logits(net, c, err));
    ZL_TRY(loss(net, c, err));
    if (net->eval) {
        return ZL_OK;
    }
    ZL_TRY(weight_gradient(net, c, err));
    return input_gradient(net, c, err);
}

static float *losses_at(const zr_net *net, uint64_t first)
{
    return (float *)zr_ptr(&net->pass, ZL_BUF_TEMP_LOSSES) + first;
}

/* How the rows of a batch are cut into pieces of logits. */
typedef struct cut {
    uint64_t rows; /* of a piece; the last one may have fewer */
    uint64_t ld;   /* elements from one row to the next */
} cut;

/* logits.tokens has room for M rows of V. Matrix units want rows that begin at multiples of a cache
 * line, and GPT-2's 50257 words of two bytes do not: then a piece has as many rows as fit with rows
 * that far apart, or fewer, so that all pieces are alike. */
static cut cut_rows(const zr_net *net)
{
    const uint64_t line = 128; /* bytes, of any GPU's cache */
    const uint64_t tile = 128; /* rows that a matrix unit's program takes at a time */
    const zr_dims *d = &net->dim;
    const uint64_t size = zl_dtype_size(net->dtype);
    const uint64_t ld = zl_exact_div(zl_align_up(zl_mul(d->V, size), line), size);
    const uint64_t room = zl_mul(d->M, d->V) / ld;
    if (ld == d->V || room < tile) {
        return (cut){.rows = d->M, .ld = d->V};
    }
    const uint64_t pieces = zl_ceil_div(d->R, room);
    const uint64_t even = zl_align_up(zl_ceil_div(d->R, pieces), tile);
    return (cut){.rows = zl_min(even, room), .ld = ld};
}

/* Rows first.. of the batch; a tied output matrix is the token table. */
static classes tokens_from(zr_net *net, cut piece, uint64_t first)
{
    const zr_dims *d = &net->dim;
    const uint64_t head = zl_add(d->L, 1);
    const uint64_t unit = net->run->model.tied ? 0 : head;
    const zr_role role = net->run->model.tied ? ZR_TOKEN_TABLE : ZR_OUTPUT_W;
    const uint64_t at = zl_mul(first, d->C);
    classes c = {
        .rows = zl_min(piece.rows, d->R - first),
        .V = d->V,
        .ld = piece.ld,
        .hidden = zr_zero_at(zr_ptr(zr_head_scope(net), ZL_BUF_ACT_LNF), at, net->dtype),
        .logits = zr_ptr(&net->pass, ZL_BUF_LOGITS_TOKENS),
        .targets = (const int32_t *)zr_ptr(&net->pass, ZL_BUF_INPUT_TARGETS) + first,
        .losses = losses_at(net, first),
        .scale = net->loss_scale,
        .matrix = zr_zero_weight(net->zero, unit, role),
        .bias = zr_zero_weight(net->zero, head, ZR_OUTPUT_B),
    };
    if (!net->eval) {
        c.dhidden = zr_zero_at(zr_ptr(&net->pass, ZL_BUF_TEMP_DHEAD), at, net->dtype);
        c.dmatrix = zr_zero_gradient(net->zero, unit, role);
        c.dbias = zr_zero_gradient(net->zero, head, ZR_OUTPUT_B);
    }
    return c;
}

static classes next_sentences(zr_net *net)
{
    const zr_dims *d = &net->dim;
    const uint64_t head = zl_add(d->L, 1);
    classes c = {
        .rows = d->B,
        .V = 2,
        .ld = 2,
        .hidden = zr_ptr(zr_head_scope(net), ZL_BUF_ACT_POOLED),
        .logits = zr_ptr(&net->pass, ZL_BUF_LOGITS_NEXT),
        .targets = zr_ptr(&net->pass, ZL_BUF_INPUT_NEXT),
        .losses = losses_at(net, d->R),
        .scale = net->next_scale,
        .matrix = zr_zero_weight(net->zero, head, ZR_NEXT_W),
        .bias = zr_zero_weight(net->zero, head, ZR_NEXT_B),
    };
    if (!net->eval) {
        c.dhidden = zr_ptr(&net->pass, ZL_BUF_TEMP_DPOOLED);
        c.dmatrix = zr_zero_gradient(net->zero, head, ZR_NEXT_W);
        c.dbias = zr_zero_gradient(net->zero, head, ZR_NEXT_B);
    }
    return c;
}

static zl_status sum_losses(zr_net *net, uint64_t first, uint64_t count, enum zr_scalar scalar,
                            zl_err *err)
{
    return zr_did(ZR_TIMED(net->profile, "sum of losses",
                           zr_sum(losses_at(net, first), count, ZL_F32, zr_scalar_at(net, scalar),
                                  net->stream)),
                  "sum", err);
}

static zl_status token_losses(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    const cut piece = cut_rows(net);
    for (uint64_t first = 0; first < d->R; first += piece.rows) {
        const classes chunk = tokens_from(net, piece, first);
        ZL_TRY(classify(net, &chunk, err));
    }
    return sum_losses(net, 0, d->R, ZR_SCALAR_LOSS, err);
}

static zl_status next_losses(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    const classes pairs = next_sentences(net);
    ZL_TRY(classify(net, &pairs, err));
    return sum_losses(net, d->R, d->B, ZR_SCALAR_NEXT_LOSS, err);
}

static zl_status take_next_buffers(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *p = &net->pass;
    ZL_TRY(zr_take(net, p, ZL_BUF_LOGITS_NEXT, ZR_SHAPE(net->dtype, d->B, 2), err));
    return net->eval ? ZL_OK
                     : zr_take(net, p, ZL_BUF_TEMP_DPOOLED, ZR_SHAPE(net->dtype, d->B, d->C), err);
}

static zl_status take_buffers(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *p = &net->pass;
    const bool pooler = net->run->model.pooler;
    const uint64_t losses = pooler ? zl_add(d->R, d->B) : d->R;
    if (!net->eval) {
        ZL_TRY(zr_take(net, p, ZL_BUF_TEMP_DHEAD, ZR_SHAPE(net->dtype, d->R, d->C), err));
    }
    ZL_TRY(zr_take(net, p, ZL_BUF_TEMP_LOSSES, ZR_SHAPE(ZL_F32, losses), err));
    ZL_TRY(zr_take(net, p, ZL_BUF_LOGITS_TOKENS, ZR_SHAPE(net->dtype, d->M, d->V), err));
    return pooler ? take_next_buffers(net, err) : ZL_OK;
}

zl_status zr_head_losses(zr_net *net, zl_err *err)
{
    zr_scope *p = &net->pass;
    ZL_TRY(take_buffers(net, err));
    ZL_TRY(token_losses(net, err));
    if (net->run->model.pooler) {
        ZL_TRY(next_losses(net, err));
    }
    if (!zr_fault(ZR_FAULT_LOGITS_KEPT)) {
        zr_drop(net, p, ZL_BUF_LOGITS_TOKENS);
    }
    zr_drop(net, p, ZL_BUF_TEMP_LOSSES);
    zr_drop(net, p, ZL_BUF_LOGITS_NEXT);
    return ZL_OK;
}
