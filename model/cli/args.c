/* From words to settings, with argp.
 *
 * Words are checked against the rows before argp sees them, so that an error is one line and names
 * the nearest option; argp then splits them and prints the help.
 */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "args_files.h"
#include "cmd.h"

enum { FIRST_KEY = 0x100, TEXT_SIZE = 256, DOC_SIZE = 2048 };

/* A command's rows as argp wants them. */
typedef struct grammar {
    const zl_command *command;
    const zl_option *row[ZL_ARGS_MAX];
    struct argp_option option[2 * ZL_ARGS_MAX];
    char text[ZL_ARGS_MAX][TEXT_SIZE];
    char doc[DOC_SIZE];
    struct argp argp;
} grammar;

/* "text (a, b, c)" */
static void describe(const zl_option *row, char *text)
{
    /* Where the values are a range, the argument says so: 0..3. A single one is no choice. */
    if (row->values == NULL || strchr(row->values, ',') == NULL || strstr(row->arg, "..") != NULL) {
        snprintf(text, TEXT_SIZE, "%s", row->text);
        return;
    }
    char values[160];
    zl_list_spaced(row->values, values, sizeof values);
    snprintf(text, TEXT_SIZE, "%s (%s)", row->text, values);
}

static void set_options(grammar *g)
{
    static const char *const titles[] = {"Question:", "Run:", "Output:"};
    size_t n = 0;
    int last = -1;
    int group = 0;
    const zl_option *row = NULL;
    for (size_t i = 0; i < ZL_ARGS_MAX && (row = zl_command_option(g->command, i, &group)) != NULL;
         i++) {
        if (group != last) {
            g->option[n++] = (struct argp_option){.doc = titles[group], .group = group + 1};
            last = group;
        }
        g->row[i] = row;
        describe(row, g->text[i]);
        const bool help = strcmp(row->name, "help") == 0;
        g->option[n++] = (struct argp_option){.name = row->name,
                                              .key = help ? 'h' : FIRST_KEY + (int)i,
                                              .arg = row->arg,
                                              .doc = g->text[i],
                                              .group = help ? -1 : group + 1};
        if (row->alias != NULL) {
            g->option[n++] = (struct argp_option){.name = row->alias, .flags = OPTION_ALIAS};
        }
    }
}

/* argp's type has no const. NOLINTNEXTLINE(readability-non-const-parameter) */
static error_t take(int key, char *value, struct argp_state *state)
{
    zl_args *args = state->input;
    const grammar *g = (const grammar *)((const char *)state->root_argp - offsetof(grammar, argp));
    if (key == 'h') {
        args->help = true;
        return 0;
    }
    if (key == ARGP_KEY_ARG && args->operand == NULL && g->command->operand != NULL) {
        args->operand = value;
        return 0;
    }
    if (key < FIRST_KEY || key >= FIRST_KEY + ZL_ARGS_MAX) {
        return ARGP_ERR_UNKNOWN;
    }
    if (args->settings == ZL_ARGS_MAX) {
        return E2BIG;
    }
    args->setting[args->settings++] =
        (zl_setting){g->row[key - FIRST_KEY], value != NULL ? value : ""};
    return 0;
}

/* Without argp's remark that arguments of long options hold for short ones. */
static char *filter(int key, const char *text, void *input)
{
    (void)input;
    return key == ARGP_KEY_HELP_DUP_ARGS_NOTE ? NULL : strdup(text != NULL ? text : "");
}

/* The caller frees it. */
static grammar *grammar_new(const zl_command *command)
{
    grammar *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return NULL;
    }
    g->command = command;
    set_options(g);
    snprintf(g->doc, sizeof g->doc, "%s%s%s", command->text, command->more != NULL ? "\v" : "",
             command->more != NULL ? command->more : "");
    g->argp = (struct argp){.options = g->option,
                            .parser = take,
                            .args_doc = command->operand,
                            .doc = g->doc,
                            .help_filter = filter};
    return g;
}

/* argp adds a line of spaces below a text that just fills its line. */
static void copy_lines(const char *text, FILE *out)
{
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        const size_t spaces = strspn(text, " ");
        if (spaces == 0 || spaces < length) {
            fprintf(out, "%.*s\n", (int)length, text);
        }
        text += length + (text[length] == '\n');
    }
}

