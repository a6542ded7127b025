/*
 * Each kernel of the cuda backend alone, at the shapes of two models, beside what the GPU can do:
 * the bandwidth of a large copy for those that move memory, the rate of a large product for
 * attention.
 *
 *     kernel-bench [NAME]          // kernels whose names begin so; all if there is none
 *
 * A row: the median time of a call, the fewest bytes it has to move (each input read once, each
 * output written once) or the operations of its products, the rate that this makes, and its share
 * of the ceiling. Inputs are random. Calls in a row work on different copies of the buffers, 256
 * MiB or more together, so that the cache holds little of the previous one.
 *
 * Exit: 0; 77 without a GPU; 4 if something fails.
 */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cuda/stream.h"

enum { PARTS = 8, ROUNDS = 9, COPIES_MAX = 64, SKIPPED = 77 };

static const uint64_t spread_bytes = UINT64_C(256) << 20; /* several times the largest cache */
static const double round_ms = 4.0;                       /* of calls between two events */

/* A model's shapes, by the letters of kernel.h, and the rows of its logits. */
typedef struct model {
    const char *name;
    uint32_t b, t, h, g, d, c, f, v, m;
    float dropout; /* of the attention */
} model;

/* One buffer of a call. */
typedef struct part {
    uint64_t count;
    zl_dtype dtype;
    bool whole;       /* int32 instead, from low to high - 1 */
    double low, high; /* of the random values */
} part;

typedef struct bench {
    zr_stream stream;
    double *sums;
    void *work;
    cudaEvent_t begin, end;
    const char *only;
    double copy_rate;    /* bytes per second */
    double product_rate; /* operations per second */
} bench;

typedef zl_status call(bench *b, const model *m, void *const *p);

typedef struct kernel {
    const char *name;
    call *run;
    call *prepare; /* before the clock, for every copy of the buffers; or NULL */
    part part[PARTS];
    double bytes; /* least traffic; or else */
    double flops;
} kernel;

static zl_status checked(cudaError_t error)
{
    if (error == cudaSuccess) {
        return ZL_OK;
    }
    fprintf(stderr, "kernel-bench: %s\n", cudaGetErrorString(error));
    return ZL_E_RESOURCE;
}

