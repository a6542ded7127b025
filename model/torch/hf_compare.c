/* The weights of a checkpoint against what its config.json makes of the model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch/hf_shapes.h"
#include "torch/tensor_tree.h"
#include "zeroledger/bytes.h"
#include "zeroledger/torch.h"

enum { PREFIXES = 8 };

/* The model's own tensors by name, and which of them are stored. */
typedef struct names {
    zl_tensor_entry *entry; /* in order of name */
    bool *stored;
    size_t count;
    char prefix[PREFIXES][ZL_TENSOR_NAME]; /* first parts of the names */
    size_t prefixes;
} names;

static int by_name(const void *a, const void *b)
{
    const zl_tensor_entry *x = a;
    const zl_tensor_entry *y = b;
    return strcmp(x->name, y->name);
}

static void add_prefix(names *n, const char *name)
{
    const size_t length = strcspn(name, ".");
    for (size_t i = 0; i < n->prefixes; i++) {
        if (strlen(n->prefix[i]) == length && memcmp(n->prefix[i], name, length) == 0) {
            return;
        }
    }
    if (n->prefixes < PREFIXES) {
        snprintf(n->prefix[n->prefixes++], ZL_TENSOR_NAME, "%.*s", (int)length, name);
    }
}

static zl_status names_init(names *n, const zl_tensor_list *list, zl_err *err)
{
    *n = (names){.count = list->count};
    n->entry = calloc(list->count + 1, sizeof *n->entry);
    n->stored = calloc(list->count + 1, sizeof *n->stored);
    if (n->entry == NULL || n->stored == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory to compare %zu tensors", list->count);
    }
    for (size_t i = 0; i < list->count; i++) {
        n->entry[i] = list->entry[i];
        add_prefix(n, list->entry[i].name);
    }
    qsort(n->entry, n->count, sizeof *n->entry, by_name);
    return ZL_OK;
}

static void names_release(names *n)
{
    free(n->entry);
    free(n->stored);
}

static size_t find_exactly(const names *n, const char *name)
{
    zl_tensor_entry key = {.rank = 0};
    snprintf(key.name, sizeof key.name, "%s", name);
    const zl_tensor_entry *found = bsearch(&key, n->entry, n->count, sizeof key, by_name);
    return found != NULL ? (size_t)(found - n->entry) : n->count;
}

/* Weights saved without the head lack the model's own name in front, and very old ones call the
 * weight and bias of a norm gamma and beta: from_pretrained of transformers mends both. */
static size_t find(const names *n, const char *stored)
{
    static const char *const old[][2] = {{".gamma", ".weight"}, {".beta", ".bias"}};
    char name[ZL_TENSOR_NAME];
    char longer[2 * ZL_TENSOR_NAME];
    snprintf(name, sizeof name, "%s", stored);
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++) {
        const size_t end = strlen(name);
        const size_t length = strlen(old[i][0]);
        if (end > length && strcmp(name + end - length, old[i][0]) == 0) {
            snprintf(name + end - length, sizeof name - end + length, "%s", old[i][1]);
        }
    }
    size_t found = find_exactly(n, name);
    for (size_t i = 0; i < n->prefixes && found == n->count; i++) {
        snprintf(longer, sizeof longer, "%s.%s", n->prefix[i], name);
        found = strlen(longer) < ZL_TENSOR_NAME ? find_exactly(n, longer) : n->count;
    }
    return found;
}

static bool same_shape(const zl_tensor_entry *a, const zl_tensor_entry *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof a->dim[0]) == 0;
}

static void print_shape(const zl_tensor_entry *entry, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < entry->rank && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, i > 0 ? " x " : "",
                                 entry->dim[i]);
    }
}

/* What has memory of its own and is no buffer. */
static uint64_t weight_of(const zl_tensor_entry *entry)
{
    return entry->buffer || entry->tied > 0 ? 0 : zl_tensor_elements(entry);
}

static void tell_shapes(const zl_tensor_entry *stored, const zl_tensor_entry *ours, char *line,
                        size_t size)
{
    char there[160];
    char here[160];
    print_shape(stored, there, sizeof there);
    print_shape(ours, here, sizeof here);
    snprintf(line, size,
             "%s is %s in the weights and %s by the config.json, which is taken; the first that "
             "differs",
             stored->name, there, here);
}

/* Names differ where transformers converts weights as it loads them, so only a difference of the
 * sums is one. */
static void tell_sums(const names *n, const zl_tensor_list *stored, const char *extra, char *line,
                      size_t size)
{
    uint64_t here = 0;
    uint64_t there = 0;
    const char *missing = NULL;
    for (size_t i = 0; i < n->count; i++) {
        here = zl_add(here, weight_of(&n->entry[i]));
        if (missing == NULL && !n->stored[i] && weight_of(&n->entry[i]) > 0) {
            missing = n->entry[i].name;
        }
    }
    for (size_t i = 0; i < stored->count; i++) {
        const size_t at = find(n, stored->entry[i].name);
        const bool counted = at == n->count || weight_of(&n->entry[at]) > 0;
        there = zl_add(there, counted ? weight_of(&stored->entry[i]) : 0);
    }
    if (here != there && (missing != NULL || extra != NULL)) {
        snprintf(line, size,
                 "the weights have %" PRIu64 " parameters and the config.json, which is taken, "
                 "makes %" PRIu64 "; the first tensor that only the %s is %s",
                 there, here, missing != NULL ? "config.json has" : "weights have",
                 missing != NULL ? missing : extra);
    }
}

static zl_status compare(const zl_tensor_list *ours, const zl_tensor_list *stored, char *line,
                         size_t size, zl_err *err)
{
    names n;
    const char *extra = NULL;
    const zl_status status = names_init(&n, ours, err);
    for (size_t i = 0; status == ZL_OK && i < stored->count && line[0] == '\0'; i++) {
        const zl_tensor_entry *entry = &stored->entry[i];
        const size_t at = find(&n, entry->name);
        if (at == n.count) {
            extra = extra == NULL && !entry->buffer ? entry->name : extra;
            continue;
        }
        n.stored[at] = true;
        if (!same_shape(entry, &n.entry[at])) {
            tell_shapes(entry, &n.entry[at], line, size);
        }
    }
    if (status == ZL_OK && line[0] == '\0') {
        tell_sums(&n, stored, extra, line, size);
    }
    names_release(&n);
    return status;
}

zl_status zl_hf_compare(const zl_hf_config *model, zl_json tensors, char *line, size_t size,
                        zl_err *err)
{
    zl_tensor_list ours = {0};
    zl_tensor_list stored = {0};
    line[0] = '\0';
    if (model->quantization.kind != ZL_HF_UNQUANTISED) {
        return ZL_OK; /* its matrices are packed */
    }
    ZL_TRY(zt_shapes_of(model, &ours, err));
    zl_status status = zl_tensor_tree_read(tensors, &stored, err);
    if (status == ZL_OK) {
        status = zl_tensor_list_arrange(&stored, err);
    }
    if (status == ZL_OK) {
        status = compare(&ours, &stored, line, size, err);
    }
    zl_tensor_list_clear(&ours);
    zl_tensor_list_clear(&stored);
    return status;
}
