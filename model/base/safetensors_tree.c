/* Names are cut at their dots; a part that is a number, a layer or an expert, is written once for
 * all numbers whose tensors are alike. */
#define _POSIX_C_SOURCE 200809L

#include "safetensors_tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/text.h"

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
    const char *a = ((const zl_stored *)left)->name;
    const char *b = ((const zl_stored *)right)->name;
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
    const zl_stored *tensor;
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

static void put_leaf(FILE *out, const zl_stored *t)
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

static zl_status check_unique(const zl_stored *t, size_t count, zl_err *err)
{
    for (size_t i = 1; i < count; i++) {
        if (strcmp(t[i - 1].name, t[i].name) == 0) {
            return zl_fail(err, ZL_E_INPUT, "the tensor %.100s is there twice", t[i].name);
        }
    }
    return ZL_OK;
}

zl_status zl_stored_tree(zl_stored *t, size_t count, zl_stored_sizes total, zl_json_doc **out,
                         zl_err *err)
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
