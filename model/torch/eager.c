#include "torch/eager.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch/engine.h"
#include "torch/modules.h"
#include "torch/outside.h"
#include "zeroledger/bytes.h"

/* ---- failures and memory of our own ---- */

void zt_fail(zt_process *p, zl_status status, const char *message)
{
    p->engine->status = zl_fail(p->engine->err, status, "%s", message);
    longjmp(p->engine->end, 1);
}

typedef struct zt_chunk {
    struct zt_chunk *next;
    size_t size, used;
    max_align_t data[];
} zt_chunk;

enum { CHUNK_BYTES = 1 << 18 };

static bool chunk_has_room(const zt_chunk *chunk, size_t bytes)
{
    return chunk != NULL && chunk->size - chunk->used >= bytes;
}

void *zt_bump_take(zt_process *p, zt_bump *bump, size_t count, size_t size)
{
    const uint64_t bytes = zl_align_up(zl_mul(count, size), sizeof(max_align_t));
    while (!chunk_has_room(bump->current, bytes) && bump->current != NULL &&
           bump->current->next != NULL) {
        bump->current = bump->current->next;
        bump->current->used = 0;
    }
    if (!chunk_has_room(bump->current, bytes)) {
        const size_t room = zl_max(bytes, CHUNK_BYTES);
        zt_chunk *chunk = zl_poisoned(bytes) ? NULL : malloc(sizeof *chunk + room);
        if (chunk == NULL) {
            zt_fail(p, ZL_E_RESOURCE, "no memory for the walk of this run");
        }
        *chunk = (zt_chunk){.size = room};
        *(bump->current == NULL ? &bump->first : &bump->current->next) = chunk;
        bump->current = chunk;
    }
    char *taken = (char *)bump->current->data + bump->current->used;
    bump->current->used += bytes;
    return memset(taken, 0, bytes);
}

void zt_bump_rewind(zt_bump *bump)
{
    bump->current = bump->first;
    if (bump->current != NULL) {
        bump->current->used = 0;
    }
}

void zt_bump_clear(zt_bump *bump)
{
    while (bump->first != NULL) {
        zt_chunk *next = bump->first->next;
        free(bump->first);
        bump->first = next;
    }
    bump->current = NULL;
}

void zt_engine_init(struct zt_engine *e)
{
    e->what = "other";
    e->storages = 1; /* 0 is no storage, and no node */
    e->nodes = 1;
    e->leaves = 1;
}

void zt_engine_clear(struct zt_engine *e)
{
    zt_bump_clear(&e->forever);
    zt_bump_clear(&e->tape);
    free(e->storage);
    free(e->deeds.at);
    free(e->deeds.block);
    free(e->node);
    free(e->ready);
    free(e->leaf_queue);
    free(e->created);
    free(e->cast);
}

void *zt_arena(zt_process *p, size_t count, size_t size)
{
    return zt_bump_take(p, &p->engine->forever, count, size);
}

void *zt_grow(zt_process *p, void *array, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity) {
        return array;
    }
    const uint32_t more = *capacity == 0 ? 256 : *capacity * 2;
    void *grown = more < *capacity ? NULL : realloc(array, more * size);
    if (grown == NULL) {
        zt_fail(p, ZL_E_RESOURCE, "no memory for the walk of this run");
    }
    *capacity = more;
    return grown;
}

/* ---- streams ---- */

uint32_t zt_stream(const zt_process *p)
{
    return p->engine->stream;
}

uint32_t zt_set_stream(zt_process *p, uint32_t stream)
{
    const uint32_t before = p->engine->stream;
    p->engine->stream = stream;
    return before;
}

bool zt_in_backward(const zt_process *p)
{
    return p->engine->in_backward;
}

bool zt_recomputing(const zt_process *p)
{
    return p->engine->recomputing;
}

bool zt_stopped(const zt_process *p)
{
    return p->engine->stopped;
}

/* ---- storages ---- */

/* Asked before an event is put together: nearly always nobody listens. */
static bool is_heard(const zt_process *p)
{
    return p->engine->listener != NULL;
}

static void tell(const zt_process *p, zt_happened happened)
{
    happened.stats = zt_allocator_stats(p->allocator);
    happened.requested = happened.stats->requested.current;
    if (happened.block != ZT_NO_BLOCK) {
        happened.address = zt_block_address(p->allocator, happened.block);
        happened.size = zt_block_size(p->allocator, happened.block);
    }
    p->engine->listener(p->engine->listener_context, &happened);
}

bool zt_hear_driver(void *context, zt_segment_event *event)
{
    tell(context, (zt_happened){.what = ZT_SEGMENTS,
                                .bytes = event->size,
                                .address = event->address,
                                .segment = event->action,
                                .small = event->small,
                                .stream = event->stream});
    return true;
}

