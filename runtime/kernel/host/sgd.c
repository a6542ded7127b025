/* SGD with momentum over a flat range. */
#include "kernel/host/host.h"

static void add_decay(const zr_sgd_args *a, float *restrict g, const float *restrict w, size_t n)
{
    const float scale = a->grad_scale;
    const float decay = (float)a->weight_decay;
    for (size_t i = 0; i < n; i++) {
        g[i] = g[i] * scale + decay * w[i];
    }
}

/* g becomes mu * buf + g. */
static void add_momentum(float mu, float *restrict g, const float *restrict buf, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        g[i] += mu * buf[i];
    }
}

static bool sgd_ok(const zr_sgd_args *a)
{
    return zr_host_dtype_ok(a->param_dtype) && zr_host_dtype_ok(a->gdtype) &&
           zr_host_dtype_ok(a->state_dtype) && (a->param != NULL || a->master != NULL) &&
           (a->momentum != NULL || a->mu == 0.0);
}

zl_status zr_sgd(const zr_sgd_args *args, zr_stream *stream)
{
    (void)stream;
    const zr_sgd_args *a = args;
    if (!sgd_ok(a)) {
        return ZL_E_USAGE;
    }
    const float rate = (float)a->lr;
    float buf[ZR_HOST_CHUNK];
    float g[ZR_HOST_CHUNK];
    float w[ZR_HOST_CHUNK];
    for (uint64_t at = 0; at < a->count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, a->count - at);
        zr_host_load_weights(w, a->master, a->param, a->param_dtype, at, n);
        zr_host_load(g, a->grad, a->gdtype, at, n);
        add_decay(a, g, w, n);
        if (a->momentum != NULL) {
            add_momentum((float)a->mu, g, zr_host_view(buf, a->momentum, a->state_dtype, at, n), n);
            zr_host_store(a->momentum, a->state_dtype, at, g, n);
        }
        for (size_t i = 0; i < n; i++) {
            w[i] -= rate * g[i];
        }
        zr_host_store_weights(a->master, a->param, a->param_dtype, at, w, n);
    }
    return ZL_OK;
}