static uint64_t bytes_of(const part *p)
{
    return p->count * (p->whole || p->dtype == ZL_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* ------------------------------------------------------------------------------- the calls */

static uint32_t rows_of(const model *m)
{
    return m->b * m->t;
}

static zr_attn_args attention(const model *m, void *const *p)
{
    return (zr_attn_args){.dtype = ZL_BF16,
                          .batch = m->b,
                          .tokens = m->t,
                          .heads = m->h,
                          .kv_heads = m->g,
                          .head_dim = m->d,
                          .causal = true,
                          .scale = (float)(1.0 / sqrt((double)m->d)),
                          .dropout = m->dropout,
                          .rng = {.seed = 1, .stream = 2},
                          .qkv = p[0],
                          .out = p[1],
                          .lse = p[2],
                          .delta = p[3],
                          .dout = p[4],
                          .dqkv = p[5]};
}

static zl_status flash_forward(bench *b, const model *m, void *const *p)
{
    const zr_attn_args a = attention(m, p);
    return zr_flash_forward(&a, &b->stream);
}

static zl_status flash_backward(bench *b, const model *m, void *const *p)
{
    const zr_attn_args a = attention(m, p);
    return zr_flash_backward(&a, &b->stream);
}

static zr_embed_args embedding(const model *m, void *const *p)
{
    const bool positions = m->g == m->h; /* GPT-2 has a table of them */
    return (zr_embed_args){.dtype = ZL_BF16,
                           .gdtype = ZL_F32,
                           .rows = rows_of(m),
                           .tokens = m->t,
                           .width = m->c,
                           .vocab = m->v,
                           .positions = positions ? m->t : 0,
                           .ids = p[0],
                           .tok = p[1],
                           .pos = positions ? p[2] : NULL,
                           .out = p[3],
                           .dout = p[3],
                           .tok_grad = p[4],
                           .pos_grad = positions ? p[5] : NULL};
}

static zl_status embed_forward(bench *b, const model *m, void *const *p)
{
    const zr_embed_args a = embedding(m, p);
    return zr_embed_forward(&a, &b->stream);
}

static zl_status embed_backward(bench *b, const model *m, void *const *p)
{
    const zr_embed_args a = embedding(m, p);
    return zr_embed_backward(&a, &b->stream);
}

static zr_norm_args norm(const model *m, void *const *p, bool bias)
{
    return (zr_norm_args){.dtype = ZL_BF16,
                          .rows = rows_of(m),
                          .width = m->c,
                          .eps = 1e-5F,
                          .x = p[0],
                          .gain = p[1],
                          .bias = bias ? p[2] : NULL,
                          .out = p[3],
                          .stats = p[4]};
}

static zr_norm_grad_args norm_grad(const model *m, void *const *p, bool bias)
{
    return (zr_norm_grad_args){.dtype = ZL_BF16,
                               .gdtype = ZL_F32,
                               .rows = rows_of(m),
                               .width = m->c,
                               .mode = ZR_GRAD_ADD,
                               .x = p[0],
                               .gain = p[1],
                               .stats = p[4],
                               .dy = p[3],
                               .dx = p[5],
                               .dgain = p[6],
                               .dbias = bias ? p[7] : NULL};
}

static zl_status layernorm_forward(bench *b, const model *m, void *const *p)
{
    const zr_norm_args a = norm(m, p, true);
    return zr_layernorm_forward(&a, &b->stream);
}

static zl_status layernorm_backward(bench *b, const model *m, void *const *p)
{
    const zr_norm_grad_args a = norm_grad(m, p, true);
    return zr_layernorm_backward(&a, &b->stream);
}

static zl_status rmsnorm_forward(bench *b, const model *m, void *const *p)
{
    const zr_norm_args a = norm(m, p, false);
    return zr_rmsnorm_forward(&a, &b->stream);
}

static zl_status rmsnorm_backward(bench *b, const model *m, void *const *p)
{
    const zr_norm_grad_args a = norm_grad(m, p, false);
    return zr_rmsnorm_backward(&a, &b->stream);
}

static zr_gelu_args gelu(const model *m, void *const *p)
{
    return (zr_gelu_args){.kind = ZR_GELU_TANH,
                          .dtype = ZL_BF16,
                          .count = (uint64_t)rows_of(m) * m->f,
                          .pre = p[0],
                          .out = p[1],
                          .grad = p[1]};
}

static zl_status gelu_forward(bench *b, const model *m, void *const *p)
{
    const zr_gelu_args a = gelu(m, p);
    return zr_gelu_forward(&a, &b->stream);
}

static zl_status gelu_backward(bench *b, const model *m, void *const *p)
{
    const zr_gelu_args a = gelu(m, p);
    return zr_gelu_backward(&a, &b->stream);
}

static zr_swiglu_args swiglu(const model *m, void *const *p)
{
    return (zr_swiglu_args){.dtype = ZL_BF16,
                            .rows = rows_of(m),
                            .width = m->f,
                            .pre = p[0],
                            .out = p[1],
                            .dout = p[1],
                            .dpre = p[2]};
}

static zl_status swiglu_forward(bench *b, const model *m, void *const *p)
{
    const zr_swiglu_args a = swiglu(m, p);
    return zr_swiglu_forward(&a, &b->stream);
}

static zl_status swiglu_backward(bench *b, const model *m, void *const *p)
{
    const zr_swiglu_args a = swiglu(m, p);
    return zr_swiglu_backward(&a, &b->stream);
}

static zl_status bias_backward(bench *b, const model *m, void *const *p)
{
    const zr_bias_grad_args a = {.dtype = ZL_BF16,
                                 .gdtype = ZL_F32,
                                 .rows = rows_of(m),
                                 .cols = m->f,
                                 .ld = m->f,
                                 .dout = p[0],
                                 .dbias = p[1]};
    return zr_bias_backward(&a, &b->stream);
}

static zl_status rope_forward(bench *b, const model *m, void *const *p)
{
    const zr_rope_args a = {ZL_BF16, rows_of(m), m->t, m->h, m->g, m->d, p[0], p[1]};
    return zr_rope_forward(&a, &b->stream);
}

static zl_status dropout(bench *b, const model *m, void *const *p)
{
    const zr_dropout_args a = {.dtype = ZL_BF16,
                               .count = (uint64_t)rows_of(m) * m->c,
                               .p = 0.1F,
                               .rng = {.seed = 1, .stream = 2},
                               .residual = p[0],
                               .in = p[1],
                               .out = p[2]};
    return zr_dropout(&a, &b->stream);
}

static zl_status cross_entropy(bench *b, const model *m, void *const *p)
{
    const zr_loss_args a = {.dtype = ZL_BF16,
                            .rows = m->m,
                            .vocab = m->v,
                            .ld = m->v,
                            .targets = p[0],
                            .logits = p[1],
                            .loss = p[2],
                            .scale = 1.0F,
                            .gradient = true};
    return zr_cross_entropy(&a, &b->stream);
}

/* Flat kernels work on the weights of one block or so. */
static const uint64_t flat_count = UINT64_C(64) << 20;

static zl_status adamw(bench *b, const model *m, void *const *p)
{
    (void)m;
    const zr_adamw_args a = {.count = flat_count,
                             .param_dtype = ZL_BF16,
                             .gdtype = ZL_F32,
                             .state_dtype = ZL_F32,
                             .param = p[0],
                             .master = p[1],
                             .grad = p[2],
                             .exp_avg = p[3],
                             .exp_avg_sq = p[4],
                             .grad_scale = 1.0F,
                             .lr = 1e-4,
                             .beta1 = 0.9,
                             .beta2 = 0.95,
                             .eps = 1e-8,
                             .weight_decay = 0.1,
                             .step = 3};
    return zr_adamw(&a, &b->stream);
}

static zl_status sumsq(bench *b, const model *m, void *const *p)
{
    (void)m;
    return zr_sumsq(p[0], flat_count, ZL_F32, p[1], &b->stream);
}

static zl_status cast(bench *b, const model *m, void *const *p)
{
    (void)m;
    const zr_pair_args a = {flat_count, ZL_BF16, ZL_F32, p[0], p[1]};
    return zr_cast(&a, &b->stream);
}

static zl_status add(bench *b, const model *m, void *const *p)
{
    (void)m;
    const zr_pair_args a = {flat_count, ZL_F32, ZL_F32, p[0], p[1]};
    return zr_add(&a, &b->stream);
}

static zl_status fill(bench *b, const model *m, void *const *p)
{
    (void)m;
    return zr_fill(p[0], flat_count, ZL_F32, 0.0F, &b->stream);
}

static zl_status copy(bench *b, const model *m, void *const *p)
{
    (void)m;
    return checked(cudaMemcpyAsync(p[0], p[1], flat_count * sizeof(float), cudaMemcpyDeviceToDevice,
                                   b->stream.queue));
}

enum { PRODUCT_SIDE = 8192 };

static zl_status product(bench *b, const model *m, void *const *p)
{
    (void)m;
    const zr_gemm_args a = {.m = PRODUCT_SIDE,
                            .n = PRODUCT_SIDE,
                            .k = PRODUCT_SIDE,
                            .a = {p[0], PRODUCT_SIDE, ZL_BF16},
                            .b = {p[1], PRODUCT_SIDE, ZL_BF16},
                            .c = {p[2], PRODUCT_SIDE, ZL_BF16},
                            .alpha = 1.0F,
                            .work = b->work,
                            .work_bytes = ZR_CUDA_GEMM_WORK_BYTES};
    return zr_gemm(&a, &b->stream);
}

/* ------------------------------------------------------------------------------ the buffers */

static part bf16(uint64_t count)
{
    return (part){count, ZL_BF16, false, -1.0, 1.0};
}

static part f32(uint64_t count)
{
    return (part){count, ZL_F32, false, 0.0, 1.0};
}

static part number(uint64_t count, uint32_t limit)
{
    return (part){count, ZL_F32, true, 0.0, (double)limit};
}

static zl_status fill_part(bench *b, const part *p, void *to, uint64_t seed)
{
    if (!p->whole) {
        const zr_init_args a = {.dtype = p->dtype,
                                .end = p->count,
                                .out = to,
                                .seed = seed,
                                .a = (float)p->low,
                                .b = (float)p->high};
        return zr_init_uniform(&a, &b->stream);
    }
    int32_t *const numbers = malloc(p->count * sizeof *numbers);
    if (numbers == NULL) {
        return ZL_E_RESOURCE;
    }
    uint64_t state = seed;
    for (uint64_t i = 0; i < p->count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        numbers[i] = (int32_t)((double)(state >> 11) * 0x1p-53 * p->high);
    }
    const zl_status status = zr_copy_in(to, numbers, p->count * sizeof *numbers, &b->stream);
    free(numbers);
    return status;
}

/* Copies of a kernel's buffers in one allocation. */
typedef struct buffers {
    char *memory;
    size_t copies;
    void *p[COPIES_MAX][PARTS];
} buffers;

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static zl_status make_buffers(bench *b, const kernel *k, buffers *s)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < PARTS; i++) {
        bytes += padded(bytes_of(&k->part[i]));
    }
    s->copies = (size_t)(spread_bytes / bytes) + 1;
    s->copies = s->copies < COPIES_MAX ? s->copies : COPIES_MAX;
    ZL_TRY(checked(cudaMalloc((void **)&s->memory, bytes * s->copies)));
    char *at = s->memory;
    for (size_t copy_of = 0; copy_of < s->copies; copy_of++) {
        for (size_t i = 0; i < PARTS; i++) {
            s->p[copy_of][i] = at;
            if (k->part[i].count > 0) {
                ZL_TRY(fill_part(b, &k->part[i], at, copy_of * PARTS + i + 1));
            }
            at += padded(bytes_of(&k->part[i]));
        }
    }
    return ZL_OK;
}

