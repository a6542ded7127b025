/* Random runs on one GPU with every option: a step leaves nothing behind, statistics keep their
 * order, recomputation never keeps more, and two walks of the same run are equal.
 *
 *     torch_walks [RUNS]         or ZL_RUNS=RUNS
 *     ZL_SEED=SEED torch_walks   repeats
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "walk_random.h"
#include "zeroledger/torch.h"

static const uint64_t usual_runs = 300;

static uint64_t between(zl_random *random, uint64_t low, uint64_t high)
{
    return zl_random_between(random, low, high);
}

static bool coin(zl_random *random)
{
    return between(random, 0, 1) == 1;
}

static void choose_model(zl_random *random, zl_hf_config *m)
{
    static const zl_hf_arch archs[] = {ZL_HF_BERT_MLM, ZL_HF_BERT_PRETRAINING, ZL_HF_GPT2,
                                       ZL_HF_LLAMA, ZL_HF_MIXTRAL};
    *m = (zl_hf_config){
        .arch = archs[between(random, 0, sizeof archs / sizeof archs[0] - 1)],
        .activation = (zl_hf_activation)between(random, 0, ZL_HF_ACTIVATION_COUNT - 1),
        .vocab = between(random, 2, 300),
        .layers = between(random, 1, 4),
        .kv_heads = between(random, 1, 3),
        .head_dim = 2 * between(random, 1, 40),
        .ffn = between(random, 1, 200),
        .positions = 128,
        .types = 2,
        .experts = between(random, 1, 6),
        .tied = coin(random),
        .attention_bias = coin(random),
        .mlp_bias = coin(random),
        .embedding_dropout = coin(random) ? 0.1 : 0,
        .attention_dropout = coin(random) ? 0.1 : 0,
        .hidden_dropout = coin(random) ? 0.1 : 0,
    };
    const bool shared = m->arch == ZL_HF_LLAMA || m->arch == ZL_HF_MIXTRAL;
    m->heads = m->kv_heads * (shared ? between(random, 1, 3) : 1);
    m->hidden = shared ? between(random, 1, 90) : m->heads * m->head_dim;
    m->experts_per_token = between(random, 1, m->experts);
}

static void choose_adapters(zl_random *random, zl_torch_run *run)
{
    static const char *const names[] = {"query",  "value",  "dense",  "c_attn", "c_proj", "c_fc",
                                        "q_proj", "k_proj", "v_proj", "o_proj", "up_proj"};
    const uint64_t count = sizeof names / sizeof names[0];
    run->lora_rank = between(random, 1, 9);
    run->lora_targets = (uint32_t)count;
    run->lora_dropout = coin(random) ? 0.05 : 0;
    for (uint64_t i = 0; i < count; i++) {
        snprintf(run->lora_target[i], ZL_LORA_NAME, "%s", names[i]);
    }
}

static void choose_run(zl_random *random, zl_torch_run *run)
{
    static const zl_torch_precision precisions[] = {ZL_TORCH_BF16, ZL_TORCH_FP32,
                                                    ZL_TORCH_BF16_AUTOCAST};
    zl_torch_run_init(run);
    choose_model(random, &run->model);
    run->precision = precisions[between(random, 0, 2)];
    run->attention = (zl_torch_attention)between(random, 0, ZL_TORCH_ATTENTION_COUNT - 1);
    if (run->precision == ZL_TORCH_FP32 && run->attention == ZL_TORCH_FLASH) {
        run->attention = ZL_TORCH_SDPA;
    }
    run->optimizer = (zl_torch_optimizer)between(random, 0, ZL_TORCH_ADAM8BIT);
    run->micro_batch = between(random, 1, 4);
    run->seq = between(random, 1, 100);
    run->accumulation = between(random, 1, 3);
    run->checkpointing = coin(random);
    run->drop_logits = between(random, 0, 4) == 0;
    run->capability = coin(random) ? 90 : 80;
    if (coin(random)) {
        snprintf(run->alloc_conf, sizeof run->alloc_conf, "expandable_segments:True");
    }
    const uint64_t part = between(random, 0, 3);
    if (part == 0) {
        choose_adapters(random, run);
    } else if (part == 1) {
        run->trainable_layers = between(random, 1, run->model.layers);
    }
}

static bool complain(const char *what, const zl_mark *mark)
{
    printf("%s at step %" PRId32 " %s\n", what, mark->step, mark->at);
    return false;
}

static bool in_order(const zl_mark *m)
{
    const bool current = m->requested <= m->allocated && m->allocated <= m->reserved;
    const bool peaks = m->peak_requested <= m->peak_allocated &&
                       m->peak_allocated <= m->peak_reserved && m->requested <= m->peak_requested &&
                       m->allocated <= m->peak_allocated && m->reserved <= m->peak_reserved;
    return (current && peaks) || complain("statistics contradict each other", m);
}

/* Steps 2 and 3 ask for the same bytes. */
static bool steady(const zl_marks *marks)
{
    const size_t per_step = (marks->count - 1) / 4;
    for (size_t i = 1 + 2 * per_step; i < 1 + 3 * per_step; i++) {
        const zl_mark *now = &marks->mark[i];
        const zl_mark *next = &marks->mark[i + per_step];
        if (now->requested != next->requested || now->peak_requested != next->peak_requested) {
            return complain("the next step differs", now);
        }
    }
    return true;
}

