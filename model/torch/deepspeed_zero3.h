/* What stage 3 of both generations has in common: shards, the optimizer's sub-groups, modules. */
#ifndef ZT_DEEPSPEED_ZERO3_H
#define ZT_DEEPSPEED_ZERO3_H

#include "torch/deepspeed_gather.h"
#include "zeroledger/bytes.h"

enum { GATHER_STREAM = 1, REDUCE_STREAM = 2 }; /* with overlap_comm */

/* fp16_groups: what the optimizer updates at once. */
typedef struct zt_ds_sub_group {
    uint32_t first; /* in `trained` */
    uint32_t params;
    uint64_t shards;      /* elements */
    zt_storage high;      /* fp32 masters */
    zt_storage low;       /* 0.5.x: its shards are a buffer of their own */
    zt_storage gradients; /* 0.5.x: of its shards, from the first reduction to the step */
    zt_ds_updater updater;
} zt_ds_sub_group;

/* Per module: the counters of its backward hooks. */
typedef struct zt_ds_module {
    zt_module *module;
    uint32_t remaining; /* gradients of inputs that have not come */
} zt_ds_module;

struct zt_ds_zero3 {
    zt_coordinator *coordinator;
    struct zt_old_coordinator *old; /* 0.5.x */
    zt_coordinator_module *module;
    zt_coordinator_param *param;
    zt_ds_module *state;
    uint32_t reduce_stream;
    bool offload_param;
    bool offload_optimizer;
    zt_ds_param **trained; /* in order of the optimizer's groups */
    uint32_t trained_count;
    uint64_t *counts; /* elements of their shards */
    zt_ds_sub_group *group;
    uint32_t groups;
    zt_storage *group_norms;
    uint64_t accumulated_width; /* a: bytes of an element of the gradient shards */
    zt_storage *shard;          /* per parameter, on the device */
    zt_storage *held;           /* by the communication thread, per persistent parameter */
    zt_storage *replaced;       /* of heads that tying threw away */
    zt_storage low;             /* the shards of trained parameters, one buffer */
    zt_storage gradients;       /* their gradients, one buffer */
    zt_storage flag;            /* inf_or_nan_tracker */
    zt_storage bucket;
    uint64_t filled; /* elements */
    zt_ds_param **waiting;
    uint32_t count;
    zt_storage *norms; /* offload: per parameter */
    /* 0.5.x */
    zt_storage old_bucket[2];
    uint32_t old_index;
    zt_ds_param **previous; /* reduced, and not yet in the shards' gradients */
    uint32_t previous_count;
};

/* c: elements of a shard, padding included. */
uint64_t zt_ds_shard_elements(const zt_ds *ds, const zt_ds_param *d);
uint64_t zt_ds_all_shards(const zt_ds_zero3 *z);
/* The model on the device, then cut parameter by parameter, unless zero.Init did it. */
void zt_ds_zero3_bring(zt_process *p, const zt_ds *ds);

/* 0.5.x (deepspeed_zero3_old.c). */
extern const zt_ds_wrapper_table zt_ds_zero3_old_table;
struct zt_old_coordinator *zt_old_coordinator_new(zt_process *p);
void zt_old_coordinator_begin(zt_process *p); /* the root has been entered */
void zt_old_coordinator_enter(zt_process *p, uint32_t module);
void zt_old_coordinator_exit(zt_process *p, uint32_t module);

#endif
