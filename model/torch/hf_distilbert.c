/* DistilBertForMaskedLM (transformers, models/distilbert/modeling_distilbert.py): BERT's attention,
 * no token types, residual sums without dropout behind attention, a head of the root's own. */
#include "torch/hf_bert.h"
#include "zeroledger/bytes.h"

typedef struct distil_layer {
    zt_module *self, *attention, *attention_dropout, *ffn, *dropout, *act;
    zt_dense query, key, value, out, up, down;
    zt_norm attention_norm, output_norm;
} distil_layer;

typedef struct distil {
    zt_module *self, *act, *embeddings, *embeddings_dropout, *transformer, *loss;
    zt_table word, position;
    zt_norm embeddings_norm, vocab_norm;
    distil_layer *layer;
    zt_dense transform, projector;
} distil;

/* ---- building ---- */

static void build_embeddings(zt_process *p, distil *d)
{
    const zl_hf_config *c = &p->run->model;
    d->embeddings = zt_module_new(p, d->self, "embeddings");
    d->word = zt_embedding_new(p, d->embeddings, "word_embeddings", c->vocab, c->hidden);
    d->position =
        zt_embedding_new(p, d->embeddings, "position_embeddings", c->positions, c->hidden);
    d->embeddings_norm = zt_layer_norm_new(p, d->embeddings, "LayerNorm", c->hidden);
    d->embeddings_dropout = zt_module_new(p, d->embeddings, "dropout");
    zt_int64_buffer_new(p, d->embeddings, c->positions); /* position_ids */
}

static void build_layer(zt_process *p, distil_layer *l, zt_module *list, uint64_t index)
{
    const uint64_t h = p->run->model.hidden;
    const uint64_t f = p->run->model.ffn;
    l->self = zt_layer_new(p, list, index);
    l->attention = zt_module_new(p, l->self, "attention");
    l->query = zt_linear_new(p, l->attention, "q_lin", h, h, true);
    l->key = zt_linear_new(p, l->attention, "k_lin", h, h, true);
    l->value = zt_linear_new(p, l->attention, "v_lin", h, h, true);
    l->out = zt_linear_new(p, l->attention, "out_lin", h, h, true);
    l->attention_dropout = zt_module_new(p, l->attention, "dropout");
    l->attention_norm = zt_layer_norm_new(p, l->self, "sa_layer_norm", h);
    l->ffn = zt_module_new(p, l->self, "ffn");
    l->dropout = zt_module_new(p, l->ffn, "dropout");
    l->up = zt_linear_new(p, l->ffn, "lin1", h, f, true);
    l->down = zt_linear_new(p, l->ffn, "lin2", f, h, true);
    l->act = zt_module_new(p, l->ffn, "activation");
    l->output_norm = zt_layer_norm_new(p, l->self, "output_layer_norm", h);
}

static void *build(zt_process *p)
{
    const zl_hf_config *c = &p->run->model;
    distil *d = zt_arena(p, 1, sizeof *d);
    zt_module *root = zt_module_new(p, NULL, "");
    d->act = zt_module_new(p, root, "activation");
    d->self = zt_module_new(p, root, "distilbert");
    build_embeddings(p, d);
    d->transformer = zt_module_new(p, d->self, "transformer");
    zt_module *list = zt_module_list_new(p, d->transformer, "layer");
    d->layer = zt_arena(p, c->layers, sizeof *d->layer);
    for (uint64_t i = 0; i < c->layers; i++) {
        build_layer(p, &d->layer[i], list, i);
    }
    d->transform = zt_linear_new(p, root, "vocab_transform", c->hidden, c->hidden, true);
    d->vocab_norm = zt_layer_norm_new(p, root, "vocab_layer_norm", c->hidden);
    d->projector = c->tied ? zt_tied_linear_new(p, root, "vocab_projector", d->word.weight, true)
                           : zt_linear_new(p, root, "vocab_projector", c->hidden, c->vocab, true);
    d->loss = zt_module_new(p, root, "mlm_loss_fct");
    return d;
}

/* ---- forward ---- */

