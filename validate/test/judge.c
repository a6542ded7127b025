/* Verdicts survive the file, mutants are caught only for the right reason, and the statistics are
 * those of a textbook. */
#define _DEFAULT_SOURCE /* mkdtemp */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compare/verdict.h"
#include "drive/mutants.h"
#include "fit/stats.h"
#include "svg/svg.h"
#include "zeroledger/text.h"

static zv_verdict leak(void)
{
    return (zv_verdict){
        .id = "m/z0-n1",
        .run_id = "0123456789abcdef",
        .outcome = ZV_DIFFERS,
        .message = "rank 0, \"quoted\"",
        .ranks = 1,
        .diff = {.cells = 9,
                 .figures = 70,
                 .differing = 2,
                 .off = {256, 512},
                 .first = {.found = true,
                           .visit = ZL_VISIT_STEADY,
                           .phase = ZL_PHASE_BACKWARD,
                           .rung = ZL_GRANTED,
                           .what = zv_difference_what("end"),
                           .has_buffer = true,
                           .buffer = ZL_BUF_ACT_LN1,
                           .kind = ZL_KIND_ACT,
                           .b = 512}},
        .has_witness = true,
        .outside_steady = 77,
        .peak = {{ZL_VISIT_COLD, ZL_PHASE_INIT, {1, 256}, {2, 512}}},
        .peak_count = 1,
        .seconds = 1.5,
        .train = {.machine = "box", .tokens_per_second = 10},
    };
}

static void verdicts_survive_the_file(void **state)
{
    (void)state;
    char folder[] = "/tmp/zv-verdict-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/v.json", folder);
    zv_verdicts all = {
        .name = "n", .version = "1", .tolerance = {0, 0, 9}, .steps = 3, .planned = 2};
    zv_verdicts read;
    const zv_verdict one = leak();
    assert_int_equal(zv_verdicts_add(&all, &one, NULL), ZL_OK);
    assert_int_equal(zv_verdicts_save(&all, path, NULL), ZL_OK);
    assert_int_equal(zv_verdicts_load(path, &read, NULL), ZL_OK);
    assert_int_equal(read.count, 1);
    assert_int_equal(read.planned, 2);
    assert_int_equal(read.tolerance.outside_steady, 9);
    const zv_verdict *const v = &read.item[0];
    assert_string_equal(v->message, one.message);
    assert_int_equal(v->outcome, ZV_DIFFERS);
    assert_int_equal(v->diff.off[ZL_GRANTED], 512);
    assert_int_equal(v->diff.first.buffer, ZL_BUF_ACT_LN1);
    assert_int_equal(v->diff.first.rung, ZL_GRANTED);
    assert_ptr_equal(v->diff.first.what, one.diff.first.what);
    assert_int_equal(v->outside_steady, 77);
    assert_int_equal(v->peak[0].measured[ZL_GRANTED], 512);
    assert_string_equal(v->train.machine, "box");
    assert_int_equal(zv_verdicts_differing(&read), 1);
    zv_verdicts_release(&all);
    zv_verdicts_release(&read);
    unlink(path);
    rmdir(folder);
}

static void mutant_is_caught_only_at_its_phase_and_kind(void **state)
{
    (void)state;
    const zv_tolerance tolerance = {0, 0, 1000};
    zv_mutant mutant = {.phase = ZL_PHASE_BACKWARD, .kind = ZL_KIND_ACT};
    zv_verdict v = leak();
    char why[256] = "";
    assert_true(zv_mutant_caught(&mutant, &tolerance, &v, why, sizeof why));
    mutant.kind = ZL_KIND_TEMP;
    assert_false(zv_mutant_caught(&mutant, &tolerance, &v, why, sizeof why));
    assert_non_null(strstr(why, "expected temp in backward"));
    mutant.kind = ZL_KIND_ACT;
    mutant.phase = ZL_PHASE_FORWARD;
    assert_false(zv_mutant_caught(&mutant, &tolerance, &v, why, sizeof why));
    v.outcome = ZV_FAILED;
    assert_false(zv_mutant_caught(&mutant, &tolerance, &v, why, sizeof why));
    v = (zv_verdict){.outcome = ZV_EQUAL};
    assert_false(zv_mutant_caught(&mutant, &tolerance, &v, why, sizeof why));
}