static bool same(const zl_marks *a, const zl_marks *b)
{
    for (size_t i = 0; i < a->count; i++) {
        if (a->mark[i].peak_reserved != b->mark[i].peak_reserved ||
            a->mark[i].peak_requested != b->mark[i].peak_requested) {
            return complain("a second walk differs", &a->mark[i]);
        }
    }
    return true;
}

/* Bytes that the forward of the last step leaves behind. */
static uint64_t kept(const zl_marks *marks)
{
    uint64_t before = 0;
    uint64_t after = 0;
    for (size_t i = 0; i < marks->count; i++) {
        if (strcmp(marks->mark[i].at, "before_forward") == 0) {
            before = marks->mark[i].requested;
        }
        if (strncmp(marks->mark[i].at, "after_forward", strlen("after_forward")) == 0) {
            after = marks->mark[i].requested;
        }
    }
    return after - before;
}

/* But for a written-out mask, which only a recomputed layer has to keep, and models of which a part
 * trains: there every layer is made to need a gradient. */
static bool recomputing_keeps_less(zl_torch_run *run, const zl_marks *marks)
{
    if (run->attention == ZL_TORCH_EAGER || run->lora_rank > 0 || run->trainable_layers > 0) {
        return true;
    }
    zl_marks other = {0};
    zl_err err = {0};
    run->checkpointing = !run->checkpointing;
    if (zl_torch_predict(run, 0, &other, &err) != ZL_OK) {
        printf("%s\n", err.text);
        return false;
    }
    const uint64_t less = kept(run->checkpointing ? &other : marks);
    const uint64_t more = kept(run->checkpointing ? marks : &other);
    zl_marks_clear(&other);
    if (less > more) {
        printf("recomputation keeps %" PRIu64 " bytes, more than %" PRIu64 "\n", less, more);
    }
    return less <= more;
}

static bool holds(zl_torch_run *run)
{
    zl_marks marks = {0};
    zl_marks again = {0};
    zl_err err = {0};
    zl_status status = zl_torch_predict(run, 0, &marks, &err);
    if (status == ZL_OK) {
        status = zl_torch_predict(run, 0, &again, &err);
    }
    bool good = status == ZL_OK;
    if (!good) {
        printf("%s\n", err.text);
    }
    for (size_t i = 0; i < marks.count && good; i++) {
        good = in_order(&marks.mark[i]);
    }
    good = good && steady(&marks) && same(&marks, &again) && recomputing_keeps_less(run, &marks);
    zl_marks_clear(&marks);
    zl_marks_clear(&again);
    return good;
}

static uint64_t setting(const char *text, const char *name, uint64_t usual)
{
    text = text != NULL ? text : getenv(name);
    return text == NULL ? usual : strtoull(text, NULL, 10);
}

int main(int argc, char **argv)
{
    const uint64_t runs = setting(argc > 1 ? argv[1] : NULL, "ZL_RUNS", usual_runs);
    zl_random random = {.state = setting(NULL, "ZL_SEED", (uint64_t)time(NULL))};
    for (uint64_t i = 0; i < runs; i++) {
        const uint64_t seed = random.state;
        zl_torch_run run;
        choose_run(&random, &run);
        if (!holds(&run)) {
            printf("run %" PRIu64 "; repeat with ZL_SEED=%" PRIu64 " ZL_RUNS=1\n", i, seed);
            return 1;
        }
    }
    printf("%" PRIu64 " runs\n", runs);
    return 0;
}
