/* BertForMaskedLM and BertForPreTraining (transformers, models/bert/modeling_bert.py), and
 * RobertaForMaskedLM (models/roberta), which makes its positions from the ids, and whose head is
 * one module. */
#include "torch/hf_bert.h"

#include <string.h>

#include "zeroledger/bytes.h"

typedef struct bert_layer {
    zt_module *self, *attention, *attend, *attention_output, *intermediate, *output;
    zt_dense query, key, value, attention_dense, up, down;
    zt_module *attention_dropout, *attention_output_dropout, *act, *output_dropout;
    zt_norm attention_norm, output_norm;
} bert_layer;

typedef struct bert {
    zt_module *self, *embeddings, *embeddings_dropout, *encoder, *pooler, *pooler_act;
    zt_table word, position, type;
    zt_norm embeddings_norm;
    bert_layer *layer;
    zt_dense pooler_dense;
    zt_module *heads, *predictions, *transform, *transform_act;
    zt_dense transform_dense, decoder, next_sentence;
    zt_norm transform_norm;
} bert;

/* ---- building ---- */

static bool is_roberta(const zt_process *p)
{
    return p->run->model.arch == ZL_HF_ROBERTA;
}

static void build_positions(zt_process *p, bert *b)
{
    const zl_hf_config *c = &p->run->model;
    b->position =
        zt_embedding_new(p, b->embeddings, "position_embeddings", c->positions, c->hidden);
}

static void build_embeddings(zt_process *p, bert *b)
{
    const zl_hf_config *c = &p->run->model;
    b->embeddings = zt_module_new(p, b->self, "embeddings");
    b->word = zt_embedding_new(p, b->embeddings, "word_embeddings", c->vocab, c->hidden);
    if (!is_roberta(p)) {
        build_positions(p, b);
    }
    b->type = zt_embedding_new(p, b->embeddings, "token_type_embeddings", c->types, c->hidden);
    b->embeddings_norm = zt_layer_norm_new(p, b->embeddings, "LayerNorm", c->hidden);
    b->embeddings_dropout = zt_module_new(p, b->embeddings, "dropout");
    if (is_roberta(p)) {
        build_positions(p, b);
    }
    zt_int64_buffer_new(p, b->embeddings, c->positions); /* position_ids */
    zt_int64_buffer_new(p, b->embeddings, c->positions); /* token_type_ids */
}

static void build_layer(zt_process *p, bert_layer *l, zt_module *list, uint64_t index)
{
    const zl_hf_config *c = &p->run->model;
    l->self = zt_layer_new(p, list, index);
    l->attention = zt_module_new(p, l->self, "attention");
    l->attend = zt_module_new(p, l->attention, "self");
    l->query = zt_linear_new(p, l->attend, "query", c->hidden, c->hidden, true);
    l->key = zt_linear_new(p, l->attend, "key", c->hidden, c->hidden, true);
    l->value = zt_linear_new(p, l->attend, "value", c->hidden, c->hidden, true);
    l->attention_dropout = zt_module_new(p, l->attend, "dropout");
    l->attention_output = zt_module_new(p, l->attention, "output");
    l->attention_dense = zt_linear_new(p, l->attention_output, "dense", c->hidden, c->hidden, true);
    l->attention_norm = zt_layer_norm_new(p, l->attention_output, "LayerNorm", c->hidden);
    l->attention_output_dropout = zt_module_new(p, l->attention_output, "dropout");
    l->intermediate = zt_module_new(p, l->self, "intermediate");
    l->up = zt_linear_new(p, l->intermediate, "dense", c->hidden, c->ffn, true);
    l->act = zt_module_new(p, l->intermediate, "intermediate_act_fn");
    l->output = zt_module_new(p, l->self, "output");
    l->down = zt_linear_new(p, l->output, "dense", c->ffn, c->hidden, true);
    l->output_norm = zt_layer_norm_new(p, l->output, "LayerNorm", c->hidden);
    l->output_dropout = zt_module_new(p, l->output, "dropout");
}

