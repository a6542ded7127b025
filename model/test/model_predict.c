/* What the public questions promise: explanations add up, answers are certified, nonsense is
 * refused. The figures themselves are held by the walk (oracle.*) and by the trainer. */
#include "base_test.h"
#include "zeroledger/bytes.h"
#include "zeroledger/predict.h"
#include "zeroledger/solve.h"

enum { TERMS = 64 };

static zl_run checked(const char *model, uint64_t stage, uint64_t ranks)
{
    zl_run run;
    zl_err err = {.status = ZL_OK};
    zl_run_init(&run);
    assert_ok(zl_run_set(&run, "model", model, &err), &err);
    run.stage = stage;
    run.ranks = ranks;
    run.seq = 64;
    assert_ok(zl_run_check(&run, &err), &err);
    return run;
}

static zl_ledger *predicted(const zl_run *run)
{
    zl_err err = {.status = ZL_OK};
    zl_ledger *ledger = zl_ledger_new();
    assert_non_null(ledger);
    assert_ok(zl_predict(run, 0, ledger, &err), &err);
    return ledger;
}

typedef zl_status (*question)(const zl_run *, zl_visit, zl_phase, zl_term *, size_t, size_t *,
                              zl_err *);

/* Sum of the terms; each is count x each. */
static uint64_t summed(question ask, const zl_run *run, zl_visit visit, zl_phase phase)
{
    zl_term terms[TERMS];
    size_t n = 0;
    uint64_t sum = 0;
    zl_err err = {.status = ZL_OK};
    assert_ok(ask(run, visit, phase, terms, TERMS, &n, &err), &err);
    assert_in_range(n, 1, TERMS);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(terms[i].bytes, terms[i].count * terms[i].each);
        sum += terms[i].bytes;
    }
    return sum;
}

static void terms_add_up_to_the_cell(void **state)
{
    (void)state;
    static const char *const models[] = {"bert-tiny", "gpt2-tiny", "llama-tiny"};
    for (size_t m = 0; m < COUNT_OF(models); m++) {
        for (uint64_t stage = 0; stage < 4; stage++) {
            zl_run run = checked(models[m], stage, 3);
            run.accumulation = 2;
            run.eval = true;
            zl_ledger *const ledger = predicted(&run);
            for (int visit = 0; visit < ZL_VISIT_COUNT; visit++) {
                for (int phase = 0; phase < ZL_PHASE_COUNT; phase++) {
                    const zl_cell *const cell =
                        zl_ledger_at(ledger, (zl_visit)visit, (zl_phase)phase);
                    if (cell->present) {
                        assert_int_equal(summed(zl_explain, &run, (zl_visit)visit, (zl_phase)phase),
                                         cell->peak[ZL_REQUESTED]);
                        assert_int_equal(
                            summed(zl_explain_end, &run, (zl_visit)visit, (zl_phase)phase),
                            zl_cell_end(cell, ZL_REQUESTED));
                    }
                }
            }
            zl_ledger_free(ledger);
        }
    }
}

static void a_short_list_is_cut_and_counted(void **state)
{
    (void)state;
    const zl_run run = checked("gpt2-tiny", 2, 2);
    zl_term all[TERMS];
    zl_term first[3] = {{.count = 0}};
    size_t n = 0;
    size_t counted = 0;
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_explain(&run, ZL_VISIT_STEADY, ZL_PHASE_FORWARD, all, TERMS, &n, &err), &err);
    assert_ok(zl_explain(&run, ZL_VISIT_STEADY, ZL_PHASE_FORWARD, first, 2, &counted, &err), &err);
    assert_int_equal(counted, n);
    assert_int_equal(first[1].buffer, all[1].buffer);
    assert_int_equal(first[2].count, 0);
}

