/* Attention with stored probabilities. Scores are never stored: they are computed twice, once for
 * the softmax's maximum and sum, once for the probabilities, so that each is rounded once. */
#include <math.h>

#include "kernel/host/attn.h"

/* One tile of queries of one head, and its keys' heads. */
typedef struct strip {
    uint32_t b;
    uint32_t head;
    uint32_t group;
    uint32_t limit;
    zr_span queries;
} strip;

static strip make_strip(const zr_attn_args *a, uint32_t b, uint32_t head, uint32_t first)
{
    return (strip){
        .b = b,
        .head = head,
        .group = zr_attn_key_head(a, head),
        .limit = zr_attn_keys(a, b),
        .queries = zr_attn_span(first, a->tokens),
    };
}

static uint64_t element(const zr_attn_args *a, const strip *t, uint32_t row, zr_span keys)
{
    return zr_attn_square(a, t->b, t->head, t->queries.first + row) + keys.first;
}

/* Scores of the strip against one key tile, hidden ones at -infinity. */
static void scores(const zr_attn_args *a, const strip *t, zr_rows q, zr_span keys, float *s)
{
    float bk[ZR_ATTN_ROWS];
    const zr_span seen = zr_attn_span(keys.first, t->limit);
    if (seen.n > 0) {
        const zr_rows k = zr_attn_load(bk, a, t->b, t->group, seen);
        zr_attn_outer(a, a->scale, q, t->queries.n, k, seen.n, s);
    }
    for (uint32_t r = 0; r < t->queries.n; r++) {
        zr_attn_hide(s + (size_t)r * ZR_ATTN_TILE, zr_attn_visible(a, t->queries.first + r, seen));
    }
}

typedef struct softmax {
    float max[ZR_ATTN_TILE];
    float sum[ZR_ATTN_TILE];
} softmax;

static void measure(const zr_attn_args *a, const strip *t, zr_rows q, softmax *m)
{
    float s[ZR_ATTN_SCORES];
    for (uint32_t r = 0; r < ZR_ATTN_TILE; r++) {
        m->max[r] = -INFINITY;
        m->sum[r] = 0.0F;
    }
    for (uint32_t at = 0; at < t->limit; at += ZR_ATTN_TILE) {
        const zr_span keys = zr_attn_span(at, t->limit);
        if (!zr_attn_meet(a, t->queries, keys)) {
            break;
        }
        scores(a, t, q, keys, s);
        for (uint32_t r = 0; r < t->queries.n; r++) {
            float *const row = s + (size_t)r * ZR_ATTN_TILE;
            const float seen = zr_attn_row_max(row);
            const float max = seen > m->max[r] ? seen : m->max[r];
            zr_attn_row_exp(row, max);
            m->sum[r] =
                m->sum[r] * zr_host_exp(m->max[r] - max) + (float)zr_host_sum(row, ZR_ATTN_TILE);
            m->max[r] = max;
        }
    }
}

/* Stores the probabilities of one tile (and the dropped ones) and leaves what was stored in s. */
static void store_probs(const zr_attn_args *a, const strip *t, const softmax *m, zr_span keys,
                        float *s)
{
    for (uint32_t r = 0; r < t->queries.n; r++) {
        float *const row = s + (size_t)r * ZR_ATTN_TILE;
        const uint64_t at = element(a, t, r, keys);
        const bool blind = m->sum[r] == 0.0F;
        const float norm = blind ? 0.0F : 1.0F / m->sum[r];
        zr_attn_row_exp(row, blind ? 0.0F : m->max[r]);
        for (uint32_t c = 0; c < keys.n; c++) {
            row[c] *= norm;
        }
        zr_host_store(a->probs, a->dtype, at, row, keys.n);
        zr_host_load(row, a->probs, a->dtype, at, keys.n);
        if (a->dropout > 0.0F) {
            zr_attn_drop(a, row, keys.n, at);
            zr_host_store(a->dropped, a->dtype, at, row, keys.n);
            zr_host_load(row, a->dropped, a->dtype, at, keys.n);
        }
    }
}

