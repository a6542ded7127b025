/* LlamaForCausalLM and MixtralForCausalLM (transformers, models/llama, models/mixtral), and classes
 * that differ in what is named here: Qwen3ForCausalLM has norms of the heads of q and k,
 * Phi3ForCausalLM one matrix for q, k, v and one for gate and up, dropouts on both residuals, and
 * rotates a part of each head, which torch.cat joins to the rest; GemmaForCausalLM scales the
 * output of its token table, and its norms multiply by one more than their weights. */
#include "torch/hf_mixtral.h"
#include "torch/modules.h"
#include "zeroledger/bytes.h"

enum { FLOAT_BYTES = 4 };

typedef struct llama_layer {
    zt_module *self, *attention;
    zt_dense qkv; /* fused projections; else q, k, v */
    zt_dense q, k, v, o;
    zt_norm q_norm, k_norm; /* module NULL: none */
    zt_module *mlp, *act;   /* mlp NULL: experts */
    zt_dense gate_up;       /* fused; else gate, up */
    zt_dense gate, up, down;
    zt_module *attention_dropout, *mlp_dropout; /* of the residuals; NULL: none */
    zt_experts *experts;
    zt_norm input_norm, post_attention_norm;
} llama_layer;

typedef struct llama {
    zt_module *self, *rotary;
    zt_table word;
    llama_layer *layer;
    zt_norm norm;
    zt_dense head;
} llama;

static bool is_gemma(const zt_process *p)
{
    return p->run->model.arch == ZL_HF_GEMMA;
}

/* ---- building ---- */

static void build_attention(zt_process *p, llama_layer *l)
{
    const zl_hf_config *c = &p->run->model;
    const uint64_t q = zl_mul(c->heads, c->head_dim);
    const uint64_t kv = zl_mul(c->kv_heads, c->head_dim);
    l->attention = zt_module_new(p, l->self, "self_attn");
    if (c->fused_projections) {
        l->o = zt_linear_new(p, l->attention, "o_proj", q, c->hidden, false);
        l->qkv =
            zt_linear_new(p, l->attention, "qkv_proj", c->hidden, zl_add(q, zl_mul(2, kv)), false);
        return;
    }
    l->q = zt_linear_new(p, l->attention, "q_proj", c->hidden, q, c->attention_bias);
    l->k = zt_linear_new(p, l->attention, "k_proj", c->hidden, kv, c->attention_bias);
    l->v = zt_linear_new(p, l->attention, "v_proj", c->hidden, kv, c->attention_bias);
    l->o = zt_linear_new(p, l->attention, "o_proj", q, c->hidden,
                         c->attention_bias && !c->plain_output);
    if (c->query_norm) {
        l->q_norm = zt_rms_norm_new(p, l->attention, "q_norm", c->head_dim);
        l->k_norm = zt_rms_norm_new(p, l->attention, "k_norm", c->head_dim);
    }
    if (p->run->rotary_tables) {
        const uint64_t table = zl_mul(c->positions, c->head_dim);
        zt_module *rotary = zt_module_new(p, l->attention, "rotary_emb");
        zt_float_buffer_new(p, rotary, c->head_dim / 2); /* inv_freq, cos_cached, sin_cached */
        zt_float_buffer_new(p, rotary, table);
        zt_float_buffer_new(p, rotary, table);
    }
}

static void build_mlp(zt_process *p, llama_layer *l)
{
    const zl_hf_config *c = &p->run->model;
    l->mlp = zt_module_new(p, l->self, "mlp");
    if (c->fused_projections) {
        l->gate_up = zt_linear_new(p, l->mlp, "gate_up_proj", c->hidden, zl_mul(2, c->ffn), false);
        l->down = zt_linear_new(p, l->mlp, "down_proj", c->ffn, c->hidden, false);
        l->act = zt_module_new(p, l->mlp, "activation_fn");
        return;
    }
    l->gate = zt_linear_new(p, l->mlp, "gate_proj", c->hidden, c->ffn, c->mlp_bias);
    l->up = zt_linear_new(p, l->mlp, "up_proj", c->hidden, c->ffn, c->mlp_bias);
    l->down = zt_linear_new(p, l->mlp, "down_proj", c->ffn, c->hidden, c->mlp_bias);
    l->act = zt_module_new(p, l->mlp, "act_fn");
}

