/* Initial weights by position, so that a rank can make its shard alone. */
#include <math.h>

#include "kernel/host/host.h"

static bool init_ok(const zr_init_args *a)
{
    return zr_host_dtype_ok(a->dtype) && a->begin <= a->end;
}

/* Standard normal pair of two words; the first is moved off 0 for the logarithm. */
static void box_muller(const uint32_t word[2], float pair[2])
{
    const float u = (float)(((double)word[0] + 1.0) * 0x1p-32);
    const float angle = (float)((double)word[1] * (0x1p-32 * 6.283185307179586));
    const float radius = sqrtf(-2.0F * logf(u));
    pair[0] = radius * cosf(angle);
    pair[1] = radius * sinf(angle);
}

zl_status zr_init_normal(const zr_init_args *args, zr_stream *stream)
{
    (void)stream;
    if (!init_ok(args)) {
        return ZL_E_USAGE;
    }
    const zr_rng rng = {.seed = args->seed, .stream = args->tensor};
    uint32_t word[ZR_HOST_CHUNK];
    float value[ZR_HOST_CHUNK];
    /* Pairs start at even elements wherever the range begins. */
    for (uint64_t at = args->begin - args->begin % 2; at < args->end; at += ZR_HOST_CHUNK) {
        zr_host_random(word, ZR_HOST_CHUNK, &rng, at);
        for (size_t i = 0; i < ZR_HOST_CHUNK; i += 2) {
            box_muller(word + i, value + i);
        }
        for (size_t i = 0; i < ZR_HOST_CHUNK; i++) {
            value[i] = args->a + args->b * value[i];
        }
        const size_t skip = at < args->begin ? 1 : 0;
        const size_t n = zr_host_min(ZR_HOST_CHUNK, args->end - at);
        zr_host_store(args->out, args->dtype, at + skip - args->begin, value + skip, n - skip);
    }
    return ZL_OK;
}

zl_status zr_init_uniform(const zr_init_args *args, zr_stream *stream)
{
    (void)stream;
    if (!init_ok(args)) {
        return ZL_E_USAGE;
    }
    const zr_rng rng = {.seed = args->seed, .stream = args->tensor};
    uint32_t word[ZR_HOST_CHUNK];
    float value[ZR_HOST_CHUNK];
    for (uint64_t at = args->begin; at < args->end; at += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, args->end - at);
        zr_host_random(word, n, &rng, at);
        for (size_t i = 0; i < n; i++) {
            value[i] = args->a + (args->b - args->a) * ((float)(word[i] >> 8) * 0x1p-24F);
        }
        zr_host_store(args->out, args->dtype, at - args->begin, value, n);
    }
    return ZL_OK;
}
