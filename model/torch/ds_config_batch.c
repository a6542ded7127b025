/* train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x ranks. */
#include <inttypes.h>
#include <stdio.h>

#include "ds_config.h"
#include "zeroledger/bytes.h"

static uint64_t part_of(uint64_t total, uint64_t by)
{
    return by == 0 ? 0 : total / by;
}

/* The ranks that the other three ask for, where all of them were said; 0: none do. */
static uint64_t ranks_that_fit(const zt_ds_batch *b)
{
    const uint64_t per_rank = zl_mul(b->micro, b->steps);
    const uint64_t ranks = part_of(b->total, per_rank);
    return zl_mul(ranks, per_rank) == b->total ? ranks : 0; /* 0 too where a factor is */
}

static zl_status refuse(const zt_ds_batch *b, const zt_ds_batch *said, zl_err *err)
{
    char hint[64] = "";
    const uint64_t ranks = ranks_that_fit(said);
    if (ranks > 0) {
        snprintf(hint, sizeof hint, "; --ranks %" PRIu64 " would agree", ranks);
    }
    return zl_fail(
        err, ZL_E_USAGE,
        "train_batch_size %" PRIu64 " of the ds_config.json, but micro-batch %" PRIu64
        " x accumulation %" PRIu64 " x ranks %" PRIu64 " = %" PRIu64 ", which DeepSpeed refuses%s",
        b->total, b->micro, b->steps, b->ranks, zl_prod(b->micro, b->steps, b->ranks), hint);
}

zl_status zt_ds_batch_complete(zt_ds_batch *batch, zl_err *err)
{
    zt_ds_batch b = *batch;
    if (b.total == 0 && b.micro == 0) {
        return zl_fail(err, ZL_E_USAGE,
                       "neither train_batch_size nor train_micro_batch_size_per_gpu is given, "
                       "which DeepSpeed refuses; give --micro-batch");
    }
    if (b.micro == 0) {
        b.steps = zl_max(b.steps, 1);
        b.micro = part_of(b.total, zl_mul(b.steps, b.ranks));
    } else if (b.steps == 0) {
        b.steps = b.total == 0 ? 1 : part_of(b.total, zl_mul(b.micro, b.ranks));
    }
    if (b.total == 0) {
        b.total = zl_prod(b.micro, b.steps, b.ranks);
    }
    if (zl_prod(b.micro, b.steps, b.ranks) != b.total) {
        return refuse(&b, batch, err);
    }
    *batch = b;
    return ZL_OK;
}
