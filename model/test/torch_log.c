/* Logs: figures with their rounding, out-of-memory messages in all wordings, everything else that
 * is understood, the mapping to the walk, and texts that are cut, mixed and random. */
#include "base_test.h"

#include "torch/log_compare.h"

#define GIB UINT64_C(1073741824)
#define MIB UINT64_C(1048576)

/* ---- figures ---- */

static zt_printed number(const char *text, uint64_t unit, zt_rounding rounding)
{
    zt_printed figure = {0};
    zt_cursor c = {text, strlen(text)};
    assert_true(zt_take_number(&c, unit, rounding, &figure));
    return figure;
}

static void a_figure_stands_for_what_rounds_to_it(void **state)
{
    (void)state;
    /* 7.5 of round(x, 2) is 7.495 .. 7.505 GiB: 8047694970.9 and 8058432389.1 bytes. */
    const zt_printed two = number("7.5", GIB, ZT_TWO_DECIMALS);
    assert_int_equal(two.low, 8047694971);
    assert_int_equal(two.high, 8058432389);
    assert_int_equal(two.nominal, 8053063680);
    /* 7.5 as written is 7.45 .. 7.55 GiB. */
    const zt_printed one = number("7.5", GIB, ZT_AS_WRITTEN);
    assert_int_equal(one.low, 7999376589);
    assert_int_equal(one.high, 8106750771);
    /* 4 without decimals is 3.5 .. 4.5 GiB, 0 is 0 .. 0.5. */
    assert_int_equal(number("4", GIB, ZT_AS_WRITTEN).low, 7 * GIB / 2);
    assert_int_equal(number("0", GIB, ZT_AS_WRITTEN).low, 0);
    assert_int_equal(number("0", GIB, ZT_AS_WRITTEN).high, GIB / 2);
    /* Rounded down: 3 MiB is 3 .. 4 MiB - 1. */
    assert_int_equal(number("3", MIB, ZT_DOWN).low, 3 * MIB);
    assert_int_equal(number("3", MIB, ZT_DOWN).high, 4 * MIB - 1);
    assert_int_equal(zt_off_by(&two, 8053063680), 0);
    assert_int_equal(zt_off_by(&two, 8047694970), 1);
    assert_int_equal(zt_off_by(&two, 8058432397), -8);
}

/* Hundredths of a GiB. */
static uint64_t hundredths(const zt_printed *figure)
{
    return (figure->nominal * 100 + GIB / 2) / GIB;
}

static bool takes_bytes(const char *text, uint64_t low, uint64_t high)
{
    zt_printed figure = {0};
    zt_cursor c = {text, strlen(text)};
    return zt_take_bytes(&c, ZT_AS_WRITTEN, &figure) && figure.low == low && figure.high == high;
}

static void units_are_binary_and_bytes_exact(void **state)
{
    (void)state;
    assert_true(takes_bytes("512 bytes", 512, 512));
    assert_true(takes_bytes("512 B", 512, 512));
    assert_true(takes_bytes("2.00 MiB", 2091910, 2102394)); /* 1.995, 2.005 MiB */
    assert_true(takes_bytes("1 KB", 512, 1536));
    zt_printed figure;
    static const char *const refused[] = {
        "", "GiB", "3", "3 ", "3 Gi", "3 parsecs", "-3 GiB", "99999999999999999999 GiB"};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        zt_cursor c = {refused[i], strlen(refused[i])};
        assert_false(zt_take_bytes(&c, ZT_AS_WRITTEN, &figure));
        assert_ptr_equal(c.at, refused[i]);
    }
}

/* ---- out of memory ---- */

static zt_oom decoded(const char *text)
{
    zt_oom oom = {0};
    zt_cursor c = {text, strlen(text)};
    assert_true(zt_oom_find(&c, &oom));
    return oom;
}

static void the_wording_of_1_0(void **state)
{
    (void)state;
    const zt_oom oom = decoded("RuntimeError: CUDA out of memory. Tried to allocate 12.50 MiB "
                               "(GPU 3; 10.92 GiB total capacity; 8.57 MiB already allocated; "
                               "9.28 GiB free; 4.68 MiB cached)");
    assert_int_equal(oom.wording, ZT_OOM_CACHED);
    assert_int_equal(oom.device, 3);
    assert_int_equal(oom.asked.nominal, 25 * MIB / 2);
    assert_true(zt_oom_asks_for(&oom, 25 * MIB / 2 - 100)); /* granules of 128 KiB */
    assert_false(zt_oom_asks_for(&oom, 13 * MIB));
    assert_int_equal(zt_oom_cause_of(&oom), ZT_OOM_LIMIT);
}

