/* torch.nn: building a tree of modules, and calling its leaves.
 *
 *     static void build(zt_process *p, mlp *m, zt_module *parent)
 *     {
 *         m->self = zt_module_new(p, parent, "mlp");
 *         m->up = zt_linear_new(p, m->self, "up_proj", hidden, ffn, false);
 *         ...
 *     zt_tensor y = zt_call_linear(p, &m->up, x);
 *
 * Modules are registered in the order of the calls, as the constructors of the models do it.
 * Adapters (peft) are built around the modules that the run names. Parameters get their dtype from
 * the precision of the run; whether they train, their orders and their gradient nodes are settled
 * by zt_model_finish.
 */
#ifndef ZT_MODULES_H
#define ZT_MODULES_H

#include "torch/ops.h"

/* ---- building ---- */

/* parent NULL: the root. */
zt_module *zt_module_new(zt_process *p, zt_module *parent, const char *name);
/* nn.ModuleList, nn.ModuleDict: never called itself. */
zt_module *zt_module_list_new(zt_process *p, zt_module *parent, const char *name);
zt_module *zt_layer_new(zt_process *p, zt_module *parent, uint64_t index);
/* A vector of `rows` elements has columns 0. */
zt_param *zt_param_new(zt_process *p, zt_module *m, const char *name, uint64_t rows,
                       uint64_t columns);
/* The module gets that parameter in place of the one that its constructor made. */
void zt_param_tie(zt_process *p, zt_module *m, zt_param *param);
void zt_int64_buffer_new(zt_process *p, zt_module *m, uint64_t elements);
void zt_float_buffer_new(zt_process *p, zt_module *m, uint64_t elements);
/* Freezing, orders, gradient nodes. Call once, after the root is complete. */
void zt_model_finish(zt_process *p);

/* ---- leaves ---- */

typedef struct zt_dense {
    zt_module *module;
    zt_param *weight;
    zt_param *bias;             /* NULL: none */
    bool conv1d;                /* weight is (in, out) */
    struct zt_adapter *adapter; /* NULL: none */
} zt_dense;

/* peft's lora.Linear around a layer. */
typedef struct zt_adapter {
    zt_module *self, *dropout;
    zt_dense a; /* (rank, in) */
    zt_dense b; /* (out, rank) */
} zt_adapter;

typedef struct zt_norm {
    zt_module *module;
    zt_param *weight;
    zt_param *bias; /* NULL: RMSNorm */
} zt_norm;

typedef struct zt_table {
    zt_module *module;
    zt_param *weight;
} zt_table;

zt_dense zt_linear_new(zt_process *p, zt_module *parent, const char *name, uint64_t in,
                       uint64_t out, bool bias);
zt_dense zt_conv1d_new(zt_process *p, zt_module *parent, const char *name, uint64_t in,
                       uint64_t out);
/* nn.Linear whose weight is `weight`. */
zt_dense zt_tied_linear_new(zt_process *p, zt_module *parent, const char *name, zt_param *weight,
                            bool bias);
zt_norm zt_layer_norm_new(zt_process *p, zt_module *parent, const char *name, uint64_t width);
zt_norm zt_rms_norm_new(zt_process *p, zt_module *parent, const char *name, uint64_t width);
zt_table zt_embedding_new(zt_process *p, zt_module *parent, const char *name, uint64_t rows,
                          uint64_t width);

/* module.__call__ of any module: what the framework does at its door. `input`, `output` may change
 * their nodes. Where recomputation has stopped, the call has no result. */
void zt_enter(zt_process *p, zt_module *m, zt_tensor *input, size_t count);
void zt_leave(zt_process *p, zt_module *m, zt_tensor *output, size_t count);

zt_tensor zt_call_dense(zt_process *p, const zt_dense *d, zt_tensor x);
zt_tensor zt_call_layer_norm(zt_process *p, const zt_norm *n, zt_tensor x);
/* The RMSNorm of transformers' models, written out in elementwise operations. */
zt_tensor zt_call_rms_norm(zt_process *p, const zt_norm *n, zt_tensor x);
zt_tensor zt_call_embedding(zt_process *p, const zt_table *t, zt_storage ids, uint64_t count,
                            bool ids_expanded);
/* A floating-point buffer of the module; one more reference. */
zt_tensor zt_buffer(zt_process *p, const zt_module *m, uint32_t index);
/* The token embedding of the model. */
zt_tensor zt_call_input_embedding(zt_process *p, const zt_table *t, zt_storage ids);
zt_tensor zt_call_dropout(zt_process *p, zt_module *m, zt_tensor x, double probability);
/* The activation module of the model. */
zt_tensor zt_call_activation(zt_process *p, zt_module *m, zt_tensor x);
zt_tensor zt_call_tanh(zt_process *p, zt_module *m, zt_tensor x);

/* ---- architectures ---- */

typedef struct zt_architecture {
    /* Builds the tree under p->root and returns what forward needs. */
    void *(*build)(zt_process *p);
    /* The root's forward, between its entry and exit. */
    zt_output (*forward)(zt_process *p, void *model, const zt_batch *batch);
    bool from_tensors; /* build() reads p->tensors */
} zt_architecture;

extern const zt_architecture zt_bert, zt_bing, zt_gpt2, zt_llama, zt_distilbert, zt_shapes;
const zt_architecture *zt_architecture_of(const zl_hf_config *model);

/* ---- what causal models share ---- */

/* arange(seq) + 0, int64. */
zt_storage zt_position_ids(zt_process *p);
/* The mask that attention adds, (batch, 1, seq, seq); without storage where the kernel is causal by
 * itself. element_bytes: of the hidden states. */
zt_tensor zt_causal_mask(zt_process *p, uint32_t element_bytes);
/* ForCausalLMLoss. */
zt_tensor zt_causal_loss(zt_process *p, zt_tensor logits);
/* What it was before transformers 4.46; *logits become those in fp32. */
zt_tensor zt_shifted_causal_loss(zt_process *p, zt_tensor *logits);

/* Memory for a forward's own bookkeeping, until its backward has run. */
void *zt_tape_arena(zt_process *p, size_t count, size_t size);

/* Tokens of a micro-batch on this rank. */
uint64_t zt_tokens(const zt_process *p);
/* A layer, recomputed in backward if the run says so. */
zt_tensor zt_call_layer(zt_process *p, zt_layer_function *layer, void *context, zt_tensor x,
                        const zt_storage *extra, uint32_t extras);

#endif
