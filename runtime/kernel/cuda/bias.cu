/* The gradient of a bias: column sums. */
#include "kernel/cuda/columns.cuh"

template <typename T, unsigned N>
static __global__ void __launch_bounds__(LONE_STRIP_THREADS, 1) bias_backward(zr_bias_grad_args a)
{
    const strip<N> s = strip_of<N>();
    pack<N> sums[1] = {};
    for_rows<4>(
        s, s.col < a.cols ? a.rows : 0,
        [&](uint64_t row) { return load_pack<N>((const T *)a.dout, row * a.ld + s.col); },
        [&](const pack<N> &v) {
#pragma unroll
            for (unsigned j = 0; j < N; j++) {
                sums[0].at[j] += v.at[j];
            }
        });
    float total[1];
    const bool known = column_sums<N>(total, sums);
    const uint64_t col = first_column() + threadIdx.x;
    if (known && col < a.cols) {
        accumulate(a.dbias, a.gdtype, col, total[0]);
    }
}

zl_status zr_bias_backward(const zr_bias_grad_args *args, zr_stream *stream)
{
    const zr_bias_grad_args *a = args;
    if (!dtype_ok(a->gdtype) || a->ld < a->cols || stream == NULL) {
        return ZL_E_USAGE;
    }
    return for_type(a->dtype, [&](auto t) {
        using T = decltype(t);
        constexpr unsigned N = 16 / sizeof(T);
        const bool wide = a->cols % N == 0 && a->ld % N == 0 && aligned(a->dout);
        return launch_columns(wide ? bias_backward<T, N> : bias_backward<T, 1>, a->cols, stream,
                              *a);
    });
}
