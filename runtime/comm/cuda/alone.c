/* Stands for nccl.c, library.c and meeting.c where there is no NCCL to build with. */
#include <stdio.h>

#include "comm/cuda/library.h"
#include "comm/transport.h"

zl_status zr_comm_can_join(zl_err *err)
{
    return zl_fail(
        err, ZL_E_RESOURCE,
        "this zl-train-cuda was built without NCCL and runs one rank only; build it again "
        "with -DNCCL_ROOT=FOLDER");
}

zl_status zr_comm_open_ranks(zr_comm *comm, zl_err *err)
{
    (void)comm;
    return zr_comm_can_join(err);
}

void zr_nccl_version(char *text, size_t size)
{
    (void)snprintf(text, size, "none");
}

/* The launcher ends the others. */
void zr_comm_decline(uint64_t rank, uint64_t ranks, zl_status status)
{
    (void)rank;
    (void)ranks;
    (void)status;
}
