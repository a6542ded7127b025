/* DeepSpeed, releases 0.5 to 0.19, as a zt_framework: what its files share.
 *
 *     deepspeed.c           engine: who wraps the optimizer, the frame of a micro-step, the marks
 *     deepspeed_common.c    what the wrappers share
 *     deepspeed_release.c   which release behaves how
 *     deepspeed_plain.c     stage 0: FP16_Optimizer, FP16_UnfusedOptimizer, no wrapper
 *     deepspeed_bf16.c      BF16_Optimizer
 *     deepspeed_zero12.c    DeepSpeedZeroOptimizer: stages 1 and 2
 *     deepspeed_zero3.c     DeepSpeedZeroOptimizer_Stage3 since 0.6.0
 *     deepspeed_gather.{h,c} its gathered parameters and their handles
 *     deepspeed_coordinator.{h,c} its PartitionedParameterCoordinator, without memory
 *     deepspeed_host.c      host memory under offload
 *
 * Sources are paths below deepspeed/ of the repository; x, c, cnt, n, Q, R, K, b, e as there is
 * said: x elements of a parameter, c = ceil(x / N) of its shard, cnt of its part in this rank's
 * partition, b bytes of an element of the model, e of the loss.
 */
#ifndef ZT_DEEPSPEED_H
#define ZT_DEEPSPEED_H

#include "torch/deepspeed_coordinator.h"
#include "torch/eager.h"

/* What changed between releases, resolved for one of them. "since" is the first release with it. */
typedef struct zt_ds_release {
    /* engine */
    bool output_hooks;       /* 0.18.3: hooks on the model's outputs begin the backward pass */
    bool scales_outputs;     /* 0.18.3 to 0.19.5: they divide the gradients, even by one */
    bool keeps_mean_loss;    /* 0.13.3 to 0.18.2: loss / accumulation lives until the next one */
    bool named_device;       /* 0.17.3: init_process_group is told the device */
    bool lazy_states;        /* 0.13.2: Adam states appear at the first executed step */
    bool silent_init;        /* 0.18.8: no forced memory message resets the peaks at init */
    bool float_buffers_keep; /* 0.19.2: module buffers are not cast to the model's dtype */
    bool efficient_linear;   /* 0.19.4: memory-efficient linear without zero.Init */
    /* stages 1 and 2 */
    bool barrier_tensor;      /* before 0.11: one byte of a barrier stays in stages 1 and 2 */
    bool flatten_on_device;   /* 0.18.7 */
    bool flatten_by_scalars;  /* 0.13.0 to 0.18.6: parameters are swapped for 4-byte stubs */
    bool stage1_like_stage2;  /* 0.13.0: stage 1 reduces through the ipg bucket */
    bool stage1_plain;        /* stage 1 ignores contiguous_gradients and overlap_comm */
    bool lazy_bucket;         /* 0.18.3: the ipg bucket appears at the first gradient hook */
    bool multi_rank_reduce;   /* 0.12.4: a bucket of several owners is copied, then all-reduced */
    bool gather_in_place;     /* 0.12.4: all_gather_into_tensor */
    bool norms_on_device;     /* 0.13.2: norms of all tensors are kept and added on the device */
    bool records_buckets;     /* 0.19.0: buckets are recorded on the reduction stream */
    bool step_by_group;       /* 0.6.6: one fp32 gradient at a time, not of all groups at once */
    bool overflow_masks;      /* 0.13.3: the overflow check makes masks of whole tensors */
    bool overflow_reductions; /* 0.19.6: max and min instead */
    /* BF16_Optimizer */
    bool frees_gradients; /* 0.16.5: after the step; before: when the next backward begins */
    bool norm_buffers;    /* 0.12.6: 4 bytes per parameter stay */
    /* stage 3 */
    bool stage3_rewritten;   /* 0.6.0: trace, prefetch, one persistent bucket */
    bool world1_shard;       /* 0.9.0: with one rank the shard itself is used */
    bool accumulation_dtype; /* 0.10.1: the gradient partitions follow grad_accum_dtype */
    bool master_converted;   /* 0.18.3: masters are converted, then cloned */
    bool lone_gather_once;   /* 0.18.5: a lone gather outside the coordinator makes no copy */
    bool norm_scalars;       /* 0.13.0: three norm scalars of 8 bytes live during the step */
    bool releases_leftovers; /* 0.19.3: modules without backward are released in the epilogue */
    bool holds_outputs;      /* before 0.19: gathered persistent parameters are let go late */
} zt_ds_release;