static void the_wording_of_1_4(void **state)
{
    (void)state;
    const zt_oom oom = decoded(
        "Tried to allocate 1.69 GiB (GPU 0; 14.56 GiB total capacity; 649.97 MiB already "
        "allocated;\n 1.31 GiB free; 1.01 GiB reserved in total by PyTorch) If reserved memory is "
        ">> allocated memory try setting max_split_size_mb");
    assert_int_equal(oom.wording, ZT_OOM_RESERVED);
    /* 1.01 GiB - 649.97 MiB = 384.27 MiB */
    assert_int_equal(oom.unallocated.nominal / MIB, 384);
    /* 1.31 GiB + 0.375 GiB = 1.685 GiB */
    assert_int_equal(zt_oom_cause_of(&oom), ZT_OOM_CAPACITY);
}

static void the_wording_of_2_1(void **state)
{
    (void)state;
    const zt_oom oom = decoded(
        "Tried to allocate 3.00 GiB. GPU 1 has a total capacty of 23.65 GiB of which 1.66 GiB is "
        "free. Process 71 has 512.00 MiB memory in use. Process 72 has 1.50 GiB memory in use. "
        "Including non-PyTorch memory, this process has 20.81 GiB memory in use. Of the allocated "
        "memory 12.09 GiB is allocated by PyTorch, and 4.84 GiB is reserved by PyTorch but "
        "unallocated. If reserved but unallocated memory is large try setting");
    assert_int_equal(oom.wording, ZT_OOM_UNALLOCATED);
    assert_int_equal(oom.device, 1);
    assert_int_equal(oom.processes, 2);
    assert_int_equal(oom.others.nominal, 2 * GIB);
    assert_int_equal(hundredths(&oom.own), 2081);
    assert_int_equal(hundredths(&oom.reserved), 1693);
    assert_int_equal(zt_oom_cause_of(&oom), ZT_OOM_FRAGMENTATION);
}

static void limits_and_private_pools(void **state)
{
    (void)state;
    const zt_oom oom = decoded(
        "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 40.00 GiB is "
        "free. Including non-PyTorch memory, this process has 39.00 GiB memory in use. 39.50 GiB "
        "allowed; Of the allocated memory 38.00 GiB is allocated by PyTorch, with 1.25 GiB "
        "allocated in private pools (e.g., CUDA Graphs), and 10.00 MiB is reserved by PyTorch but "
        "unallocated.");
    assert_int_equal(oom.allowed.nominal, 79 * GIB / 2);
    assert_int_equal(oom.allocated.nominal, 38 * GIB);
    assert_int_equal(oom.private_pools.nominal, 5 * GIB / 4);
    assert_int_equal(zt_oom_cause_of(&oom), ZT_OOM_LIMIT);
}

static void the_wording_of_cuda_malloc_async(void **state)
{
    (void)state;
    const zt_oom open = decoded(
        "torch.OutOfMemoryError: Allocation on device 2 would exceed allowed memory. (out of "
        "memory)\nCurrently allocated     : 9.43 GiB\nRequested               : 640.00 MiB\n"
        "Device limit            : 11.59 GiB\nFree (according to CUDA): 7.12 MiB\n"
        "PyTorch limit (set by user-supplied memory fraction)\n"
        "                        : 17179869184.00 GiB\n");
    assert_int_equal(open.wording, ZT_OOM_ASYNC);
    assert_int_equal(open.device, 2);
    assert_int_equal(hundredths(&open.allocated), 943);
    assert_int_equal(hundredths(&open.total), 1159);
    assert_false(open.allowed.present);
    assert_true(zt_oom_asks_for(&open, 640 * MIB)); /* the tensor, not a segment */
    assert_false(zt_oom_asks_for(&open, 639 * MIB));
    assert_int_equal(zt_oom_cause_of(&open), ZT_OOM_UNKNOWN);
    const zt_oom full = decoded(
        "Allocation on device 0 would exceed allowed memory. (out of memory) Currently allocated "
        ": 11.43 GiB Requested : 640.00 MiB Device limit : 11.59 GiB Free (according to CUDA): "
        "7.12 MiB PyTorch limit (set by user-supplied memory fraction) : 17179869184.00 GiB");
    assert_int_equal(zt_oom_cause_of(&full), ZT_OOM_CAPACITY);
    const zt_oom limited = decoded(
        "Allocation on device 0 would exceed allowed memory. (out of memory) Currently allocated "
        ": 5.43 GiB Requested : 640.00 MiB Device limit : 11.59 GiB Free (according to CUDA): "
        "5.12 GiB PyTorch limit (set by user-supplied memory fraction) : 5.79 GiB");
    assert_int_equal(zt_oom_cause_of(&limited), ZT_OOM_LIMIT);
    const zt_oom other = decoded("Allocation on device 0 is fine. Requested : 1.00 GiB");
    assert_false(other.asked.present);
}

