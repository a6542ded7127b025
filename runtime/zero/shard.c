/* What a rank keeps at rest: parameters, master weights, optimizer states, and the slots. */
#include <inttypes.h>
#include <stdlib.h>

#include "device/device.h"
#include "fault/fault.h"
#include "zero/zero.h"
#include "zeroledger/bytes.h"

zl_status zr_did(zl_status status, const char *kernel, zl_err *err)
{
    if (status == ZL_OK) {
        return ZL_OK;
    }
    if (status != ZL_E_USAGE) {
        return zl_fail(err, status, "kernel %s failed on the device: %s", kernel,
                       zr_device_failure());
    }
    return zl_fail(err, ZL_E_BUG,
                   "kernel %s refused its arguments: shapes that engine_new should have refused",
                   kernel);
}

static zl_dtype compute_type(zl_precision precision)
{
    switch (precision) {
    case ZL_PRECISION_FP32:
        return ZL_F32;
    case ZL_PRECISION_BF16:
    case ZL_PRECISION_BF16_MIXED:
        return ZL_BF16;
    case ZL_PRECISION_FP16_MIXED:
        return ZL_F16;
    case ZL_PRECISION_BF16_AUTOCAST: /* not native */
    case ZL_PRECISION_COUNT:
        break;
    }
    return ZL_F32;
}

static void choose_types(zr_zero *zero)
{
    const zl_precision precision = zero->run->precision;
    const bool mixed = precision == ZL_PRECISION_BF16_MIXED || precision == ZL_PRECISION_FP16_MIXED;
    zero->dtype = compute_type(precision);
    zero->gdtype = zero->run->grad_dtype == ZL_GRAD_FP32 ? ZL_F32 : zero->dtype;
    zero->sdtype = precision == ZL_PRECISION_BF16 ? ZL_BF16 : ZL_F32;
    zero->master = mixed;
    if (zr_fault(ZR_FAULT_GRAD_FP32)) {
        zero->gdtype = ZL_F32;
    }
}

/* Without a shard at rest the master weights are the only copy: that fault cannot happen there. */
static bool keeps_master(const zr_zero *zero)
{
    return zero->master && !(zr_fault(ZR_FAULT_MASTER_MISSING) && zero->run->shard_copy);
}

zl_status zr_zero_init(zr_zero *zero, zl_err *err)
{
    const zl_run *run = zero->run;
    choose_types(zero);
    if (!run->shard_copy && (run->stage != 3 || !zero->master)) {
        return zl_fail(err, ZL_E_USAGE,
                       "no-shard-copy needs stage 3 and fp32 master weights to gather from");
    }
    zero->units = zl_add(run->model.layers, 2);
    zr_unit_close(&zero->embed, zero->dtype, zero->ranks);
    zr_unit_close(&zero->block, zero->dtype, zero->ranks);
    zr_unit_close(&zero->head, zero->dtype, zero->ranks);
    const bool stage3 = run->stage == 3;
    zero->gather_blocks = stage3 ? zl_min(zl_add(run->window, 1), run->model.layers) : 0;
    zero->reduce_blocks = run->stage >= 2 ? zl_min(run->reduce_slots, run->model.layers) : 0;
    zero->store = calloc(zero->units, sizeof *zero->store);
    zero->gather = calloc(zl_add(zero->gather_blocks, 2), sizeof *zero->gather);
    zero->reduce = calloc(zl_add(zero->reduce_blocks, 2), sizeof *zero->reduce);
    if (zero->store == NULL || zero->gather == NULL || zero->reduce == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory: bookkeeping of %" PRIu64 " units",
                       zero->units);
    }
    uint64_t tensors = 0;
    for (uint64_t u = 0; u < zero->units; u++) {
        zr_store *store = &zero->store[u];
        store->unit = u == 0 ? &zero->embed : u + 1 < zero->units ? &zero->block : &zero->head;
        store->first_tensor = tensors;
        tensors += store->unit->count;
    }
    return ZL_OK;
}

void *zr_zero_at(void *base, uint64_t elements, zl_dtype dtype)
{
    return (unsigned char *)base + elements * zl_dtype_size(dtype);
}

void *zr_zero_weight(const zr_zero *zero, uint64_t u, zr_role role)
{
    const zr_store *store = &zero->store[u];
    const zr_tensor *tensor = zr_unit_find(store->unit, role);
    return tensor == NULL ? NULL : zr_zero_at(store->weights, tensor->offset, zero->dtype);
}