static zt_tensor embed(zt_process *p, const distil *d, zt_storage ids)
{
    const zl_hf_config *c = &p->run->model;
    zt_tensor input = {.storage = ids};
    zt_enter(p, d->embeddings, &input, 1);
    zt_tensor word = zt_call_input_embedding(p, &d->word, ids);
    zt_tensor position =
        zt_call_embedding(p, &d->position, d->embeddings->buffer[0].storage, p->run->seq, false);
    zt_tensor sum = zt_add(p, word, position);
    zt_assign(p, &sum, zt_call_layer_norm(p, &d->embeddings_norm, sum));
    zt_assign(p, &sum, zt_call_dropout(p, d->embeddings_dropout, sum, c->embedding_dropout));
    zt_release(p, &word);
    zt_release(p, &position);
    zt_leave(p, d->embeddings, &sum, 1);
    return sum;
}

static zt_attended attention(zt_process *p, const distil_layer *l, zt_tensor x)
{
    zt_enter(p, l->attention, &x, 1);
    zt_attended a = zt_bert_attend(p, &l->query, &l->key, &l->value, &l->out, x);
    zt_leave(p, l->attention, &a.out, 1);
    return a;
}

static zt_tensor feed_forward(zt_process *p, const distil_layer *l, zt_tensor x)
{
    zt_enter(p, l->ffn, &x, 1);
    zt_tensor y = zt_call_dense(p, &l->up, x);
    zt_assign(p, &y, zt_call_activation(p, l->act, y));
    zt_assign(p, &y, zt_call_dense(p, &l->down, y));
    zt_assign(p, &y, zt_call_dropout(p, l->dropout, y, p->run->model.hidden_dropout));
    zt_leave(p, l->ffn, &y, 1);
    return y;
}

/* layer_norm(y + x) */
static zt_tensor close(zt_process *p, const zt_norm *norm, zt_tensor y, zt_tensor x)
{
    zt_tensor sum = zt_add(p, y, x);
    zt_tensor normed = zt_call_layer_norm(p, norm, sum);
    zt_release(p, &sum);
    return normed;
}

static zt_tensor layer(zt_process *p, void *context, zt_tensor x)
{
    const distil_layer *l = context;
    zt_enter(p, l->self, &x, 1);
    zt_attended a = attention(p, l, x);
    zt_assign(p, &a.out, close(p, &l->attention_norm, a.out, x));
    zt_tensor y = feed_forward(p, l, a.out);
    zt_assign(p, &y, close(p, &l->output_norm, y, a.out));
    zt_release(p, &a.out);
    zt_release(p, &a.weights);
    zt_leave(p, l->self, &y, 1);
    return y;
}

static zt_tensor transform(zt_process *p, const distil *d, zt_tensor x)
{
    zt_enter(p, d->transformer, &x, 1);
    zt_tensor hidden = zt_share(p, x);
    for (uint64_t i = 0; i < p->run->model.layers; i++) {
        zt_assign(p, &hidden, zt_call_layer(p, layer, &d->layer[i], hidden, NULL, 0));
    }
    zt_leave(p, d->transformer, &hidden, 1);
    return hidden;
}

static zt_output forward(zt_process *p, void *model, const zt_batch *batch)
{
    const distil *d = model;
    zt_tensor ids = {.storage = batch->ids};
    zt_enter(p, d->self, &ids, 1);
    zt_tensor embedded = embed(p, d, batch->ids);
    zt_tensor hidden = transform(p, d, embedded);
    zt_release(p, &embedded);
    zt_leave(p, d->self, &hidden, 1);
    zt_tensor t = zt_call_dense(p, &d->transform, hidden);
    zt_assign(p, &t, zt_call_activation(p, d->act, t));
    zt_assign(p, &t, zt_call_layer_norm(p, &d->vocab_norm, t));
    zt_output out = {.logits = zt_call_dense(p, &d->projector, t)};
    zt_release(p, &t);
    zt_enter(p, d->loss, &out.logits, 1);
    out.loss = zt_cross_entropy(p, out.logits, batch->ids);
    zt_leave(p, d->loss, &out.loss, 1);
    zt_release(p, &hidden);
    return out;
}

const zt_architecture zt_distilbert = {.build = build, .forward = forward};
