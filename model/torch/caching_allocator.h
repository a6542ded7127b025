/* PyTorch's caching allocator for CUDA (the native backend, c10/cuda/CUDACachingAllocator.cpp) as a
 * deterministic state machine: sizes and addresses only, no memory behind them.
 *
 *     const zt_allocator_options options = {.conf = zt_alloc_conf_default(),
 *                                           .addresses = ZT_DESCENDING};
 *     zt_allocator *a = NULL;
 *     ZL_TRY(zt_allocator_new(&options, &a, err));
 *     const zt_block weight = zt_alloc(a, 154389504, 0);
 *     zt_free(a, weight);
 *     printf("%" PRIu64 "\n", zt_allocator_stats(a)->reserved.peak);
 *     status = zt_allocator_status(a, err);
 *     zt_allocator_free(a);
 *
 * Calls never fail one by one. The first thing that goes wrong (memory of this process ran out, a
 * block freed twice, a stream out of range) is remembered, turns all later calls into no-ops and is
 * what zt_allocator_status returns. The device running out of memory is no such failure: zt_alloc
 * returns ZT_NO_BLOCK and counts it in `ooms`, as PyTorch would raise an exception.
 *
 * All sizes are bytes. Streams are small integers, 0 is the default stream; free memory never moves
 * from one stream to another. One allocator belongs to one thread.
 */
#ifndef ZT_CACHING_ALLOCATOR_H
#define ZT_CACHING_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "torch/alloc_conf.h"
#include "zeroledger/error.h"

typedef struct zt_allocator zt_allocator;

/* A block handed out, until it is freed. ZT_NO_BLOCK stands for "nothing": a request of 0 bytes
 * gives it, and freeing it does nothing. */
typedef uint32_t zt_block;
enum { ZT_NO_BLOCK = 0 };

enum { ZT_STREAMS_MAX = 256 }; /* streams are 0 .. ZT_STREAMS_MAX - 1 */

/* Which addresses the driver gives to new segments. They decide ties between free blocks of equal
 * size, nothing else. */
typedef enum zt_addresses {
    /* Each segment lies above all earlier ones. */
    ZT_ASCENDING,
    /* Each segment takes the next lower slot of a multiple of 32 MiB and starts at its bottom; one
     * of at most 16 MiB first tries the unused rest of earlier slots, newest first. This describes
     * what single-GPU processes showed, it is no law. */
    ZT_DESCENDING,
    /* The driver of the options decides. */
    ZT_FROM_DRIVER,
    ZT_ADDRESSES_COUNT
} zt_addresses;

/* When the events end that record_stream makes a freed block wait for. On a GPU this is timing. */
typedef enum zt_waiting {
    ZT_WAIT_NEXT_ALLOC, /* before the next allocation: the GPU keeps up */
    ZT_WAIT_SYNC,       /* only when something waits for them: zt_complete, zt_synchronize,
                           zt_empty_cache, or an allocation that would fail otherwise */
    ZT_WAIT_COUNT
} zt_waiting;

/* What a segment event reports: the driver's memory being taken or given back. */
typedef enum zt_segment_action {
    ZT_SEGMENT_ALLOC,
    ZT_SEGMENT_FREE,
    ZT_SEGMENT_MAP, /* pages of an expandable segment */
    ZT_SEGMENT_UNMAP,
    ZT_SEGMENT_ACTION_COUNT
} zt_segment_action;

typedef struct zt_segment_event {
    zt_segment_action action;
    uint64_t address;
    uint64_t size;
    uint32_t stream;
    bool small; /* of the small pool */
} zt_segment_event;

/* Hears every segment event in order, before it takes effect. To ZT_SEGMENT_ALLOC and
 * ZT_SEGMENT_MAP it may answer false: the device is out of memory. An address of 0 in the event
 * asks for one that overlaps no living segment (ZT_FROM_DRIVER only; an expandable segment asks
 * once, when its first pages are mapped, and goes on from there). */
typedef bool zt_driver(void *context, zt_segment_event *event);

/* Hears every free that completes, before it takes effect. */
typedef void zt_freed(void *context, zt_block block);

