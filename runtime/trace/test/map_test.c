#include "trace_test.h"

#include "trace/map.h"

/* 10,000 keys that differ only in their upper bits, half of them removed again. */
static void keys_are_kept_and_removed(void **state)
{
    (void)state;
    enum { KEYS = 10000 };
    zr_map map = {0};
    for (uint64_t i = 0; i < KEYS; i++) {
        assert_true(zr_map_set(&map, i << 21, i));
    }
    for (uint64_t i = 0; i < KEYS; i += 2) {
        zr_map_remove(&map, i << 21);
        zr_map_remove(&map, i << 21); /* twice is once */
    }
    assert_int_equal(map.used, KEYS / 2);
    for (uint64_t i = 0; i < KEYS; i++) {
        const uint64_t *const value = zr_map_find(&map, i << 21);
        assert_true((value != NULL) == (i % 2 == 1));
        assert_true(value == NULL || *value == i);
    }
    zr_map_release(&map);
}

static void an_empty_map_has_nothing(void **state)
{
    (void)state;
    zr_map map = {0};
    assert_null(zr_map_find(&map, 0));
    zr_map_remove(&map, 0);
    assert_true(zr_map_set(&map, 0, 7)); /* 0 is a key like others */
    assert_true(zr_map_set(&map, 0, 8));
    assert_int_equal(*zr_map_find(&map, 0), 8);
    assert_int_equal(map.used, 1);
    zr_map_release(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_kept_and_removed),
        cmocka_unit_test(an_empty_map_has_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
