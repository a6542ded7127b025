#include "device/tick.h"

#include <stddef.h>

/* NOLINTNEXTLINE(readability-non-const-parameter): the type of the device's function */
zl_status zr_tick_set(zr_tick *tick, void *queue, zl_err *err)
{
    (void)queue;
    (void)err;
    tick->seconds = zr_tick_now();
    return ZL_OK;
}

zl_status zr_tick_since(const zr_tick *from, const zr_tick *to, double *seconds, zl_err *err)
{
    (void)err;
    *seconds = to->seconds - from->seconds;
    return ZL_OK;
}

void zr_tick_release(zr_tick *tick)
{
    *tick = (zr_tick){.event = NULL};
}