static void build_layer(zt_process *p, llama_layer *l, zt_module *list, uint64_t index)
{
    const zl_hf_config *c = &p->run->model;
    l->self = zt_layer_new(p, list, index);
    build_attention(p, l);
    if (c->arch == ZL_HF_MIXTRAL) {
        l->experts = zt_experts_new(p, l->self);
    } else {
        build_mlp(p, l);
    }
    l->input_norm = zt_rms_norm_new(p, l->self, "input_layernorm", c->hidden);
    l->post_attention_norm = zt_rms_norm_new(p, l->self, "post_attention_layernorm", c->hidden);
    if (c->fused_projections) {
        l->attention_dropout = zt_module_new(p, l->self, "resid_attn_dropout");
        l->mlp_dropout = zt_module_new(p, l->self, "resid_mlp_dropout");
    }
}

/* How much of a head turns. */
static uint64_t turning_of(const zl_hf_config *c)
{
    return c->rotary > 0 ? c->rotary : c->head_dim;
}

static void *build(zt_process *p)
{
    const zl_hf_config *c = &p->run->model;
    llama *m = zt_arena(p, 1, sizeof *m);
    zt_module *root = zt_module_new(p, NULL, "");
    m->self = zt_module_new(p, root, "model");
    m->word = zt_embedding_new(p, m->self, "embed_tokens", c->vocab, c->hidden);
    if (is_gemma(p)) {
        zt_float_buffer_new(p, m->word.module, 1); /* embed_scale */
    }
    zt_module *list = zt_module_list_new(p, m->self, "layers");
    m->layer = zt_arena(p, c->layers, sizeof *m->layer);
    for (uint64_t i = 0; i < c->layers; i++) {
        build_layer(p, &m->layer[i], list, i);
    }
    m->norm = zt_rms_norm_new(p, m->self, "norm", c->hidden);
    if (!p->run->rotary_tables) {
        m->rotary = zt_module_new(p, m->self, "rotary_emb");
        const uint64_t frequencies = zl_ceil_div(turning_of(c), 2);
        zt_float_buffer_new(p, m->rotary, frequencies); /* inv_freq and its original */
        zt_float_buffer_new(p, m->rotary, frequencies);
    }
    m->head = c->tied ? zt_tied_linear_new(p, root, "lm_head", m->word.weight, false)
                      : zt_linear_new(p, root, "lm_head", c->hidden, c->vocab, false);
    return m;
}

/* ---- forward ---- */

/* What all layers of one forward share. */
typedef struct shared {
    zt_tensor mask, cos, sin;
    zt_storage position_ids;
} shared;

typedef struct call {
    const llama_layer *layer;
    const shared *shared;
} call;

/* (x.float() * rsqrt(mean(x ** 2) + eps)) * (1.0 + weight.float()), in the dtype of x. */
static zt_tensor call_offset_norm(zt_process *p, const zt_norm *n, zt_tensor x)
{
    zt_enter(p, n->module, &x, 1);
    zt_tensor hidden = zt_to(p, x, FLOAT_BYTES);
    zt_tensor squares = zt_pow(p, hidden);
    zt_tensor variance = zt_mean(p, squares, n->weight->rows);
    zt_release(p, &squares);
    zt_assign(p, &variance, zt_add_scalar(p, variance));
    zt_tensor root = zt_rsqrt(p, variance);
    zt_release(p, &variance);
    zt_tensor scaled = zt_mul(p, hidden, root);
    zt_release(p, &root);
    zt_release(p, &hidden);
    zt_tensor weight = zt_to(p, n->weight->value, FLOAT_BYTES);
    zt_assign(p, &weight, zt_add_scalar(p, weight));
    zt_assign(p, &scaled, zt_mul_by_row(p, scaled, weight));
    zt_release(p, &weight);
    zt_tensor y = zt_to(p, scaled, x.element_bytes);
    zt_release(p, &scaled);
    zt_leave(p, n->module, &y, 1);
    return y;
}

static zt_tensor call_norm(zt_process *p, const zt_norm *n, zt_tensor x)
{
    return is_gemma(p) ? call_offset_norm(p, n, x) : zt_call_rms_norm(p, n, x);
}

