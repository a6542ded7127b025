#include <argp.h>
#include <gsl/gsl_errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "zeroledger/text.h"
#include "zeroledger/version.h"

static const zv_command commands[] = {
    {.name = "run",
     .text = "Runs a matrix of training runs and compares every measured byte with its prediction.",
     .more =
         "Ends with the line `N cases, M differ`; exit 0 if none differs, else 1. Finished cases "
         "are kept: after an interruption the same command goes on from there.",
     .main = zv_cmd_run},
    {.name = "compare",
     .text = "Compares a predicted and a measured ledger, exactly, and the device where it was "
             "measured.",
     .more =
         "Exit 0 if every figure is equal, else 1 and the first difference is named. For a "
         "ledger of the cuda backend the arena, the owners of trace.json and the device total of "
         "train.json beside it are judged too, each on a line of its own.",
     .operand = "PREDICTED.json MEASURED.json",
     .operands = 2,
     .main = zv_cmd_compare},
    {.name = "recheck",
     .text = "Predicts every measured ledger below a folder again.",
     .more = "Ends with the line `N cases, M differ`; exit 0 if none differs, else 1.",
     .operand = "DIR",
     .operands = 1,
     .main = zv_cmd_recheck},
    {.name = "report",
     .text = "Writes report.md and its figures again from the verdicts in a folder.",
     .more = "The same verdicts give the same bytes.",
     .operand = "DIR",
     .operands = 1,
     .main = zv_cmd_report},
    {.name = "records",
     .text = "Predicts measured runs of PyTorch and DeepSpeed and shows every figure beside its "
             "prediction.",
     .more = "Ends with means and maxima by framework, version and stage, and with what they come "
             "to. A line that is no record ends it with 3 and is named.",
     .operand = "FILE.jsonl...",
     .operands = 1,
     .more_operands = true,
     .main = zv_cmd_records},
    {.name = "peers",
     .text = "Shows what other calculators answer for measured runs, beside our prediction.",
     .more = "Writes docs/peers.md. DeepSpeed's own estimators are asked about its runs in FILE by "
             "their formula; the answers of the others are read.",
     .operand = "FILE.jsonl...",
     .operands = 1,
     .more_operands = true,
     .main = zv_cmd_peers},
    {.name = "field",
     .text = "Shows figures that people published about their own runs beside our answers.",
     .more = "Writes docs/field-cases.md. CASES has the publications, SETUPS how the library is "
             "asked and how near an answer has to be. Exit 1 if one is not, and it is named.",
     .operand = "CASES.json SETUPS.json",
     .operands = 2,
     .main = zv_cmd_field},
    {.name = "mutants",
     .text = "Runs a trainer with deliberate faults, each of which must be caught.",
     .more =
         "PROGRAM obeys ZR_FAULT=name. Ends with the line `N mutants, M escaped`; exit 0 if none "
         "escaped, else 1.",
     .main = zv_cmd_mutants},
    {.name = "calibrate",
     .text =
         "Fits what is outside the arena of measured runs: constants of one GPU, driver and CUDA.",
     .more = "Reads train.json, ledgers and nccl.json below each folder; runs that calibrate and "
             "runs that judge are disjoint. A file in model/data/hardware is built into zl. Exit 1 "
             "if a run that judges is outside 1 % or 32 MiB.",
     .operand = "DIR...",
     .operands = 1,
     .more_operands = true,
     .out = "-",
     .main = zv_cmd_calibrate},
    {.name = "nccl",
     .text = "Compares what NCCL took on several GPUs with its closed form.",
     .more = "NCCL.json is what nccl_memory wrote (gpu.sh nccl), TRACE.json the same under zl "
             "trace. Exit 1 if a communicator differs.",
     .operand = "NCCL.json [TRACE.json]",
     .operands = 1,
     .more_operands = true,
     .main = zv_cmd_nccl},
    {.name = "trace",
     .text = "Compares the arena of a ledger with what zl trace saw the trainer ask for.",
     .more = "Exit 0 if the two are equal to the byte and nothing went past the allocator, else 1.",
     .operand = "LEDGER.json TRACE.json",
     .operands = 2,
     .main = zv_cmd_trace},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int overview(void)
{
    puts("usage: zl-validate [COMMAND] [OPTION...]\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        printf("  %-8s %s\n", commands[i].name, commands[i].text);
    }
    puts("\nWithout a command: run. `zl-validate COMMAND --help` shows the options of one.");
    return fflush(stdout) == 0 ? ZL_OK : ZL_E_RESOURCE;
}

static int unknown(const char *name)
{
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++) {
        names[i] = commands[i].name;
    }
    const char *const near = zl_nearest(name, names, COMMANDS);
    fprintf(stderr, "zl-validate: no command is called '%.60s'%s%s%s; see zl-validate --help\n",
            name, near == NULL ? "" : "; did you mean '", near == NULL ? "" : near,
            near == NULL ? "" : "'?");
    return ZL_E_USAGE;
}

static int execute(const zv_command *command, int argc, char **argv)
{
    zv_settings settings;
    zl_err err = {0};
    char name[32];
    snprintf(name, sizeof name, "zl-validate %s", command->name);
    argv[0] = name;
    zv_args_parse(command, argc, argv, &settings);
    zl_status status = command->main(&settings, &err);
    if (err.status != ZL_OK) {
        fprintf(stderr, "zl-validate: %s\n", err.text);
    }
    if (fflush(stdout) != 0 && status <= ZL_NO) {
        fputs("zl-validate: the output cannot be written\n", stderr);
        status = ZL_E_RESOURCE;
    }
    return (int)status;
}

int main(int argc, char **argv)
{
    gsl_set_error_handler_off();
    argp_err_exit_status = ZL_E_USAGE;
    if (argc < 2 || argv[1][0] == '-') {
        if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
            return overview();
        }
        if (argc == 2 && strcmp(argv[1], "--version") == 0) {
            return puts("zl-validate " ZL_VERSION) < 0 ? ZL_E_RESOURCE : ZL_OK;
        }
        return execute(&commands[0], argc, argv);
    }
    if (strcmp(argv[1], "help") == 0) {
        return overview();
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return execute(&commands[i], argc - 1, argv + 1);
        }
    }
    return unknown(argv[1]);
}
