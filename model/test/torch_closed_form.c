/* What one more layer keeps for backward equals the closed form, in symbols: two predictions that
 * differ in one layer against the sum of the tensors that the layer saves, for random shapes.
 *
 *     torch_closed_form [RUNS]         or ZL_RUNS=RUNS
 *     ZL_SEED=SEED torch_closed_form   repeats
 *
 * The forms are those of Korthikanti et al. 2022 (arXiv:2205.05198), section 4, extended to what
 * transformers' models really write: each line below names the tensors it counts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "walk_random.h"
#include "zeroledger/torch.h"

static const uint64_t usual_runs = 400;

/* Element counts of the tensors of one layer. */
typedef struct counts {
    uint64_t tokens;     /* b s */
    uint64_t hidden;     /* b s h */
    uint64_t wide;       /* b s f */
    uint64_t scores;     /* b a s s */
    uint64_t query;      /* b s a d */
    uint64_t key;        /* b s kv d */
    uint64_t matrices;   /* attention and MLP weights of a layer */
    uint64_t statistics; /* bytes that scaled_dot_product_attention keeps beside q, k, v, out */
    bool dropout;
    uint64_t e; /* bytes of an element */
} counts;

static counts count(const zl_torch_run *run)
{
    const zl_hf_config *m = &run->model;
    const uint64_t tokens = run->micro_batch * run->seq;
    const bool half = run->precision != ZL_TORCH_FP32;
    const uint64_t rows = half ? run->seq : (run->seq + 31) / 32 * 32;
    return (counts){
        .tokens = tokens,
        .hidden = tokens * m->hidden,
        .wide = tokens * m->ffn,
        .scores = run->micro_batch * m->heads * run->seq * run->seq,
        .query = tokens * m->heads * m->head_dim,
        .key = tokens * m->kv_heads * m->head_dim,
        .matrices = 4 * m->hidden * m->hidden + 2 * m->hidden * m->ffn,
        .statistics = 4 * run->micro_batch * m->heads * rows + (half ? 16 : 0),
        .dropout = m->hidden_dropout > 0,
        .e = half ? 2 : 4,
    };
}

/* Softmax output; with dropout its mask and the product. */
static uint64_t written_out_scores(const counts *c)
{
    return c->e * c->scores + (c->dropout ? (1 + c->e) * c->scores : 0);
}

/* Mean and reciprocal deviation of two norms, masks of two dropouts. */
static uint64_t norms_and_masks(const counts *c)
{
    return 16 * c->tokens + (c->dropout ? 2 * c->hidden : 0);
}

/* q, k, v, context, two sums before the norms and two norms; the MLP before and after GELU. */
static uint64_t bert(const counts *c, bool eager)
{
    return c->e * (8 * c->hidden + 2 * c->wide) + norms_and_masks(c) +
           (eager ? written_out_scores(c) : c->statistics);
}

/* Casts of x for q, k, v; q, k, v; context; fp32 sums and norms (4 + 4) and the cast for the MLP;
 * the MLP before and after GELU; casts of the weights; scores in fp32, and as the product reads
 * them. */
static uint64_t bert_autocast(const counts *c)
{
    return (6 + 6 + 2 + 4 + 2 + 4) * c->hidden + 4 * c->wide + norms_and_masks(c) +
           (4 + 2) * c->scores + (c->dropout ? c->scores : 0) + 2 * c->matrices;
}

/* Two norms, q, k, v (three), context, two sums; u, u / 2, tanh, 1 + tanh and the product. */
static uint64_t gpt2(const counts *c, bool eager)
{
    return c->e * (8 * c->hidden + 5 * c->wide) + norms_and_masks(c) +
           (eager ? written_out_scores(c) : c->statistics);
}

/* fp32 residual sums (4 + 4), casts of the norms (2 + 2), q, k, v (6), context (2); u / 2 in 16
 * bits, the fp32 copy that u ** 3 reads, tanh and 1 + tanh in fp32, the cast of the product. */
static uint64_t gpt2_autocast(const counts *c)
{
    return (4 + 4 + 2 + 2 + 6 + 2) * c->hidden + (2 + 4 + 4 + 4 + 2) * c->wide +
           norms_and_masks(c) + c->statistics + 2 * c->matrices;
}

/* Per norm: x in fp32, the root, n and o in 16 bits. Rotated q and k, v, context. */
static uint64_t llama_attention(const counts *c)
{
    return 2 * (4 * c->hidden + 4 * c->tokens + 2 * c->hidden + 2 * c->hidden) + 4 * c->query +
           4 * c->key + c->statistics;
}

/* gate, silu, up, product. */
static uint64_t llama(const counts *c)
{
    return llama_attention(c) + 8 * c->wide;
}

/* With S = T k rows: x and the result (2 + 2), gate and up (4), silu and product (2 + 2); the
 * router's softmax, its sums, and the small tensors of routing, 41 bytes a row and 4 an expert. */
static uint64_t mixtral(const zl_torch_run *run, const counts *c)
{
    const zl_hf_config *m = &run->model;
    const uint64_t rows = c->tokens * m->experts_per_token;
    return llama_attention(c) + 4 * rows * m->hidden + 8 * rows * m->ffn +
           4 * c->tokens * m->experts + 4 * c->tokens + 41 * rows + 4 * m->experts;
}