void zt_hear_freed(void *context, zt_block block)
{
    tell(context, (zt_happened){.what = ZT_COMPLETES, .block = block});
}

/* torch.OutOfMemoryError */
static _Noreturn void fail_out_of_memory(zt_process *p, uint64_t bytes)
{
    const zt_stats *stats = zt_allocator_stats(p->allocator);
    char message[256];
    if (p->run->device_total == 0) {
        snprintf(message, sizeof message,
                 "fits no GPU: one buffer of %" PRIu64 " bytes is asked for when %" PRIu64
                 " are allocated",
                 bytes, stats->allocated.current);
        zt_fail(p, ZL_NO, message);
    }
    snprintf(message, sizeof message,
             "does not fit: %" PRIu64 " bytes are asked for, %" PRIu64 " are allocated, %" PRIu64
             " of %" PRIu64 " are reserved",
             bytes, stats->allocated.current, stats->reserved.current, p->run->device_total);
    zt_fail(p, ZL_NO, message);
}

zt_block zt_allocate(zt_process *p, uint64_t bytes, uint32_t stream)
{
    const zt_block block = zt_alloc(p->allocator, bytes, stream);
    if (block == ZT_NO_BLOCK && zt_allocator_stats(p->allocator)->ooms > 0) {
        fail_out_of_memory(p, bytes);
    }
    return block;
}

static void note(zt_process *p, zt_deed deed)
{
    zt_deeds *d = &p->engine->deeds;
    if (!d->on) {
        return;
    }
    if (d->count == d->capacity) {
        d->at = zt_grow(p, d->at, d->count, &d->capacity, sizeof *d->at);
    }
    d->at[d->count++] = deed;
}

/* What a storage does to its block. */
static void note_of(zt_process *p, const zt_storage_state *s, zt_deed_kind kind, uint64_t amount,
                    uint32_t stream)
{
    if (p->engine->deeds.on) {
        note(p, (zt_deed){.amount = amount,
                          .born = s->born,
                          .stream = (uint16_t)stream,
                          .kind = (uint8_t)kind});
    }
}

static void note_block(zt_process *p, const zt_storage_state *s)
{
    zt_deeds *d = &p->engine->deeds;
    if (d->on) {
        note_of(p, s, ZT_DEED_ALLOC, s->bytes, s->stream);
        const uint32_t at = s->born - d->first;
        if (at == d->block_capacity) {
            d->block = zt_grow(p, d->block, at, &d->block_capacity, sizeof *d->block);
        }
        d->block[at] = s->block;
    }
}

/* A block for the bytes of a storage, on its stream. */
static void allocate(zt_process *p, zt_storage_state *s)
{
    if (s->bytes == 0) {
        return;
    }
    s->block = zt_allocate(p, s->bytes, s->stream);
    s->born = p->engine->births++;
    note_block(p, s);
    if (is_heard(p)) {
        tell(p, (zt_happened){.what = ZT_ALLOCATES,
                              .block = s->block,
                              .bytes = s->bytes,
                              .stream = s->stream,
                              .at = p->engine->what});
    }
}

static void give_back(zt_process *p, const zt_storage_state *s)
{
    if (s->bytes == 0) {
        return;
    }
    note_of(p, s, ZT_DEED_FREE, s->bytes, s->stream);
    if (is_heard(p)) {
        tell(p, (zt_happened){.what = ZT_FREES,
                              .block = s->block,
                              .bytes = s->bytes,
                              .stream = s->stream,
                              .any_order = p->engine->any_order});
    }
    zt_free(p->allocator, s->block);
}

static zt_storage_state *storage_at(const zt_process *p, zt_storage s)
{
    return &p->engine->storage[s];
}

zt_storage zt_new_on(zt_process *p, uint64_t bytes, uint32_t stream)
{
    struct zt_engine *e = p->engine;
    if (e->stopped) {
        return ZT_NO_STORAGE;
    }
    if (zl_poisoned(bytes)) {
        zt_fail(p, ZL_E_USAGE, "a tensor of this run does not fit in 64 bits");
    }
    zt_storage s = e->free_storage;
    if (s != ZT_NO_STORAGE) {
        e->free_storage = storage_at(p, s)->stream;
    } else {
        e->storage = zt_grow(p, e->storage, e->storages, &e->storage_capacity, sizeof *e->storage);
        s = e->storages++;
    }
    zt_storage_state *state = storage_at(p, s);
    *state =
        (zt_storage_state){.bytes = e->weightless ? 0 : bytes, .references = 1, .stream = stream};
    allocate(p, state);
    return s;
}

bool zt_weightless(zt_process *p, bool on)
{
    const bool was = p->engine->weightless;
    p->engine->weightless = on;
    return was;
}

