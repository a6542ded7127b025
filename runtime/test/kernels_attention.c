/*
 * Both attentions against the fp64 reference and against each other: tiles that do not divide the
 * tokens, causal masks, key lengths, shared key heads, dropout, queries that see nothing.
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

/* Everything one attention touches. */
typedef struct buffers {
    tensor qkv, out, lse, delta, probs, dropped, dprobs, dout, dqkv;
} buffers;

static size_t outputs(const zr_attn_args *a)
{
    return (size_t)a->batch * a->tokens * a->heads * a->head_dim;
}

/* Sets the pointers of a; inputs come from `inputs` if given, else they are new. */
static buffers attach(zr_attn_args *a, const buffers *inputs)
{
    const size_t rows = (size_t)a->batch * a->tokens;
    const size_t packed = rows * (a->heads + 2 * (size_t)a->kv_heads) * a->head_dim;
    const size_t square = rows * a->heads * a->tokens;
    const buffers b = {
        .qkv = inputs != NULL ? inputs->qkv : tensor_random(a->dtype, packed, -2, 2),
        .dout = inputs != NULL ? inputs->dout : tensor_random(a->dtype, outputs(a), -1, 1),
        .out = tensor_poisoned(a->dtype, outputs(a)),
        .lse = tensor_poisoned(ZL_F32, rows * a->heads),
        .delta = tensor_poisoned(ZL_F32, rows * a->heads),
        .probs = tensor_poisoned(a->dtype, square),
        .dropped = tensor_poisoned(a->dtype, square),
        .dprobs = tensor_poisoned(a->dtype, square),
        .dqkv = tensor_poisoned(a->dtype, packed),
    };
    a->qkv = b.qkv.data;
    a->dout = b.dout.data;
    a->out = b.out.data;
    a->lse = b.lse.data;
    a->delta = b.delta.data;
    a->probs = b.probs.data;
    a->dropped = b.dropped.data;
    a->dprobs = b.dprobs.data;
    a->dqkv = b.dqkv.data;
    return b;
}

static void expect(const tensor *got, const double *want)
{
    const double error = relative_error(tensor_values(got), want, got->count);
    if (!(error < tolerance(got->dtype))) {
        fail_msg("%s: relative error %.3g", zl_dtype_name(got->dtype), error);
    }
}

static void compare(zr_attn_args a)
{
    double *const want = doubles(outputs(&a));
    const buffers flash = attach(&a, NULL);
    MUST(zr_flash_forward(&a, NULL));
    MUST(zr_flash_backward(&a, NULL));
    const buffers eager = attach(&a, &flash);
    MUST(zr_eager_forward(&a, NULL));
    MUST(zr_eager_backward(&a, NULL));
    const double *const qkv = tensor_values(&flash.qkv);
    reference_attention(&a, qkv, want);
    expect(&flash.out, want);
    expect(&eager.out, want);
    reference_lse(&a, qkv, want);
    expect(&flash.lse, want);
    const double error =
        relative_error(tensor_values(&flash.dqkv), tensor_values(&eager.dqkv), flash.dqkv.count);
    assert_true(error < 1.5 * tolerance(a.dtype)); /* two roundings */
}

static void flash_and_eager_match_reference(void **state)
{
    (void)state;
    static const int32_t lengths[] = {1, 131, 64};
    for (zl_dtype d = ZL_F32; d < ZL_DTYPE_COUNT; d++) {
        zr_attn_args a = {.dtype = d,
                          .batch = 3,
                          .tokens = 131,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = 16,
                          .scale = 0.25F,
                          .rng = {.seed = 3, .stream = 1ULL << 40, .offset = 12345}};
        compare(a);
        a.causal = true;
        compare(a);
        a.lengths = lengths;
        compare(a);
        a.causal = false;
        a.dropout = 0.1F;
        compare(a);
        a.lengths = NULL;
        a.causal = true;
        a.kv_heads = 1;
        compare(a);
        a.tokens = 64;
        a.heads = 1;
        a.head_dim = ZR_ATTN_HEAD_DIM_MAX;
        compare(a);
        a.tokens = 1;
        a.dropout = 0.0F;
        compare(a);
    }
}

