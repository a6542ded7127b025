/* The accounts of the meter, fed by hand. */
#include "trace_test.h"

static const uint64_t granule = (uint64_t)2 << 20;

static zr_asked by(uint32_t owner, const char *call)
{
    return (zr_asked){.device = 0, .context = 0xc, .owner = owner, .call = call};
}

static void allocations_add_up_by_owner(void **state)
{
    (void)state;
    zr_meter m = {0};
    const zr_asked a = by(0, "cuMemAlloc");
    const zr_asked b = by(1, "cuMemAlloc");
    zr_meter_owner(&m, 0, "libone.so");
    zr_meter_owner(&m, 1, "libtwo.so");
    zr_meter_alloc(&m, 1, &a, 0x10000000, 4 * mib);
    zr_meter_alloc(&m, 2, &b, 0x20000000, 2 * mib);
    zr_meter_alloc(&m, 3, &a, 0x30000000, 6 * mib);
    zr_meter_free(&m, 4, 0x10000000);
    zr_meter_free(&m, 5, 0x99);
    const zr_row one = row_named(&m, "libone.so", "cuMemAlloc");
    assert_true(one.now == 6 * mib && one.peak == 10 * mib && one.at_peak == 10 * mib);
    assert_true(one.live == 1 && one.made == 2);
    assert_true(bytes_of(&m, "libtwo.so", "cuMemAlloc") == 2 * mib);
    assert_true(m.device[0].peak == 12 * mib && m.device[0].peak_time == 3);
    assert_true(m.allocations == 3 && m.releases == 1 && m.unknown == 1);
    assert_adds_up(&m, 0);
    zr_meter_release(&m);
}

/* 1000 bytes each at 0 and 512 KiB share the granule; 1000 bytes more lie across the next two:
 * three granules are held, 6 MiB, of which 3000 bytes were asked for. */
static void small_allocations_share_granules(void **state)
{
    (void)state;
    zr_meter m = {0};
    const zr_asked a = by(0, "cuMemAlloc");
    zr_meter_owner(&m, 0, "program");
    zr_meter_alloc(&m, 1, &a, 0x40000000, 1000);
    assert_true(bytes_of(&m, "(granule)", "cuMemAlloc") == granule - 1000);
    zr_meter_alloc(&m, 2, &a, 0x40080000, 1000);
    assert_true(m.device[0].traced == granule);
    zr_meter_alloc(&m, 3, &a, 0x40400000 - 500, 1000);
    assert_true(m.device[0].traced == 3 * granule);
    assert_true(bytes_of(&m, "(granule)", "cuMemAlloc") == 3 * granule - 3000);
    zr_meter_free(&m, 4, 0x40000000);
    assert_true(m.device[0].traced == 3 * granule); /* the other still holds the first */
    zr_meter_free(&m, 5, 0x40080000);
    assert_true(m.device[0].traced == 2 * granule);
    zr_meter_free(&m, 6, 0x40400000 - 500);
    assert_true(m.device[0].traced == 0 && m.device[0].peak == 3 * granule);
    assert_adds_up(&m, 0);
    zr_meter_release(&m);
}

/* The trainer's way: the handle goes at once, the mapping keeps the memory. */
static void physical_memory_lives_as_long_as_it_is_mapped(void **state)
{
    (void)state;
    zr_meter m = {0};
    const zr_asked a = by(0, "cuMemCreate");
    zr_meter_owner(&m, 0, "zl-train-cuda");
    zr_meter_create(&m, 1, &a, 0x7, 4 * mib);
    zr_meter_map(&m, 2, 0x50000000, 4 * mib, 0x7);
    zr_meter_drop(&m, 3, 0x7);
    zr_meter_create(&m, 4, &a, 0x8, 6 * mib);
    zr_meter_map(&m, 5, 0x50400000, 6 * mib, 0x8);
    zr_meter_drop(&m, 6, 0x8);
    assert_true(m.device[0].traced == 10 * mib);
    zr_meter_unmap(&m, 7, 0x50000000, 10 * mib); /* both at once */
    assert_true(m.device[0].traced == 0 && m.device[0].peak == 10 * mib);
    assert_true(m.unknown == 0);
    zr_meter_release(&m);
}

/* NCCL's way: the handle is kept, and another reference is taken from the address. */
static void physical_memory_lives_as_long_as_there_is_a_handle(void **state)
{
    (void)state;
    zr_meter m = {0};
    const zr_asked a = by(0, "cuMemCreate");
    zr_meter_owner(&m, 0, "libnccl.so.2");
    zr_meter_create(&m, 1, &a, 0x7, 2 * mib);
    zr_meter_map(&m, 2, 0x60000000, 2 * mib, 0x7);
    zr_meter_retain(&m, 3, 0x77, 0x60000100); /* inside, and with another number */
    zr_meter_unmap(&m, 4, 0x60000000, 2 * mib);
    assert_true(m.device[0].traced == 2 * mib);
    zr_meter_drop(&m, 5, 0x7);
    assert_true(m.device[0].traced == 2 * mib);
    zr_meter_drop(&m, 6, 0x77);
    assert_true(m.device[0].traced == 0);
    zr_meter_drop(&m, 7, 0x77);
    assert_true(m.unknown == 1);
    zr_meter_create(&m, 8, &a, 0x7, 4 * mib); /* numbers come again */
    assert_true(m.device[0].traced == 4 * mib);
    assert_adds_up(&m, 0);
    zr_meter_release(&m);
}

