/* FSDP1: FullyShardedDataParallel around every transformer layer and around the model, with
 * use_orig_params and full sharding.
 *
 * Sources: torch/distributed/fsdp/_init_utils.py, _flat_param.py, _runtime_utils.py of 2.11.
 *
 * All parameters of a unit lie in one flat parameter, of which a rank keeps a piece. It is gathered
 * on a stream of its own, and the parameters of the operations are views of it, so their gradients
 * come together in one flat gradient on that stream. Memory that a second stream uses is freed when
 * that stream is done (record_stream). */
#include "torch/eager.h"
#include "zeroledger/bytes.h"

enum { CAST_STREAM = 1, GATHER_STREAM = 2, REDUCE_STREAM = 3 };

/* Parameters in the flat one begin at a multiple of this many bytes. */
static const uint64_t alignment = 16;

typedef struct unit {
    struct fsdp1 *fsdp;
    zt_param **param; /* in the order of named_parameters() */
    uint32_t params;
    uint64_t *offset;    /* of each in the flat parameter, elements */
    uint64_t end;        /* of the last one */
    uint64_t piece;      /* elements of a rank */
    zt_storage kept;     /* this rank's piece */
    zt_storage flat;     /* the gathered parameter; without memory while it is sharded */
    zt_storage gradient; /* of the piece; lives until the next forward of the root */
    zt_tensor leaf;
    bool gathered;
    bool in_backward;
    int32_t position; /* in the order of forward */
} unit;

typedef struct fsdp1 {
    unit *units; /* layers in order, the root last */
    uint32_t count;
    unit **order;
    uint32_t ordered;
    bool callback_queued;
    bool started;
    uint32_t param_bytes, compute_bytes, reduce_bytes; /* of an element */
} fsdp1;

static bool is_root(const unit *u)
{
    return u == &u->fsdp->units[u->fsdp->count - 1];
}

/* The units in the order of fully sharded modules(): the root before the layers. */
static unit *nth_unit(const fsdp1 *f, uint32_t i)
{
    return &f->units[(i + f->count - 1) % f->count];
}

/* ---- construction ---- */

static unit *unit_of(const zt_process *p, const zt_module *m)
{
    while (m != p->root && !m->layer) {
        m = m->parent;
    }
    return m->user;
}

/* Elements to the next multiple. */
static uint64_t padding(uint64_t elements, uint64_t multiple)
{
    return zl_align_up(elements, multiple) - elements;
}

static void lay_out(const zt_process *p, unit *u)
{
    const uint64_t aligned = zl_exact_div(alignment, u->fsdp->compute_bytes);
    for (uint32_t i = 0; i < u->params; i++) {
        u->offset[i] = zl_add(u->end, padding(u->end, aligned));
        u->end = zl_add(u->offset[i], zt_param_elements(u->param[i]));
    }
    u->piece = zl_ceil_div(u->end, p->run->ranks);
}

static void make_units(zt_process *p)
{
    fsdp1 *f = zt_arena(p, 1, sizeof *f);
    p->user = f;
    f->count = p->layer_count + 1;
    f->units = zt_arena(p, f->count, sizeof *f->units);
    f->order = zt_arena(p, f->count, sizeof(unit *));
    f->param_bytes = p->run->precision == ZL_TORCH_BF16 ? 2 : 4;
    f->compute_bytes = p->run->precision == ZL_TORCH_BF16_MIXED ? 2 : f->param_bytes;
    f->reduce_bytes = f->param_bytes;
    for (uint32_t i = 0; i < f->count; i++) {
        unit *u = &f->units[i];
        u->fsdp = f;
        u->position = -1;
        u->param = zt_arena(p, p->param_count, sizeof(zt_param *));
        u->offset = zt_arena(p, p->param_count, sizeof *u->offset);
        (i < p->layer_count ? p->layers[i] : p->root)->user = u;
    }
    for (uint32_t i = 0; i < p->param_count; i++) {
        unit *u = unit_of(p, p->named[i]->module);
        u->param[u->params++] = p->named[i];
    }
    for (uint32_t i = 0; i < f->count; i++) {
        lay_out(p, &f->units[i]);
    }
}

