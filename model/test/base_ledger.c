#include "base_test.h"
#include "zeroledger/bytes.h"
#include "zeroledger/ledger.h"

/* A ledger with one cell: 300 bytes of act.qkv and 100 of temp.dln at a peak of 400 requested. */
static zl_ledger *example(void)
{
    zl_err err = {.status = ZL_OK};
    zl_ledger *ledger = zl_ledger_new();
    assert_non_null(ledger);
    zl_run_init(&ledger->run);
    assert_ok(zl_run_set(&ledger->run, "model", "gpt2", &err), &err);
    assert_ok(zl_run_check(&ledger->run, &err), &err);
    ledger->granule = 256;
    zl_cell *cell = zl_ledger_cell(ledger, ZL_VISIT_STEADY, ZL_PHASE_BACKWARD);
    cell->present = true;
    cell->peak[ZL_REQUESTED] = 400;
    cell->peak[ZL_GRANTED] = 768;
    cell->line[ZL_BUF_ACT_QKV].bytes[ZL_REQUESTED] =
        (zl_amount){.end = 200, .at_peak = 300, .max = 300};
    cell->line[ZL_BUF_ACT_QKV].bytes[ZL_GRANTED] =
        (zl_amount){.end = 256, .at_peak = 512, .max = 512};
    cell->line[ZL_BUF_TEMP_DLN].bytes[ZL_REQUESTED] =
        (zl_amount){.end = 0, .at_peak = 100, .max = 150};
    cell->line[ZL_BUF_TEMP_DLN].bytes[ZL_GRANTED] =
        (zl_amount){.end = 0, .at_peak = 256, .max = 256};
    cell->kind_max[ZL_KIND_ACT][ZL_REQUESTED] = 300;
    cell->kind_max[ZL_KIND_ACT][ZL_GRANTED] = 512;
    cell->kind_max[ZL_KIND_TEMP][ZL_REQUESTED] = 150;
    cell->kind_max[ZL_KIND_TEMP][ZL_GRANTED] = 256;
    return ledger;
}

static void a_new_ledger_is_empty(void **state)
{
    (void)state;
    zl_ledger *ledger = zl_ledger_new();
    assert_non_null(ledger);
    assert_false(zl_ledger_at(ledger, ZL_VISIT_COLD, ZL_PHASE_INIT)->present);
    assert_false(ledger->witness.present);
    zl_ledger_free(ledger);
    zl_ledger_free(NULL);
}

static void sums_run_over_the_buffers_of_a_kind(void **state)
{
    (void)state;
    zl_ledger *ledger = example();
    zl_cell *cell = zl_ledger_cell(ledger, ZL_VISIT_STEADY, ZL_PHASE_BACKWARD);
    cell->line[ZL_BUF_ACT_LN1].bytes[ZL_REQUESTED] =
        (zl_amount){.end = 7, .at_peak = 11, .max = 13};
    assert_int_equal(zl_cell_kind_at_peak(cell, ZL_KIND_ACT, ZL_REQUESTED), 311);
    assert_int_equal(zl_cell_kind_at_peak(cell, ZL_KIND_ACT, ZL_GRANTED), 512);
    assert_int_equal(zl_cell_kind_end(cell, ZL_KIND_ACT, ZL_REQUESTED), 207);
    assert_int_equal(zl_cell_kind_end(cell, ZL_KIND_TEMP, ZL_REQUESTED), 0);
    assert_int_equal(zl_cell_end(cell, ZL_REQUESTED), 207);
    assert_int_equal(zl_cell_end(cell, ZL_GRANTED), 256);
    zl_ledger_free(ledger);
}

static void poison_spreads_and_is_refused(void **state)
{
    (void)state;
    zl_ledger *ledger = example();
    zl_cell *cell = zl_ledger_cell(ledger, ZL_VISIT_STEADY, ZL_PHASE_BACKWARD);
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_ledger_check(ledger, &err), &err);
    cell->line[ZL_BUF_ACT_QKV].bytes[ZL_GRANTED].at_peak = ZL_POISON;
    assert_true(zl_poisoned(zl_cell_kind_at_peak(cell, ZL_KIND_ACT, ZL_GRANTED)));
    assert_error(zl_ledger_check(ledger, &err), &err, ZL_E_USAGE,
                 "sizes overflow 64 bits: act.qkv in backward");
    cell->line[ZL_BUF_ACT_QKV].bytes[ZL_GRANTED].at_peak = 0;
    cell->kind_max[ZL_KIND_OPT][ZL_REQUESTED] = ZL_POISON;
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_ledger_check(ledger, &err), &err, ZL_E_USAGE, "64 bits: opt in");
    cell->kind_max[ZL_KIND_OPT][ZL_REQUESTED] = 0;
    cell->peak[ZL_GRANTED] = ZL_POISON;
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_ledger_check(ledger, &err), &err, ZL_E_USAGE, "64 bits: peak in");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_ledger_save(ledger, "-", &err), &err, ZL_E_USAGE, "64 bits");
    cell->present = false;
    err = (zl_err){.status = ZL_OK};
    assert_ok(zl_ledger_check(ledger, &err), &err);
    zl_ledger_free(ledger);
}

static zl_difference compare(const zl_ledger *a, const zl_ledger *b, bool skip_work)
{
    zl_difference d = {.found = true};
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_ledger_compare(a, b, skip_work, &d, &err), &err);
    return d;
}

