/* The format: 8 bytes, a little-endian number N; N bytes of JSON; the tensors, one behind another.
 * Source: the README of the format and safetensors/src/tensor.rs (limits, types, checks). */
#define _POSIX_C_SOURCE 200809L

#include "safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "safetensors_tree.h"
#include "zeroledger/bytes.h"
#include "zeroledger/text.h"

enum { LENGTH_SIZE = 8, NAME_MAX_BYTES = 159 };

/* MAX_HEADER_SIZE of safetensors. */
static const uint64_t header_limit = 100000000;

typedef struct header {
    zl_json_doc *doc;
    zl_stored *tensor; /* owned */
    size_t count;
    uint64_t bytes; /* behind the header */
} header;

bool zl_safetensors_named(const char *path)
{
    static const char *const ends[] = {".safetensors", ".safetensors.index.json"};
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t end = strlen(ends[i]);
        if (length >= end && strcmp(path + length - end, ends[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* safetensors/src/tensor.rs, Dtype */
uint32_t zl_safetensors_bits(const char *dtype)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } dtypes[] = {
        {"F64", 64}, {"I64", 64},    {"U64", 64},    {"C64", 64},    {"F32", 32},
        {"I32", 32}, {"U32", 32},    {"F16", 16},    {"BF16", 16},   {"I16", 16},
        {"U16", 16}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"I8", 8},
        {"U8", 8},   {"BOOL", 8},    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
    };
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(dtypes[i].name, dtype) == 0) {
            return dtypes[i].bits;
        }
    }
    return 0;
}

/* ---- one header ---- */

static void header_release(header *h)
{
    zl_json_free(h->doc);
    free(h->tensor);
    *h = (header){.doc = NULL};
}

/* The JSON of the header, NUL-terminated; the caller frees it. */
static zl_status read_text(FILE *file, uint64_t size, char **text, uint64_t *length, zl_err *err)
{
    unsigned char raw[LENGTH_SIZE];
    if (size < LENGTH_SIZE || fread(raw, 1, LENGTH_SIZE, file) != LENGTH_SIZE) {
        return zl_fail(err, ZL_E_INPUT,
                       "%" PRIu64 " bytes are too few for a safetensors file, which begins with "
                       "the 8 bytes of its header's length",
                       size);
    }
    uint64_t said = 0;
    for (int i = LENGTH_SIZE - 1; i >= 0; i--) {
        said = said << 8 | raw[i];
    }
    if (said > header_limit || said > size - LENGTH_SIZE) {
        return zl_fail(err, ZL_E_INPUT,
                       "a header of %" PRIu64 " bytes does not fit, the file has %" PRIu64
                       " and the format allows %" PRIu64 "; is it a whole safetensors file?",
                       said, size, header_limit);
    }
    char *read = malloc((size_t)said + 1);
    if (read == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for a header of %" PRIu64 " bytes", said);
    }
    if (fread(read, 1, (size_t)said, file) != said) {
        free(read);
        return zl_fail(err, ZL_E_RESOURCE, "cannot read the header: %s", strerror(errno));
    }
    read[said] = '\0';
    *text = read;
    *length = said;
    return ZL_OK;
}

static zl_status read_file(const char *path, header *h, zl_err *err)
{
    struct stat st;
    char *text = NULL;
    uint64_t length = 0;
    FILE *file = fopen(path, "rbe");
    if (file == NULL || fstat(fileno(file), &st) != 0 || !S_ISREG(st.st_mode)) {
        const int reason = file == NULL ? errno : 0;
        if (file != NULL) {
            fclose(file);
        }
        return zl_fail(err, ZL_E_INPUT, "cannot read it: %s",
                       reason != 0 ? strerror(reason) : "not a regular file");
    }
    const uint64_t size = (uint64_t)st.st_size;
    zl_status status = read_text(file, size, &text, &length, err);
    fclose(file);
    if (status == ZL_OK) {
        status = zl_json_parse("header", text, (size_t)length, &h->doc, err);
        h->bytes = size - LENGTH_SIZE - length;
    }
    free(text);
    return status;
}

