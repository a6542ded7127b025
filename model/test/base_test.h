/* What the tests of base/ share: cmocka, errors by status and words, a folder of their own. */
#ifndef ZL_TEST_BASE_TEST_H
#define ZL_TEST_BASE_TEST_H

#define _XOPEN_SOURCE 700

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "zeroledger/error.h"
#include "zeroledger/text.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The failure has the status and its one line names `part`. */
static inline void assert_error(zl_status got, const zl_err *err, zl_status status,
                                const char *part)
{
    if (got != status || err->status != status || strstr(err->text, part) == NULL) {
        fail_msg("expected %d with \"%s\", got %d (%d) with \"%s\"", (int)status, part, (int)got,
                 (int)err->status, err->text);
    }
    assert_null(strpbrk(err->text, "\n\r"));
}

static inline void assert_ok(zl_status got, const zl_err *err)
{
    if (got != ZL_OK) {
        fail_msg("expected success, got %d with \"%s\"", (int)got, err->text);
    }
}

/* A group setup: enters a new folder below the current one; the teardown removes it and its files.
 */
static inline int enter_folder(void **state)
{
    char *name = strdup("base-test-XXXXXX");
    *state = name;
    return name == NULL || mkdtemp(name) == NULL || chdir(name) != 0;
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static inline int leave_folder(void **state)
{
    const int left = chdir("..");
    const int removed = nftw(*state, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return left != 0 || removed != 0;
}

static inline void write_text(const char *path, const char *text)
{
    zl_err err = {.status = ZL_OK};
    assert_ok(zl_file_write(path, text, strlen(text), &err), &err);
}

/* Heap copy of a text file; the caller frees it. */
static inline char *read_text(const char *path)
{
    zl_err err = {.status = ZL_OK};
    char *text = NULL;
    size_t size = 0;
    assert_ok(zl_file_read(path, &text, &size, &err), &err);
    return text;
}

/* Heap copy of `text` with the first `from` replaced by `to`; the caller frees it. */
static inline char *replaced(const char *text, const char *from, const char *to)
{
    size_t before = 0;
    while (text[before] != '\0' && strncmp(text + before, from, strlen(from)) != 0) {
        before++;
    }
    if (text[before] == '\0') {
        fail_msg("\"%s\" is not in the text", from);
    }
    const size_t size = strlen(text) + strlen(to) + 1;
    char *copy = malloc(size);
    assert_non_null(copy);
    snprintf(copy, size, "%.*s%s%s", (int)before, text, to, text + before + strlen(from));
    return copy;
}

#endif
