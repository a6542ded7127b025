/* Inverse questions, certified in integers: n fits and n + 1 does not. */
#ifndef ZEROLEDGER_SOLVE_H
#define ZEROLEDGER_SOLVE_H

#include <stdint.h>

#include "zeroledger/predict.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zl_fit {
    uint64_t best;       /* largest value that fits; 0: not even 1 does */
    uint64_t best_bytes; /* granted peak at best (0 if best is 0) */
    uint64_t next_bytes; /* granted peak at best + 1: above the capacity */
    zl_visit visit;      /* where the peak of best + 1 falls: what limits it */
    zl_phase phase;
} zl_fit;

/* Largest micro-batch whose granted peak is at most capacity bytes. */
ZL_API ZL_NODISCARD zl_status zl_solve_micro_batch(const zl_run *run, uint64_t capacity,
                                                   zl_fit *out, zl_err *err);

#ifdef __cplusplus
}
#endif
#endif
