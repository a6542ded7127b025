/* Attention without stored probabilities: softmax in one pass over key tiles (Milakov and
 * Gimelshein, arXiv 1805.02867; Dao, arXiv 2307.08691), recomputed in the backward. */
#include <math.h>

#include "kernel/host/attn.h"

/* Running maximum, sum and weighted values of a tile of queries. */
typedef struct online {
    float max[ZR_ATTN_TILE];
    float sum[ZR_ATTN_TILE];
    float out[ZR_ATTN_ROWS];
} online;

/* Turns one row of scores into weights relative to the new maximum, and rescales the past. */
static ZR_HOST_WIDE void online_row(online *o, uint32_t r, float *restrict s, uint32_t head_dim)
{
    const float seen = zr_attn_row_max(s);
    const float max = seen > o->max[r] ? seen : o->max[r];
    const float past = zr_host_exp(o->max[r] - max);
    float *const out = o->out + (size_t)r * head_dim;
    zr_attn_row_exp(s, max);
    o->sum[r] = o->sum[r] * past + (float)zr_host_sum(s, ZR_ATTN_TILE);
    o->max[r] = max;
    for (uint32_t d = 0; d < head_dim; d++) {
        out[d] *= past;
    }
}

static void online_tile(const zr_attn_args *a, online *o, uint32_t b, uint32_t head,
                        zr_span queries, zr_span keys, float *s)
{
    for (uint32_t r = 0; r < queries.n; r++) {
        float *const row = s + (size_t)r * ZR_ATTN_TILE;
        const uint32_t query = queries.first + r;
        zr_attn_hide(row, zr_attn_visible(a, query, keys));
        online_row(o, r, row, a->head_dim);
        zr_attn_drop(a, row, keys.n, zr_attn_square(a, b, head, query) + keys.first);
    }
}

static void online_finish(const zr_attn_args *a, online *o, uint32_t b, uint32_t head,
                          zr_span queries)
{
    for (uint32_t r = 0; r < queries.n; r++) {
        const float norm = o->sum[r] == 0.0F ? 0.0F : 1.0F / o->sum[r];
        float *const out = o->out + (size_t)r * a->head_dim;
        for (uint32_t d = 0; d < a->head_dim; d++) {
            out[d] *= norm;
        }
        /* -infinity for a query that saw no key: both terms are */
        a->lse[zr_attn_row(a, b, head, queries.first + r)] = o->max[r] + logf(o->sum[r]);
    }
    zr_attn_store_out(a, b, head, queries, o->out);
}

static void forward_tile(const zr_attn_args *a, uint32_t b, uint32_t head, zr_span queries)
{
    float bq[ZR_ATTN_ROWS];
    float bkv[ZR_ATTN_ROWS];
    float s[ZR_ATTN_SCORES];
    online o;
    memset(&o, 0, sizeof o);
    for (uint32_t r = 0; r < ZR_ATTN_TILE; r++) {
        o.max[r] = -INFINITY;
    }
    const uint32_t group = zr_attn_key_head(a, head);
    const uint32_t limit = zr_attn_keys(a, b);
    const zr_rows q = zr_attn_load(bq, a, b, head, queries);
    for (uint32_t at = 0; at < limit; at += ZR_ATTN_TILE) {
        const zr_span keys = zr_attn_span(at, limit);
        if (!zr_attn_meet(a, queries, keys)) {
            break;
        }
        const zr_rows k = zr_attn_load(bkv, a, b, group, keys);
        zr_attn_outer(a, a->scale, q, queries.n, k, keys.n, s);
        online_tile(a, &o, b, head, queries, keys, s);
        const zr_rows v = zr_attn_load(bkv, a, b, group + a->kv_heads, keys);
        zr_attn_add(a, s, queries.n, v, keys.n, o.out);
    }
    online_finish(a, &o, b, head, queries);
}

zl_status zr_flash_forward(const zr_attn_args *args, zr_stream *stream)
{
    (void)stream;
    const zr_attn_args *a = args;
    if (!zr_attn_ok(a) || a->qkv == NULL || a->out == NULL || a->lse == NULL) {
        return ZL_E_USAGE;
    }
    for (uint32_t b = 0; b < a->batch; b++) {
        for (uint32_t head = 0; head < a->heads; head++) {
            for (uint32_t at = 0; at < a->tokens; at += ZR_ATTN_TILE) {
                forward_tile(a, b, head, zr_attn_span(at, a->tokens));
            }
        }
    }
    return ZL_OK;
}

/* delta = sum over D of dout * out: what the softmax subtracts from every dP of a row. */
static void fill_delta(const zr_attn_args *a)
{
    float bo[ZR_ATTN_HEAD_DIM_MAX];
    float bd[ZR_ATTN_HEAD_DIM_MAX];
    const uint64_t width = (uint64_t)a->heads * a->head_dim;
    for (uint32_t b = 0; b < a->batch; b++) {
        for (uint32_t t = 0; t < a->tokens; t++) {
            for (uint32_t head = 0; head < a->heads; head++) {
                const uint64_t at =
                    ((uint64_t)b * a->tokens + t) * width + (uint64_t)head * a->head_dim;
                const float *out = zr_host_view(bo, a->out, a->dtype, at, a->head_dim);
                const float *dout = zr_host_view(bd, a->dout, a->dtype, at, a->head_dim);
                a->delta[zr_attn_row(a, b, head, t)] = (float)zr_host_dot(out, dout, a->head_dim);
            }
        }
    }
}

/* Where a pair of tiles lies. */
typedef struct pair {
    uint32_t b;
    uint32_t head;
    zr_span queries;
    zr_span keys;
} pair;

