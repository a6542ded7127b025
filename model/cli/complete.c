/* zl __complete CWORD WORD...: what could stand at word number CWORD of a command line, one
 * candidate a line; nothing means that the shell should offer file names. Walks the same rows as
 * the help. */
#include <stdlib.h>
#include <string.h>

#include "cmd.h"

typedef struct line {
    int argc; /* words, "zl" first */
    char **argv;
    int at; /* the word being completed */
    FILE *out;
} line;

static const char *word(const line *l, int index)
{
    return index >= 0 && index < l->argc ? l->argv[index] : "";
}

static void offer(const line *l, const char *before, const char *candidate, const char *prefix)
{
    if (strncmp(candidate, prefix, strlen(prefix)) == 0) {
        fprintf(l->out, "%s%s\n", before, candidate);
    }
}

static void offer_list(const line *l, const char *list, const char *prefix)
{
    char name[64];
    for (size_t i = 0; list != NULL && zl_list_item(list, i, name, sizeof name); i++) {
        offer(l, "", name, prefix);
    }
}

static void offer_values(const line *l, const zl_option *option, const char *prefix)
{
    const char *name = NULL;
    const zl_gpu *gpu = NULL;
    for (size_t i = 0; strcmp(option->name, "model") == 0 && (name = zl_model_preset(i)) != NULL;
         i++) {
        offer(l, "", name, prefix);
    }
    for (size_t i = 0; strcmp(option->name, "gpu") == 0 && (gpu = zl_gpu_at(i)) != NULL; i++) {
        offer(l, "", gpu->name, prefix);
    }
    offer_list(l, option->values, prefix);
}

/* The option whose value the word is: "--stage X", or as bash splits "--stage=X", with = a word. */
static const zl_option *option_before(const line *l, const zl_command *command)
{
    int index = l->at - 1;
    index -= strcmp(word(l, index), "=") == 0 ? 1 : 0;
    const char *name = word(l, index);
    const zl_option *option = NULL;
    if (index < 2 || strncmp(name, "--", 2) != 0 ||
        zl_command_match(command, name + 2, strlen(name + 2), &option, NULL) != ZL_OK) {
        return NULL;
    }
    return option->arg != NULL ? option : NULL;
}

static void complete_word(const line *l, const zl_command *command)
{
    const bool equals = strcmp(word(l, l->at), "=") == 0;
    const line next = {l->argc, l->argv, l->at + 1, l->out};
    const zl_option *option = option_before(equals ? &next : l, command);
    const char *prefix = equals ? "" : word(l, l->at);
    if (option != NULL) {
        offer_values(l, option, prefix);
        return;
    }
    if (strncmp(prefix, "-", 1) != 0) {
        const zl_command *other = NULL;
        offer_list(l, command->operands, prefix);
        for (size_t i = 0; command->main == zl_cmd_help && (other = zl_command_at(i)) != NULL;
             i++) {
            offer(l, "", other->name, prefix);
        }
        return;
    }
    const char *name = prefix + strspn(prefix, "-");
    for (size_t i = 0; (option = zl_command_option(command, i, NULL)) != NULL; i++) {
        offer(l, "--", option->name, name);
        if (option->alias != NULL) {
            offer(l, "--", option->alias, name);
        }
    }
}

zl_status zl_cmd_complete(int argc, char **argv, zl_err *err)
{
    uint64_t at = 0;
    if (argc < 3) {
        return zl_fail(err, ZL_E_USAGE, "usage: zl __complete CWORD WORD...");
    }
    ZL_TRY(zl_parse_count("CWORD", argv[1], &at, err));
    const int words = argc - 2;
    const zl_view view = {.out = "-"};
    zl_page page;
    ZL_TRY(zl_page_open(&page, &view, err));
    const line l = {words, argv + 2, at < (uint64_t)words ? (int)at : words, page.file};
    if (l.at <= 1) {
        const zl_command *command = NULL;
        for (size_t i = 0; (command = zl_command_at(i)) != NULL; i++) {
            offer(&l, "", command->name, word(&l, 1));
        }
    } else {
        const zl_command *command = zl_command_find(word(&l, 1));
        if (command != NULL && command->program == NULL) {
            complete_word(&l, command);
        }
    }
    return zl_page_end(&page, ZL_OK, err);
}