static void the_wording_of_the_host(void **state)
{
    (void)state;
    const zt_oom oom =
        decoded("RuntimeError: [enforce fail at alloc_cpu.cpp:83] err == 0. DefaultCPUAllocator: "
                "can't allocate memory: you tried to allocate 4294967296 bytes. Error code 12");
    assert_int_equal(oom.wording, ZT_OOM_HOST);
    assert_int_equal(oom.asked.low, 4 * GIB);
    assert_int_equal(oom.asked.high, 4 * GIB);
    assert_false(zt_oom_asks_for(&oom, 4 * GIB)); /* no buffer of a GPU */
}

static void causes(void **state)
{
    (void)state;
    const zt_oom full = decoded(
        "Tried to allocate 786.00 MiB. GPU 0 has a total capacity of 47.50 GiB of which 3.00 MiB "
        "is free. Of the allocated memory 46.90 GiB is allocated by PyTorch, and 12.00 MiB is "
        "reserved by PyTorch but unallocated.");
    assert_int_equal(zt_oom_cause_of(&full), ZT_OOM_CAPACITY);
    const zt_oom huge = decoded("Tried to allocate 130206.04 GiB. GPU 0 has a total capacity of "
                                "23.56 GiB of which 16.57 GiB is free.");
    assert_int_equal(zt_oom_cause_of(&huge), ZT_OOM_IMPOSSIBLE);
    const zt_oom bare = decoded("Tried to allocate 3.14 GiB");
    assert_int_equal(bare.wording, ZT_OOM_BARE);
    assert_int_equal(zt_oom_cause_of(&bare), ZT_OOM_UNKNOWN);
    const zt_oom endless = decoded("Tried to allocate more than 1EB memory.");
    assert_false(endless.asked.present);
}

static void a_size_is_that_of_a_segment(void **state)
{
    (void)state;
    /* kSmallBuffer, kLargeBuffer, kRoundLarge */
    assert_int_equal(zt_segment_bytes(1), 2 * MIB);
    assert_int_equal(zt_segment_bytes(MIB), 2 * MIB);
    assert_int_equal(zt_segment_bytes(MIB + 1), 20 * MIB);
    assert_int_equal(zt_segment_bytes(10 * MIB - 512), 20 * MIB);
    assert_int_equal(zt_segment_bytes(10 * MIB), 10 * MIB);
    assert_int_equal(zt_segment_bytes(10 * MIB + 1), 12 * MIB);
    const zt_oom small = decoded("Tried to allocate 2.00 MiB");
    assert_true(zt_oom_asks_for(&small, 1));
    assert_true(zt_oom_asks_for(&small, MIB));
    assert_false(zt_oom_asks_for(&small, MIB + 1));
    assert_false(zt_oom_asks_for(&small, 0));
}

/* ---- logs ---- */

static zt_log read_log(const char *text)
{
    zt_log log = {0};
    zl_err err = {0};
    assert_ok(zt_log_read(text, strlen(text), &log, &err), &err);
    return log;
}

/* One see_memory_usage of 4.0, 4.28, 4.06, 5 GiB under this message. */
static void assert_usage(const char *text, const char *message, uint64_t line)
{
    zt_log log = read_log(text);
    assert_int_equal(log.count, 1);
    assert_int_equal(log.sighting->source, ZT_SEE_MEMORY_USAGE);
    assert_string_equal(log.sighting->message, message);
    assert_int_equal(log.sighting->line, line);
    assert_int_equal(log.sighting->figure[ZT_ALLOCATED].nominal, 4 * GIB);
    assert_int_equal(hundredths(&log.sighting->figure[ZT_PEAK_ALLOCATED]), 428);
    assert_int_equal(hundredths(&log.sighting->figure[ZT_RESERVED]), 406);
    assert_int_equal(log.sighting->figure[ZT_PEAK_RESERVED].low, 9 * GIB / 2);
    assert_int_equal(log.sighting->figure[ZT_PEAK_RESERVED].high, 11 * GIB / 2);
    zt_log_release(&log);
}

#define USAGE "MA 4.0 GB         Max_MA 4.28 GB         CA 4.06 GB         Max_CA 5 GB "

