#include "tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"
#include "zeroledger/json.h"

enum { ENTRIES_MAX = 256, NAME_SIZE = 64, WORD_SIZE = 4096, ELEMENT = 4 };
/* Nothing here is larger; a length beyond it is no length. */
static const uint64_t FILE_MAX = (uint64_t)64 << 20;

typedef struct entry {
    char name[NAME_SIZE];
    bool integers;
    uint64_t begin; /* bytes from the begin of the data */
    uint64_t count;
} entry;

typedef struct word {
    char key[NAME_SIZE];
    char text[WORD_SIZE];
} word;

struct tensors {
    char path[256]; /* for messages; "" of a file being made */
    uint64_t entries;
    entry entry[ENTRIES_MAX];
    uint64_t words;
    word word[ENTRIES_MAX];
    unsigned char *data;
    uint64_t bytes;
    bool failed;
};

tensors *tensors_new(void)
{
    return calloc(1, sizeof(tensors));
}

void tensors_free(tensors *file)
{
    if (file != NULL) {
        free(file->data);
        free(file);
    }
}

static void put(tensors *file, const char *name, bool integers, const void *value, uint64_t count)
{
    const uint64_t bytes = zl_mul(count, ELEMENT);
    unsigned char *data =
        file->entries == ENTRIES_MAX ? NULL : realloc(file->data, zl_add(file->bytes, bytes));
    if (data == NULL) {
        file->failed = true;
        return;
    }
    memcpy(data + file->bytes, value, bytes);
    entry *e = &file->entry[file->entries++];
    *e = (entry){.integers = integers, .begin = file->bytes, .count = count};
    snprintf(e->name, sizeof e->name, "%s", name);
    file->data = data;
    file->bytes += bytes;
}

void tensors_put_floats(tensors *file, const char *name, const float *value, uint64_t count)
{
    put(file, name, false, value, count);
}

void tensors_put_ints(tensors *file, const char *name, const int32_t *value, uint64_t count)
{
    put(file, name, true, value, count);
}

void tensors_put_word(tensors *file, const char *key, const char *text)
{
    if (file->words == ENTRIES_MAX || strlen(text) >= WORD_SIZE) {
        file->failed = true;
        return;
    }
    word *w = &file->word[file->words++];
    snprintf(w->key, sizeof w->key, "%s", key);
    snprintf(w->text, sizeof w->text, "%s", text);
}

static void put_header(const tensors *file, zl_json_writer *w)
{
    zl_json_begin_object(w, NULL);
    zl_json_begin_object(w, "__metadata__");
    for (uint64_t i = 0; i < file->words; i++) {
        zl_json_put_string(w, file->word[i].key, file->word[i].text);
    }
    zl_json_end(w);
    for (uint64_t i = 0; i < file->entries; i++) {
        const entry *e = &file->entry[i];
        zl_json_begin_object(w, e->name);
        zl_json_put_string(w, "dtype", e->integers ? "I32" : "F32");
        zl_json_begin_array(w, "shape");
        zl_json_put_u64(w, NULL, e->count);
        zl_json_end(w);
        zl_json_begin_array(w, "data_offsets");
        zl_json_put_u64(w, NULL, e->begin);
        zl_json_put_u64(w, NULL, e->begin + e->count * ELEMENT);
        zl_json_end(w);
        zl_json_end(w);
    }
    zl_json_end(w);
}

/* The header is filled up with spaces, so that the data is aligned. */
static bool write_all(const tensors *file, FILE *f, const char *header, size_t length)
{
    const uint64_t padded = zl_align_up(length, 8);
    return fwrite(&padded, sizeof padded, 1, f) == 1 && fwrite(header, 1, length, f) == length &&
           fwrite("        ", 1, padded - length, f) == padded - length &&
           fwrite(file->data, 1, file->bytes, f) == file->bytes;
}

zl_status tensors_save(const tensors *file, const char *path, zl_err *err)
{
    size_t length = 0;
    zl_json_writer *w = zl_json_writer_new();
    const char *header = NULL;
    if (w != NULL) {
        put_header(file, w);
        header = zl_json_writer_text(w, &length);
    }
    FILE *f = header == NULL || file->failed ? NULL : fopen(path, "wb");
    const bool written = f != NULL && write_all(file, f, header, length);
    const bool closed = f != NULL && fclose(f) == 0;
    zl_json_writer_free(w);
    return written && closed ? ZL_OK
                             : zl_fail(err, ZL_E_RESOURCE, "%s: cannot be written: %s", path,
                                       f == NULL && file->failed ? "too large" : strerror(errno));
}

