/*
 * The kernels on flat ranges: storage types, random numbers, dropout, reductions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "kernel/host/host.h"
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

/* All 65,536 patterns to fp32 and back: the same values, and the same bits unless NaN. */
static void casts_keep_every_16_bit_number(void **state)
{
    (void)state;
    enum { ALL = 65536 };
    static const zl_dtype types[] = {ZL_BF16, ZL_F16};
    for (size_t k = 0; k < 2; k++) {
        const tensor x = tensor_poisoned(types[k], ALL);
        for (uint32_t i = 0; i < ALL; i++) {
            ((uint16_t *)x.data)[i] = (uint16_t)i;
        }
        const tensor wide = cast(&x, ZL_F32);
        const tensor back = cast(&wide, types[k]);
        const double *const want = tensor_values(&x);
        const double *const got = tensor_values(&wide);
        const double *const again = tensor_values(&back);
        for (size_t i = 0; i < ALL; i++) {
            if (isnan(want[i])) {
                assert_true(isnan(got[i]) && isnan(again[i]));
            } else {
                assert_true(got[i] == want[i]);
                assert_int_equal(((uint16_t *)back.data)[i], i);
            }
        }
    }
}

static void casts_round_to_nearest_even(void **state)
{
    (void)state;
    enum { N = 200000 };
    static const zl_dtype types[] = {ZL_BF16, ZL_F16};
    static const float special[] = {
        65519.996F,    65520.0F,    65504.0F,    1e-8F, 2.9802322e-8F, 2.9802326e-8F, 6.1e-5F,
        3.3961776e38F, 1.00390625F, 1.01171875F, -0.0F, INFINITY,      -INFINITY,     NAN};
    const tensor x = tensor_poisoned(ZL_F32, N);
    for (size_t i = 0; i < N; i++) {
        const uint32_t bits = random_below(0x10000U) << 16 | random_below(0x10000U);
        const uint32_t halfway = bits & 0xfffff000U; /* ties are otherwise too rare */
        memcpy((float *)x.data + i, i % 2 == 0 ? &bits : &halfway, sizeof bits);
    }
    memcpy(x.data, special, sizeof special);
    const double *const v = tensor_values(&x);
    for (size_t k = 0; k < 2; k++) {
        const tensor y = cast(&x, types[k]);
        const double *const got = tensor_values(&y);
        for (size_t i = 0; i < N; i++) {
            const double want = round_to(types[k], v[i]);
            assert_true(isnan(want) ? isnan(got[i]) : got[i] == want);
        }
    }
}

/* The known answers published with the generator: all bits 0, all bits 1, digits of pi. */
static void random_words_are_the_published_ones(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint64_t seed;
        uint32_t words[4];
    } known[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         0xffffffffffffffff,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         0x299f31d0a4093822,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t c[4];
        memcpy(c, known[i].counter, sizeof c);
        reference_philox(c, known[i].seed);
        assert_memory_equal(c, known[i].words, sizeof c);
    }
    /* The kernel shows the upper 24 bits of its words as numbers in [0, 1). */
    const zr_rng rng = {.seed = 0x299f31d0a4093822, .stream = 0x0370734413198a2e};
    const uint64_t begin = (1ULL << 35) - 70; /* the counter's upper word changes on the way */
    float out[300];
    MUST(zr_init_uniform(&(zr_init_args){.dtype = ZL_F32,
                                         .begin = begin,
                                         .end = begin + 300,
                                         .out = out,
                                         .seed = rng.seed,
                                         .tensor = rng.stream,
                                         .a = 0,
                                         .b = 1},
                         NULL));
    for (size_t i = 0; i < 300; i++) {
        assert_float_equal(out[i], ldexp((double)(reference_word(&rng, begin + i) >> 8), -24), 0.0);
    }
}

static void exponential_is_accurate(void **state)
{
    (void)state;
    for (int i = 0; i < 240000; i++) {
        const float x = -86.8F + 0.000731F * (float)i; /* to 88.64 */
        const double want = exp((double)x);
        assert_true(fabs((double)zr_host_exp(x) - want) < 2e-7 * want);
    }
    assert_float_equal(zr_host_exp(0.0F), 1.0, 0.0);
    assert_float_equal(zr_host_exp(-87.0F), 0.0, 0.0);
    assert_float_equal(zr_host_exp(-INFINITY), 0.0, 0.0);
    assert_true(isinf(zr_host_exp(88.8F)) && isinf(zr_host_exp(INFINITY)));
    assert_true(isnan(zr_host_exp(NAN)) != 0);
}

