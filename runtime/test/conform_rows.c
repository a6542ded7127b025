/* Cases on rows: embedding, norms, activations, rotation, dropout, loss, bias gradient. */
#include "conform.h"

static zl_status embed_forward(const conform_env *e, const void *shape)
{
    zr_embed_args a = *(const zr_embed_args *)shape;
    a.ids = e->p[0];
    a.types = e->p[1];
    a.tok = e->p[2];
    a.pos = a.positions > 0 ? e->p[3] : NULL;
    a.type = a.kinds > 0 ? e->p[4] : NULL;
    a.out = e->p[5];
    return e->k->embed_forward(&a, e->stream);
}

static zl_status embed_backward(const conform_env *e, const void *shape)
{
    zr_embed_args a = *(const zr_embed_args *)shape;
    a.ids = e->p[0];
    a.types = e->p[1];
    a.dout = e->p[2];
    a.tok_grad = e->p[3];
    a.pos_grad = a.positions > 0 ? e->p[4] : NULL;
    a.type_grad = a.kinds > 0 ? e->p[5] : NULL;
    return e->k->embed_backward(&a, e->stream);
}

static void embed_case(conform_run *run, const zr_embed_args *s)
{
    const zl_dtype d = s->dtype;
    const conform_type g = (conform_type)s->gdtype;
    const size_t rc = (size_t)s->rows * s->width;
    const size_t tok = (size_t)s->vocab * s->width;
    const size_t pos = (size_t)s->positions * s->width;
    const size_t type = (size_t)s->kinds * s->width;
    conform_case f = conform_start("embed_forward", d, embed_forward, s);
    conform_in(&f, "ids", CONFORM_I32, s->rows, 0.0, (double)s->vocab - 1.0);
    conform_in(&f, "types", CONFORM_I32, s->rows, 0.0, s->kinds > 0 ? (double)s->kinds - 1.0 : 0.0);
    conform_in(&f, "tok", (conform_type)d, tok, -1.0, 1.0);
    conform_in(&f, "pos", (conform_type)d, pos, -1.0, 1.0);
    conform_in(&f, "type", (conform_type)d, type, -1.0, 1.0);
    conform_out(&f, "out", (conform_type)d, rc);
    conform_exactly(&f);
    conform_check(run, &f, "rows %u, width %u, vocab %u", s->rows, s->width, s->vocab);
    conform_case b = conform_start("embed_backward", d, embed_backward, s);
    conform_in(&b, "ids", CONFORM_I32, s->rows, 0.0, (double)s->vocab - 1.0);
    conform_in(&b, "types", CONFORM_I32, s->rows, 0.0, s->kinds > 0 ? (double)s->kinds - 1.0 : 0.0);
    conform_in(&b, "dout", (conform_type)d, rc, -1.0, 1.0);
    conform_inout(&b, "tok_grad", g, tok, -1.0, 1.0);
    conform_exactly(&b);
    conform_inout(&b, "pos_grad", g, pos, -1.0, 1.0);
    conform_exactly(&b);
    conform_inout(&b, "type_grad", g, type, -1.0, 1.0);
    conform_exactly(&b);
    conform_check(run, &b, "rows %u, width %u, vocab %u", s->rows, s->width, s->vocab);
}