static void see_memory_usage_of_every_release(void **state)
{
    (void)state;
    assert_usage("Engine after forward\n" USAGE "\n", "Engine after forward", 2);
    assert_usage(
        "x\n[2026-11-30 03:07:34,742] [INFO] [utils.py:781:see_memory_usage] Engine "
        "after forward\n[2026-11-30 03:07:34,743] [INFO] [utils.py:782:see_memory_usage] " USAGE
        "\n[2026-11-30 03:07:34,743] [INFO] [utils.py:789:see_memory_usage] CPU "
        "Virtual Memory:  used = 2.85 GB, percent = 1.1%\n",
        "Engine after forward", 3);
    /* pdsh puts the host in front */
    assert_usage("worker-1: [2026-11-30 03:07:34,742] [INFO] [utils.py:781:see_memory_usage] "
                 "initialize [end]\nworker-1: [2026-11-30 03:07:34,743] [INFO] "
                 "[utils.py:782:see_memory_usage] " USAGE,
                 "initialize [end]", 2);
    /* wrapped by a terminal, carriage returns, collapsed by an issue tracker */
    assert_usage("[2026-11-30 03:07:34,742] [INFO] [utils.py:781:see_memory_usage] Engine\nafter "
                 "forward\n[2026-11-30 03:07:34,743] [INFO]\n[utils.py:782:see_memory_usage] MA "
                 "4.0 GB\nMax_MA 4.28\nGB CA 4.06 GB Max_CA 5 GB",
                 "Engine after forward", 4);
    assert_usage("Engine after forward\r\n" USAGE "\r\n", "Engine after forward", 2);
    assert_usage("[2021-04-01 03:07:34,742] [INFO] [utils.py:5:see_memory_usage] after backward "
                 "[2021-04-01 03:07:34,743] [INFO] [utils.py:6:see_memory_usage] MA 4.0 GB Max_MA "
                 "4.28 GB CA 4.06 GB Max_CA 5 GB",
                 "after backward", 1);
    assert_usage(USAGE, "", 1);
}

static void host_memory_belongs_to_the_figures_above(void **state)
{
    (void)state;
    zt_log log = read_log("CPU Virtual Memory:  used = 1.0 GB, percent = 1.1%\nEngine after "
                          "step\n" USAGE "\nCPU Virtual Memory:  used = 2.85 GB, percent = 1.1%\n");
    assert_int_equal(log.count, 1);
    assert_int_equal(hundredths(&log.sighting->figure[ZT_HOST_USED]), 285);
    assert_string_equal(log.sighting->message, "Engine after step");
    zt_log_release(&log);
}

static void see_memory_usage_before_0_3_10(void **state)
{
    (void)state;
    zt_log log = read_log("[2020-08-01 10:00:00,000] [INFO] [utils.py:1:see_memory_usage] before "
                          "forward 0\nMemory Allocated 1.5 GigaBytes \nMax Memory Allocated 2.25 "
                          "GigaBytes\nCache Allocated 3.0 GigaBytes\nMax cache Allocated 3.5 "
                          "GigaBytes\n");
    assert_int_equal(log.count, 1);
    assert_int_equal(log.sighting->source, ZT_GIGABYTES);
    assert_string_equal(log.sighting->message, "before forward 0");
    assert_int_equal(log.sighting->figure[ZT_ALLOCATED].nominal, 3 * GIB / 2);
    assert_int_equal(log.sighting->figure[ZT_PEAK_ALLOCATED].nominal, 9 * GIB / 4);
    assert_int_equal(log.sighting->figure[ZT_RESERVED].nominal, 3 * GIB);
    assert_int_equal(log.sighting->figure[ZT_PEAK_RESERVED].nominal, 7 * GIB / 2);
    zt_log_release(&log);
}

static void throughput_timers(void **state)
{
    (void)state;
    zt_log log =
        read_log("epoch=0/micro_step=30/global_step=3, RunningAvgSamplesPerSec=1.5, "
                 "CurrSamplesPerSec=2.5, MemAllocated=3.5GB, MaxMemAllocated=4.44GB\n"
                 "0/10, SamplesPerSec=20.5, MemAllocated=3.5GB, MaxMemAllocated=4.44GB\n"
                 "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536\n");
    assert_int_equal(log.count, 3);
    assert_int_equal(log.sighting[0].number, 3);
    assert_int_equal(log.sighting[1].number, 10);
    assert_int_equal(log.sighting[1].figure[ZT_ALLOCATED].nominal, 7 * GIB / 2);
    assert_int_equal(log.sighting[2].source, ZT_OVERFLOW);
    zt_log_release(&log);
}

