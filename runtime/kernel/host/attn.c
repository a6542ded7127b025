/* Tiles of packed attention tensors. */
#include "kernel/host/attn.h"

#include <cblas.h>

bool zr_attn_ok(const zr_attn_args *a)
{
    if (!zr_host_dtype_ok(a->dtype) || !zr_host_probability_ok(a->dropout)) {
        return false;
    }
    if (a->heads == 0 || a->kv_heads == 0 || a->heads % a->kv_heads != 0) {
        return false;
    }
    if (a->head_dim == 0 || a->head_dim > ZR_ATTN_HEAD_DIM_MAX) {
        return false;
    }
    for (uint32_t b = 0; a->lengths != NULL && b < a->batch; b++) {
        if (a->lengths[b] < 0) {
            return false;
        }
    }
    return ((uint64_t)a->heads + 2 * (uint64_t)a->kv_heads) * a->head_dim <= INT32_MAX;
}

uint32_t zr_attn_keys(const zr_attn_args *a, uint32_t b)
{
    if (a->lengths == NULL || (uint32_t)a->lengths[b] > a->tokens) {
        return a->tokens;
    }
    return (uint32_t)a->lengths[b];
}

zr_span zr_attn_span(uint32_t first, uint32_t limit)
{
    const uint32_t left = first < limit ? limit - first : 0;
    return (zr_span){first, left < ZR_ATTN_TILE ? left : ZR_ATTN_TILE};
}

uint32_t zr_attn_visible(const zr_attn_args *a, uint32_t query, zr_span keys)
{
    if (!a->causal) {
        return keys.n;
    }
    const uint32_t seen = query < keys.first ? 0 : query - keys.first + 1;
    return seen < keys.n ? seen : keys.n;
}

bool zr_attn_meet(const zr_attn_args *a, zr_span queries, zr_span keys)
{
    return keys.n > 0 && queries.n > 0 && (!a->causal || keys.first < queries.first + queries.n);
}

static uint64_t packed_width(const zr_attn_args *a)
{
    return ((uint64_t)a->heads + 2 * (uint64_t)a->kv_heads) * a->head_dim;
}

/* `span` of head `head` in a tensor of `width` elements a row. */
static zr_rows load(float *buf, const zr_attn_args *a, const void *x, uint64_t width, uint32_t b,
                    uint32_t head, zr_span span)
{
    const uint64_t row = (uint64_t)b * a->tokens + span.first;
    const uint64_t at = row * width + (uint64_t)head * a->head_dim;
    if (a->dtype == ZL_F32) {
        return (zr_rows){(const float *)x + at, (int)width};
    }
    for (uint32_t r = 0; r < span.n; r++) {
        zr_host_load(buf + (size_t)r * a->head_dim, x, a->dtype, at + r * width, a->head_dim);
    }
    return (zr_rows){buf, (int)a->head_dim};
}

zr_rows zr_attn_load(float *buf, const zr_attn_args *a, uint32_t b, uint32_t head, zr_span span)
{
    return load(buf, a, a->qkv, packed_width(a), b, head, span);
}

zr_rows zr_attn_load_out(float *buf, const zr_attn_args *a, const void *out, uint32_t b,
                         uint32_t head, zr_span span)
{
    return load(buf, a, out, (uint64_t)a->heads * a->head_dim, b, head, span);
}

static void store(const zr_attn_args *a, void *x, uint64_t width, uint64_t at, zr_span span,
                  const float *rows)
{
    for (uint32_t r = 0; r < span.n; r++) {
        zr_host_store(x, a->dtype, at + r * width, rows + (size_t)r * a->head_dim, a->head_dim);
    }
}

void zr_attn_store(const zr_attn_args *a, uint32_t b, uint32_t head, zr_span span,
                   const float *rows)
{
    const uint64_t row = (uint64_t)b * a->tokens + span.first;
    const uint64_t width = packed_width(a);
    store(a, a->dqkv, width, row * width + (uint64_t)head * a->head_dim, span, rows);
}

void zr_attn_store_out(const zr_attn_args *a, uint32_t b, uint32_t head, zr_span span,
                       const float *rows)
{
    const uint64_t row = (uint64_t)b * a->tokens + span.first;
    const uint64_t width = (uint64_t)a->heads * a->head_dim;
    store(a, a->out, width, row * width + (uint64_t)head * a->head_dim, span, rows);
}

void zr_attn_outer(const zr_attn_args *a, float factor, zr_rows x, uint32_t nx, zr_rows y,
                   uint32_t ny, float *s)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)nx, (int)ny, (int)a->head_dim, factor,
                x.data, x.ld, y.data, y.ld, 0.0F, s, ZR_ATTN_TILE);
}

void zr_attn_add(const zr_attn_args *a, const float *s, uint32_t nx, zr_rows y, uint32_t ny,
                 float *sum)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)nx, (int)a->head_dim, (int)ny, 1.0F,
                s, ZR_ATTN_TILE, y.data, y.ld, 1.0F, sum, (int)a->head_dim);
}

void zr_attn_add_transposed(const zr_attn_args *a, const float *s, uint32_t nx, zr_rows x,
                            uint32_t ny, float *sum)
{
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)ny, (int)a->head_dim, (int)nx, 1.0F,
                s, ZR_ATTN_TILE, x.data, x.ld, 1.0F, sum, (int)a->head_dim);
}

uint64_t zr_attn_row(const zr_attn_args *a, uint32_t b, uint32_t head, uint32_t query)
{
    return ((uint64_t)b * a->heads + head) * a->tokens + query;
}

uint64_t zr_attn_square(const zr_attn_args *a, uint32_t b, uint32_t head, uint32_t query)
{
    return zr_attn_row(a, b, head, query) * a->tokens;
}

void zr_attn_drop(const zr_attn_args *a, float *x, uint32_t n, uint64_t element)
{
    if (!(a->dropout > 0.0F)) {
        return;
    }
    float mask[ZR_ATTN_TILE];
    zr_host_mask(mask, n, a->dropout, &a->rng, element);
    for (uint32_t i = 0; i < n; i++) {
        x[i] *= mask[i];
    }
}
