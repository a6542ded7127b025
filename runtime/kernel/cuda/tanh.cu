/* tanh of the pooler. */
#include "kernel/cuda/device.cuh"

static __global__ void tanh_forward(const void *x, void *out, uint64_t count, zl_dtype dtype)
{
    for (uint64_t i = first_element(); i < count; i += element_step()) {
        store(out, dtype, i, tanhf(load(x, dtype, i)));
    }
}

static __global__ void tanh_backward(const void *out, void *grad, uint64_t count, zl_dtype dtype)
{
    for (uint64_t i = first_element(); i < count; i += element_step()) {
        const float y = load(out, dtype, i);
        store(grad, dtype, i, mul(load(grad, dtype, i), sub(1.0f, mul(y, y))));
    }
}

zl_status zr_tanh_forward(const void *x, void *out, uint64_t count, zl_dtype dtype,
                          zr_stream *stream)
{
    if (!dtype_ok(dtype) || stream == NULL) {
        return ZL_E_USAGE;
    }
    return launch_elements(tanh_forward, count, stream, x, out, count, dtype);
}

zl_status zr_tanh_backward(const void *out, void *grad, uint64_t count, zl_dtype dtype,
                           zr_stream *stream)
{
    if (!dtype_ok(dtype) || stream == NULL) {
        return ZL_E_USAGE;
    }
    return launch_elements(tanh_backward, count, stream, out, grad, count, dtype);
}
