/* Who asked for memory: the shared object of the nearest caller that is neither the driver, nor
 * CUDA's runtime library, nor this meter. A runtime that is linked into a library statically is
 * that library, as for NCCL and cuBLAS. Only the C library, no heap of our own. */
#ifndef ZR_OWNER_H
#define ZR_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ZR_OWNERS_MAX = 256, ZR_OWNER_NAME = 64 };

/* Whether a shared object of that path only passes requests on. */
bool zr_owner_passes_on(const char *path);

/* The owner of the first of the frames (return addresses, nearest first) that does not pass on,
 * with the id that it has in this process. fresh: it has just got it. Without one, and for those
 * beyond ZR_OWNERS_MAX, the name is "(unknown)". *name lives as long as the process. Any thread may
 * ask. */
uint32_t zr_owner_of(void *const *frame, size_t frames, const char **name, bool *fresh);
/* The same for who called this function. */
uint32_t zr_owner_of_caller(const char **name, bool *fresh);
/* The first call of backtrace loads a library: better done before it matters. */
void zr_owner_prepare(void);

#endif
