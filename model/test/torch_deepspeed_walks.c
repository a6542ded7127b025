/* Random DeepSpeed runs, every stage, release and key: from the third step on a step leaves nothing
 * behind, whatever was gathered, bucketed or offloaded on the way.
 *
 *     torch_deepspeed_walks [RUNS]         or ZL_RUNS=RUNS
 *     ZL_SEED=SEED torch_deepspeed_walks   repeats
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "walk_random.h"
#include "zeroledger/torch.h"

static const uint64_t usual_runs = 400;

#define ONE_OF(random, array) ((array)[between(random, 0, sizeof(array) / sizeof((array)[0]) - 1)])

static uint64_t between(zl_random *random, uint64_t low, uint64_t high)
{
    return zl_random_between(random, low, high);
}

static bool one_in(zl_random *random, uint64_t n)
{
    return between(random, 1, n) == 1;
}

static zl_hf_config choose_model(zl_random *random)
{
    static const zl_hf_arch archs[] = {ZL_HF_BERT_MLM, ZL_HF_BERT_PRETRAINING, ZL_HF_GPT2,
                                       ZL_HF_LLAMA};
    zl_hf_config m = {
        .arch = ONE_OF(random, archs),
        .vocab = between(random, 2, 1001),
        .layers = between(random, 1, 3),
        .heads = between(random, 1, 3),
        .head_dim = 2 * between(random, 4, 24),
        .ffn = between(random, 8, 300),
        .positions = 64,
        .types = 2,
        .hidden_dropout = one_in(random, 2) ? 0.1 : 0,
    };
    m.activation = m.arch == ZL_HF_GPT2    ? ZL_HF_GELU_NEW
                   : m.arch == ZL_HF_LLAMA ? ZL_HF_SILU
                                           : ZL_HF_GELU;
    m.tied = m.arch != ZL_HF_LLAMA || one_in(random, 2);
    m.kv_heads = m.heads;
    m.hidden = m.heads * m.head_dim;
    return m;
}

static zl_ds_config choose_config(zl_random *random)
{
    /* Just before and after most changes of behaviour. */
    static const uint32_t releases[] = {5009,  6000,  6006,  7005,  7007,  8000,  8001,  9000,
                                        10003, 11002, 12004, 13000, 13002, 14005, 16005, 17001,
                                        17006, 18003, 18005, 18007, 19000, 19002, 19004, 19006};
    static const uint64_t buckets[] = {1000, 20000, 1000000};
    static const uint64_t few[] = {0, 100, 10000, 100000, 1000000000};
    zl_ds_config ds = zl_ds_config_default(ONE_OF(random, releases));
    ds.stage = between(random, 0, 3);
    ds.reduce_bucket_size = ONE_OF(random, buckets);
    ds.allgather_bucket_size = ONE_OF(random, buckets);
    ds.prefetch_bucket_size = ONE_OF(random, few);
    ds.max_live_parameters = ONE_OF(random, few);
    ds.max_reuse_distance = ONE_OF(random, few);
    ds.param_persistence_threshold = ONE_OF(random, few);
    ds.model_persistence_threshold = ONE_OF(random, few);
    ds.sub_group_size = 1 + ONE_OF(random, few);
    ds.overlap_comm = one_in(random, 2);
    ds.contiguous_gradients = !one_in(random, 3);
    ds.reduce_scatter = !one_in(random, 4);
    ds.round_robin_gradients = one_in(random, 4);
    ds.multi_rank_bucket_allreduce = ds.multi_rank_bucket_allreduce && !one_in(random, 4);
    ds.allgather_sequential = one_in(random, 6);
    ds.all_reduce_for_fetch = one_in(random, 6);
    ds.memory_efficient_linear = !one_in(random, 4);
    ds.offload_optimizer = ds.stage > 0 && one_in(random, 5) ? ZL_OFFLOAD_CPU : ZL_OFFLOAD_NONE;
    ds.offload_param = ds.stage == 3 && one_in(random, 5) ? ZL_OFFLOAD_CPU : ZL_OFFLOAD_NONE;
    ds.fp16 = one_in(random, 3);
    ds.bf16 = !ds.fp16 && one_in(random, 2);
    ds.grad_accum_fp32 = one_in(random, 4);
    ds.check_grad_overflow = ds.fp16 || one_in(random, 2);
    ds.optimizer = one_in(random, 4) ? ZL_DS_LAMB : ZL_DS_ADAM;
    ds.clips = one_in(random, 2);
    ds.zero_init = ds.stage == 3 && one_in(random, 3);
    ds.decay_groups = one_in(random, 4);
    ds.pooler_outside = one_in(random, 6);
    return ds;
}

