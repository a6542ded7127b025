/*
 * Every backward kernel against central differences of the fp64 reference of its forward, at every
 * storage type. The loss is a weighted sum of the outputs; the weights are the incoming gradient.
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

#define SAMPLES    160 /* coordinates of an input that are checked, evenly spread */
#define MUST(call) assert_int_equal((call), ZL_OK)

typedef struct problem {
    reference *forward;
    const void *shape;
    double *x;             /* all inputs */
    const double *weights; /* of the outputs */
    size_t outputs;
    zl_dtype dtype; /* decides the tolerance */
    size_t samples; /* 0: SAMPLES */
} problem;

static double weighted(const problem *p, double *y)
{
    double sum = 0.0;
    p->forward(p->shape, p->x, y);
    for (size_t i = 0; i < p->outputs; i++) {
        sum += p->weights[i] * y[i];
    }
    return sum;
}

/* got: gradient of inputs first.. as the kernel left it, minus `before` if it accumulated. */
static void check(const problem *p, size_t first, const tensor *got, const tensor *before)
{
    const double step = 1e-4;
    const size_t samples = p->samples > 0 ? p->samples : SAMPLES;
    const size_t stride = (got->count + samples - 1) / samples;
    const double *const g = tensor_values(got);
    const double *const old = before != NULL ? tensor_values(before) : doubles(got->count);
    double *const y = doubles(p->outputs);
    double *const want = doubles(got->count);
    double *const have = doubles(got->count);
    size_t n = 0;
    for (size_t i = 0; i < got->count; i += stride) {
        double *const x = &p->x[first + i];
        const double kept = *x;
        *x = kept + step;
        const double above = weighted(p, y);
        *x = kept - step;
        const double below = weighted(p, y);
        *x = kept;
        have[n] = g[i];
        want[n] = (above - below) / (2.0 * step) + old[i];
        n++;
    }
    const double error = relative_error(have, want, n);
    if (!(error < tolerance(p->dtype))) {
        fail_msg("%s: relative error %.3g of %zu entries", zl_dtype_name(p->dtype), error, n);
    }
}

/* Storage types under test: activations, and the gradients of weights. */
typedef struct types {
    zl_dtype dtype;
    zl_dtype gdtype;
} types;

static const types combinations[] = {
    {ZL_F32, ZL_F32}, {ZL_BF16, ZL_BF16}, {ZL_BF16, ZL_F32}, {ZL_F16, ZL_F16}, {ZL_F16, ZL_F32}};

#define FOR_TYPES(t)                                                                               \
    for (const types *t = combinations;                                                            \
         t < combinations + sizeof combinations / sizeof combinations[0]; t++)

