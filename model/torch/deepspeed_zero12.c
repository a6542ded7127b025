/* DeepSpeedZeroOptimizer, runtime/zero/stage_1_and_2.py: flat parameters on every rank; gradients
 * go through a bucket to their owners, who keep those of their partition until the step. */
#include <string.h>

#include "torch/deepspeed.h"
#include "zeroledger/bytes.h"

enum { REDUCE_STREAM = 1 }; /* with overlap_comm */

/* A run of the bucket that belongs to one rank. */
typedef struct slice {
    uint64_t owner;
    uint64_t elements;
} slice;

struct zt_ds_zero12 {
    bool bucketed; /* gradients are copied into the bucket: contiguous_gradients */
    bool overlap;
    bool sharded_gradients; /* stage 2 */
    bool offload;
    zt_storage bucket[2];
    uint32_t index;
    bool open;             /* a gradient hook of this micro-step has run */
    uint64_t filled;       /* elements */
    zt_ds_param **waiting; /* in the bucket, in order of arrival */
    uint32_t count;
    zt_storage partition; /* grads_in_partition of this micro-step */
    zt_storage averaged;  /* of this and earlier micro-steps, until the step */
    zt_storage *own;      /* without bucket: gradients of my parameters, until the step */
    zt_storage pad[ZT_DS_GROUPS_MAX];
    zt_storage staging; /* offload: temp_grad_buffer_for_gpu_offload */
    zt_storage *norms;  /* offload: per parameter */
    slice *slice;
    uint64_t *local; /* elements of tensors, or parts of them, in this rank's partition */
    uint32_t locals;
};

/* ---- init ---- */

static void free_params(zt_process *p, const zt_ds_group *g)
{
    for (uint32_t i = 0; i < g->params; i++) {
        zt_drop(p, &g->param[i]->param->value.storage);
    }
}

/* The group's parameters leave the device (or not, since 0.18.7) and come back as views of one flat
 * tensor. */
static void flatten(zt_process *p, const zt_ds *ds, zt_ds_group *g)
{
    const uint64_t bytes = zl_mul(ds->width, g->flat);
    zt_storage *const stub = zt_arena(p, g->params, sizeof *stub);
    if (ds->release.flatten_on_device) {
        zt_reset_peak(p);
        zt_storage pad = zt_new(p, zl_mul(ds->width, g->flat - g->elements));
        g->low = zt_ds_new(p, bytes, "parameters");
        zt_drop(p, &pad);
        free_params(p, g);
    } else {
        for (uint32_t i = 0; i < g->params; i++) {
            stub[i] = ds->release.flatten_by_scalars ? zt_new(p, 4) : ZT_NO_STORAGE;
            zt_drop(p, &g->param[i]->param->value.storage);
        }
        zt_release_cached(p);
        if (ds->release.flatten_by_scalars) {
            zt_reset_peak(p);
        }
        g->low = zt_ds_new(p, bytes, "parameters");
    }
    for (uint32_t i = 0; i < g->params; i++) {
        zt_ds_point(p, g->param[i]->param, g->low);
        zt_drop(p, &stub[i]);
    }
}

static void make_master(zt_process *p, const zt_ds *ds, zt_ds_group *g)
{
    zt_storage copy = zt_new(
        p, ds->width == 4 && !ds->zero12->offload ? 0 : zl_mul(ds->width, g->local)); /* .clone() */
    if (ds->zero12->offload) {
        zt_ds_host_pinned(p, ds->config->pin_optimizer ? zl_mul(4, g->local) : 0);
        zt_ds_host_pageable(p, ds->config->pin_optimizer ? 0 : zl_mul(4, g->local));
        zt_ds_host_pinned(p, zl_mul(ds->width, g->local));
    } else {
        g->high = zt_ds_new(p, zl_mul(4, g->local), "fp32 masters");
    }
    zt_drop(p, &copy);
}

static void make_staging(zt_process *p, zt_ds *ds)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < p->param_count; i++) {
        largest = ds->param[i].group != ZT_DS_NO_GROUP ? zl_max(largest, ds->param[i].x) : largest;
    }
    ds->zero12->staging =
        zt_ds_new(p, zl_mul(ds->width, largest), "staging of offloaded gradients");
    zt_ds_host_pinned(p, zl_mul(ds->width, largest)); /* temp_grad_buffer */
}

