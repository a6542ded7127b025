/* Cases on flat ranges: vector work, sums, initial values, optimizers. */
#include <math.h>

#include "conform.h"

static zl_status fill(const conform_env *e, const void *shape)
{
    const zr_pair_args *s = shape;
    return e->k->fill(e->p[0], s->count, s->dst_dtype, 0.3F, e->stream);
}

static zl_status scale(const conform_env *e, const void *shape)
{
    const zr_pair_args *s = shape;
    return e->k->scale(e->p[0], s->count, s->dst_dtype, 0.3F, e->stream);
}

static zl_status cast(const conform_env *e, const void *shape)
{
    zr_pair_args a = *(const zr_pair_args *)shape;
    a.src = e->p[0];
    a.dst = e->p[1];
    return e->k->cast(&a, e->stream);
}

static zl_status add(const conform_env *e, const void *shape)
{
    zr_pair_args a = *(const zr_pair_args *)shape;
    a.src = e->p[0];
    a.dst = e->p[1];
    return e->k->add(&a, e->stream);
}

static zl_status reduce(const conform_env *e, const void *shape)
{
    zr_reduce_args a = *(const zr_reduce_args *)shape;
    a.in = e->p[0];
    a.out = e->p[1];
    return e->k->reduce(&a, e->stream);
}

static zl_status sumsq(const conform_env *e, const void *shape)
{
    const zr_pair_args *s = shape;
    return e->k->sumsq(e->p[0], s->count, s->src_dtype, e->p[1], e->stream);
}

static zl_status sum(const conform_env *e, const void *shape)
{
    const zr_pair_args *s = shape;
    return e->k->sum(e->p[0], s->count, s->src_dtype, e->p[1], e->stream);
}

static zl_status nonfinite(const conform_env *e, const void *shape)
{
    const zr_pair_args *s = shape;
    return e->k->nonfinite(e->p[0], s->count, s->src_dtype, e->p[1], e->stream);
}

/* One infinity, put last. */
static zl_status nonfinite_last(const conform_env *e, const void *shape)
{
    const zr_pair_args *s = shape;
    unsigned char *last = e->p[0];
    last += (s->count - 1) * (s->src_dtype == ZL_F32 ? 4 : 2);
    ZL_TRY(e->k->fill(last, 1, s->src_dtype, -INFINITY, e->stream));
    return e->k->nonfinite(e->p[0], s->count, s->src_dtype, e->p[1], e->stream);
}

/* Through the host: what comes back from the device goes into another place on it. */
static zl_status copy(const conform_env *e, const void *shape)
{
    (void)shape;
    unsigned char bytes[777];
    ZL_TRY(e->k->copy_out(bytes, e->p[0], sizeof bytes, e->stream));
    return e->k->copy_in(e->p[1], bytes, sizeof bytes, e->stream);
}

static void copies(conform_run *run)
{
    conform_case c = conform_start("copy", ZL_F32, copy, NULL);
    conform_in(&c, "src", CONFORM_F32, 200, -1.0, 1.0);
    conform_inout(&c, "dst", CONFORM_F32, 200, -1.0, 1.0);
    conform_exactly(&c);
    conform_check(run, &c, "777 bytes");
}

static void pairs(conform_run *run, zl_dtype d, zl_dtype other, size_t n)
{
    const zr_pair_args s = {.count = n, .dst_dtype = other, .src_dtype = d};
    /* Beyond fp16's range, and among its subnormal numbers. */
    static const double reach[] = {70000.0, 1.0, 1e-6};
    for (size_t i = 0; i < sizeof reach / sizeof reach[0]; i++) {
        conform_case c = conform_start("cast", d, cast, &s);
        const double r = d == ZL_F16 && reach[i] > 60000.0 ? 60000.0 : reach[i];
        conform_in(&c, "src", (conform_type)d, n, -r, r);
        conform_out(&c, "dst", (conform_type)other, n);
        conform_exactly(&c);
        conform_check(run, &c, "count %zu, up to %g", n, r);
    }
    conform_case c = conform_start("add", d, add, &s);
    conform_in(&c, "src", (conform_type)d, n, -1.0, 1.0);
    conform_inout(&c, "dst", (conform_type)other, n, -1.0, 1.0);
    conform_exactly(&c);
    conform_check(run, &c, "count %zu", n);
}

static void pieces(conform_run *run, zl_dtype d, zl_dtype out, uint32_t n)
{
    const zr_reduce_args s = {.count = 1037,
                              .stride = 1101,
                              .pieces = n,
                              .piece_dtype = d,
                              .out_dtype = out,
                              .scale = n == 3 ? 1.0F / 3.0F : 1.0F};
    conform_case c = conform_start("reduce", d, reduce, &s);
    conform_in(&c, "in", (conform_type)d, (size_t)s.stride * n, -1.0, 1.0);
    conform_out(&c, "out", (conform_type)out, s.count);
    conform_exactly(&c);
    conform_check(run, &c, "%u pieces", n);
}