static void linear(types t, bool trans_a, bool trans_b)
{
    enum { M = 17, N = 13, K = 301, M_K = M * K, K_N = K * N, M_N = M * N };
    float work[3 * ZR_HOST_GEMM_TILE * ZR_HOST_GEMM_TILE];
    const zl_dtype d = t.dtype;
    const tensor part[] = {tensor_random(d, M_K, -1, 1), tensor_random(d, K_N, -1, 1),
                           tensor_random(d, N, -1, 1)};
    const tensor dy = tensor_random(d, M_N, -1, 1);
    const tensor da = tensor_poisoned(d, M_K);
    const tensor db = tensor_random(t.gdtype, K_N, -9, 9);
    const tensor db_old = tensor_copy(&db);
    const tensor dbias = tensor_random(t.gdtype, N, -1, 1);
    const tensor dbias_old = tensor_copy(&dbias);
    const zr_gemm_args shape = {.m = M,
                                .n = N,
                                .k = K,
                                .alpha = 1,
                                .trans_a = trans_a,
                                .trans_b = trans_b,
                                .bias = part[2].data};
    /* dA = dY B^T, stored as A is; dB += A^T dY, stored as B is. */
    zr_gemm_args ga = {.m = trans_a ? K : M,
                       .n = trans_a ? M : K,
                       .k = N,
                       .alpha = 1,
                       .c = {da.data, trans_a ? M : K, d},
                       .work = work,
                       .work_bytes = sizeof work};
    zr_gemm_args gb = {.m = trans_b ? N : K,
                       .n = trans_b ? K : N,
                       .k = M,
                       .alpha = 1,
                       .beta = 1,
                       .c = {db.data, trans_b ? K : N, t.gdtype},
                       .work = work,
                       .work_bytes = sizeof work};
    const zr_const_matrix a = {part[0].data, trans_a ? M : K, d};
    const zr_const_matrix b = {part[1].data, trans_b ? K : N, d};
    const zr_const_matrix g = {dy.data, N, d};
    ga.a = trans_a ? b : g;
    ga.b = trans_a ? g : b;
    ga.trans_a = trans_a && trans_b;
    ga.trans_b = trans_a || !trans_b;
    gb.a = trans_b ? g : a;
    gb.b = trans_b ? a : g;
    gb.trans_a = trans_b || !trans_a;
    gb.trans_b = trans_b && trans_a;
    MUST(zr_gemm(&ga, NULL));
    MUST(zr_gemm(&gb, NULL));
    MUST(zr_bias_backward(&(zr_bias_grad_args){.dtype = d,
                                               .gdtype = t.gdtype,
                                               .rows = M,
                                               .cols = N,
                                               .ld = N,
                                               .dout = dy.data,
                                               .dbias = dbias.data},
                          NULL));
    const problem p = {reference_gemm, &shape, tensor_join(part, 3), tensor_values(&dy), M_N, d, 0};
    check(&p, 0, &da, NULL);
    check(&p, M_K, &db, &db_old);
    check(&p, M_K + K_N, &dbias, &dbias_old);
}

static void linear_backward(void **state)
{
    (void)state;
    FOR_TYPES(t)
    {
        linear(*t, false, false);
        linear(*t, false, true);
        linear(*t, true, false);
        linear(*t, true, true);
    }
}

static void embedding_backward(void **state)
{
    (void)state;
    enum {
        ROWS = 66,
        T = 33,
        C = 517,
        VOCAB = 11,
        POSITIONS = 40,
        KINDS = 2,
        VOCAB_C = VOCAB * C,
        POSITIONS_C = POSITIONS * C,
        KINDS_C = KINDS * C,
        ROWS_C = ROWS * C
    };
    int32_t *const ids = int32s(ROWS);
    int32_t *const kinds = int32s(ROWS);
    for (size_t r = 0; r < ROWS; r++) {
        ids[r] = (int32_t)random_below(VOCAB);
        kinds[r] = (int32_t)random_below(KINDS);
    }
    FOR_TYPES(t)
    {
        const tensor part[] = {tensor_random(t->dtype, VOCAB_C, -1, 1),
                               tensor_random(t->dtype, POSITIONS_C, -1, 1),
                               tensor_random(t->dtype, KINDS_C, -1, 1)};
        const tensor dy = tensor_random(t->dtype, ROWS_C, -1, 1);
        const tensor grad[] = {tensor_random(t->gdtype, VOCAB_C, -1, 1),
                               tensor_random(t->gdtype, POSITIONS_C, -1, 1),
                               tensor_random(t->gdtype, KINDS_C, -1, 1)};
        const tensor old[] = {tensor_copy(&grad[0]), tensor_copy(&grad[1]), tensor_copy(&grad[2])};
        const zr_embed_args e = {.dtype = t->dtype,
                                 .gdtype = t->gdtype,
                                 .rows = ROWS,
                                 .tokens = T,
                                 .width = C,
                                 .vocab = VOCAB,
                                 .positions = POSITIONS,
                                 .kinds = KINDS,
                                 .ids = ids,
                                 .types = kinds,
                                 .dout = dy.data,
                                 .tok_grad = grad[0].data,
                                 .pos_grad = grad[1].data,
                                 .type_grad = grad[2].data};
        MUST(zr_embed_backward(&e, NULL));
        const problem p = {reference_embed, &e, tensor_join(part, 3), tensor_values(&dy), ROWS_C,
                           t->dtype,        0};
        check(&p, 0, &grad[0], &old[0]);
        check(&p, VOCAB_C, &grad[1], &old[1]);
        check(&p, VOCAB_C + POSITIONS_C, &grad[2], &old[2]);
    }
}

