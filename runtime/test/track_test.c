/* The tracker's cells are what ledger.h defines, by hand-worked literals; misuse is caught. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "track/track.h"

static zr_track *new_track(zr_track_options options)
{
    zl_err err = {0};
    zr_track *track = NULL;
    assert_int_equal(zr_track_new(&options, &track, &err), ZL_OK);
    return track;
}

static zr_mem take(zr_track *track, zl_buf what, uint64_t bytes)
{
    zl_err err = {0};
    zr_mem mem = {0};
    assert_int_equal(zr_alloc(track, what, bytes, &mem, &err), ZL_OK);
    return mem;
}

static zr_mem take_touched(zr_track *track, zl_buf what, uint64_t bytes)
{
    const zr_mem mem = take(track, what, bytes);
    memset(mem.ptr, 0, (size_t)bytes);
    return mem;
}

static void leave(zr_track *track)
{
    zl_err err = {0};
    const zl_status status = zr_phase_leave(track, &err);
    if (status != ZL_OK) {
        fail_msg("%s", err.text);
    }
}

static zl_ledger *export_ledger(const zr_track *track)
{
    zl_err err = {0};
    zl_ledger *const ledger = zl_ledger_new();
    assert_non_null(ledger);
    assert_int_equal(zr_track_export(track, ledger, &err), ZL_OK);
    return ledger;
}

/* ------------------------------------------------------------------------------------- cells */

/*
 * Before: P 1000 (granted 1024).
 * In the phase   requested: qkv 600, attn 300, branch 200      live requested / granted
 *   enter                                                      1000 / 1024
 *   + qkv 600 (768)                                            1600 / 1792
 *   + attn 300 (512)                                           1900 / 2304   first peak, granted
 *   - attn                                                     1600 / 1792
 *   + branch 300 (512)                                         1900 / 2304   equal: not the first
 *   - qkv                                                      1300 / 1536
 *   + attn 700 (768)                                           2000 / 2304   requested peak only
 *   - branch, - attn                                           1000 / 1024
 */
static void cells_follow_the_definition(void **state)
{
    (void)state;
    zl_err err = {0};
    zr_track *const track = new_track((zr_track_options){0});
    zr_phase_enter(track, ZL_VISIT_COLD, ZL_PHASE_INIT);
    zr_mem param = take(track, ZL_BUF_PARAM_UNIT, 1000);
    leave(track);
    zr_phase_enter(track, ZL_VISIT_COLD, ZL_PHASE_FORWARD);
    zr_mem qkv = take(track, ZL_BUF_ACT_QKV, 600);
    zr_mem attn = take(track, ZL_BUF_ACT_ATTN, 300);
    zr_free(track, &attn);
    zr_mem branch = take(track, ZL_BUF_TEMP_BRANCH, 300);
    zr_free(track, &qkv);
    attn = take(track, ZL_BUF_ACT_ATTN, 700);
    zr_free(track, &branch);
    zr_free(track, &attn);
    assert_null(attn.ptr);
    leave(track);
    assert_int_equal(zr_track_live(track), 1024);
    assert_int_equal(zr_track_peak(track), 2304);

    zl_ledger *const ledger = export_ledger(track);
    const zl_cell *const cell = zl_ledger_at(ledger, ZL_VISIT_COLD, ZL_PHASE_FORWARD);
    assert_true(cell->present);
    assert_int_equal(cell->peak[ZL_REQUESTED], 2000);
    assert_int_equal(cell->peak[ZL_GRANTED], 2304);
    const zl_line *const line = cell->line;
    assert_int_equal(line[ZL_BUF_PARAM_UNIT].bytes[ZL_GRANTED].at_peak, 1024);
    assert_int_equal(line[ZL_BUF_PARAM_UNIT].bytes[ZL_GRANTED].end, 1024);
    assert_int_equal(line[ZL_BUF_ACT_QKV].bytes[ZL_GRANTED].at_peak, 768);
    assert_int_equal(line[ZL_BUF_ACT_QKV].bytes[ZL_REQUESTED].at_peak, 0);
    assert_int_equal(line[ZL_BUF_ACT_QKV].bytes[ZL_REQUESTED].max, 600);
    assert_int_equal(line[ZL_BUF_ACT_ATTN].bytes[ZL_GRANTED].at_peak, 512);
    assert_int_equal(line[ZL_BUF_ACT_ATTN].bytes[ZL_REQUESTED].at_peak, 700);
    assert_int_equal(line[ZL_BUF_ACT_ATTN].bytes[ZL_GRANTED].max, 768);
    assert_int_equal(line[ZL_BUF_TEMP_BRANCH].bytes[ZL_REQUESTED].at_peak, 300);
    assert_int_equal(line[ZL_BUF_TEMP_BRANCH].bytes[ZL_GRANTED].at_peak, 0);
    assert_int_equal(line[ZL_BUF_TEMP_BRANCH].bytes[ZL_REQUESTED].end, 0);
    /* qkv 600 and attn 300 together beat attn 700 alone. */
    assert_int_equal(cell->kind_max[ZL_KIND_ACT][ZL_REQUESTED], 900);
    assert_int_equal(cell->kind_max[ZL_KIND_ACT][ZL_GRANTED], 1280);
    assert_int_equal(cell->kind_max[ZL_KIND_TEMP][ZL_REQUESTED], 300);
    assert_int_equal(zl_ledger_at(ledger, ZL_VISIT_COLD, ZL_PHASE_INIT)->peak[ZL_REQUESTED], 1000);
    assert_false(zl_ledger_at(ledger, ZL_VISIT_COLD, ZL_PHASE_BACKWARD)->present);
    assert_int_equal(ledger->granule, 256);
    assert_int_equal(ledger->origin, ZL_ORIGIN_MEASURED);
    assert_int_equal(ledger->witness.arena_reserved, 2097152);
    assert_int_equal(zl_ledger_check(ledger, &err), ZL_OK);
    zl_ledger_free(ledger);
    zr_free(track, &param);
    zr_track_free(track);
}

