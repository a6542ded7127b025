/* Every allocation of a run in the order of the program: what `zl predict --timeline` writes.
 *
 * A timeline is a list of events. Its clock is their number: event i happens at time i, and nothing
 * in it says how long anything takes. It is filled from the walk of a framework or of the native
 * schedule, and written as a trace for Perfetto or as a memory snapshot of PyTorch.
 */
#ifndef ZL_CLI_TIMELINE_H
#define ZL_CLI_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "frameworks.h"

typedef enum zl_timeline_what {
    ZL_TIMELINE_ALLOC,
    ZL_TIMELINE_FREE_REQUESTED, /* the owner gives it back */
    ZL_TIMELINE_FREE_COMPLETED, /* and this is when others may have it: at once, or later */
    ZL_TIMELINE_SEGMENT_ALLOC,
    ZL_TIMELINE_SEGMENT_FREE,
    ZL_TIMELINE_SEGMENT_MAP,
    ZL_TIMELINE_SEGMENT_UNMAP,
    ZL_TIMELINE_RENAME, /* it is something else from now on; takes no time */
    ZL_TIMELINE_WHAT_COUNT
} zl_timeline_what;

/* What some memory is: texts that live for ever. owner tells equal ones apart (native: the unit,
 * the slot). */
typedef struct zl_timeline_name {
    const char *name; /* "act.qkv", "fp32 masters" */
    const char *kind; /* "act"; of a framework the same as name */
    uint64_t owner;
} zl_timeline_name;

/* Memory of the driver that an allocator took, or gave back. */
typedef struct zl_timeline_segment {
    uint64_t address;
    uint64_t size;
    uint32_t stream;
    bool small; /* for small blocks only */
} zl_timeline_segment;

typedef struct zl_timeline_event {
    zl_timeline_what what;
    uint64_t time;
    size_t allocation;           /* index; of segments unused */
    zl_timeline_name name;       /* of ZL_TIMELINE_RENAME */
    zl_timeline_segment segment; /* of segments */
} zl_timeline_event;

typedef struct zl_allocation {
    uint64_t address;
    uint64_t requested;
    uint64_t size; /* as the allocator rounded it up */
    uint32_t stream;
    zl_timeline_name name; /* what it is at first */
    zl_timeline_name last; /* and in the end; zl_timeline_alloc and _rename keep it */
} zl_allocation;

enum { ZL_TIMELINE_PHASE_SIZE = 64 };

/* A stretch of the program, [begin, end) in time. */
typedef struct zl_timeline_phase {
    char name[ZL_TIMELINE_PHASE_SIZE]; /* "forward", "backward (cold)" */
    int64_t step;                      /* optimizer step from 0; -1: before the first */
    uint64_t begin, end;
} zl_timeline_phase;

/* The caller frees with zl_timeline_free. */
typedef struct zl_timeline {
    char title[640];       /* of the run */
    const char *framework; /* "native", "fsdp2" */
    const char *settings;  /* PYTORCH_ALLOC_CONF; borrowed from the run */
    zl_timeline_event *event;
    size_t events, event_room;
    zl_allocation *allocation;
    size_t allocations, allocation_room;
    zl_timeline_phase *phase; /* by begin; between two there may be events of neither */
    size_t phases, phase_room;
    uint64_t now; /* the time of the next event */
    bool failed;  /* memory of this process ran out; what follows is void */
} zl_timeline;

/* Writes the timeline of a run whose walk went well: to *.json and *.json.gz for Perfetto, to
 * *.pickle for memory_viz. Any other path is ZL_E_USAGE, and says so. */
ZL_NODISCARD zl_status zl_timeline_native(const zl_run *run, const char *path, zl_err *err);
ZL_NODISCARD zl_status zl_timeline_walked(const zl_walked *walked, const char *path, zl_err *err);
/* ZL_E_USAGE unless the path ends as one of the files above. */
ZL_NODISCARD zl_status zl_timeline_check(const char *path, zl_err *err);

/* ---- inside ---- */

/* The largest amounts at one time, bytes. */
typedef struct zl_timeline_peak {
    uint64_t requested; /* until the free completes */
    uint64_t allocated; /* until the free is requested, rounded up */
    uint64_t reserved;
} zl_timeline_peak;

void zl_timeline_init(zl_timeline *t);
void zl_timeline_free(zl_timeline *t);
/* Appends; the allocation's index, for what happens to it later. */
size_t zl_timeline_alloc(zl_timeline *t, const zl_allocation *allocation);
/* A free of an allocation, requested or completed. */
void zl_timeline_give(zl_timeline *t, zl_timeline_what what, size_t allocation);
/* Memory of the driver, taken or given back. */
void zl_timeline_take(zl_timeline *t, zl_timeline_what what, zl_timeline_segment segment);
/* An allocation is something else from now on; right after it was made, from the beginning. What
 * it is already changes nothing. */
void zl_timeline_rename(zl_timeline *t, size_t allocation, zl_timeline_name name);
bool zl_timeline_same_name(const zl_timeline_name *a, const zl_timeline_name *b);
void zl_timeline_phase_add(zl_timeline *t, const zl_timeline_phase *phase);
/* Moves all addresses to where a GPU has them, in the same order. */
zl_status zl_timeline_place(zl_timeline *t, zl_err *err);
/* Adds up what the events do; ZL_E_BUG: they free what is not there. */
zl_status zl_timeline_sum(const zl_timeline *t, zl_timeline_peak *out, zl_err *err);
/* Whether the free at event i is at once followed by its completion. */
bool zl_timeline_at_once(const zl_timeline *t, size_t i);
/* Writes it where its path's ending says. */
zl_status zl_timeline_save(const zl_timeline *t, const char *path, zl_err *err);

/* The two forms. Failures of the stream are the caller's to find. */
zl_status zl_timeline_perfetto(const zl_timeline *t, FILE *out, zl_err *err);
zl_status zl_timeline_snapshot(const zl_timeline *t, FILE *out, zl_err *err);

#endif