static void embed_cases(conform_run *run, zl_dtype d)
{
    const zr_embed_args shapes[] = {
        {.rows = 39, .tokens = 13, .width = 130, .vocab = 257, .positions = 17, .kinds = 2},
        {.rows = 39, .tokens = 13, .width = 130, .vocab = 257, .positions = 13, .kinds = 0},
        {.rows = 700, .tokens = 350, .width = 24, .vocab = 5, .positions = 0, .kinds = 0},
        {.rows = 1100, .tokens = 275, .width = 300, .vocab = 257, .positions = 512, .kinds = 2},
        {.rows = 1, .tokens = 1, .width = 1, .vocab = 1, .positions = 1, .kinds = 1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        zr_embed_args s = shapes[i];
        s.dtype = d;
        s.gdtype = i % 2 == 0 ? d : ZL_F32;
        embed_case(run, &s);
    }
}

/* A norm, and which of its six functions. */
typedef struct norm_shape {
    zr_norm_args forward;
    zr_norm_grad_args backward;
    bool rms;
    bool in_place; /* forward: out is x; backward: dx is dy */
} norm_shape;

static zl_status norm_forward(const conform_env *e, const void *shape)
{
    const norm_shape *s = shape;
    zr_norm_args a = s->forward;
    a.x = e->p[0];
    a.gain = e->p[1];
    a.bias = s->rms ? NULL : e->p[2];
    a.stats = e->p[3];
    a.out = s->in_place ? e->p[0] : e->p[4];
    return (s->rms ? e->k->rmsnorm_forward : e->k->layernorm_forward)(&a, e->stream);
}

static zl_status norm_apply(const conform_env *e, const void *shape)
{
    const norm_shape *s = shape;
    zr_norm_args a = s->forward;
    a.x = e->p[0];
    a.gain = e->p[1];
    a.bias = s->rms ? NULL : e->p[2];
    a.stats = e->p[3];
    a.out = e->p[4];
    return (s->rms ? e->k->rmsnorm_apply : e->k->layernorm_apply)(&a, e->stream);
}

/* Statistics alone: the output is not wanted. */
static zl_status norm_stats(const conform_env *e, const void *shape)
{
    const norm_shape *s = shape;
    zr_norm_args a = s->forward;
    a.x = e->p[0];
    a.gain = e->p[1];
    a.bias = s->rms ? NULL : e->p[2];
    a.stats = e->p[3];
    a.out = NULL;
    return (s->rms ? e->k->rmsnorm_forward : e->k->layernorm_forward)(&a, e->stream);
}

/* Out of the forward and out of its recomputation: the difference of the two, which is 0. */
static zl_status norm_again(const conform_env *e, const void *shape)
{
    const norm_shape *s = shape;
    zr_norm_args a = s->forward;
    const uint64_t count = (uint64_t)a.rows * a.width;
    a.x = e->p[0];
    a.gain = e->p[1];
    a.bias = s->rms ? NULL : e->p[2];
    a.stats = e->p[3];
    a.out = e->p[4];
    ZL_TRY((s->rms ? e->k->rmsnorm_forward : e->k->layernorm_forward)(&a, e->stream));
    a.out = e->p[5];
    ZL_TRY((s->rms ? e->k->rmsnorm_apply : e->k->layernorm_apply)(&a, e->stream));
    ZL_TRY(e->k->scale(e->p[5], count, a.dtype, -1.0F, e->stream));
    const zr_pair_args difference = {count, a.dtype, a.dtype, e->p[5], e->p[4]};
    return e->k->add(&difference, e->stream);
}

static zl_status norm_backward(const conform_env *e, const void *shape)
{
    const norm_shape *s = shape;
    zr_norm_grad_args a = s->backward;
    a.x = e->p[0];
    a.gain = e->p[1];
    a.stats = e->p[2];
    a.dy = s->in_place ? e->p[3] : e->p[6];
    a.dx = e->p[3];
    a.dgain = e->p[4];
    a.dbias = s->rms ? NULL : e->p[5];
    return (s->rms ? e->k->rmsnorm_backward : e->k->layernorm_backward)(&a, e->stream);
}

static void norm_forward_cases(conform_run *run, norm_shape s)
{
    const zl_dtype d = s.forward.dtype;
    const conform_type t = (conform_type)d;
    const uint32_t rows = s.forward.rows;
    const uint32_t width = s.forward.width;
    const size_t rc = (size_t)rows * width;
    const size_t stats = (size_t)rows * (s.rms ? 1 : 2);
    for (int in_place = 0; in_place < 2; in_place++) {
        s.in_place = in_place != 0;
        conform_case f =
            conform_start(s.rms ? "rmsnorm_forward" : "layernorm_forward", d, norm_forward, &s);
        if (s.in_place) {
            conform_inout(&f, "out", t, rc, -2.0, 3.0);
        } else {
            conform_in(&f, "x", t, rc, -2.0, 3.0);
        }
        conform_in(&f, "gain", t, width, 0.5, 1.5);
        conform_in(&f, "bias", t, width, -1.0, 1.0);
        conform_out(&f, "stats", CONFORM_F32, stats);
        if (!s.in_place) {
            conform_out(&f, "out", t, rc);
        }
        conform_check(run, &f, "rows %u, width %u, in place %d", rows, width, in_place);
    }
    conform_case a = conform_start(s.rms ? "rmsnorm_apply" : "layernorm_apply", d, norm_apply, &s);
    conform_in(&a, "x", t, rc, -2.0, 3.0);
    conform_in(&a, "gain", t, width, 0.5, 1.5);
    conform_in(&a, "bias", t, width, -1.0, 1.0);
    conform_in(&a, "stats", CONFORM_F32, stats, 0.3, 0.9);
    conform_out(&a, "out", t, rc);
    conform_exactly(&a);
    conform_check(run, &a, "rows %u, width %u", rows, width);
    conform_case z = conform_start(s.rms ? "rmsnorm_apply" : "layernorm_apply", d, norm_again, &s);
    conform_in(&z, "x", t, rc, -2.0, 3.0);
    conform_in(&z, "gain", t, width, 0.5, 1.5);
    conform_in(&z, "bias", t, width, -1.0, 1.0);
    conform_scratch(&z, "stats", CONFORM_F32, stats);
    conform_scratch(&z, "out", t, rc);
    conform_out(&z, "forward_minus_apply", t, rc);
    conform_exactly(&z);
    conform_check(run, &z, "rows %u, width %u", rows, width);
}

static void norm_stats_case(conform_run *run, norm_shape s)
{
    const zl_dtype d = s.forward.dtype;
    const conform_type t = (conform_type)d;
    const uint32_t rows = s.forward.rows;
    const uint32_t width = s.forward.width;
    conform_case f =
        conform_start(s.rms ? "rmsnorm_forward" : "layernorm_forward", d, norm_stats, &s);
    conform_in(&f, "x", t, (size_t)rows * width, -2.0, 3.0);
    conform_in(&f, "gain", t, width, 0.5, 1.5);
    conform_in(&f, "bias", t, width, -1.0, 1.0);
    conform_out(&f, "stats", CONFORM_F32, (size_t)rows * (s.rms ? 1 : 2));
    conform_check(run, &f, "rows %u, width %u, statistics alone", rows, width);
}

static void norm_backward_case(conform_run *run, norm_shape s)
{
    const conform_type t = (conform_type)s.backward.dtype;
    const conform_type g = (conform_type)s.backward.gdtype;
    const uint32_t rows = s.backward.rows;
    const uint32_t width = s.backward.width;
    const size_t rc = (size_t)rows * width;
    conform_case c = conform_start(s.rms ? "rmsnorm_backward" : "layernorm_backward",
                                   s.backward.dtype, norm_backward, &s);
    conform_in(&c, "x", t, rc, -2.0, 3.0);
    conform_in(&c, "gain", t, width, 0.5, 1.5);
    conform_in(&c, "stats", CONFORM_F32, (size_t)rows * (s.rms ? 1 : 2), 0.3, 0.9);
    if (s.in_place || s.backward.mode == ZR_GRAD_ADD) {
        conform_inout(&c, "dx", t, rc, -1.0, 1.0);
    } else {
        conform_out(&c, "dx", t, rc);
    }
    conform_inout(&c, "dgain", g, width, -1.0, 1.0);
    if (s.rms) {
        conform_in(&c, "unused", g, width, -1.0, 1.0);
    } else {
        conform_inout(&c, "dbias", g, width, -1.0, 1.0);
    }
    conform_in(&c, "dy", t, rc, -1.0, 1.0);
    conform_check(run, &c, "rows %u, width %u, mode %d, in place %d", rows, width,
                  (int)s.backward.mode, (int)s.in_place);
}

static void norm_cases(conform_run *run, zl_dtype d)
{
    static const uint32_t shapes[][2] = {{1, 1},    {37, 130}, {70, 257},  {33, 1000},
                                         {300, 64}, {9, 4104}, {513, 1600}};
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof shapes[0]; i++) {
        const uint32_t rows = shapes[i / 2][0];
        const uint32_t width = shapes[i / 2][1];
        norm_shape s = {.forward = {.dtype = d, .rows = rows, .width = width, .eps = 1e-5F},
                        .backward = {.dtype = d, .gdtype = d, .rows = rows, .width = width},
                        .rms = i % 2 != 0};
        norm_forward_cases(run, s);
        norm_stats_case(run, s);
        s.backward.mode = ZR_GRAD_ADD;
        norm_backward_case(run, s);
        s.backward.gdtype = ZL_F32;
        s.backward.mode = ZR_GRAD_WRITE;
        norm_backward_case(run, s);
        s.in_place = true;
        norm_backward_case(run, s);
    }
}

