#include "base_test.h"

#include <locale.h>

#include "base/text_internal.h"
#include "zeroledger/bytes.h"

static void counts_are_digits_only(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    " 1",   "1 ",  "+1",  "-1",
                                      "1.0", "0x10", "1e3", "abc", "1,000"};
    uint64_t n = 5;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        zl_err err = {.status = ZL_OK};
        assert_error(zl_parse_count("ranks", bad[i], &n, &err), &err, ZL_E_USAGE,
                     "ranks must be a whole");
    }
    assert_int_equal(n, 5);
}

static void counts_reach_the_end_of_the_range(void **state)
{
    (void)state;
    zl_err err = {.status = ZL_OK};
    uint64_t n = 0;
    assert_ok(zl_parse_count("ranks", "9223372036854775808", &n, &err), &err); /* 2^63 */
    assert_true(n == UINT64_C(1) << 63);
    assert_ok(zl_parse_count("ranks", "18446744073709551614", &n, &err), &err); /* 2^64 - 2 */
    assert_true(n == UINT64_MAX - 1);
    assert_ok(zl_parse_count("ranks", "0007", &n, &err), &err);
    assert_int_equal(n, 7);
    assert_error(zl_parse_count("ranks", "18446744073709551615", &n, &err), &err, ZL_E_USAGE,
                 "ranks must be below 2^64 - 1");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_parse_count("ranks", "99999999999999999999999999", &n, &err), &err, ZL_E_USAGE,
                 "2^64");
    assert_int_equal(n, 7);
}

static void reals_are_finite_decimals(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "nan", "inf", "1e999", "0x1p3", " 1", "1 ",
                                      "1,5", "e5",  ".",   "1e",    "1e+",   "--1"};
    double x = 5;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_parse_real("clip", "0.1", &x, &err), &err);
    assert_true(x >= 0.1 && x <= 0.1);
    assert_ok(zl_parse_real("clip", "-1.5e-3", &x, &err), &err);
    assert_true(x >= -0.0015 && x <= -0.0015);
    assert_ok(zl_parse_real("clip", ".5", &x, &err), &err);
    assert_true(x >= 0.5 && x <= 0.5);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        err = (zl_err){.status = ZL_OK};
        assert_error(zl_parse_real("clip", bad[i], &x, &err), &err, ZL_E_USAGE,
                     "clip must be a finite");
    }
    assert_true(x >= 0.5 && x <= 0.5);
}

static void sizes_know_binary_and_decimal_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"512", 512},
        {"0", 0},
        {"512B", 512},
        {"1K", 1024},
        {"1KB", 1000},
        {"1kB", 1000},
        {"1KiB", 1024},
        {"24GiB", 25769803776},
        {"80GB", 80000000000},
        {"80 GB", 80000000000},
        {"3M", 3145728},
        {"2TiB", 2199023255552},
        {"2TB", 2000000000000},
        {"1.42GiB", 1524713390}, /* 1.42 x 1073741824 = 1524713390.08 */
        {"0.5B", 1},             /* half a byte rounds up */
        {"1.5KB", 1500},
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        zl_err err = {.status = ZL_OK};
        uint64_t bytes = 0;
        assert_ok(zl_parse_bytes("capacity", good[i].text, &bytes, &err), &err);
        assert_true(bytes == good[i].bytes);
    }
}

static void wrong_sizes_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      "GiB",   "32LB",   "1.GiB",
                                      ".5GiB", "-1",    "1e9",    "1 2",
                                      "1gb",   "1GiBs", "1.2.3K", "0.0000000000000000001K"};
    uint64_t bytes = 5;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        zl_err err = {.status = ZL_OK};
        assert_error(zl_parse_bytes("capacity", bad[i], &bytes, &err), &err, ZL_E_USAGE,
                     "capacity must be");
    }
    zl_err err = {.status = ZL_OK};
    assert_error(zl_parse_bytes("capacity", "99999999999T", &bytes, &err), &err, ZL_E_USAGE,
                 "beyond 64 bits");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_parse_bytes("capacity", "99999999999999999999", &bytes, &err), &err, ZL_E_USAGE,
                 "beyond 64 bits");
    assert_int_equal(bytes, 5);
}

static void assert_formatted(uint64_t bytes, zl_byte_unit unit, int decimals, const char *expected)
{
    char text[40];
    zl_format_bytes(bytes, unit, decimals, text, sizeof text);
    assert_string_equal(text, expected);
}

static void bytes_are_rounded_half_up(void **state)
{
    (void)state;
    assert_formatted(1073741824, ZL_BYTES_GIB, 2, "1.00");
    assert_formatted(1524713390, ZL_BYTES_GIB, 2, "1.42");
    assert_formatted(1073741823, ZL_BYTES_GIB, 2, "1.00");
    assert_formatted(5242880, ZL_BYTES_MIB, 1, "5.0");
    assert_formatted(1005000000, ZL_BYTES_GB, 2, "1.01"); /* 1.005 rounds up */
    assert_formatted(1004999999, ZL_BYTES_GB, 2, "1.00");
    assert_formatted(1999999999, ZL_BYTES_GB, 0, "2");
    assert_formatted(123, ZL_BYTES_B, 3, "123");
    assert_formatted(UINT64_MAX, ZL_BYTES_B, 0, "18446744073709551615");
    assert_formatted(UINT64_MAX, ZL_BYTES_MIB, 2, "17592186044416.00");
    assert_formatted(1, ZL_BYTES_GB, 9, "0.000000001");
}

