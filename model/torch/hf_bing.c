/* BertForPreTrainingPreLN: BERT with the norms in front, as DeepSpeedExamples trained it in
 * bing_bert (nvidia/modelingpreln.py, turing/models.py). Its modules and parameters are written
 * down here, its operations are not: what forward leaves for backward has to be given, so
 * activation functions, dropout and residual sums, which have no parameters, are left out. */
#include "torch/modules.h"
#include "zeroledger/bytes.h"

typedef struct bing_layer {
    zt_module *self, *attention, *attend, *attention_dropout, *softmax, *attention_output,
        *attention_output_dropout, *intermediate, *output, *output_dropout;
    zt_norm attention_norm, output_norm;
    zt_dense query, key, value, attention_dense, up, down;
} bing_layer;

typedef struct bing {
    zt_module *self, *embeddings, *embeddings_dropout, *encoder, *pooler, *heads, *predictions,
        *transform;
    zt_table word, position, type;
    zt_norm embeddings_norm, final_norm, transform_norm;
    bing_layer *layer;
    zt_param *bias; /* of the decoder */
    zt_dense pooler_dense, transform_dense, decoder, next_sentence;
} bing;

/* ---- building ---- */

static void build_embeddings(zt_process *p, bing *b)
{
    const zl_hf_config *c = &p->run->model;
    b->embeddings = zt_module_new(p, b->self, "embeddings");
    b->word = zt_embedding_new(p, b->embeddings, "word_embeddings", c->vocab, c->hidden);
    b->position =
        zt_embedding_new(p, b->embeddings, "position_embeddings", c->positions, c->hidden);
    b->type = zt_embedding_new(p, b->embeddings, "token_type_embeddings", c->types, c->hidden);
    b->embeddings_norm = zt_layer_norm_new(p, b->embeddings, "LayerNorm", c->hidden);
    b->embeddings_dropout = zt_module_new(p, b->embeddings, "dropout");
}

static void build_layer(zt_process *p, bing_layer *l, zt_module *list, uint64_t index)
{
    const uint64_t h = p->run->model.hidden;
    const uint64_t f = p->run->model.ffn;
    l->self = zt_layer_new(p, list, index);
    l->attention = zt_module_new(p, l->self, "attention");
    l->attend = zt_module_new(p, l->attention, "self");
    l->query = zt_linear_new(p, l->attend, "query", h, h, true);
    l->key = zt_linear_new(p, l->attend, "key", h, h, true);
    l->value = zt_linear_new(p, l->attend, "value", h, h, true);
    l->attention_dropout = zt_module_new(p, l->attend, "dropout");
    l->softmax = zt_module_new(p, l->attend, "softmax");
    l->attention_output = zt_module_new(p, l->attention, "output");
    l->attention_dense = zt_linear_new(p, l->attention_output, "dense", h, h, true);
    l->attention_output_dropout = zt_module_new(p, l->attention_output, "dropout");
    l->attention_norm = zt_layer_norm_new(p, l->self, "PreAttentionLayerNorm", h);
    l->output_norm = zt_layer_norm_new(p, l->self, "PostAttentionLayerNorm", h);
    l->intermediate = zt_module_new(p, l->self, "intermediate");
    l->up = zt_linear_new(p, l->intermediate, "dense_act", h, f, true);
    l->output = zt_module_new(p, l->self, "output");
    l->down = zt_linear_new(p, l->output, "dense", f, h, true);
    l->output_dropout = zt_module_new(p, l->output, "dropout");
}

static void build_heads(zt_process *p, bing *b, zt_module *root)
{
    const uint64_t h = p->run->model.hidden;
    b->heads = zt_module_new(p, root, "cls");
    b->predictions = zt_module_new(p, b->heads, "predictions");
    b->transform = zt_module_new(p, b->predictions, "transform");
    b->transform_dense = zt_linear_new(p, b->transform, "dense_act", h, h, true);
    b->transform_norm = zt_layer_norm_new(p, b->transform, "LayerNorm", h);
    b->decoder = zt_tied_linear_new(p, b->predictions, "decoder", b->word.weight, false);
    b->bias = zt_param_new(p, b->predictions, "bias", p->run->model.vocab, 0);
    b->next_sentence = zt_linear_new(p, b->heads, "seq_relationship", h, 2, true);
}