/* ------------------------------------------------------------------------------- the clock */

static int by_size(const void *x, const void *y)
{
    const float a = *(const float *)x;
    const float b = *(const float *)y;
    return (a > b) - (a < b);
}

/* Milliseconds of `calls` calls in a row. */
static zl_status run_round(bench *b, const model *m, const kernel *k, const buffers *s,
                           unsigned calls, float *ms)
{
    ZL_TRY(checked(cudaEventRecord(b->begin, b->stream.queue)));
    for (unsigned i = 0; i < calls; i++) {
        ZL_TRY(k->run(b, m, s->p[i % s->copies]));
    }
    ZL_TRY(checked(cudaEventRecord(b->end, b->stream.queue)));
    ZL_TRY(checked(cudaEventSynchronize(b->end)));
    return checked(cudaEventElapsedTime(ms, b->begin, b->end));
}

/* Seconds of one call: the median of some rounds. */
static zl_status measure(bench *b, const model *m, const kernel *k, double *seconds)
{
    buffers s = {0};
    float ms[ROUNDS] = {0.0F};
    zl_status status = make_buffers(b, k, &s);
    for (size_t i = 0; status == ZL_OK && k->prepare != NULL && i < s.copies; i++) {
        status = k->prepare(b, m, s.p[i]);
    }
    /* The first round warms up, the second tells how many calls make a round. */
    unsigned calls = 3;
    for (int i = 0; status == ZL_OK && i < 2; i++) {
        status = run_round(b, m, k, &s, calls, &ms[0]);
    }
    const double wanted = round_ms * calls / (double)ms[0];
    calls = wanted < 1.0 ? 1 : wanted > 1000.0 ? 1000 : (unsigned)wanted;
    for (int i = 0; status == ZL_OK && i < ROUNDS; i++) {
        status = run_round(b, m, k, &s, calls, &ms[i]);
    }
    (void)cudaFree(s.memory);
    if (status == ZL_OK) {
        qsort(ms, ROUNDS, sizeof ms[0], by_size);
        *seconds = (double)ms[ROUNDS / 2] / calls * 1e-3;
    }
    return status;
}

