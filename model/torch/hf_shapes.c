/* Tables of names and shapes, one per architecture. Sources: modeling_*.py and their __init__ of
 * transformers 5.17; unit.torch_shapes compares them with what these register. */
#include "torch/hf_shapes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "torch/tensor_tree.h"
#include "zeroledger/bytes.h"

/* Dimensions, in letters of the field. */
typedef enum dim {
    NO_DIM,
    VOCAB,
    HIDDEN,
    FFN,
    DENSE_FFN,  /* of a layer without experts */
    SHARED_FFN, /* of the expert that sees all tokens */
    TWO_FFN,    /* gate and up */
    QUERIES,    /* heads x head size */
    KEYS,       /* key heads x head size */
    QKV,        /* queries, keys and values */
    HEAD,
    POSITIONS,
    TWO_MORE_POSITIONS, /* OPT: the first two are for padding */
    TYPES,
    EXPERTS,
    TABLE,       /* width of the token table */
    TURNING,     /* rotary part of a head */
    FREQUENCIES, /* half of it */
    ONE
} dim;

/* Where a row is there. */
typedef enum condition {
    ALWAYS,
    TIED,
    UNTIED,
    ATTENTION_BIAS,
    OUTPUT_BIAS, /* the output's own, where queries may have one and it not */
    MLP_BIAS,
    QUERY_NORM,
    SEPARATE, /* projections of their own */
    FUSED,
    SPARSE, /* a layer of experts */
    DENSE,
    PARALLEL_ONE_NORM,
    PARALLEL_TWO_NORMS,
    IN_TURN, /* attention, then MLP */
    AFFINE,
    FINAL_AFFINE,
    PROJECTED, /* the token table is narrower than the layers */
    POOLED     /* next sentence */
} condition;

typedef enum kind { PARAMETER, FLOATS, INTEGERS } kind; /* the last two are buffers */

/* '*' stands for the number of a layer; rows with it in a row are repeated as a whole. */
typedef struct row {
    const char *name; /* NULL ends a table */
    dim dim[ZL_TENSOR_RANK_MAX];
    condition when;
    const char *same; /* tied: the row it is */
    kind kind;
} row;

/* ---- BERT and its kin ---- */

#define WEIGHT(name, ...)                                                                          \
    {                                                                                              \
        (name), {__VA_ARGS__}, ALWAYS, NULL, PARAMETER                                             \
    }
#define WHERE(when, name, ...)                                                                     \
    {                                                                                              \
        (name), {__VA_ARGS__}, (when), NULL, PARAMETER                                             \
    }
#define SAME(when, name, same)                                                                     \
    {                                                                                              \
        (name), {NO_DIM}, (when), (same), PARAMETER                                                \
    }
#define BUFFER(when, kind, name, ...)                                                              \
    {                                                                                              \
        (name), {__VA_ARGS__}, (when), NULL, (kind)                                                \
    }
#define NORM(name)            WEIGHT(name ".weight", HIDDEN), WEIGHT(name ".bias", HIDDEN)
#define LINEAR(name, out, in) WEIGHT(name ".weight", out, in), WEIGHT(name ".bias", out)

#define BERT_LAYER(p)                                                                              \
    LINEAR(p "attention.self.query", HIDDEN, HIDDEN),                                              \
        LINEAR(p "attention.self.key", HIDDEN, HIDDEN),                                            \
        LINEAR(p "attention.self.value", HIDDEN, HIDDEN),                                          \
        LINEAR(p "attention.output.dense", HIDDEN, HIDDEN), NORM(p "attention.output.LayerNorm"),  \
        LINEAR(p "intermediate.dense", FFN, HIDDEN), LINEAR(p "output.dense", HIDDEN, FFN),        \
        NORM(p "output.LayerNorm")