/* A sequence of length 0 gives zeros and passes none on, although its scores are poisoned. */
static void query_without_keys_is_zero(void **state)
{
    (void)state;
    static const int32_t lengths[] = {0, 3};
    enum { T = 5, D = 4, ROW = 3 * D, T_D = T * D, T_ROW = T * ROW };
    for (zl_dtype d = ZL_F32; d < ZL_DTYPE_COUNT; d++) {
        for (int flash = 0; flash < 2; flash++) {
            zr_attn_args a = {.dtype = d,
                              .batch = 2,
                              .tokens = T,
                              .heads = 1,
                              .kv_heads = 1,
                              .head_dim = D,
                              .scale = 1,
                              .lengths = lengths};
            const buffers b = attach(&a, NULL);
            MUST((flash ? zr_flash_forward : zr_eager_forward)(&a, NULL));
            MUST((flash ? zr_flash_backward : zr_eager_backward)(&a, NULL));
            const double *const out = tensor_values(&b.out);
            const double *const dqkv = tensor_values(&b.dqkv);
            for (size_t i = 0; i < T_D; i++) {
                assert_true(out[i] == 0.0);
                assert_true(isfinite(out[T_D + i]));
            }
            for (size_t i = 0; i < T_ROW; i++) {
                assert_true(dqkv[i] == 0.0);
                assert_true(isfinite(dqkv[T_ROW + i]));
                /* keys and values 3 and 4 of the second sequence are hidden */
                const bool hidden = i / ROW >= 3 && i % ROW >= D;
                assert_true(!hidden || dqkv[T_ROW + i] == 0.0);
            }
            assert_true(!flash || tensor_values(&b.lse)[0] == -(double)INFINITY);
        }
    }
}

static void probabilities_are_stored_and_masked(void **state)
{
    (void)state;
    enum { T = 70 };
    zr_attn_args a = {.dtype = ZL_F32,
                      .batch = 1,
                      .tokens = T,
                      .heads = 1,
                      .kv_heads = 1,
                      .head_dim = 4,
                      .scale = 0.5F,
                      .causal = true,
                      .dropout = 0.5F,
                      .rng = {.seed = 11}};
    const buffers b = attach(&a, NULL);
    MUST(zr_eager_forward(&a, NULL));
    const double *const p = tensor_values(&b.probs);
    const double *const dropped = tensor_values(&b.dropped);
    for (size_t t = 0; t < T; t++) {
        double sum = 0.0;
        for (size_t s = 0; s < T; s++) {
            const size_t at = t * T + s;
            assert_true(s > t ? p[at] == 0.0 : p[at] > 0.0);
            assert_true(fabs(dropped[at] - p[at] * reference_mask(&a.rng, at, 0.5F)) < 1e-7);
            sum += p[at];
        }
        assert_true(fabs(sum - 1.0) < 1e-5);
    }
}

/* The second half needs no dropped probabilities: their place may hold dprobs. */
static void eager_backward_in_halves_is_the_whole(void **state)
{
    (void)state;
    zr_attn_args a = {.dtype = ZL_BF16,
                      .batch = 2,
                      .tokens = 70,
                      .heads = 4,
                      .kv_heads = 2,
                      .head_dim = 8,
                      .scale = 0.3F,
                      .causal = true,
                      .dropout = 0.2F};
    const buffers whole = attach(&a, NULL);
    MUST(zr_eager_forward(&a, NULL));
    MUST(zr_eager_backward(&a, NULL));
    const buffers halves = attach(&a, &whole);
    MUST(zr_eager_forward(&a, NULL));
    a.dprobs = NULL;
    MUST_NOT(zr_eager_backward(&a, NULL));
    MUST(zr_eager_backward_values(&a, NULL));
    a.dprobs = a.dropped;
    a.dropped = NULL;
    MUST(zr_eager_backward_scores(&a, NULL));
    assert_true(tensor_same_bits(&whole.dqkv, &halves.dqkv));
}