/* The optimizer is FusedAdam, or DeepSpeedCPUAdam on the host. */
bool zt_ds_is_adam(const zl_torch_run *run);
zt_ds_release zt_ds_release_of(const zl_ds_config *config);

/* What DeepSpeed puts around the optimizer; zt_ds_wrapper_name is the Python class. */
typedef enum zt_ds_wrapper {
    ZT_DS_BARE,
    ZT_DS_FP16,
    ZT_DS_FP16_UNFUSED,
    ZT_DS_BF16,
    ZT_DS_ZERO12,
    ZT_DS_ZERO3,
    ZT_DS_WRAPPER_COUNT
} zt_ds_wrapper;

/* ZL_E_UNMODELLED or ZL_E_USAGE where the release raises. */
ZL_NODISCARD zl_status zt_ds_wrapper_of(const zl_torch_run *run, zt_ds_wrapper *out, zl_err *err);

/* A parameter as DeepSpeed sees it; zt_param.user. */
typedef struct zt_ds_param {
    zt_param *param;
    uint32_t group;       /* of the optimizer; ZT_DS_NO_GROUP: not given to it */
    uint64_t x;           /* elements */
    uint64_t offset;      /* in the flat group */
    uint64_t count;       /* of its elements in this rank's partition */
    uint64_t shard;       /* stage 3: ceil(x / N) */
    zt_storage partition; /* stage 3, outside the optimizer or before the flat one: its shard */
} zt_ds_param;

enum { ZT_DS_GROUPS_MAX = 2, ZT_DS_NO_GROUP = ZT_DS_GROUPS_MAX };

/* One parameter group of the optimizer. */
typedef struct zt_ds_group {
    zt_ds_param **param;
    uint32_t params;
    uint64_t elements; /* P_g */
    uint64_t flat;     /* F_g: padded to 2N */
    uint64_t local;    /* n_g = F_g / N; stage 3: sum of shards */
    zt_storage low;    /* flat parameters in the model's dtype */
    zt_storage high;   /* fp32 masters of this rank */
    zt_storage grads;  /* fp32 gradients, where they are flat */
} zt_ds_group;

/* The optimizer over some of this rank's tensors. */
typedef struct zt_ds_updater {
    uint64_t *elements; /* fp32 each */
    uint32_t tensors;
    zt_optimizer *torch; /* NULL: FusedAdam and its like, whose step makes nothing but states */
    zt_storage *state;   /* `states` per tensor, once it has run */
    uint32_t states;
    bool started;
} zt_ds_updater;

typedef struct zt_ds_zero12 zt_ds_zero12;
typedef struct zt_ds_zero3 zt_ds_zero3;

/* zt_process.user under DeepSpeed. */
typedef struct zt_ds {
    const zl_ds_config *config;
    zt_ds_release release;
    zt_ds_wrapper wrapper;
    const struct zt_ds_wrapper_table *table;
    uint64_t ranks; /* N */
    uint64_t width; /* b */
    bool real;      /* collectives are NCCL's, not simulated */
    bool initialized;
    zt_ds_param *param; /* in the order of p->named */
    zt_ds_group group[ZT_DS_GROUPS_MAX];
    uint32_t groups;
    uint64_t forwards;   /* so far */
    uint64_t started;    /* backward passes so far */
    uint64_t micro_step; /* of the step that runs */
    bool boundary;       /* the last micro-step of a step */
    bool skips;          /* this step overflows */
    zt_storage *list;    /* per parameter: scratch of one function at a time, else empty */
    zt_batch *batch;     /* per micro-step */
    zt_storage flag;     /* FusedAdam's overflow buffer */
    zt_storage mean_loss;
    zt_storage scaled_norm, global_norm;     /* of the step that runs */
    zt_storage engine_norm;                  /* of the step before, kept until this one has ended */
    zt_ds_updater updater[ZT_DS_GROUPS_MAX]; /* stages 0 to 2, one per group or one for all */
    zt_ds_zero12 *zero12;
    zt_ds_zero3 *zero3;
    struct zt_ds_gather *gather;
    zt_storage *kept;     /* per parameter: norms of BF16_Optimizer, masters when not fused */
    uint64_t host_pinned; /* bytes of page-locked memory, as its allocator takes them */
    uint64_t host_pageable;
    uint64_t host_peak;
} zt_ds;

