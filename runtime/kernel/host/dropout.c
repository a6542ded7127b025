/* Dropout whose mask is a function of position, with the residual sum that follows it. */
#include "kernel/host/host.h"

zl_status zr_dropout(const zr_dropout_args *args, zr_stream *stream)
{
    (void)stream;
    if (!zr_host_dtype_ok(args->dtype) || !zr_host_probability_ok(args->p)) {
        return ZL_E_USAGE;
    }
    float buf[ZR_HOST_CHUNK];
    float mask[ZR_HOST_CHUNK];
    float y[ZR_HOST_CHUNK];
    for (uint64_t at = 0; at < args->count; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, args->count - at);
        zr_host_load(y, args->in, args->dtype, at, n);
        if (args->p > 0.0F) {
            zr_host_mask(mask, n, args->p, &args->rng, at);
            for (size_t i = 0; i < n; i++) {
                y[i] *= mask[i];
            }
        }
        if (args->residual != NULL) {
            const float *x = zr_host_view(buf, args->residual, args->dtype, at, n);
            for (size_t i = 0; i < n; i++) {
                y[i] += x[i];
            }
        }
        zr_host_store(args->out, args->dtype, at, y, n);
    }
    return ZL_OK;
}
