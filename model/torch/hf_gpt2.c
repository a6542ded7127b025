/* GPT2LMHeadModel (transformers, models/gpt2/modeling_gpt2.py). */
#include "torch/modules.h"
#include "zeroledger/bytes.h"

typedef struct gpt2_layer {
    zt_module *self, *attention, *attention_dropout, *residual_dropout, *mlp, *act, *mlp_dropout;
    zt_norm norm_1, norm_2;
    zt_dense qkv, attention_projection, up, down;
} gpt2_layer;

typedef struct gpt2 {
    zt_module *self, *dropout;
    zt_table word, position;
    gpt2_layer *layer;
    zt_norm final_norm;
    zt_dense head;
} gpt2;

/* ---- building ---- */

static void build_layer(zt_process *p, gpt2_layer *l, zt_module *list, uint64_t index)
{
    const zl_hf_config *c = &p->run->model;
    l->self = zt_layer_new(p, list, index);
    l->norm_1 = zt_layer_norm_new(p, l->self, "ln_1", c->hidden);
    l->attention = zt_module_new(p, l->self, "attn");
    l->qkv = zt_conv1d_new(p, l->attention, "c_attn", c->hidden, zl_mul(3, c->hidden));
    l->attention_projection = zt_conv1d_new(p, l->attention, "c_proj", c->hidden, c->hidden);
    l->attention_dropout = zt_module_new(p, l->attention, "attn_dropout");
    l->residual_dropout = zt_module_new(p, l->attention, "resid_dropout");
    l->norm_2 = zt_layer_norm_new(p, l->self, "ln_2", c->hidden);
    l->mlp = zt_module_new(p, l->self, "mlp");
    l->up = zt_conv1d_new(p, l->mlp, "c_fc", c->hidden, c->ffn);
    l->down = zt_conv1d_new(p, l->mlp, "c_proj", c->ffn, c->hidden);
    l->act = zt_module_new(p, l->mlp, "act");
    l->mlp_dropout = zt_module_new(p, l->mlp, "dropout");
}

static void *build(zt_process *p)
{
    const zl_hf_config *c = &p->run->model;
    gpt2 *g = zt_arena(p, 1, sizeof *g);
    zt_module *root = zt_module_new(p, NULL, "");
    g->self = zt_module_new(p, root, "transformer");
    g->word = zt_embedding_new(p, g->self, "wte", c->vocab, c->hidden);
    g->position = zt_embedding_new(p, g->self, "wpe", c->positions, c->hidden);
    g->dropout = zt_module_new(p, g->self, "drop");
    zt_module *list = zt_module_list_new(p, g->self, "h");
    g->layer = zt_arena(p, c->layers, sizeof *g->layer);
    for (uint64_t i = 0; i < c->layers; i++) {
        build_layer(p, &g->layer[i], list, i);
    }
    g->final_norm = zt_layer_norm_new(p, g->self, "ln_f", c->hidden);
    g->head = c->tied ? zt_tied_linear_new(p, root, "lm_head", g->word.weight, false)
                      : zt_linear_new(p, root, "lm_head", c->hidden, c->vocab, false);
    return g;
}

/* ---- forward ---- */

/* One layer's context: the module and the mask of this forward. */
typedef struct call {
    const gpt2_layer *layer;
    zt_tensor mask;
} call;

static zt_tensor attend_eager(zt_process *p, const zt_tensor *qkv, zt_tensor mask)
{
    const zl_torch_run *run = p->run;
    const bool copies = zt_heads_need_copies(p);
    const uint64_t scores = zl_prod(run->micro_batch, run->model.heads, run->seq, run->seq);
    zt_tensor w = zt_matmul(p, qkv[0], copies, qkv[1], copies, scores);
    zt_assign(p, &w, zt_scale(p, w));
    zt_assign(p, &w, zt_add(p, w, mask));
    zt_assign(p, &w, zt_softmax(p, w));
    zt_assign(p, &w, zt_to(p, w, qkv[2].element_bytes));
    zt_assign(p, &w, zt_dropout(p, w, run->model.attention_dropout));
    zt_tensor out = zt_matmul(p, w, false, qkv[2], copies, qkv[0].elements);
    zt_assign(p, &out, zt_merge_heads(p, out, copies));
    zt_release(p, &w);
    return out;
}