static void witness_mutant_needs_the_witness_alone(void **state)
{
    (void)state;
    const zv_tolerance tolerance = {0, 0, 1000};
    const zv_mutant mutant = {.by_witness = true};
    zv_verdict v = {.outcome = ZV_DIFFERS, .has_witness = true, .outside_steady = 1001};
    char why[256];
    assert_true(zv_mutant_caught(&mutant, &tolerance, &v, why, sizeof why));
    v.outside_steady = 1000;
    assert_false(zv_mutant_caught(&mutant, &tolerance, &v, why, sizeof why));
    v = leak();
    v.outside_steady = 1001;
    assert_false(zv_mutant_caught(&mutant, &tolerance, &v, why, sizeof why));
}

static void committed_mutants_load(void **state)
{
    (void)state;
    zv_mutants all;
    zl_err err = {0};
    if (zv_mutants_load(ZV_MUTANTS, &all, &err) != ZL_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(all.count, 10);
    zv_mutants_release(&all);
}

/* Points (1,1), (2,3), (3,2): by hand, slope 1/2, offset 1, residuals -1/2, 1, -1/2, their squares
 * 3/2. */
static void line_is_fitted_as_by_hand(void **state)
{
    (void)state;
    zv_fit fit;
    const double x[] = {1, 2, 3}, y[] = {1, 3, 2}, same[] = {2, 2, 2};
    assert_true(zv_fit_line(x, y, 3, &fit));
    assert_true(fabs(fit.slope - 0.5) < 1e-12 && fabs(fit.offset - 1) < 1e-12);
    assert_true(fabs(fit.residual_squares - 1.5) < 1e-12);
    assert_true(fabs(fit.largest_residual - 1) < 1e-12);
    assert_true(fabs(fit.correlation - 0.5) < 1e-12);
    assert_false(zv_fit_line(same, y, 3, &fit));
    assert_false(zv_fit_line(x, y, 1, &fit));
}

static void spread_of_four_values(void **state)
{
    (void)state;
    double values[] = {4, 1, 3, 2};
    const zv_spread s = zv_spread_of(values, 4);
    assert_true(fabs(s.mean - 2.5) < 1e-12 && fabs(s.median - 2.5) < 1e-12);
    assert_true(fabs(s.deviation - sqrt(5.0 / 3)) < 1e-12);
    assert_true(s.least >= 1 && s.least <= 1 && s.most >= 4 && s.most <= 4);
}

static void picture_escapes_words_and_has_no_minus_zero(void **state)
{
    (void)state;
    char path[] = "/tmp/zv-svg-XXXXXX", *text;
    size_t size;
    zv_svg svg;
    close(mkstemp(path));
    assert_int_equal(zv_svg_open(&svg, &(zv_svg_page){10, 20, "a < b", "c & d"}, NULL), ZL_OK);
    zv_svg_dot(&svg, (zv_point){-0.01, 2}, 1, "#123456");
    zv_svg_text(&svg, 1, 2, "b", "x > y");
    assert_int_equal(zv_svg_close(&svg, path, NULL), ZL_OK);
    assert_int_equal(zl_file_read(path, &text, &size, NULL), ZL_OK);
    assert_non_null(strstr(text, "<title id=\"t\">a &lt; b</title>"));
    assert_non_null(strstr(text, "<desc id=\"d\">c &amp; d</desc>"));
    assert_non_null(strstr(text, "<circle cx=\"0.0\" cy=\"2.0\" r=\"1.0\" fill=\"#123456\"/>"));
    assert_non_null(
        strstr(text, "<text x=\"1.0\" y=\"2.0\" class=\"b\">x &gt; y</text>\n</svg>\n"));
    free(text);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_survive_the_file),
        cmocka_unit_test(mutant_is_caught_only_at_its_phase_and_kind),
        cmocka_unit_test(witness_mutant_needs_the_witness_alone),
        cmocka_unit_test(committed_mutants_load),
        cmocka_unit_test(line_is_fitted_as_by_hand),
        cmocka_unit_test(spread_of_four_values),
        cmocka_unit_test(picture_escapes_words_and_has_no_minus_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