static void attention_survives_large_scores(void **state)
{
    (void)state;
    /* Scores 1e4 and 0: weights 1 and 0 exactly; shifted by the maximum nothing overflows. */
    const float qkv[] = {100, 100, 5, 0, 0, 7};
    float out[2];
    float lse[2];
    MUST(zr_flash_forward(&(zr_attn_args){.dtype = ZL_F32,
                                          .batch = 1,
                                          .tokens = 2,
                                          .heads = 1,
                                          .kv_heads = 1,
                                          .head_dim = 1,
                                          .scale = 1,
                                          .qkv = qkv,
                                          .out = out,
                                          .lse = lse},
                          NULL));
    assert_float_equal(out[0], 5.0, 0.0);
    assert_float_equal(lse[0], 10000.0, 0.0);
    assert_float_equal(out[1], 6.0, 0.0); /* its query is 0: both alike */
    assert_float_equal(lse[1], 0.6931472, 1e-6);
}

static void attention_repeats_bitwise(void **state)
{
    (void)state;
    for (int flash = 0; flash < 2; flash++) {
        zr_attn_args a = {.dtype = ZL_BF16,
                          .batch = 2,
                          .tokens = 100,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = 32,
                          .scale = 0.2F,
                          .causal = true,
                          .dropout = 0.2F};
        const buffers first = attach(&a, NULL);
        MUST((flash ? zr_flash_forward : zr_eager_forward)(&a, NULL));
        MUST((flash ? zr_flash_backward : zr_eager_backward)(&a, NULL));
        const buffers second = attach(&a, &first);
        MUST((flash ? zr_flash_forward : zr_eager_forward)(&a, NULL));
        MUST((flash ? zr_flash_backward : zr_eager_backward)(&a, NULL));
        assert_true(tensor_same_bits(&first.out, &second.out));
        assert_true(tensor_same_bits(&first.dqkv, &second.dqkv));
    }
}

static void attention_refuses_what_it_cannot_do(void **state)
{
    (void)state;
    zr_attn_args a = {.dtype = ZL_F32,
                      .batch = 1,
                      .tokens = 2,
                      .heads = 4,
                      .kv_heads = 2,
                      .head_dim = 4,
                      .scale = 1};
    const buffers b = attach(&a, NULL);
    (void)b;
    zr_attn_args bad = a;
    bad.kv_heads = 3;
    MUST_NOT(zr_flash_forward(&bad, NULL));
    MUST_NOT(zr_eager_backward(&bad, NULL));
    bad = a;
    bad.head_dim = ZR_ATTN_HEAD_DIM_MAX + 1;
    MUST_NOT(zr_eager_forward(&bad, NULL));
    bad = a;
    bad.dropout = 0.5F;
    bad.dropped = NULL;
    MUST_NOT(zr_eager_forward(&bad, NULL));
    bad.dropout = 1.0F;
    MUST_NOT(zr_flash_backward(&bad, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(flash_and_eager_match_reference, tensor_free_all),
        cmocka_unit_test_teardown(query_without_keys_is_zero, tensor_free_all),
        cmocka_unit_test_teardown(probabilities_are_stored_and_masked, tensor_free_all),
        cmocka_unit_test_teardown(eager_backward_in_halves_is_the_whole, tensor_free_all),
        cmocka_unit_test(attention_survives_large_scores),
        cmocka_unit_test_teardown(attention_repeats_bitwise, tensor_free_all),
        cmocka_unit_test_teardown(attention_refuses_what_it_cannot_do, tensor_free_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
