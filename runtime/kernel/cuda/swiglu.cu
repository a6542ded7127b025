/* SwiGLU: gate * sigmoid(gate) * up, gates and ups side by side in one row. A block a row. */
#include "kernel/cuda/device.cuh"

template <typename T> static __global__ void swiglu_forward(zr_swiglu_args a, bool wide)
{
    const uint64_t row = blockIdx.x;
    const T *const gates = (const T *)a.pre + row * 2 * a.width;
    const T *const ups = gates + a.width;
    T *const out = (T *)a.out + row * a.width;
    for_packs<8>(a.width, wide, threadIdx.x, blockDim.x, [&](auto n, uint64_t i) {
        const pack<n> gate = load_pack<n>(gates, i);
        pack<n> v = load_pack<n>(ups, i);
#pragma unroll
        for (unsigned j = 0; j < n; j++) {
            v.at[j] *= gate.at[j] * sigmoid(gate.at[j]);
        }
        store_pack(out, i, v);
    });
}

/* dpre may be pre: each element is read before it is written, by the same thread. */
template <typename T> static __global__ void swiglu_backward(zr_swiglu_args a, bool wide)
{
    const uint64_t row = blockIdx.x;
    const uint64_t first = row * 2 * a.width;
    const T *const pre = (const T *)a.pre + first;
    const T *const dout = (const T *)a.dout + row * a.width;
    T *const dpre = (T *)a.dpre + first;
    for_packs<8>(a.width, wide, threadIdx.x, blockDim.x, [&](auto n, uint64_t i) {
        pack<n> gate = load_pack<n>(pre, i);
        pack<n> up = load_pack<n>(pre + a.width, i);
        const pack<n> d = load_pack<n>(dout, i);
#pragma unroll
        for (unsigned j = 0; j < n; j++) {
            const float g = gate.at[j];
            const float s = sigmoid(g);
            gate.at[j] = d.at[j] * up.at[j] * s * (1.0f + g * (1.0f - s));
            up.at[j] = d.at[j] * g * s;
        }
        store_pack(dpre, i, gate);
        store_pack(dpre + a.width, i, up);
    });
}

/* Every row of gates, ups and outputs starts at a multiple of a pack. */
static bool wide(const zr_swiglu_args *a, const void *x, const void *y)
{
    return a->width % 8 == 0 && aligned(x, y);
}

zl_status zr_swiglu_forward(const zr_swiglu_args *args, zr_stream *stream)
{
    if (stream == NULL) {
        return ZL_E_USAGE;
    }
    return for_type(args->dtype, [&](auto t) {
        return launch_rows(swiglu_forward<decltype(t)>, args->rows, stream, *args,
                           wide(args, args->pre, args->out));
    });
}

zl_status zr_swiglu_backward(const zr_swiglu_args *args, zr_stream *stream)
{
    if (stream == NULL) {
        return ZL_E_USAGE;
    }
    return for_type(args->dtype, [&](auto t) {
        return launch_rows(swiglu_backward<decltype(t)>, args->rows, stream, *args,
                           wide(args, args->pre, args->dout) && aligned(args->dpre));
    });
}
