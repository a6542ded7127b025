#include "walk_random.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "zeroledger/bytes.h"

/* SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t next(zl_random *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = random->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t zl_random_between(zl_random *random, uint64_t low, uint64_t high)
{
    return low + next(random) % (high - low + 1);
}

static bool coin(zl_random *random)
{
    return zl_random_between(random, 0, 1) == 1;
}

/* Small numbers as often as large ones, so that any buffer may be the one that decides. */
static uint64_t size_up_to(zl_random *random, uint64_t high)
{
    return zl_random_between(random, 1, zl_random_between(random, 1, high));
}

static void random_model(zl_random *random, zl_model *m)
{
    memset(m, 0, sizeof(*m));
    (void)snprintf(m->name, sizeof(m->name), "random");
    m->family = (zl_family)zl_random_between(random, 0, ZL_FAMILY_COUNT - 1);
    const bool llama = m->family == ZL_FAMILY_LLAMA;
    const bool bert = m->family == ZL_FAMILY_BERT;
    m->layers = zl_random_between(random, 1, 9);
    m->kv_heads = size_up_to(random, 5);
    m->heads = llama ? zl_prod(m->kv_heads, size_up_to(random, 4)) : m->kv_heads;
    m->head_dim = zl_prod(size_up_to(random, 20), llama ? 2 : 1); /* the rotation takes pairs */
    m->width = llama && coin(random) ? size_up_to(random, 150) : zl_prod(m->heads, m->head_dim);
    m->ffn = size_up_to(random, 300);
    m->vocab = 1 + size_up_to(random, 600);
    m->positions = size_up_to(random, 128);
    m->types = bert ? size_up_to(random, 4) : 0;
    m->activation = llama ? ZL_ACT_SWIGLU : coin(random) ? ZL_ACT_GELU : ZL_ACT_GELU_TANH;
    m->tied = coin(random);
    m->qkv_bias = !llama || coin(random);
    m->out_bias = !llama || coin(random);
    m->mlp_bias = !llama || coin(random);
    m->pooler = bert && coin(random);
    m->norm_eps = 1e-5;
    m->rope_theta = llama ? 10000.0 : 0.0;
}

zl_status zl_random_run(zl_random *random, zl_run *out, zl_err *err)
{
    zl_run run;
    zl_run_init(&run);
    random_model(random, &run.model);
    run.backend = (zl_backend)zl_random_between(random, 0, ZL_BACKEND_COUNT - 1);
    run.stage = zl_random_between(random, 0, 3);
    run.ranks = zl_random_between(random, 0, 3) == 0 ? 1 : size_up_to(random, 70);
    run.micro_batch = size_up_to(random, 5);
    run.seq = zl_random_between(random, 1, run.model.positions);
    run.accumulation = zl_random_between(random, 1, 4);
    run.precision = (zl_precision)zl_random_between(random, 0, ZL_PRECISION_NATIVE_COUNT - 1);
    run.grad_dtype = (zl_grad_dtype)zl_random_between(random, 0, ZL_GRAD_COUNT - 1);
    run.optimizer = (zl_optimizer)zl_random_between(random, 0, ZL_OPTIMIZER_NATIVE_COUNT - 1);
    run.attention = (zl_attention)zl_random_between(random, 0, ZL_ATTENTION_NATIVE_COUNT - 1);
    run.recompute = (zl_recompute)zl_random_between(random, 0, ZL_RECOMPUTE_COUNT - 1);
    run.dropout = coin(random) ? 0.1 : 0.0;
    run.clip = coin(random) ? 1.0 : 0.0;
    run.head_chunk = coin(random) ? 0 : size_up_to(random, 400);
    run.window = zl_random_between(random, 0, run.model.layers);
    run.reduce_slots = zl_random_between(random, 1, 11);
    run.shard_copy = coin(random);
    run.eval = coin(random);
    run.save = coin(random);
    if (run.stage != 3 || run.precision < ZL_PRECISION_BF16_MIXED) {
        run.shard_copy = true; /* without master weights there is nothing else to gather from */
    }
    ZL_TRY(zl_model_check(&run.model, err));
    ZL_TRY(zl_run_check(&run, err));
    *out = run;
    return ZL_OK;
}

/* Numbers and what is plain for them; a change that breaks the model or the run is not accepted. */
static const struct plain_count {
    size_t field;
    uint64_t value;
} plain_counts[] = {
    {offsetof(zl_run, accumulation), 1}, {offsetof(zl_run, accumulation), 2},
    {offsetof(zl_run, ranks), 1},        {offsetof(zl_run, ranks), 2},
    {offsetof(zl_run, stage), 0},        {offsetof(zl_run, window), 0},
    {offsetof(zl_run, window), 1},       {offsetof(zl_run, reduce_slots), 1},
    {offsetof(zl_run, head_chunk), 0},   {offsetof(zl_run, model.layers), 1},
    {offsetof(zl_run, model.layers), 2}, {offsetof(zl_run, model.layers), 3},
    {offsetof(zl_run, micro_batch), 1},  {offsetof(zl_run, seq), 1},
    {offsetof(zl_run, model.ffn), 1},    {offsetof(zl_run, model.vocab), 2},
    {offsetof(zl_run, model.types), 1},  {offsetof(zl_run, model.kv_heads), 1},
};
enum { PLAIN_COUNTS = sizeof(plain_counts) / sizeof(plain_counts[0]), PLAIN_OPTIONS = 16 };

