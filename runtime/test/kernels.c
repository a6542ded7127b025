/*
 * The forward kernels on rows (products, embedding, norms, activations, rotation, loss) against the
 * fp64 reference, at odd shapes, every storage type, with outputs poisoned before the call.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "kernel/kernel.h"
#include "reference.h"
#include "tensor.h"

#define MUST(call)     assert_int_equal((call), ZL_OK)
#define MUST_NOT(call) assert_int_equal((call), ZL_E_USAGE)
#define FOR_DTYPES(d)  for (zl_dtype d = ZL_F32; d < ZL_DTYPE_COUNT; d++)

static float gemm_work[3 * ZR_HOST_GEMM_TILE * ZR_HOST_GEMM_TILE];

static void expect(const tensor *got, const double *want)
{
    const double error = relative_error(tensor_values(got), want, got->count);
    if (!(error < tolerance(got->dtype))) {
        fail_msg("%s: relative error %.3g", zl_dtype_name(got->dtype), error);
    }
}

typedef struct gemm_case {
    uint32_t m, n, k;
    bool trans_a, trans_b;
    zl_dtype a, b, c;
    float beta;
    bool bias, residual, alias; /* alias: the residual is c itself */
} gemm_case;

static void gemm(gemm_case t)
{
    const size_t mn = (size_t)t.m * t.n;
    const tensor part[] = {tensor_random(t.a, (size_t)t.m * t.k, -1, 1),
                           tensor_random(t.b, (size_t)t.k * t.n, -1, 1),
                           tensor_random(ZL_F32, t.bias ? t.n : 0, -9, 9),
                           tensor_random(t.alias ? t.c : t.a, t.residual ? mn : 0, -9, 9)};
    const tensor c = t.alias          ? part[3]
                     : t.beta != 0.0F ? tensor_random(t.c, mn, -9, 9)
                                      : tensor_poisoned(t.c, mn);
    const double *const old = tensor_values(&c);
    const zr_gemm_args g = {.m = t.m,
                            .n = t.n,
                            .k = t.k,
                            .trans_a = t.trans_a,
                            .trans_b = t.trans_b,
                            .a = {part[0].data, t.trans_a ? t.m : t.k, t.a},
                            .b = {part[1].data, t.trans_b ? t.k : t.n, t.b},
                            .c = {c.data, t.n, t.c},
                            .alpha = 0.5F,
                            .beta = t.beta,
                            .bias = t.bias ? part[2].data : NULL,
                            .bias_dtype = ZL_F32,
                            .residual = {t.residual ? part[3].data : NULL, t.n, part[3].dtype},
                            .work = gemm_work,
                            .work_bytes = sizeof gemm_work};
    double *const want = doubles(mn);
    reference_gemm(&g, tensor_join(part, 4), want);
    for (size_t i = 0; t.beta != 0.0F && i < mn; i++) {
        want[i] += (double)t.beta * old[i];
    }
    MUST(zr_gemm(&g, NULL));
    expect(&c, want);
}

static void gemm_matches_reference(void **state)
{
    (void)state;
    static const zl_dtype types[][3] = {{ZL_F32, ZL_F32, ZL_F32},   {ZL_BF16, ZL_BF16, ZL_BF16},
                                        {ZL_F16, ZL_F16, ZL_F16},   {ZL_BF16, ZL_BF16, ZL_F32},
                                        {ZL_F32, ZL_BF16, ZL_BF16}, {ZL_BF16, ZL_F32, ZL_F16}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        for (int trans = 0; trans < 4; trans++) {
            gemm_case t = {.m = 37,
                           .n = 259,
                           .k = 70,
                           .a = types[i][0],
                           .b = types[i][1],
                           .c = types[i][2],
                           .trans_a = trans & 1,
                           .trans_b = trans & 2};
            gemm(t);
            t.beta = 1.0F;
            t.m = 261;
            t.n = 19;
            gemm(t);
            t.beta = 0.0F;
            t.k = 521;
            t.bias = true;
            gemm(t);
            t.residual = true;
            gemm(t);
            t.alias = true;
            gemm(t);
            t.beta = -0.75F;
            t.k = 0;
            gemm(t);
            t.residual = t.alias = t.bias = false;
            gemm(t);
        }
    }
}

