#include "explain_framework.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "zeroledger/bytes.h"

/* What a closed form counts. */
typedef enum symbol {
    ALL,        /* P: parameters */
    TRAINED,    /* P_t: those that train */
    GIVEN,      /* P_o: those the optimizer is given */
    OUTSIDE,    /* P_x: the others */
    DECAYED,    /* P_d: the group of matrices, where vectors are a group of their own */
    FLAT,       /* F: P_o padded to 2N */
    PART,       /* n: F / N */
    SHARDS,     /* n3: every tensor of P_o cut in N and rounded up */
    ALL_SHARDS, /* the same of P_t */
    ROW_SHARDS, /* s: every tensor of P_t cut in N along its rows */
    BUCKET,     /* R */
    MATRIX,     /* V h: the output matrix */
    TOKENS,     /* T */
    LOGITS,     /* T V */
    BYTES,      /* as given */
    SYMBOLS
} symbol;

static const char *const names[SYMBOLS] = {
    [ALL] = "P",    [TRAINED] = "P_t", [GIVEN] = "P_o", [OUTSIDE] = "P_x",     [DECAYED] = "P_d",
    [FLAT] = "F",   [PART] = "n",      [SHARDS] = "n3", [ALL_SHARDS] = "n3_t", [ROW_SHARDS] = "s",
    [BUCKET] = "R", [MATRIX] = "V h",  [TOKENS] = "T",  [LOGITS] = "T V",      [BYTES] = "A",
};

/* Bytes per element: the model's, a parameter's, or a number of them. */
enum { MODEL = -1, PARAMETER = -2, TWO_MODEL = -3, TWO_PARAMETERS = -4 };

typedef struct form {
    const char *term;
    int each;
    symbol of;
} form;

static const form forms[] = {
    {"parameters", PARAMETER, ALL},
    {"parameters", MODEL, ALL},
    {"parameters", MODEL, FLAT},
    {"parameters", MODEL, GIVEN},
    {"parameter shards", MODEL, SHARDS},
    {"parameter shards", PARAMETER, SHARDS},
    {"parameter shards", MODEL, ALL_SHARDS},
    {"parameter shards", PARAMETER, ROW_SHARDS},
    {"optimizer states", TWO_PARAMETERS, ROW_SHARDS},
    {"gradient shards", 4, ROW_SHARDS},
    {"fp32 masters", 4, GIVEN},
    {"fp32 masters", 4, PART},
    {"fp32 masters", 4, SHARDS},
    {"optimizer states", 8, GIVEN},
    {"optimizer states", 8, PART},
    {"optimizer states", 8, SHARDS},
    {"optimizer states", TWO_PARAMETERS, TRAINED},
    {"gradients", MODEL, ALL},
    {"gradients", PARAMETER, TRAINED},
    {"gradients", MODEL, GIVEN},
    {"gradients", MODEL, MATRIX},
    {"gradients", MODEL, OUTSIDE},
    {"gradients of the partition", MODEL, SHARDS},
    {"gradients of the partition", MODEL, PART},
    {"gradient shards", MODEL, SHARDS},
    {"gradient shards", 4, SHARDS},
    {"fp32 gradient of the step", 4, GIVEN},
    {"fp32 gradient of the step", 4, PART},
    {"fp32 gradient of the step", 4, SHARDS},
    {"flat gradient of the step", MODEL, PART},
    {"fp32 gradient of the step", 4, DECAYED},
    {"list of fp32 gradients", 4, GIVEN},
    {"list of fp32 gradients", 4, DECAYED},
    {"ipg bucket", MODEL, BUCKET},
    {"ipg bucket", TWO_MODEL, BUCKET},
    {"reduce buckets", PARAMETER, TRAINED},
    {"gathered parameters", MODEL, ALL},
    {"activations", 1, BYTES},
    {"token ids", 8, TOKENS},
};

static const char *const legend[] = {
    "P parameters, P_t those that train, P_o those the optimizer is given, P_x the others",
    "P_d the optimizer's group of matrices",
    "N ranks, F = P_o padded to 2N, n = F / N, n3 = every tensor cut in N and rounded up, summed",
    "(n3_t: of P_t), s = every tensor of P_t cut in N along its rows and rounded up, summed",
    "R reduce_bucket_size, T tokens of a micro-batch, V vocabulary, h hidden size, A as given",
};

const char *zl_formula_legend(size_t index)
{
    return index < sizeof legend / sizeof legend[0] ? legend[index] : NULL;
}

static uint64_t model_bytes(const zl_torch_run *run)
{
    return run->precision == ZL_TORCH_FP32 || run->precision == ZL_TORCH_BF16_AUTOCAST ? 4 : 2;
}

