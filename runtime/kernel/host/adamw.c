/* AdamW over a flat range: one pass, nothing in between is stored. */
#include <math.h>

#include "kernel/host/host.h"

/* Constants of one step, computed in fp64 and rounded once. */
typedef struct step {
    float grad_scale, beta1, beta2, rest1, rest2, eps;
    float keep;      /* 1 - lr * decay */
    float rate;      /* lr / (1 - beta1^t) */
    float root_norm; /* 1 / sqrt(1 - beta2^t) */
} step;

static step prepare(const zr_adamw_args *a)
{
    const double t = (double)a->step;
    return (step){
        .grad_scale = a->grad_scale,
        .beta1 = (float)a->beta1,
        .beta2 = (float)a->beta2,
        .rest1 = (float)(1.0 - a->beta1),
        .rest2 = (float)(1.0 - a->beta2),
        .eps = (float)a->eps,
        .keep = (float)(1.0 - a->lr * a->weight_decay),
        .rate = (float)(a->lr / (1.0 - pow(a->beta1, t))),
        .root_norm = (float)(1.0 / sqrt(1.0 - pow(a->beta2, t))),
    };
}

static ZR_HOST_WIDE void update(const step *s, const float *restrict grad, float *restrict m,
                                float *restrict v, float *restrict w, size_t n)
{
    const step k = *s;
    for (size_t i = 0; i < n; i++) {
        const float g = grad[i] * k.grad_scale;
        m[i] = k.beta1 * m[i] + k.rest1 * g;
        v[i] = k.beta2 * v[i] + k.rest2 * g * g;
        w[i] = w[i] * k.keep - k.rate * m[i] / (sqrtf(v[i]) * k.root_norm + k.eps);
    }
}

static bool adamw_ok(const zr_adamw_args *a)
{
    return zr_host_dtype_ok(a->param_dtype) && zr_host_dtype_ok(a->gdtype) &&
           zr_host_dtype_ok(a->state_dtype) && (a->param != NULL || a->master != NULL) &&
           a->step > 0;
}

zl_status zr_adamw(const zr_adamw_args *args, zr_stream *stream)
{
    (void)stream;
    const zr_adamw_args *a = args;
    if (!adamw_ok(a)) {
        return ZL_E_USAGE;
    }
    const step s = prepare(a);
    float bg[ZR_HOST_CHUNK];
    float bm[ZR_HOST_CHUNK];
    float bv[ZR_HOST_CHUNK];
    float w[ZR_HOST_CHUNK];
    for (uint64_t at = 0; at < a->count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, a->count - at);
        float *m = zr_host_edit(bm, a->exp_avg, a->state_dtype, at, n);
        float *v = zr_host_edit(bv, a->exp_avg_sq, a->state_dtype, at, n);
        zr_host_load_weights(w, a->master, a->param, a->param_dtype, at, n);
        update(&s, zr_host_view(bg, a->grad, a->gdtype, at, n), m, v, w, n);
        zr_host_store(a->exp_avg, a->state_dtype, at, m, n);
        zr_host_store(a->exp_avg_sq, a->state_dtype, at, v, n);
        zr_host_store_weights(a->master, a->param, a->param_dtype, at, w, n);
    }
    return ZL_OK;
}