typedef struct zt_allocator_options {
    zt_alloc_conf conf; /* zt_alloc_conf_default(): PYTORCH_ALLOC_CONF unset */
    zt_addresses addresses;
    zt_waiting waiting;
    /* Device memory as the driver reports it; 0 = no limit (a device of 1 PiB). The allocator
     * refuses to reserve more than per_process_memory_fraction of it, and garbage collection starts
     * from the same figure. */
    uint64_t device_total;
    /* What of it the driver can give to this process: less than the total by contexts, NCCL, other
     * processes. 0 = all of it. */
    uint64_t device_free;
    zt_driver *driver;    /* NULL: nobody listens */
    zt_freed *freed;      /* NULL: nobody listens */
    void *driver_context; /* of both */
} zt_allocator_options;

typedef struct zt_stat {
    uint64_t current;
    uint64_t peak; /* largest since the beginning or the last zt_reset_peaks */
} zt_stat;

/* As torch.cuda.memory_stats() counts, all pools together. */
typedef struct zt_stats {
    zt_stat requested;      /* bytes asked for, until the free completes */
    zt_stat allocated;      /* sizes of blocks, until free is called */
    zt_stat active;         /* sizes of blocks, until the free completes */
    zt_stat reserved;       /* segments and mapped pages */
    zt_stat inactive_split; /* free pieces of split segments, expandable ones not counted */
    zt_stat segments;       /* count; expandable ones not counted */
    uint64_t alloc_retries; /* allocations that had to release cached memory first */
    uint64_t ooms;
} zt_stats;

/* Caller frees with zt_allocator_free. ZL_E_USAGE: options that make no sense. */
ZL_NODISCARD zl_status zt_allocator_new(const zt_allocator_options *options, zt_allocator **out,
                                        zl_err *err);
void zt_allocator_free(zt_allocator *a);

/* Hands out a block of at least `bytes` on a stream. */
zt_block zt_alloc(zt_allocator *a, uint64_t bytes, uint32_t stream);
/* Whether cached memory would serve this, as it is now. */
bool zt_is_cached(const zt_allocator *a, uint64_t bytes, uint32_t stream);
/* Frees it: at once, or once its recorded uses end if it was recorded on another stream. */
void zt_free(zt_allocator *a, zt_block block);

/* tensor.record_stream: another stream uses the block too. On its own stream this is ignored. */
void zt_record_stream(zt_allocator *a, zt_block block, uint32_t stream);
/* The device will be busy when a block in use is freed: its recorded uses outlast the `allocations`
 * that come next, and the next `segments` of them that take memory from the driver (which keeps the
 * host about as long as a large kernel the device). Only under ZT_WAIT_NEXT_ALLOC. */
void zt_outlast(zt_allocator *a, zt_block block, uint32_t allocations, uint32_t segments);
/* torch.cuda.synchronize: the device is idle; the next allocation will notice. */
void zt_device_idle(zt_allocator *a);
/* The recorded uses of a freed block end now. */
void zt_complete(zt_allocator *a, zt_block block);
/* The recorded uses of all freed blocks end now. */
void zt_synchronize(zt_allocator *a);

/* torch.cuda.empty_cache: gives every segment without a block in use back to the driver, and of
 * expandable segments the pages that lie wholly in free blocks. */
void zt_empty_cache(zt_allocator *a);

/* torch.cuda.reset_peak_memory_stats: peaks start again from what is current. */
void zt_reset_peaks(zt_allocator *a);

/* Borrowed, always up to date, dies with the allocator. */
const zt_stats *zt_allocator_stats(const zt_allocator *a);
/* ZL_OK, or the first thing that went wrong. */
ZL_NODISCARD zl_status zt_allocator_status(const zt_allocator *a, zl_err *err);

uint64_t zt_block_address(const zt_allocator *a, zt_block block);
uint64_t zt_block_size(const zt_allocator *a, zt_block block); /* with rounding and unsplit tail */

/* A piece of a segment, for pictures of the whole: torch.cuda.memory_snapshot. */
typedef struct zt_piece {
    uint64_t address;
    uint64_t size;
    uint64_t requested; /* 0 when inactive */
    uint32_t stream;
    bool allocated; /* handed out */
    bool active;    /* handed out, or freed and waiting for its recorded uses */
    bool small;     /* of the small pool */
    bool expandable;
    bool first; /* begins a segment; mapped pages of an expandable one that lie together are one */
} zt_piece;

/* All pieces by address; unmapped pages are left out. The caller frees *out with free(). */
ZL_NODISCARD zl_status zt_allocator_pieces(const zt_allocator *a, zt_piece **out, size_t *count,
                                           zl_err *err);

#endif
