/* runtime/engine.py: who wraps the optimizer, the frame of a micro-step, the marks of the training
 * loop. What the wrappers do is in their own files. */
#include "torch/deepspeed_zero3.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "torch/ops.h"
#include "zeroledger/bytes.h"

/* ---- the model and the optimizer's groups ---- */

static bool is_pooler(const zt_param *param)
{
    for (const zt_module *m = param->module; m != NULL; m = m->parent) {
        if (strcmp(m->name, "pooler") == 0) {
            return true;
        }
    }
    return false;
}

static uint32_t group_of(const zl_ds_config *config, const zt_param *param)
{
    if (!param->trains || (config->pooler_outside && is_pooler(param))) {
        return ZT_DS_NO_GROUP;
    }
    return config->decay_groups && param->dimensions < 2 ? 1 : 0;
}

/* Overlap of [start, start + x) with this rank's partition. */
static uint64_t part(const zt_process *p, const zt_ds_group *g, uint64_t start, uint64_t x)
{
    const uint64_t begin = zl_max(start, zl_mul(p->rank, g->local));
    const uint64_t end = zl_min(zl_add(start, x), zl_mul(p->rank + 1, g->local));
    return end > begin ? end - begin : 0;
}

/* _round_robin_reorder: the flat group takes every N-th parameter, then the next ones of each. */
static void place(const zt_ds *ds, zt_ds_group *g)
{
    const uint64_t turns =
        ds->config->round_robin_gradients && ds->wrapper == ZT_DS_ZERO12 ? ds->ranks : 1;
    uint64_t offset = 0;
    for (uint64_t turn = 0; turn < turns && turn < g->params; turn++) {
        for (uint64_t i = turn; i < g->params; i += turns) {
            g->param[i]->offset = offset;
            offset = zl_add(offset, g->param[i]->x);
        }
    }
}

/* Stages 1 and 2 pad a group to 2N elements, so that every partition begins on 4 bytes. */
static void lay_out(zt_process *p, zt_ds *ds, zt_ds_group *g, uint32_t index)
{
    g->param = zt_arena(p, p->param_count, sizeof *g->param);
    for (uint32_t i = 0; i < p->param_count; i++) {
        if (ds->param[i].group == index) {
            g->elements = zl_add(g->elements, ds->param[i].x);
            g->param[g->params++] = &ds->param[i];
        }
    }
    g->flat = zl_align_up(g->elements, zl_mul(2, ds->ranks));
    g->local = zl_exact_div(g->flat, ds->ranks);
    place(ds, g);
    for (uint32_t i = 0; i < g->params; i++) {
        g->param[i]->count = part(p, g, g->param[i]->offset, g->param[i]->x);
    }
}

static void list_params(zt_process *p, zt_ds *ds)
{
    ds->param = zt_arena(p, p->param_count, sizeof *ds->param);
    for (uint32_t i = 0; i < p->param_count; i++) {
        zt_param *const param = p->named[i];
        ds->param[i] = (zt_ds_param){
            .param = param, .group = group_of(ds->config, param), .x = zt_param_elements(param)};
        param->user = &ds->param[i];
    }
    ds->groups = ds->config->decay_groups ? 2 : 1;
    for (uint32_t i = 0; i < ds->groups; i++) {
        lay_out(p, ds, &ds->group[i], i);
    }
}

/* model.half() and model.bfloat16() on the host took the module buffers along. */
static void cast_buffers(zt_process *p, const zt_ds *ds)
{
    for (uint32_t i = 0; i < p->module_count && !ds->release.float_buffers_keep; i++) {
        zt_module *const m = p->modules[i];
        for (uint32_t k = 0; k < m->buffers; k++) {
            if (m->buffer[k].floating && ds->width == 2) {
                m->buffer[k].bytes = zl_exact_div(m->buffer[k].bytes, 2);
            }
        }
    }
}

