/* SwiGLU: gate * sigmoid(gate) * up, gates and ups side by side in one row. */
#include "kernel/cuda/device.cuh"

/* Where the gate of output element i lies; its up follows `width` later. */
static __device__ __forceinline__ uint64_t gate_of(uint64_t i, uint64_t width)
{
    return i + (i / width) * width;
}

static __global__ void swiglu_forward(zr_swiglu_args a)
{
    const uint64_t count = (uint64_t)a.rows * a.width;
    for (uint64_t i = first_element(); i < count; i += element_step()) {
        const uint64_t at = gate_of(i, a.width);
        const float gate = load(a.pre, a.dtype, at);
        const float up = load(a.pre, a.dtype, at + a.width);
        store(a.out, a.dtype, i, gate * sigmoid(gate) * up);
    }
}

static __global__ void swiglu_backward(zr_swiglu_args a)
{
    const uint64_t count = (uint64_t)a.rows * a.width;
    for (uint64_t i = first_element(); i < count; i += element_step()) {
        const uint64_t at = gate_of(i, a.width);
        const float gate = load(a.pre, a.dtype, at);
        const float up = load(a.pre, a.dtype, at + a.width);
        const float dout = load(a.dout, a.dtype, i);
        const float s = sigmoid(gate);
        store(a.dpre, a.dtype, at, dout * up * s * (1.0f + gate * (1.0f - s)));
        store(a.dpre, a.dtype, at + a.width, dout * gate * s);
    }
}

static bool swiglu_ok(const zr_swiglu_args *a, const zr_stream *stream)
{
    return dtype_ok(a->dtype) && stream != NULL;
}

zl_status zr_swiglu_forward(const zr_swiglu_args *args, zr_stream *stream)
{
    if (!swiglu_ok(args, stream)) {
        return ZL_E_USAGE;
    }
    return launch_elements(swiglu_forward, (uint64_t)args->rows * args->width, stream, *args);
}

zl_status zr_swiglu_backward(const zr_swiglu_args *args, zr_stream *stream)
{
    if (!swiglu_ok(args, stream)) {
        return ZL_E_USAGE;
    }
    return launch_elements(swiglu_backward, (uint64_t)args->rows * args->width, stream, *args);
}
