/* How fast a training went, and how much of the device's arithmetic that is.
 *
 *     const uint64_t operations = zr_speed_operations(&run);          // of one token
 *     ZL_TRY(zr_speed_find(&run, seconds, steps, &speed, err));
 *     speed.tokens_per_second, speed.utilization
 */
#ifndef ZR_SPEED_H
#define ZR_SPEED_H

#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/run.h"

/* Floating-point operations of the model for one token, forward and backward, a multiplication and
 * an addition counted as two:
 *
 *     6 (weights of the products of the blocks and of the head) + 12 L A T
 *
 * A = H D is the width of attention, which counts as if every token saw all T: a causal mask is not
 * discounted. Neither recomputation nor embedding tables, norms and biases count (Narayanan et al.,
 * SC 2021, section 5; Chowdhery et al., PaLM, 2022, appendix B). BERT's pooler works on one token
 * of a sequence; its share is rounded down. */
uint64_t zr_speed_operations(const zl_run *run);

typedef struct zr_speed {
    uint64_t warm_up;         /* steps left out: the first ones, unless there are no others */
    double seconds;           /* of a step, median */
    double tokens_per_second; /* of all ranks, in the median step */
    uint64_t operations;      /* of one token */
    double rate;              /* operations per second of one rank */
    double peak_rate;         /* the most that its device does in bf16; 0: not known */
    double utilization;       /* rate / peak_rate; 0: not known */
} zr_speed;

/* seconds: of each step of this process, in their order; not changed. With no step, all is 0. */
ZL_NODISCARD zl_status zr_speed_find(const zl_run *run, const double *seconds, size_t steps,
                                     zr_speed *out, zl_err *err);

#endif