static const row bert[] = {
    WEIGHT("bert.embeddings.word_embeddings.weight", VOCAB, HIDDEN),
    WEIGHT("bert.embeddings.position_embeddings.weight", POSITIONS, HIDDEN),
    WEIGHT("bert.embeddings.token_type_embeddings.weight", TYPES, HIDDEN),
    NORM("bert.embeddings.LayerNorm"),
    BUFFER(ALWAYS, INTEGERS, "bert.embeddings.position_ids", ONE, POSITIONS),
    BUFFER(ALWAYS, INTEGERS, "bert.embeddings.token_type_ids", ONE, POSITIONS),
    BERT_LAYER("bert.encoder.layer.*."),
    WHERE(POOLED, "bert.pooler.dense.weight", HIDDEN, HIDDEN),
    WHERE(POOLED, "bert.pooler.dense.bias", HIDDEN),
    WEIGHT("cls.predictions.bias", VOCAB),
    LINEAR("cls.predictions.transform.dense", HIDDEN, HIDDEN),
    NORM("cls.predictions.transform.LayerNorm"),
    SAME(TIED, "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    WHERE(UNTIED, "cls.predictions.decoder.weight", VOCAB, HIDDEN),
    SAME(TIED, "cls.predictions.decoder.bias", "cls.predictions.bias"),
    WHERE(UNTIED, "cls.predictions.decoder.bias", VOCAB),
    WHERE(POOLED, "cls.seq_relationship.weight", TYPES, HIDDEN),
    WHERE(POOLED, "cls.seq_relationship.bias", TYPES),
    {.name = NULL},
};

static const row roberta[] = {
    WEIGHT("roberta.embeddings.word_embeddings.weight", VOCAB, HIDDEN),
    WEIGHT("roberta.embeddings.token_type_embeddings.weight", TYPES, HIDDEN),
    NORM("roberta.embeddings.LayerNorm"),
    WEIGHT("roberta.embeddings.position_embeddings.weight", POSITIONS, HIDDEN),
    BUFFER(ALWAYS, INTEGERS, "roberta.embeddings.position_ids", ONE, POSITIONS),
    BUFFER(ALWAYS, INTEGERS, "roberta.embeddings.token_type_ids", ONE, POSITIONS),
    BERT_LAYER("roberta.encoder.layer.*."),
    WEIGHT("lm_head.bias", VOCAB),
    LINEAR("lm_head.dense", HIDDEN, HIDDEN),
    NORM("lm_head.layer_norm"),
    SAME(TIED, "lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
    WHERE(UNTIED, "lm_head.decoder.weight", VOCAB, HIDDEN),
    SAME(TIED, "lm_head.decoder.bias", "lm_head.bias"),
    WHERE(UNTIED, "lm_head.decoder.bias", VOCAB),
    {.name = NULL},
};

static const row distilbert[] = {
    WEIGHT("distilbert.embeddings.word_embeddings.weight", VOCAB, HIDDEN),
    WEIGHT("distilbert.embeddings.position_embeddings.weight", POSITIONS, HIDDEN),
    NORM("distilbert.embeddings.LayerNorm"),
    BUFFER(ALWAYS, INTEGERS, "distilbert.embeddings.position_ids", ONE, POSITIONS),
    LINEAR("distilbert.transformer.layer.*.attention.q_lin", HIDDEN, HIDDEN),
    LINEAR("distilbert.transformer.layer.*.attention.k_lin", HIDDEN, HIDDEN),
    LINEAR("distilbert.transformer.layer.*.attention.v_lin", HIDDEN, HIDDEN),
    LINEAR("distilbert.transformer.layer.*.attention.out_lin", HIDDEN, HIDDEN),
    NORM("distilbert.transformer.layer.*.sa_layer_norm"),
    LINEAR("distilbert.transformer.layer.*.ffn.lin1", FFN, HIDDEN),
    LINEAR("distilbert.transformer.layer.*.ffn.lin2", HIDDEN, FFN),
    NORM("distilbert.transformer.layer.*.output_layer_norm"),
    LINEAR("vocab_transform", HIDDEN, HIDDEN),
    NORM("vocab_layer_norm"),
    SAME(TIED, "vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"),
    WHERE(UNTIED, "vocab_projector.weight", VOCAB, HIDDEN),
    WEIGHT("vocab_projector.bias", VOCAB),
    {.name = NULL},
};

/* DeepSpeedExamples, bing_bert, nvidia/modelingpreln.py. */
static const row bing[] = {
    WEIGHT("bert.embeddings.word_embeddings.weight", VOCAB, HIDDEN),
    WEIGHT("bert.embeddings.position_embeddings.weight", POSITIONS, HIDDEN),
    WEIGHT("bert.embeddings.token_type_embeddings.weight", TYPES, HIDDEN),
    NORM("bert.embeddings.LayerNorm"),
    NORM("bert.encoder.FinalLayerNorm"),
    LINEAR("bert.encoder.layer.*.attention.self.query", HIDDEN, HIDDEN),
    LINEAR("bert.encoder.layer.*.attention.self.key", HIDDEN, HIDDEN),
    LINEAR("bert.encoder.layer.*.attention.self.value", HIDDEN, HIDDEN),
    LINEAR("bert.encoder.layer.*.attention.output.dense", HIDDEN, HIDDEN),
    NORM("bert.encoder.layer.*.PreAttentionLayerNorm"),
    NORM("bert.encoder.layer.*.PostAttentionLayerNorm"),
    LINEAR("bert.encoder.layer.*.intermediate.dense_act", FFN, HIDDEN),
    LINEAR("bert.encoder.layer.*.output.dense", HIDDEN, FFN),
    LINEAR("bert.pooler.dense_act", HIDDEN, HIDDEN),
    WEIGHT("cls.predictions.bias", VOCAB),
    LINEAR("cls.predictions.transform.dense_act", HIDDEN, HIDDEN),
    NORM("cls.predictions.transform.LayerNorm"),
    SAME(ALWAYS, "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    LINEAR("cls.seq_relationship", TYPES, HIDDEN),
    {.name = NULL},
};

/* ---- GPT ---- */

static const row gpt2[] = {
    WEIGHT("transformer.wte.weight", VOCAB, HIDDEN),
    WEIGHT("transformer.wpe.weight", POSITIONS, HIDDEN),
    NORM("transformer.h.*.ln_1"),
    WEIGHT("transformer.h.*.attn.c_attn.weight", HIDDEN, QKV),
    WEIGHT("transformer.h.*.attn.c_attn.bias", QKV),
    LINEAR("transformer.h.*.attn.c_proj", HIDDEN, HIDDEN),
    NORM("transformer.h.*.ln_2"),
    WEIGHT("transformer.h.*.mlp.c_fc.weight", HIDDEN, FFN),
    WEIGHT("transformer.h.*.mlp.c_fc.bias", FFN),
    WEIGHT("transformer.h.*.mlp.c_proj.weight", FFN, HIDDEN),
    WEIGHT("transformer.h.*.mlp.c_proj.bias", HIDDEN),
    NORM("transformer.ln_f"),
    SAME(TIED, "lm_head.weight", "transformer.wte.weight"),
    WHERE(UNTIED, "lm_head.weight", VOCAB, HIDDEN),
    {.name = NULL},
};

static const row gpt_neox[] = {
    WEIGHT("gpt_neox.embed_in.weight", VOCAB, HIDDEN),
    NORM("gpt_neox.layers.*.input_layernorm"),
    NORM("gpt_neox.layers.*.post_attention_layernorm"),
    WEIGHT("gpt_neox.layers.*.attention.query_key_value.weight", QKV, HIDDEN),
    WHERE(ATTENTION_BIAS, "gpt_neox.layers.*.attention.query_key_value.bias", QKV),
    WEIGHT("gpt_neox.layers.*.attention.dense.weight", HIDDEN, HIDDEN),
    WHERE(ATTENTION_BIAS, "gpt_neox.layers.*.attention.dense.bias", HIDDEN),
    LINEAR("gpt_neox.layers.*.mlp.dense_h_to_4h", FFN, HIDDEN),
    LINEAR("gpt_neox.layers.*.mlp.dense_4h_to_h", HIDDEN, FFN),
    NORM("gpt_neox.final_layer_norm"),
    BUFFER(ALWAYS, FLOATS, "gpt_neox.rotary_emb.inv_freq", FREQUENCIES),
    BUFFER(ALWAYS, FLOATS, "gpt_neox.rotary_emb.original_inv_freq", FREQUENCIES),
    SAME(TIED, "lm_head.weight", "gpt_neox.embed_in.weight"),
    WHERE(UNTIED, "lm_head.weight", VOCAB, HIDDEN),
    {.name = NULL},
};

static const row gptj[] = {
    WEIGHT("transformer.wte.weight", VOCAB, HIDDEN),
    NORM("transformer.h.*.ln_1"),
    BUFFER(ALWAYS, FLOATS, "transformer.h.*.attn.embed_positions", POSITIONS, TURNING),
    WEIGHT("transformer.h.*.attn.k_proj.weight", HIDDEN, HIDDEN),
    WEIGHT("transformer.h.*.attn.v_proj.weight", HIDDEN, HIDDEN),
    WEIGHT("transformer.h.*.attn.q_proj.weight", HIDDEN, HIDDEN),
    WEIGHT("transformer.h.*.attn.out_proj.weight", HIDDEN, HIDDEN),
    LINEAR("transformer.h.*.mlp.fc_in", FFN, HIDDEN),
    LINEAR("transformer.h.*.mlp.fc_out", HIDDEN, FFN),
    NORM("transformer.ln_f"),
    SAME(TIED, "lm_head.weight", "transformer.wte.weight"),
    WHERE(UNTIED, "lm_head.weight", VOCAB, HIDDEN),
    WEIGHT("lm_head.bias", VOCAB),
    {.name = NULL},
};

#define OPT_LINEAR(name, out, in)                                                                  \
    WEIGHT(name ".weight", out, in), WHERE(ATTENTION_BIAS, name ".bias", out)
#define OPT_NORM(name) WHERE(AFFINE, name ".weight", HIDDEN), WHERE(AFFINE, name ".bias", HIDDEN)

static const row opt[] = {
    WEIGHT("model.decoder.embed_tokens.weight", VOCAB, TABLE),
    WEIGHT("model.decoder.embed_positions.weight", TWO_MORE_POSITIONS, HIDDEN),
    WHERE(PROJECTED, "model.decoder.project_out.weight", TABLE, HIDDEN),
    WHERE(PROJECTED, "model.decoder.project_in.weight", HIDDEN, TABLE),
    WHERE(FINAL_AFFINE, "model.decoder.final_layer_norm.weight", HIDDEN),
    WHERE(FINAL_AFFINE, "model.decoder.final_layer_norm.bias", HIDDEN),
    OPT_LINEAR("model.decoder.layers.*.self_attn.k_proj", HIDDEN, HIDDEN),
    OPT_LINEAR("model.decoder.layers.*.self_attn.v_proj", HIDDEN, HIDDEN),
    OPT_LINEAR("model.decoder.layers.*.self_attn.q_proj", HIDDEN, HIDDEN),
    OPT_LINEAR("model.decoder.layers.*.self_attn.out_proj", HIDDEN, HIDDEN),
    OPT_NORM("model.decoder.layers.*.self_attn_layer_norm"),
    OPT_LINEAR("model.decoder.layers.*.fc1", FFN, HIDDEN),
    OPT_LINEAR("model.decoder.layers.*.fc2", HIDDEN, FFN),
    OPT_NORM("model.decoder.layers.*.final_layer_norm"),
    SAME(TIED, "lm_head.weight", "model.decoder.embed_tokens.weight"),
    WHERE(UNTIED, "lm_head.weight", VOCAB, TABLE),
    {.name = NULL},
};

static const row falcon[] = {
    WEIGHT("transformer.word_embeddings.weight", VOCAB, HIDDEN),
    WEIGHT("transformer.h.*.self_attention.query_key_value.weight", QKV, HIDDEN),
    WHERE(ATTENTION_BIAS, "transformer.h.*.self_attention.query_key_value.bias", QKV),
    WEIGHT("transformer.h.*.self_attention.dense.weight", HIDDEN, HIDDEN),
    WHERE(ATTENTION_BIAS, "transformer.h.*.self_attention.dense.bias", HIDDEN),
    WEIGHT("transformer.h.*.mlp.dense_h_to_4h.weight", FFN, HIDDEN),
    WHERE(ATTENTION_BIAS, "transformer.h.*.mlp.dense_h_to_4h.bias", FFN),
    WEIGHT("transformer.h.*.mlp.dense_4h_to_h.weight", HIDDEN, FFN),
    WHERE(ATTENTION_BIAS, "transformer.h.*.mlp.dense_4h_to_h.bias", HIDDEN),
    WHERE(IN_TURN, "transformer.h.*.post_attention_layernorm.weight", HIDDEN),
    WHERE(IN_TURN, "transformer.h.*.post_attention_layernorm.bias", HIDDEN),
    WHERE(IN_TURN, "transformer.h.*.input_layernorm.weight", HIDDEN),
    WHERE(IN_TURN, "transformer.h.*.input_layernorm.bias", HIDDEN),
    WHERE(PARALLEL_TWO_NORMS, "transformer.h.*.ln_attn.weight", HIDDEN),
    WHERE(PARALLEL_TWO_NORMS, "transformer.h.*.ln_attn.bias", HIDDEN),
    WHERE(PARALLEL_TWO_NORMS, "transformer.h.*.ln_mlp.weight", HIDDEN),
    WHERE(PARALLEL_TWO_NORMS, "transformer.h.*.ln_mlp.bias", HIDDEN),
    WHERE(PARALLEL_ONE_NORM, "transformer.h.*.input_layernorm.weight", HIDDEN),
    WHERE(PARALLEL_ONE_NORM, "transformer.h.*.input_layernorm.bias", HIDDEN),
    NORM("transformer.ln_f"),
    BUFFER(ALWAYS, FLOATS, "transformer.rotary_emb.inv_freq", FREQUENCIES),
    BUFFER(ALWAYS, FLOATS, "transformer.rotary_emb.original_inv_freq", FREQUENCIES),
    SAME(TIED, "lm_head.weight", "transformer.word_embeddings.weight"),
    WHERE(UNTIED, "lm_head.weight", VOCAB, HIDDEN),
    {.name = NULL},
};

/* ---- Llama and its kin ---- */

#define FREQUENCY_BUFFERS                                                                          \
    BUFFER(ALWAYS, FLOATS, "model.rotary_emb.inv_freq", FREQUENCIES),                              \
        BUFFER(ALWAYS, FLOATS, "model.rotary_emb.original_inv_freq", FREQUENCIES)
#define CAUSAL_HEAD                                                                                \
    SAME(TIED, "lm_head.weight", "model.embed_tokens.weight"),                                     \
        WHERE(UNTIED, "lm_head.weight", VOCAB, HIDDEN)
#define PROJECTIONS(p)                                                                             \
    WHERE(SEPARATE, p "q_proj.weight", QUERIES, HIDDEN),                                           \
        WHERE(ATTENTION_BIAS, p "q_proj.bias", QUERIES),                                           \
        WHERE(SEPARATE, p "k_proj.weight", KEYS, HIDDEN),                                          \
        WHERE(ATTENTION_BIAS, p "k_proj.bias", KEYS),                                              \
        WHERE(SEPARATE, p "v_proj.weight", KEYS, HIDDEN),                                          \
        WHERE(ATTENTION_BIAS, p "v_proj.bias", KEYS), WEIGHT(p "o_proj.weight", HIDDEN, QUERIES),  \
        WHERE(OUTPUT_BIAS, p "o_proj.bias", HIDDEN)

static const row llama[] = {
    WEIGHT("model.embed_tokens.weight", VOCAB, HIDDEN),
    PROJECTIONS("model.layers.*.self_attn."),
    WHERE(FUSED, "model.layers.*.self_attn.qkv_proj.weight", QKV, HIDDEN),
    WHERE(QUERY_NORM, "model.layers.*.self_attn.q_norm.weight", HEAD),
    WHERE(QUERY_NORM, "model.layers.*.self_attn.k_norm.weight", HEAD),
    WHERE(FUSED, "model.layers.*.mlp.gate_up_proj.weight", TWO_FFN, HIDDEN),
    WHERE(SEPARATE, "model.layers.*.mlp.gate_proj.weight", FFN, HIDDEN),
    WHERE(MLP_BIAS, "model.layers.*.mlp.gate_proj.bias", FFN),
    WHERE(SEPARATE, "model.layers.*.mlp.up_proj.weight", FFN, HIDDEN),
    WHERE(MLP_BIAS, "model.layers.*.mlp.up_proj.bias", FFN),
    WEIGHT("model.layers.*.mlp.down_proj.weight", HIDDEN, FFN),
    WHERE(MLP_BIAS, "model.layers.*.mlp.down_proj.bias", HIDDEN),
    WEIGHT("model.layers.*.input_layernorm.weight", HIDDEN),
    WEIGHT("model.layers.*.post_attention_layernorm.weight", HIDDEN),
    WEIGHT("model.norm.weight", HIDDEN),
    FREQUENCY_BUFFERS,
    CAUSAL_HEAD,
    {.name = NULL},
};

static const row mixtral[] = {
    WEIGHT("model.embed_tokens.weight", VOCAB, HIDDEN),
    PROJECTIONS("model.layers.*.self_attn."),
    WEIGHT("model.layers.*.mlp.gate.weight", EXPERTS, HIDDEN),
    WEIGHT("model.layers.*.mlp.experts.gate_up_proj", EXPERTS, TWO_FFN, HIDDEN),
    WEIGHT("model.layers.*.mlp.experts.down_proj", EXPERTS, HIDDEN, FFN),
    WEIGHT("model.layers.*.input_layernorm.weight", HIDDEN),
    WEIGHT("model.layers.*.post_attention_layernorm.weight", HIDDEN),
    WEIGHT("model.norm.weight", HIDDEN),
    FREQUENCY_BUFFERS,
    CAUSAL_HEAD,
    {.name = NULL},
};

static const row qwen2_moe[] = {
    WEIGHT("model.embed_tokens.weight", VOCAB, HIDDEN),
    PROJECTIONS("model.layers.*.self_attn."),
    WHERE(SPARSE, "model.layers.*.mlp.gate.weight", EXPERTS, HIDDEN),
    WHERE(SPARSE, "model.layers.*.mlp.experts.gate_up_proj", EXPERTS, TWO_FFN, HIDDEN),
    WHERE(SPARSE, "model.layers.*.mlp.experts.down_proj", EXPERTS, HIDDEN, FFN),
    WHERE(SPARSE, "model.layers.*.mlp.shared_expert.gate_proj.weight", SHARED_FFN, HIDDEN),
    WHERE(SPARSE, "model.layers.*.mlp.shared_expert.up_proj.weight", SHARED_FFN, HIDDEN),
    WHERE(SPARSE, "model.layers.*.mlp.shared_expert.down_proj.weight", HIDDEN, SHARED_FFN),
    WHERE(SPARSE, "model.layers.*.mlp.shared_expert_gate.weight", ONE, HIDDEN),
    WHERE(DENSE, "model.layers.*.mlp.gate_proj.weight", DENSE_FFN, HIDDEN),
    WHERE(DENSE, "model.layers.*.mlp.up_proj.weight", DENSE_FFN, HIDDEN),
    WHERE(DENSE, "model.layers.*.mlp.down_proj.weight", HIDDEN, DENSE_FFN),
    WEIGHT("model.layers.*.input_layernorm.weight", HIDDEN),
    WEIGHT("model.layers.*.post_attention_layernorm.weight", HIDDEN),
    WEIGHT("model.norm.weight", HIDDEN),
    FREQUENCY_BUFFERS,
    CAUSAL_HEAD,
    {.name = NULL},
};

#define GATED_MLP                                                                                  \
    WEIGHT("model.layers.*.mlp.gate_proj.weight", FFN, HIDDEN),                                    \
        WEIGHT("model.layers.*.mlp.up_proj.weight", FFN, HIDDEN),                                  \
        WEIGHT("model.layers.*.mlp.down_proj.weight", HIDDEN, FFN),                                \
        WEIGHT("model.layers.*.input_layernorm.weight", HIDDEN),                                   \
        WEIGHT("model.layers.*.post_attention_layernorm.weight", HIDDEN)
#define GEMMA_TABLE                                                                                \
    WEIGHT("model.embed_tokens.weight", VOCAB, HIDDEN),                                            \
        BUFFER(ALWAYS, FLOATS, "model.embed_tokens.embed_scale", NO_DIM)

static const row gemma[] = {
    GEMMA_TABLE,       PROJECTIONS("model.layers.*.self_attn."),
    GATED_MLP,         WEIGHT("model.norm.weight", HIDDEN),
    FREQUENCY_BUFFERS, CAUSAL_HEAD,
    {.name = NULL},
};

static const row gemma2[] = {
    GEMMA_TABLE,
    PROJECTIONS("model.layers.*.self_attn."),
    GATED_MLP,
    WEIGHT("model.layers.*.pre_feedforward_layernorm.weight", HIDDEN),
    WEIGHT("model.layers.*.post_feedforward_layernorm.weight", HIDDEN),
    WEIGHT("model.norm.weight", HIDDEN),
    FREQUENCY_BUFFERS,
    CAUSAL_HEAD,
    {.name = NULL},
};

static const row phi[] = {
    WEIGHT("model.embed_tokens.weight", VOCAB, HIDDEN),
    LINEAR("model.layers.*.self_attn.q_proj", QUERIES, HIDDEN),
    LINEAR("model.layers.*.self_attn.k_proj", KEYS, HIDDEN),
    LINEAR("model.layers.*.self_attn.v_proj", KEYS, HIDDEN),
    LINEAR("model.layers.*.self_attn.dense", HIDDEN, QUERIES),
    WHERE(QUERY_NORM, "model.layers.*.self_attn.q_layernorm.weight", HEAD),
    WHERE(QUERY_NORM, "model.layers.*.self_attn.q_layernorm.bias", HEAD),
    WHERE(QUERY_NORM, "model.layers.*.self_attn.k_layernorm.weight", HEAD),
    WHERE(QUERY_NORM, "model.layers.*.self_attn.k_layernorm.bias", HEAD),
    LINEAR("model.layers.*.mlp.fc1", FFN, HIDDEN),
    LINEAR("model.layers.*.mlp.fc2", HIDDEN, FFN),
    NORM("model.layers.*.input_layernorm"),
    FREQUENCY_BUFFERS,
    NORM("model.final_layernorm"),
    CAUSAL_HEAD,
    WEIGHT("lm_head.bias", VOCAB),
    {.name = NULL},
};

static const row *const tables[ZL_HF_ARCH_COUNT] = {
    [ZL_HF_BERT_MLM] = bert,     [ZL_HF_BERT_PRETRAINING] = bert,
    [ZL_HF_BERT_PRELN] = bing,   [ZL_HF_GPT2] = gpt2,
    [ZL_HF_LLAMA] = llama,       [ZL_HF_MIXTRAL] = mixtral,
    [ZL_HF_ROBERTA] = roberta,   [ZL_HF_DISTILBERT] = distilbert,
    [ZL_HF_GPT_NEOX] = gpt_neox, [ZL_HF_GPTJ] = gptj,
    [ZL_HF_OPT] = opt,           [ZL_HF_GEMMA] = gemma,
    [ZL_HF_GEMMA2] = gemma2,     [ZL_HF_PHI] = phi,
    [ZL_HF_FALCON] = falcon,     [ZL_HF_QWEN2_MOE] = qwen2_moe,
};

/* ---- a row ---- */

/* GPT-2 and GPT-NeoX: three times the width; the others: heads of queries, keys and values. */
static uint64_t fused_rows(const zl_hf_config *c)
{
    if (c->single_key && !c->grouped_queries) {
        return zl_add(c->hidden, zl_mul(2, c->head_dim));
    }
    return zl_mul(zl_add(c->heads, zl_mul(2, c->kv_heads)), c->head_dim);
}

static uint64_t dim_of(const zl_hf_config *c, dim d)
{
    const uint64_t turning = c->rotary > 0 ? c->rotary : c->head_dim;
    switch (d) {
    case VOCAB:
        return c->vocab;
    case HIDDEN:
        return c->hidden;
    case FFN:
        return c->ffn;
    case DENSE_FFN:
        return c->dense_ffn;
    case SHARED_FFN:
        return c->shared_ffn;
    case TWO_FFN:
        return zl_mul(2, c->ffn);
    case QUERIES:
        return zl_mul(c->heads, c->head_dim);
    case KEYS:
        return zl_mul(c->kv_heads, c->head_dim);
    case QKV:
        return fused_rows(c);
    case HEAD:
        return c->head_dim;
    case POSITIONS:
        return c->positions;
    case TWO_MORE_POSITIONS:
        return zl_add(c->positions, 2);
    case TYPES:
        return c->types;
    case EXPERTS:
        return c->experts;
    case TABLE:
        return c->table_width > 0 ? c->table_width : c->hidden;
    case TURNING:
        return turning;
    case FREQUENCIES:
        return zl_ceil_div(turning, 2);
    case ONE:
        return 1;
    case NO_DIM:
        break;
    }
    return 0;
}

static bool has_experts(const zl_hf_config *c, uint64_t layer)
{
    return c->experts > 0 && c->sparse_step > 0 && (layer + 1) % c->sparse_step == 0;
}

static bool holds(const zl_hf_config *c, condition when, uint64_t layer)
{
    switch (when) {
    case ALWAYS:
        return true;
    case TIED:
        return c->tied;
    case UNTIED:
        return !c->tied;
    case ATTENTION_BIAS:
        return c->attention_bias;
    case OUTPUT_BIAS:
        return c->attention_bias && !c->plain_output;
    case MLP_BIAS:
        return c->mlp_bias;
    case QUERY_NORM:
        return c->query_norm;
    case SEPARATE:
        return !c->fused_projections;
    case FUSED:
        return c->fused_projections;
    case SPARSE:
        return has_experts(c, layer);
    case DENSE:
        return !has_experts(c, layer);
    case IN_TURN:
        return !c->parallel;
    case PARALLEL_TWO_NORMS:
        return c->parallel && c->two_norms;
    case PARALLEL_ONE_NORM:
        return c->parallel && !c->two_norms;
    case AFFINE:
        return c->affine_norms;
    case FINAL_AFFINE:
        return c->affine_norms && c->final_norm;
    case PROJECTED:
        return c->table_width > 0 && c->table_width != c->hidden;
    case POOLED:
        return c->arch == ZL_HF_BERT_PRETRAINING;
    }
    return false;
}

static zl_status add_same(const char *name, const char *same, zl_tensor_list *list, zl_err *err)
{
    size_t i = 0;
    while (i < list->count && strcmp(list->entry[i].name, same) != 0) {
        i++;
    }
    if (i == list->count) {
        return zl_fail(err, ZL_E_BUG, "%s is tied to nothing; please report this", name);
    }
    const zl_tensor_entry target = list->entry[i];
    ZL_TRY(zl_tensor_list_add(list, name, target.dtype, target.rank, target.dim, err));
    list->entry[list->count - 1].tied = i + 1;
    return ZL_OK;
}

static zl_status add_row(const zl_hf_config *c, const row *r, uint64_t layer, zl_tensor_list *list,
                         zl_err *err)
{
    static const char *const dtypes[] = {[PARAMETER] = "", [FLOATS] = "F32", [INTEGERS] = "I64"};
    char name[ZL_TENSOR_NAME];
    uint64_t sizes[ZL_TENSOR_RANK_MAX];
    uint32_t rank = 0;
    const char *star = strchr(r->name, '*');
    if (star == NULL) {
        snprintf(name, sizeof name, "%s", r->name);
    } else {
        snprintf(name, sizeof name, "%.*s%" PRIu64 "%s", (int)(star - r->name), r->name, layer,
                 star + 1);
    }
    if (r->same != NULL) {
        return add_same(name, r->same, list, err);
    }
    for (; rank < ZL_TENSOR_RANK_MAX && r->dim[rank] != NO_DIM; rank++) {
        sizes[rank] = dim_of(c, r->dim[rank]);
    }
    ZL_TRY(zl_tensor_list_add(list, name, dtypes[r->kind], rank, sizes, err));
    list->entry[list->count - 1].buffer = r->kind != PARAMETER;
    return ZL_OK;
}

static bool is_of_layers(const row *r)
{
    return r->name != NULL && strchr(r->name, '*') != NULL;
}

/* The rows of one layer after those of the other; returns where they end. */
static zl_status add_layers(const zl_hf_config *c, const row **begin, zl_tensor_list *list,
                            zl_err *err)
{
    const row *end = *begin;
    while (is_of_layers(end)) {
        end++;
    }
    for (uint64_t layer = 0; layer < c->layers; layer++) {
        for (const row *r = *begin; r < end; r++) {
            if (holds(c, r->when, layer)) {
                ZL_TRY(add_row(c, r, layer, list, err));
            }
        }
    }
    *begin = end;
    return ZL_OK;
}

static zl_status add_table(const zl_hf_config *c, zl_tensor_list *list, zl_err *err)
{
    const row *r = tables[c->arch];
    while (r->name != NULL) {
        if (is_of_layers(r)) {
            ZL_TRY(add_layers(c, &r, list, err));
            continue;
        }
        if (holds(c, r->when, 0)) {
            ZL_TRY(add_row(c, r, 0, list, err));
        }
        r++;
    }
    return ZL_OK;
}

static zl_status add_file(const zl_hf_config *c, zl_tensor_list *list, zl_err *err)
{
    zl_json_doc *doc = NULL;
    ZL_TRY(zl_json_parse("tensors", c->tensors, strlen(c->tensors), &doc, err));
    const zl_status status = zl_tensor_tree_read(zl_json_root(doc), list, err);
    zl_json_free(doc);
    return status == ZL_OK ? zl_tensor_list_arrange(list, err) : status;
}

zl_status zt_shapes_of(const zl_hf_config *model, zl_tensor_list *out, zl_err *err)
{
    zl_tensor_list list = {0};
    const zl_status status =
        model->arch == ZL_HF_TENSORS ? add_file(model, &list, err) : add_table(model, &list, err);
    if (status != ZL_OK) {
        zl_tensor_list_clear(&list);
        return status;
    }
    *out = list;
    return ZL_OK;
}
