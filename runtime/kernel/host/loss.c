/* Cross-entropy over one row of logits at a time, the gradient written over them. */
#include <math.h>

#include "kernel/host/host.h"

static bool loss_ok(const zr_loss_args *a)
{
    if (!zr_host_dtype_ok(a->dtype) || a->vocab == 0 || a->ld < a->vocab) {
        return false;
    }
    for (uint32_t r = 0; r < a->rows; r++) {
        if (a->targets[r] >= 0 && (uint32_t)a->targets[r] >= a->vocab) {
            return false;
        }
    }
    return true;
}

enum { LANES = 16 };

/* lane[k] = the largest of itself and of every LANES-th element from k on; NaN never wins. */
static inline void lane_max(float lane[LANES], const float *x, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
        }
    }
    for (size_t k = 0; i + k < n; k++) {
        lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    }
}

/* The largest logit; a NaN does not win, but spoils the sum that follows. */
static ZR_HOST_WIDE float row_max(const zr_loss_args *a, uint64_t first)
{
    float buf[ZR_HOST_CHUNK];
    float lane[LANES];
    float best = -INFINITY;
    for (size_t k = 0; k < LANES; k++) {
        lane[k] = best;
    }
    for (uint64_t col = 0; col < a->vocab; col += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, a->vocab - col);
        lane_max(lane, zr_host_view(buf, a->logits, a->dtype, first + col, n), n);
    }
    for (size_t k = 0; k < LANES; k++) {
        best = lane[k] > best ? lane[k] : best;
    }
    return best;
}

static ZR_HOST_WIDE double row_sum_exp(const zr_loss_args *a, uint64_t first, float max)
{
    float buf[ZR_HOST_CHUNK];
    float e[ZR_HOST_CHUNK];
    double sum = 0.0;
    for (uint64_t col = 0; col < a->vocab; col += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, a->vocab - col);
        const float *x = zr_host_view(buf, a->logits, a->dtype, first + col, n);
        for (size_t i = 0; i < n; i++) {
            e[i] = zr_host_exp(x[i] - max);
        }
        sum += zr_host_sum(e, n);
    }
    return sum;
}

/* logits = (exp(logit - max) * norm - [target]) * scale, or 0 for an ignored row. */
static ZR_HOST_WIDE void row_gradient(const zr_loss_args *a, uint64_t row, float max, float norm)
{
    float buf[ZR_HOST_CHUNK];
    float g[ZR_HOST_CHUNK];
    const uint64_t first = row * a->ld;
    const int32_t target = a->targets[row];
    for (uint64_t col = 0; col < a->vocab; col += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, a->vocab - col);
        memset(g, 0, sizeof g);
        if (target >= 0) {
            const float *x = zr_host_view(buf, a->logits, a->dtype, first + col, n);
            for (size_t i = 0; i < n; i++) {
                g[i] = zr_host_exp(x[i] - max) * norm * a->scale;
            }
            if ((uint64_t)target >= col && (uint64_t)target < col + n) {
                const size_t hit = (size_t)((uint64_t)target - col);
                g[hit] = (zr_host_exp(x[hit] - max) * norm - 1.0F) * a->scale;
            }
        }
        zr_host_store(a->logits, a->dtype, first + col, g, n);
    }
}

zl_status zr_cross_entropy(const zr_loss_args *args, zr_stream *stream)
{
    (void)stream;
    const zr_loss_args *a = args;
    if (!loss_ok(a)) {
        return ZL_E_USAGE;
    }
    for (uint64_t row = 0; row < a->rows; row++) {
        const int32_t target = a->targets[row];
        float max = 0.0F;
        double sum = 1.0;
        a->loss[row] = 0.0F;
        if (target >= 0) {
            float picked;
            zr_host_load(&picked, a->logits, a->dtype, row * a->ld + (uint64_t)target, 1);
            max = row_max(a, row * a->ld);
            sum = row_sum_exp(a, row * a->ld, max);
            a->loss[row] = (float)(log(sum) + ((double)max - (double)picked));
        }
        if (a->gradient) {
            row_gradient(a, row, max, (float)(1.0 / sum));
        }
    }
    return ZL_OK;
}
