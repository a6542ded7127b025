#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fit/stats.h"
#include "report/parts.h"

static const double bytes_per_mib = 1048576.0;

/* Peaks of all measured cases, in MiB for a well-conditioned fit. */
typedef struct points {
    double *predicted;
    double *measured;
    double *error; /* relative */
    size_t n;
} points;

static void release(points *p)
{
    free(p->predicted);
    free(p->measured);
    free(p->error);
}

static zl_status collect(const zv_data *data, points *out, zl_err *err)
{
    size_t most = 1;
    for (size_t i = 0; i < data->verdicts.count; i++) {
        most += data->verdicts.item[i].peak_count;
    }
    points p = {calloc(most, sizeof(double)), calloc(most, sizeof(double)),
                calloc(most, sizeof(double)), 0};
    if (p.predicted == NULL || p.measured == NULL || p.error == NULL) {
        release(&p);
        return zl_fail(err, ZL_E_RESOURCE, "no memory for %zu points", most);
    }
    for (size_t i = 0; i < data->verdicts.count; i++) {
        const zv_verdict *const v = &data->verdicts.item[i];
        for (size_t k = 0; k < v->peak_count && v->outcome != ZV_FAILED; k++) {
            const double predicted = (double)v->peak[k].predicted[ZL_REQUESTED];
            const double measured = (double)v->peak[k].measured[ZL_REQUESTED];
            p.predicted[p.n] = predicted / bytes_per_mib;
            p.measured[p.n] = measured / bytes_per_mib;
            p.error[p.n++] = predicted > 0 ? (measured - predicted) / predicted : 0;
        }
    }
    *out = p;
    return ZL_OK;
}

/* No minus sign before a number that prints as zero. */
static double tidy(double x, double unit)
{
    return fabs(x) < unit / 2 ? 0 : x;
}

static void print_fit(FILE *out, const points *p)
{
    zv_fit fit;
    if (!zv_fit_line(p->predicted, p->measured, p->n, &fit)) {
        fputs("A line cannot be fitted: too few different predictions.\n\n", out);
        return;
    }
    fprintf(out,
            "Least squares, measured = offset + slope x predicted (GSL, `gsl_fit_linear`):\n\n"
            "| | value | standard error |\n|---|---:|---:|\n"
            "| slope | %.9f | %.9f |\n| offset, bytes | %.3f | %.3f |\n\n",
            fit.slope, sqrt(fit.variance_slope), tidy(fit.offset * bytes_per_mib, 1e-3),
            sqrt(fit.variance_offset) * bytes_per_mib);
    fprintf(
        out,
        "Covariance of the two %.9f MiB; sum of squared residuals %.9f MiB²; largest residual %.3f "
        "bytes; correlation %.9f. The residuals are the right-hand panel below.\n\n",
        tidy(fit.covariance, 1e-9), fit.residual_squares, fit.largest_residual * bytes_per_mib,
        fit.correlation);
}

zl_status zv_section_agreement(FILE *out, const zv_data *data, zl_err *err)
{
    points p = {0};
    double most = 0;
    ZL_TRY(collect(data, &p, err));
    fputs("## Predicted against measured\n\n", out);
    if (p.n > 0) {
        for (size_t i = 0; i < p.n; i++) {
            most = fmax(most, fabs(p.error[i]));
        }
        print_fit(out, &p);
        const zv_spread s = zv_spread_of(p.error, p.n);
        fprintf(out,
                "Relative error of the %zu peaks of requested bytes (measured less predicted, over "
                "predicted): mean %.6f %%, largest %.6f %%, standard deviation %.6f %%.\n\n",
                p.n, tidy(100 * s.mean, 1e-6), 100 * most, 100 * s.deviation);
    }
    fputs("![Measured peaks against predicted ones, and their differences](agreement.svg)\n\n",
          out);
    release(&p);
    return ZL_OK;
}

void zv_section_speed(FILE *out, const zv_data *data)
{
    const zv_verdicts *const all = &data->verdicts;
    double *const speed = calloc(all->count + 1, sizeof *speed);
    bool any = false;
    for (size_t stage = 0; stage < ZV_STAGES && speed != NULL; stage++) {
        size_t n = 0;
        for (size_t i = 0; i < all->count; i++) {
            const double tokens = all->item[i].train.tokens_per_second;
            if (data->run[i].stage == stage && all->item[i].outcome != ZV_FAILED && tokens > 0) {
                speed[n++] = tokens;
            }
        }
        if (n == 0) {
            continue;
        }
        if (!any) {
            fputs("## Speed\n\nTokens per second of all ranks together. These are timings of the "
                  "machine "
                  "named above, of models far too small to be worth timing; they are here to show "
                  "that "
                  "the runs were real, not to compare the stages.\n\n"
                  "| stage | cases | median | least | most |\n|---|---:|---:|---:|---:|\n",
                  out);
        }
        any = true;
        const zv_spread s = zv_spread_of(speed, n);
        fprintf(out, "| %zu | %zu | %.0f | %.0f | %.0f |\n", stage, n, s.median, s.least, s.most);
    }
    fputs(any ? "\n" : "", out);
    free(speed);
}
