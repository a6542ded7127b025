#include "net/work.h"

#include "net/parts.h"
#include "zeroledger/bytes.h"

/* docs/schedule.md, init: a fixed size, whatever the model. */
static const uint64_t REDUCE_SCRATCH = (uint64_t)1 << 20;

zl_status zr_work_build(zr_net *net, zl_err *err)
{
    zr_scope *c = &net->constant;
    if (net->dtype != ZL_F32) {
        ZL_TRY(zr_take(net, c, ZL_BUF_WORK_HOST_GEMM,
                       ZR_SHAPE(ZL_F32, 3, ZR_HOST_GEMM_TILE, ZR_HOST_GEMM_TILE), err));
        net->work = c->mem[ZL_BUF_WORK_HOST_GEMM];
    }
    if (net->zero->ranks > 1) {
        ZL_TRY(zr_take(net, c, ZL_BUF_WORK_HOST_REDUCE, REDUCE_SCRATCH, err));
        zr_comm_set_scratch(net->zero->comm, zr_ptr(c, ZL_BUF_WORK_HOST_REDUCE), REDUCE_SCRATCH);
    }
    return ZL_OK;
}

void zr_work_release(zr_net *net)
{
    net->work = (zr_mem){.ptr = NULL};
}
