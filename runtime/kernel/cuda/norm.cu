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

/* All lanes take part, and all know the result. */
template <typename T, unsigned N>
static __device__ __forceinline__ row_stats measure(norm_kind kind, const zr_norm_args &a,
                                                    const T *x)
{
    const float width = (float)a.width;
    float mean = 0.0f;
    if (kind == LAYER) {
        float sum = 0.0f;
#pragma unroll 4
        for (uint32_t col = lane_id() * N; col < a.width; col += WARP * N) {
            const pack<N> v = load_pack<N>(x, col);
#pragma unroll
            for (unsigned j = 0; j < N; j++) {
                sum += v.at[j];
            }
        }
        mean = warp_sum(sum) / width;
    }
    float squares = 0.0f;
#pragma unroll 4
    for (uint32_t col = lane_id() * N; col < a.width; col += WARP * N) {
        const pack<N> v = load_pack<N>(x, col);
#pragma unroll
        for (unsigned j = 0; j < N; j++) {
            const float d = v.at[j] - mean;
            squares += d * d;
        }
    }
    const float variance = warp_sum(squares) / width;
    return row_stats{mean, 1.0f / sqrtf(variance + a.eps)};
}

/* Lane by lane each element is read before it is written: out may be x. */
template <typename T, unsigned N>
static __device__ __forceinline__ void normalize(const zr_norm_args &a, uint64_t first, row_stats s)
{
    for (uint32_t col = lane_id() * N; col < a.width; col += WARP * N) {
        const pack<N> gain = load_pack<N>((const T *)a.gain, col);
        pack<N> v = load_pack<N>((const T *)a.x, first + col);
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
    }
}

template <typename T, unsigned N>
static __global__ void norm_forward(norm_kind kind, zr_norm_args a)
{
    const uint64_t row = row_of_warp();
    if (row >= a.rows) {
        return;
    }
    const row_stats s = measure<T, N>(kind, a, (const T *)a.x + row * a.width);
    if (lane_id() == 0 && kind == LAYER) {
        a.stats[2 * row] = s.mean;
        a.stats[2 * row + 1] = s.rstd;
    } else if (lane_id() == 0) {
        a.stats[row] = s.rstd;
    }
    if (a.out != NULL) {
        normalize<T, N>(a, row * a.width, s);
    }
}

template <typename T, unsigned N> static __global__ void norm_apply(norm_kind kind, zr_norm_args a)
{
    const uint64_t row = row_of_warp();
    if (row < a.rows) {
        normalize<T, N>(a, row * a.width, load_stats(kind, a.stats, row));
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
static __global__ void __launch_bounds__(LONE_STRIP_THREADS)
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
static __device__ __forceinline__ stretch<N> load_stretch(const zr_norm_grad_args &a, row_stats s,
                                                          uint64_t first, uint32_t col)
{
    const pack<N> gain = load_pack<N>((const T *)a.gain, col);
    stretch<N> v = {load_pack<N>((const T *)a.x, first + col),
                    load_pack<N>((const T *)a.dy, first + col)};
#pragma unroll
    for (unsigned j = 0; j < N; j++) {
        v.xhat.at[j] = (v.xhat.at[j] - s.mean) * s.rstd;
        v.dxhat.at[j] *= gain.at[j];
    }
    return v;
}

/* dx = (dxhat - mean(dxhat) - xhat * mean(dxhat * xhat)) / sigma; RMSNorm lacks the first mean. */
template <typename T, unsigned N>
static __global__ void input_gradient(norm_kind kind, zr_norm_grad_args a)
{
    const uint64_t row = row_of_warp();
    if (row >= a.rows) {
        return;
    }
    const uint64_t first = row * a.width;
    const row_stats s = load_stats(kind, a.stats, row);
    float sum = 0.0f;
    float dot = 0.0f;
#pragma unroll 2
    for (uint32_t col = lane_id() * N; col < a.width; col += WARP * N) {
        const stretch<N> v = load_stretch<T, N>(a, s, first, col);
#pragma unroll
        for (unsigned j = 0; j < N; j++) {
            sum += v.dxhat.at[j];
            dot += v.dxhat.at[j] * v.xhat.at[j];
        }
    }
    const float mean = kind == LAYER ? warp_sum(sum) / (float)a.width : 0.0f;
    const float slope = warp_sum(dot) / (float)a.width;
    for (uint32_t col = lane_id() * N; col < a.width; col += WARP * N) {
        const stretch<N> v = load_stretch<T, N>(a, s, first, col);
        pack<N> dx = {};
        if (a.mode == ZR_GRAD_ADD) {
            dx = load_pack<N>((const T *)a.dx, first + col);
        }
#pragma unroll
        for (unsigned j = 0; j < N; j++) {
            dx.at[j] += (v.dxhat.at[j] - mean - v.xhat.at[j] * slope) * s.rstd;
        }
        store_pack((T *)a.dx, first + col, dx);
    }
}

template <typename A>
static zl_status launch_norm(void (*kernel)(norm_kind, A), norm_kind kind, const A *a,
                             zr_stream *stream)
{
    const uint64_t blocks = blocks_for(a->rows, NORM_WARPS);
    const launch_shape shape = {dim3((unsigned)blocks), dim3(NORM_WARPS * WARP), 0};
    return blocks == 0 ? ZL_OK : launch(kernel, shape, stream, kind, *a);
}

static zl_status forward(norm_kind kind, const zr_norm_args *a, bool saved, zr_stream *stream)
{
    if ((kind == RMS && a->bias != NULL) || stream == NULL) {
        return ZL_E_USAGE;
    }
    const bool wide = a->width % 8 == 0 && aligned(a->x, a->gain, a->bias, a->out);
    return for_type(a->dtype, [&](auto t) {
        using T = decltype(t);
        if (saved) {
            return launch_norm(wide ? norm_apply<T, 8> : norm_apply<T, 1>, kind, a, stream);
        }
        return launch_norm(wide ? norm_forward<T, 8> : norm_forward<T, 1>, kind, a, stream);
    });
}

static zl_status backward(norm_kind kind, const zr_norm_grad_args *a, zr_stream *stream)
{
    if (!dtype_ok(a->gdtype) || a->dgain == NULL || (kind == LAYER) != (a->dbias != NULL) ||
        (unsigned)a->mode >= ZR_GRAD_MODE_COUNT || stream == NULL) {
        return ZL_E_USAGE;
    }
    const bool wide = a->width % 8 == 0 && aligned(a->x, a->gain, a->dy, a->dx);
    return for_type(a->dtype, [&](auto t) {
        using T = decltype(t);
        constexpr unsigned N = 16 / sizeof(T);
        /* First: dx may overwrite dy. */
        ZL_TRY(launch_columns(wide ? weight_gradients<T, N> : weight_gradients<T, 1>, a->width,
                              stream, kind, *a));
        return launch_norm(wide ? input_gradient<T, 8> : input_gradient<T, 1>, kind, a, stream);
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
