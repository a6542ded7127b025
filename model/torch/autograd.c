#include "torch/autograd.h"

#include <string.h>

#include "torch/engine.h"
#include "zeroledger/bytes.h"

/* ---- nodes ---- */

zt_node *zt_node_at(const zt_process *p, uint32_t id)
{
    return p->engine->node[id];
}

static zt_node *node_new(zt_process *p, zt_bump *bump, zt_backward_function *backward,
                         uint32_t outputs)
{
    struct zt_engine *e = p->engine;
    const uint64_t pending = zl_mul(outputs, sizeof(zt_tensor));
    zt_node *node = zt_bump_take(p, bump, 1, zl_add(sizeof *node, pending));
    node->pending = (zt_tensor *)(node + 1);
    e->node = zt_grow(p, e->node, e->nodes, &e->node_capacity, sizeof(zt_node *));
    e->node[e->nodes] = node;
    node->id = e->nodes++;
    node->backward = backward;
    node->slots = outputs;
    node->stream = e->stream;
    node->what = e->what;
    return node;
}

bool zt_needs_gradient(zt_tensor t)
{
    return t.node != 0;
}

bool zt_wants(const zt_node *node, uint32_t i)
{
    return node->input[i].node != 0;
}

zt_node *zt_node_open(zt_process *p, zt_backward_function *backward, uint32_t outputs,
                      const zt_tensor *input, uint32_t inputs)
{
    struct zt_engine *e = p->engine;
    bool needed = false;
    for (uint32_t i = 0; i < inputs; i++) {
        needed = needed || zt_needs_gradient(input[i]);
    }
    if (!needed || e->stopped) {
        return NULL;
    }
    if (e->recomputing) {
        e->ghost = (zt_node){.id = ZT_GHOST};
        return &e->ghost;
    }
    zt_node *node = node_new(p, &e->tape, backward, outputs);
    node->inputs = inputs;
    for (uint32_t i = 0; i < inputs; i++) {
        node->input[i].node = input[i].node;
        node->input[i].slot = input[i].slot;
    }
    return node;
}

void zt_node_output(zt_process *p, const zt_node *node, zt_tensor *t, uint32_t slot)
{
    if (p->engine->stopped) {
        zt_release(p, t);
    } else if (node != NULL) {
        t->node = node->id;
        t->slot = slot;
    }
}

/* ---- saved tensors ---- */

static void save(zt_process *p, zt_node *node, zt_storage s, bool leaf)
{
    struct zt_engine *e = p->engine;
    zt_frame *frame = e->frame;
    if (node == NULL || e->stopped) {
        return;
    }
    if (e->recomputing) {
        frame->saved[frame->filled++] = zt_hold(p, s);
        e->stopped = frame->filled == frame->saves;
        return;
    }
    zt_saved *saved = &node->saved[node->saves++];
    if (frame != NULL) {
        *saved = (zt_saved){.frame = frame, .index = frame->saves++};
        frame->alive++;
    } else if (!leaf) {
        *saved = (zt_saved){.storage = zt_hold(p, s)};
    }
}

void zt_save(zt_process *p, zt_node *node, zt_tensor t)
{
    save(p, node, t.storage, t.leaf != NULL);
}

void zt_save_storage(zt_process *p, zt_node *node, zt_storage s)
{
    save(p, node, s, false);
}

void zt_drop_saved(zt_process *p, zt_node *node)
{
    for (uint32_t i = 0; i < node->saves; i++) {
        zt_saved *saved = &node->saved[i];
        zt_drop(p, &saved->storage);
        if (saved->frame != NULL) {
            zt_frame_release(p, saved->frame);
            saved->frame = NULL;
        }
    }
    node->saves = 0;
}

const char zt_name_loss[] = "logits and loss";
static const char zt_name_backward[] = "gradients of activations, temporaries of backward";

/* ---- accumulating gradients ---- */

