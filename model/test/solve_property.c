/* zl_solve against brute force: every value of a range tried one after the other, over random runs.
 * ZL_SEED repeats a run of it, ZL_RUNS is how many there are. */
#define _XOPEN_SOURCE 700

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "walk_random.h"
#include "zeroledger/bytes.h"
#include "zeroledger/solve.h"
#include "zeroledger/text.h"

enum { MOST_VALUES = 512, LONG_STRETCH = 3000 };

static uint64_t runs = 600;
static zl_random source;

/* The largest value that is tried one after the other. */
static const uint64_t bounds[ZL_QUANTITY_COUNT] = {
    [ZL_QUANTITY_MICRO_BATCH] = 60, [ZL_QUANTITY_SEQ] = 128, [ZL_QUANTITY_LAYERS] = 40,
    [ZL_QUANTITY_RANKS] = 400,      [ZL_QUANTITY_STAGE] = 3,
};

static void set(zl_run *run, zl_quantity quantity, uint64_t value)
{
    uint64_t *const fields[ZL_QUANTITY_COUNT] = {
        [ZL_QUANTITY_MICRO_BATCH] = &run->micro_batch,
        [ZL_QUANTITY_SEQ] = &run->seq,
        [ZL_QUANTITY_LAYERS] = &run->model.layers,
        [ZL_QUANTITY_RANKS] = &run->ranks,
        [ZL_QUANTITY_STAGE] = &run->stage,
    };
    *fields[quantity] = value;
}

/* What every value takes; poison where the run is not possible. */
static void try_all(const zl_run *run, zl_quantity quantity, uint64_t *bytes)
{
    for (uint64_t v = 0; v <= bounds[quantity]; v++) {
        zl_run trial = *run;
        zl_err err = {.status = ZL_OK};
        set(&trial, quantity, v);
        if ((v == 0 && quantity != ZL_QUANTITY_STAGE) || zl_run_check(&trial, &err) != ZL_OK) {
            bytes[v] = ZL_POISON;
            continue;
        }
        if (zl_predict_peak(&trial, &bytes[v], NULL, NULL, &err) != ZL_OK) {
            fail_msg("%s", err.text);
        }
    }
}

static void random_run(zl_run *run)
{
    zl_err err;
    do {
        err = (zl_err){.status = ZL_OK};
    } while (zl_random_run(&source, run, &err) != ZL_OK);
}

/* The peak of one value, or a little less or more: what is decided at the last byte. */
static uint64_t random_capacity(const uint64_t *bytes, uint64_t bound)
{
    uint64_t value = 0;
    do {
        value = zl_random_between(&source, 0, bound);
    } while (zl_poisoned(bytes[value]));
    return zl_max(1, bytes[value] + zl_random_between(&source, 0, 2) - 1);
}

static void show(const zl_run *run, zl_quantity quantity, uint64_t capacity, const zl_fit *fit)
{
    zl_random_print(run, stderr);
    (void)fprintf(stderr,
                  "find %s, capacity %" PRIu64 ": best %" PRIu64 " (%" PRIu64 " B), next %" PRIu64
                  " (%" PRIu64 " B), floor %" PRIu64 "\n",
                  zl_quantity_name(quantity), capacity, fit->best.value, fit->best.bytes,
                  fit->next.value, fit->next.bytes, fit->floor);
}

/* The most, or the fewest, that brute force finds; false: nothing fits. */
static bool search(zl_quantity quantity, const uint64_t *bytes, uint64_t capacity, uint64_t *best)
{
    const bool lowest = quantity == ZL_QUANTITY_RANKS || quantity == ZL_QUANTITY_STAGE;
    bool found = false;
    for (uint64_t v = 0; v <= bounds[quantity]; v++) {
        if (bytes[v] <= capacity && !(found && lowest)) {
            *best = v;
            found = true;
        }
    }
    return found;
}

static bool agrees(zl_quantity quantity, const uint64_t *bytes, uint64_t capacity,
                   const zl_fit *fit)
{
    const bool lowest = quantity == ZL_QUANTITY_RANKS || quantity == ZL_QUANTITY_STAGE;
    uint64_t best = 0;
    if (search(quantity, bytes, capacity, &best) != fit->found) {
        return false;
    }
    if (!fit->found) {
        return fit->next.tried && fit->next.bytes == bytes[fit->next.value];
    }
    if (fit->best.value != best || fit->best.bytes != bytes[best]) {
        return false;
    }
    const uint64_t neighbour = lowest ? best - 1 : best + 1;
    const bool exists = neighbour <= bounds[quantity] && !zl_poisoned(bytes[neighbour]);
    return fit->next.tried == exists &&
           (!exists || (fit->next.value == neighbour && fit->next.bytes == bytes[neighbour] &&
                        fit->next.bytes > capacity));
}

