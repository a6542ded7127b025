/* A ledger beside a trace of the same run. */
#define _XOPEN_SOURCE 700 /* mkstemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "compare/trace.h"
#include "zeroledger/text.h"

#define PROCESS(pid, program, device, bytes)                                                       \
    "{\"pid\": " pid ", \"host\": \"h\", \"program\": \"" program "\", \"date\": 1, \"cuda\": "    \
    "13000, \"begin\": 0, \"end\": 9, \"complete\": true, \"allocations\": 1, \"releases\": 1, "   \
    "\"unknown_releases\": 0, \"devices\": [{\"device\": " device                                  \
    ", \"name\": \"g\", \"total\": 99, \"traced\": {\"end\": 0, \"peak\": " bytes                  \
    ", \"peak_time\": 3}, \"used_peak\": 9, \"owners\": [{\"owner\": \"" program                   \
    "\", \"call\": \"cuMemCreate\", \"end\": 0, \"peak\": " bytes ", \"at_peak\": " bytes          \
    ", \"live\": 0, \"made\": 1}], \"marks\": []}], \"elsewhere\": [], \"refused\": []}"

#define TRACE(processes)                                                                           \
    "{\"schema\": \"zeroledger.trace/1\", \"warm\": \"warm\", \"tolerance\": 0, \"processes\": "   \
    "[" processes "], \"findings\": []}"

static zl_status load(const char *text, uint64_t rank, zv_trace *out, zl_err *err)
{
    char path[] = P_tmpdir "/zv-trace-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(zl_file_write(path, text, strlen(text), NULL), ZL_OK);
    const zl_status status = zv_trace_load(path, rank, out, err);
    (void)close(fd);
    (void)unlink(path);
    return status;
}

static void the_process_of_a_rank_is_on_its_device(void **state)
{
    (void)state;
    static zv_trace t;
    zl_err err = {0};
    const char *const two = TRACE(PROCESS("7", "zl-train-cuda", "0", "10") "," PROCESS(
        "8", "zl-train-cuda", "1", "20") "," PROCESS("9", "python3", "1", "30"));
    assert_int_equal(load(two, 1, &t, &err), ZL_OK);
    assert_true(t.pid == 8 && t.device == 1 && t.peak == 20 && t.rows == 1);
    assert_true(t.row[0].peak == 20);
    assert_int_equal(load(two, 2, &t, &err), ZL_E_INPUT);
    assert_non_null(strstr(err.text, "none on GPU 2"));
}

/* One rank in loopback is on device 0, whatever its number. */
static void a_trainer_alone_needs_no_number(void **state)
{
    (void)state;
    static zv_trace t;
    zl_err err = {0};
    assert_int_equal(load(TRACE(PROCESS("7", "zl-train-cuda", "0", "10")), 5, &t, &err), ZL_OK);
    assert_true(t.pid == 7);
    assert_int_equal(load(TRACE(PROCESS("7", "python3", "0", "10")), 0, &t, &err), ZL_E_INPUT);
    assert_non_null(strstr(err.text, "no process of zl-train-cuda"));
}

static void another_file_is_refused(void **state)
{
    (void)state;
    static zv_trace t;
    zl_err err = {0};
    assert_int_equal(load("{\"schema\": \"zeroledger.run/1\"}", 0, &t, &err), ZL_E_INPUT);
    err = (zl_err){0};
    assert_int_equal(load("{\"schema\": \"zeroledger.trace/1\", \"more\": 1}", 0, &t, &err),
                     ZL_E_INPUT);
}

/* The arena is 20 bytes, of which 18 were granted at the peak. One byte asked for in another way is
 * one too many; what NCCL has, and code, is nobody's business here. */
static void the_arena_is_all_that_the_trainer_asks_for(void **state)
{
    (void)state;
    zl_err err = {0};
    zv_trace_verdict v;
    zl_ledger *const ledger = zl_ledger_new();
    assert_non_null(ledger);
    zv_trace t = {.rows = 3,
                  .row = {{.owner = "zl-train-cuda", .call = "cuMemCreate", .peak = 20},
                          {.owner = "libnccl.so.2", .call = "cuMemCreate", .peak = 500},
                          {.owner = "zl-train-cuda", .call = "cuLibraryLoadData", .peak = 7}}};
    assert_int_equal(zv_trace_judge(ledger, &t, &v, &err), ZL_E_INPUT); /* no witness */
    ledger->witness = (zl_witness){.present = true, .arena_reserved = 20};
    zl_cell *const cell = zl_ledger_cell(ledger, ZL_VISIT_STEADY, ZL_PHASE_BACKWARD);
    cell->present = true;
    cell->peak[ZL_GRANTED] = 18;
    assert_int_equal(zv_trace_judge(ledger, &t, &v, &err), ZL_OK);
    assert_true(v.arena == 20 && v.traced == 20 && v.past == 0 && v.granted == 18);
    assert_true(zv_trace_agrees(&v));
    t.row[0].peak = 21;
    assert_int_equal(zv_trace_judge(ledger, &t, &v, &err), ZL_OK);
    assert_false(zv_trace_agrees(&v));
    t.row[0].peak = 20;
    t.row[t.rows++] = (zv_owner){.owner = "zl-train-cuda", .call = "cuMemAllocAsync", .peak = 1};
    assert_int_equal(zv_trace_judge(ledger, &t, &v, &err), ZL_OK);
    assert_true(v.past == 1 && !zv_trace_agrees(&v));
    zl_ledger_free(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_process_of_a_rank_is_on_its_device),
        cmocka_unit_test(a_trainer_alone_needs_no_number),
        cmocka_unit_test(another_file_is_refused),
        cmocka_unit_test(the_arena_is_all_that_the_trainer_asks_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
