#include "zeroledger/solve.h"

#include <inttypes.h>

#include "zeroledger/bytes.h"

/* Granted peak of the run at one micro-batch; overflow counts as more than any capacity. */
static zl_status peak_at(const zl_run *run, uint64_t micro_batch, uint64_t *bytes, zl_fit *limit,
                         zl_err *err)
{
    zl_run trial = *run;
    trial.micro_batch = micro_batch;
    return zl_predict_peak(&trial, bytes, &limit->visit, &limit->phase, err);
}

/* The peak never falls when the batch grows, so doubling brackets the answer and bisection finds
 * it; both neighbours are evaluated exactly, which certifies it. */
zl_status zl_solve_micro_batch(const zl_run *run, uint64_t capacity, zl_fit *out, zl_err *err)
{
    if (capacity == 0 || zl_poisoned(capacity)) {
        return zl_fail(err, ZL_E_USAGE,
                       "capacity must be positive and below 2^64 - 1, got %" PRIu64, capacity);
    }
    zl_fit fit = {0};
    uint64_t low = 0; /* fits, or 0 */
    uint64_t high = 1;
    uint64_t low_bytes = 0;
    uint64_t bytes = 0;
    zl_fit ignored;
    for (;;) {
        ZL_TRY(peak_at(run, high, &bytes, &fit, err));
        if (bytes > capacity) {
            break;
        }
        low = high;
        low_bytes = bytes;
        high = zl_mul(high, 2);
    }
    fit.next_bytes = bytes;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        ZL_TRY(peak_at(run, middle, &bytes, &ignored, err));
        if (bytes > capacity) {
            high = middle;
            fit.next_bytes = bytes;
            fit.visit = ignored.visit;
            fit.phase = ignored.phase;
        } else {
            low = middle;
            low_bytes = bytes;
        }
    }
    fit.best = low;
    fit.best_bytes = low_bytes;
    *out = fit;
    return ZL_OK;
}
