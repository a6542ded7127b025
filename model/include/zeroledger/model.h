/* The description of a transformer: shapes, and the few numbers its arithmetic needs.
 *
 * It comes from a built-in preset or from a Hugging Face config.json; presets are config.json files
 * too (model/data/models), so there is one reader.
 *
 *     zl_model model;
 *     zl_err err = {0};
 *     if (zl_model_load("gpt2-xl", &model, &err) != ZL_OK) { ... err.text ... }
 */
#ifndef ZEROLEDGER_MODEL_H
#define ZEROLEDGER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/export.h"
#include "zeroledger/json.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zl_family {
    ZL_FAMILY_BERT,
    ZL_FAMILY_GPT2,
    ZL_FAMILY_LLAMA,
    ZL_FAMILY_COUNT
} zl_family;

/* Exact GELU, its tanh approximation, SwiGLU. */
typedef enum zl_activation {
    ZL_ACT_GELU,
    ZL_ACT_GELU_TANH,
    ZL_ACT_SWIGLU,
    ZL_ACT_COUNT
} zl_activation;

typedef struct zl_model {
    char name[64]; /* preset name, or the file's folder or name; a label, never a condition */
    zl_family family;
    zl_activation activation;
    uint64_t layers;    /* L */
    uint64_t width;     /* C */
    uint64_t heads;     /* H */
    uint64_t kv_heads;  /* G; equals H outside grouped-query attention */
    uint64_t head_dim;  /* D */
    uint64_t ffn;       /* F */
    uint64_t vocab;     /* V */
    uint64_t positions; /* P: longest sequence; rows of the position table (BERT, GPT-2) */
    uint64_t types;     /* rows of the token type table (BERT), else 0 */
    bool tied;          /* the output matrix is the token table */
    bool qkv_bias;      /* bias of the q, k, v projections (always true for BERT, GPT-2) */
    bool out_bias;      /* bias of the attention output projection */
    bool mlp_bias;      /* bias of the MLP projections */
    bool pooler;        /* pooler and next-sentence head (BERT for pretraining) */
    double norm_eps;
    double rope_theta; /* Llama, else 0 */
} zl_model;

/* Checks every shape (positive, heads divide, ...) whatever the source. */
ZL_API ZL_NODISCARD zl_status zl_model_check(const zl_model *model, zl_err *err);

/* A preset's name, or the path of a config.json or of a folder that holds one. An unknown name is
 * ZL_E_USAGE with the nearest preset; an architecture outside the families is ZL_E_UNMODELLED. */
ZL_API ZL_NODISCARD zl_status zl_model_load(const char *name_or_path, zl_model *out, zl_err *err);

/* The headers of the weights in a folder, model.safetensors or those of
 * model.safetensors.index.json: a document whose "tensors" are names, types and shapes, and which
 * has "total_size" and "tensor_bytes" where the index says another sum than its tensors have. *out
 * is NULL where there are no such files. The caller frees it. */
ZL_API ZL_NODISCARD zl_status zl_model_weights(const char *folder, zl_json_doc **out, zl_err *err);

/* Built-in presets: names in order, static storage; NULL past the end. */
ZL_API const char *zl_model_preset(size_t index);

ZL_API const char *zl_family_name(zl_family family); /* "bert", "gpt2", "llama" */
ZL_API const char *zl_activation_name(zl_activation activation);

#ifdef __cplusplus
}
#endif
#endif