/* 32 MiB are held for 5, then 40, then again 5 MiB that were asked for. */
static void a_pool_holds_more_than_was_asked_for(void **state)
{
    (void)state;
    zr_meter m = {0};
    const zr_asked a = by(0, "cuMemAllocAsync");
    zr_meter_owner(&m, 0, "libc10_cuda.so");
    zr_meter_alloc(&m, 1, &a, 0x70000000, 5 * mib);
    zr_meter_pool(&m, 1, 0, 0xf00, 32 * mib);
    assert_true(m.device[0].traced == 32 * mib);
    assert_true(bytes_of(&m, "(pool)", "cuMemAllocAsync") == 27 * mib);
    zr_meter_alloc(&m, 2, &a, 0x71000000, 35 * mib);
    zr_meter_pool(&m, 2, 0, 0xf00, 64 * mib);
    assert_true(bytes_of(&m, "(pool)", "cuMemAllocAsync") == 24 * mib);
    zr_meter_free(&m, 3, 0x71000000); /* the pool keeps it */
    assert_true(m.device[0].traced == 64 * mib);
    zr_meter_pool(&m, 4, 0, 0xf00, 32 * mib); /* until it is asked again */
    assert_true(m.device[0].traced == 32 * mib && m.device[0].peak == 64 * mib);
    assert_int_equal(row_named(&m, "(granule)", "cuMemAlloc").device, -2);
    assert_adds_up(&m, 0);
    zr_meter_release(&m);
}

/* A context of 500 MiB; then a module of which the device says that it lost 30 MiB, while another
 * thread took 10 of them. */
static void what_only_the_device_knows_is_its_loss(void **state)
{
    (void)state;
    zr_meter m = {0};
    const zr_look first = {.device = 0, .available = 500 * mib, .total = 1000 * mib};
    const zr_asked module = by(0, "cuLibraryLoadData");
    const zr_asked other = by(1, "cuMemCreate");
    zr_meter_owner(&m, 0, "libcublas.so.13");
    zr_meter_owner(&m, 1, "libnccl.so.2");
    zr_meter_context(&m, 1, &first, 0xc, "a GPU");
    assert_true(bytes_of(&m, "(context)", "context") == 500 * mib);
    zr_meter_context(&m, 1, &first, 0xd, "a GPU"); /* a second one is in the untraced */
    zr_meter_before(&m, 17, 0, 500 * mib);
    zr_meter_create(&m, 2, &other, 0x1, 10 * mib);
    zr_meter_load(&m, 3, 17, &module, 0xab, 470 * mib);
    assert_true(bytes_of(&m, "libcublas.so.13", "cuLibraryLoadData") == 20 * mib);
    assert_true(m.device[0].traced == 530 * mib);
    zr_meter_unload(&m, 4, 0xab);
    assert_true(m.device[0].traced == 510 * mib);
    zr_meter_close(&m, 5, 0xc);
    assert_true(m.device[0].traced == 10 * mib); /* physical memory is not the context's */
    assert_adds_up(&m, 0);
    zr_meter_release(&m);
}

static void a_context_takes_its_allocations_along(void **state)
{
    (void)state;
    zr_meter m = {0};
    const zr_asked mine = by(0, "cuMemAlloc");
    zr_asked other = mine;
    other.context = 0xd;
    zr_meter_alloc(&m, 1, &mine, 0x10000000, 2 * mib);
    zr_meter_alloc(&m, 2, &other, 0x20000000, 4 * mib);
    zr_meter_close(&m, 3, 0xc);
    assert_true(m.device[0].traced == 4 * mib);
    zr_meter_free(&m, 4, 0x10000000);
    assert_true(m.unknown == 1);
    zr_meter_release(&m);
}

static void host_and_managed_memory_are_of_no_device(void **state)
{
    (void)state;
    zr_meter m = {0};
    zr_asked a = by(0, "cuMemHostAlloc");
    a.device = ZR_NO_DEVICE;
    zr_meter_alloc(&m, 1, &a, 0x1000, 3000);
    assert_true(row_named(&m, "(unknown)", "cuMemHostAlloc").now == 3000);
    assert_false(m.device[0].present);
    zr_meter_free(&m, 2, 0x1000);
    assert_true(m.row[0].now == 0 && m.row[0].peak == 3000);
    zr_meter_release(&m);
}

static void marks_remember_the_rows(void **state)
{
    (void)state;
    zr_meter m = {0};
    const zr_asked a = by(0, "cuMemCreate");
    const zr_asked b = by(1, "cuMemCreate");
    const zr_look look = {.device = 0, .available = 90 * mib, .total = 100 * mib, .settled = true};
    zr_meter_create(&m, 1, &a, 0x1, 2 * mib);
    zr_meter_mark(&m, 2, &look, "first");
    zr_meter_create(&m, 3, &b, 0x2, 4 * mib);
    zr_meter_mark(&m, 4, &look, "second");
    assert_int_equal(m.marks, 2);
    assert_true(m.mark[0].rows == 1 && m.mark[1].rows == 2);
    assert_true(m.mark[0].used == 10 * mib && m.mark[0].traced == 2 * mib);
    assert_true(m.then[m.mark[1].first].bytes == 2 * mib);
    assert_true(m.then[m.mark[1].first + 1].bytes == 4 * mib);
    assert_true(m.then[m.mark[1].first + 1].live == 1);
    assert_int_equal(m.status, ZL_OK);
    zr_meter_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_add_up_by_owner),
        cmocka_unit_test(small_allocations_share_granules),
        cmocka_unit_test(physical_memory_lives_as_long_as_it_is_mapped),
        cmocka_unit_test(physical_memory_lives_as_long_as_there_is_a_handle),
        cmocka_unit_test(a_pool_holds_more_than_was_asked_for),
        cmocka_unit_test(what_only_the_device_knows_is_its_loss),
        cmocka_unit_test(a_context_takes_its_allocations_along),
        cmocka_unit_test(host_and_managed_memory_are_of_no_device),
        cmocka_unit_test(marks_remember_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
