/* Sections 1 and 2 of docs/schedule.md: what a unit stores, and what init allocates. */
#include "walk/walk_state.h"

#include "zeroledger/bytes.h"

static const uint64_t nobody = 0;
static const uint64_t align = 256; /* section 1: of a tensor, and times N of a unit */

/* One tensor's share of the flat buffer, in the compute type. */
static uint64_t tensor(const zl_walk_state *w, uint64_t elements)
{
    return zl_align_up(zl_prod(elements, w->compute_size), align);
}

static uint64_t embedding_bytes(const zl_walk_state *w)
{
    uint64_t sum = tensor(w, zl_prod(w->vocab, w->width));
    if (!w->llama) {
        sum = zl_add(sum, tensor(w, zl_prod(w->positions, w->width)));
    }
    if (w->bert) {
        sum = zl_add(sum, tensor(w, zl_prod(w->types, w->width)));
        sum = zl_add(sum, tensor(w, w->width)); /* norm weight */
        sum = zl_add(sum, tensor(w, w->width)); /* norm bias */
    }
    return sum;
}

static uint64_t llama_block_bytes(const zl_walk_state *w)
{
    const zl_model *m = &w->run->model;
    uint64_t sum = tensor(w, w->width); /* norm1 w */
    sum = zl_add(sum, tensor(w, zl_prod(w->width, w->packed)));
    sum = m->qkv_bias ? zl_add(sum, tensor(w, w->packed)) : sum;
    sum = zl_add(sum, tensor(w, zl_prod(w->attn, w->width)));
    sum = m->out_bias ? zl_add(sum, tensor(w, w->width)) : sum;
    sum = zl_add(sum, tensor(w, w->width)); /* norm2 w */
    sum = zl_add(sum, tensor(w, zl_prod(w->width, 2, w->ffn)));
    sum = m->mlp_bias ? zl_add(sum, tensor(w, zl_prod(2, w->ffn))) : sum;
    sum = zl_add(sum, tensor(w, zl_prod(w->ffn, w->width)));
    sum = m->mlp_bias ? zl_add(sum, tensor(w, w->width)) : sum;
    return sum;
}

/* GPT-2 and BERT store the same tensors in another order. */
static uint64_t classic_block_bytes(const zl_walk_state *w)
{
    uint64_t sum = tensor(w, w->width);     /* ln1 w */
    sum = zl_add(sum, tensor(w, w->width)); /* ln1 b */
    sum = zl_add(sum, tensor(w, zl_prod(w->width, w->packed)));
    sum = zl_add(sum, tensor(w, w->packed));
    sum = zl_add(sum, tensor(w, zl_prod(w->attn, w->width)));
    sum = zl_add(sum, tensor(w, w->width));
    sum = zl_add(sum, tensor(w, w->width)); /* ln2 w */
    sum = zl_add(sum, tensor(w, w->width)); /* ln2 b */
    sum = zl_add(sum, tensor(w, zl_prod(w->width, w->ffn)));
    sum = zl_add(sum, tensor(w, w->ffn));
    sum = zl_add(sum, tensor(w, zl_prod(w->ffn, w->width)));
    sum = zl_add(sum, tensor(w, w->width));
    return sum;
}

static uint64_t head_bytes(const zl_walk_state *w)
{
    uint64_t sum = tensor(w, w->width); /* norm w */
    if (!w->llama) {
        sum = zl_add(sum, tensor(w, w->width)); /* norm b */
    }
    if (w->bert) {
        sum = zl_add(sum, tensor(w, zl_prod(w->width, w->width))); /* transform */
        sum = zl_add(sum, tensor(w, w->width));
        sum = zl_add(sum, tensor(w, w->vocab)); /* output bias */
    }
    if (!w->run->model.tied) {
        sum = zl_add(sum, tensor(w, zl_prod(w->vocab, w->width)));
    }
    if (w->pooler) {
        sum = zl_add(sum, tensor(w, zl_prod(w->width, w->width)));
        sum = zl_add(sum, tensor(w, w->width));
        sum = zl_add(sum, tensor(w, zl_prod(2, w->width))); /* next */
        sum = zl_add(sum, tensor(w, 2));
    }
    return sum;
}

