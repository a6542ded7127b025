/* The queue that communication runs in, beside the one that computes. On a device both are streams,
 * and events order them; nobody waits on the host. On the host there is no queue: a NULL lane, and
 * everything has happened when a call returns.
 *
 *     ZL_TRY(zr_lane_begin(lane, err));            // after all that computes so far
 *     ... operations in the lane ...
 *     ZL_TRY(zr_lane_end(lane, ++number, err));
 *     ZL_TRY(zr_lane_wait(lane, number, err));     // what computes from here on comes after it
 */
#ifndef ZR_LANE_H
#define ZR_LANE_H

#include <stdint.h>

#include "device/profile.h"
#include "kernel/kernel.h"
#include "zeroledger/error.h"

typedef struct zr_lane zr_lane;

/* compute: the queue of the kernels, borrowed. The caller closes. */
ZL_NODISCARD zl_status zr_lane_open(zr_stream *compute, zr_lane **out, zl_err *err);
void zr_lane_close(zr_lane *lane);

ZL_NODISCARD zl_status zr_lane_begin(zr_lane *lane, zl_err *err);
/* Numbers of operations count up from 1. */
ZL_NODISCARD zl_status zr_lane_end(zr_lane *lane, uint64_t number, zl_err *err);
/* Operations finish in the order of their numbers, so this waits for all before it too. */
ZL_NODISCARD zl_status zr_lane_wait(zr_lane *lane, uint64_t number, zl_err *err);

/* The profile's tracks show the time of the lane and of the queue that computes. */
void zr_lane_profile(const zr_lane *lane, zr_profile *profile);

/* Bytes between two places of the device, in the lane. They do not overlap. */
ZL_NODISCARD zl_status zr_lane_copy(zr_lane *lane, void *to, const void *from, uint64_t bytes,
                                    zl_err *err);

#endif
