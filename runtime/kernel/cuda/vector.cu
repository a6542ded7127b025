/* Fill, cast, add, scale, and the ordered sum of pieces. */
#include "kernel/cuda/device.cuh"

template <typename T> static __global__ void fill(T *x, uint64_t count, bool wide, float value)
{
    for_packs<16 / sizeof(T)>(count, wide, [&](auto n, uint64_t i) {
        pack<n> v;
#pragma unroll
        for (unsigned j = 0; j < n; j++) {
            v.at[j] = value;
        }
        store_pack(x, i, v);
    });
}

zl_status zr_fill(void *x, uint64_t count, zl_dtype dtype, float value, zr_stream *stream)
{
    if (stream == NULL) {
        return ZL_E_USAGE;
    }
    return for_type(dtype, [&](auto t) {
        using T = decltype(t);
        return launch_packs<16 / sizeof(T)>(fill<T>, count, stream, (T *)x, count, aligned(x),
                                            value);
    });
}

/* f(d, s) with values of both types of a pair. */
template <typename F> static zl_status for_pair(const zr_pair_args *a, zr_stream *stream, F f)
{
    if (stream == NULL) {
        return ZL_E_USAGE;
    }
    return for_type(a->dst_dtype, [&](auto d) {
        return for_type(a->src_dtype, [&](auto s) { return f(d, s); });
    });
}

template <typename D, typename S> static __global__ void cast(zr_pair_args a, bool wide)
{
    for_packs<4>(a.count, wide, [&](auto n, uint64_t i) {
        store_pack((D *)a.dst, i, load_pack<n>((const S *)a.src, i));
    });
}

zl_status zr_cast(const zr_pair_args *args, zr_stream *stream)
{
    return for_pair(args, stream, [&](auto d, auto s) {
        return launch_packs<4>(cast<decltype(d), decltype(s)>, args->count, stream, *args,
                               aligned(args->dst, args->src));
    });
}

template <typename D, typename S> static __global__ void add_pair(zr_pair_args a, bool wide)
{
    for_packs<4>(a.count, wide, [&](auto n, uint64_t i) {
        const pack<n> s = load_pack<n>((const S *)a.src, i);
        pack<n> v = load_pack<n>((const D *)a.dst, i);
#pragma unroll
        for (unsigned j = 0; j < n; j++) {
            v.at[j] += s.at[j];
        }
        store_pack((D *)a.dst, i, v);
    });
}

zl_status zr_add(const zr_pair_args *args, zr_stream *stream)
{
    return for_pair(args, stream, [&](auto d, auto s) {
        return launch_packs<4>(add_pair<decltype(d), decltype(s)>, args->count, stream, *args,
                               aligned(args->dst, args->src));
    });
}

template <typename T> static __global__ void scale(T *x, uint64_t count, bool wide, float factor)
{
    for_packs<16 / sizeof(T)>(count, wide, [&](auto n, uint64_t i) {
        pack<n> v = load_pack<n>((const T *)x, i);
#pragma unroll
        for (unsigned j = 0; j < n; j++) {
            v.at[j] = mul(v.at[j], factor);
        }
        store_pack(x, i, v);
    });
}

zl_status zr_scale(void *x, uint64_t count, zl_dtype dtype, float factor, zr_stream *stream)
{
    if (stream == NULL) {
        return ZL_E_USAGE;
    }
    return for_type(dtype, [&](auto t) {
        using T = decltype(t);
        return launch_packs<16 / sizeof(T)>(scale<T>, count, stream, (T *)x, count, aligned(x),
                                            factor);
    });
}

/* out may be a piece: each element is read before it is written, by the same thread. */
template <typename O, typename I> static __global__ void reduce(zr_reduce_args a, bool wide)
{
    for_packs<4>(a.count, wide, [&](auto n, uint64_t i) {
        pack<n> sum = load_pack<n>((const I *)a.in, i);
        for (uint64_t piece = 1; piece < a.pieces; piece++) {
            const pack<n> v = load_pack<n>((const I *)a.in, piece * a.stride + i);
#pragma unroll
            for (unsigned j = 0; j < n; j++) {
                sum.at[j] = add(sum.at[j], v.at[j]);
            }
        }
#pragma unroll
        for (unsigned j = 0; j < n; j++) {
            sum.at[j] = mul(sum.at[j], a.scale);
        }
        store_pack((O *)a.out, i, sum);
    });
}

zl_status zr_reduce(const zr_reduce_args *args, zr_stream *stream)
{
    const zr_reduce_args *a = args;
    if (a->pieces == 0 || a->stride < a->count || stream == NULL) {
        return ZL_E_USAGE;
    }
    return for_type(a->out_dtype, [&](auto o) {
        return for_type(a->piece_dtype, [&](auto p) {
            return launch_packs<4>(reduce<decltype(o), decltype(p)>, a->count, stream, *a,
                                   a->stride % 4 == 0 && aligned(a->in, a->out));
        });
    });
}