/* AccumulateGrad: the first gradient is taken as it is, later ones are added in place. */
static void accumulate(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    (void)out;
    zt_param *param = node->param;
    if (in[0].storage == ZT_NO_STORAGE) {
        return;
    }
    if (param->grad.storage == ZT_NO_STORAGE) {
        param->grad = in[0];
        zt_name(p, param->grad.storage, "gradients");
        param->grad.node = 0;
        in[0] = (zt_tensor){0};
    } else {
        zt_release(p, &in[0]);
    }
    if (p->framework->gradient != NULL) {
        const bool was = zt_weightless(p, false);
        p->framework->gradient(p, param);
        zt_weightless(p, was);
    }
}

static uint32_t leaf_node(zt_process *p, zt_backward_function *backward)
{
    struct zt_engine *e = p->engine;
    if (e->nodes != e->leaves) {
        zt_fail(p, ZL_E_BUG, "a leaf was made while a graph is alive");
    }
    const zt_node *node = node_new(p, &e->forever, backward, 1);
    e->leaves = e->nodes;
    return node->id;
}

void zt_param_requires_grad(zt_process *p, zt_param *param)
{
    param->trains = true;
    param->accumulator = leaf_node(p, accumulate);
    zt_node_at(p, param->accumulator)->param = param;
    param->value.node = param->accumulator;
}

/* A leaf that only its graph knows. */
static void keep_in_graph(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    (void)node;
    (void)out;
    p->engine->graph_leaf_grad = in[0];
    in[0] = (zt_tensor){0};
}

void zt_require_gradient(zt_process *p, zt_tensor *t)
{
    if (zt_needs_gradient(*t)) {
        return;
    }
    const zt_node *node = node_new(p, &p->engine->tape, keep_in_graph, 1);
    t->node = node->id;
    t->slot = 0;
    p->engine->graph_leaf = zt_detach(p, *t);
}

bool zt_graph_is_alive(const zt_process *p)
{
    return p->engine->nodes > p->engine->leaves;
}

void zt_graph_drop(zt_process *p)
{
    zt_release(p, &p->engine->graph_leaf_grad);
    zt_release(p, &p->engine->graph_leaf);
}

static void give_to_owner(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    (void)out;
    const bool was = zt_weightless(p, false);
    if (in[0].storage != ZT_NO_STORAGE) {
        ((zt_gradient_hook *)node->callback)(p, node->context, &in[0]);
        in[0] = (zt_tensor){0};
    }
    zt_weightless(p, was);
}

zt_tensor zt_leaf(zt_process *p, uint64_t elements, uint32_t element_bytes,
                  zt_gradient_hook *gradient, void *context)
{
    zt_node *node = zt_node_at(p, leaf_node(p, give_to_owner));
    node->callback = (void (*)(void))gradient;
    node->context = context;
    return (zt_tensor){.node = node->id, .elements = elements, .element_bytes = element_bytes};
}

/* ---- hooks and custom functions ---- */

void zt_hook_gradient(zt_process *p, zt_tensor t, zt_gradient_hook *hook, void *context)
{
    if (t.node == 0 || t.node == ZT_GHOST) {
        return;
    }
    zt_node *node = zt_node_at(p, t.node);
    zt_hook *h = zt_bump_take(p, &p->engine->tape, 1, sizeof *h);
    *h = (zt_hook){.hook = hook, .context = context, .slot = t.slot};
    zt_hook **last = &node->hooks;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = h;
}

static void pass_through(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    zt_tensor none = {0};
    zt_tensor *first = &none;
    for (uint32_t i = node->slots; i-- > 0;) {
        first = in[i].storage != ZT_NO_STORAGE ? &in[i] : first;
    }
    const bool was = zt_weightless(p, false);
    ((zt_gradient_hook *)node->callback)(p, node->context, first);
    zt_weightless(p, was);
    for (uint32_t i = 0; i < node->slots; i++) {
        out[i].gradient = in[i];
        in[i] = (zt_tensor){0};
    }
}

