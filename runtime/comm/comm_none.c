/* Stands for comm_mpi.c where there is no MPI to build with. */
#include "comm/transport.h"

zl_status zr_comm_open_mpi(zr_comm *comm, zl_err *err)
{
    (void)comm;
    return zl_fail(err, ZL_E_RESOURCE,
                   "this zl-train was built without MPI and runs one rank only; install "
                   "libopenmpi-dev and openmpi-bin, and build again");
}

bool zr_comm_has_mpi(void)
{
    return false;
}
