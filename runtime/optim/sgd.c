#include "optim/optim.h"

zl_status zr_update_sgd(const zr_zero *zero, const zr_stretch *stretch, const zr_hyper *hyper,
                        zl_err *err)
{
    const zr_sgd_args args = {
        .count = stretch->count,
        .param_dtype = zero->dtype,
        .gdtype = zero->gdtype,
        .state_dtype = zero->sdtype,
        .param = stretch->param,
        .master = stretch->master,
        .grad = stretch->grad,
        .momentum = stretch->exp_avg,
        .grad_scale = (float)hyper->grad_scale,
        .lr = hyper->learning_rate,
        .mu = hyper->beta1,
        .weight_decay = stretch->decays ? hyper->weight_decay : 0.0,
    };
    return zr_did(zr_sgd(&args, zero->stream), "sgd", err);
}