/* The scale is in the table's own forward, in the dtype of the table's weight. */
static zt_tensor call_table(zt_process *p, const zt_table *word, zt_storage ids)
{
    if (!is_gemma(p)) {
        return zt_call_input_embedding(p, word, ids);
    }
    zt_tensor x = {.storage = ids, .elements = zt_tokens(p)};
    zt_enter(p, word->module, &x, 1);
    zt_tensor y = zt_embedding(p, word->weight, ids, zt_tokens(p), false);
    zt_tensor kept = zt_buffer(p, word->module, 0);
    zt_tensor scale = zt_to(p, kept, word->weight->value.element_bytes);
    zt_assign(p, &y, zt_mul_by_row(p, y, scale));
    zt_release(p, &scale);
    zt_release(p, &kept);
    zt_leave(p, word->module, &y, 1);
    if (p->run->checkpointing) {
        zt_require_gradient(p, &y);
    }
    return y;
}

/* One table: cos(emb) * scaling, in the dtype of the hidden states. */
static zt_tensor angles(zt_process *p, uint64_t elements)
{
    zt_tensor t = zt_tensor_new(p, elements, FLOAT_BYTES);
    zt_assign(p, &t, zt_tensor_new(p, elements, FLOAT_BYTES));
    return t;
}

/* Outer product of frequencies and positions in fp32, doubled to the head size. */
static void rotary(zt_process *p, const llama *m, zt_tensor x, shared *s)
{
    const uint64_t half = zl_ceil_div(turning_of(&p->run->model), 2);
    const uint64_t seq = p->run->seq;
    const uint64_t elements = zl_prod(2, half, seq);
    zt_enter(p, m->rotary, &x, 1);
    const bool narrow = m->rotary->buffer[0].bytes < zl_mul(half, FLOAT_BYTES);
    zt_storage inverse = narrow ? zt_new(p, zl_mul(half, FLOAT_BYTES)) : ZT_NO_STORAGE;
    zt_storage positions = zt_new(p, zl_mul(seq, FLOAT_BYTES));
    zt_storage product = zt_new(p, zl_prod(half, seq, FLOAT_BYTES));
    zt_gemm(p, false);
    zt_storage doubled = zt_new(p, zl_mul(elements, FLOAT_BYTES));
    zt_tensor cos = angles(p, elements);
    zt_tensor sin = angles(p, elements);
    s->cos = zt_to(p, cos, x.element_bytes);
    s->sin = zt_to(p, sin, x.element_bytes);
    zt_drop(p, &inverse);
    zt_drop(p, &positions);
    zt_drop(p, &product);
    zt_drop(p, &doubled);
    zt_release(p, &cos);
    zt_release(p, &sin);
    zt_leave(p, m->rotary, NULL, 0);
}

/* x * cos + rotate_half(x) * sin */
static zt_tensor rotate(zt_process *p, zt_tensor x, const shared *s)
{
    const uint64_t half = x.elements / 2;
    zt_tensor direct = zt_mul(p, x, s->cos);
    zt_tensor first = zt_slice(p, x, half);
    zt_tensor second = zt_slice(p, x, half);
    zt_tensor negative = zt_neg(p, second);
    zt_tensor turned = zt_cat(p, negative, first);
    zt_release(p, &negative);
    zt_release(p, &first);
    zt_release(p, &second);
    zt_tensor across = zt_mul(p, turned, s->sin);
    zt_release(p, &turned);
    zt_tensor y = zt_add(p, direct, across);
    zt_release(p, &direct);
    zt_release(p, &across);
    return y;
}

/* A part of each head turns, the rest is passed; indexing by all of a head is the tensor itself,
 * the rest then an empty slice with a gradient like any. */
typedef struct parts {
    zt_tensor turning, rest;
} parts;

static parts parts_of(zt_process *p, zt_tensor x)
{
    const zl_hf_config *c = &p->run->model;
    const uint64_t turning = zl_mul(zl_exact_div(x.elements, c->head_dim), turning_of(c));
    parts y = {.turning = turning == x.elements ? zt_view(p, x) : zt_slice(p, x, turning)};
    y.rest = zt_slice(p, x, zl_sub(x.elements, turning));
    return y;
}

/* torch.cat([x * cos + rotate_half(x) * sin, rest]) */
static zt_tensor rotate_part(zt_process *p, parts x, const shared *s)
{
    zt_tensor turned = rotate(p, x.turning, s);
    zt_tensor y = zt_cat(p, turned, x.rest);
    zt_release(p, &turned);
    return y;
}

