/* DistributedDataParallel.
 *
 * Sources: torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp and comm.cpp.
 *
 * Every trainable parameter has a place in a bucket, where its gradient is reduced; buckets live
 * for ever. The first backward uses one bucket for all; the next forward makes them again in the
 * order in which that backward finished the gradients. With gradient_as_bucket_view the gradients
 * are those places, else memory of their own.
 *
 * ProcessGroupNCCL.cpp holds what an asynchronous collective works on until a later collective
 * begins, provided that its watchdog, which looks every 100 ms, has seen the end of the first one.
 * So the bucket of the first backward outlives the forward that replaces it, unless a step takes
 * that long or communicates itself. */
#include "torch/ddp.h"

#include "zeroledger/bytes.h"

/* comm.cpp and distributed.py: states are broadcast in buffers of 250 MiB, two at a time. */
static const uint64_t broadcast_bytes = UINT64_C(250) << 20;
enum { BROADCASTS_AT_ONCE = 2 };
/* distributed.py: buckets of 25 MiB where bucket_cap_mb is not given, the first one then of 1 MiB.
 */
static const uint64_t default_cap = UINT64_C(25) << 20;
static const uint64_t default_first_cap = UINT64_C(1) << 20;
static const double mebibyte = 1048576;

/* How full a bucket or buffer is. */
typedef struct filling {
    uint64_t bytes;
    uint32_t tensors;
} filling;

typedef struct ddp {
    zt_storage *bucket;
    uint32_t buckets;
    zt_storage first;       /* the bucket of the first backward, while NCCL holds it */
    uint32_t first_to_come; /* gradients until the next reduction begins */
    uint32_t *bucket_of;    /* by the parameter's index */
    zt_param **order;       /* as the first synchronized backward finished their gradients */
    uint32_t ordered;
    uint32_t trainable;
    bool rebuilt;
    bool synchronized;    /* this micro-step reduces */
    bool buffers_current; /* the forward before reduced, so buffers are broadcast again */
    zt_ddp_options options;
} ddp;

static uint64_t param_bytes(const zt_param *param)
{
    return zl_mul(zt_param_elements(param), param->element_bytes);
}

/* ---- construction ---- */

/* Compares the number of parameters of all ranks and the shapes with rank 0. */
static void verify_shapes(zt_process *p)
{
    const uint64_t ranks = p->run->ranks;
    uint64_t numbers = 0; /* size and stride of each dimension */
    for (uint32_t i = 0; i < p->param_count; i++) {
        numbers += p->named[i]->trains ? zl_mul(2, p->named[i]->dimensions) : 0;
    }
    zt_storage mine = zt_new(p, 8);
    zt_storage *all = zt_arena(p, ranks, sizeof *all);
    for (uint64_t r = 0; r < ranks; r++) {
        all[r] = zt_new(p, 8);
    }
    zt_touch(p, zl_mul(8, ranks)); /* the flat result of the all-gather */
    zt_touch(p, zl_mul(8, numbers));
    for (uint64_t r = 0; r < ranks; r++) {
        zt_drop(p, &all[r]);
    }
    zt_drop(p, &mine);
}

/* What is under way: flat copies, the oldest first. */
typedef struct broadcasts {
    zt_storage flat[BROADCASTS_AT_ONCE];
    uint32_t count;
} broadcasts;

static void finish_oldest(zt_process *p, broadcasts *b)
{
    zt_drop(p, &b->flat[0]);
    for (uint32_t i = 1; i < b->count; i++) {
        b->flat[i - 1] = b->flat[i];
    }
    b->flat[--b->count] = ZT_NO_STORAGE;
}

/* One tensor is sent as it is, several are copied into a flat one. */
static void broadcast(zt_process *p, broadcasts *b, filling *buffer)
{
    if (buffer->tensors > 0) {
        if (b->count == BROADCASTS_AT_ONCE) {
            finish_oldest(p, b);
        }
        b->flat[b->count++] = buffer->tensors == 1 ? ZT_NO_STORAGE : zt_new(p, buffer->bytes);
    }
    *buffer = (filling){0};
}

static void add_tensor(zt_process *p, broadcasts *b, filling *buffer, uint64_t bytes)
{
    buffer->bytes = zl_add(buffer->bytes, bytes);
    buffer->tensors++;
    if (buffer->bytes >= broadcast_bytes) {
        broadcast(p, b, buffer);
    }
}

static void finish_all(zt_process *p, broadcasts *b)
{
    while (b->count > 0) {
        finish_oldest(p, b);
    }
}

/* _broadcast_coalesced of the buffers, and before them of the parameters if asked for. Tensors of
 * one type share buffers: floating ones follow the parameters, integers come last. */
static void broadcast_states(zt_process *p, bool params)
{
    broadcasts b = {0};
    filling floating = {0};
    filling integers = {0};
    for (uint32_t i = 0; i < p->param_count && params; i++) {
        add_tensor(p, &b, &floating, param_bytes(p->named[i]));
    }
    for (uint32_t m = 0; m < p->module_count; m++) {
        for (uint32_t i = 0; i < p->modules[m]->buffers; i++) {
            if (p->modules[m]->buffer[i].floating) {
                add_tensor(p, &b, &floating, p->modules[m]->buffer[i].bytes);
            } else {
                add_tensor(p, &b, &integers, p->modules[m]->buffer[i].bytes);
            }
        }
    }
    broadcast(p, &b, &floating);
    broadcast(p, &b, &integers);
    finish_all(p, &b);
}