typedef enum landing { ELSEWHERE, ADDED, IN_PLACE, LANDINGS } landing;

static void norm(types t, bool layer, landing where)
{
    enum { ROWS = 9, C = 531, ROWS_C = ROWS * C, TWO_ROWS = 2 * ROWS };
    const zl_dtype d = t.dtype;
    const tensor part[] = {tensor_random(d, ROWS_C, -2, 3), tensor_random(d, C, 0.5, 1.5),
                           tensor_random(d, C, -1, 1)};
    const tensor out = tensor_poisoned(d, ROWS_C);
    const tensor stats = tensor_poisoned(ZL_F32, layer ? TWO_ROWS : ROWS);
    const tensor dy = tensor_random(d, ROWS_C, -1, 1);
    const problem p = {layer ? reference_layernorm : reference_rmsnorm,
                       &(zr_norm_args){.rows = ROWS, .width = C, .eps = 1e-3F},
                       tensor_join(part, layer ? 3 : 2),
                       tensor_values(&dy),
                       ROWS_C,
                       d,
                       0};
    const tensor dgain = tensor_random(t.gdtype, C, -1, 1);
    const tensor dbias = tensor_random(t.gdtype, C, -1, 1);
    const tensor old[] = {tensor_copy(&dgain), tensor_copy(&dbias)};
    const tensor dx = where == IN_PLACE ? dy
                      : where == ADDED  ? tensor_random(d, ROWS_C, -1, 1)
                                        : tensor_poisoned(d, ROWS_C);
    const tensor dx_old = tensor_copy(&dx);
    const zr_norm_args forward = {.dtype = d,
                                  .rows = ROWS,
                                  .width = C,
                                  .eps = 1e-3F,
                                  .x = part[0].data,
                                  .gain = part[1].data,
                                  .bias = layer ? part[2].data : NULL,
                                  .out = out.data,
                                  .stats = stats.data};
    const zr_norm_grad_args backward = {.dtype = d,
                                        .gdtype = t.gdtype,
                                        .rows = ROWS,
                                        .width = C,
                                        .mode = where == ADDED ? ZR_GRAD_ADD : ZR_GRAD_WRITE,
                                        .x = part[0].data,
                                        .gain = part[1].data,
                                        .stats = stats.data,
                                        .dy = dy.data,
                                        .dx = dx.data,
                                        .dgain = dgain.data,
                                        .dbias = layer ? dbias.data : NULL};
    MUST((layer ? zr_layernorm_forward : zr_rmsnorm_forward)(&forward, NULL));
    MUST((layer ? zr_layernorm_backward : zr_rmsnorm_backward)(&backward, NULL));
    check(&p, 0, &dx, where == ADDED ? &dx_old : NULL);
    check(&p, ROWS_C, &dgain, &old[0]);
    if (layer) {
        check(&p, ROWS_C + C, &dbias, &old[1]);
    }
}

static void norm_backward(void **state)
{
    (void)state;
    FOR_TYPES(t)
    {
        for (landing where = ELSEWHERE; where < LANDINGS; where++) {
            norm(*t, true, where);
            norm(*t, false, where);
        }
    }
}

static void activation_backward(void **state)
{
    (void)state;
    enum { N = 1037 };
    const uint64_t count = N;
    for (zl_dtype d = ZL_F32; d < ZL_DTYPE_COUNT; d++) {
        const tensor x = tensor_random(d, N, -5, 5);
        const tensor out = tensor_poisoned(d, N);
        const tensor dy = tensor_random(d, N, -1, 1);
        for (zr_gelu kind = ZR_GELU_TANH; kind < ZR_GELU_COUNT; kind++) {
            const tensor grad = tensor_copy(&dy);
            const zr_gelu_args a = {
                .kind = kind, .dtype = d, .count = N, .pre = x.data, .grad = grad.data};
            const problem p = {reference_gelu, &a, tensor_values(&x), tensor_values(&dy), N, d, 0};
            MUST(zr_gelu_backward(&a, NULL));
            check(&p, 0, &grad, NULL);
        }
        /* The gradient is taken at the stored output: a saturated tanh in 16 bits is another
         * function. Small inputs keep it honest. */
        const tensor small = tensor_random(d, N, -0.7, 0.7);
        const tensor grad = tensor_copy(&dy);
        const problem p = {
            reference_tanh, &count, tensor_values(&small), tensor_values(&dy), N, d, 0};
        MUST(zr_tanh_forward(small.data, out.data, N, d, NULL));
        MUST(zr_tanh_backward(out.data, grad.data, N, d, NULL));
        check(&p, 0, &grad, NULL);
    }
}

