/*
 * c = alpha op(a) op(b) + beta c + bias + residual. cuBLASLt where it takes the types, with an
 * algorithm chosen once per shape; otherwise (mixed types, both beta and residual, k = 0) a plain
 * tiled kernel. Both add over k in fp32 and round once; only a 16-bit product over a long k that is
 * no multiple of 8 rounds twice, see multiply_odd.
 *
 * cuBLASLt counts columns first, so it is asked for c^T = op(b)^T op(a)^T: the same bytes.
 */
#include <string.h>

#include "kernel/cuda/device.cuh"

#define SIDE 16u /* of a tile of the plain kernel; a thread for each element */

/* Element (row, col) after transposition, 0 outside (rows, cols). */
static __device__ __forceinline__ float element(zr_const_matrix x, bool transposed, uint64_t row,
                                                uint64_t col, uint64_t rows, uint64_t cols)
{
    if (row >= rows || col >= cols) {
        return 0.0f;
    }
    return load(x.data, x.dtype, transposed ? col * x.ld + row : row * x.ld + col);
}

static __global__ void multiply_plain(zr_gemm_args g)
{
    __shared__ float a[SIDE][SIDE + 1];
    __shared__ float b[SIDE][SIDE + 1];
    const uint64_t row = (uint64_t)blockIdx.y * SIDE + threadIdx.y;
    const uint64_t col = (uint64_t)blockIdx.x * SIDE + threadIdx.x;
    float sum = 0.0f;
    for (uint64_t k = 0; k < g.k; k += SIDE) {
        a[threadIdx.y][threadIdx.x] = element(g.a, g.trans_a, row, k + threadIdx.x, g.m, g.k);
        b[threadIdx.y][threadIdx.x] = element(g.b, g.trans_b, k + threadIdx.y, col, g.k, g.n);
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < SIDE; i++) {
            sum += a[threadIdx.y][i] * b[i][threadIdx.x];
        }
        __syncthreads();
    }
    if (row >= g.m || col >= g.n) {
        return;
    }
    sum *= g.alpha;
    if (g.beta != 0.0f) {
        sum += g.beta * load(g.c.data, g.c.dtype, row * g.c.ld + col);
    }
    if (g.bias != NULL) {
        sum += load(g.bias, g.bias_dtype, col);
    }
    if (g.residual.data != NULL) {
        sum += load(g.residual.data, g.residual.dtype, row * g.residual.ld + col);
    }
    store(g.c.data, g.c.dtype, row * g.c.ld + col, sum);
}

static zl_status launch_plain(const zr_gemm_args *g, zr_stream *stream)
{
    const uint64_t rows = blocks_for(g->m, SIDE);
    const unsigned limit = 65535; /* of gridDim.y */
    if (rows > limit) {
        return ZL_E_USAGE;
    }
    const launch_shape shape = {dim3((unsigned)blocks_for(g->n, SIDE), (unsigned)rows),
                                dim3(SIDE, SIDE), 0};
    return launch(multiply_plain, shape, stream, *g);
}

static bool matrix_ok(const void *data, zl_dtype dtype, uint64_t ld, uint32_t cols)
{
    return data != NULL && dtype_ok(dtype) && ld >= cols && ld <= INT32_MAX;
}

static bool gemm_ok(const zr_gemm_args *g)
{
    if (g->m > INT32_MAX || g->n > INT32_MAX || g->k > INT32_MAX || !(g->alpha != 0.0f)) {
        return false;
    }
    if (g->k > 0 && (!matrix_ok(g->a.data, g->a.dtype, g->a.ld, g->trans_a ? g->m : g->k) ||
                     !matrix_ok(g->b.data, g->b.dtype, g->b.ld, g->trans_b ? g->k : g->n))) {
        return false;
    }
    if (g->residual.data != NULL &&
        !matrix_ok(g->residual.data, g->residual.dtype, g->residual.ld, g->n)) {
        return false;
    }
    return matrix_ok(g->c.data, g->c.dtype, g->c.ld, g->n) &&
           (g->bias == NULL || dtype_ok(g->bias_dtype));
}

/* The matrix that is added to the product: c itself, or the residual. */
typedef struct addend {
    const void *data;
    uint64_t ld;
    float factor; /* 0: nothing is added */
} addend;

static addend addend_of(const zr_gemm_args *g)
{
    if (g->residual.data != NULL) {
        return addend{g->residual.data, g->residual.ld, 1.0f};
    }
    return addend{g->c.data, g->c.ld, g->beta};
}

/* One type in, that or fp32 out, and one matrix at most to add. */
static bool suits_library(const zr_gemm_args *g)
{
    return g->k > 0 && g->a.dtype == g->b.dtype &&
           (g->c.dtype == g->a.dtype || g->c.dtype == ZL_F32) &&
           (g->bias == NULL || g->bias_dtype == g->c.dtype) &&
           (g->residual.data == NULL || (g->residual.dtype == g->c.dtype && g->beta == 0.0f));
}

