/* c = alpha op(a) op(b) + beta c + bias + residual. Pure fp32 goes straight to the CBLAS. With a
 * 16-bit type, tiles are converted into the caller's scratch: loops over rows, columns, depth in
 * this order and never otherwise, so that the bits are the same in every run. */
#include <cblas.h>
#include <limits.h>

#include "kernel/host/host.h"

#define TILE        ZR_HOST_GEMM_TILE
#define TILE_FLOATS ((size_t)TILE * TILE)

static bool matrix_ok(const void *data, zl_dtype dtype, uint64_t ld, uint32_t cols)
{
    return data != NULL && zr_host_dtype_ok(dtype) && ld >= cols && ld <= INT_MAX;
}

static bool pure_fp32(const zr_gemm_args *g)
{
    return g->a.dtype == ZL_F32 && g->b.dtype == ZL_F32 && g->c.dtype == ZL_F32;
}

static bool gemm_ok(const zr_gemm_args *g)
{
    if (g->m > INT_MAX || g->n > INT_MAX || g->k > INT_MAX || !(g->alpha != 0.0F)) {
        return false;
    }
    if (g->k > 0 && (!matrix_ok(g->a.data, g->a.dtype, g->a.ld, g->trans_a ? g->m : g->k) ||
                     !matrix_ok(g->b.data, g->b.dtype, g->b.ld, g->trans_b ? g->k : g->n))) {
        return false;
    }
    if (!matrix_ok(g->c.data, g->c.dtype, g->c.ld, g->n)) {
        return false;
    }
    if (g->residual.data != NULL &&
        !matrix_ok(g->residual.data, g->residual.dtype, g->residual.ld, g->n)) {
        return false;
    }
    if (g->bias != NULL && !zr_host_dtype_ok(g->bias_dtype)) {
        return false;
    }
    return pure_fp32(g) || (g->work != NULL && g->work_bytes >= ZR_HOST_GEMM_WORK_BYTES);
}

static ZR_HOST_WIDE void add_into(float *restrict sum, const float *restrict x, float factor,
                                  size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum[i] += factor * x[i];
    }
}

/* sum[0..n) += everything but the product, for columns col.. of one row; n <= ZR_HOST_CHUNK. */
static void add_rest(const zr_gemm_args *g, float *restrict sum, uint64_t row, uint64_t col,
                     size_t n)
{
    float buf[ZR_HOST_CHUNK];
    if (g->beta != 0.0F) {
        const uint64_t at = row * g->c.ld + col;
        add_into(sum, zr_host_view(buf, g->c.data, g->c.dtype, at, n), g->beta, n);
    }
    if (g->bias != NULL) {
        add_into(sum, zr_host_view(buf, g->bias, g->bias_dtype, col, n), 1.0F, n);
    }
    if (g->residual.data != NULL) {
        const uint64_t at = row * g->residual.ld + col;
        add_into(sum, zr_host_view(buf, g->residual.data, g->residual.dtype, at, n), 1.0F, n);
    }
}

static void multiply_fp32(const zr_gemm_args *g)
{
    float sum[ZR_HOST_CHUNK];
    const bool prefill = g->bias != NULL || g->residual.data != NULL || g->k == 0;
    for (uint64_t row = 0; prefill && row < g->m; row++) {
        for (uint64_t col = 0; col < g->n; col += ZR_HOST_CHUNK) {
            const size_t n = zr_host_min(ZR_HOST_CHUNK, g->n - col);
            memset(sum, 0, n * sizeof(float));
            add_rest(g, sum, row, col, n);
            zr_host_store(g->c.data, ZL_F32, row * g->c.ld + col, sum, n);
        }
    }
    if (g->k > 0) {
        cblas_sgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans,
                    g->trans_b ? CblasTrans : CblasNoTrans, (int)g->m, (int)g->n, (int)g->k,
                    g->alpha, g->a.data, (int)g->a.ld, g->b.data, (int)g->b.ld,
                    prefill ? 1.0F : g->beta, g->c.data, (int)g->c.ld);
    }
}

typedef struct tile {
    const float *data;
    int ld;
} tile;

/* Rows of a tile are too short and too far apart for the processor to foresee the next one. */
enum { AHEAD = 2, LINE_BYTES = 64 };

static void foretell(const void *row, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE_BYTES) {
        __builtin_prefetch((const char *)row + i);
    }
}

/* The stored block (row.., col..) of rows x cols as fp32: in place, or converted into buf. */
static tile load_tile(float *buf, const zr_const_matrix *x, uint64_t row, uint64_t col, size_t rows,
                      size_t cols)
{
    if (x->dtype == ZL_F32) {
        return (tile){(const float *)x->data + row * x->ld + col, (int)x->ld};
    }
    const uint16_t *first = (const uint16_t *)x->data + row * x->ld + col;
    for (size_t i = 0; i < rows; i++) {
        if (i + AHEAD < rows) {
            foretell(first + (i + AHEAD) * x->ld, cols * sizeof *first);
        }
        zr_host_load(buf + i * TILE, x->data, x->dtype, (row + i) * x->ld + col, cols);
    }
    return (tile){buf, TILE};
}

/* The product of one tile of c, complete over k, in acc (TILE, TILE). */
static void multiply_tile(const zr_gemm_args *g, uint64_t row, uint64_t col, float *acc)
{
    float *const buf_a = (float *)g->work;
    float *const buf_b = buf_a + TILE_FLOATS;
    const size_t m = zr_host_min(TILE, g->m - row);
    const size_t n = zr_host_min(TILE, g->n - col);
    if (g->k == 0) {
        memset(acc, 0, m * TILE * sizeof(float));
    }
    for (uint64_t at = 0; at < g->k; at += TILE) {
        const size_t k = zr_host_min(TILE, g->k - at);
        const tile a = g->trans_a ? load_tile(buf_a, &g->a, at, row, k, m)
                                  : load_tile(buf_a, &g->a, row, at, m, k);
        const tile b = g->trans_b ? load_tile(buf_b, &g->b, col, at, n, k)
                                  : load_tile(buf_b, &g->b, at, col, k, n);
        cblas_sgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans,
                    g->trans_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, g->alpha,
                    a.data, a.ld, b.data, b.ld, at == 0 ? 0.0F : 1.0F, acc, TILE);
    }
}

static void multiply_tiled(const zr_gemm_args *g)
{
    float *const acc = (float *)g->work + 2 * TILE_FLOATS;
    for (uint64_t row = 0; row < g->m; row += TILE) {
        for (uint64_t col = 0; col < g->n; col += TILE) {
            const size_t m = zr_host_min(TILE, g->m - row);
            const size_t n = zr_host_min(TILE, g->n - col);
            multiply_tile(g, row, col, acc);
            for (size_t i = 0; i < m; i++) {
                add_rest(g, acc + i * TILE, row + i, col, n);
                zr_host_store(g->c.data, g->c.dtype, (row + i) * g->c.ld + col, acc + i * TILE, n);
            }
        }
    }
}

zl_status zr_gemm(const zr_gemm_args *args, zr_stream *stream)
{
    (void)stream;
    if (!gemm_ok(args)) {
        return ZL_E_USAGE;
    }
    if (args->m == 0 || args->n == 0) {
        return ZL_OK;
    }
    if (pure_fp32(args)) {
        multiply_fp32(args);
    } else {
        multiply_tiled(args);
    }
    return ZL_OK;
}
