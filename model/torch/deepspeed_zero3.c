/* DeepSpeedZeroOptimizer_Stage3 since 0.6.0: runtime/zero/stage3.py, parameter_offload.py. Every
 * parameter is cut into N equal shards; a coordinator gathers and releases the whole ones;
 * gradients go through a bucket and leave their shard in one flat buffer. */
#include <stdlib.h>

#include "torch/deepspeed_zero3.h"

uint64_t zt_ds_shard_elements(const zt_ds *ds, const zt_ds_param *d)
{
    return zl_ceil_div(d->x, ds->ranks);
}

/* Of the shard, what is not padding. */
static uint64_t real_part(const zt_process *p, const zt_ds *ds, const zt_ds_param *d)
{
    const uint64_t shard = zt_ds_shard_elements(ds, d);
    const uint64_t begin = zl_mul(p->rank, shard);
    return begin < d->x ? zl_min(shard, d->x - begin) : 0;
}

zt_storage zt_ds_zero3_shard(const zt_process *p, uint32_t param)
{
    return zt_ds_of(p)->zero3->shard[param];
}

/* ---- init ---- */

static void list_trained(zt_process *p, const zt_ds *ds, zt_ds_zero3 *z)
{
    z->trained = zt_arena(p, p->param_count, sizeof(zt_ds_param *));
    z->group = zt_arena(p, p->param_count, sizeof *z->group);
    for (uint32_t i = 0; i < ds->groups; i++) {
        const zt_ds_group *g = &ds->group[i];
        zt_ds_sub_group *open = NULL;
        for (uint32_t k = 0; k < g->params; k++) {
            if (open == NULL) {
                open = &z->group[z->groups++];
                open->first = z->trained_count;
            }
            z->trained[z->trained_count++] = g->param[k];
            open->params++;
            open->shards = zl_add(open->shards, zt_ds_shard_elements(ds, g->param[k]));
            if (open->shards >= ds->config->sub_group_size) {
                open = NULL;
            }
        }
    }
}

uint64_t zt_ds_all_shards(const zt_ds_zero3 *z)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < z->groups; i++) {
        sum = zl_add(sum, z->group[i].shards);
    }
    return sum;
}

/* mark_persistent_parameters. */
static void list_params(zt_process *p, const zt_ds *ds, zt_ds_zero3 *z)
{
    const zl_ds_config *config = ds->config;
    uint64_t total = 0;
    z->param = zt_arena(p, p->param_count, sizeof *z->param);
    for (uint32_t i = 0; i < p->param_count; i++) {
        const uint64_t x = ds->param[i].x;
        const bool small = ds->release.stage3_rewritten ? x <= config->param_persistence_threshold
                                                        : x < config->param_persistence_threshold;
        const bool persists = small && zl_add(total, x) <= config->model_persistence_threshold;
        total = zl_add(total, persists ? x : 0);
        z->param[i] = (zt_coordinator_param){.elements = x, .persists = persists};
    }
}

static int by_index(const void *a, const void *b)
{
    const uint32_t *x = a;
    const uint32_t *y = b;
    return (*x > *y) - (*x < *y);
}

static void list_modules(zt_process *p, zt_ds_zero3 *z)
{
    z->module = zt_arena(p, p->module_count, sizeof *z->module);
    z->state = zt_arena(p, p->module_count, sizeof *z->state);
    for (uint32_t i = 0; i < p->module_count; i++) {
        zt_module *const m = p->modules[i];
        uint32_t *const own = zt_arena(p, m->params, sizeof *own);
        for (uint32_t k = 0; k < m->params; k++) {
            own[k] = m->param[k]->index;
        }
        qsort(own, m->params, sizeof *own, by_index);
        z->module[i] = (zt_coordinator_module){.param = own, .params = m->params};
        z->state[i].module = m;
        m->user = &z->state[i];
    }
}

