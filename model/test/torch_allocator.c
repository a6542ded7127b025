/* The caching allocator by hand: bytes worked out from the rules in the comments. */
#include "base_test.h"

#include "torch/caching_allocator.h"

#define MIB (UINT64_C(1) << 20)

static zt_allocator *with(zt_allocator_options options)
{
    zt_allocator *a = NULL;
    zl_err err = {0};
    assert_ok(zt_allocator_new(&options, &a, &err), &err);
    return a;
}

static zt_allocator *fresh(void)
{
    return with((zt_allocator_options){.conf = zt_alloc_conf_default()});
}

static zt_allocator *configured(const char *text, uint64_t device_total)
{
    zt_allocator_options options = {.device_total = device_total};
    zl_err err = {0};
    assert_ok(zt_alloc_conf_parse(text, &options.conf, &err), &err);
    return with(options);
}

static void release(zt_allocator *a)
{
    zl_err err = {0};
    assert_ok(zt_allocator_status(a, &err), &err);
    zt_allocator_free(a);
}

static void expect(const zt_allocator *a, uint64_t allocated, uint64_t reserved)
{
    assert_int_equal(zt_allocator_stats(a)->allocated.current, allocated);
    assert_int_equal(zt_allocator_stats(a)->reserved.current, reserved);
}

static void alloc_all(zt_allocator *a, size_t count, uint64_t bytes, zt_block *blocks)
{
    for (size_t i = 0; i < count; i++) {
        blocks[i] = zt_alloc(a, bytes, 0);
        assert_int_not_equal(blocks[i], ZT_NO_BLOCK);
    }
}

static void free_all(zt_allocator *a, size_t count, const zt_block *blocks)
{
    for (size_t i = 0; i < count; i++) {
        zt_free(a, blocks[i]);
    }
}

static void small_segments_cannot_serve_larger_requests(void **state)
{
    (void)state;
    zt_allocator *a = fresh();
    zt_block b[8];
    alloc_all(a, 8, 16 * MIB, b);
    expect(a, 134217728, 134217728); /* 8 x 16 MiB, a segment each */
    free_all(a, 8, b);
    alloc_all(a, 4, 32 * MIB, b);
    expect(a, 134217728, 268435456); /* and 4 x 32 MiB beside them */
    release(a);
}

static void large_segments_are_cut_for_smaller_requests(void **state)
{
    (void)state;
    zt_allocator *a = fresh();
    zt_block b[8];
    alloc_all(a, 4, 32 * MIB, b);
    free_all(a, 4, b);
    alloc_all(a, 8, 16 * MIB, b);
    expect(a, 134217728, 134217728);
    release(a);
}

static void sizes_are_rounded_by_pool_and_bound(void **state)
{
    (void)state;
    static const uint64_t steps[][3] = {
        {1, 512, 2097152},                  /* a small segment of 2 MiB */
        {513, 1536, 2097152},               /* + 1024 */
        {MIB, 1050112, 2097152},            /* the last size of the small pool */
        {MIB + 1, 2099200, 23068672},       /* + 1 MiB + 512 out of a large segment of 20 MiB */
        {9 * MIB, 11536384, 23068672},      /* + 9 MiB, cut */
        {9 * MIB, 22021632, 23068672},      /* the rest of 1048064 stays with it */
        {10 * MIB, 32507392, 33554432},     /* a segment of its own */
        {10 * MIB + 1, 42993664, 46137344}, /* 12 MiB, its tail of 2 MiB - 512 cut off */
    };
    zt_allocator *a = fresh();
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        assert_int_not_equal(zt_alloc(a, steps[i][0], 0), ZT_NO_BLOCK);
        expect(a, steps[i][1], steps[i][2]);
    }
    /* 1 + 513 + 1 MiB + (1 MiB + 1) + 2 x 9 MiB + 10 MiB + (10 MiB + 1) */
    assert_int_equal(zt_allocator_stats(a)->requested.current, 40 * MIB + 516);
    release(a);
}