static void units_have_names(void **state)
{
    (void)state;
    zl_byte_unit unit = ZL_BYTES_GIB;
    assert_true(zl_byte_unit_find("MiB", &unit));
    assert_int_equal(unit, ZL_BYTES_MIB);
    assert_string_equal(zl_byte_unit_name(unit), "MiB");
    assert_false(zl_byte_unit_find("mib", &unit));
}

static void assert_count(uint64_t n, const char *expected)
{
    char text[40];
    zl_format_count(n, text, sizeof text);
    assert_string_equal(text, expected);
}

static void counts_have_commas(void **state)
{
    (void)state;
    char small[4];
    assert_count(0, "0");
    assert_count(999, "999");
    assert_count(1000, "1,000");
    assert_count(1234567, "1,234,567");
    assert_count(UINT64_MAX, "18,446,744,073,709,551,615");
    zl_format_count(1234567, small, sizeof small);
    assert_true(strlen(small) < sizeof small);
}

static void slips_are_recognised(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2", "gpt2-xl", "bert-large", "llama-3-8b"};
    assert_string_equal(zl_nearest("gpt3", names, 4), "gpt2");
    assert_string_equal(zl_nearest("bert-lrage", names, 4), "bert-large");
    assert_string_equal(zl_nearest("llama3-8b", names, 4), "llama-3-8b");
    assert_string_equal(zl_nearest("GPT2-XL", names, 4), "gpt2-xl");
    assert_string_equal(zl_nearest("Bert", names, 4), "bert-large");
    assert_string_equal(zl_nearest("lla", names, 4), "llama-3-8b");
    assert_null(zl_nearest("ll", names, 4));
    assert_null(zl_nearest("mixtral", names, 4));
    assert_null(zl_nearest("", names, 4));
    assert_null(zl_nearest("x", names, 4));
    static const char *const short_names[] = {"aio", "seq"};
    assert_string_equal(zl_nearest("sea", short_names, 2), "seq");
    assert_null(zl_nearest("foo", short_names, 2));
    char big[300];
    memset(big, 'g', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    assert_null(zl_nearest(big, names, 4));
}

static void an_unknown_option_names_the_nearest(void **state)
{
    (void)state;
    static const char *const names[] = {"model", "stage", "ranks"};
    char words[][16] = {"zl", "--model", "gpt2", "--sta=3", "-h", "--", "--modle=gpt2", "--xyzzy"};
    char *const good[] = {words[0], words[1], words[2], words[3],
                          words[4], words[5], words[6], NULL};
    char *const bad[] = {words[0], words[1], words[2], words[6], NULL};
    char *const far[] = {words[0], words[7], NULL};
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_options_known(good, false, names, 3, &err), &err);
    assert_ok(zl_options_known(bad, true, names, 3, &err), &err); /* gpt2 is no option: the end */
    assert_error(zl_options_known(bad, false, names, 3, &err), &err, ZL_E_USAGE,
                 "unknown option '--modle'; did you mean '--model'?");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_options_known(far, true, names, 3, &err), &err, ZL_E_USAGE,
                 "unknown option '--xyzzy'; --help lists them");
}

static void assert_real_text(double value, const char *expected)
{
    char text[ZL_REAL_SIZE];
    zl_real_format(value, text);
    assert_string_equal(text, expected);
}

static void reals_take_the_shortest_text(void **state)
{
    (void)state;
    assert_real_text(0.1, "0.1");
    assert_real_text(1.0, "1");
    assert_real_text(1e-12, "1e-12");
    assert_real_text(500000.0, "500000");
    assert_real_text(0.1 + 0.2, "0.30000000000000004");
    assert_real_text(1.7976931348623157e308, "1.7976931348623157e+308");
}

static void the_locale_does_not_matter(void **state)
{
    (void)state;
    static const char *const candidates[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8",
                                             "nl_NL.UTF-8"};
    const char *set = NULL;
    for (size_t i = 0; i < COUNT_OF(candidates) && set == NULL; i++) {
        set = setlocale(LC_NUMERIC, candidates[i]);
    }
    if (set == NULL || strcmp(localeconv()->decimal_point, ",") != 0) {
        print_message("no locale with a decimal comma is installed\n");
        skip();
    }
    double x = 0;
    zl_err err = {.status = ZL_OK};
    assert_real_text(0.1, "0.1");
    assert_ok(zl_parse_real("clip", "1.5", &x, &err), &err);
    assert_true(x >= 1.5 && x <= 1.5);
    setlocale(LC_NUMERIC, "C");
}

static void joined_names_fit(void **state)
{
    (void)state;
    static const char *const names[] = {"alpha", "beta", "gamma"};
    char text[32];
    zl_join(names, 3, text, sizeof text);
    assert_string_equal(text, "alpha, beta, gamma");
    zl_join(names, 3, text, 16);
    assert_string_equal(text, "alpha, ...");
    zl_join(names, 0, text, sizeof text);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_digits_only),
        cmocka_unit_test(counts_reach_the_end_of_the_range),
        cmocka_unit_test(reals_are_finite_decimals),
        cmocka_unit_test(sizes_know_binary_and_decimal_units),
        cmocka_unit_test(wrong_sizes_are_refused),
        cmocka_unit_test(bytes_are_rounded_half_up),
        cmocka_unit_test(units_have_names),
        cmocka_unit_test(counts_have_commas),
        cmocka_unit_test(slips_are_recognised),
        cmocka_unit_test(an_unknown_option_names_the_nearest),
        cmocka_unit_test(reals_take_the_shortest_text),
        cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(joined_names_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