/* initialize_optimizer_states: one step on zero gradients, or (since 0.13.2) only these. */
static void make_states(zt_process *p, zt_ds *ds)
{
    for (uint32_t i = 0; i < ds->groups; i++) {
        zt_ds_group *const g = &ds->group[i];
        if (ds->zero12->offload) {
            zt_ds_host_pinned(p, zl_mul(4, g->local)); /* fp32 gradients */
            continue;
        }
        g->grads = zt_ds_new(p, zl_mul(4, g->local), "zero gradients");
        zt_ds_updater_add(p, &ds->updater[i], g->local);
    }
    for (uint32_t i = 0; i < ds->groups; i++) {
        if (!ds->release.lazy_states && !ds->zero12->offload) {
            zt_ds_updater_step(p, &ds->updater[i]);
        }
    }
    for (uint32_t i = 0; i < ds->groups; i++) {
        zt_drop(p, &ds->group[i].grads);
    }
}

static void list_local(zt_ds_zero12 *z, const zt_ds_group *g)
{
    for (uint32_t i = 0; i < g->params; i++) {
        if (g->param[i]->count > 0) {
            z->local[z->locals++] = g->param[i]->count;
        }
    }
}

static void init(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    zt_ds_zero12 *const z = zt_arena(p, 1, sizeof *z);
    const bool plain = ds->config->stage == 1 && ds->release.stage1_plain;
    ds->zero12 = z;
    z->offload = ds->config->offload_optimizer != ZL_OFFLOAD_NONE;
    z->bucketed = (ds->config->contiguous_gradients || z->offload) && !plain;
    z->overlap = ds->config->overlap_comm && !plain;
    z->sharded_gradients = ds->config->stage == 2;
    z->waiting = zt_arena(p, p->param_count, sizeof(zt_ds_param *));
    z->own = zt_arena(p, p->param_count, sizeof *z->own);
    z->norms = zt_arena(p, p->param_count, sizeof *z->norms);
    z->local = zt_arena(p, p->param_count, sizeof *z->local);
    for (uint32_t i = 0; i < ds->groups; i++) {
        list_local(z, &ds->group[i]);
    }
    z->slice = zt_arena(p, zl_add(p->param_count, ds->ranks) + 1, sizeof *z->slice);
    zt_ds_to_device(p);
    if (ds->release.barrier_tensor && ds->real) {
        (void)zt_new(p, 1);
    }
    for (uint32_t i = 0; i < ds->groups; i++) {
        flatten(p, ds, &ds->group[i]);
        make_master(p, ds, &ds->group[i]);
    }
    if (z->offload) {
        make_staging(p, ds);
    }
    make_states(p, ds);
}

/* ---- the bucket ---- */

static void open_bucket(zt_process *p)
{
    const zt_ds *ds = zt_ds_of(p);
    zt_ds_zero12 *const z = ds->zero12;
    z->open = true;
    z->index = 0;
    for (uint32_t i = 0; i < 2; i++) {
        zt_drop(p, &z->bucket[i]);
    }
    for (uint32_t i = 0; z->bucketed && i < (z->overlap ? 2U : 1U); i++) {
        z->bucket[i] =
            zt_ds_new(p, zl_mul(ds->width, ds->config->reduce_bucket_size), "ipg bucket");
    }
}

static void before_backward(zt_process *p)
{
    open_bucket(p);
}

/* The slices of the waiting gradients, neighbours of one owner merged. */
static uint32_t list_slices(const zt_ds *ds, slice *out)
{
    const zt_ds_zero12 *z = ds->zero12;
    uint32_t count = 0;
    for (uint32_t i = 0; i < z->count; i++) {
        const zt_ds_param *d = z->waiting[i];
        const uint64_t local = ds->group[d->group].local;
        for (uint64_t at = d->offset, end = d->offset + d->x; at < end;) {
            const uint64_t owner = at / local;
            const uint64_t next = zl_min(end, zl_mul(owner + 1, local));
            if (count > 0 && out[count - 1].owner == owner) {
                out[count - 1].elements += next - at;
            } else {
                out[count++] = (slice){.owner = owner, .elements = next - at};
            }
            at = next;
        }
    }
    return count;
}

/* allreduce_and_scatter: runs of slices of more than a bucket's size each; a run of several slices
 * is flattened into a copy. */