static zl_status gelu_forward(const conform_env *e, const void *shape)
{
    zr_gelu_args a = *(const zr_gelu_args *)shape;
    a.pre = e->p[0];
    a.out = e->p[1];
    return e->k->gelu_forward(&a, e->stream);
}

static zl_status gelu_backward(const conform_env *e, const void *shape)
{
    zr_gelu_args a = *(const zr_gelu_args *)shape;
    a.pre = e->p[0];
    a.grad = e->p[1];
    return e->k->gelu_backward(&a, e->stream);
}

static zl_status swiglu_forward(const conform_env *e, const void *shape)
{
    zr_swiglu_args a = *(const zr_swiglu_args *)shape;
    a.pre = e->p[0];
    a.out = e->p[1];
    return e->k->swiglu_forward(&a, e->stream);
}

static zl_status swiglu_backward(const conform_env *e, const void *shape)
{
    zr_swiglu_args a = *(const zr_swiglu_args *)shape;
    a.pre = e->p[0];
    a.dout = e->p[1];
    a.dpre = e->p[2];
    return e->k->swiglu_backward(&a, e->stream);
}

static zl_status swiglu_backward_in_place(const conform_env *e, const void *shape)
{
    zr_swiglu_args a = *(const zr_swiglu_args *)shape;
    a.pre = e->p[0];
    a.dout = e->p[1];
    a.dpre = e->p[0];
    return e->k->swiglu_backward(&a, e->stream);
}

