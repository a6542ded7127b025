/* The trainer's engine with its inside laid open: weights put in and taken out, the logits and
 * gradients of one micro-step, the losses of whole steps.
 *
 *     probe p;
 *     ZL_TRY(probe_open(&p, &options, err));
 *     ZL_TRY(probe_write(&p, u, tensor, weights, err));
 *     ZL_TRY(probe_pass(&p, batch, logits, err));         // then probe_gradient
 *     probe_close(&p);
 *
 * Stage 0 on one rank: whole units lie in memory.
 */
#ifndef ZR_TEST_PROBE_H
#define ZR_TEST_PROBE_H

#include <stdint.h>

#include "train/engine.h"
#include "zero/zero.h"

typedef struct probe {
    zr_track *track;
    zr_comm *comm;
    zr_engine *engine;
} probe;

/* The options lack memory and communicator, which the probe has. Fresh memory is NaN. */
ZL_NODISCARD zl_status probe_open(probe *p, const zr_engine_options *options, zl_err *err);
void probe_close(probe *p);

const zr_zero *probe_zero(const probe *p);
uint64_t probe_elements(const probe *p); /* of all tensors */

/* All elements of a tensor of unit u, from or to the host. */
ZL_NODISCARD zl_status probe_read(const probe *p, uint64_t u, const zr_tensor *tensor, float *out,
                                  zl_err *err);
ZL_NODISCARD zl_status probe_write(const probe *p, uint64_t u, const zr_tensor *tensor,
                                   const float *value, zl_err *err);
ZL_NODISCARD zl_status probe_gradient(const probe *p, uint64_t u, const zr_tensor *tensor,
                                      float *out, zl_err *err);

/* Forward and backward of one micro-step. logits: room for (B T V), and 2 B behind them with a
 * pooler. Gradients stay until probe_drop. */
ZL_NODISCARD zl_status probe_pass(probe *p, zr_next_batch next, void *context, float *logits,
                                  zl_err *err);
void probe_drop(probe *p);

#endif
