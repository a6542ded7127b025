/* What several of DeepSpeed's optimizer wrappers do: norms, the overflow check, the optimizer's
 * step, flat reductions. */
#include "torch/deepspeed.h"
#include "zeroledger/bytes.h"

zt_storage zt_ds_new(zt_process *p, uint64_t bytes, const char *name)
{
    zt_storage s = zt_new(p, bytes);
    zt_name(p, s, name);
    return s;
}

void zt_ds_point(zt_process *p, zt_param *param, zt_storage storage)
{
    zt_drop(p, &param->value.storage);
    param->value.storage = zt_hold(p, storage);
}

void zt_ds_clear_gradients(zt_process *p, const zt_ds_group *group)
{
    for (uint32_t i = 0; i < group->params; i++) {
        zt_clear_grad(p, group->param[i]->param);
    }
}

void zt_ds_norm(zt_process *p, const uint64_t *count, size_t tensors)
{
    const bool kept = zt_ds_of(p)->release.norms_on_device;
    zt_storage *const norm = zt_ds_of(p)->list;
    for (size_t i = 0; i < tensors; i++) {
        zt_storage wide = zt_ds_new(p, zl_mul(8, count[i]), "norm in double precision");
        norm[i] = zt_new(p, 8);
        zt_touch_full_reduction(p, count[i], 8);
        zt_drop(p, &wide);
        if (!kept) { /* .item() */
            zt_drop(p, &norm[i]);
        }
    }
    if (kept) { /* torch.stack(norms).square().sum().float() */
        zt_storage stacked = zt_new(p, zl_mul(8, tensors));
        zt_storage squared = zt_new(p, zl_mul(8, tensors));
        zt_drop(p, &stacked);
        zt_touch(p, 8);
        zt_touch_full_reduction(p, tensors, 8);
        zt_drop(p, &squared);
    }
    for (size_t i = 0; i < tensors; i++) {
        zt_drop(p, &norm[i]);
    }
}

void zt_ds_norm_scalars(zt_process *p, uint64_t bytes)
{
    zt_ds *const ds = zt_ds_of(p);
    ds->scaled_norm = zt_new(p, bytes);
    ds->global_norm = zt_new(p, bytes);
}

static zt_optimizer *torch_optimizer(zt_process *p)
{
    const zl_ds_config *config = &p->run->ds;
    if (p->run->optimizer != ZL_TORCH_FROM_CONFIG) {
        return zt_optimizer_new(p, p->run->optimizer);
    }
    switch (config->optimizer) {
    case ZL_DS_TORCH_ADAM:
    case ZL_DS_CLIENT: /* as Hugging Face's Trainer: torch.optim.AdamW */
        return zt_optimizer_new(p, ZL_TORCH_ADAMW_FOREACH);
    case ZL_DS_ADAM8BIT:
        return zt_optimizer_new(p, ZL_TORCH_ADAM8BIT);
    case ZL_DS_SGD:
        return config->momentum ? zt_optimizer_new(p, ZL_TORCH_SGD) : NULL;
    case ZL_DS_ADAM:
    case ZL_DS_LAMB:
        break;
    }
    return NULL;
}

void zt_ds_updater_add(zt_process *p, zt_ds_updater *u, uint64_t elements)
{
    const zl_ds_config *config = &p->run->ds;
    if (u->elements == NULL) {
        u->elements = zt_arena(p, p->param_count + 1, sizeof *u->elements);
        u->torch = torch_optimizer(p);
        const bool plain = p->run->optimizer == ZL_TORCH_FROM_CONFIG &&
                           config->optimizer == ZL_DS_SGD; /* without momentum: no state */
        u->states = u->torch != NULL || plain ? 0 : 2;
        u->state = zt_arena(p, zl_mul(2, p->param_count + 1), sizeof *u->state);
    }
    u->elements[u->tensors++] = elements;
    if (u->torch != NULL) {
        zt_optimizer_add(p, u->torch, elements, 4);
    }
}

