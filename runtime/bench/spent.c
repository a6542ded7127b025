#include "spent.h"

#include <cblas.h>
#include <string.h>

#include "bench.h"
#include "kernel/kernel.h"

static double spent[ZB_SPENT_COUNT];

void zb_spent_reset(void)
{
    memset(spent, 0, sizeof spent);
}

double zb_spent(zb_place place)
{
    return spent[place];
}

const char *zb_spent_name(zb_place place)
{
    static const char *const name[ZB_SPENT_COUNT] = {
        [ZB_BLAS] = "BLAS",
#define ZB_NAME(kernel, args) [ZB_##kernel] = #kernel,
        ZB_KERNELS(ZB_NAME)
#undef ZB_NAME
            [ZB_fill] = "fill",
        [ZB_sumsq] = "sumsq",
    };
    return name[place];
}

/* When a kernel began, and how much of BLAS there had been. */
typedef struct start {
    double at;
    double blas;
} start;

static start begin(void)
{
    return (start){zb_seconds(), spent[ZB_BLAS]};
}

static zl_status end(zb_place place, start s, zl_status status)
{
    spent[place] += (zb_seconds() - s.at) - (spent[ZB_BLAS] - s.blas);
    return status;
}

#define ZB_WRAP(kernel, args_type)                                                                 \
    zl_status __real_zr_##kernel(const args_type *args, zr_stream *stream);                        \
    zl_status __wrap_zr_##kernel(const args_type *args, zr_stream *stream);                        \
    zl_status __wrap_zr_##kernel(const args_type *args, zr_stream *stream)                         \
    {                                                                                              \
        const start s = begin();                                                                   \
        return end(ZB_##kernel, s, __real_zr_##kernel(args, stream));                              \
    }
ZB_KERNELS(ZB_WRAP)

zl_status __real_zr_fill(void *x, uint64_t count, zl_dtype dtype, float value, zr_stream *stream);
zl_status __wrap_zr_fill(void *x, uint64_t count, zl_dtype dtype, float value, zr_stream *stream);
zl_status __wrap_zr_fill(void *x, uint64_t count, zl_dtype dtype, float value, zr_stream *stream)
{
    const start s = begin();
    return end(ZB_fill, s, __real_zr_fill(x, count, dtype, value, stream));
}

zl_status __real_zr_sumsq(const void *x, uint64_t count, zl_dtype dtype, double *out,
                          zr_stream *stream);
zl_status __wrap_zr_sumsq(const void *x, uint64_t count, zl_dtype dtype, double *out,
                          zr_stream *stream);
zl_status __wrap_zr_sumsq(const void *x, uint64_t count, zl_dtype dtype, double *out,
                          zr_stream *stream)
{
    const start s = begin();
    return end(ZB_sumsq, s, __real_zr_sumsq(x, count, dtype, out, stream));
}

#define ZB_SGEMM(name)                                                                             \
    void name(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb, blasint m, \
              blasint n, blasint k, float alpha, const float *a, blasint lda, const float *b,      \
              blasint ldb, float beta, float *c, blasint ldc)
ZB_SGEMM(__real_cblas_sgemm);
ZB_SGEMM(__wrap_cblas_sgemm);
ZB_SGEMM(__wrap_cblas_sgemm)
{
    const double before = zb_seconds();
    __real_cblas_sgemm(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    spent[ZB_BLAS] += zb_seconds() - before;
}
