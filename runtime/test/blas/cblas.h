/* As much of the CBLAS interface as runtime/kernel/host uses; see conform_blas.c. */
#ifndef ZR_TEST_BLAS_CBLAS_H
#define ZR_TEST_BLAS_CBLAS_H

/* NOLINTBEGIN(readability-identifier-naming): the names of the standard interface. */
typedef enum CBLAS_ORDER { CblasRowMajor = 101 } CBLAS_ORDER;
typedef enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112 } CBLAS_TRANSPOSE;
/* NOLINTEND(readability-identifier-naming) */

void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, int m, int n,
                 int k, float alpha, const void *a, int lda, const void *b, int ldb, float beta,
                 void *c, int ldc);

#endif
