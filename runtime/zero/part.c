/* The arrays at rest that decide how a training goes on: one of weights, and the optimizer states.
 * Everything else follows from them. */
#include "zero/zero.h"
#include "zeroledger/bytes.h"

uint64_t zr_part_count(const zr_zero *zero)
{
    return zero->run->optimizer == ZL_OPTIMIZER_ADAMW ? 3 : 2;
}

zl_dtype zr_part_dtype(const zr_zero *zero, zr_part part)
{
    if (part != ZR_PART_WEIGHTS) {
        return zero->sdtype;
    }
    return zero->master ? ZL_F32 : zero->dtype;
}

/* Parameters are whole units up to stage 2; everything else is what this rank owns. */
void *zr_part_at(const zr_zero *zero, uint64_t u, zr_part part, uint64_t element)
{
    const zr_store *store = &zero->store[u];
    const bool whole = part == ZR_PART_WEIGHTS && !zero->master && zero->run->stage < 3;
    const uint64_t first = whole ? 0 : zr_zero_owned(zero, u).begin;
    const zr_mem *mem = NULL;
    switch (part) {
    case ZR_PART_WEIGHTS:
        mem = zero->master ? &store->master : &store->param;
        break;
    case ZR_PART_EXP_AVG:
        mem = &store->exp_avg;
        break;
    case ZR_PART_EXP_AVG_SQ:
        mem = &store->exp_avg_sq;
        break;
    case ZR_PART_COUNT:
        break;
    }
    return mem == NULL || mem->ptr == NULL
               ? NULL
               : zr_zero_at(mem->ptr, element - first, zr_part_dtype(zero, part));
}

/* The compute copy at rest, from the master weights that this rank owns. */
static zl_status copy_master(const zr_zero *zero, uint64_t u, zl_err *err)
{
    const zr_store *store = &zero->store[u];
    const zr_range owned = zr_zero_owned(zero, u);
    if (store->master.ptr == NULL || store->param.ptr == NULL) {
        return ZL_OK;
    }
    const zr_pair_args cast = {
        .count = owned.end - owned.begin,
        .dst_dtype = zero->dtype,
        .src_dtype = ZL_F32,
        .dst = zr_zero_at(store->param.ptr, zero->run->stage < 3 ? owned.begin : 0, zero->dtype),
        .src = store->master.ptr,
    };
    return zr_did(zr_cast(&cast, zero->stream), "cast", err);
}

zl_status zr_part_settle(zr_zero *zero, zl_err *err)
{
    for (uint64_t u = 0; u < zero->units; u++) {
        ZL_TRY(copy_master(zero, u, err));
    }
    zr_gather_forget(zero);
    const bool spread = zero->run->stage == 1 || zero->run->stage == 2;
    return spread ? zr_gather_publish(zero, err) : ZL_OK;
}