static const zt_ds_wrapper_table *table_of(const zt_ds *ds)
{
    switch (ds->wrapper) {
    case ZT_DS_FP16:
        return &zt_ds_fp16;
    case ZT_DS_FP16_UNFUSED:
        return &zt_ds_fp16_unfused;
    case ZT_DS_BF16:
        return &zt_ds_bf16;
    case ZT_DS_ZERO12:
        return &zt_ds_zero12_table;
    case ZT_DS_ZERO3:
        return ds->release.stage3_rewritten ? &zt_ds_zero3_table : &zt_ds_zero3_old_table;
    case ZT_DS_BARE:
    case ZT_DS_WRAPPER_COUNT:
        break;
    }
    return &zt_ds_bare;
}

static const char *base_name(const zt_process *p)
{
    return zt_ds_is_adam(p->run)               ? "FusedAdam"
           : p->run->optimizer == ZL_TORCH_SGD ? "SGD"
                                               : "AdamW";
}

static bool is_zero(const zt_ds *ds)
{
    return ds->wrapper == ZT_DS_ZERO12 || ds->wrapper == ZT_DS_ZERO3;
}

static void reset_peak_at_init(zt_process *p, const zt_ds *ds)
{
    /* Rank 0 of ZeRO prints memory messages, and see_memory_usage resets the peaks when it has
     * printed; BF16_Optimizer still does. */
    const bool prints = is_zero(ds) && !ds->release.silent_init;
    if (p->rank == 0 && (prints || ds->wrapper == ZT_DS_BF16)) {
        zt_reset_peak(p);
    }
}

static void prepare(zt_process *p)
{
    zt_ds *const ds = zt_arena(p, 1, sizeof *ds);
    const zl_ds_config *config = &p->run->ds;
    zl_err err = {0};
    p->user = ds;
    ds->config = config;
    ds->release = zt_ds_release_of(config);
    ds->ranks = p->run->ranks;
    ds->width = config->fp16 || config->bf16 ? 2 : 4;
    ds->real = !p->run->simulated;
    if (zt_ds_wrapper_of(p->run, &ds->wrapper, &err) != ZL_OK) {
        zt_fail(p, err.status, err.text);
    }
    ds->table = table_of(ds);
    snprintf(p->marks->optimizer_class, sizeof p->marks->optimizer_class, "%s",
             ds->table->name != NULL ? ds->table->name : base_name(p));
    ds->list = zt_arena(p, p->param_count, sizeof *ds->list);
    ds->batch = zt_arena(p, (size_t)p->run->accumulation, sizeof *ds->batch);
    list_params(p, ds);
    cast_buffers(p, ds);
    p->linear_for_zero3 = ds->wrapper == ZT_DS_ZERO3 && config->memory_efficient_linear &&
                          (config->zero_init || ds->release.efficient_linear);
}

static void build(zt_process *p)
{
    prepare(p);
    if (zt_ds_of(p)->wrapper == ZT_DS_ZERO3) {
        zt_ds_zero3_build(p);
    }
}

static void init(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    ds->table->init(p);
    ds->initialized = true;
    reset_peak_at_init(p, ds);
}

/* ---- the frame of a micro-step ---- */

/* _backward_prologue_per_tensor: gradient / accumulation. Since 0.19.6 it leaves the gradients of a
 * graph alone whose loss backward() has scaled. */
static void scale_gradient(zt_process *p, void *context, zt_tensor *gradient)
{
    (void)context;
    zt_tensor scaled = *gradient;
    const bool was = zt_weightless(p, zt_activations_given(p));
    scaled.storage = zt_new(p, zt_bytes(*gradient));
    zt_weightless(p, was);
    zt_release(p, gradient);
    *gradient = scaled;
}

static void hook_outputs(zt_process *p, const zt_output *out)
{
    zt_hook_gradient(p, out->loss, scale_gradient, NULL);
    zt_hook_gradient(p, out->logits, scale_gradient, NULL);
    zt_hook_gradient(p, out->second_logits, scale_gradient, NULL);
}

