/* Steps that are repeated equal steps that are walked: every mark of random runs of every
 * framework, to the byte, against the same run with somebody listening, of which every step is
 * walked.
 *
 *     torch_repeat [RUNS]         or ZL_RUNS=RUNS
 *     ZL_SEED=SEED torch_repeat   repeats
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "torch/predict.h"
#include "walk_random.h"

static const uint64_t usual_runs = ZL_USUAL_RUNS;

enum { VALUES = 10, STEPS_MAX = 7 };

typedef struct choice {
    const char *option;
    const char *value[VALUES]; /* "" leaves the option out */
} choice;

static const choice choices[] = {
    {"framework",
     {"single", "ddp", "zero1", "fsdp1", "fsdp2", "deepspeed", "deepspeed@0.5.9",
      "deepspeed@0.12.6", "deepspeed@0.16.9", "deepspeed@0.19.6"}},
    {"model",
     {"gpt2-tiny", "llama-tiny", "bert-tiny", "gpt2", "bert-large-pretraining", "bing-bert-large",
      "llama-3.2-1b", "mixtral-8x7b", "qwen2.5-0.5b"}},
    {"stage", {"", "", "", "1", "2", "3"}},
    {"ranks", {"1", "2", "3", "8", "64"}},
    {"micro-batch", {"1", "2", "3", "5"}},
    {"seq", {"1", "7", "64", "100", "200", "256"}},
    {"layers", {"1", "2", "3", "4"}},
    {"accumulation", {"", "", "2", "3"}},
    {"precision", {"", "", "fp32", "bf16", "bf16-mixed", "fp16-mixed", "bf16-autocast"}},
    {"optimizer", {"", "", "sgd", "adamw-fused", "adamw-foreach", "adamw-loop", "adam8bit"}},
    {"attention", {"", "flash", "eager", "sdpa"}},
    {"recompute", {"", "", "full"}},
    {"grad-dtype", {"", "", "fp32"}},
    {"trainable-layers", {"", "", "", "1"}},
    {"lora", {"", "", "", "4:q_proj,v_proj,c_attn,query"}},
    {"dropout", {"", "", "0", "0.1"}},
    {"clip", {"", "", "0", "1"}},
    {"alloc-conf",
     {"", "", "", "expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:8",
      "garbage_collection_threshold:0.5"}},
};
enum { CHOICES = sizeof choices / sizeof choices[0] };

static const char *const flags[] = {"skipped-step", "zero-init", "bucket-view", "no-prefetch",
                                    "drop-logits"};
enum { FLAGS = sizeof flags / sizeof flags[0] };

typedef struct question {
    const char *value[CHOICES];
    bool flag[FLAGS];
    uint32_t steps;
    bool skips[STEPS_MAX]; /* overflows of single steps */
    uint64_t device_total;
} question;

static uint64_t between(zl_random *random, uint64_t low, uint64_t high)
{
    return zl_random_between(random, low, high);
}

static void choose(zl_random *random, question *q)
{
    for (size_t i = 0; i < CHOICES; i++) {
        size_t count = 0;
        while (count < VALUES && choices[i].value[count] != NULL) {
            count++;
        }
        q->value[i] = choices[i].value[between(random, 0, count - 1)];
    }
    for (size_t i = 0; i < FLAGS; i++) {
        q->flag[i] = between(random, 0, 7) == 0;
    }
    q->steps = (uint32_t)between(random, 3, STEPS_MAX);
    for (size_t i = 0; i < STEPS_MAX; i++) {
        q->skips[i] = between(random, 0, 20) == 0;
    }
    q->device_total = between(random, 0, 4) == 0 ? between(random, 1, 40) << 26 : 0;
}

static zl_status read_run(const question *q, zl_torch_run *out, zl_err *err)
{
    zl_run run;
    zl_run_init(&run);
    for (size_t i = 0; i < CHOICES; i++) {
        if (q->value[i][0] != '\0') {
            ZL_TRY(zl_run_set(&run, choices[i].option, q->value[i], err));
        }
    }
    for (size_t i = 0; i < FLAGS; i++) {
        if (q->flag[i]) {
            ZL_TRY(zl_run_set(&run, flags[i], NULL, err));
        }
    }
    ZL_TRY(zl_run_check(&run, err));
    ZL_TRY(zl_torch_run_from(&run, out, NULL, NULL, err));
    out->steps = q->steps;
    out->device_total = q->device_total;
    for (size_t i = 0; i < q->steps; i++) {
        out->skipped[i] = out->skipped[i] || q->skips[i];
    }
    return ZL_OK;
}