/* Tied or not, the bias of the head's own is the decoder's or nothing reads it. */
static void build_decoder(zt_process *p, bert *b, zt_module *owner)
{
    const zl_hf_config *c = &p->run->model;
    if (c->tied) {
        b->decoder = zt_tied_linear_new(p, owner, "decoder", b->word.weight, true);
        zt_param_tie(p, owner, b->decoder.bias);
    } else {
        b->decoder = zt_linear_new(p, owner, "decoder", c->hidden, c->vocab, true);
        /* No gradient and no state ever comes of it. */
        zt_param_new(p, owner, "bias", c->vocab, 0)->trains = false;
    }
}

static void build_roberta_head(zt_process *p, bert *b, zt_module *root)
{
    const zl_hf_config *c = &p->run->model;
    b->heads = zt_module_new(p, root, "lm_head");
    b->transform_dense = zt_linear_new(p, b->heads, "dense", c->hidden, c->hidden, true);
    b->transform_norm = zt_layer_norm_new(p, b->heads, "layer_norm", c->hidden);
    build_decoder(p, b, b->heads);
}

static void build_predictions(zt_process *p, bert *b)
{
    const zl_hf_config *c = &p->run->model;
    b->predictions = zt_module_new(p, b->heads, "predictions");
    b->transform = zt_module_new(p, b->predictions, "transform");
    b->transform_dense = zt_linear_new(p, b->transform, "dense", c->hidden, c->hidden, true);
    b->transform_act = zt_module_new(p, b->transform, "transform_act_fn");
    b->transform_norm = zt_layer_norm_new(p, b->transform, "LayerNorm", c->hidden);
    build_decoder(p, b, b->predictions);
}

static void *build(zt_process *p)
{
    const zl_hf_config *c = &p->run->model;
    bert *b = zt_arena(p, 1, sizeof *b);
    zt_module *root = zt_module_new(p, NULL, "");
    b->self = zt_module_new(p, root, is_roberta(p) ? "roberta" : "bert");
    build_embeddings(p, b);
    b->encoder = zt_module_new(p, b->self, "encoder");
    zt_module *list = zt_module_list_new(p, b->encoder, "layer");
    b->layer = zt_arena(p, c->layers, sizeof *b->layer);
    for (uint64_t i = 0; i < c->layers; i++) {
        build_layer(p, &b->layer[i], list, i);
    }
    if (is_roberta(p)) {
        build_roberta_head(p, b, root);
        return b;
    }
    const bool pretraining = c->arch == ZL_HF_BERT_PRETRAINING;
    if (pretraining) {
        b->pooler = zt_module_new(p, b->self, "pooler");
        b->pooler_dense = zt_linear_new(p, b->pooler, "dense", c->hidden, c->hidden, true);
        b->pooler_act = zt_module_new(p, b->pooler, "activation");
    }
    b->heads = zt_module_new(p, root, "cls");
    build_predictions(p, b);
    if (pretraining) {
        b->next_sentence = zt_linear_new(p, b->heads, "seq_relationship", c->hidden, 2, true);
    }
    return b;
}

/* ---- forward ---- */

/* create_position_ids_from_input_ids: (cumsum(ids != padding) + 0) * mask + padding. The sum is of
 * int64, of which CUB needs room where there is a single row. */
static zt_storage positions_from_ids(zt_process *p)
{
    enum { BOOL = 1, INT32 = 4, INT64 = 8 };
    const uint64_t tokens = zt_tokens(p);
    zt_storage differs = zt_new(p, zl_mul(tokens, BOOL));
    zt_storage mask = zt_new(p, zl_mul(tokens, INT32));
    zt_drop(p, &differs);
    zt_storage sum = zt_new(p, zl_mul(tokens, INT64));
    zt_storage wide = zt_new(p, zl_mul(tokens, INT64));
    if (p->run->micro_batch == 1) {
        zt_touch(p, zt_scan_scratch(tokens, INT64));
    }
    zt_drop(p, &wide);
    zt_storage narrow = zt_new(p, zl_mul(tokens, INT32));
    zt_drop(p, &sum);
    zt_storage shifted = zt_new(p, zl_mul(tokens, INT32));
    zt_drop(p, &narrow);
    zt_storage indices = zt_new(p, zl_mul(tokens, INT32));
    zt_drop(p, &shifted);
    zt_storage as_int64 = zt_new(p, zl_mul(tokens, INT64));
    zt_storage positions = zt_new(p, zl_mul(tokens, INT64));
    zt_drop(p, &as_int64);
    zt_drop(p, &mask);
    zt_drop(p, &indices);
    return positions;
}

