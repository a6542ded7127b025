#include "base_test.h"

#include "torch/deepspeed_coordinator.h"

/* Root, A (10 elements), B (10 and a persistent 1), C (10). */
enum { ROOT, A, B, C, MODULES, PARAMS = 4 };

static const uint32_t of_a[] = {0};
static const uint32_t of_b[] = {1, 2};
static const uint32_t of_c[] = {3};
static const zt_coordinator_module modules[MODULES] = {
    [A] = {of_a, 1}, [B] = {of_b, 2}, [C] = {of_c, 1}};
static const zt_coordinator_param params[PARAMS] = {
    {.elements = 10}, {.elements = 10}, {.elements = 1, .persists = true}, {.elements = 10}};

typedef struct diary {
    char text[512];
} diary;

static void note(void *context, char what, uint32_t param)
{
    diary *d = context;
    const size_t used = strlen(d->text);
    snprintf(d->text + used, sizeof d->text - used, "%c%u ", what, (unsigned)param);
}

static void gathered(void *context, const uint32_t *param, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        note(context, 'g', param[i]);
    }
}

static void waited(void *context, uint32_t param)
{
    note(context, 'w', param);
}

static void released(void *context, uint32_t param)
{
    note(context, 'r', param);
}

static zt_coordinator *coordinator(diary *d, uint64_t prefetch, uint64_t live, uint64_t reuse)
{
    const zt_coordinator_limits limits = {.prefetch = prefetch, .live = live, .reuse = reuse};
    const zt_coordinator_calls calls = {gathered, waited, released};
    zt_coordinator *c = zt_coordinator_new(modules, MODULES, params, PARAMS, limits, calls, d);
    assert_non_null(c);
    return c;
}

/* Forward A, B, C, backward C, B, A; what it did since the last call. */
static const char *pass(zt_coordinator *c, diary *d)
{
    d->text[0] = '\0';
    zt_coordinator_reset(c);
    zt_coordinator_enter(c, ROOT, false);
    for (uint32_t m = A; m <= C; m++) {
        zt_coordinator_enter(c, m, false);
        zt_coordinator_exit(c, m);
    }
    zt_coordinator_exit(c, ROOT);
    zt_coordinator_enter(c, ROOT, true);
    for (uint32_t m = C; m >= A; m--) {
        zt_coordinator_enter(c, m, true);
        zt_coordinator_exit(c, m);
    }
    zt_coordinator_exit(c, ROOT);
    return d->text;
}

static void first_pass_gathers_what_a_module_owns_and_releases_it(void **state)
{
    (void)state;
    diary d = {""};
    zt_coordinator *c = coordinator(&d, 10, 100, 0);
    assert_string_equal(pass(c, &d), "g0 w0 r0 g1 g2 w1 w2 r1 r2 g3 w3 r3 "
                                     "g3 w3 r3 g1 g2 w1 w2 r1 r2 g0 w0 r0 ");
    zt_coordinator_free(c);
}

/* One more parameter per entry, since 10 elements fill the bucket. C is not released after its
 * forward: the prefetcher has met its use in backward and skipped it. */
static void second_pass_prefetches(void **state)
{
    (void)state;
    diary d = {""};
    zt_coordinator *c = coordinator(&d, 10, 100, 0);
    pass(c, &d);
    zt_coordinator_gathered(c, 2);
    assert_string_equal(pass(c, &d), "g0 w0 g1 r0 w1 g3 r1 w3 g1 g0 r3 w1 r1 w0 r0 ");
    assert_int_equal(zt_coordinator_elements(c), 1);
    zt_coordinator_free(c);
}

/* Everything is used again within 1,000 elements: nothing goes before its backward. */
static void reuse_distance_keeps_parameters(void **state)
{
    (void)state;
    diary d = {""};
    zt_coordinator *c = coordinator(&d, 0, 100, 1000);
    pass(c, &d);
    zt_coordinator_gathered(c, 2);
    assert_string_equal(pass(c, &d), "g0 w0 g1 w1 g3 w3 r3 r1 r0 ");
    zt_coordinator_free(c);
}

/* With 10 live elements allowed, prefetching waits until a release makes room. */
static void live_parameters_stop_prefetching(void **state)
{
    (void)state;
    diary d = {""};
    zt_coordinator *c = coordinator(&d, 10, 10, 0);
    pass(c, &d);
    zt_coordinator_gathered(c, 2);
    assert_string_equal(pass(c, &d), "g0 w0 r0 g1 w1 r1 g3 w3 r3 g3 w3 r3 g1 w1 r1 g0 w0 r0 ");
    zt_coordinator_free(c);
}

static void another_order_of_modules_starts_over(void **state)
{
    (void)state;
    diary d = {""};
    zt_coordinator *c = coordinator(&d, 100, 100, 1000);
    pass(c, &d);
    pass(c, &d);
    d.text[0] = '\0';
    zt_coordinator_reset(c);
    zt_coordinator_enter(c, C, false); /* the trace has the root here */
    assert_string_equal(d.text, "g3 w3 ");
    zt_coordinator_exit(c, C);
    assert_int_equal(zt_coordinator_elements(c), 1); /* the persistent one of the second pass */
    zt_coordinator_free(c);
}

static void leftovers_and_everything_are_released(void **state)
{
    (void)state;
    diary d = {""};
    zt_coordinator *c = coordinator(&d, 0, 100, 0);
    zt_coordinator_reset(c);
    zt_coordinator_enter(c, A, true);
    zt_coordinator_enter(c, B, true);
    zt_coordinator_leftovers(c);
    assert_true(zt_coordinator_present(c, 2)); /* persists */
    assert_int_equal(zt_coordinator_elements(c), 1);
    zt_coordinator_release_all(c);
    assert_int_equal(zt_coordinator_elements(c), 0);
    zt_coordinator_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_pass_gathers_what_a_module_owns_and_releases_it),
        cmocka_unit_test(second_pass_prefetches),
        cmocka_unit_test(reuse_distance_keeps_parameters),
        cmocka_unit_test(live_parameters_stop_prefetching),
        cmocka_unit_test(another_order_of_modules_starts_over),
        cmocka_unit_test(leftovers_and_everything_are_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
