/* Status codes and the one-line error that goes with them.
 *
 *     zl_err err = {0};
 *     if (zl_run_load("run.json", &run, &err) != ZL_OK) {
 *         fprintf(stderr, "zl: %s\n", err.text);
 *         return err.status;
 *     }
 *
 * Nothing is written to an out-parameter on failure. The first error wins: later calls with an err
 * that is already set leave it alone. err may be NULL.
 */
#ifndef ZEROLEDGER_ERROR_H
#define ZEROLEDGER_ERROR_H

#include "zeroledger/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The value is the exit code of a program that ends with it. */
typedef enum zl_status {
    ZL_OK = 0,          /* fine, or yes */
    ZL_NO = 1,          /* the answer is no: does not fit, outside tolerance */
    ZL_E_USAGE = 2,     /* an option or argument is wrong */
    ZL_E_INPUT = 3,     /* an input file is wrong */
    ZL_E_RESOURCE = 4,  /* device, memory or I/O failure */
    ZL_E_BUG = 5,       /* a broken promise of our own */
    ZL_E_UNMODELLED = 6 /* outside what is modelled */
} zl_status;

typedef struct zl_err {
    zl_status status;
    char text[512]; /* one line: the thing, the value, the remedy; no prefix, no newline */
} zl_err;

#define ZL_NODISCARD __attribute__((warn_unused_result))

/* Records the first error and returns status, so that callers write
 * `return zl_fail(err, ZL_E_USAGE, "stage must be 0..3, got %" PRIu64, stage);`. Control characters
 * in the formatted text become '?', so that foreign input cannot break the line. */
ZL_API zl_status zl_fail(zl_err *err, zl_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts `where: ` in front of the text already recorded, e.g. a file name. Returns err->status. */
ZL_API zl_status zl_fail_at(zl_err *err, const char *where);

/* Passes a failure of `expr` up. */
#define ZL_TRY(expr)                                                                               \
    do {                                                                                           \
        const zl_status zl_try_status_ = (expr);                                                   \
        if (zl_try_status_ != ZL_OK) {                                                             \
            return zl_try_status_;                                                                 \
        }                                                                                          \
    } while (0)

/* Stores the status of `expr` in `status` and jumps to `label` on failure. */
#define ZL_TRY_GOTO(status, expr, label)                                                           \
    do {                                                                                           \
        (status) = (expr);                                                                         \
        if ((status) != ZL_OK) {                                                                   \
            goto label;                                                                            \
        }                                                                                          \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