static uint64_t closed_form(const zl_torch_run *run)
{
    const counts c = count(run);
    const bool eager = run->attention == ZL_TORCH_EAGER;
    const bool autocast = run->precision == ZL_TORCH_BF16_AUTOCAST;
    switch (run->model.arch) {
    case ZL_HF_BERT_MLM:
    case ZL_HF_BERT_PRETRAINING:
        return autocast ? bert_autocast(&c) : bert(&c, eager);
    case ZL_HF_GPT2:
        return autocast ? gpt2_autocast(&c) : gpt2(&c, eager);
    case ZL_HF_LLAMA:
        return llama(&c);
    case ZL_HF_MIXTRAL:
        return mixtral(run, &c);
    case ZL_HF_BERT_PRELN: /* and all below: their operations are not modelled */
    case ZL_HF_ROBERTA:
    case ZL_HF_DISTILBERT:
    case ZL_HF_GPT_NEOX:
    case ZL_HF_GPTJ:
    case ZL_HF_OPT:
    case ZL_HF_GEMMA:
    case ZL_HF_GEMMA2:
    case ZL_HF_PHI:
    case ZL_HF_FALCON:
    case ZL_HF_QWEN2_MOE:
    case ZL_HF_TENSORS:
    case ZL_HF_ARCH_COUNT:
        break;
    }
    return 0;
}

/* ---- random runs ---- */

static uint64_t between(zl_random *random, uint64_t low, uint64_t high)
{
    return zl_random_between(random, low, high);
}

static void choose_shape(zl_random *random, zl_torch_run *run)
{
    zl_hf_config *m = &run->model;
    run->micro_batch = between(random, 1, 5);
    run->seq = between(random, 2, 70);
    m->vocab = between(random, 40, 90);
    m->positions = 128;
    m->types = 2;
    m->layers = between(random, 1, 3);
    m->kv_heads = between(random, 1, 3);
    m->heads = m->kv_heads;
    m->head_dim = 2 * between(random, 1, 20);
    m->hidden = m->heads * m->head_dim;
    m->ffn = between(random, 3, 100);
    m->tied = between(random, 0, 1) == 1;
    const double probability = between(random, 0, 1) == 1 ? 0.1 : 0;
    m->embedding_dropout = m->attention_dropout = m->hidden_dropout = probability;
    m->experts = between(random, 2, 9);
    m->experts_per_token = between(random, 1, m->experts);
}

static void choose_run(zl_random *random, zl_torch_run *run)
{
    static const zl_hf_arch archs[] = {ZL_HF_BERT_MLM, ZL_HF_BERT_PRETRAINING, ZL_HF_GPT2,
                                       ZL_HF_LLAMA, ZL_HF_MIXTRAL};
    static const zl_torch_precision precisions[] = {ZL_TORCH_BF16, ZL_TORCH_FP32,
                                                    ZL_TORCH_BF16_AUTOCAST};
    zl_torch_run_init(run);
    choose_shape(random, run);
    zl_hf_config *m = &run->model;
    m->arch = archs[between(random, 0, sizeof archs / sizeof archs[0] - 1)];
    run->precision = precisions[between(random, 0, 2)];
    run->attention = between(random, 0, 1) == 1 ? ZL_TORCH_EAGER : ZL_TORCH_SDPA;
    if (m->arch == ZL_HF_LLAMA || m->arch == ZL_HF_MIXTRAL) {
        run->precision = ZL_TORCH_BF16;
        run->attention = ZL_TORCH_SDPA;
        m->activation = ZL_HF_SILU;
        m->heads = m->kv_heads * between(random, 1, 4);
        m->hidden = between(random, 4, 60);
        m->embedding_dropout = m->attention_dropout = m->hidden_dropout = 0;
        return;
    }
    m->activation = m->arch == ZL_HF_GPT2 ? ZL_HF_GELU_NEW : ZL_HF_GELU;
    if (run->precision == ZL_TORCH_BF16_AUTOCAST) {
        run->attention = m->arch == ZL_HF_GPT2 ? ZL_TORCH_SDPA : ZL_TORCH_EAGER;
    }
}

/* What forward leaves behind in the second step. */
static zl_status kept_by_forward(const zl_torch_run *run, uint64_t *kept, zl_err *err)
{
    zl_marks marks = {0};
    ZL_TRY(zl_torch_predict(run, 0, &marks, err));
    uint64_t before = 0;
    for (size_t i = 0; i < marks.count; i++) {
        if (marks.mark[i].step == 1 && strcmp(marks.mark[i].at, "before_forward") == 0) {
            before = marks.mark[i].requested;
        }
        if (marks.mark[i].step == 1 && strcmp(marks.mark[i].at, "after_forward") == 0) {
            *kept = marks.mark[i].requested - before;
        }
    }
    zl_marks_clear(&marks);
    return ZL_OK;
}

static bool holds(zl_torch_run *run)
{
    zl_err err = {0};
    uint64_t fewer = 0;
    uint64_t more = 0;
    run->steps = 2;
    if (kept_by_forward(run, &fewer, &err) != ZL_OK) {
        printf("%s\n", err.text);
        return false;
    }
    run->model.layers++;
    if (kept_by_forward(run, &more, &err) != ZL_OK) {
        printf("%s\n", err.text);
        return false;
    }
    const uint64_t form = closed_form(run);
    if (more - fewer != form) {
        const zl_hf_config *m = &run->model;
        printf("one layer keeps %" PRIu64 " bytes, the closed form says %" PRIu64 "\n",
               more - fewer, form);
        printf("  arch %d precision %d attention %d dropout %g b %" PRIu64 " s %" PRIu64
               " h %" PRIu64 " f %" PRIu64 " heads %" PRIu64 "/%" PRIu64 " of %" PRIu64
               " experts %" PRIu64 "/%" PRIu64 "\n",
               (int)m->arch, (int)run->precision, (int)run->attention, m->hidden_dropout,
               run->micro_batch, run->seq, m->hidden, m->ffn, m->heads, m->kv_heads, m->head_dim,
               m->experts_per_token, m->experts);
        return false;
    }
    return true;
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