static zl_status read_entry(tensors *file, const char *name, zl_json value, zl_err *err)
{
    if (file->entries == ENTRIES_MAX) {
        return zl_fail(err, ZL_E_INPUT, "more than %d tensors", ENTRIES_MAX);
    }
    entry *e = &file->entry[file->entries++];
    const char *dtype;
    const zl_json place = zl_json_get(value, "data_offsets");
    uint64_t end;
    ZL_TRY(zl_json_string(zl_json_get(value, "dtype"), &dtype, err));
    ZL_TRY(zl_json_u64(zl_json_item(place, 0), &e->begin, err));
    ZL_TRY(zl_json_u64(zl_json_item(place, 1), &end, err));
    snprintf(e->name, sizeof e->name, "%s", name);
    e->integers = strcmp(dtype, "I32") == 0;
    if (!e->integers && strcmp(dtype, "F32") != 0) {
        return zl_fail(err, ZL_E_INPUT, "%s: type %s, only F32 and I32 are read", name, dtype);
    }
    if (end < e->begin || end > file->bytes || (end - e->begin) % ELEMENT != 0 ||
        e->begin % ELEMENT != 0) {
        return zl_fail(err, ZL_E_INPUT, "%s: outside the file", name);
    }
    e->count = zl_exact_div(end - e->begin, ELEMENT);
    return ZL_OK;
}

static zl_status read_header(tensors *file, zl_json root, zl_err *err)
{
    for (size_t i = 0; i < zl_json_size(root); i++) {
        const char *name = zl_json_key(root, i);
        const zl_json value = zl_json_get(root, name);
        if (strcmp(name, "__metadata__") != 0) {
            ZL_TRY(read_entry(file, name, value, err));
        }
    }
    const zl_json words = zl_json_get(root, "__metadata__");
    for (size_t i = 0; i < zl_json_size(words); i++) {
        const char *text;
        ZL_TRY(zl_json_string(zl_json_get(words, zl_json_key(words, i)), &text, err));
        tensors_put_word(file, zl_json_key(words, i), text);
    }
    return file->failed ? zl_fail(err, ZL_E_INPUT, "too many words, or one too long") : ZL_OK;
}

/* The header's text, NUL behind it, and the data. */
static zl_status read_all(tensors *file, FILE *f, char **header, uint64_t *length, zl_err *err)
{
    if (fread(length, sizeof *length, 1, f) != 1 || *length > FILE_MAX) {
        return zl_fail(err, ZL_E_INPUT, "no length of a header");
    }
    *header = calloc(1, *length + 1);
    file->data = malloc(FILE_MAX);
    if (*header == NULL || file->data == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    if (fread(*header, 1, *length, f) != *length) {
        return zl_fail(err, ZL_E_INPUT, "the header ends early");
    }
    file->bytes = fread(file->data, 1, FILE_MAX, f);
    return ZL_OK;
}

static zl_status load(tensors *file, FILE *f, zl_err *err)
{
    char *header = NULL;
    uint64_t length = 0;
    zl_json_doc *doc = NULL;
    zl_status status;
    ZL_TRY_GOTO(status, read_all(file, f, &header, &length, err), out);
    ZL_TRY_GOTO(status, zl_json_parse("header", header, length, &doc, err), out);
    status = read_header(file, zl_json_root(doc), err);
out:
    zl_json_free(doc);
    free(header);
    return status;
}

zl_status tensors_load(const char *path, tensors **out, zl_err *err)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        return zl_fail(err, ZL_E_INPUT, "%s: %s", path, strerror(errno));
    }
    tensors *file = tensors_new();
    if (file == NULL) {
        fclose(f);
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    snprintf(file->path, sizeof file->path, "%s", path);
    const zl_status status = load(file, f, err);
    fclose(f);
    if (status != ZL_OK) {
        tensors_free(file);
        zl_fail_at(err, path);
        return status;
    }
    *out = file;
    return ZL_OK;
}

static zl_status find(const tensors *file, const char *name, bool integers, uint64_t count,
                      const void **out, zl_err *err)
{
    for (uint64_t i = 0; i < file->entries; i++) {
        const entry *e = &file->entry[i];
        if (strcmp(e->name, name) == 0 && e->integers == integers && e->count == count) {
            *out = file->data + e->begin;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_INPUT, "%s: no tensor %s of %" PRIu64 " %s", file->path, name, count,
                   integers ? "integers" : "fp32 numbers");
}

zl_status tensors_floats(const tensors *file, const char *name, uint64_t count, const float **out,
                         zl_err *err)
{
    const void *found = NULL;
    ZL_TRY(find(file, name, false, count, &found, err));
    *out = found;
    return ZL_OK;
}

zl_status tensors_ints(const tensors *file, const char *name, uint64_t count, const int32_t **out,
                       zl_err *err)
{
    const void *found = NULL;
    ZL_TRY(find(file, name, true, count, &found, err));
    *out = found;
    return ZL_OK;
}

zl_status tensors_word(const tensors *file, const char *key, const char **out, zl_err *err)
{
    for (uint64_t i = 0; i < file->words; i++) {
        if (strcmp(file->word[i].key, key) == 0) {
            *out = file->word[i].text;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_INPUT, "%s: no word %s", file->path, key);
}