static cudaDataType_t library_type(zl_dtype dtype)
{
    switch (dtype) {
    case ZL_BF16:
        return CUDA_R_16BF;
    case ZL_F16:
        return CUDA_R_16F;
    case ZL_F32:
    case ZL_DTYPE_COUNT:
        break;
    }
    return CUDA_R_32F;
}

/* What a pointer is a multiple of, as far as anyone asks. */
static uint32_t alignment_of(const void *x)
{
    const uintptr_t bits = (uintptr_t)x | 256u;
    return (uint32_t)(bits & (~bits + 1));
}

/* A product as cuBLASLt sees it: its first matrix is our b, its second our a. */
typedef struct product {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t b, a, add, c;
} product;

static bool set(product *p, cublasLtMatmulDescAttributes_t name, const void *value, size_t bytes)
{
    return cublasLtMatmulDescSetAttribute(&p->desc, name, value, bytes) == CUBLAS_STATUS_SUCCESS;
}

static bool describe_operation(const zr_gemm_args *g, product *p)
{
    const cublasOperation_t first = g->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = g->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const int32_t bias_type = (int32_t)library_type(g->c.dtype);
    if (cublasLtMatmulDescInit(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) != CUBLAS_STATUS_SUCCESS ||
        !set(p, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first) ||
        !set(p, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second)) {
        return false;
    }
    return g->bias == NULL ||
           (set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) &&
            set(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type) &&
            set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias, sizeof g->bias));
}

static bool lay_out(cublasLtMatrixLayoutOpaque_t *layout, zl_dtype dtype, uint64_t rows,
                    uint64_t cols, uint64_t ld)
{
    return cublasLtMatrixLayoutInit(layout, library_type(dtype), rows, cols, (int64_t)ld) ==
           CUBLAS_STATUS_SUCCESS;
}

static bool describe(const zr_gemm_args *g, product *p)
{
    return describe_operation(g, p) &&
           lay_out(&p->b, g->b.dtype, g->trans_b ? g->k : g->n, g->trans_b ? g->n : g->k,
                   g->b.ld) &&
           lay_out(&p->a, g->a.dtype, g->trans_a ? g->m : g->k, g->trans_a ? g->k : g->m,
                   g->a.ld) &&
           lay_out(&p->add, g->c.dtype, g->n, g->m, addend_of(g).ld) &&
           lay_out(&p->c, g->c.dtype, g->n, g->m, g->c.ld);
}

static void make_key(const zr_gemm_args *g, uint64_t key[ZR_CUDA_PLAN_WORDS])
{
    const addend add = addend_of(g);
    const uint64_t flags[] = {g->trans_a, g->trans_b, g->bias != NULL, add.factor != 0.0f,
                              add.data == g->c.data};
    uint64_t bits = (uint64_t)g->a.dtype | (uint64_t)g->c.dtype << 4;
    for (unsigned i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        bits |= flags[i] << (8 + i);
    }
    const uint64_t words[ZR_CUDA_PLAN_WORDS] = {
        bits,
        g->m,
        g->n,
        g->k,
        g->a.ld,
        g->b.ld,
        g->c.ld,
        add.ld,
        (uint64_t)alignment_of(g->a.data) << 32 | alignment_of(g->b.data),
        (uint64_t)alignment_of(g->c.data) << 32 | alignment_of(add.data),
        (uint64_t)alignment_of(g->bias) << 32 | alignment_of(g->work),
        g->work != NULL ? g->work_bytes : 0,
    };
    memcpy(key, words, sizeof words);
}

static bool prefer(cublasLtMatmulPreferenceOpaque_t *p, cublasLtMatmulPreferenceAttributes_t name,
                   const void *value, size_t bytes)
{
    return cublasLtMatmulPreferenceSetAttribute(p, name, value, bytes) == CUBLAS_STATUS_SUCCESS;
}

/* Asks the library for its best algorithm. Partial products over k may be added only in fp32 and
 * in a fixed order. */