static void make_coordinator(zt_process *p, zt_ds *ds, zt_ds_zero3 *z)
{
    const zl_ds_config *config = ds->config;
    const zt_coordinator_limits limits = {
        .prefetch = config->allgather_sequential ? 1 : config->prefetch_bucket_size,
        .live = config->max_live_parameters,
        .reuse = config->max_reuse_distance};
    const zt_coordinator_calls calls = {
        .gather = zt_ds_gather_start, .wait = zt_ds_gather_wait, .release = zt_ds_gather_release};
    z->coordinator =
        zt_coordinator_new(z->module, p->module_count, z->param, p->param_count, limits, calls, p);
    if (z->coordinator == NULL) {
        zt_fail(p, ZL_E_RESOURCE, "out of memory for the trace of modules");
    }
}

/* The shard of a parameter of x elements, made while the parameter is there; nothing where shards
 * live on the host. */
static zt_storage new_shard(zt_process *p, const zt_ds *ds, uint64_t x)
{
    const uint64_t bytes = zl_mul(ds->width, zl_ceil_div(x, ds->ranks));
    if (!ds->zero3->offload_param) {
        return zt_ds_new(p, bytes, "parameter shards");
    }
    /* Made pageable, which the C library keeps, and copied if pinned, which PyTorch keeps. */
    zt_ds_host_pageable(p, bytes);
    zt_ds_host_pinned(p, ds->config->pin_param ? bytes : 0);
    return ZT_NO_STORAGE;
}

static zt_ds_zero3 *prepare(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    zt_ds_zero3 *const z = zt_arena(p, 1, sizeof *z);
    const bool overlap = ds->config->overlap_comm;
    ds->zero3 = z;
    ds->gather = zt_ds_gather_new(p, overlap ? GATHER_STREAM : ZT_DEFAULT_STREAM);
    z->reduce_stream = overlap ? REDUCE_STREAM : ZT_DEFAULT_STREAM;
    z->offload_param = ds->config->offload_param != ZL_OFFLOAD_NONE;
    z->offload_optimizer = ds->config->offload_optimizer != ZL_OFFLOAD_NONE;
    z->accumulated_width =
        ds->config->grad_accum_fp32 && ds->release.accumulation_dtype ? 4 : ds->width;
    z->shard = zt_arena(p, p->param_count, sizeof *z->shard);
    z->norms = zt_arena(p, p->param_count, sizeof *z->norms);
    z->held = zt_arena(p, p->param_count, sizeof *z->held);
    z->waiting = zt_arena(p, p->param_count, sizeof(zt_ds_param *));
    z->previous = zt_arena(p, p->param_count, sizeof(zt_ds_param *));
    list_trained(p, ds, z);
    z->counts = zt_arena(p, z->trained_count, sizeof *z->counts);
    for (uint32_t i = 0; i < z->trained_count; i++) {
        z->counts[i] = zt_ds_shard_elements(ds, z->trained[i]);
    }
    z->group_norms = zt_arena(p, z->groups, sizeof *z->group_norms);
    list_params(p, ds, z);
    list_modules(p, z);
    if (ds->release.stage3_rewritten) {
        make_coordinator(p, ds, z);
    } else {
        z->old = zt_old_coordinator_new(p);
    }
    return z;
}

/* Buffers of the modules before `end`; those of floats are made in the model's dtype. */
static void make_buffers(zt_process *p, const zt_ds *ds, uint32_t *next, uint32_t end)
{
    for (; *next < end; (*next)++) {
        zt_module *const m = p->modules[*next];
        for (uint32_t i = 0; i < m->buffers; i++) {
            const bool halved =
                m->buffer[i].floating && ds->width == 2 && ds->release.float_buffers_keep;
            m->buffer[i].bytes = halved ? zl_exact_div(m->buffer[i].bytes, 2) : m->buffer[i].bytes;
            m->buffer[i].storage = zt_new(p, m->buffer[i].bytes);
        }
    }
}

/* A parameter is made in fp32 on the device, cast and cut. */
static zt_storage make_and_cut(zt_process *p, const zt_ds *ds, uint64_t x)
{
    zt_storage whole = zt_new(p, zl_mul(4, x));
    if (ds->width == 2) {
        zt_storage low = zt_new(p, zl_mul(2, x));
        zt_drop(p, &whole);
        whole = low;
    }
    zt_storage shard = new_shard(p, ds, x);
    zt_drop(p, &whole);
    return shard;
}