static void memory_summaries(void **state)
{
    (void)state;
    zt_log log =
        read_log("|===========================================================================|\n"
                 "|                  PyTorch CUDA memory summary, device ID 1                 |\n"
                 "|---------------------------------------------------------------------------|\n"
                 "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n"
                 "| Allocated memory      |   5624 MiB |   5673 MiB |  22536 MiB |  16911 MiB |\n"
                 "|       from large pool |   5543 MiB |   5589 MiB |   8875 MiB |   3332 MiB |\n"
                 "| Requested memory      | 184648 KiB |   5670 MiB |  22536 MiB |  16911 MiB |\n"
                 "| GPU reserved memory   |   6144 MB  |   6200 MB  |  22536 MB  |  16911 MB  |\n"
                 "| Tried to do nothing   |\n");
    assert_int_equal(log.count, 1);
    const zt_sighting *s = log.sighting;
    assert_int_equal(s->number, 1);
    assert_int_equal(s->figure[ZT_ALLOCATED].low, 5624 * MIB);
    assert_int_equal(s->figure[ZT_ALLOCATED].high, 5625 * MIB - 1);
    assert_int_equal(s->figure[ZT_PEAK_ALLOCATED].low, 5673 * MIB);
    assert_int_equal(s->figure[ZT_REQUESTED].low, 184648 * 1024);
    assert_int_equal(s->figure[ZT_RESERVED].low, 6144 * MIB);
    assert_int_equal(s->figure[ZT_PEAK_RESERVED].low, 6200 * MIB);
    zt_log_release(&log);
}

static void nvidia_smi_tables(void **state)
{
    (void)state;
    zt_log log = read_log("timestamp, index, memory.used [MiB], memory.total [MiB]\n"
                          "2026/11/30 03:00:00.000, 0, 1000 MiB, 81559 MiB\n"
                          "2026/11/30 03:00:00.000, 1, 900 MiB, 81559 MiB\n"
                          "2026/11/30 03:00:01.000, 0, 5000 MiB, 81559 MiB\n"
                          "2026/11/30 03:00:01.000, 0, 4000 MiB, 81559 MiB\nend\n");
    assert_int_equal(log.count, 2);
    assert_int_equal(log.sighting[0].figure[ZT_DEVICE_USED].low, 5000 * MIB);
    assert_int_equal(log.sighting[1].number, 1);
    assert_int_equal(log.sighting[1].figure[ZT_DEVICE_USED].high, 901 * MIB - 1);
    zt_log_release(&log);
}

static void nvidia_smi_tables_without_header(void **state)
{
    (void)state;
    zt_log log = read_log("2026/11/30 03:00:00.000, 3, 1000 MiB, 30 %\n"
                          "2026/11/30 03:00:01.000, 3, 1200 MiB, 31 %\n\n");
    assert_int_equal(log.count, 1);
    assert_int_equal(log.sighting->number, 3);
    assert_int_equal(log.sighting->figure[ZT_DEVICE_USED].low, 1200 * MIB);
    zt_log_release(&log);
    log = read_log("12000 MiB\r\n");
    assert_int_equal(log.count, 1);
    zt_log_release(&log);
    static const char *const others[] = {"0, 12000 MiB, 81559 MiB\n", "0, 12000\n",
                                         "0, 12000 MiB\nend of the run\n"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        zl_err err = {.status = ZL_OK};
        assert_int_equal(zt_log_read(others[i], strlen(others[i]), &log, &err), ZL_E_INPUT);
    }
}

static void snapshots(void **state)
{
    (void)state;
    zt_log log = read_log("{\"segments\": [{\"device\": 0, \"total_size\": 2097152, "
                          "\"allocated_size\": 1024, \"requested_size\": 1000}, {\"device\": 0, "
                          "\"total_size\": 20971520, \"allocated_size\": 512}, {\"device\": 1, "
                          "\"total_size\": 7}], \"device_traces\": []}");
    assert_int_equal(log.count, 1);
    assert_int_equal(log.sighting->source, ZT_SNAPSHOT);
    assert_int_equal(log.sighting->figure[ZT_RESERVED].low, 22 * MIB);
    assert_int_equal(log.sighting->figure[ZT_ALLOCATED].high, 1536);
    assert_int_equal(log.sighting->figure[ZT_REQUESTED].low, 1000);
    zt_log_release(&log);
    log = read_log("[{\"device\": 0, \"total_size\": 2097152, \"allocated_size\": 1024}]");
    assert_int_equal(log.count, 1);
    assert_int_equal(log.sighting->figure[ZT_ALLOCATED].low, 1024);
    zt_log_release(&log);
    zl_err err = {.status = ZL_OK};
    assert_int_equal(zt_log_read("\x80\x04}.", 4, &log, &err), ZL_E_INPUT);
    assert_non_null(strstr(err.text, "a pickle; write it as JSON"));
}

static void nothing_recognised_says_what_would_be(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "hello\n",
                                        "MAMA MA MA 3 Max_MA",
                                        "{\"segments\": []}",
                                        "memory.used\n",
                                        "memory summary, device ID 0 |"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        zt_log log = {0};
        zl_err err = {0};
        assert_error(zt_log_read(texts[i], strlen(texts[i]), &log, &err), &err, ZL_E_INPUT,
                     "see_memory_usage");
    }
}

