/* LayerNorm and RMSNorm: the second is the first without a mean and without a bias. */
#include <math.h>

#include "kernel/host/host.h"

typedef enum norm_kind { LAYER, RMS } norm_kind;

typedef struct row_stats {
    float mean;
    float rstd;
} row_stats;

static row_stats load_stats(norm_kind kind, const float *stats, uint64_t row)
{
    return kind == LAYER ? (row_stats){stats[2 * row], stats[2 * row + 1]}
                         : (row_stats){0.0F, stats[row]};
}

static void save_stats(norm_kind kind, float *stats, uint64_t row, row_stats s)
{
    if (kind == LAYER) {
        stats[2 * row] = s.mean;
        stats[2 * row + 1] = s.rstd;
    } else {
        stats[row] = s.rstd;
    }
}

static double row_sum(const zr_norm_args *a, uint64_t row)
{
    float buf[ZR_HOST_CHUNK];
    double total = 0.0;
    for (uint64_t col = 0; col < a->width; col += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, a->width - col);
        total += zr_host_sum(zr_host_view(buf, a->x, a->dtype, row * a->width + col, n), n);
    }
    return total;
}

static double row_squares(const zr_norm_args *a, uint64_t row, double mean)
{
    float buf[ZR_HOST_CHUNK];
    double total = 0.0;
    for (uint64_t col = 0; col < a->width; col += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, a->width - col);
        total += zr_host_sumsq(zr_host_view(buf, a->x, a->dtype, row * a->width + col, n), n, mean);
    }
    return total;
}

static row_stats measure(norm_kind kind, const zr_norm_args *a, uint64_t row)
{
    const double width = (double)a->width;
    const double mean = kind == LAYER ? row_sum(a, row) / width : 0.0;
    const double variance = row_squares(a, row, mean) / width;
    return (row_stats){(float)mean, (float)(1.0 / sqrt(variance + (double)a->eps))};
}

static ZR_HOST_WIDE void normalize(const zr_norm_args *a, uint64_t row, row_stats s)
{
    float bx[ZR_HOST_CHUNK];
    float bg[ZR_HOST_CHUNK];
    float bb[ZR_HOST_CHUNK];
    float out[ZR_HOST_CHUNK];
    for (uint64_t col = 0; col < a->width; col += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, a->width - col);
        const uint64_t at = row * a->width + col;
        const float *x = zr_host_view(bx, a->x, a->dtype, at, n);
        const float *gain = zr_host_view(bg, a->gain, a->dtype, col, n);
        for (size_t i = 0; i < n; i++) {
            out[i] = (x[i] - s.mean) * s.rstd * gain[i];
        }
        if (a->bias != NULL) {
            const float *bias = zr_host_view(bb, a->bias, a->dtype, col, n);
            for (size_t i = 0; i < n; i++) {
                out[i] += bias[i];
            }
        }
        zr_host_store(a->out, a->dtype, at, out, n);
    }
}

static zl_status norm_forward(norm_kind kind, const zr_norm_args *a, bool recompute)
{
    if (!zr_host_dtype_ok(a->dtype) || (kind == RMS && a->bias != NULL)) {
        return ZL_E_USAGE;
    }
    for (uint64_t row = 0; row < a->rows; row++) {
        if (!recompute) {
            save_stats(kind, a->stats, row, measure(kind, a, row));
        }
        if (a->out != NULL) {
            normalize(a, row, load_stats(kind, a->stats, row));
        }
    }
    return ZL_OK;
}

/* A stretch of one row in the backward: xhat = (x - mean) / sigma and dxhat = dy * gain. */
typedef struct stretch {
    float xhat[ZR_HOST_CHUNK];
    float dxhat[ZR_HOST_CHUNK];
} stretch;

static ZR_HOST_WIDE void load_stretch(const zr_norm_grad_args *a, row_stats s, uint64_t row,
                                      uint64_t col, size_t n, stretch *restrict out)
{
    float bx[ZR_HOST_CHUNK];
    float bg[ZR_HOST_CHUNK];
    float bd[ZR_HOST_CHUNK];
    const uint64_t at = row * a->width + col;
    const float *x = zr_host_view(bx, a->x, a->dtype, at, n);
    const float *gain = zr_host_view(bg, a->gain, a->dtype, col, n);
    const float *dy = zr_host_view(bd, a->dy, a->dtype, at, n);
    for (size_t i = 0; i < n; i++) {
        out->xhat[i] = (x[i] - s.mean) * s.rstd;
        out->dxhat[i] = dy[i] * gain[i];
    }
}