static zl_status show(bench *b, const model *m, const kernel *k)
{
    if (b->only != NULL && strncmp(k->name, b->only, strlen(b->only)) != 0) {
        return ZL_OK;
    }
    double seconds = 0.0;
    ZL_TRY(measure(b, m, k, &seconds));
    const bool moves = k->bytes > 0.0;
    const double rate = (moves ? k->bytes : k->flops) / seconds;
    const double ceiling = moves ? b->copy_rate : b->product_rate;
    printf("%-14s %-24s %9.1f us %9.1f %s %8.1f %s %5.1f %%\n", m->name, k->name, seconds * 1e6,
           (moves ? k->bytes : k->flops) * (moves ? 1e-6 : 1e-9), moves ? "MB   " : "GFLOP",
           rate * (moves ? 1e-9 : 1e-12), moves ? "GB/s   " : "TFLOP/s", 100.0 * rate / ceiling);
    fflush(stdout);
    return ZL_OK;
}

/* ------------------------------------------------------------------------------- the tables */

#define BF16 2.0 /* bytes */
#define FP32 4.0

static zl_status show_all(bench *b, const model *m, const kernel *k, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ZL_TRY(show(b, m, &k[i]));
    }
    return ZL_OK;
}

/* Forward: two products of T^2 D a head, half of them hidden; backward: five. */
static zl_status attention_rows(bench *b, const model *m)
{
    const uint64_t r = rows_of(m);
    const uint64_t q = r * (m->h + 2 * m->g) * m->d;
    const uint64_t a = r * m->h * m->d;
    const uint64_t lse = r * m->h;
    const double flops = 2.0 * (double)a * m->t;
    const char *const names[] = {m->dropout > 0.0F ? "flash_forward, dropout" : "flash_forward",
                                 m->dropout > 0.0F ? "flash_backward, dropout" : "flash_backward"};
    const kernel k[] = {
        {.name = names[0],
         .run = flash_forward,
         .part = {bf16(q), bf16(a), f32(lse), f32(lse)},
         .flops = flops},
        {.name = names[1],
         .run = flash_backward,
         .prepare = flash_forward,
         .part = {bf16(q), bf16(a), f32(lse), f32(lse), bf16(a), bf16(q)},
         .flops = 2.5 * flops},
    };
    return show_all(b, m, k, sizeof k / sizeof k[0]);
}

