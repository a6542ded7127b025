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

#include "zeroledger/bytes.h"
#include "zeroledger/text.h"

enum { LENGTH_SIZE = 8, DIMS_MAX = 8, NAME_MAX_BYTES = 159 };

/* MAX_HEADER_SIZE of safetensors. */
static const uint64_t header_limit = 100000000;

typedef struct tensor {
    const char *name;  /* borrowed from its header */
    const char *dtype; /* likewise */
    uint32_t rank;
    uint64_t dim[DIMS_MAX];
    uint64_t begin, end; /* in the bytes behind the header */
} tensor;

typedef struct header {
    zl_json_doc *doc;
    tensor *tensor; /* owned */
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

static zl_status read_shape(zl_json shape, tensor *t, zl_err *err)
{
    if (!zl_json_is_array(shape) || zl_json_size(shape) > DIMS_MAX) {
        return zl_fail(err, ZL_E_INPUT, "%s must be at most %d dimensions", shape.path, DIMS_MAX);
    }
    zl_json item;
    for (size_t i = 0; zl_json_each(shape, &i, &item); t->rank++) {
        ZL_TRY(zl_json_u64(item, &t->dim[t->rank], err));
    }
    return ZL_OK;
}

/* Bytes of dense elements; poison where they do not fill whole bytes. */
static uint64_t bytes_of(const tensor *t)
{
    uint64_t bits = zl_safetensors_bits(t->dtype);
    for (uint32_t i = 0; i < t->rank; i++) {
        bits = zl_mul(bits, t->dim[i]);
    }
    return zl_exact_div(bits, 8);
}

static zl_status read_tensor(const char *name, zl_json value, const header *h, tensor *t,
                             zl_err *err)
{
    const zl_json offsets = zl_json_get(value, "data_offsets");
    *t = (tensor){.name = name};
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
    const tensor *x = a;
    const tensor *y = b;
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
        const tensor *t = &h->tensor[i];
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

/* ---- names in order, with their numbers as numbers ---- */

static size_t part_length(const char *name)
{
    return strcspn(name, ".");
}

/* 0, 17, 100: decimal, without zeros in front, so that text and number say the same. */
static bool is_number(const char *part, size_t length)
{
    enum { DIGITS_MAX = 6 };
    return length >= 1 && length <= DIGITS_MAX && strspn(part, "0123456789") >= length &&
           (length == 1 || part[0] != '0');
}

static int compare_parts(const char *a, size_t a_length, const char *b, size_t b_length)
{
    const bool a_number = is_number(a, a_length);
    const bool b_number = is_number(b, b_length);
    if (a_number != b_number) {
        return a_number ? -1 : 1;
    }
    if (a_number && a_length != b_length) {
        return a_length < b_length ? -1 : 1;
    }
    const int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}

static int by_name(const void *left, const void *right)
{
    const char *a = ((const tensor *)left)->name;
    const char *b = ((const tensor *)right)->name;
    for (;;) {
        const size_t a_length = part_length(a);
        const size_t b_length = part_length(b);
        const int order = compare_parts(a, a_length, b, b_length);
        if (order != 0) {
            return order;
        }
        a += a_length;
        b += b_length;
        if (*a == '\0' || *b == '\0') {
            return (*a != '\0') - (*b != '\0');
        }
        a++;
        b++;
    }
}

/* ---- the tree ---- */

/* Tensors in order of their names, which are alike up to `at`. */
typedef struct span {
    const tensor *tensor;
    size_t count;
    size_t at;
} span;

/* A numbered part, and what is below it as text. */
typedef struct numbered {
    uint64_t number;
    char *below; /* owned */
    bool written;
} numbered;

static zl_status put_node(FILE *out, span s, zl_err *err);

static void put_leaf(FILE *out, const tensor *t)
{
    fprintf(out, "\"%s[", t->dtype);
    for (uint32_t i = 0; i < t->rank; i++) {
        fprintf(out, "%s%" PRIu64, i > 0 ? "," : "", t->dim[i]);
    }
    fprintf(out, "]\"");
}

/* The tensors at the front of s whose part at s.at is that of the first. */
static span first_group(span s)
{
    const char *part = s.tensor[0].name + s.at;
    const size_t length = part_length(part);
    span group = {.tensor = s.tensor, .count = 1, .at = s.at + length};
    while (group.count < s.count) {
        const char *other = s.tensor[group.count].name + s.at;
        if (part_length(other) != length || memcmp(other, part, length) != 0) {
            break;
        }
        group.count++;
    }
    return group;
}

/* What is below a part: a tensor, or an object. */
static zl_status put_below(FILE *out, span group, zl_err *err)
{
    if (group.count == 1 && group.tensor[0].name[group.at] == '\0') {
        put_leaf(out, &group.tensor[0]);
        return ZL_OK;
    }
    return put_node(out, group, err);
}

static zl_status below_text(span group, char **out, zl_err *err)
{
    size_t size = 0;
    *out = NULL;
    FILE *memory = open_memstream(out, &size);
    if (memory == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the names of tensors");
    }
    const zl_status status = put_below(memory, group, err);
    fclose(memory);
    return status != ZL_OK || *out != NULL
               ? status
               : zl_fail(err, ZL_E_RESOURCE, "out of memory for the names of tensors");
}

static int by_below(const void *a, const void *b)
{
    const numbered *x = a;
    const numbered *y = b;
    const int order = strcmp(x->below, y->below);
    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

/* Those at the front with the same below them: their number. */
static size_t alike(const numbered *n, size_t count)
{
    size_t same = 1;
    while (same < count && strcmp(n[same].below, n[0].below) == 0) {
        same++;
    }
    return same;
}

/* "0-31,33" */
static void put_numbers(FILE *out, const numbered *n, size_t count)
{
    for (size_t i = 0; i < count;) {
        size_t last = i;
        while (last + 1 < count && n[last + 1].number == n[last].number + 1) {
            last++;
        }
        fprintf(out, "%s%" PRIu64, i > 0 ? "," : "", n[i].number);
        if (last > i) {
            fprintf(out, "-%" PRIu64, n[last].number);
        }
        i = last + 1;
    }
}

static void put_sets(FILE *out, numbered *n, size_t count)
{
    qsort(n, count, sizeof *n, by_below);
    for (size_t i = 0; i < count;) {
        const size_t same = alike(n + i, count - i);
        fprintf(out, "%s\"", i > 0 ? "," : "");
        put_numbers(out, n + i, same);
        fprintf(out, "\":%s", n[i].below);
        i += same;
    }
}

/* The numbered parts at the front of *s, which moves behind them. */
static zl_status put_numbered(FILE *out, span *s, zl_err *err)
{
    numbered *n = calloc(s->count, sizeof *n);
    size_t count = 0;
    zl_status status = ZL_OK;
    if (n == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for names");
    }
    while (status == ZL_OK && s->count > 0) {
        const char *part = s->tensor[0].name + s->at;
        if (!is_number(part, part_length(part))) {
            break;
        }
        const span group = first_group(*s);
        n[count].number = strtoull(part, NULL, 10);
        status = below_text(group, &n[count].below, err);
        count++;
        s->tensor += group.count;
        s->count -= group.count;
    }
    if (status == ZL_OK) {
        put_sets(out, n, count);
    }
    for (size_t i = 0; i < count; i++) {
        free(n[i].below);
    }
    free(n);
    return status;
}

/* "0-3", which would read back as numbers. */
static bool looks_like_set(const char *part, size_t length)
{
    return length >= 1 && !is_number(part, length) && strspn(part, "0123456789-,") >= length;
}

static zl_status put_named(FILE *out, span s, const char *comma, zl_err *err)
{
    for (; s.count > 0; comma = ",") {
        const span group = first_group(s);
        const char *part = s.tensor[0].name + s.at;
        const size_t length = part_length(part);
        if (length == 0 || looks_like_set(part, length)) {
            return zl_fail(err, ZL_E_UNMODELLED, "the part '%.*s' of the name %.100s is not read",
                           (int)length, part, s.tensor[0].name);
        }
        fprintf(out, "%s\"%.*s\":", comma, (int)length, part);
        ZL_TRY(put_below(out, group, err));
        s.tensor += group.count;
        s.count -= group.count;
    }
    return ZL_OK;
}

/* s.at is at the dots, or at the begin of all names. */
static zl_status put_node(FILE *out, span s, zl_err *err)
{
    const char *comma = "";
    fprintf(out, "{");
    if (s.at > 0 && s.tensor[0].name[s.at] == '\0') { /* shorter names come first */
        fprintf(out, "\"\":");
        put_leaf(out, &s.tensor[0]);
        s.tensor++;
        s.count--;
        comma = ",";
    }
    s.at += s.at > 0 ? 1 : 0;
    if (s.count > 0 && is_number(s.tensor[0].name + s.at, part_length(s.tensor[0].name + s.at))) {
        fprintf(out, "%s", comma);
        ZL_TRY(put_numbered(out, &s, err));
        comma = ",";
    }
    ZL_TRY(put_named(out, s, comma, err));
    fprintf(out, "}");
    return ZL_OK;
}

static zl_status check_unique(const tensor *t, size_t count, zl_err *err)
{
    for (size_t i = 1; i < count; i++) {
        if (strcmp(t[i - 1].name, t[i].name) == 0) {
            return zl_fail(err, ZL_E_INPUT, "the tensor %.100s is there twice", t[i].name);
        }
    }
    return ZL_OK;
}

/* What an index says of the sum of all tensors, where it is wrong. */
typedef struct sizes {
    uint64_t said, found;
} sizes;

static zl_status put_document(tensor *t, size_t count, sizes total, zl_json_doc **out, zl_err *err)
{
    char *text = NULL;
    size_t size = 0;
    if (count == 0) {
        return zl_fail(err, ZL_E_INPUT, "there is no tensor in it");
    }
    qsort(t, count, sizeof *t, by_name);
    ZL_TRY(check_unique(t, count, err));
    FILE *memory = open_memstream(&text, &size);
    if (memory == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the names of tensors");
    }
    fprintf(memory, "{\"tensors\":");
    zl_status status = put_node(memory, (span){.tensor = t, .count = count}, err);
    if (total.said != total.found) {
        fprintf(memory, ",\"total_size\":%" PRIu64 ",\"tensor_bytes\":%" PRIu64, total.said,
                total.found);
    }
    fprintf(memory, "}");
    fclose(memory);
    if (status == ZL_OK) {
        status = text != NULL ? zl_json_parse("tensors", text, size, out, err)
                              : zl_fail(err, ZL_E_RESOURCE, "out of memory for names");
    }
    free(text);
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
    tensor *tensor;
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

static int name_of(const void *name, const void *t)
{
    return by_name(&(tensor){.name = name}, t);
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
        const tensor *found = bsearch(name, h->tensor, h->count, sizeof *h->tensor, name_of);
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

static zl_status read_total(zl_json index, const gathered *g, sizes *out, zl_err *err)
{
    const zl_json total = zl_json_get(zl_json_get(index, "metadata"), "total_size");
    sizes read = {.said = 0};
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
    sizes total = {.said = 0};
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
    status = put_document(g.tensor, g.tensors, total, out, err);
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
        status = put_document(h.tensor, h.count, (sizes){.said = 0}, out, err);
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