/* deepspeed.zero.Init. A head whose weight tying replaces keeps its shard until initialize. */
void zt_ds_zero3_build(zt_process *p)
{
    uint32_t next = 0;
    zt_ds_zero3 *const z = prepare(p);
    const zt_ds *ds = zt_ds_of(p);
    if (!ds->config->zero_init) {
        return;
    }
    z->replaced = zt_arena(p, p->created_count, sizeof *z->replaced);
    for (uint32_t i = 0; i < p->created_count; i++) {
        const zt_param *param = p->created[i];
        make_buffers(p, ds, &next, param->module->index);
        zt_storage *const kept = param->thrown_away ? &z->replaced[i] : &z->shard[param->index];
        *kept = make_and_cut(p, ds, zt_param_elements(param));
    }
    make_buffers(p, ds, &next, p->module_count);
}

void zt_ds_zero3_bring(zt_process *p, const zt_ds *ds)
{
    if (ds->config->zero_init) {
        zt_ds_optimizer_flag(p);
        for (uint32_t i = 0; i < p->created_count; i++) {
            zt_drop(p, &ds->zero3->replaced[i]);
        }
        return;
    }
    zt_ds_to_device(p);
    for (uint32_t i = 0; i < p->param_count; i++) {
        ds->zero3->shard[i] = new_shard(p, ds, ds->param[i].x);
        zt_drop(p, &p->named[i]->value.storage);
    }
}

/* defragment: the shards go to the host and come back as one buffer. */
static void join_shards(zt_process *p, const zt_ds *ds)
{
    zt_ds_zero3 *const z = ds->zero3;
    if (ds->config->offload_param == ZL_OFFLOAD_NVME) { /* the buffers of the swapper */
        zt_ds_host_pinned(p, zl_prod(ds->width, ds->config->offload_buffer_count,
                                     ds->config->offload_buffer_size));
        return;
    }
    if (z->offload_param) {
        zt_ds_host_pinned(p, zl_mul(ds->width, zt_ds_all_shards(z)));
        return;
    }
    for (uint32_t i = 0; i < z->trained_count; i++) {
        zt_drop(p, &z->shard[z->trained[i]->param->index]);
    }
    zt_release_cached(p);
    z->low = zt_ds_new(p, zl_mul(ds->width, zt_ds_all_shards(z)), "parameter shards");
    for (uint32_t i = 0; i < z->trained_count; i++) {
        z->shard[z->trained[i]->param->index] = zt_hold(p, z->low);
    }
}

/* The optimizer's tensors live on NVMe and pass through buffers. */
static bool swaps(const zt_ds *ds)
{
    return ds->config->offload_optimizer == ZL_OFFLOAD_NVME;
}

/* Masters: the shards converted to fp32 and cloned; before 0.18.3 cloned and converted. */
static void make_masters(zt_process *p, const zt_ds *ds)
{
    zt_ds_zero3 *const z = ds->zero3;
    zt_storage converted = ZT_NO_STORAGE; /* of the group before, until it is replaced */
    for (uint32_t i = 0; i < z->groups; i++) {
        zt_ds_sub_group *const g = &z->group[i];
        const uint64_t bytes = zl_mul(4, g->shards);
        if (z->offload_optimizer) {
            zt_ds_host_pageable(p, swaps(ds) ? 0 : bytes);
            continue;
        }
        const uint64_t copied = ds->release.master_converted ? bytes : zl_mul(ds->width, g->shards);
        zt_storage first = zt_new(p, ds->width == 4 ? 0 : copied);
        zt_drop(p, &converted);
        g->high = zt_ds_new(p, bytes, "fp32 masters");
        if (ds->release.master_converted) {
            converted = first;
        } else {
            zt_drop(p, &first);
        }
        zt_ds_updater_add(p, &g->updater, g->shards);
    }
    zt_drop(p, &converted);
}