zl_status zl_args_help(const zl_command *command, FILE *out, zl_err *err)
{
    char name[64];
    char *text = NULL;
    size_t size = 0;
    snprintf(name, sizeof name, "zl %s", command->name);
    grammar *g = grammar_new(command);
    FILE *memory = open_memstream(&text, &size);
    zl_help_width();
    if (g != NULL && memory != NULL) {
        argp_help(&g->argp, memory, ARGP_HELP_SHORT_USAGE | ARGP_HELP_DOC | ARGP_HELP_LONG, name);
    }
    if (memory != NULL) {
        fclose(memory);
    }
    const bool done = g != NULL && text != NULL;
    if (done) {
        copy_lines(text, out);
    }
    free(text);
    free(g);
    return done ? ZL_OK : zl_fail(err, ZL_E_RESOURCE, "out of memory");
}

static zl_status check_operand(const zl_command *command, const char *word, bool first, zl_err *err)
{
    if (command->operand == NULL) {
        return zl_fail(err, ZL_E_USAGE, "'%.60s' is not an option; options begin with '--'%s", word,
                       command->takes_run ? ", as in --model gpt2" : "");
    }
    if (!first) {
        return zl_fail(err, ZL_E_USAGE, "one %s at a time, '%.60s' is too many", command->operand,
                       word);
    }
    return command->operands != NULL ? zl_one_of(command->operand, word, command->operands, err)
                                     : ZL_OK;
}

/* The option at argv[*at], which is moved on to its value if that is a word of its own. */
static zl_status check_option(const zl_command *command, int argc, char **argv, int *at,
                              zl_err *err)
{
    const char *word = argv[*at];
    if (strcmp(word, "-h") == 0) {
        return ZL_OK;
    }
    if (word[1] != '-') {
        return zl_fail(err, ZL_E_USAGE, "unknown option '%.60s'; options begin with '--'", word);
    }
    const size_t length = strcspn(word + 2, "=");
    const bool has_value = word[2 + length] == '=';
    const zl_option *row = NULL;
    ZL_TRY(zl_command_match(command, word + 2, length, &row, err));
    if (row->arg == NULL) {
        return has_value ? zl_fail(err, ZL_E_USAGE, "option '--%s' takes no value", row->name)
                         : ZL_OK;
    }
    *at += has_value ? 0 : 1;
    if (*at < argc) {
        return ZL_OK;
    }
    char values[256];
    zl_list_spaced(row->values != NULL ? row->values : row->arg, values, sizeof values);
    return zl_fail(err, ZL_E_USAGE, "option '--%s' needs a value: %s", row->name, values);
}

static zl_status check_words(const zl_command *command, int argc, char **argv, zl_err *err)
{
    bool first = true;
    bool only_operands = false;
    for (int i = 1; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            ZL_TRY(check_option(command, argc, argv, &i, err));
        } else {
            ZL_TRY(check_operand(command, argv[i], first, err));
            first = false;
        }
    }
    return ZL_OK;
}

const char *zl_args_value(const zl_args *args, const char *name)
{
    const char *value = NULL;
    for (size_t i = 0; i < args->settings; i++) {
        if (strcmp(args->setting[i].option->name, name) == 0) {
            value = args->setting[i].value;
        }
    }
    return value;
}

/* Legal values are those of the row, whose order is that of the enum. */
static zl_status find_format(const char *name, zl_format *out)
{
    static const char *const names[ZL_FORMAT_COUNT] = {[ZL_FORMAT_TABLE] = "table",
                                                       [ZL_FORMAT_JSON] = "json",
                                                       [ZL_FORMAT_CSV] = "csv",
                                                       [ZL_FORMAT_MD] = "md"};
    for (int i = 0; i < ZL_FORMAT_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            *out = (zl_format)i;
            return ZL_OK;
        }
    }
    return ZL_E_BUG;
}

/* Checks the values of the command's own and of the output options; the run's are checked when
 * they are applied. */
static zl_status check_values(const zl_args *args, zl_err *err)
{
    for (size_t i = 0; i < args->settings; i++) {
        const zl_option *row = args->setting[i].option;
        bool of_run = false;
        const zl_option *other = NULL;
        for (size_t k = 0; (other = zl_run_option(k)) != NULL; k++) {
            of_run |= other == row;
        }
        if (!of_run && row->values != NULL) {
            ZL_TRY(zl_one_of(row->name, args->setting[i].value, row->values, err));
        }
    }
    return ZL_OK;
}

