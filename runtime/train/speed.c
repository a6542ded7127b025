#include "train/speed.h"

#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "zeroledger/bytes.h"

/* Weights of a block's products: qkv, out, up (Llama: gate and up) and down. */
static uint64_t block_weights(const zl_model *m)
{
    const uint64_t attention = zl_mul(m->heads, m->head_dim);
    const uint64_t packed = zl_mul(zl_add(m->heads, zl_mul(2, m->kv_heads)), m->head_dim);
    const uint64_t mlp = m->activation == ZL_ACT_SWIGLU ? 3 : 2;
    return zl_mul(m->width, zl_add(zl_add(packed, attention), zl_mul(mlp, m->ffn)));
}

/* The vocabulary's product, tied or not, and BERT's transform. */
static uint64_t head_weights(const zl_model *m)
{
    const uint64_t transform = m->family == ZL_FAMILY_BERT ? m->width : 0;
    return zl_mul(m->width, zl_add(m->vocab, transform));
}

uint64_t zr_speed_operations(const zl_run *run)
{
    const zl_model *m = &run->model;
    const uint64_t weights = zl_add(zl_mul(m->layers, block_weights(m)), head_weights(m));
    const uint64_t attention = zl_prod(12, m->layers, zl_mul(m->heads, m->head_dim), run->seq);
    const uint64_t pooler = m->pooler ? zl_prod(6, m->width, zl_add(m->width, 2)) / run->seq : 0;
    return zl_add(zl_add(zl_mul(6, weights), attention), pooler);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static zl_status median(const double *value, size_t count, double *out, zl_err *err)
{
    double *const sorted = calloc(count, sizeof *sorted);
    if (sorted == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the times of %zu steps", count);
    }
    memcpy(sorted, value, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_size);
    *out = 0.5 * (sorted[(count - 1) / 2] + sorted[count / 2]);
    free(sorted);
    return ZL_OK;
}

zl_status zr_speed_find(const zl_run *run, const double *seconds, size_t steps, zr_speed *out,
                        zl_err *err)
{
    zr_speed speed = {.operations = zr_speed_operations(run), .peak_rate = zr_device_peak_rate()};
    const uint64_t warm = zr_device_warm_up();
    const double tokens = (double)zl_prod(run->accumulation, run->micro_batch, run->seq);
    speed.warm_up = steps > warm ? warm : 0;
    if (steps > 0) {
        ZL_TRY(median(seconds + speed.warm_up, steps - (size_t)speed.warm_up, &speed.seconds, err));
    }
    if (speed.seconds > 0.0) {
        speed.tokens_per_second = tokens * (double)run->ranks / speed.seconds;
        speed.rate = tokens * (double)speed.operations / speed.seconds;
    }
    if (speed.peak_rate > 0.0) {
        speed.utilization = speed.rate / speed.peak_rate;
    }
    *out = speed;
    return ZL_OK;
}
