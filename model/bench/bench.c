#define _DEFAULT_SOURCE /* clock_gettime, sysconf */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "zeroledger/json.h"

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double zb_seconds(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double zb_cpu_seconds(void)
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

void zb_report_init(zb_report *report, const char *program)
{
    memset(report, 0, sizeof *report);
    report->program = program;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

void zb_add(zb_report *report, zb_figure figure, const double *value, size_t rounds)
{
    double sorted[ZB_ROUNDS_MAX];
    if (report->count == ZB_FIGURES_MAX || rounds == 0 || rounds > ZB_ROUNDS_MAX) {
        abort(); /* a benchmark that is wrong as a program */
    }
    memcpy(sorted, value, rounds * sizeof *value);
    qsort(sorted, rounds, sizeof *sorted, by_size);
    figure.median = (sorted[(rounds - 1) / 2] + sorted[rounds / 2]) / 2.0;
    figure.low = sorted[0];
    figure.high = sorted[rounds - 1];
    report->figure[report->count++] = figure;
}

void zb_add_ratio(zb_report *report, zb_figure figure, const double *value, const double *base,
                  size_t rounds)
{
    double ratio[ZB_ROUNDS_MAX];
    for (size_t i = 0; i < rounds && i < ZB_ROUNDS_MAX; i++) {
        ratio[i] = value[i] / base[i];
    }
    zb_add(report, figure, ratio, rounds);
}

static bool met(const zb_figure *f)
{
    return f->aim == ZB_AT_MOST ? f->median <= f->limit : f->median >= f->limit;
}

/* "Intel(R) Xeon(R) Processor @ 2.80GHz", or "unknown". */
static void processor(char *name, size_t size)
{
    char line[512];
    (void)snprintf(name, size, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL && colon[1] == ' ') {
            (void)snprintf(name, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

static void put_figure(zl_json_writer *w, const zb_figure *f)
{
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "name", f->name);
    zl_json_put_string(w, "unit", f->unit);
    zl_json_put_real(w, "median", f->median);
    zl_json_put_real(w, "low", f->low);
    zl_json_put_real(w, "high", f->high);
    if (f->aim != ZB_NO_AIM) {
        zl_json_put_real(w, f->aim == ZB_AT_MOST ? "at_most" : "at_least", f->limit);
        zl_json_put_bool(w, "met", met(f));
    }
    zl_json_end(w);
}

static bool show_json(const zb_report *report, const char *cpu, long cores)
{
    zl_json_writer *w = zl_json_writer_new();
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", "zeroledger.bench/1");
    zl_json_put_string(w, "program", report->program);
    zl_json_begin_object(w, "machine");
    zl_json_put_string(w, "cpu", cpu);
    zl_json_put_u64(w, "cores", cores > 0 ? (uint64_t)cores : 0);
    zl_json_end(w);
    zl_json_begin_array(w, "figures");
    for (size_t i = 0; i < report->count; i++) {
        put_figure(w, &report->figure[i]);
    }
    zl_json_end(w);
    zl_json_end(w);
    const zl_status status = zl_json_writer_save(w, "-", NULL);
    zl_json_writer_free(w);
    return status == ZL_OK;
}

bool zb_report_show(const zb_report *report, bool json)
{
    char cpu[128];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    processor(cpu, sizeof cpu);
    if (json) {
        return show_json(report, cpu, cores);
    }
    printf("%s on %s, %ld cores\n\n", report->program, cpu, cores);
    printf("%-52s %4s %10s %10s %10s  aim\n", "figure", "unit", "median", "low", "high");
    for (size_t i = 0; i < report->count; i++) {
        const zb_figure *f = &report->figure[i];
        printf("%-52s %4s %10.5g %10.5g %10.5g", f->name, f->unit, f->median, f->low, f->high);
        if (f->aim != ZB_NO_AIM) {
            printf("  at %s %g: %s", f->aim == ZB_AT_MOST ? "most" : "least", f->limit,
                   met(f) ? "met" : "missed");
        }
        putchar('\n');
    }
    return fflush(stdout) == 0 && ferror(stdout) == 0;
}

bool zb_options(int argc, char **argv, bool *json)
{
    *json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !*json) {
        (void)fprintf(stderr, "usage: %s [--json]\n", argv[0]);
        return false;
    }
    return true;
}
