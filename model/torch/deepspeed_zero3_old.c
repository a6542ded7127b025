/* DeepSpeedZeroOptimizer_Stage3 of 0.5.x: runtime/zero/stage3.py of that time. Buckets appear with
 * each backward; gradients leave their shards one reduction late; the trace of modules is off by
 * one step, so that little is prefetched and nothing is kept for reuse. */
#include "torch/deepspeed_zero3.h"

/* ---- PrefetchCoordinator and PartitionedParameterCoordinator ---- */

typedef struct old_param {
    bool present;
    bool in_flight;
    uint32_t active; /* entries of modules less their exits */
} old_param;

struct zt_old_coordinator {
    old_param *param;
    uint32_t *trace; /* modules in order of entry, the first step only */
    uint32_t steps, capacity;
    bool complete;
    uint32_t step;
    uint32_t *recent; /* per module: the step of its last entry */
    bool in_flight;
    uint64_t available; /* elements */
    uint32_t *set;
};

struct zt_old_coordinator *zt_old_coordinator_new(zt_process *p)
{
    struct zt_old_coordinator *const c = zt_arena(p, 1, sizeof *c);
    /* A module is entered in forward, in recomputation, and in backward once per output. */
    enum { ENTRIES_PER_MODULE = 16 };
    c->capacity = p->module_count * ENTRIES_PER_MODULE;
    c->param = zt_arena(p, p->param_count, sizeof *c->param);
    c->trace = zt_arena(p, c->capacity, sizeof *c->trace);
    c->recent = zt_arena(p, p->module_count, sizeof *c->recent);
    c->set = zt_arena(p, p->param_count, sizeof *c->set);
    return c;
}

static void synchronize(zt_process *p, struct zt_old_coordinator *c)
{
    for (uint32_t i = 0; i < p->param_count; i++) {
        if (c->param[i].in_flight) {
            zt_ds_gather_wait(p, i);
            c->param[i].in_flight = false;
        }
    }
    c->in_flight = false;
}

static void gather(zt_process *p, struct zt_old_coordinator *c, uint32_t count)
{
    if (count == 0) {
        return;
    }
    zt_ds_gather_start(p, c->set, count);
    for (uint32_t i = 0; i < count; i++) {
        c->param[c->set[i]].present = true;
        c->param[c->set[i]].in_flight = true;
        c->available = zl_add(c->available, zt_ds_of(p)->param[c->set[i]].x);
    }
    c->in_flight = true;
}

static void fetch(zt_process *p, struct zt_old_coordinator *c, const zt_coordinator_module *m)
{
    uint32_t count = 0;
    bool wait = false;
    for (uint32_t i = 0; i < m->params; i++) {
        old_param *const s = &c->param[m->param[i]];
        s->active++;
        wait = wait || s->in_flight;
        if (!s->present) {
            c->set[count++] = m->param[i];
        }
    }
    gather(p, c, count);
    if (count > 0 || wait) {
        synchronize(p, c);
    }
}

/* From the current step on, until the bucket is full; only where the trace names this module. */
static void prefetch(zt_process *p, struct zt_old_coordinator *c, uint32_t module)
{
    const zt_ds *ds = zt_ds_of(p);
    const uint64_t most = ds->config->prefetch_bucket_size;
    uint64_t elements = 0;
    uint32_t count = 0;
    if (!c->complete || c->in_flight || c->available >= ds->config->max_live_parameters ||
        c->step >= c->steps || c->trace[c->step] != module) {
        return;
    }
    for (uint32_t step = c->step; step < c->steps && (elements < most || count == 0); step++) {
        const zt_coordinator_module *m = &ds->zero3->module[c->trace[step]];
        for (uint32_t i = 0; i < m->params && (elements < most || count == 0); i++) {
            old_param *const s = &c->param[m->param[i]];
            if (!s->present) {
                s->present = true; /* once in the set */
                c->set[count++] = m->param[i];
                elements = zl_add(elements, ds->param[m->param[i]].x);
            }
        }
    }
    gather(p, c, count);
}

