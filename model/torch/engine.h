/* The inside of a process, shared by eager.c, autograd.c, checkpoint.c, modules.c and repeat.c
 * only. */
#ifndef ZT_ENGINE_H
#define ZT_ENGINE_H

#include <setjmp.h>

#include "torch/autograd.h"
#include "torch/predict.h"
#include "torch/repeat.h"

/* Memory handed out front to back and taken back all at once. Zeroed, never NULL. */
typedef struct zt_bump {
    struct zt_chunk *first, *current;
} zt_bump;
void *zt_bump_take(zt_process *p, zt_bump *bump, size_t count, size_t size);
void zt_bump_rewind(zt_bump *bump);
void zt_bump_clear(zt_bump *bump);

/* Makes room for one more item of `size` bytes in a heap array. */
void *zt_grow(zt_process *p, void *array, uint32_t count, uint32_t *capacity, size_t size);

typedef struct zt_storage_state {
    uint64_t bytes;
    zt_block block;
    uint32_t references; /* 0: free, and `stream` is the next free storage */
    uint32_t stream;
    uint32_t born; /* how many blocks were allocated before its own */
} zt_storage_state;

typedef struct zt_hook {
    struct zt_hook *next;
    zt_gradient_hook *hook;
    void *context;
    uint32_t slot;
} zt_hook;

typedef struct zt_frame {
    zt_layer_function *layer;
    void *context;
    zt_tensor x;
    zt_storage extra[ZT_CHECKPOINT_EXTRAS_MAX];
    uint32_t extras;
    uint32_t saves;  /* tensors the first run saved */
    uint32_t filled; /* of them saved again */
    uint32_t alive;  /* entries of nodes that have not run */
    bool recomputed;
    zt_storage *saved; /* (saves) */
} zt_frame;

typedef struct zt_callback {
    struct zt_callback *next;
    void (*run)(zt_process *, void *);
    void *context;
} zt_callback;

typedef struct zt_cast {
    const zt_param *leaf;
    zt_tensor tensor;
} zt_cast;

struct zt_engine {
    jmp_buf end;
    zl_err *err;
    zl_status status;
    zt_listener *listener;
    void *listener_context;
    zt_bump forever, tape;

    zt_storage_state *storage; /* [0] is unused */
    uint32_t storages, storage_capacity, free_storage;
    uint32_t births; /* blocks allocated so far */
    zt_deeds deeds;

    uint32_t stream;
    const char *what; /* name of new storages */
    zt_thread thread;
    struct {
        bool blas, blas_lt;
        bool cudnn; /* no workspace in the allocator, but memory outside of it */
    } workspace[ZT_THREAD_COUNT];

    zt_node **node; /* by id, [0] is unused */
    uint32_t nodes, node_capacity;
    uint32_t leaves; /* ids below survive a backward */
    uint32_t *ready; /* a heap, the youngest node on top */
    uint32_t ready_count, ready_capacity;
    uint32_t *leaf_queue; /* ready leaves, first in first out */
    uint32_t leaf_next, leaf_count, leaf_capacity;
    zt_callback *callbacks, **last_callback;
    bool in_backward;

    zt_tensor graph_leaf, graph_leaf_grad; /* zt_require_gradient */

    zt_frame *frame; /* being run, first time or again */
    bool recomputing, stopped;
    zt_node ghost;

    uint32_t mark_capacity; /* of p->marks */

    zt_param **created; /* while the model is built */
    uint32_t created_count, created_capacity;

    bool autocast;
    bool weightless; /* zt_weightless */
    bool any_order;  /* frees happen in the order of a hash table */
    zt_cast *cast;
    uint32_t casts, cast_capacity;
};

/* In zeroed memory. */
void zt_engine_init(struct zt_engine *e);
void zt_engine_clear(struct zt_engine *e);

/* A block, or the end of the walk where the device has no memory left. */
zt_block zt_allocate(zt_process *p, uint64_t bytes, uint32_t stream);
/* A mark with the figures of the allocator, whose peaks start anew. */
zl_mark *zt_mark_new(zt_process *p, int32_t step, const char *at);

/* The allocator's own events, to the listener; context is the process. */
bool zt_hear_driver(void *context, zt_segment_event *event);
void zt_hear_freed(void *context, zt_block block);

zt_node *zt_node_at(const zt_process *p, uint32_t id);
/* Drops the graph; leaves stay. */
void zt_tape_clear(zt_process *p);
/* Lets the frames of a node's saved tensors be run again if that has not happened. */
void zt_unpack(zt_process *p, const zt_node *node);
/* One entry of a frame less; with the last one its arguments go. */
void zt_frame_release(zt_process *p, zt_frame *frame);
/* What the node saved in frames: the formula's last references go, in reverse order. */
void zt_drop_unpacked(zt_process *p, const zt_node *node);
/* The node's own saved tensors and its hold on frames go. */
void zt_drop_saved(zt_process *p, zt_node *node);

#endif
