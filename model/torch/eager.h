/* Eager PyTorch without numbers: one process of a training run as its memory sees it.
 *
 * A zt_process owns the caching allocator, the model as a tree of modules and parameters,
 * reference-counted storages, the autograd tape and the marks. Model code (hf_*.c) calls operations
 * (ops.h) that allocate, save and push nodes exactly as the eager kernels and their autograd
 * formulas do; backward runs the nodes as PyTorch's engine does. A framework (single GPU, DDP,
 * FSDP, DeepSpeed, ...) is a table of hooks, zt_framework, that sits where the real one sits: it
 * brings parameters to the device, stands at the entry and exit of modules, hooks gradients, and
 * owns the frame of a training step.
 *
 *     static void ready(zt_process *p, zt_param *param)   // the hook of a sharded optimizer:
 *     {
 *         copy_into_bucket(p, param);                     // bytes only
 *         zt_clear_grad(p, param);                        // the last reference: the block is freed
 *     }
 *     const zt_framework zt_mine = {.init = zt_init_on_device, .gradient = ready, ...};
 *
 * Nothing here fails call by call: the first failure (zt_fail) ends the walk and is what
 * zl_torch_predict returns. So keep what must be freed in p->user, for finish().
 *
 * Words: a *storage* is memory that tensors share (c10::StorageImpl); it dies with its last
 * reference. A *tensor* is a value of this program that carries one reference to its storage and,
 * if it needs a gradient, the node that made it. Bytes and element counts are uint64_t.
 */
#ifndef ZT_EAGER_H
#define ZT_EAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "torch/caching_allocator.h"
#include "torch/tensor_list.h"
#include "zeroledger/torch.h"

typedef struct zt_process zt_process;
typedef struct zt_module zt_module;
typedef struct zt_param zt_param;
typedef struct zt_framework zt_framework;

/* ---- streams and threads ---- */

/* 0 is the default stream; a framework numbers its own from 1. New storages belong to the current
 * stream, and a node runs backward on the stream that was current when it was made. */
enum { ZT_DEFAULT_STREAM = 0 };
typedef enum zt_thread { ZT_MAIN_THREAD, ZT_AUTOGRAD_THREAD, ZT_THREAD_COUNT } zt_thread;

uint32_t zt_stream(const zt_process *p);
/* Returns the stream that was current. */
uint32_t zt_set_stream(zt_process *p, uint32_t stream);

/* ---- storages ---- */

typedef uint32_t zt_storage;
enum { ZT_NO_STORAGE = 0 }; /* all calls accept it and do nothing */

/* A new storage on the current stream, one reference. 0 bytes: a storage without a block. */
zt_storage zt_new(zt_process *p, uint64_t bytes);
zt_storage zt_new_on(zt_process *p, uint64_t bytes, uint32_t stream);
/* One more reference; returns its argument. */
zt_storage zt_hold(zt_process *p, zt_storage s);
/* One reference less; with the last one the block is freed. Sets *s to ZT_NO_STORAGE. */
void zt_drop(zt_process *p, zt_storage *s);
/* What its memory is for, to those who explain a peak; the text lives for ever. */
void zt_name(zt_process *p, zt_storage s, const char *name);
/* The same of new storages that get no name of their own; returns what it was. */
const char *zt_set_name(zt_process *p, const char *name);
/* New storages take no memory while this is on, but for the gradients of parameters: the
 * activations of a run are given, not modelled. Off in everything that a framework does: its hooks,
 * custom functions and callbacks. Returns what it was. */
bool zt_weightless(zt_process *p, bool on);
/* A temporary: allocated and freed at once. */
void zt_touch(zt_process *p, uint64_t bytes);
/* storage.resize_: frees the block, or gets a new one on the current stream, while all references
 * stay. FSDP frees unsharded parameters so, whoever holds views of them. */
void zt_resize(zt_process *p, zt_storage s, uint64_t bytes);
/* tensor.record_stream: a later free waits for that stream ("late free"). */
void zt_record_use(zt_process *p, zt_storage s, uint32_t stream);
/* Its recorded uses outlast what comes next: zt_outlast of the allocator. */
void zt_outlast_use(zt_process *p, zt_storage s, uint32_t allocations, uint32_t segments);
/* torch.cuda.synchronize, torch.cuda.empty_cache. */
void zt_synchronize_device(zt_process *p);
void zt_release_cached(zt_process *p);
uint64_t zt_storage_bytes(const zt_process *p, zt_storage s); /* current size */
uint32_t zt_storage_references(const zt_process *p, zt_storage s);

/* ---- tensors ---- */