static void forward_strip(const zr_attn_args *a, const strip *t)
{
    float bq[ZR_ATTN_ROWS];
    float bv[ZR_ATTN_ROWS];
    float s[ZR_ATTN_SCORES] = {0};
    float out[ZR_ATTN_ROWS] = {0};
    softmax m;
    const zr_rows q = zr_attn_load(bq, a, t->b, t->head, t->queries);
    measure(a, t, q, &m);
    for (uint32_t at = 0; at < a->tokens; at += ZR_ATTN_TILE) {
        const zr_span keys = zr_attn_span(at, a->tokens);
        scores(a, t, q, keys, s);
        store_probs(a, t, &m, keys, s);
        if (zr_attn_meet(a, t->queries, keys)) {
            const zr_rows v = zr_attn_load(bv, a, t->b, t->group + a->kv_heads, keys);
            zr_attn_add(a, s, t->queries.n, v, keys.n, out);
        }
    }
    zr_attn_store_out(a, t->b, t->head, t->queries, out);
}

static bool eager_ok(const zr_attn_args *a)
{
    return zr_attn_ok(a) && a->qkv != NULL && a->probs != NULL &&
           (a->dropout == 0.0F || a->dropped != NULL);
}

zl_status zr_eager_forward(const zr_attn_args *args, zr_stream *stream)
{
    (void)stream;
    const zr_attn_args *a = args;
    if (!eager_ok(a) || a->out == NULL) {
        return ZL_E_USAGE;
    }
    for (uint32_t b = 0; b < a->batch; b++) {
        for (uint32_t head = 0; head < a->heads; head++) {
            for (uint32_t at = 0; at < a->tokens; at += ZR_ATTN_TILE) {
                const strip t = make_strip(a, b, head, at);
                forward_strip(a, &t);
            }
        }
    }
    return ZL_OK;
}

/* dp = dout V^T under the same dropout: d of the stored probabilities, not yet rounded. */
static void prob_gradient(const zr_attn_args *a, const strip *t, zr_rows dout, zr_span keys,
                          float *dp)
{
    float bv[ZR_ATTN_ROWS];
    const zr_rows v = zr_attn_load(bv, a, t->b, t->group + a->kv_heads, keys);
    zr_attn_outer(a, 1.0F, dout, t->queries.n, v, keys.n, dp);
    for (uint32_t r = 0; r < t->queries.n; r++) {
        zr_attn_drop(a, dp + (size_t)r * ZR_ATTN_TILE, keys.n, element(a, t, r, keys));
    }
}

/* delta = sum over keys of P dP, one per query. */
static void row_deltas(const zr_attn_args *a, const strip *t, zr_rows dout, double *delta)
{
    float dp[ZR_ATTN_SCORES];
    float bp[ZR_ATTN_TILE];
    memset(delta, 0, ZR_ATTN_TILE * sizeof *delta);
    for (uint32_t at = 0; at < a->tokens; at += ZR_ATTN_TILE) {
        const zr_span keys = zr_attn_span(at, a->tokens);
        if (!zr_attn_meet(a, t->queries, keys)) {
            break;
        }
        prob_gradient(a, t, dout, keys, dp);
        for (uint32_t r = 0; r < t->queries.n; r++) {
            const float *p = zr_host_view(bp, a->probs, a->dtype, element(a, t, r, keys), keys.n);
            delta[r] += zr_host_dot(p, dp + (size_t)r * ZR_ATTN_TILE, keys.n);
        }
    }
}

/* Writes dprobs, which holds d scores (times scale) from here on, and collects dQ. */
static void backward_strip(const zr_attn_args *a, const strip *t)
{
    float bd[ZR_ATTN_ROWS];
    float bk[ZR_ATTN_ROWS];
    float dq[ZR_ATTN_ROWS] = {0};
    float ds[ZR_ATTN_SCORES];
    float bp[ZR_ATTN_TILE];
    double delta[ZR_ATTN_TILE];
    const zr_rows dout = zr_attn_load_out(bd, a, a->dout, t->b, t->head, t->queries);
    row_deltas(a, t, dout, delta);
    for (uint32_t at = 0; at < a->tokens; at += ZR_ATTN_TILE) {
        const zr_span keys = zr_attn_span(at, a->tokens);
        if (!zr_attn_meet(a, t->queries, keys)) {
            break; /* and nobody will read these tiles */
        }
        prob_gradient(a, t, dout, keys, ds);
        for (uint32_t r = 0; r < t->queries.n; r++) {
            const uint64_t where = element(a, t, r, keys);
            const float *p = zr_host_view(bp, a->probs, a->dtype, where, keys.n);
            float *const row = ds + (size_t)r * ZR_ATTN_TILE;
            for (uint32_t c = 0; c < keys.n; c++) {
                row[c] = p[c] * (row[c] - (float)delta[r]) * a->scale;
            }
            zr_host_store(a->dprobs, a->dtype, where, row, keys.n);
            zr_host_load(row, a->dprobs, a->dtype, where, keys.n);
        }
        const zr_rows k = zr_attn_load(bk, a, t->b, t->group, keys);
        zr_attn_add(a, ds, t->queries.n, k, keys.n, dq);
    }
    zr_attn_store(a, t->b, t->head, t->queries, dq);
}

