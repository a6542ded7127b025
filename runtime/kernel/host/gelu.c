/* GELU. The tanh form needs no tanh: (1 + tanh u) / 2 = sigmoid(2u). */
#include <math.h>

#include "kernel/host/host.h"

/* 2 sqrt(2/pi) and the cubic coefficient of Hendrycks and Gimpel, arXiv 1606.08415. */
static const float slope = 1.595769122F;
static const float cubic = 0.044715F;

static ZR_HOST_WIDE void tanh_form(const float *restrict x, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] * zr_host_sigmoid(slope * (x[i] + cubic * x[i] * x[i] * x[i]));
    }
}

static ZR_HOST_WIDE void tanh_form_gradient(const float *restrict x, float *restrict g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float s = zr_host_sigmoid(slope * (x[i] + cubic * x[i] * x[i] * x[i]));
        const float inner = slope * (1.0F + 3.0F * cubic * x[i] * x[i]);
        g[i] *= s + x[i] * s * (1.0F - s) * inner;
    }
}

static void erf_form(const float *restrict x, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = 0.5F * x[i] * erfcf(-0.707106781F * x[i]);
    }
}

static void erf_form_gradient(const float *restrict x, float *restrict g, size_t n)
{
    const float density = 0.398942280F; /* 1/sqrt(2 pi) */
    for (size_t i = 0; i < n; i++) {
        const float cdf = 0.5F * erfcf(-0.707106781F * x[i]);
        g[i] *= cdf + x[i] * density * zr_host_exp(-0.5F * x[i] * x[i]);
    }
}

static bool gelu_ok(const zr_gelu_args *args)
{
    return zr_host_dtype_ok(args->dtype) && (unsigned)args->kind < (unsigned)ZR_GELU_COUNT;
}

zl_status zr_gelu_forward(const zr_gelu_args *args, zr_stream *stream)
{
    (void)stream;
    if (!gelu_ok(args)) {
        return ZL_E_USAGE;
    }
    float buf[ZR_HOST_CHUNK];
    float out[ZR_HOST_CHUNK];
    for (uint64_t at = 0; at < args->count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, args->count - at);
        const float *x = zr_host_view(buf, args->pre, args->dtype, at, n);
        (args->kind == ZR_GELU_TANH ? tanh_form : erf_form)(x, out, n);
        zr_host_store(args->out, args->dtype, at, out, n);
    }
    return ZL_OK;
}

zl_status zr_gelu_backward(const zr_gelu_args *args, zr_stream *stream)
{
    (void)stream;
    if (!gelu_ok(args)) {
        return ZL_E_USAGE;
    }
    float buf[ZR_HOST_CHUNK];
    float grad[ZR_HOST_CHUNK];
    for (uint64_t at = 0; at < args->count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, args->count - at);
        const float *x = zr_host_view(buf, args->pre, args->dtype, at, n);
        zr_host_load(grad, args->grad, args->dtype, at, n);
        (args->kind == ZR_GELU_TANH ? tanh_form_gradient : erf_form_gradient)(x, grad, n);
        zr_host_store(args->grad, args->dtype, at, grad, n);
    }
    return ZL_OK;
}
