/* Dropout whose mask is a function of position, with the residual sum that follows it. */
#include "kernel/cuda/random.cuh"

static __global__ void dropout(zr_dropout_args a, drop_rule rule)
{
    for (uint64_t i = first_element(); i < a.count; i += element_step()) {
        float y = load(a.in, a.dtype, i);
        if (a.p > 0.0f) {
            y = mul(y, drop_factor(rule, a.rng, i));
        }
        if (a.residual != NULL) {
            y = add(y, load(a.residual, a.dtype, i));
        }
        store(a.out, a.dtype, i, y);
    }
}

zl_status zr_dropout(const zr_dropout_args *args, zr_stream *stream)
{
    if (!dtype_ok(args->dtype) || !probability_ok(args->p) || stream == NULL) {
        return ZL_E_USAGE;
    }
    return launch_elements(dropout, args->count, stream, *args, make_drop_rule(args->p));
}