static void reduce_runs(zt_process *p, const slice *s, uint32_t count, zt_storage buffer)
{
    const zt_ds *ds = zt_ds_of(p);
    uint64_t elements = 0;
    uint32_t first = 0;
    bool mine = false;
    for (uint32_t i = 0; i < count; i++) {
        elements = zl_add(elements, s[i].elements);
        mine = mine || s[i].owner == p->rank;
        if (elements <= ds->config->reduce_bucket_size && i + 1 < count) {
            continue;
        }
        const bool copied = i > first;
        zt_storage flat = zt_ds_new(p, copied ? zl_mul(ds->width, elements) : 0,
                                    "flat copy of the bucket to reduce");
        zt_drop(p, &flat);
        if (ds->zero12->overlap && ds->release.records_buckets && (mine || !copied)) {
            zt_record_use(p, buffer, REDUCE_STREAM);
        }
        elements = 0;
        first = i + 1;
        mine = false;
    }
}

/* allreduce_no_retain, one destination after the other: a copy where it has several slices. */
static void reduce_by_owner(zt_process *p, const slice *s, uint32_t count)
{
    const zt_ds *ds = zt_ds_of(p);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t elements = s[i].elements;
        uint32_t same = 1;
        for (uint32_t k = 0; k < count && same > 0; k++) {
            if (k != i && s[k].owner == s[i].owner) {
                same = k < i ? 0 : same + 1; /* an earlier one has taken it along */
                elements = zl_add(elements, s[k].elements);
            }
        }
        zt_touch(p, same > 1 ? zl_mul(ds->width, elements) : 0);
    }
}

/* average_tensor: before 0.12.4 slices are reduced where they are. */
static void average(zt_process *p, zt_storage buffer)
{
    const zt_ds *ds = zt_ds_of(p);
    zt_ds_zero12 *const z = ds->zero12;
    if (!ds->config->reduce_scatter || !ds->release.gather_in_place) {
        return;
    }
    const uint32_t count = list_slices(ds, z->slice);
    if (ds->release.multi_rank_reduce) {
        reduce_runs(p, z->slice, count, buffer);
    } else {
        reduce_by_owner(p, z->slice, count);
    }
}

/* async_inplace_copy_grad_to_fp32_buffer_from_gpu and what goes before it. */
static void offload(zt_process *p, const zt_ds_param *d)
{
    zt_ds_zero12 *const z = zt_ds_of(p)->zero12;
    if (!zt_ds_of(p)->boundary) {
        return;
    }
    zt_storage wide = zt_new(p, zl_mul(8, d->count));
    z->norms[d->param->index] = zt_new(p, 8);
    zt_touch_full_reduction(p, d->count, 8);
    zt_drop(p, &wide);
    zt_ds_overflow(p, &d->x, 1);
    zt_touch(p, zl_mul(4, d->count));
}

/* copy_grads_in_partition: all gradients of my partition share one tensor. */
static void keep(zt_process *p, const zt_ds_param *d)
{
    const zt_ds *ds = zt_ds_of(p);
    zt_ds_zero12 *const z = ds->zero12;
    if (z->offload) {
        offload(p, d);
        return;
    }
    if (z->partition == ZT_NO_STORAGE) {
        uint64_t elements = 0;
        for (uint32_t i = 0; i < p->param_count; i++) {
            elements = zl_add(elements, ds->param[i].count > 0 ? ds->param[i].x : 0);
        }
        z->partition = zt_ds_new(p, zl_mul(ds->width, elements), "gradients of the partition");
    }
    zt_drop(p, &d->param->grad.storage);
    d->param->grad.storage = zt_hold(p, z->partition);
}

/* buffered_reduce_fallback: a flat copy of the waiting gradients. */
static void reduce_flat(zt_process *p)
{
    const zt_ds *ds = zt_ds_of(p);
    const zt_ds_zero12 *z = ds->zero12;
    zt_touch(p, z->count > 1 ? zl_mul(ds->width, z->filled) : 0);
}

static bool is_oversize(const zt_ds *ds, const zt_ds_param *d)
{
    return d->x > ds->config->reduce_bucket_size;
}

/* reduce_ipg_grads. */
static void flush(zt_process *p)
{
    const zt_ds *ds = zt_ds_of(p);
    zt_ds_zero12 *const z = ds->zero12;
    if (z->count == 0) {
        return;
    }
    const uint32_t before = zt_set_stream(p, z->overlap ? REDUCE_STREAM : ZT_DEFAULT_STREAM);
    if (!z->bucketed) {
        reduce_flat(p);
    } else {
        const bool alone = is_oversize(ds, z->waiting[0]);
        average(p, alone ? z->waiting[0]->param->grad.storage : z->bucket[z->index]);
    }
    for (uint32_t i = 0; i < z->count; i++) {
        const zt_ds_param *d = z->waiting[i];
        if (d->count > 0 && z->bucketed) {
            keep(p, d);
        } else if (d->count == 0 && z->sharded_gradients) {
            zt_clear_grad(p, d->param);
        }
    }
    zt_set_stream(p, before);
    z->count = 0;
    z->filled = 0;
}