static void what_does_not_occur_is_refused(void **state)
{
    (void)state;
    const zl_run run = checked("gpt2-tiny", 0, 2);
    zl_term terms[TERMS];
    size_t n = 0;
    zl_err err = {.status = ZL_OK};
    assert_error(zl_explain(&run, ZL_VISIT_STEADY, ZL_PHASE_PUBLISH, terms, TERMS, &n, &err), &err,
                 ZL_E_USAGE, "phase publish (steady) does not occur in this run");
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_explain(&run, ZL_VISIT_STEADY_LATER, ZL_PHASE_FORWARD, terms, TERMS, &n, &err),
                 &err, ZL_E_USAGE, "phase forward (steady.later) does not occur in this run");
    err = (zl_err){.status = ZL_OK};
    zl_ledger *const ledger = zl_ledger_new();
    assert_error(zl_predict(&run, 2, ledger, &err), &err, ZL_E_USAGE,
                 "rank must be below ranks (2), got 2");
    zl_ledger_free(ledger);
}

/* 2^62 sequences: the rows alone are more than 64 bits of bytes. */
static void sizes_beyond_64_bits_are_refused(void **state)
{
    (void)state;
    zl_run run = checked("gpt2-tiny", 0, 1);
    zl_term terms[TERMS];
    size_t n = 0;
    uint64_t bytes = 0;
    zl_err err = {.status = ZL_OK};
    run.micro_batch = UINT64_C(1) << 62;
    zl_ledger *const ledger = zl_ledger_new();
    assert_error(zl_predict(&run, 0, ledger, &err), &err, ZL_E_USAGE, "overflow 64 bits");
    zl_ledger_free(ledger);
    err = (zl_err){.status = ZL_OK};
    assert_error(zl_explain(&run, ZL_VISIT_COLD, ZL_PHASE_FORWARD, terms, TERMS, &n, &err), &err,
                 ZL_E_USAGE, "overflow 64 bits in phase forward");
    assert_ok(zl_predict_peak(&run, &bytes, NULL, NULL, &err), &err);
    assert_true(zl_poisoned(bytes));
}

/* Exactly the peak of n holds n, and one byte less holds n - 1. */
static void the_largest_micro_batch_is_certified(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 40; n += 3) {
        zl_run run = checked("llama-tiny", 3, 2);
        zl_fit fit;
        uint64_t peak = 0;
        zl_err err = {.status = ZL_OK};
        run.micro_batch = n;
        assert_ok(zl_predict_peak(&run, &peak, NULL, NULL, &err), &err);
        run.micro_batch = 7; /* the question leaves it open */
        zl_question ask = {.quantity = ZL_QUANTITY_MICRO_BATCH, .capacity = peak};
        assert_ok(zl_solve(&run, &ask, &fit, &err), &err);
        assert_int_equal(fit.best.value, n);
        assert_int_equal(fit.best.bytes, peak);
        assert_true(fit.next.bytes > peak);
        ask.capacity = peak - 1;
        assert_ok(zl_solve(&run, &ask, &fit, &err), &err);
        assert_int_equal(fit.best.value, n - 1);
        assert_int_equal(fit.next.bytes, peak);
    }
}

static void a_capacity_that_is_none_is_refused(void **state)
{
    (void)state;
    const zl_run run = checked("gpt2-tiny", 0, 1);
    zl_fit fit;
    zl_err err = {.status = ZL_OK};
    zl_question ask = {.quantity = ZL_QUANTITY_MICRO_BATCH, .capacity = 0};
    assert_error(zl_solve(&run, &ask, &fit, &err), &err, ZL_E_USAGE,
                 "capacity must be positive and below 2^64 - 1, got 0");
    err = (zl_err){.status = ZL_OK};
    ask.capacity = UINT64_MAX;
    assert_error(zl_solve(&run, &ask, &fit, &err), &err, ZL_E_USAGE, "got 18446744073709551615");
    err = (zl_err){.status = ZL_OK};
    ask.capacity = 1;
    assert_ok(zl_solve(&run, &ask, &fit, &err), &err);
    assert_false(fit.found);
    assert_int_equal(fit.next.value, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms_add_up_to_the_cell),
        cmocka_unit_test(a_short_list_is_cut_and_counted),
        cmocka_unit_test(what_does_not_occur_is_refused),
        cmocka_unit_test(sizes_beyond_64_bits_are_refused),
        cmocka_unit_test(the_largest_micro_batch_is_certified),
        cmocka_unit_test(a_capacity_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