static zt_tensor embed_roberta(zt_process *p, const bert *b, zt_storage ids)
{
    const zl_hf_config *c = &p->run->model;
    const uint64_t tokens = zt_tokens(p);
    zt_enter(p, b->embeddings, NULL, 0);
    zt_storage position_ids = positions_from_ids(p);
    zt_storage type_ids = zt_new(p, zl_mul(sizeof(int64_t), tokens)); /* gathered */
    zt_tensor word = zt_call_input_embedding(p, &b->word, ids);
    zt_tensor type = zt_call_embedding(p, &b->type, type_ids, tokens, false);
    zt_tensor sum = zt_add(p, word, type);
    zt_tensor position = zt_call_embedding(p, &b->position, position_ids, tokens, false);
    zt_assign(p, &sum, zt_add(p, sum, position));
    zt_assign(p, &sum, zt_call_layer_norm(p, &b->embeddings_norm, sum));
    zt_assign(p, &sum, zt_call_dropout(p, b->embeddings_dropout, sum, c->embedding_dropout));
    zt_drop(p, &position_ids);
    zt_release(p, &word);
    zt_drop(p, &type_ids);
    zt_release(p, &type);
    zt_release(p, &position);
    zt_leave(p, b->embeddings, &sum, 1);
    return sum;
}

static zt_tensor embed(zt_process *p, const bert *b, zt_storage ids)
{
    const zl_hf_config *c = &p->run->model;
    const uint64_t tokens = zt_tokens(p);
    zt_enter(p, b->embeddings, NULL, 0);
    zt_storage type_ids = zt_new(p, zl_mul(sizeof(int64_t), p->run->seq)); /* gathered */
    zt_tensor word = zt_call_input_embedding(p, &b->word, ids);
    zt_tensor type = zt_call_embedding(p, &b->type, type_ids, tokens, p->run->micro_batch > 1);
    zt_tensor sum = zt_add(p, word, type);
    zt_tensor position =
        zt_call_embedding(p, &b->position, b->embeddings->buffer[0].storage, p->run->seq, false);
    zt_assign(p, &sum, zt_add(p, sum, position));
    zt_assign(p, &sum, zt_call_layer_norm(p, &b->embeddings_norm, sum));
    zt_assign(p, &sum, zt_call_dropout(p, b->embeddings_dropout, sum, c->embedding_dropout));
    zt_release(p, &word);
    zt_drop(p, &type_ids);
    zt_release(p, &type);
    zt_release(p, &position);
    zt_leave(p, b->embeddings, &sum, 1);
    return sum;
}

static zt_tensor heads_of(zt_process *p, const zt_dense *d, zt_tensor x, bool gradient_copies)
{
    zt_tensor y = zt_call_dense(p, d, x);
    zt_assign(p, &y, zt_split_heads(p, y, gradient_copies));
    return y;
}

static zt_attended attend_eager(zt_process *p, zt_tensor q, zt_tensor k, zt_tensor v)
{
    const zl_torch_run *run = p->run;
    const bool copies = zt_heads_need_copies(p);
    const uint64_t scores = zl_prod(run->micro_batch, run->model.heads, run->seq, run->seq);
    zt_tensor w = zt_matmul(p, q, copies, k, copies, scores);
    zt_assign(p, &w, zt_scale(p, w));
    zt_assign(p, &w, zt_softmax(p, w));
    zt_assign(p, &w, zt_dropout(p, w, run->model.attention_dropout));
    zt_tensor out = zt_matmul(p, w, false, v, copies, q.elements);
    zt_assign(p, &out, zt_merge_heads(p, out, copies));
    return (zt_attended){out, w};
}

