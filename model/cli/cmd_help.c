/* zl help: the overview from the table of commands, or one command's options from its rows. */
#include <stdlib.h>
#include <string.h>

#include "cmd.h"

/* A line whose words go on below its first where the terminal ends; width 0: nowhere. */
static void fold(FILE *out, const char *text, int indent, int width)
{
    int at = indent;
    while (*text != '\0') {
        const int length = (int)strcspn(text, " ");
        if (at > indent && width > 0 && at + 1 + length > width) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", length, text);
        at += length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void overview(FILE *out, int width)
{
    static const char *const titles[ZL_TOPIC_COUNT] = {
        [ZL_TOPIC_ASK] = "ask (no GPU, no training, milliseconds)",
        [ZL_TOPIC_RUN] = "run",
        [ZL_TOPIC_CHECK] = "check",
    };
    static const char *const below[] = {
        "'zl COMMAND --help' explains a command, 'zl --version' prints the version.",
        "Options may be abbreviated as long as they are unambiguous; scripts write them out.",
        "Exit status: 0 fine, 1 the answer is no, 2 usage, 3 bad input file, 4 device, memory",
        "or I/O failure, 5 bug, 6 not modelled.",
    };
    fold(out, "zl: every byte of a ZeRO training run, predicted by a closed form", 0, width);
    fold(out, "Usage: zl COMMAND [OPTION...]", 0, width);
    for (int topic = 0; topic < ZL_TOPIC_COUNT; topic++) {
        fprintf(out, "\n%s\n", titles[topic]);
        const zl_command *command = NULL;
        for (size_t i = 0; (command = zl_command_at(i)) != NULL; i++) {
            if (command->topic == (zl_topic)topic) {
                fprintf(out, "  %-9s ", command->name);
                fold(out, command->text, 12, width);
            }
        }
    }
    fputc('\n', out);
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        fold(out, below[i], 0, width);
    }
}

zl_status zl_cmd_help(const zl_args *args, zl_err *err)
{
    const zl_command *command = NULL;
    if (args->operand != NULL) {
        ZL_TRY(zl_command_require(args->operand, &command, err));
    }
    if (command != NULL && command->program != NULL) {
        char program[64];
        char flag[] = "--help";
        snprintf(program, sizeof program, "%s", command->program);
        return zl_program_exec(command->program, (char *[]){program, flag, NULL}, err);
    }
    zl_page page;
    ZL_TRY(zl_page_open(&page, &args->view, err));
    zl_status status = ZL_OK;
    if (command == NULL) {
        overview(page.file, page.view->width);
    } else {
        status = zl_args_help(command, page.file, err);
    }
    return zl_page_end(&page, status, err);
}