static zl_torch_run choose_run(zl_random *random)
{
    static const zl_torch_optimizer optimizers[] = {ZL_TORCH_FROM_CONFIG, ZL_TORCH_FROM_CONFIG,
                                                    ZL_TORCH_ADAMW_FUSED, ZL_TORCH_ADAMW_FOREACH,
                                                    ZL_TORCH_ADAMW_LOOP};
    static const uint64_t ranks[] = {1, 2, 3, 8};
    zl_torch_run run;
    zl_torch_run_init(&run);
    run.model = choose_model(random);
    run.ds = choose_config(random);
    run.framework = ZL_TORCH_DEEPSPEED;
    run.stage = run.ds.stage;
    run.ranks = ONE_OF(random, ranks);
    run.simulated = one_in(random, 2);
    run.precision = run.ds.fp16   ? ZL_TORCH_FP16_MIXED
                    : run.ds.bf16 ? ZL_TORCH_BF16_MIXED
                                  : ZL_TORCH_FP32;
    run.optimizer = ONE_OF(random, optimizers);
    run.micro_batch = between(random, 1, 3);
    run.seq = between(random, 2, 20);
    run.accumulation = between(random, 1, 3);
    run.attention = one_in(random, 2) ? ZL_TORCH_EAGER : ZL_TORCH_SDPA;
    run.checkpointing = one_in(random, 3);
    run.trainable_layers = one_in(random, 6) ? 1 : 0;
    run.activations = one_in(random, 6) && !run.checkpointing ? 1000003 : 0;
    run.skipped[between(random, 0, 1)] = one_in(random, 4);
    run.steps = 5;
    return run;
}

static uint64_t requested(const zl_marks *marks, int32_t step, const char *at)
{
    for (size_t i = 0; i < marks->count; i++) {
        if (marks->mark[i].step == step && strcmp(marks->mark[i].at, at) == 0) {
            return marks->mark[i].requested;
        }
    }
    return UINT64_MAX;
}

/* The run is refused for a reason, or steps 3 and 4 are alike. */
static bool holds(const zl_torch_run *run, uint64_t rank, bool *walked)
{
    static const char *const marks_of_a_step[] = {"before_forward", "after_step"};
    zl_err err = {.status = ZL_OK};
    zl_marks marks = {0};
    const zl_status status = zl_torch_predict(run, rank, &marks, &err);
    bool good = status == ZL_OK || status == ZL_E_USAGE || status == ZL_E_UNMODELLED;
    if (!good) {
        printf("failed: %s\n", err.text);
    }
    *walked = status == ZL_OK;
    for (size_t i = 0; i < 2 && status == ZL_OK; i++) {
        const uint64_t third = requested(&marks, 3, marks_of_a_step[i]);
        const uint64_t fourth = requested(&marks, 4, marks_of_a_step[i]);
        if (third != fourth) {
            printf("%s: %" PRIu64 " bytes in step 3, %" PRIu64 " in step 4\n", marks_of_a_step[i],
                   third, fourth);
            good = false;
        }
    }
    zl_marks_clear(&marks);
    return good;
}

static uint64_t setting(const char *argument, const char *name, uint64_t usual)
{
    const char *text = argument != NULL ? argument : getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : usual;
}

int main(int argc, char **argv)
{
    const uint64_t runs = setting(argc > 1 ? argv[1] : NULL, "ZL_RUNS", usual_runs);
    zl_random random = {.state = setting(NULL, "ZL_SEED", (uint64_t)time(NULL))};
    uint64_t walks = 0;
    for (uint64_t i = 0; i < runs; i++) {
        const uint64_t seed = random.state;
        const zl_torch_run run = choose_run(&random);
        bool walked = false;
        if (!holds(&run, between(&random, 0, run.ranks - 1), &walked)) {
            printf("run %" PRIu64 ", release %" PRIu32 ", stage %" PRIu64
                   "; repeat with ZL_SEED=%" PRIu64 " ZL_RUNS=1\n",
                   i, run.ds.version, run.stage, seed);
            return 1;
        }
        walks += walked ? 1 : 0;
    }
    printf("%" PRIu64 " runs, %" PRIu64 " walked\n", runs, walks);
    return walks > runs / 2 || runs < 10 ? 0 : 1;
}