void zt_old_coordinator_enter(zt_process *p, uint32_t module)
{
    struct zt_old_coordinator *const c = zt_ds_of(p)->zero3->old;
    if (!c->complete && c->steps < c->capacity) {
        c->trace[c->steps++] = module;
    }
    fetch(p, c, &zt_ds_of(p)->zero3->module[module]);
    prefetch(p, c, module);
    c->recent[module] = c->step++;
}

void zt_old_coordinator_begin(zt_process *p)
{
    zt_ds_of(p)->zero3->old->step = 0;
}

/* Whether the module is used again within the reuse distance: known only if the trace has it at the
 * step of its last entry. */
static bool keeps(zt_process *p, const struct zt_old_coordinator *c, uint32_t module)
{
    const zt_ds *ds = zt_ds_of(p);
    const uint32_t at = c->recent[module];
    uint64_t distance = 0;
    if (!c->complete || at >= c->steps || c->trace[at] != module) {
        return false;
    }
    for (uint32_t step = c->step; step < c->steps; step++) {
        if (c->trace[step] == module) {
            return distance < ds->config->max_reuse_distance;
        }
        const zt_coordinator_module *m = &ds->zero3->module[c->trace[step]];
        for (uint32_t i = 0; i < m->params; i++) {
            distance = zl_add(distance, ds->param[m->param[i]].x);
        }
    }
    return false;
}

static void release(zt_process *p, struct zt_old_coordinator *c, uint32_t param)
{
    if (c->param[param].present && !c->param[param].in_flight) {
        const uint64_t x = zt_ds_of(p)->param[param].x;
        c->available -= zl_min(c->available, x);
        zt_ds_gather_release(p, param);
        c->param[param].present = false;
    }
}

void zt_old_coordinator_exit(zt_process *p, uint32_t module)
{
    const zt_ds *ds = zt_ds_of(p);
    struct zt_old_coordinator *const c = ds->zero3->old;
    const zt_coordinator_module *m = &ds->zero3->module[module];
    const bool kept = keeps(p, c, module);
    for (uint32_t i = 0; i < m->params; i++) {
        old_param *const s = &c->param[m->param[i]];
        s->active -= s->active > 0 ? 1 : 0;
        if (s->active == 0 && !kept && !ds->zero3->param[m->param[i]].persists) {
            release(p, c, m->param[i]);
        }
    }
}

/* _partition_all_parameters, after loss.backward(). */
static void release_all(zt_process *p)
{
    struct zt_old_coordinator *const c = zt_ds_of(p)->zero3->old;
    for (uint32_t i = 0; i < p->param_count; i++) {
        c->param[i].active = 0;
        release(p, c, i);
    }
}

/* ---- init ---- */

static void join_shards(zt_process *p, const zt_ds *ds, zt_ds_sub_group *g)
{
    zt_ds_zero3 *const z = ds->zero3;
    for (uint32_t i = 0; i < g->params; i++) {
        zt_drop(p, &z->shard[z->trained[g->first + i]->param->index]);
    }
    if (z->offload_param) {
        zt_ds_host_pinned(p, zl_mul(ds->width, g->shards));
        return;
    }
    g->low = zt_ds_new(p, zl_mul(ds->width, g->shards), "parameter shards");
    for (uint32_t i = 0; i < g->params; i++) {
        z->shard[z->trained[g->first + i]->param->index] = zt_hold(p, g->low);
    }
}

static void make_master(zt_process *p, const zt_ds *ds, zt_ds_sub_group *g)
{
    if (ds->zero3->offload_optimizer) {
        zt_ds_host_pageable(p, zl_mul(4, g->shards));
        return;
    }
    zt_storage clone = zt_new(p, zl_mul(ds->width, g->shards));
    g->high = zt_ds_new(p, zl_mul(4, g->shards), "fp32 masters");
    zt_drop(p, &clone);
    zt_ds_updater_add(p, &g->updater, g->shards);
}