typedef struct zt_tensor {
    zt_storage storage; /* one reference */
    uint32_t node;      /* the autograd node that takes its gradient; 0: needs none */
    uint32_t slot;      /* which output of that node */
    uint64_t elements;
    uint32_t element_bytes;
    bool view;      /* holds its base too (.view, .t): autograd does not add in place to it */
    bool matrix;    /* two-dimensional */
    zt_param *leaf; /* it is this parameter itself (not a view, not a cast), else NULL */
} zt_tensor;

/* The same tensor under a second name. */
zt_tensor zt_share(zt_process *p, zt_tensor t);
/* The tensor without its node (.detach()); one more reference. */
zt_tensor zt_detach(zt_process *p, zt_tensor t);
/* The name dies. */
void zt_release(zt_process *p, zt_tensor *t);
/* *t = value, as Python does it: the value exists before the old tensor dies. Where recomputation
 * has stopped the name keeps what it had. */
void zt_assign(zt_process *p, zt_tensor *t, zt_tensor value);
uint64_t zt_bytes(zt_tensor t); /* elements * element_bytes */

/* ---- parameters ---- */

struct zt_param {
    const char *name;  /* last part: "weight" */
    zt_module *module; /* the first module that owns it; a tied one has others */
    uint64_t rows;     /* dimension 0 */
    uint64_t columns;  /* product of the other dimensions, 1 for a vector */
    uint32_t dimensions;
    uint32_t element_bytes; /* of the parameter as the optimizer sees it before any framework */
    bool trains;            /* requires_grad */
    uint32_t index;         /* in p->named; tied ones once */
    /* What the operations use now: storage, element size, node. The node is the parameter's own
     * accumulator; a framework whose parameters are views of something (FSDP1) puts the node of
     * that operation here, and then there is no .grad and no gradient hook. */
    zt_tensor value;
    zt_tensor grad;       /* .grad; storage 0: None */
    uint32_t accumulator; /* node of AccumulateGrad; 0 if it does not train */
    uint32_t cast_index;  /* in autocast's cache */
    bool listed;          /* while orders are made */
    bool thrown_away;     /* made by a constructor, then replaced by tying */
    void *user;           /* the framework's */
};

uint64_t zt_param_elements(const zt_param *param);
/* .grad = None */
void zt_clear_grad(zt_process *p, zt_param *param);

/* ---- modules ---- */

enum { ZT_OWN_PARAMS_MAX = 4, ZT_OWN_BUFFERS_MAX = 3, ZT_MODULE_NAME = 32 };

struct zt_module {
    char name[ZT_MODULE_NAME];            /* last part, "12" in a list */
    zt_module *parent;                    /* NULL: the root */
    zt_module *child, *last_child, *next; /* in order of registration */
    zt_param *param[ZT_OWN_PARAMS_MAX];   /* own ones, tied ones in every owner */
    uint32_t params;
    struct {
        uint64_t bytes;
        bool floating; /* follows .to(dtype) */
        zt_storage storage;
    } buffer[ZT_OWN_BUFFERS_MAX];
    uint32_t buffers;
    uint32_t index; /* in p->modules */
    bool called;    /* has a forward of its own; false: ModuleList, ModuleDict */
    bool layer;     /* a transformer layer: what people wrap and recompute */
    bool linear;    /* nn.Linear */
    void *user;     /* the framework's */
};

/* ---- gradient hooks and custom functions ---- */

/* The gradient of a tensor is complete, its node runs next. The hook may replace *gradient: release
 * the old one, put the new one. */
typedef void zt_gradient_hook(zt_process *p, void *context, zt_tensor *gradient);

/* tensor.register_hook: as above, at the node that made t. No effect without a node. Several hooks
 * of one tensor run in the order of registration. */
void zt_hook_gradient(zt_process *p, zt_tensor t, zt_gradient_hook *hook, void *context);

/* A torch.autograd.Function that passes tensors through (forward: the same storages, backward: the
 * same gradients). Replaces each tensor of the array that needs a gradient by an output of one new
 * node. When all of the gradients that will come have come and the node runs, `hook` is called once
 * with the first of them. `separately`: one node and one call of the hook per tensor. */
void zt_identity(zt_process *p, zt_tensor *tensor, size_t count, bool separately,
                 zt_gradient_hook *hook, void *context);

/* A custom function with its own memory behaviour: outputs `made` (their nodes are filled in), one
 * input. backward() gets the gradient of every output (storage 0: none came; the engine drops them
 * after the call) and returns that of the input in *result, on the node's stream. */