void *zr_zero_gradient(const zr_zero *zero, uint64_t u, zr_role role)
{
    const zr_store *store = &zero->store[u];
    const zr_tensor *tensor = zr_unit_find(store->unit, role);
    return tensor == NULL ? NULL : zr_zero_at(store->dweights, tensor->offset, zero->gdtype);
}

static zr_range shard_of(const zr_zero *zero, uint64_t u)
{
    const uint64_t shard = zero->store[u].unit->shard;
    return (zr_range){zl_mul(zero->rank, shard), zl_mul(zero->rank + 1, shard)};
}

zr_range zr_zero_owned(const zr_zero *zero, uint64_t u)
{
    return zero->run->stage == 0 ? (zr_range){0, zero->store[u].unit->elements} : shard_of(zero, u);
}

/* Elements [begin, end) of a tensor that start at out. */
static zl_status start_tensor(const zr_zero *zero, const zr_store *store, uint64_t index,
                              zr_range range, void *out, zl_dtype dtype, zl_err *err)
{
    const zr_tensor *tensor = &store->unit->tensor[index];
    const uint64_t count = range.end - range.begin;
    if (!tensor->matrix) {
        return zr_did(zr_fill(out, count, dtype, (float)tensor->start, zero->stream), "fill", err);
    }
    const zr_init_args args = {
        .dtype = dtype,
        .begin = range.begin,
        .end = range.end,
        .out = out,
        .seed = zero->seed,
        .tensor = store->first_tensor + index,
        .a = 0.0F,
        .b = (float)tensor->start,
    };
    return zr_did(zr_init_normal(&args, zero->stream), "init_normal", err);
}

/* First values of the stretch `range` of a unit. Both copies of a mixed precision come straight
 * from the generator, which rounds once: the compute copy is the rounded master. */
static zl_status start_values(const zr_zero *zero, const zr_store *store, zr_range range, void *out,
                              zl_dtype dtype, zl_err *err)
{
    const zr_unit *unit = store->unit;
    ZL_TRY(zr_did(zr_fill(out, range.end - range.begin, dtype, 0.0F, zero->stream), "fill", err));
    for (uint64_t i = 0; i < unit->count; i++) {
        const zr_tensor *tensor = &unit->tensor[i];
        const uint64_t begin = zl_max(range.begin, tensor->offset);
        const uint64_t end = zl_min(range.end, tensor->offset + tensor->elements);
        if (begin < end) {
            const zr_range inside = {begin - tensor->offset, end - tensor->offset};
            void *at = zr_zero_at(out, begin - range.begin, dtype);
            ZL_TRY(start_tensor(zero, store, i, inside, at, dtype, err));
        }
    }
    return ZL_OK;
}

static zl_status build_param(zr_zero *zero, zr_store *store, zl_buf what, zr_range range,
                             zl_err *err)
{
    ZL_TRY(zr_alloc(zero->track, what, ZR_SHAPE(zero->dtype, range.end - range.begin),
                    &store->param, err));
    return start_values(zero, store, range, store->param.ptr, zero->dtype, err);
}

static zl_status build_master(zr_zero *zero, zr_store *store, zr_range range, zl_err *err)
{
    ZL_TRY(zr_alloc(zero->track, ZL_BUF_MASTER_WEIGHTS, ZR_SHAPE(ZL_F32, range.end - range.begin),
                    &store->master, err));
    return start_values(zero, store, range, store->master.ptr, ZL_F32, err);
}

static zl_status build_unit(zr_zero *zero, uint64_t u, zl_err *err)
{
    zr_store *store = &zero->store[u];
    const zr_range whole = {0, store->unit->elements};
    const zr_range owned = zr_zero_owned(zero, u);
    if (zero->run->stage < 3) {
        ZL_TRY(build_param(zero, store, ZL_BUF_PARAM_UNIT, whole, err));
        store->weights = store->param.ptr;
    } else if (zero->run->shard_copy) {
        ZL_TRY(build_param(zero, store, ZL_BUF_PARAM_SHARD, owned, err));
    }
    return keeps_master(zero) ? build_master(zero, store, owned, err) : ZL_OK;
}

static zl_status build_gather_slot(zr_zero *zero, uint64_t index, zl_buf what, const zr_unit *unit,
                                   zl_err *err)
{
    zr_slot *slot = &zero->gather[index];
    slot->holds = ZR_NO_UNIT;
    ZL_TRY(zr_alloc(zero->track, what, ZR_SHAPE(zero->dtype, unit->elements), &slot->mem, err));
    if (!zero->run->shard_copy) {
        ZL_TRY(zr_alloc(zero->track, ZL_BUF_GATHER_INPUT, ZR_SHAPE(zero->dtype, unit->shard),
                        &slot->input, err));
    }
    return ZL_OK;
}

