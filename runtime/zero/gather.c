/* Whole units for use: in place (stages 0 to 2) or gathered into slots (stage 3). */
#include "zero/zero.h"
#include "zeroledger/bytes.h"

static zr_slot *slot_of(const zr_zero *zero, uint64_t u)
{
    if (u == 0) {
        return &zero->gather[0];
    }
    if (u + 1 == zero->units) {
        return &zero->gather[1];
    }
    return &zero->gather[2 + (u - 1) % zero->gather_blocks];
}

/* Where this rank's piece of the unit comes from. */
static zl_status gather_source(zr_zero *zero, uint64_t u, zr_slot *slot, const void **out,
                               zl_err *err)
{
    const zr_store *store = &zero->store[u];
    if (zero->run->shard_copy) {
        *out = store->param.ptr;
        return ZL_OK;
    }
    const zr_pair_args cast = {
        .count = store->unit->shard,
        .dst_dtype = zero->dtype,
        .src_dtype = ZL_F32,
        .dst = slot->input.ptr,
        .src = store->master.ptr,
    };
    ZL_TRY(zr_did(ZR_TIMED(zero->profile, "cast", zr_cast(&cast, zero->stream)), "cast", err));
    *out = slot->input.ptr;
    return ZL_OK;
}

static zl_status finish(zr_zero *zero, zr_slot *slot, zl_err *err)
{
    if (slot->pending) {
        ZL_TRY(zr_comm_wait_for(zero->comm, slot->issued, err));
        slot->pending = false;
    }
    return ZL_OK;
}

/* Parameters do not change within a step: a slot that still holds the unit is not gathered again.
 */
static zl_status issue(zr_zero *zero, uint64_t u, zl_err *err)
{
    zr_slot *slot = slot_of(zero, u);
    zr_store *store = &zero->store[u];
    if (slot->holds == u) {
        return ZL_OK;
    }
    if (slot->holds != ZR_NO_UNIT) {
        zero->store[slot->holds].weights = NULL;
    }
    ZL_TRY(finish(zero, slot, err)); /* of a unit that nobody used: its input is about to go */
    const void *piece = NULL;
    ZL_TRY(gather_source(zero, u, slot, &piece, err));
    zr_comm_label(zero->comm, "gather", u);
    ZL_TRY(zr_comm_all_gather(zero->comm, piece, slot->mem.ptr,
                              ZR_SHAPE(zero->dtype, store->unit->shard), err));
    slot->holds = u;
    slot->issued = zr_comm_issued(zero->comm);
    slot->pending = true;
    store->weights = slot->mem.ptr;
    return ZL_OK;
}

/* The next forward begins while later units are still on their way. */
static zl_status arrive(zr_zero *zero, uint64_t u, zl_err *err)
{
    const uint64_t published = zero->store[u].published;
    zero->store[u].published = 0;
    return published == 0 ? ZL_OK : zr_comm_wait_for(zero->comm, published, err);
}

zl_status zr_gather_use(zr_zero *zero, uint64_t u, zl_err *err)
{
    if (zero->run->stage < 3) {
        return arrive(zero, u, err);
    }
    ZL_TRY(issue(zero, u, err));
    return finish(zero, slot_of(zero, u), err);
}

zl_status zr_gather_ahead(zr_zero *zero, uint64_t u, bool upwards, zl_err *err)
{
    if (zero->run->stage < 3) {
        return ZL_OK;
    }
    /* Downwards it ends at the first block: backward does not read an embedding table. */
    const uint64_t left = upwards ? zero->units - 1 - u : u - 1;
    const uint64_t ahead = zl_min(zero->run->window, left);
    for (uint64_t i = 1; i <= ahead; i++) {
        ZL_TRY(issue(zero, upwards ? u + i : u - i, err));
    }
    return ZL_OK;
}

void zr_gather_forget(zr_zero *zero)
{
    if (zero->run->stage < 3) {
        return;
    }
    for (uint64_t i = 0; i < zero->gather_blocks + 2; i++) {
        if (zero->gather[i].holds != ZR_NO_UNIT) {
            zero->store[zero->gather[i].holds].weights = NULL;
            zero->gather[i].holds = ZR_NO_UNIT;
        }
    }
}

zl_status zr_gather_publish(zr_zero *zero, zl_err *err)
{
    for (uint64_t u = 0; u < zero->units; u++) {
        zr_store *store = &zero->store[u];
        const uint64_t shard = store->unit->shard;
        void *own = zr_zero_at(store->param.ptr, zl_mul(zero->rank, shard), zero->dtype);
        zr_comm_label(zero->comm, "publish", u);
        ZL_TRY(zr_comm_all_gather(zero->comm, own, store->param.ptr, ZR_SHAPE(zero->dtype, shard),
                                  err));
        store->published = zr_comm_issued(zero->comm);
    }
    return ZL_OK;
}
