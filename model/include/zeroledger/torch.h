/* Training in PyTorch: what the process of one rank allocates, event by event.
 *
 * The frameworks people run (a single GPU, DDP, ZeroRedundancyOptimizer, FSDP1, FSDP2, DeepSpeed)
 * on Hugging Face models. Other than the native closed form, this is a walk: the model's operations
 * and the framework's own events in program order, through PyTorch's caching allocator, in about a
 * millisecond. It answers with the figures torch.cuda.memory_stats() would show at the marks of a
 * training step.
 *
 *     zl_torch_run run;
 *     zl_torch_run_init(&run);                    // defaults, no model yet
 *     ... zl_hf_config_read(json, &run.model, &err) ...
 *     run.framework = ZL_TORCH_FSDP2; run.stage = 3; run.ranks = 8; ...
 *     zl_marks marks;
 *     ZL_TRY(zl_torch_predict(&run, 0, &marks, err));
 */
#ifndef ZEROLEDGER_TORCH_H
#define ZEROLEDGER_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/export.h"
#include "zeroledger/json.h"
#include "zeroledger/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the model, as its config.json says ---- */

typedef enum zl_hf_arch {
    ZL_HF_BERT_MLM,         /* BertForMaskedLM */
    ZL_HF_BERT_PRETRAINING, /* BertForPreTraining: pooler and next-sentence head too */
    ZL_HF_BERT_PRELN,       /* BertForPreTrainingPreLN of DeepSpeedExamples' bing_bert */
    ZL_HF_GPT2,             /* GPT2LMHeadModel */
    ZL_HF_LLAMA,            /* LlamaForCausalLM */
    ZL_HF_MIXTRAL,          /* MixtralForCausalLM, grouped experts */
    ZL_HF_ROBERTA,          /* RobertaForMaskedLM */
    ZL_HF_DISTILBERT,       /* DistilBertForMaskedLM */
    ZL_HF_GEMMA,            /* GemmaForCausalLM */
    ZL_HF_MODELLED_COUNT,   /* of those before, operations are modelled, except BERT_PRELN's; of */
    ZL_HF_GPT_NEOX = ZL_HF_MODELLED_COUNT, /* those from here, tensors: GPTNeoXForCausalLM */
    ZL_HF_GPTJ,                            /* GPTJForCausalLM */
    ZL_HF_OPT,                             /* OPTForCausalLM */
    ZL_HF_GEMMA2,                          /* Gemma2ForCausalLM */
    ZL_HF_PHI,                             /* PhiForCausalLM */
    ZL_HF_FALCON,                          /* FalconForCausalLM */
    ZL_HF_QWEN2_MOE,                       /* Qwen2MoeForCausalLM */
    ZL_HF_TENSORS,                         /* any: the tensors of a safetensors file */
    ZL_HF_ARCH_COUNT
} zl_hf_arch;

typedef enum zl_hf_activation {
    ZL_HF_GELU,     /* one fused operation, exact or tanh: its input is saved */
    ZL_HF_GELU_NEW, /* written out in elementwise operations */
    ZL_HF_SILU,
    ZL_HF_ACTIVATION_COUNT
} zl_hf_activation;

/* How the matrices of a quantised checkpoint lie in memory. */
typedef enum zl_hf_quantization_kind {
    ZL_HF_UNQUANTISED,
    ZL_HF_BNB_4BIT, /* bitsandbytes, nf4 or fp4, one fp32 scale per 64 elements */
    ZL_HF_BNB_8BIT, /* bitsandbytes LLM.int8(), one fp32 scale per row */
    ZL_HF_GPTQ,     /* packed into int32, fp16 scale and zero per group */
    ZL_HF_AWQ,      /* the same without the order of rows */
    ZL_HF_FP8,      /* one byte, one fp32 scale per block or per matrix */
} zl_hf_quantization_kind;

enum { ZL_HF_SKIPPED = 256 };

