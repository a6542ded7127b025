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
    static const char *const name[ZB_SPENT_COUNT] = {[ZB_BLAS] = "BLAS",
#define ZB_NAME(kernel, parameters, names) [ZB_##kernel] = #kernel,
                                                     ZB_KERNELS(ZB_NAME)
#undef ZB_NAME
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

#define ZB_WRAP(kernel, parameters, names)                                                         \
    zl_status __real_zr_##kernel parameters;                                                       \
    zl_status __wrap_zr_##kernel parameters;                                                       \
    zl_status __wrap_zr_##kernel parameters                                                        \
    {                                                                                              \
        const start s = begin();                                                                   \
        return end(ZB_##kernel, s, __real_zr_##kernel names);                                      \
    }
ZB_KERNELS(ZB_WRAP)

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
