/* The gradient of a bias: column sums, kept for a strip of columns at a time. */
#include "kernel/host/host.h"

ZR_HOST_WIDE zl_status zr_bias_backward(const zr_bias_grad_args *args, zr_stream *stream)
{
    (void)stream;
    if (!zr_host_dtype_ok(args->dtype) || !zr_host_dtype_ok(args->gdtype) ||
        args->ld < args->cols) {
        return ZL_E_USAGE;
    }
    float buf[ZR_HOST_CHUNK];
    double sum[ZR_HOST_CHUNK];
    for (uint64_t col = 0; col < args->cols; col += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, args->cols - col);
        memset(sum, 0, sizeof sum);
        for (uint64_t row = 0; row < args->rows; row++) {
            const float *x = zr_host_view(buf, args->dout, args->dtype, row * args->ld + col, n);
            for (size_t i = 0; i < n; i++) {
                sum[i] += (double)x[i];
            }
        }
        zr_host_accumulate(args->dbias, args->gdtype, col, sum, n);
    }
    return ZL_OK;
}
