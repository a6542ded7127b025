/* DeepSpeed's own memory estimators, by their published formula. Nothing of ours is made of them.
 *
 * Source: estimate_zero2_model_states_mem_needs in deepspeed/runtime/zero/stage_1_and_2.py and
 * estimate_zero3_model_states_mem_needs in deepspeed/runtime/zero/stage3.py. They count model
 * states (parameters, gradients, optimizer states), of 16-bit training with Adam, and nothing else.
 */
#ifndef ZV_ESTIMATOR_H
#define ZV_ESTIMATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "zeroledger/torch.h"

typedef struct zv_estimate {
    uint64_t device; /* bytes of one GPU */
    uint64_t host;   /* bytes of the node, all its processes; 0 unless something is offloaded */
} zv_estimate;

/* The most parameters that one module owns itself, those that are tied to another's included. */
uint64_t zv_largest_layer(const zl_hf_config *model);

/* A run of DeepSpeed whose ranks share a node, with `parameters` parameters, tied ones once. False:
 * there is no estimator for its stage, 0 or 1. */
bool zv_deepspeed_estimate(const zl_torch_run *run, uint64_t parameters, zv_estimate *out);

#endif
