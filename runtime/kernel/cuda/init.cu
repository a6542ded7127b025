/* Initial weights by position, so that a rank can make its shard alone. */
#include "kernel/cuda/random.cuh"

/* One Box-Muller pair a turn; pairs start at even elements wherever the range begins. */
static __global__ void init_normal(zr_init_args a)
{
    const uint64_t first = a.begin / 2;
    const uint64_t last = a.end / 2 + a.end % 2;
    for (uint64_t pair = first + first_element(); pair < last; pair += element_step()) {
        const random_block r = random_words(a.seed, a.tensor, pair / 2);
        const uint32_t w0 = pair % 2 == 0 ? r.word[0] : r.word[2];
        const uint32_t w1 = pair % 2 == 0 ? r.word[1] : r.word[3];
        const float u = (float)(((double)w0 + 1.0) * 0x1p-32);
        const float angle = (float)((double)w1 * (0x1p-32 * 6.283185307179586));
        const float radius = sqrtf(-2.0f * logf(u));
        const uint64_t i = 2 * pair;
        if (i >= a.begin) {
            store(a.out, a.dtype, i - a.begin, add(a.a, mul(a.b, mul(radius, cosf(angle)))));
        }
        if (i + 1 < a.end) {
            store(a.out, a.dtype, i + 1 - a.begin, add(a.a, mul(a.b, mul(radius, sinf(angle)))));
        }
    }
}

static __global__ void init_uniform(zr_init_args a)
{
    for (uint64_t i = a.begin + first_element(); i < a.end; i += element_step()) {
        const uint32_t word = random_word(zr_rng{a.seed, a.tensor, 0}, i);
        const float u = mul((float)(word >> 8), 0x1p-24f);
        store(a.out, a.dtype, i - a.begin, add(a.a, mul(sub(a.b, a.a), u)));
    }
}

static bool init_ok(const zr_init_args *a, const zr_stream *stream)
{
    return dtype_ok(a->dtype) && a->begin <= a->end && stream != NULL;
}

zl_status zr_init_normal(const zr_init_args *args, zr_stream *stream)
{
    if (!init_ok(args, stream)) {
        return ZL_E_USAGE;
    }
    return launch_elements(init_normal, args->end - args->begin, stream, *args);
}

zl_status zr_init_uniform(const zr_init_args *args, zr_stream *stream)
{
    if (!init_ok(args, stream)) {
        return ZL_E_USAGE;
    }
    return launch_elements(init_uniform, args->end - args->begin, stream, *args);
}
