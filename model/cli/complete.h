/* A command line of a shell, and what could stand in it. */
#ifndef ZL_CLI_COMPLETE_H
#define ZL_CLI_COMPLETE_H

#include "cmd.h"

typedef struct zl_typed {
    int argc; /* words, "zl" first */
    char **argv;
    int at;             /* the word being completed */
    const char *prefix; /* what of it is there already */
    FILE *out;
} zl_typed;

/* Writes before and candidate as one word, and its meaning unless that is NULL, if the word begins
 * with the prefix. */
void zl_offer(const zl_typed *l, const char *before, const char *candidate, const char *text);

/* Options and commands that an external program shows in its --help. */
void zl_complete_program(const zl_typed *l, const char *program);

#endif