void zt_ddp_init(zt_process *p, zt_ddp_options options)
{
    ddp *d = zt_arena(p, 1, sizeof *d);
    uint64_t bytes = 0;
    p->user = d;
    d->options = options;
    d->buffers_current = true;
    d->bucket = zt_arena(p, p->param_count, sizeof *d->bucket);
    d->bucket_of = zt_arena(p, p->param_count, sizeof *d->bucket_of);
    d->order = zt_arena(p, p->param_count, sizeof(zt_param *));
    zt_init_on_device(p);
    for (uint32_t i = 0; i < p->param_count; i++) {
        if (p->named[i]->trains) {
            d->trainable++;
            bytes = zl_add(bytes, param_bytes(p->named[i]));
        }
    }
    verify_shapes(p);
    broadcast_states(p, true);
    d->bucket[0] = zt_new(p, bytes);
    zt_name(p, d->bucket[0], "reduce buckets");
    d->buckets = 1;
}

/* ---- buckets in gradient-ready order ---- */

static uint64_t cap_of(const zt_process *p, uint32_t bucket)
{
    if (p->run->bucket_cap_mb > 0) {
        return (uint64_t)(p->run->bucket_cap_mb * mebibyte);
    }
    return bucket == 0 ? default_first_cap : default_cap;
}

/* A bucket is full once it has reached its cap. */
static uint32_t assign_buckets(zt_process *p, ddp *d, uint64_t *bytes)
{
    uint32_t bucket = 0;
    for (uint32_t i = 0; i < d->ordered; i++) {
        d->bucket_of[d->order[i]->index] = bucket;
        d->first_to_come += bucket == 0;
        bytes[bucket] = zl_add(bytes[bucket], param_bytes(d->order[i]));
        if (bytes[bucket] >= cap_of(p, bucket)) {
            bucket++;
        }
    }
    return bytes[bucket] > 0 ? bucket + 1 : bucket;
}

/* All ranks take the assignment of rank 0: numbers of 32 bits, one of each parameter and how many
 * buckets, then the sizes of the buckets. */
static void rebuild(zt_process *p, ddp *d)
{
    uint64_t *bytes = zt_arena(p, d->ordered + 1, sizeof *bytes);
    const uint32_t buckets = assign_buckets(p, d, bytes);
    zt_storage indices = zt_new(p, zl_mul(4, zl_add(d->ordered, 1)));
    zt_storage sizes = zt_new(p, zl_mul(4, buckets));
    zt_drop(p, &sizes);
    zt_drop(p, &indices);
    d->first = d->bucket[0];
    if (d->options.steps_communicate || p->run->simulated) {
        zt_drop(p, &d->first);
    }
    for (uint32_t i = 0; i < buckets; i++) {
        d->bucket[i] = zt_new(p, bytes[i]);
        zt_name(p, d->bucket[i], "reduce buckets");
    }
    d->buckets = buckets;
    d->rebuilt = true;
}

void zt_ddp_before_forward(zt_process *p, uint64_t micro_step)
{
    ddp *d = p->user;
    d->synchronized = !d->options.accumulate_alone || micro_step + 1 == p->run->accumulation;
    if (!d->rebuilt && d->ordered > 0) {
        rebuild(p, d);
    }
    if (d->buffers_current) {
        broadcast_states(p, false);
    }
    d->buffers_current = d->synchronized;
}

/* The reducer's hook behind each gradient. */
void zt_ddp_gradient(zt_process *p, zt_param *param)
{
    ddp *d = p->user;
    if (!d->synchronized) {
        return;
    }
    if (!d->rebuilt) {
        d->order[d->ordered++] = param;
    }
    const zt_storage bucket = d->bucket[d->bucket_of[param->index]];
    if (d->bucket_of[param->index] == 0 && d->first_to_come > 0 && --d->first_to_come == 0) {
        zt_drop(p, &d->first);
    }
    if (p->run->bucket_view && param->grad.storage != bucket) {
        param->grad.view = true;
        zt_drop(p, &param->grad.storage);
        param->grad.storage = zt_hold(p, bucket);
    }
}

zt_nccl zt_ddp_nccl(const zt_process *p)
{
    return p->run->simulated ? (zt_nccl){0}
                             : (zt_nccl){.communicators = 1, .used = 1, .broadcast = true};
}

static void init(zt_process *p)
{
    zt_ddp_init(p, (zt_ddp_options){.accumulate_alone = true});
    p->optimizer = zt_optimizer_new(p, p->run->optimizer);
    for (uint32_t i = 0; i < p->param_count; i++) {
        if (p->named[i]->trains) {
            zt_optimizer_add(p, p->optimizer, zt_param_elements(p->named[i]),
                             p->named[i]->element_bytes);
        }
    }
}

const zt_framework zt_ddp = {
    .init = init,
    .before_forward = zt_ddp_before_forward,
    .gradient = zt_ddp_gradient,
    .nccl = zt_ddp_nccl,
    .unsettled = 1, /* the second has new buckets in the order of the first backward */
};