/* DeepSpeed casts the model; elsewhere parameters at rest are fp32 unless they are pure bf16. */
static uint64_t parameter_bytes(const zl_torch_run *run)
{
    const bool low = run->precision == ZL_TORCH_BF16 ||
                     (run->framework == ZL_TORCH_DEEPSPEED && run->precision != ZL_TORCH_FP32);
    return low ? 2 : 4;
}

/* Bing BERT's pooler: a square matrix and a vector. */
static uint64_t outside(const zl_torch_run *run, uint64_t ranks)
{
    const uint64_t h = run->model.hidden;
    return run->ds.pooler_outside ? zl_add(zl_ceil_div(zl_mul(h, h), ranks), zl_ceil_div(h, ranks))
                                  : 0;
}

static uint64_t count_of(const zl_torch_run *run, const zl_moments *m, symbol s)
{
    const uint64_t h = run->model.hidden;
    const uint64_t given = zl_sub(m->trainable, outside(run, 1));
    const uint64_t flat = zl_align_up(given, zl_mul(2, run->ranks));
    switch (s) {
    case ALL:
        return m->parameters;
    case TRAINED:
        return m->trainable;
    case GIVEN:
        return given;
    case OUTSIDE:
        return outside(run, 1);
    case DECAYED:
        return run->ds.decay_groups ? zl_sub(m->matrices, zl_mul(h, h)) : 0;
    case FLAT:
        return flat;
    case PART:
        return zl_ceil_div(flat, run->ranks);
    case SHARDS:
        return zl_sub(m->shards, outside(run, run->ranks));
    case ALL_SHARDS:
        return m->shards;
    case ROW_SHARDS:
        return m->row_shards;
    case BUCKET:
        return run->ds.reduce_bucket_size;
    case MATRIX:
        return zl_mul(run->model.vocab, run->model.hidden);
    case TOKENS:
        return zl_mul(run->micro_batch, run->seq);
    case LOGITS:
        return zl_prod(run->micro_batch, run->seq, run->model.vocab);
    case BYTES:
        return run->activations;
    case SYMBOLS:
        break;
    }
    return 0;
}

static uint64_t each_of(const zl_torch_run *run, int each)
{
    switch (each) {
    case MODEL:
        return model_bytes(run);
    case PARAMETER:
        return parameter_bytes(run);
    case TWO_MODEL:
        return zl_mul(2, model_bytes(run));
    case TWO_PARAMETERS:
        return zl_mul(2, parameter_bytes(run));
    default:
        return (uint64_t)each;
    }
}

static zl_formula write(uint64_t each, symbol s, uint64_t count, uint64_t rest)
{
    zl_formula f;
    char scalars[24] = "";
    if (rest > 0) {
        snprintf(scalars, sizeof scalars, " + %" PRIu64, rest);
    }
    if (each == 1) {
        snprintf(f.symbols, sizeof f.symbols, "%s%s", names[s], scalars);
        snprintf(f.numbers, sizeof f.numbers, "%s%s", zl_count(count).text, scalars);
    } else {
        snprintf(f.symbols, sizeof f.symbols, "%" PRIu64 " %s%s", each, names[s], scalars);
        snprintf(f.numbers, sizeof f.numbers, "%" PRIu64 " x %s%s", each, zl_count(count).text,
                 scalars);
    }
    return f;
}

/* Logits, log-softmax and gradients are whole multiples of tokens x vocabulary; what is left are
 * targets and scalars, less than one row of the vocabulary and 24 bytes a token. */
static bool is_of_logits(const zl_torch_run *run, const zl_moments *m, const zl_named_bytes *term,
                         zl_formula *out)
{
    const uint64_t unit = count_of(run, m, LOGITS);
    const uint64_t small = zl_add(zl_mul(24, count_of(run, m, TOKENS)), 64);
    if (strcmp(term->name, "logits and loss") != 0 || unit == 0 || term->bytes < unit) {
        return false;
    }
    const uint64_t each = term->bytes / unit;
    const uint64_t rest = zl_sub(term->bytes, zl_mul(each, unit));
    if (rest > small) {
        return false;
    }
    *out = write(each, LOGITS, unit, rest);
    return true;
}

zl_formula zl_term_formula(const zl_torch_run *run, const zl_moments *moments,
                           const zl_named_bytes *term)
{
    zl_formula f = {{0}, {0}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const uint64_t each = each_of(run, forms[i].each);
        const uint64_t count = count_of(run, moments, forms[i].of);
        if (strcmp(forms[i].term, term->name) == 0 && count > 0 &&
            zl_mul(each, count) == term->bytes) {
            return write(each, forms[i].of, count, 0);
        }
    }
    (void)is_of_logits(run, moments, term, &f);
    return f;
}
