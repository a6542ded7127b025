/* How long an answer takes inside a program: a peak, a ledger, whether depth costs anything, and a
 * sweep of a million runs. Every round takes all subjects in turn; time is processor time. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "zeroledger/predict.h"

enum { ROUNDS = 31, PEAKS = 20000, LEDGERS = 2000, SWEEPS = 3 };

typedef struct subject {
    const char *peak;   /* name of the figure */
    const char *ledger; /* likewise */
    const char *model;
    const char *stage;
    uint64_t layers; /* instead of the model's own; 0: its own */
    zl_run run;
    double peak_ns[ROUNDS];
    double ledger_ns[ROUNDS];
} subject;

static subject subjects[] = {
    {.peak = "zl_predict_peak, gpt2 stage 0",
     .ledger = "zl_predict, gpt2 stage 0",
     .model = "gpt2",
     .stage = "0"},
    {.peak = "zl_predict_peak, gpt2 stage 3",
     .ledger = "zl_predict, gpt2 stage 3",
     .model = "gpt2",
     .stage = "3"},
    {.peak = "zl_predict_peak, gpt2 stage 3, 1200 layers",
     .ledger = "zl_predict, gpt2 stage 3, 1200 layers",
     .model = "gpt2",
     .stage = "3",
     .layers = 1200},
    {.peak = "zl_predict_peak, llama-3-8b stage 3",
     .ledger = "zl_predict, llama-3-8b stage 3",
     .model = "llama-3-8b",
     .stage = "3"},
};
enum { SUBJECTS = sizeof subjects / sizeof subjects[0], SHALLOW = 1, DEEP = 2 };

static zl_status prepare(subject *s, zl_err *err)
{
    zl_run_init(&s->run);
    ZL_TRY(zl_run_set(&s->run, "model", s->model, err));
    ZL_TRY(zl_run_set(&s->run, "stage", s->stage, err));
    ZL_TRY(zl_run_set(&s->run, "ranks", "8", err));
    if (s->layers != 0) {
        s->run.model.layers = s->layers;
    }
    return zl_run_check(&s->run, err);
}

/* Nanoseconds of one call. */
static zl_status time_peak(const zl_run *run, double *ns, zl_err *err)
{
    uint64_t bytes;
    const double begin = zb_cpu_seconds();
    for (int i = 0; i < PEAKS; i++) {
        ZL_TRY(zl_predict_peak(run, &bytes, NULL, NULL, err));
    }
    *ns = 1e9 * (zb_cpu_seconds() - begin) / PEAKS;
    return ZL_OK;
}

static zl_status time_ledger(const zl_run *run, zl_ledger *ledger, double *ns, zl_err *err)
{
    const double begin = zb_cpu_seconds();
    for (int i = 0; i < LEDGERS; i++) {
        ZL_TRY(zl_predict(run, 0, ledger, err));
    }
    *ns = 1e9 * (zb_cpu_seconds() - begin) / LEDGERS;
    return ZL_OK;
}

static zl_status time_calls(zb_report *report, zl_ledger *ledger, zl_err *err)
{
    for (size_t s = 0; s < SUBJECTS; s++) {
        ZL_TRY(prepare(&subjects[s], err));
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        for (size_t s = 0; s < SUBJECTS; s++) {
            ZL_TRY(time_peak(&subjects[s].run, &subjects[s].peak_ns[i], err));
            ZL_TRY(time_ledger(&subjects[s].run, ledger, &subjects[s].ledger_ns[i], err));
        }
    }
    for (size_t s = 0; s < SUBJECTS; s++) {
        zb_add(report, (zb_figure){subjects[s].peak, "ns", ZB_AT_MOST, 1000.0, 0, 0, 0},
               subjects[s].peak_ns, ROUNDS);
    }
    for (size_t s = 0; s < SUBJECTS; s++) {
        zb_add(report, (zb_figure){subjects[s].ledger, "ns", ZB_NO_AIM, 0, 0, 0, 0},
               subjects[s].ledger_ns, ROUNDS);
    }
    zb_add_ratio(report,
                 (zb_figure){"zl_predict_peak, 1200 layers over 12", "1", ZB_AT_MOST, 1.1, 0, 0, 0},
                 subjects[DEEP].peak_ns, subjects[SHALLOW].peak_ns, ROUNDS);
    zb_add_ratio(report,
                 (zb_figure){"zl_predict, 1200 layers over 12", "1", ZB_AT_MOST, 1.1, 0, 0, 0},
                 subjects[DEEP].ledger_ns, subjects[SHALLOW].ledger_ns, ROUNDS);
    return ZL_OK;
}