static zl_status tanh_forward(const conform_env *e, const void *shape)
{
    const zr_pair_args *s = shape;
    return e->k->tanh_forward(e->p[0], e->p[1], s->count, s->dst_dtype, e->stream);
}

static zl_status tanh_backward(const conform_env *e, const void *shape)
{
    const zr_pair_args *s = shape;
    return e->k->tanh_backward(e->p[0], e->p[1], s->count, s->dst_dtype, e->stream);
}

static void activation_cases(conform_run *run, zl_dtype d, size_t n)
{
    const conform_type t = (conform_type)d;
    for (zr_gelu kind = ZR_GELU_TANH; kind < ZR_GELU_COUNT; kind++) {
        const zr_gelu_args s = {.kind = kind, .dtype = d, .count = n};
        const char *forward = kind == ZR_GELU_TANH ? "gelu_forward.tanh" : "gelu_forward.erf";
        const char *backward = kind == ZR_GELU_TANH ? "gelu_backward.tanh" : "gelu_backward.erf";
        conform_case f = conform_start(forward, d, gelu_forward, &s);
        conform_in(&f, "pre", t, n, -5.0, 5.0);
        conform_out(&f, "out", t, n);
        conform_check(run, &f, "count %zu", n);
        conform_case b = conform_start(backward, d, gelu_backward, &s);
        conform_in(&b, "pre", t, n, -5.0, 5.0);
        conform_inout(&b, "grad", t, n, -1.0, 1.0);
        conform_check(run, &b, "count %zu", n);
    }
    const zr_pair_args s = {.count = n, .dst_dtype = d, .src_dtype = d};
    conform_case f = conform_start("tanh_forward", d, tanh_forward, &s);
    conform_in(&f, "x", t, n, -3.0, 3.0);
    conform_out(&f, "out", t, n);
    conform_check(run, &f, "count %zu", n);
    conform_case b = conform_start("tanh_backward", d, tanh_backward, &s);
    conform_in(&b, "out", t, n, -1.0, 1.0);
    conform_inout(&b, "grad", t, n, -1.0, 1.0);
    conform_exactly(&b);
    conform_check(run, &b, "count %zu", n);
}

