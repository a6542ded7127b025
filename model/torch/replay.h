/* Replays a recording of PyTorch's caching allocator through the model of it.
 *
 * Only allocations and frees are fed in. With the recorded addresses (ZT_FROM_DRIVER) every
 * decision can be checked: when the model takes a segment, the recording must hold one of that size
 * at that moment, and every block must lie where it was recorded. Without them (ZT_ASCENDING,
 * ZT_DESCENDING) the comparison shows how much the choice of addresses moves the statistics.
 */
#ifndef ZT_REPLAY_H
#define ZT_REPLAY_H

#include "torch/trace.h"

typedef struct zt_replay_options {
    zt_alloc_conf conf;
    zt_addresses addresses;
    uint64_t device_total; /* 0 = no limit; matters to garbage collection */
} zt_replay_options;

/* The statistics at a mark, as replayed. */
typedef struct zt_replay_row {
    uint64_t allocated;
    uint64_t reserved;
} zt_replay_row;

typedef struct zt_replay {
    size_t events;   /* allocations and frees */
    size_t segments; /* segment events in the recording */
    /* Segment events: recorded and not predicted, predicted and not recorded, of another size or
     * stream. */
    size_t missed;
    size_t extra;
    size_t resized;
    size_t misplaced;   /* blocks at other addresses, frees where nothing was pending */
    size_t final;       /* pieces of the picture at the end that are not alike */
    size_t first;       /* index of the first event that differed; SIZE_MAX: none */
    zt_replay_row *row; /* one for each mark of the trace, then one for the end */
    zt_stats stats;     /* at the end */
} zt_replay;

/* All that differs; meaningful with recorded addresses. */
size_t zt_replay_differ(const zt_replay *replay);

/* Runs all of it. The caller releases *out with zt_replay_release. ZL_E_INPUT: the recording
 * contradicts itself, or begins after the first allocation. */
ZL_NODISCARD zl_status zt_replay_run(const zt_trace *trace, const zt_replay_options *options,
                                     zt_replay *out, zl_err *err);
void zt_replay_release(zt_replay *replay);

#endif