/* Every beginning of it, and every byte of it replaced: no crash, and no reading past the end,
 * which the copy of exact size shows to sanitizers. */
static void cut_and_spoilt_logs_do_no_harm(void **state)
{
    (void)state;
    static const char text[] =
        "h: [2026-11-30 03:07:34,743] [INFO] [utils.py:782:see_memory_usage] " USAGE
        "\nCPU Virtual Memory:  used = 2.85 GB, percent = 1.1%\nglobal_step=3, MemAllocated=3.5GB, "
        "MaxMemAllocated=4.44GB\nTried to allocate 3.00 GiB. GPU 1 has a total capacty of 23.65 "
        "GiB of which 1.66 GiB is free. Process 71 has 512.00 MiB memory in use. Of the allocated "
        "memory 12.09 GiB is allocated by PyTorch, and 4.84 GiB is reserved by PyTorch but "
        "unallocated.\nOVERFLOW! Rank 0 Skipping step.\nindex, memory.used [MiB]\n0, 3 MiB\nmemory "
        "summary, device ID 0\n| Allocated memory      |   5624 MiB |   5673 MiB |\nMemory "
        "Allocated 1.5 GigaBytes\nCache Allocated 1 GigaBytes";
    static const char bytes[] = {'\0', '\n', '9', ' ', (char)0xff, '{', ','};
    const size_t size = sizeof text - 1;
    for (size_t length = 0; length <= size; length++) {
        for (size_t b = 0; b < sizeof bytes; b++) {
            char *copy = malloc(length + 1);
            assert_non_null(copy);
            memcpy(copy, text + size - length, length);
            copy[length == 0 ? 0 : length * 7 / 11] = bytes[b];
            char *exact = malloc(length == 0 ? 1 : length);
            assert_non_null(exact);
            memcpy(exact, copy, length);
            zt_log log = {0};
            if (zt_log_read(exact, length, &log, NULL) == ZL_OK) {
                zt_log_release(&log);
            }
            free(exact);
            free(copy);
        }
    }
}

/* ---- beside a walk ---- */

static zl_torch_run tiny(void)
{
    zl_torch_run run;
    zl_torch_run_init(&run);
    run.model = (zl_hf_config){.arch = ZL_HF_GPT2,
                               .activation = ZL_HF_GELU_NEW,
                               .vocab = 4096,
                               .hidden = 256,
                               .layers = 2,
                               .heads = 4,
                               .kv_heads = 4,
                               .head_dim = 64,
                               .ffn = 1024,
                               .positions = 128,
                               .tied = true};
    run.seq = 64;
    run.micro_batch = 2;
    run.framework = ZL_TORCH_DEEPSPEED;
    run.optimizer = ZL_TORCH_FROM_CONFIG;
    run.precision = ZL_TORCH_BF16_MIXED;
    run.stage = 2;
    run.ranks = 2;
    run.ds = zl_ds_config_default(19006);
    run.ds.stage = 2;
    run.ds.bf16 = true;
    run.ds.optimizer = ZL_DS_ADAM;
    return run;
}

static const zl_mark *mark_at(const zl_marks *marks, int32_t step, const char *at)
{
    for (size_t i = 0; i < marks->count; i++) {
        if (marks->mark[i].step == step && strcmp(marks->mark[i].at, at) == 0) {
            return &marks->mark[i];
        }
    }
    fail_msg("no mark %s", at);
    return NULL;
}

/* The sighting of a message with exact figures. */
static zt_sighting seen(const char *message, uint64_t allocated, uint64_t peak)
{
    zt_sighting s = {.source = ZT_SEE_MEMORY_USAGE, .line = 1};
    snprintf(s.message, sizeof s.message, "%s", message);
    s.figure[ZT_ALLOCATED] = (zt_printed){true, allocated, allocated, allocated};
    s.figure[ZT_PEAK_ALLOCATED] = (zt_printed){true, peak, peak, peak};
    return s;
}

