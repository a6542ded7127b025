/* The one function of a CBLAS that the host kernels call, for machines that have none: the plainest
 * loop, sums over k in order, so that the conformance test needs nothing but a compiler. */
#include "blas/cblas.h"

void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, int m, int n,
                 int k, float alpha, const void *a_data, int lda, const void *b_data, int ldb,
                 float beta, void *c_data, int ldc)
{
    const float *a = a_data;
    const float *b = b_data;
    float *c = c_data;
    (void)order; /* rows first: all that is asked for */
    for (long i = 0; i < m; i++) {
        for (long j = 0; j < n; j++) {
            double sum = 0.0;
            for (long p = 0; p < k; p++) {
                const float x = trans_a == CblasTrans ? a[p * lda + i] : a[i * lda + p];
                const float y = trans_b == CblasTrans ? b[j * ldb + p] : b[p * ldb + j];
                sum += (double)x * (double)y;
            }
            const double old = beta != 0.0F ? (double)beta * (double)c[i * ldc + j] : 0.0;
            c[i * ldc + j] = (float)((double)alpha * sum + old);
        }
    }
}