static void plain_option(zl_run *run, uint64_t option)
{
    switch (option) {
    case 0:
        run->backend = ZL_BACKEND_HOST;
        return;
    case 1:
        run->precision = ZL_PRECISION_FP32;
        return;
    case 2:
        run->grad_dtype = ZL_GRAD_MODEL;
        return;
    case 3:
        run->optimizer = ZL_OPTIMIZER_ADAMW;
        return;
    case 4:
        run->attention = ZL_ATTENTION_FLASH;
        return;
    case 5:
        run->recompute = ZL_RECOMPUTE_NONE;
        return;
    case 6:
        run->dropout = 0.0;
        return;
    case 7:
        run->clip = 0.0;
        return;
    case 8:
        run->shard_copy = true;
        return;
    case 9:
        run->model.pooler = false;
        return;
    case 10:
        run->model.tied = true;
        return;
    case 11:
        run->model.qkv_bias = false;
        return;
    case 12:
        run->model.out_bias = false;
        return;
    case 13:
        run->model.mlp_bias = false;
        return;
    case 14:
        run->eval = false;
        return;
    case 15:
        run->save = false;
        return;
    default:
        return;
    }
}

static zl_run plainer(const zl_run *run, uint64_t change)
{
    zl_run r = *run;
    if (change >= PLAIN_COUNTS) {
        plain_option(&r, change - PLAIN_COUNTS);
        return r;
    }
    uint64_t *field = (uint64_t *)(void *)((char *)&r + plain_counts[change].field);
    *field = zl_min(*field, plain_counts[change].value);
    r.window = zl_min(r.window, r.model.layers);
    return r;
}

void zl_random_shrink(zl_run *run, zl_random_keeps keeps, void *context)
{
    /* Every accepted change makes the run plainer; two rounds let one change enable another. */
    for (uint64_t round = 0; round < 2; round++) {
        for (uint64_t change = 0; change < PLAIN_COUNTS + PLAIN_OPTIONS; change++) {
            zl_run candidate = plainer(run, change);
            if (zl_model_check(&candidate.model, NULL) == ZL_OK &&
                zl_run_check(&candidate, NULL) == ZL_OK && keeps(&candidate, context)) {
                *run = candidate;
            }
        }
    }
}

void zl_random_print(const zl_run *run, FILE *stream)
{
    const zl_model *m = &run->model;
    (void)fprintf(stream,
                  "# %s: layers %" PRIu64 ", width %" PRIu64 ", heads %" PRIu64
                  ", kv heads %" PRIu64 ", head dim %" PRIu64 ", ffn %" PRIu64 ", vocab %" PRIu64
                  ", positions %" PRIu64 ", types %" PRIu64 "%s%s%s%s%s\n",
                  zl_family_name(m->family), m->layers, m->width, m->heads, m->kv_heads,
                  m->head_dim, m->ffn, m->vocab, m->positions, m->types, m->tied ? ", tied" : "",
                  m->qkv_bias ? ", qkv bias" : "", m->out_bias ? ", out bias" : "",
                  m->mlp_bias ? ", mlp bias" : "", m->pooler ? ", pooler" : "");
    (void)fprintf(stream,
                  "--backend %s --stage %" PRIu64 " --ranks %" PRIu64 " --micro-batch %" PRIu64
                  " --seq %" PRIu64 " --accumulation %" PRIu64 " --precision %s --grad-dtype %s",
                  zl_backend_name(run->backend), run->stage, run->ranks, run->micro_batch, run->seq,
                  run->accumulation, zl_precision_name(run->precision),
                  zl_grad_dtype_name(run->grad_dtype));
    (void)fprintf(stream, " --optimizer %s --attention %s --recompute %s --dropout %g --clip %g",
                  zl_optimizer_name(run->optimizer), zl_attention_name(run->attention),
                  zl_recompute_name(run->recompute), run->dropout, run->clip);
    (void)fprintf(
        stream, " --head-chunk %" PRIu64 " --window %" PRIu64 " --reduce-slots %" PRIu64 "%s%s%s\n",
        run->head_chunk, run->window, run->reduce_slots, run->shard_copy ? "" : " --no-shard-copy",
        run->eval ? " --eval" : "", run->save ? " --save" : "");
}