/* reduce_independent_p_g_buckets_and_remove_grads. */
static void collect(zt_process *p, zt_ds_param *d)
{
    const zt_ds *ds = zt_ds_of(p);
    zt_ds_zero12 *const z = ds->zero12;
    if (zl_add(z->filled, d->x) > ds->config->reduce_bucket_size) {
        flush(p);
        if (z->bucketed && z->overlap) {
            z->index = 1 - z->index;
        }
    }
    if (z->bucketed && !is_oversize(ds, d)) {
        zt_drop(p, &d->param->grad.storage);
        d->param->grad.storage = zt_hold(p, z->bucket[z->index]);
    }
    z->filled = zl_add(z->filled, d->x);
    z->waiting[z->count++] = d;
}

static void gradient(zt_process *p, zt_param *param)
{
    const zt_ds *ds = zt_ds_of(p);
    zt_ds_zero12 *const z = ds->zero12;
    if (!z->open) {
        open_bucket(p);
    }
    if (z->sharded_gradients || (z->overlap && ds->boundary)) {
        collect(p, &ds->param[param->index]);
    }
}

/* ---- the end of backward ---- */

/* Gradients of my parameters that no bucket holds go on living in a list. */
static void keep_own(zt_process *p, const zt_ds *ds)
{
    zt_ds_zero12 *const z = ds->zero12;
    for (uint32_t i = 0; i < p->param_count; i++) {
        const zt_ds_param *d = &ds->param[i];
        if (d->count > 0 && z->own[i] == ZT_NO_STORAGE) {
            z->own[i] = zt_hold(p, d->param->grad.storage);
        }
    }
}

static void make_pads(zt_process *p, const zt_ds *ds)
{
    for (uint32_t i = 0; i < ds->groups; i++) {
        const zt_ds_group *g = &ds->group[i];
        uint64_t elements = 0;
        for (uint32_t k = 0; k < g->params; k++) {
            elements = zl_add(elements, g->param[k]->count);
        }
        if (g->local > elements) {
            ds->zero12->pad[i] = zt_new(p, zl_mul(ds->width, g->local - elements));
        }
    }
}

/* independent_gradient_partition_epilogue. */
static void epilogue(zt_process *p, const zt_ds *ds)
{
    zt_ds_zero12 *const z = ds->zero12;
    flush(p);
    if (!z->offload && z->bucketed && z->averaged == ZT_NO_STORAGE) {
        z->averaged = zt_hold(p, z->partition);
    } else if (!z->offload && !z->bucketed) {
        keep_own(p, ds);
    }
    if (!z->offload && ds->boundary) {
        make_pads(p, ds);
    }
    for (uint32_t i = 0; i < 2; i++) {
        zt_drop(p, &z->bucket[i]);
    }
    zt_drop(p, &z->partition);
    for (uint32_t i = 0; i < ds->groups; i++) {
        zt_ds_clear_gradients(p, &ds->group[i]);
    }
}

static void after_backward(zt_process *p)
{
    const zt_ds *ds = zt_ds_of(p);
    zt_ds_zero12 *const z = ds->zero12;
    z->open = false;
    if (!z->sharded_gradients && !ds->boundary) {
        return;
    }
    for (uint32_t i = 0; i < ds->groups && !z->sharded_gradients && !z->overlap; i++) {
        for (uint32_t k = 0; k < ds->group[i].params; k++) {
            if (ds->group[i].param[k]->param->grad.storage != ZT_NO_STORAGE) {
                collect(p, ds->group[i].param[k]);
            }
        }
    }
    epilogue(p, ds);
}

/* ---- step ---- */

static void drop_gradients(zt_process *p, const zt_ds *ds, uint32_t group)
{
    zt_ds_zero12 *const z = ds->zero12;
    if (group + 1 == ds->groups) { /* the groups share it */
        zt_drop(p, &z->averaged);
    }
    for (uint32_t i = 0; i < ds->group[group].params; i++) {
        zt_drop(p, &z->own[ds->group[group].param[i]->param->index]);
    }
    zt_drop(p, &z->pad[group]);
}

