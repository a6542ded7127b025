/*
 * One case of the conformance test: a call of one kernel, or of two that belong together, made on
 * equal inputs with the kernels of two modules.
 *
 *     zr_gelu_args shape = {.kind = ZR_GELU_TANH, .dtype = ZL_BF16, .count = 4099};
 *     conform_case c = conform_start("gelu", ZL_BF16, call_gelu, &shape);
 *     conform_in(&c, "pre", ZL_BF16, 4099, -4.0, 4.0);          // e->p[0] in call_gelu
 *     conform_out(&c, "out", ZL_BF16, 4099);                    // e->p[1]
 *     conform_check(run, &c);
 *
 * Checks: every output agrees with the reference; the second call gives the same bits; inputs and
 * the 256 bytes behind every buffer are as before. Outputs hold 0xFF bytes (NaN) before the call.
 */
#ifndef ZR_TEST_CONFORM_H
#define ZR_TEST_CONFORM_H

#include "conform_module.h"

/* Element types: those of storage, and two more. */
typedef enum conform_type {
    CONFORM_F32 = ZL_F32,
    CONFORM_BF16 = ZL_BF16,
    CONFORM_F16 = ZL_F16,
    CONFORM_F64,
    CONFORM_I32,
    CONFORM_TYPE_COUNT
} conform_type;

typedef enum conform_role {
    CONFORM_IN,
    CONFORM_OUT,
    CONFORM_INOUT,
    CONFORM_SCRATCH, /* written, and nobody's business */
    CONFORM_ROLE_COUNT
} conform_role;

typedef struct conform_part {
    const char *name;
    conform_type type;
    conform_role role;
    size_t count;
    double low, high; /* of the random values of an input; whole numbers are drawn inclusively */
    bool exact;       /* the same bits as the reference, not only close */
} conform_part;

#define CONFORM_PARTS_MAX 10

typedef struct conform_env {
    const conform_kernels *k;
    zr_stream *stream;
    void *work; /* of zr_gemm */
    uint64_t work_bytes;
    void *p[CONFORM_PARTS_MAX]; /* the parts, in order */
} conform_env;

typedef zl_status conform_call(const conform_env *e, const void *shape);

typedef struct conform_case {
    const char *op;
    zl_dtype dtype; /* under which it is listed */
    conform_call *call;
    const void *shape;
    size_t n;
    conform_part part[CONFORM_PARTS_MAX];
} conform_case;

typedef struct conform_run conform_run;

conform_case conform_start(const char *op, zl_dtype dtype, conform_call *call, const void *shape);
void conform_in(conform_case *c, const char *name, conform_type type, size_t count, double low,
                double high);
void conform_out(conform_case *c, const char *name, conform_type type, size_t count);
void conform_inout(conform_case *c, const char *name, conform_type type, size_t count, double low,
                   double high);
void conform_scratch(conform_case *c, const char *name, conform_type type, size_t count);
/* The last part has to agree bit for bit. */
void conform_exactly(conform_case *c);

/* Runs the case unless options leave it out. Failures are printed on stderr with the shape. */
void conform_check(conform_run *run, const conform_case *c, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Both sides refuse the call with ZL_E_USAGE. */
void conform_refused(conform_run *run, const char *op, conform_call *call, const void *shape);

/* The cases. */
void conform_vector(conform_run *run, zl_dtype dtype);
void conform_optimizers(conform_run *run, zl_dtype dtype);
void conform_rows(conform_run *run, zl_dtype dtype);
void conform_products(conform_run *run, zl_dtype dtype);
void conform_attention(conform_run *run, zl_dtype dtype);
void conform_refusals(conform_run *run);

#endif