zt_attended zt_bert_attend(zt_process *p, const zt_dense *query, const zt_dense *key,
                           const zt_dense *value, const zt_dense *output, zt_tensor x)
{
    const zl_torch_run *run = p->run;
    const bool eager = run->attention == ZL_TORCH_EAGER;
    /* The gradient of the transposed keys is no matrix of rows unless there is one sequence. */
    const bool copies = eager && run->model.heads > 1;
    zt_tensor q = heads_of(p, query, x, copies);
    zt_tensor k = heads_of(p, key, x, eager && run->micro_batch > 1);
    zt_tensor v = heads_of(p, value, x, copies);
    zt_attended a = {0};
    if (eager) {
        a = attend_eager(p, q, k, v);
    } else {
        a.out = zt_sdpa(p, q, k, v,
                        (zt_attention_shape){.batch = run->micro_batch,
                                             .heads = run->model.heads,
                                             .kv_heads = run->model.heads,
                                             .seq = run->seq,
                                             .head_dim = run->model.head_dim});
    }
    if (output != NULL) {
        zt_assign(p, &a.out, zt_call_dense(p, output, a.out));
    }
    zt_release(p, &q);
    zt_release(p, &k);
    zt_release(p, &v);
    return a;
}

static zt_attended attend(zt_process *p, const bert_layer *l, zt_tensor x)
{
    zt_enter(p, l->attend, &x, 1);
    zt_attended a = zt_bert_attend(p, &l->query, &l->key, &l->value, NULL, x);
    zt_leave(p, l->attend, &a.out, 1);
    return a;
}

/* BertSelfOutput and BertOutput: LayerNorm(dropout(dense(x)) + residual). */
static zt_tensor close(zt_process *p, zt_module *m, const zt_dense *dense, zt_module *dropout,
                       const zt_norm *norm, zt_tensor x, zt_tensor residual)
{
    zt_tensor input[] = {x, residual};
    zt_enter(p, m, input, 2);
    zt_tensor y = zt_call_dense(p, dense, input[0]);
    zt_assign(p, &y, zt_call_dropout(p, dropout, y, p->run->model.hidden_dropout));
    zt_tensor sum = zt_add(p, y, input[1]);
    zt_tensor normed = zt_call_layer_norm(p, norm, sum);
    zt_release(p, &sum);
    zt_assign(p, &y, normed);
    zt_leave(p, m, &y, 1);
    return y;
}

static zt_attended attention(zt_process *p, const bert_layer *l, zt_tensor x)
{
    zt_enter(p, l->attention, &x, 1);
    zt_attended a = attend(p, l, x);
    zt_assign(p, &a.out,
              close(p, l->attention_output, &l->attention_dense, l->attention_output_dropout,
                    &l->attention_norm, a.out, x));
    zt_leave(p, l->attention, &a.out, 1);
    return a;
}

static zt_tensor intermediate(zt_process *p, const bert_layer *l, zt_tensor x)
{
    zt_enter(p, l->intermediate, &x, 1);
    zt_tensor y = zt_call_dense(p, &l->up, x);
    zt_assign(p, &y, zt_call_activation(p, l->act, y));
    zt_leave(p, l->intermediate, &y, 1);
    return y;
}

static zt_tensor layer(zt_process *p, void *context, zt_tensor x)
{
    const bert_layer *l = context;
    zt_enter(p, l->self, &x, 1);
    zt_attended a = attention(p, l, x);
    zt_tensor up = intermediate(p, l, a.out);
    zt_tensor y = close(p, l->output, &l->down, l->output_dropout, &l->output_norm, up, a.out);
    zt_release(p, &up);
    zt_release(p, &a.weights);
    zt_release(p, &a.out);
    zt_leave(p, l->self, &y, 1);
    return y;
}

static zt_tensor encode(zt_process *p, const bert *b, zt_tensor x)
{
    zt_enter(p, b->encoder, &x, 1);
    zt_tensor hidden = zt_share(p, x);
    for (uint64_t i = 0; i < p->run->model.layers; i++) {
        zt_assign(p, &hidden, zt_call_layer(p, layer, &b->layer[i], hidden, NULL, 0));
    }
    zt_leave(p, b->encoder, &hidden, 1);
    return hidden;
}