static void expandable_segments_grow_by_pages(void **state)
{
    (void)state;
    /* Pages of 20 MiB: 16, 32, 48 ... MiB rounded up. */
    static const uint64_t reserved[] = {20, 40, 60, 80, 80, 100, 120, 140};
    zt_allocator *a = configured("expandable_segments:True", 0);
    zt_block b[8];
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        b[i] = zt_alloc(a, 16 * MIB, 0);
        expect(a, (i + 1) * 16 * MIB, reserved[i] * MIB);
    }
    free_all(a, 8, b);
    alloc_all(a, 4, 32 * MIB, b);
    expect(a, 128 * MIB, 140 * MIB);
    assert_int_equal(zt_allocator_stats(a)->inactive_split.peak, 0);
    assert_int_equal(zt_allocator_stats(a)->segments.peak, 0);
    release(a);
}

static void expandable_pools_have_segments_of_their_own(void **state)
{
    (void)state;
    zt_allocator *a = configured("expandable_segments:True", 0);
    zt_free(a, zt_alloc(a, 2 * MIB, 0));
    (void)zt_alloc(a, MIB / 2, 0);
    expect(a, MIB / 2, 22 * MIB); /* 20 MiB of the large pool, 2 MiB of the small one */
    release(a);
}

static void expandable_segments_give_back_whole_pages(void **state)
{
    (void)state;
    zt_allocator *a = configured("expandable_segments:True", 0);
    zt_block b[4];
    alloc_all(a, 4, 16 * MIB, b); /* 64 of 80 MiB; blocks at 0, 16, 32, 48 */
    zt_free(a, b[1]);
    zt_free(a, b[2]);
    zt_empty_cache(a);
    /* Free are 16..48 and 64..80: the page 20..40 lies wholly in the first, none in the second. */
    expect(a, 32 * MIB, 60 * MIB);
    (void)zt_alloc(a, 20 * MIB, 0); /* 16..36: the page comes back */
    expect(a, 52 * MIB, 80 * MIB);
    release(a);
}

static void closed_holes_are_preferred_to_the_growing_tail(void **state)
{
    (void)state;
    zt_allocator *a = configured("expandable_segments:True", 0);
    zt_block b[3];
    alloc_all(a, 3, 16 * MIB, b); /* 48 of 60 MiB; the tail of 12 MiB can grow */
    const uint64_t hole = zt_block_address(a, b[1]);
    zt_free(a, b[1]);
    const zt_block c = zt_alloc(a, 10 * MIB, 0);
    assert_int_equal(zt_block_address(a, c), hole);
    assert_int_equal(zt_block_size(a, c), 10 * MIB);
    release(a);
}

static void oversize_blocks_are_neither_split_nor_given_to_small_requests(void **state)
{
    (void)state;
    zt_allocator *a = configured("max_split_size_mb:40", 0);
    zt_free(a, zt_alloc(a, 64 * MIB, 0));
    (void)zt_alloc(a, 30 * MIB, 0);
    expect(a, 30 * MIB, 94 * MIB); /* the block of 64 MiB is refused */
    (void)zt_alloc(a, 50 * MIB, 0);
    expect(a, 94 * MIB, 94 * MIB); /* it serves 50 MiB, whole */
    release(a);
}

static void a_request_of_nothing_is_nothing(void **state)
{
    (void)state;
    zt_allocator *a = fresh();
    assert_int_equal(zt_alloc(a, 0, 0), ZT_NO_BLOCK);
    zt_free(a, ZT_NO_BLOCK);
    expect(a, 0, 0);
    release(a);
}

static void free_memory_stays_with_its_stream(void **state)
{
    (void)state;
    zt_allocator *a = fresh();
    zt_free(a, zt_alloc(a, 32 * MIB, 1));
    assert_true(zt_is_cached(a, 32 * MIB, 1));
    assert_false(zt_is_cached(a, 32 * MIB, 0));
    (void)zt_alloc(a, 32 * MIB, 0);
    expect(a, 32 * MIB, 64 * MIB);
    zt_empty_cache(a); /* the only way across */
    expect(a, 32 * MIB, 32 * MIB);
    release(a);
}

/* The device lags: a freed block that outlasts an allocation, or one from the driver, completes
 * only when that has been made; an idle device ends the wait at the next allocation. */