static void swiglu_cases(conform_run *run, zl_dtype d, uint32_t rows, uint32_t width)
{
    const conform_type t = (conform_type)d;
    const size_t n = (size_t)rows * width;
    const zr_swiglu_args s = {.dtype = d, .rows = rows, .width = width};
    conform_case f = conform_start("swiglu_forward", d, swiglu_forward, &s);
    conform_in(&f, "pre", t, 2 * n, -4.0, 4.0);
    conform_out(&f, "out", t, n);
    conform_check(run, &f, "rows %u, width %u", rows, width);
    conform_case b = conform_start("swiglu_backward", d, swiglu_backward, &s);
    conform_in(&b, "pre", t, 2 * n, -4.0, 4.0);
    conform_in(&b, "dout", t, n, -1.0, 1.0);
    conform_out(&b, "dpre", t, 2 * n);
    conform_check(run, &b, "rows %u, width %u", rows, width);
    conform_case p = conform_start("swiglu_backward", d, swiglu_backward_in_place, &s);
    conform_inout(&p, "dpre", t, 2 * n, -4.0, 4.0);
    conform_in(&p, "dout", t, n, -1.0, 1.0);
    conform_check(run, &p, "rows %u, width %u, in place", rows, width);
}

static zl_status rope_table(const conform_env *e, const void *shape)
{
    const zr_rope_args *s = shape;
    return e->k->rope_table(e->p[0], s->tokens, s->head_dim, 10000.0, e->stream);
}

static zl_status rope_forward(const conform_env *e, const void *shape)
{
    zr_rope_args a = *(const zr_rope_args *)shape;
    a.table = e->p[0];
    a.qkv = e->p[1];
    return e->k->rope_forward(&a, e->stream);
}

static zl_status rope_backward(const conform_env *e, const void *shape)
{
    zr_rope_args a = *(const zr_rope_args *)shape;
    a.table = e->p[0];
    a.qkv = e->p[1];
    return e->k->rope_backward(&a, e->stream);
}