static zl_status row_rows(bench *b, const model *m)
{
    const uint64_t r = rows_of(m);
    const uint64_t rc = r * m->c;
    const uint64_t rf = r * m->f;
    const uint64_t table = (uint64_t)m->v * m->c;
    const uint64_t positions = (uint64_t)m->t * m->c;
    const uint64_t qkv = r * (m->h + 2 * m->g) * m->d;
    const uint64_t logits = (uint64_t)m->m * m->v;
    const bool llama = m->g != m->h;
    const part ids = number(r, m->v);
    const kernel shared[] = {
        {.name = "embed_forward",
         .run = embed_forward,
         .part = {ids, bf16(table), bf16(positions), bf16(rc)},
         .bytes = 2 * BF16 * (double)rc},
        {.name = "embed_backward",
         .run = embed_backward,
         .part = {ids, bf16(0), bf16(0), bf16(rc), f32(table), f32(positions)},
         .bytes = (BF16 + 2 * FP32) * (double)rc},
        {.name = "bias_backward",
         .run = bias_backward,
         .part = {bf16(rf), f32(m->f)},
         .bytes = BF16 * (double)rf},
        {.name = "dropout",
         .run = dropout,
         .part = {bf16(rc), bf16(rc), bf16(rc)},
         .bytes = 3 * BF16 * (double)rc},
        {.name = "cross_entropy",
         .run = cross_entropy,
         .part = {number(m->m, m->v), bf16(logits), f32(m->m)},
         .bytes = 2 * BF16 * (double)logits},
    };
    const kernel gpt2[] = {
        {.name = "layernorm_forward",
         .run = layernorm_forward,
         .part = {bf16(rc), bf16(m->c), bf16(m->c), bf16(rc), f32(2 * r)},
         .bytes = 2 * BF16 * (double)rc},
        {.name = "layernorm_backward",
         .run = layernorm_backward,
         .part = {bf16(rc), bf16(m->c), bf16(0), bf16(rc), f32(2 * r), bf16(rc), f32(m->c),
                  f32(m->c)},
         .bytes = 4 * BF16 * (double)rc},
        {.name = "gelu_forward",
         .run = gelu_forward,
         .part = {bf16(rf), bf16(rf)},
         .bytes = 2 * BF16 * (double)rf},
        {.name = "gelu_backward",
         .run = gelu_backward,
         .part = {bf16(rf), bf16(rf)},
         .bytes = 3 * BF16 * (double)rf},
    };
    const kernel others[] = {
        {.name = "rmsnorm_forward",
         .run = rmsnorm_forward,
         .part = {bf16(rc), bf16(m->c), bf16(0), bf16(rc), f32(r)},
         .bytes = 2 * BF16 * (double)rc},
        {.name = "rmsnorm_backward",
         .run = rmsnorm_backward,
         .part = {bf16(rc), bf16(m->c), bf16(0), bf16(rc), f32(r), bf16(rc), f32(m->c)},
         .bytes = 4 * BF16 * (double)rc},
        {.name = "swiglu_forward",
         .run = swiglu_forward,
         .part = {bf16(2 * rf), bf16(rf)},
         .bytes = 3 * BF16 * (double)rf},
        {.name = "swiglu_backward",
         .run = swiglu_backward,
         .part = {bf16(2 * rf), bf16(rf), bf16(2 * rf)},
         .bytes = 5 * BF16 * (double)rf},
        {.name = "rope_forward",
         .run = rope_forward,
         .part = {f32((uint64_t)m->t * m->d), bf16(qkv)},
         .bytes = 2 * BF16 * (double)(r * (m->h + m->g) * m->d)},
    };
    ZL_TRY(show_all(b, m, shared, sizeof shared / sizeof shared[0]));
    return llama ? show_all(b, m, others, sizeof others / sizeof others[0])
                 : show_all(b, m, gpt2, sizeof gpt2 / sizeof gpt2[0]);
}