/* The module's tensors come to the device breadth first, buffers after all parameters; the storages
 * of parameters go to whole[], by index. */
static void module_on_device(zt_process *p, zt_module *top, const unit *u, zt_storage *whole)
{
    zt_module **queue = zt_arena(p, p->module_count, sizeof(zt_module *));
    uint32_t queued = 0;
    queue[queued++] = top;
    for (uint32_t i = 0; i < queued; i++) {
        for (uint32_t k = 0; k < queue[i]->params; k++) {
            const zt_param *param = queue[i]->param[k];
            if (whole[param->index] == ZT_NO_STORAGE) {
                whole[param->index] =
                    zt_new(p, zl_mul(zt_param_elements(param), u->fsdp->param_bytes));
                zt_name(p, whole[param->index], "whole parameters of a unit");
            }
        }
        for (zt_module *child = queue[i]->child; child != NULL; child = child->next) {
            if (unit_of(p, child) == u) {
                queue[queued++] = child;
            }
        }
    }
    for (uint32_t i = 0; i < queued; i++) {
        zt_buffers_on_device(p, queue[i]);
    }
}

/* Concatenates the parameters; padding is made of ones times a constant. */
static zt_storage flatten(zt_process *p, const unit *u)
{
    zt_storage *pad = zt_arena(p, u->params + 1, sizeof *pad);
    const uint32_t bytes = u->fsdp->param_bytes;
    uint64_t end = 0;
    for (uint32_t i = 0; i <= u->params; i++) {
        const uint64_t next = i < u->params ? u->offset[i] : zl_mul(u->piece, p->run->ranks);
        if (next > end) {
            zt_storage ones = zt_new(p, zl_mul(next - end, bytes));
            pad[i] = zt_new(p, zl_mul(next - end, bytes));
            zt_drop(p, &ones);
        }
        end = i < u->params ? zl_add(next, zt_param_elements(u->param[i])) : next;
    }
    const zt_storage flat = zt_new(p, zl_mul(end, bytes));
    for (uint32_t i = 0; i <= u->params; i++) {
        zt_drop(p, &pad[i]);
    }
    return flat;
}

static void shard_unit(zt_process *p, unit *u, zt_module *m)
{
    zt_storage *whole = zt_arena(p, p->param_count, sizeof *whole);
    module_on_device(p, m, u, whole);
    zt_storage flat = flatten(p, u);
    zt_name(p, flat, "flat parameter of a unit");
    u->kept = zt_new(p, zl_mul(u->piece, u->fsdp->param_bytes));
    zt_name(p, u->kept, "parameter shards");
    zt_drop(p, &flat);
    for (uint32_t i = 0; i < u->params; i++) {
        zt_drop(p, &whole[u->param[i]->index]);
    }
}

/* What of the parameter is in this rank's piece; elements. */
static uint64_t local_elements(const zt_process *p, const unit *u, uint32_t i)
{
    const uint64_t begin = zl_max(u->offset[i], zl_mul(u->piece, p->rank));
    const uint64_t end = zl_min(zl_add(u->offset[i], zt_param_elements(u->param[i])),
                                zl_mul(u->piece, zl_add(p->rank, 1)));
    return end > begin ? end - begin : 0;
}

static void reduce(zt_process *p, void *context, zt_tensor *gradient);

static void init(zt_process *p)
{
    if (p->run->ranks == 1) {
        zt_fail(p, ZL_E_UNMODELLED, "fsdp1 on one rank (NO_SHARD) is not modelled; take single");
    }
    if (p->trainable != p->elements) {
        zt_fail(p, ZL_E_UNMODELLED, "fsdp1 with frozen parameters is not modelled; take fsdp2");
    }
    make_units(p);
    fsdp1 *f = p->user;
    for (uint32_t i = 0; i < f->count; i++) {
        unit *u = &f->units[i];
        shard_unit(p, u, i < p->layer_count ? p->layers[i] : p->root);
        u->flat = zt_new(p, 0);
        u->leaf = zt_leaf(p, u->end, f->compute_bytes, reduce, u);
    }
    p->optimizer = zt_optimizer_new(p, p->run->optimizer);
    for (uint32_t i = 0; i < p->param_count; i++) {
        const unit *u = unit_of(p, p->named[i]->module);
        for (uint32_t k = 0; k < u->params; k++) {
            if (u->param[k] == p->named[i] && local_elements(p, u, k) > 0) {
                zt_optimizer_add(p, p->optimizer, local_elements(p, u, k), f->param_bytes);
            }
        }
    }
}

