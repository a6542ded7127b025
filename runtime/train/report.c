#define _DEFAULT_SOURCE /* gmtime_r */
#include "train/report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "device/device.h"
#include "train/machine.h"
#include "train/speed.h"
#include "zeroledger/json.h"
#include "zeroledger/text.h"
#include "zeroledger/version.h"

static zl_status flushed(zl_err *err)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return zl_fail(err, ZL_E_RESOURCE, "standard output: %s", strerror(errno));
    }
    return ZL_OK;
}

static bool line_a_step(const zr_options *options)
{
    return !options->quiet && options->format != ZR_FORMAT_JSON;
}

zl_status zr_report_begin(const zr_options *options, zl_err *err)
{
    if (!line_a_step(options)) {
        return ZL_OK;
    }
    if (options->format == ZR_FORMAT_CSV) {
        (void)printf("step,%sloss,grad_norm,tokens_per_second,live_bytes,peak_bytes%s\n",
                     options->loopback ? "loopback_" : "", options->run.eval ? ",eval_loss" : "");
    } else {
        (void)printf("%6s  %12s  %12s  %12s  %12s", "step",
                     options->loopback ? "(loopback)" : "loss", "tokens/s", "live MiB", "peak MiB");
        (void)printf(options->run.eval ? "  %12s\n" : "\n", "eval loss");
    }
    return flushed(err);
}

zl_status zr_report_step(const zr_options *options, uint64_t index, const zr_step_record *record,
                         zl_err *err)
{
    if (!line_a_step(options)) {
        return ZL_OK;
    }
    const uint64_t number = index + 1;
    if (options->format == ZR_FORMAT_CSV) {
        (void)printf("%" PRIu64 ",%.17g,%.17g,%.1f,%" PRIu64 ",%" PRIu64, number,
                     record->result.loss, record->result.grad_norm, record->tokens_per_second,
                     record->live, record->peak);
    } else {
        char live[32];
        char peak[32];
        zl_format_bytes(record->live, ZL_BYTES_MIB, 3, live, sizeof(live));
        zl_format_bytes(record->peak, ZL_BYTES_MIB, 3, peak, sizeof(peak));
        (void)printf("%6" PRIu64 "  %12.6f  %12.1f  %12s  %12s", number, record->result.loss,
                     record->tokens_per_second, live, peak);
    }
    if (options->run.eval) {
        (void)printf(options->format == ZR_FORMAT_CSV ? ",%.17g" : "  %12.6f",
                     record->result.eval_loss);
    }
    (void)putchar('\n');
    return flushed(err);
}

zl_status zr_out_path(const zr_options *options, const char *name, char *path, size_t size,
                      zl_err *err)
{
    const int length = snprintf(path, size, "%s/%s", options->out, name);
    if (length < 0 || (size_t)length >= size) {
        return zl_fail(err, ZL_E_RESOURCE, "%s: the path is too long", options->out);
    }
    return ZL_OK;
}

zl_status zr_out_checkpoint(const zr_options *options, char *path, size_t size, zl_err *err)
{
    if (options->checkpoint == NULL) {
        return zr_out_path(options, "checkpoint", path, size, err);
    }
    if (strlen(options->checkpoint) >= size) {
        return zl_fail(err, ZL_E_RESOURCE, "%s: the path is too long", options->checkpoint);
    }
    (void)snprintf(path, size, "%s", options->checkpoint);
    return ZL_OK;
}

zl_status zr_out_folder(const zr_options *options, zl_err *err)
{
    if (options->out == NULL || mkdir(options->out, 0777) == 0) {
        return ZL_OK;
    }
    struct stat info;
    const int failure = errno;
    if (failure == EEXIST && stat(options->out, &info) == 0 && S_ISDIR(info.st_mode)) {
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_RESOURCE, "%s: %s", options->out,
                   strerror(failure == EEXIST ? ENOTDIR : failure));
}

/* A diverged loss has no number in JSON. */
static void put_finite(zl_json_writer *w, const char *key, double value)
{
    if (isfinite(value)) {
        zl_json_put_real(w, key, value);
    } else {
        zl_json_put_null(w, key);
    }
}

