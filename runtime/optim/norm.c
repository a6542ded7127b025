/* What the step must know about the whole gradient: its norm, and whether it is finite. */
#include <math.h>

#include "optim/optim.h"
#include "zeroledger/bytes.h"

enum { PIECE = 64 }; /* numbers on the host at a time */

/* Row `rank` of temp.norm: one sum of squares per unit. */
static zl_status square_own(zr_zero *zero, double *row, zl_err *err)
{
    for (uint64_t u = 0; u < zero->units; u++) {
        ZL_TRY(zr_did(zr_sumsq(zr_grad_shard(zero, u), zero->store[u].unit->shard, zero->gdtype,
                               row + u, zero->stream),
                      "sumsq", err));
    }
    return ZL_OK;
}

static zl_status add_in_order(const zr_zero *zero, const double *squares, double *total,
                              zl_err *err)
{
    double piece[PIECE];
    const uint64_t count = zl_mul(zero->ranks, zero->units);
    double sum = 0.0;
    for (uint64_t at = 0; at < count; at += PIECE) {
        const uint64_t n = zl_min(PIECE, count - at);
        ZL_TRY(zr_did(zr_copy_out(piece, squares + at, zl_mul(n, sizeof(double)), zero->stream),
                      "copy_out", err));
        for (uint64_t i = 0; i < n; i++) {
            sum += piece[i];
        }
    }
    *total = sum;
    return ZL_OK;
}

zl_status zr_optim_norm(zr_zero *zero, double *norm, zl_err *err)
{
    zr_mem mem = {0};
    const uint64_t row = zl_mul(sizeof(double), zero->units);
    ZL_TRY(zr_alloc(zero->track, ZL_BUF_TEMP_NORM, zl_mul(row, zero->ranks), &mem, err));
    double *own = (double *)mem.ptr + zl_mul(zero->rank, zero->units);
    double sum = 0.0;
    zl_status status = ZL_OK;
    ZL_TRY_GOTO(status, square_own(zero, own, err), out);
    ZL_TRY_GOTO(status, zr_comm_all_gather(zero->comm, own, mem.ptr, row, err), out);
    ZL_TRY_GOTO(status, zr_comm_wait(zero->comm, err), out);
    ZL_TRY_GOTO(status, add_in_order(zero, mem.ptr, &sum, err), out);
    *norm = sqrt(sum);
out:
    zr_free(zero->track, &mem);
    return status;
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