static void make_states(zt_process *p, const zt_ds *ds)
{
    zt_ds_zero3 *const z = ds->zero3;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < z->groups; i++) {
        largest = zl_max(largest, z->group[i].shards);
    }
    if (swaps(ds)) {
        zt_ds_host_pinned(p, zl_prod(4, ds->config->optimizer_buffer_count, largest));
        return;
    }
    if (z->offload_optimizer) {
        zt_ds_host_pinned(p, zl_mul(4, zt_ds_all_shards(z))); /* fp32 gradients */
        return;
    }
    zt_storage zeros = zt_ds_new(p, zl_mul(4, largest), "zero gradients");
    for (uint32_t i = 0; i < z->groups && !ds->release.lazy_states; i++) {
        zt_ds_updater_step(p, &z->group[i].updater);
    }
    zt_drop(p, &zeros);
}

/* create_reduce_and_remove_grad_hooks gathers each parameter to hook its accumulator. */
static void hook_params(zt_process *p, const zt_ds *ds)
{
    const zt_ds_zero3 *z = ds->zero3;
    for (uint32_t i = 0; i < z->trained_count && ds->ranks > 1; i++) {
        const uint64_t shard = zl_mul(ds->width, zt_ds_shard_elements(ds, z->trained[i]));
        const uint64_t whole = zl_mul(ds->width, z->trained[i]->x);
        zt_storage buffer = zt_new(p, zl_mul(shard, ds->ranks));
        zt_storage second = zt_new(p, z->offload_param               ? shard
                                      : ds->release.lone_gather_once ? 0
                                                                     : whole);
        zt_drop(p, &buffer);
        zt_drop(p, &second);
    }
}

static void init(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    zt_ds_zero3 *const z = ds->zero3;
    zt_ds_zero3_bring(p, ds);
    z->flag = z->offload_optimizer ? ZT_NO_STORAGE : zt_new(p, 1);
    join_shards(p, ds);
    make_masters(p, ds);
    if (ds->real) {
        (void)zt_new(p, 1); /* dist.barrier */
    }
    make_states(p, ds);
    if (ds->config->contiguous_gradients) {
        z->bucket = zt_ds_new(p, zl_mul(ds->width, ds->config->reduce_bucket_size), "ipg bucket");
    }
    const uint64_t gradients = zl_mul(z->accumulated_width, zt_ds_all_shards(z));
    if (z->offload_optimizer) {
        zt_ds_host_pinned(p, gradients);
    } else {
        z->gradients = zt_ds_new(p, gradients, "gradient shards");
    }
    hook_params(p, ds);
}

/* What PyTorch's communication thread held on to (hold_collective). */
static void drop_held(zt_process *p, const zt_ds *ds)
{
    for (uint32_t i = 0; i < p->param_count; i++) {
        zt_drop(p, &ds->zero3->held[i]);
    }
}

/* ---- hooks of modules ---- */

static void before_backward(zt_process *p, void *context, zt_tensor *gradient)
{
    const zt_module *m = context;
    (void)gradient;
    zt_ds_zero3 *const z = zt_ds_of(p)->zero3;
    if (z->offload_param && m != p->root) {
        drop_held(p, zt_ds_of(p));
    }
    if (z->old != NULL) {
        zt_old_coordinator_enter(p, m->index);
    } else {
        zt_coordinator_enter(z->coordinator, m->index, true);
    }
}

static void leave_module(zt_process *p, const zt_module *m)
{
    zt_ds_zero3 *const z = zt_ds_of(p)->zero3;
    if (z->old != NULL) {
        zt_old_coordinator_exit(p, m->index);
    } else {
        zt_coordinator_exit(z->coordinator, m->index);
    }
}

static void after_backward_of(zt_process *p, void *context, zt_tensor *gradient)
{
    const zt_module *m = context;
    zt_ds_module *const state = m->user;
    (void)gradient;
    if (--state->remaining == 0) {
        zt_ds_gather_head(p, m->linear ? ZT_DS_HEAD_BACKWARD : ZT_DS_HEAD_IDLE);
        leave_module(p, m);
        zt_ds_gather_head(p, ZT_DS_HEAD_IDLE);
    }
}