/* ---- gathering ---- */

/* The cast piece goes when the gathering, on another stream, has read it. */
static void gather(zt_process *p, unit *u)
{
    const fsdp1 *f = u->fsdp;
    if (u->gathered) {
        return;
    }
    u->gathered = true;
    const uint32_t before = zt_set_stream(p, CAST_STREAM);
    zt_storage cast = f->compute_bytes == f->param_bytes
                          ? ZT_NO_STORAGE
                          : zt_new(p, zl_mul(u->piece, f->compute_bytes));
    zt_set_stream(p, GATHER_STREAM);
    zt_resize(p, u->flat, zl_prod(u->piece, p->run->ranks, f->compute_bytes));
    zt_name(p, u->flat, "gathered parameters");
    zt_record_use(p, cast, GATHER_STREAM);
    zt_drop(p, &cast);
    zt_set_stream(p, before);
}

static void shard_again(zt_process *p, unit *u)
{
    if (u->gathered) {
        zt_record_use(p, u->flat, zt_stream(p));
        zt_resize(p, u->flat, 0);
        u->gathered = false;
    }
}

/* split_with_sizes backward: pieces without a gradient, the padding, are zeros. */
static void join_gradients(zt_process *p, void *context, zt_tensor *gradient, size_t count,
                           zt_tensor *result)
{
    const unit *u = context;
    zt_storage *zeros = zt_arena(p, u->params, sizeof *zeros);
    for (uint32_t i = 1; i < u->params; i++) {
        const uint64_t end = zl_add(u->offset[i - 1], zt_param_elements(u->param[i - 1]));
        if (u->offset[i] > end) {
            zeros[i] = zt_new(p, zl_mul(u->offset[i] - end, u->fsdp->compute_bytes));
        }
    }
    *result = (zt_tensor){.storage = zt_new(p, zl_mul(u->end, u->fsdp->compute_bytes)),
                          .elements = u->end,
                          .element_bytes = u->fsdp->compute_bytes};
    for (uint32_t i = 0; i < u->params; i++) {
        zt_drop(p, &zeros[i]);
    }
    for (size_t i = 0; i < count; i++) { /* made on the default stream */
        zt_record_use(p, gradient[i].storage, GATHER_STREAM);
    }
}

/* Views of the flat parameter become the parameters of the operations. */
static void make_views(zt_process *p, unit *u)
{
    zt_tensor **view = zt_arena(p, u->params, sizeof(zt_tensor *));
    const uint32_t before = zt_set_stream(p, GATHER_STREAM);
    for (uint32_t i = 0; i < u->params; i++) {
        zt_tensor *value = &u->param[i]->value;
        view[i] = value;
        zt_drop(p, &value->storage);
        value->storage = zt_hold(p, u->flat);
        value->elements = zt_param_elements(u->param[i]);
        value->element_bytes = u->fsdp->compute_bytes;
        value->leaf = NULL;
    }
    zt_custom(p, u->leaf, view, u->params, join_gradients, u);
    zt_set_stream(p, before);
}

/* ---- reduction ---- */

/* The hook behind the flat gradient. */
static void reduce(zt_process *p, void *context, zt_tensor *gradient)
{
    unit *u = context;
    const fsdp1 *f = u->fsdp;
    const uint64_t numbers = zl_mul(u->piece, p->run->ranks);
    shard_again(p, u);
    const uint32_t before = zt_set_stream(p, REDUCE_STREAM);
    zt_storage cast = f->reduce_bytes == f->compute_bytes
                          ? ZT_NO_STORAGE
                          : zt_new(p, zl_mul(u->end, f->reduce_bytes));
    zt_storage padded =
        numbers == u->end ? ZT_NO_STORAGE : zt_new(p, zl_mul(numbers, f->reduce_bytes));
    zt_storage piece = zt_new(p, zl_mul(u->piece, f->reduce_bytes));
    zt_name(p, cast, "flat copy of gradients to reduce");
    zt_name(p, padded, "flat copy of gradients to reduce");
    zt_name(p, piece, "gradient shards");
    if (u->gradient == ZT_NO_STORAGE) {
        u->gradient = zt_hold(p, piece);
    }
    zt_drop(p, &piece);
    zt_drop(p, &padded);
    zt_drop(p, &cast);
    zt_record_use(p, gradient->storage, REDUCE_STREAM);
    zt_release(p, gradient);
    zt_set_stream(p, before);
}

