/* A command, run with the meter in it. */
#ifndef ZR_CHILD_H
#define ZR_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include "zeroledger/error.h"

/* Path of libzltrace.so: beside this program, or where libraries are. ZL_E_RESOURCE if it was not
 * built, cannot be loaded (no CUPTI), or if there is no driver or no GPU to meter. */
ZL_NODISCARD zl_status zr_child_library(char *path, size_t size, zl_err *err);

/* Runs argv (ended by NULL) with the library, recording into the folder, and waits. *code is its
 * exit status, or 128 + the signal that ended it, or 127 if there is no such program. aside: what
 * it prints goes to standard error. */
ZL_NODISCARD zl_status zr_child_run(char *const *argv, const char *library, const char *folder,
                                    bool aside, int *code, zl_err *err);

#endif
