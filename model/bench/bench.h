/* Clock, medians, and the one report of all benchmark programs.
 *
 *     zb_report report;
 *     zb_report_init(&report, "predict-bench");
 *     zb_add(&report, (zb_figure){.name = "peak, gpt2", .unit = "ns", .aim = ZB_AT_MOST, .limit =
 * 1000}, ns, rounds); return zb_report_show(&report, json) ? 0 : 4;
 *
 * Benchmarks are run by hand and fail only where they cannot measure: a missed aim is a figure.
 */
#ifndef ZB_BENCH_H
#define ZB_BENCH_H

#include <stdbool.h>
#include <stddef.h>

typedef enum zb_aim { ZB_NO_AIM, ZB_AT_MOST, ZB_AT_LEAST } zb_aim;

typedef struct zb_figure {
    const char *name; /* static or outlives the report */
    const char *unit; /* "ns", "s", "1" for ratios, "%" */
    zb_aim aim;
    double limit;  /* of the aim */
    double median; /* of all rounds; zb_add fills these three */
    double low;
    double high;
} zb_figure;

enum { ZB_FIGURES_MAX = 80, ZB_ROUNDS_MAX = 64 };

typedef struct zb_report {
    const char *program;
    size_t count;
    zb_figure figure[ZB_FIGURES_MAX];
} zb_report;

/* Seconds of a clock that only goes forward, and of processor time that this process has used: the
 * latter does not see what other processes of the machine do, as long as nothing is waited for. */
double zb_seconds(void);
double zb_cpu_seconds(void);

void zb_report_init(zb_report *report, const char *program);

/* Adds a figure measured `rounds` times (at most ZB_ROUNDS_MAX, at least 1). */
void zb_add(zb_report *report, zb_figure figure, const double *value, size_t rounds);

/* Adds the ratio of two figures, each round's by itself, so that a machine whose speed drifts shows
 * the same. */
void zb_add_ratio(zb_report *report, zb_figure figure, const double *value, const double *base,
                  size_t rounds);

/* A table, or with json "zeroledger.bench/1", on standard output. False if it cannot be written. */
bool zb_report_show(const zb_report *report, bool json);

/* The only option of a benchmark is --json. False: another was given, and usage has been printed.
 */
bool zb_options(int argc, char **argv, bool *json);

#endif