static void messages_belong_to_marks(void **state)
{
    (void)state;
    const zl_torch_run run = tiny();
    zl_marks marks = {0};
    zl_err err = {0};
    assert_ok(zl_torch_predict(&run, 0, &marks, &err), &err);
    const zl_mark *forward = mark_at(&marks, 0, "after_forward");
    const zl_mark *backward = mark_at(&marks, 0, "after_backward");
    const zl_mark *next = mark_at(&marks, 1, "after_forward");
    /* before backward 0 = after forward; the second "before backward" is of the next step, whose
     * peak counts from the mark after backward: step, and forward. */
    const uint64_t step_peak = mark_at(&marks, 0, "after_step")->peak_allocated;
    const uint64_t peak = step_peak > next->peak_allocated ? step_peak : next->peak_allocated;
    zt_sighting sightings[] = {
        seen("before backward 0", forward->allocated, forward->allocated),
        seen("before optimizer 0", backward->allocated, backward->peak_allocated),
        seen("before backward 1", next->allocated, peak),
        seen("something else", 1, 1),
        seen("before optimizer 1", mark_at(&marks, 1, "after_backward")->allocated, 1),
    };
    const zt_log log = {sightings, COUNT_OF(sightings)};
    zt_compared c = {0};
    const zt_compare_options options = {0};
    assert_ok(zt_log_compare(&log, &run, 0, &options, &c, &err), &err);
    assert_int_equal(c.rows, 5);
    assert_string_equal(c.row[2].at, "after_forward");
    assert_int_equal(c.row[2].step, 1);
    assert_int_equal(c.row[2].figure[ZT_ALLOCATED].verdict, ZT_AGREES);
    assert_int_equal(c.row[2].figure[ZT_PEAK_ALLOCATED].verdict, ZT_AGREES);
    assert_false(c.row[3].placed);
    /* after a message of an unknown moment a peak begins at an unknown moment */
    assert_int_equal(c.row[4].figure[ZT_ALLOCATED].verdict, ZT_AGREES);
    assert_int_equal(c.row[4].figure[ZT_PEAK_ALLOCATED].verdict, ZT_NOT_COMPARED);
    zt_compared_release(&c);
    zl_marks_clear(&marks);
}

static void micro_steps_are_counted(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    run.accumulation = 2;
    zl_marks marks = {0};
    zl_err err = {0};
    assert_ok(zl_torch_predict(&run, 0, &marks, &err), &err);
    zt_sighting sightings[] = {
        seen("after forward", mark_at(&marks, 0, "after_forward_0")->allocated, 0),
        seen("Engine before forward", 1, 0),
        seen("after backward", mark_at(&marks, 0, "after_backward_0")->allocated, 0),
        seen("Engine after step", 1, 0),
        seen("after forward", mark_at(&marks, 0, "after_forward")->allocated, 0),
        seen("Engine before forward", 1, 0),
        seen("after step", mark_at(&marks, 0, "after_step")->allocated, 0),
        seen("after forward", mark_at(&marks, 1, "after_forward_0")->allocated, 0),
        seen("Engine before forward", 1, 0),
    };
    static const char *const at[] = {"after_forward_0", "before forward",  "after_backward_0",
                                     "after step",      "after_forward",   "before forward",
                                     "after_step",      "after_forward_0", "before forward"};
    static const int32_t steps[] = {0, 0, 0, 0, 0, 0, 0, 1, 1};
    const zt_log log = {sightings, COUNT_OF(sightings)};
    const zt_compare_options options = {0};
    zt_compared c = {0};
    assert_ok(zt_log_compare(&log, &run, 0, &options, &c, &err), &err);
    assert_int_equal(c.rows, COUNT_OF(sightings));
    for (size_t i = 0; i < c.rows; i++) {
        assert_string_equal(c.row[i].at, at[i]);
        assert_int_equal(c.row[i].step, steps[i]);
        if (strncmp(sightings[i].message, "Engine", 6) != 0) {
            assert_int_equal(c.row[i].figure[ZT_ALLOCATED].verdict, ZT_AGREES);
        }
    }
    zt_compared_release(&c);
    zl_marks_clear(&marks);
}

static void an_overflow_skips_its_step(void **state)
{
    (void)state;
    zl_torch_run run = tiny();
    run.precision = ZL_TORCH_FP16_MIXED;
    run.ds.bf16 = false;
    run.ds.fp16 = true;
    zl_torch_run skips = run;
    zl_marks marks = {0};
    zl_err err = {0};
    skips.skipped[1] = true;
    assert_ok(zl_torch_predict(&skips, 0, &marks, &err), &err);
    const uint64_t peak = mark_at(&marks, 1, "after_step")->peak_allocated;
    zl_marks_clear(&marks);
    assert_ok(zl_torch_predict(&run, 0, &marks, &err), &err);
    assert_int_not_equal(mark_at(&marks, 1, "after_step")->peak_allocated, peak);
    zl_marks_clear(&marks);
    zt_sighting sightings[] = {
        seen("before step", 1, 1),
        seen("before step", 1, 1),
        {.source = ZT_OVERFLOW},
        seen("after step", 1, peak),
    };
    const zt_log log = {sightings, COUNT_OF(sightings)};
    const zt_compare_options options = {0};
    zt_compared c = {0};
    assert_ok(zt_log_compare(&log, &run, 0, &options, &c, &err), &err);
    assert_int_equal(c.rows, 3);
    assert_int_equal(c.row[2].step, 1);
    assert_int_equal(c.row[2].figure[ZT_PEAK_ALLOCATED].verdict, ZT_AGREES);
    zt_compared_release(&c);
}

