/* GELU. The tanh form needs no tanh: (1 + tanh u) / 2 = sigmoid(2u). */
#include "kernel/cuda/device.cuh"

/* 2 sqrt(2/pi) and the cubic coefficient of Hendrycks and Gimpel, arXiv 1606.08415. */
static constexpr float slope = 1.595769122f;
static constexpr float cubic = 0.044715f;

static __device__ __forceinline__ float value(zr_gelu kind, float x)
{
    if (kind == ZR_GELU_TANH) {
        return x * sigmoid(slope * (x + cubic * x * x * x));
    }
    return 0.5f * x * erfcf(-0.707106781f * x);
}

static __device__ __forceinline__ float derivative(zr_gelu kind, float x)
{
    if (kind == ZR_GELU_TANH) {
        const float s = sigmoid(slope * (x + cubic * x * x * x));
        return s + x * s * (1.0f - s) * slope * (1.0f + 3.0f * cubic * x * x);
    }
    const float density = 0.398942280f; /* 1/sqrt(2 pi) */
    return 0.5f * erfcf(-0.707106781f * x) + x * density * __expf(-0.5f * x * x);
}

template <typename T> static __global__ void gelu_forward(zr_gelu_args a, bool wide)
{
    for_packs<8>(a.count, wide, [&](auto n, uint64_t i) {
        pack<n> v = load_pack<n>((const T *)a.pre, i);
#pragma unroll
        for (unsigned j = 0; j < n; j++) {
            v.at[j] = value(a.kind, v.at[j]);
        }
        store_pack((T *)a.out, i, v);
    });
}

template <typename T> static __global__ void gelu_backward(zr_gelu_args a, bool wide)
{
    for_packs<8>(a.count, wide, [&](auto n, uint64_t i) {
        const pack<n> pre = load_pack<n>((const T *)a.pre, i);
        pack<n> v = load_pack<n>((const T *)a.grad, i);
#pragma unroll
        for (unsigned j = 0; j < n; j++) {
            v.at[j] *= derivative(a.kind, pre.at[j]);
        }
        store_pack((T *)a.grad, i, v);
    });
}

static bool gelu_ok(const zr_gelu_args *a, const zr_stream *stream)
{
    return (unsigned)a->kind < (unsigned)ZR_GELU_COUNT && stream != NULL;
}

zl_status zr_gelu_forward(const zr_gelu_args *args, zr_stream *stream)
{
    if (!gelu_ok(args, stream)) {
        return ZL_E_USAGE;
    }
    return for_type(args->dtype, [&](auto t) {
        return launch_packs<8>(gelu_forward<decltype(t)>, args->count, stream, *args,
                               aligned(args->pre, args->out));
    });
}

zl_status zr_gelu_backward(const zr_gelu_args *args, zr_stream *stream)
{
    if (!gelu_ok(args, stream)) {
        return ZL_E_USAGE;
    }
    return for_type(args->dtype, [&](auto t) {
        return launch_packs<8>(gelu_backward<decltype(t)>, args->count, stream, *args,
                               aligned(args->pre, args->grad));
    });
}
