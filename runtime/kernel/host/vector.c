/* Fill, cast, add, scale, and the ordered sum of pieces. */
#include "kernel/host/host.h"

zl_status zr_fill(void *x, uint64_t count, zl_dtype dtype, float value, zr_stream *stream)
{
    (void)stream;
    if (!zr_host_dtype_ok(dtype)) {
        return ZL_E_USAGE;
    }
    float v[ZR_HOST_CHUNK];
    for (size_t i = 0; i < ZR_HOST_CHUNK; i++) {
        v[i] = value;
    }
    for (uint64_t at = 0; at < count; at += ZR_HOST_CHUNK) {
        zr_host_store(x, dtype, at, v, zr_host_min(ZR_HOST_CHUNK, count - at));
    }
    return ZL_OK;
}

zl_status zr_cast(const zr_pair_args *args, zr_stream *stream)
{
    (void)stream;
    if (!zr_host_dtype_ok(args->dst_dtype) || !zr_host_dtype_ok(args->src_dtype)) {
        return ZL_E_USAGE;
    }
    float buf[ZR_HOST_CHUNK];
    for (uint64_t at = 0; at < args->count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, args->count - at);
        const float *v = zr_host_view(buf, args->src, args->src_dtype, at, n);
        zr_host_store(args->dst, args->dst_dtype, at, v, n);
    }
    return ZL_OK;
}

static ZR_HOST_WIDE void add(float *restrict sum, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum[i] += x[i];
    }
}

static ZR_HOST_WIDE void multiply(float *x, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] *= factor;
    }
}

zl_status zr_add(const zr_pair_args *args, zr_stream *stream)
{
    (void)stream;
    if (!zr_host_dtype_ok(args->dst_dtype) || !zr_host_dtype_ok(args->src_dtype)) {
        return ZL_E_USAGE;
    }
    float buf[ZR_HOST_CHUNK];
    float sum[ZR_HOST_CHUNK];
    for (uint64_t at = 0; at < args->count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, args->count - at);
        zr_host_load(sum, args->dst, args->dst_dtype, at, n);
        add(sum, zr_host_view(buf, args->src, args->src_dtype, at, n), n);
        zr_host_store(args->dst, args->dst_dtype, at, sum, n);
    }
    return ZL_OK;
}

zl_status zr_scale(void *x, uint64_t count, zl_dtype dtype, float factor, zr_stream *stream)
{
    (void)stream;
    if (!zr_host_dtype_ok(dtype)) {
        return ZL_E_USAGE;
    }
    float v[ZR_HOST_CHUNK];
    for (uint64_t at = 0; at < count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, count - at);
        zr_host_load(v, x, dtype, at, n);
        multiply(v, factor, n);
        zr_host_store(x, dtype, at, v, n);
    }
    return ZL_OK;
}

zl_status zr_reduce(const zr_reduce_args *args, zr_stream *stream)
{
    (void)stream;
    const zr_reduce_args *a = args;
    if (!zr_host_dtype_ok(a->piece_dtype) || !zr_host_dtype_ok(a->out_dtype) || a->pieces == 0 ||
        a->stride < a->count) {
        return ZL_E_USAGE;
    }
    float buf[ZR_HOST_CHUNK];
    float sum[ZR_HOST_CHUNK];
    for (uint64_t at = 0; at < a->count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, a->count - at);
        zr_host_load(sum, a->in, a->piece_dtype, at, n);
        for (uint64_t piece = 1; piece < a->pieces; piece++) {
            add(sum, zr_host_view(buf, a->in, a->piece_dtype, piece * a->stride + at, n), n);
        }
        multiply(sum, a->scale, n);
        zr_host_store(a->out, a->out_dtype, at, sum, n);
    }
    return ZL_OK;
}