static void *build(zt_process *p)
{
    const zl_hf_config *c = &p->run->model;
    bing *b = zt_arena(p, 1, sizeof *b);
    zt_module *root = zt_module_new(p, NULL, "");
    b->self = zt_module_new(p, root, "bert");
    build_embeddings(p, b);
    b->encoder = zt_module_new(p, b->self, "encoder");
    b->final_norm = zt_layer_norm_new(p, b->encoder, "FinalLayerNorm", c->hidden);
    zt_module *list = zt_module_list_new(p, b->encoder, "layer");
    b->layer = zt_arena(p, c->layers, sizeof *b->layer);
    for (uint64_t i = 0; i < c->layers; i++) {
        build_layer(p, &b->layer[i], list, i);
    }
    b->pooler = zt_module_new(p, b->self, "pooler");
    b->pooler_dense = zt_linear_new(p, b->pooler, "dense_act", c->hidden, c->hidden, true);
    build_heads(p, b, root);
    return b;
}

/* ---- forward ---- */

static zt_tensor embed(zt_process *p, const bing *b, zt_storage ids)
{
    const uint64_t tokens = zt_tokens(p);
    zt_enter(p, b->embeddings, NULL, 0);
    zt_tensor sum = zt_call_embedding(p, &b->word, ids, tokens, false);
    zt_tensor position = zt_call_embedding(p, &b->position, ids, tokens, false);
    zt_assign(p, &sum, zt_add(p, sum, position));
    zt_release(p, &position);
    zt_tensor type = zt_call_embedding(p, &b->type, ids, tokens, false);
    zt_assign(p, &sum, zt_add(p, sum, type));
    zt_release(p, &type);
    zt_assign(p, &sum, zt_call_layer_norm(p, &b->embeddings_norm, sum));
    zt_assign(p, &sum, zt_call_dropout(p, b->embeddings_dropout, sum, 0));
    zt_leave(p, b->embeddings, &sum, 1);
    return sum;
}

/* A module of one dense layer and, where it has one, a dropout. */
static zt_tensor call(zt_process *p, zt_module *m, const zt_dense *dense, zt_module *dropout,
                      zt_tensor x)
{
    zt_enter(p, m, &x, 1);
    zt_tensor y = zt_call_dense(p, dense, x);
    if (dropout != NULL) {
        zt_assign(p, &y, zt_call_dropout(p, dropout, y, 0));
    }
    zt_leave(p, m, &y, 1);
    return y;
}

static zt_tensor attend(zt_process *p, const bing_layer *l, zt_tensor x)
{
    zt_enter(p, l->attend, &x, 1);
    zt_tensor q = zt_call_dense(p, &l->query, x);
    zt_tensor k = zt_call_dense(p, &l->key, x);
    zt_tensor v = zt_call_dense(p, &l->value, x);
    const zl_torch_run *run = p->run;
    const uint64_t scores = zl_prod(run->micro_batch, run->model.heads, run->seq, run->seq);
    zt_tensor w = zt_matmul(p, q, false, k, false, scores);
    zt_enter(p, l->softmax, &w, 1);
    zt_assign(p, &w, zt_softmax(p, w));
    zt_leave(p, l->softmax, &w, 1);
    zt_assign(p, &w, zt_call_dropout(p, l->attention_dropout, w, 0));
    zt_tensor out = zt_matmul(p, w, false, v, false, q.elements);
    zt_release(p, &q);
    zt_release(p, &k);
    zt_release(p, &v);
    zt_release(p, &w);
    zt_leave(p, l->attend, &out, 1);
    return out;
}

