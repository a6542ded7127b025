/* The library keeps nothing between calls, so threads may ask at the same time: every answer is the
 * one that a single thread gets. Under the thread sanitizer (preset tsan) this also shows that they
 * share no memory. */
#include "base_test.h"

#include <pthread.h>

#include "zeroledger/predict.h"
#include "zeroledger/solve.h"

enum { THREADS = 4, ROUNDS = 12 };

/* What one thread asks, and what it got. */
typedef struct asker {
    pthread_t thread;
    unsigned number;
    uint64_t peak[ROUNDS];
    uint64_t best[ROUNDS];
    zl_status status;
    zl_err err;
} asker;

static zl_status ask_once(unsigned i, uint64_t *peak, uint64_t *best, zl_err *err)
{
    static const char *const models[] = {"gpt2-tiny", "bert-tiny", "llama-tiny"};
    zl_run run;
    zl_run again;
    zl_fit fit;
    char stage[2] = {(char)('0' + i % 4), '\0'};
    zl_run_init(&run);
    ZL_TRY(zl_run_set(&run, "model", models[i % 3], err));
    ZL_TRY(zl_run_set(&run, "ranks", "2", err));
    ZL_TRY(zl_run_set(&run, "stage", stage, err));
    ZL_TRY(zl_run_check(&run, err));
    ZL_TRY(zl_predict_peak(&run, peak, NULL, NULL, err));
    const zl_question question = {.quantity = ZL_QUANTITY_MICRO_BATCH,
                                  .capacity = UINT64_C(1) << 30};
    ZL_TRY(zl_solve(&run, &question, &fit, err));
    *best = fit.best.value;
    ZL_TRY(zl_run_save(&run, "same.json", err)); /* all threads replace one file */
    ZL_TRY(zl_run_load("same.json", &again, err));
    zl_err refused = {.status = ZL_OK};
    return zl_run_set(&run, "model", "gpt-tiny", &refused) == ZL_E_USAGE ? ZL_OK : ZL_E_BUG;
}

static void *ask(void *argument)
{
    asker *const a = argument;
    for (unsigned i = 0; i < ROUNDS && a->status == ZL_OK; i++) {
        a->status = ask_once(a->number + i, &a->peak[i], &a->best[i], &a->err);
    }
    return NULL;
}

static void threads_get_the_answers_of_one(void **state)
{
    (void)state;
    static asker askers[THREADS];
    for (unsigned t = 0; t < THREADS; t++) {
        askers[t].number = t;
        assert_int_equal(pthread_create(&askers[t].thread, NULL, ask, &askers[t]), 0);
    }
    for (unsigned t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_join(askers[t].thread, NULL), 0);
    }
    for (unsigned t = 0; t < THREADS; t++) {
        assert_ok(askers[t].status, &askers[t].err);
        for (unsigned i = 0; i < ROUNDS; i++) {
            uint64_t peak = 0;
            uint64_t best = 0;
            zl_err err = {.status = ZL_OK};
            assert_ok(ask_once(t + i, &peak, &best, &err), &err);
            assert_int_equal(askers[t].peak[i], peak);
            assert_int_equal(askers[t].best[i], best);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_get_the_answers_of_one)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