/* The pooler takes the first row of every sequence: a is (3, 4) with 20 elements between rows, c is
 * (3, 2) with 5. What lies between stays as it was. */
static void gemm_steps_over_gaps(void **state)
{
    (void)state;
    FOR_DTYPES(d)
    {
        const tensor a = tensor_random(d, 44, -1, 1);
        const tensor b = tensor_random(d, 8, -1, 1);
        const tensor c = tensor_random(d, 12, -1, 1);
        const double *const va = tensor_values(&a);
        const double *const vb = tensor_values(&b);
        double *const want = tensor_values(&c);
        const double *const before = tensor_values(&c);
        for (size_t i = 0; i < 3; i++) {
            for (size_t j = 0; j < 2; j++) {
                want[i * 5 + j] = 0.0;
                for (size_t k = 0; k < 4; k++) {
                    want[i * 5 + j] += va[i * 20 + k] * vb[k * 2 + j];
                }
            }
        }
        MUST(zr_gemm(&(zr_gemm_args){.m = 3,
                                     .n = 2,
                                     .k = 4,
                                     .alpha = 1,
                                     .a = {a.data, 20, d},
                                     .b = {b.data, 2, d},
                                     .c = {c.data, 5, d},
                                     .work = gemm_work,
                                     .work_bytes = sizeof gemm_work},
                     NULL));
        expect(&c, want);
        for (size_t i = 2; i < 5; i++) {
            assert_true(tensor_values(&c)[i] == before[i]);
        }
    }
}

static void gemm_refuses_what_it_cannot_do(void **state)
{
    (void)state;
    const tensor x = tensor_random(ZL_BF16, 16, -1, 1);
    const tensor y = tensor_copy(&x);
    const zr_gemm_args good = {.m = 4,
                               .n = 4,
                               .k = 4,
                               .alpha = 1,
                               .a = {x.data, 4, ZL_BF16},
                               .b = {x.data, 4, ZL_BF16},
                               .c = {y.data, 4, ZL_BF16},
                               .work = gemm_work,
                               .work_bytes = ZR_HOST_GEMM_WORK_BYTES};
    zr_gemm_args bad = good;
    bad.alpha = 0.0F;
    MUST_NOT(zr_gemm(&bad, NULL));
    bad = good;
    bad.work_bytes = ZR_HOST_GEMM_WORK_BYTES - 1;
    MUST_NOT(zr_gemm(&bad, NULL));
    bad = good;
    bad.b.ld = 3;
    MUST_NOT(zr_gemm(&bad, NULL));
    bad = good;
    bad.m = 0x80000000U;
    MUST_NOT(zr_gemm(&bad, NULL));
    assert_true(tensor_same_bits(&x, &y));
    MUST(zr_gemm(&good, NULL));
}

