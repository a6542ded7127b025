/* zl __complete CWORD WORD...: what could stand at word number CWORD of a command line, one
 * candidate a line, with a tab and its meaning behind where it has one; nothing means that the
 * shell should offer file names. Walks the same rows as the help. */
#include "complete.h"

#include <stdlib.h>
#include <string.h>

void zl_offer(const zl_typed *l, const char *before, const char *candidate, const char *text)
{
    char whole[192];
    snprintf(whole, sizeof whole, "%s%s", before, candidate);
    if (strncmp(whole, l->prefix, strlen(l->prefix)) == 0) {
        fprintf(l->out, "%s%s%s\n", whole, text != NULL ? "\t" : "", text != NULL ? text : "");
    }
}

static const char *word(const zl_typed *l, int index)
{
    return index >= 0 && index < l->argc ? l->argv[index] : "";
}

static void offer_list(const zl_typed *l, const char *before, const char *list)
{
    char name[64];
    for (size_t i = 0; list != NULL && zl_list_item(list, i, name, sizeof name); i++) {
        zl_offer(l, before, name, NULL);
    }
}

static void offer_values(const zl_typed *l, const char *before, const zl_option *option)
{
    const char *name = NULL;
    const zl_gpu *gpu = NULL;
    for (size_t i = 0; strcmp(option->name, "model") == 0 && (name = zl_model_preset(i)) != NULL;
         i++) {
        zl_offer(l, before, name, NULL);
    }
    for (size_t i = 0; strcmp(option->name, "gpu") == 0 && (gpu = zl_gpu_at(i)) != NULL; i++) {
        zl_offer(l, before, gpu->name, gpu->text);
    }
    offer_list(l, before, option->values);
}

static const zl_option *option_of(const zl_command *command, const char *name, size_t length)
{
    const zl_option *option = NULL;
    return zl_command_match(command, name, length, &option, NULL) == ZL_OK && option->arg != NULL
               ? option
               : NULL;
}

/* The option whose value the word is: "--stage X", or as bash splits "--stage=X", with = a word. */
static const zl_option *option_before(const zl_typed *l, const zl_command *command)
{
    int index = l->at - 1;
    index -= strcmp(word(l, index), "=") == 0 ? 1 : 0;
    const char *name = word(l, index);
    return index >= 2 && strncmp(name, "--", 2) == 0
               ? option_of(command, name + 2, strlen(name + 2))
               : NULL;
}

static void offer_options(const zl_typed *l, const zl_command *command)
{
    const zl_option *option = NULL;
    for (size_t i = 0; (option = zl_command_option(command, i, NULL)) != NULL; i++) {
        zl_offer(l, "--", option->name, option->text);
        if (option->alias != NULL) {
            zl_offer(l, "--", option->alias, option->text);
        }
    }
}

static void offer_commands(const zl_typed *l)
{
    const zl_command *command = NULL;
    for (size_t i = 0; (command = zl_command_at(i)) != NULL; i++) {
        zl_offer(l, "", command->name, command->text);
    }
}

static void complete_word(zl_typed *l, const zl_command *command)
{
    const bool equals = strcmp(l->prefix, "=") == 0; /* bash, in front of the value */
    const zl_typed next = {.argc = l->argc, .argv = l->argv, .at = l->at + 1};
    const zl_option *option = option_before(equals ? &next : l, command);
    l->prefix = equals ? "" : l->prefix;
    if (option != NULL) {
        offer_values(l, "", option);
        return;
    }
    if (strncmp(l->prefix, "-", 1) != 0) {
        offer_list(l, "", command->operands);
        if (command->main == zl_cmd_help) {
            offer_commands(l);
        }
        return;
    }
    const size_t length = strcspn(l->prefix, "=");
    if (l->prefix[length] != '=') {
        offer_options(l, command);
    } else if (length > 2 && (option = option_of(command, l->prefix + 2, length - 2)) != NULL) {
        char before[64];
        snprintf(before, sizeof before, "%.*s=", (int)(length < 60 ? length : 60), l->prefix);
        offer_values(l, before, option);
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
    zl_typed l = {.argc = words,
                  .argv = argv + 2,
                  .at = at < (uint64_t)words ? (int)at : words,
                  .out = page.file};
    l.prefix = word(&l, l.at);
    const zl_command *command = zl_command_find(word(&l, 1));
    if (l.at <= 1) {
        offer_commands(&l);
    } else if (command != NULL && command->program != NULL) {
        zl_complete_program(&l, command->program);
    } else if (command != NULL) {
        complete_word(&l, command);
    }
    return zl_page_end(&page, ZL_OK, err);
}