/* apply_rotary_pos_emb: *q, *k become the rotated ones. */
static void rotate_heads(zt_process *p, zt_tensor *q, zt_tensor *k, const shared *s)
{
    zt_tensor q_rotated = {0};
    zt_tensor k_rotated = {0};
    if (p->run->model.fused_projections) {
        parts q_parts = parts_of(p, *q);
        parts k_parts = parts_of(p, *k);
        q_rotated = rotate_part(p, q_parts, s);
        k_rotated = rotate_part(p, k_parts, s);
        zt_release(p, &q_parts.turning);
        zt_release(p, &q_parts.rest);
        zt_release(p, &k_parts.turning);
        zt_release(p, &k_parts.rest);
    } else {
        q_rotated = rotate(p, *q, s);
        k_rotated = rotate(p, *k, s);
    }
    zt_assign(p, q, q_rotated);
    zt_assign(p, k, k_rotated);
}

/* The norm runs before heads and tokens are transposed; the copy of the gradient is made behind it.
 */
static zt_tensor heads_of(zt_process *p, const zt_dense *d, const zt_norm *norm, zt_tensor x,
                          uint64_t heads)
{
    zt_tensor y = zt_call_dense(p, d, x);
    zt_assign(p, &y, zt_split_heads(p, y, heads > 1));
    if (norm->module != NULL) {
        zt_assign(p, &y, zt_call_rms_norm(p, norm, y));
        zt_assign(p, &y, zt_view(p, y));
    }
    return y;
}

/* One part of qkv. */
static zt_tensor part_of(zt_process *p, zt_tensor qkv, uint64_t heads)
{
    return zt_slice(p, qkv, zl_prod(zt_tokens(p), heads, p->run->model.head_dim));
}

static bool value_gradient_copies(const zt_process *p, zt_tensor values)
{
    return p->run->model.kv_heads > 1 &&
           (p->run->attention == ZL_TORCH_EAGER || zt_sdpa_is_written_out(p, values.element_bytes));
}

typedef struct projections {
    zt_tensor qkv; /* fused; else none */
    zt_tensor q, k, v;
} projections;

static projections project(zt_process *p, const llama_layer *l, zt_tensor x)
{
    const zl_hf_config *c = &p->run->model;
    projections y = {.qkv = {0}};
    if (c->fused_projections) {
        y.qkv = zt_call_dense(p, &l->qkv, x);
        y.q = part_of(p, y.qkv, c->heads);
        y.k = part_of(p, y.qkv, c->kv_heads);
        y.v = part_of(p, y.qkv, c->kv_heads);
        zt_assign(p, &y.q, zt_split_heads(p, y.q, c->heads > 1));
        zt_assign(p, &y.k, zt_split_heads(p, y.k, c->kv_heads > 1));
        zt_assign(p, &y.v, zt_split_heads(p, y.v, value_gradient_copies(p, y.qkv)));
        return y;
    }
    y.q = heads_of(p, &l->q, &l->q_norm, x, c->heads);
    y.k = heads_of(p, &l->k, &l->k_norm, x, c->kv_heads);
    y.v = zt_call_dense(p, &l->v, x);
    zt_assign(p, &y.v, zt_split_heads(p, y.v, value_gradient_copies(p, y.v)));
    return y;
}

/* repeat_kv */
static zt_tensor repeat(zt_process *p, zt_tensor x)
{
    const zl_hf_config *c = &p->run->model;
    return c->kv_heads == 1 ? zt_expand_head(p, x, c->heads)
                            : zt_repeat_kv(p, x, c->heads / c->kv_heads);
}

static zt_tensor attend_eager(zt_process *p, zt_tensor q, zt_tensor k, zt_tensor v, zt_tensor mask)
{
    const zl_torch_run *run = p->run;
    const zl_hf_config *c = &run->model;
    const bool repeated = c->kv_heads < c->heads; /* contiguous, unless it is a view of one head */
    const bool one = repeated && c->kv_heads == 1;
    const bool copies = zt_heads_need_copies(p);
    zt_tensor keys = repeat(p, k);
    zt_tensor values = repeat(p, v);
    const uint64_t scores = zl_prod(run->micro_batch, c->heads, run->seq, run->seq);
    const bool rotated = copies && !c->fused_projections; /* torch.cat made them contiguous */
    const bool cast = zt_autocast(p) && keys.element_bytes == FLOAT_BYTES; /* so does autocast */
    const bool keys_copy = one ? copies && !cast : rotated && !repeated;
    zt_tensor w = zt_matmul(p, q, rotated, keys, keys_copy, scores);
    zt_assign(p, &w, zt_scale(p, w));
    zt_assign(p, &w, zt_add(p, w, mask));
    zt_tensor high = zt_softmax_float(p, w);
    zt_tensor low = zt_to(p, high, q.element_bytes);
    zt_release(p, &high);
    zt_assign(p, &w, low);
    zt_assign(p, &w, zt_dropout(p, w, c->attention_dropout));
    zt_tensor out = zt_matmul(p, w, false, values, copies && (one || !repeated), q.elements);
    zt_assign(p, &out, zt_merge_heads(p, out, copies));
    zt_release(p, &keys);
    zt_release(p, &values);
    zt_release(p, &w);
    return out;
}

