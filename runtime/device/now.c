#define _DEFAULT_SOURCE /* clock_gettime */
#include <time.h>

#include "device/tick.h"

double zr_tick_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
