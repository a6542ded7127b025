#include "reference.h"

#include <math.h>
#include <stddef.h>

void reference_gemm(const void *shape, const double *x, double *y)
{
    const zr_gemm_args *g = shape;
    const size_t m = g->m;
    const size_t n = g->n;
    const size_t k = g->k;
    const double *a = x;
    const double *b = a + m * k;
    const double *bias = b + k * n;
    const double *residual = bias + (g->bias != NULL ? n : 0);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = 0.0;
            for (size_t l = 0; l < k; l++) {
                sum += (g->trans_a ? a[l * m + i] : a[i * k + l]) *
                       (g->trans_b ? b[j * k + l] : b[l * n + j]);
            }
            y[i * n + j] = (double)g->alpha * sum + (g->bias != NULL ? bias[j] : 0.0) +
                           (g->residual.data != NULL ? residual[i * n + j] : 0.0);
        }
    }
}

void reference_embed(const void *shape, const double *x, double *y)
{
    const zr_embed_args *e = shape;
    const size_t c = e->width;
    const double *pos = x + e->vocab * c;
    const double *type = pos + e->positions * c;
    for (size_t r = 0; r < e->rows; r++) {
        for (size_t i = 0; i < c; i++) {
            y[r * c + i] = x[(size_t)e->ids[r] * c + i] +
                           (e->positions > 0 ? pos[r % e->tokens * c + i] : 0.0) +
                           (e->kinds > 0 ? type[(size_t)e->types[r] * c + i] : 0.0);
        }
    }
}

void reference_layernorm(const void *shape, const double *x, double *y)
{
    const zr_norm_args *a = shape;
    const size_t c = a->width;
    const double *gain = x + a->rows * c;
    const double *bias = gain + c;
    for (size_t r = 0; r < a->rows; r++) {
        const double *row = x + r * c;
        double mean = 0.0;
        double variance = 0.0;
        for (size_t i = 0; i < c; i++) {
            mean += row[i] / (double)c;
        }
        for (size_t i = 0; i < c; i++) {
            variance += (row[i] - mean) * (row[i] - mean) / (double)c;
        }
        for (size_t i = 0; i < c; i++) {
            y[r * c + i] = (row[i] - mean) / sqrt(variance + (double)a->eps) * gain[i] + bias[i];
        }
    }
}

void reference_rmsnorm(const void *shape, const double *x, double *y)
{
    const zr_norm_args *a = shape;
    const size_t c = a->width;
    const double *gain = x + a->rows * c;
    for (size_t r = 0; r < a->rows; r++) {
        double square = 0.0;
        for (size_t i = 0; i < c; i++) {
            square += x[r * c + i] * x[r * c + i] / (double)c;
        }
        for (size_t i = 0; i < c; i++) {
            y[r * c + i] = x[r * c + i] / sqrt(square + (double)a->eps) * gain[i];
        }
    }
}

void reference_gelu(const void *shape, const double *x, double *y)
{
    const zr_gelu_args *a = shape;
    const double pi = acos(-1.0);
    for (size_t i = 0; i < a->count; i++) {
        const double inner = a->kind == ZR_GELU_ERF
                                 ? erf(x[i] / sqrt(2.0))
                                 : tanh(sqrt(2.0 / pi) * (x[i] + 0.044715 * pow(x[i], 3.0)));
        y[i] = 0.5 * x[i] * (1.0 + inner);
    }
}

void reference_swiglu(const void *shape, const double *x, double *y)
{
    const zr_swiglu_args *a = shape;
    const size_t f = a->width;
    for (size_t r = 0; r < a->rows; r++) {
        for (size_t i = 0; i < f; i++) {
            const double gate = x[r * 2 * f + i];
            y[r * f + i] = gate / (1.0 + exp(-gate)) * x[r * 2 * f + f + i];
        }
    }
}

void reference_tanh(const void *shape, const double *x, double *y)
{
    const uint64_t *count = shape;
    for (size_t i = 0; i < *count; i++) {
        y[i] = tanh(x[i]);
    }
}

void reference_rope(const void *shape, const double *x, double *y)
{
    const reference_rope_shape *s = shape;
    const size_t d = s->args.head_dim;
    const size_t rotated = s->args.heads + s->args.kv_heads;
    const size_t all = rotated + s->args.kv_heads;
    for (size_t i = 0; i < s->args.rows * all * d; i++) {
        const size_t row = i / (all * d);
        const size_t head = i / d % all;
        const size_t at = i % d;
        const size_t pair = at % (d / 2);
        const double angle =
            (double)(row % s->args.tokens) * pow(s->theta, -2.0 * (double)pair / (double)d);
        const double partner = at < d / 2 ? -x[i + d / 2] : x[i - d / 2];
        y[i] = head < rotated ? x[i] * cos(angle) + partner * sin(angle) : x[i];
    }
}