/* The entry counts: a phase that only frees has its peak at its beginning. */
static void a_peak_includes_the_entry(void **state)
{
    (void)state;
    zr_track *const track = new_track((zr_track_options){0});
    zr_mem a = take(track, ZL_BUF_ACT_QKV, 100);
    zr_mem b = take(track, ZL_BUF_ACT_MID, 300);
    zr_phase_enter(track, ZL_VISIT_STEADY, ZL_PHASE_STEP);
    zr_free(track, &b);
    zr_mem c = take(track, ZL_BUF_ACT_QKV, 200);
    leave(track);
    zl_ledger *const ledger = export_ledger(track);
    const zl_cell *const cell = zl_ledger_at(ledger, ZL_VISIT_STEADY, ZL_PHASE_STEP);
    assert_int_equal(cell->peak[ZL_REQUESTED], 400);
    assert_int_equal(cell->peak[ZL_GRANTED], 768);
    assert_int_equal(cell->line[ZL_BUF_ACT_MID].bytes[ZL_REQUESTED].at_peak, 300);
    assert_int_equal(cell->line[ZL_BUF_ACT_MID].bytes[ZL_REQUESTED].max, 300);
    assert_int_equal(cell->line[ZL_BUF_ACT_MID].bytes[ZL_REQUESTED].end, 0);
    assert_int_equal(cell->line[ZL_BUF_ACT_QKV].bytes[ZL_REQUESTED].max, 300);
    assert_int_equal(cell->line[ZL_BUF_ACT_QKV].bytes[ZL_REQUESTED].at_peak, 100);
    assert_int_equal(cell->line[ZL_BUF_ACT_QKV].bytes[ZL_GRANTED].end, 512);
    zl_ledger_free(ledger);
    zr_free(track, &a);
    zr_free(track, &c);
    zr_track_free(track);
}

static void a_cell_that_differs_is_caught(void **state)
{
    (void)state;
    zl_err err = {0};
    zr_track *const track = new_track((zr_track_options){0});
    for (int step = 0; step < 3; step++) {
        zr_phase_enter(track, ZL_VISIT_STEADY, ZL_PHASE_BACKWARD);
        /* 4097 and 4098 bytes are both granted 4352: only the requested rung can tell. */
        zr_mem mem = take(track, ZL_BUF_TEMP_DFFN, step < 2 ? 4097 : 4098);
        zr_free(track, &mem);
        if (step < 2) {
            leave(track);
        }
    }
    assert_int_equal(zr_phase_leave(track, &err), ZL_E_BUG);
    assert_non_null(strstr(err.text, "backward (steady) does not repeat"));
    assert_non_null(strstr(err.text, "temp.dffn"));
    assert_non_null(strstr(err.text, "was 4097 bytes at first and is 4098 now"));
    zr_track_free(track);
}