static zl_status set_view(zl_args *args, zl_err *err)
{
    const char *format = zl_args_value(args, "format");
    const char *units = zl_args_value(args, "units");
    const char *out = zl_args_value(args, "out");
    zl_view *view = &args->view;
    *view =
        (zl_view){.format = ZL_FORMAT_TABLE, .unit = ZL_BYTES_GIB, .out = out != NULL ? out : "-"};
    if (format != NULL && find_format(format, &view->format) != ZL_OK) {
        return zl_fail(err, ZL_E_BUG, "format '%s' has no number: please report this", format);
    }
    if (units != NULL && !zl_byte_unit_find(units, &view->unit)) {
        return zl_fail(err, ZL_E_BUG, "unit '%s' is unknown: please report this", units);
    }
    static const int decimals[ZL_BYTES_COUNT] = {
        [ZL_BYTES_GIB] = 3, [ZL_BYTES_GB] = 3, [ZL_BYTES_MIB] = 2, [ZL_BYTES_B] = 0};
    view->decimals = decimals[view->unit];
    zl_view_show(view, zl_args_value(args, "color"), zl_args_value(args, "bars"));
    return ZL_OK;
}

zl_status zl_args_parse(const zl_command *command, int argc, char **argv, zl_args *out, zl_err *err)
{
    *out = (zl_args){.command = command};
    ZL_TRY(check_words(command, argc, argv, err));
    grammar *g = grammar_new(command);
    if (g == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    const error_t broken = argp_parse(&g->argp, argc, argv, ARGP_NO_HELP | ARGP_NO_EXIT, NULL, out);
    free(g);
    if (broken != 0) {
        return zl_fail(err, ZL_E_USAGE, "these options cannot be read: %s", strerror(broken));
    }
    if (out->help) {
        return ZL_OK;
    }
    ZL_TRY(check_values(out, err));
    return set_view(out, err);
}

/* Applied before the others, in this order: a file with all, whose reader the model has. */
static const char *const first_options[] = {"run", "framework", "deepspeed-config", "model"};

static zl_status apply(const zl_args *args, const char *only, zl_run *run, zl_err *err)
{
    for (size_t i = 0; i < args->settings; i++) {
        const zl_setting *set = &args->setting[i];
        bool early = false;
        for (size_t k = 0; k < sizeof first_options / sizeof first_options[0]; k++) {
            early |= strcmp(set->option->name, first_options[k]) == 0;
        }
        bool of_run = false;
        const zl_option *row = NULL;
        for (size_t k = 0; (row = zl_run_option(k)) != NULL; k++) {
            of_run |= row == set->option;
        }
        if (of_run && (only != NULL ? strcmp(set->option->name, only) == 0 : !early)) {
            ZL_TRY(zl_args_set(args, set, run, err));
        }
    }
    return ZL_OK;
}

zl_status zl_args_apply(const zl_args *args, zl_run *out, zl_err *err)
{
    zl_run run;
    zl_accelerate accelerate;
    zl_run_init(&run);
    ZL_TRY(zl_args_check_adapter(args, err));
    for (size_t i = 0; i < sizeof first_options / sizeof first_options[0]; i++) {
        ZL_TRY(apply(args, first_options[i], &run, err));
        if (strcmp(first_options[i], "framework") == 0) {
            ZL_TRY(zl_args_accelerate(args, &accelerate, &run, err));
        }
    }
    ZL_TRY(apply(args, NULL, &run, err));
    if (zl_args_value(args, "run") == NULL && zl_args_value(args, "model") == NULL) {
        return zl_args_no_model(args, err);
    }
    ZL_TRY(zl_args_adapter(args, &run, err));
    ZL_TRY(zl_args_weights(args, &run, err));
    ZL_TRY(zl_accelerate_check(&accelerate, args, &run, err));
    *out = run;
    return ZL_OK;
}

zl_status zl_args_run(const zl_args *args, zl_run *out, zl_err *err)
{
    zl_run run;
    ZL_TRY(zl_args_apply(args, &run, err));
    ZL_TRY(zl_run_check(&run, err));
    *out = run;
    return ZL_OK;
}