static void rope_cases(conform_run *run, zl_dtype d)
{
    const zr_rope_args shapes[] = {
        {d, 66, 33, 4, 2, 24, NULL, NULL},
        {d, 50, 25, 3, 3, 64, NULL, NULL},
        {d, 17, 17, 8, 1, 128, NULL, NULL},
        {d, 5, 5, 1, 1, 2, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const zr_rope_args *s = &shapes[i];
        const size_t table = (size_t)s->tokens * s->head_dim;
        const size_t qkv = (size_t)s->rows * (s->heads + 2 * s->kv_heads) * s->head_dim;
        conform_case t = conform_start("rope_table", ZL_F32, rope_table, s);
        conform_out(&t, "table", CONFORM_F32, table);
        conform_check(run, &t, "tokens %u, head %u", s->tokens, s->head_dim);
        conform_case f = conform_start("rope_forward", d, rope_forward, s);
        conform_in(&f, "table", CONFORM_F32, table, -1.0, 1.0);
        conform_inout(&f, "qkv", (conform_type)d, qkv, -1.0, 1.0);
        conform_exactly(&f);
        conform_check(run, &f, "rows %u, heads %u and %u of %u", s->rows, s->heads, s->kv_heads,
                      s->head_dim);
        conform_case b = conform_start("rope_backward", d, rope_backward, s);
        conform_in(&b, "table", CONFORM_F32, table, -1.0, 1.0);
        conform_inout(&b, "qkv", (conform_type)d, qkv, -1.0, 1.0);
        conform_exactly(&b);
        conform_check(run, &b, "rows %u, heads %u and %u of %u", s->rows, s->heads, s->kv_heads,
                      s->head_dim);
    }
}

static zl_status dropout(const conform_env *e, const void *shape)
{
    zr_dropout_args a = *(const zr_dropout_args *)shape;
    a.in = e->p[0];
    a.out = e->p[1];
    return e->k->dropout(&a, e->stream);
}

static zl_status dropout_residual(const conform_env *e, const void *shape)
{
    zr_dropout_args a = *(const zr_dropout_args *)shape;
    a.in = e->p[0];
    a.residual = e->p[1]; /* the sum is written over it */
    a.out = e->p[1];
    return e->k->dropout(&a, e->stream);
}

static void dropout_cases(conform_run *run, zl_dtype d, float p, uint64_t offset)
{
    const conform_type t = (conform_type)d;
    const size_t n = 4099;
    const zr_dropout_args s = {
        .dtype = d,
        .count = n,
        .p = p,
        .rng = {.seed = UINT64_C(0xfeedface01234567), .stream = offset + 3, .offset = offset}};
    conform_case c = conform_start("dropout", d, dropout, &s);
    conform_in(&c, "in", t, n, -1.0, 1.0);
    conform_out(&c, "out", t, n);
    conform_exactly(&c);
    conform_check(run, &c, "p %g, offset %llu", (double)p, (unsigned long long)offset);
    conform_case r = conform_start("dropout", d, dropout_residual, &s);
    conform_in(&r, "in", t, n, -1.0, 1.0);
    conform_inout(&r, "sum", t, n, -1.0, 1.0);
    conform_exactly(&r);
    conform_check(run, &r, "p %g, offset %llu, residual", (double)p, (unsigned long long)offset);
}

static zl_status cross_entropy(const conform_env *e, const void *shape)
{
    zr_loss_args a = *(const zr_loss_args *)shape;
    a.targets = e->p[0];
    a.logits = e->p[1];
    a.loss = e->p[2];
    return e->k->cross_entropy(&a, e->stream);
}

static void loss_case(conform_run *run, zl_dtype d, uint32_t rows, uint32_t vocab, uint64_t ld)
{
    const conform_type t = (conform_type)d;
    zr_loss_args s = {
        .dtype = d, .rows = rows, .vocab = vocab, .ld = ld, .scale = 0.25F, .gradient = true};
    conform_case g = conform_start("cross_entropy", d, cross_entropy, &s);
    /* Some rows have no target. */
    conform_in(&g, "targets", CONFORM_I32, rows, vocab < 9 ? 0.0 : -9.0, (double)vocab - 1.0);
    conform_inout(&g, "logits", t, (size_t)(rows * ld), -8.0, 8.0);
    conform_out(&g, "loss", CONFORM_F32, rows);
    conform_check(run, &g, "rows %u, vocab %u, ld %llu", rows, vocab, (unsigned long long)ld);
    s.gradient = false;
    conform_case l = conform_start("cross_entropy", d, cross_entropy, &s);
    conform_in(&l, "targets", CONFORM_I32, rows, vocab < 9 ? 0.0 : -9.0, (double)vocab - 1.0);
    conform_in(&l, "logits", t, (size_t)(rows * ld), -8.0, 8.0);
    conform_out(&l, "loss", CONFORM_F32, rows);
    conform_check(run, &l, "rows %u, vocab %u, ld %llu, loss only", rows, vocab,
                  (unsigned long long)ld);
}

static zl_status bias_backward(const conform_env *e, const void *shape)
{
    zr_bias_grad_args a = *(const zr_bias_grad_args *)shape;
    a.dout = e->p[0];
    a.dbias = e->p[1];
    return e->k->bias_backward(&a, e->stream);
}

static void bias_case(conform_run *run, zl_dtype d, zl_dtype g, uint32_t rows, uint32_t cols)
{
    const zr_bias_grad_args s = {
        .dtype = d, .gdtype = g, .rows = rows, .cols = cols, .ld = (uint64_t)cols + cols % 7};
    conform_case c = conform_start("bias_backward", d, bias_backward, &s);
    conform_in(&c, "dout", (conform_type)d, (size_t)(rows * s.ld), -1.0, 1.0);
    conform_inout(&c, "dbias", (conform_type)g, cols, -1.0, 1.0);
    conform_check(run, &c, "rows %u, cols %u, ld %llu", rows, cols, (unsigned long long)s.ld);
}

void conform_rows(conform_run *run, zl_dtype d)
{
    embed_cases(run, d);
    norm_cases(run, d);
    activation_cases(run, d, 1);
    activation_cases(run, d, 4099);
    swiglu_cases(run, d, 37, 130);
    swiglu_cases(run, d, 1, 1);
    rope_cases(run, d);
    dropout_cases(run, d, 0.0F, 0);
    dropout_cases(run, d, 0.1F, 7);
    dropout_cases(run, d, 0.5F, UINT64_C(0x3fffffffe));
    loss_case(run, d, 45, 257, 257);
    loss_case(run, d, 45, 257, 264);
    loss_case(run, d, 3, 50257, 50304);
    loss_case(run, d, 3, 60008, 60009);
    loss_case(run, d, 5, 2, 2);
    bias_case(run, d, d, 37, 130);
    bias_case(run, d, ZL_F32, 1000, 257);
    bias_case(run, d, d, 1, 1);
    bias_case(run, d, ZL_F32, 600, 1600);
}
