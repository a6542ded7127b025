/* The trainer's ledger beside what a meter outside it saw: zl trace's file of the same run.
 *
 * The two know nothing of each other: the ledger counts what the tagged allocator handed out and
 * how large its arena became, the trace what the driver was asked for by the trainer's program. The
 * arena is all device memory that the trainer asks for, so the two are equal to the byte, or
 * something went past the allocator. */
#ifndef ZV_TRACE_H
#define ZV_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/ledger.h"

enum { ZV_OWNER_SIZE = 64, ZV_OWNERS_MAX = 256 };

/* A row of a trace. */
typedef struct zv_owner {
    char owner[ZV_OWNER_SIZE];
    char call[ZV_OWNER_SIZE];
    uint64_t peak;    /* bytes, its own */
    uint64_t at_peak; /* bytes, when the device's traced memory was at its peak */
} zv_owner;

/* Whether the bytes of a row are memory that was asked for, not code that the driver loaded. */
bool zv_owner_asked(const zv_owner *row);

/* One process on its device. */
typedef struct zv_trace {
    uint64_t pid;
    uint64_t device;
    uint64_t peak; /* bytes traced */
    zv_owner row[ZV_OWNERS_MAX];
    size_t rows;
} zv_trace;

typedef struct zv_trace_verdict {
    uint64_t arena;   /* bytes, by the ledger's witness */
    uint64_t traced;  /* bytes of physical memory that the trainer's program asked for, at most */
    uint64_t past;    /* bytes that it asked for in any other way: past the allocator */
    uint64_t granted; /* the ledger's largest peak of granted bytes, which the arena holds */
} zv_trace_verdict;

/* Reads zeroledger.trace/1 and chooses the trainer's process for a rank: the only one, or the one
 * on the device of that number. ZL_E_INPUT if there is none, or the file is no trace. */
ZL_NODISCARD zl_status zv_trace_load(const char *path, uint64_t rank, zv_trace *out, zl_err *err);

/* ZL_E_INPUT if the ledger has no witness; it was not measured then. */
ZL_NODISCARD zl_status zv_trace_judge(const zl_ledger *ledger, const zv_trace *trace,
                                      zv_trace_verdict *out, zl_err *err);
/* Whether the two agree. */
bool zv_trace_agrees(const zv_trace_verdict *verdict);

#endif
