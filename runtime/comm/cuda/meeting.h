/* How ranks that know nothing of each other get their first common bytes: those of rank 0.
 *
 * Ranks of our own launcher find them in a file in memory that it shares with them; others at rank
 * 0, which listens on MASTER_ADDR and MASTER_PORT as torchrun names them.
 *
 *     ZL_TRY(zr_meet(rank, ranks, &id, sizeof id, err));
 */
#ifndef ZR_COMM_CUDA_MEETING_H
#define ZR_COMM_CUDA_MEETING_H

#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"

/* Where the launcher says its file is. */
#define ZR_BOARD_VARIABLE "ZR_BOARD"

/* bytes: written by rank 0, filled in for all others. At most a few minutes. */
ZL_NODISCARD zl_status zr_meet(uint64_t rank, uint64_t ranks, void *bytes, size_t size,
                               zl_err *err);

#endif