zt_storage zt_new(zt_process *p, uint64_t bytes)
{
    return zt_new_on(p, bytes, p->engine->stream);
}

void zt_name(zt_process *p, zt_storage s, const char *name)
{
    if (is_heard(p) && s != ZT_NO_STORAGE && storage_at(p, s)->bytes > 0) {
        tell(p, (zt_happened){.what = ZT_NAMES,
                              .block = storage_at(p, s)->block,
                              .bytes = storage_at(p, s)->bytes,
                              .stream = storage_at(p, s)->stream,
                              .at = name});
    }
}

const char *zt_set_name(zt_process *p, const char *name)
{
    const char *before = p->engine->what;
    p->engine->what = name;
    return before;
}

zt_storage zt_hold(zt_process *p, zt_storage s)
{
    if (s != ZT_NO_STORAGE) {
        storage_at(p, s)->references++;
    }
    return s;
}

void zt_drop(zt_process *p, zt_storage *s)
{
    struct zt_engine *e = p->engine;
    if (*s == ZT_NO_STORAGE) {
        return;
    }
    zt_storage_state *state = storage_at(p, *s);
    if (state->references == 0) {
        zt_fail(p, ZL_E_BUG, "a tensor was released twice");
    }
    if (--state->references == 0) {
        give_back(p, state);
        state->stream = e->free_storage;
        e->free_storage = *s;
    }
    *s = ZT_NO_STORAGE;
}

void zt_touch(zt_process *p, uint64_t bytes)
{
    zt_storage s = zt_new(p, bytes);
    zt_drop(p, &s);
}

void zt_resize(zt_process *p, zt_storage s, uint64_t bytes)
{
    if (s == ZT_NO_STORAGE || storage_at(p, s)->bytes == bytes) {
        return;
    }
    zt_storage_state *state = storage_at(p, s);
    give_back(p, state);
    *state = (zt_storage_state){
        .bytes = bytes, .references = state->references, .stream = p->engine->stream};
    allocate(p, state);
}

void zt_record_use(zt_process *p, zt_storage s, uint32_t stream)
{
    if (s != ZT_NO_STORAGE && storage_at(p, s)->bytes > 0) {
        note_of(p, storage_at(p, s), ZT_DEED_USE, storage_at(p, s)->block, stream);
        zt_record_stream(p->allocator, storage_at(p, s)->block, stream);
    }
}

void zt_outlast_use(zt_process *p, zt_storage s, uint32_t allocations, uint32_t segments)
{
    if (s != ZT_NO_STORAGE && storage_at(p, s)->bytes > 0) {
        note_of(p, storage_at(p, s), ZT_DEED_OUTLAST, allocations | (uint64_t)segments << 32, 0);
        zt_outlast(p->allocator, storage_at(p, s)->block, allocations, segments);
    }
}

void zt_synchronize_device(zt_process *p)
{
    note(p, (zt_deed){.kind = ZT_DEED_IDLE, .born = UINT32_MAX});
    zt_device_idle(p->allocator);
}

void zt_release_cached(zt_process *p)
{
    note(p, (zt_deed){.kind = ZT_DEED_EMPTY, .born = UINT32_MAX});
    zt_empty_cache(p->allocator);
}

uint64_t zt_storage_bytes(const zt_process *p, zt_storage s)
{
    return s == ZT_NO_STORAGE ? 0 : storage_at(p, s)->bytes;
}

uint32_t zt_storage_references(const zt_process *p, zt_storage s)
{
    return s == ZT_NO_STORAGE ? 0 : storage_at(p, s)->references;
}

/* ---- tensors ---- */

uint64_t zt_bytes(zt_tensor t)
{
    return zl_mul(t.elements, t.element_bytes);
}

zt_tensor zt_tensor_new(zt_process *p, uint64_t elements, uint32_t element_bytes)
{
    return (zt_tensor){.storage = zt_new(p, zl_mul(elements, element_bytes)),
                       .elements = elements,
                       .element_bytes = element_bytes};
}

zt_tensor zt_share(zt_process *p, zt_tensor t)
{
    zt_hold(p, t.storage);
    return t;
}

zt_tensor zt_detach(zt_process *p, zt_tensor t)
{
    t = zt_share(p, t);
    t.node = 0;
    t.leaf = NULL;
    t.view = true;
    return t;
}

void zt_release(zt_process *p, zt_tensor *t)
{
    zt_drop(p, &t->storage);
    *t = (zt_tensor){0};
}

void zt_assign(zt_process *p, zt_tensor *t, zt_tensor value)
{
    zt_tensor old = *t;
    if (p->engine->stopped) {
        zt_release(p, &value);
    } else {
        *t = value;
        zt_release(p, &old);
    }
}

/* ---- parameters ---- */

