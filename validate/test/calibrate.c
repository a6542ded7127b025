/* Constants from measurements whose constants are known, and measurements that contradict them. */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "compare/device.h"
#include "compare/nccl.h"
#include "drive/calibrate.h"
#include "zeroledger/bytes.h"
#include "zeroledger/device.h"
#include "zeroledger/ledger.h"
#include "zeroledger/predict.h"
#include "zeroledger/text.h"

static const uint64_t mib = UINT64_C(1) << 20;
/* What the synthetic machine takes; the fit has to find it. */
static const uint64_t context = UINT64_C(611) << 20;
static const uint64_t communication = UINT64_C(378) << 20;
static const uint64_t own = UINT64_C(4) << 20;
static const uint64_t nccl_bytes = UINT64_C(484) << 20; /* 12 * 24 + 6 * 32 + 4 MiB */

static char folder[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, P_tmpdir "/zv-calibrate-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void write_text(const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(zl_file_write(path, text, strlen(text), NULL), ZL_OK);
}

/* The index-th run: gpt2-tiny of another batch. */
static zl_run run_at(uint64_t index, uint64_t ranks)
{
    zl_run run;
    zl_run_init(&run);
    assert_int_equal(zl_run_set(&run, "model", "gpt2-tiny", NULL), ZL_OK);
    assert_int_equal(zl_run_set(&run, "backend", "cuda", NULL), ZL_OK);
    run.micro_batch = index + 1;
    run.ranks = ranks;
    run.stage = 3;
    assert_int_equal(zl_run_check(&run, NULL), ZL_OK);
    return run;
}

/* A measured case: its ledger, and a train.json with what was in use. `more` bytes are what the
 * machine did not have before. */
static void write_case(const char *name, const zl_run *run, int64_t more, const char *driver)
{
    char path[256];
    char id[ZL_RUN_ID_SIZE];
    char text[1024];
    uint64_t arena = 0;
    zl_ledger *const ledger = zl_ledger_new();
    assert_non_null(ledger);
    assert_int_equal(zl_predict(run, 0, ledger, NULL), ZL_OK);
    assert_int_equal(zl_predict_arena(run, ZL_PLACEMENT_APART, &arena, NULL), ZL_OK);
    ledger->origin = ZL_ORIGIN_MEASURED;
    ledger->witness =
        (zl_witness){.present = true, .placement = ZL_PLACEMENT_APART, .arena_reserved = arena};
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0777), 0);
    (void)snprintf(path, sizeof path, "%s/%s/ledger.rank0.json", folder, name);
    assert_int_equal(zl_ledger_save(ledger, path, NULL), ZL_OK);
    zl_ledger_free(ledger);
    zl_run_id(run, id);
    const uint64_t used =
        arena + context + (run->ranks > 1 ? communication + nccl_bytes : 0) + (uint64_t)more;
    (void)snprintf(text, sizeof text,
                   "{\"schema\": \"zeroledger.train/1\", \"run\": \"%s\", \"memory\": "
                   "{\"peak_granted\": 1, \"device_used\": %" PRIu64
                   "}, \"provenance\": {\"date\": "
                   "\"2026-12-01T10:00:00Z\", \"gpu\": \"NVIDIA H200\", \"driver\": \"%s\", "
                   "\"cuda\": \"13.0\"}}",
                   id, used, driver);
    (void)snprintf(path, sizeof path, "%s/train.json", name);
    write_text(path, text);
}

