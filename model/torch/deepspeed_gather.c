#include "torch/deepspeed_gather.h"

#include "torch/modules.h"
#include "zeroledger/bytes.h"

/* A collective that parameters came or come with. */
typedef struct handle {
    /* The flat buffer of several parameters, until all have been waited for; of a lone one whose
     * shard lives on the host, the copy of that on the device. */
    zt_storage flat;
    uint32_t first;   /* its parameters: this one, next[first], ... */
    uint32_t waiting; /* of them that nobody has waited for */
    bool copied;      /* they have memory of their own */
} handle;

struct zt_ds_gather {
    uint32_t stream;  /* of gathers and of the copies out of them */
    handle *handle;   /* as many as parameters: each waiting handle has one of its own */
    uint32_t *unused; /* a stack of handles */
    uint32_t unused_count;
    uint32_t *of;     /* per parameter: its handle while it is in flight */
    uint32_t *next;   /* the parameter after it in its handle; the last: itself */
    zt_storage *copy; /* per parameter: scratch */
    zt_ds_head head;  /* what has just been launched with the output matrix */
    bool ahead;       /* the host runs ahead of the device in the first backward */
};

zt_ds_gather *zt_ds_gather_new(zt_process *p, uint32_t stream)
{
    zt_ds_gather *const g = zt_arena(p, 1, sizeof *g);
    g->stream = stream;
    g->handle = zt_arena(p, p->param_count, sizeof *g->handle);
    g->unused = zt_arena(p, p->param_count, sizeof *g->unused);
    g->of = zt_arena(p, p->param_count, sizeof *g->of);
    g->next = zt_arena(p, p->param_count, sizeof *g->next);
    g->copy = zt_arena(p, p->param_count, sizeof *g->copy);
    for (; g->unused_count < p->param_count; g->unused_count++) {
        g->unused[g->unused_count] = g->unused_count;
    }
    return g;
}

static uint64_t shard_bytes(const zt_ds *ds, uint32_t param)
{
    return zl_mul(ds->width, zl_ceil_div(ds->param[param].x, ds->ranks));
}

static handle *handle_new(zt_ds_gather *g, const uint32_t *param, uint32_t count)
{
    const uint32_t id = g->unused[--g->unused_count];
    for (uint32_t i = 0; i < count; i++) {
        g->of[param[i]] = id;
        g->next[param[i]] = param[i + 1 < count ? i + 1 : i];
    }
    g->handle[id] = (handle){.first = param[0], .waiting = count};
    return &g->handle[id];
}

/* One buffer that is the parameter. */
static void gather_alone(zt_process *p, const zt_ds *ds, uint32_t param)
{
    handle *const h = handle_new(ds->gather, &param, 1);
    const uint64_t bytes = shard_bytes(ds, param);
    h->copied = true;
    zt_storage buffer = zt_ds_new(p, zl_mul(bytes, ds->ranks), "gathered parameters");
    h->flat = ds->config->offload_param != ZL_OFFLOAD_NONE ? zt_new(p, bytes) : ZT_NO_STORAGE;
    zt_ds_point(p, p->named[param], buffer);
    zt_drop(p, &buffer);
}

/* With one rank the shard itself serves, a copy of it where it lives on the host. */
static void take_shard(zt_process *p, const zt_ds *ds, uint32_t param)
{
    handle *const h = handle_new(ds->gather, &param, 1);
    zt_storage own = ds->config->offload_param != ZL_OFFLOAD_NONE
                         ? zt_ds_new(p, shard_bytes(ds, param), "gathered parameters")
                         : zt_hold(p, zt_ds_zero3_shard(p, param));
    h->copied = true;
    zt_ds_point(p, p->named[param], own);
    zt_drop(p, &own);
}

/* Shards that live on the host are copied to the device first. */
static void copy_shards(zt_process *p, const zt_ds *ds, const uint32_t *param, uint32_t count)
{
    zt_storage *const copy = ds->gather->copy;
    for (uint32_t i = 0; i < count; i++) {
        copy[i] = zt_new(p, shard_bytes(ds, param[i]));
    }
    for (uint32_t i = 0; i < count; i++) {
        zt_drop(p, &copy[i]);
    }
}

/* One flat buffer, rank after rank; the parameters are copied out of it when the first is waited
 * for, unless they are reduced into place (use_all_reduce_for_fetch_params). */
