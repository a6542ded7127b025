/* A model whose tensors are known, and not its operations: the tree of modules that their dotted
 * names say, and a forward that calls every module once, in the order of registration, with what
 * the one before returned. So the frameworks see the doors of all modules and the gradients of all
 * parameters; activations have to be given, or are left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch/modules.h"
#include "zeroledger/bytes.h"

enum { FLOAT_BYTES = 4 };

/* ---- names ---- */

static bool is_number(const char *name)
{
    return name[0] != '\0' && name[strspn(name, "0123456789")] == '\0';
}

/* A table that ids are looked up in, not a matrix that is multiplied: by what models call it. */
static bool is_table(const zt_module *m)
{
    const bool embedding = strstr(m->name, "embed") != NULL || strcmp(m->name, "wte") == 0 ||
                           strcmp(m->name, "wpe") == 0;
    return embedding && strcmp(m->name, "embed_out") != 0;
}

/* Numbered modules come in the order of their numbers, so a number behind the last is a new one. */
static zt_module *child_named(const zt_module *parent, const char *name)
{
    const zt_module *last = parent->last_child;
    if (last == NULL || strcmp(last->name, name) == 0) {
        return parent->last_child;
    }
    if (is_number(name) && is_number(last->name) &&
        strtoull(last->name, NULL, 10) < strtoull(name, NULL, 10)) {
        return NULL;
    }
    zt_module *child = parent->child;
    while (child != NULL && strcmp(child->name, name) != 0) {
        child = child->next;
    }
    return child;
}

/* ---- building ---- */

/* The module of a tensor, made with all above it that are not there yet; *last is what is behind
 * its last dot. */
static zt_module *module_of(zt_process *p, const char *name, bool make_last, const char **last)
{
    zt_module *at = p->root;
    const char *part = name;
    for (const char *dot = strchr(part, '.'); dot != NULL; dot = strchr(part, '.')) {
        char own[ZT_MODULE_NAME];
        snprintf(own, sizeof own, "%.*s", (int)(dot - part), part);
        zt_module *below = child_named(at, own);
        if (below == NULL && strchr(dot + 1, '.') == NULL && !make_last) {
            *last = part;
            return at;
        }
        at = below != NULL ? below : zt_module_new(p, at, own);
        part = dot + 1;
    }
    *last = part;
    return at;
}

static zt_param *param_named(const zt_process *p, const char *name)
{
    zt_module *at = p->root;
    const char *part = name;
    for (const char *dot = strchr(part, '.'); dot != NULL && at != NULL; dot = strchr(part, '.')) {
        char own[ZT_MODULE_NAME];
        snprintf(own, sizeof own, "%.*s", (int)(dot - part), part);
        at = child_named(at, own);
        part = dot + 1;
    }
    for (uint32_t i = 0; at != NULL && i < at->params; i++) {
        if (strcmp(at->param[i]->name, part) == 0) {
            return at->param[i];
        }
    }
    return NULL;
}

static uint64_t columns_of(const zl_tensor_entry *entry)
{
    uint64_t columns = entry->rank > 1 ? 1 : 0;
    for (uint32_t i = 1; i < entry->rank; i++) {
        columns = zl_mul(columns, entry->dim[i]);
    }
    return columns;
}

static void add_buffer(zt_process *p, zt_module *m, const zl_tensor_entry *entry)
{
    const uint64_t elements = zl_tensor_elements(entry);
    const bool floating = entry->dtype[0] == 'F' || entry->dtype[0] == 'B';
    if (m->buffers == ZT_OWN_BUFFERS_MAX) {
        zt_fail(p, ZL_E_UNMODELLED, "a module with so many buffers of its own is not modelled");
    }
    if (floating) {
        zt_float_buffer_new(p, m, elements);
    } else {
        zt_int64_buffer_new(p, m, elements);
    }
}

/* "weight" and perhaps "bias" of a matrix, which LoRA may adapt; how many entries that were. */
static size_t add_linear(zt_process *p, const zl_tensor_list *list, size_t i)
{
    const zl_tensor_entry *weight = &list->entry[i];
    const zl_tensor_entry *next = i + 1 < list->count ? &list->entry[i + 1] : NULL;
    const size_t stem = strlen(weight->name) - strlen("weight");
    const bool bias =
        next != NULL && next->rank == 1 && next->tied == 0 && next->dim[0] == weight->dim[0] &&
        strncmp(next->name, weight->name, stem) == 0 && strcmp(next->name + stem, "bias") == 0;
    const char *last = NULL;
    char own[ZT_MODULE_NAME];
    zt_module *parent = module_of(p, weight->name, false, &last);
    snprintf(own, sizeof own, "%.*s", (int)strcspn(last, "."), last);
    zt_linear_new(p, parent, own, weight->dim[1], weight->dim[0], bias);
    return bias ? 2 : 1;
}

/* A matrix called weight in a module that is not there yet, and no table. */
static bool is_linear(zt_process *p, const zl_tensor_entry *entry)
{
    const char *last = NULL;
    if (entry->rank != 2 || entry->tied != 0 || entry->buffer) {
        return false;
    }
    module_of(p, entry->name, false, &last);
    const char *dot = strchr(last, '.');
    zt_module named = {.name = ""};
    snprintf(named.name, sizeof named.name, "%.*s", (int)strcspn(last, "."), last);
    return dot != NULL && strcmp(dot, ".weight") == 0 && !is_table(&named);
}