typedef struct zl_hf_quantization {
    zl_hf_quantization_kind kind;
    uint64_t bits;         /* GPTQ, AWQ: of an element */
    uint64_t group;        /* elements (bitsandbytes) or inputs (GPTQ, AWQ) of a scale; 0: all */
    uint64_t block[2];     /* FP8: rows and columns of a scale; 0: the matrix has one */
    bool double_quantised; /* bitsandbytes: scales are 8-bit themselves */
    char skipped[ZL_HF_SKIPPED]; /* modules that are left as they are: "lm_head,gate" */
} zl_hf_quantization;

typedef struct zl_hf_config {
    zl_hf_arch arch;
    zl_hf_activation activation;
    uint64_t vocab, hidden, layers, heads, kv_heads, head_dim, ffn;
    uint64_t positions;                  /* rows of the position table (BERT, GPT-2) */
    uint64_t types;                      /* rows of the token type table (BERT) */
    uint64_t experts, experts_per_token; /* Mixtral */
    bool tied;                           /* output matrix = token table */
    bool attention_bias, mlp_bias;       /* Llama */
    bool plain_output;    /* attention's output projection has no bias whatever the others have */
    const char *relative; /* "Qwen3ForCausalLM": a class with arch's operations; NULL: arch's own */
    uint64_t window;      /* tokens that attention looks back; 0: all */
    double embedding_dropout, attention_dropout, hidden_dropout; /* probabilities */
    bool query_norm;                  /* Qwen3, Phi: norms of the heads of q and k */
    bool fused_projections;           /* Phi-3: q, k, v are one matrix, gate and up another */
    uint64_t rotary;                  /* of head_dim, that turn with the position; 0: all */
    uint64_t table_width;             /* OPT: of the token table, if not hidden; else 0 */
    uint64_t dense_ffn, shared_ffn;   /* Qwen2-MoE: of layers without experts, of all tokens */
    uint64_t sparse_step;             /* Qwen2-MoE: every so many layers has experts */
    bool grouped_queries, single_key; /* Falcon: new_decoder_architecture, multi_query */
    bool parallel, two_norms;         /* Falcon: attention beside the MLP; each its norm */
    bool affine_norms, final_norm;    /* OPT: norms have weights; one behind the layers */
    zl_hf_quantization quantization;  /* of the stored weights */
    char stored[16];                  /* dtype of the checkpoint, "bfloat16"; "": not said */
    char tensors[ZL_CONFIG_SIZE];     /* ZL_HF_TENSORS: by name, base/safetensors.h; else "" */
} zl_hf_config;
/* Reads the content of a config.json; absent keys take the defaults of the transformers library,
 * keys that move no memory are ignored. ZL_E_UNMODELLED names what is outside: another
 * architecture, activation, quantised weights. */
ZL_API ZL_NODISCARD zl_status zl_hf_config_read(zl_json config, zl_hf_config *out, zl_err *err);

/* Whether the operations of the model's classes are modelled, so that activations are. */
ZL_API bool zl_hf_operations_modelled(const zl_hf_config *model);

/* A model_type that zl_hf_config_read knows, by index; NULL past the end. */
typedef struct zl_hf_type {
    const char *name;         /* "qwen2" */
    const char *architecture; /* "Qwen2ForCausalLM" */
    bool operations;          /* false: shapes only */
} zl_hf_type;
ZL_API bool zl_hf_type_at(size_t index, zl_hf_type *out);

/* What the weights are. */
typedef struct zl_hf_weights {
    uint64_t parameters; /* elements, tied ones once */
    uint64_t quantised;  /* of them in quantised matrices */
    uint64_t tensors;    /* of parameters */
    uint64_t bytes;      /* as stored: quantised or in the checkpoint's dtype; 0: not said */
} zl_hf_weights;
ZL_API ZL_NODISCARD zl_status zl_hf_weights_of(const zl_hf_config *model, zl_hf_weights *out,
                                               zl_err *err);