/* Two ranks; `off` bytes more than the closed form has in the communicator with the cap 8. */
static void write_nccl(uint64_t off, uint64_t rings_of_two)
{
    char text[4096];
    size_t used = (size_t)snprintf(
        text, sizeof text,
        "{\"schema\": \"zeroledger.nccl/1\", \"date\": \"2026-12-02\", \"gpu\": \"NVIDIA H200\", "
        "\"driver\": \"580.1\", \"cuda\": \"13.0\", \"nccl\": \"2.28.3\", \"ranks\": 2, "
        "\"context\": [1, 1], \"configurations\": [");
    const struct {
        const char *name;
        uint64_t cap, rings, pairs, communicator, ring;
        const char *cold;
    } rows[] = {
        {"default-cold", 0, 24, 32, 196 + 240, 288 + 138, "true"},
        {"default", 0, 24, 32, 196, 288, "false"},
        {"max-ctas-8", 8, 8, 8, 52, 96, "false"},
        {"max-ctas-2", 2, rings_of_two, 2, 16, 24, "false"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const uint64_t more = rows[i].cap == 8 ? off : 0;
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"name\": \"%s\", \"how\": \"maxCTAs\", \"cap\": %" PRIu64
                                 ", \"cold\": %s, "
                                 "\"rings\": %" PRIu64 ", \"pairs\": %" PRIu64 ", \"ranks\": [",
                                 i == 0 ? "" : ", ", rows[i].name, rows[i].cap, rows[i].cold,
                                 rows[i].rings, rows[i].pairs);
        for (int r = 0; r < 2; r++) { /* only the second rank is off */
            used += (size_t)snprintf(
                text + used, sizeof text - used,
                "%s{\"communicator\": %" PRIu64 ", \"all-gather\": %" PRIu64
                ", \"reduce-scatter\": 0, \"broadcast\": 0, \"all-reduce\": 0, \"given_back\": 1}",
                r == 0 ? "" : ", ", rows[i].communicator * mib + (r == 1 ? more : 0),
                rows[i].ring * mib);
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "]}");
    }
    (void)snprintf(text + used, sizeof text - used, "]}");
    write_text("nccl.json", text);
}

static void write_cases(uint64_t runs, uint64_t ranks, const int64_t *noise, size_t noises)
{
    for (uint64_t i = 0; i < runs; i++) {
        char name[32];
        const zl_run run = run_at(i, ranks);
        (void)snprintf(name, sizeof name, "n%" PRIu64 "-b%" PRIu64, ranks, i + 1);
        write_case(name, &run, noises == 0 ? 0 : noise[i % noises], "580.1");
    }
}

static zl_status calibrate(zv_calibration **out, zl_err *err)
{
    char *const folders[] = {folder};
    return zv_calibrate(folders, 1, out, err);
}

static zv_calibration *calibrated(void)
{
    zl_err err = {.status = ZL_OK};
    zv_calibration *c = NULL;
    if (calibrate(&c, &err) != ZL_OK) {
        fail_msg("%s", err.text);
    }
    return c;
}

static void refused(const char *words)
{
    zl_err err = {.status = ZL_OK};
    zv_calibration *c = NULL;
    assert_int_equal(calibrate(&c, &err), ZL_E_INPUT);
    if (strstr(err.text, words) == NULL) {
        fail_msg("'%s' lacks '%s'", err.text, words);
    }
}

static void known_constants_are_recovered(void **state)
{
    (void)state;
    write_cases(12, 1, NULL, 0);
    write_cases(8, 2, NULL, 0);
    write_nccl(0, 2);
    write_text("provenance.json", "{\"commit\": \"0123456789abcdef0123456789abcdef01234567\"}");
    zv_calibration *const c = calibrated();
    assert_int_equal(c->constants.context, context);
    assert_int_equal(c->constants.communication, communication);
    assert_int_equal(c->constants.rings, 24);
    assert_int_equal(c->constants.own, own);
    assert_string_equal(c->constants.nccl, "2.28.3");
    assert_string_equal(c->constants.date, "2026-12-02");
    assert_string_equal(c->constants.commit, "0123456789abcdef0123456789abcdef01234567");
    assert_int_equal(c->cases, 20);
    assert_int_equal(c->calibrated.cases, 3 + 2); /* of 12 and of 8 */
    assert_int_equal(c->judged.cases, 15);
    assert_int_equal(c->judged.outside, 0);
    assert_true(c->judged.largest <= 1);
    char path[128];
    zl_constants back;
    (void)snprintf(path, sizeof path, "%s/out.json", folder);
    assert_int_equal(zv_calibration_save(c, path, NULL), ZL_OK);
    assert_int_equal(zl_constants_load(path, &back, NULL), ZL_OK);
    assert_memory_equal(&back.context, &c->constants.context, sizeof back.context);
    assert_int_equal(back.own, own);
    zv_calibration_free(c);
}

