/* Reductions of a whole range. Every block adds a part of it in fp64; a last block adds the parts.
 * The number of blocks depends on the count alone, so the order of additions does too. */
#include "kernel/cuda/device.cuh"

static __global__ void add_parts(const void *x, uint64_t count, zl_dtype dtype, bool squares,
                                 double *parts)
{
    double sum = 0.0;
    for (uint64_t i = first_element(); i < count; i += element_step()) {
        const double v = (double)load(x, dtype, i);
        sum += squares ? v * v : v;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
    }
}

static __global__ void add_up(const double *parts, unsigned n, double *out)
{
    double sum = 0.0;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        sum += parts[i];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        *out = sum;
    }
}

static zl_status add_range(const void *x, uint64_t count, zl_dtype dtype, bool squares, double *out,
                           zr_stream *stream)
{
    if (!dtype_ok(dtype) || stream == NULL) {
        return ZL_E_USAGE;
    }
    const uint64_t wanted = blocks_for(count, 4 * THREADS);
    const unsigned blocks = (unsigned)(wanted < ZR_CUDA_SUM_BLOCKS ? wanted : ZR_CUDA_SUM_BLOCKS);
    if (blocks > 0) {
        const launch_shape parts = {dim3(blocks), dim3(THREADS), 0};
        ZL_TRY(launch(add_parts, parts, stream, x, count, dtype, squares, stream->sums));
    }
    return launch_rows(add_up, 1, stream, (const double *)stream->sums, blocks, out);
}

zl_status zr_sumsq(const void *x, uint64_t count, zl_dtype dtype, double *out, zr_stream *stream)
{
    return add_range(x, count, dtype, true, out, stream);
}

zl_status zr_sum(const void *x, uint64_t count, zl_dtype dtype, double *out, zr_stream *stream)
{
    return add_range(x, count, dtype, false, out, stream);
}

/* Whoever finds one writes the same 1. */
static __global__ void find_nonfinite(const void *x, uint64_t count, zl_dtype dtype, uint32_t *flag)
{
    bool found = false;
    for (uint64_t i = first_element(); i < count; i += element_step()) {
        found = found || !isfinite(load(x, dtype, i));
    }
    if (found) {
        *flag = 1;
    }
}

zl_status zr_nonfinite(const void *x, uint64_t count, zl_dtype dtype, uint32_t *flag,
                       zr_stream *stream)
{
    if (!dtype_ok(dtype) || stream == NULL) {
        return ZL_E_USAGE;
    }
    return launch_elements(find_nonfinite, count, stream, x, count, dtype, flag);
}