void zt_ds_zero3_enter(zt_process *p, zt_module *m, zt_tensor *input, size_t count)
{
    zt_ds_zero3 *const z = zt_ds_of(p)->zero3;
    zt_ds_module *const state = m->user;
    const bool begins = m == p->root && !zt_in_backward(p);
    if (z->old != NULL) {
        zt_old_coordinator_enter(p, m->index);
        if (begins) { /* its hook was registered after that of the module */
            zt_old_coordinator_begin(p);
        }
    } else {
        if (begins) {
            zt_coordinator_reset(z->coordinator);
        }
        zt_coordinator_enter(z->coordinator, m->index, false);
    }
    state->remaining = 0;
    for (size_t i = 0; i < count; i++) {
        state->remaining += input[i].node != 0 ? 1 : 0;
    }
    zt_identity(p, input, count, true, after_backward_of, m);
}

void zt_ds_zero3_leave(zt_process *p, zt_module *m, zt_tensor *output, size_t count)
{
    zt_ds_gather_head(p, m->linear ? ZT_DS_HEAD_FORWARD : ZT_DS_HEAD_IDLE);
    leave_module(p, m);
    zt_ds_gather_head(p, ZT_DS_HEAD_IDLE);
    zt_identity(p, output, count, true, before_backward, m);
}

void zt_ds_zero3_finish(zt_process *p)
{
    zt_coordinator_free(zt_ds_of(p)->zero3->coordinator);
}

/* ---- gradients ---- */

/* Pads that a gradient needs: one for each rank whose part is not full. */
static uint64_t pads_of(const zt_ds *ds, const zt_ds_param *d)
{
    return ds->ranks - d->x / zt_ds_shard_elements(ds, d);
}

/* The pads of all waiting gradients, rank after rank. */
static void make_pads(zt_process *p, const zt_ds *ds, zt_storage *pad)
{
    const zt_ds_zero3 *z = ds->zero3;
    for (uint64_t rank = 0; rank < ds->ranks; rank++) {
        for (uint32_t i = 0; i < z->count; i++) {
            const uint64_t shard = zt_ds_shard_elements(ds, z->waiting[i]);
            const uint64_t begin = zl_min(zl_mul(rank, shard), z->waiting[i]->x);
            const uint64_t missing = shard - zl_min(shard, z->waiting[i]->x - begin);
            if (missing > 0) {
                *pad++ = zt_new(p, zl_mul(ds->width, missing));
            }
        }
    }
}

/* reduce_scatter_coalesced: the gradients interleaved by rank, with padding; one that divides
 * evenly needs no copy. The caller drops what it returns. */
static zt_storage interleave(zt_process *p, const zt_ds *ds)
{
    const zt_ds_zero3 *z = ds->zero3;
    uint64_t shards = 0;
    uint64_t pads = 0;
    if (z->count == 1 && z->waiting[0]->x % ds->ranks == 0) {
        return ZT_NO_STORAGE;
    }
    for (uint32_t i = 0; i < z->count; i++) {
        shards = zl_add(shards, zt_ds_shard_elements(ds, z->waiting[i]));
        pads = zl_add(pads, pads_of(ds, z->waiting[i]));
    }
    zt_storage *const pad = zt_arena(p, pads, sizeof *pad);
    make_pads(p, ds, pad);
    zt_storage flat =
        zt_ds_new(p, zl_prod(ds->width, shards, ds->ranks), "flat copy of the bucket to reduce");
    for (uint64_t i = 0; i < pads; i++) {
        zt_drop(p, &pad[i]);
    }
    return flat;
}

/* The shard goes through a copy on the device: its norm, its fp32 cast. */
static void offload(zt_process *p, const zt_ds *ds, const zt_ds_param *d, uint64_t elements)
{
    zt_ds_zero3 *const z = ds->zero3;
    zt_storage copy = zt_new(p, zl_mul(z->accumulated_width, elements));
    if (ds->boundary) {
        zt_storage wide = zt_new(p, zl_mul(8, elements));
        zt_storage norm = zt_new(p, 8);
        zt_touch_full_reduction(p, elements, 8);
        zt_drop(p, &wide);
        z->norms[d->param->index] = zt_new(p, 8);
        zt_drop(p, &norm);
        zt_touch(p, zl_mul(4, elements));
    }
    zt_drop(p, &copy);
}