static void swiglu_backward(void **state)
{
    (void)state;
    enum { ROWS = 3, F = 521, TWO_ROWS_F = 2 * ROWS * F, ROWS_F = ROWS * F };
    for (zl_dtype d = ZL_F32; d < ZL_DTYPE_COUNT; d++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            const tensor pre = tensor_random(d, TWO_ROWS_F, -4, 4);
            const tensor dy = tensor_random(d, ROWS_F, -1, 1);
            const tensor dpre = in_place ? pre : tensor_poisoned(d, TWO_ROWS_F);
            const zr_swiglu_args a = {.dtype = d,
                                      .rows = ROWS,
                                      .width = F,
                                      .pre = pre.data,
                                      .dout = dy.data,
                                      .dpre = dpre.data};
            const problem p = {
                reference_swiglu, &a, tensor_values(&pre), tensor_values(&dy), ROWS_F, d, 0};
            MUST(zr_swiglu_backward(&a, NULL));
            check(&p, 0, &dpre, NULL);
        }
    }
}

static void rope_backward(void **state)
{
    (void)state;
    enum { T = 7, ROWS = 14, H = 6, G = 2, D = 10, N = ROWS * (H + 2 * G) * D, T_D = T * D };
    const tensor table = tensor_poisoned(ZL_F32, T_D);
    MUST(zr_rope_table(table.data, T, D, 10000.0, NULL));
    for (zl_dtype d = ZL_F32; d < ZL_DTYPE_COUNT; d++) {
        const tensor x = tensor_random(d, N, -1, 1);
        const tensor dy = tensor_random(d, N, -1, 1);
        const tensor grad = tensor_copy(&dy);
        const reference_rope_shape s = {{.dtype = d,
                                         .rows = ROWS,
                                         .tokens = T,
                                         .heads = H,
                                         .kv_heads = G,
                                         .head_dim = D,
                                         .table = table.data,
                                         .qkv = grad.data},
                                        10000.0};
        const problem p = {reference_rope, &s, tensor_values(&x), tensor_values(&dy), N, d, 0};
        MUST(zr_rope_backward(&s.args, NULL));
        check(&p, 0, &grad, NULL);
    }
}

static void attention(zr_attn_args a, bool flash)
{
    const size_t rows = (size_t)a.batch * a.tokens;
    const size_t packed = rows * (a.heads + 2 * (size_t)a.kv_heads) * a.head_dim;
    const size_t square = (size_t)a.batch * a.heads * a.tokens * a.tokens;
    const size_t outputs = rows * a.heads * a.head_dim;
    const tensor qkv = tensor_random(a.dtype, packed, -1.5, 1.5);
    const tensor dy = tensor_random(a.dtype, outputs, -1, 1);
    const tensor dqkv = tensor_poisoned(a.dtype, packed);
    a.qkv = qkv.data;
    a.dout = dy.data;
    a.dqkv = dqkv.data;
    a.out = tensor_poisoned(a.dtype, outputs).data;
    a.lse = tensor_poisoned(ZL_F32, rows * a.heads).data;
    a.delta = tensor_poisoned(ZL_F32, rows * a.heads).data;
    a.probs = tensor_poisoned(a.dtype, square).data;
    a.dropped = a.dropout > 0.0F ? tensor_poisoned(a.dtype, square).data : NULL;
    a.dprobs = tensor_poisoned(a.dtype, square).data;
    MUST((flash ? zr_flash_forward : zr_eager_forward)(&a, NULL));
    MUST((flash ? zr_flash_backward : zr_eager_backward)(&a, NULL));
    const problem p = {
        reference_attention, &a, tensor_values(&qkv), tensor_values(&dy), outputs, a.dtype, 60};
    check(&p, 0, &dqkv, NULL);
}

