/* Predicted against measured, figure by figure, in exact bytes.
 *
 *     zv_diff diff;
 *     ZL_TRY(zv_diff_ledgers(predicted, measured, false, &diff, err));
 *     if (diff.first.found) {
 *         char text[ZV_DIFF_TEXT_SIZE];
 *         zv_difference_text(&diff.first, text, sizeof text);
 *     }
 *
 * The first difference is the one nearest to its cause: visits and phases in the order of the
 * vocabulary, requested before granted; within a cell a buffer's own maximum and end come before
 * what it had live at the peak, because a peak that moves to another instant changes at_peak of
 * buffers that are right.
 */
#ifndef ZV_DIFF_H
#define ZV_DIFF_H

#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/ledger.h"

enum { ZV_DIFF_TEXT_SIZE = 256 };

typedef struct zv_diff {
    uint64_t cells;              /* visits of phases that occur in either ledger */
    uint64_t figures;            /* numbers compared that are not 0 in both */
    uint64_t differing;          /* of them unequal; first.count is the same number */
    uint64_t off[ZL_RUNG_COUNT]; /* largest difference of a figure, bytes */
    zl_difference first;         /* a = predicted, b = measured; present: 1 or 0 */
} zv_diff;

/* Runs with different ids are ZL_E_USAGE. skip_work leaves the kind work out. */
ZL_NODISCARD zl_status zv_diff_ledgers(const zl_ledger *predicted, const zl_ledger *measured,
                                       bool skip_work, zv_diff *out, zl_err *err);

/* "cold backward: act.qkv (act), end, requested: predicted 0 bytes, measured 4,096". */
void zv_difference_text(const zl_difference *difference, char *text, size_t size);

/* The static string equal to name among the words of zl_difference.what, or NULL. */
const char *zv_difference_what(const char *name);

#endif