/* s: scores in, probabilities as used (dropped) out; ds: d of those in, d scores out. */
static ZR_HOST_WIDE void backward_scores(const zr_attn_args *a, const pair *at, float *s, float *ds)
{
    for (uint32_t r = 0; r < at->queries.n; r++) {
        const uint32_t query = at->queries.first + r;
        const uint64_t row = zr_attn_row(a, at->b, at->head, query);
        const uint64_t element = row * a->tokens + at->keys.first;
        float *restrict p = s + (size_t)r * ZR_ATTN_TILE;
        float *restrict dp = ds + (size_t)r * ZR_ATTN_TILE;
        zr_attn_hide(p, zr_attn_visible(a, query, at->keys));
        zr_attn_row_exp(p, a->lse[row]);
        zr_attn_drop(a, dp, at->keys.n, element);
        for (uint32_t c = 0; c < at->keys.n; c++) {
            dp[c] = p[c] * (dp[c] - a->delta[row]) * a->scale;
        }
        zr_attn_drop(a, p, at->keys.n, element);
    }
}

/* dK and dV of one tile of keys: all queries of all heads that share it, in order. */
static void backward_keys(const zr_attn_args *a, uint32_t b, uint32_t kv, zr_span keys)
{
    float bk[ZR_ATTN_ROWS];
    float bv[ZR_ATTN_ROWS];
    float bq[ZR_ATTN_ROWS];
    float bd[ZR_ATTN_ROWS];
    float dk[ZR_ATTN_ROWS] = {0};
    float dv[ZR_ATTN_ROWS] = {0};
    float s[ZR_ATTN_SCORES];
    float ds[ZR_ATTN_SCORES];
    const uint32_t share = a->heads / a->kv_heads;
    const zr_span seen = zr_attn_span(keys.first, zr_attn_keys(a, b));
    const zr_rows k = zr_attn_load(bk, a, b, a->heads + kv, seen);
    const zr_rows v = zr_attn_load(bv, a, b, a->heads + a->kv_heads + kv, seen);
    for (uint32_t head = kv * share; head < (kv + 1) * share; head++) {
        for (uint32_t first = 0; first < a->tokens; first += ZR_ATTN_TILE) {
            const pair at = {b, head, zr_attn_span(first, a->tokens), seen};
            if (!zr_attn_meet(a, at.queries, seen)) {
                continue;
            }
            const zr_rows q = zr_attn_load(bq, a, b, head, at.queries);
            const zr_rows dout = zr_attn_load_out(bd, a, a->dout, b, head, at.queries);
            zr_attn_outer(a, a->scale, q, at.queries.n, k, seen.n, s);
            zr_attn_outer(a, 1.0F, dout, at.queries.n, v, seen.n, ds);
            backward_scores(a, &at, s, ds);
            zr_attn_add_transposed(a, s, at.queries.n, dout, seen.n, dv);
            zr_attn_add_transposed(a, ds, at.queries.n, q, seen.n, dk);
        }
    }
    zr_attn_store(a, b, a->heads + kv, keys, dk);
    zr_attn_store(a, b, a->heads + a->kv_heads + kv, keys, dv);
}

/* dQ of one tile of queries. */
static void backward_queries(const zr_attn_args *a, uint32_t b, uint32_t head, zr_span queries)
{
    float bk[ZR_ATTN_ROWS];
    float bv[ZR_ATTN_ROWS];
    float bq[ZR_ATTN_ROWS];
    float bd[ZR_ATTN_ROWS];
    float dq[ZR_ATTN_ROWS] = {0};
    float s[ZR_ATTN_SCORES];
    float ds[ZR_ATTN_SCORES];
    const uint32_t group = zr_attn_key_head(a, head);
    const uint32_t limit = zr_attn_keys(a, b);
    const zr_rows q = zr_attn_load(bq, a, b, head, queries);
    const zr_rows dout = zr_attn_load_out(bd, a, a->dout, b, head, queries);
    for (uint32_t first = 0; first < limit; first += ZR_ATTN_TILE) {
        const pair at = {b, head, queries, zr_attn_span(first, limit)};
        if (!zr_attn_meet(a, queries, at.keys)) {
            break;
        }
        const zr_rows k = zr_attn_load(bk, a, b, group, at.keys);
        const zr_rows v = zr_attn_load(bv, a, b, group + a->kv_heads, at.keys);
        zr_attn_outer(a, a->scale, q, queries.n, k, at.keys.n, s);
        zr_attn_outer(a, 1.0F, dout, queries.n, v, at.keys.n, ds);
        backward_scores(a, &at, s, ds);
        zr_attn_add(a, ds, queries.n, k, at.keys.n, dq);
    }
    zr_attn_store(a, b, head, queries, dq);
}

zl_status zr_flash_backward(const zr_attn_args *args, zr_stream *stream)
{
    (void)stream;
    const zr_attn_args *a = args;
    if (!zr_attn_ok(a) || a->qkv == NULL || a->out == NULL || a->lse == NULL || a->delta == NULL ||
        a->dout == NULL || a->dqkv == NULL) {
        return ZL_E_USAGE;
    }
    fill_delta(a);
    for (uint32_t b = 0; b < a->batch; b++) {
        for (uint32_t at = 0; at < a->tokens; at += ZR_ATTN_TILE) {
            const zr_span span = zr_attn_span(at, a->tokens);
            for (uint32_t kv = 0; kv < a->kv_heads; kv++) {
                backward_keys(a, b, kv, span);
            }
            for (uint32_t head = 0; head < a->heads; head++) {
                backward_queries(a, b, head, span);
            }
        }
    }
    return ZL_OK;
}