/* Tokens of the longest sequence: the rows of the position table; 2^64 - 2 where positions are
 * rotated, which ends nowhere. */
ZL_API uint64_t zl_hf_longest(const zl_hf_config *model);

/* The first difference between the tensors of a checkpoint ("tensors" of zl_model_weights) and
 * those that the model's classes register, as a sentence; "": none, or the weights are quantised.
 */
ZL_API ZL_NODISCARD zl_status zl_hf_compare(const zl_hf_config *model, zl_json tensors, char *line,
                                            size_t size, zl_err *err);

/* ---- the run ---- */

typedef enum zl_torch_framework {
    ZL_TORCH_SINGLE,
    ZL_TORCH_DDP,
    ZL_TORCH_ZERO1, /* DDP and ZeroRedundancyOptimizer */
    ZL_TORCH_FSDP1,
    ZL_TORCH_FSDP2, /* stage 3: reshard after forward; stage 2: no reshard */
    ZL_TORCH_DEEPSPEED,
    ZL_TORCH_FRAMEWORK_COUNT
} zl_torch_framework;

typedef enum zl_torch_precision {
    ZL_TORCH_FP32,
    ZL_TORCH_BF16,          /* parameters, gradients and states bf16; DeepSpeed never has this */
    ZL_TORCH_BF16_AUTOCAST, /* fp32 parameters under autocast */
    ZL_TORCH_BF16_MIXED,    /* FSDP: bf16 policy, fp32 reduce; DeepSpeed: bf16 with fp32 masters */
    ZL_TORCH_FP16_MIXED,    /* DeepSpeed: fp16 with fp32 masters */
    ZL_TORCH_PRECISION_COUNT
} zl_torch_precision;

typedef enum zl_torch_attention {
    ZL_TORCH_EAGER,
    ZL_TORCH_SDPA,
    ZL_TORCH_FLASH,
    ZL_TORCH_ATTENTION_COUNT
} zl_torch_attention;

typedef enum zl_torch_optimizer {
    ZL_TORCH_ADAMW_FUSED,
    ZL_TORCH_ADAMW_FOREACH,
    ZL_TORCH_ADAMW_LOOP,
    ZL_TORCH_SGD, /* with momentum */
    ZL_TORCH_ADAM8BIT,
    ZL_TORCH_FROM_CONFIG, /* DeepSpeed builds what ds_config.json names */
    ZL_TORCH_OPTIMIZER_COUNT
} zl_torch_optimizer;

typedef enum zl_offload { ZL_OFFLOAD_NONE, ZL_OFFLOAD_CPU, ZL_OFFLOAD_NVME } zl_offload;

typedef enum zl_ds_optimizer {
    ZL_DS_CLIENT, /* the file names none: the caller passes one */
    ZL_DS_ADAM,   /* FusedAdam, on the host DeepSpeedCPUAdam */
    ZL_DS_TORCH_ADAM,
    ZL_DS_LAMB,
    ZL_DS_SGD,
    ZL_DS_ADAM8BIT
} zl_ds_optimizer;

/* How a value came about that the file leaves to others: "auto", or what it says in other words. */
typedef struct zl_ds_resolved {
    char key[64];   /* "zero_optimization.reduce_bucket_size" */
    char value[24]; /* "589824" */
    char why[96];   /* "hidden size squared" */
} zl_ds_resolved;
enum { ZL_DS_RESOLVED_MAX = 16 };