void zt_ds_updater_step(zt_process *p, zt_ds_updater *u)
{
    if (u->torch != NULL) {
        zt_optimizer_step(p, u->torch);
    }
    for (uint32_t i = 0; i < u->tensors && !u->started; i++) {
        for (uint32_t k = 0; k < u->states; k++) {
            u->state[2 * i + k] = zt_ds_new(p, zl_mul(4, u->elements[i]), "optimizer states");
        }
    }
    u->started = true;
}

void zt_ds_to_device(zt_process *p)
{
    zt_init_on_device(p);
    for (uint32_t i = 0; i < p->param_count; i++) {
        zt_name(p, p->named[i]->value.storage, "parameters");
    }
    zt_ds_optimizer_flag(p);
}

/* FusedAdam: its kernels report overflow into a buffer. */
void zt_ds_optimizer_flag(zt_process *p)
{
    zt_ds *const ds = zt_ds_of(p);
    if (zt_ds_is_adam(p->run) && ds->config->offload_optimizer == ZL_OFFLOAD_NONE) {
        ds->flag = zt_new(p, 4);
    }
}

/* MEMORY_OPT_ALLREDUCE_SIZE of runtime/engine.py, elements. */
static const uint64_t allreduce_size = 500000000;

void zt_ds_reduce_flat(zt_process *p)
{
    const zt_ds *ds = zt_ds_of(p);
    uint64_t filled = 0;
    uint32_t tensors = 0;
    for (uint32_t i = 0; i < p->param_count; i++) {
        if (p->named[i]->grad.storage != ZT_NO_STORAGE) {
            filled = zl_add(filled, ds->param[i].x);
            tensors++;
        }
        if (tensors > 0 && (filled > allreduce_size || i + 1 == p->param_count)) {
            zt_storage flat = zt_ds_new(p, tensors > 1 ? zl_mul(ds->width, filled) : 0,
                                        "flat copy of the gradients to reduce");
            zt_drop(p, &flat);
            filled = 0;
            tensors = 0;
        }
    }
}

/* isfinite of the maximum and of the minimum. */
static void check_extremes(zt_process *p, const zt_ds *ds, uint64_t elements)
{
    zt_storage finite = ZT_NO_STORAGE;
    for (int i = 0; i < 2; i++) {
        zt_storage extreme = zt_new(p, ds->width);
        zt_touch_full_reduction(p, elements, (uint32_t)ds->width);
        zt_touch(p, ds->width); /* its absolute value */
        zt_drop(p, &finite);
        finite = zt_new(p, 1);
        zt_drop(p, &extreme);
    }
    zt_drop(p, &finite);
}

/* x.float(), isnan, isinf, their or, and its maximum as floats. */
static void check_masks(zt_process *p, const zt_ds *ds, uint64_t elements)
{
    zt_storage wide = zt_new(p, ds->width == 4 ? 0 : zl_mul(4, elements));
    zt_storage mask[3] = {zt_new(p, elements), zt_new(p, elements), zt_new(p, elements)};
    zt_storage floats = zt_new(p, zl_mul(4, elements));
    zt_storage most = zt_new(p, 4);
    zt_touch_full_reduction(p, elements, 4);
    zt_drop(p, &floats);
    for (int i = 0; i < 3; i++) {
        zt_drop(p, &mask[i]);
    }
    zt_drop(p, &wide);
    zt_drop(p, &most);
}

void zt_ds_overflow(zt_process *p, const uint64_t *count, size_t tensors)
{
    const zt_ds *ds = zt_ds_of(p);
    zt_storage invalid =
        zt_new(p, ds->release.overflow_reductions || ds->release.overflow_masks ? 4 : 0);
    for (size_t i = 0; i < tensors; i++) {
        if (ds->release.overflow_reductions) {
            check_extremes(p, ds, count[i]);
        } else if (ds->release.overflow_masks) {
            check_masks(p, ds, count[i]);
        } else {
            zt_touch(p, ds->width == 4 ? 0 : zl_mul(4, count[i]));
        }
    }
    zt_drop(p, &invalid);
}
