/* Other settings, one at a time: does the log agree better with a run that has them? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch/log_compare.h"
#include "zeroledger/bytes.h"

typedef struct turn {
    const char *name;
    void (*apply)(zl_torch_run *run);
    bool (*is_set)(const zl_torch_run *run); /* NULL: no flag */
    bool deepspeed;                          /* only there */
} turn;

#define FLAG(flag, field)                                                                          \
    static void turn_##flag(zl_torch_run *run)                                                     \
    {                                                                                              \
        run->field = !run->field;                                                                  \
    }                                                                                              \
    static bool has_##flag(const zl_torch_run *run)                                                \
    {                                                                                              \
        return run->field;                                                                         \
    }
FLAG(overlap_comm, ds.overlap_comm)
FLAG(contiguous_gradients, ds.contiguous_gradients)
FLAG(reduce_scatter, ds.reduce_scatter)
FLAG(fp32_accumulation, ds.grad_accum_fp32)
FLAG(zero_init, ds.zero_init)
FLAG(clipping, ds.clips)
FLAG(recompute, checkpointing)
FLAG(dropped_logits, drop_logits)
FLAG(meta_init, meta_init)
#undef FLAG

static void turn_eager(zl_torch_run *run)
{
    run->attention = run->attention == ZL_TORCH_EAGER ? ZL_TORCH_SDPA : ZL_TORCH_EAGER;
}

static bool has_eager(const zl_torch_run *run)
{
    return run->attention == ZL_TORCH_EAGER;
}

static void turn_dropout(zl_torch_run *run)
{
    run->model.embedding_dropout = 0;
    run->model.attention_dropout = 0;
    run->model.hidden_dropout = 0;
}

static void turn_skipped(zl_torch_run *run)
{
    for (uint32_t i = 0; i < ZL_TORCH_STEPS_MAX; i++) {
        run->skipped[i] = true;
    }
}

static void turn_fused(zl_torch_run *run)
{
    run->optimizer = ZL_TORCH_ADAMW_FUSED;
}

static void turn_foreach(zl_torch_run *run)
{
    run->optimizer = ZL_TORCH_ADAMW_FOREACH;
}

static void turn_default_buckets(zl_torch_run *run)
{
    const zl_ds_config usual = zl_ds_config_default(run->ds.version);
    run->ds.reduce_bucket_size = usual.reduce_bucket_size;
    run->ds.allgather_bucket_size = usual.allgather_bucket_size;
    run->ds.prefetch_bucket_size = usual.prefetch_bucket_size;
}

static void turn_double_batch(zl_torch_run *run)
{
    run->micro_batch = zl_mul(run->micro_batch, 2);
}

static void turn_half_batch(zl_torch_run *run)
{
    run->micro_batch = zl_ceil_div(run->micro_batch, 2);
}

static void turn_double_seq(zl_torch_run *run)
{
    run->seq = zl_mul(run->seq, 2);
}

static void turn_half_seq(zl_torch_run *run)
{
    run->seq = zl_ceil_div(run->seq, 2);
}

static const turn turns[] = {
    {"the release's default bucket sizes", turn_default_buckets, NULL, true},
    {"overlap_comm", turn_overlap_comm, has_overlap_comm, true},
    {"contiguous_gradients", turn_contiguous_gradients, has_contiguous_gradients, true},
    {"reduce_scatter", turn_reduce_scatter, has_reduce_scatter, true},
    {"fp32 gradient accumulation", turn_fp32_accumulation, has_fp32_accumulation, true},
    {"zero.Init", turn_zero_init, has_zero_init, true},
    {"gradient clipping", turn_clipping, has_clipping, true},
    {"every step skipped by overflow", turn_skipped, NULL, true},
    {"twice the micro-batch", turn_double_batch, NULL, false},
    {"half the micro-batch", turn_half_batch, NULL, false},
    {"twice the sequence", turn_double_seq, NULL, false},
    {"half the sequence", turn_half_seq, NULL, false},
    {"recompute of every layer", turn_recompute, has_recompute, false},
    {"eager attention", turn_eager, has_eager, false},
    {"no dropout", turn_dropout, NULL, false},
    {"output dropped before backward", turn_dropped_logits, has_dropped_logits, false},
    {"parameters born on the meta device", turn_meta_init, has_meta_init, false},
    {"optimizer adamw-fused", turn_fused, NULL, false},
    {"optimizer adamw-foreach", turn_foreach, NULL, false},
};

static int by_agreement(const void *x, const void *y)
{
    const zt_change *a = x;
    const zt_change *b = y;
    if (a->differ != b->differ) {
        return a->differ < b->differ ? -1 : 1;
    }
    return a->agree != b->agree ? (a->agree > b->agree ? -1 : 1) : strcmp(a->text, b->text);
}

zl_status zt_log_changes(const zt_log *log, const zl_torch_run *run, uint64_t rank,
                         const zt_compare_options *options, zt_change *out, size_t room,
                         size_t *count, zl_err *err)
{
    enum { TURNS = sizeof turns / sizeof turns[0] };
    zt_change found[TURNS];
    zt_compared base;
    *count = 0;
    ZL_TRY(zt_log_compare_figures(log, run, rank, options, &base, err));
    for (size_t i = 0; i < TURNS; i++) {
        zl_torch_run turned = *run;
        zt_compared c = {0};
        turns[i].apply(&turned);
        /* What cannot be predicted is no answer. */
        const uint64_t positions = turned.model.positions;
        if ((positions > 0 && turned.seq > positions) ||
            (turns[i].deepspeed && run->framework != ZL_TORCH_DEEPSPEED) ||
            zt_log_compare_figures(log, &turned, rank, options, &c, NULL) != ZL_OK) {
            continue;
        }
        if (c.differ < base.differ && c.agree > base.agree) {
            zt_change *change = &found[(*count)++];
            *change = (zt_change){.agree = c.agree, .differ = c.differ};
            const bool on = turns[i].is_set == NULL || turns[i].is_set(&turned);
            snprintf(change->text, sizeof change->text, "%s%s", on ? "with " : "without ",
                     turns[i].name);
        }
        zt_compared_release(&c);
    }
    zt_compared_release(&base);
    qsort(found, *count, sizeof found[0], by_agreement);
    *count = *count < room ? *count : room;
    memcpy(out, found, *count * sizeof found[0]);
    return ZL_OK;
}
