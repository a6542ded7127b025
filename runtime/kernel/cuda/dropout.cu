/* Dropout whose mask is a function of position, with the residual sum that follows it. */
#include "kernel/cuda/random.cuh"

template <typename T> static __global__ void dropout(zr_dropout_args a, drop_rule rule, bool wide)
{
    for_packs<8>(a.count, wide, [&](auto n, uint64_t i) {
        pack<n> v = load_pack<n>((const T *)a.in, i);
        if (a.p > 0.0f) {
            const pack<n> factor = drop_factors<n>(rule, a.rng, i);
#pragma unroll
            for (unsigned j = 0; j < n; j++) {
                v.at[j] = mul(v.at[j], factor.at[j]);
            }
        }
        if (a.residual != NULL) {
            const pack<n> residual = load_pack<n>((const T *)a.residual, i);
#pragma unroll
            for (unsigned j = 0; j < n; j++) {
                v.at[j] = add(v.at[j], residual.at[j]);
            }
        }
        store_pack((T *)a.out, i, v);
    });
}

zl_status zr_dropout(const zr_dropout_args *args, zr_stream *stream)
{
    if (!probability_ok(args->p) || stream == NULL) {
        return ZL_E_USAGE;
    }
    return for_type(args->dtype, [&](auto t) {
        return launch_packs<8>(dropout<decltype(t)>, args->count, stream, *args,
                               make_drop_rule(args->p),
                               aligned(args->in, args->out, args->residual));
    });
}