/* One step on zero gradients. */
static void make_states(zt_process *p, const zt_ds *ds)
{
    zt_ds_zero3 *const z = ds->zero3;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < z->groups; i++) {
        largest = zl_max(largest, z->group[i].shards);
        if (z->offload_optimizer) {
            zt_ds_host_pinned(p, zl_mul(4, z->group[i].shards));
            zt_ds_host_pageable(p, zl_mul(8, z->group[i].shards));
            z->group[i].updater.started = true;
        }
    }
    zt_storage zeros = zt_new(p, z->offload_optimizer ? 0 : zl_mul(4, largest));
    for (uint32_t i = 0; i < z->groups && !z->offload_optimizer; i++) {
        zt_ds_updater_step(p, &z->group[i].updater);
    }
    zt_drop(p, &zeros);
}

/* Offload: two buffers for the gradient of the largest shard. */
static void make_staging(zt_process *p, const zt_ds *ds)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < ds->zero3->trained_count; i++) {
        largest = zl_max(largest, zt_ds_shard_elements(ds, ds->zero3->trained[i]));
    }
    for (int i = 0; i < 2; i++) {
        (void)zt_new(p, zl_mul(ds->width, largest));
    }
}

static void init(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    zt_ds_zero3 *const z = ds->zero3;
    zt_ds_zero3_bring(p, ds);
    for (uint32_t i = 0; i < z->groups; i++) {
        join_shards(p, ds, &z->group[i]);
    }
    for (uint32_t i = 0; i < z->groups; i++) {
        make_master(p, ds, &z->group[i]);
    }
    make_states(p, ds);
    if (z->offload_optimizer) {
        make_staging(p, ds);
    }
}

/* ---- gradients ---- */

static void before_backward(zt_process *p)
{
    const zt_ds *ds = zt_ds_of(p);
    const uint32_t buffers = ds->config->overlap_comm ? 2 : 1;
    for (uint32_t i = 0; i < buffers && ds->config->contiguous_gradients; i++) {
        ds->zero3->old_bucket[i] =
            zt_ds_new(p, zl_mul(ds->width, ds->config->reduce_bucket_size), "ipg bucket");
    }
    ds->zero3->old_index = 0;
}

/* partition_previous_reduced_grads: what the last reduction left becomes part of the shards'
 * gradients. */
static void keep_previous(zt_process *p, const zt_ds *ds)
{
    zt_ds_zero3 *const z = ds->zero3;
    for (uint32_t i = 0; i < z->groups && z->previous_count > 0; i++) {
        if (z->group[i].gradients == ZT_NO_STORAGE && !z->offload_optimizer) {
            z->group[i].gradients =
                zt_ds_new(p, zl_mul(ds->width, z->group[i].shards), "gradients of the partition");
        }
    }
    for (uint32_t i = 0; i < z->previous_count; i++) {
        zt_clear_grad(p, z->previous[i]->param);
    }
    z->previous_count = 0;
}

/* _reduce_scatter_gradient, one parameter after the other: PyTorch flattens the list of parts, the
 * last ones of which are padding. */
static void reduce_scatter(zt_process *p, const zt_ds *ds, const zt_ds_param *d)
{
    const uint64_t shard = zl_mul(ds->width, zt_ds_shard_elements(ds, d));
    zt_storage pad = zt_new(p, d->x % ds->ranks != 0 ? shard : 0);
    zt_touch(p, zl_mul(shard, ds->ranks));
    zt_drop(p, &pad);
}

static void flush(zt_process *p, const zt_ds *ds)
{
    zt_ds_zero3 *const z = ds->zero3;
    const uint32_t before = zt_set_stream(p, z->reduce_stream);
    keep_previous(p, ds);
    for (uint32_t i = 0; i < z->count; i++) {
        if (ds->config->reduce_scatter) {
            reduce_scatter(p, ds, z->waiting[i]);
        }
        z->previous[z->previous_count++] = z->waiting[i];
    }
    zt_set_stream(p, before);
    z->count = 0;
    z->filled = 0;
}