static void a_busy_device_keeps_a_recorded_block(void **state)
{
    (void)state;
    zt_allocator *a = with((zt_allocator_options){.conf = zt_alloc_conf_default()});
    const zt_stats *s = zt_allocator_stats(a);
    zt_block b = zt_alloc(a, 16 * MIB, 1);
    zt_record_stream(a, b, 0);
    zt_outlast(a, b, 1, 0);
    zt_free(a, b);
    const zt_block first = zt_alloc(a, 512, 0);
    assert_int_equal(s->requested.current, 16 * MIB + 512);
    const zt_block second = zt_alloc(a, 512, 0);
    assert_int_equal(s->requested.current, 1024);
    b = zt_alloc(a, 16 * MIB, 1);
    zt_record_stream(a, b, 0);
    zt_outlast(a, b, 0, 1);
    zt_free(a, b);
    const zt_block cached = zt_alloc(a, 512, 0); /* no new segment */
    assert_int_equal(s->requested.current, 16 * MIB + 1536);
    const zt_block large = zt_alloc(a, 16 * MIB, 1); /* one more: the old block still waits */
    assert_int_equal(s->reserved.current, 34 * MIB);
    zt_device_idle(a);
    const zt_block last = zt_alloc(a, 512, 0);
    assert_int_equal(s->requested.current, 16 * MIB + 2048);
    const zt_block all[] = {first, second, cached, large, last};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        zt_free(a, all[i]);
    }
    release(a);
}

static void a_recorded_block_waits(void **state)
{
    (void)state;
    zt_allocator *a =
        with((zt_allocator_options){.conf = zt_alloc_conf_default(), .waiting = ZT_WAIT_SYNC});
    const zt_block own = zt_alloc(a, 16 * MIB, 1);
    const zt_block other = zt_alloc(a, 16 * MIB, 1);
    zt_record_stream(a, own, 1); /* its own stream is ignored */
    zt_record_stream(a, other, 2);
    zt_free(a, own);
    zt_free(a, other);
    const zt_stats *s = zt_allocator_stats(a);
    assert_int_equal(s->allocated.current, 0);
    assert_int_equal(s->active.current, 16 * MIB);
    assert_int_equal(s->requested.current, 16 * MIB);
    (void)zt_alloc(a, 16 * MIB, 1);
    assert_int_equal(s->reserved.current, 32 * MIB);
    assert_false(zt_is_cached(a, 16 * MIB, 1));
    zt_complete(a, other);
    assert_int_equal(s->active.current, 16 * MIB);
    assert_true(zt_is_cached(a, 16 * MIB, 1));
    release(a);
}

static void the_next_allocation_ends_the_waiting(void **state)
{
    (void)state;
    zt_allocator *a = fresh();
    const zt_block b = zt_alloc(a, 16 * MIB, 0);
    zt_record_stream(a, b, 3);
    zt_free(a, b);
    (void)zt_alloc(a, 16 * MIB, 0);
    expect(a, 16 * MIB, 16 * MIB);
    release(a);
}

static void a_full_device_releases_its_cache_first(void **state)
{
    (void)state;
    zt_allocator *a = with((zt_allocator_options){
        .conf = zt_alloc_conf_default(), .device_total = 100 * MIB, .device_free = 90 * MIB});
    zt_free(a, zt_alloc(a, 60 * MIB, 1));
    const zt_block kept = zt_alloc(a, 30 * MIB, 0);
    expect(a, 30 * MIB, 90 * MIB);
    (void)zt_alloc(a, 20 * MIB, 0);
    expect(a, 50 * MIB, 50 * MIB);
    assert_int_equal(zt_allocator_stats(a)->alloc_retries, 1);
    assert_int_equal(zt_alloc(a, 42 * MIB, 0), ZT_NO_BLOCK);
    assert_int_equal(zt_allocator_stats(a)->ooms, 1);
    assert_int_equal(zt_alloc(a, UINT64_MAX - 1, 0), ZT_NO_BLOCK);
    zt_free(a, kept);
    assert_int_not_equal(zt_alloc(a, 30 * MIB, 0), ZT_NO_BLOCK);
    release(a);
}

static void a_share_of_the_device_is_all_there_is(void **state)
{
    (void)state;
    zt_allocator *a = configured("per_process_memory_fraction:0.5", 100 * MIB);
    (void)zt_alloc(a, 40 * MIB, 0);
    assert_int_equal(zt_alloc(a, 11 * MIB, 0), ZT_NO_BLOCK); /* a segment of 12 MiB */
    assert_int_not_equal(zt_alloc(a, 10 * MIB, 0), ZT_NO_BLOCK);
    release(a);
}