static zt_tensor attention(zt_process *p, const call *c, zt_tensor x)
{
    enum { Q, K, V, QKV };
    const zl_torch_run *run = p->run;
    const gpt2_layer *l = c->layer;
    const bool eager = run->attention == ZL_TORCH_EAGER;
    zt_enter(p, l->attention, &x, 1);
    zt_tensor qkv = zt_call_dense(p, &l->qkv, x);
    zt_tensor part[QKV];
    zt_split(p, qkv, part, QKV);
    zt_release(p, &qkv);
    const bool copies = eager && run->model.heads > 1;
    zt_assign(p, &part[K], zt_split_heads(p, part[K], false));
    zt_assign(p, &part[V], zt_split_heads(p, part[V], copies));
    zt_assign(p, &part[Q], zt_split_heads(p, part[Q], copies));
    zt_tensor y = {0};
    if (eager) {
        y = attend_eager(p, part, c->mask);
    } else {
        y = zt_sdpa(p, part[Q], part[K], part[V],
                    (zt_attention_shape){.batch = run->micro_batch,
                                         .heads = run->model.heads,
                                         .kv_heads = run->model.heads,
                                         .seq = run->seq,
                                         .head_dim = run->model.head_dim});
    }
    zt_assign(p, &y, zt_call_dense(p, &l->attention_projection, y));
    zt_assign(p, &y, zt_call_dropout(p, l->residual_dropout, y, run->model.hidden_dropout));
    for (uint32_t i = 0; i < QKV; i++) {
        zt_release(p, &part[i]);
    }
    zt_leave(p, l->attention, &y, 1);
    return y;
}

static zt_tensor mlp(zt_process *p, const gpt2_layer *l, zt_tensor x)
{
    zt_enter(p, l->mlp, &x, 1);
    zt_tensor y = zt_call_dense(p, &l->up, x);
    zt_assign(p, &y, zt_call_activation(p, l->act, y));
    zt_assign(p, &y, zt_call_dense(p, &l->down, y));
    zt_assign(p, &y, zt_call_dropout(p, l->mlp_dropout, y, p->run->model.hidden_dropout));
    zt_leave(p, l->mlp, &y, 1);
    return y;
}

static zt_tensor layer(zt_process *p, void *context, zt_tensor x)
{
    const call *c = context;
    const gpt2_layer *l = c->layer;
    zt_enter(p, l->self, &x, 1);
    zt_tensor hidden = zt_call_layer_norm(p, &l->norm_1, x);
    zt_tensor attended = attention(p, c, hidden);
    zt_assign(p, &hidden, zt_add(p, attended, x));
    zt_tensor residual = zt_share(p, hidden);
    zt_assign(p, &hidden, zt_call_layer_norm(p, &l->norm_2, hidden));
    zt_tensor fed = mlp(p, l, hidden);
    zt_assign(p, &hidden, zt_add(p, residual, fed));
    if (zt_stopped(p)) { /* an argument dies before the locals */
        zt_release(p, &hidden);
    }
    zt_release(p, &residual);
    zt_release(p, &attended);
    zt_release(p, &fed);
    zt_leave(p, l->self, &hidden, 1);
    return hidden;
}

static zt_tensor transform(zt_process *p, const gpt2 *g, zt_storage ids)
{
    const zl_torch_run *run = p->run;
    zt_tensor input = {.storage = ids};
    zt_enter(p, g->self, &input, 1);
    zt_tensor word = zt_call_input_embedding(p, &g->word, ids);
    zt_storage position_ids = zt_position_ids(p);
    zt_tensor position = zt_call_embedding(p, &g->position, position_ids, run->seq, false);
    zt_tensor hidden = zt_add(p, word, position);
    zt_tensor mask = zt_causal_mask(p, hidden.element_bytes);
    zt_assign(p, &hidden, zt_call_dropout(p, g->dropout, hidden, run->model.embedding_dropout));
    call *calls = zt_tape_arena(p, run->model.layers, sizeof *calls);
    for (uint64_t i = 0; i < run->model.layers; i++) {
        calls[i] = (call){.layer = &g->layer[i], .mask = mask};
        zt_assign(p, &hidden, zt_call_layer(p, layer, &calls[i], hidden, &mask.storage, 1));
    }
    zt_assign(p, &hidden, zt_call_layer_norm(p, &g->final_norm, hidden));
    zt_drop(p, &position_ids);
    zt_release(p, &word);
    zt_release(p, &position);
    zt_release(p, &mask);
    zt_leave(p, g->self, &hidden, 1);
    return hidden;
}

static zt_output forward(zt_process *p, void *model, const zt_batch *batch)
{
    const gpt2 *g = model;
    zt_tensor hidden = transform(p, g, batch->ids);
    zt_output out = {.logits = zt_call_dense(p, &g->head, hidden)};
    out.loss = zt_causal_loss(p, out.logits);
    zt_release(p, &hidden);
    return out;
}

const zt_architecture zt_gpt2 = {.build = build, .forward = forward};