/* Since 0.18.3: the value that backward() returns, the scaled loss, the graph. */
static void backward(zt_process *p, const zt_ds *ds, zt_tensor loss)
{
    zt_tensor returned = zt_scale(p, loss);
    zt_tensor scaled = is_zero(ds) ? zt_scale(p, loss) : zt_share(p, loss);
    zt_backward(p, scaled);
    if (ds->table->after_backward != NULL) {
        ds->table->after_backward(p);
    }
    zt_release(p, &scaled);
    zt_release(p, &returned);
}

/* loss.mean().detach(), which lives as long as backward() runs, and its sum with that of earlier
 * micro-steps. */
static zt_storage keep_mean_loss(zt_process *p, zt_ds *ds, zt_tensor loss)
{
    zt_storage mean = zt_new(p, zt_bytes(loss));
    if (ds->mean_loss == ZT_NO_STORAGE) {
        ds->mean_loss = zt_hold(p, mean);
    } else {
        zt_storage sum = zt_new(p, zt_bytes(loss));
        zt_drop(p, &ds->mean_loss);
        ds->mean_loss = sum;
    }
    return mean;
}

/* What the wrapper's backward() gets: ZeRO takes the product with the loss scale of loss.float(),
 * which its caller keeps; FP16_Optimizer drops that; the others take the loss. */
static zt_tensor scale_loss(zt_process *p, const zt_ds *ds, zt_tensor loss, zt_tensor *kept)
{
    const bool fused = ds->wrapper == ZT_DS_FP16 || ds->wrapper == ZT_DS_FP16_UNFUSED;
    if (!is_zero(ds) && !fused) {
        return zt_share(p, loss);
    }
    zt_tensor wide = zt_to(p, loss, 4);
    zt_tensor scaled = zt_scale(p, wide);
    if (is_zero(ds)) {
        *kept = wide;
    } else {
        zt_release(p, &wide);
    }
    return scaled;
}

static void backward_before_hooks(zt_process *p, zt_ds *ds, zt_tensor given)
{
    zt_tensor loss = zt_share(p, given);
    zt_tensor kept = {0};
    if (p->run->accumulation > 1) {
        zt_tensor wide = zt_to(p, loss, 4);
        zt_assign(p, &loss, zt_scale(p, wide));
        zt_release(p, &wide);
    }
    zt_storage mean = ds->release.keeps_mean_loss ? keep_mean_loss(p, ds, loss) : ZT_NO_STORAGE;
    if (ds->table->before_backward != NULL) {
        ds->table->before_backward(p);
    }
    zt_tensor scaled = scale_loss(p, ds, loss, &kept);
    zt_backward(p, scaled);
    zt_release(p, &scaled);
    zt_release(p, &kept);
    if (ds->table->after_backward != NULL) {
        ds->table->after_backward(p);
    }
    zt_drop(p, &mean);
    zt_release(p, &loss);
}

static void optimizer_step(zt_process *p, zt_ds *ds)
{
    const char *what = zt_set_name(p, "temporaries of the step");
    ds->table->step(p);
    zt_set_name(p, what);
    zt_drop(p, &ds->scaled_norm);
    if (ds->global_norm != ZT_NO_STORAGE) {
        zt_drop(p, &ds->engine_norm);
        ds->engine_norm = ds->global_norm;
        ds->global_norm = ZT_NO_STORAGE;
    }
    zt_drop(p, &ds->mean_loss);
}

/* "after_forward_0" of the first of several micro-steps, "after_forward" of the last. */
static void mark(zt_process *p, int32_t step, const char *at)
{
    const zt_ds *ds = zt_ds_of(p);
    char name[24];
    zt_synchronize_device(p);
    if (ds->boundary) {
        zt_mark(p, step, at);
        return;
    }
    snprintf(name, sizeof name, "%s_%" PRIu64, at, ds->micro_step);
    zt_mark(p, step, name);
}

/* "memory_breakdown": rank 0 prints before and after each phase, and printing resets the peaks. */
static void print_memory(zt_process *p, const zt_ds *ds)
{
    if (ds->config->memory_breakdown && p->rank == 0) {
        zt_reset_peak(p);
    }
}

