/* Rotary positions, in the half-rotation layout: element i turns together with i + D/2. */
#include <math.h>

#include "kernel/host/host.h"

#define HALF_MAX (ZR_ATTN_HEAD_DIM_MAX / 2)

zl_status zr_rope_table(float *table, uint32_t tokens, uint32_t head_dim, double theta,
                        zr_stream *stream)
{
    (void)stream;
    if (head_dim == 0 || head_dim % 2 != 0 || !(theta > 0.0)) {
        return ZL_E_USAGE;
    }
    const uint64_t half = head_dim / 2;
    for (uint64_t t = 0; t < tokens; t++) {
        float *const row = table + t * head_dim;
        for (uint64_t i = 0; i < half; i++) {
            const double angle = (double)t * pow(theta, -(double)i / (double)half);
            row[i] = (float)cos(angle);
            row[half + i] = (float)sin(angle);
        }
    }
    return ZL_OK;
}

static void turn(float *restrict a, float *restrict b, const float *restrict table, float sign,
                 size_t half)
{
    for (size_t i = 0; i < half; i++) {
        const float c = table[i];
        const float s = sign * table[half + i];
        const float x = a[i] * c - b[i] * s;
        b[i] = b[i] * c + a[i] * s;
        a[i] = x;
    }
}

static zl_status rotate(const zr_rope_args *r, float sign)
{
    const size_t half = r->head_dim / 2;
    if (!zr_host_dtype_ok(r->dtype) || r->head_dim % 2 != 0 || half == 0 || half > HALF_MAX ||
        r->tokens == 0) {
        return ZL_E_USAGE;
    }
    float a[HALF_MAX];
    float b[HALF_MAX];
    const uint64_t heads = (uint64_t)r->heads + r->kv_heads;
    const uint64_t stride = (heads + r->kv_heads) * r->head_dim;
    for (uint64_t row = 0; row < r->rows; row++) {
        const float *const table = r->table + (row % r->tokens) * r->head_dim;
        for (uint64_t head = 0; head < heads; head++) {
            const uint64_t at = row * stride + head * r->head_dim;
            zr_host_load(a, r->qkv, r->dtype, at, half);
            zr_host_load(b, r->qkv, r->dtype, at + half, half);
            turn(a, b, table, sign, half);
            zr_host_store(r->qkv, r->dtype, at, a, half);
            zr_host_store(r->qkv, r->dtype, at + half, b, half);
        }
    }
    return ZL_OK;
}

zl_status zr_rope_forward(const zr_rope_args *args, zr_stream *stream)
{
    (void)stream;
    return rotate(args, 1.0F);
}

zl_status zr_rope_backward(const zr_rope_args *args, zr_stream *stream)
{
    (void)stream;
    return rotate(args, -1.0F);
}