uint64_t zl_walk_unit_elements(const zl_walk_state *w, uint64_t unit)
{
    uint64_t sum = 0;
    if (unit == 0) {
        sum = embedding_bytes(w);
    } else if (unit == w->head_unit) {
        sum = head_bytes(w);
    } else if (w->llama) {
        sum = llama_block_bytes(w);
    } else {
        sum = classic_block_bytes(w);
    }
    return zl_exact_div(zl_align_up(sum, zl_prod(w->ranks, align)), w->compute_size);
}

static void init_constants(zl_walk_state *w)
{
    zl_walk_alloc(w, ZL_BUF_CONST_SCALARS, nobody, zl_prod(64, 8));
    if (w->llama) {
        zl_walk_alloc(w, ZL_BUF_CONST_ROPE, nobody, zl_prod(w->tokens, w->head_dim, 4));
    }
}

static void init_work(zl_walk_state *w)
{
    if (w->run->backend == ZL_BACKEND_CUDA) {
        zl_walk_alloc(w, ZL_BUF_WORK_CUDA_GEMM, nobody, zl_prod(32, 1024, 1024));
        zl_walk_alloc(w, ZL_BUF_WORK_CUDA_SUMS, nobody, zl_prod(1024, 8));
        return;
    }
    if (w->run->precision != ZL_PRECISION_FP32) {
        zl_walk_alloc(w, ZL_BUF_WORK_HOST_GEMM, nobody, zl_prod(3, 256, 256, 4));
    }
    if (w->ranks > 1) {
        zl_walk_alloc(w, ZL_BUF_WORK_HOST_REDUCE, nobody, zl_prod(1024, 1024));
    }
}

static void init_parameters(zl_walk_state *w)
{
    for (uint64_t unit = 0; unit <= w->head_unit; unit++) {
        const uint64_t whole = zl_walk_unit_elements(w, unit);
        const uint64_t shard = zl_exact_div(whole, w->ranks);
        if (w->run->stage < 3) {
            zl_walk_alloc(w, ZL_BUF_PARAM_UNIT, unit, zl_prod(whole, w->compute_size));
        } else if (w->run->shard_copy) {
            zl_walk_alloc(w, ZL_BUF_PARAM_SHARD, unit, zl_prod(shard, w->compute_size));
        }
        if (w->mixed) {
            zl_walk_alloc(w, ZL_BUF_MASTER_WEIGHTS, unit,
                          zl_prod(w->run->stage == 0 ? whole : shard, 4));
        }
    }
}

/* One slot and, without a shard copy, the buffer that feeds it. */
static void gather_slot(zl_walk_state *w, zl_buf buf, uint64_t owner, uint64_t unit)
{
    const uint64_t whole = zl_walk_unit_elements(w, unit);
    zl_walk_alloc(w, buf, owner, zl_prod(whole, w->compute_size));
    if (!w->run->shard_copy) {
        zl_walk_alloc(w, ZL_BUF_GATHER_INPUT, owner,
                      zl_prod(zl_exact_div(whole, w->ranks), w->compute_size));
    }
}

static void init_gather_slots(zl_walk_state *w)
{
    const uint64_t slots = zl_min(zl_add(w->run->window, 1), w->layers);
    gather_slot(w, ZL_BUF_GATHER_EMBED, 0, 0);
    gather_slot(w, ZL_BUF_GATHER_HEAD, w->head_unit, w->head_unit);
    for (uint64_t slot = 1; slot <= slots; slot++) {
        gather_slot(w, ZL_BUF_GATHER_BLOCK, slot, 1);
    }
}

static void init_reduce_slots(zl_walk_state *w)
{
    zl_walk_alloc(w, ZL_BUF_GRAD_SLOT_EMBED, nobody,
                  zl_prod(zl_walk_unit_elements(w, 0), w->grad_size));
    zl_walk_alloc(w, ZL_BUF_GRAD_SLOT_HEAD, nobody,
                  zl_prod(zl_walk_unit_elements(w, w->head_unit), w->grad_size));
    for (uint64_t slot = 0; slot < w->slots; slot++) {
        zl_walk_alloc(w, ZL_BUF_GRAD_SLOT_BLOCK, slot,
                      zl_prod(zl_walk_unit_elements(w, 1), w->grad_size));
    }
}

void zl_walk_init(zl_walk_state *w)
{
    zl_walk_enter(w, ZL_VISIT_COLD, ZL_PHASE_INIT);
    init_constants(w);
    init_work(w);
    init_parameters(w);
    if (w->run->stage == 3) {
        init_gather_slots(w);
    }
    if (w->run->stage >= 2) {
        init_reduce_slots(w);
    }
    zl_walk_leave(w);
}
