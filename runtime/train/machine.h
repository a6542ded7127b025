/* What a measurement is measured on: for the reader of a report, never for a decision. No name of
 * the machine and no path is in it.
 *
 *     zr_machine machine;
 *     zr_machine_find(&machine);
 */
#ifndef ZR_MACHINE_H
#define ZR_MACHINE_H

#include <stdint.h>

typedef struct zr_machine {
    char cpu[96];         /* the model as the kernel names it; "unknown" where it names none */
    uint64_t cores;       /* online; 0: unknown */
    uint64_t memory;      /* bytes the kernel manages; 0: unknown */
    const char *compiler; /* of this program, "GNU 12.2.0" */
} zr_machine;

void zr_machine_find(zr_machine *out);

#endif
