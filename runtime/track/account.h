/* Arithmetic of a ledger cell, fed one event at a time. No memory of its own, no clock, no sizes
 * that it was not told.
 *
 *     zr_account_enter(&account);
 *     zr_account_add(&account, ZL_BUF_ACT_QKV, 1000, 1024);
 *     zr_account_sub(&account, ZL_BUF_ACT_QKV, 1000, 1024);
 *     zr_account_leave(&account, &cell);
 */
#ifndef ZR_ACCOUNT_H
#define ZR_ACCOUNT_H

#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/ledger.h"
#include "zeroledger/vocab.h"

typedef struct zr_account {
    uint64_t total[ZL_RUNG_COUNT];               /* live now */
    uint64_t kind[ZL_KIND_COUNT][ZL_RUNG_COUNT]; /* live now */
    uint64_t live[ZL_BUF_COUNT][ZL_RUNG_COUNT];  /* live now */
    zl_cell cell;                                /* of the visit that is going on */
} zr_account;

/* A visit begins with what is live: that is its first peak and everyone's first maximum. */
void zr_account_enter(zr_account *account);
/* Outside a visit only the live bytes change in a way that anyone sees. */
void zr_account_add(zr_account *account, zl_buf buf, uint64_t requested, uint64_t granted);
void zr_account_sub(zr_account *account, zl_buf buf, uint64_t requested, uint64_t granted);
/* Writes the finished cell. */
void zr_account_leave(zr_account *account, zl_cell *out);

/* ZL_E_BUG naming the first figure in which two visits of the same cell differ. */
ZL_NODISCARD zl_status zr_cell_same(const zl_cell *first, const zl_cell *again, zl_visit visit,
                                    zl_phase phase, zl_err *err);

#endif
