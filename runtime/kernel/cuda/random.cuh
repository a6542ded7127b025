/* Philox-4x32-10 by position (Salmon, Moraes, Dror, Shaw, SC 2011), as in the host's random.c. */
#ifndef ZR_KERNEL_CUDA_RANDOM_CUH
#define ZR_KERNEL_CUDA_RANDOM_CUH

#include "kernel/cuda/device.cuh"

typedef struct random_block {
    uint32_t word[4];
} random_block;

/* The words of elements 4 * block ... of the sequence (seed, stream), the offset not included. */
static __device__ __forceinline__ random_block random_words(uint64_t seed, uint64_t stream,
                                                            uint64_t block)
{
    uint32_t w0 = (uint32_t)block;
    uint32_t w1 = (uint32_t)(block >> 32);
    uint32_t w2 = (uint32_t)stream;
    uint32_t w3 = (uint32_t)(stream >> 32);
    uint32_t key0 = (uint32_t)seed;
    uint32_t key1 = (uint32_t)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)w0 * 0xD2511F53u;
        const uint64_t b = (uint64_t)w2 * 0xCD9E8D57u;
        w0 = (uint32_t)(b >> 32) ^ w1 ^ key0;
        w1 = (uint32_t)b;
        w2 = (uint32_t)(a >> 32) ^ w3 ^ key1;
        w3 = (uint32_t)a;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return random_block{{w0, w1, w2, w3}};
}

/* Chosen by comparison: an index known only at run time would move the block to local memory. */
static __device__ __forceinline__ uint32_t random_word(zr_rng rng, uint64_t element)
{
    const uint64_t at = rng.offset + element;
    const random_block r = random_words(rng.seed, rng.stream, at / 4);
    const uint32_t low = at % 2 == 0 ? r.word[0] : r.word[1];
    const uint32_t high = at % 2 == 0 ? r.word[2] : r.word[3];
    return at % 4 < 2 ? low : high;
}

/* A probability as the host compares it: dropped are words below `threshold`. */
typedef struct drop_rule {
    uint32_t threshold;
    float kept; /* factor of those that stay */
} drop_rule;

static inline drop_rule make_drop_rule(float p)
{
    return drop_rule{(uint32_t)((double)p * 4294967296.0), 1.0f / (1.0f - p)};
}

static __device__ __forceinline__ float drop_factor(drop_rule rule, zr_rng rng, uint64_t element)
{
    return random_word(rng, element) < rule.threshold ? 0.0f : rule.kept;
}

/* Those of N elements in a row from `element` on, which is a multiple of N. Four that lie in one
 * block of the generator are drawn at once. */
template <unsigned N>
static __device__ __forceinline__ pack<N> drop_factors(drop_rule rule, zr_rng rng, uint64_t element)
{
    pack<N> v;
    if constexpr (N % 4 == 0) {
        if (rng.offset % 4 == 0) {
#pragma unroll
            for (unsigned j = 0; j < N; j += 4) {
                const random_block r =
                    random_words(rng.seed, rng.stream, (rng.offset + element + j) / 4);
#pragma unroll
                for (unsigned k = 0; k < 4; k++) {
                    v.at[j + k] = r.word[k] < rule.threshold ? 0.0f : rule.kept;
                }
            }
            return v;
        }
    }
#pragma unroll
    for (unsigned j = 0; j < N; j++) {
        v.at[j] = drop_factor(rule, rng, element + j);
    }
    return v;
}

#endif
