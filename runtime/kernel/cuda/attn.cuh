/* Where things lie in packed attention tensors, and who sees whom. Private; shared by all versions.
 */
#ifndef ZR_KERNEL_CUDA_ATTN_CUH
#define ZR_KERNEL_CUDA_ATTN_CUH

#include "kernel/cuda/random.cuh"

/* Keys that any query of sequence b may see. */
static __device__ __forceinline__ uint32_t key_limit(const zr_attn_args &a, uint32_t b)
{
    if (a.lengths == NULL || (uint32_t)a.lengths[b] > a.tokens) {
        return a.tokens;
    }
    return (uint32_t)a.lengths[b];
}

static __device__ __forceinline__ bool visible(const zr_attn_args &a, uint32_t query, uint32_t key,
                                               uint32_t limit)
{
    return key < limit && (!a.causal || key <= query);
}

/* Where head `head` of token (b, 0) starts in a tensor whose rows hold `heads` heads. */
typedef struct packed {
    uint32_t heads;
    uint32_t head;
} packed;

static __device__ __forceinline__ packed in_qkv(const zr_attn_args &a, uint32_t head)
{
    return packed{a.heads + 2 * a.kv_heads, head};
}

static __device__ __forceinline__ packed in_out(const zr_attn_args &a, uint32_t head)
{
    return packed{a.heads, head};
}

static __device__ __forceinline__ uint64_t element_of(const zr_attn_args &a, packed p, uint32_t b,
                                                      uint32_t token)
{
    return (((uint64_t)b * a.tokens + token) * p.heads + p.head) * a.head_dim;
}

/* Element of (B, H, T) and of (B, H, T, T). */
static __device__ __forceinline__ uint64_t row_of(const zr_attn_args &a, uint32_t b, uint32_t head,
                                                  uint32_t query)
{
    return ((uint64_t)b * a.heads + head) * a.tokens + query;
}

static __device__ __forceinline__ uint64_t square_of(const zr_attn_args &a, uint32_t b,
                                                     uint32_t head, uint32_t query, uint32_t key)
{
    return row_of(a, b, head, query) * a.tokens + key;
}

/* Factor of one probability: 1, or 0 and 1/(1-p) under dropout. */
static __device__ __forceinline__ float keep(const zr_attn_args &a, drop_rule rule,
                                             uint64_t element)
{
    return a.dropout > 0.0f ? drop_factor(rule, a.rng, element) : 1.0f;
}

static inline bool attn_ok(const zr_attn_args *a, const zr_stream *stream)
{
    return dtype_ok(a->dtype) && probability_ok(a->dropout) && a->heads > 0 && a->kv_heads > 0 &&
           a->heads % a->kv_heads == 0 && a->head_dim > 0 && a->head_dim <= ZR_ATTN_HEAD_DIM_MAX &&
           a->qkv != NULL && stream != NULL;
}

#endif
