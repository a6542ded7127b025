/* Walks what this rank owns, in stretches of tensors that decay alike: matrices do, vectors do not.
 */
#include "device/profile.h"
#include "optim/optim.h"
#include "zeroledger/bytes.h"

static zl_status update(const zr_zero *zero, const zr_stretch *stretch, const zr_hyper *hyper,
                        zl_err *err)
{
    switch (zero->run->optimizer) {
    case ZL_OPTIMIZER_ADAMW:
        return zr_update_adamw(zero, stretch, hyper, err);
    case ZL_OPTIMIZER_SGD:
        return zr_update_sgd(zero, stretch, hyper, err);
    case ZL_OPTIMIZER_ADAMW_FUSED:
    case ZL_OPTIMIZER_ADAMW_FOREACH:
    case ZL_OPTIMIZER_ADAMW_LOOP:
    case ZL_OPTIMIZER_ADAM8BIT:
    case ZL_OPTIMIZER_COUNT:
        break;
    }
    return zl_fail(err, ZL_E_BUG, "optimizer %d does not exist", (int)zero->run->optimizer);
}

static void *at(const zr_mem *mem, uint64_t elements, zl_dtype dtype)
{
    return mem->ptr == NULL ? NULL : zr_zero_at(mem->ptr, elements, dtype);
}

/* Elements [begin, end) of the unit; master weights and states begin at element `first`. */
static zr_stretch stretch_of(const zr_zero *zero, uint64_t u, uint64_t first, zr_range range)
{
    const zr_store *store = &zero->store[u];
    const uint64_t stage = zero->run->stage;
    const uint64_t own = range.begin - first;
    return (zr_stretch){
        .count = range.end - range.begin,
        .param = at(&store->param, stage < 3 ? range.begin : own, zero->dtype),
        .master = at(&store->master, own, ZL_F32),
        .grad = at(&store->grad, stage < 2 ? range.begin : own, zero->gdtype),
        .exp_avg = at(&store->exp_avg, own, zero->sdtype),
        .exp_avg_sq = at(&store->exp_avg_sq, own, zero->sdtype),
    };
}

/* The last tensor of the stretch that begins with tensor i. */
static uint64_t last_alike(const zr_unit *unit, uint64_t i)
{
    while (i + 1 < unit->count && unit->tensor[i + 1].matrix == unit->tensor[i].matrix) {
        i++;
    }
    return i;
}

static zl_status update_unit(const zr_zero *zero, uint64_t u, const zr_hyper *hyper, zl_err *err)
{
    const zr_unit *unit = zero->store[u].unit;
    const zr_range owned = zr_zero_owned(zero, u);
    for (uint64_t i = 0; i < unit->count; i++) {
        const uint64_t first = i;
        i = last_alike(unit, i);
        const uint64_t begin = zl_max(owned.begin, unit->tensor[first].offset);
        const uint64_t end = zl_min(owned.end, zr_unit_stretch_end(unit, i));
        if (begin < end) {
            zr_stretch stretch = stretch_of(zero, u, owned.begin, (zr_range){begin, end});
            stretch.decays = unit->tensor[i].matrix;
            ZL_TRY(update(zero, &stretch, hyper, err));
        }
    }
    return ZL_OK;
}

zl_status zr_optim_update(zr_zero *zero, const zr_hyper *hyper, zl_err *err)
{
    for (uint64_t u = 0; u < zero->units; u++) {
        ZL_TRY(ZR_TIMED(zero->profile, "update", update_unit(zero, u, hyper, err)));
    }
    zr_gather_forget(zero);
    return ZL_OK;
}