static void add_tensor(zt_process *p, const zl_tensor_list *list, const zl_tensor_entry *entry)
{
    const char *last = NULL;
    zt_module *m = module_of(p, entry->name, true, &last);
    if (entry->buffer) {
        add_buffer(p, m, entry);
        return;
    }
    if (m->params == ZT_OWN_PARAMS_MAX) {
        zt_fail(p, ZL_E_UNMODELLED, "a module with so many parameters of its own is not modelled");
    }
    zt_param *same = entry->tied == 0 ? NULL : param_named(p, list->entry[entry->tied - 1].name);
    if (same != NULL) {
        m->linear = entry->rank == 2;
        zt_param_tie(p, m, same);
    } else {
        zt_param_new(p, m, last, entry->rank == 0 ? 1 : entry->dim[0], columns_of(entry));
    }
}

/* A list of modules is never called; the numbered modules in the outermost one, if they have
 * modules themselves, are the layers. */
static void find_layers(zt_process *p, zt_module *m, bool within)
{
    for (zt_module *child = m->child; child != NULL; child = child->next) {
        const bool numbered = is_number(child->name);
        m->called = m->called && !(numbered && m->params == 0);
        child->layer = numbered && !within && child->child != NULL;
        p->layer_count += child->layer ? 1 : 0;
        find_layers(p, child, within || child->layer);
    }
}

static void *build(zt_process *p)
{
    const zl_tensor_list *list = &p->tensors;
    zt_module *root = zt_module_new(p, NULL, "");
    for (size_t i = 0; i < list->count;) {
        const zl_tensor_entry *entry = &list->entry[i];
        if (zl_tensor_elements(entry) == 0) {
            i++;
        } else if (is_linear(p, entry)) {
            i += add_linear(p, list, i);
        } else {
            add_tensor(p, list, entry);
            i++;
        }
    }
    find_layers(p, root, false);
    return root;
}

/* ---- forward ---- */

enum { X, FIRST_PARAM, SECOND_PARAM, ELEMENT_BYTES = 3, AT_ONCE = 2 };

static void use_backward(zt_process *p, zt_node *node, zt_tensor *in, zt_result *out)
{
    (void)in;
    for (uint32_t i = node->inputs; i-- > 0;) {
        if (zt_wants(node, i)) {
            out[i].gradient = zt_tensor_new(p, node->size[i], (uint32_t)node->size[ELEMENT_BYTES]);
        }
    }
    zt_gemm(p, false);
}

/* Some operation of x and parameters of one module. A product keeps a view of the weight's memory,
 * as F.linear does. */
static zt_tensor use(zt_process *p, zt_tensor x, zt_param *const *param, uint32_t count,
                     uint64_t elements, bool product)
{
    const zt_tensor input[] = {x, count > 0 ? param[0]->value : x, count > 1 ? param[1]->value : x};
    zt_node *node = zt_node_open(p, use_backward, 1, input, 1 + count);
    if (node != NULL) {
        node->size[X] = x.elements;
        node->size[FIRST_PARAM] = count > 0 ? zt_param_elements(param[0]) : 0;
        node->size[SECOND_PARAM] = count > 1 ? zt_param_elements(param[1]) : 0;
        node->size[ELEMENT_BYTES] = count > 0 ? param[0]->value.element_bytes : x.element_bytes;
    }
    zt_tensor y =
        zt_tensor_new(p, elements, count > 0 ? param[0]->value.element_bytes : FLOAT_BYTES);
    if (product) {
        zt_tensor view =
            p->linear_for_zero3 ? zt_share(p, param[0]->value) : zt_view(p, param[0]->value);
        zt_gemm(p, count > 1);
        zt_save(p, node, view);
        zt_release(p, &view);
    }
    zt_save(p, node, y);
    zt_node_output(p, node, &y, 0);
    return y;
}

static zt_tensor call(zt_process *p, zt_module *m, zt_tensor x);

static zt_tensor call_layer(zt_process *p, void *context, zt_tensor x)
{
    return call(p, context, x);
}

static zt_tensor call_child(zt_process *p, zt_module *child, zt_tensor *x)
{
    if (!child->layer) {
        return call(p, child, *x);
    }
    if (p->run->checkpointing) {
        zt_require_gradient(p, x);
    }
    return zt_call_layer(p, call_layer, child, *x, NULL, 0);
}

/* What a module runs of its own comes behind its children. */
static zt_tensor call(zt_process *p, zt_module *m, zt_tensor x)
{
    const uint64_t tokens = zt_tokens(p);
    zt_tensor y = zt_share(p, x);
    if (m->called) {
        zt_enter(p, m, &y, 1);
    }
    for (zt_module *child = m->child; child != NULL; child = child->next) {
        zt_assign(p, &y, call_child(p, child, &y));
    }
    for (uint32_t i = 0; i < m->params; i += AT_ONCE) {
        const uint32_t count = (uint32_t)zl_min(AT_ONCE, m->params - i);
        const bool product = m->linear && i == 0;
        zt_assign(p, &y, use(p, y, &m->param[i], count, tokens, product));
    }
    if (m->called) {
        zt_leave(p, m, &y, 1);
    }
    return y;
}

/* The root's door is the caller's. */
static zt_output forward(zt_process *p, void *model, const zt_batch *batch)
{
    zt_module *root = model;
    zt_tensor y = {.storage = zt_hold(p, batch->ids), .elements = zt_tokens(p)};
    for (zt_module *child = root->child; child != NULL; child = child->next) {
        zt_assign(p, &y, call_child(p, child, &y));
    }
    for (uint32_t i = 0; i < root->params; i += AT_ONCE) {
        const uint32_t count = (uint32_t)zl_min(AT_ONCE, root->params - i);
        zt_assign(p, &y, use(p, y, &root->param[i], count, y.elements, false));
    }
    return (zt_output){.logits = y, .loss = use(p, y, NULL, 0, 1, false)};
}

const zt_architecture zt_shapes = {.build = build, .forward = forward, .from_tensors = true};
