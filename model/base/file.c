#define _XOPEN_SOURCE 700

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zeroledger/text.h"

/* No configuration, run or ledger comes near; a larger file is a mistake (weights, a core). */
static const size_t file_limit = (size_t)64 << 20;

typedef struct blob {
    char *text;
    size_t size;
    size_t capacity;
} blob;

static zl_status blob_grow(blob *b, const char *name, zl_err *err)
{
    const size_t capacity = b->capacity == 0 ? 16384 : 2 * b->capacity;
    char *text = realloc(b->text, capacity);
    if (text == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "%.200s: out of memory after %zu bytes", name, b->size);
    }
    b->text = text;
    b->capacity = capacity;
    return ZL_OK;
}

static zl_status read_all(int fd, const char *name, blob *b, zl_err *err)
{
    for (;;) {
        if (b->capacity - b->size < 2) {
            ZL_TRY(blob_grow(b, name, err));
        }
        const ssize_t got = read(fd, b->text + b->size, b->capacity - b->size - 1);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return zl_fail(err, errno == EISDIR ? ZL_E_INPUT : ZL_E_RESOURCE,
                           "cannot read %.200s: %s", name, strerror(errno));
        }
        if (got == 0) {
            b->text[b->size] = '\0';
            return ZL_OK;
        }
        b->size += (size_t)got;
        if (b->size > file_limit) {
            return zl_fail(err, ZL_E_INPUT, "%.200s is larger than 64 MiB; is it the right file?",
                           name);
        }
    }
}

static zl_status open_input(const char *path, int *out, zl_err *err)
{
    if (strcmp(path, "-") == 0) {
        *out = STDIN_FILENO;
        return ZL_OK;
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return zl_fail(err, ZL_E_INPUT, "cannot read %.200s: %s", path, strerror(errno));
    }
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        return zl_fail(err, ZL_E_INPUT, "%.200s is a directory; name a file in it", path);
    }
    *out = fd;
    return ZL_OK;
}

zl_status zl_file_read(const char *path, char **text, size_t *size, zl_err *err)
{
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    int fd = -1;
    ZL_TRY(open_input(path, &fd, err));
    blob b = {0};
    zl_status status = read_all(fd, name, &b, err);
    if (fd != STDIN_FILENO) {
        close(fd);
    }
    const char *zero = status == ZL_OK && b.text != NULL ? memchr(b.text, '\0', b.size) : NULL;
    if (zero != NULL) {
        status = zl_fail(err, ZL_E_INPUT, "%.200s: a zero byte at offset %zu; is it a text file?",
                         name, (size_t)(zero - b.text));
    }
    if (status != ZL_OK) {
        free(b.text);
        return status;
    }
    *text = b.text;
    *size = b.size;
    return ZL_OK;
}

static bool write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        const ssize_t put = write(fd, text, size);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        text += put;
        size -= (size_t)put;
    }
    return true;
}

static zl_status write_failed(const char *path, zl_err *err)
{
    return zl_fail(err, ZL_E_RESOURCE, "cannot write %.200s: %s", path, strerror(errno));
}

static zl_status write_stdout(const char *text, size_t size, zl_err *err)
{
    errno = 0;
    if (fwrite(text, 1, size, stdout) != size || fflush(stdout) != 0 || ferror(stdout)) {
        return write_failed("standard output", err);
    }
    return ZL_OK;
}

/* A device or a pipe cannot be replaced by a file: it is written to as it is. */
static zl_status write_through(const char *path, const char *text, size_t size, zl_err *err)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return write_failed(path, err);
    }
    const bool written = write_all(fd, text, size);
    const zl_status status = written ? ZL_OK : write_failed(path, err);
    if (close(fd) != 0 && written) {
        return write_failed(path, err);
    }
    return status;
}

/* Creates a file of our own beside the target; its name holds the process and a counter. */
static int open_beside(const char *path, char *name, size_t size, mode_t mode)
{
    static atomic_uint counter;
    for (int attempt = 0; attempt < 100; attempt++) {
        const int length = snprintf(name, size, "%s.%ld-%u.tmp", path, (long)getpid(),
                                    atomic_fetch_add(&counter, 1));
        if (length < 0 || (size_t)length >= size) {
            errno = ENAMETOOLONG;
            return -1;
        }
        const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}

/* mode: permission bits of the file that is replaced, or of a new one. */
static zl_status write_beside(const char *path, bool replaces, mode_t mode, const char *text,
                              size_t size, zl_err *err)
{
    char name[PATH_MAX + 64];
    const int fd = open_beside(path, name, sizeof name, mode);
    if (fd < 0) {
        return write_failed(path, err);
    }
    bool good = write_all(fd, text, size) && (!replaces || fchmod(fd, mode) == 0) && fsync(fd) == 0;
    int reason = errno;
    if (close(fd) != 0 && good) {
        good = false;
        reason = errno;
    }
    if (good && rename(name, path) != 0) {
        good = false;
        reason = errno;
    }
    if (!good) {
        unlink(name);
        errno = reason;
        return write_failed(path, err);
    }
    return ZL_OK;
}

zl_status zl_file_write(const char *path, const char *text, size_t size, zl_err *err)
{
    if (strcmp(path, "-") == 0) {
        return write_stdout(text, size, err);
    }
    struct stat st;
    if (stat(path, &st) != 0) {
        return write_beside(path, false, 0666, text, size, err);
    }
    if (S_ISDIR(st.st_mode)) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "cannot write %.200s: it is a directory; name a file in it", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return write_through(path, text, size, err);
    }
    /* Through a symbolic link the file it points to is replaced, not the link. */
    char real[PATH_MAX];
    if (realpath(path, real) == NULL) {
        return write_failed(path, err);
    }
    return write_beside(real, true, st.st_mode & 07777, text, size, err);
}
