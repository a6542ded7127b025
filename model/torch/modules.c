#include "torch/modules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "torch/engine.h"
#include "torch/lora.h"
#include "zeroledger/bytes.h"

enum { INT64_BYTES = 8, FLOAT_BYTES = 4, HALF_BYTES = 2 };

/* ---- the tree ---- */

static zt_module *module_new(zt_process *p, zt_module *parent, const char *name, bool called)
{
    zt_module *m = zt_arena(p, 1, sizeof *m);
    memcpy(m->name, name, zl_min(strlen(name), sizeof m->name - 1)); /* zeroed */
    m->called = called;
    m->parent = parent;
    p->module_count++;
    if (parent == NULL) {
        p->root = m;
    } else {
        *(parent->child == NULL ? &parent->child : &parent->last_child->next) = m;
        parent->last_child = m;
    }
    return m;
}

zt_module *zt_module_new(zt_process *p, zt_module *parent, const char *name)
{
    return module_new(p, parent, name, true);
}

zt_module *zt_module_list_new(zt_process *p, zt_module *parent, const char *name)
{
    return module_new(p, parent, name, false);
}

zt_module *zt_layer_new(zt_process *p, zt_module *parent, uint64_t index)
{
    char name[ZT_MODULE_NAME];
    snprintf(name, sizeof name, "%" PRIu64, index);
    zt_module *m = zt_module_new(p, parent, name);
    m->layer = true;
    p->layer_count++;
    return m;
}

/* The dtype the model has when it is handed to a framework. */
static uint32_t model_bytes(const zl_torch_run *run)
{
    const bool half = run->precision == ZL_TORCH_BF16 ||
                      (run->framework == ZL_TORCH_DEEPSPEED && run->precision != ZL_TORCH_FP32);
    return half ? HALF_BYTES : FLOAT_BYTES;
}

static void own(zt_process *p, zt_module *m, zt_param *param)
{
    if (m->params == ZT_OWN_PARAMS_MAX) {
        zt_fail(p, ZL_E_BUG, "a module with too many parameters of its own");
    }
    m->param[m->params++] = param;
}

static zt_param *construct(zt_process *p, zt_module *m, const char *name, uint64_t rows,
                           uint64_t columns)
{
    struct zt_engine *e = p->engine;
    zt_param *param = zt_arena(p, 1, sizeof *param);
    *param = (zt_param){
        .name = name,
        .module = m,
        .rows = rows,
        .columns = columns == 0 ? 1 : columns,
        .dimensions = columns == 0 ? 1 : 2,
        .element_bytes = model_bytes(p->run),
        .trains = true,
    };
    param->value = (zt_tensor){
        .elements = zt_param_elements(param),
        .element_bytes = param->element_bytes,
        .leaf = param,
    };
    e->created = zt_grow(p, e->created, e->created_count, &e->created_capacity, sizeof(zt_param *));
    e->created[e->created_count++] = param;
    return param;
}

zt_param *zt_param_new(zt_process *p, zt_module *m, const char *name, uint64_t rows,
                       uint64_t columns)
{
    zt_param *param = construct(p, m, name, rows, columns);
    own(p, m, param);
    p->param_count++;
    return param;
}

void zt_param_tie(zt_process *p, zt_module *m, zt_param *param)
{
    construct(p, m, param->name, param->rows, param->columns)->thrown_away = true;
    own(p, m, param);
}

static void buffer_new(zt_process *p, zt_module *m, uint64_t bytes, bool floating)
{
    if (m->buffers == ZT_OWN_BUFFERS_MAX) {
        zt_fail(p, ZL_E_BUG, "a module with too many buffers of its own");
    }
    m->buffer[m->buffers].bytes = bytes;
    m->buffer[m->buffers].floating = floating;
    m->buffers++;
}

void zt_int64_buffer_new(zt_process *p, zt_module *m, uint64_t elements)
{
    buffer_new(p, m, zl_mul(elements, INT64_BYTES), false);
}

