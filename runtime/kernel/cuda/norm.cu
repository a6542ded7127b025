/* LayerNorm and RMSNorm: the second is the first without a mean and without a bias. */
#include "kernel/cuda/columns.cuh"

typedef enum norm_kind { LAYER, RMS } norm_kind;

typedef struct row_stats {
    float mean;
    float rstd;
} row_stats;

static __device__ __forceinline__ row_stats load_stats(norm_kind kind, const float *stats,
                                                       uint64_t row)
{
    return kind == LAYER ? row_stats{stats[2 * row], stats[2 * row + 1]}
                         : row_stats{0.0f, stats[row]};
}

/* A warp a row. */
#define NORM_WARPS 8u

static __device__ __forceinline__ uint64_t row_of_warp(void)
{
    return (uint64_t)blockIdx.x * NORM_WARPS + threadIdx.x / WARP;
}

/* f(k, col) for the packs that this lane has in a row, K of them at most; with K = 0 any number,
 * and k is 0. */
template <unsigned N, unsigned K, typename F>
static __device__ __forceinline__ void for_cols(uint32_t width, F f)
{
    if constexpr (K > 0) {
#pragma unroll
        for (unsigned k = 0; k < K; k++) {
            const uint32_t col = (k * WARP + lane_id()) * N;
            if (col < width) {
                f(k, col);
            }
        }
    } else {
        for (uint32_t col = lane_id() * N; col < width; col += WARP * N) {
            f(0u, col);
        }
    }
}

/* The lane's packs of a row: in registers, all on their way together, or with K = 0 in memory. */
template <typename T, unsigned N, unsigned K> struct lane_packs {
    const T *row;
    raw_pack<T, N> held[K > 0 ? K : 1];

    __device__ __forceinline__ lane_packs(const T *x, uint32_t width) : row(x)
    {
        if constexpr (K > 0) {
            for_cols<N, K>(width, [&](unsigned k, uint32_t col) { held[k] = load_raw<N>(x, col); });
        }
    }

    __device__ __forceinline__ pack<N> at(unsigned k, uint32_t col) const
    {
        return K > 0 ? widened(held[k]) : load_pack<N>(row, col);
    }
};

/* All lanes take part, and all know the result. */
template <typename T, unsigned N, unsigned K>
static __device__ __forceinline__ row_stats measure(norm_kind kind, const zr_norm_args &a,
                                                    const lane_packs<T, N, K> &x)
{
    const float width = (float)a.width;
    float mean = 0.0f;
    if (kind == LAYER) {
        float sum = 0.0f;
        for_cols<N, K>(a.width, [&](unsigned k, uint32_t col) {
            const pack<N> v = x.at(k, col);
#pragma unroll
            for (unsigned j = 0; j < N; j++) {
                sum += v.at[j];
            }
        });
        mean = warp_sum(sum) / width;
    }
    float squares = 0.0f;
    for_cols<N, K>(a.width, [&](unsigned k, uint32_t col) {
        const pack<N> v = x.at(k, col);
#pragma unroll
        for (unsigned j = 0; j < N; j++) {
            const float d = v.at[j] - mean;
            squares += d * d;
        }
    });
    const float variance = warp_sum(squares) / width;
    return row_stats{mean, 1.0f / sqrtf(variance + a.eps)};
}

/* Lane by lane each element is read before it is written: out may be x. */
template <typename T, unsigned N, unsigned K>
static __device__ __forceinline__ void normalize(const zr_norm_args &a, uint64_t first, row_stats s,
                                                 const lane_packs<T, N, K> &x)
{
    for_cols<N, K>(a.width, [&](unsigned k, uint32_t col) {
        const pack<N> gain = load_pack<N>((const T *)a.gain, col);
        pack<N> v = x.at(k, col);
#pragma unroll
        for (unsigned j = 0; j < N; j++) {
            v.at[j] = mul(mul(sub(v.at[j], s.mean), s.rstd), gain.at[j]);
        }
        if (a.bias != NULL) {
            const pack<N> bias = load_pack<N>((const T *)a.bias, col);
#pragma unroll
            for (unsigned j = 0; j < N; j++) {
                v.at[j] = add(v.at[j], bias.at[j]);
            }
        }
        store_pack((T *)a.out, first + col, v);
    });
}