/* A ds_config.json with every default of its release filled in. Sizes of buckets in elements. */
typedef struct zl_ds_config {
    uint32_t version; /* 1,000,000 major + 1,000 minor + patch: 0.19.6 = 19006 */
    uint64_t stage;
    bool contiguous_gradients, overlap_comm, reduce_scatter, round_robin_gradients;
    bool multi_rank_bucket_allreduce; /* use_multi_rank_bucket_allreduce */
    bool allgather_sequential, all_reduce_for_fetch;
    uint64_t reduce_bucket_size, allgather_bucket_size, sub_group_size;
    uint64_t prefetch_bucket_size, max_live_parameters, max_reuse_distance;
    uint64_t param_persistence_threshold, model_persistence_threshold;
    bool memory_efficient_linear;
    zl_offload offload_optimizer, offload_param;
    bool pin_optimizer, pin_param;
    uint64_t offload_buffer_count, offload_buffer_size; /* NVMe parameter swapper */
    uint64_t optimizer_buffer_count;                    /* NVMe optimizer swapper */
    bool fp16, bf16;
    bool grad_accum_fp32;     /* data_types.grad_accum_dtype = fp32 */
    bool grad_accum_set;      /* it was given */
    bool check_grad_overflow; /* the step looks for inf and nan: precision, key and release */
    uint32_t initial_scale_power;
    zl_ds_optimizer optimizer;
    bool momentum;                      /* SGD with momentum */
    bool clips;                         /* gradient_clipping is more than 0 */
    uint64_t train_batch;               /* 0 where the file does not say */
    uint64_t micro_batch, accumulation; /* 0, 1 where the file does not say */
    bool accumulation_set;              /* it does */
    bool memory_breakdown;              /* prints, and so resets, the peaks between the phases */
    /* Not in the file, but in the program that reads it: */
    bool zero_init;      /* the model is built under deepspeed.zero.Init */
    bool decay_groups;   /* biases and norms are a parameter group of their own */
    bool pooler_outside; /* the optimizer is not given the pooler (Bing BERT) */
    zl_ds_resolved resolved[ZL_DS_RESOLVED_MAX];
    size_t resolved_count;
} zl_ds_config;

/* Hears one line for whatever of a foreign file is read in spite of a flaw: a key that nobody
 * knows, an older name, a spelling that the file's own reader refuses. */
typedef void zl_warn(void *context, const char *line);

/* Warns of each key of a config.json that looks like one that decides shapes and is absent: a slip,
 * where the default is taken in silence. Other unknown keys are the business of other programs. */
ZL_API void zl_hf_config_slips(zl_json config, zl_warn *warn, void *context);

/* What surrounds a ds_config.json: the release that reads it, and the arguments and the model by
 * which Hugging Face's Trainer and accelerate replace "auto". 0, false: not known. */
typedef struct zl_ds_program {
    uint32_t version;
    uint64_t hidden; /* hidden size of the model */
    uint64_t ranks, micro_batch, accumulation;
    bool precision_given, clip_given, stage_given;
    uint64_t stage;
    zl_precision precision;
    double clip; /* largest gradient norm */
    zl_warn *warn;
    void *context;
} zl_ds_program;

/* "0.19.6" is 19006. ZL_E_INPUT: no such text; ZL_E_UNMODELLED: a release outside 0.5 to 0.19. */
ZL_API ZL_NODISCARD zl_status zl_ds_version_parse(const char *text, uint32_t *out, zl_err *err);

/* What an empty ds_config.json means in that release. */
ZL_API zl_ds_config zl_ds_config_default(uint32_t version);

/* Reads a ds_config.json on top of the defaults of a release. Element counts may be written
 * 500000000, 5e8 or "5e8"; fractions are cut off. "auto" is replaced by the rules of transformers
 * and accelerate, which out->resolved tells; where the program does not decide it, it is ZL_E_INPUT
 * and names the option that would. A key that moves memory in a way outside the model is
 * ZL_E_UNMODELLED unless its value switches it off. */
ZL_API ZL_NODISCARD zl_status zl_ds_config_read_in(zl_json file, const zl_ds_program *program,
                                                   zl_ds_config *out, zl_err *err);
/* The same of a program of which nothing is known. warn may be NULL. */
ZL_API ZL_NODISCARD zl_status zl_ds_config_read(zl_json file, uint32_t version, zl_ds_config *out,
                                                zl_warn *warn, void *context, zl_err *err);

