/* Gradients from all ranks to their owner. Every stage uses the same reduce-scatter on the same
 * flat unit, so that the sums are equal bit for bit. */
#include "fault/fault.h"
#include "zero/zero.h"
#include "zeroledger/bytes.h"

/* Blocks take the slots in turn, in the order of backward. */
static zr_slot *slot_of(const zr_zero *zero, uint64_t u)
{
    if (u == 0) {
        return &zero->reduce[0];
    }
    if (u + 1 == zero->units) {
        return &zero->reduce[1];
    }
    const uint64_t j = zero->units - 2 - u;
    return &zero->reduce[2 + j % zero->reduce_blocks];
}

static zl_status zero_out(const zr_zero *zero, void *grad, uint64_t count, zl_err *err)
{
    return zr_did(ZR_TIMED(zero->profile, "clear gradient",
                           zr_fill(grad, count, zero->gdtype, 0.0F, zero->stream)),
                  "fill", err);
}

static zl_status land(zr_zero *zero, zr_slot *slot, zl_err *err)
{
    zr_store *store = &zero->store[slot->holds];
    ZL_TRY(zr_comm_wait_for(zero->comm, slot->issued, err));
    slot->holds = ZR_NO_UNIT;
    if (store->landing.ptr == NULL) {
        return ZL_OK; /* the first micro-step reduced straight into grad.shard */
    }
    const zr_pair_args sum = {
        .count = store->unit->shard,
        .dst_dtype = zero->gdtype,
        .src_dtype = zero->gdtype,
        .dst = store->grad.ptr,
        .src = store->landing.ptr,
    };
    ZL_TRY(zr_did(ZR_TIMED(zero->profile, "add gradient", zr_add(&sum, zero->stream)), "add", err));
    zr_free(zero->track, &store->landing);
    return ZL_OK;
}

zl_status zr_grad_acquire(zr_zero *zero, uint64_t u, bool first, zl_err *err)
{
    zr_store *store = &zero->store[u];
    const uint64_t count = store->unit->elements;
    if (zero->run->stage < 2) {
        if (first) {
            ZL_TRY(zr_alloc(zero->track, ZL_BUF_GRAD_UNIT, ZR_SHAPE(zero->gdtype, count),
                            &store->grad, err));
            ZL_TRY(zero_out(zero, store->grad.ptr, count, err));
        }
        store->dweights = store->grad.ptr;
        return ZL_OK;
    }
    zr_slot *slot = slot_of(zero, u);
    if (slot->holds != ZR_NO_UNIT) {
        ZL_TRY(land(zero, slot, err));
    }
    store->dweights = slot->mem.ptr;
    return zero_out(zero, slot->mem.ptr, count, err);
}

/* Stages 0 and 1: the own piece of the unit becomes the sum; stage 0 wants all of them. */
static zl_status reduce_in_place(zr_zero *zero, uint64_t u, zl_err *err)
{
    const zr_store *store = &zero->store[u];
    const uint64_t shard = store->unit->shard;
    void *own = zr_grad_shard(zero, u);
    zr_comm_label(zero->comm, "reduce", u);
    ZL_TRY(zr_comm_reduce_scatter(zero->comm, store->grad.ptr, own, shard, zero->gdtype, err));
    if (zero->run->stage == 0) {
        zr_comm_label(zero->comm, "spread", u);
        ZL_TRY(zr_comm_all_gather(zero->comm, own, store->grad.ptr, ZR_SHAPE(zero->gdtype, shard),
                                  err));
    }
    return ZL_OK;
}

static uint64_t elements_at_rest(const zr_zero *zero, const zr_unit *unit)
{
    const bool whole = zero->run->stage == 2 && zr_fault(ZR_FAULT_STAGE2_GRAD_NOT_SHARDED);
    return whole ? unit->elements : unit->shard;
}

zl_status zr_grad_issue(zr_zero *zero, uint64_t u, bool first, bool last, zl_err *err)
{
    zr_store *store = &zero->store[u];
    const zr_unit *unit = store->unit;
    store->dweights = NULL;
    if (zero->run->stage < 2) {
        return last ? reduce_in_place(zero, u, err) : ZL_OK;
    }
    zr_slot *slot = slot_of(zero, u);
    zr_mem *target = first ? &store->grad : &store->landing;
    if (first) {
        ZL_TRY(zr_alloc(zero->track, ZL_BUF_GRAD_SHARD,
                        ZR_SHAPE(zero->gdtype, elements_at_rest(zero, unit)), target, err));
    } else {
        ZL_TRY(zr_alloc(zero->track, ZL_BUF_REDUCE_LANDING, ZR_SHAPE(zero->gdtype, unit->shard),
                        target, err));
    }
    zr_comm_label(zero->comm, "reduce", u);
    ZL_TRY(zr_comm_reduce_scatter(zero->comm, slot->mem.ptr, target->ptr, unit->shard, zero->gdtype,
                                  err));
    slot->holds = u;
    slot->issued = zr_comm_issued(zero->comm);
    return ZL_OK;
}

zl_status zr_grad_land_all(zr_zero *zero, zl_err *err)
{
    if (zero->run->stage < 2) {
        return zr_comm_wait(zero->comm, err);
    }
    for (uint64_t i = 0; i < zero->reduce_blocks + 2; i++) {
        if (zero->reduce[i].holds != ZR_NO_UNIT) {
            ZL_TRY(land(zero, &zero->reduce[i], err));
        }
    }
    return ZL_OK;
}

void *zr_grad_shard(const zr_zero *zero, uint64_t u)
{
    const zr_store *store = &zero->store[u];
    if (zero->run->stage >= 2) {
        return store->grad.ptr;
    }
    return zr_zero_at(store->grad.ptr, zl_mul(zero->rank, store->unit->shard), zero->gdtype);
}

void zr_grad_free_all(zr_zero *zero)
{
    for (uint64_t u = 0; u < zero->units; u++) {
        zr_free(zero->track, &zero->store[u].grad);
    }
}
