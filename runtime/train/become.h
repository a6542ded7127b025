/* The trainer of another backend: the same program, linked with other kernels. */
#ifndef ZR_BECOME_H
#define ZR_BECOME_H

#include "zeroledger/error.h"
#include "zeroledger/run.h"

/* Turns this process into the trainer of `backend`, found in the folder of this one, with the same
 * arguments; returns only if that fails. */
ZL_NODISCARD zl_status zr_become(zl_backend backend, char *const *argv, zl_err *err);

#endif
