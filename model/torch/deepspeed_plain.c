/* Stage 0: runtime/fp16/fused_optimizer.py (FP16_Optimizer), runtime/fp16/unfused_optimizer.py
 * (FP16_UnfusedOptimizer), and fp32 training, where nothing wraps the optimizer. Both wrappers also
 * serve bf16. */
#include "torch/deepspeed.h"
#include "zeroledger/bytes.h"

/* allreduce_gradients: also with one rank, at a boundary only. */
static void reduce(zt_process *p)
{
    if (zt_ds_of(p)->boundary) {
        zt_ds_reduce_flat(p);
    }
}

/* CheckOverflow._has_inf_or_nan: x.float().sum() of one gradient after the other. */
static void check_overflow(zt_process *p, const zt_ds_group *g)
{
    for (uint32_t i = 0; i < g->params; i++) {
        zt_storage wide = zt_new(p, zl_mul(4, g->param[i]->x));
        zt_storage sum = zt_new(p, 4);
        zt_touch_full_reduction(p, g->param[i]->x, 4);
        zt_drop(p, &wide);
        zt_drop(p, &sum);
    }
}

static bool overflows(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    for (uint32_t i = 0; i < ds->groups; i++) {
        check_overflow(p, &ds->group[i]);
    }
    zt_touch(p, 1);
    for (uint32_t i = 0; i < ds->groups && ds->skips; i++) {
        zt_ds_clear_gradients(p, &ds->group[i]);
    }
    return ds->skips;
}

/* ---- FP16_Optimizer ---- */

/* _flatten_dense_tensors([p.clone() for p in group]), then the parameters are views of it; the
 * masters are flat.clone().float(). */
static void flatten(zt_process *p, zt_ds_group *g)
{
    const zt_ds *ds = zt_ds_of(p);
    zt_storage *const clone = ds->list;
    for (uint32_t i = 0; i < g->params; i++) {
        clone[i] = zt_ds_new(p, zl_mul(ds->width, g->param[i]->x), "clones of the parameters");
    }
    g->low = zt_ds_new(p, zl_mul(ds->width, g->elements), "parameters");
    for (uint32_t i = 0; i < g->params; i++) {
        zt_drop(p, &clone[i]);
    }
    for (uint32_t i = 0; i < g->params; i++) {
        zt_ds_point(p, g->param[i]->param, g->low);
    }
    zt_storage copy = zt_new(p, zl_mul(ds->width, g->elements));
    g->high = zt_ds_new(p, zl_mul(4, g->elements), "fp32 masters");
    zt_drop(p, &copy);
}

static void fused_init(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    zt_ds_to_device(p);
    for (uint32_t i = 0; i < ds->groups; i++) {
        flatten(p, &ds->group[i]);
        zt_ds_updater_add(p, &ds->updater[0], ds->group[i].elements);
    }
    for (uint32_t i = 0; i < ds->groups; i++) {
        ds->group[i].grads = zt_ds_new(p, zl_mul(4, ds->group[i].elements), "zero gradients");
    }
    zt_ds_updater_step(p, &ds->updater[0]);
    for (uint32_t i = 0; i < ds->groups; i++) {
        zt_drop(p, &ds->group[i].grads);
    }
}

/* The fp32 gradient of a group: a list of casts and their concatenation, while the gradients
 * themselves are still there. */
static void widen(zt_process *p, zt_ds_group *g)
{
    zt_storage *const cast = zt_ds_of(p)->list;
    for (uint32_t i = 0; i < g->params; i++) {
        cast[i] = zt_ds_new(p, zl_mul(4, g->param[i]->x), "list of fp32 gradients");
    }
    g->grads = zt_ds_new(p, zl_mul(4, g->elements), "fp32 gradient of the step");
    for (uint32_t i = 0; i < g->params; i++) {
        zt_drop(p, &cast[i]);
    }
    zt_ds_clear_gradients(p, g);
}

static void fused_step(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    if (overflows(p)) {
        return;
    }
    for (uint32_t i = 0; i < ds->groups; i++) {
        widen(p, &ds->group[i]);
    }
    for (uint32_t i = 0; i < ds->groups; i++) { /* get_flattened_grad_norm, .item() each */
        zt_storage norm = zt_new(p, 4);
        zt_touch_full_reduction(p, ds->group[i].elements, 4);
        zt_drop(p, &norm);
    }
    zt_touch(p, 4);
    zt_ds_updater_step(p, &ds->updater[0]);
    for (uint32_t i = 0; i < ds->groups; i++) {
        zt_drop(p, &ds->group[i].grads);
    }
}

/* ---- FP16_UnfusedOptimizer ---- */