static zl_status flat_rows(bench *b)
{
    static const model none = {.name = "64 Mi weights"};
    const double n = (double)flat_count;
    const kernel k[] = {
        {.name = "adamw",
         .run = adamw,
         .part = {bf16(flat_count), f32(flat_count), f32(flat_count), f32(flat_count),
                  f32(flat_count)},
         .bytes = (BF16 + 7 * FP32) * n},
        {.name = "sumsq", .run = sumsq, .part = {f32(flat_count), f32(2)}, .bytes = FP32 * n},
        {.name = "cast to bf16",
         .run = cast,
         .part = {bf16(flat_count), f32(flat_count)},
         .bytes = (BF16 + FP32) * n},
        {.name = "add",
         .run = add,
         .part = {f32(flat_count), f32(flat_count)},
         .bytes = 3 * FP32 * n},
        {.name = "fill", .run = fill, .part = {f32(flat_count)}, .bytes = FP32 * n},
    };
    return show_all(b, &none, k, sizeof k / sizeof k[0]);
}

/* What a large copy and a large product reach. */
static zl_status ceilings(bench *b)
{
    static const model none = {.name = "ceiling"};
    const uint64_t square = (uint64_t)PRODUCT_SIDE * PRODUCT_SIDE;
    const kernel moving = {.run = copy, .part = {f32(flat_count), f32(flat_count)}};
    const kernel multiplying = {.run = product, .part = {bf16(square), bf16(square), bf16(square)}};
    double seconds = 0.0;
    ZL_TRY(measure(b, &none, &moving, &seconds));
    b->copy_rate = 2 * FP32 * (double)flat_count / seconds;
    ZL_TRY(measure(b, &none, &multiplying, &seconds));
    b->product_rate = 2.0 * (double)square * PRODUCT_SIDE / seconds;
    printf("a copy moves %.0f GB/s (read and written), a bf16 product of %d^3 runs %.0f TFLOP/s\n",
           b->copy_rate * 1e-9, PRODUCT_SIDE, b->product_rate * 1e-12);
    return ZL_OK;
}