/* Of the models handed over in a 16-bit dtype only those of the torch records had .to(dtype) called
 * on their buffers; DeepSpeed's releases differ, so its framework does that. */
void zt_float_buffer_new(zt_process *p, zt_module *m, uint64_t elements)
{
    const uint32_t bytes = p->run->precision == ZL_TORCH_BF16 ? HALF_BYTES : FLOAT_BYTES;
    buffer_new(p, m, zl_mul(elements, bytes), true);
}

zt_tensor zt_buffer(zt_process *p, const zt_module *m, uint32_t index)
{
    const uint32_t bytes = p->run->precision == ZL_TORCH_BF16 ? HALF_BYTES : FLOAT_BYTES;
    return (zt_tensor){.storage = zt_hold(p, m->buffer[index].storage),
                       .elements = zl_exact_div(m->buffer[index].bytes, bytes),
                       .element_bytes = bytes};
}

/* ---- freezing, orders, gradient nodes ---- */

static void list_modules(zt_process *p, zt_module *m)
{
    m->index = p->module_count;
    p->modules[p->module_count++] = m;
    if (m->layer) {
        p->layers[p->layer_count++] = m;
    }
    for (zt_module *child = m->child; child != NULL; child = child->next) {
        list_modules(p, child);
    }
}

static void name_params(zt_process *p)
{
    for (uint32_t i = 0; i < p->module_count; i++) {
        const zt_module *m = p->modules[i];
        for (uint32_t j = 0; j < m->params; j++) {
            if (!m->param[j]->listed) {
                m->param[j]->listed = true;
                m->param[j]->index = p->param_count;
                p->named[p->param_count++] = m->param[j];
            }
        }
    }
}

static uint32_t children_first(zt_process *p, const zt_module *m, uint32_t count)
{
    for (const zt_module *child = m->child; child != NULL; child = child->next) {
        count = children_first(p, child, count);
    }
    for (uint32_t j = 0; j < m->params; j++) {
        if (m->param[j]->listed) {
            m->param[j]->listed = false;
            p->on_device[count++] = m->param[j];
        }
    }
    return count;
}

static void freeze(zt_process *p, zt_module *m, bool trains)
{
    for (uint32_t j = 0; j < m->params; j++) {
        m->param[j]->trains = trains;
    }
    for (zt_module *child = m->child; child != NULL; child = child->next) {
        freeze(p, child, trains);
    }
}

static void thaw_adapters(zt_process *p)
{
    for (uint32_t i = 0; i < p->module_count; i++) {
        const zt_module *m = p->modules[i];
        if (m->parent != NULL && strncmp(m->parent->name, "lora_", strlen("lora_")) == 0) {
            for (uint32_t j = 0; j < m->params; j++) {
                m->param[j]->trains = true;
            }
        }
    }
}

static void choose_trainable(zt_process *p)
{
    const zl_torch_run *run = p->run;
    if (run->lora_rank > 0) {
        freeze(p, p->root, false);
        thaw_adapters(p);
    }
    if (run->trainable_layers > 0) {
        freeze(p, p->root, false);
        for (uint32_t i = 0; i < p->layer_count; i++) {
            freeze(p, p->layers[i], p->layer_count - i <= run->trainable_layers);
        }
    }
}

void zt_model_finish(zt_process *p)
{
    const struct zt_engine *e = p->engine;
    p->modules = zt_arena(p, p->module_count, sizeof(zt_module *));
    p->layers = zt_arena(p, p->layer_count, sizeof(zt_module *));
    p->named = zt_arena(p, p->param_count, sizeof(zt_param *));
    p->on_device = zt_arena(p, p->param_count, sizeof(zt_param *));
    p->given = zt_arena(p, p->layer_count + 1, sizeof *p->given);
    p->created = e->created;
    p->created_count = e->created_count;
    p->module_count = p->layer_count = p->param_count = 0;
    list_modules(p, p->root);
    name_params(p);
    children_first(p, p->root, 0);
    choose_trainable(p);
    for (uint32_t i = 0; i < p->param_count; i++) {
        zt_param *param = p->named[i];
        p->elements = zl_add(p->elements, zt_param_elements(param));
        if (param->trains) {
            p->trainable = zl_add(p->trainable, zt_param_elements(param));
            zt_param_requires_grad(p, param);
        }
    }
}