static void initial_weights_do_not_depend_on_the_shard(void **state)
{
    (void)state;
    enum { N = 2600, CUT = 1301 };
    FOR_DTYPES(d)
    {
        for (int normal = 0; normal < 2; normal++) {
            const tensor whole = tensor_poisoned(d, N);
            const tensor parts = tensor_poisoned(d, N);
            zl_status (*const init)(const zr_init_args *, zr_stream *) =
                normal ? zr_init_normal : zr_init_uniform;
            zr_init_args a = {.dtype = d,
                              .begin = 100,
                              .end = 100 + N,
                              .out = whole.data,
                              .seed = 5,
                              .tensor = 9,
                              .a = -0.5F,
                              .b = 0.5F};
            MUST(init(&a, NULL));
            a.out = parts.data;
            a.end = 100 + CUT;
            MUST(init(&a, NULL));
            a.out = tensor_at(&parts, CUT);
            a.begin = 100 + CUT;
            a.end = 100 + N;
            MUST(init(&a, NULL));
            assert_true(tensor_same_bits(&whole, &parts));
            a.out = parts.data;
            a.begin = 100;
            a.tensor = 10;
            MUST(init(&a, NULL));
            assert_false(tensor_same_bits(&whole, &parts));
        }
    }
}

static void initial_weights_are_normal(void **state)
{
    (void)state;
    enum { N = 200000 };
    const tensor x = tensor_poisoned(ZL_F32, N);
    MUST(zr_init_normal(
        &(zr_init_args){
            .dtype = ZL_F32, .end = N, .out = x.data, .seed = 1, .tensor = 2, .a = 3.0F, .b = 0.5F},
        NULL));
    double moment[5] = {0};
    double neighbours = 0.0;
    const double *const v = tensor_values(&x);
    for (size_t i = 0; i < N; i++) {
        const double z = (v[i] - 3.0) / 0.5;
        for (int k = 1; k <= 4; k++) {
            moment[k] += pow(z, k) / N;
        }
        neighbours += i > 0 ? z * (v[i - 1] - 3.0) / 0.5 / N : 0.0;
    }
    /* Standard errors: 1/sqrt(N) = 0.0022 times 1, 1.4, 3.9, 9.8, 1. */
    assert_true(fabs(moment[1]) < 0.011 && fabs(moment[2] - 1.0) < 0.016);
    assert_true(fabs(moment[3]) < 0.045 && fabs(moment[4] - 3.0) < 0.11);
    assert_true(fabs(neighbours) < 0.011);
}

static void dropout_matches_reference_and_can_be_split(void **state)
{
    (void)state;
    enum { N = 3001, CUT = 1111 };
    FOR_DTYPES(d)
    {
        const tensor part[] = {tensor_random(d, N, -1, 1), tensor_random(d, N, -1, 1)};
        const tensor out = tensor_poisoned(d, N);
        double *const want = doubles(N);
        zr_dropout_args a = {.dtype = d,
                             .count = N,
                             .p = 0.1F,
                             .in = part[0].data,
                             .residual = part[1].data,
                             .out = out.data,
                             .rng = {.seed = 3, .stream = 4, .offset = 5}};
        MUST(zr_dropout(&a, NULL));
        reference_dropout(&a, tensor_join(part, 2), want);
        expect(&out, want);
        /* In place on the branch, in two calls whose offsets continue. */
        a.count = CUT;
        a.in = part[0].data;
        a.out = part[0].data;
        MUST(zr_dropout(&a, NULL));
        a.count = N - CUT;
        a.rng.offset += CUT;
        a.in = tensor_at(&part[0], CUT);
        a.out = tensor_at(&part[0], CUT);
        a.residual = tensor_at(&part[1], CUT);
        MUST(zr_dropout(&a, NULL));
        assert_true(tensor_same_bits(&out, &part[0]));
        a.p = 1.0F;
        MUST_NOT(zr_dropout(&a, NULL));
    }
}

static void dropout_drops_its_share(void **state)
{
    (void)state;
    enum { N = 100000 };
    const tensor x = tensor_poisoned(ZL_F32, N);
    MUST(zr_fill(x.data, N, ZL_F32, 1.0F, NULL));
    MUST(zr_dropout(
        &(zr_dropout_args){.dtype = ZL_F32, .count = N, .p = 0.25F, .in = x.data, .out = x.data},
        NULL));
    const double *const v = tensor_values(&x);
    size_t kept = 0;
    for (size_t i = 0; i < N; i++) {
        assert_true(v[i] == 0.0 || fabs(v[i] - 4.0 / 3.0) < 1e-6);
        kept += v[i] > 0.0;
    }
    assert_true(kept > 74300 && kept < 75700); /* 5 standard deviations of 137 */
}

static void pieces_are_added_in_rank_order(void **state)
{
    (void)state;
    /* fp32 has steps of 4 at 2^25 = 33554432: adding 1.5 twice changes nothing, 3 makes 4. */
    const float x[] = {33554432, 7, 1.5F, 7, 1.5F, 7, -33554432, 7};
    const float y[] = {1.5F, 7, 1.5F, 7, 33554432, 7, -33554432, 7};
    float out = NAN;
    zr_reduce_args a = {.count = 1, .stride = 2, .pieces = 4, .in = x, .out = &out, .scale = 1};
    MUST(zr_reduce(&a, NULL));
    assert_float_equal(out, 0.0, 0.0);
    a.in = y;
    MUST(zr_reduce(&a, NULL));
    assert_float_equal(out, 4.0, 0.0);
    a.pieces = 2;
    a.scale = 0.5F;
    MUST(zr_reduce(&a, NULL));
    assert_float_equal(out, 1.5, 0.0);
    a.stride = 0;
    MUST_NOT(zr_reduce(&a, NULL));
}

