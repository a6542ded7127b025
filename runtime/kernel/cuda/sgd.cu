/* SGD with momentum over a flat range. */
#include "kernel/cuda/device.cuh"

static __global__ void sgd(zr_sgd_args a, float rate, float mu, float decay)
{
    for (uint64_t i = first_element(); i < a.count; i += element_step()) {
        const float w = a.master != NULL ? a.master[i] : load(a.param, a.param_dtype, i);
        float g = add(mul(load(a.grad, a.gdtype, i), a.grad_scale), mul(decay, w));
        if (a.momentum != NULL) {
            g = add(g, mul(mu, load(a.momentum, a.state_dtype, i)));
            store(a.momentum, a.state_dtype, i, g);
        }
        const float moved = sub(w, mul(rate, g));
        if (a.master != NULL) {
            a.master[i] = moved;
        }
        if (a.param != NULL) {
            store(a.param, a.param_dtype, i, moved);
        }
    }
}

zl_status zr_sgd(const zr_sgd_args *args, zr_stream *stream)
{
    const zr_sgd_args *a = args;
    if (!dtype_ok(a->param_dtype) || !dtype_ok(a->gdtype) || !dtype_ok(a->state_dtype) ||
        (a->param == NULL && a->master == NULL) || (a->momentum == NULL && a->mu != 0.0) ||
        stream == NULL) {
        return ZL_E_USAGE;
    }
    return launch_elements(sgd, a->count, stream, *a, (float)a->lr, (float)a->mu,
                           (float)a->weight_decay);
}
