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

/* All threads of the block take part, and all know the result. */
static __device__ row_stats measure(norm_kind kind, const zr_norm_args &a, uint64_t row)
{
    const float width = (float)a.width;
    float mean = 0.0f;
    if (kind == LAYER) {
        float sum = 0.0f;
        for (uint64_t col = threadIdx.x; col < a.width; col += blockDim.x) {
            sum += load(a.x, a.dtype, row * a.width + col);
        }
        mean = block_sum(sum) / width;
    }
    float squares = 0.0f;
    for (uint64_t col = threadIdx.x; col < a.width; col += blockDim.x) {
        const float d = load(a.x, a.dtype, row * a.width + col) - mean;
        squares += d * d;
    }
    const float variance = block_sum(squares) / width;
    return row_stats{mean, 1.0f / sqrtf(variance + a.eps)};
}

/* Thread by thread each element is read before it is written: out may be x. */
static __device__ void normalize(const zr_norm_args &a, uint64_t row, row_stats s)
{
    for (uint64_t col = threadIdx.x; col < a.width; col += blockDim.x) {
        const uint64_t at = row * a.width + col;
        const float xhat = mul(sub(load(a.x, a.dtype, at), s.mean), s.rstd);
        float y = mul(xhat, load(a.gain, a.dtype, col));
        if (a.bias != NULL) {
            y = add(y, load(a.bias, a.dtype, col));
        }
        store(a.out, a.dtype, at, y);
    }
}

static __global__ void norm_forward(norm_kind kind, zr_norm_args a)
{
    const uint64_t row = blockIdx.x;
    const row_stats s = measure(kind, a, row);
    if (threadIdx.x == 0 && kind == LAYER) {
        a.stats[2 * row] = s.mean;
        a.stats[2 * row + 1] = s.rstd;
    } else if (threadIdx.x == 0) {
        a.stats[row] = s.rstd;
    }
    if (a.out != NULL) {
        normalize(a, row, s);
    }
}

static __global__ void norm_apply(norm_kind kind, zr_norm_args a)
{
    const uint64_t row = blockIdx.x;
    normalize(a, row, load_stats(kind, a.stats, row));
}

static __global__ void weight_gradients(norm_kind kind, zr_norm_grad_args a)
{
    const uint64_t col = (uint64_t)blockIdx.x * WARP + threadIdx.x;
    float dgain = 0.0f;
    float dbias = 0.0f;
    for (uint64_t row = threadIdx.y; col < a.width && row < a.rows; row += COLUMN_WARPS) {
        const row_stats s = load_stats(kind, a.stats, row);
        const float dy = load(a.dy, a.dtype, row * a.width + col);
        dgain += dy * ((load(a.x, a.dtype, row * a.width + col) - s.mean) * s.rstd);
        dbias += dy;
    }
    dgain = column_sum(dgain);
    dbias = column_sum(dbias);
    if (threadIdx.y == 0 && col < a.width) {
        accumulate(a.dgain, a.gdtype, col, dgain);
        if (kind == LAYER) {
            accumulate(a.dbias, a.gdtype, col, dbias);
        }
    }
}

/* dx = (dxhat - mean(dxhat) - xhat * mean(dxhat * xhat)) / sigma; RMSNorm lacks the first mean. */
static __global__ void input_gradient(norm_kind kind, zr_norm_grad_args a)
{
    const uint64_t row = blockIdx.x;
    const row_stats s = load_stats(kind, a.stats, row);
    float sum = 0.0f;
    float dot = 0.0f;
    for (uint64_t col = threadIdx.x; col < a.width; col += blockDim.x) {
        const uint64_t at = row * a.width + col;
        const float xhat = (load(a.x, a.dtype, at) - s.mean) * s.rstd;
        const float dxhat = load(a.dy, a.dtype, at) * load(a.gain, a.dtype, col);
        sum += dxhat;
        dot += dxhat * xhat;
    }
    sum = block_sum(sum);
    dot = block_sum(dot);
    const float mean = kind == LAYER ? sum / (float)a.width : 0.0f;
    const float slope = dot / (float)a.width;
    for (uint64_t col = threadIdx.x; col < a.width; col += blockDim.x) {
        const uint64_t at = row * a.width + col;
        const float xhat = (load(a.x, a.dtype, at) - s.mean) * s.rstd;
        const float dxhat = load(a.dy, a.dtype, at) * load(a.gain, a.dtype, col);
        const float dx = (dxhat - mean - xhat * slope) * s.rstd;
        if (a.mode == ZR_GRAD_ADD) {
            accumulate(a.dx, a.dtype, at, dx);
        } else {
            store(a.dx, a.dtype, at, dx);
        }
    }
}

static zl_status forward(norm_kind kind, const zr_norm_args *a, bool saved, zr_stream *stream)
{
    if (!dtype_ok(a->dtype) || (kind == RMS && a->bias != NULL) || stream == NULL) {
        return ZL_E_USAGE;
    }
    return launch_rows(saved ? norm_apply : norm_forward, a->rows, stream, kind, *a);
}

static zl_status backward(norm_kind kind, const zr_norm_grad_args *a, zr_stream *stream)
{
    if (!dtype_ok(a->dtype) || !dtype_ok(a->gdtype) || a->dgain == NULL ||
        (kind == LAYER) != (a->dbias != NULL) || (unsigned)a->mode >= ZR_GRAD_MODE_COUNT ||
        stream == NULL) {
        return ZL_E_USAGE;
    }
    /* First: dx may overwrite dy. */
    ZL_TRY(launch_columns(weight_gradients, a->width, stream, kind, *a));
    return launch_rows(input_gradient, a->rows, stream, kind, *a);
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