/* fp32 masters tensor by tensor; the parameters stay where they are. */
/* A tensor of each parameter that the optimizer has. */
static void make_list(zt_process *p, const zt_ds *ds, uint64_t width, zt_storage *list)
{
    for (uint32_t i = 0; i < p->param_count; i++) {
        if (ds->param[i].group != ZT_DS_NO_GROUP) {
            list[i] = zt_ds_new(p, zl_mul(width, ds->param[i].x), "gradients of the step");
        }
    }
}

static void drop_list(zt_process *p, zt_storage *list)
{
    for (uint32_t i = 0; i < p->param_count; i++) {
        zt_drop(p, &list[i]);
    }
}

static void unfused_init(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    zt_ds_to_device(p);
    ds->kept = zt_arena(p, p->param_count, sizeof *ds->kept);
    for (uint32_t i = 0; i < ds->groups; i++) {
        const zt_ds_group *g = &ds->group[i];
        for (uint32_t k = 0; k < g->params; k++) {
            zt_storage clone = zt_new(p, zl_mul(ds->width, g->param[k]->x));
            ds->kept[g->param[k]->param->index] =
                zt_ds_new(p, zl_mul(4, g->param[k]->x), "fp32 masters");
            zt_drop(p, &clone);
            zt_ds_updater_add(p, &ds->updater[0], g->param[k]->x);
        }
    }
    zt_storage *const low = zt_arena(p, p->param_count, sizeof *low);
    make_list(p, ds, ds->width, low);
    make_list(p, ds, 4, ds->list);
    zt_ds_updater_step(p, &ds->updater[0]);
    drop_list(p, low);
    drop_list(p, ds->list);
}

/* get_weight_norm, group by group: a cast of one weight at a time. */
static void take_norm(zt_process *p, const zt_ds *ds, const zt_ds_group *g)
{
    zt_storage total = ZT_NO_STORAGE;
    for (uint32_t i = 0; i < g->params; i++) {
        zt_storage wide = zt_new(p, ds->width == 4 ? 0 : zl_mul(4, g->param[i]->x));
        zt_storage norm = zt_new(p, 4);
        zt_touch_full_reduction(p, g->param[i]->x, 4);
        zt_drop(p, &wide);
        zt_storage sum = zt_new(p, 4);
        zt_drop(p, &total);
        zt_drop(p, &norm);
        total = sum;
    }
    zt_touch(p, 4); /* FloatTensor([...]) */
    zt_drop(p, &total);
}

static void unfused_step(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    if (overflows(p)) {
        return;
    }
    for (uint32_t i = 0; i < ds->groups; i++) {
        take_norm(p, ds, &ds->group[i]);
    }
    make_list(p, ds, 4, ds->list); /* gradients cast to fp32 */
    zt_ds_updater_step(p, &ds->updater[0]);
    drop_list(p, ds->list);
    for (uint32_t i = 0; i < ds->groups; i++) { /* the engine's zero_grad() */
        zt_ds_clear_gradients(p, &ds->group[i]);
    }
}

/* ---- no wrapper ---- */

static void bare_init(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    zt_ds_to_device(p);
    for (uint32_t i = 0; i < ds->groups; i++) {
        for (uint32_t k = 0; k < ds->group[i].params; k++) {
            zt_ds_updater_add(p, &ds->updater[0], ds->group[i].param[k]->x);
        }
    }
}

/* clip_grad_norm_ of runtime/utils.py: the norms of all gradients, then scalars of them. */
static void clip(zt_process *p)
{
    zt_storage *const norm = zt_ds_of(p)->list;
    for (uint32_t i = 0; i < p->param_count; i++) {
        if (p->named[i]->grad.storage != ZT_NO_STORAGE) {
            norm[i] = zt_new(p, 4);
            zt_touch_full_reduction(p, zt_param_elements(p->named[i]), 4);
        }
    }
    zt_touch(p, zl_mul(4, p->param_count)); /* torch.stack(norms) */
    zt_touch(p, zl_mul(4, p->param_count)); /* .square() */
    zt_touch(p, 4);
    for (uint32_t i = 0; i < p->param_count; i++) {
        zt_drop(p, &norm[i]);
    }
}

static void bare_step(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    if (ds->config->clips) {
        clip(p);
    }
    zt_ds_updater_step(p, &ds->updater[0]);
    for (uint32_t i = 0; i < p->param_count; i++) {
        zt_clear_grad(p, p->named[i]);
    }
}

const zt_ds_wrapper_table zt_ds_fp16 = {
    .name = "FP16_Optimizer", .init = fused_init, .after_backward = reduce, .step = fused_step};

const zt_ds_wrapper_table zt_ds_fp16_unfused = {.name = "FP16_UnfusedOptimizer",
                                                .init = unfused_init,
                                                .after_backward = reduce,
                                                .step = unfused_step};

const zt_ds_wrapper_table zt_ds_bare = {
    .init = bare_init, .after_backward = reduce, .step = bare_step};
