#include "fit/stats.h"

#include <gsl/gsl_fit.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

bool zv_fit_line(const double *predicted, const double *measured, size_t n, zv_fit *out)
{
    zv_fit fit = {0};
    if (n < 2 || gsl_stats_min(predicted, 1, n) >= gsl_stats_max(predicted, 1, n)) {
        return false;
    }
    if (gsl_fit_linear(predicted, 1, measured, 1, n, &fit.offset, &fit.slope, &fit.variance_offset,
                       &fit.covariance, &fit.variance_slope, &fit.residual_squares) != 0) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const double residual = measured[i] - fit.offset - fit.slope * predicted[i];
        fit.largest_residual = fmax(fit.largest_residual, fabs(residual));
    }
    fit.correlation = gsl_stats_correlation(predicted, 1, measured, 1, n);
    if (n == 2) { /* no degree of freedom is left to judge by */
        fit.variance_offset = fit.variance_slope = fit.covariance = 0;
    }
    *out = fit;
    return true;
}

zv_spread zv_spread_of(double *values, size_t n)
{
    gsl_sort(values, 1, n);
    return (zv_spread){.mean = gsl_stats_mean(values, 1, n),
                       .deviation = n > 1 ? gsl_stats_sd(values, 1, n) : 0,
                       .least = values[0],
                       .median = gsl_stats_median_from_sorted_data(values, 1, n),
                       .most = values[n - 1]};
}
