/* The grid of zl sweep: options with lists and ranges. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sweep.h"
#include "fuzz.h"

enum { WORDS = 40, WORD = 256 };

/* A range of millions of values: it takes a second, and finds what one of a thousand does. */
static bool is_long(const char *value)
{
    size_t digits = 0;
    for (const char *c = value; *c != '\0' && digits < 5; c++) {
        digits = strchr("0123456789", *c) != NULL ? digits + 1 : 0;
    }
    return digits == 5 && strstr(value, "..") != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char word[WORDS][WORD];
    static zl_args args;
    static char command[] = "sweep";
    char *argv[WORDS + 2] = {command};
    int argc = 1;
    char *const text = zl_fuzz_text(data, size);
    char *rest = text;
    const char *name = NULL;
    const char *value = NULL;
    zl_grid grid = {0};
    zl_err err = {0};
    while (argc <= WORDS && zl_fuzz_option(&rest, &name, &value)) {
        if (is_long(value)) {
            continue;
        }
        (void)snprintf(word[argc - 1], WORD, *value == '\0' ? "--%.60s" : "--%.60s=%.180s", name,
                       value);
        argv[argc] = word[argc - 1];
        argc++;
    }
    if (zl_args_parse(zl_command_find("sweep"), argc, argv, &args, &err) == ZL_OK) {
        (void)!zl_grid_read(&args, &grid, &err);
        zl_grid_clear(&grid);
    }
    free(text);
    return 0;
}
