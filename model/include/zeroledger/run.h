/* The run description: everything that decides a run's memory, every number explicit.
 *
 * It is the experiment, not the answer: no sizes in here. Written and read as run.json
 * ("zeroledger.run/1"); its id is a hash of the canonical text, so that a prediction and a
 * measurement can prove that they speak of the same run.
 *
 *     zl_run run;
 *     zl_run_init(&run);                                   // defaults, no model yet
 *     ZL_TRY(zl_run_set(&run, "model", "gpt2", err));      // any option of the table, in any order
 *     ZL_TRY(zl_run_set(&run, "stage", "3", err));
 *     ZL_TRY(zl_run_check(&run, err));                     // fills what depends on others, refuses
 * nonsense
 */
#ifndef ZEROLEDGER_RUN_H
#define ZEROLEDGER_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/export.h"
#include "zeroledger/json.h"
#include "zeroledger/model.h"
#include "zeroledger/vocab.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whose schedule of allocations is followed: our own trainer's, or that of a framework on Hugging
 * Face models (torch.h). */
typedef enum zl_framework {
    ZL_FRAMEWORK_NATIVE,
    ZL_FRAMEWORK_SINGLE,
    ZL_FRAMEWORK_DDP,
    ZL_FRAMEWORK_ZERO1,
    ZL_FRAMEWORK_FSDP1,
    ZL_FRAMEWORK_FSDP2,
    ZL_FRAMEWORK_DEEPSPEED,
    ZL_FRAMEWORK_COUNT
} zl_framework;
typedef enum zl_backend { ZL_BACKEND_HOST, ZL_BACKEND_CUDA, ZL_BACKEND_COUNT } zl_backend;
typedef enum zl_precision {
    ZL_PRECISION_FP32,         /* everything fp32, no master copy */
    ZL_PRECISION_BF16,         /* pure: parameters, gradients and states bf16 */
    ZL_PRECISION_BF16_MIXED,   /* bf16 compute, fp32 master weights and states */
    ZL_PRECISION_FP16_MIXED,   /* fp16 compute, fp32 master weights and states, loss scale */
    ZL_PRECISION_NATIVE_COUNT, /* those before are native ones */
    ZL_PRECISION_BF16_AUTOCAST = ZL_PRECISION_NATIVE_COUNT, /* fp32 parameters under autocast */
    ZL_PRECISION_COUNT
} zl_precision;
typedef enum zl_grad_dtype { ZL_GRAD_MODEL, ZL_GRAD_FP32, ZL_GRAD_COUNT } zl_grad_dtype;
typedef enum zl_optimizer {
    ZL_OPTIMIZER_ADAMW, /* the framework's own: PyTorch's foreach, DeepSpeed's FusedAdam */
    ZL_OPTIMIZER_SGD,
    ZL_OPTIMIZER_NATIVE_COUNT, /* those before are native ones */
    ZL_OPTIMIZER_ADAMW_FUSED = ZL_OPTIMIZER_NATIVE_COUNT,
    ZL_OPTIMIZER_ADAMW_FOREACH,
    ZL_OPTIMIZER_ADAMW_LOOP,
    ZL_OPTIMIZER_ADAM8BIT,
    ZL_OPTIMIZER_COUNT
} zl_optimizer;
typedef enum zl_attention {
    ZL_ATTENTION_FLASH,
    ZL_ATTENTION_EAGER,
    ZL_ATTENTION_NATIVE_COUNT,                     /* those before are native ones */
    ZL_ATTENTION_SDPA = ZL_ATTENTION_NATIVE_COUNT, /* torch's own choice of kernel */
    ZL_ATTENTION_COUNT
} zl_attention;
typedef enum zl_recompute {
    ZL_RECOMPUTE_NONE,
    ZL_RECOMPUTE_SELECTIVE, /* norms and activation functions are recomputed */
    ZL_RECOMPUTE_FULL,      /* only block inputs are kept */
    ZL_RECOMPUTE_COUNT
} zl_recompute;

