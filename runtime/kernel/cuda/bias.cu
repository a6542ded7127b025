/* The gradient of a bias: column sums. */
#include "kernel/cuda/columns.cuh"

static __global__ void bias_backward(zr_bias_grad_args a)
{
    const uint64_t col = (uint64_t)blockIdx.x * WARP + threadIdx.x;
    float sum = 0.0f;
    for (uint64_t row = threadIdx.y; col < a.cols && row < a.rows; row += COLUMN_WARPS) {
        sum += load(a.dout, a.dtype, row * a.ld + col);
    }
    sum = column_sum(sum);
    if (threadIdx.y == 0 && col < a.cols) {
        accumulate(a.dbias, a.gdtype, col, sum);
    }
}

zl_status zr_bias_backward(const zr_bias_grad_args *args, zr_stream *stream)
{
    if (!dtype_ok(args->dtype) || !dtype_ok(args->gdtype) || args->ld < args->cols ||
        stream == NULL) {
        return ZL_E_USAGE;
    }
    return launch_columns(bias_backward, args->cols, stream, *args);
}
