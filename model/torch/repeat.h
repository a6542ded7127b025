/* Steps that repeat, for predict.c and eager.c only; engine.h holds what is written down. */
#ifndef ZT_REPEAT_H
#define ZT_REPEAT_H

#include "torch/eager.h"

/* What a process does to its allocator, and where it looks at it. */
typedef enum zt_deed_kind {
    ZT_DEED_ALLOC,   /* amount: bytes */
    ZT_DEED_FREE,    /* amount: bytes */
    ZT_DEED_USE,     /* amount: the block */
    ZT_DEED_OUTLAST, /* amount: allocations + segments * 2^32 */
    ZT_DEED_IDLE,
    ZT_DEED_EMPTY,
    ZT_DEED_RESET,
    ZT_DEED_MARK, /* amount: index of the mark */
} zt_deed_kind;

typedef struct zt_deed {
    uint64_t amount;
    uint32_t born; /* of the storage: how many were allocated before it; else UINT32_MAX */
    uint16_t stream;
    uint8_t kind; /* zt_deed_kind */
} zt_deed;

typedef struct zt_deeds {
    zt_deed *at;
    uint32_t count, capacity;
    uint32_t first; /* the storage that is born next when it begins */
    bool on;
    zt_block *block; /* of the storages of the step, by born - first */
    uint32_t block_capacity;
    struct zt_outsider *outsider; /* storages that the step finds, by born */
    uint32_t outsiders;
} zt_deeds;

/* From here on it is written down. */
void zt_repeat_begin(zt_process *p);
/* Up to here; false: it is not known what a repetition would do. */
bool zt_repeat_end(zt_process *p);
/* The same once more, as this step. */
void zt_repeat(zt_process *p, int32_t step);

#endif
