/* DistributedDataParallel, shared by its own profile and ZeroRedundancyOptimizer's (zero1.c). */
#ifndef ZT_DDP_H
#define ZT_DDP_H

#include "torch/eager.h"

typedef struct zt_ddp_options {
    bool accumulate_alone;  /* all but the last micro-step run under no_sync() */
    bool steps_communicate; /* the optimizer step has collectives of its own */
} zt_ddp_options;

/* DistributedDataParallel(model): the model comes to the device, its states are broadcast, the
 * first bucket is made. */
void zt_ddp_init(zt_process *p, zt_ddp_options options);

/* Hooks of the framework. */
void zt_ddp_before_forward(zt_process *p, uint64_t micro_step);
void zt_ddp_gradient(zt_process *p, zt_param *param);
zt_nccl zt_ddp_nccl(const zt_process *p);

#endif
