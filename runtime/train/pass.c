/* Forward and backward of one micro-step, and the forward of eval: docs/schedule.md 3.1, 3.2 and
 * 3.4, unit by unit. */
#include "fault/fault.h"
#include "net/parts.h"
#include "train/state.h"
#include "zeroledger/bytes.h"

static bool first_micro(const zr_engine *e)
{
    return e->micro == 0;
}

static bool last_micro(const zr_engine *e)
{
    return e->micro + 1 == e->options.run->accumulation;
}

static zl_status arrive(zr_net *net, zl_buf buf, const int32_t *ids, uint64_t count, zl_err *err)
{
    const uint64_t bytes = ZR_IDS(count);
    ZL_TRY(zr_take(net, &net->pass, buf, bytes, err));
    return zr_stage_in(zr_ptr(&net->pass, buf), ids, bytes, net->stream, err);
}

static zl_status batch_arrives(zr_engine *e, zl_err *err)
{
    zr_net *net = &e->net;
    const zr_dims *d = &net->dim;
    const zr_batch *batch = &e->batch;
    const zl_model *model = &e->options.run->model;
    ZL_TRY(arrive(net, ZL_BUF_INPUT_TOKENS, batch->tokens, zl_prod(d->B, d->T), err));
    ZL_TRY(arrive(net, ZL_BUF_INPUT_TARGETS, batch->targets, zl_prod(d->B, d->T), err));
    if (model->family == ZL_FAMILY_BERT) {
        ZL_TRY(arrive(net, ZL_BUF_INPUT_TYPES, batch->types, zl_prod(d->B, d->T), err));
        ZL_TRY(arrive(net, ZL_BUF_INPUT_LENGTHS, batch->lengths, d->B, err));
    }
    if (model->pooler) {
        ZL_TRY(arrive(net, ZL_BUF_INPUT_NEXT, batch->next, d->B, err));
    }
    return zr_batch_sent(e, err);
}

static zl_status use(zr_engine *e, uint64_t u, bool upwards, zl_err *err)
{
    ZL_TRY(zr_gather_use(&e->zero, u, err));
    return zr_gather_ahead(&e->zero, u, upwards, err);
}

static zl_status embed_forward(zr_engine *e, zl_err *err)
{
    ZL_TRY(use(e, 0, true, err));
    return e->net.family->embed_forward(&e->net, err);
}

/* Full recompute keeps only the residual that entered the block. */
static void forget_block(zr_net *net, uint64_t l)
{
    for (unsigned buf = 0; buf < ZL_BUF_COUNT; buf++) {
        const bool kept = buf == ZL_BUF_ACT_FFN_PRE && zr_fault(ZR_FAULT_CKPT_KEPT_FULL);
        if (buf != zr_residual(net) && !kept) {
            zr_drop(net, &net->block[l], (zl_buf)buf);
        }
    }
}

static zl_status block_forward(zr_engine *e, uint64_t l, zl_err *err)
{
    ZL_TRY(use(e, l + 1, true, err));
    ZL_TRY(e->net.family->block_forward(&e->net, l, err));
    if (e->options.run->recompute == ZL_RECOMPUTE_FULL) {
        forget_block(&e->net, l);
    }
    return ZL_OK;
}

static zl_status head_forward(zr_engine *e, zl_err *err)
{
    const uint64_t head = e->zero.units - 1;
    ZL_TRY(use(e, head, true, err));
    ZL_TRY(zr_grad_acquire(&e->zero, head, first_micro(e), err));
    if (e->options.run->model.tied) {
        ZL_TRY(zr_grad_acquire(&e->zero, 0, first_micro(e), err));
    }
    return e->net.family->head_forward(&e->net, err);
}

zl_status zr_pass_forward(zr_engine *e, zl_err *err)
{
    zr_net *net = &e->net;
    net->loss_scale = (float)(e->scale.value / zr_batch_targets(e));
    net->next_scale = (float)(e->scale.value / zr_batch_pairs(e));
    ZL_TRY(batch_arrives(e, err));
    zr_profile_begin_both(e->options.profile, "embedding", ZR_NO_NUMBER);
    ZL_TRY(zr_profile_end_both(e->options.profile, embed_forward(e, err)));
    for (uint64_t l = 0; l < net->dim.L; l++) {
        zr_profile_begin_both(e->options.profile, "block", l);
        ZL_TRY(zr_profile_end_both(e->options.profile, block_forward(e, l, err)));
    }
    zr_profile_begin_both(e->options.profile, "head", ZR_NO_NUMBER);
    ZL_TRY(zr_profile_end_both(e->options.profile, head_forward(e, err)));
    return zr_news_losses(e, e->micro, err);
}

