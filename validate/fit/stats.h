/* Statistics of predicted and measured figures, by GSL. Doubles are for judging, never for sizes.
 * main calls gsl_set_error_handler_off() first.
 *
 *     zv_fit fit;
 *     if (zv_fit_line(predicted, measured, n, &fit)) { ... fit.slope ... }
 */
#ifndef ZV_STATS_H
#define ZV_STATS_H

#include <stdbool.h>
#include <stddef.h>

/* measured = offset + slope * predicted, by least squares. */
typedef struct zv_fit {
    double offset;
    double slope;
    double variance_offset; /* covariance matrix of the two */
    double variance_slope;
    double covariance;
    double residual_squares;
    double largest_residual; /* absolute */
    double correlation;
} zv_fit;

/* False if the line is not determined: fewer than two points, or all predictions equal. */
bool zv_fit_line(const double *predicted, const double *measured, size_t n, zv_fit *out);

/* measured = sum of coefficient[k] * term[k], by least squares. */
enum { ZV_TERMS_MAX = 4 };
typedef struct zv_linear {
    double coefficient[ZV_TERMS_MAX];
    double error[ZV_TERMS_MAX]; /* standard error; 0 where no degree of freedom is left */
    double largest_residual;    /* absolute */
    double deviation;           /* of the residuals, per degree of freedom; likewise */
} zv_linear;

/* term: (n, terms), row by row. False if the coefficients are not determined. */
bool zv_fit_linear(const double *term, size_t terms, const double *measured, size_t n,
                   zv_linear *out);

typedef struct zv_spread {
    double mean;
    double deviation; /* sample standard deviation; 0 for one value */
    double least;
    double median;
    double most;
} zv_spread;

/* n > 0. Sorts the values. */
zv_spread zv_spread_of(double *values, size_t n);

#endif
