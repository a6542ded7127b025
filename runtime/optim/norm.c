/* What the step must know about the whole gradient: its norm, and whether it is finite. */
#include <math.h>

#include "device/profile.h"
#include "device/stage.h"
#include "optim/optim.h"
#include "zeroledger/bytes.h"

/* Row `rank` of temp.norm: one sum of squares per unit. */
static zl_status square_own(zr_zero *zero, double *row, zl_err *err)
{
    for (uint64_t u = 0; u < zero->units; u++) {
        ZL_TRY(zr_did(ZR_TIMED(zero->profile, "squares",
                               zr_sumsq(zr_grad_shard(zero, u), zero->store[u].unit->shard,
                                        zero->gdtype, row + u, zero->stream)),
                      "sumsq", err));
    }
    return ZL_OK;
}

zl_status zr_optim_squares(zr_zero *zero, double *squares, zl_err *err)
{
    zr_mem mem = {0};
    const uint64_t row = zl_mul(sizeof(double), zero->units);
    ZL_TRY(zr_alloc(zero->track, ZL_BUF_TEMP_NORM, zl_mul(row, zero->ranks), &mem, err));
    double *own = (double *)mem.ptr + zl_mul(zero->rank, zero->units);
    zl_status status = ZL_OK;
    ZL_TRY_GOTO(status, square_own(zero, own, err), out);
    zr_comm_label(zero->comm, "norm", ZR_NO_NUMBER);
    ZL_TRY_GOTO(status, zr_comm_all_gather(zero->comm, own, mem.ptr, row, err), out);
    ZL_TRY_GOTO(status, zr_comm_wait(zero->comm, err), out);
    status = zr_stage_out(squares, mem.ptr, mem.bytes, zero->stream, err);
out:
    zr_free(zero->track, &mem);
    return status;
}

double zr_optim_norm(const zr_zero *zero, const double *squares)
{
    const uint64_t count = zl_mul(zero->ranks, zero->units);
    double sum = 0.0;
    for (uint64_t i = 0; i < count; i++) {
        sum += squares[i];
    }
    return sqrt(sum);
}

zl_status zr_optim_overflow(zr_zero *zero, void *flag, bool *found, zl_err *err)
{
    uint32_t seen = 0;
    ZL_TRY(zr_did(zr_fill(flag, 1, ZL_F32, 0.0F, zero->stream), "fill", err));
    for (uint64_t u = 0; u < zero->units; u++) {
        ZL_TRY(zr_did(zr_nonfinite(zr_grad_shard(zero, u), zero->store[u].unit->shard, zero->gdtype,
                                   flag, zero->stream),
                      "nonfinite", err));
    }
    ZL_TRY(zr_did(zr_copy_out(&seen, flag, sizeof seen, zero->stream), "copy_out", err));
    double ranks = seen == 0 ? 0.0 : 1.0;
    ZL_TRY(zr_comm_sum(zero->comm, &ranks, err));
    *found = ranks > 0.0;
    return ZL_OK;
}
