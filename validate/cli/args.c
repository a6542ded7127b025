#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "zeroledger/text.h"

enum { KEY_FIRST = 0x100, ROWS_MAX = 16, KEY_USAGE = 0x200 };

/* Every option, and the commands that take it. */
static const struct row {
    const char *commands;
    const char *name;
    const char *arg;
    const char *text;
} rows[] = {
    {"run", "cases", "FILE",
     "the matrix to run; by default host.json, which comes with the program"},
    {"run", "commit", "TEXT", "the commit that the report names"},
    {"run", "fresh", NULL, "train finished cases again"},
    {"run", "no-poison", NULL,
     "do not fill buffers with a pattern and refuse to free untouched ones"},
    {"mutants", "mutants", "FILE", "the faults and what they must cause; by default mutants.json"},
    {"run mutants", "train", "PROGRAM",
     "the trainer; by default $ZL_TRAIN, or zl-train beside this program"},
    {"run mutants", "out", "DIR", "folder for results; by default zl-validate-out"},
    {"calibrate", "out", "FILE",
     "the constants, for model/data/hardware; by default to the standard output"},
    {"run mutants", "timeout", "SECONDS", "what one case may take; by default 600, 0 is no limit"},
    {"compare", "skip-work", NULL, "leave out the kind work, which two backends need not share"},
    {"records", "format", "FORMAT", "table (default), json or md, which is docs/accuracy.md"},
    {"records", "summary", NULL, "only the means and maxima, not every mark"},
    {"records", "misses", NULL, "only the marks that miss, each with its cause if it is known"},
    {"records", "limits", "FILE", "exit 1 if a figure is worse than its bound in FILE"},
    {"peers", "peers", "FILE",
     "answers of the other calculators; by default peers.json, which comes with the program"},
};

typedef struct grammar {
    const zv_command *command;
    zv_settings *settings;
} grammar;

static bool takes(const zv_command *command, const struct row *row)
{
    const size_t length = strlen(command->name);
    const char *at = row->commands;
    while ((at = strstr(at, command->name)) != NULL) {
        if ((at == row->commands || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' ')) {
            return true;
        }
        at += length;
    }
    return false;
}

static void set(zv_settings *s, const char *name, const char *value, struct argp_state *state)
{
    zl_err err = {0};
    if (strcmp(name, "cases") == 0) {
        s->cases = value;
    } else if (strcmp(name, "commit") == 0) {
        s->commit = value;
    } else if (strcmp(name, "fresh") == 0) {
        s->fresh = true;
    } else if (strcmp(name, "no-poison") == 0) {
        s->no_poison = true;
    } else if (strcmp(name, "mutants") == 0) {
        s->mutants = value;
    } else if (strcmp(name, "train") == 0) {
        s->train = value;
    } else if (strcmp(name, "out") == 0) {
        s->out = value;
    } else if (strcmp(name, "skip-work") == 0) {
        s->skip_work = true;
    } else if (strcmp(name, "format") == 0) {
        s->format = value;
    } else if (strcmp(name, "summary") == 0) {
        s->summary = true;
    } else if (strcmp(name, "misses") == 0) {
        s->misses = true;
    } else if (strcmp(name, "limits") == 0) {
        s->limits = value;
    } else if (strcmp(name, "peers") == 0) {
        s->peers = value;
    } else if (zl_parse_count(name, value, &s->limit, &err) != ZL_OK) {
        argp_error(state, "%s", err.text);
    }
}

static error_t take(int key, char *value, struct argp_state *state)
{
    const grammar *const g = state->input;
    zv_settings *const s = g->settings;
    if (key == 'h' || key == KEY_USAGE) {
        argp_state_help(state, stdout,
                        key == 'h' ? ARGP_HELP_STD_HELP : ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
        return 0;
    }
    if (key == ARGP_KEY_ARGS) {
        s->operand = state->argv + state->next;
        s->operands = (unsigned)(state->argc - state->next);
        if (s->operands > g->command->operands && !g->command->more_operands) {
            argp_error(state, "'%s' is one argument too many", s->operand[g->command->operands]);
        }
        return 0;
    }
    if (key == ARGP_KEY_END && s->operands < g->command->operands) {
        argp_error(state, "needs %s", g->command->operand);
        return 0;
    }
    if (key < KEY_FIRST || key >= KEY_FIRST + ROWS_MAX) {
        return ARGP_ERR_UNKNOWN;
    }
    set(s, rows[key - KEY_FIRST].name, value, state);
    return 0;
}

/* What argp would refuse without saying what is near. */
static void check_words(const struct argp_option *options, char *const *argv)
{
    const char *names[ROWS_MAX + 3];
    size_t count = 0;
    zl_err err = {.status = ZL_OK};
    for (; options[count].name != NULL; count++) {
        names[count] = options[count].name;
    }
    if (zl_options_known(argv, false, names, count, &err) != ZL_OK) {
        fprintf(stderr, "%s: %s\n", argv[0], err.text);
        exit(ZL_E_USAGE);
    }
}

void zv_args_parse(const zv_command *command, int argc, char **argv, zv_settings *out)
{
    struct argp_option options[ROWS_MAX + 3] = {{0}};
    char doc[1024];
    size_t n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (takes(command, &rows[i])) {
            options[n++] = (struct argp_option){.name = rows[i].name,
                                                .key = KEY_FIRST + (int)i,
                                                .arg = rows[i].arg,
                                                .doc = rows[i].text};
        }
    }
    options[n++] =
        (struct argp_option){.name = "help", .key = 'h', .doc = "this text", .group = -1};
    options[n] = (struct argp_option){.name = "usage", .key = KEY_USAGE, .flags = OPTION_HIDDEN};
    snprintf(doc, sizeof doc, "%s\v%s", command->text, command->more);
    *out = (zv_settings){.out = command->out != NULL ? command->out : "zl-validate-out",
                         .format = "table",
                         .limit = 600};
    grammar g = {.command = command, .settings = out};
    const struct argp argp = {
        .options = options, .parser = take, .args_doc = command->operand, .doc = doc};
    check_words(options, argv);
    if (argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, &g) != 0) {
        exit(ZL_E_USAGE);
    }
}