/* The first token of each sequence. */
static zt_tensor pool(zt_process *p, const bert *b, zt_tensor x)
{
    const zl_torch_run *run = p->run;
    zt_enter(p, b->pooler, &x, 1);
    zt_tensor first = zt_slice(p, x, zl_mul(run->micro_batch, run->model.hidden));
    first.matrix = true;
    zt_tensor y = zt_call_dense(p, &b->pooler_dense, first);
    zt_assign(p, &y, zt_call_tanh(p, b->pooler_act, y));
    zt_release(p, &first);
    y.matrix = true;
    zt_leave(p, b->pooler, &y, 1);
    return y;
}

static zt_tensor predict(zt_process *p, const bert *b, zt_tensor x)
{
    zt_enter(p, b->predictions, &x, 1);
    zt_tensor t = zt_share(p, x);
    zt_enter(p, b->transform, &t, 1);
    zt_assign(p, &t, zt_call_dense(p, &b->transform_dense, t));
    zt_assign(p, &t, zt_call_activation(p, b->transform_act, t));
    zt_assign(p, &t, zt_call_layer_norm(p, &b->transform_norm, t));
    zt_leave(p, b->transform, &t, 1);
    zt_assign(p, &t, zt_call_dense(p, &b->decoder, t));
    zt_leave(p, b->predictions, &t, 1);
    return t;
}

typedef struct scores {
    zt_tensor words, next_sentence;
} scores;

/* decoder(layer_norm(gelu(dense(x)))), whatever hidden_act is. */
static zt_tensor score_roberta(zt_process *p, const bert *b, zt_tensor sequence)
{
    zt_enter(p, b->heads, &sequence, 1);
    zt_tensor t = zt_call_dense(p, &b->transform_dense, sequence);
    zt_assign(p, &t, zt_gelu(p, t));
    zt_assign(p, &t, zt_call_layer_norm(p, &b->transform_norm, t));
    zt_assign(p, &t, zt_call_dense(p, &b->decoder, t));
    zt_leave(p, b->heads, &t, 1);
    return t;
}

static scores score(zt_process *p, const bert *b, zt_tensor sequence, zt_tensor pooled)
{
    const size_t count = b->pooler == NULL ? 1 : 2;
    zt_tensor input[] = {sequence, pooled};
    zt_enter(p, b->heads, input, count);
    scores s = {.words = predict(p, b, input[0])};
    if (b->pooler != NULL) {
        s.next_sentence = zt_call_dense(p, &b->next_sentence, input[1]);
    }
    zt_tensor output[] = {s.words, s.next_sentence};
    zt_leave(p, b->heads, output, count);
    return (scores){output[0], output[1]};
}

static zt_output forward(zt_process *p, void *model, const zt_batch *batch)
{
    const bert *b = model;
    zt_tensor ids = {.storage = batch->ids};
    zt_enter(p, b->self, &ids, 1);
    zt_tensor embedded = is_roberta(p) ? embed_roberta(p, b, batch->ids) : embed(p, b, batch->ids);
    zt_tensor sequence = encode(p, b, embedded);
    zt_tensor pooled = b->pooler == NULL ? (zt_tensor){0} : pool(p, b, sequence);
    zt_release(p, &embedded);
    zt_tensor output[] = {sequence, pooled};
    zt_leave(p, b->self, output, b->pooler == NULL ? 1 : 2);
    const scores s = is_roberta(p) ? (scores){.words = score_roberta(p, b, output[0])}
                                   : score(p, b, output[0], output[1]);
    zt_output out = {.logits = s.words, .second_logits = s.next_sentence};
    out.loss = zt_cross_entropy(p, s.words, batch->ids);
    if (b->pooler != NULL) {
        zt_tensor next = zt_cross_entropy(p, s.next_sentence, batch->next_sentence);
        zt_tensor sum = zt_add(p, out.loss, next);
        zt_assign(p, &out.loss, sum);
        zt_release(p, &next);
    }
    zt_release(p, &sequence);
    zt_release(p, &pooled);
    return out;
}

const zt_architecture zt_bert = {.build = build, .forward = forward};