static void put_steps(zl_json_writer *w, const zr_report *report)
{
    zl_json_begin_array(w, "steps");
    for (uint64_t i = report->first; i < report->options->steps; i++) {
        const zr_step_record *const record = &report->step[i];
        zl_json_begin_object(w, NULL);
        zl_json_put_u64(w, "step", i + 1);
        put_finite(w, "loss", record->result.loss);
        put_finite(w, "grad_norm", record->result.grad_norm);
        if (report->options->run.eval) {
            put_finite(w, "eval_loss", record->result.eval_loss);
        }
        zl_json_put_real(w, "seconds", record->seconds);
        put_finite(w, "tokens_per_second", record->tokens_per_second);
        zl_json_put_u64(w, "live", record->live);
        zl_json_put_u64(w, "peak", record->peak);
        zl_json_end(w);
    }
    zl_json_end(w);
}

/* The steps of this process. */
static zl_status find_speed(const zr_report *report, zr_speed *out, zl_err *err)
{
    const size_t steps = (size_t)(report->options->steps - report->first);
    double *const seconds = calloc(steps + 1, sizeof *seconds);
    if (seconds == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the times of %zu steps", steps);
    }
    for (size_t i = 0; i < steps; i++) {
        seconds[i] = report->step[report->first + i].seconds;
    }
    const zl_status status = zr_speed_find(&report->options->run, seconds, steps, out, err);
    free(seconds);
    return status;
}

/* 0 stands for what nobody knows. */
static void put_known(zl_json_writer *w, const char *key, double value)
{
    if (value > 0.0) {
        put_finite(w, key, value);
    } else {
        zl_json_put_null(w, key);
    }
}

static void put_speed(zl_json_writer *w, const zr_speed *speed)
{
    zl_json_begin_object(w, "speed");
    zl_json_put_u64(w, "warm_up_steps", speed->warm_up);
    zl_json_put_real(w, "step_seconds", speed->seconds);
    zl_json_put_real(w, "tokens_per_second", speed->tokens_per_second);
    zl_json_put_u64(w, "operations_per_token", speed->operations);
    zl_json_put_real(w, "operations_per_second", speed->rate);
    put_known(w, "peak_operations_per_second", speed->peak_rate);
    put_known(w, "utilization", speed->utilization);
    zl_json_end(w);
}

/* Of this rank: the most that buffers took in any step, and what all of the device's users took at
 * the end, when nothing has been given back. */
static void put_memory(zl_json_writer *w, const zr_report *report)
{
    const uint64_t used = zr_device_in_use();
    uint64_t peak = 0;
    for (uint64_t i = report->first; i < report->options->steps; i++) {
        peak = report->step[i].peak > peak ? report->step[i].peak : peak;
    }
    zl_json_begin_object(w, "memory");
    zl_json_put_u64(w, "peak_granted", peak);
    if (used > 0) {
        zl_json_put_u64(w, "device_used", used);
    } else {
        zl_json_put_null(w, "device_used");
    }
    zl_json_end(w);
}

/* What decides speed and memory, so that a table needs no other file. */
static void put_settings(zl_json_writer *w, const zl_run *run)
{
    zl_json_put_string(w, "precision", zl_precision_name(run->precision));
    zl_json_put_string(w, "grad_dtype", zl_grad_dtype_name(run->grad_dtype));
    zl_json_put_string(w, "recompute", zl_recompute_name(run->recompute));
}

static void put_profile(zl_json_writer *w, const zr_report *report)
{
    zr_profile_sum sum;
    if (report->profile == NULL) {
        return;
    }
    zl_json_begin_array(w, "profile");
    for (uint64_t i = 0; zr_profile_sum_at(report->profile, i, &sum); i++) {
        zl_json_begin_object(w, NULL);
        zl_json_put_string(w, "track", zr_profile_track_name(sum.track));
        zl_json_put_u64(w, "depth", sum.depth);
        zl_json_put_string(w, "region", sum.name);
        zl_json_put_u64(w, "count", sum.count);
        zl_json_put_real(w, "seconds", sum.seconds);
        zl_json_put_real(w, "share", sum.share);
        zl_json_end(w);
    }
    zl_json_end(w);
}

zl_status zr_report_speed(const zr_report *report, zl_err *err)
{
    zr_speed speed = {.seconds = 0.0};
    ZL_TRY(find_speed(report, &speed, err));
    zr_profile_show(report->profile, stderr);
    (void)fprintf(stderr, "%.1f tokens/s, %.3f ms a step, %.3f GFLOP a token, %.2f TFLOP/s a rank",
                  speed.tokens_per_second, 1e3 * speed.seconds, 1e-9 * (double)speed.operations,
                  1e-12 * speed.rate);
    if (speed.peak_rate > 0.0) {
        (void)fprintf(stderr, ": MFU %.1f%% of %.1f", 100.0 * speed.utilization,
                      1e-12 * speed.peak_rate);
    }
    (void)fputc('\n', stderr);
    return ZL_OK;
}

