/* SwiGLU: gate * sigmoid(gate) * up, gates and ups side by side in one row. */
#include "kernel/host/host.h"

static ZR_HOST_WIDE void forward_stretch(const float *restrict gate, const float *restrict up,
                                         float *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = gate[i] * zr_host_sigmoid(gate[i]) * up[i];
    }
}

zl_status zr_swiglu_forward(const zr_swiglu_args *args, zr_stream *stream)
{
    (void)stream;
    const zr_swiglu_args *a = args;
    if (!zr_host_dtype_ok(a->dtype)) {
        return ZL_E_USAGE;
    }
    float bg[ZR_HOST_CHUNK];
    float bu[ZR_HOST_CHUNK];
    float out[ZR_HOST_CHUNK];
    const uint64_t f = a->width;
    for (uint64_t row = 0; row < a->rows; row++) {
        for (uint64_t col = 0; col < f; col += ZR_HOST_CHUNK) {
            const size_t n = zr_host_min(ZR_HOST_CHUNK, f - col);
            const uint64_t at = 2 * row * f + col;
            forward_stretch(zr_host_view(bg, a->pre, a->dtype, at, n),
                            zr_host_view(bu, a->pre, a->dtype, at + f, n), out, n);
            zr_host_store(a->out, a->dtype, row * f + col, out, n);
        }
    }
    return ZL_OK;
}

/* gate and up become their gradients. */
static ZR_HOST_WIDE void backward_stretch(float *restrict gate, float *restrict up,
                                          const float *restrict dout, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float s = zr_host_sigmoid(gate[i]);
        const float dgate = dout[i] * up[i] * s * (1.0F + gate[i] * (1.0F - s));
        up[i] = dout[i] * gate[i] * s;
        gate[i] = dgate;
    }
}

zl_status zr_swiglu_backward(const zr_swiglu_args *args, zr_stream *stream)
{
    (void)stream;
    const zr_swiglu_args *a = args;
    if (!zr_host_dtype_ok(a->dtype)) {
        return ZL_E_USAGE;
    }
    float gate[ZR_HOST_CHUNK];
    float up[ZR_HOST_CHUNK];
    float bd[ZR_HOST_CHUNK];
    const uint64_t f = a->width;
    for (uint64_t row = 0; row < a->rows; row++) {
        for (uint64_t col = 0; col < f; col += ZR_HOST_CHUNK) {
            const size_t n = zr_host_min(ZR_HOST_CHUNK, f - col);
            const uint64_t at = 2 * row * f + col;
            zr_host_load(gate, a->pre, a->dtype, at, n);
            zr_host_load(up, a->pre, a->dtype, at + f, n);
            backward_stretch(gate, up, zr_host_view(bd, a->dout, a->dtype, row * f + col, n), n);
            zr_host_store(a->dpre, a->dtype, at, gate, n);
            zr_host_store(a->dpre, a->dtype, at + f, up, n);
        }
    }
    return ZL_OK;
}
