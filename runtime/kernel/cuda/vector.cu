/* Fill, cast, add, scale, and the ordered sum of pieces. */
#include "kernel/cuda/device.cuh"

static __global__ void fill(void *x, uint64_t count, zl_dtype dtype, float value)
{
    for (uint64_t i = first_element(); i < count; i += element_step()) {
        store(x, dtype, i, value);
    }
}

zl_status zr_fill(void *x, uint64_t count, zl_dtype dtype, float value, zr_stream *stream)
{
    if (!dtype_ok(dtype) || stream == NULL) {
        return ZL_E_USAGE;
    }
    return launch_elements(fill, count, stream, x, count, dtype, value);
}

static bool pair_ok(const zr_pair_args *a, const zr_stream *stream)
{
    return dtype_ok(a->dst_dtype) && dtype_ok(a->src_dtype) && stream != NULL;
}

static __global__ void cast(zr_pair_args a)
{
    for (uint64_t i = first_element(); i < a.count; i += element_step()) {
        store(a.dst, a.dst_dtype, i, load(a.src, a.src_dtype, i));
    }
}

zl_status zr_cast(const zr_pair_args *args, zr_stream *stream)
{
    if (!pair_ok(args, stream)) {
        return ZL_E_USAGE;
    }
    return launch_elements(cast, args->count, stream, *args);
}

static __global__ void add_pair(zr_pair_args a)
{
    for (uint64_t i = first_element(); i < a.count; i += element_step()) {
        accumulate(a.dst, a.dst_dtype, i, load(a.src, a.src_dtype, i));
    }
}

zl_status zr_add(const zr_pair_args *args, zr_stream *stream)
{
    if (!pair_ok(args, stream)) {
        return ZL_E_USAGE;
    }
    return launch_elements(add_pair, args->count, stream, *args);
}

static __global__ void scale(void *x, uint64_t count, zl_dtype dtype, float factor)
{
    for (uint64_t i = first_element(); i < count; i += element_step()) {
        store(x, dtype, i, mul(load(x, dtype, i), factor));
    }
}

zl_status zr_scale(void *x, uint64_t count, zl_dtype dtype, float factor, zr_stream *stream)
{
    if (!dtype_ok(dtype) || stream == NULL) {
        return ZL_E_USAGE;
    }
    return launch_elements(scale, count, stream, x, count, dtype, factor);
}

static __global__ void reduce(zr_reduce_args a)
{
    for (uint64_t i = first_element(); i < a.count; i += element_step()) {
        float sum = load(a.in, a.piece_dtype, i);
        for (uint64_t piece = 1; piece < a.pieces; piece++) {
            sum = add(sum, load(a.in, a.piece_dtype, piece * a.stride + i));
        }
        store(a.out, a.out_dtype, i, mul(sum, a.scale));
    }
}

zl_status zr_reduce(const zr_reduce_args *args, zr_stream *stream)
{
    const zr_reduce_args *a = args;
    if (!dtype_ok(a->piece_dtype) || !dtype_ok(a->out_dtype) || a->pieces == 0 ||
        a->stride < a->count || stream == NULL) {
        return ZL_E_USAGE;
    }
    return launch_elements(reduce, a->count, stream, *a);
}