/* By hand: the mean of what calibrates, and the spread around it. */
static void noise_shows_in_the_spread(void **state)
{
    (void)state;
    const int64_t noise[] = {2 * (int64_t)mib, -2 * (int64_t)mib};
    write_cases(40, 1, noise, 2);
    zv_calibration *const c = calibrated();
    double sum = 0;
    for (size_t i = 0; i < c->cases; i++) {
        sum += c->used[i].calibrates ? (double)(c->used[i].used - c->used[i].arena) : 0;
    }
    assert_int_equal(c->calibrated.cases, 10);
    assert_true(fabs((double)c->constants.context - sum / 10) < 1);
    assert_true(c->fit.deviation > 1.0 * (double)mib && c->fit.deviation < 2.2 * (double)mib);
    assert_true(c->fit.error[0] > 0 && c->fit.error[0] < 1.0 * (double)mib);
    assert_true(c->judged.largest <= 4 * mib);
    assert_int_equal(c->judged.outside, 0);
    zv_calibration_free(c);
}

static void the_two_sides_are_disjoint(void **state)
{
    (void)state;
    write_cases(12, 1, NULL, 0);
    for (uint64_t i = 0; i < 12; i++) { /* each once more, in another folder */
        char name[32];
        const zl_run run = run_at(i, 1);
        (void)snprintf(name, sizeof name, "again-%" PRIu64, i);
        write_case(name, &run, 0, "580.1");
    }
    zv_calibration *const c = calibrated();
    assert_int_equal(c->cases, 24);
    for (size_t i = 0; i < c->cases; i++) {
        for (size_t k = 0; k < c->cases; k++) {
            assert_true(strcmp(c->used[i].run_id, c->used[k].run_id) != 0 ||
                        c->used[i].calibrates == c->used[k].calibrates);
        }
    }
    assert_int_equal(c->calibrated.cases, 6);
    zv_calibration_free(c);
}