static zt_tensor attention(zt_process *p, const bing_layer *l, zt_tensor x)
{
    zt_enter(p, l->attention, &x, 1);
    zt_tensor y = attend(p, l, x);
    zt_assign(p, &y,
              call(p, l->attention_output, &l->attention_dense, l->attention_output_dropout, y));
    zt_leave(p, l->attention, &y, 1);
    return y;
}

static zt_tensor layer(zt_process *p, void *context, zt_tensor x)
{
    const bing_layer *l = context;
    zt_enter(p, l->self, &x, 1);
    zt_tensor y = zt_call_layer_norm(p, &l->attention_norm, x);
    zt_assign(p, &y, attention(p, l, y));
    zt_tensor middle = zt_add(p, x, y);
    zt_assign(p, &y, zt_call_layer_norm(p, &l->output_norm, middle));
    zt_assign(p, &y, call(p, l->intermediate, &l->up, NULL, y));
    zt_assign(p, &y, call(p, l->output, &l->down, l->output_dropout, y));
    zt_assign(p, &y, zt_add(p, y, middle));
    zt_release(p, &middle);
    zt_leave(p, l->self, &y, 1);
    return y;
}

static zt_tensor encode(zt_process *p, const bing *b, zt_tensor x)
{
    zt_enter(p, b->encoder, &x, 1);
    zt_tensor hidden = zt_share(p, x);
    for (uint64_t i = 0; i < p->run->model.layers; i++) {
        zt_assign(p, &hidden, zt_call_layer(p, layer, &b->layer[i], hidden, NULL, 0));
    }
    zt_assign(p, &hidden, zt_call_layer_norm(p, &b->final_norm, hidden));
    zt_leave(p, b->encoder, &hidden, 1);
    return hidden;
}

static zt_tensor predict(zt_process *p, const bing *b, zt_tensor x)
{
    zt_enter(p, b->predictions, &x, 1);
    zt_tensor t = zt_share(p, x);
    zt_enter(p, b->transform, &t, 1);
    zt_assign(p, &t, zt_call_dense(p, &b->transform_dense, t));
    zt_assign(p, &t, zt_call_layer_norm(p, &b->transform_norm, t));
    zt_leave(p, b->transform, &t, 1);
    zt_assign(p, &t, zt_call_dense(p, &b->decoder, t));
    zt_assign(p, &t, zt_add(p, t, b->bias->value));
    zt_leave(p, b->predictions, &t, 1);
    return t;
}

static zt_output forward(zt_process *p, void *model, const zt_batch *batch)
{
    const bing *b = model;
    zt_tensor ids = {.storage = batch->ids};
    zt_enter(p, b->self, &ids, 1);
    zt_tensor embedded = embed(p, b, batch->ids);
    zt_tensor sequence = encode(p, b, embedded);
    zt_tensor first = zt_slice(p, sequence, zl_mul(p->run->micro_batch, p->run->model.hidden));
    zt_tensor pooled = call(p, b->pooler, &b->pooler_dense, NULL, first);
    zt_release(p, &first);
    zt_release(p, &embedded);
    zt_tensor made[] = {sequence, pooled};
    zt_leave(p, b->self, made, 2);
    zt_enter(p, b->heads, made, 2);
    zt_tensor scores[] = {predict(p, b, made[0]), zt_call_dense(p, &b->next_sentence, made[1])};
    zt_leave(p, b->heads, scores, 2);
    zt_output out = {.logits = scores[0], .second_logits = scores[1]};
    out.loss = zt_cross_entropy(p, out.logits, batch->ids);
    zt_tensor next = zt_cross_entropy(p, out.second_logits, batch->next_sentence);
    zt_assign(p, &out.loss, zt_add(p, out.loss, next));
    zt_release(p, &next);
    zt_release(p, &sequence);
    zt_release(p, &pooled);
    return out;
}

const zt_architecture zt_bing = {.build = build, .forward = forward};