static void put_witness(zl_json_writer *w, const zr_report *report)
{
    zl_json_begin_object(w, "witness");
    zl_json_put_u64(w, "arena_reserved", report->witness->arena_reserved);
    zl_json_put_u64(w, "arena_resident", report->witness->arena_resident);
    zl_json_put_u64(w, "arena_late_growth", report->late_growth);
    zl_json_put_u64(w, "outside_cold", report->witness->outside_cold);
    zl_json_put_u64(w, "outside_steady", report->witness->outside_steady);
    zl_json_end(w);
}

static void put_provenance(zl_json_writer *w, const zr_report *report)
{
    char date[32] = "";
    const time_t clock = time(NULL);
    struct tm utc;
    if (gmtime_r(&clock, &utc) != NULL) {
        (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    zr_machine machine;
    zr_machine_find(&machine);
    const char *const threads = getenv("OPENBLAS_NUM_THREADS");
    zl_json_begin_object(w, "provenance");
    zl_json_put_string(w, "date", date);
    zl_json_put_string(w, "version", ZL_VERSION);
    zl_json_put_string(w, "backend", zl_backend_name(report->options->run.backend));
    zl_json_put_string(w, "cpu", machine.cpu);
    zl_json_put_u64(w, "cores", machine.cores);
    zl_json_put_u64(w, "memory", machine.memory);
    zl_json_put_string(w, "blas_threads", threads != NULL ? threads : "default");
    zl_json_put_string(w, "compiler", machine.compiler);
    const char *name;
    char text[256];
    for (size_t i = 0; zr_device_fact(i, &name, text, sizeof(text)); i++) {
        zl_json_put_string(w, name, text);
    }
    zl_json_end(w);
}

/* Why there is no ledger beside this file. */
static void put_resumed(zl_json_writer *w, const zr_report *report)
{
    if (report->first == 0) {
        return;
    }
    zl_json_begin_object(w, "resumed");
    zl_json_put_u64(w, "after_step", report->first);
    zl_json_put_bool(w, "ledger", false);
    zl_json_end(w);
}

static void put_all(zl_json_writer *w, const zr_report *report, const zr_speed *speed)
{
    const zr_options *const options = report->options;
    char id[ZL_RUN_ID_SIZE];
    char text[256];
    zl_run_id(&options->run, id);
    zl_run_describe(&options->run, text, sizeof(text));
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", "zeroledger.train/1");
    zl_json_put_string(w, "run", id);
    zl_json_put_string(w, "text", text);
    zl_json_put_u64(w, "seed", options->seed);
    zl_json_put_real(w, "learning_rate", options->learning_rate);
    zl_json_put_real(w, "weight_decay", options->weight_decay);
    zl_json_put_u64(w, "warmup", options->warmup);
    put_settings(w, &options->run);
    if (options->loopback) {
        zl_json_put_u64(w, "loopback", options->loopback_rank); /* losses mean nothing */
    }
    put_resumed(w, report);
    put_steps(w, report);
    put_speed(w, speed);
    put_memory(w, report);
    put_profile(w, report);
    (void)snprintf(text, sizeof(text), "%016" PRIx64, report->hash);
    zl_json_put_string(w, "parameter_hash", text);
    put_witness(w, report);
    put_provenance(w, report);
    zl_json_end(w);
}

zl_status zr_report_save(const zr_report *report, zl_err *err)
{
    const zr_options *const options = report->options;
    const bool to_stdout = options->format == ZR_FORMAT_JSON && !options->quiet;
    zr_speed speed = {.seconds = 0.0};
    ZL_TRY(find_speed(report, &speed, err));
    zl_json_writer *const w = zl_json_writer_new();
    if (w == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for train.json");
    }
    put_all(w, report, &speed);
    zl_status status = ZL_OK;
    if (options->out != NULL) {
        char path[4096];
        ZL_TRY_GOTO(status, zr_out_path(options, "train.json", path, sizeof(path), err), out);
        ZL_TRY_GOTO(status, zl_json_writer_save(w, path, err), out);
    }
    if (to_stdout) {
        status = zl_json_writer_save(w, "-", err);
    }
out:
    zl_json_writer_free(w);
    return status;
}
