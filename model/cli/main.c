/* zl: every byte of a ZeRO training run, predicted. One row per command; see cmd.h. */
#include <argp.h>
#include <string.h>

#include "cmd.h"
#include "zeroledger/version.h"

static const zl_command commands[] = {
    {.name = "predict",
     .topic = ZL_TOPIC_ASK,
     .text = "memory of every phase of training, by kind",
     .more = "Example: zl predict --model gpt2 --stage 3 --ranks 8 --micro-batch 4",
     .takes_run = true,
     .takes_output = true,
     .own = zl_predict_options,
     .main = zl_cmd_predict},
    {.name = "explain",
     .topic = ZL_TOPIC_ASK,
     .text = "every term of a phase's peak with its formula, and why it is not N times smaller",
     .more = "Example: zl explain --model gpt2 --stage 3 --ranks 8 --phase backward",
     .takes_run = true,
     .takes_output = true,
     .own = zl_explain_options,
     .main = zl_cmd_explain},
    {.name = "fit",
     .topic = ZL_TOPIC_ASK,
     .text = "largest batch, sequence or depth that fits, fewest ranks or lowest stage, proved",
     .more =
         "Example: zl fit --model gpt2-xl --stage 3 --ranks 8 --gpu a100-40g\n\n"
         "The better neighbour of the answer is shown: it does not fit. The exit status is 0 if "
         "something fits and 1 if nothing does.",
     .takes_run = true,
     .takes_output = true,
     .own = zl_fit_options,
     .main = zl_cmd_fit},
    {.name = "sweep",
     .topic = ZL_TOPIC_ASK,
     .text = "the peak of every run of a grid: any options with lists or ranges",
     .more =
         "A value is a list: 0,1,3. Items of numbers may be ranges: 1..8, 512..4096+512, 1..64x2. "
         "An option given again has more values. The last one varies fastest.\n\n"
         "Example: zl sweep --model gpt2-xl --stage 0,1,2,3 --ranks 8 --micro-batch 1..32x2 --gpu "
         "a100-40g",
     .takes_run = true,
     .takes_output = true,
     .own = zl_sweep_options,
     .main = zl_cmd_sweep},
    {.name = "advise",
     .topic = ZL_TOPIC_ASK,
     .text = "changes that lower the peak, what each costs, and the fewest that make a run fit",
     .more =
         "Example: zl advise --model llama-3-8b --framework deepspeed --stage 2 --ranks 8 --gpu "
         "a100-80g --headroom 5%\n\n"
         "Without --gpu or --capacity every change that lowers the peak is listed. The exit "
         "status is 1 if a capacity was given and no set of changes fits in it.",
     .takes_run = true,
     .takes_output = true,
     .own = zl_advise_options,
     .main = zl_cmd_advise},
    {.name = "decode",
     .topic = ZL_TOPIC_ASK,
     .text = "what an out-of-memory message of PyTorch says, and which buffer it may have been",
     .more =
         "MESSAGE is the text in quotes, a size, or - for the standard input. Without a run the "
         "figures are explained; with one, every buffer of that size is listed.\n\n"
         "Example: zl decode 'Tried to allocate 3.14 GiB'",
     .operand = "MESSAGE",
     .takes_run = true,
     .takes_output = true,
     .own = zl_decode_options,
     .main = zl_cmd_decode},
    {.name = "list",
     .topic = ZL_TOPIC_ASK,
     .text = "names that options take and outputs use, with what they mean",
     .operand = "WHAT",
     .operands = "models,architectures,gpus,frameworks,buffers,kinds,phases,visits",
     .takes_output = true,
     .main = zl_cmd_list},
    {.name = "train",
     .topic = ZL_TOPIC_RUN,
     .text = "run the sharded trainer and measure it (zl-train)",
     .program = "zl-train"},
    {.name = "trace",
     .topic = ZL_TOPIC_RUN,
     .text = "run any program and meter its device memory by owner (zl-trace)",
     .program = "zl-trace"},
    {.name = "validate",
     .topic = ZL_TOPIC_CHECK,
     .text = "compare measurements with predictions (zl-validate)",
     .program = "zl-validate"},
    {.name = "compare",
     .topic = ZL_TOPIC_CHECK,
     .text = "a log of training beside the prediction of its run, figure by figure",
     .more =
         "LOG is a file, gzip or not; - is the standard input. Understood are DeepSpeed's memory "
         "lines, torch.cuda.memory_summary(), out-of-memory messages, snapshots as JSON, and "
         "nvidia-smi in CSV. The exit status is 1 if a figure differs by more than rounding.\n\n"
         "Example: zl compare train.log --model bert-large --deepspeed-config ds_config.json "
         "--ranks 8 --seq 128",
     .operand = "LOG",
     .takes_run = true,
     .takes_output = true,
     .own = zl_compare_options,
     .main = zl_cmd_compare},
    {.name = "replay",
     .topic = ZL_TOPIC_CHECK,
     .text = "replay a recording of PyTorch's caching allocator, and check every segment of it",
     .more =
         "TRACE is JSON, packed by gzip or not; - is the standard input. The exit status is 1 if "
         "a segment or an address differs.\n\n"
         "Example: zl replay gpt2.trace.json.gz --units B",
     .operand = "TRACE",
     .takes_output = true,
     .own = zl_replay_options,
     .main = zl_cmd_replay},
    {.name = "doctor",
     .topic = ZL_TOPIC_CHECK,
     .text = "what is built in, found and missing, and how to get it",
     .takes_output = true,
     .main = zl_cmd_doctor},
    {.name = "help",
     .topic = ZL_TOPIC_CHECK,
     .text = "this overview, or the help of one command",
     .operand = "COMMAND",
     .main = zl_cmd_help},
};