/* The cos and sin that a layer uses: those of all layers, or rows of its own tables, which
 * indexing by positions copies. */
static shared rotary_of_layer(zt_process *p, const shared *all, uint32_t element_bytes)
{
    shared s = *all;
    if (p->run->rotary_tables) {
        const uint64_t elements = zl_mul(p->run->seq, p->run->model.head_dim);
        s.cos = zt_tensor_new(p, elements, element_bytes);
        s.sin = zt_tensor_new(p, elements, element_bytes);
        return s;
    }
    s.cos = zt_share(p, s.cos);
    s.sin = zt_share(p, s.sin);
    return s;
}

static zt_tensor attention(zt_process *p, const call *c, zt_tensor x)
{
    const zl_torch_run *run = p->run;
    const llama_layer *l = c->layer;
    zt_enter(p, l->attention, NULL, 0);
    projections t = project(p, l, x);
    shared turn = rotary_of_layer(p, c->shared, x.element_bytes);
    rotate_heads(p, &t.q, &t.k, &turn);
    zt_release(p, &turn.cos);
    zt_release(p, &turn.sin);
    zt_tensor y = {0};
    if (run->attention == ZL_TORCH_EAGER) {
        y = attend_eager(p, t.q, t.k, t.v, c->shared->mask);
    } else {
        y = zt_sdpa(p, t.q, t.k, t.v,
                    (zt_attention_shape){.batch = run->micro_batch,
                                         .heads = run->model.heads,
                                         .kv_heads = run->model.kv_heads,
                                         .seq = run->seq,
                                         .head_dim = run->model.head_dim,
                                         .heads_outside = run->model.fused_projections});
    }
    zt_assign(p, &y, zt_call_dense(p, &l->o, y));
    zt_release(p, &t.qkv);
    zt_release(p, &t.q);
    zt_release(p, &t.k);
    zt_release(p, &t.v);
    zt_leave(p, l->attention, &y, 1);
    return y;
}

/* gate, up = gate_up_proj(x).chunk(2); down_proj(up * act(gate)) */
static zt_tensor fused_mlp(zt_process *p, const llama_layer *l, zt_tensor x)
{
    enum { GATE, UP, PARTS };
    zt_tensor part[PARTS];
    zt_tensor both = zt_call_dense(p, &l->gate_up, x);
    zt_split(p, both, part, PARTS);
    zt_release(p, &both);
    zt_tensor active = zt_call_activation(p, l->act, part[GATE]);
    zt_assign(p, &part[UP], zt_mul(p, part[UP], active));
    zt_release(p, &active);
    zt_tensor y = zt_call_dense(p, &l->down, part[UP]);
    zt_release(p, &part[GATE]);
    zt_release(p, &part[UP]);
    return y;
}

static zt_tensor mlp(zt_process *p, const llama_layer *l, zt_tensor x)
{
    zt_enter(p, l->mlp, &x, 1);
    if (p->run->model.fused_projections) {
        zt_tensor y = fused_mlp(p, l, x);
        zt_leave(p, l->mlp, &y, 1);
        return y;
    }
    zt_tensor gate = zt_call_dense(p, &l->gate, x);
    zt_assign(p, &gate, zt_call_activation(p, l->act, gate));
    zt_tensor up = zt_call_dense(p, &l->up, x);
    zt_tensor product = zt_mul(p, gate, up);
    zt_release(p, &gate);
    zt_release(p, &up);
    zt_tensor y = zt_call_dense(p, &l->down, product);
    zt_release(p, &product);
    zt_leave(p, l->mlp, &y, 1);
    return y;
}