/* DeepSpeed without a version is this one. */
#define ZL_DEEPSPEED_NEWEST "0.19.6"

enum { ZL_VERSION_SIZE = 16, ZL_LORA_SIZE = 256, ZL_ALLOC_CONF_SIZE = 256, ZL_CONFIG_SIZE = 4096 };

typedef struct zl_run {
    zl_model model; /* framework not native: only its name counts, hf_config has the rest */
    zl_framework framework;
    zl_backend backend;
    uint64_t stage;        /* 0..3 */
    uint64_t ranks;        /* N */
    uint64_t micro_batch;  /* B, sequences per rank and micro-step */
    uint64_t seq;          /* T */
    uint64_t layers;       /* instead of the model's own depth; 0: its own */
    uint64_t accumulation; /* A, micro-steps per optimizer step */
    zl_precision precision;
    zl_grad_dtype grad_dtype;
    zl_optimizer optimizer;
    zl_attention attention;
    zl_recompute recompute;
    double dropout;        /* probability; memory depends only on whether it is 0 */
    double clip;           /* largest global gradient norm; 0 = no clipping */
    uint64_t head_chunk;   /* tokens per chunk of the head; 0 = all at once */
    uint64_t window;       /* W, units gathered ahead (stage 3) */
    uint64_t reduce_slots; /* K, reduce slots of blocks (stages 2 and 3) */
    bool shard_copy;       /* stage 3 keeps the 16-bit shard at rest */
    bool eval;             /* a forward without gradients after every optimizer step */
    bool save;             /* a checkpoint after every optimizer step */
    /* Of frameworks other than native; `dropout` is negative there where the model's own
     * probabilities hold. */
    char version[ZL_VERSION_SIZE];       /* of DeepSpeed, "0.19.6" */
    char lora[ZL_LORA_SIZE];             /* "16:q_proj,v_proj": rank and targets; "": none */
    uint64_t trainable_layers;           /* only the last K layers train; 0: everything */
    bool skipped_step;                   /* every step is skipped, fp16 overflows */
    uint64_t activations;                /* bytes, given instead of modelled; 0: modelled */
    bool zero_init;                      /* DeepSpeed: the model is built under zero.Init */
    bool bucket_view;                    /* DDP: gradient_as_bucket_view */
    bool no_prefetch;                    /* FSDP1: backward_prefetch is None */
    bool drop_logits;                    /* the output is dropped before backward */
    char alloc_conf[ZL_ALLOC_CONF_SIZE]; /* PYTORCH_ALLOC_CONF */
    char hf_config[ZL_CONFIG_SIZE];      /* the model's config.json, compact, what shapes it */
    char ds_config[ZL_CONFIG_SIZE];      /* ds_config.json, compact; "": none */
    zl_json_lapses ds_lapses;            /* of the file it was read from; not in run.json */
    uint64_t given;                      /* bit i: option i of the table was set; not in run.json */
} zl_run;

/* Whether option `name` was set, by zl_run_set or by a run.json. */
ZL_API bool zl_run_given(const zl_run *run, const char *name);

/* Defaults: native, host, stage 0, one rank, micro-batch 1, accumulation 1, bf16-mixed, model's
 * gradient type, adamw, flash, no recompute, no dropout, clip 1.0, head chunk 0, window 1, two
 * reduce slots, shard copy, no eval, no save; seq 0 = the model's positions, at most 1024. */
ZL_API void zl_run_init(zl_run *run);

/* The option table: one row per option of interfaces.md that describes a run. Help, man pages,
 * completion and run.json follow it. */
typedef struct zl_option {
    const char *name;  /* long name without dashes, "micro-batch" */
    const char *alias; /* second long name, or NULL */
    const char
        *arg; /* what stands for the value in help: "N", "NAME"; NULL: a flag without value */
    const char *values; /* comma-separated legal names for completion, or NULL */
    const char *text;   /* one sentence */
} zl_option;

