/* The autograd tape: what operations need to push nodes, and checkpoint frames.
 *
 * An operation with a gradient-requiring input opens a node, names its inputs, saves what its
 * derivative formula reads, and allocates. Inputs are saved before the kernel runs, outputs after:
 * recomputation stops at the last saved tensor, wherever that is.
 *
 *     zt_node *node = zt_node_open(p, tanh_backward, 1, &x, 1);
 *     zt_tensor y = zt_tensor_new(p, x.elements, x.element_bytes);
 *     zt_save(p, node, y);
 *     zt_node_output(p, node, &y, 0);
 *
 * Order of one node's backward, as in torch/csrc/autograd/engine.cpp: hooks of its outputs; the
 * formula allocates its results; results that forward had broadcast are summed to the shape of the
 * input; the incoming gradients go; the saved tensors go; the results reach the next nodes, where a
 * second gradient is added to the first. Inside a checkpoint the formula's own references are the
 * last ones, so saved tensors go before the sums, in reverse order. Nodes run from the youngest to
 * the oldest, those that accumulate into parameters before any other.
 */
#ifndef ZT_AUTOGRAD_H
#define ZT_AUTOGRAD_H

#include "torch/eager.h"

enum {
    ZT_NODE_INPUTS_MAX = 3,
    ZT_NODE_SAVED_MAX = 8,
    ZT_NODE_SIZES = 5,
};
/* Node of a tensor made while recomputing: that graph is thrown away, but the operations must see
 * that the tensor needs a gradient. */
#define ZT_GHOST UINT32_MAX

typedef struct zt_node zt_node;

/* zt_set_name of the loss; its gradients are called so too. */
extern const char zt_name_loss[];

/* The gradient of an input as the formula makes it, and what the input is: if forward broadcast it,
 * the engine sums over the rows of a matrix of (rows, columns), or over the columns of each row; if
 * it has another element size, the engine casts. */
typedef enum zt_sum { ZT_SUM_NONE, ZT_SUM_ROWS, ZT_SUM_COLUMNS } zt_sum;
typedef struct zt_result {
    zt_tensor gradient;
    zt_sum sum;
    uint64_t rows, columns;
    uint32_t element_bytes; /* 0: the gradient's */
} zt_result;

/* in[]: gradients of the outputs, storage 0 where none came; the engine releases them. out[]: to
 * fill for the inputs, in their order, where zt_wants() says so. */
typedef void zt_backward_function(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out);

typedef struct zt_saved {
    struct zt_frame *frame; /* NULL: none */
    uint32_t index;         /* in the frame */
    zt_storage storage;     /* held; 0: a parameter itself, nothing to hold, or kept by a frame */
} zt_saved;

struct zt_node {
    zt_backward_function *backward;
    struct {
        uint32_t node; /* 0: needs no gradient */
        uint32_t slot;
    } input[ZT_NODE_INPUTS_MAX];
    uint32_t inputs;
    uint32_t slots; /* outputs */
    uint32_t dependencies;
    uint32_t id;
    zt_tensor *pending; /* gradients that came so far, one per output */
    uint32_t stream;
    bool reached;
    struct zt_hook *hooks;
    const char *what; /* name of what it allocates */
    uint32_t saves;
    zt_saved saved[ZT_NODE_SAVED_MAX];
    uint64_t size[ZT_NODE_SIZES]; /* the operation's own figures */
    void (*callback)(void);       /* the operation's own function, cast back by its backward */
    void *context;
    zt_param *param; /* AccumulateGrad */
};

/* NULL if no input needs a gradient, or the process has stopped. */
zt_node *zt_node_open(zt_process *p, zt_backward_function *backward, uint32_t outputs,
                      const zt_tensor *input, uint32_t inputs);
/* The operation ends: the tensor becomes output `slot` of the node, if there is one. Where the
 * recomputation has just stopped it dies instead, as an exception leaves the operation. */
void zt_node_output(zt_process *p, const zt_node *node, zt_tensor *t, uint32_t slot);
/* Saves it for backward; nothing for a NULL node. A parameter itself is not held: its storage may
 * change meanwhile. */
void zt_save(zt_process *p, zt_node *node, zt_tensor t);
void zt_save_storage(zt_process *p, zt_node *node, zt_storage s);
/* Whether input i of the node needs a gradient. */
bool zt_wants(const zt_node *node, uint32_t i);
bool zt_needs_gradient(zt_tensor t);

/* The parameter trains: gets its AccumulateGrad node. Before any graph is alive. */
void zt_param_requires_grad(zt_process *p, zt_param *param);

/* tensor.requires_grad_(): a tensor without a node becomes a leaf of this graph; it and its
 * gradient live as long as the graph. */
void zt_require_gradient(zt_process *p, zt_tensor *t);
/* Backward has not run yet. */
bool zt_graph_is_alive(const zt_process *p);

/* A tensor without a node on the current stream. */
zt_tensor zt_tensor_new(zt_process *p, uint64_t elements, uint32_t element_bytes);

/* The recomputation has saved all it has to: what follows does not happen. Allocations give
 * nothing by themselves; only operations with other effects have to ask. */
bool zt_stopped(const zt_process *p);

/* ---- checkpoint ---- */

/* torch.utils.checkpoint, non-reentrant: runs layer(context, x) and keeps x and the extra storages
 * instead of what the layer saves; runs it again when backward first needs a saved tensor. context
 * must live until then. */
typedef zt_tensor zt_layer_function(zt_process *p, void *context, zt_tensor x);
enum { ZT_CHECKPOINT_EXTRAS_MAX = 4 };
zt_tensor zt_checkpoint(zt_process *p, zt_layer_function *layer, void *context, zt_tensor x,
                        const zt_storage *extra, uint32_t extras);

/* ---- activations that are given instead of modelled (given.c) ---- */

/* What the operations of the model make takes no memory: it is given, or left out of an answer that
 * speaks of states only. */
bool zt_activations_given(const zt_process *p);
/* At the door of a module, and after its forward: equal parts of what is given, one per layer, from
 * the end of its forward to the end of its backward, and one for what comes after the layers. */
void zt_given_enter(zt_process *p, zt_module *m, const zt_tensor *input, size_t count);
void zt_given_leave(zt_process *p, const zt_module *m);
/* cuBLAS' workspaces are no part of PyTorch's memory where activations are given. */
bool zt_given_workspaces(const zt_process *p);
/* Backward has run: nothing is left of them. */
void zt_given_end(zt_process *p);

/* ---- autocast ---- */

/* The autocast region begins, if the run has one; ends: the cache of cast parameters goes. */
void zt_autocast_begin(zt_process *p);
void zt_autocast_end(zt_process *p);
bool zt_autocast(const zt_process *p);
/* The cast of a leaf that is in the cache, or none; a shared reference. */
zt_tensor zt_autocast_find(zt_process *p, const zt_param *leaf);
void zt_autocast_keep(zt_process *p, zt_param *leaf, zt_tensor cast);

#endif
