/* A stand-in for zl-train in the tests of zl-validate: takes the same options, trains nothing, and
 * writes ledgers that agree with the prediction, unless the environment asks for trouble:
 *   FAKE_FAIL=S,N     fails on runs of that stage and number of ranks, with a message and exit 4
 *   FAKE_SLEEP=S      takes S seconds
 *   FAKE_EDIT=1       rank 0 has a temporary in backward that nobody expects
 *   FAKE_GROW=BYTES   growth outside the allocator in a steady step
 *   FAKE_COUNT=FILE   appends the process id of each call
 *   FAKE_SILENT=1     exits 0 and leaves nothing
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "zeroledger/json.h"
#include "zeroledger/ledger.h"
#include "zeroledger/predict.h"

static const char *option(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return argv[i + 1];
        }
    }
    return "";
}

static uint64_t number(const char *variable)
{
    const char *const text = getenv(variable);
    return text == NULL ? 0 : strtoull(text, NULL, 10);
}

static void count_call(void)
{
    const char *const path = getenv("FAKE_COUNT");
    FILE *const file = path == NULL ? NULL : fopen(path, "a");
    if (file != NULL) {
        fprintf(file, "%ld\n", (long)getpid());
        fclose(file);
    }
}

static bool shall_fail(const zl_run *run)
{
    char key[64];
    const char *const wanted = getenv("FAKE_FAIL");
    snprintf(key, sizeof key, "%" PRIu64 ",%" PRIu64, run->stage, run->ranks);
    return wanted != NULL && strcmp(wanted, key) == 0;
}

static zl_status write_rank(const zl_run *run, uint64_t rank, const char *out, zl_err *err)
{
    char path[4096];
    zl_ledger *const ledger = zl_ledger_new();
    if (ledger == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory");
    }
    zl_status status = zl_predict(run, rank, ledger, err);
    ledger->origin = ZL_ORIGIN_MEASURED;
    ledger->witness =
        (zl_witness){.present = number("FAKE_BLIND") == 0, .outside_steady = number("FAKE_GROW")};
    if (number("FAKE_EDIT") != 0 && rank == 0) {
        zl_cell *const cell = zl_ledger_cell(ledger, ZL_VISIT_COLD, ZL_PHASE_BACKWARD);
        cell->line[ZL_BUF_TEMP_BRANCH].bytes[ZL_REQUESTED].max = 256;
        cell->line[ZL_BUF_TEMP_BRANCH].bytes[ZL_GRANTED].max = 256;
    }
    snprintf(path, sizeof path, "%s/ledger.rank%" PRIu64 ".json", out, rank);
    if (status == ZL_OK) {
        status = zl_ledger_save(ledger, path, err);
    }
    zl_ledger_free(ledger);
    return status;
}

static zl_status write_train(const char *out, zl_err *err)
{
    char path[4096];
    zl_json_writer *const w = zl_json_writer_new();
    snprintf(path, sizeof path, "%s/train.json", out);
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", "zeroledger.train/1");
    zl_json_begin_array(w, "steps");
    for (uint64_t step = 1; step <= 3; step++) {
        zl_json_begin_object(w, NULL);
        zl_json_put_real(w, "loss", 5.0);
        zl_json_put_real(w, "tokens_per_second", step == 1 ? 1.0 : 1234.0);
        zl_json_end(w);
    }
    zl_json_end(w);
    zl_json_begin_object(w, "provenance");
    zl_json_put_string(w, "date", "2001-02-03T04:05:06Z");
    zl_json_put_string(w, "cpu", "made up");
    zl_json_put_u64(w, "cores", 2);
    zl_json_put_u64(w, "memory", UINT64_C(2) << 30);
    zl_json_put_string(w, "compiler", "by hand 1.0");
    zl_json_end(w);
    zl_json_end(w);
    const zl_status status = zl_json_writer_save(w, path, err);
    zl_json_writer_free(w);
    return status;
}

int main(int argc, char **argv)
{
    zl_run run;
    zl_err err = {0};
    const char *const out = option(argc, argv, "--out");
    const struct timespec nap = {.tv_sec = (time_t)number("FAKE_SLEEP")};
    zl_status status = zl_run_load(option(argc, argv, "--run"), &run, &err);
    if (status == ZL_OK) {
        count_call();
        nanosleep(&nap, NULL);
        if (number("FAKE_SILENT") != 0) {
            return 0;
        }
        if (shall_fail(&run)) {
            status = zl_fail(&err, ZL_E_RESOURCE, "out of memory: this was asked for");
        }
    }
    for (uint64_t rank = 0; status == ZL_OK && rank < run.ranks; rank++) {
        status = write_rank(&run, rank, out, &err);
    }
    if (status == ZL_OK) {
        status = write_train(out, &err);
    }
    if (status != ZL_OK) {
        fprintf(stderr, "zl-train: %s\n", err.text);
    }
    return (int)status;
}
