/* zl help: the overview from the table of commands, or one command's options from its rows. */
#include <stdlib.h>
#include <string.h>

#include "cmd.h"

static void overview(FILE *out)
{
    static const char *const titles[ZL_TOPIC_COUNT] = {
        [ZL_TOPIC_ASK] = "ask (no GPU, no training, milliseconds)",
        [ZL_TOPIC_RUN] = "run",
        [ZL_TOPIC_CHECK] = "check",
    };
    fputs("zl: every byte of a ZeRO training run, predicted by a closed form\n"
          "Usage: zl COMMAND [OPTION...]\n",
          out);
    for (int topic = 0; topic < ZL_TOPIC_COUNT; topic++) {
        fprintf(out, "\n%s\n", titles[topic]);
        const zl_command *command = NULL;
        for (size_t i = 0; (command = zl_command_at(i)) != NULL; i++) {
            if (command->topic == (zl_topic)topic) {
                fprintf(out, "  %-9s %s\n", command->name, command->text);
            }
        }
    }
    fputs("\n'zl COMMAND --help' explains a command, 'zl --version' prints the version.\n"
          "Options may be abbreviated as long as they are unambiguous; scripts write them out.\n"
          "Exit status: 0 fine, 1 the answer is no, 2 usage, 3 bad input file, 4 device, memory\n"
          "or I/O failure, 5 bug, 6 not modelled.\n",
          out);
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
        overview(page.file);
    } else {
        status = zl_args_help(command, page.file, err);
    }
    return zl_page_end(&page, status, err);
}