/* ------------------------------------------------------------------------ cap, poison, misuse */

static void a_cap_limits_granted_bytes(void **state)
{
    (void)state;
    zl_err err = {0};
    zr_track *const track = new_track((zr_track_options){.cap = 5000});
    zr_phase_enter(track, ZL_VISIT_COLD, ZL_PHASE_FORWARD);
    zr_mem a = take(track, ZL_BUF_ACT_LN1, 3900); /* granted 4096, 904 left */
    zr_mem b = {0};
    assert_int_equal(zr_alloc(track, ZL_BUF_ACT_QKV, 897, &b, &err), ZL_E_RESOURCE);
    assert_string_equal(err.text, "out of memory: buffer act.qkv in forward (cold): requested 897 "
                                  "bytes, 904 available under the cap of 5000");
    assert_null(b.ptr);
    b = take(track, ZL_BUF_ACT_QKV, 768); /* granted 768: fits */
    zr_free(track, &a);
    zr_free(track, &b);
    leave(track);
    zr_track_free(track);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    zl_err err = {0};
    zr_track *const track = new_track((zr_track_options){0});
    zr_mem mem = {0};
    assert_int_equal(zr_alloc(track, ZL_BUF_ACT_QKV, 0, &mem, &err), ZL_E_BUG);
    err = (zl_err){0};
    const uint64_t huge = ZR_SHAPE(ZL_F32, UINT64_MAX / 2, 4);
    assert_int_equal(zr_alloc(track, ZL_BUF_ACT_QKV, huge, &mem, &err), ZL_E_BUG);
    err = (zl_err){0};
    assert_int_equal(zr_alloc(track, ZL_BUF_ACT_QKV, (uint64_t)1 << 60, &mem, &err), ZL_E_RESOURCE);
    assert_non_null(strstr(err.text, "available on this machine"));
    /* A refusal leaves everything as it was. */
    assert_int_equal(zr_track_live(track), 0);
    mem = take_touched(track, ZL_BUF_ACT_QKV, 10);
    zr_free(track, &mem);
    zr_track_free(track);
}