static zl_status run_all(bench *b)
{
    static const model models[] = {
        {"gpt2-xl", 8, 1024, 25, 25, 64, 1600, 6400, 50257, 2048, 0.0F},
        {"llama-3.2-1b", 4, 2048, 32, 8, 64, 2048, 8192, 128256, 2048, 0.0F},
    };
    /* Attention alone: with dropout, longer, and with wider heads. */
    static const model attentions[] = {
        {.name = "gpt2-xl", .b = 8, .t = 1024, .h = 25, .g = 25, .d = 64, .dropout = 0.1F},
        {.name = "8k tokens", .b = 1, .t = 8192, .h = 32, .g = 8, .d = 64},
        {.name = "width 128", .b = 2, .t = 4096, .h = 32, .g = 8, .d = 128},
    };
    ZL_TRY(ceilings(b));
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        ZL_TRY(attention_rows(b, &models[i]));
        ZL_TRY(row_rows(b, &models[i]));
    }
    for (size_t i = 0; i < sizeof attentions / sizeof attentions[0]; i++) {
        ZL_TRY(attention_rows(b, &attentions[i]));
    }
    return flat_rows(b);
}

static zl_status open_device(bench *b)
{
    struct cudaDeviceProp prop;
    ZL_TRY(checked(cudaGetDeviceProperties(&prop, 0)));
    printf("%s, %d multiprocessors\n", prop.name, prop.multiProcessorCount);
    ZL_TRY(checked(cudaMalloc((void **)&b->sums, ZR_CUDA_SUMS_BYTES)));
    ZL_TRY(checked(cudaMalloc(&b->work, ZR_CUDA_GEMM_WORK_BYTES)));
    ZL_TRY(checked(cudaEventCreate(&b->begin)));
    ZL_TRY(checked(cudaEventCreate(&b->end)));
    return zr_stream_init(&b->stream, b->sums);
}

int main(int argc, char **argv)
{
    static bench b;
    int count = 0;
    if (argc > 2) {
        fputs("usage: kernel-bench [NAME]\n", stderr);
        return ZL_E_USAGE;
    }
    b.only = argc == 2 ? argv[1] : NULL;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        fputs("kernel-bench: skipped, no GPU\n", stderr);
        return SKIPPED;
    }
    const bool good = open_device(&b) == ZL_OK && run_all(&b) == ZL_OK;
    return good ? ZL_OK : ZL_E_RESOURCE;
}
