#include "gunzip.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* A recording of an hour of training is below 100 MiB; gzip can blow a small file up without end.
 */
static const size_t text_limit = (size_t)512 << 20;

typedef struct blob {
    char *text;
    size_t size;
    size_t capacity;
} blob;

/* False: out of memory. */
static bool blob_grow(blob *b)
{
    const size_t capacity = b->capacity == 0 ? (size_t)1 << 20 : 2 * b->capacity;
    char *text = realloc(b->text, capacity);
    if (text == NULL) {
        return false;
    }
    b->text = text;
    b->capacity = capacity;
    return true;
}

static zl_status damaged(gzFile file, const char *name, zl_err *err)
{
    int code = Z_OK;
    const int reason = errno;
    (void)gzerror(file, &code);
    if (code == Z_ERRNO) {
        return zl_fail(err, reason == EISDIR ? ZL_E_INPUT : ZL_E_RESOURCE, "cannot read %.200s: %s",
                       name, strerror(reason));
    }
    if (code == Z_MEM_ERROR) {
        return zl_fail(err, ZL_E_RESOURCE, "%.200s: out of memory", name);
    }
    return zl_fail(err, ZL_E_INPUT, "%.200s is a damaged gzip file", name);
}

static zl_status read_all(gzFile file, const char *name, blob *b, zl_err *err)
{
    static const unsigned int chunk = 1U << 16;
    for (;;) {
        if (b->capacity - b->size <= chunk && !blob_grow(b)) {
            return zl_fail(err, ZL_E_RESOURCE, "%.200s: out of memory after %zu bytes", name,
                           b->size);
        }
        errno = 0;
        const int got = gzread(file, b->text + b->size, chunk);
        if (got < 0) {
            return damaged(file, name, err);
        }
        if (got == 0) {
            b->text[b->size] = '\0';
            return ZL_OK;
        }
        b->size += (size_t)got;
        if (b->size > text_limit) {
            return zl_fail(err, ZL_E_INPUT, "%.200s is larger than 512 MiB; is it the right file?",
                           name);
        }
    }
}

zl_status zl_gunzip(const char *path, char **text, size_t *size, zl_err *err)
{
    const bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    const int copy = standard ? dup(STDIN_FILENO) : -1;
    errno = 0;
    gzFile file = standard ? gzdopen(copy, "rb") : gzopen(path, "rb");
    if (file == NULL) {
        const int reason = errno;
        if (copy >= 0) {
            close(copy);
        }
        return zl_fail(err, ZL_E_INPUT, "cannot read %.200s: %s", name,
                       reason != 0 ? strerror(reason) : "out of memory");
    }
    blob b = {0};
    zl_status status = read_all(file, name, &b, err);
    if (gzclose_r(file) == Z_BUF_ERROR && status == ZL_OK) {
        status = zl_fail(err, ZL_E_INPUT, "%.200s is a gzip file that was cut off", name);
    }
    if (status != ZL_OK) {
        free(b.text);
        return status;
    }
    *text = b.text;
    *size = b.size;
    return ZL_OK;
}
