/* BF16_Optimizer, runtime/bf16_optimizer.py: bf16 parameters, full fp32 gradients on every rank,
 * masters and states of this rank's partition. */
#include "torch/deepspeed.h"
#include "zeroledger/bytes.h"

static void init_group(zt_process *p, zt_ds_group *g)
{
    zt_storage pad = zt_new(p, zl_mul(2, g->flat - g->elements));
    g->low = zt_ds_new(p, zl_mul(2, g->flat), "parameters");
    zt_drop(p, &pad);
    for (uint32_t i = 0; i < g->params; i++) {
        zt_ds_point(p, g->param[i]->param, g->low);
    }
    zt_storage copy = zt_new(p, zl_mul(2, g->local));
    g->high = zt_ds_new(p, zl_mul(4, g->local), "fp32 masters");
    zt_drop(p, &copy);
    g->grads = zt_ds_new(p, zl_mul(4, g->flat), "fp32 gradients of all parameters");
}

static void init(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    zt_ds_to_device(p);
    for (uint32_t i = 0; i < ds->groups; i++) {
        init_group(p, &ds->group[i]);
        zt_ds_updater_add(p, &ds->updater[0], ds->group[i].local);
    }
    if (!ds->release.lazy_states) {
        zt_ds_updater_step(p, &ds->updater[0]);
    }
}

static void clear_gradients(zt_process *p, const zt_ds *ds)
{
    for (uint32_t i = 0; i < ds->groups; i++) {
        zt_ds_clear_gradients(p, &ds->group[i]);
    }
}

static void before_backward(zt_process *p)
{
    if (!zt_ds_of(p)->release.frees_gradients) {
        clear_gradients(p, zt_ds_of(p));
    }
}

/* update_hp_grads: each gradient is cast and added; at a boundary the flat gradients are reduced as
 * one in bf16. */
static void after_backward(zt_process *p)
{
    const zt_ds *ds = zt_ds_of(p);
    uint64_t flat = 0;
    for (uint32_t i = 0; i < ds->groups; i++) {
        const zt_ds_group *g = &ds->group[i];
        for (uint32_t k = 0; k < g->params; k++) {
            zt_touch(p, zl_mul(4, g->param[k]->x));
        }
        flat = zl_add(flat, g->flat);
    }
    if (ds->boundary) {
        zt_storage joined = zt_new(p, ds->groups > 1 ? zl_mul(4, flat) : 0);
        zt_touch(p, zl_mul(2, flat));
        zt_drop(p, &joined);
    }
}

/* get_global_norm_of_tensors. */
static void take_norm(zt_process *p, zt_ds *ds)
{
    if (ds->release.norm_buffers && ds->kept == NULL) {
        ds->kept = zt_arena(p, p->param_count, sizeof *ds->kept);
        for (uint32_t i = 0; i < p->param_count; i++) {
            ds->kept[i] = ds->param[i].group != ZT_DS_NO_GROUP ? zt_new(p, 4) : ZT_NO_STORAGE;
        }
    }
    for (uint32_t i = 0; i < p->param_count; i++) {
        if (ds->param[i].group != ZT_DS_NO_GROUP) {
            zt_storage norm = zt_new(p, 4);
            zt_touch_full_reduction(p, ds->param[i].x, 4);
            zt_touch(p, 4); /* to the power of two */
            zt_drop(p, &norm);
        }
    }
    ds->global_norm = ds->release.norm_buffers ? zt_new(p, 4) : ZT_NO_STORAGE;
}

static void step(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    take_norm(p, ds);
    zt_ds_updater_step(p, &ds->updater[0]);
    for (uint32_t i = 0; i < ds->groups && !ds->release.gather_in_place; i++) {
        zt_touch(p, zl_mul(2, ds->group[i].flat));
    }
    if (ds->release.frees_gradients) {
        clear_gradients(p, ds);
    }
}

const zt_ds_wrapper_table zt_ds_bf16 = {.name = "BF16_Optimizer",
                                        .init = init,
                                        .before_backward = before_backward,
                                        .after_backward = after_backward,
                                        .step = step};
