/* Inverse questions about frameworks, and what both kinds of answers share. Private to solve/. */
#ifndef ZL_SOLVE_WALKS_H
#define ZL_SOLVE_WALKS_H

#include "zeroledger/solve.h"

/* zl_solve of a framework other than native. */
zl_status zl_solve_walks(const zl_run *run, const zl_question *question, zl_fit *fit, zl_err *err);

/* Cuts the values that the run allows down to those that are asked about. ZL_E_USAGE: none is left.
 */
zl_status zl_fit_range(const zl_question *question, uint64_t *low, uint64_t *high, zl_err *err);

/* The lowest stage that fits and the one below it; none fits: the one that comes nearest. */
void zl_fit_take_stage(zl_fit *fit);

#endif
