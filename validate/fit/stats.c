#include "fit/stats.h"

#include <gsl/gsl_fit.h>
#include <gsl/gsl_multifit.h>
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

/* The fit itself, with what GSL needs. */
typedef struct workspace {
    gsl_multifit_linear_workspace *own;
    gsl_matrix *covariance;
    gsl_vector *coefficient;
    gsl_vector *residual;
} workspace;

static bool solve(const workspace *w, const double *term, const double *measured, zv_linear *out)
{
    const size_t n = w->residual->size;
    const size_t terms = w->coefficient->size;
    const gsl_matrix_const_view x = gsl_matrix_const_view_array(term, n, terms);
    const gsl_vector_const_view y = gsl_vector_const_view_array(measured, n);
    double squares = 0;
    if (gsl_multifit_linear(&x.matrix, &y.vector, w->coefficient, w->covariance, &squares,
                            w->own) != 0 ||
        gsl_multifit_linear_rank(1e-9, w->own) < terms ||
        gsl_multifit_linear_residuals(&x.matrix, &y.vector, w->coefficient, w->residual) != 0) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        out->largest_residual = fmax(out->largest_residual, fabs(gsl_vector_get(w->residual, i)));
    }
    out->deviation = n > terms ? sqrt(squares / (double)(n - terms)) : 0;
    for (size_t k = 0; k < terms; k++) {
        out->coefficient[k] = gsl_vector_get(w->coefficient, k);
        out->error[k] = n > terms ? sqrt(gsl_matrix_get(w->covariance, k, k)) : 0;
    }
    return true;
}

bool zv_fit_linear(const double *term, size_t terms, const double *measured, size_t n,
                   zv_linear *out)
{
    zv_linear fit = {.deviation = 0};
    if (terms == 0 || terms > ZV_TERMS_MAX || n < terms) {
        return false;
    }
    workspace w = {
        .own = gsl_multifit_linear_alloc(n, terms),
        .covariance = gsl_matrix_alloc(terms, terms),
        .coefficient = gsl_vector_alloc(terms),
        .residual = gsl_vector_alloc(n),
    };
    const bool solved = w.own != NULL && w.covariance != NULL && w.coefficient != NULL &&
                        w.residual != NULL && solve(&w, term, measured, &fit);
    gsl_vector_free(w.residual);
    gsl_vector_free(w.coefficient);
    gsl_matrix_free(w.covariance);
    gsl_multifit_linear_free(w.own);
    if (solved) {
        *out = fit;
    }
    return solved;
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