template <typename T, unsigned N, unsigned K>
static __global__ void __launch_bounds__(NORM_WARPS *WARP, 2)
    norm_forward(norm_kind kind, zr_norm_args a)
{
    const uint64_t row = row_of_warp();
    if (row >= a.rows) {
        return;
    }
    const lane_packs<T, N, K> x((const T *)a.x + row * a.width, a.width);
    const row_stats s = measure(kind, a, x);
    if (lane_id() == 0 && kind == LAYER) {
        a.stats[2 * row] = s.mean;
        a.stats[2 * row + 1] = s.rstd;
    } else if (lane_id() == 0) {
        a.stats[row] = s.rstd;
    }
    if (a.out != NULL) {
        normalize(a, row * a.width, s, x);
    }
}

template <typename T, unsigned N, unsigned K>
static __global__ void __launch_bounds__(NORM_WARPS *WARP, 2)
    norm_apply(norm_kind kind, zr_norm_args a)
{
    const uint64_t row = row_of_warp();
    if (row < a.rows) {
        const lane_packs<T, N, K> x((const T *)a.x + row * a.width, a.width);
        normalize(a, row * a.width, load_stats(kind, a.stats, row), x);
    }
}

enum { GAIN, BIAS, WEIGHTS };

/* A few columns of one row. */
template <unsigned N> struct column_part {
    row_stats stats;
    pack<N> dy;
    pack<N> x;
};

template <typename T, unsigned N>
static __global__ void __launch_bounds__(LONE_STRIP_THREADS, 1)
    weight_gradients(norm_kind kind, zr_norm_grad_args a)
{
    const strip<N> s = strip_of<N>();
    pack<N> sums[WEIGHTS] = {};
    for_rows<2>(
        s, s.col < a.width ? a.rows : 0,
        [&](uint64_t row) {
            return column_part<N>{load_stats(kind, a.stats, row),
                                  load_pack<N>((const T *)a.dy, row * a.width + s.col),
                                  load_pack<N>((const T *)a.x, row * a.width + s.col)};
        },
        [&](const column_part<N> &v) {
#pragma unroll
            for (unsigned j = 0; j < N; j++) {
                sums[GAIN].at[j] += v.dy.at[j] * ((v.x.at[j] - v.stats.mean) * v.stats.rstd);
                sums[BIAS].at[j] += v.dy.at[j];
            }
        });
    float total[WEIGHTS];
    const bool known = column_sums<N>(total, sums);
    const uint64_t col = first_column() + threadIdx.x;
    if (known && col < a.width) {
        accumulate(a.dgain, a.gdtype, col, total[GAIN]);
        if (kind == LAYER) {
            accumulate(a.dbias, a.gdtype, col, total[BIAS]);
        }
    }
}

/* xhat = (x - mean) / sigma and dxhat = dy * gain of a few elements. */
template <unsigned N> struct stretch {
    pack<N> xhat;
    pack<N> dxhat;
};

template <typename T, unsigned N>
static __device__ __forceinline__ stretch<N> stretch_of(const zr_norm_grad_args &a, row_stats s,
                                                        uint32_t col, const pack<N> &x,
                                                        const pack<N> &dy)
{
    const pack<N> gain = load_pack<N>((const T *)a.gain, col);
    stretch<N> v;
#pragma unroll
    for (unsigned j = 0; j < N; j++) {
        v.xhat.at[j] = (x.at[j] - s.mean) * s.rstd;
        v.dxhat.at[j] = dy.at[j] * gain.at[j];
    }
    return v;
}

