/* The rungs above the ledger in words. */
#ifndef ZV_LADDER_H
#define ZV_LADDER_H

#include <stddef.h>
#include <stdio.h>

#include "compare/device.h"

/* "L2 arena: predicted 54525952, measured 54525952 bytes: equal" and so on, a line for every rung
 * that was measured. */
void zv_ladder_print(const zv_device_verdict *verdict, FILE *out);

enum { ZV_LADDER_TEXT_SIZE = 192 };
/* The first rung that differs, as one of these lines; "" if none does. */
void zv_ladder_first(const zv_device_verdict *verdict, char text[ZV_LADDER_TEXT_SIZE]);

#endif