static void garbage_is_what_was_not_used_for_long(void **state)
{
    (void)state;
    /* From 50 of 100 MiB on. Ages count searches of the large pool. */
    zt_allocator *a = configured("garbage_collection_threshold:0.5", 100 * MIB);
    const zt_block old = zt_alloc(a, 20 * MIB, 0); /* search 1 */
    const zt_block new = zt_alloc(a, 22 * MIB, 0); /* 2 */
    (void)zt_alloc(a, 24 * MIB, 0);                /* 3 */
    zt_free(a, old);                               /* age base 3 */
    (void)zt_alloc(a, 26 * MIB, 0); /* 4: 66 MiB > 50 MiB, mean age 1: 20 MiB go, 26 come */
    expect(a, 72 * MIB, 72 * MIB);
    zt_free(a, new);
    expect(a, 50 * MIB, 72 * MIB);
    release(a);
}

static void peaks_begin_again(void **state)
{
    (void)state;
    zt_allocator *a = fresh();
    zt_free(a, zt_alloc(a, 30 * MIB, 0));
    zt_free(a, zt_alloc(a, 2 * MIB, 0));
    const zt_stats *s = zt_allocator_stats(a);
    assert_int_equal(s->allocated.peak, 30 * MIB);
    assert_int_equal(s->inactive_split.peak, 28 * MIB); /* of the segment of 30 MiB */
    zt_reset_peaks(a);
    assert_int_equal(s->allocated.peak, 0);
    assert_int_equal(s->inactive_split.peak, 0);
    assert_int_equal(s->reserved.peak, 30 * MIB);
    release(a);
}

/* The address of a new segment on an allocator of a policy. */
static uint64_t segment_at(zt_allocator *a, uint64_t bytes)
{
    return zt_block_address(a, zt_alloc(a, bytes, 0));
}

static void descending_segments_fill_slots(void **state)
{
    (void)state;
    zt_allocator *a =
        with((zt_allocator_options){.conf = zt_alloc_conf_default(), .addresses = ZT_DESCENDING});
    const uint64_t top = segment_at(a, 20 * MIB);              /* a slot of 32 MiB */
    assert_int_equal(segment_at(a, 40 * MIB), top - 64 * MIB); /* the next two below */
    assert_int_equal(segment_at(a, 14 * MIB), top - 24 * MIB); /* behind the 40 MiB, 10 MiB left */
    assert_int_equal(segment_at(a, 12 * MIB), top + 20 * MIB); /* behind the first 20 MiB */
    assert_int_equal(segment_at(a, 16 * MIB), top - 96 * MIB); /* fits nowhere */
    release(a);
}

static void ascending_segments_lie_above_each_other(void **state)
{
    (void)state;
    zt_allocator *a = fresh();
    const uint64_t bottom = segment_at(a, 20 * MIB);
    assert_int_equal(segment_at(a, 40 * MIB), bottom + 20 * MIB);
    assert_int_equal(segment_at(a, 14 * MIB), bottom + 60 * MIB);
    release(a);
}

static void equal_blocks_are_taken_from_below(void **state)
{
    (void)state;
    zt_allocator *a = fresh();
    zt_block b[2];
    alloc_all(a, 2, 16 * MIB, b);
    const uint64_t lower = zt_block_address(a, b[0]);
    free_all(a, 2, b);
    assert_int_equal(segment_at(a, 16 * MIB), lower);
    release(a);
}

static void roundup_follows_its_intervals(void **state)
{
    (void)state;
    zt_allocator *a = configured("roundup_power2_divisions:4", 0);
    (void)zt_alloc(a, 1200, 0); /* not above 4 x 512: to 512 as ever */
    expect(a, 1536, 2 * MIB);
    (void)zt_alloc(a, 5000, 0); /* 4096, 5120, ... */
    expect(a, 6656, 2 * MIB);
    (void)zt_alloc(a, 8192, 0); /* a power of two stays */
    expect(a, 14848, 2 * MIB);
    release(a);
}