/* Gives a run of deepspeed that has no ds_config.json the one that its options mean; another file
 * is left as it is. The run stays what it was. */
ZL_API ZL_NODISCARD zl_status zl_ds_config_of_options(zl_run *run, zl_err *err);

enum { ZL_TORCH_STEPS_MAX = 64, ZL_LORA_TARGETS_MAX = 16, ZL_LORA_NAME = 32 };

typedef struct zl_torch_run {
    zl_hf_config model;
    zl_torch_framework framework;
    uint64_t stage; /* fsdp2: 3 or 2; deepspeed: ds.stage repeated; ddp 0, zero1 1 */
    uint64_t ranks;
    bool simulated; /* rank 0 of `ranks` without peers: no NCCL, no barrier tensors */
    zl_torch_precision precision;
    uint64_t micro_batch, seq, accumulation;
    zl_torch_attention attention;
    zl_torch_optimizer optimizer;
    bool checkpointing;    /* every layer recomputed, non-reentrant */
    bool drop_logits;      /* the caller drops the model's output before backward */
    bool shifted_logits;   /* Llama, Mixtral before transformers 4.46: the loss sees a contiguous
                              copy of the fp32 logits, without the last position */
    bool rotary_tables;    /* before about 4.40: every layer keeps cos and sin of all positions */
    bool no_prefetch;      /* FSDP1 with backward_prefetch=None, accelerate's default */
    bool bucket_view;      /* DDP gradient_as_bucket_view */
    double bucket_cap_mb;  /* DDP; 0: left at None */
    uint64_t lora_rank;    /* 0: none */
    uint32_t lora_targets; /* count */
    char lora_target[ZL_LORA_TARGETS_MAX][ZL_LORA_NAME]; /* last part of a module's name */
    double lora_dropout;
    bool lora_all_linear;            /* every linear layer but the output's, whatever the targets */
    char lora_pattern[ZL_LORA_SIZE]; /* POSIX, of whole names, instead of targets; "": none */
    uint64_t trainable_layers;       /* only the last K layers train; 0: all */
    bool meta_init;                  /* FSDP2: parameters were born sharded, on the meta device */
    char alloc_conf[256];            /* PYTORCH_ALLOC_CONF */
    zl_ds_config ds;
    uint32_t steps;                   /* optimizer steps to walk; default 4 */
    bool skipped[ZL_TORCH_STEPS_MAX]; /* step i was skipped by fp16 overflow */
    uint64_t activations;             /* given instead of modelled; 0: modelled */
    bool states_only; /* nothing is known of activations: right is only what they do not move, see
                         zl_mark_depends */
    uint32_t multiprocessors;  /* of the GPU: 132 (H100, H200), 108 (A100) */
    uint32_t capability;       /* 90 */
    uint64_t device_total;     /* bytes; 0: no limit */
    uint64_t device_context;   /* used when only the CUDA context exists */
    bool descending_addresses; /* address policy of the allocator; default true */
} zl_torch_run;

ZL_API void zl_torch_run_init(zl_torch_run *run);

/* "BertForMaskedLM", "fsdp2", "bf16-mixed" */
ZL_API const char *zl_hf_arch_name(zl_hf_arch arch);
/* The model's own class, "Qwen3ForCausalLM": arch's, or its relative's. */
ZL_API const char *zl_hf_class_name(const zl_hf_config *model);
ZL_API const char *zl_torch_framework_name(zl_torch_framework framework);
ZL_API const char *zl_torch_precision_name(zl_torch_precision precision);

/* Whether no record of the project measured this framework, release, stage, architecture and
 * precision: then a prediction is predicted only, and `why` says what of it was not measured. */
ZL_API bool zl_torch_unmeasured(const zl_torch_run *run, char *why, size_t size);
/* The releases of DeepSpeed that were measured, the oldest first; 0 past the end. */
ZL_API uint32_t zl_ds_measured_release(size_t index);