static void pieces_are_rounded_once(void **state)
{
    (void)state;
    enum {
        N = 1000,
        STRIDE = 1100,
        PIECES = 5,
        PIECES_STRIDE = PIECES * STRIDE,
        TWO_STRIDE = 2 * STRIDE
    };
    FOR_DTYPES(d)
    {
        const tensor in = tensor_random(d, PIECES_STRIDE, -1, 1);
        const tensor piece = {tensor_at(&in, TWO_STRIDE), N, d};
        const tensor out = tensor_poisoned(d, N);
        zr_reduce_args a = {.count = N,
                            .stride = STRIDE,
                            .pieces = PIECES,
                            .piece_dtype = d,
                            .out_dtype = d,
                            .in = in.data,
                            .out = out.data,
                            .scale = 0.2F};
        const double *const v = tensor_values(&in);
        double want[N];
        for (size_t i = 0; i < N; i++) {
            float sum = (float)v[i];
            for (size_t k = 1; k < PIECES; k++) {
                sum += (float)v[k * STRIDE + i];
            }
            want[i] = round_to(d, (double)(sum * 0.2F));
        }
        MUST(zr_reduce(&a, NULL));
        const double *const got = tensor_values(&out);
        for (size_t i = 0; i < N; i++) {
            assert_true(got[i] == want[i]);
        }
        a.out = piece.data; /* in place over piece 2 */
        MUST(zr_reduce(&a, NULL));
        assert_true(tensor_same_bits(&piece, &out));
    }
}

static void sums_are_exact_enough_and_see_infinity(void **state)
{
    (void)state;
    enum { N = 5003 };
    FOR_DTYPES(d)
    {
        const tensor x = tensor_random(d, N, -1, 2);
        const double *const v = tensor_values(&x);
        double want[2] = {0};
        double got[2] = {(double)NAN, (double)NAN};
        uint32_t flag = 0;
        for (size_t i = 0; i < N; i++) {
            want[0] += v[i];
            want[1] += v[i] * v[i];
        }
        MUST(zr_sum(x.data, N, d, &got[0], NULL));
        MUST(zr_sumsq(x.data, N, d, &got[1], NULL));
        assert_true(fabs(got[0] - want[0]) < 1e-9 * fabs(want[0]));
        assert_true(fabs(got[1] - want[1]) < 1e-9 * want[1]);
        MUST(zr_nonfinite(x.data, N, d, &flag, NULL));
        assert_int_equal(flag, 0);
        for (int nan = 0; nan < 2; nan++) {
            const tensor y = tensor_copy(&x);
            const tensor one = tensor_from(d, 1, &(double){nan ? (double)NAN : (double)INFINITY});
            memcpy(tensor_at(&y, N - 1), one.data, d == ZL_F32 ? 4 : 2);
            flag = 0;
            MUST(zr_nonfinite(y.data, N, d, &flag, NULL));
            assert_int_equal(flag, 1);
            MUST(zr_nonfinite(x.data, N, d, &flag, NULL));
            assert_int_equal(flag, 1); /* it stays set */
            MUST(zr_sumsq(y.data, N, d, &got[1], NULL));
            assert_true(!isfinite(got[1]));
        }
    }
}

static void fill_add_and_scale(void **state)
{
    (void)state;
    enum { N = 1025 };
    FOR_DTYPES(d)
    {
        const tensor x = tensor_poisoned(d, N);
        const tensor y = tensor_random(ZL_F32, N, -1, 1);
        double *const want = tensor_values(&y);
        MUST(zr_fill(x.data, N, d, 1.5F, NULL));
        MUST(zr_add(
            &(zr_pair_args){
                .count = N, .dst_dtype = d, .dst = x.data, .src_dtype = ZL_F32, .src = y.data},
            NULL));
        MUST(zr_scale(x.data, N, d, -2.0F, NULL));
        for (size_t i = 0; i < N; i++) {
            want[i] = -2.0 * (1.5 + want[i]);
        }
        expect(&x, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(casts_keep_every_16_bit_number, tensor_free_all),
        cmocka_unit_test_teardown(casts_round_to_nearest_even, tensor_free_all),
        cmocka_unit_test(random_words_are_the_published_ones),
        cmocka_unit_test(exponential_is_accurate),
        cmocka_unit_test_teardown(initial_weights_do_not_depend_on_the_shard, tensor_free_all),
        cmocka_unit_test_teardown(initial_weights_are_normal, tensor_free_all),
        cmocka_unit_test_teardown(dropout_matches_reference_and_can_be_split, tensor_free_all),
        cmocka_unit_test_teardown(dropout_drops_its_share, tensor_free_all),
        cmocka_unit_test(pieces_are_added_in_rank_order),
        cmocka_unit_test_teardown(pieces_are_rounded_once, tensor_free_all),
        cmocka_unit_test_teardown(sums_are_exact_enough_and_see_infinity, tensor_free_all),
        cmocka_unit_test_teardown(fill_add_and_scale, tensor_free_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
