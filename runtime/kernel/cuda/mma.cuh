/*
 * Tensor cores and asynchronous copies, for tiles of 16-bit elements in shared memory. Private.
 *
 * A product of warps is made of m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"): lane l
 * holds of a 16 x 8 sum the elements (l/4, 2(l%4)), the one beside it, and the same two 8 rows
 * below. Two such sums side by side, rounded, are the left fragment of a next product over those 16
 * columns: scores never pass through memory.
 *
 * A tile has D elements a row, in chunks of 16 bytes. Chunk c of row r lies at place c ^ (r % 8),
 * so that the 8 rows which ldmatrix reads at once are in different banks.
 */
#ifndef ZR_KERNEL_CUDA_MMA_CUH
#define ZR_KERNEL_CUDA_MMA_CUH

#include "kernel/cuda/device.cuh"

#define CHUNK 8u /* elements of one copy */

/* A 16 x 16 left fragment, or two 16 x 8 right ones. */
typedef struct fragment {
    uint32_t at[4];
} fragment;

/* A 16 x 8 sum. */
typedef struct sum16x8 {
    float at[4];
} sum16x8;

static __device__ __forceinline__ uint32_t shared_address(const void *x)
{
    return (uint32_t)__cvta_generic_to_shared(x);
}

/* Bytes from the start of a tile to a chunk. */
template <unsigned D> static __device__ __forceinline__ uint32_t place(unsigned row, unsigned chunk)
{
    return row * D * 2 + ((chunk ^ (row % 8)) * 16);
}

/* 16 bytes, or zeros. */
static __device__ __forceinline__ void copy_async16(uint32_t to, const void *from, bool wanted)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(wanted ? 16 : 0)
                 : "memory");
}

static __device__ __forceinline__ void copy_async4(uint32_t to, const void *from, bool wanted)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
                 "r"(wanted ? 4 : 0)
                 : "memory");
}

/* The calling thread's copies have arrived. The others' have after the barrier that must follow. */
static __device__ __forceinline__ void await_copies(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Four 8 x 8 matrices; lane l names row l % 8 of matrix l / 8. */
static __device__ __forceinline__ fragment load_matrices(uint32_t row)
{
    fragment f;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.at[0]), "=r"(f.at[1]), "=r"(f.at[2]), "=r"(f.at[3])
                 : "r"(row));
    return f;
}

static __device__ __forceinline__ fragment load_matrices_turned(uint32_t row)
{
    fragment f;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.at[0]), "=r"(f.at[1]), "=r"(f.at[2]), "=r"(f.at[3])
                 : "r"(row));
    return f;
}

template <typename T>
static __device__ __forceinline__ void multiply_add(sum16x8 &sum, const fragment &left,
                                                    uint32_t right0, uint32_t right1);

template <>
__device__ __forceinline__ void multiply_add<__nv_bfloat16>(sum16x8 &sum, const fragment &left,
                                                            uint32_t right0, uint32_t right1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum.at[0]), "+f"(sum.at[1]), "+f"(sum.at[2]), "+f"(sum.at[3])
        : "r"(left.at[0]), "r"(left.at[1]), "r"(left.at[2]), "r"(left.at[3]), "r"(right0),
          "r"(right1));
}

template <>
__device__ __forceinline__ void multiply_add<__half>(sum16x8 &sum, const fragment &left,
                                                     uint32_t right0, uint32_t right1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum.at[0]), "+f"(sum.at[1]), "+f"(sum.at[2]), "+f"(sum.at[3])
        : "r"(left.at[0]), "r"(left.at[1]), "r"(left.at[2]), "r"(left.at[3]), "r"(right0),
          "r"(right1));
}

/* Two elements in a word, the first in its lower half. */
template <typename T> static __device__ __forceinline__ uint32_t pair_of(float first, float second);

template <> __device__ __forceinline__ uint32_t pair_of<__nv_bfloat16>(float first, float second)
{
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}

template <> __device__ __forceinline__ uint32_t pair_of<__half>(float first, float second)
{
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}

/* 2^x; relative error 2^-22. */
static __device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ __forceinline__ uint4 load_shared16(uint32_t from)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}

static __device__ __forceinline__ float2 load_shared_pair(uint32_t from)
{
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from) : "memory");
    return v;
}

static __device__ __forceinline__ void store_shared(uint32_t to, uint32_t word)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}

#endif
