/* Calls that both sides refuse before they touch anything. One for each function that checks. */
#include "conform.h"

typedef enum refusal {
    GEMM_ALPHA,
    GEMM_LD,
    BIAS_LD,
    EMBED_ROWS,
    EMBED_POSITIONS,
    RMSNORM_BIAS,
    LAYERNORM_GRAD,
    GELU_KIND,
    ROPE_ODD,
    ROPE_TABLE_ODD,
    FLASH_HEADS,
    FLASH_WIDE,
    FLASH_OUT,
    EAGER_PROBS,
    EAGER_DROPPED,
    DROPOUT_ALL,
    LOSS_LD,
    ADAMW_STEP,
    SGD_MOMENTUM,
    CAST_TYPE,
    REDUCE_STRIDE,
    INIT_RANGE,
    REFUSAL_COUNT
} refusal;

static zl_status refused_product(const conform_env *e, refusal what)
{
    void *p = e->p[0];
    const zr_gemm_args gemm = {.m = 4,
                               .n = 4,
                               .k = 4,
                               .a = {p, what == GEMM_LD ? 3 : 4, ZL_F32},
                               .b = {p, 4, ZL_F32},
                               .c = {p, 4, ZL_F32},
                               .alpha = what == GEMM_ALPHA ? 0.0F : 1.0F};
    return e->k->gemm(&gemm, e->stream);
}

static zl_status refused_attention(const conform_env *e, refusal what)
{
    void *p = e->p[0];
    const zr_attn_args attn = {
        .batch = 1,
        .tokens = 4,
        .heads = 3,
        .kv_heads = what == FLASH_HEADS ? 2 : 1,
        .head_dim = what == FLASH_WIDE ? ZR_ATTN_HEAD_DIM_MAX + 1 : 8,
        .dropout = what == EAGER_DROPPED ? 0.5F : 0.0F,
        .qkv = p,
        .out = what == FLASH_OUT ? NULL : p,
        .lse = p,
        .probs = what == EAGER_PROBS ? NULL : p,
    };
    if (what == EAGER_PROBS || what == EAGER_DROPPED) {
        return e->k->eager_forward(&attn, e->stream);
    }
    return e->k->flash_forward(&attn, e->stream);
}

static zl_status refused_rows(const conform_env *e, refusal what)
{
    void *p = e->p[0];
    const zr_embed_args embed = {.rows = what == EMBED_ROWS ? 3 : 4,
                                 .tokens = 2,
                                 .width = 2,
                                 .vocab = 1,
                                 .positions = 1,
                                 .ids = p,
                                 .tok = p,
                                 .pos = what == EMBED_POSITIONS ? p : NULL,
                                 .out = p};
    const zr_norm_args norm = {
        .rows = 1, .width = 1, .x = p, .gain = p, .bias = p, .out = p, .stats = p};
    const zr_norm_grad_args grad = {
        .rows = 1, .width = 1, .x = p, .gain = p, .stats = p, .dy = p, .dx = p, .dgain = p};
    const zr_gelu_args gelu = {.kind = ZR_GELU_COUNT, .count = 1, .pre = p, .out = p};
    if (what == RMSNORM_BIAS) {
        return e->k->rmsnorm_forward(&norm, e->stream);
    }
    if (what == LAYERNORM_GRAD) {
        return e->k->layernorm_backward(&grad, e->stream);
    }
    if (what == GELU_KIND) {
        return e->k->gelu_forward(&gelu, e->stream);
    }
    return e->k->embed_forward(&embed, e->stream);
}

static zl_status refused_flat(const conform_env *e, refusal what)
{
    void *p = e->p[0];
    const zr_adamw_args adamw = {
        .count = 1, .param = p, .grad = p, .exp_avg = p, .exp_avg_sq = p, .beta1 = 0.9};
    const zr_sgd_args sgd = {.count = 1, .param = p, .grad = p, .mu = 0.9};
    const zr_pair_args cast = {.count = 1, .dst_dtype = ZL_DTYPE_COUNT, .dst = p, .src = p};
    const zr_reduce_args reduce = {.count = 2, .stride = 1, .pieces = 1, .in = p, .out = p};
    const zr_init_args init = {.begin = 2, .end = 1, .out = p};
    if (what == ADAMW_STEP) {
        return e->k->adamw(&adamw, e->stream);
    }
    if (what == SGD_MOMENTUM) {
        return e->k->sgd(&sgd, e->stream);
    }
    if (what == CAST_TYPE) {
        return e->k->cast(&cast, e->stream);
    }
    if (what == REDUCE_STRIDE) {
        return e->k->reduce(&reduce, e->stream);
    }
    return e->k->init_uniform(&init, e->stream);
}

static zl_status refused_other(const conform_env *e, refusal what)
{
    void *p = e->p[0];
    const zr_bias_grad_args bias = {.rows = 1, .cols = 2, .ld = 1, .dout = p, .dbias = p};
    const zr_rope_args rope = {ZL_F32, 1, 1, 1, 1, 3, p, p};
    const zr_dropout_args dropout = {.count = 1, .p = 1.0F, .in = p, .out = p};
    const int32_t none = -1;
    const zr_loss_args loss = {
        .rows = 1, .vocab = 2, .ld = 1, .targets = &none, .logits = p, .loss = p};
    if (what == BIAS_LD) {
        return e->k->bias_backward(&bias, e->stream);
    }
    if (what == ROPE_ODD) {
        return e->k->rope_forward(&rope, e->stream);
    }
    if (what == ROPE_TABLE_ODD) {
        return e->k->rope_table(p, 1, 3, 10000.0, e->stream);
    }
    if (what == DROPOUT_ALL) {
        return e->k->dropout(&dropout, e->stream);
    }
    return e->k->cross_entropy(&loss, e->stream);
}

static zl_status refused(const conform_env *e, const void *shape)
{
    const refusal what = *(const refusal *)shape;
    switch (what) {
    case GEMM_ALPHA:
    case GEMM_LD:
        return refused_product(e, what);
    case FLASH_HEADS:
    case FLASH_WIDE:
    case FLASH_OUT:
    case EAGER_PROBS:
    case EAGER_DROPPED:
        return refused_attention(e, what);
    case EMBED_ROWS:
    case EMBED_POSITIONS:
    case RMSNORM_BIAS:
    case LAYERNORM_GRAD:
    case GELU_KIND:
        return refused_rows(e, what);
    case ADAMW_STEP:
    case SGD_MOMENTUM:
    case CAST_TYPE:
    case REDUCE_STRIDE:
    case INIT_RANGE:
        return refused_flat(e, what);
    case BIAS_LD:
    case ROPE_ODD:
    case ROPE_TABLE_ODD:
    case DROPOUT_ALL:
    case LOSS_LD:
        return refused_other(e, what);
    case REFUSAL_COUNT:
        break;
    }
    return ZL_OK;
}

void conform_refusals(conform_run *run)
{
    for (refusal what = GEMM_ALPHA; what < REFUSAL_COUNT; what++) {
        conform_refused(run, "refusals", refused, &what);
    }
}