void reference_philox(uint32_t c[4], uint64_t seed)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = 0xD2511F53ULL * c[0];
        const uint64_t p1 = 0xCD9E8D57ULL * c[2];
        const uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ key[0], (uint32_t)p1,
                                  (uint32_t)(p0 >> 32) ^ c[3] ^ key[1], (uint32_t)p0};
        for (size_t i = 0; i < 4; i++) {
            c[i] = next[i];
        }
        key[0] += 0x9E3779B9U;
        key[1] += 0xBB67AE85U;
    }
}

uint32_t reference_word(const zr_rng *rng, uint64_t element)
{
    const uint64_t at = rng->offset + element;
    uint32_t c[4] = {(uint32_t)(at / 4), (uint32_t)(at / 4 >> 32), (uint32_t)rng->stream,
                     (uint32_t)(rng->stream >> 32)};
    reference_philox(c, rng->seed);
    return c[at % 4];
}

double reference_mask(const zr_rng *rng, uint64_t element, float p)
{
    const bool kept = (double)reference_word(rng, element) >= floor((double)p * 4294967296.0);
    return kept ? 1.0 / (1.0 - (double)p) : 0.0;
}

/* One row of scores and their softmax; returns the log of the sum. */
static double softmax_row(const zr_attn_args *a, const double *qkv, size_t b, size_t h, size_t t,
                          double *p)
{
    const size_t d = a->head_dim;
    const size_t width = (a->heads + 2 * (size_t)a->kv_heads) * d;
    const size_t key_head = a->heads + h / (a->heads / a->kv_heads);
    const double *q = qkv + (b * a->tokens + t) * width + h * d;
    double sum = 0.0;
    for (size_t s = 0; s < a->tokens; s++) {
        const double *k = qkv + (b * a->tokens + s) * width + key_head * d;
        const bool hidden =
            (a->causal && s > t) || (a->lengths != NULL && s >= (size_t)a->lengths[b]);
        double score = 0.0;
        for (size_t i = 0; i < d; i++) {
            score += q[i] * k[i];
        }
        p[s] = hidden ? 0.0 : exp((double)a->scale * score);
        sum += p[s];
    }
    for (size_t s = 0; s < a->tokens; s++) {
        p[s] = sum > 0.0 ? p[s] / sum : 0.0;
    }
    return log(sum);
}

#define TOKENS_MAX 256

void reference_attention(const void *shape, const double *x, double *y)
{
    const zr_attn_args *a = shape;
    const size_t d = a->head_dim;
    const size_t width = (a->heads + 2 * (size_t)a->kv_heads) * d;
    double p[TOKENS_MAX];
    for (size_t i = 0; i < (size_t)a->batch * a->heads * a->tokens; i++) {
        const size_t b = i / a->tokens / a->heads;
        const size_t h = i / a->tokens % a->heads;
        const size_t t = i % a->tokens;
        const size_t value_head = a->heads + a->kv_heads + h / (a->heads / a->kv_heads);
        double *out = y + ((b * a->tokens + t) * a->heads + h) * d;
        (void)softmax_row(a, x, b, h, t, p);
        for (size_t e = 0; e < d; e++) {
            out[e] = 0.0;
        }
        for (size_t s = 0; s < a->tokens; s++) {
            const double *v = x + (b * a->tokens + s) * width + value_head * d;
            const double mask =
                a->dropout > 0.0F ? reference_mask(&a->rng, i * a->tokens + s, a->dropout) : 1.0;
            for (size_t e = 0; e < d; e++) {
                out[e] += p[s] * mask * v[e];
            }
        }
    }
}

void reference_lse(const zr_attn_args *a, const double *qkv, double *lse)
{
    double p[TOKENS_MAX];
    for (size_t i = 0; i < (size_t)a->batch * a->heads * a->tokens; i++) {
        lse[i] = softmax_row(a, qkv, i / a->tokens / a->heads, i / a->tokens % a->heads,
                             i % a->tokens, p);
    }
}

void reference_dropout(const void *shape, const double *x, double *y)
{
    const zr_dropout_args *a = shape;
    for (size_t i = 0; i < a->count; i++) {
        y[i] =
            x[i] * reference_mask(&a->rng, i, a->p) + (a->residual != NULL ? x[a->count + i] : 0.0);
    }
}

void reference_cross_entropy(const void *shape, const double *x, double *y)
{
    const zr_loss_args *a = shape;
    for (size_t r = 0; r < a->rows; r++) {
        const double *row = x + r * a->ld;
        double sum = 0.0;
        for (size_t i = 0; i < a->vocab; i++) {
            sum += exp(row[i]);
        }
        y[r] = a->targets[r] < 0 ? 0.0 : log(sum) - row[a->targets[r]];
    }
}
