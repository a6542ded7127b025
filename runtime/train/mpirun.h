/* The command line and the environment that start N copies of this program through mpirun. */
#ifndef ZR_MPIRUN_H
#define ZR_MPIRUN_H

#include <stdint.h>

#include "zeroledger/error.h"

enum { ZR_MPIRUN_WORDS = 200, ZR_MPIRUN_PATH = 4096 };

typedef struct zr_mpirun {
    char *argv[ZR_MPIRUN_WORDS + 1]; /* NULL-terminated; borrowed words and the two texts below */
    char self[ZR_MPIRUN_PATH];       /* this program's path */
    char ranks[24];
    char folder[32]; /* where MPI keeps its shared memory and sockets; empty: where it likes */
} zr_mpirun;

/* argv of this process is borrowed: its arguments become those of the ranks. Sets environment
 * variables that mpirun and the ranks inherit; what the user has set stays. The caller releases. */
ZL_NODISCARD zl_status zr_mpirun_init(zr_mpirun *mpirun, uint64_t ranks, char *const *argv,
                                      zl_err *err);

/* Removes what MPI left in memory and on disk: an mpirun that was killed has not done it. */
void zr_mpirun_release(zr_mpirun *mpirun);

#endif