/* All stages, recompute policies and ranks of one shape; each run is checked as a user's would be.
 * planner NULL: each run is planned anew. */
static zl_status sweep_shape(zl_run *run, zl_planner *planner, uint64_t *count, uint64_t *sum,
                             zl_err *err)
{
    for (uint64_t stage = 0; stage < 4; stage++) {
        for (int recompute = 0; recompute < ZL_RECOMPUTE_COUNT; recompute++) {
            for (uint64_t ranks = 1; ranks <= 42; ranks++) {
                uint64_t bytes;
                run->stage = stage;
                run->recompute = (zl_recompute)recompute;
                run->ranks = ranks;
                ZL_TRY(zl_run_check(run, err));
                ZL_TRY(planner != NULL ? zl_planner_peak(planner, run, &bytes, NULL, NULL, err)
                                       : zl_predict_peak(run, &bytes, NULL, NULL, err));
                *sum = *sum * 31 + bytes;
                *count += 1;
            }
        }
    }
    return ZL_OK;
}

/* Seconds of a million; sum: of what they say. */
static zl_status sweep(zl_planner *planner, double *seconds, uint64_t *sum, zl_err *err)
{
    zl_run run;
    uint64_t count = 0;
    *sum = 0;
    zl_run_init(&run);
    ZL_TRY(zl_run_set(&run, "model", "llama-3-8b", err));
    const double begin = zb_cpu_seconds();
    for (uint64_t batch = 1; batch <= 50; batch++) {
        for (uint64_t tokens = 1; tokens <= 40; tokens++) {
            run.micro_batch = batch;
            run.seq = 128 * tokens;
            ZL_TRY(sweep_shape(&run, planner, &count, sum, err));
        }
    }
    *seconds = (zb_cpu_seconds() - begin) * 1e6 / (double)count;
    return ZL_OK;
}

static zl_status time_sweep(zb_report *report, zl_planner *planner, zl_err *err)
{
    double anew[SWEEPS];
    double planned[SWEEPS];
    uint64_t sum[2] = {0};
    for (size_t i = 0; i < SWEEPS; i++) {
        ZL_TRY(sweep(NULL, &anew[i], &sum[0], err));
        ZL_TRY(sweep(planner, &planned[i], &sum[1], err));
        if (sum[0] != sum[1]) {
            return zl_fail(err, ZL_E_BUG, "a planner gives other peaks: please report this");
        }
    }
    zb_add(report, (zb_figure){"a million peaks of llama-3-8b", "s", ZB_NO_AIM, 0, 0, 0, 0}, anew,
           SWEEPS);
    zb_add(report, (zb_figure){"a million peaks, with a planner", "s", ZB_AT_MOST, 1.0, 0, 0, 0},
           planned, SWEEPS);
    return ZL_OK;
}

int main(int argc, char **argv)
{
    zb_report report;
    zl_err err = {0};
    bool json;
    if (!zb_options(argc, argv, &json)) {
        return ZL_E_USAGE;
    }
    zl_ledger *ledger = zl_ledger_new();
    if (ledger == NULL) {
        return ZL_E_RESOURCE;
    }
    zb_report_init(&report, "predict-bench");
    zl_status status = time_calls(&report, ledger, &err);
    zl_ledger_free(ledger);
    if (status == ZL_OK) {
        zl_planner *planner = zl_planner_new();
        status = planner != NULL ? time_sweep(&report, planner, &err)
                                 : zl_fail(&err, ZL_E_RESOURCE, "out of memory");
        zl_planner_free(planner);
    }
    if (status != ZL_OK) {
        (void)fprintf(stderr, "predict-bench: %s\n", err.text);
        return (int)status;
    }
    return zb_report_show(&report, json) ? ZL_OK : ZL_E_RESOURCE;
}