static void load_square(const zr_attn_args *a, const void *x, const strip *t, zr_span keys,
                        float *s)
{
    for (uint32_t r = 0; r < t->queries.n; r++) {
        zr_host_load(s + (size_t)r * ZR_ATTN_TILE, x, a->dtype, element(a, t, r, keys), keys.n);
    }
}

/* What a tile of keys receives, over the heads that share it: d values = P^T d out, or
 * d keys = dS^T Q. */
typedef enum receiver { VALUES, KEYS } receiver;

static void backward_keys(const zr_attn_args *a, receiver what, uint32_t b, uint32_t kv,
                          zr_span keys)
{
    float rows[ZR_ATTN_ROWS];
    float sum[ZR_ATTN_ROWS] = {0};
    float s[ZR_ATTN_SCORES];
    const void *const used = a->dropout > 0.0F ? a->dropped : a->probs;
    const uint32_t share = a->heads / a->kv_heads;
    for (uint32_t head = kv * share; head < (kv + 1) * share; head++) {
        for (uint32_t first = 0; first < a->tokens; first += ZR_ATTN_TILE) {
            const strip t = make_strip(a, b, head, first);
            if (!zr_attn_meet(a, t.queries, keys)) {
                continue;
            }
            load_square(a, what == VALUES ? used : a->dprobs, &t, keys, s);
            const zr_rows from = what == VALUES
                                     ? zr_attn_load_out(rows, a, a->dout, b, head, t.queries)
                                     : zr_attn_load(rows, a, b, head, t.queries);
            zr_attn_add_transposed(a, s, t.queries.n, from, keys.n, sum);
        }
    }
    zr_attn_store(a, b, a->heads + kv + (what == VALUES ? a->kv_heads : 0), keys, sum);
}

static void backward_all_keys(const zr_attn_args *a, receiver what, uint32_t b)
{
    for (uint32_t kv = 0; kv < a->kv_heads; kv++) {
        for (uint32_t at = 0; at < a->tokens; at += ZR_ATTN_TILE) {
            backward_keys(a, what, b, kv, zr_attn_span(at, a->tokens));
        }
    }
}

zl_status zr_eager_backward_values(const zr_attn_args *args, zr_stream *stream)
{
    (void)stream;
    if (!eager_ok(args) || args->dout == NULL || args->dqkv == NULL) {
        return ZL_E_USAGE;
    }
    for (uint32_t b = 0; b < args->batch; b++) {
        backward_all_keys(args, VALUES, b);
    }
    return ZL_OK;
}

zl_status zr_eager_backward_scores(const zr_attn_args *args, zr_stream *stream)
{
    (void)stream;
    const zr_attn_args *a = args;
    if (!zr_attn_ok(a) || a->qkv == NULL || a->probs == NULL || a->dprobs == NULL ||
        a->dout == NULL || a->dqkv == NULL) {
        return ZL_E_USAGE;
    }
    for (uint32_t b = 0; b < a->batch; b++) {
        for (uint32_t head = 0; head < a->heads; head++) {
            for (uint32_t at = 0; at < a->tokens; at += ZR_ATTN_TILE) {
                const strip t = make_strip(a, b, head, at);
                backward_strip(a, &t);
            }
        }
        backward_all_keys(a, KEYS, b);
    }
    return ZL_OK;
}

zl_status zr_eager_backward(const zr_attn_args *args, zr_stream *stream)
{
    if (args->dprobs == NULL) {
        return ZL_E_USAGE; /* before the first half writes */
    }
    ZL_TRY(zr_eager_backward_values(args, stream));
    return zr_eager_backward_scores(args, stream);
}