/* Rows in order; NULL past the end. Static storage. */
ZL_API const zl_option *zl_run_option(size_t index);

/* What a value of an option of that table is. */
typedef enum zl_value_type {
    ZL_VALUE_NONE, /* a flag */
    ZL_VALUE_COUNT,
    ZL_VALUE_BYTES, /* with a unit, or a count */
    ZL_VALUE_REAL,
    ZL_VALUE_NAME, /* without a comma inside */
    ZL_VALUE_TEXT  /* a file, or words with commas */
} zl_value_type;
ZL_API zl_value_type zl_run_option_type(const zl_option *option);

/* Sets one option from its text, with the name or the alias. ZL_E_USAGE names option, value and the
 * legal values. A flag takes value NULL. "run" loads a run.json, "model" a preset or file,
 * "deepspeed-config" a ds_config.json, which implies the framework deepspeed. */
ZL_API ZL_NODISCARD zl_status zl_run_set(zl_run *run, const char *name, const char *value,
                                         zl_err *err);

/* Sets one value inside the run's ds_config.json, as "zero_optimization.stage" to "3": the value is
 * JSON, objects on the way are made, path "" replaces everything. ZL_E_INPUT: something on the way
 * is no object, or the value is no JSON. */
ZL_API ZL_NODISCARD zl_status zl_run_set_config(zl_run *run, const char *path, const char *value,
                                                zl_err *err);

/* Resolves defaults that depend on others (seq; with a framework precision, stage, attention) and
 * refuses what cannot be run: ZL_E_USAGE with the remedy. Every zl_run passed to another function
 * has passed here. What a ds_config.json decides is resolved by zl_torch_run_from (torch.h). */
ZL_API ZL_NODISCARD zl_status zl_run_check(zl_run *run, zl_err *err);

/* run.json. Load checks the schema string, unknown and duplicate keys, types and ranges, and ends
 * with zl_run_check. Save is atomic (temporary file, fsync, rename). path "-" = stdin / stdout. */
ZL_API ZL_NODISCARD zl_status zl_run_load(const char *path, zl_run *out, zl_err *err);
ZL_API ZL_NODISCARD zl_status zl_run_save(const zl_run *run, const char *path, zl_err *err);

/* Puts the members of run.json, its schema first, into the object that is open. */
ZL_API void zl_run_write(const zl_run *run, zl_json_writer *w);

/* 16 lower-case hex digits and a NUL: FNV-1a 64 of the canonical run.json text, the model's label
 * left out. run.json of a native run has no keys of other frameworks, nor the other way round. */
enum { ZL_RUN_ID_SIZE = 17 };
ZL_API void zl_run_id(const zl_run *run, char id[ZL_RUN_ID_SIZE]);

/* One line that identifies the run for people, e.g.
 * "gpt2 stage 3, 4 ranks, B 2, T 128, A 1, bf16-mixed, adamw, flash, recompute none". */
ZL_API void zl_run_describe(const zl_run *run, char *text, size_t size);

/* "native", "fsdp2", "deepspeed@0.19.6". */
ZL_API void zl_run_framework(const zl_run *run, char *text, size_t size);

/* Names of the option values: "native", "host", "bf16-mixed", "model", "adamw", "flash", "none". */
ZL_API const char *zl_framework_name(zl_framework framework);
ZL_API const char *zl_backend_name(zl_backend backend);
ZL_API const char *zl_precision_name(zl_precision precision);
ZL_API const char *zl_grad_dtype_name(zl_grad_dtype grad_dtype);
ZL_API const char *zl_optimizer_name(zl_optimizer optimizer);
ZL_API const char *zl_attention_name(zl_attention attention);
ZL_API const char *zl_recompute_name(zl_recompute recompute);

#ifdef __cplusplus
}
#endif
#endif
