/* The comparison names what differs first, and where. Ledgers are made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "compare/diff.h"

typedef struct couple {
    zl_ledger *predicted;
    zl_ledger *measured;
} couple;

static void put(zl_cell *cell, zl_buf buffer, uint64_t at_peak, uint64_t end)
{
    cell->present = true;
    for (int r = 0; r < ZL_RUNG_COUNT; r++) {
        cell->line[buffer].bytes[r] = (zl_amount){end, at_peak, at_peak > end ? at_peak : end};
        cell->peak[r] += at_peak;
        cell->kind_max[zl_buf_kind(buffer)][r] += at_peak;
    }
}

static void fill(zl_ledger *ledger)
{
    zl_run_init(&ledger->run);
    zl_cell *const forward = zl_ledger_cell(ledger, ZL_VISIT_COLD, ZL_PHASE_FORWARD);
    zl_cell *const backward = zl_ledger_cell(ledger, ZL_VISIT_COLD, ZL_PHASE_BACKWARD);
    put(forward, ZL_BUF_ACT_QKV, 1024, 1024);
    put(forward, ZL_BUF_LOGITS_TOKENS, 512, 0);
    put(backward, ZL_BUF_ACT_QKV, 1024, 0);
    put(backward, ZL_BUF_TEMP_DQKV, 256, 0);
    put(backward, ZL_BUF_WORK_HOST_GEMM, 2048, 2048);
}

static int set_up(void **state)
{
    static couple both;
    both = (couple){zl_ledger_new(), zl_ledger_new()};
    fill(both.predicted);
    fill(both.measured);
    *state = &both;
    return 0;
}

static int tear_down(void **state)
{
    couple *const both = *state;
    zl_ledger_free(both->predicted);
    zl_ledger_free(both->measured);
    return 0;
}

static zv_diff diff_of(const couple *both, bool skip_work)
{
    zv_diff diff;
    assert_int_equal(zv_diff_ledgers(both->predicted, both->measured, skip_work, &diff, NULL),
                     ZL_OK);
    return diff;
}

static void equal_ledgers_have_no_difference(void **state)
{
    const zv_diff diff = diff_of(*state, false);
    assert_false(diff.first.found);
    assert_int_equal(diff.cells, 2);
    /* Both rungs; forward: qkv's maximum, end and at_peak, the logits' maximum and at_peak, two
     * kinds and the peak, 8; backward: qkv 2, dqkv 2, work 3, three kinds, the peak, 11. */
    assert_int_equal(diff.figures, 2 * (8 + 11));
}

static void kept_buffer_is_named_with_its_phase_and_bytes(void **state)
{
    couple *const both = *state;
    char text[ZV_DIFF_TEXT_SIZE];
    zl_cell *const cell = zl_ledger_cell(both->measured, ZL_VISIT_COLD, ZL_PHASE_BACKWARD);
    cell->line[ZL_BUF_ACT_QKV].bytes[ZL_REQUESTED].end = 768;
    cell->line[ZL_BUF_ACT_QKV].bytes[ZL_GRANTED].end = 1024;
    const zv_diff diff = diff_of(both, false);
    assert_true(diff.first.found);
    assert_int_equal(diff.first.visit, ZL_VISIT_COLD);
    assert_int_equal(diff.first.phase, ZL_PHASE_BACKWARD);
    assert_int_equal(diff.first.buffer, ZL_BUF_ACT_QKV);
    assert_int_equal(diff.first.kind, ZL_KIND_ACT);
    assert_int_equal(diff.first.a, 0);
    assert_int_equal(diff.first.b, 768);
    assert_int_equal(diff.differing, 2);
    assert_int_equal(diff.off[ZL_REQUESTED], 768);
    assert_int_equal(diff.off[ZL_GRANTED], 1024);
    zv_difference_text(&diff.first, text, sizeof text);
    assert_string_equal(
        text, "cold backward: act.qkv (act), end, requested: predicted 0 bytes, measured 768");
}

/* A peak that moves changes at_peak of act.qkv, which is right; the buffer that is too large comes
 * after it in the vocabulary and is named all the same. */
static void cause_comes_before_the_moved_peak(void **state)
{
    couple *const both = *state;
    zl_cell *const cell = zl_ledger_cell(both->measured, ZL_VISIT_COLD, ZL_PHASE_FORWARD);
    zl_amount *const logits = &cell->line[ZL_BUF_LOGITS_TOKENS].bytes[ZL_REQUESTED];
    cell->line[ZL_BUF_ACT_QKV].bytes[ZL_REQUESTED].at_peak = 0;
    logits->max = logits->at_peak = 4096;
    cell->peak[ZL_REQUESTED] = 4096;
    const zv_diff diff = diff_of(both, false);
    assert_int_equal(diff.first.buffer, ZL_BUF_LOGITS_TOKENS);
    assert_string_equal(diff.first.what, "max");
}

static void missing_phase_is_a_difference(void **state)
{
    couple *const both = *state;
    zl_ledger_cell(both->measured, ZL_VISIT_COLD, ZL_PHASE_BACKWARD)->present = false;
    const zv_diff diff = diff_of(both, false);
    assert_string_equal(diff.first.what, "present");
    assert_int_equal(diff.first.phase, ZL_PHASE_BACKWARD);
}

static void skip_work_leaves_out_work_and_its_share_of_the_peak(void **state)
{
    couple *const both = *state;
    zl_cell *const cell = zl_ledger_cell(both->measured, ZL_VISIT_COLD, ZL_PHASE_BACKWARD);
    for (int r = 0; r < ZL_RUNG_COUNT; r++) {
        cell->line[ZL_BUF_WORK_HOST_GEMM].bytes[r] = (zl_amount){0, 0, 0};
        cell->kind_max[ZL_KIND_WORK][r] = 0;
        cell->peak[r] -= 2048;
    }
    assert_int_equal(diff_of(both, false).first.buffer, ZL_BUF_WORK_HOST_GEMM);
    assert_false(diff_of(both, true).first.found);
}

static void other_run_is_refused(void **state)
{
    couple *const both = *state;
    zv_diff diff;
    zl_err err = {0};
    both->measured->run.stage = 3;
    assert_int_equal(zv_diff_ledgers(both->predicted, both->measured, false, &diff, &err),
                     ZL_E_USAGE);
    assert_non_null(strstr(err.text, "different runs"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(equal_ledgers_have_no_difference),
        TEST(kept_buffer_is_named_with_its_phase_and_bytes),
        TEST(cause_comes_before_the_moved_peak),
        TEST(missing_phase_is_a_difference),
        TEST(skip_work_leaves_out_work_and_its_share_of_the_peak),
        TEST(other_run_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
