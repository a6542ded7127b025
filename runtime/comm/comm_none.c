/* Stands for comm_mpi.c where there is no MPI to build with. */
#include "comm/transport.h"

zl_status zr_comm_can_join(zl_err *err)
{
    return zl_fail(err, ZL_E_RESOURCE,
                   "this zl-train was built without MPI and runs one rank only; install "
                   "libopenmpi-dev and openmpi-bin, and build again");
}

zl_status zr_comm_open_ranks(zr_comm *comm, zl_err *err)
{
    (void)comm;
    return zr_comm_can_join(err);
}

/* The launcher ends the others. */
void zr_comm_decline(uint64_t rank, uint64_t ranks, zl_status status)
{
    (void)rank;
    (void)ranks;
    (void)status;
}