/* dx = (dxhat - mean(dxhat) - xhat * mean(dxhat * xhat)) / sigma; RMSNorm lacks the first mean. */
static ZR_HOST_WIDE void input_gradient(norm_kind kind, const zr_norm_grad_args *a, uint64_t row)
{
    const row_stats s = load_stats(kind, a->stats, row);
    stretch v;
    float old[ZR_HOST_CHUNK];
    float out[ZR_HOST_CHUNK];
    double sum = 0.0;
    double dot = 0.0;
    for (uint64_t col = 0; col < a->width; col += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, a->width - col);
        load_stretch(a, s, row, col, n, &v);
        sum += zr_host_sum(v.dxhat, n);
        dot += zr_host_dot(v.dxhat, v.xhat, n);
    }
    const float mean = kind == LAYER ? (float)(sum / (double)a->width) : 0.0F;
    const float slope = (float)(dot / (double)a->width);
    for (uint64_t col = 0; col < a->width; col += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, a->width - col);
        const uint64_t at = row * a->width + col;
        load_stretch(a, s, row, col, n, &v);
        for (size_t i = 0; i < n; i++) {
            out[i] = (v.dxhat[i] - mean - v.xhat[i] * slope) * s.rstd;
        }
        if (a->mode == ZR_GRAD_ADD) {
            const float *dx = zr_host_view(old, a->dx, a->dtype, at, n);
            for (size_t i = 0; i < n; i++) {
                out[i] += dx[i];
            }
        }
        zr_host_store(a->dx, a->dtype, at, out, n);
    }
}

static ZR_HOST_WIDE void weight_gradients(norm_kind kind, const zr_norm_grad_args *a)
{
    float bx[ZR_HOST_CHUNK];
    float bd[ZR_HOST_CHUNK];
    double dgain[ZR_HOST_CHUNK];
    double dbias[ZR_HOST_CHUNK];
    for (uint64_t col = 0; col < a->width; col += ZR_HOST_CHUNK) {
        const size_t n = zr_host_min(ZR_HOST_CHUNK, a->width - col);
        memset(dgain, 0, sizeof dgain);
        memset(dbias, 0, sizeof dbias);
        for (uint64_t row = 0; row < a->rows; row++) {
            const row_stats s = load_stats(kind, a->stats, row);
            const float *x = zr_host_view(bx, a->x, a->dtype, row * a->width + col, n);
            const float *dy = zr_host_view(bd, a->dy, a->dtype, row * a->width + col, n);
            for (size_t i = 0; i < n; i++) {
                dgain[i] += (double)(dy[i] * ((x[i] - s.mean) * s.rstd));
                dbias[i] += (double)dy[i];
            }
        }
        zr_host_accumulate(a->dgain, a->gdtype, col, dgain, n);
        if (kind == LAYER) {
            zr_host_accumulate(a->dbias, a->gdtype, col, dbias, n);
        }
    }
}

static zl_status norm_backward(norm_kind kind, const zr_norm_grad_args *a)
{
    if (!zr_host_dtype_ok(a->dtype) || !zr_host_dtype_ok(a->gdtype) || a->dgain == NULL ||
        (kind == LAYER) != (a->dbias != NULL) || (unsigned)a->mode >= ZR_GRAD_MODE_COUNT) {
        return ZL_E_USAGE;
    }
    weight_gradients(kind, a); /* first: dx may overwrite dy */
    for (uint64_t row = 0; row < a->rows; row++) {
        input_gradient(kind, a, row);
    }
    return ZL_OK;
}

zl_status zr_layernorm_forward(const zr_norm_args *args, zr_stream *stream)
{
    (void)stream;
    return norm_forward(LAYER, args, false);
}

zl_status zr_layernorm_apply(const zr_norm_args *args, zr_stream *stream)
{
    (void)stream;
    return norm_forward(LAYER, args, true);
}

zl_status zr_layernorm_backward(const zr_norm_grad_args *args, zr_stream *stream)
{
    (void)stream;
    return norm_backward(LAYER, args);
}

zl_status zr_rmsnorm_forward(const zr_norm_args *args, zr_stream *stream)
{
    (void)stream;
    return norm_forward(RMS, args, false);
}

zl_status zr_rmsnorm_apply(const zr_norm_args *args, zr_stream *stream)
{
    (void)stream;
    return norm_forward(RMS, args, true);
}

zl_status zr_rmsnorm_backward(const zr_norm_grad_args *args, zr_stream *stream)
{
    (void)stream;
    return norm_backward(RMS, args);
}
