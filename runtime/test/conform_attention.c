/* Cases of attention: forward and backward together, so that the backward reads its own forward. */
#include "conform.h"

static zl_status flash(const conform_env *e, const void *shape)
{
    zr_attn_args a = *(const zr_attn_args *)shape;
    a.qkv = e->p[0];
    a.dout = e->p[1];
    a.lengths = a.lengths != NULL ? e->p[2] : NULL;
    a.out = e->p[3];
    a.lse = e->p[4];
    a.delta = e->p[5];
    a.dqkv = e->p[6];
    ZL_TRY(e->k->flash_forward(&a, e->stream));
    return e->k->flash_backward(&a, e->stream);
}

static zl_status eager(const conform_env *e, const void *shape)
{
    zr_attn_args a = *(const zr_attn_args *)shape;
    a.qkv = e->p[0];
    a.dout = e->p[1];
    a.lengths = a.lengths != NULL ? e->p[2] : NULL;
    a.out = e->p[3];
    a.probs = e->p[4];
    a.dropped = a.dropout > 0.0F ? e->p[5] : NULL;
    a.dprobs = e->p[6];
    a.dqkv = e->p[7];
    ZL_TRY(e->k->eager_forward(&a, e->stream));
    return e->k->eager_backward(&a, e->stream);
}

/* The same in two halves, the first without dprobs, the second without the dropped probabilities.
 */
static zl_status eager_halves(const conform_env *e, const void *shape)
{
    zr_attn_args a = *(const zr_attn_args *)shape;
    a.qkv = e->p[0];
    a.dout = e->p[1];
    a.lengths = a.lengths != NULL ? e->p[2] : NULL;
    a.out = e->p[3];
    a.probs = e->p[4];
    a.dropped = a.dropout > 0.0F ? e->p[5] : NULL;
    a.dqkv = e->p[7];
    ZL_TRY(e->k->eager_forward(&a, e->stream));
    ZL_TRY(e->k->eager_backward_values(&a, e->stream));
    a.dropped = NULL;
    a.dprobs = e->p[6];
    return e->k->eager_backward_scores(&a, e->stream);
}

static void inputs(conform_case *c, const zr_attn_args *s)
{
    const conform_type t = (conform_type)s->dtype;
    const size_t rows = (size_t)s->batch * s->tokens;
    conform_in(c, "qkv", t, rows * (s->heads + 2 * s->kv_heads) * s->head_dim, -1.5, 1.5);
    conform_in(c, "dout", t, rows * s->heads * s->head_dim, -1.0, 1.0);
    conform_in(c, "lengths", CONFORM_I32, s->batch, 0.0, (double)s->tokens + 3.0);
    conform_out(c, "out", t, rows * s->heads * s->head_dim);
}

#define SHAPE_TEXT "B %u, T %u, heads %u and %u of %u, causal %d, lengths %d, dropout %g"
#define SHAPE_VALUES(s)                                                                            \
    (s)->batch, (s)->tokens, (s)->heads, (s)->kv_heads, (s)->head_dim, (int)(s)->causal,           \
        (int)((s)->lengths != NULL), (double)(s)->dropout

static void eager_case(conform_run *run, const zr_attn_args *s, const char *op, conform_call *call)
{
    const conform_type t = (conform_type)s->dtype;
    const size_t rows = (size_t)s->batch * s->tokens;
    const size_t queries = rows * s->heads;
    conform_case e = conform_start(op, s->dtype, call, s);
    inputs(&e, s);
    conform_out(&e, "probs", t, queries * s->tokens);
    if (s->dropout > 0.0F) {
        conform_out(&e, "dropped", t, queries * s->tokens);
    } else {
        conform_scratch(&e, "dropped", t, 0);
    }
    conform_scratch(&e, "dprobs", t, queries * s->tokens);
    conform_out(&e, "dqkv", t, rows * (s->heads + 2 * s->kv_heads) * s->head_dim);
    conform_check(run, &e, SHAPE_TEXT, SHAPE_VALUES(s));
}