/* What joins the residual. */
static zt_tensor drop_out(zt_process *p, zt_module *m, zt_tensor x)
{
    return m == NULL ? zt_share(p, x) : zt_call_dropout(p, m, x, p->run->model.hidden_dropout);
}

static zt_tensor layer(zt_process *p, void *context, zt_tensor x)
{
    const call *c = context;
    const llama_layer *l = c->layer;
    zt_enter(p, l->self, &x, 1);
    zt_tensor residual = zt_share(p, x);
    zt_tensor hidden = call_norm(p, &l->input_norm, x);
    zt_assign(p, &hidden, attention(p, c, hidden));
    zt_assign(p, &hidden, drop_out(p, l->attention_dropout, hidden));
    zt_assign(p, &hidden, zt_add(p, residual, hidden));
    zt_assign(p, &residual, zt_share(p, hidden));
    zt_assign(p, &hidden, call_norm(p, &l->post_attention_norm, hidden));
    zt_assign(p, &hidden,
              l->experts != NULL ? zt_call_experts(p, l->experts, hidden) : mlp(p, l, hidden));
    zt_assign(p, &hidden, drop_out(p, l->mlp_dropout, hidden));
    zt_assign(p, &hidden, zt_add(p, residual, hidden));
    zt_release(p, &residual);
    zt_leave(p, l->self, &hidden, 1);
    return hidden;
}

/* What a layer is called with besides the hidden states, in the order in which it dies: that of the
 * call, the tuple of cos and sin from its end. */
static void keyword_arguments(const zt_process *p, const shared *s, zt_storage *kept)
{
    const bool ids_first = p->run->model.arch == ZL_HF_MIXTRAL;
    *kept++ = s->mask.storage;
    if (ids_first) {
        *kept++ = s->position_ids;
    }
    *kept++ = s->sin.storage;
    *kept++ = s->cos.storage;
    if (!ids_first) {
        *kept++ = s->position_ids;
    }
}

/* Qwen2 and Qwen3 have a dict of masks, and one of the arguments that it was made from: its
 * references to the embedded tokens and their positions are the last ones. */
static bool has_masks_by_name(const zl_hf_config *c)
{
    return c->plain_output || c->query_norm;
}

static zt_tensor transform(zt_process *p, const llama *m, zt_storage ids)
{
    const uint64_t layers = p->run->model.layers;
    zt_enter(p, m->self, NULL, 0);
    zt_tensor embedded = call_table(p, &m->word, ids);
    shared *s = zt_tape_arena(p, 1, sizeof *s);
    s->position_ids = zt_position_ids(p);
    s->mask = zt_causal_mask(p, embedded.element_bytes);
    zt_tensor hidden = zt_share(p, embedded);
    if (m->rotary != NULL) {
        rotary(p, m, hidden, s);
    }
    enum { KEPT = 4 };
    zt_storage kept[KEPT];
    keyword_arguments(p, s, kept);
    call *calls = zt_tape_arena(p, layers, sizeof *calls);
    for (uint64_t i = 0; i < layers; i++) {
        calls[i] = (call){.layer = &m->layer[i], .shared = s};
        zt_assign(p, &hidden, zt_call_layer(p, layer, &calls[i], hidden, kept, KEPT));
    }
    zt_assign(p, &hidden, call_norm(p, &m->norm, hidden));
    shared mine = *s; /* recomputed layers still read what the tensors are */
    if (has_masks_by_name(&p->run->model)) {
        zt_release(p, &mine.mask);
        zt_release(p, &embedded);
        zt_drop(p, &mine.position_ids);
    } else {
        zt_drop(p, &mine.position_ids);
        zt_release(p, &embedded);
        zt_release(p, &mine.mask);
    }
    zt_release(p, &mine.cos);
    zt_release(p, &mine.sin);
    zt_leave(p, m->self, &hidden, 1);
    return hidden;
}

static zt_output forward(zt_process *p, void *model, const zt_batch *batch)
{
    const llama *m = model;
    zt_tensor hidden = transform(p, m, batch->ids);
    zt_output out = {.logits = zt_call_dense(p, &m->head, hidden)};
    out.loss = p->run->shifted_logits ? zt_shifted_causal_loss(p, &out.logits)
                                      : zt_causal_loss(p, out.logits);
    zt_release(p, &hidden);
    return out;
}

const zt_architecture zt_llama = {.build = build, .forward = forward};