/* A run that took more than the constants say is outside, and moves no constant. */
static void a_perturbed_run_is_outside(void **state)
{
    (void)state;
    write_cases(12, 1, NULL, 0);
    zv_calibration *c = calibrated();
    char judge[256] = "";
    zl_run run = run_at(0, 1);
    for (uint64_t i = 0; i < 12 && judge[0] == '\0'; i++) {
        char id[ZL_RUN_ID_SIZE];
        run = run_at(i, 1);
        zl_run_id(&run, id);
        for (size_t k = 0; k < c->cases; k++) {
            if (strcmp(c->used[k].run_id, id) == 0 && !c->used[k].calibrates) {
                (void)snprintf(judge, sizeof judge, "%s/%s", folder, c->used[k].name);
            }
        }
    }
    zv_calibration_free(c);
    assert_int_equal(nftw(judge, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    write_case(strrchr(judge, '/') + 1, &run, 33 * (int64_t)mib, "580.1");
    c = calibrated();
    assert_int_equal(c->constants.context, context);
    assert_int_equal(c->judged.outside, 1);
    assert_true(c->judged.largest >= 33 * mib - 1);
    zv_calibration_free(c);
}

static void what_cannot_be_calibrated_is_refused(void **state)
{
    (void)state;
    write_cases(4, 1, NULL, 0);
    refused("4 runs of one rank");
    const zl_run run = run_at(5, 1);
    write_case("other", &run, 0, "999.9");
    refused("driver");
}

static void several_ranks_need_nccl(void **state)
{
    (void)state;
    write_cases(8, 1, NULL, 0);
    write_cases(8, 2, NULL, 0);
    zv_calibration *const c = calibrated();
    assert_int_equal(c->left_out, 8);
    assert_int_equal(c->cases, 8);
    assert_int_equal(c->constants.rings, 0);
    assert_int_equal(c->constants.communication, 0);
    zv_calibration_free(c);
}

static zl_ledger *load(const char *name, char path[256])
{
    zl_ledger *ledger = NULL;
    (void)snprintf(path, 256, "%s/%s/ledger.rank0.json", folder, name);
    assert_int_equal(zl_ledger_load(path, &ledger, NULL), ZL_OK);
    return ledger;
}

static const zl_constants machine = {.gpu = "NVIDIA H200",
                                     .driver = "580.1",
                                     .cuda = "13.0",
                                     .nccl = "2.28.3",
                                     .context = UINT64_C(611) << 20,
                                     .communication = UINT64_C(378) << 20,
                                     .rings = 24,
                                     .own = UINT64_C(4) << 20};

static zv_device_verdict judged(const char *name, const zl_constants *constants)
{
    char path[256];
    zv_device_verdict v;
    zl_err err = {.status = ZL_OK};
    zl_ledger *const ledger = load(name, path);
    if (zv_device_judge(path, ledger, constants, &v, &err) != ZL_OK) {
        fail_msg("%s", err.text);
    }
    zl_ledger_free(ledger);
    return v;
}

static void the_device_is_judged_beside_the_ledger(void **state)
{
    (void)state;
    const zl_run two = run_at(0, 2);
    const zl_run one = run_at(0, 1);
    write_case("two", &two, 31 * (int64_t)mib, "580.1");
    write_case("one", &one, 33 * (int64_t)mib, "580.1");
    zv_device_verdict v = judged("two", &machine);
    assert_int_equal(v.arena.rung, ZV_RUNG_AGREES);
    assert_int_equal(v.total.rung, ZV_RUNG_AGREES);
    assert_int_equal(v.total.tolerance, 32 * mib);
    assert_int_equal(v.nccl.rung, ZV_RUNG_ABSENT);
    assert_true(zv_device_agrees(&v));
    v = judged("one", &machine);
    assert_int_equal(v.total.rung, ZV_RUNG_DIFFERS);
    assert_false(zv_device_agrees(&v));
    v = judged("one", NULL); /* driver 580.1 never was */
    assert_int_equal(v.total.rung, ZV_RUNG_UNKNOWN);
    assert_true(zv_device_agrees(&v));
    assert_int_equal(zv_device_tolerance(UINT64_C(100) << 30), UINT64_C(1) << 30);
}

static void write_trace(uint64_t trainer, uint64_t nccl, uint64_t blas)
{
    char text[2048];
    (void)snprintf(
        text, sizeof text,
        "{\"schema\": \"zeroledger.trace/1\", \"warm\": \"warm\", \"tolerance\": 0, \"processes\": "
        "[{\"pid\": 1, \"host\": \"h\", \"program\": \"zl-train-cuda\", \"date\": 1, \"cuda\": "
        "13000, \"begin\": 0, \"end\": 9, \"complete\": true, \"allocations\": 1, \"releases\": 1, "
        "\"unknown_releases\": 0, \"devices\": [{\"device\": 0, \"name\": \"g\", \"total\": 99, "
        "\"traced\": {\"end\": 0, \"peak\": 1, \"peak_time\": 3}, \"used_peak\": 9, \"owners\": ["
        "{\"owner\": \"zl-train-cuda\", \"call\": \"cuMemCreate\", \"end\": 0, \"peak\": %" PRIu64
        ", \"at_peak\": 0, \"live\": 0, \"made\": 1},"
        "{\"owner\": \"libnccl.so.2\", \"call\": \"cuMemCreate\", \"end\": 0, \"peak\": %" PRIu64
        ", \"at_peak\": 0, \"live\": 0, \"made\": 1},"
        "{\"owner\": \"libnccl.so.2\", \"call\": \"cuLibraryLoadData\", \"end\": 0, \"peak\": 77"
        ", \"at_peak\": 0, \"live\": 0, \"made\": 1},"
        "{\"owner\": \"libcublasLt.so.13\", \"call\": \"cuMemAlloc\", \"end\": 0, \"peak\": "
        "%" PRIu64
        ", \"at_peak\": 0, \"live\": 0, \"made\": 1}], \"marks\": []}], \"elsewhere\": [], "
        "\"refused\": []}], \"findings\": []}",
        trainer, nccl, blas);
    write_text("two/trace.json", text);
}

static void owners_are_judged_where_a_trace_lies(void **state)
{
    (void)state;
    const zl_run two = run_at(0, 2);
    uint64_t arena = 0;
    assert_int_equal(zl_predict_arena(&two, ZL_PLACEMENT_APART, &arena, NULL), ZL_OK);
    write_case("two", &two, 500 * (int64_t)mib, "580.1"); /* the meter takes memory, too */
    write_trace(arena, nccl_bytes, 0);
    zv_device_verdict v = judged("two", &machine);
    assert_int_equal(v.trainer.rung, ZV_RUNG_AGREES);
    assert_int_equal(v.nccl.rung, ZV_RUNG_AGREES);
    assert_int_equal(v.blas.rung, ZV_RUNG_AGREES);
    assert_int_equal(v.total.rung, ZV_RUNG_ABSENT);
    write_trace(arena + 1, nccl_bytes - 2 * mib, 512);
    v = judged("two", &machine);
    assert_int_equal(v.trainer.rung, ZV_RUNG_DIFFERS);
    assert_int_equal(v.nccl.rung, ZV_RUNG_DIFFERS);
    assert_int_equal(v.blas.rung, ZV_RUNG_DIFFERS);
    v = judged("two", NULL);
    assert_int_equal(v.nccl.rung, ZV_RUNG_UNKNOWN);
}

static size_t nccl_differ(void)
{
    static zv_nccl nccl;
    char path[128];
    zl_nccl usual;
    size_t differ = 0;
    size_t all = 0;
    (void)snprintf(path, sizeof path, "%s/nccl.json", folder);
    assert_int_equal(zv_nccl_load(path, &nccl, NULL), ZL_OK);
    assert_int_equal(zv_nccl_usual(&nccl, &usual, NULL), ZL_OK);
    assert_int_equal(usual.own, own);
    for (size_t i = 0; i < nccl.rows; i++) {
        const zv_nccl_verdict v = zv_nccl_judge(&nccl.row[i], nccl.ranks, &usual);
        differ += zv_nccl_agrees(&v) ? 0 : 1;
        all += v.judged ? 1 : 0;
    }
    assert_int_equal(all, 2);
    return differ;
}

static void nccl_is_judged_to_the_byte(void **state)
{
    (void)state;
    write_nccl(0, 2);
    assert_int_equal(nccl_differ(), 0);
    write_nccl(2 * mib, 2);
    assert_int_equal(nccl_differ(), 1); /* one granule, of the second rank alone */
    write_nccl(0, 3);
    assert_int_equal(nccl_differ(), 1); /* channels that the cap does not leave */
}

/* Two devices whose second communicator grew to so many bytes. */
static void write_marks(uint64_t first, uint64_t second)
{
    static const char device[] =
        "{\"devices\": [{\"marks\": ["
        "{\"name\": \"context\", \"automatic\": true, \"traced\": 7}, "
        "{\"name\": \"a communicator\", \"automatic\": false, \"traced\": 17}, "
        "{\"name\": \"a reduce-scatter\", \"automatic\": false, \"traced\": 47}, "
        "{\"name\": \"a destroyed\", \"automatic\": false, \"traced\": 9}, "
        "{\"name\": \"asked\", \"automatic\": true, \"traced\": 19}, "
        "{\"name\": \"b communicator\", \"automatic\": false, \"traced\": 19}, "
        "{\"name\": \"b reduce-scatter\", \"automatic\": false, \"traced\": %" PRIu64 "}]}]}";
    char one[1024];
    char two[1024];
    char text[4096];
    (void)snprintf(one, sizeof one, device, first);
    (void)snprintf(two, sizeof two, device, second);
    (void)snprintf(
        text, sizeof text,
        "{\"schema\": \"zeroledger.trace/1\", \"processes\": [{\"devices\": []}, %s, %s]}", one,
        two);
    write_text("trace.json", text);
}

static void marks_of_a_trace_are_found(void **state)
{
    (void)state;
    char path[128];
    size_t devices = 9;
    uint64_t bytes = 0;
    write_marks(49, 48);
    (void)snprintf(path, sizeof path, "%s/trace.json", folder);
    /* From the mark that the program set before, 9, not from the meter's own, 19; of two devices
     * the one that is further from what is expected. */
    assert_int_equal(zv_nccl_traced(path, "b", 40, &devices, &bytes, NULL), ZL_OK);
    assert_int_equal(devices, 2);
    assert_int_equal(bytes, 39);
    assert_int_equal(zv_nccl_traced(path, "b", 39, &devices, &bytes, NULL), ZL_OK);
    assert_int_equal(bytes, 40);
    /* Nothing was set before the first. */
    assert_int_equal(zv_nccl_traced(path, "a", 40, &devices, &bytes, NULL), ZL_OK);
    assert_int_equal(devices, 0);
    assert_int_equal(zv_nccl_traced(path, "c", 40, &devices, &bytes, NULL), ZL_OK);
    assert_int_equal(devices, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(known_constants_are_recovered),
        TEST(noise_shows_in_the_spread),
        TEST(the_two_sides_are_disjoint),
        TEST(a_perturbed_run_is_outside),
        TEST(what_cannot_be_calibrated_is_refused),
        TEST(several_ranks_need_nccl),
        TEST(the_device_is_judged_beside_the_ledger),
        TEST(owners_are_judged_where_a_trace_lies),
        TEST(nccl_is_judged_to_the_byte),
        TEST(marks_of_a_trace_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