static void gather_together(zt_process *p, const zt_ds *ds, const uint32_t *param, uint32_t count)
{
    handle *const h = handle_new(ds->gather, param, count);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes = zl_add(bytes, shard_bytes(ds, param[i]));
    }
    h->flat = zt_ds_new(p, zl_mul(bytes, ds->ranks), "flat buffer of a gather");
    if (ds->config->offload_param != ZL_OFFLOAD_NONE) {
        copy_shards(p, ds, param, count);
    }
    h->copied = ds->config->all_reduce_for_fetch;
    for (uint32_t i = 0; i < count && h->copied; i++) {
        zt_ds_point(p, p->named[param[i]], h->flat);
    }
}

void zt_ds_gather_start(void *process, const uint32_t *param, size_t count)
{
    zt_process *const p = process;
    const zt_ds *ds = zt_ds_of(p);
    const bool alone =
        count == 1 || ds->config->allgather_sequential || !ds->release.stage3_rewritten;
    const uint32_t before = zt_set_stream(p, ds->gather->stream);
    for (size_t i = 0; i < count; i++) {
        if (ds->ranks == 1 && ds->release.world1_shard) {
            take_shard(p, ds, param[i]);
        } else if (alone) {
            gather_alone(p, ds, param[i]);
        } else {
            gather_together(p, ds, param, (uint32_t)count);
            break;
        }
    }
    zt_set_stream(p, before);
}

/* Each parameter of the set gets memory of its own. */
static void copy_out(zt_process *p, const zt_ds *ds, uint32_t param)
{
    for (bool last = false; !last; param = ds->gather->next[param]) {
        zt_storage own = zt_ds_new(p, zl_mul(ds->width, ds->param[param].x), "gathered parameters");
        zt_ds_point(p, p->named[param], own);
        zt_drop(p, &own);
        last = ds->gather->next[param] == param;
    }
}

void zt_ds_gather_wait(void *process, uint32_t param)
{
    zt_process *const p = process;
    const zt_ds *ds = zt_ds_of(p);
    zt_ds_gather *const g = ds->gather;
    handle *const h = &g->handle[g->of[param]];
    const uint32_t before = zt_set_stream(p, g->stream);
    if (!h->copied) {
        copy_out(p, ds, h->first);
        h->copied = true;
    }
    if (--h->waiting == 0) {
        zt_drop(p, &h->flat);
        g->unused[g->unused_count++] = g->of[param];
    }
    zt_set_stream(p, before);
}

/* ---- release ---- */

/* Timing, read off records of one H200 and not derived: the head's weight is released behind a
 * product that keeps the device busy while the host goes on. A matrix whose rows do not begin on 16
 * bytes multiplies at half the speed. */
static const double aligned_flops = 650e12; /* per second */
static const double unaligned_flops = 300e12;
static const double one_allocation = 0.2e-3; /* seconds after which the next allocation comes */
static const double new_segments = 0.47e-3;  /* and one that had to ask the driver has come back */

/* The event behind a product of the output matrix, which has just been launched or will be when a
 * saved view lets go of the weight in backward, against what the host does next. */
static void outlast(zt_process *p, const zt_param *param, zt_storage s)
{
    const uint64_t vocab = p->run->model.vocab;
    const zt_ds_gather *g = zt_ds_of(p)->gather;
    if (param->rows != vocab || param->dimensions != 2 || g->head == ZT_DS_HEAD_IDLE ||
        zt_activations_given(p)) { /* of operations that are not modelled no time is known */
        return;
    }
    const bool aligned = zl_mul(vocab, zt_ds_of(p)->width) % 16 == 0;
    const double work = 2.0 * (double)zt_tokens(p) * (double)zt_param_elements(param);
    const double seconds = work / (aligned ? aligned_flops : unaligned_flops);
    const bool saved = zt_storage_references(p, s) > 1;
    if (g->head == ZT_DS_HEAD_BACKWARD || saved) {
        zt_outlast_use(p, s, 0, g->ahead && seconds >= new_segments ? 1 : 0);
    } else if (seconds >= new_segments) {
        zt_outlast_use(p, s, 0, 2);
    } else if (seconds >= one_allocation) {
        zt_outlast_use(p, s, 1, 0);
    }
}

/* free_param: the memory may still be in use by the kernels that were launched. */
void zt_ds_gather_release(void *process, uint32_t param)
{
    zt_process *const p = process;
    zt_storage *const s = &p->named[param]->value.storage;
    zt_record_use(p, *s, zt_stream(p));
    outlast(p, p->named[param], *s);
    zt_drop(p, s);
}

void zt_ds_gather_head(const zt_process *p, zt_ds_head head)
{
    /* Simulated ranks, offload and recomputation keep the host busy. */
    const zt_ds *ds = zt_ds_of(p);
    ds->gather->head = head;
    ds->gather->ahead = ds->real && !p->run->checkpointing && ds->started == 0 &&
                        ds->config->offload_param == ZL_OFFLOAD_NONE;
}