static void attention_backward(void **state)
{
    (void)state;
    static const int32_t lengths[] = {69, 5};
    const zr_rng rng = {.seed = 77, .stream = 5, .offset = 3};
    for (zl_dtype d = ZL_F32; d < ZL_DTYPE_COUNT; d++) {
        for (int flash = 0; flash < 2; flash++) {
            const zr_attn_args base = {.dtype = d,
                                       .batch = 2,
                                       .tokens = 71,
                                       .heads = 4,
                                       .kv_heads = 4,
                                       .head_dim = 6,
                                       .scale = 0.41F,
                                       .rng = rng};
            zr_attn_args causal = base;
            causal.causal = true;
            causal.kv_heads = 2;
            zr_attn_args padded = base;
            padded.lengths = lengths;
            padded.kv_heads = 1;
            zr_attn_args dropped = causal;
            dropped.dropout = 0.25F;
            dropped.lengths = lengths;
            attention(base, flash == 1);
            attention(causal, flash == 1);
            attention(padded, flash == 1);
            attention(dropped, flash == 1);
        }
    }
}

static void dropout_backward(void **state)
{
    (void)state;
    enum { N = 1501 };
    for (zl_dtype d = ZL_F32; d < ZL_DTYPE_COUNT; d++) {
        const tensor x = tensor_random(d, N, -1, 1);
        const tensor dy = tensor_random(d, N, -1, 1);
        const tensor dx = tensor_poisoned(d, N);
        const zr_dropout_args a = {.dtype = d,
                                   .count = N,
                                   .p = 0.3F,
                                   .in = dy.data,
                                   .out = dx.data,
                                   .rng = {.seed = 9, .stream = 1, .offset = 7}};
        const problem p = {reference_dropout, &a, tensor_values(&x), tensor_values(&dy), N, d, 0};
        MUST(zr_dropout(&a, NULL));
        check(&p, 0, &dx, NULL);
    }
}

static void cross_entropy_backward(void **state)
{
    (void)state;
    enum { ROWS = 5, V = 1031, ROWS_V = ROWS * V };
    static const int32_t targets[ROWS] = {0, V - 1, -100, 512, 511};
    const double scale = 0.375;
    double weights[ROWS];
    for (size_t r = 0; r < ROWS; r++) {
        weights[r] = scale;
    }
    for (zl_dtype d = ZL_F32; d < ZL_DTYPE_COUNT; d++) {
        const tensor logits = tensor_random(d, ROWS_V, -6, 6);
        const tensor loss = tensor_poisoned(ZL_F32, ROWS);
        const zr_loss_args a = {.dtype = d,
                                .rows = ROWS,
                                .vocab = V,
                                .ld = V,
                                .gradient = true,
                                .targets = targets,
                                .logits = logits.data,
                                .loss = loss.data,
                                .scale = (float)scale};
        const problem p = {
            reference_cross_entropy, &a, tensor_values(&logits), weights, ROWS, d, ROWS_V};
        MUST(zr_cross_entropy(&a, NULL));
        check(&p, 0, &logits, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(linear_backward, tensor_free_all),
        cmocka_unit_test_teardown(embedding_backward, tensor_free_all),
        cmocka_unit_test_teardown(norm_backward, tensor_free_all),
        cmocka_unit_test_teardown(activation_backward, tensor_free_all),
        cmocka_unit_test_teardown(swiglu_backward, tensor_free_all),
        cmocka_unit_test_teardown(rope_backward, tensor_free_all),
        cmocka_unit_test_teardown(attention_backward, tensor_free_all),
        cmocka_unit_test_teardown(dropout_backward, tensor_free_all),
        cmocka_unit_test_teardown(cross_entropy_backward, tensor_free_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
