/*
 * The optimizers against fp64 and against steps worked out by hand.
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

static void expect(const tensor *got, const double *want)
{
    const double error = relative_error(tensor_values(got), want, got->count);
    if (!(error < tolerance(got->dtype))) {
        fail_msg("%s: relative error %.3g", zl_dtype_name(got->dtype), error);
    }
}

static tensor cast(const tensor *from, zl_dtype dtype)
{
    const tensor to = tensor_poisoned(dtype, from->count);
    MUST(zr_cast(&(zr_pair_args){.count = from->count,
                                 .dst_dtype = dtype,
                                 .dst = to.data,
                                 .src_dtype = from->dtype,
                                 .src = from->data},
                 NULL));
    return to;
}

/* AdamW in fp64, with the states and weights rounded where the kernel stores them. */
typedef struct adam {
    double w, m, v;
} adam;

static void adam_step(adam *a, double g, const zr_adamw_args *k)
{
    a->m = k->beta1 * a->m + (1.0 - k->beta1) * g;
    a->v = k->beta2 * a->v + (1.0 - k->beta2) * g * g;
    const double mean = a->m / (1.0 - pow(k->beta1, (double)k->step));
    const double square = a->v / (1.0 - pow(k->beta2, (double)k->step));
    a->w -= k->lr * k->weight_decay * a->w;
    a->w -= k->lr * mean / (sqrt(square) + k->eps);
    a->m = round_to(k->state_dtype, a->m);
    a->v = round_to(k->state_dtype, a->v);
    a->w = round_to(k->master != NULL ? ZL_F32 : k->param_dtype, a->w);
}

static void adamw(zl_dtype param, zl_dtype gdtype, zl_dtype states, bool master, bool copy)
{
    enum { N = 700 };
    const tensor w = tensor_random(ZL_F32, N, -1, 1);
    const tensor p = cast(&w, param);
    const tensor m = tensor_poisoned(states, N);
    const tensor v = tensor_poisoned(states, N);
    adam ref[N];
    double want[3][N];
    zr_adamw_args a = {.count = N,
                       .param_dtype = param,
                       .gdtype = gdtype,
                       .state_dtype = states,
                       .param = copy ? p.data : NULL,
                       .master = master ? w.data : NULL,
                       .exp_avg = m.data,
                       .exp_avg_sq = v.data,
                       .grad_scale = 0.25F,
                       .lr = 0.01,
                       .beta1 = 0.9,
                       .beta2 = 0.95,
                       .eps = 1e-8,
                       .weight_decay = 0.1};
    MUST(zr_fill(m.data, N, states, 0.0F, NULL));
    MUST(zr_fill(v.data, N, states, 0.0F, NULL));
    for (size_t i = 0; i < N; i++) {
        ref[i] = (adam){.w = tensor_values(master ? &w : &p)[i]};
    }
    for (a.step = 1; a.step <= 5; a.step++) {
        const tensor g = tensor_random(gdtype, N, -4, 4);
        const double *const grad = tensor_values(&g);
        a.grad = g.data;
        MUST(zr_adamw(&a, NULL));
        for (size_t i = 0; i < N; i++) {
            adam_step(&ref[i], 0.25 * grad[i], &a);
        }
    }
    for (size_t i = 0; i < N; i++) {
        want[0][i] = ref[i].w;
        want[1][i] = ref[i].m;
        want[2][i] = ref[i].v;
    }
    expect(master ? &w : &p, want[0]);
    expect(&m, want[1]);
    expect(&v, want[2]);
    if (master && copy) {
        const tensor rounded = cast(&w, param);
        assert_true(tensor_same_bits(&rounded, &p));
    }
}

static void adamw_matches_reference(void **state)
{
    (void)state;
    adamw(ZL_F32, ZL_F32, ZL_F32, false, true);
    adamw(ZL_BF16, ZL_BF16, ZL_F32, true, true);
    adamw(ZL_F16, ZL_F32, ZL_F32, true, true);
    adamw(ZL_BF16, ZL_F32, ZL_F32, true, false);
    adamw(ZL_BF16, ZL_BF16, ZL_BF16, false, true);
    zr_adamw_args bad = {.count = 0, .step = 1};
    MUST_NOT(zr_adamw(&bad, NULL)); /* no weights at all */
}

static void first_adamw_step_is_the_learning_rate(void **state)
{
    (void)state;
    /* m/(1-b1) = g and v/(1-b2) = g^2, so the step is lr * g / (|g| + eps) whatever g:
     * w = 1 - 0.1 * 0.5 * 1 - 0.1 = 0.85; with eps = |g| half of it: 0.9. */
    float w[] = {1, 1};
    const float g[] = {1e-3F, 1e-3F};
    float m[] = {0, 0};
    float v[] = {0, 0};
    zr_adamw_args a = {.count = 1,
                       .param = w,
                       .grad = g,
                       .exp_avg = m,
                       .exp_avg_sq = v,
                       .grad_scale = 1,
                       .lr = 0.1,
                       .beta1 = 0.9,
                       .beta2 = 0.999,
                       .eps = 1e-12,
                       .weight_decay = 0.5,
                       .step = 1};
    MUST(zr_adamw(&a, NULL));
    assert_float_equal(w[0], 0.85, 1e-6);
    assert_float_equal(m[0], 1e-4, 1e-9);
    assert_float_equal(v[0], 1e-9, 1e-14);
    a = (zr_adamw_args){.count = 1,
                        .param = w + 1,
                        .grad = g,
                        .exp_avg = m + 1,
                        .exp_avg_sq = v + 1,
                        .grad_scale = 1,
                        .lr = 0.1,
                        .beta1 = 0.9,
                        .beta2 = 0.999,
                        .eps = 1e-3,
                        .weight_decay = 0.5,
                        .step = 1};
    MUST(zr_adamw(&a, NULL));
    assert_float_equal(w[1], 0.9, 1e-6);
}

static void sgd_by_hand(void **state)
{
    (void)state;
    /* g = 0.5 * 2 + 0.1 * 10 = 2, buf = 2, w = 10 - 0.25 * 2 = 9.5;
     * g = 1 + 0.95 = 1.95, buf = 0.5 * 2 + 1.95 = 2.95, w = 9.5 - 0.7375 = 8.7625. */
    float w[] = {10};
    float buf[] = {0};
    uint16_t copy[] = {0};
    const float g[] = {2};
    zr_sgd_args a = {.count = 1,
                     .param_dtype = ZL_BF16,
                     .param = copy,
                     .master = w,
                     .grad = g,
                     .momentum = buf,
                     .grad_scale = 0.5F,
                     .lr = 0.25,
                     .mu = 0.5,
                     .weight_decay = 0.1};
    MUST(zr_sgd(&a, NULL));
    assert_float_equal(w[0], 9.5, 1e-6);
    MUST(zr_sgd(&a, NULL));
    assert_float_equal(w[0], 8.7625, 1e-6);
    assert_float_equal(buf[0], 2.95, 1e-6);
    assert_int_equal(copy[0], 0x410C); /* 8.75: steps of 1/16 at 8 */
    a.momentum = NULL;
    MUST_NOT(zr_sgd(&a, NULL));
    a.mu = 0.0;
    a.weight_decay = 0.0;
    MUST(zr_sgd(&a, NULL));
    assert_float_equal(w[0], 8.5125, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(adamw_matches_reference, tensor_free_all),
        cmocka_unit_test(first_adamw_step_is_the_learning_rate),
        cmocka_unit_test(sgd_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
