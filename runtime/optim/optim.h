/* The optimizer step on what this rank owns: global norm, then fused updates.
 *
 *     ZL_TRY(zr_optim_squares(zero, squares, err));
 *     ... wait for the stream ...
 *     const double norm = zr_optim_norm(zero, squares);
 *     ZL_TRY(zr_optim_update(zero, &(zr_hyper){.learning_rate = 1e-3, .grad_scale = 1.0, .step =
 * 1}, err));
 */
#ifndef ZR_OPTIM_OPTIM_H
#define ZR_OPTIM_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

#include "zero/zero.h"

typedef struct zr_hyper {
    double learning_rate;
    double beta1; /* SGD: momentum */
    double beta2;
    double eps;
    double weight_decay; /* of matrices and tables; vectors do not decay */
    double grad_scale;   /* clipping, and the inverse of a loss scale */
    uint64_t step;       /* 1 in the first update */
} zr_hyper;

/* Elements of one unit that decay alike, all pointers at the first. */
typedef struct zr_stretch {
    uint64_t count;
    bool decays;
    void *param;  /* NULL without a compute copy at rest */
    void *master; /* NULL without master weights */
    const void *grad;
    void *exp_avg;
    void *exp_avg_sq; /* NULL for SGD */
} zr_stretch;

ZL_NODISCARD zl_status zr_update_adamw(const zr_zero *zero, const zr_stretch *stretch,
                                       const zr_hyper *hyper, zl_err *err);
ZL_NODISCARD zl_status zr_update_sgd(const zr_zero *zero, const zr_stretch *stretch,
                                     const zr_hyper *hyper, zl_err *err);

/* Sums of squares of the whole reduced gradient, one for each shard of a unit, into `squares`
 * (N, L + 2), memory of zr_stage_new. Every rank squares its own shards in every stage. They are
 * there when the stream has got so far. Allocates temp.norm for its duration. */
ZL_NODISCARD zl_status zr_optim_squares(zr_zero *zero, double *squares, zl_err *err);
/* The gradient's norm from them, added in the order of ranks, then units: the same bits in all
 * stages. */
double zr_optim_norm(const zr_zero *zero, const double *squares);

/* Whether an element of any rank's gradient is infinite or NaN; flag is a word of device memory. */
ZL_NODISCARD zl_status zr_optim_overflow(zr_zero *zero, void *flag, bool *found, zl_err *err);

/* Updates every unit. Slots of gathered units hold old values afterwards. */
ZL_NODISCARD zl_status zr_optim_update(zr_zero *zero, const zr_hyper *hyper, zl_err *err);

#endif
