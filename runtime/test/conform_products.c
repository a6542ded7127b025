/* Cases of zr_gemm: types, transpositions, what is added, shapes. */
#include "conform.h"

typedef struct product_shape {
    zr_gemm_args gemm;
    bool bias, residual;
    bool alias; /* the residual is c itself */
} product_shape;

static zl_status gemm(const conform_env *e, const void *shape)
{
    const product_shape *s = shape;
    zr_gemm_args a = s->gemm;
    a.a.data = e->p[0];
    a.b.data = e->p[1];
    a.bias = s->bias ? e->p[2] : NULL;
    a.residual.data = s->alias ? e->p[4] : s->residual ? e->p[3] : NULL;
    a.c.data = e->p[4];
    a.work = e->work;
    a.work_bytes = e->work_bytes;
    return e->k->gemm(&a, e->stream);
}

static void product_case(conform_run *run, zl_dtype d, const product_shape *s)
{
    const zr_gemm_args *g = &s->gemm;
    const size_t mn = (size_t)(g->m * g->c.ld);
    const conform_type c_type = (conform_type)g->c.dtype;
    conform_case c = conform_start("gemm", d, gemm, s);
    conform_in(&c, "a", (conform_type)g->a.dtype, (size_t)((g->trans_a ? g->k : g->m) * g->a.ld),
               -1.0, 1.0);
    conform_in(&c, "b", (conform_type)g->b.dtype, (size_t)((g->trans_b ? g->n : g->k) * g->b.ld),
               -1.0, 1.0);
    conform_in(&c, "bias", (conform_type)g->bias_dtype, g->n, -4.0, 4.0);
    conform_in(&c, "residual", (conform_type)g->residual.dtype, (size_t)(g->m * g->residual.ld),
               -4.0, 4.0);
    /* Columns beyond n stay as they are: then c is an input too. */
    if (g->beta != 0.0F || s->alias || g->c.ld > g->n) {
        conform_inout(&c, "c", c_type, mn, -4.0, 4.0);
    } else {
        conform_out(&c, "c", c_type, mn);
    }
    conform_check(run, &c,
                  "m %u, n %u, k %u, trans %d%d, types %d%d%d, beta %g, bias %d, residual %d", g->m,
                  g->n, g->k, g->trans_a, g->trans_b, (int)g->a.dtype, (int)g->b.dtype,
                  (int)g->c.dtype, (double)g->beta, s->bias, s->residual + 2 * s->alias);
}

static product_shape make_product(const uint32_t size[4], int trans, const zl_dtype type[3])
{
    const bool trans_a = trans % 2 != 0;
    const bool trans_b = trans / 2 != 0;
    const uint32_t gap = size[3];
    return (product_shape){
        .gemm = {.m = size[0],
                 .n = size[1],
                 .k = size[2],
                 .trans_a = trans_a,
                 .trans_b = trans_b,
                 .a = {.ld = (trans_a ? size[0] : size[2]) + gap, .dtype = type[0]},
                 .b = {.ld = (trans_b ? size[2] : size[1]) + gap, .dtype = type[1]},
                 .c = {.ld = size[1] + gap, .dtype = type[2]},
                 .residual = {.ld = size[1], .dtype = type[2]},
                 .bias_dtype = type[2],
                 .alpha = 0.5F}};
}

/* What is added besides the product. */
static void variants(conform_run *run, zl_dtype d, product_shape s)
{
    product_case(run, d, &s);
    s.gemm.beta = 1.0F;
    product_case(run, d, &s);
    s.bias = true;
    product_case(run, d, &s);
    s.gemm.beta = 0.0F;
    product_case(run, d, &s);
    s.residual = true;
    product_case(run, d, &s);
    s.gemm.beta = 1.0F;
    product_case(run, d, &s);
    s.gemm.beta = 0.0F;
    s.residual = false;
    s.alias = true;
    s.gemm.residual.ld = s.gemm.c.ld;
    product_case(run, d, &s);
}

void conform_products(conform_run *run, zl_dtype d)
{
    static const uint32_t sizes[][4] = {
        {37, 29, 41, 0},   {64, 130, 257, 0}, {128, 256, 64, 0}, {1, 1, 1, 0},
        {130, 257, 64, 3}, {5, 7, 0, 0},      {1, 128, 96, 0},   {96, 192, 320, 8},
        {40, 523, 66, 5},  {24, 48, 521, 7},  {3, 517, 515, 0},
    };
    const zl_dtype types[][3] = {{d, d, d}, {d, d, ZL_F32}, {ZL_F32, d, d}, {d, ZL_F32, ZL_BF16}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            for (int trans = 0; trans < 4; trans++) {
                const bool repeated = d == ZL_F32 && (t == 1 || t == 2);
                if (!repeated) {
                    variants(run, d, make_product(sizes[i], trans, types[t]));
                }
            }
        }
    }
}