static void identity(zt_process *p, zt_tensor *tensor[], uint32_t count, zt_gradient_hook *hook,
                     void *context)
{
    zt_tensor input[ZT_NODE_INPUTS_MAX] = {0};
    for (uint32_t i = 0; i < count; i++) {
        input[i] = *tensor[i];
    }
    zt_node *node = zt_node_open(p, pass_through, count, input, count);
    if (node != NULL) {
        node->callback = (void (*)(void))hook;
        node->context = context;
    }
    for (uint32_t i = 0; i < count; i++) {
        zt_node_output(p, node, tensor[i], i);
    }
}

void zt_identity(zt_process *p, zt_tensor *tensor, size_t count, bool separately,
                 zt_gradient_hook *hook, void *context)
{
    zt_tensor *needing[ZT_NODE_INPUTS_MAX];
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (!zt_needs_gradient(tensor[i])) {
            continue;
        }
        if (found == ZT_NODE_INPUTS_MAX) {
            zt_fail(p, ZL_E_BUG, "too many tensors for one function");
        }
        needing[found++] = &tensor[i];
        if (separately) {
            identity(p, needing, 1, hook, context);
            found = 0;
        }
    }
    if (found > 0) {
        identity(p, needing, found, hook, context);
    }
}

static void run_custom(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    const bool was = zt_weightless(p, false);
    ((zt_custom_backward *)node->callback)(p, node->context, in, node->slots, &out[0].gradient);
    zt_weightless(p, was);
}

void zt_custom(zt_process *p, zt_tensor input, zt_tensor **made, size_t count,
               zt_custom_backward *backward, void *context)
{
    zt_node *node = zt_node_open(p, run_custom, (uint32_t)count, &input, 1);
    if (node == NULL) {
        return;
    }
    node->callback = (void (*)(void))backward;
    node->context = context;
    for (size_t i = 0; i < count; i++) {
        zt_node_output(p, node, made[i], (uint32_t)i);
    }
}

void zt_queue_callback(zt_process *p, void (*callback)(zt_process *, void *), void *context)
{
    struct zt_engine *e = p->engine;
    zt_callback *c = zt_bump_take(p, &e->tape, 1, sizeof *c);
    *c = (zt_callback){.run = callback, .context = context};
    if (e->callbacks == NULL) {
        e->last_callback = &e->callbacks;
    }
    *e->last_callback = c;
    e->last_callback = &c->next;
}

/* ---- the engine ---- */

