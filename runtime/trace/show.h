/* What the meter found out, for programs and for people. */
#ifndef ZR_SHOW_H
#define ZR_SHOW_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trace/judge.h"
#include "trace/recording.h"
#include "zeroledger/error.h"

/* A finding, and in which process. */
typedef struct zr_found {
    size_t process;
    zr_finding finding;
} zr_found;

typedef struct zr_trace {
    char *const *command; /* ended by NULL; NULL: recordings that were there before */
    int exit;             /* of the command; 128 + the signal that killed it */
    zr_judgement judgement;
    zr_recordings recordings;
    zr_found *found; /* (count) */
    size_t count;
} zr_trace;

/* zeroledger.trace/1, see docs/schema/trace.schema.json. path "-" = stdout. */
ZL_NODISCARD zl_status zr_trace_json(const zr_trace *trace, const char *path, zl_err *err);
/* Events for Perfetto and chrome://tracing: a counter for every owner, an instant for every mark.
 */
ZL_NODISCARD zl_status zr_trace_timeline(const zr_trace *trace, const char *path, zl_err *err);
/* A table for each process and device, and a sentence for each finding. */
void zr_trace_table(const zr_trace *trace, FILE *out);

/* The sentence: "pid 12, GPU 0: untraced memory grew by ... between the marks ... and ...". */
enum { ZR_SENTENCE = 512 };
void zr_found_text(const zr_trace *trace, const zr_found *found, char text[ZR_SENTENCE]);
/* Nanoseconds since the first process began. */
uint64_t zr_trace_time(const zr_trace *trace, uint64_t time);

#endif