uint64_t zt_param_elements(const zt_param *param)
{
    return zl_mul(param->rows, param->columns);
}

void zt_clear_grad(zt_process *p, zt_param *param)
{
    zt_release(p, &param->grad);
}

void zt_param_on_device(zt_process *p, zt_param *param)
{
    if (param->value.storage == ZT_NO_STORAGE) {
        param->value.storage = zt_new(p, zt_bytes(param->value));
        zt_name(p, param->value.storage, "parameters");
    }
}

void zt_buffers_on_device(zt_process *p, zt_module *m)
{
    for (uint32_t i = 0; i < m->buffers; i++) {
        if (m->buffer[i].storage == ZT_NO_STORAGE) {
            m->buffer[i].storage = zt_new(p, m->buffer[i].bytes);
            zt_name(p, m->buffer[i].storage, "module buffers");
        }
    }
}

static void module_on_device(zt_process *p, zt_module *m)
{
    for (zt_module *child = m->child; child != NULL; child = child->next) {
        module_on_device(p, child);
    }
    for (uint32_t i = 0; i < m->params; i++) {
        zt_param_on_device(p, m->param[i]);
    }
    zt_buffers_on_device(p, m);
}

void zt_init_on_device(zt_process *p)
{
    module_on_device(p, p->root);
}

/* ---- marks ---- */

void zt_reset_peak(zt_process *p)
{
    if (is_heard(p)) {
        tell(p, (zt_happened){.what = ZT_RESETS});
    }
    note(p, (zt_deed){.kind = ZT_DEED_RESET, .born = UINT32_MAX});
    zt_reset_peaks(p->allocator);
}

zl_mark *zt_mark_new(zt_process *p, int32_t step, const char *at)
{
    zl_marks *marks = p->marks;
    if (marks->count == ZL_MARKS_MAX) {
        zt_fail(p, ZL_E_USAGE, "more marks than a walk keeps: fewer steps or micro-steps");
    }
    const zt_stats *s = zt_allocator_stats(p->allocator);
    marks->mark = zt_grow(p, marks->mark, (uint32_t)marks->count, &p->engine->mark_capacity,
                          sizeof *marks->mark);
    zl_mark *mark = &marks->mark[marks->count++];
    *mark = (zl_mark){
        .step = step,
        .requested = s->requested.current,
        .peak_requested = s->requested.peak,
        .allocated = s->allocated.current,
        .peak_allocated = s->allocated.peak,
        .active = s->active.current,
        .peak_active = s->active.peak,
        .reserved = s->reserved.current,
        .peak_reserved = s->reserved.peak,
    };
    snprintf(mark->at, sizeof mark->at, "%s", at);
    zt_reset_peaks(p->allocator);
    return mark;
}

void zt_mark(zt_process *p, int32_t step, const char *at)
{
    note(p, (zt_deed){.kind = ZT_DEED_MARK, .born = UINT32_MAX, .amount = p->marks->count});
    zl_mark *mark = zt_mark_new(p, step, at);
    mark->device_used = zl_add(p->run->device_context, mark->reserved);
    mark->device_used = zl_add(mark->device_used, zt_outside_bytes(p));
    if (p->framework->host != NULL) {
        p->framework->host(p, mark);
    }
    if (is_heard(p)) {
        tell(p, (zt_happened){.what = ZT_MARKS, .at = mark->at, .step = step});
    }
}

/* ---- workspaces ---- */

/* aten/src/ATen/cuda/CublasHandlePool.cpp: 32 MiB on Hopper, else 2 x 4 MiB and 8 x 16 KiB; and
 * what cuBLASLt keeps for its own. They live as long as the process. */
enum {
    BLAS_HOPPER = 33554432,
    BLAS_OLDER = 8519680,
    BLAS_LT = 1048576,
    HOPPER = 90,
};

static void workspace_new(zt_process *p, uint64_t bytes)
{
    const bool was = zt_weightless(p, zt_given_workspaces(p));
    zt_name(p, zt_new(p, bytes), "workspaces of cuBLAS");
    zt_weightless(p, was);
}

void zt_gemm(zt_process *p, bool bias_epilogue)
{
    struct zt_engine *e = p->engine;
    if (e->stopped) {
        return;
    }
    if (!e->workspace[e->thread].blas) {
        e->workspace[e->thread].blas = true;
        workspace_new(p, p->run->capability == HOPPER ? BLAS_HOPPER : BLAS_OLDER);
    }
    if (bias_epilogue && !e->workspace[e->thread].blas_lt) {
        e->workspace[e->thread].blas_lt = true;
        workspace_new(p, BLAS_LT);
    }
}

void zt_cudnn(zt_process *p)
{
    p->engine->workspace[p->engine->thread].cudnn = true;
}