static void whole(conform_run *run, zl_dtype d, size_t n)
{
    const zr_pair_args s = {.count = n, .dst_dtype = d, .src_dtype = d};
    conform_case f = conform_start("fill", d, fill, &s);
    conform_out(&f, "x", (conform_type)d, n);
    conform_exactly(&f);
    conform_check(run, &f, "count %zu", n);
    conform_case m = conform_start("scale", d, scale, &s);
    conform_inout(&m, "x", (conform_type)d, n, -1.0, 1.0);
    conform_exactly(&m);
    conform_check(run, &m, "count %zu", n);
    conform_case q = conform_start("sumsq", d, sumsq, &s);
    conform_in(&q, "x", (conform_type)d, n, -1.0, 1.0);
    conform_out(&q, "out", CONFORM_F64, 1);
    conform_check(run, &q, "count %zu", n);
    conform_case p = conform_start("sum", d, sum, &s);
    conform_in(&p, "x", (conform_type)d, n, 0.0, 9.0);
    conform_out(&p, "out", CONFORM_F64, 1);
    conform_check(run, &p, "count %zu", n);
    conform_case clean = conform_start("nonfinite", d, nonfinite, &s);
    conform_in(&clean, "x", (conform_type)d, n, -1.0, 1.0);
    conform_inout(&clean, "flag", CONFORM_I32, 1, 0.0, 0.0);
    conform_exactly(&clean);
    conform_check(run, &clean, "count %zu, all finite", n);
    conform_case bad = conform_start("nonfinite", d, nonfinite_last, &s);
    conform_inout(&bad, "x", (conform_type)d, n, -1.0, 1.0);
    conform_exactly(&bad);
    conform_inout(&bad, "flag", CONFORM_I32, 1, 0.0, 0.0);
    conform_exactly(&bad);
    conform_check(run, &bad, "count %zu, the last is infinite", n);
}

static zl_status init_normal(const conform_env *e, const void *shape)
{
    zr_init_args a = *(const zr_init_args *)shape;
    a.out = e->p[0];
    return e->k->init_normal(&a, e->stream);
}

static zl_status init_uniform(const conform_env *e, const void *shape)
{
    zr_init_args a = *(const zr_init_args *)shape;
    a.out = e->p[0];
    return e->k->init_uniform(&a, e->stream);
}

static void initial_values(conform_run *run, zl_dtype d, uint64_t begin, uint64_t end)
{
    const zr_init_args s = {.dtype = d,
                            .begin = begin,
                            .end = end,
                            .seed = UINT64_C(0x123456789abcdef0),
                            .tensor = UINT64_C(0x300000007),
                            .a = 0.1F,
                            .b = 0.7F};
    conform_case n = conform_start("init_normal", d, init_normal, &s);
    conform_out(&n, "out", (conform_type)d, end - begin);
    conform_check(run, &n, "from %llu to %llu", (unsigned long long)begin, (unsigned long long)end);
    conform_case u = conform_start("init_uniform", d, init_uniform, &s);
    conform_out(&u, "out", (conform_type)d, end - begin);
    conform_exactly(&u);
    conform_check(run, &u, "from %llu to %llu", (unsigned long long)begin, (unsigned long long)end);
}

void conform_vector(conform_run *run, zl_dtype d)
{
    static const size_t counts[] = {1, 513, 4099, 300001};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        whole(run, d, counts[i]);
    }
    for (zl_dtype other = ZL_F32; other < ZL_DTYPE_COUNT; other++) {
        pairs(run, d, other, 1);
        pairs(run, d, other, 4099);
        pieces(run, d, other, 1);
        pieces(run, d, other, 3);
        pieces(run, d, other, 8);
    }
    if (d == ZL_F32) {
        copies(run);
    }
    initial_values(run, d, 0, 4096);
    initial_values(run, d, 1, 2);
    initial_values(run, d, 1003, 2506);
    initial_values(run, d, UINT64_C(0x500000002), UINT64_C(0x500000401));
}

static zl_status adamw(const conform_env *e, const void *shape)
{
    zr_adamw_args a = *(const zr_adamw_args *)shape;
    a.grad = e->p[0];
    a.exp_avg = e->p[1];
    a.exp_avg_sq = e->p[2];
    a.param = e->p[3];
    return e->k->adamw(&a, e->stream);
}

static zl_status adamw_master(const conform_env *e, const void *shape)
{
    zr_adamw_args a = *(const zr_adamw_args *)shape;
    a.grad = e->p[0];
    a.exp_avg = e->p[1];
    a.exp_avg_sq = e->p[2];
    a.param = e->p[3];
    a.master = e->p[4];
    return e->k->adamw(&a, e->stream);
}

