/* The trainer of the mutation tests: the environment variable ZR_FAULT names one fault. */
#include "fault/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const fault_name[ZR_FAULT_COUNT] = {
#define ZR_FAULT(id, name, text) [ZR_FAULT_##id] = (name),
#include "fault/faults.def"
#undef ZR_FAULT
};

/* A misspelt fault would be a mutant that nobody can catch, so it ends the program before main. */
__attribute__((constructor)) static void check_name(void)
{
    const char *const wanted = getenv("ZR_FAULT");
    if (wanted == NULL || wanted[0] == '\0') {
        return;
    }
    for (int i = 0; i < ZR_FAULT_COUNT; i++) {
        if (strcmp(wanted, fault_name[i]) == 0) {
            return;
        }
    }
    fprintf(stderr, "zl-train-mutant: ZR_FAULT=%s is not a fault; see faults.def\n", wanted);
    _Exit(2);
}

bool zr_fault(zr_fault_id id)
{
    const char *const wanted = getenv("ZR_FAULT");
    return wanted != NULL && strcmp(wanted, fault_name[id]) == 0;
}