static void gradient(zt_process *p, zt_param *param)
{
    const zt_ds *ds = zt_ds_of(p);
    zt_ds_zero3 *const z = ds->zero3;
    zt_ds_param *const d = &ds->param[param->index];
    const uint64_t size = ds->config->reduce_bucket_size;
    if (z->filled > 0 && zl_add(z->filled, d->x) > size) {
        flush(p, ds);
        z->old_index = ds->config->overlap_comm ? 1 - z->old_index : 0;
    }
    if (d->x <= size && ds->config->contiguous_gradients) {
        zt_drop(p, &param->grad.storage);
        param->grad.storage = zt_hold(p, z->old_bucket[z->old_index]);
    }
    z->waiting[z->count++] = d;
    z->filled = zl_add(z->filled, d->x);
}

static void after_backward(zt_process *p)
{
    const zt_ds *ds = zt_ds_of(p);
    zt_ds_zero3 *const z = ds->zero3;
    release_all(p);
    flush(p, ds);
    keep_previous(p, ds);
    for (uint32_t i = 0; i < 2; i++) {
        zt_drop(p, &z->old_bucket[i]);
    }
}

/* ---- step ---- */

static void drop_gradients(zt_process *p, const zt_ds *ds)
{
    for (uint32_t i = 0; i < ds->zero3->groups; i++) {
        zt_drop(p, &ds->zero3->group[i].gradients);
    }
}

/* x.float().sum() and, if nothing overflowed, norms in double precision, shard by shard. */
static void check_and_norm(zt_process *p, const zt_ds *ds)
{
    const zt_ds_zero3 *z = ds->zero3;
    for (uint32_t i = 0; i < z->trained_count; i++) {
        zt_storage wide = zt_ds_new(p, zl_mul(4, z->counts[i]), "fp32 copy of a gradient shard");
        zt_drop(p, &wide);
    }
    if (!ds->skips) {
        zt_ds_norm(p, z->counts, z->trained_count);
    }
}

static void update(zt_process *p, const zt_ds *ds, zt_ds_sub_group *g)
{
    zt_storage flat = zt_new(p, ds->width == 4 ? 0 : zl_mul(ds->width, g->shards));
    zt_storage wide = zt_ds_new(p, zl_mul(4, g->shards), "fp32 gradient of the step");
    zt_drop(p, &flat);
    zt_drop(p, &g->gradients);
    zt_ds_updater_step(p, &g->updater);
    zt_drop(p, &wide);
}

static void gather_persistent(zt_process *p, const zt_ds *ds)
{
    zt_ds_zero3 *const z = ds->zero3;
    for (uint32_t i = 0; i < p->param_count; i++) {
        if (z->param[i].persists) {
            const uint64_t shard = zl_mul(ds->width, zt_ds_shard_elements(ds, &ds->param[i]));
            zt_storage whole = zt_ds_new(p, zl_mul(shard, ds->ranks), "persistent parameters");
            zt_ds_point(p, p->named[i], whole);
            zt_drop(p, &whole);
            z->old->param[i].present = true;
        }
    }
}

static void step(zt_process *p)
{
    const zt_ds *ds = zt_ds_of(p);
    zt_ds_zero3 *const z = ds->zero3;
    z->old->complete = true;
    z->old->step = 0;
    if (!z->offload_optimizer) {
        check_and_norm(p, ds);
    }
    if (ds->skips) {
        drop_gradients(p, ds);
        return;
    }
    for (uint32_t i = 0; i < z->groups && !z->offload_optimizer; i++) {
        update(p, ds, &z->group[i]);
    }
    gather_persistent(p, ds);
}

const zt_ds_wrapper_table zt_ds_zero3_old_table = {.name = "DeepSpeedZeroOptimizer_Stage3",
                                                   .init = init,
                                                   .gradient = gradient,
                                                   .before_backward = before_backward,
                                                   .after_backward = after_backward,
                                                   .step = step};