/* The averaged gradients of a group, where they are one tensor; else ZT_NO_STORAGE. */
static zt_storage lone_gradient(const zt_ds *ds, uint32_t group)
{
    const zt_ds_zero12 *z = ds->zero12;
    const zt_ds_group *g = &ds->group[group];
    zt_storage lone = z->pad[group];
    uint32_t tensors = lone != ZT_NO_STORAGE ? 1 : 0;
    for (uint32_t i = 0; i < g->params; i++) {
        const zt_ds_param *d = g->param[i];
        if (d->count > 0) {
            lone = z->bucketed ? z->averaged : z->own[d->param->index];
            tensors++;
        }
    }
    return tensors == 1 ? lone : ZT_NO_STORAGE;
}

/* flatten(averaged gradients).to(fp32). PyTorch's flatten_dense_tensors copies a list into one
 * tensor, but only views the tensor of a list of one; gradients in fp32 are not converted. */
static void widen(zt_process *p, zt_ds *ds, uint32_t group)
{
    zt_ds_group *const g = &ds->group[group];
    const bool wide = ds->width == 4;
    zt_storage flat = zt_hold(p, lone_gradient(ds, group));
    if (flat == ZT_NO_STORAGE) {
        flat = zt_ds_new(p, zl_mul(ds->width, g->local),
                         wide ? "fp32 gradient of the step" : "flat gradient of the step");
    }
    if (wide) {
        g->grads = flat;
        return;
    }
    g->grads = zt_ds_new(p, zl_mul(4, g->local), "fp32 gradient of the step");
    zt_drop(p, &flat);
}

static void update(zt_process *p, zt_ds *ds)
{
    for (uint32_t i = 0; i < ds->groups && !ds->release.step_by_group; i++) {
        widen(p, ds, i);
        drop_gradients(p, ds, i);
    }
    for (uint32_t i = 0; i < ds->groups; i++) {
        if (ds->release.step_by_group) {
            widen(p, ds, i);
            drop_gradients(p, ds, i);
        }
        zt_ds_updater_step(p, &ds->updater[i]);
        if (ds->release.step_by_group) {
            zt_drop(p, &ds->group[i].grads);
        }
    }
    for (uint32_t i = 0; i < ds->groups; i++) {
        zt_drop(p, &ds->group[i].grads);
    }
}

/* dist.all_gather with a list: PyTorch gathers into a flat copy, shard by shard. */
static void gather_list(zt_process *p, const zt_ds *ds, const zt_ds_group *g)
{
    const uint64_t shards =
        zl_max(1, zl_mul(g->local, ds->ranks) / zl_max(1, ds->config->allgather_bucket_size));
    zt_storage flat = zt_ds_new(p, zl_prod(ds->width, g->local / shards, ds->ranks),
                                "flat copy of the parameters to gather");
    zt_drop(p, &flat);
}

static void take_norm(zt_process *p, zt_ds *ds)
{
    if (ds->zero12->offload) {
        zt_touch(p, 4); /* FloatTensor([sum of .item()]) */
    } else {
        zt_ds_norm(p, ds->zero12->local, ds->zero12->locals);
    }
    if (ds->release.norms_on_device && !ds->zero12->offload) {
        zt_ds_norm_scalars(p, 4);
    }
    for (uint32_t i = 0; i < p->param_count; i++) {
        zt_drop(p, &ds->zero12->norms[i]);
    }
}

static void step(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    zt_ds_zero12 *const z = ds->zero12;
    if (ds->config->check_grad_overflow && !z->offload) {
        zt_ds_overflow(p, z->local, z->locals);
    }
    if (ds->skips) {
        for (uint32_t i = 0; i < ds->groups; i++) {
            drop_gradients(p, ds, i);
        }
        return;
    }
    take_norm(p, ds);
    if (z->offload) {
        for (uint32_t i = 0; i < ds->groups && !ds->updater[i].started; i++) {
            zt_ds_host_pageable(p, zl_mul(8, ds->group[i].local));
            ds->updater[i].started = true;
        }
    } else {
        update(p, ds);
    }
    for (uint32_t i = 0; i < ds->groups && !ds->release.gather_in_place; i++) {
        gather_list(p, ds, &ds->group[i]);
    }
}

const zt_ds_wrapper_table zt_ds_zero12_table = {.name = "DeepSpeedZeroOptimizer",
                                                .init = init,
                                                .gradient = gradient,
                                                .before_backward = before_backward,
                                                .after_backward = after_backward,
                                                .step = step};
