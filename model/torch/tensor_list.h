/* Tensors by name: what a safetensors header says, or what a class of transformers would register.
 *
 *     zl_tensor_list list = {0};
 *     ZL_TRY(zl_tensor_list_add(&list, "model.norm.weight", "BF16", 1, (uint64_t[]){4096}, err));
 *     ...
 *     zl_tensor_list_clear(&list);
 *
 * The order is that of registration in the class; a file's is made so by zl_tensor_list_arrange().
 * The dtype is spelled as safetensors spells it: F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I64 ... U8 BOOL;
 * "" is whatever the precision of the run makes of it.
 */
#ifndef ZL_TENSOR_LIST_H
#define ZL_TENSOR_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"

enum { ZL_TENSOR_NAME = 160, ZL_TENSOR_DTYPE = 8, ZL_TENSOR_RANK_MAX = 8 };

typedef struct zl_tensor_entry {
    char name[ZL_TENSOR_NAME];   /* dotted: "model.layers.0.self_attn.q_proj.weight" */
    char dtype[ZL_TENSOR_DTYPE]; /* as stored */
    uint32_t rank;               /* 0: a scalar */
    uint64_t dim[ZL_TENSOR_RANK_MAX];
    bool buffer; /* of a module; no parameter */
    size_t tied; /* i + 1: it is entry i under a second name; 0: it has memory of its own */
} zl_tensor_entry;

typedef struct zl_tensor_list {
    zl_tensor_entry *entry; /* owned; zl_tensor_list_clear() */
    size_t count, capacity;
} zl_tensor_list;

/* Copies one tensor to the end of the list. ZL_E_INPUT: the name is empty or too long, or the rank
 * too high; ZL_E_RESOURCE: no memory. */
ZL_NODISCARD zl_status zl_tensor_list_add(zl_tensor_list *list, const char *name, const char *dtype,
                                          uint32_t rank, const uint64_t *dim, zl_err *err);
/* A list read from a file, whose names are in the order of text: tables before the numbered layers,
 * norms and heads behind them; integers and rotary frequencies become buffers. Of a
 * failure the list stays what it was. */
ZL_NODISCARD zl_status zl_tensor_list_arrange(zl_tensor_list *list, zl_err *err);
/* Product of the dimensions, 1 of a scalar; poison where it does not fit in 64 bits. */
uint64_t zl_tensor_elements(const zl_tensor_entry *entry);
/* Frees what the list owns and leaves it empty. */
void zl_tensor_list_clear(zl_tensor_list *list);

#endif