static zl_status adamw_master_alone(const conform_env *e, const void *shape)
{
    zr_adamw_args a = *(const zr_adamw_args *)shape;
    a.grad = e->p[0];
    a.exp_avg = e->p[1];
    a.exp_avg_sq = e->p[2];
    a.master = e->p[3];
    return e->k->adamw(&a, e->stream);
}

static void adamw_cases(conform_run *run, zl_dtype d, zl_dtype g, uint64_t step)
{
    const zr_adamw_args s = {.count = 2051,
                             .param_dtype = d,
                             .gdtype = g,
                             .state_dtype = ZL_F32,
                             .grad_scale = 0.37F,
                             .lr = 1e-2,
                             .beta1 = 0.9,
                             .beta2 = 0.95,
                             .eps = 1e-8,
                             .weight_decay = 0.1,
                             .step = step};
    zr_adamw_args pure = s;
    pure.state_dtype = d;
    conform_call *const calls[] = {adamw, adamw_master, adamw_master_alone};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const zr_adamw_args *shape = calls[i] == adamw ? &pure : &s;
        conform_case c = conform_start("adamw", d, calls[i], shape);
        conform_in(&c, "grad", (conform_type)g, s.count, -1.0, 1.0);
        conform_inout(&c, "exp_avg", (conform_type)shape->state_dtype, s.count, -0.1, 0.1);
        conform_exactly(&c);
        conform_inout(&c, "exp_avg_sq", (conform_type)shape->state_dtype, s.count, 0.0, 0.1);
        conform_exactly(&c);
        if (calls[i] == adamw) {
            conform_inout(&c, "param", (conform_type)d, s.count, -1.0, 1.0);
            conform_exactly(&c);
        } else {
            if (calls[i] == adamw_master) {
                conform_out(&c, "param", (conform_type)d, s.count);
                conform_exactly(&c);
            }
            conform_inout(&c, "master", CONFORM_F32, s.count, -1.0, 1.0);
            conform_exactly(&c);
        }
        conform_check(run, &c, "step %llu, variant %zu", (unsigned long long)step, i);
    }
}

static zl_status sgd(const conform_env *e, const void *shape)
{
    zr_sgd_args a = *(const zr_sgd_args *)shape;
    a.grad = e->p[0];
    a.param = e->p[1];
    a.momentum = a.mu != 0.0 ? e->p[2] : NULL;
    return e->k->sgd(&a, e->stream);
}

static zl_status sgd_master(const conform_env *e, const void *shape)
{
    zr_sgd_args a = *(const zr_sgd_args *)shape;
    a.grad = e->p[0];
    a.param = e->p[1];
    a.master = e->p[2];
    a.momentum = e->p[3];
    return e->k->sgd(&a, e->stream);
}

static void sgd_cases(conform_run *run, zl_dtype d, zl_dtype g)
{
    const zr_sgd_args s = {.count = 2051,
                           .param_dtype = d,
                           .gdtype = g,
                           .state_dtype = ZL_F32,
                           .grad_scale = 0.37F,
                           .lr = 0.1,
                           .mu = 0.9,
                           .weight_decay = 0.01};
    zr_sgd_args plain = s;
    plain.mu = 0.0;
    zr_sgd_args pure = s;
    pure.state_dtype = d;
    conform_case p = conform_start("sgd", d, sgd, &plain);
    conform_in(&p, "grad", (conform_type)g, s.count, -1.0, 1.0);
    conform_inout(&p, "param", (conform_type)d, s.count, -1.0, 1.0);
    conform_exactly(&p);
    conform_check(run, &p, "no momentum");
    conform_case m = conform_start("sgd", d, sgd, &pure);
    conform_in(&m, "grad", (conform_type)g, s.count, -1.0, 1.0);
    conform_inout(&m, "param", (conform_type)d, s.count, -1.0, 1.0);
    conform_exactly(&m);
    conform_inout(&m, "momentum", (conform_type)d, s.count, -1.0, 1.0);
    conform_exactly(&m);
    conform_check(run, &m, "momentum, no master copy");
    conform_case c = conform_start("sgd", d, sgd_master, &s);
    conform_in(&c, "grad", (conform_type)g, s.count, -1.0, 1.0);
    conform_out(&c, "param", (conform_type)d, s.count);
    conform_exactly(&c);
    conform_inout(&c, "master", CONFORM_F32, s.count, -1.0, 1.0);
    conform_exactly(&c);
    conform_inout(&c, "momentum", CONFORM_F32, s.count, -1.0, 1.0);
    conform_exactly(&c);
    conform_check(run, &c, "momentum and master copy");
}

void conform_optimizers(conform_run *run, zl_dtype d)
{
    adamw_cases(run, d, d, 1);
    adamw_cases(run, d, ZL_F32, 1000);
    sgd_cases(run, d, d);
    sgd_cases(run, d, ZL_F32);
}