/* ---- leaves ---- */

static zt_dense dense_new(zt_process *p, zt_module *parent, const char *name, uint64_t in,
                          uint64_t out, bool bias, bool conv1d)
{
    zt_dense d = {.module = zt_module_new(p, parent, name), .conv1d = conv1d};
    d.module->linear = !conv1d;
    d.weight = zt_param_new(p, d.module, "weight", conv1d ? in : out, conv1d ? out : in);
    d.bias = bias ? zt_param_new(p, d.module, "bias", out, 0) : NULL;
    return d;
}

static zt_module *adapter_part(zt_process *p, zt_adapter *adapter, const char *name)
{
    return zt_module_list_new(p, adapter->self, name);
}

/* peft's lora.Linear takes the place of the layer and has it as its first child. */
static zt_dense adapted_new(zt_process *p, zt_module *parent, const char *name, uint64_t in,
                            uint64_t out, bool bias, bool conv1d)
{
    if (!zt_lora_targets(p->run, parent, name)) {
        return dense_new(p, parent, name, in, out, bias, conv1d);
    }
    zt_adapter *adapter = zt_arena(p, 1, sizeof *adapter);
    adapter->self = zt_module_new(p, parent, name);
    zt_dense d = dense_new(p, adapter->self, "base_layer", in, out, bias, conv1d);
    d.adapter = adapter;
    const uint64_t rank = p->run->lora_rank;
    adapter->dropout = zt_module_new(p, adapter_part(p, adapter, "lora_dropout"), "default");
    const zt_dense a =
        dense_new(p, adapter_part(p, adapter, "lora_A"), "default", in, rank, false, false);
    const zt_dense b =
        dense_new(p, adapter_part(p, adapter, "lora_B"), "default", rank, out, false, false);
    adapter_part(p, adapter, "lora_embedding_A");
    adapter_part(p, adapter, "lora_embedding_B");
    adapter_part(p, adapter, "lora_magnitude_vector");
    adapter->a = a;
    adapter->b = b;
    return d;
}

zt_dense zt_linear_new(zt_process *p, zt_module *parent, const char *name, uint64_t in,
                       uint64_t out, bool bias)
{
    return adapted_new(p, parent, name, in, out, bias, false);
}

zt_dense zt_conv1d_new(zt_process *p, zt_module *parent, const char *name, uint64_t in,
                       uint64_t out)
{
    return adapted_new(p, parent, name, in, out, true, true);
}

zt_dense zt_tied_linear_new(zt_process *p, zt_module *parent, const char *name, zt_param *weight,
                            bool bias)
{
    zt_dense d = {.module = zt_module_new(p, parent, name), .weight = weight};
    d.module->linear = true;
    zt_param_tie(p, d.module, weight);
    d.bias = bias ? zt_param_new(p, d.module, "bias", weight->rows, 0) : NULL;
    return d;
}

zt_norm zt_layer_norm_new(zt_process *p, zt_module *parent, const char *name, uint64_t width)
{
    zt_norm n = zt_rms_norm_new(p, parent, name, width);
    n.bias = zt_param_new(p, n.module, "bias", width, 0);
    return n;
}

zt_norm zt_rms_norm_new(zt_process *p, zt_module *parent, const char *name, uint64_t width)
{
    zt_norm n = {.module = zt_module_new(p, parent, name)};
    n.weight = zt_param_new(p, n.module, "weight", width, 0);
    return n;
}