/* A checked run description of a framework other than native as a setup of PyTorch: reads its
 * config.json and ds_config.json. Fills in what these decide in the run too (stage, precision,
 * batch, sequence). ZL_E_USAGE: an option contradicts the ds_config.json, or the framework has no
 * such stage or precision; both values are named. warn: as for zl_ds_config_read. */
ZL_API ZL_NODISCARD zl_status zl_torch_run_from(zl_run *run, zl_torch_run *out, zl_warn *warn,
                                                void *context, zl_err *err);

/* ---- the answer ---- */

typedef struct zl_mark {
    int32_t step; /* -1: before the first */
    char at[24];  /* "before_init" "init" "before_forward" "after_forward" ... "_0" */
    uint64_t requested, peak_requested; /* peaks: since the previous mark */
    uint64_t allocated, peak_allocated;
    uint64_t active, peak_active;
    uint64_t reserved, peak_reserved;
    uint64_t device_used;        /* whole GPU: context, NCCL and modules included */
    uint64_t host_rss, host_hwm; /* offload only, else 0 */
} zl_mark;

enum { ZL_MARKS_MAX = 2048 };
typedef struct zl_marks {
    zl_mark *mark; /* owned; zl_marks_clear() */
    size_t count;
    uint64_t parameters, trainable; /* elements, tied ones once */
    uint64_t shards;     /* elements of what trains, every tensor cut in `ranks` and rounded up */
    uint64_t row_shards; /* the same, cut along the first dimension */
    uint64_t matrices;   /* elements of what trains and is no vector */
    uint32_t walked;     /* steps; those after them repeat the last of these */
    char optimizer_class[48]; /* DeepSpeed: what wraps the optimizer */
} zl_marks;

/* The ranks that may be the heaviest: the index-th of them, false past the end. Mostly rank 0
 * alone; where optimizer states are dealt out unevenly, every rank, of many the first ones and the
 * last. */
ZL_API bool zl_torch_rank_at(const zl_torch_run *run, uint64_t index, uint64_t *rank);

/* One rank's walk. ZL_E_UNMODELLED names what is outside; ZL_E_USAGE an impossible setup. */
ZL_API ZL_NODISCARD zl_status zl_torch_predict(const zl_torch_run *run, uint64_t rank,
                                               zl_marks *out, zl_err *err);
ZL_API void zl_marks_clear(zl_marks *marks);

/* Which figures of a mark the activations move: of a run with states_only those are unknown. */
typedef struct zl_depends {
    bool requested, peak_requested;
    bool others; /* allocated, active, reserved, their peaks, device_used: which blocks are there */
} zl_depends;
ZL_API zl_depends zl_mark_depends(const zl_mark *mark);

/* ---- what the bytes are ---- */

enum { ZL_TERMS_MAX = 64 };

/* Requested bytes by what they are. */
typedef struct zl_named_bytes {
    const char *name; /* "fp32 masters"; static storage */
    uint64_t bytes;
} zl_named_bytes;

typedef struct zl_alive {
    zl_named_bytes term[ZL_TERMS_MAX]; /* the largest first */
    size_t count;
} zl_alive;

/* A mark and what was alive: the terms add up to its requested bytes exactly. */
typedef struct zl_moment {
    zl_mark mark;
    zl_alive peak; /* at the first instant of the largest amount since the mark before */
    zl_alive here; /* at the mark */
} zl_moment;

typedef struct zl_moments {
    zl_moment *moment; /* owned; zl_moments_clear() */
    size_t count;
    uint64_t parameters, trainable, shards, row_shards, matrices;
    char optimizer_class[48];
} zl_moments;

/* As zl_torch_predict, with the names of what is alive. */
ZL_API ZL_NODISCARD zl_status zl_torch_explain(const zl_torch_run *run, uint64_t rank,
                                               zl_moments *out, zl_err *err);
ZL_API void zl_moments_clear(zl_moments *moments);

#ifdef __cplusplus
}
#endif
#endif
