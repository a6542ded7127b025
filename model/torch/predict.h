/* zl_torch_predict for those who want to hear every event too: tests against recordings. */
#ifndef ZT_PREDICT_H
#define ZT_PREDICT_H

#include "torch/caching_allocator.h"
#include "zeroledger/torch.h"

typedef enum zt_happening {
    ZT_ALLOCATES,
    ZT_FREES,
    ZT_MARKS,
    ZT_RESETS,    /* the peaks begin anew without a mark */
    ZT_NAMES,     /* a block in use gets a name: right after its allocation, or another one later */
    ZT_COMPLETES, /* a free takes effect: at once, or when other streams are done with the block */
    ZT_SEGMENTS,  /* memory is taken from the driver or given back */
    ZT_HAPPENING_COUNT
} zt_happening;

typedef struct zt_happened {
    zt_happening what;
    zt_block block; /* of ZT_SEGMENTS none */
    uint64_t bytes; /* as asked for; of ZT_SEGMENTS as it is */
    uint64_t size;  /* of the block: rounded up */
    uint64_t address;
    zt_segment_action segment; /* of ZT_SEGMENTS */
    bool small;                /* of ZT_SEGMENTS: of the pool of small blocks */
    uint32_t stream;
    bool any_order; /* of frees in a row: PyTorch walks a hash table of addresses */
    const char *at; /* of a mark; of ZT_NAMES and ZT_ALLOCATES: the name, which lives for ever */
    uint64_t requested;    /* of the process, now */
    const zt_stats *stats; /* now; of ZT_RESETS with the peaks that end here */
    int32_t step;
} zt_happened;

typedef void zt_listener(void *context, const zt_happened *happened);

/* listener NULL: nobody. */
ZL_NODISCARD zl_status zt_predict(const zl_torch_run *run, uint64_t rank, zt_listener *listener,
                                  void *context, zl_marks *out, zl_err *err);

#endif