/* ---- hooks ---- */

static void end_of_backward(zt_process *p, void *context)
{
    fsdp1 *f = context;
    for (uint32_t i = 0; i < f->count; i++) {
        unit *u = nth_unit(f, i);
        shard_again(p, u);
        u->in_backward = false;
        u->position = -1;
    }
    f->ordered = 0;
    f->callback_queued = false;
}

/* Gathers the unit, if that has not been done ahead, and ahead the one that forward ran before
 * (BackwardPrefetch.BACKWARD_PRE, FSDP's own default). */
static void on_pre_backward(zt_process *p, void *context, zt_tensor *gradient)
{
    unit *u = context;
    fsdp1 *f = u->fsdp;
    (void)gradient;
    if (u->in_backward) {
        return;
    }
    if (!f->callback_queued) {
        f->callback_queued = true;
        zt_queue_callback(p, end_of_backward, f);
    }
    u->in_backward = true;
    gather(p, u);
    if (u->position > 0 && !p->run->no_prefetch) {
        gather(p, f->order[u->position - 1]);
    }
}

/* init_flat_param_attributes(): tensors are made and emptied for their sizes. */
static void start(zt_process *p, fsdp1 *f)
{
    const bool casts = f->compute_bytes != f->param_bytes;
    for (uint32_t i = 0; i < f->count; i++) {
        const unit *u = nth_unit(f, i);
        const uint64_t numbers = zl_mul(u->piece, p->run->ranks);
        if (casts) {
            zt_touch(p, zl_mul(u->piece, f->compute_bytes));
        }
        zt_touch(p, zl_mul(numbers, f->compute_bytes));
        if (casts) {
            zt_touch(p, zl_mul(numbers, f->param_bytes));
        }
    }
    f->started = true;
}

/* Gradients that zero_grad() took from the parameters live on in the flat ones until here. */
static void drop_old_gradients(zt_process *p, fsdp1 *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        zt_drop(p, &nth_unit(f, i)->gradient);
    }
}

static void before_forward(zt_process *p, uint64_t micro_step)
{
    fsdp1 *f = p->user;
    if (!f->started) {
        start(p, f);
    }
    if (micro_step == 0) {
        drop_old_gradients(p, f);
    }
}

/* The wrapper is outside of the checkpoint, so nothing happens while a layer is recomputed. */
static void enter(zt_process *p, zt_module *m, zt_tensor *input, size_t count)
{
    unit *u = m->user;
    (void)input;
    (void)count;
    if (u == NULL || u->in_backward) {
        return;
    }
    gather(p, u);
    make_views(p, u);
}

static void leave(zt_process *p, zt_module *m, zt_tensor *output, size_t count)
{
    unit *u = m->user;
    if (u == NULL || u->in_backward) {
        return;
    }
    fsdp1 *f = u->fsdp;
    if (!is_root(u)) {
        shard_again(p, u);
    }
    u->position = (int32_t)f->ordered;
    f->order[f->ordered++] = u;
    for (size_t i = 0; i < count; i++) {
        zt_hook_gradient(p, output[i], on_pre_backward, u);
    }
}

static void zero_grad(zt_process *p)
{
    (void)p; /* the flat parameters still hold the gradients */
}

static zt_nccl nccl(const zt_process *p)
{
    const fsdp1 *f = p->user;
    return p->run->simulated ? (zt_nccl){0} : (zt_nccl){.communicators = 1, .used = f->started};
}

const zt_framework zt_fsdp1 = {
    .init = init,
    .enter = enter,
    .leave = leave,
    .before_forward = before_forward,
    .zero_grad = zero_grad,
    .nccl = nccl,
};
