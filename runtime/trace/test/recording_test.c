/* Recordings as they are read. */
#include "trace_test.h"

#include <stdio.h>

#include "trace/recording.h"

#define HEAD "zltrace 1 42 1000 1750000000 node7 python3.11\n"

static zl_status parse(const char *text, zr_recording_read *out, zl_err *err)
{
    static char copy[4096];
    (void)snprintf(copy, sizeof(copy), "%s", text);
    return zr_recording_parse("x", copy, strlen(copy), out, err);
}

static void every_line_reaches_the_meter(void **state)
{
    (void)state;
    static const char text[] = HEAD "driver 13000\n"
                                    "owner 0 libc10_cuda.so\n"
                                    "context 1100 0 c0 900000000 1000000000 NVIDIA H200\n"
                                    "alloc 1200 0 c0 0 cuMemAlloc 7f0000200000 2097152\n"
                                    "alloc 1210 - c0 0 cuMemHostAlloc 1000 77\n"
                                    "create 1220 0 0 cuMemCreate a1 4194304\n"
                                    "map 1230 7f1000000000 4194304 a1\n"
                                    "release 1240 a1\n"
                                    "retain 1250 a1 7f1000000000\n"
                                    "release 1260 a1\n"
                                    "alloc 1270 0 c0 0 cuMemAllocAsync 302000000 1000\n"
                                    "pool 1271 0 beef 2097152\n"
                                    "before 1280 5 0 800000000\n"
                                    "load 1290 5 0 c0 0 cuLibraryLoadData d0 799000000\n"
                                    "fail 1300 0 0 cuMemAlloc 99999999999 2\n"
                                    "mark 1310 0 799000000 1000000000 0 warm and more\n"
                                    "settled 1310\n"
                                    "free 1320 302000000\n"
                                    "unload 1330 d0\n"
                                    "unmap 1340 7f1000000000 4194304\n"
                                    "close 1350 c0\n"
                                    "end 1400 22\n"
                                    "free 1500 99\n";
    zr_recording_read r;
    zl_err err = {0};
    assert_int_equal(parse(text, &r, &err), ZL_OK);
    const zr_meter *const m = &r.meter;
    assert_true(r.pid == 42 && r.begin == 1000 && r.end == 1400 && r.driver == 13000);
    assert_string_equal(r.host, "node7");
    assert_string_equal(r.program, "python3.11");
    assert_true(r.complete);
    assert_int_equal(m->unknown, 0); /* behind the end nothing is looked at */
    assert_string_equal(m->device[0].name, "NVIDIA H200");
    assert_true(row_named(m, "(context)", "context").peak == 100000000);
    assert_true(row_named(m, "libc10_cuda.so", "cuMemAlloc").peak == 2097152);
    assert_true(row_named(m, "libc10_cuda.so", "cuMemHostAlloc").peak == 77);
    assert_true(row_named(m, "libc10_cuda.so", "cuMemCreate").peak == 4194304);
    assert_true(row_named(m, "libc10_cuda.so", "cuMemAllocAsync").peak == 1000);
    assert_true(row_named(m, "(pool)", "cuMemAllocAsync").peak == 2097152);
    assert_true(row_named(m, "libc10_cuda.so", "cuLibraryLoadData").peak == 1000000);
    assert_true(m->refusals == 1 && m->refusal[0].bytes == 99999999999 &&
                m->refusal[0].result == 2);
    assert_true(m->marks == 2 && m->mark[1].settled && !m->mark[1].automatic);
    assert_string_equal(m->mark[1].name, "warm and more");
    assert_true(m->mark[1].used == 201000000);
    assert_true(bytes_of(m, "libc10_cuda.so", "cuMemCreate") == 0);
    zr_meter_release(&r.meter);
}

/* A process that was killed: all that it wrote counts, and it is not called complete. */
static void an_unfinished_line_is_no_damage(void **state)
{
    (void)state;
    zr_recording_read r;
    zl_err err = {0};
    assert_int_equal(parse(HEAD "create 2000 0 0 cuMemCreate a1 4194304\nrele", &r, &err), ZL_OK);
    assert_false(r.complete);
    assert_true(r.meter.device[0].traced == 4194304);
    zr_meter_release(&r.meter);
}

static void a_lost_line_is_noticed(void **state)
{
    (void)state;
    zr_recording_read r;
    zl_err err = {0};
    assert_int_equal(parse(HEAD "end 1400 2\n", &r, &err), ZL_OK);
    assert_false(r.complete);
    zr_meter_release(&r.meter);
}

static void damage_is_refused_with_its_line(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "zltrace 2 42 1000 1750000000 node7 x\n",
        HEAD "nonsense 1\n",
        HEAD "alloc 1200 0 c0 0 cuMemAlloc 7f00\n",                  /* no bytes */
        HEAD "alloc 1200 64 c0 0 cuMemAlloc 7f00 1\n",               /* no such device */
        HEAD "alloc 1200 0 c0 99999 cuMemAlloc 7f00 1\n",            /* no such owner */
        HEAD "alloc 1200 0 c0 0 cuMemAlloc 7f00 9999999999999999\n", /* no such GPU */
        HEAD "alloc 1200 0 c0 0 cuMemAlloc 7f00 -1\n",
        HEAD "mark 1200 0 2000 1000 1 free is more than total\n",
        HEAD "end x\n",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        zr_recording_read r;
        zl_err err = {0};
        assert_int_equal(parse(bad[i], &r, &err), ZL_E_INPUT);
        assert_non_null(strstr(err.text, "of a recording"));
    }
}

/* 2^48 bytes are 134 million granules, of which two may be shared: counting each took minutes. */
static void a_size_costs_no_time(void **state)
{
    (void)state;
    static const char text[] = HEAD "alloc 1200 0 c0 0 cuMemAlloc 7f0000000000 281474976710656\n";
    zr_recording_read r;
    zl_err err = {0};
    assert_int_equal(parse(text, &r, &err), ZL_OK);
    assert_true(r.meter.device[0].traced == (uint64_t)1 << 48);
    assert_int_equal(r.meter.device[0].granules.used, 2);
    zr_meter_release(&r.meter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_reaches_the_meter),
        cmocka_unit_test(an_unfinished_line_is_no_damage),
        cmocka_unit_test(a_lost_line_is_noticed),
        cmocka_unit_test(damage_is_refused_with_its_line),
        cmocka_unit_test(a_size_costs_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