/* partition_grads: the shard is written to, or added to, the flat buffer. */
static void keep(zt_process *p, const zt_ds *ds, zt_ds_param *d)
{
    const zt_ds_zero3 *z = ds->zero3;
    const uint64_t elements = real_part(p, ds, d);
    if (elements > 0 && z->offload_optimizer) {
        offload(p, ds, d, elements);
    } else if (elements > 0 && ds->micro_step > 0 && z->accumulated_width != ds->width) {
        zt_touch(p, zl_mul(z->accumulated_width, elements));
    }
    if (elements > 0) {
        zt_record_use(p, d->param->grad.storage, zt_stream(p));
    }
    zt_clear_grad(p, d->param);
}

static int by_param(const void *a, const void *b)
{
    zt_ds_param *const *x = a;
    zt_ds_param *const *y = b;
    return ((*x)->param->index > (*y)->param->index) - ((*x)->param->index < (*y)->param->index);
}

/* __reduce_and_partition_ipg_grads. */
static void flush(zt_process *p, const zt_ds *ds)
{
    zt_ds_zero3 *const z = ds->zero3;
    const bool in_place = ds->config->contiguous_gradients && !ds->config->reduce_scatter &&
                          z->filled <= ds->config->reduce_bucket_size;
    if (z->count == 0) {
        return;
    }
    const uint32_t before = zt_set_stream(p, z->reduce_stream);
    zt_storage flat = ZT_NO_STORAGE;
    if (!in_place) {
        qsort(z->waiting, z->count, sizeof(zt_ds_param *), by_param);
        flat = interleave(p, ds);
    }
    for (uint32_t i = 0; i < z->count; i++) {
        keep(p, ds, z->waiting[i]);
    }
    zt_drop(p, &flat);
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
    }
    if (ds->config->contiguous_gradients && zl_add(z->filled, d->x) <= size) {
        zt_record_use(p, param->grad.storage, z->reduce_stream);
        zt_drop(p, &param->grad.storage);
        param->grad.storage = zt_hold(p, z->bucket);
    }
    z->waiting[z->count++] = d;
    z->filled = zl_add(z->filled, d->x);
}

static void after_backward(zt_process *p)
{
    const zt_ds *ds = zt_ds_of(p);
    flush(p, ds);
    if (ds->release.releases_leftovers) {
        zt_coordinator_leftovers(ds->zero3->coordinator);
    }
}

/* ---- step ---- */

static void any(zt_process *p, uint64_t elements)
{
    zt_storage result = zt_new(p, 1);
    zt_touch_full_reduction(p, elements, 1);
    zt_drop(p, &result);
}

/* isinf and isnan of the whole buffer, in fp16. */
static void check_overflow(zt_process *p, const zt_ds *ds)
{
    const zt_ds_zero3 *z = ds->zero3;
    const uint64_t elements = zt_ds_all_shards(z);
    if (z->offload_optimizer || (!ds->config->fp16 && ds->config->version >= 11002)) {
        return;
    }
    const uint32_t before = zt_set_stream(p, z->reduce_stream);
    zt_storage absolute = zt_new(p, zl_mul(z->accumulated_width, elements));
    zt_storage mask = zt_new(p, elements);
    zt_drop(p, &absolute);
    any(p, elements);
    zt_drop(p, &mask);
    mask = zt_new(p, elements);
    any(p, elements);
    zt_drop(p, &mask);
    zt_touch(p, 1); /* inf_or_nan_tracker.clone(), .to(torch.uint8) */
    zt_set_stream(p, before);
}