static zl_status build_reduce_slot(zr_zero *zero, uint64_t index, zl_buf what, const zr_unit *unit,
                                   zl_err *err)
{
    zr_slot *slot = &zero->reduce[index];
    const uint64_t times = zr_fault(ZR_FAULT_SLOT_DOUBLED) && index == 2 ? 2 : 1;
    slot->holds = ZR_NO_UNIT;
    return zr_alloc(zero->track, what, ZR_SHAPE(zero->gdtype, times, unit->elements), &slot->mem,
                    err);
}

static zl_status build_gather_slots(zr_zero *zero, zl_err *err)
{
    ZL_TRY(build_gather_slot(zero, 0, ZL_BUF_GATHER_EMBED, &zero->embed, err));
    ZL_TRY(build_gather_slot(zero, 1, ZL_BUF_GATHER_HEAD, &zero->head, err));
    for (uint64_t i = 0; i < zero->gather_blocks; i++) {
        ZL_TRY(build_gather_slot(zero, i + 2, ZL_BUF_GATHER_BLOCK, &zero->block, err));
    }
    return ZL_OK;
}

static zl_status build_reduce_slots(zr_zero *zero, zl_err *err)
{
    ZL_TRY(build_reduce_slot(zero, 0, ZL_BUF_GRAD_SLOT_EMBED, &zero->embed, err));
    ZL_TRY(build_reduce_slot(zero, 1, ZL_BUF_GRAD_SLOT_HEAD, &zero->head, err));
    for (uint64_t i = 0; i < zero->reduce_blocks; i++) {
        ZL_TRY(build_reduce_slot(zero, i + 2, ZL_BUF_GRAD_SLOT_BLOCK, &zero->block, err));
    }
    return ZL_OK;
}

zl_status zr_zero_build(zr_zero *zero, zl_err *err)
{
    for (uint64_t u = 0; u < zero->units; u++) {
        ZL_TRY(build_unit(zero, u, err));
    }
    if (zero->run->stage == 3) {
        ZL_TRY(build_gather_slots(zero, err));
    }
    if (zero->run->stage >= 2) {
        ZL_TRY(build_reduce_slots(zero, err));
    }
    return zr_fault(ZR_FAULT_MOMENT_WRONG_PHASE) ? zr_zero_states(zero, err) : ZL_OK;
}

static zl_status build_state(zr_zero *zero, uint64_t u, zl_buf what, zr_mem *out, zl_err *err)
{
    if (out->ptr != NULL) {
        return ZL_OK; /* only a fault allocates states earlier */
    }
    const zr_range owned = zr_zero_owned(zero, u);
    const uint64_t count = owned.end - owned.begin;
    ZL_TRY(zr_alloc(zero->track, what, ZR_SHAPE(zero->sdtype, count), out, err));
    return zr_did(zr_fill(out->ptr, count, zero->sdtype, 0.0F, zero->stream), "fill", err);
}

zl_status zr_zero_states(zr_zero *zero, zl_err *err)
{
    for (uint64_t u = 0; u < zero->units; u++) {
        zr_store *store = &zero->store[u];
        ZL_TRY(build_state(zero, u, ZL_BUF_OPT_EXP_AVG, &store->exp_avg, err));
        if (zero->run->optimizer == ZL_OPTIMIZER_ADAMW) {
            ZL_TRY(build_state(zero, u, ZL_BUF_OPT_EXP_AVG_SQ, &store->exp_avg_sq, err));
        }
    }
    return ZL_OK;
}

static void release_slots(zr_track *track, zr_slot *slot, uint64_t count)
{
    for (uint64_t i = 0; slot != NULL && i < count; i++) {
        zr_free(track, &slot[i].input);
        zr_free(track, &slot[i].mem);
    }
    free(slot);
}

void zr_zero_release(zr_zero *zero)
{
    release_slots(zero->track, zero->reduce, zero->reduce_blocks + 2);
    release_slots(zero->track, zero->gather, zero->gather_blocks + 2);
    for (uint64_t u = 0; zero->store != NULL && u < zero->units; u++) {
        zr_store *store = &zero->store[u];
        zr_mem *const mem[] = {&store->exp_avg_sq, &store->exp_avg, &store->landing,
                               &store->grad,       &store->master,  &store->param};
        for (size_t i = 0; i < sizeof mem / sizeof mem[0]; i++) {
            zr_free(zero->track, mem[i]);
        }
    }
    free(zero->store);
    *zero = (zr_zero){.units = 0};
}