static void embedding_adds_three_tables(void **state)
{
    (void)state;
    enum {
        ROWS = 10,
        T = 5,
        C = 600,
        VOCAB = 7,
        POSITIONS = 6,
        KINDS = 3,
        VOCAB_C = VOCAB * C,
        POSITIONS_C = POSITIONS * C,
        KINDS_C = KINDS * C,
        ROWS_C = ROWS * C
    };
    static const int32_t ids[ROWS] = {6, 0, 3, 3, 1, 2, 5, 6, 0, 4};
    static const int32_t kinds[ROWS] = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0};
    FOR_DTYPES(d)
    {
        const tensor part[] = {tensor_random(d, VOCAB_C, -1, 1),
                               tensor_random(d, POSITIONS_C, -1, 1),
                               tensor_random(d, KINDS_C, -1, 1)};
        const tensor out = tensor_poisoned(d, ROWS_C);
        double *const want = doubles(ROWS_C);
        zr_embed_args e = {.dtype = d,
                           .rows = ROWS,
                           .tokens = T,
                           .width = C,
                           .vocab = VOCAB,
                           .positions = POSITIONS,
                           .kinds = KINDS,
                           .ids = ids,
                           .types = kinds,
                           .tok = part[0].data,
                           .pos = part[1].data,
                           .type = part[2].data,
                           .out = out.data};
        MUST(zr_embed_forward(&e, NULL));
        reference_embed(&e, tensor_join(part, 3), want);
        expect(&out, want);
        e.pos = NULL;
        e.type = NULL;
        e.positions = 0;
        e.kinds = 0;
        MUST(zr_embed_forward(&e, NULL));
        reference_embed(&e, tensor_join(part, 1), want);
        expect(&out, want);
        e.vocab = 6;
        MUST_NOT(zr_embed_forward(&e, NULL));
    }
}

static void norm(zl_dtype d, bool layer, double shift)
{
    enum { ROWS = 11, C = 1037, ROWS_C = ROWS * C, TWO_ROWS = 2 * ROWS };
    const tensor part[] = {tensor_random(d, ROWS_C, shift - 1, shift + 1),
                           tensor_random(d, C, 0.5, 1.5), tensor_random(d, C, -1, 1)};
    const tensor out = tensor_poisoned(d, ROWS_C);
    const tensor again = tensor_copy(&part[0]);
    const tensor stats = tensor_poisoned(ZL_F32, layer ? TWO_ROWS : ROWS);
    double *const want = doubles(ROWS_C);
    zr_norm_args a = {.dtype = d,
                      .rows = ROWS,
                      .width = C,
                      .eps = 1e-5F,
                      .x = part[0].data,
                      .gain = part[1].data,
                      .bias = layer ? part[2].data : NULL,
                      .out = out.data,
                      .stats = stats.data};
    MUST((layer ? zr_layernorm_forward : zr_rmsnorm_forward)(&a, NULL));
    (layer ? reference_layernorm : reference_rmsnorm)(&a, tensor_join(part, layer ? 3 : 2), want);
    expect(&out, want);
    /* Stats alone, and with them the same out again. */
    const tensor stats_only = tensor_poisoned(ZL_F32, stats.count);
    a.out = NULL;
    a.stats = stats_only.data;
    MUST((layer ? zr_layernorm_forward : zr_rmsnorm_forward)(&a, NULL));
    assert_true(tensor_same_bits(&stats, &stats_only));
    /* Recomputed over its own input, from the stats alone. */
    a.x = again.data;
    a.out = again.data;
    a.eps = NAN;
    MUST((layer ? zr_layernorm_apply : zr_rmsnorm_apply)(&a, NULL));
    assert_true(tensor_same_bits(&out, &again));
}

static void norms_match_reference_and_recompute_bitwise(void **state)
{
    (void)state;
    FOR_DTYPES(d)
    {
        norm(d, true, 0.0);
        norm(d, true, 30.0);
        norm(d, false, 0.0);
        norm(d, false, 3.0);
    }
}

static void layernorm_of_one_two_three(void **state)
{
    (void)state;
    /* mean 2, variance 2/3, so (x - 2) * sqrt(1.5) = -1.2247449, 0, 1.2247449. */
    const float x[] = {1, 2, 3};
    const float one[] = {1, 1, 1};
    const float zero[] = {0, 0, 0};
    float out[3];
    float stats[2];
    MUST(zr_layernorm_forward(&(zr_norm_args){.dtype = ZL_F32,
                                              .rows = 1,
                                              .width = 3,
                                              .x = x,
                                              .gain = one,
                                              .bias = zero,
                                              .out = out,
                                              .stats = stats},
                              NULL));
    assert_float_equal(out[0], -1.2247449, 1e-6);
    assert_float_equal(out[1], 0.0, 1e-6);
    assert_float_equal(out[2], 1.2247449, 1e-6);
    assert_float_equal(stats[0], 2.0, 0.0);
    assert_float_equal(stats[1], 1.2247449, 1e-6);
}

