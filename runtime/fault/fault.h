/* Switches for deliberate faults, so that the checks of the trainer can be seen to fail.
 *
 *     const uint64_t slots = count + (zr_fault(ZR_FAULT_SLOT_DOUBLED) ? 1 : 0);
 *
 * Which answer is given is decided at link time: zl-train has off.c, where every fault is off and
 * nothing can switch it on; the test program zl-train-mutant has on.c, which obeys ZR_FAULT=NAME.
 */
#ifndef ZR_FAULT_H
#define ZR_FAULT_H

#include <stdbool.h>

typedef enum zr_fault_id {
#define ZR_FAULT(id, name, text) ZR_FAULT_##id,
#include "fault/faults.def"
#undef ZR_FAULT
    ZR_FAULT_COUNT
} zr_fault_id;

/* Whether the trainer shall do the wrong thing here. */
bool zr_fault(zr_fault_id id);

#endif