static bool choose(const zr_gemm_args *g, product *p, zr_stream *stream, cublasLtMatmulAlgo_t *algo)
{
    const uint64_t work = g->work != NULL ? g->work_bytes : 0;
    const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t first = alignment_of(g->b.data);
    const uint32_t second = alignment_of(g->a.data);
    const uint32_t added = alignment_of(addend_of(g).data);
    const uint32_t result = alignment_of(g->c.data);
    cublasLtMatmulPreferenceOpaque_t want;
    if (cublasLtMatmulPreferenceInit(&want) != CUBLAS_STATUS_SUCCESS ||
        !prefer(&want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &work, sizeof work) ||
        !prefer(&want, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme) ||
        !prefer(&want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &first, sizeof first) ||
        !prefer(&want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &second, sizeof second) ||
        !prefer(&want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &added, sizeof added) ||
        !prefer(&want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &result, sizeof result)) {
        return false;
    }
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    if (cublasLtMatmulAlgoGetHeuristic(stream->lt, &p->desc, &p->b, &p->a, &p->add, &p->c, &want, 1,
                                       &best, &found) != CUBLAS_STATUS_SUCCESS ||
        found == 0 || best.state != CUBLAS_STATUS_SUCCESS) {
        return false;
    }
    *algo = best.algo;
    return true;
}

/* The remembered plan of this shape, or a new one. */
static const zr_gemm_plan *plan_for(const zr_gemm_args *g, product *p, zr_stream *stream)
{
    uint64_t key[ZR_CUDA_PLAN_WORDS];
    make_key(g, key);
    for (uint32_t i = 0; i < stream->plans && i < ZR_CUDA_PLANS; i++) {
        if (memcmp(stream->plan[i].key, key, sizeof key) == 0) {
            return &stream->plan[i];
        }
    }
    zr_gemm_plan *const plan = &stream->plan[stream->plans % ZR_CUDA_PLANS];
    stream->plans++;
    memcpy(plan->key, key, sizeof key);
    plan->taken = choose(g, p, stream, &plan->algo);
    return plan;
}

static zl_status multiply(const zr_gemm_args *g, zr_stream *stream)
{
    product p;
    if (!describe(g, &p)) {
        return launch_plain(g, stream);
    }
    const zr_gemm_plan *const plan = plan_for(g, &p, stream);
    if (!plan->taken) {
        return launch_plain(g, stream);
    }
    const addend add = addend_of(g);
    const cublasStatus_t status =
        cublasLtMatmul(stream->lt, &p.desc, &g->alpha, g->b.data, &p.b, g->a.data, &p.a,
                       &add.factor, add.data, &p.add, g->c.data, &p.c, &plan->algo, g->work,
                       g->work != NULL ? g->work_bytes : 0, stream->queue);
    return status == CUBLAS_STATUS_SUCCESS ? ZL_OK : ZL_E_RESOURCE;
}

/* Tensor cores read 16 bytes at a time. Where a long side of a 16-bit product is no multiple of 8
 * (a vocabulary of 50257), the library's kernels run at a fifth of their speed even if rows begin
 * at such addresses; so the last few columns, or terms of the sum, are a product of their own. */
#define VECTOR   8u
#define LONG_ODD 512u

static bool long_and_odd(const zr_gemm_args *g, uint32_t side)
{
    return g->a.dtype != ZL_F32 && side % VECTOR != 0 && side >= LONG_ODD;
}

static uint64_t bytes_of(zl_dtype dtype, uint64_t elements)
{
    return elements * (dtype == ZL_F32 ? sizeof(float) : sizeof(uint16_t));
}

static const void *shifted(zr_const_matrix x, uint64_t elements)
{
    return x.data == NULL ? NULL : (const char *)x.data + bytes_of(x.dtype, elements);
}

static zl_status multiply_odd(const zr_gemm_args *g, zr_stream *stream)
{
    zr_gemm_args most = *g;
    zr_gemm_args rest = *g;
    if (long_and_odd(g, g->n)) {
        most.n = g->n / VECTOR * VECTOR;
        rest.n = g->n - most.n;
        rest.b.data = shifted(g->b, most.n * (g->trans_b ? g->b.ld : 1));
        rest.c.data = (char *)g->c.data + bytes_of(g->c.dtype, most.n);
        rest.residual.data = shifted(g->residual, most.n);
        if (g->bias != NULL) {
            rest.bias = (const char *)g->bias + bytes_of(g->bias_dtype, most.n);
        }
    } else if (long_and_odd(g, g->k)) {
        most.k = g->k / VECTOR * VECTOR;
        rest.k = g->k - most.k;
        rest.a.data = shifted(g->a, most.k * (g->trans_a ? g->a.ld : 1));
        rest.b.data = shifted(g->b, most.k * (g->trans_b ? 1 : g->b.ld));
        rest.beta = 1.0f;
        rest.bias = NULL;
        rest.residual.data = NULL;
    } else {
        return multiply(g, stream);
    }
    ZL_TRY(multiply_odd(&most, stream));
    return multiply(&rest, stream);
}

zl_status zr_gemm(const zr_gemm_args *args, zr_stream *stream)
{
    if (!gemm_ok(args) || stream == NULL) {
        return ZL_E_USAGE;
    }
    if (args->m == 0 || args->n == 0) {
        return ZL_OK;
    }
    return suits_library(args) ? multiply_odd(args, stream) : launch_plain(args, stream);
}