typedef void zt_custom_backward(zt_process *p, void *context, zt_tensor *gradient, size_t count,
                                zt_tensor *result);
void zt_custom(zt_process *p, zt_tensor input, zt_tensor **made, size_t count,
               zt_custom_backward *backward, void *context);
/* A leaf for such an input: `gradient` is called when its accumulated gradient is complete, and
 * owns it (AccumulateGrad of a flat parameter). Lives until the process ends. */
zt_tensor zt_leaf(zt_process *p, uint64_t elements, uint32_t element_bytes,
                  zt_gradient_hook *gradient, void *context);

/* Engine::queue_callback: called once at the end of the running backward, after the last node and
 * before the graph's remains and the caller's references go. */
void zt_queue_callback(zt_process *p, void (*callback)(zt_process *, void *), void *context);

/* Runs backward from a scalar: allocates the root gradient (ones_like), runs every node in the
 * autograd thread, the callbacks, drops what is left of the graph. The tensor stays the caller's.*/
void zt_backward(zt_process *p, zt_tensor root);

/* What still lives of the last graph after its backward goes with the last name of its output;
 * zt_output_drop does it. */
void zt_graph_drop(zt_process *p);

bool zt_in_backward(const zt_process *p);
/* A checkpointed layer is being run again (module hooks are called as in the first forward; those
 * after the last saved tensor are not, PyTorch stops there). */
bool zt_recomputing(const zt_process *p);

/* ---- what a model's forward returns ---- */

/* Tensors that the model's output object carries; the caller's references. */
typedef struct zt_output {
    zt_tensor loss;
    zt_tensor logits;
    zt_tensor second_logits; /* next sentence (BertForPreTraining) */
} zt_output;

/* One batch on the device: int64 ids (micro_batch, seq), and labels of BertForPreTraining. */
typedef struct zt_batch {
    zt_storage ids;
    zt_storage next_sentence; /* int64 (micro_batch) */
} zt_batch;

/* ids.to(device) etc., `count` of them. The labels are one tensor for all micro-steps. */
void zt_batches_new(zt_process *p, zt_batch *batch, size_t count);
void zt_batches_drop(zt_process *p, zt_batch *batch, size_t count);

/* model(input_ids=ids, labels=ids): hooks of all modules, the root's too, inside. */
zt_output zt_forward(zt_process *p, const zt_batch *batch);
/* The caller's names for the output go; after backward the last of the graph goes with them. */
void zt_output_drop(zt_process *p, zt_output *output);
/* x * constant or x / constant on a scalar or tensor: a new tensor, an autograd node that saves
 * nothing and makes one new gradient. */
zt_tensor zt_scale(zt_process *p, zt_tensor x);

/* ---- the framework ---- */

/* NCCL's communicators of this process so far; none with simulated ranks. */
typedef struct zt_nccl {
    uint32_t communicators;
    uint32_t used;  /* of them, that ran a collective */
    bool broadcast; /* and one was a broadcast */
    bool kernels;   /* the framework itself ran kernels at its initialization */
} zt_nccl;

struct zt_framework {
    /* While the model is built; the mark "before_init" follows. NULL: neither. */
    void (*build)(zt_process *p);
    /* Nothing is on the device yet; p->named, p->modules describe the model. Brings parameters and
     * buffers there and builds the framework's and the optimizer's state. The mark "init" follows.
     */
    void (*init)(zt_process *p);
    /* module.__call__, before forward: input[] are the positional tensor arguments (hidden states;
     * token ids have no node), and may be replaced. NULL: nothing. Called for every module with
     * `called`, in call order, also while recomputing, inside the checkpoint. */
    void (*enter)(zt_process *p, zt_module *m, zt_tensor *input, size_t count);
    /* After forward: output[] are all tensors of the result; may be replaced. */
    void (*leave)(zt_process *p, zt_module *m, zt_tensor *output, size_t count);
    /* After AccumulateGrad of a parameter that has its own accumulator: param->grad is the
     * gradient, summed over earlier micro-steps. A tied parameter fires once, after the sum. */
    void (*gradient)(zt_process *p, zt_param *param);
    /* One optimizer step of the training loop with its marks. NULL: zt_train_step. */
    void (*train_step)(zt_process *p, int32_t step);
    /* Parts of zt_train_step; NULL: forward begins with nothing, plain loss.backward(),
     * zt_optimizer_step(p->optimizer), every .grad = None in order of p->named. */
    void (*before_forward)(zt_process *p, uint64_t micro_step);
    void (*backward)(zt_process *p, zt_tensor loss, uint64_t micro_step);
    void (*step)(zt_process *p);
    void (*zero_grad)(zt_process *p);
    /* What there is outside the allocator besides the libraries, at a mark. NULL: nothing. */
    zt_nccl (*nccl)(const zt_process *p);
    /* Fills host_rss and host_hwm of a mark. NULL: they stay 0. */
    void (*host)(const zt_process *p, zl_mark *mark);
    /* Frees p->user and what else it allocated on the heap; storages need no freeing. */
    void (*finish)(zt_process *p);
    bool linear_for_zero3; /* F.linear is DeepSpeed's memory-efficient one; may be set at init:
                              p->linear_for_zero3 is what operations read */
    uint32_t unsettled;    /* steps after the first that are not as those after them */
};

