/* Cross-entropy, one block a row of logits, the gradient written over them. */
#include "kernel/cuda/device.cuh"

/* logits = (exp(logit - max) * norm - [target]) * scale, or 0 for an ignored row. */
static __device__ void write_gradient(const zr_loss_args &a, uint64_t row, float max, float norm)
{
    const int32_t target = a.targets[row];
    for (uint64_t col = threadIdx.x; col < a.vocab; col += blockDim.x) {
        const uint64_t at = row * a.ld + col;
        float g = 0.0f;
        if (target >= 0) {
            const float p = expf(load(a.logits, a.dtype, at) - max) * norm;
            g = (col == (uint64_t)target ? p - 1.0f : p) * a.scale;
        }
        store(a.logits, a.dtype, at, g);
    }
}

static __global__ void cross_entropy(zr_loss_args a)
{
    const uint64_t row = blockIdx.x;
    const int32_t target = a.targets[row];
    float max = 0.0f;
    float sum = 1.0f;
    float loss = 0.0f;
    if (target >= 0) { /* the same for the whole block */
        max = -INFINITY;
        for (uint64_t col = threadIdx.x; col < a.vocab; col += blockDim.x) {
            max = fmaxf(max, load(a.logits, a.dtype, row * a.ld + col));
        }
        max = block_max(max);
        sum = 0.0f;
        for (uint64_t col = threadIdx.x; col < a.vocab; col += blockDim.x) {
            sum += expf(load(a.logits, a.dtype, row * a.ld + col) - max);
        }
        const float picked = load(a.logits, a.dtype, row * a.ld + (uint64_t)target);
        sum = block_sum(sum); /* also: everyone has read before anyone writes */
        loss = logf(sum) + (max - picked);
    }
    if (threadIdx.x == 0) {
        a.loss[row] = loss;
    }
    if (a.gradient) {
        write_gradient(a, row, max, 1.0f / sum);
    }
}

zl_status zr_cross_entropy(const zr_loss_args *args, zr_stream *stream)
{
    const zr_loss_args *a = args;
    if (!dtype_ok(a->dtype) || a->vocab == 0 || a->ld < a->vocab || stream == NULL) {
        return ZL_E_USAGE;
    }
    return launch_rows(cross_entropy, a->rows, stream, *a);
}
