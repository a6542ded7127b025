/* One outcome for all ranks: what one rank could not do, none of them has done, and all of them say
 * why in the same words.
 *
 *     zl_err own = {0};
 *     (void)do_my_part(&own);
 *     table[rank].err = own;
 *     ZL_TRY(zr_agree(comm, table, err));       // the first rank's failure, or ZL_OK
 */
#ifndef ZR_AGREE_H
#define ZR_AGREE_H

#include <stdint.h>

#include "comm/comm.h"
#include "zeroledger/error.h"

/* What a rank tells the others. */
typedef struct zr_word {
    zl_err err; /* status ZL_OK: done */
    uint64_t bytes;
    uint64_t checksum;
} zr_word;

/* table: one word per rank, this rank's own filled in; afterwards all are. Collective. */
ZL_NODISCARD zl_status zr_agree(zr_comm *comm, zr_word *table, zl_err *err);

#endif
