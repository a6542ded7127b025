/* A family of transformers: its tensors, and the tape of what a block, the embedding and the head
 * keep alive.
 *
 * A tape row is one buffer: its formula, and the instants between which it lives. A family knows
 * nothing of sharding; the schedule around it is model/profile/native.c. To read a family, read the
 * rows of its block from top to bottom: they are in the order of the forward pass.
 */
#ifndef ZL_FAMILY_H
#define ZL_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "predict/account.h"
#include "predict/form.h"
#include "zeroledger/predict.h"
#include "zeroledger/run.h"
#include "zeroledger/vocab.h"

/* Instants at which the live bytes inside a block can be largest, in program order: each stands
 * just before something is freed. Forward, the forward again under full recompute, backward. */
#define ZL_INSTANTS(X)                                                                             \
    X(FWD_QKV, "qkv product")                                                                      \
    X(FWD_ATTN, "attention")                                                                       \
    X(FWD_OUT, "attention output product")                                                         \
    X(FWD_FC, "first MLP product")                                                                 \
    X(FWD_PROJ, "second MLP product")                                                              \
    X(FWD_NORM, "closing norm")                                                                    \
    X(FWD_DONE, "block done")                                                                      \
    X(REDO_ATTN, "recompute, attention")                                                           \
    X(REDO_OUT, "recompute, attention output product")                                             \
    X(REDO_PROJ, "recompute, second MLP product")                                                  \
    X(BWD_POST, "weight gradient of the second MLP product")                                       \
    X(BWD_PROJ, "input gradient of the second MLP product")                                        \
    X(BWD_ACT, "activation function backward")                                                     \
    X(BWD_FC_WEIGHT, "weight gradient of the first MLP product")                                   \
    X(BWD_FC, "input gradient of the first MLP product")                                           \
    X(BWD_OUT, "input gradient of the attention output product")                                   \
    X(BWD_VALUES, "value gradients of attention")                                                  \
    X(BWD_ATTN, "attention backward")                                                              \
    X(BWD_QKV_WEIGHT, "weight gradient of the qkv product")                                        \
    X(BWD_QKV, "input gradient of the qkv product")                                                \
    X(BWD_DONE, "gradients handed to the reduction")

typedef enum zl_instant {
#define ZL_INSTANT(id, text) ZL_AT_##id,
    ZL_INSTANTS(ZL_INSTANT)
#undef ZL_INSTANT
        ZL_INSTANT_COUNT
} zl_instant;

/* "attention backward" */
const char *zl_instant_text(zl_instant instant);

/* A term and the instants at which it lives. */
typedef struct zl_row {
    uint8_t entry; /* in the book */
    bool kept;     /* lives on between the block's forward and its backward */
    uint32_t live; /* bit i: lives at instant i */
} zl_row;

enum { ZL_TAPE_MAX = 32 };
typedef struct zl_tape {
    zl_book *book;
    zl_recompute recompute;
    bool dropout;
    zl_instant next_born; /* when the block's output, the next residual, is born */
    size_t count;
    zl_row row[ZL_TAPE_MAX];
} zl_tape;

/* Rows for the tape of a block. */

/* Saved for backward, born at a forward instant. */
void zl_tape_save(zl_tape *tape, zl_buf buffer, zl_instant born, zl_form form);
/* Cheap to recompute: under selective recompute it is freed after `last` and made again at `redo`.
 */
void zl_tape_cheap(zl_tape *tape, zl_buf buffer, zl_instant born, zl_instant last, zl_instant redo,
                   zl_form form);
/* A temporary that lives from one instant to another. */
void zl_tape_temp(zl_tape *tape, zl_buf buffer, zl_instant from, zl_instant to, zl_form form);
/* Rows that all families share: attention between its inputs and outputs, branches under dropout.
 */
void zl_tape_attention(zl_tape *tape, const zl_run *run);
void zl_tape_branches(zl_tape *tape, bool proj_is_redone);

/* Which instants of the head its rows live at. */
enum {
    ZL_HEAD_LOGITS = 1,
    ZL_HEAD_LOSS = 2,
    ZL_HEAD_BACKWARD = 4,
    ZL_HEAD_EVAL = 8,     /* the logits of an evaluation */
    ZL_HEAD_TRAINING = 7, /* training only, from the logits to the head's backward */
    ZL_HEAD_SAVED = 15,   /* made by every forward, saved where there is a backward */
    ZL_HEAD_PASSING = 9   /* gone when the loss is known */
};
/* A row with an explicit set of instants: the head's tape, or with 0 the embedding's and the
 * batch's. */
void zl_tape_at(zl_tape *tape, zl_buf buffer, uint32_t live, zl_form form);

/* A tensor of a unit. */
typedef struct zl_tensor_row {
    const char *name;
    zl_form form;
} zl_tensor_row;
enum { ZL_TENSORS_MAX = 16 };
typedef struct zl_tensor_list {
    size_t count;
    zl_tensor_row row[ZL_TENSORS_MAX];
} zl_tensor_list;
void zl_tensor_add(zl_tensor_list *list, const char *name, zl_form form);

typedef struct zl_family_def {
    /* Tensors of a unit in storage order, in the model's own letters. */
    void (*tensors)(const zl_model *model, zl_unit unit, zl_tensor_list *list);
    void (*block)(const zl_run *run, zl_tape *tape);
    /* The batch and what the embedding saves: lives from the start of forward to the end of
     * backward. */
    void (*embed)(const zl_run *run, zl_tape *tape);
    /* What the family adds to the head: its norm and what comes before. */
    void (*head)(const zl_run *run, zl_tape *tape);
} zl_family_def;

extern const zl_family_def zl_family_bert;
extern const zl_family_def zl_family_gpt2;
extern const zl_family_def zl_family_llama;

const zl_family_def *zl_family_get(zl_family family);

#endif