static void print(const question *q)
{
    fprintf(stderr, " ");
    for (size_t i = 0; i < CHOICES; i++) {
        if (q->value[i][0] != '\0') {
            fprintf(stderr, " --%s %s", choices[i].option, q->value[i]);
        }
    }
    for (size_t i = 0; i < FLAGS; i++) {
        fprintf(stderr, "%s%s", q->flag[i] ? " --" : "", q->flag[i] ? flags[i] : "");
    }
    fprintf(stderr, ", %" PRIu32 " steps, skipped:", q->steps);
    for (size_t i = 0; i < q->steps; i++) {
        fprintf(stderr, " %d", q->skips[i]);
    }
    fprintf(stderr, ", a device of %" PRIu64 " bytes\n", q->device_total);
}

static void listen(void *context, const zt_happened *happened)
{
    (void)happened;
    ++*(uint64_t *)context;
}

/* Field by field: between them lies what nobody sets. */
static bool same_mark(const zl_mark *a, const zl_mark *b)
{
    return a->step == b->step && strcmp(a->at, b->at) == 0 && a->requested == b->requested &&
           a->peak_requested == b->peak_requested && a->allocated == b->allocated &&
           a->peak_allocated == b->peak_allocated && a->active == b->active &&
           a->peak_active == b->peak_active && a->reserved == b->reserved &&
           a->peak_reserved == b->peak_reserved && a->device_used == b->device_used &&
           a->host_rss == b->host_rss && a->host_hwm == b->host_hwm;
}

static bool same_marks(const zl_marks *a, const zl_marks *b)
{
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        if (!same_mark(&a->mark[i], &b->mark[i])) {
            fprintf(stderr, "mark %s of step %" PRId32 " differs\n", a->mark[i].at,
                    a->mark[i].step);
            return false;
        }
    }
    return a->count == b->count;
}

typedef struct tally {
    uint64_t compared, repeated, steps, walked, full, refused;
} tally;

static bool compare(const zl_torch_run *run, uint64_t rank, tally *t)
{
    zl_marks repeated = {0};
    zl_marks walked = {0};
    zl_err first = {0};
    zl_err second = {0};
    uint64_t heard = 0;
    const zl_status quiet = zl_torch_predict(run, rank, &repeated, &first);
    const zl_status loud = zt_predict(run, rank, listen, &heard, &walked, &second);
    bool same = quiet == loud && strcmp(first.text, second.text) == 0;
    if (same && quiet == ZL_OK) {
        same = same_marks(&repeated, &walked) && walked.walked == run->steps;
        t->compared++;
        t->repeated += repeated.walked < run->steps ? 1 : 0;
        t->steps += run->steps;
        t->walked += repeated.walked;
    } else if (same) {
        t->full += quiet == ZL_NO ? 1 : 0;
        t->refused += quiet == ZL_NO ? 0 : 1;
    } else {
        fprintf(stderr, "repeated: %s\nwalked: %s\n", first.text, second.text);
    }
    zl_marks_clear(&repeated);
    zl_marks_clear(&walked);
    return same;
}

int main(int argc, char **argv)
{
    const char *runs_text = argc > 1 ? argv[1] : getenv("ZL_RUNS");
    const char *seed_text = getenv("ZL_SEED");
    const uint64_t runs = runs_text != NULL ? strtoull(runs_text, NULL, 0) : usual_runs;
    const uint64_t seed = seed_text != NULL ? strtoull(seed_text, NULL, 0) : (uint64_t)time(NULL);
    zl_random random = {.state = seed};
    tally t = {0};
    printf("ZL_SEED=%" PRIu64 "\n", seed);
    for (uint64_t i = 0; i < runs; i++) {
        question q;
        zl_torch_run run;
        zl_err err = {0};
        choose(&random, &q);
        if (read_run(&q, &run, &err) != ZL_OK) {
            t.refused++;
            continue;
        }
        if (!compare(&run, between(&random, 0, run.ranks - 1), &t)) {
            fprintf(stderr, "run %" PRIu64 " of ZL_SEED=%" PRIu64 ":\n", i, seed);
            print(&q);
            return 1;
        }
    }
    printf("%" PRIu64 " runs compared, of %" PRIu64 " of them steps were repeated; %" PRIu64
           " of %" PRIu64 " steps walked; %" PRIu64 " did not fit, %" PRIu64 " refused\n",
           t.compared, t.repeated, t.walked, t.steps, t.full, t.refused);
    /* Steps that are never repeated would be equal too. */
    return t.repeated * 2 > t.compared && t.compared * 10 > runs ? 0 : 1;
}
