/* GELU. The tanh form needs no tanh: (1 + tanh u) / 2 = sigmoid(2u). */
#include "kernel/cuda/device.cuh"

/* 2 sqrt(2/pi) and the cubic coefficient of Hendrycks and Gimpel, arXiv 1606.08415. */
static constexpr float slope = 1.595769122f;
static constexpr float cubic = 0.044715f;

static __device__ float value(zr_gelu kind, float x)
{
    if (kind == ZR_GELU_TANH) {
        return x * sigmoid(slope * (x + cubic * x * x * x));
    }
    return 0.5f * x * erfcf(-0.707106781f * x);
}

static __device__ float derivative(zr_gelu kind, float x)
{
    if (kind == ZR_GELU_TANH) {
        const float s = sigmoid(slope * (x + cubic * x * x * x));
        return s + x * s * (1.0f - s) * slope * (1.0f + 3.0f * cubic * x * x);
    }
    const float density = 0.398942280f; /* 1/sqrt(2 pi) */
    return 0.5f * erfcf(-0.707106781f * x) + x * density * expf(-0.5f * x * x);
}

static __global__ void gelu_forward(zr_gelu_args a)
{
    for (uint64_t i = first_element(); i < a.count; i += element_step()) {
        store(a.out, a.dtype, i, value(a.kind, load(a.pre, a.dtype, i)));
    }
}

static __global__ void gelu_backward(zr_gelu_args a)
{
    for (uint64_t i = first_element(); i < a.count; i += element_step()) {
        const float x = load(a.pre, a.dtype, i);
        store(a.grad, a.dtype, i, load(a.grad, a.dtype, i) * derivative(a.kind, x));
    }
}

static bool gelu_ok(const zr_gelu_args *a, const zr_stream *stream)
{
    return dtype_ok(a->dtype) && (unsigned)a->kind < (unsigned)ZR_GELU_COUNT && stream != NULL;
}

zl_status zr_gelu_forward(const zr_gelu_args *args, zr_stream *stream)
{
    if (!gelu_ok(args, stream)) {
        return ZL_E_USAGE;
    }
    return launch_elements(gelu_forward, args->count, stream, *args);
}

zl_status zr_gelu_backward(const zr_gelu_args *args, zr_stream *stream)
{
    if (!gelu_ok(args, stream)) {
        return ZL_E_USAGE;
    }
    return launch_elements(gelu_backward, args->count, stream, *args);
}
