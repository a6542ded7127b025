/* What the parts of libzltrace.so share: the recording, and the contexts and pools of the process.
 * CUPTI and the driver, no heap. Everything here may be called by any thread. */
#ifndef ZR_TRACE_STATE_H
#define ZR_TRACE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "trace/recorder.h"

/* Of this process. */
extern zr_recorder zr_recording;
/* Set while a thread is inside the meter, whose own calls of the driver are nobody's. */
extern _Thread_local bool zr_inside;

/* Calls that change what is in use: between their begin and their end the device and the recording
 * may differ. */
void zr_change_begins(void);
void zr_change_ends(void);
/* How many there were; ZR_CHANGING while one is under way. */
#define ZR_CHANGING UINT64_MAX
uint64_t zr_changes(void);

/* -1: of no device. */
int zr_device_of(CUcontext wanted);
void zr_context_made(CUcontext made);
void zr_context_goes(CUcontext going);
/* The first look at a new context, once somebody calls with it; NULL is nobody's. */
void zr_context_look(CUcontext wanted);

/* Free and total bytes of the device of a context. False while the driver shuts down. */
bool zr_device_look(CUcontext wanted, size_t *available, size_t *total);

/* A pool that memory came from; device -1: of the host's memory. */
void zr_pool_seen(CUmemoryPool seen, int device);
void zr_pool_goes(CUmemoryPool going);
/* Records what the pools of a device hold now, where that has changed. */
void zr_pools_look(CUcontext current, int device);

/* Asks every device, and records what it says. wait: for the device first. */
void zr_mark(const char *name, bool automatic, bool wait);
/* What a device says. */
typedef struct zr_told {
    uint64_t available;
    uint64_t total;
    uint64_t changes; /* zr_changes before it was asked */
} zr_told;
/* Records what the program itself was just told about the device of a context. */
void zr_mark_told(CUcontext seen, const zr_told *told);
/* A mark of the device of a context that has just come to rest, if the last is long enough ago. */
void zr_mark_rest(CUcontext rests);

#endif