/* For shells and for the documentation; not in the help. */
static const struct {
    const char *name;
    zl_status (*main)(int argc, char **argv, zl_err *err);
} hidden[] = {
    {"__complete", zl_cmd_complete}, {"__formulas", zl_cmd_formulas},     {"__man", zl_cmd_man},
    {"__names", zl_cmd_names},       {"__vocabulary", zl_cmd_vocabulary},
};

const zl_command *zl_command_at(size_t index)
{
    return index < sizeof commands / sizeof commands[0] ? &commands[index] : NULL;
}

const zl_command *zl_command_find(const char *name)
{
    const zl_command *command = NULL;
    for (size_t i = 0; (command = zl_command_at(i)) != NULL; i++) {
        if (strcmp(command->name, name) == 0) {
            return command;
        }
    }
    return NULL;
}

static zl_status print_text(const char *text, zl_err *err)
{
    return zl_file_write("-", text, strlen(text), err);
}

static zl_status run_command(const zl_command *command, int argc, char **argv, zl_err *err)
{
    if (command->program != NULL) {
        return zl_program_exec(command->program, argv, err);
    }
    zl_args args;
    ZL_TRY(zl_args_parse(command, argc, argv, &args, err));
    if (args.help) {
        const zl_command *help = zl_command_find("help");
        args = (zl_args){.command = help, .operand = command->name, .view = {.out = "-"}};
        return zl_cmd_help(&args, err);
    }
    return command->main(&args, err);
}

zl_status zl_command_require(const char *name, const zl_command **out, zl_err *err)
{
    const zl_command *command = zl_command_find(name);
    if (command != NULL) {
        *out = command;
        return ZL_OK;
    }
    enum { COMMANDS = sizeof commands / sizeof commands[0] };
    const char *names[COMMANDS + 2];
    for (size_t i = 0; i < COMMANDS; i++) {
        names[i] = commands[i].name;
    }
    names[COMMANDS] = "--help";
    names[COMMANDS + 1] = "--version";
    const char *near = zl_nearest(name, names, COMMANDS + 2);
    return zl_fail(err, ZL_E_USAGE, "unknown command '%.60s'; %s%s%s", name,
                   near != NULL ? "did you mean '" : "'zl help' lists them",
                   near != NULL ? near : "", near != NULL ? "'?" : "");
}

static zl_status dispatch(int argc, char **argv, zl_err *err)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        return zl_fail(err, ZL_E_USAGE, "no command; 'zl help' lists them");
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        return print_text("zl " ZL_VERSION "\n", err);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        return zl_cmd_help(&(zl_args){.view = {.out = "-"}}, err);
    }
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        if (strcmp(name, hidden[i].name) == 0) {
            return hidden[i].main(argc - 1, argv + 1, err);
        }
    }
    const zl_command *command = NULL;
    ZL_TRY(zl_command_require(name, &command, err));
    return run_command(command, argc - 1, argv + 1, err);
}

int main(int argc, char **argv)
{
    zl_err err = {0};
    argp_err_exit_status = ZL_E_USAGE;
    const zl_status status = dispatch(argc, argv, &err);
    if (status != ZL_OK && err.status != ZL_OK) {
        const zl_command *command = argc > 1 ? zl_command_find(argv[1]) : NULL;
        fprintf(stderr, "zl%s%s: %s\n", command != NULL ? " " : "",
                command != NULL ? command->name : "", err.text);
    }
    return (int)status;
}
