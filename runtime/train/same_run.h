/* Which fields of a run decide what the elements of a checkpoint mean. */
#ifndef ZR_SAME_RUN_H
#define ZR_SAME_RUN_H

#include "zeroledger/error.h"
#include "zeroledger/run.h"

/* ZL_E_INPUT naming the first of them that differs, with both values; `where` is the checkpoint. */
ZL_NODISCARD zl_status zr_same_run(const zl_run *saved, const zl_run *now, const char *where,
                                   zl_err *err);

#endif
