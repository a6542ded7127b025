#include "explain_framework.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "zeroledger/bytes.h"

/* A setting that makes something smaller. Changes the run and says so, or leaves it alone where it
 * is that already, or the run has no such thing. */
typedef struct knob {
    const char *option;
    const char *value; /* NULL: the number that it has become */
    bool (*turn)(zl_torch_run *run);
    size_t number; /* of a uint64_t in zl_torch_run */
} knob;

static bool deepspeed(const zl_torch_run *run, uint64_t first, uint64_t last)
{
    return run->framework == ZL_TORCH_DEEPSPEED && run->stage >= first && run->stage <= last;
}

static bool lower(uint64_t *value, uint64_t to)
{
    const bool lowers = *value > to;
    *value = lowers ? to : *value;
    return lowers;
}

static bool bucket(zl_torch_run *run)
{
    return deepspeed(run, 1, 3) && lower(&run->ds.reduce_bucket_size, 50000000);
}

static bool overlap(zl_torch_run *run)
{
    const bool was = deepspeed(run, 1, 3) && run->ds.overlap_comm;
    run->ds.overlap_comm = run->ds.overlap_comm && !was;
    return was;
}

static bool sub_group(zl_torch_run *run)
{
    return deepspeed(run, 3, 3) && lower(&run->ds.sub_group_size, 100000000);
}

/* Together: any one of them alone keeps what the others let stay. */
static bool gathered(zl_torch_run *run)
{
    const bool live = lower(&run->ds.max_live_parameters, 100000000);
    const bool reuse = lower(&run->ds.max_reuse_distance, 100000000);
    const bool ahead = lower(&run->ds.prefetch_bucket_size, 5000000);
    return deepspeed(run, 3, 3) && (live || reuse || ahead);
}

static bool offload(zl_torch_run *run)
{
    const bool turned = deepspeed(run, 1, 3) && run->ds.offload_optimizer == ZL_OFFLOAD_NONE;
    run->ds.offload_optimizer = turned ? ZL_OFFLOAD_CPU : run->ds.offload_optimizer;
    return turned;
}

static bool next_stage(zl_torch_run *run)
{
    if (run->framework == ZL_TORCH_DEEPSPEED && run->stage < 3 && run->ranks > 1) {
        run->ds.stage = ++run->stage;
        run->ds.overlap_comm = run->ds.overlap_comm || run->ds.stage == 3;
        return true;
    }
    const bool fsdp = run->framework == ZL_TORCH_FSDP2 && run->stage == 2;
    run->stage += fsdp;
    return fsdp;
}

static bool fused(zl_torch_run *run)
{
    const bool slow =
        run->optimizer == ZL_TORCH_ADAMW_FOREACH || run->optimizer == ZL_TORCH_ADAMW_LOOP ||
        (run->optimizer == ZL_TORCH_FROM_CONFIG &&
         (run->ds.optimizer == ZL_DS_CLIENT || run->ds.optimizer == ZL_DS_TORCH_ADAM));
    run->optimizer = slow ? ZL_TORCH_ADAMW_FUSED : run->optimizer;
    return slow;
}

static bool bucket_view(zl_torch_run *run)
{
    const bool turned = run->framework == ZL_TORCH_DDP && !run->bucket_view;
    run->bucket_view = run->bucket_view || turned;
    return turned;
}

static bool recompute(zl_torch_run *run)
{
    const bool turned = run->activations == 0 && !run->checkpointing;
    run->checkpointing = run->checkpointing || turned;
    return turned;
}

static bool attention(zl_torch_run *run)
{
    const bool turned = run->activations == 0 && run->attention == ZL_TORCH_EAGER;
    run->attention = turned ? ZL_TORCH_SDPA : run->attention;
    return turned;
}

static bool half_batch(zl_torch_run *run)
{
    const bool turned = run->activations == 0 && run->micro_batch > 1;
    run->micro_batch = turned ? run->micro_batch / 2 : run->micro_batch;
    return turned;
}

static bool twice_the_ranks(zl_torch_run *run)
{
    const bool turned = run->framework != ZL_TORCH_SINGLE && run->ranks > 1;
    run->ranks = turned ? zl_mul(2, run->ranks) : run->ranks;
    return turned;
}

static const knob knobs[] = {
    {"reduce_bucket_size", "5e7", bucket, 0},
    {"overlap_comm", "false", overlap, 0},
    {"stage3_max_live_parameters and stage3_max_reuse_distance 1e8, stage3_prefetch_bucket_size",
     "5e6", gathered, 0},
    {"sub_group_size", "1e8", sub_group, 0},
    {"offload_optimizer.device", "cpu", offload, 0},
    {"--stage", NULL, next_stage, offsetof(zl_torch_run, stage)},
    {"--optimizer", "adamw-fused", fused, 0},
    {"gradient_as_bucket_view", "True", bucket_view, 0},
    {"--recompute", "full", recompute, 0},
    {"--attention", "sdpa", attention, 0},
    {"--micro-batch", NULL, half_batch, offsetof(zl_torch_run, micro_batch)},
    {"--ranks", NULL, twice_the_ranks, offsetof(zl_torch_run, ranks)},
};

_Static_assert(sizeof knobs / sizeof knobs[0] <= ZL_TURNS_MAX, "room for every knob");

static void write_value(const knob *k, const zl_torch_run *run, char *text, size_t size)
{
    uint64_t number;
    memcpy(&number, (const char *)run + k->number, sizeof number);
    if (k->value != NULL) {
        snprintf(text, size, "%s", k->value);
    } else {
        snprintf(text, size, "%" PRIu64, number);
    }
}

static bool helps(const zl_turn *turn, const zl_moments *moments, bool cold, uint32_t steps)
{
    for (int s = ZL_SPAN_FORWARD; s < ZL_SPANS; s++) {
        const zl_moment *here = zl_span_moment(moments, (zl_span)s, cold, steps);
        if (here != NULL && turn->peak[s] < here->mark.peak_requested) {
            return true;
        }
    }
    return false;
}

zl_status zl_turns_find(const zl_walked *w, const zl_moments *moments, bool cold, zl_turn *out,
                        size_t *count, zl_err *err)
{
    *count = 0;
    for (size_t i = 0; i < sizeof knobs / sizeof knobs[0]; i++) {
        zl_torch_run run = w->torch;
        zl_moments other = {0};
        if (!knobs[i].turn(&run)) {
            continue;
        }
        const zl_status status = zl_torch_explain(&run, w->rank, &other, NULL);
        if (status == ZL_E_RESOURCE) {
            return zl_fail(err, ZL_E_RESOURCE, "out of memory");
        }
        if (status != ZL_OK) {
            continue;
        }
        zl_turn turn = {.option = knobs[i].option};
        write_value(&knobs[i], &run, turn.value, sizeof turn.value);
        for (int s = 0; s < ZL_SPANS; s++) {
            const zl_moment *moment = zl_span_moment(&other, (zl_span)s, cold, run.steps);
            turn.peak[s] = moment != NULL ? moment->mark.peak_requested : 0;
        }
        zl_moments_clear(&other);
        if (helps(&turn, moments, cold, w->torch.steps)) {
            out[(*count)++] = turn;
        }
    }
    return ZL_OK;
}
