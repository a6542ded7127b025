/* Embedding: rows of three tables added up; backward collects the rows that met in one of them. */
#include "kernel/cuda/device.cuh"

static __global__ void embed_forward(zr_embed_args e)
{
    const uint64_t row = blockIdx.x;
    const uint64_t width = e.width;
    const uint64_t tok = (uint64_t)e.ids[row] * width;
    const uint64_t pos = row % e.tokens * width;
    const uint64_t type = e.type != NULL ? (uint64_t)e.types[row] * width : 0;
    for (uint64_t col = threadIdx.x; col < width; col += blockDim.x) {
        float sum = load(e.tok, e.dtype, tok + col);
        if (e.pos != NULL) {
            sum = add(sum, load(e.pos, e.dtype, pos + col));
        }
        if (e.type != NULL) {
            sum = add(sum, load(e.type, e.dtype, type + col));
        }
        store(e.out, e.dtype, row * width + col, sum);
    }
}

/* Bit i of the result: ids[first + i] is `id`; the whole block asks, 256 rows at a time. */
typedef struct row_set {
    uint32_t word[THREADS / WARP];
} row_set;

static __device__ void find_rows(const int32_t *ids, uint32_t first, uint32_t rows, int32_t id,
                                 row_set *set)
{
    const uint64_t row = (uint64_t)first + threadIdx.x;
    const unsigned hits = __ballot_sync(0xffffffffu, row < rows && ids[row] == id);
    __syncthreads(); /* the previous set has been read */
    if (threadIdx.x % WARP == 0) {
        set->word[threadIdx.x / WARP] = hits;
    }
    __syncthreads();
}

static __device__ bool seen_before(const int32_t *ids, uint32_t row)
{
    for (uint32_t first = 0; first < row; first += THREADS) {
        const uint32_t r = first + threadIdx.x;
        if (__syncthreads_or(r < row && ids[r] == ids[row]) != 0) {
            return true;
        }
    }
    return false;
}

/* Each id is handled by the block of its first row, which looks ahead for the others and adds them
 * in order: nobody else writes that row of the table. */
static __global__ void scatter(zr_embed_args e, const int32_t *ids, void *table)
{
    __shared__ row_set set;
    const uint32_t own = blockIdx.x;
    if (seen_before(ids, own)) {
        return;
    }
    const uint64_t width = e.width;
    const uint64_t col = (uint64_t)blockIdx.y * THREADS + threadIdx.x;
    float sum = 0.0f;
    for (uint64_t first = own; first < e.rows; first += THREADS) {
        find_rows(ids, (uint32_t)first, e.rows, ids[own], &set);
        for (unsigned w = 0; w < THREADS / WARP; w++) {
            for (uint32_t hits = set.word[w]; hits != 0; hits &= hits - 1) {
                const uint64_t row = first + w * WARP + (unsigned)__ffs((int)hits) - 1;
                if (col < width) {
                    sum = add(sum, load(e.dout, e.dtype, row * width + col));
                }
            }
        }
    }
    if (col < width) {
        accumulate(table, e.gdtype, (uint64_t)ids[own] * width + col, sum);
    }
}

/* Block t adds the rows t, t + T, ... in order. */
static __global__ void scatter_positions(zr_embed_args e)
{
    const uint64_t t = blockIdx.x;
    for (uint64_t col = threadIdx.x; col < e.width; col += blockDim.x) {
        float sum = 0.0f;
        for (uint64_t row = t; row < e.rows; row += e.tokens) {
            sum = add(sum, load(e.dout, e.dtype, row * e.width + col));
        }
        accumulate(e.pos_grad, e.gdtype, t * e.width + col, sum);
    }
}

static bool embed_ok(const zr_embed_args *e, const zr_stream *stream)
{
    return dtype_ok(e->dtype) && e->tokens > 0 && e->rows % e->tokens == 0 &&
           ((e->pos == NULL && e->pos_grad == NULL) || e->tokens <= e->positions) &&
           ((e->type == NULL && e->type_grad == NULL) || e->types != NULL) && e->ids != NULL &&
           stream != NULL;
}

zl_status zr_embed_forward(const zr_embed_args *args, zr_stream *stream)
{
    if (!embed_ok(args, stream) || args->tok == NULL) {
        return ZL_E_USAGE;
    }
    return launch_rows(embed_forward, args->rows, stream, *args);
}

static zl_status scatter_rows(const zr_embed_args *e, const int32_t *ids, void *table,
                              zr_stream *stream)
{
    const uint64_t strips = blocks_for(e->width, THREADS);
    if (table == NULL || e->rows == 0 || strips == 0) {
        return ZL_OK;
    }
    const launch_shape shape = {dim3(e->rows, (unsigned)strips), dim3(THREADS), 0};
    return launch(scatter, shape, stream, *e, ids, table);
}

zl_status zr_embed_backward(const zr_embed_args *args, zr_stream *stream)
{
    const zr_embed_args *e = args;
    if (!embed_ok(e, stream) || !dtype_ok(e->gdtype)) {
        return ZL_E_USAGE;
    }
    ZL_TRY(scatter_rows(e, e->ids, e->tok_grad, stream));
    if (e->pos_grad != NULL) {
        const uint32_t used = e->tokens < e->rows ? e->tokens : e->rows;
        ZL_TRY(launch_rows(scatter_positions, used, stream, *e));
    }
    return scatter_rows(e, e->types, e->type_grad, stream);
}
