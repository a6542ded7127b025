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

template <typename P, typename G, typename S>
static __global__ void adamw(zr_adamw_args a, adamw_step k, bool wide)
{
    for_packs<4>(a.count, wide, [&](auto n, uint64_t i) {
        const pack<n> grad = load_pack<n>((const G *)a.grad, i);
        pack<n> m = load_pack<n>((const S *)a.exp_avg, i);
        pack<n> v = load_pack<n>((const S *)a.exp_avg_sq, i);
        pack<n> w = a.master != NULL ? load_pack<n>((const float *)a.master, i)
                                     : load_pack<n>((const P *)a.param, i);
#pragma unroll
        for (unsigned j = 0; j < n; j++) {
            const float g = mul(grad.at[j], k.grad_scale);
            m.at[j] = add(mul(k.beta1, m.at[j]), mul(k.rest1, g));
            v.at[j] = add(mul(k.beta2, v.at[j]), mul(mul(k.rest2, g), g));
            const float root = add(mul(__fsqrt_rn(v.at[j]), k.root_norm), k.eps);
            w.at[j] = sub(mul(w.at[j], k.keep), __fdiv_rn(mul(k.rate, m.at[j]), root));
        }
        store_pack((S *)a.exp_avg, i, m);
        store_pack((S *)a.exp_avg_sq, i, v);
        if (a.master != NULL) {
            store_pack(a.master, i, w);
        }
        if (a.param != NULL) {
            store_pack((P *)a.param, i, w);
        }
    });
}

zl_status zr_adamw(const zr_adamw_args *args, zr_stream *stream)
{
    const zr_adamw_args *a = args;
    if (!dtype_ok(a->param_dtype) || (a->param == NULL && a->master == NULL) || a->step == 0 ||
        stream == NULL) {
        return ZL_E_USAGE;
    }
    const bool wide = aligned(a->param, a->master, a->grad, a->exp_avg, a->exp_avg_sq);
    return for_type(a->param_dtype, [&](auto p) {
        return for_type(a->gdtype, [&](auto g) {
            return for_type(a->state_dtype, [&](auto s) {
                return launch_packs<4>(adamw<decltype(p), decltype(g), decltype(s)>, a->count,
                                       stream, *a, prepare(a), wide);
            });
        });
    });
}