static inline zt_ds *zt_ds_of(const zt_process *p)
{
    return p->user;
}

/* What a wrapper does; the engine calls it. NULL: nothing. */
typedef struct zt_ds_wrapper_table {
    const char *name; /* the Python class; NULL: the optimizer's own */
    void (*init)(zt_process *p);
    void (*gradient)(zt_process *p, zt_param *param);
    void (*before_backward)(zt_process *p);
    void (*after_backward)(zt_process *p); /* reductions; loss and logits are alive */
    void (*step)(zt_process *p);           /* at a boundary */
} zt_ds_wrapper_table;

extern const zt_ds_wrapper_table zt_ds_bare, zt_ds_fp16, zt_ds_fp16_unfused, zt_ds_bf16,
    zt_ds_zero12_table, zt_ds_zero3_table;

/* Stage 3 only: what comes with the model (under zero.Init it is built cut), hooks of modules, the
 * end. */
void zt_ds_zero3_build(zt_process *p);
void zt_ds_zero3_finish(zt_process *p);
zt_storage zt_ds_zero3_shard(const zt_process *p, uint32_t param);
void zt_ds_zero3_enter(zt_process *p, zt_module *m, zt_tensor *input, size_t count);
void zt_ds_zero3_leave(zt_process *p, zt_module *m, zt_tensor *output, size_t count);

/* ---- what several wrappers use (deepspeed_common.c) ---- */

/* Norms of tensors of count[i] elements in double precision, as get_grad_norm_direct takes them: a
 * copy of one tensor at a time and the scalars in between. */
void zt_ds_norm(zt_process *p, const uint64_t *count, size_t tensors);
/* The scalars that come of it: the scaled norm and the engine's, `bytes` each. */
void zt_ds_norm_scalars(zt_process *p, uint64_t bytes);

void zt_ds_updater_add(zt_process *p, zt_ds_updater *u, uint64_t elements);
void zt_ds_updater_step(zt_process *p, zt_ds_updater *u);

/* zt_new with a name for those who explain a peak. */
zt_storage zt_ds_new(zt_process *p, uint64_t bytes, const char *name);

/* The parameter becomes a view of the storage. */
void zt_ds_point(zt_process *p, zt_param *param, zt_storage storage);
/* Model to device and what the optimizer's constructor allocates. */
void zt_ds_to_device(zt_process *p);
void zt_ds_optimizer_flag(zt_process *p);
/* buffered_allreduce_fallback: gradients in flat copies of at least 5e8 elements, one at a time. */
void zt_ds_reduce_flat(zt_process *p);
/* Looks for inf and nan in tensors of count[i] elements, as stages 1 and 2 do. */
void zt_ds_overflow(zt_process *p, const uint64_t *count, size_t tensors);
void zt_ds_clear_gradients(zt_process *p, const zt_ds_group *group);

/* ---- host memory (deepspeed_host.c) ---- */

/* pin_memory: the page-locked allocator of PyTorch takes powers of two. */
void zt_ds_host_pinned(zt_process *p, uint64_t bytes);
void zt_ds_host_pageable(zt_process *p, uint64_t bytes);
void zt_ds_host_mark(const zt_process *p, zl_mark *mark);

#endif