static void answers_are_those_of_brute_force(void **state)
{
    (void)state;
    uint64_t found = 0;
    for (uint64_t i = 0; i < runs; i++) {
        const zl_quantity quantity = (zl_quantity)(i % ZL_QUANTITY_COUNT);
        uint64_t bytes[MOST_VALUES];
        zl_run run;
        zl_fit fit;
        zl_err err = {.status = ZL_OK};
        random_run(&run);
        try_all(&run, quantity, bytes);
        const zl_question question = {.quantity = quantity,
                                      .capacity = random_capacity(bytes, bounds[quantity]),
                                      .high = bounds[quantity]};
        if (zl_solve(&run, &question, &fit, &err) != ZL_OK) {
            fail_msg("%s", err.text);
        }
        found += fit.found;
        if (!agrees(quantity, bytes, question.capacity, &fit)) {
            show(&run, quantity, question.capacity, &fit);
            fail_msg("brute force disagrees in round %" PRIu64, i);
        }
    }
    assert_true(found > runs / 2 && found < runs);
}

/* A bound of a stretch of ranks is below every peak in it, and of one rank it is the peak. */
static void a_floor_is_below_every_peak(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < runs; i++) {
        zl_run run;
        uint64_t floor = 0;
        uint64_t least = ZL_POISON;
        zl_err err = {.status = ZL_OK};
        random_run(&run);
        run.ranks = zl_random_between(&source, 1, 200);
        const uint64_t last =
            run.ranks + zl_random_between(&source, 0, 1) * zl_random_between(&source, 0, 100);
        assert_int_equal(zl_predict_floor(&run, last, &floor, &err), ZL_OK);
        for (zl_run at = run; at.ranks <= last; at.ranks++) {
            uint64_t bytes = 0;
            assert_int_equal(zl_predict_peak(&at, &bytes, NULL, NULL, &err), ZL_OK);
            least = zl_min(least, bytes);
        }
        assert_true(floor <= least);
        assert_true(last > run.ranks || floor == least);
    }
}

/* Where no number of ranks is enough, none of the first thousands is, nor any power of two. */
static void no_number_of_ranks_means_none(void **state)
{
    (void)state;
    uint64_t refused = 0;
    for (uint64_t i = 0; i < 40; i++) {
        zl_run run;
        zl_fit fit;
        uint64_t peak = 0;
        zl_err err = {.status = ZL_OK};
        random_run(&run);
        run.ranks = 64;
        assert_int_equal(zl_predict_peak(&run, &peak, NULL, NULL, &err), ZL_OK);
        const zl_question question = {
            .quantity = ZL_QUANTITY_RANKS,
            .capacity = zl_max(1, peak - peak / zl_random_between(&source, 2, 40))};
        assert_int_equal(zl_solve(&run, &question, &fit, &err), ZL_OK);
        if (fit.found) {
            continue;
        }
        refused++;
        assert_true(fit.floor > question.capacity);
        for (uint64_t n = 1; n < UINT64_C(1) << 40; n = n < LONG_STRETCH ? n + 1 : 2 * n) {
            run.ranks = n;
            assert_int_equal(zl_predict_peak(&run, &peak, NULL, NULL, &err), ZL_OK);
            assert_true(peak >= fit.floor);
        }
    }
    assert_true(refused > 0);
}

static void take_number(const char *name, uint64_t *number)
{
    const char *text = getenv(name);
    zl_err err = {.status = ZL_OK};
    if (text != NULL && zl_parse_count(name, text, number, &err) != ZL_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        exit(ZL_E_USAGE);
    }
}

int main(void)
{
    source.state = (uint64_t)time(NULL);
    take_number("ZL_SEED", &source.state);
    take_number("ZL_RUNS", &runs);
    (void)printf("ZL_SEED=%" PRIu64 " ZL_RUNS=%" PRIu64 "\n", source.state, runs);
    (void)fflush(stdout);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_brute_force),
        cmocka_unit_test(a_floor_is_below_every_peak),
        cmocka_unit_test(no_number_of_ranks_means_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