/* A name is printed and becomes keys of JSON. */
static zl_status check_name(const char *name, zl_err *err)
{
    const size_t length = strlen(name);
    size_t parts = 1;
    bool good = length >= 1 && length <= NAME_MAX_BYTES;
    for (const char *c = name; good && *c != '\0'; c++) {
        const unsigned char byte = (unsigned char)*c;
        parts += *c == '.';
        good = byte >= 0x20 && byte != 0x7f && byte != '"' && byte != '\\';
    }
    if (!good || parts > ZL_TENSOR_PARTS_MAX) {
        return zl_fail(
            err, ZL_E_INPUT,
            "the name of a tensor must have 1 to %d printable bytes and at most %d parts, "
            "got '%.60s'",
            NAME_MAX_BYTES, ZL_TENSOR_PARTS_MAX, name);
    }
    return ZL_OK;
}

static zl_status read_shape(zl_json shape, zl_stored *t, zl_err *err)
{
    if (!zl_json_is_array(shape) || zl_json_size(shape) > ZL_STORED_DIMS) {
        return zl_fail(err, ZL_E_INPUT, "%s must be at most %d dimensions", shape.path,
                       ZL_STORED_DIMS);
    }
    zl_json item;
    for (size_t i = 0; zl_json_each(shape, &i, &item); t->rank++) {
        ZL_TRY(zl_json_u64(item, &t->dim[t->rank], err));
    }
    return ZL_OK;
}

/* Bytes of dense elements; poison where they do not fill whole bytes. */
static uint64_t bytes_of(const zl_stored *t)
{
    uint64_t bits = zl_safetensors_bits(t->dtype);
    for (uint32_t i = 0; i < t->rank; i++) {
        bits = zl_mul(bits, t->dim[i]);
    }
    return zl_exact_div(bits, 8);
}

static zl_status read_tensor(const char *name, zl_json value, const header *h, zl_stored *t,
                             zl_err *err)
{
    const zl_json offsets = zl_json_get(value, "data_offsets");
    *t = (zl_stored){.name = name};
    ZL_TRY(check_name(name, err));
    ZL_TRY(zl_json_string(zl_json_get(value, "dtype"), &t->dtype, err));
    if (zl_safetensors_bits(t->dtype) == 0) {
        return zl_fail(err, ZL_E_INPUT, "%.100s has the unknown dtype '%.20s'", name, t->dtype);
    }
    ZL_TRY(read_shape(zl_json_get(value, "shape"), t, err));
    if (zl_json_size(offsets) != 2) {
        return zl_fail(err, ZL_E_INPUT, "%s must be two numbers", offsets.path);
    }
    ZL_TRY(zl_json_u64(zl_json_item(offsets, 0), &t->begin, err));
    ZL_TRY(zl_json_u64(zl_json_item(offsets, 1), &t->end, err));
    if (t->begin > t->end || t->end > h->bytes) {
        return zl_fail(err, ZL_E_INPUT,
                       "%.100s lies at %" PRIu64 " to %" PRIu64 " of %" PRIu64
                       " bytes of tensors; is the file cut off?",
                       name, t->begin, t->end, h->bytes);
    }
    const uint64_t bytes = bytes_of(t);
    if (bytes != t->end - t->begin) {
        return zl_fail(err, ZL_E_INPUT,
                       "%.100s has %" PRIu64 " bytes between its data_offsets, its shape in %s "
                       "needs %s%" PRIu64,
                       name, t->end - t->begin, t->dtype, zl_poisoned(bytes) ? "more than " : "",
                       zl_poisoned(bytes) ? ZL_POISON - 1 : bytes);
    }
    return ZL_OK;
}

static int by_begin(const void *a, const void *b)
{
    const zl_stored *x = a;
    const zl_stored *y = b;
    const bool same = x->begin == y->begin;
    return same ? (x->end > y->end) - (x->end < y->end) : (x->begin > y->begin) ? 1 : -1;
}

