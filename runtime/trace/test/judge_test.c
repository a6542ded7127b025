/* What counts as growth. */
#include "trace_test.h"

#include "trace/judge.h"

enum { ROOM = 8 };
static const zr_judgement usual = {.warm = "warm", .tolerance = 4194304};

/* A mark at which `used` MiB are in use; automatic unless the name begins with a letter other than
 * '~'. */
static void mark(zr_meter *m, uint64_t time, const char *name, uint64_t used)
{
    const zr_look look = {.device = 0,
                          .available = 1000 * mib - used * mib,
                          .total = 1000 * mib,
                          .automatic = name[0] == '~',
                          .settled = true};
    zr_meter_mark(m, time, &look, name);
}

static void take(zr_meter *m, uint64_t time, uint64_t handle, uint64_t mibs)
{
    const zr_asked asked = {.device = 0, .owner = 3, .call = "cuMemCreate"};
    zr_meter_create(m, time, &asked, handle, mibs * mib);
}

static void untraced_growth_after_warm_is_found(void **state)
{
    (void)state;
    zr_meter m = {0};
    zr_finding found[ROOM];
    mark(&m, 1, "~context", 100);
    mark(&m, 2, "warm", 300); /* warming up is free */
    mark(&m, 3, "step", 304); /* within the tolerance */
    assert_int_equal(zr_judge(&m, &usual, found, ROOM), 0);
    mark(&m, 4, "step", 305);
    assert_int_equal(zr_judge(&m, &usual, found, ROOM), 1);
    assert_false(found[0].traced);
    assert_true(found[0].bytes == 5 * mib && found[0].from == 1 && found[0].to == 3);
    zr_meter_release(&m);
}

/* Memory that is given back and taken again has not grown; what an owner takes is not untraced. */
static void only_growth_counts(void **state)
{
    (void)state;
    zr_meter m = {0};
    zr_finding found[ROOM];
    mark(&m, 1, "warm", 300);
    mark(&m, 2, "step", 200);
    mark(&m, 3, "step", 203);
    take(&m, 4, 1, 50);
    mark(&m, 5, "~rest", 253);
    zr_meter_drop(&m, 6, 1);
    mark(&m, 7, "end", 203);
    assert_int_equal(zr_judge(&m, &usual, found, ROOM), 0);
    mark(&m, 8, "end", 205); /* 5 above the least */
    assert_int_equal(zr_judge(&m, &usual, found, ROOM), 1);
    assert_true(found[0].bytes == 5 * mib && found[0].from == 1);
    zr_meter_release(&m);
}

/* One byte more is growth, for memory that somebody was seen to take. What the exit brings is not
 * judged where the program has a last mark of its own. */
static void an_owner_that_grows_is_found_and_counted(void **state)
{
    (void)state;
    zr_meter m = {0};
    zr_finding found[ROOM];
    take(&m, 1, 1, 8);
    mark(&m, 2, "warm", 300);
    take(&m, 3, 2, 2);
    take(&m, 4, 3, 2);
    mark(&m, 5, "leaked", 304);
    take(&m, 6, 4, 100);
    mark(&m, 7, "~exit", 404);
    assert_int_equal(zr_judge(&m, &usual, found, ROOM), 1);
    assert_true(found[0].traced && found[0].bytes == 4 * mib && found[0].live == 2);
    assert_true(found[0].from == 0 && found[0].to == 1);
    assert_true(m.row[found[0].row].owner == 3);
    zr_meter_release(&m);
}

/* Without the program's promise an owner may grow, and memory of nobody may not: in the second
 * half. */
static void without_a_promise_only_the_untraced_is_judged(void **state)
{
    (void)state;
    zr_meter m = {0};
    zr_finding found[ROOM];
    mark(&m, 1, "~context", 100);
    mark(&m, 2, "~rest", 300);
    take(&m, 3, 1, 40);
    mark(&m, 4, "~rest", 340);
    mark(&m, 5, "~exit", 340);
    assert_int_equal(zr_judge(&m, &usual, found, ROOM), 0);
    mark(&m, 6, "~exit", 360);
    mark(&m, 7, "~exit", 360);
    assert_int_equal(zr_judge(&m, &usual, found, ROOM), 1);
    assert_true(!found[0].traced && found[0].bytes == 20 * mib);
    zr_meter_release(&m);
}

static void a_mark_that_was_not_settled_proves_nothing(void **state)
{
    (void)state;
    zr_meter m = {0};
    zr_finding found[ROOM];
    const zr_look restless = {.device = 0, .available = 0, .total = 1000 * mib};
    mark(&m, 1, "warm", 300);
    zr_meter_mark(&m, 2, &restless, "step");
    mark(&m, 3, "end", 300);
    assert_int_equal(zr_judge(&m, &usual, found, ROOM), 0);
    zr_meter_release(&m);
}

static void devices_are_judged_apart(void **state)
{
    (void)state;
    zr_meter m = {0};
    zr_finding found[ROOM];
    const zr_look other = {
        .device = 1, .available = 100 * mib, .total = 1000 * mib, .settled = true};
    mark(&m, 1, "warm", 300);
    zr_meter_mark(&m, 2, &other, "warm");
    mark(&m, 3, "end", 300);
    zr_meter_mark(&m, 4, &other, "end");
    assert_int_equal(zr_judge(&m, &usual, found, ROOM), 0);
    zr_meter_release(&m);
}

static void in_use_and_traced_may_contradict_each_other(void **state)
{
    (void)state;
    const zr_mark_seen more = {.used = 10, .traced = 7};
    const zr_mark_seen less = {.used = 7, .traced = 10};
    assert_true(zr_untraced(&more) == 3 && zr_overtraced(&more) == 0);
    assert_true(zr_untraced(&less) == 0 && zr_overtraced(&less) == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(untraced_growth_after_warm_is_found),
        cmocka_unit_test(only_growth_counts),
        cmocka_unit_test(an_owner_that_grows_is_found_and_counted),
        cmocka_unit_test(without_a_promise_only_the_untraced_is_judged),
        cmocka_unit_test(a_mark_that_was_not_settled_proves_nothing),
        cmocka_unit_test(devices_are_judged_apart),
        cmocka_unit_test(in_use_and_traced_may_contradict_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