zt_table zt_embedding_new(zt_process *p, zt_module *parent, const char *name, uint64_t rows,
                          uint64_t width)
{
    zt_table t = {.module = zt_module_new(p, parent, name)};
    t.weight = zt_param_new(p, t.module, "weight", rows, width);
    return t;
}

/* ---- calls ---- */

void zt_enter(zt_process *p, zt_module *m, zt_tensor *input, size_t count)
{
    if (zt_stopped(p)) {
        return;
    }
    const bool was = zt_weightless(p, false);
    zt_given_enter(p, m, input, count);
    if (p->framework->enter != NULL) {
        p->framework->enter(p, m, input, count);
    }
    zt_weightless(p, was);
}

void zt_leave(zt_process *p, zt_module *m, zt_tensor *output, size_t count)
{
    if (zt_stopped(p)) {
        zt_autocast_end(p); /* its exit comes before the frames of the exception die */
        for (size_t i = 0; i < count; i++) {
            zt_release(p, &output[i]);
        }
        return;
    }
    const bool was = zt_weightless(p, false);
    zt_given_leave(p, m);
    if (p->framework->leave != NULL) {
        p->framework->leave(p, m, output, count);
    }
    zt_weightless(p, was);
}

static zt_tensor call_plain_dense(zt_process *p, const zt_dense *d, zt_tensor x)
{
    zt_enter(p, d->module, &x, 1);
    zt_tensor y =
        d->conv1d ? zt_conv1d(p, x, d->weight, d->bias) : zt_linear(p, x, d->weight, d->bias);
    zt_leave(p, d->module, &y, 1);
    return y;
}

/* result + lora_B(lora_A(dropout(x))) * scaling, as peft writes it. */
static zt_tensor call_adapted(zt_process *p, const zt_dense *d, zt_tensor x)
{
    const zt_adapter *adapter = d->adapter;
    zt_enter(p, adapter->self, &x, 1);
    zt_tensor result = call_plain_dense(p, d, x);
    zt_tensor input = zt_to(p, x, adapter->a.weight->value.element_bytes);
    zt_tensor dropped = zt_call_dropout(p, adapter->dropout, input, p->run->lora_dropout);
    zt_tensor a = call_plain_dense(p, &adapter->a, dropped);
    zt_release(p, &dropped);
    zt_tensor b = call_plain_dense(p, &adapter->b, a);
    zt_release(p, &a);
    zt_assign(p, &b, zt_scale(p, b));
    zt_tensor sum = zt_add(p, result, b);
    zt_release(p, &b);
    zt_assign(p, &result, sum);
    zt_release(p, &input);
    zt_leave(p, adapter->self, &result, 1);
    return result;
}

zt_tensor zt_call_dense(zt_process *p, const zt_dense *d, zt_tensor x)
{
    return d->adapter != NULL ? call_adapted(p, d, x) : call_plain_dense(p, d, x);
}

zt_tensor zt_call_layer_norm(zt_process *p, const zt_norm *n, zt_tensor x)
{
    zt_enter(p, n->module, &x, 1);
    zt_tensor y = zt_layer_norm(p, x, n->weight, n->bias);
    zt_leave(p, n->module, &y, 1);
    return y;
}

zt_tensor zt_call_rms_norm(zt_process *p, const zt_norm *n, zt_tensor x)
{
    zt_enter(p, n->module, &x, 1);
    const uint32_t input_bytes = x.element_bytes;
    zt_tensor hidden = zt_to(p, x, FLOAT_BYTES);
    zt_tensor squares = zt_pow(p, hidden);
    zt_tensor variance = zt_mean(p, squares, n->weight->rows);
    zt_release(p, &squares);
    zt_tensor shifted = zt_add_scalar(p, variance);
    zt_tensor root = zt_rsqrt(p, shifted);
    zt_release(p, &shifted);
    zt_tensor scaled = zt_mul(p, hidden, root);
    zt_release(p, &root);
    zt_assign(p, &hidden, scaled);
    zt_tensor low = zt_to(p, hidden, input_bytes);
    zt_tensor y = zt_mul(p, n->weight->value, low);
    zt_release(p, &low);
    zt_release(p, &hidden);
    zt_release(p, &variance);
    zt_leave(p, n->module, &y, 1);
    return y;
}

