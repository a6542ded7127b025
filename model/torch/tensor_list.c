#include "torch/tensor_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"

/* More tensors than any model has. */
enum { FIRST = 64, LIMIT = 1 << 20 };

static bool make_room(zl_tensor_list *list)
{
    if (list->entry != NULL && list->count < list->capacity) {
        return true;
    }
    const size_t capacity = list->capacity == 0 ? FIRST : 2 * list->capacity;
    if (capacity < FIRST || capacity > LIMIT) {
        return false;
    }
    zl_tensor_entry *grown = realloc(list->entry, capacity * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    list->entry = grown;
    list->capacity = capacity;
    return true;
}

zl_status zl_tensor_list_add(zl_tensor_list *list, const char *name, const char *dtype,
                             uint32_t rank, const uint64_t *dim, zl_err *err)
{
    if (name[0] == '\0' || strlen(name) >= ZL_TENSOR_NAME) {
        return zl_fail(err, ZL_E_INPUT, "the name of a tensor has 1 to %d bytes, got '%.60s'",
                       ZL_TENSOR_NAME - 1, name);
    }
    if (rank > ZL_TENSOR_RANK_MAX) {
        return zl_fail(err, ZL_E_INPUT, "tensor %.100s: at most %d dimensions, got %u", name,
                       ZL_TENSOR_RANK_MAX, rank);
    }
    if (!make_room(list)) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for a list of %zu tensors", list->count);
    }
    zl_tensor_entry *entry = &list->entry[list->count];
    *entry = (zl_tensor_entry){.rank = rank};
    snprintf(entry->name, sizeof entry->name, "%s", name);
    snprintf(entry->dtype, sizeof entry->dtype, "%s", dtype);
    for (uint32_t i = 0; i < rank; i++) {
        entry->dim[i] = dim[i];
    }
    list->count++;
    return ZL_OK;
}

uint64_t zl_tensor_elements(const zl_tensor_entry *entry)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < entry->rank; i++) {
        elements = zl_mul(elements, entry->dim[i]);
    }
    return elements;
}

/* ---- a file's order ---- */

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* Whether a numbered part is in the name. */
static bool is_numbered(const char *name)
{
    for (const char *dot = name; dot != NULL; dot = strchr(dot + 1, '.')) {
        const char *part = dot == name ? name : dot + 1;
        const size_t digits = strspn(part, "0123456789");
        if (digits > 0 && (part[digits] == '.' || part[digits] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Tables; the layers and what cannot be told; norms behind the layers and heads. */
enum { FRONT, MIDDLE, END };

static int place_of(const char *name)
{
    static const char *const tables[] = {"embed", "wte", "wpe"};
    static const char *const ends[] = {"lm_head", "cls.",   "classifier", "score",  "embed_out",
                                       "ln_f",    "final_", ".norm.",     "pooler", "vocab_"};
    if (is_numbered(name)) {
        return MIDDLE;
    }
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (has(name, ends[i])) {
            return END;
        }
    }
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (has(name, tables[i])) {
            return FRONT;
        }
    }
    return MIDDLE;
}

/* Transformers' own buffers of floating point that older checkpoints hold. */
static bool is_frequency(const char *name)
{
    return has(name, "inv_freq") || has(name, "masked_bias") || has(name, "cos_cached") ||
           has(name, "sin_cached");
}

static void mark_buffers(zl_tensor_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        zl_tensor_entry *t = &list->entry[i];
        const bool floating = t->dtype[0] == 'F' || strcmp(t->dtype, "BF16") == 0;
        t->buffer = !floating || is_frequency(t->name);
    }
}

zl_status zl_tensor_list_arrange(zl_tensor_list *list, zl_err *err)
{
    zl_tensor_list arranged = {0};
    for (int place = FRONT; place <= END; place++) {
        for (size_t i = 0; i < list->count; i++) {
            const zl_tensor_entry *t = &list->entry[i];
            if (place_of(t->name) != place) {
                continue;
            }
            const zl_status status =
                zl_tensor_list_add(&arranged, t->name, t->dtype, t->rank, t->dim, err);
            if (status != ZL_OK) {
                zl_tensor_list_clear(&arranged);
                return status;
            }
        }
    }
    zl_tensor_list_clear(list);
    mark_buffers(&arranged);
    *list = arranged;
    return ZL_OK;
}

void zl_tensor_list_clear(zl_tensor_list *list)
{
    free(list->entry);
    *list = (zl_tensor_list){0};
}