static void micro_step(zt_process *p, zt_ds *ds, int32_t step, const zt_batch *batch)
{
    print_memory(p, ds);
    zt_output out = zt_forward(p, batch);
    ds->forwards++;
    print_memory(p, ds);
    if (ds->release.scales_outputs) {
        hook_outputs(p, &out);
    }
    mark(p, step, "after_forward");
    print_memory(p, ds);
    if (ds->release.output_hooks) {
        backward(p, ds, out.loss);
    } else {
        backward_before_hooks(p, ds, out.loss);
    }
    print_memory(p, ds);
    ds->started++;
    zt_assign(p, &p->loss_value, zt_detach(p, out.loss));
    zt_output_drop(p, &out);
    mark(p, step, "after_backward");
    print_memory(p, ds);
    if (ds->boundary) {
        optimizer_step(p, ds);
    }
    print_memory(p, ds);
    mark(p, step, "after_step");
}

/* The loop of the records: batches of all micro-steps, then engine(), engine.backward() and
 * engine.step() for each; DeepSpeed clears the gradients itself. */
static void train_step(zt_process *p, int32_t step)
{
    zt_ds *const ds = zt_ds_of(p);
    const size_t count = (size_t)p->run->accumulation;
    zt_batches_new(p, ds->batch, count);
    zt_mark(p, step, "before_forward");
    ds->skips = step >= 0 && step < ZL_TORCH_STEPS_MAX && p->run->skipped[step];
    for (size_t i = 0; i < count; i++) {
        ds->micro_step = i;
        ds->boundary = i + 1 == count;
        micro_step(p, ds, step, &ds->batch[i]);
    }
    zt_batches_drop(p, ds->batch, count);
}

static void gradient(zt_process *p, zt_param *param)
{
    const zt_ds *ds = zt_ds_of(p);
    zt_name(p, param->grad.storage, "gradients");
    if (ds->table->gradient != NULL && ds->param[param->index].group != ZT_DS_NO_GROUP) {
        ds->table->gradient(p, param);
    }
}

static void enter(zt_process *p, zt_module *m, zt_tensor *input, size_t count)
{
    if (zt_ds_of(p)->wrapper == ZT_DS_ZERO3) {
        zt_ds_zero3_enter(p, m, input, count);
    }
}

static void leave(zt_process *p, zt_module *m, zt_tensor *output, size_t count)
{
    if (zt_ds_of(p)->wrapper == ZT_DS_ZERO3) {
        zt_ds_zero3_leave(p, m, output, count);
    }
}

/* The world's communicator exists from the beginning where init_process_group names the device;
 * else it comes with the first barrier. Gradients and weights go through one of data parallelism,
 * under zero.Init through that of the world, which broadcasts the parameters as they are made. */
static zt_nccl nccl(const zt_process *p)
{
    const zt_ds *ds = zt_ds_of(p);
    const uint32_t world = ds->release.named_device ? 1 : 0;
    const bool zero_init = ds->config->zero_init && ds->wrapper == ZT_DS_ZERO3;
    const bool barrier =
        ds->wrapper == ZT_DS_ZERO3 || (ds->wrapper == ZT_DS_ZERO12 && ds->release.barrier_tensor);
    if (!ds->real) {
        return (zt_nccl){.kernels = ds->initialized};
    }
    if (!ds->initialized) {
        return (zt_nccl){.communicators = zero_init ? 1 : world,
                         .used = zero_init ? 1 : 0,
                         .broadcast = zero_init};
    }
    return (zt_nccl){.communicators = world == 1 || barrier ? 2 : 1,
                     .used = barrier && !zero_init ? 2 : 1,
                     .broadcast = true,
                     .kernels = true};
}

static void finish(zt_process *p)
{
    if (p->user != NULL && zt_ds_of(p)->zero3 != NULL) {
        zt_ds_zero3_finish(p);
    }
}

const zt_framework zt_deepspeed = {
    .build = build,
    .init = init,
    .enter = enter,
    .leave = leave,
    .gradient = gradient,
    .train_step = train_step,
    .nccl = nccl,
    .host = zt_ds_host_mark,
    .finish = finish,
};
