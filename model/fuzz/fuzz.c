#define _GNU_SOURCE
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zeroledger/run.h"

/* The machinery itself failed: no finding, so the fuzzer has to stop with a word. */
static void require(int fine, const char *what)
{
    if (!fine) {
        perror(what);
        _exit(4);
    }
}

char *zl_fuzz_text(const uint8_t *data, size_t size)
{
    char *const text = malloc(size + 1);
    require(text != NULL, "malloc");
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    return text;
}

const char *zl_fuzz_file(unsigned slot, const uint8_t *data, size_t size)
{
    static int file[ZL_FUZZ_SLOTS];
    static char path[ZL_FUZZ_SLOTS][32];
    if (file[slot] == 0) {
        file[slot] = memfd_create("fuzz", MFD_CLOEXEC);
        require(file[slot] > 0, "memfd_create");
        (void)snprintf(path[slot], sizeof path[slot], "/proc/self/fd/%d", file[slot]);
    }
    require(ftruncate(file[slot], 0) == 0, "ftruncate");
    require(size == 0 || pwrite(file[slot], data, size, 0) == (ssize_t)size, "pwrite");
    return path[slot];
}

static char folder[] = "/tmp/zl_fuzz.XXXXXX";
static char named[ZL_FUZZ_SLOTS][128];

static void remove_folder(void)
{
    for (unsigned slot = 0; slot < ZL_FUZZ_SLOTS; slot++) {
        (void)unlink(named[slot]);
    }
    (void)rmdir(folder);
}

const char *zl_fuzz_named(unsigned slot, const char *name, const uint8_t *data, size_t size)
{
    static bool made;
    const char *const path = zl_fuzz_file(slot, data, size);
    if (!made) {
        require(mkdtemp(folder) != NULL && atexit(remove_folder) == 0, "mkdtemp");
        made = true;
    }
    if (named[slot][0] == '\0') {
        (void)snprintf(named[slot], sizeof named[slot], "%s/%s", folder, name);
        require(symlink(path, named[slot]) == 0, "symlink");
    }
    return named[slot];
}

/* Names may be cut short, as on a command line. */
static bool is_option(const char *option, const char *name)
{
    return option != NULL && strncmp(option, name, strlen(name)) == 0;
}

static bool names_a_file(const char *name, const char *value)
{
    const zl_option *option = NULL;
    for (size_t i = 0; (option = zl_run_option(i)) != NULL; i++) {
        const bool same = is_option(option->name, name) || is_option(option->alias, name);
        if (same && option->arg != NULL && strstr(option->arg, "FILE") != NULL) {
            return true;
        }
    }
    return (is_option("model", name) && strpbrk(value, "/._") != NULL) ||
           (is_option("lora", name) && strpbrk(value, ":,") == NULL);
}

bool zl_fuzz_option(char **rest, const char **name, const char **value)
{
    char *line = NULL;
    while ((line = strsep(rest, "\n")) != NULL) {
        char *const space = strchr(line, ' ');
        if (space != NULL) {
            *space = '\0';
        }
        *name = line;
        *value = space == NULL ? "" : space + 1;
        if (*line != '\0' && !names_a_file(*name, *value)) {
            return true;
        }
    }
    return false;
}