static void equal_ledgers_do_not_differ(void **state)
{
    (void)state;
    zl_ledger *a = example();
    zl_ledger *b = example();
    b->origin = ZL_ORIGIN_MEASURED;
    snprintf(b->run.model.name, sizeof b->run.model.name, "another label");
    const zl_difference d = compare(a, b, false);
    assert_false(d.found);
    assert_int_equal(d.count, 0);
    zl_ledger_free(a);
    zl_ledger_free(b);
}

static void one_byte_is_a_difference_wherever_it_is(void **state)
{
    (void)state;
    zl_ledger *a = example();
    zl_ledger *b = example();
    zl_cell *cell = zl_ledger_cell(b, ZL_VISIT_STEADY, ZL_PHASE_BACKWARD);
    zl_amount *dln = &cell->line[ZL_BUF_TEMP_DLN].bytes[ZL_GRANTED];
    uint64_t *const figures[] = {&cell->peak[ZL_REQUESTED],
                                 &cell->peak[ZL_GRANTED],
                                 &dln->end,
                                 &dln->at_peak,
                                 &dln->max,
                                 &cell->kind_max[ZL_KIND_LIB][ZL_GRANTED]};
    static const char *const what[] = {"peak", "peak", "end", "at_peak", "max", "kind max"};
    for (size_t i = 0; i < COUNT_OF(figures); i++) {
        *figures[i] += 1;
        const zl_difference d = compare(a, b, false);
        assert_true(d.found);
        assert_string_equal(d.what, what[i]);
        assert_int_equal(d.visit, ZL_VISIT_STEADY);
        assert_int_equal(d.phase, ZL_PHASE_BACKWARD);
        assert_int_equal(d.rung, i == 0 ? ZL_REQUESTED : ZL_GRANTED);
        assert_int_equal(d.b, d.a + 1);
        assert_int_equal(d.count, 1);
        assert_int_equal(d.has_buffer, i >= 2 && i <= 4);
        *figures[i] -= 1;
    }
    dln->max += 5;
    cell->line[ZL_BUF_ACT_QKV].bytes[ZL_REQUESTED].end += 1;
    const zl_difference d = compare(a, b, false);
    assert_int_equal(d.count, 2);
    assert_int_equal(d.buffer, ZL_BUF_ACT_QKV);
    assert_int_equal(d.kind, ZL_KIND_ACT);
    zl_ledger_free(a);
    zl_ledger_free(b);
}

static void a_cell_on_one_side_only_is_a_difference(void **state)
{
    (void)state;
    zl_ledger *a = example();
    zl_ledger *b = example();
    zl_ledger_cell(b, ZL_VISIT_COLD, ZL_PHASE_INIT)->present = true;
    const zl_difference d = compare(a, b, false);
    assert_string_equal(d.what, "present");
    assert_int_equal(d.phase, ZL_PHASE_INIT);
    assert_int_equal(d.a, 0);
    assert_int_equal(d.b, 1);
    zl_ledger_free(a);
    zl_ledger_free(b);
}

static void work_can_be_left_out_across_backends(void **state)
{
    (void)state;
    zl_ledger *a = example();
    zl_ledger *b = example();
    zl_cell *cell = zl_ledger_cell(b, ZL_VISIT_STEADY, ZL_PHASE_BACKWARD);
    b->run.backend = ZL_BACKEND_CUDA;
    cell->line[ZL_BUF_WORK_CUDA_GEMM].bytes[ZL_REQUESTED] = (zl_amount){1000, 1000, 1000};
    cell->kind_max[ZL_KIND_WORK][ZL_REQUESTED] = 1000;
    cell->peak[ZL_REQUESTED] += 1000;
    assert_false(compare(a, b, true).found);
    cell->peak[ZL_REQUESTED] += 1;
    const zl_difference d = compare(a, b, true);
    assert_string_equal(d.what, "peak");
    assert_int_equal(d.a, 400);
    assert_int_equal(d.b, 401);
    zl_err err = {.status = ZL_OK};
    zl_difference unused = {.found = false};
    assert_error(zl_ledger_compare(a, b, false, &unused, &err), &err, ZL_E_USAGE, "different runs");
    zl_ledger_free(a);
    zl_ledger_free(b);
}

static void ledgers_of_different_runs_are_refused(void **state)
{
    (void)state;
    zl_ledger *a = example();
    zl_ledger *b = example();
    zl_difference d = {.found = false};
    zl_err err = {.status = ZL_OK};
    b->run.stage = 1;
    assert_error(zl_ledger_compare(a, b, true, &d, &err), &err, ZL_E_USAGE, "different runs");
    assert_false(d.found);
    zl_ledger_free(a);
    zl_ledger_free(b);
}

static void origins_have_names(void **state)
{
    (void)state;
    assert_string_equal(zl_origin_name(ZL_ORIGIN_PREDICTED), "predicted");
    assert_string_equal(zl_origin_name(ZL_ORIGIN_MEASURED), "measured");
    assert_string_equal(zl_origin_name(ZL_ORIGIN_WALKED), "walked");
    assert_string_equal(zl_origin_name(ZL_ORIGIN_IMPORTED), "imported");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_ledger_is_empty),
        cmocka_unit_test(sums_run_over_the_buffers_of_a_kind),
        cmocka_unit_test(poison_spreads_and_is_refused),
        cmocka_unit_test(equal_ledgers_do_not_differ),
        cmocka_unit_test(one_byte_is_a_difference_wherever_it_is),
        cmocka_unit_test(a_cell_on_one_side_only_is_a_difference),
        cmocka_unit_test(work_can_be_left_out_across_backends),
        cmocka_unit_test(ledgers_of_different_runs_are_refused),
        cmocka_unit_test(origins_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
