#include "net/net.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "net/parts.h"
#include "net/work.h"
#include "zeroledger/bytes.h"

const zr_family *zr_family_of(zl_family family)
{
    switch (family) {
    case ZL_FAMILY_BERT:
        return &zr_bert;
    case ZL_FAMILY_GPT2:
        return &zr_gpt2;
    case ZL_FAMILY_LLAMA:
        return &zr_llama;
    case ZL_FAMILY_COUNT:
        break;
    }
    return &zr_gpt2;
}

static zr_dims dims_of(const zl_run *run)
{
    const zl_model *m = &run->model;
    const bool llama = m->family == ZL_FAMILY_LLAMA;
    const uint64_t rows = zl_mul(run->micro_batch, run->seq);
    return (zr_dims){
        .B = run->micro_batch,
        .T = run->seq,
        .R = rows,
        .C = m->width,
        .L = m->layers,
        .H = m->heads,
        .G = m->kv_heads,
        .D = m->head_dim,
        .F = m->ffn,
        .V = m->vocab,
        .P = m->positions,
        .Y = m->types,
        .Q = zl_mul(zl_add(m->heads, zl_mul(2, m->kv_heads)), m->head_dim),
        .A = zl_mul(m->heads, m->head_dim),
        .U = llama ? zl_mul(2, m->ffn) : m->ffn,
        .S = llama ? 1 : 2,
        .M = run->head_chunk == 0 ? rows : zl_min(run->head_chunk, rows),
    };
}

/* Kernels count in 32 bits, the BLAS in int. */
static zl_status check_sizes(const zr_dims *d, zl_err *err)
{
    const struct {
        const char *what;
        uint64_t value;
    } size[] = {
        {"rows of a micro-batch", d->R},
        {"vocabulary", d->V},
        {"packed q, k, v width", d->Q},
        {"first MLP product's width", d->U},
        {"MLP width", d->F},
        {"positions", d->P},
        {"elements of a sequence", zl_mul(d->T, d->C)},
    };
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        if (size[i].value > INT_MAX) {
            return zl_fail(err, ZL_E_UNMODELLED,
                           "%s must be below 2^31 to be trained, got %" PRIu64
                           "; make the micro-batch, the sequence or the model smaller",
                           size[i].what, size[i].value);
        }
    }
    return ZL_OK;
}

static zl_status check_shapes(const zr_net *net, zl_err *err)
{
    const zl_model *m = &net->run->model;
    const zr_dims *d = &net->dim;
    const bool llama = m->family == ZL_FAMILY_LLAMA;
    if (llama != (m->activation == ZL_ACT_SWIGLU)) {
        return zl_fail(err, ZL_E_UNMODELLED, "activation %s in a %s model is not trained yet",
                       zl_activation_name(m->activation), zl_family_name(m->family));
    }
    if (d->D > ZR_ATTN_HEAD_DIM_MAX) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "a head width of %" PRIu64 " is not trained yet, at most %d", d->D,
                       ZR_ATTN_HEAD_DIM_MAX);
    }
    if (llama && d->D % 2 != 0) {
        return zl_fail(err, ZL_E_UNMODELLED, "an odd head width cannot be rotated, got %" PRIu64,
                       d->D);
    }
    if (!llama && (d->A != d->C || d->G != d->H)) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "%s with heads that do not fill the width is not trained yet",
                       zl_family_name(m->family));
    }
    if (!llama && d->T > d->P) {
        return zl_fail(err, ZL_E_USAGE,
                       "seq must be at most the model's %" PRIu64 " positions, got %" PRIu64, d->P,
                       d->T);
    }
    return check_sizes(d, err);
}

zl_status zr_net_init(zr_net *net, zl_err *err)
{
    net->dim = dims_of(net->run);
    net->dtype = net->zero->dtype;
    net->gdtype = net->zero->gdtype;
    net->family = zr_family_of(net->run->model.family);
    ZL_TRY(check_shapes(net, err));
    net->block = calloc(zl_add(net->dim.L, 1), sizeof *net->block);
    if (net->block == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory: bookkeeping of %" PRIu64 " blocks",
                       net->dim.L);
    }
    return ZL_OK;
}

static bool rotates(const zr_net *net)
{
    return net->run->model.family == ZL_FAMILY_LLAMA;
}

static zl_status take_constants(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *c = &net->constant;
    ZL_TRY(zr_take(net, c, ZL_BUF_CONST_SCALARS, ZR_DOUBLES(ZR_SCALAR_COUNT), err));
    return rotates(net) ? zr_take(net, c, ZL_BUF_CONST_ROPE, ZR_SHAPE(ZL_F32, d->T, d->D), err)
                        : ZL_OK;
}

static zl_status fill_constants(zr_net *net, zl_err *err)
{
    const zr_dims *d = &net->dim;
    zr_scope *c = &net->constant;
    /* All bits zero are 0.0 in either width. */
    ZL_TRY(zr_did(zr_fill(zr_ptr(c, ZL_BUF_CONST_SCALARS), zl_mul(2, ZR_SCALAR_COUNT), ZL_F32, 0.0F,
                          net->stream),
                  "fill", err));
    return rotates(net)
               ? zr_did(zr_rope_table(zr_ptr(c, ZL_BUF_CONST_ROPE), zr_u32(d->T), zr_u32(d->D),
                                      net->run->model.rope_theta, net->stream),
                        "rope_table", err)
               : ZL_OK;
}

zl_status zr_net_build(zr_net *net, zl_err *err)
{
    ZL_TRY(take_constants(net, err));
    ZL_TRY(zr_work_build(net, err)); /* kernels need its stream */
    return fill_constants(net, err);
}

void zr_net_drop_pass(zr_net *net)
{
    zr_drop_all(net, &net->pass);
    for (uint64_t l = 0; net->block != NULL && l <= net->dim.L; l++) {
        zr_drop_all(net, &net->block[l]);
    }
}

void zr_net_release(zr_net *net)
{
    zr_net_drop_pass(net);
    zr_work_release(net);
    zr_drop_all(net, &net->constant);
    free(net->block);
    *net = (zr_net){.block = NULL};
}
