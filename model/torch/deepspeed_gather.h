/* Gathered parameters of stage 3 and the handles of collectives that bring them:
 * all_gather_coalesced and free_param of runtime/zero/partition_parameters.py. */
#ifndef ZT_DEEPSPEED_GATHER_H
#define ZT_DEEPSPEED_GATHER_H

#include "torch/deepspeed.h"

typedef struct zt_ds_gather zt_ds_gather;

zt_ds_gather *zt_ds_gather_new(zt_process *p, uint32_t stream);

/* The calls of a zt_coordinator whose context is the process. Elements of a parameter are gathered
 * with their padding, ceil(x / N) * N. */
void zt_ds_gather_start(void *process, const uint32_t *param, size_t count);
void zt_ds_gather_wait(void *process, uint32_t param);
void zt_ds_gather_release(void *process, uint32_t param);
/* Whether what is released next comes behind a product of the output matrix. */
typedef enum zt_ds_head { ZT_DS_HEAD_IDLE, ZT_DS_HEAD_FORWARD, ZT_DS_HEAD_BACKWARD } zt_ds_head;
void zt_ds_gather_head(const zt_process *p, zt_ds_head head);

#endif