/* The tensors cover what lies behind the header, without a hole and without sharing a byte. */
static zl_status check_cover(header *h, zl_err *err)
{
    uint64_t end = 0;
    if (h->count > 1) {
        qsort(h->tensor, h->count, sizeof *h->tensor, by_begin);
    }
    for (size_t i = 0; i < h->count; i++) {
        const zl_stored *t = &h->tensor[i];
        if (t->begin != end) {
            return zl_fail(err, ZL_E_INPUT,
                           "%.100s begins at byte %" PRIu64 ", %s%.100s ends at %" PRIu64
                           "; tensors must follow one another",
                           t->name, t->begin, i > 0 ? "" : "the header", i > 0 ? t[-1].name : "",
                           end);
        }
        end = t->end;
    }
    if (end != h->bytes) {
        return zl_fail(err, ZL_E_INPUT,
                       "the tensors end at byte %" PRIu64 " of %" PRIu64
                       " behind the header; is it the header of another file?",
                       end, h->bytes);
    }
    return ZL_OK;
}

static zl_status read_tensors(header *h, zl_err *err)
{
    const zl_json root = zl_json_root(h->doc);
    if (!zl_json_is_object(root)) {
        return zl_fail(err, ZL_E_INPUT, "the header must be an object");
    }
    const size_t count = zl_json_size(root);
    if (count > ZL_TENSORS_MAX) {
        return zl_fail(err, ZL_E_INPUT, "the header has %zu tensors, more than %d are not read",
                       count, ZL_TENSORS_MAX);
    }
    h->tensor = calloc(count + 1, sizeof *h->tensor);
    if (h->tensor == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for %zu tensors", count);
    }
    const char *name = NULL;
    zl_json value;
    for (size_t i = 0; zl_json_each_member(root, &i, &name, &value);) {
        if (strcmp(name, "__metadata__") != 0) {
            ZL_TRY(read_tensor(name, value, h, &h->tensor[h->count], err));
            h->count++;
        }
    }
    return check_cover(h, err);
}

/* The caller releases it, also after a failure. */
static zl_status header_read(const char *path, header *h, zl_err *err)
{
    zl_status status = read_file(path, h, err);
    if (status == ZL_OK) {
        status = read_tensors(h, err);
    }
    if (status != ZL_OK) {
        zl_fail_at(err, path);
    }
    return status;
}

/* ---- an index ---- */

typedef struct mapped {
    const char *name, *file; /* borrowed from the index */
} mapped;

/* The files of an index in order, and the tensors that it takes from them. */
typedef struct gathered {
    mapped *map;
    size_t count;
    header *shard;
    size_t shards;
    zl_stored *tensor;
    size_t tensors;
} gathered;

static int by_file(const void *a, const void *b)
{
    const mapped *x = a;
    const mapped *y = b;
    const int order = strcmp(x->file, y->file);
    return order != 0 ? order : strcmp(x->name, y->name);
}

static zl_status read_map(zl_json index, gathered *g, zl_err *err)
{
    const zl_json map = zl_json_get(index, "weight_map");
    const size_t count = zl_json_size(map);
    if (!zl_json_is_object(map) || count == 0 || count > ZL_TENSORS_MAX) {
        return zl_fail(err, ZL_E_INPUT,
                       "weight_map must be an object with the file of each of 1 to %d tensors",
                       ZL_TENSORS_MAX);
    }
    g->map = calloc(count, sizeof *g->map);
    g->shard = calloc(count, sizeof *g->shard);
    g->tensor = calloc(count, sizeof *g->tensor);
    if (g->map == NULL || g->shard == NULL || g->tensor == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for %zu tensors", count);
    }
    zl_json value;
    mapped *m = g->map;
    for (size_t i = 0; zl_json_each_member(map, &i, &m->name, &value); m++) {
        ZL_TRY(zl_json_string(value, &m->file, err));
        if (m->file[0] == '\0' || strchr(m->file, '/') != NULL) {
            return zl_fail(err, ZL_E_INPUT, "%s must be a file beside the index, got '%.60s'",
                           value.path, m->file);
        }
        if (++g->count == count) {
            break;
        }
    }
    qsort(g->map, g->count, sizeof *g->map, by_file);
    return ZL_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const zl_stored *)a)->name, ((const zl_stored *)b)->name);
}

