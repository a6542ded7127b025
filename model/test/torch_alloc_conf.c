#include "base_test.h"

#include "torch/alloc_conf.h"

#define MIB (UINT64_C(1) << 20)

static zt_alloc_conf parsed(const char *text)
{
    zt_alloc_conf conf;
    zl_err err = {0};
    assert_ok(zt_alloc_conf_parse(text, &conf, &err), &err);
    return conf;
}

static void assert_refused(const char *text, zl_status status, const char *part)
{
    zt_alloc_conf conf = {.max_split_size = 5};
    zl_err err = {0};
    assert_error(zt_alloc_conf_parse(text, &conf, &err), &err, status, part);
    assert_int_equal(conf.max_split_size, 5);
}

static void nothing_is_the_defaults(void **state)
{
    (void)state;
    const char *const texts[] = {NULL, "", "  ", "backend:native", "expandable_segments:False"};
    const zt_alloc_conf conf = zt_alloc_conf_default();
    assert_int_equal(conf.large_segment_size, 20 * MIB);
    assert_int_equal(conf.max_non_split_rounding, 20 * MIB);
    assert_true(conf.max_split_size == UINT64_MAX);
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        const zt_alloc_conf same = parsed(texts[i]);
        assert_memory_equal(&same.roundup_power2_divisions, &conf.roundup_power2_divisions,
                            sizeof conf.roundup_power2_divisions);
        assert_false(same.expandable_segments);
        assert_true(same.max_split_size == UINT64_MAX);
        assert_int_equal(same.max_non_split_rounding, 20 * MIB);
    }
}

static void every_setting_is_read(void **state)
{
    (void)state;
    const zt_alloc_conf conf =
        parsed("expandable_segments:True, max_split_size_mb:128,max_non_split_rounding_mb : 64,"
               "garbage_collection_threshold:0.8,per_process_memory_fraction:0.5,"
               "large_segment_size_mb:32,pinned_use_background_threads:True,"
               "expandable_segments_reserve_by_class:[a:1,b:0.5],release_lock_on_cudamalloc:True");
    assert_true(conf.expandable_segments);
    assert_int_equal(conf.max_split_size, 128 * MIB);
    assert_int_equal(conf.max_non_split_rounding, 64 * MIB);
    assert_int_equal(conf.large_segment_size, 32 * MIB);
    assert_true(conf.garbage_collection_threshold > 0.79);
    assert_true(conf.per_process_memory_fraction < 0.51);
    /* The last of repeated settings counts, and the rounding follows the segment. */
    assert_int_equal(
        parsed("large_segment_size_mb:32,large_segment_size_mb:40").max_non_split_rounding,
        40 * MIB);
}

static void divisions_are_by_interval(void **state)
{
    (void)state;
    /* Entries begin at 1, 2, 4 ... MiB: 256 MiB is entry 8. */
    const zt_alloc_conf conf = parsed("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
    for (int i = 0; i < ZT_ROUNDUP_INTERVALS; i++) {
        const uint32_t expected = i <= 8 ? 1 : i == 9 ? 2 : i == 10 ? 4 : 8;
        assert_int_equal(conf.roundup_power2_divisions[i], expected);
    }
    const zt_alloc_conf all = parsed("roundup_power2_divisions:16");
    assert_int_equal(all.roundup_power2_divisions[0], 16);
    assert_int_equal(all.roundup_power2_divisions[15], 16);
    /* Beyond the last interval is the last. */
    assert_int_equal(parsed("roundup_power2_divisions:[1048576:4]").roundup_power2_divisions[15],
                     4);
}

static void what_pytorch_refuses_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *part;
    } bad[] = {
        {"max_split_size_mb:19", "max_split_size_mb must be at least"},
        {"max_split_size_mb:30,large_segment_size_mb:40", "max_split_size_mb must be at least"},
        {"max_non_split_rounding_mb:10", "max_non_split_rounding_mb must be at least"},
        {"large_segment_size_mb:10", "large_segment_size_mb must be above 10"},
        {"large_segment_size_mb:18446744073709551614", "large_segment_size_mb must be"},
        {"max_split_size_mb:-1", "max_split_size_mb must be a whole"},
        {"max_split_size_mb:", "a word is missing after 'max_split_size_mb'"},
        {"max_split_size_mb", "':' is missing after 'max_split_size_mb'"},
        {"garbage_collection_threshold:1", "garbage_collection_threshold must be a share"},
        {"garbage_collection_threshold:nan", "garbage_collection_threshold must be a finite"},
        {"per_process_memory_fraction:1.5", "per_process_memory_fraction must be a share"},
        {"roundup_power2_divisions:3", "0 or a power of two"},
        {"roundup_power2_divisions:[3:4]", "begin at a power of two"},
        {"roundup_power2_divisions:[1:4", "',' is missing"},
        {"roundup_power2_divisions:[1:4,", "a word is missing"},
        {"pinned_free_catch_all:[1", "']' is missing"},
        {"expandable_segments:true", "must be True or False, got 'true'"},
        {"expandable_segment:True", "did you mean 'expandable_segments'?"},
        {"backend:other", "backend other"},
        {"expandable_segments:True max", "True or False"},
        {",", "a word is missing"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:1",
         "too long"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_refused(bad[i].text, ZL_E_USAGE, bad[i].part);
    }
    assert_refused("backend:cudaMallocAsync", ZL_E_UNMODELLED, "cudaMallocAsync");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_the_defaults),
        cmocka_unit_test(every_setting_is_read),
        cmocka_unit_test(divisions_are_by_interval),
        cmocka_unit_test(what_pytorch_refuses_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
