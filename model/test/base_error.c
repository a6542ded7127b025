#include "base_test.h"
#include "zeroledger/bytes.h"

static void the_first_error_wins(void **state)
{
    (void)state;
    zl_err err = {.status = ZL_OK};
    assert_int_equal(zl_fail(&err, ZL_E_USAGE, "stage must be 0..3, got %d", 7), ZL_E_USAGE);
    assert_int_equal(zl_fail(&err, ZL_E_BUG, "later"), ZL_E_BUG);
    assert_int_equal(err.status, ZL_E_USAGE);
    assert_string_equal(err.text, "stage must be 0..3, got 7");
}

static void without_a_place_for_it_the_status_still_returns(void **state)
{
    (void)state;
    assert_int_equal(zl_fail(NULL, ZL_E_INPUT, "nobody listens"), ZL_E_INPUT);
}

static void foreign_text_cannot_break_the_line(void **state)
{
    (void)state;
    zl_err err = {.status = ZL_OK};
    zl_fail(&err, ZL_E_INPUT, "got '%s'", "a\nb\x1b[31mc\x7f");
    assert_string_equal(err.text, "got 'a?b?[31mc?'");
    zl_fail_at(&err, "x\ny");
    assert_string_equal(err.text, "x?y: got 'a?b?[31mc?'");
}

static void long_text_is_cut_and_ended(void **state)
{
    (void)state;
    char big[2000];
    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    zl_err err = {.status = ZL_OK};
    zl_fail(&err, ZL_E_INPUT, "%s", big);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_int_equal(zl_fail_at(&err, big), ZL_E_INPUT);
    assert_true(strlen(err.text) < sizeof err.text);
}

static zl_status tried(zl_status status)
{
    ZL_TRY(status);
    return ZL_NO;
}

static zl_status tried_with_label(zl_status first)
{
    zl_status status;
    ZL_TRY_GOTO(status, first, out);
    status = ZL_NO;
out:
    return status;
}

static void failures_pass_up(void **state)
{
    (void)state;
    assert_int_equal(tried(ZL_E_RESOURCE), ZL_E_RESOURCE);
    assert_int_equal(tried(ZL_OK), ZL_NO);
    assert_int_equal(tried_with_label(ZL_E_UNMODELLED), ZL_E_UNMODELLED);
    assert_int_equal(tried_with_label(ZL_OK), ZL_NO);
}

static void statuses_are_the_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(ZL_OK, 0);
    assert_int_equal(ZL_NO, 1);
    assert_int_equal(ZL_E_USAGE, 2);
    assert_int_equal(ZL_E_INPUT, 3);
    assert_int_equal(ZL_E_RESOURCE, 4);
    assert_int_equal(ZL_E_BUG, 5);
    assert_int_equal(ZL_E_UNMODELLED, 6);
}

static void overflow_is_poison_and_poison_absorbs(void **state)
{
    (void)state;
    assert_true(zl_poisoned(zl_add(UINT64_MAX - 1, 2)));
    assert_true(zl_poisoned(zl_mul(UINT64_C(1) << 32, UINT64_C(1) << 32)));
    assert_true(zl_poisoned(zl_mul(0, ZL_POISON)));
    assert_true(zl_poisoned(zl_prod(0, 3, ZL_POISON)));
    assert_true(zl_poisoned(zl_sub(1, 2)));
    assert_true(zl_poisoned(zl_sub(ZL_POISON, 2)));
    assert_true(zl_poisoned(zl_ceil_div(1, 0)));
    assert_true(zl_poisoned(zl_exact_div(7, 2)));
    assert_true(zl_poisoned(zl_align_up(UINT64_MAX - 1, 256)));
    assert_true(zl_poisoned(zl_max(ZL_POISON, 1)));
}

static void rounding_is_exact(void **state)
{
    (void)state;
    assert_int_equal(zl_ceil_div(7, 2), 4);
    assert_int_equal(zl_ceil_div(8, 2), 4);
    assert_int_equal(zl_ceil_div(0, 5), 0);
    assert_int_equal(zl_exact_div(8, 2), 4);
    assert_int_equal(zl_align_up(1, 256), 256);
    assert_int_equal(zl_align_up(256, 256), 256);
    assert_int_equal(zl_align_up(0, 256), 0);
    assert_int_equal(zl_prod(2, 3, 7), 42);
    assert_int_equal(zl_min(2, 3), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(without_a_place_for_it_the_status_still_returns),
        cmocka_unit_test(foreign_text_cannot_break_the_line),
        cmocka_unit_test(long_text_is_cut_and_ended),
        cmocka_unit_test(failures_pass_up),
        cmocka_unit_test(statuses_are_the_exit_codes),
        cmocka_unit_test(overflow_is_poison_and_poison_absorbs),
        cmocka_unit_test(rounding_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
