/* Recordings, read back: see recorder.h for what their lines mean. */
#ifndef ZR_RECORDING_H
#define ZR_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/meter.h"
#include "zeroledger/error.h"

typedef struct zr_recording_read {
    uint64_t pid;
    uint64_t begin;  /* nanoseconds of the machine's monotonic clock */
    uint64_t end;    /* of the last line with a time */
    uint64_t date;   /* seconds since 1970 */
    uint64_t driver; /* 13000: CUDA 13.0; 0: unknown */
    char host[128];
    char program[128];
    char broken[256]; /* why nothing was recorded; "" */
    bool complete;    /* the process ended by itself and no line is lost */
    zr_meter meter;
} zr_recording_read;

/* All that a command left behind. */
typedef struct zr_recordings {
    zr_recording_read *process; /* (count), by begin */
    size_t count;
} zr_recordings;

/* Lines of one recording. name is for errors: a line that is none is ZL_E_INPUT with its number,
 * but for the last, which a process that was killed may have left unfinished. The caller releases
 * out->meter. */
ZL_NODISCARD zl_status zr_recording_parse(const char *name, char *text, size_t size,
                                          zr_recording_read *out, zl_err *err);
/* Every *.zltrace of a folder; none is fine. The caller releases. */
ZL_NODISCARD zl_status zr_recordings_load(const char *folder, zr_recordings *out, zl_err *err);
void zr_recordings_release(zr_recordings *recordings);

#endif