static int name_of(const void *name, const void *t)
{
    return strcmp(name, ((const zl_stored *)t)->name);
}

/* The tensors that the index takes from one file, which begin at *at. */
static zl_status gather(const char *folder, gathered *g, size_t *at, zl_err *err)
{
    char path[PATH_MAX];
    const char *file = g->map[*at].file;
    const int used = snprintf(path, sizeof path, "%s%s", folder, file);
    if (used < 0 || (size_t)used >= sizeof path) {
        return zl_fail(err, ZL_E_INPUT, "the path of %.80s is too long; move it", file);
    }
    header *h = &g->shard[g->shards++];
    ZL_TRY(header_read(path, h, err));
    if (h->tensor == NULL) {
        return zl_fail(err, ZL_E_BUG, "%.100s has no tensors; please report this", path);
    }
    qsort(h->tensor, h->count, sizeof *h->tensor, by_name);
    for (; *at < g->count && strcmp(g->map[*at].file, file) == 0; (*at)++) {
        const char *name = g->map[*at].name;
        const zl_stored *found = bsearch(name, h->tensor, h->count, sizeof *h->tensor, name_of);
        if (found == NULL) {
            return zl_fail(err, ZL_E_INPUT, "weight_map says that %.100s is in %.100s, it is not",
                           name, file);
        }
        g->tensor[g->tensors++] = *found;
    }
    return ZL_OK;
}

static void gathered_release(gathered *g)
{
    for (size_t i = 0; i < g->shards; i++) {
        header_release(&g->shard[i]);
    }
    free(g->map);
    free(g->shard);
    free(g->tensor);
}

static zl_status read_total(zl_json index, const gathered *g, zl_stored_sizes *out, zl_err *err)
{
    const zl_json total = zl_json_get(zl_json_get(index, "metadata"), "total_size");
    zl_stored_sizes read = {.said = 0};
    for (size_t i = 0; i < g->tensors; i++) {
        read.found = zl_add(read.found, g->tensor[i].end - g->tensor[i].begin);
    }
    read.said = read.found;
    if (total.node != NULL) {
        ZL_TRY(zl_json_u64(total, &read.said, err));
    }
    *out = read;
    return ZL_OK;
}

static zl_status load_index(const char *path, zl_json_doc **out, zl_err *err)
{
    char folder[PATH_MAX];
    zl_json_doc *doc = NULL;
    gathered g = {.count = 0};
    zl_stored_sizes total = {.said = 0};
    zl_status status = ZL_OK;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path) + 1 : 0, path);
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_json index = zl_json_root(doc);
    ZL_TRY_GOTO(status, read_map(index, &g, err), out);
    for (size_t at = 0; at < g.count;) {
        ZL_TRY_GOTO(status, gather(folder, &g, &at, err), out);
    }
    ZL_TRY_GOTO(status, read_total(index, &g, &total, err), out);
    status = zl_stored_tree(g.tensor, g.tensors, total, out, err);
out:
    gathered_release(&g);
    zl_json_free(doc);
    return status;
}

static zl_status load_one(const char *path, zl_json_doc **out, zl_err *err)
{
    header h = {.doc = NULL};
    zl_status status = header_read(path, &h, err);
    if (status == ZL_OK) {
        status = zl_stored_tree(h.tensor, h.count, (zl_stored_sizes){.said = 0}, out, err);
    }
    header_release(&h);
    return status;
}

zl_status zl_safetensors_load(const char *path, zl_json_doc **out, zl_err *err)
{
    const size_t length = strlen(path);
    const bool index = length > 5 && strcmp(path + length - 5, ".json") == 0;
    return index ? load_index(path, out, err) : load_one(path, out, err);
}
