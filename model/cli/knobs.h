/* Settings that make some part of a run's memory smaller, in one table: zl explain tries them one
 * at a time, zl advise combines them.
 *
 * A knob changes the description of the run, as a person would: options, or keys of its
 * ds_config.json. So whatever is said to turn it is exactly what is predicted.
 *
 *     zl_turned turned;
 *     for (unsigned level = 0; zl_knob_turn(knob, level, &run, NULL, &turned); level++) {
 *         if (turned.possible) { ... predict turned.run ... }
 *     }
 */
#ifndef ZL_CLI_KNOBS_H
#define ZL_CLI_KNOBS_H

#include "cmd.h"
#include "zeroledger/torch.h"

/* What a change asks for in return. */
typedef enum zl_price {
    ZL_PRICE_NONE,   /* the same numbers; little or no time */
    ZL_PRICE_TIME,   /* the same result; compute, network or host traffic */
    ZL_PRICE_RANKS,  /* more GPUs, with them a larger global batch */
    ZL_PRICE_RESULT, /* other numerics, other data, or less that trains */
    ZL_PRICE_COUNT
} zl_price;

typedef struct zl_knob zl_knob;

/* What a turn did, for people: the line, and where it belongs. */
typedef struct zl_change {
    const zl_knob *knob;
    char value[64];       /* "5e7", "4 --accumulation 2" */
    const char *where;    /* "ds_config.json", "DistributedDataParallel(...)" */
    char line[224];       /* what to write there */
    char accelerate[176]; /* the same in an accelerate config; "": it has no such key */
    char options[128];    /* the same as options of zl; "": only the ds_config.json has it */
} zl_change;

struct zl_knob {
    const char *name; /* "reduce_bucket_size"; "--recompute" where zl has the option */
    zl_price price;
    const char *cost;    /* what is known of it, in words */
    unsigned frameworks; /* bit f: zl_framework f has it */
    unsigned alone;      /* levels that zl explain tries, of each knob by itself */
    /* Changes the run and says so. torch: the same run as PyTorch sees it, NULL for native. False:
     * the run has no such thing, or it is as small already. Level 0 is the mildest. */
    bool (*turn)(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
};

typedef struct zl_turned {
    bool possible; /* the changed run passes every check */
    zl_run run;
    zl_torch_run torch; /* not for native */
    zl_change change;
} zl_turned;

/* The index-th; NULL past the end. Sets of them are turned in this order. */
const zl_knob *zl_knob_at(size_t index);
enum { ZL_KNOBS = 27 };

/* "--micro-batch 4 --accumulation 2", "reduce_bucket_size 5e7" */
void zl_change_label(const zl_change *change, char *text, size_t size);

/* Turns a knob of a checked run to a level; false past the last level. torch: as for turn; GPU and
 * limits are taken over from it. */
bool zl_knob_turn(const zl_knob *knob, unsigned level, const zl_run *run, const zl_torch_run *torch,
                  zl_turned *out);

/* ---- for the tables of knobs ---- */

#define ZL_ON(name) (1u << ZL_FRAMEWORK_##name)
enum {
    ZL_ON_NATIVE = ZL_ON(NATIVE),
    ZL_ON_DEEPSPEED = ZL_ON(DEEPSPEED),
    ZL_ON_BUCKETS = ZL_ON(DDP) | ZL_ON(ZERO1),
    ZL_ON_TORCH = ZL_ON(SINGLE) | ZL_ON_BUCKETS | ZL_ON(FSDP1) | ZL_ON(FSDP2),
    ZL_ON_WALKED = ZL_ON_TORCH | ZL_ON_DEEPSPEED,
    ZL_ON_ALL = ZL_ON_NATIVE | ZL_ON_WALKED
};

bool zl_turn_ranks(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_stage(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_micro_batch(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_seq(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_recompute(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_attention(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_precision(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_grad_dtype(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_head_chunk(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_window(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_reduce_slots(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_shard_copy(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);

bool zl_turn_fused(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_adam8bit(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_bucket_view(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_drop_logits(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_segments(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_prefetch(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_lora(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);

bool zl_turn_reduce_bucket(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_gather_bucket(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_overlap(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_gathered(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_sub_group(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_offload(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_offload_param(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);
bool zl_turn_zero_init(const zl_torch_run *torch, unsigned level, zl_run *run, zl_change *out);

/* Sets an option of zl from a count. */
bool zl_set_count(zl_run *run, const char *option, uint64_t value);
/* A key of zero_optimization as the run's file spells it: stage3_x may be x there. */
const char *zl_key_spelled(const zl_run *run, const char *key);
/* Sets a value in the run's ds_config.json, which is written from its options if there is none. */
bool zl_set_key(zl_run *run, const char *path, const char *value);
/* A setting that DeepSpeed has in its file and zl as an option: in the file if there is one, and in
 * the option if it was given, or if there is no file. */
bool zl_set_both(zl_run *run, const char *option, const char *path, const char *value);

#endif