/* The training loop of the records (torch): batches, before_forward, micro-steps with
 * out.loss / accumulation, after_forward, backward, after_backward, step, after_step, zero_grad,
 * after_zero_grad. The caller's loss value of the step before lives until it is replaced. */
void zt_train_step(zt_process *p, int32_t step);
/* model.to(device): children before a module's own parameters, buffers after them. */
void zt_init_on_device(zt_process *p);
/* One parameter, one buffer of a module: nothing if it is there already. */
void zt_param_on_device(zt_process *p, zt_param *param);
void zt_buffers_on_device(zt_process *p, zt_module *m);

/* ---- optimizers (optimizers.c) ---- */

typedef struct zt_optimizer zt_optimizer;
/* Lives as long as the process. kind: not ZL_TORCH_FROM_CONFIG. Betas, weight decay: AdamW. */
zt_optimizer *zt_optimizer_new(zt_process *p, zl_torch_optimizer kind);
/* One tensor it updates, in order; elements as this rank holds them. */
void zt_optimizer_add(zt_process *p, zt_optimizer *o, uint64_t elements, uint32_t element_bytes);
/* States at the first call, tensor by tensor; temporaries. Streams: the current one. */
void zt_optimizer_step(zt_process *p, zt_optimizer *o);

/* ---- reductions ---- */

/* Scratch of a full reduction over `elements` with w bytes each in the accumulator (facts of
 * Reduce.cuh: global memory and semaphores), allocated and freed: S(k, w). */
void zt_touch_full_reduction(zt_process *p, uint64_t elements, uint32_t w);
/* The same of a column sum over (rows, cols): R and its semaphores. */
void zt_touch_column_reduction(zt_process *p, uint64_t rows, uint64_t columns);

/* ---- the process ---- */

struct zt_process {
    const zl_torch_run *run;
    uint64_t rank;
    zt_allocator *allocator;
    const zt_framework *framework;
    void *user; /* the framework's */
    bool linear_for_zero3;

    zl_tensor_list tensors; /* of a model that is known by them only */
    zt_module *root;
    zt_module **modules; /* named_modules(): a module before its children */
    uint32_t module_count;
    zt_module **layers; /* the transformer layers, in order */
    uint32_t layer_count;
    zt_param **named; /* named_parameters(): a module's own before its children's, tied ones once */
    uint32_t param_count;
    zt_param **on_device; /* the same in the order of .to(device): children first */
    zt_param **created;   /* in the order of the constructors, with those (`thrown_away`) that tying
                             replaces by another: no named parameter, no module owns them */
    uint32_t created_count;
    uint64_t elements, trainable;

    zt_storage *given;       /* (layers + 1), parts of the activations that are given */
    zt_optimizer *optimizer; /* of zt_train_step; a framework may keep its own elsewhere */
    zt_tensor loss_value;    /* loss.detach() that the training loop keeps */
    const struct zt_architecture *architecture; /* modules.h */
    void *model;                                /* what it built */
    struct zt_engine *engine;                   /* storages, tape */
    zl_marks *marks;
};

/* Notes the statistics under a name and resets the peaks. */
void zt_mark(zt_process *p, int32_t step, const char *at);
/* torch.cuda.reset_peak_memory_stats by somebody else than a mark (DeepSpeed). */
void zt_reset_peak(zt_process *p);

/* Memory that lives as long as the process, zeroed, never NULL. For the framework's own arrays. */
void *zt_arena(zt_process *p, size_t count, size_t size);
/* Ends the walk with this status; message as in zl_err. Does not return. */
_Noreturn void zt_fail(zt_process *p, zl_status status, const char *message);

/* The tables of all frameworks; NULL and ZL_E_UNMODELLED if this one is not modelled. */
extern const zt_framework zt_single, zt_ddp, zt_zero1, zt_fsdp1, zt_fsdp2, zt_deepspeed;

#endif
