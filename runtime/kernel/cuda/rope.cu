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

/* One pair a turn; pairs of a row are numbered through its query and key heads. */
static __global__ void rotate(zr_rope_args a, float sign)
{
    const uint64_t middle = a.head_dim / 2;
    const uint64_t heads = (uint64_t)a.heads + a.kv_heads;
    const uint64_t stride = (heads + a.kv_heads) * a.head_dim;
    const uint64_t pairs = heads * middle;
    for (uint64_t i = first_element(); i < a.rows * pairs; i += element_step()) {
        const uint64_t row = i / pairs;
        const uint64_t head = i % pairs / middle;
        const uint64_t pair = i % middle;
        const float *table = a.table + (row % a.tokens) * a.head_dim;
        const uint64_t at = row * stride + head * a.head_dim + pair;
        const float c = table[pair];
        const float s = mul(sign, table[middle + pair]);
        const float x = load(a.qkv, a.dtype, at);
        const float y = load(a.qkv, a.dtype, at + middle);
        store(a.qkv, a.dtype, at, sub(mul(x, c), mul(y, s)));
        store(a.qkv, a.dtype, at + middle, add(mul(y, c), mul(x, s)));
    }
}

static zl_status rotate_rows(const zr_rope_args *a, float sign, zr_stream *stream)
{
    if (!dtype_ok(a->dtype) || a->head_dim == 0 || a->head_dim % 2 != 0 ||
        a->head_dim > ZR_ATTN_HEAD_DIM_MAX || a->tokens == 0 || stream == NULL) {
        return ZL_E_USAGE;
    }
    const uint64_t pairs = ((uint64_t)a->heads + a->kv_heads) * (a->head_dim / 2);
    return launch_elements(rotate, a->rows * pairs, stream, *a, sign);
}

zl_status zr_rope_forward(const zr_rope_args *args, zr_stream *stream)
{
    return rotate_rows(args, 1.0f, stream);
}

zl_status zr_rope_backward(const zr_rope_args *args, zr_stream *stream)
{
    return rotate_rows(args, -1.0f, stream);
}
