/* The report of a matrix: report.md, peaks.svg, agreement.svg and reduction.svg, made from the
 * verdicts, runs and ledgers of a folder and from nothing else, so that the same folder gives the
 * same bytes: no clock, no path, fixed decimals.
 *
 *     ZL_TRY(zv_report_write("zl-validate-out", err));
 */
#ifndef ZV_REPORT_H
#define ZV_REPORT_H

#include "zeroledger/error.h"

ZL_NODISCARD zl_status zv_report_write(const char *folder, zl_err *err);

#endif
