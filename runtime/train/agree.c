#include "train/agree.h"

zl_status zr_agree(zr_comm *comm, zr_word *table, zl_err *err)
{
    ZL_TRY(zr_comm_exchange(comm, table, sizeof *table, err));
    for (uint64_t r = 0; r < zr_comm_ranks(comm); r++) {
        if (table[r].err.status != ZL_OK) {
            return zl_fail(err, table[r].err.status, "%s", table[r].err.text);
        }
    }
    return ZL_OK;
}
