/* Out-of-memory messages of PyTorch, in the wordings of all its releases.
 *
 *     1.0 - 1.3  Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total capacity; 8.57 MiB already
 *                allocated; 9.28 GiB free; 4.68 MiB cached)
 *     1.4 - 2.0  the same, with "... reserved in total by PyTorch)"
 *     from 2.1   Tried to allocate 1.70 GiB. GPU 0 has a total capacty of 6.00 GiB of which 0 bytes
 *                is free. Process 7 has ... memory in use. Including non-PyTorch memory, this
 *                process has ... memory in use. Of the allocated memory ... is allocated by
 * PyTorch, and ... is reserved by PyTorch but unallocated.
 *
 *     PYTORCH_ALLOC_CONF=backend:cudaMallocAsync
 *                Allocation on device 0 would exceed allowed memory. (out of memory) Currently
 *                allocated : 9.43 GiB Requested : 640.00 MiB Device limit : 11.59 GiB Free
 *                (according to CUDA): 7.12 MiB PyTorch limit (set by user-supplied memory
 *                fraction) : 17179869184.00 GiB
 *     host       DefaultCPUAllocator: can't allocate memory: you tried to allocate 512 bytes.
 *
 * The size that is printed is not the tensor's but what the allocator asked the driver for:
 * zt_segment_bytes; the last two ask for tensors as they are.
 */
#ifndef ZT_OOM_H
#define ZT_OOM_H

#include "torch/printed.h"

typedef enum zt_oom_wording {
    ZT_OOM_BARE,        /* nothing behind the size */
    ZT_OOM_CACHED,      /* 1.0 to 1.3 */
    ZT_OOM_RESERVED,    /* 1.4 to 2.0 */
    ZT_OOM_UNALLOCATED, /* from 2.1 */
    ZT_OOM_ASYNC,       /* CUDA's own pools */
    ZT_OOM_HOST,        /* not of a GPU */
    ZT_OOM_WORDING_COUNT
} zt_oom_wording;

typedef struct zt_oom {
    zt_oom_wording wording;
    zt_printed asked;     /* of the driver */
    zt_printed total;     /* memory of the device */
    zt_printed free;      /* of it that nobody has, as the driver says */
    zt_printed own;       /* this process with everything: "this process has" */
    zt_printed others;    /* sum of "Process N has"; in a container one of them is this process */
    uint64_t processes;   /* how many of these */
    zt_printed allowed;   /* set_per_process_memory_fraction */
    zt_printed allocated; /* in blocks handed out */
    zt_printed reserved;  /* segments; from 2.1 the sum of allocated and unallocated */
    zt_printed unallocated;
    zt_printed private_pools; /* of CUDA graphs */
    uint64_t device;
    bool has_device;
} zt_oom;

/* What made the allocation fail. */
typedef enum zt_oom_cause {
    ZT_OOM_UNKNOWN,       /* too few figures */
    ZT_OOM_CAPACITY,      /* even without a byte cached the request would not fit */
    ZT_OOM_FRAGMENTATION, /* free and cached memory together are enough */
    ZT_OOM_IMPOSSIBLE,    /* the request is larger than the device */
    ZT_OOM_LIMIT,         /* the driver reports enough free memory and still refused */
    ZT_OOM_CAUSE_COUNT
} zt_oom_cause;

/* The first message at or after c->at, which is moved behind its figures. False: none. A size of
 * "more than 1EB" is read as a message without figures. */
bool zt_oom_find(zt_cursor *c, zt_oom *out);

zt_oom_cause zt_oom_cause_of(const zt_oom *oom);

/* What the allocator takes from the driver for a request when nothing cached fits: a segment of 2
 * MiB up to 1 MiB, of 20 MiB below 10 MiB, else the request rounded up to 2 MiB. */
uint64_t zt_segment_bytes(uint64_t requested);
/* Whether a request of so many bytes would print the message's size. */
bool zt_oom_asks_for(const zt_oom *oom, uint64_t requested);

#endif
