/* LlamaForCausalLM and MixtralForCausalLM (transformers, models/llama, models/mixtral). */
#include "torch/hf_mixtral.h"
#include "torch/modules.h"
#include "zeroledger/bytes.h"

enum { FLOAT_BYTES = 4 };

typedef struct llama_layer {
    zt_module *self, *attention;
    zt_dense q, k, v, o;
    zt_module *mlp, *act; /* mlp NULL: experts */
    zt_dense gate, up, down;
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

/* ---- building ---- */

static void build_attention(zt_process *p, llama_layer *l)
{
    const zl_hf_config *c = &p->run->model;
    const uint64_t q = zl_mul(c->heads, c->head_dim);
    const uint64_t kv = zl_mul(c->kv_heads, c->head_dim);
    l->attention = zt_module_new(p, l->self, "self_attn");
    l->q = zt_linear_new(p, l->attention, "q_proj", c->hidden, q, c->attention_bias);
    l->k = zt_linear_new(p, l->attention, "k_proj", c->hidden, kv, c->attention_bias);
    l->v = zt_linear_new(p, l->attention, "v_proj", c->hidden, kv, c->attention_bias);
    l->o = zt_linear_new(p, l->attention, "o_proj", q, c->hidden,
                         c->attention_bias && !c->plain_output);
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
}

static void *build(zt_process *p)
{
    const zl_hf_config *c = &p->run->model;
    llama *m = zt_arena(p, 1, sizeof *m);
    zt_module *root = zt_module_new(p, NULL, "");
    m->self = zt_module_new(p, root, "model");
    m->word = zt_embedding_new(p, m->self, "embed_tokens", c->vocab, c->hidden);
    zt_module *list = zt_module_list_new(p, m->self, "layers");
    m->layer = zt_arena(p, c->layers, sizeof *m->layer);
    for (uint64_t i = 0; i < c->layers; i++) {
        build_layer(p, &m->layer[i], list, i);
    }
    m->norm = zt_rms_norm_new(p, m->self, "norm", c->hidden);
    if (!p->run->rotary_tables) {
        m->rotary = zt_module_new(p, m->self, "rotary_emb");
        zt_float_buffer_new(p, m->rotary, c->head_dim / 2); /* inv_freq and its original */
        zt_float_buffer_new(p, m->rotary, c->head_dim / 2);
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
    const uint64_t half = p->run->model.head_dim / 2;
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

static zt_tensor heads_of(zt_process *p, const zt_dense *d, zt_tensor x, bool gradient_copies)
{
    zt_tensor y = zt_call_dense(p, d, x);
    zt_assign(p, &y, zt_split_heads(p, y, gradient_copies));
    return y;
}

static zt_tensor attend_eager(zt_process *p, zt_tensor q, zt_tensor k, zt_tensor v, zt_tensor mask)
{
    const zl_torch_run *run = p->run;
    const zl_hf_config *c = &run->model;
    const bool repeated = c->kv_heads < c->heads;
    const bool copies = zt_heads_need_copies(p);
    zt_tensor keys = zt_repeat_kv(p, k, c->heads / c->kv_heads);
    zt_tensor values = zt_repeat_kv(p, v, c->heads / c->kv_heads);
    const uint64_t scores = zl_prod(run->micro_batch, c->heads, run->seq, run->seq);
    zt_tensor w = zt_matmul(p, q, copies, keys, copies && !repeated, scores);
    zt_assign(p, &w, zt_scale(p, w));
    zt_assign(p, &w, zt_add(p, w, mask));
    zt_tensor high = zt_softmax_float(p, w);
    zt_tensor low = zt_to(p, high, q.element_bytes);
    zt_release(p, &high);
    zt_assign(p, &w, low);
    zt_assign(p, &w, zt_dropout(p, w, c->attention_dropout));
    zt_tensor out = zt_matmul(p, w, false, values, copies && !repeated, q.elements);
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
    const bool eager = run->attention == ZL_TORCH_EAGER;
    zt_enter(p, l->attention, NULL, 0);
    zt_tensor q = heads_of(p, &l->q, x, true);
    zt_tensor k = heads_of(p, &l->k, x, true);
    zt_tensor v = zt_call_dense(p, &l->v, x);
    zt_assign(p, &v, zt_split_heads(p, v, eager || zt_sdpa_is_written_out(p, v.element_bytes)));
    shared turn = rotary_of_layer(p, c->shared, x.element_bytes);
    zt_tensor q_rotated = rotate(p, q, &turn);
    zt_tensor k_rotated = rotate(p, k, &turn);
    zt_release(p, &turn.cos);
    zt_release(p, &turn.sin);
    zt_assign(p, &q, q_rotated);
    zt_assign(p, &k, k_rotated);
    zt_tensor y = {0};
    if (eager) {
        y = attend_eager(p, q, k, v, c->shared->mask);
    } else {
        y = zt_sdpa(p, q, k, v,
                    (zt_attention_shape){.batch = run->micro_batch,
                                         .heads = run->model.heads,
                                         .kv_heads = run->model.kv_heads,
                                         .seq = run->seq,
                                         .head_dim = run->model.head_dim});
    }
    zt_assign(p, &y, zt_call_dense(p, &l->o, y));
    zt_release(p, &q);
    zt_release(p, &k);
    zt_release(p, &v);
    zt_leave(p, l->attention, &y, 1);
    return y;
}

static zt_tensor mlp(zt_process *p, const llama_layer *l, zt_tensor x)
{
    zt_enter(p, l->mlp, &x, 1);
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

static zt_tensor layer(zt_process *p, void *context, zt_tensor x)
{
    const call *c = context;
    const llama_layer *l = c->layer;
    zt_enter(p, l->self, &x, 1);
    zt_tensor residual = zt_share(p, x);
    zt_tensor hidden = zt_call_rms_norm(p, &l->input_norm, x);
    zt_assign(p, &hidden, attention(p, c, hidden));
    zt_assign(p, &hidden, zt_add(p, residual, hidden));
    zt_assign(p, &residual, zt_share(p, hidden));
    zt_assign(p, &hidden, zt_call_rms_norm(p, &l->post_attention_norm, hidden));
    zt_assign(p, &hidden,
              l->experts != NULL ? zt_call_experts(p, l->experts, hidden) : mlp(p, l, hidden));
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

static zt_tensor transform(zt_process *p, const llama *m, zt_storage ids)
{
    const uint64_t layers = p->run->model.layers;
    zt_enter(p, m->self, NULL, 0);
    zt_tensor embedded = zt_call_input_embedding(p, &m->word, ids);
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
    zt_assign(p, &hidden, zt_call_rms_norm(p, &m->norm, hidden));
    shared mine = *s; /* recomputed layers still read what the tensors are */
    zt_drop(p, &mine.position_ids);
    zt_release(p, &embedded);
    zt_release(p, &mine.mask);
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