static zl_status eval_embed(zr_engine *e, zl_err *err)
{
    ZL_TRY(embed_forward(e, err));
    zr_drop(&e->net, &e->net.pass, ZL_BUF_ACT_EMBED);
    zr_drop(&e->net, &e->net.pass, ZL_BUF_ACT_EMBED_STATS);
    return ZL_OK;
}

/* What the block allocated but for the next residual, and the residual that entered it, are one
 * scope. */
static zl_status eval_block(zr_engine *e, uint64_t l, zl_err *err)
{
    ZL_TRY(use(e, l + 1, true, err));
    ZL_TRY(e->net.family->block_forward(&e->net, l, err));
    zr_drop_all(&e->net, &e->net.block[l]);
    return ZL_OK;
}

static zl_status eval_head(zr_engine *e, zl_err *err)
{
    ZL_TRY(use(e, e->zero.units - 1, true, err));
    ZL_TRY(e->net.family->head_forward(&e->net, err));
    zr_drop_all(&e->net, zr_head_scope(&e->net));
    zr_drop_all(&e->net, &e->net.pass);
    return zr_news_losses(e, e->options.run->accumulation, err);
}

static zl_status eval_all(zr_engine *e, zl_err *err)
{
    ZL_TRY(batch_arrives(e, err));
    zr_profile_begin_both(e->options.profile, "embedding", ZR_NO_NUMBER);
    ZL_TRY(zr_profile_end_both(e->options.profile, eval_embed(e, err)));
    for (uint64_t l = 0; l < e->net.dim.L; l++) {
        zr_profile_begin_both(e->options.profile, "block", l);
        ZL_TRY(zr_profile_end_both(e->options.profile, eval_block(e, l, err)));
    }
    zr_profile_begin_both(e->options.profile, "head", ZR_NO_NUMBER);
    return zr_profile_end_both(e->options.profile, eval_head(e, err));
}

zl_status zr_pass_eval(zr_engine *e, zl_err *err)
{
    e->net.eval = true;
    const zl_status status = eval_all(e, err);
    e->net.eval = false;
    return status;
}

static zl_status issue(zr_engine *e, uint64_t u, zl_err *err)
{
    return zr_grad_issue(&e->zero, u, first_micro(e), last_micro(e), err);
}

static zl_status head_backward(zr_engine *e, zl_err *err)
{
    const uint64_t head = e->zero.units - 1;
    ZL_TRY(use(e, head, false, err));
    ZL_TRY(e->net.family->head_backward(&e->net, err));
    zr_drop_all(&e->net, zr_head_scope(&e->net));
    return issue(e, head, err);
}

/* All saved activations of the block and the residual that entered it. */
static void free_block(zr_net *net, uint64_t l)
{
    for (unsigned buf = 0; buf < ZL_BUF_COUNT; buf++) {
        const bool kept = l == 0 && buf == ZL_BUF_ACT_QKV && zr_fault(ZR_FAULT_ACT_NOT_FREED);
        if (!kept) {
            zr_drop(net, &net->block[l], (zl_buf)buf);
        }
    }
}

static zl_status block_backward(zr_engine *e, uint64_t l, zl_err *err)
{
    const zr_family *family = e->net.family;
    const uint64_t u = l + 1;
    ZL_TRY(use(e, u, false, err));
    ZL_TRY(zr_grad_acquire(&e->zero, u, first_micro(e), err));
    if (e->options.run->recompute == ZL_RECOMPUTE_FULL) {
        ZL_TRY(ZR_TIMED(e->options.profile, "recompute", family->block_again(&e->net, l, err)));
    }
    ZL_TRY(family->block_backward(&e->net, l, err));
    free_block(&e->net, l);
    return issue(e, u, err);
}

static zl_status embed_backward(zr_engine *e, zl_err *err)
{
    if (!e->options.run->model.tied) {
        ZL_TRY(zr_grad_acquire(&e->zero, 0, first_micro(e), err));
    }
    ZL_TRY(e->net.family->embed_backward(&e->net, err));
    zr_drop_all(&e->net, &e->net.pass);
    return issue(e, 0, err);
}

zl_status zr_pass_backward(zr_engine *e, zl_err *err)
{
    zr_profile_begin_both(e->options.profile, "head", ZR_NO_NUMBER);
    ZL_TRY(zr_profile_end_both(e->options.profile, head_backward(e, err)));
    for (uint64_t l = e->net.dim.L; l > 0; l--) {
        zr_profile_begin_both(e->options.profile, "block", l - 1);
        ZL_TRY(zr_profile_end_both(e->options.profile, block_backward(e, l - 1, err)));
    }
    zr_profile_begin_both(e->options.profile, "embedding", ZR_NO_NUMBER);
    return zr_profile_end_both(e->options.profile, embed_backward(e, err));
}
