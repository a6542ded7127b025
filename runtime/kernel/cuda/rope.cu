/* Rotary positions, in the half-rotation layout: element i turns together with i + D/2. */
#include "kernel/cuda/device.cuh"

static __global__ void fill_table(float *table, uint64_t tokens, uint64_t middle, double theta)
{
    for (uint64_t i = first_element(); i < tokens * middle; i += element_step()) {
        const uint64_t t = i / middle;
        const uint64_t pair = i % middle;
        const double angle = (double)t * pow(theta, -(double)pair / (double)middle);
        table[t * 2 * middle + pair] = (float)cos(angle);
        table[t * 2 * middle + middle + pair] = (float)sin(angle);
    }
}

zl_status zr_rope_table(float *table, uint32_t tokens, uint32_t head_dim, double theta,
                        zr_stream *stream)
{
    if (head_dim == 0 || head_dim % 2 != 0 || !(theta > 0.0) || stream == NULL) {
        return ZL_E_USAGE;
    }
    const uint64_t middle = head_dim / 2;
    return launch_elements(fill_table, tokens * middle, stream, table, (uint64_t)tokens, middle,
                           theta);
}

/* One row a block; x turns with y, which lies half a head further. `packs` of a head's half. */
template <typename T, unsigned N> static __global__ void rotate(zr_rope_args a, float sign)
{
    const unsigned middle = a.head_dim / 2;
    const unsigned packs = middle / N;
    const uint64_t row = blockIdx.x;
    const float *const table = a.table + row % a.tokens * a.head_dim;
    T *const qkv = (T *)a.qkv + row * (a.heads + 2 * (uint64_t)a.kv_heads) * a.head_dim;
    for (unsigned i = threadIdx.x; i < (a.heads + a.kv_heads) * packs; i += blockDim.x) {
        const unsigned pair = i % packs * N;
        const uint64_t at = (uint64_t)(i / packs) * a.head_dim + pair;
        const pack<N> c = load_pack<N>(table, pair);
        const pack<N> s = load_pack<N>(table, middle + pair);
        pack<N> x = load_pack<N>(qkv, at);
        pack<N> y = load_pack<N>(qkv, at + middle);
#pragma unroll
        for (unsigned j = 0; j < N; j++) {
            const float sine = mul(sign, s.at[j]);
            const float old = x.at[j];
            x.at[j] = sub(mul(old, c.at[j]), mul(y.at[j], sine));
            y.at[j] = add(mul(y.at[j], c.at[j]), mul(old, sine));
        }
        store_pack(qkv, at, x);
        store_pack(qkv, at + middle, y);
    }
}

static zl_status rotate_rows(const zr_rope_args *a, float sign, zr_stream *stream)
{
    if (a->head_dim == 0 || a->head_dim % 2 != 0 || a->head_dim > ZR_ATTN_HEAD_DIM_MAX ||
        a->tokens == 0 || stream == NULL) {
        return ZL_E_USAGE;
    }
    const bool wide = a->head_dim % 16 == 0 && aligned(a->qkv, a->table);
    return for_type(a->dtype, [&](auto t) {
        using T = decltype(t);
        return wide ? launch_rows(rotate<T, 8>, a->rows, stream, *a, sign)
                    : launch_rows(rotate<T, 1>, a->rows, stream, *a, sign);
    });
}

zl_status zr_rope_forward(const zr_rope_args *args, zr_stream *stream)
{
    return rotate_rows(args, 1.0f, stream);
}

zl_status zr_rope_backward(const zr_rope_args *args, zr_stream *stream)
{
    return rotate_rows(args, -1.0f, stream);
}
