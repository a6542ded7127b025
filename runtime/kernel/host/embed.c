/* Embedding: rows of three tables added up; backward collects the rows that met in one of them. */
#include "kernel/host/host.h"

static bool ids_ok(const int32_t *ids, uint32_t rows, uint32_t limit)
{
    for (uint32_t r = 0; r < rows; r++) {
        if (ids[r] < 0 || (uint32_t)ids[r] >= limit) {
            return false;
        }
    }
    return true;
}

static bool embed_ok(const zr_embed_args *e)
{
    if (!zr_host_dtype_ok(e->dtype) || e->tokens == 0 || e->rows % e->tokens != 0) {
        return false;
    }
    if ((e->pos != NULL || e->pos_grad != NULL) && e->tokens > e->positions) {
        return false;
    }
    if ((e->type != NULL || e->type_grad != NULL) &&
        (e->types == NULL || !ids_ok(e->types, e->rows, e->kinds))) {
        return false;
    }
    return e->ids != NULL && ids_ok(e->ids, e->rows, e->vocab);
}

/* sum[0..n) += table[index * width + col ...]. */
static void add_row(const zr_embed_args *e, const void *table, uint64_t index, uint64_t col,
                    float *restrict sum, size_t n)
{
    float buf[ZR_HOST_CHUNK];
    const float *row = zr_host_view(buf, table, e->dtype, index * e->width + col, n);
    for (size_t i = 0; i < n; i++) {
        sum[i] += row[i];
    }
}

zl_status zr_embed_forward(const zr_embed_args *args, zr_stream *stream)
{
    (void)stream;
    const zr_embed_args *e = args;
    if (!embed_ok(e) || e->tok == NULL) {
        return ZL_E_USAGE;
    }
    float sum[ZR_HOST_CHUNK];
    for (uint64_t r = 0; r < e->rows; r++) {
        for (uint64_t col = 0; col < e->width; col += ZR_HOST_CHUNK) {
            const size_t n = zr_host_min(ZR_HOST_CHUNK, e->width - col);
            zr_host_load(sum, e->tok, e->dtype, (uint64_t)e->ids[r] * e->width + col, n);
            if (e->pos != NULL) {
                add_row(e, e->pos, r % e->tokens, col, sum, n);
            }
            if (e->type != NULL) {
                add_row(e, e->type, (uint64_t)e->types[r], col, sum, n);
            }
            zr_host_store(e->out, e->dtype, r * e->width + col, sum, n);
        }
    }
    return ZL_OK;
}

/* table[index] += sum, in gdtype. */
static void add_to_table(const zr_embed_args *e, void *table, uint64_t index, uint64_t col,
                         const float *sum, size_t n)
{
    float buf[ZR_HOST_CHUNK];
    float out[ZR_HOST_CHUNK];
    const uint64_t at = index * e->width + col;
    const float *old = zr_host_view(buf, table, e->gdtype, at, n);
    for (size_t i = 0; i < n; i++) {
        out[i] = old[i] + sum[i];
    }
    zr_host_store(table, e->gdtype, at, out, n);
}

static bool seen_before(const int32_t *ids, uint32_t row)
{
    const int32_t id = ids[row];
    uint32_t r = 0;
    for (; r + 32 <= row; r += 32) {
        int32_t same = 0;
        for (uint32_t i = 0; i < 32; i++) {
            same |= ids[r + i] == id;
        }
        if (same != 0) {
            return true;
        }
    }
    for (; r < row; r++) {
        if (ids[r] == id) {
            return true;
        }
    }
    return false;
}

/* Each id is handled at its first row, which looks ahead for the others: no index is stored. */
static void scatter(const zr_embed_args *e, const int32_t *ids, void *table)
{
    float sum[ZR_HOST_CHUNK];
    for (uint32_t first = 0; first < e->rows; first++) {
        if (seen_before(ids, first)) {
            continue;
        }
        for (uint64_t col = 0; col < e->width; col += ZR_HOST_CHUNK) {
            const size_t n = zr_host_min(ZR_HOST_CHUNK, e->width - col);
            memset(sum, 0, sizeof sum);
            for (uint32_t r = first; r < e->rows; r++) {
                if (ids[r] == ids[first]) {
                    add_row(e, e->dout, r, col, sum, n);
                }
            }
            add_to_table(e, table, (uint64_t)ids[first], col, sum, n);
        }
    }
}

static void scatter_positions(const zr_embed_args *e)
{
    float sum[ZR_HOST_CHUNK];
    for (uint64_t t = 0; t < e->tokens && t < e->rows; t++) {
        for (uint64_t col = 0; col < e->width; col += ZR_HOST_CHUNK) {
            const size_t n = zr_host_min(ZR_HOST_CHUNK, e->width - col);
            memset(sum, 0, sizeof sum);
            for (uint64_t r = t; r < e->rows; r += e->tokens) {
                add_row(e, e->dout, r, col, sum, n);
            }
            add_to_table(e, e->pos_grad, t, col, sum, n);
        }
    }
}

zl_status zr_embed_backward(const zr_embed_args *args, zr_stream *stream)
{
    (void)stream;
    if (!embed_ok(args) || !zr_host_dtype_ok(args->gdtype)) {
        return ZL_E_USAGE;
    }
    if (args->tok_grad != NULL) {
        scatter(args, args->ids, args->tok_grad);
    }
    if (args->pos_grad != NULL) {
        scatter_positions(args);
    }
    if (args->type_grad != NULL) {
        scatter(args, args->types, args->type_grad);
    }
    return ZL_OK;
}