static void a_difference_is_a_term_or_a_setting(void **state)
{
    (void)state;
    const zl_torch_run run = tiny();
    zl_torch_run other = run;
    zl_marks marks = {0};
    zl_err err = {0};
    other.ds.overlap_comm = !run.ds.overlap_comm;
    assert_ok(zl_torch_predict(&other, 0, &marks, &err), &err);
    zt_sighting sightings[] = {
        seen("before forward", mark_at(&marks, 0, "before_forward")->allocated, 0),
        seen("after forward", mark_at(&marks, 0, "after_forward")->allocated, 0),
        seen("after backward", mark_at(&marks, 0, "after_backward")->allocated,
             mark_at(&marks, 0, "after_backward")->peak_allocated),
    };
    sightings[0].figure[ZT_PEAK_ALLOCATED].present = false;
    sightings[1].figure[ZT_PEAK_ALLOCATED].present = false;
    const zt_log log = {sightings, COUNT_OF(sightings)};
    const zt_compare_options options = {0};
    zt_compared c = {0};
    zt_change change[4];
    size_t changes = 0;
    assert_ok(zt_log_compare(&log, &run, 0, &options, &c, &err), &err);
    assert_int_not_equal(c.differ, 0);
    /* one more bucket, 2 x 5e8 bytes, and a gradient on its way */
    assert_non_null(strstr(c.row[2].figure[ZT_PEAK_ALLOCATED].cause, "once more ipg bucket"));
    assert_ok(zt_log_changes(&log, &run, 0, &options, change, 4, &changes, &err), &err);
    assert_int_not_equal(changes, 0);
    assert_non_null(strstr(change[0].text, "overlap_comm"));
    assert_int_equal(change[0].differ, 0);
    zt_compared_release(&c);
    zl_marks_clear(&marks);
}

static void candidates_have_the_size(void **state)
{
    (void)state;
    const zl_torch_run run = tiny();
    zt_candidate *candidate = NULL;
    size_t count = 0;
    zl_err err = {0};
    /* reduce_bucket_size 5e8 of bf16: 1e9 bytes = 953.67 MiB, in segments of 954 MiB */
    const zt_oom oom = decoded("Tried to allocate 954.00 MiB");
    assert_ok(zt_oom_candidates(&oom, &run, 0, &candidate, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_string_equal(candidate->name, "ipg bucket");
    assert_int_equal(candidate->bytes, 1000000000);
    assert_int_equal(candidate->step, 0);
    assert_string_equal(candidate->before, "after_backward");
    free(candidate);
    const zt_oom none = decoded("Tried to allocate 77.00 GiB");
    assert_ok(zt_oom_candidates(&none, &run, 0, &candidate, &count, &err), &err);
    assert_int_equal(count, 0);
    free(candidate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_figure_stands_for_what_rounds_to_it),
        cmocka_unit_test(units_are_binary_and_bytes_exact),
        cmocka_unit_test(the_wording_of_1_0),
        cmocka_unit_test(the_wording_of_1_4),
        cmocka_unit_test(the_wording_of_2_1),
        cmocka_unit_test(limits_and_private_pools),
        cmocka_unit_test(the_wording_of_cuda_malloc_async),
        cmocka_unit_test(the_wording_of_the_host),
        cmocka_unit_test(causes),
        cmocka_unit_test(a_size_is_that_of_a_segment),
        cmocka_unit_test(see_memory_usage_of_every_release),
        cmocka_unit_test(host_memory_belongs_to_the_figures_above),
        cmocka_unit_test(see_memory_usage_before_0_3_10),
        cmocka_unit_test(throughput_timers),
        cmocka_unit_test(memory_summaries),
        cmocka_unit_test(nvidia_smi_tables),
        cmocka_unit_test(nvidia_smi_tables_without_header),
        cmocka_unit_test(snapshots),
        cmocka_unit_test(nothing_recognised_says_what_would_be),
        cmocka_unit_test(cut_and_spoilt_logs_do_no_harm),
        cmocka_unit_test(messages_belong_to_marks),
        cmocka_unit_test(micro_steps_are_counted),
        cmocka_unit_test(an_overflow_skips_its_step),
        cmocka_unit_test(a_difference_is_a_term_or_a_setting),
        cmocka_unit_test(candidates_have_the_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