static void expect_misuse(zr_track *track, const char *text)
{
    zl_err err = {0};
    assert_int_equal(zr_phase_leave(track, &err), ZL_E_BUG);
    if (strstr(err.text, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", err.text, text);
    }
    zr_track_free(track);
}

static void poison_catches_an_untouched_buffer(void **state)
{
    (void)state;
    zr_track *const track = new_track((zr_track_options){.poison = true});
    zr_phase_enter(track, ZL_VISIT_COLD, ZL_PHASE_FORWARD);
    zr_mem touched = take_touched(track, ZL_BUF_ACT_LN1, 1000);
    zr_free(track, &touched);
    zr_mem mem = take(track, ZL_BUF_ACT_LN2, 1000);
    float first;
    memcpy(&first, mem.ptr, sizeof(first));
    assert_true(first != first); /* fresh memory is NaN */
    zr_free(track, &mem);
    expect_misuse(track, "buffer act.ln2 was freed untouched in forward (cold)");
}

static void poison_catches_a_write_beyond_the_end(void **state)
{
    (void)state;
    zr_track *const track = new_track((zr_track_options){.poison = true});
    zr_phase_enter(track, ZL_VISIT_COLD, ZL_PHASE_FORWARD);
    zr_mem mem = take_touched(track, ZL_BUF_ACT_LN1, 1000);
    ((unsigned char *)mem.ptr)[1000] = 0;
    zr_free(track, &mem);
    expect_misuse(track, "buffer act.ln1 was written beyond its end");
}

static void a_second_free_is_caught(void **state)
{
    (void)state;
    zr_track *const track = new_track((zr_track_options){0});
    zr_phase_enter(track, ZL_VISIT_COLD, ZL_PHASE_BACKWARD);
    zr_mem mem = take(track, ZL_BUF_TEMP_DLN, 1000);
    zr_mem copy = mem;
    zr_free(track, &mem);
    zr_free(track, &mem); /* reset by the first: nothing happens */
    zr_free(track, &copy);
    expect_misuse(track, "buffer temp.dln was freed twice");
}

/* --------------------------------------------------------------------------- growth, witness */

/* Forward and backward of a cold step need 10 MiB for a while, and its update leaves 4 MiB of
 * states. */
static void step_of(zr_track *track, zl_visit visit, zr_mem *states)
{
    const uint64_t mib = 1048576;
    zr_phase_enter(track, visit, ZL_PHASE_FORWARD);
    zr_mem act = take(track, ZL_BUF_ACT_QKV, 7 * mib);
    zr_mem grad = take(track, ZL_BUF_GRAD_UNIT, 3 * mib);
    zr_free(track, &act);
    leave(track);
    zr_phase_enter(track, visit, ZL_PHASE_STEP);
    if (visit == ZL_VISIT_COLD) {
        *states = take(track, ZL_BUF_OPT_EXP_AVG, 4 * mib);
    }
    zr_free(track, &grad);
    leave(track);
}

static void no_growth_after_the_cold_step(void **state)
{
    (void)state;
    zr_track *const track = new_track((zr_track_options){0});
    zr_mem states = {0};
    zr_phase_enter(track, ZL_VISIT_COLD, ZL_PHASE_INIT);
    zr_mem param = take(track, ZL_BUF_PARAM_UNIT, 1048576);
    leave(track);
    step_of(track, ZL_VISIT_COLD, &states);
    for (int i = 0; i < 3; i++) {
        step_of(track, ZL_VISIT_STEADY, &states);
    }
    assert_int_equal(zr_track_late_growth(track), 0);
    zr_mem more = take(track, ZL_BUF_ACT_QKV, (uint64_t)64 << 20);
    assert_true(zr_track_late_growth(track) > 0);
    zr_free(track, &more);
    zr_free(track, &param);
    zr_free(track, &states);
    zr_track_free(track);
}

static void the_witness_sees_pages_and_strangers(void **state)
{
    (void)state;
    zl_err err = {0};
    zr_track *const track = new_track((zr_track_options){0});
    zr_mem mem = take(track, ZL_BUF_ACT_QKV, (uint64_t)8 << 20);
    assert_int_equal(zr_track_mark(track, false, &err), ZL_OK);
    zl_ledger *ledger = export_ledger(track);
    assert_int_equal(ledger->witness.arena_resident, 0); /* nobody has written yet */
    zl_ledger_free(ledger);
    memset(mem.ptr, 1, (size_t)mem.bytes);
    void *volatile cold = calloc(1, 300000); /* volatile: a compiler may leave out unused memory */
    assert_int_equal(zr_track_mark(track, false, &err), ZL_OK);
    assert_int_equal(zr_track_mark(track, true, &err), ZL_OK);
    void *volatile stranger = calloc(1, 3000000);
    assert_int_equal(zr_track_mark(track, true, &err), ZL_OK);
    ledger = export_ledger(track);
    assert_int_equal(ledger->witness.arena_resident, 8388608);
    const zl_witness seen = ledger->witness;
    zl_ledger_free(ledger);
    free(stranger);
    free(cold);
    zr_free(track, &mem);
    zr_track_free(track);
    if (!seen.present) {
        print_message("the C library does not count its heap here (sanitizer)\n");
        assert_int_equal(seen.outside_cold, 0);
        assert_int_equal(seen.outside_steady, 0);
        return;
    }
    assert_in_range(seen.outside_cold, 300000, 700000);
    assert_in_range(seen.outside_steady, 3000000, 3100000);
}

static void the_beacon_tells_a_watcher(void **state)
{
    (void)state;
    volatile uint32_t beacon = 0;
    zr_track *const track = new_track((zr_track_options){.beacon = &beacon});
    zr_phase_enter(track, ZL_VISIT_STEADY, ZL_PHASE_REDUCE);
    assert_int_equal(beacon >> 8, ZL_VISIT_STEADY);
    assert_int_equal((beacon & 255) - 1, ZL_PHASE_REDUCE);
    leave(track);
    zr_track_free(track);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_follow_the_definition),
        cmocka_unit_test(a_peak_includes_the_entry),
        cmocka_unit_test(a_cell_that_differs_is_caught),
        cmocka_unit_test(a_cap_limits_granted_bytes),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(poison_catches_an_untouched_buffer),
        cmocka_unit_test(poison_catches_a_write_beyond_the_end),
        cmocka_unit_test(a_second_free_is_caught),
        cmocka_unit_test(no_growth_after_the_cold_step),
        cmocka_unit_test(the_witness_sees_pages_and_strangers),
        cmocka_unit_test(the_beacon_tells_a_watcher),
    };
    return cmocka_run_group_tests_name("track", tests, NULL, NULL);
}
