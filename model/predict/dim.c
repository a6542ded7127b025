#include "predict/dim.h"

#include <string.h>

#include "family/family.h"
#include "zeroledger/bytes.h"

/* Each tensor of a flat unit starts on this many bytes; a shard is a multiple of it. */
enum { ALIGN = 256 };

const char *zl_dim_symbol(zl_dim dim)
{
    static const char *const symbols[ZL_DIM_COUNT] = {
#define ZL_DIM(id, symbol, meaning) [dim_##id] = (symbol),
        ZL_DIMS(ZL_DIM)
#undef ZL_DIM
    };
    return symbols[dim];
}

const char *zl_dim_text(zl_dim dim)
{
    static const char *const meanings[ZL_DIM_COUNT] = {
#define ZL_DIM(id, symbol, meaning) [dim_##id] = (meaning),
        ZL_DIMS(ZL_DIM)
#undef ZL_DIM
    };
    return meanings[dim];
}

void zl_dims_model(const zl_model *model, zl_dims *out)
{
    uint64_t *n = out->n;
    memset(out, 0, sizeof *out);
    n[dim_one] = 1;
    n[dim_two] = 2;
    n[dim_three] = 3;
    n[dim_f32] = 4;
    n[dim_f64] = 8;
    n[dim_scalars] = 64;
    n[dim_tile] = 256;
    n[dim_mib] = UINT64_C(1) << 20;
    n[dim_sums] = 1024;
    n[dim_workspace] = UINT64_C(32) << 20;
    n[dim_C] = model->width;
    n[dim_L] = model->layers;
    n[dim_H] = model->heads;
    n[dim_D] = model->head_dim;
    n[dim_F] = model->ffn;
    n[dim_V] = model->vocab;
    n[dim_P] = model->positions;
    n[dim_Y] = model->types;
    n[dim_units] = zl_add(model->layers, 2);
    n[dim_HD] = zl_mul(model->heads, model->head_dim);
    n[dim_Q] = zl_mul(zl_add(model->heads, zl_mul(2, model->kv_heads)), model->head_dim);
}

/* Bytes of a flat unit before it is cut: every tensor aligned. */
static uint64_t flat(const zl_run *run, const zl_dims *d, zl_unit unit)
{
    zl_tensor_list list;
    list.count = 0;
    zl_family_get(run->model.family)->tensors(&run->model, unit, &list);
    uint64_t bytes = 0;
    for (size_t i = 0; i < list.count; i++) {
        const uint64_t tensor = zl_mul(zl_form_value(list.row[i].form, d), d->n[dim_e]);
        bytes = zl_add(bytes, zl_align_up(tensor, ALIGN));
    }
    return bytes;
}

static void element_sizes(const zl_run *run, uint64_t *n)
{
    const bool fp32 = run->precision == ZL_PRECISION_FP32;
    const bool pure = run->precision == ZL_PRECISION_BF16;
    n[dim_e] = fp32 ? 4 : 2;
    n[dim_g] = run->grad_dtype == ZL_GRAD_FP32 ? 4 : n[dim_e];
    n[dim_s] = pure ? 2 : 4;
}

void zl_dims_run(const zl_run *run, zl_dims *out)
{
    zl_dims_least(run, run->ranks, out);
}

void zl_dims_least(const zl_run *run, uint64_t most_ranks, zl_dims *out)
{
    zl_dims_model(&run->model, out);
    element_sizes(run, out->n);
    for (int u = 0; u < ZL_UNIT_COUNT; u++) {
        out->flat[u] = flat(run, out, (zl_unit)u);
    }
    zl_dims_counts(run, most_ranks, out);
}

void zl_dims_counts(const zl_run *run, uint64_t most_ranks, zl_dims *out)
{
    uint64_t *n = out->n;
    const uint64_t rows = zl_mul(run->micro_batch, run->seq);
    n[dim_B] = run->micro_batch;
    n[dim_T] = run->seq;
    n[dim_N] = run->ranks;
    n[dim_M] = run->head_chunk == 0 ? rows : zl_min(run->head_chunk, rows);
    n[dim_losses] = zl_add(rows, run->micro_batch);
    n[dim_gather_slots] = zl_min(zl_add(run->window, 1), n[dim_L]);
    n[dim_reduce_slots] = zl_min(run->reduce_slots, n[dim_L]);
    for (int u = 0; u < ZL_UNIT_COUNT; u++) {
        /* A shard is a multiple of ALIGN, and the whole is N shards. */
        const uint64_t bytes = out->flat[u];
        const uint64_t shard = zl_mul(zl_ceil_div(bytes, zl_mul(most_ranks, ALIGN)), ALIGN);
        const uint64_t whole = zl_max(bytes, zl_mul(run->ranks, shard));
        n[dim_unit_embed + u] = zl_exact_div(whole, n[dim_e]);
        n[dim_shard_embed + u] = zl_exact_div(shard, n[dim_e]);
    }
}