zt_tensor zt_call_embedding(zt_process *p, const zt_table *t, zt_storage ids, uint64_t count,
                            bool ids_expanded)
{
    zt_tensor x = {.storage = ids, .elements = count, .element_bytes = INT64_BYTES};
    zt_enter(p, t->module, &x, 1);
    zt_tensor y = zt_embedding(p, t->weight, ids, count, ids_expanded);
    zt_leave(p, t->module, &y, 1);
    return y;
}

/* gradient_checkpointing_enable makes the output of the input embedding require a gradient, so that
 * layers are recomputed even where nothing before them trains. */
zt_tensor zt_call_input_embedding(zt_process *p, const zt_table *t, zt_storage ids)
{
    zt_tensor y = zt_call_embedding(p, t, ids, zt_tokens(p), false);
    if (p->run->checkpointing) {
        zt_require_gradient(p, &y);
    }
    return y;
}

zt_tensor zt_call_dropout(zt_process *p, zt_module *m, zt_tensor x, double probability)
{
    zt_enter(p, m, &x, 1);
    zt_tensor y = zt_dropout(p, x, probability);
    zt_leave(p, m, &y, 1);
    return y;
}

zt_tensor zt_call_tanh(zt_process *p, zt_module *m, zt_tensor x)
{
    zt_enter(p, m, &x, 1);
    zt_tensor y = zt_tanh(p, x);
    zt_leave(p, m, &y, 1);
    return y;
}

/* 0.5 * x * (1 + tanh(c * (x + 0.044715 * x ** 3))) */
static zt_tensor gelu_new(zt_process *p, zt_tensor x)
{
    zt_tensor half = zt_scale(p, x);
    zt_tensor t = zt_pow(p, x);
    zt_assign(p, &t, zt_scale(p, t));
    zt_assign(p, &t, zt_add(p, x, t));
    zt_assign(p, &t, zt_scale(p, t));
    zt_assign(p, &t, zt_tanh(p, t));
    zt_assign(p, &t, zt_add_scalar(p, t));
    zt_tensor y = zt_mul(p, half, t);
    zt_release(p, &half);
    zt_release(p, &t);
    return y;
}

static zt_tensor activation(zt_process *p, zt_tensor x)
{
    switch (p->run->model.activation) {
    case ZL_HF_GELU:
        return zt_gelu(p, x);
    case ZL_HF_GELU_NEW:
        return gelu_new(p, x);
    case ZL_HF_SILU:
        return zt_silu(p, x);
    case ZL_HF_ACTIVATION_COUNT:
        break;
    }
    zt_fail(p, ZL_E_UNMODELLED, "this activation function is not modelled");
}

zt_tensor zt_call_activation(zt_process *p, zt_module *m, zt_tensor x)
{
    zt_enter(p, m, &x, 1);
    zt_tensor y = activation(p, x);
    zt_leave(p, m, &y, 1);
    return y;
}

void *zt_tape_arena(zt_process *p, size_t count, size_t size)
{
    return zt_bump_take(p, &p->engine->tape, count, size);
}

uint64_t zt_tokens(const zt_process *p)
{
    return zl_mul(p->run->micro_batch, p->run->seq);
}

zt_tensor zt_call_layer(zt_process *p, zt_layer_function *layer, void *context, zt_tensor x,
                        const zt_storage *extra, uint32_t extras)
{
    return p->run->checkpointing ? zt_checkpoint(p, layer, context, x, extra, extras)
                                 : layer(p, context, x);
}
