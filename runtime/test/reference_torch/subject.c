#include "subject.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"

enum { LEARNING_RATE, BETA1, BETA2, EPS, WEIGHT_DECAY, WARMUP, CLIP, NUMBERS };
static const subject_number NUMBER[NUMBERS] = {
    [LEARNING_RATE] = {"learning_rate", 0.01},
    [BETA1] = {"beta1", 0.9},
    [BETA2] = {"beta2", 0.95},
    [EPS] = {"eps", 1e-8},
    [WEIGHT_DECAY] = {"weight_decay", 0.1},
    [WARMUP] = {"warmup", 4.0},
    [CLIP] = {"clip", 1.0},
};

const subject_number *subject_number_at(size_t index)
{
    return index < NUMBERS ? &NUMBER[index] : NULL;
}

static zl_model model_of(zl_family family)
{
    zl_model m = {
        .name = "reference",
        .family = family,
        .activation = ZL_ACT_GELU_TANH,
        .layers = 2,
        .width = 36,
        .heads = 3,
        .kv_heads = 3,
        .head_dim = 12,
        .ffn = 60,
        .vocab = 89,
        .positions = 34,
        .tied = true,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .norm_eps = 1e-5,
    };
    if (family == ZL_FAMILY_LLAMA) {
        m.activation = ZL_ACT_SWIGLU;
        m.heads = 6;
        m.kv_heads = 2;
        m.head_dim = 8; /* 6 heads of 8 do not make the width */
        m.tied = m.qkv_bias = m.out_bias = m.mlp_bias = false;
        m.rope_theta = 10000.0;
    }
    if (family == ZL_FAMILY_BERT) {
        m.activation = ZL_ACT_GELU;
        m.types = 2;
        m.pooler = true;
        m.norm_eps = 1e-12;
    }
    return m;
}

zl_status subject_run(zl_family family, zl_run *out, zl_err *err)
{
    zl_run run;
    zl_run_init(&run);
    run.model = model_of(family);
    run.backend = zr_device_backend();
    run.precision = ZL_PRECISION_FP32;
    run.micro_batch = 3;
    run.seq = 29;
    run.clip = NUMBER[CLIP].value;
    ZL_TRY(zl_run_check(&run, err));
    *out = run;
    return ZL_OK;
}

void subject_id(const zl_run *run, char id[ZL_RUN_ID_SIZE])
{
    zl_run host = *run;
    host.backend = ZL_BACKEND_HOST;
    zl_run_id(&host, id);
}

zr_engine_options subject_options(const zl_run *run)
{
    return (zr_engine_options){
        .run = run,
        .seed = 7,
        .learning_rate = NUMBER[LEARNING_RATE].value,
        .beta1 = NUMBER[BETA1].value,
        .beta2 = NUMBER[BETA2].value,
        .eps = NUMBER[EPS].value,
        .weight_decay = NUMBER[WEIGHT_DECAY].value,
        .warmup = (uint64_t)NUMBER[WARMUP].value,
    };
}

/* A word for a position: SplitMix64's finalizer. */
static uint64_t word(uint64_t x)
{
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

float subject_stir(uint64_t i)
{
    static const double bits53 = 9007199254740992.0;
    return (float)(0.6 * ((double)(word(i) >> 11) / bits53 - 0.5));
}

/* Sequence number g: tokens[0..T], where the last one is only a target. */
static void fill_tokens(const zl_run *run, uint64_t g, int32_t *tokens)
{
    const uint64_t vocab = run->model.vocab;
    uint64_t token = word(g) % vocab;
    for (uint64_t t = 0; t <= run->seq; t++) {
        tokens[t] = (int32_t)token;
        const uint64_t r = word((g + 1) * (run->seq + 1) + t);
        token = r % 4 == 0 ? (r >> 2) % vocab : (7 * token + 3) % vocab;
    }
}

/* Four losses in each sequence, at tokens that the mask, the last id, replaces; at most four tokens
 * of padding. */
static void mask(const zl_run *run, uint64_t g, uint64_t b, zr_batch *batch)
{
    const uint64_t T = run->seq;
    const uint64_t length = T - g % 5;
    int32_t *tokens = batch->tokens + b * T;
    int32_t *targets = batch->targets + b * T;
    for (uint64_t t = 0; t < T; t++) {
        const bool chosen = t % 6 == g % 6 && t < 24;
        targets[t] = chosen ? tokens[t] : -1;
        tokens[t] = chosen ? (int32_t)run->model.vocab - 1 : t < length ? tokens[t] : 0;
        batch->types[b * T + t] = t >= length / 2 && t < length ? 1 : 0;
    }
    batch->lengths[b] = (int32_t)length;
    batch->next[b] = (int32_t)(word(g) % 2);
}

void subject_batch(const zl_run *run, uint64_t step, zr_batch *batch)
{
    enum { TOKENS_MAX = 64 };
    int32_t tokens[TOKENS_MAX];
    const uint64_t T = run->seq;
    for (uint64_t b = 0; b < run->micro_batch; b++) {
        const uint64_t g = step * run->micro_batch + b;
        fill_tokens(run, g, tokens);
        memcpy(batch->tokens + b * T, tokens, T * sizeof *tokens);
        memcpy(batch->targets + b * T, tokens + 1, T * sizeof *tokens);
        if (run->model.family == ZL_FAMILY_BERT) {
            mask(run, g, b, batch);
        }
    }
}

static const char *role_name(zr_role role)
{
    static const char *const name[ZR_ROLE_COUNT] = {
        [ZR_TOKEN_TABLE] = "token_table",
        [ZR_POSITION_TABLE] = "position_table",
        [ZR_TYPE_TABLE] = "type_table",
        [ZR_NORM_W] = "norm_w",
        [ZR_NORM_B] = "norm_b",
        [ZR_NORM1_W] = "norm1_w",
        [ZR_NORM1_B] = "norm1_b",
        [ZR_NORM2_W] = "norm2_w",
        [ZR_NORM2_B] = "norm2_b",
        [ZR_QKV_W] = "qkv_w",
        [ZR_QKV_B] = "qkv_b",
        [ZR_OUT_W] = "out_w",
        [ZR_OUT_B] = "out_b",
        [ZR_UP_W] = "up_w",
        [ZR_UP_B] = "up_b",
        [ZR_DOWN_W] = "down_w",
        [ZR_DOWN_B] = "down_b",
        [ZR_TRANSFORM_W] = "transform_w",
        [ZR_TRANSFORM_B] = "transform_b",
        [ZR_OUTPUT_B] = "output_b",
        [ZR_OUTPUT_W] = "output_w",
        [ZR_POOLER_W] = "pooler_w",
        [ZR_POOLER_B] = "pooler_b",
        [ZR_NEXT_W] = "next_w",
        [ZR_NEXT_B] = "next_b",
    };
    return name[role];
}

void subject_tensor_name(const zl_run *run, uint64_t u, zr_role role, char *name, size_t size)
{
    if (u == 0) {
        snprintf(name, size, "embed.%s", role_name(role));
    } else if (u <= run->model.layers) {
        snprintf(name, size, "block.%" PRIu64 ".%s", u - 1, role_name(role));
    } else {
        snprintf(name, size, "head.%s", role_name(role));
    }
}