static void activations_match_reference(void **state)
{
    (void)state;
    enum { N = 1030 };
    const uint64_t count = N;
    double *const want = doubles(N);
    FOR_DTYPES(d)
    {
        const tensor x = tensor_random(d, N, -9, 9);
        const tensor out = tensor_poisoned(d, N);
        for (zr_gelu kind = ZR_GELU_TANH; kind < ZR_GELU_COUNT; kind++) {
            const zr_gelu_args a = {
                .kind = kind, .dtype = d, .count = N, .pre = x.data, .out = out.data};
            MUST(zr_gelu_forward(&a, NULL));
            reference_gelu(&a, tensor_values(&x), want);
            expect(&out, want);
        }
        MUST(zr_tanh_forward(x.data, out.data, N, d, NULL));
        reference_tanh(&count, tensor_values(&x), want);
        expect(&out, want);
        const zr_swiglu_args s = {
            .dtype = d, .rows = 1, .width = N / 2, .pre = x.data, .out = out.data};
        const tensor half = {out.data, N / 2, d};
        MUST(zr_swiglu_forward(&s, NULL));
        reference_swiglu(&s, tensor_values(&x), want);
        expect(&half, want);
    }
}

static void activations_survive_large_inputs(void **state)
{
    (void)state;
    const float x[] = {-6e4F, -90.0F, 0.0F, 90.0F, 6e4F};
    for (zr_gelu kind = ZR_GELU_TANH; kind < ZR_GELU_COUNT; kind++) {
        float out[5];
        float grad[] = {1, 1, 1, 1, 1};
        const zr_gelu_args a = {
            .kind = kind, .dtype = ZL_F32, .count = 5, .pre = x, .out = out, .grad = grad};
        MUST(zr_gelu_forward(&a, NULL));
        MUST(zr_gelu_backward(&a, NULL));
        for (size_t i = 0; i < 5; i++) {
            assert_float_equal(out[i], x[i] > 0.0F ? x[i] : 0.0F, 0.0);
            assert_float_equal(grad[i], i < 2 ? 0.0 : (i > 2 ? 1.0 : 0.5), 1e-7);
        }
    }
}

static void rope_turns_and_turns_back(void **state)
{
    (void)state;
    enum { T = 9, ROWS = 18, H = 4, G = 2, D = 128, N = ROWS * (H + 2 * G) * D, T_D = T * D };
    const tensor table = tensor_poisoned(ZL_F32, T_D);
    MUST(zr_rope_table(table.data, T, D, 500000.0, NULL));
    FOR_DTYPES(d)
    {
        const tensor x = tensor_random(d, N, -1, 1);
        const tensor y = tensor_copy(&x);
        const reference_rope_shape s = {{.dtype = d,
                                         .rows = ROWS,
                                         .tokens = T,
                                         .heads = H,
                                         .kv_heads = G,
                                         .head_dim = D,
                                         .table = table.data,
                                         .qkv = y.data},
                                        500000.0};
        double *const want = doubles(N);
        reference_rope(&s, tensor_values(&x), want);
        MUST(zr_rope_forward(&s.args, NULL));
        expect(&y, want);
        MUST(zr_rope_backward(&s.args, NULL));
        expect(&y, tensor_values(&x));
    }
}

