/* A recording of PyTorch's caching allocator: every event, what was measured between them, and the
 * allocator's own picture at the end.
 *
 * Two forms are read. The compact one has `events`, an array of rows with the names of `columns`
 * (action, addr, size, stream), `marks` with those of `mark_columns` (events_before, step, at,
 * allocated, reserved), and `final_segments`. The other one is torch.cuda.memory._snapshot() as
 * JSON: `device_traces`, `segments`, `allocator_settings`; it has no marks.
 */
#ifndef ZT_TRACE_H
#define ZT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "torch/alloc_conf.h"
#include "torch/caching_allocator.h"
#include "zeroledger/json.h"

typedef enum zt_action {
    ZT_ALLOC,
    ZT_FREE_REQUESTED,
    ZT_FREE_COMPLETED,
    ZT_TRACE_SEGMENT_ALLOC,
    ZT_TRACE_SEGMENT_FREE,
    ZT_TRACE_SEGMENT_MAP,
    ZT_TRACE_SEGMENT_UNMAP,
    ZT_OOM,
    ZT_OTHER, /* snapshots, notes of the user */
    ZT_ACTION_COUNT
} zt_action;

typedef struct zt_event {
    zt_action action;
    uint32_t stream; /* numbered in the order of the handles, which is the allocator's order */
    uint64_t address;
    uint64_t size; /* as asked for; of segments as it is */
} zt_event;

typedef struct zt_mark {
    size_t events_before;
    int64_t step; /* -1: before the first */
    char at[48];
    uint64_t allocated;
    uint64_t reserved;
} zt_mark;

typedef struct zt_trace {
    char id[192]; /* "" if it has none */
    zt_event *event;
    size_t events;
    zt_mark *mark;
    size_t marks;
    zt_piece *final; /* by address */
    size_t finals;
    bool has_final;
    zt_alloc_conf conf; /* as recorded, or as the events show */
} zt_trace;

/* Reads one of the forms; `device` chooses among device_traces, UINT64_MAX takes the first with
 * events. The caller releases *out with zt_trace_release. ZL_E_INPUT names what is wrong. */
ZL_NODISCARD zl_status zt_trace_read(zl_json root, uint64_t device, zt_trace *out, zl_err *err);
void zt_trace_release(zt_trace *trace);

#endif