static void flash_case(conform_run *run, const zr_attn_args *s)
{
    const conform_type t = (conform_type)s->dtype;
    const size_t rows = (size_t)s->batch * s->tokens;
    const size_t queries = rows * s->heads;
    conform_case f = conform_start("flash", s->dtype, flash, s);
    inputs(&f, s);
    conform_out(&f, "lse", CONFORM_F32, queries);
    conform_scratch(&f, "delta", CONFORM_F32, queries);
    conform_out(&f, "dqkv", t, rows * (s->heads + 2 * s->kv_heads) * s->head_dim);
    conform_check(run, &f, SHAPE_TEXT, SHAPE_VALUES(s));
}

/* The tiles of the device's versions end at 16, 32, 64 and 128 tokens: lengths beside those ends,
 * and far from them. Every width, share, mask and dropout meets several of them. */
static void flash_cases(conform_run *run, zl_dtype d)
{
    static const int32_t some = 0;
    static const uint32_t tokens[] = {1, 17, 63, 64, 65, 127, 128, 129, 200, 1000};
    static const uint32_t shares[] = {1, 4, 8};
    enum { TOKENS = sizeof tokens / sizeof tokens[0], CASES = 4 * TOKENS };
    for (uint32_t i = 0; i < CASES; i++) {
        const uint32_t t = tokens[i % TOKENS];
        const uint32_t share = shares[i % 3];
        const uint32_t groups = share == 1 ? 2 : 1;
        const zr_attn_args s = {.dtype = d,
                                .batch = t < 500 ? 2 : 1,
                                .tokens = t,
                                .heads = groups * share,
                                .kv_heads = groups,
                                .head_dim = i / TOKENS % 2 == 0 ? 64 : 128,
                                .causal = i / 2 % 2 == 0,
                                .lengths = i / 2 % 2 == 0 ? NULL : &some,
                                .scale = i / TOKENS % 2 == 0 ? 0.125F : 0.0883883F,
                                .dropout = i / (TOKENS * 2) != 0 ? 0.1F : 0.0F,
                                .rng = {.seed = 3 + i, .stream = 9, .offset = i % 5 == 0 ? i : 0}};
        flash_case(run, &s);
    }
}

void conform_attention(conform_run *run, zl_dtype d)
{
    static const int32_t some = 0; /* lengths: any pointer, the values are drawn */
    static const zr_attn_args shapes[] = {
        {.batch = 2, .tokens = 77, .heads = 4, .kv_heads = 2, .head_dim = 64, .causal = true},
        {.batch = 2, .tokens = 77, .heads = 4, .kv_heads = 2, .head_dim = 64, .lengths = &some},
        {.batch = 1, .tokens = 33, .heads = 3, .kv_heads = 1, .head_dim = 24, .dropout = 0.1F},
        {.batch = 3,
         .tokens = 65,
         .heads = 2,
         .kv_heads = 2,
         .head_dim = 24,
         .causal = true,
         .lengths = &some,
         .dropout = 0.2F},
        {.batch = 2, .tokens = 130, .heads = 2, .kv_heads = 1, .head_dim = 128, .causal = true},
        {.batch = 4, .tokens = 50, .heads = 2, .kv_heads = 2, .head_dim = 128, .lengths = &some},
        {.batch = 1,
         .tokens = 128,
         .heads = 8,
         .kv_heads = 2,
         .head_dim = 40,
         .causal = true,
         .dropout = 0.5F},
        {.batch = 1, .tokens = 1, .heads = 1, .kv_heads = 1, .head_dim = 5},
        {.batch = 1, .tokens = 300, .heads = 2, .kv_heads = 1, .head_dim = 80, .causal = true},
        /* Several tiles of tokens with few elements, for slow tools. */
        {.batch = 1, .tokens = 150, .heads = 2, .kv_heads = 1, .head_dim = 8, .causal = true},
        {.batch = 1,
         .tokens = 140,
         .heads = 2,
         .kv_heads = 1,
         .head_dim = 8,
         .lengths = &some,
         .dropout = 0.2F},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        zr_attn_args s = shapes[i];
        s.dtype = d;
        s.scale = 0.7F / (float)(1U << (s.head_dim / 32));
        s.rng = (zr_rng){.seed = 77, .stream = 5, .offset = i};
        flash_case(run, &s);
        eager_case(run, &s, "eager", eager);
        eager_case(run, &s, "eager_halves", eager_halves);
    }
    flash_cases(run, d);
}
