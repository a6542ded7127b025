/* AdamW over a flat range: one pass, nothing in between is stored. */
#include <math.h>

#include "kernel/cuda/device.cuh"

/* Constants of one step, computed in fp64 and rounded once. */
typedef struct adamw_step {
    float grad_scale, beta1, beta2, rest1, rest2, eps;
    float keep;      /* 1 - lr * decay */
    float rate;      /* lr / (1 - beta1^t) */
    float root_norm; /* 1 / sqrt(1 - beta2^t) */
} adamw_step;

static adamw_step prepare(const zr_adamw_args *a)
{
    const double t = (double)a->step;
    adamw_step s;
    s.grad_scale = a->grad_scale;
    s.beta1 = (float)a->beta1;
    s.beta2 = (float)a->beta2;
    s.rest1 = (float)(1.0 - a->beta1);
    s.rest2 = (float)(1.0 - a->beta2);
    s.eps = (float)a->eps;
    s.keep = (float)(1.0 - a->lr * a->weight_decay);
    s.rate = (float)(a->lr / (1.0 - pow(a->beta1, t)));
    s.root_norm = (float)(1.0 / sqrt(1.0 - pow(a->beta2, t)));
    return s;
}

static __global__ void adamw(zr_adamw_args a, adamw_step k)
{
    for (uint64_t i = first_element(); i < a.count; i += element_step()) {
        const float g = mul(load(a.grad, a.gdtype, i), k.grad_scale);
        const float old_m = load(a.exp_avg, a.state_dtype, i);
        const float old_v = load(a.exp_avg_sq, a.state_dtype, i);
        const float old_w = a.master != NULL ? a.master[i] : load(a.param, a.param_dtype, i);
        const float m = add(mul(k.beta1, old_m), mul(k.rest1, g));
        const float v = add(mul(k.beta2, old_v), mul(mul(k.rest2, g), g));
        const float root = add(mul(__fsqrt_rn(v), k.root_norm), k.eps);
        const float w = sub(mul(old_w, k.keep), __fdiv_rn(mul(k.rate, m), root));
        store(a.exp_avg, a.state_dtype, i, m);
        store(a.exp_avg_sq, a.state_dtype, i, v);
        if (a.master != NULL) {
            a.master[i] = w;
        }
        if (a.param != NULL) {
            store(a.param, a.param_dtype, i, w);
        }
    }
}

zl_status zr_adamw(const zr_adamw_args *args, zr_stream *stream)
{
    const zr_adamw_args *a = args;
    if (!dtype_ok(a->param_dtype) || !dtype_ok(a->gdtype) || !dtype_ok(a->state_dtype) ||
        (a->param == NULL && a->master == NULL) || a->step == 0 || stream == NULL) {
        return ZL_E_USAGE;
    }
    return launch_elements(adamw, a->count, stream, *a, prepare(a));
}
