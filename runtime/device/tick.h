/* Points in time on a queue: when it got there. On a device they are events that the queue passes;
 * on the host a queue has always got where the host is.
 *
 *     ZL_TRY(zr_tick_set(&begin, queue, err));
 *     ... kernels ...
 *     ZL_TRY(zr_tick_set(&end, queue, err));
 *     ZL_TRY(zr_tick_since(&begin, &end, &seconds, err));   // waits until both have been passed
 */
#ifndef ZR_TICK_H
#define ZR_TICK_H

#include "zeroledger/error.h"

/* Zeroed: not set. The holder releases. */
typedef struct zr_tick {
    double seconds; /* of the host's clock, where that is the clock */
    void *event;    /* of the device, kept for the next time */
} zr_tick;

/* A queue is a stream of the device; the host looks at none. */
ZL_NODISCARD zl_status zr_tick_set(zr_tick *tick, void *queue, zl_err *err);
/* From one tick to a later one of the same device. */
ZL_NODISCARD zl_status zr_tick_since(const zr_tick *from, const zr_tick *to, double *seconds,
                                     zl_err *err);
void zr_tick_release(zr_tick *tick);

/* The host's clock, which only goes forward, in seconds. */
double zr_tick_now(void);

#endif
