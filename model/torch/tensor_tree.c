#include "torch/tensor_tree.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS_MAX = 1 << 18, NUMBER_MAX = 999999 };

typedef struct reader {
    zl_tensor_list *list;
    char name[ZL_TENSOR_NAME]; /* of the node */
} reader;

/* A numbered part of names and what is below it. */
typedef struct numbered {
    uint64_t number;
    zl_json below;
} numbered;

static zl_status read_node(reader *r, zl_json value, size_t length, zl_err *err);

/* Digits at *text, which moves behind them. */
static bool read_number(const char **text, uint64_t limit, uint64_t *out)
{
    uint64_t value = 0;
    const char *c = *text;
    if (!isdigit((unsigned char)*c)) {
        return false;
    }
    for (; isdigit((unsigned char)*c); c++) {
        value = value * 10 + (uint64_t)(*c - '0');
        if (value > limit) {
            return false;
        }
    }
    *text = c;
    *out = value;
    return true;
}

/* "BF16[4096,11008]" */
static zl_status add_leaf(reader *r, zl_json value, zl_err *err)
{
    const char *text = NULL;
    char dtype[ZL_TENSOR_DTYPE + 1];
    uint64_t dim[ZL_TENSOR_RANK_MAX] = {0};
    uint32_t rank = 0;
    ZL_TRY(zl_json_string(value, &text, err));
    const size_t length = strcspn(text, "[");
    const char *c = text + length;
    bool good = length > 0 && length < ZL_TENSOR_DTYPE && *c == '[';
    for (c += good ? 1 : 0; good && *c != ']'; rank++) {
        good = rank < ZL_TENSOR_RANK_MAX && read_number(&c, UINT64_C(1) << 53, &dim[rank]) &&
               (*c == ']' || (*c == ',' && c[1] != ']'));
        c += *c == ',' ? 1 : 0;
    }
    if (!good || c[1] != '\0') {
        return zl_fail(err, ZL_E_INPUT, "%s must be a tensor such as BF16[32,64], got '%.60s'",
                       value.path, text);
    }
    if (r->list->count == TENSORS_MAX) {
        return zl_fail(err, ZL_E_INPUT, "more than %d tensors are not read", TENSORS_MAX);
    }
    snprintf(dtype, sizeof dtype, "%.*s", (int)length, text);
    return zl_tensor_list_add(r->list, r->name, dtype, rank, dim, err);
}

static zl_status read_part(reader *r, const char *part, zl_json value, size_t length, zl_err *err)
{
    const size_t room = sizeof r->name - length;
    const int used =
        snprintf(r->name + length, room, "%s%s", length > 0 && *part != '\0' ? "." : "", part);
    if (used < 0 || (size_t)used >= room) {
        return zl_fail(err, ZL_E_INPUT, "%s: the name of a tensor is too long", value.path);
    }
    ZL_TRY(read_node(r, value, length + (size_t)used, err));
    r->name[length] = '\0';
    return ZL_OK;
}

/* Numbers of "0-31,33", counted, and put where there is room for them. */
static bool read_set(const char *key, numbered *room, size_t *count)
{
    uint64_t least = 0;
    for (const char *c = key;; c++) {
        uint64_t first = 0;
        if (!read_number(&c, NUMBER_MAX, &first) || first < least) {
            return false;
        }
        uint64_t last = first;
        if (*c == '-') {
            c++;
            if (!read_number(&c, NUMBER_MAX, &last) || last <= first) {
                return false;
            }
        }
        for (uint64_t n = first; n <= last && room != NULL; n++) {
            room[*count + (n - first)].number = n;
        }
        *count += (size_t)(last - first) + 1;
        least = last + 1;
        if (*c != ',') {
            return *c == '\0';
        }
    }
}

static int by_number(const void *a, const void *b)
{
    const numbered *x = a;
    const numbered *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static zl_status read_numbered(reader *r, numbered *n, size_t count, size_t length, zl_err *err)
{
    char part[24];
    qsort(n, count, sizeof *n, by_number);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && n[i].number == n[i - 1].number) {
            return zl_fail(err, ZL_E_INPUT, "%s: the number %" PRIu64 " is there twice",
                           n[i].below.path, n[i].number);
        }
        snprintf(part, sizeof part, "%" PRIu64, n[i].number);
        ZL_TRY(read_part(r, part, n[i].below, length, err));
    }
    return ZL_OK;
}

/* The members whose keys are sets of numbers. */
static zl_status read_sets(reader *r, zl_json object, size_t length, zl_err *err)
{
    const char *key = NULL;
    zl_json value;
    size_t count = 0;
    for (size_t i = 0; zl_json_each_member(object, &i, &key, &value) && count <= TENSORS_MAX;) {
        size_t here = 0;
        count += read_set(key, NULL, &here) ? here : 0;
    }
    if (count > TENSORS_MAX) {
        return zl_fail(err, ZL_E_INPUT, "more than %d tensors are not read", TENSORS_MAX);
    }
    numbered *n = calloc(count + 1, sizeof *n);
    if (n == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for %zu numbered modules", count);
    }
    size_t used = 0;
    for (size_t i = 0; used < count && zl_json_each_member(object, &i, &key, &value);) {
        size_t here = 0;
        if (!read_set(key, NULL, &here)) {
            continue;
        }
        here = used;
        read_set(key, n, &here);
        while (used < here) {
            n[used++].below = value;
        }
    }
    const zl_status status = read_numbered(r, n, count, length, err);
    free(n);
    return status;
}

static zl_status read_node(reader *r, zl_json value, size_t length, zl_err *err)
{
    const char *key = NULL;
    zl_json member;
    size_t ignored = 0;
    if (zl_json_is_string(value)) {
        return add_leaf(r, value, err);
    }
    if (!zl_json_is_object(value) || zl_json_size(value) == 0) {
        return zl_fail(err, ZL_E_INPUT, "%s must be a tensor or an object of them", value.path);
    }
    ZL_TRY(read_sets(r, value, length, err));
    for (size_t i = 0; zl_json_each_member(value, &i, &key, &member);) {
        ignored = 0;
        if (!read_set(key, NULL, &ignored)) {
            ZL_TRY(read_part(r, key, member, length, err));
        }
    }
    return ZL_OK;
}

zl_status zl_tensor_tree_read(zl_json tensors, zl_tensor_list *out, zl_err *err)
{
    reader r = {.list = out};
    const zl_status status = read_node(&r, tensors, 0, err);
    if (status != ZL_OK) {
        zl_tensor_list_clear(out);
    }
    return status;
}