static void many_blocks_come_and_go(void **state)
{
    (void)state;
    enum { BLOCKS = 20000 };
    for (int expandable = 0; expandable < 2; expandable++) {
        zt_allocator *a = configured(expandable ? "expandable_segments:True" : "", 0);
        zt_block *b = calloc(BLOCKS, sizeof *b);
        assert_non_null(b);
        for (size_t i = 0; i < BLOCKS; i++) {
            b[i] = zt_alloc(a, 512 * (i % 7 + 1), (uint32_t)(i % 3));
        }
        /* 2857 rounds of 28 x 512 and one block of 512. */
        assert_int_equal(zt_allocator_stats(a)->allocated.current, 2857 * 28 * 512 + 512);
        for (size_t i = 0; i < BLOCKS; i += 2) {
            zt_free(a, b[i]);
        }
        for (size_t i = 1; i < BLOCKS; i += 2) {
            zt_free(a, b[i]);
        }
        zt_empty_cache(a);
        expect(a, 0, 0);
        free(b);
        release(a);
    }
}

static void misuse_is_remembered(void **state)
{
    (void)state;
    zl_err err = {0};
    zt_allocator *a = fresh();
    const zt_block b = zt_alloc(a, 512, 0);
    zt_free(a, b);
    zt_free(a, b);
    assert_int_equal(zt_alloc(a, 512, 0), ZT_NO_BLOCK);
    assert_error(zt_allocator_status(a, &err), &err, ZL_E_BUG, "it is not handed out");
    zt_allocator_free(a);
    err = (zl_err){0};
    a = fresh();
    assert_int_equal(zt_alloc(a, 512, ZT_STREAMS_MAX), ZT_NO_BLOCK);
    assert_error(zt_allocator_status(a, &err), &err, ZL_E_USAGE, "stream must be 0..255, got 256");
    zt_allocator_free(a);
    zt_allocator_free(NULL);
}

static void impossible_options_are_refused(void **state)
{
    (void)state;
    zt_allocator *a = NULL;
    zl_err err = {0};
    zt_allocator_options o = {.conf = zt_alloc_conf_default(), .addresses = ZT_FROM_DRIVER};
    assert_error(zt_allocator_new(&o, &a, &err), &err, ZL_E_USAGE, "need a driver");
    err = (zl_err){0};
    o.addresses = ZT_ASCENDING;
    o.device_total = UINT64_C(1) << 51;
    assert_error(zt_allocator_new(&o, &a, &err), &err, ZL_E_USAGE, "1 PiB");
    err = (zl_err){0};
    assert_error(zt_allocator_new(&(zt_allocator_options){0}, &a, &err), &err, ZL_E_USAGE,
                 "large_segment_size_mb");
    assert_null(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_segments_cannot_serve_larger_requests),
        cmocka_unit_test(large_segments_are_cut_for_smaller_requests),
        cmocka_unit_test(sizes_are_rounded_by_pool_and_bound),
        cmocka_unit_test(expandable_segments_grow_by_pages),
        cmocka_unit_test(expandable_pools_have_segments_of_their_own),
        cmocka_unit_test(expandable_segments_give_back_whole_pages),
        cmocka_unit_test(closed_holes_are_preferred_to_the_growing_tail),
        cmocka_unit_test(oversize_blocks_are_neither_split_nor_given_to_small_requests),
        cmocka_unit_test(a_request_of_nothing_is_nothing),
        cmocka_unit_test(free_memory_stays_with_its_stream),
        cmocka_unit_test(a_busy_device_keeps_a_recorded_block),
        cmocka_unit_test(a_recorded_block_waits),
        cmocka_unit_test(the_next_allocation_ends_the_waiting),
        cmocka_unit_test(a_full_device_releases_its_cache_first),
        cmocka_unit_test(a_share_of_the_device_is_all_there_is),
        cmocka_unit_test(garbage_is_what_was_not_used_for_long),
        cmocka_unit_test(peaks_begin_again),
        cmocka_unit_test(descending_segments_fill_slots),
        cmocka_unit_test(ascending_segments_lie_above_each_other),
        cmocka_unit_test(equal_blocks_are_taken_from_below),
        cmocka_unit_test(roundup_follows_its_intervals),
        cmocka_unit_test(many_blocks_come_and_go),
        cmocka_unit_test(misuse_is_remembered),
        cmocka_unit_test(impossible_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