/* The younger node is above. */
static void push_ready(zt_process *p, uint32_t id)
{
    struct zt_engine *e = p->engine;
    if (id < e->leaves) {
        e->leaf_queue =
            zt_grow(p, e->leaf_queue, e->leaf_count, &e->leaf_capacity, sizeof(uint32_t));
        e->leaf_queue[e->leaf_count++] = id;
        return;
    }
    e->ready = zt_grow(p, e->ready, e->ready_count, &e->ready_capacity, sizeof(uint32_t));
    uint32_t at = e->ready_count++;
    while (at > 0 && e->ready[(at - 1) / 2] < id) {
        e->ready[at] = e->ready[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    e->ready[at] = id;
}

static uint32_t pop_ready(struct zt_engine *e)
{
    if (e->leaf_next < e->leaf_count) {
        return e->leaf_queue[e->leaf_next++];
    }
    e->leaf_next = e->leaf_count = 0;
    if (e->ready_count == 0) {
        return 0;
    }
    const uint32_t top = e->ready[0];
    const uint32_t moved = e->ready[--e->ready_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= e->ready_count) {
            break;
        }
        if (child + 1 < e->ready_count && e->ready[child + 1] > e->ready[child]) {
            child++;
        }
        if (e->ready[child] <= moved) {
            break;
        }
        e->ready[at] = e->ready[child];
        at = child;
    }
    e->ready[at] = moved;
    return top;
}

/* A gradient reaches a node's input buffer. With an earlier one there, it is added in place if
 * nothing else refers to that one; a view always has its base as another reference. The sum is made
 * on the stream of the node that will use it. */
static void deliver(zt_process *p, zt_node *to, uint32_t slot, zt_tensor *gradient)
{
    zt_tensor *pending = &to->pending[slot];
    /* Whatever the activations are, the gradient of a parameter or of a view of several has memory.
     */
    const bool weighs = p->engine->weightless && (to->param != NULL || to->backward == run_custom);
    if (weighs) {
        zt_resize(p, gradient->storage, zt_bytes(*gradient));
    }
    if (to->param != NULL) {
        zt_name(p, gradient->storage, "gradients");
    }
    if (pending->storage == ZT_NO_STORAGE) {
        *pending = *gradient;
        *gradient = (zt_tensor){0};
        return;
    }
    if (pending->view || zt_storage_references(p, pending->storage) != 1) {
        const uint32_t stream = zt_set_stream(p, to->stream);
        zt_assign(p, pending, zt_tensor_new(p, pending->elements, pending->element_bytes));
        if (weighs) {
            zt_resize(p, pending->storage, zt_bytes(*pending));
        }
        zt_set_stream(p, stream);
    }
    zt_release(p, gradient);
}

/* validate_outputs: the gradient gets the shape and the dtype of the input. */
static void fit_to_input(zt_process *p, zt_result *result)
{
    zt_tensor *gradient = &result->gradient;
    if (gradient->storage == ZT_NO_STORAGE) {
        return;
    }
    if (result->sum != ZT_SUM_NONE) {
        const bool rows = result->sum == ZT_SUM_ROWS;
        zt_tensor sum =
            zt_tensor_new(p, rows ? result->columns : result->rows, gradient->element_bytes);
        if (rows) {
            zt_touch_column_reduction(p, result->rows, result->columns);
        }
        zt_assign(p, gradient, sum);
    }
    if (result->element_bytes != 0 && result->element_bytes != gradient->element_bytes) {
        zt_assign(p, gradient, zt_tensor_new(p, gradient->elements, result->element_bytes));
    }
}

static void run_hooks(zt_process *p, const zt_node *node)
{
    const bool was = zt_weightless(p, false);
    for (const zt_hook *h = node->hooks; h != NULL; h = h->next) {
        if (node->pending[h->slot].storage != ZT_NO_STORAGE) {
            h->hook(p, h->context, &node->pending[h->slot]);
        }
    }
    zt_weightless(p, was);
}

static void run_node(zt_process *p, zt_node *node)
{
    zt_result result[ZT_NODE_INPUTS_MAX];
    for (uint32_t i = 0; i < node->inputs; i++) {
        result[i] = (zt_result){0};
    }
    zt_set_stream(p, node->stream);
    zt_set_name(p, node->what == zt_name_loss ? zt_name_loss : zt_name_backward);
    run_hooks(p, node);
    zt_unpack(p, node);
    node->backward(p, node, node->pending, result);
    zt_drop_unpacked(p, node);
    for (uint32_t i = 0; i < node->inputs; i++) {
        if (!zt_wants(node, i)) {
            zt_release(p, &result[i].gradient); /* a fused kernel makes all of them */
        }
    }
    for (uint32_t i = 0; i < node->inputs; i++) {
        fit_to_input(p, &result[i]);
    }
    for (uint32_t i = 0; i < node->slots; i++) {
        zt_release(p, &node->pending[i]);
    }
    zt_drop_saved(p, node);
    for (uint32_t i = 0; i < node->inputs; i++) {
        if (!zt_wants(node, i)) {
            continue;
        }
        zt_node *to = zt_node_at(p, node->input[i].node);
        if (result[i].gradient.storage != ZT_NO_STORAGE) {
            deliver(p, to, node->input[i].slot, &result[i].gradient);
        }
        if (--to->dependencies == 0) {
            push_ready(p, to->id);
        }
    }
}

/* Nodes are made with no dependencies, and when all that is reached has run leaves have none again.
 */
static void count_dependencies(zt_process *p, uint32_t root)
{
    struct zt_engine *e = p->engine;
    e->node[root]->reached = true;
    for (uint32_t id = root; id >= e->leaves && id > 0; id--) {
        const zt_node *node = e->node[id];
        for (uint32_t i = 0; node->reached && i < node->inputs; i++) {
            if (zt_wants(node, i)) {
                e->node[node->input[i].node]->reached = true;
                e->node[node->input[i].node]->dependencies++;
            }
        }
    }
}

void zt_tape_clear(zt_process *p)
{
    struct zt_engine *e = p->engine;
    for (uint32_t id = e->leaves; id < e->nodes; id++) {
        zt_node *node = e->node[id];
        for (uint32_t i = 0; i < node->slots; i++) {
            zt_release(p, &node->pending[i]);
        }
        zt_drop_saved(p, node);
    }
    for (uint32_t id = 1; id < e->leaves; id++) {
        e->node[id]->hooks = NULL;
    }
    e->nodes = e->leaves;
    zt_bump_rewind(&e->tape);
}

void zt_backward(zt_process *p, zt_tensor root)
{
    struct zt_engine *e = p->engine;
    if (root.node == 0) {
        zt_fail(p, ZL_E_USAGE,
                p->run->lora_rank > 0
                    ? "nothing in this model trains: no module has one of the names given for LoRA"
                    : "nothing in this model trains: there is no backward");
    }
    const uint32_t stream = e->stream;
    const char *what = zt_set_name(p, zt_name_loss);
    const bool was = zt_weightless(p, zt_activations_given(p));
    zt_tensor ones = zt_tensor_new(p, root.elements, root.element_bytes);
    zt_tensor gradient = zt_share(p, ones);
    count_dependencies(p, root.node);
    e->thread = ZT_AUTOGRAD_THREAD;
    e->in_backward = true;
    e->callbacks = NULL;
    deliver(p, e->node[root.node], root.slot, &gradient);
    push_ready(p, root.node);
    for (uint32_t id = pop_ready(e); id != 0; id = pop_ready(e)) {
        run_node(p, e->node[id]);
    }
    zt_set_stream(p, stream);
    zt_set_name(p, zt_name_backward);
    zt_weightless(p, false);
    for (const zt_callback *c = e->callbacks; c != NULL; c = c->next) {
        c->run(p, c->context);
    }
    e->in_backward = false;
    e->thread = ZT_MAIN_THREAD;
    zt_release(p, &ones);
    zt_tape_clear(p);
    zt_given_end(p);
    zt_weightless(p, was);
    zt_set_name(p, what);
}

/* ---- autocast ---- */

bool zt_autocast(const zt_process *p)
{
    return p->engine->autocast;
}

void zt_autocast_begin(zt_process *p)
{
    p->engine->autocast = p->run->precision == ZL_TORCH_BF16_AUTOCAST;
}

void zt_autocast_end(zt_process *p)
{
    struct zt_engine *e = p->engine;
    e->autocast = false;
    e->any_order = true;
    for (uint32_t i = 0; i < e->casts; i++) {
        zt_release(p, &e->cast[i].tensor);
    }
    e->any_order = false;
    e->casts = 0;
}

zt_tensor zt_autocast_find(zt_process *p, const zt_param *leaf)
{
    const struct zt_engine *e = p->engine;
    if (leaf->cast_index < e->casts && e->cast[leaf->cast_index].leaf == leaf) {
        return zt_share(p, e->cast[leaf->cast_index].tensor);
    }
    return (zt_tensor){0};
}

void zt_autocast_keep(zt_process *p, zt_param *leaf, zt_tensor cast)
{
    struct zt_engine *e = p->engine;
    if (e->stopped) {
        return;
    }
    e->cast = zt_grow(p, e->cast, e->casts, &e->cast_capacity, sizeof *e->cast);
    leaf->cast_index = e->casts;
    e->cast[e->casts++] = (zt_cast){.leaf = leaf, .tensor = zt_share(p, cast)};
}