/* The norms of the sub-groups; the caller drops them when the step ends. */
static void take_norms(zt_process *p, zt_ds *ds, zt_storage *norm)
{
    const zt_ds_zero3 *z = ds->zero3;
    for (uint32_t i = 0; i < z->groups; i++) {
        const zt_ds_sub_group *g = &z->group[i];
        if (z->offload_optimizer) {
            zt_touch(p, 4); /* FloatTensor([sum of .item()]) */
        } else {
            zt_ds_norm(p, z->counts + g->first, g->params);
        }
        norm[i] = ds->release.norm_scalars && !z->offload_optimizer ? zt_new(p, 8) : ZT_NO_STORAGE;
    }
    if (ds->release.norm_scalars && !z->offload_optimizer) {
        zt_touch(p, zl_mul(8, z->groups)); /* torch.stack */
        zt_ds_norm_scalars(p, 8);
    }
    for (uint32_t i = 0; i < p->param_count; i++) {
        zt_drop(p, &z->norms[i]);
    }
}

static void update(zt_process *p, zt_ds *ds, zt_ds_sub_group *g)
{
    const zt_ds_zero3 *z = ds->zero3;
    if (z->offload_optimizer) {
        if (!g->updater.started) {
            zt_ds_host_pageable(p, swaps(ds) ? 0 : zl_mul(8, g->shards));
            g->updater.started = true;
        }
        return;
    }
    zt_storage flat =
        zt_new(p, z->accumulated_width == 4 ? 0 : zl_mul(z->accumulated_width, g->shards));
    zt_storage wide = zt_ds_new(p, zl_mul(4, g->shards), "fp32 gradient of the step");
    zt_drop(p, &flat);
    zt_ds_updater_step(p, &g->updater);
    zt_drop(p, &wide);
}

/* Timing, read off records: the gather of persistent parameters starts a collective for each and
 * waits for the last. With real ranks PyTorch's communication thread (period 0.1 s) holds on to the
 * tensors of the others for longer than a short step takes: to the outputs before 0.19 until the
 * next update, to copies of shards that live on the host until the next backward begins. */
static void hold_collective(zt_process *p, const zt_ds *ds, uint32_t param, uint32_t last)
{
    zt_ds_zero3 *const z = ds->zero3;
    if (!ds->real || param == last) {
        return;
    }
    if (z->offload_param) {
        z->held[param] = zt_new(p, zl_mul(ds->width, zt_ds_shard_elements(ds, &ds->param[param])));
    } else if (ds->release.holds_outputs) {
        z->held[param] = zt_hold(p, p->named[param]->value.storage);
    }
}

/* _post_step: small parameters stay gathered from here on, each in a buffer of its own. */
static void gather_persistent(zt_process *p, const zt_ds *ds)
{
    const zt_ds_zero3 *z = ds->zero3;
    uint32_t last = 0;
    if (ds->ranks == 1 && ds->release.world1_shard) {
        return;
    }
    for (uint32_t i = 0; i < p->param_count; i++) {
        last = z->param[i].persists ? i : last;
    }
    for (uint32_t i = 0; i < p->param_count; i++) {
        if (z->param[i].persists) {
            const uint64_t shard = zl_mul(ds->width, zt_ds_shard_elements(ds, &ds->param[i]));
            zt_storage whole = zt_ds_new(p, zl_mul(shard, ds->ranks), "persistent parameters");
            zt_ds_point(p, p->named[i], whole);
            zt_drop(p, &whole);
            zt_coordinator_gathered(z->coordinator, i);
            hold_collective(p, ds, i, last);
        }
    }
}

static void step(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    zt_ds_zero3 *const z = ds->zero3;
    zt_storage *const norm = z->group_norms;
    zt_coordinator_release_all(z->coordinator);
    check_overflow(p, ds);
    if (ds->skips) {
        return;
    }
    take_norms(p, ds, norm);
    for (uint32_t i = 0; i < z->groups; i++) {
        update(p, ds, &z->group[i]);
    }
    drop_held(p, ds);
    gather_persistent(p, ds);
    for (uint32_t i = 0; i < z->groups; i++) {
        zt_drop(p, &norm[i]);
    }
}

const zt_ds_wrapper_table zt_ds_zero3_table = {.name = "DeepSpeedZeroOptimizer_Stage3",
                                               .init = init,
                                               .gradient = gradient,
                                               .after_backward = after_backward,
                                               .step = step};
