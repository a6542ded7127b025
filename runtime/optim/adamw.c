#include "optim/optim.h"

zl_status zr_update_adamw(const zr_zero *zero, const zr_stretch *stretch, const zr_hyper *hyper,
                          zl_err *err)
{
    const zr_adamw_args args = {
        .count = stretch->count,
        .param_dtype = zero->dtype,
        .gdtype = zero->gdtype,
        .state_dtype = zero->sdtype,
        .param = stretch->param,
        .master = stretch->master,
        .grad = stretch->grad,
        .exp_avg = stretch->exp_avg,
        .exp_avg_sq = stretch->exp_avg_sq,
        .grad_scale = (float)hyper->grad_scale,
        .lr = hyper->learning_rate,
        .beta1 = hyper->beta1,
        .beta2 = hyper->beta2,
        .eps = hyper->eps,
        .weight_decay = stretch->decays ? hyper->weight_decay : 0.0,
        .step = hyper->step,
    };
    return zr_did(zr_adamw(&args, zero->stream), "adamw", err);
}