static void rope_of_unit_vector(void **state)
{
    (void)state;
    /* Second token, D = 2: (1, 0) becomes (cos 1, sin 1) = (0.5403023, 0.8414710). */
    float table[4];
    float qkv[] = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
    MUST(zr_rope_table(table, 2, 2, 10000.0, NULL));
    MUST(zr_rope_forward(&(zr_rope_args){.dtype = ZL_F32,
                                         .rows = 2,
                                         .tokens = 2,
                                         .heads = 1,
                                         .kv_heads = 1,
                                         .head_dim = 2,
                                         .table = table,
                                         .qkv = qkv},
                         NULL));
    assert_float_equal(qkv[0], 1.0, 0.0);
    assert_float_equal(qkv[6], 0.5403023, 1e-6);
    assert_float_equal(qkv[7], 0.8414710, 1e-6);
    assert_float_equal(qkv[10], 1.0, 0.0); /* a value */
}

static void cross_entropy_matches_reference(void **state)
{
    (void)state;
    enum { ROWS = 6, V = 1025, LD = 1030, ROWS_LD = ROWS * LD };
    static const int32_t targets[ROWS] = {0, 1024, -1, 512, 511, -100};
    FOR_DTYPES(d)
    {
        const tensor logits = tensor_random(d, ROWS_LD, -9, 9);
        const tensor before = tensor_copy(&logits);
        const tensor loss = tensor_poisoned(ZL_F32, ROWS);
        double *const want = doubles(ROWS);
        zr_loss_args a = {.dtype = d,
                          .rows = ROWS,
                          .vocab = V,
                          .ld = LD,
                          .targets = targets,
                          .logits = logits.data,
                          .loss = loss.data,
                          .scale = 2.0F};
        reference_cross_entropy(&a, tensor_values(&logits), want);
        MUST(zr_cross_entropy(&a, NULL));
        expect(&loss, want);
        assert_true(tensor_same_bits(&logits, &before));
        a.gradient = true;
        MUST(zr_cross_entropy(&a, NULL));
        expect(&loss, want);
        const double *const old = tensor_values(&before);
        const double *const new = tensor_values(&logits);
        for (size_t i = 0; i < ROWS_LD; i++) {
            assert_true(i % LD < V || new[i] == old[i]);
            assert_true(i / LD != 2 || i % LD >= V || new[i] == 0.0);
        }
        a.vocab = 1024;
        MUST_NOT(zr_cross_entropy(&a, NULL));
    }
}

static void cross_entropy_of_even_odds(void **state)
{
    (void)state;
    /* Four equal logits, even huge ones: loss ln 4 = 1.3862944, gradient 1/4 - [target]. */
    float logits[] = {3e38F, 3e38F, 3e38F, 3e38F};
    float loss;
    const int32_t target = 2;
    MUST(zr_cross_entropy(&(zr_loss_args){.dtype = ZL_F32,
                                          .rows = 1,
                                          .vocab = 4,
                                          .ld = 4,
                                          .targets = &target,
                                          .logits = logits,
                                          .loss = &loss,
                                          .scale = 8.0F,
                                          .gradient = true},
                          NULL));
    assert_float_equal(loss, 1.3862944, 1e-6);
    assert_float_equal(logits[0], 2.0, 1e-6);
    assert_float_equal(logits[2], -6.0, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(gemm_matches_reference, tensor_free_all),
        cmocka_unit_test_teardown(gemm_steps_over_gaps, tensor_free_all),
        cmocka_unit_test_teardown(gemm_refuses_what_it_cannot_do, tensor_free_all),
        cmocka_unit_test_teardown(embedding_adds_three_tables, tensor_free_all),
        cmocka_unit_test_teardown(norms_match_reference_and_recompute_bitwise, tensor_free_all),
        cmocka_unit_test(layernorm_of_one_two_three),
        cmocka_unit_test_teardown(activations_match_reference, tensor_free_all),
        cmocka_unit_test(activations_survive_large_inputs),
        cmocka_unit_test_teardown(rope_turns_and_turns_back, tensor_free_all),
        cmocka_unit_test(rope_of_unit_vector),
        cmocka_unit_test_teardown(cross_entropy_matches_reference, tensor_free_all),
        cmocka_unit_test(cross_entropy_of_even_odds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