/* dx = (dxhat - mean(dxhat) - xhat * mean(dxhat * xhat)) / sigma; RMSNorm lacks the first mean. */
template <typename T, unsigned N, unsigned K>
static __global__ void __launch_bounds__(NORM_WARPS *WARP, 2)
    input_gradient(norm_kind kind, zr_norm_grad_args a)
{
    const uint64_t row = row_of_warp();
    if (row >= a.rows) {
        return;
    }
    const uint64_t first = row * a.width;
    const row_stats s = load_stats(kind, a.stats, row);
    const bool adds = a.mode == ZR_GRAD_ADD;
    const lane_packs<T, N, K> x((const T *)a.x + first, a.width);
    const lane_packs<T, N, K> dy((const T *)a.dy + first, a.width);
    const lane_packs<T, N, K> past((const T *)a.dx + first, adds ? a.width : 0);
    float sum = 0.0f;
    float dot = 0.0f;
    for_cols<N, K>(a.width, [&](unsigned k, uint32_t col) {
        const stretch<N> v = stretch_of<T, N>(a, s, col, x.at(k, col), dy.at(k, col));
#pragma unroll
        for (unsigned j = 0; j < N; j++) {
            sum += v.dxhat.at[j];
            dot += v.dxhat.at[j] * v.xhat.at[j];
        }
    });
    const float mean = kind == LAYER ? warp_sum(sum) / (float)a.width : 0.0f;
    const float slope = warp_sum(dot) / (float)a.width;
    for_cols<N, K>(a.width, [&](unsigned k, uint32_t col) {
        const stretch<N> v = stretch_of<T, N>(a, s, col, x.at(k, col), dy.at(k, col));
        pack<N> dx = {};
        if (adds) {
            dx = past.at(k, col);
        }
#pragma unroll
        for (unsigned j = 0; j < N; j++) {
            dx.at[j] += (v.dxhat.at[j] - mean - v.xhat.at[j] * slope) * s.rstd;
        }
        store_pack((T *)a.dx, first + col, dx);
    });
}

template <typename A>
static zl_status launch_norm(void (*kernel)(norm_kind, A), norm_kind kind, const A *a,
                             zr_stream *stream)
{
    const uint64_t blocks = blocks_for(a->rows, NORM_WARPS);
    const launch_shape shape = {dim3((unsigned)blocks), dim3(NORM_WARPS * WARP), 0};
    return blocks == 0 ? ZL_OK : launch(kernel, shape, stream, kind, *a);
}

/* f(n, k): how many elements a lane takes at once, and how many times if it can hold them. */
template <typename T, typename F> static zl_status for_lanes(uint32_t width, bool wide, F f)
{
    constexpr unsigned n = 16 / sizeof(T);
    constexpr unsigned k = 8;
    if (!wide || width % n != 0) {
        return f(pack_size<1>{}, pack_size<0>{});
    }
    return width <= k * WARP * n ? f(pack_size<n>{}, pack_size<k>{})
                                 : f(pack_size<n>{}, pack_size<0>{});
}

static zl_status forward(norm_kind kind, const zr_norm_args *a, bool saved, zr_stream *stream)
{
    if ((kind == RMS && a->bias != NULL) || stream == NULL) {
        return ZL_E_USAGE;
    }
    const bool wide = aligned(a->x, a->gain, a->bias, a->out);
    return for_type(a->dtype, [&](auto t) {
        using T = decltype(t);
        return for_lanes<T>(a->width, wide, [&](auto n, auto k) {
            return launch_norm(saved ? norm_apply<T, n, k> : norm_forward<T, n, k>, kind, a,
                               stream);
        });
    });
}

static zl_status backward(norm_kind kind, const zr_norm_grad_args *a, zr_stream *stream)
{
    if (!dtype_ok(a->gdtype) || a->dgain == NULL || (kind == LAYER) != (a->dbias != NULL) ||
        (unsigned)a->mode >= ZR_GRAD_MODE_COUNT || stream == NULL) {
        return ZL_E_USAGE;
    }
    const bool wide = aligned(a->x, a->gain, a->dy, a->dx);
    return for_type(a->dtype, [&](auto t) {
        using T = decltype(t);
        return for_lanes<T>(a->width, wide, [&](auto n, auto k) {
            /* First: dx may overwrite dy. */
            ZL_TRY(launch_columns(weight_gradients<T, n>, a->width, stream, kind, *a));
            return launch_norm(input_gradient<T, n, k>, kind, a, stream);
        });
    });
}

zl_status zr_layernorm_forward(const zr_norm_args *args, zr_stream *stream)
{
    return forward(LAYER, args, false, stream);
}

zl_status zr_layernorm_apply(const zr_norm_args *args, zr_stream *stream)
{
    return forward(LAYER, args, true, stream);
}

zl_status zr_layernorm_backward(const zr_norm_grad_args *args, zr_stream *stream)
{
    return backward(LAYER, args, stream);
}

zl_status zr_rmsnorm_forward(const zr_norm_args *args, zr_stream *stream)
{
    return forward(RMS, args, false, stream);
}

zl_status zr_rmsnorm_apply(const zr_norm_args *args, zr_stream *stream)
{
    return forward(RMS, args, true, stream);
}

zl_status zr_rmsnorm_backward(const zr_norm_grad_args *args, zr_stream *stream)
{
    return backward(RMS, args, stream);
}
