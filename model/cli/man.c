/* zl __man COMMAND: the options of a command as a section of an scdoc page, from the rows that
 * parsing and help follow. */
#include <ctype.h>
#include <string.h>

#include "cmd.h"

/* Text with the characters that scdoc would take for markup escaped. */
static void put_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("_*\\#`<", *text) != NULL) {
            fputc('\\', out);
        }
        fputc(*text, out);
    }
}

static void put_name(FILE *out, const char *name, const char *arg)
{
    fprintf(out, "*--%s*", name);
    if (arg != NULL) {
        fputs(" _", out);
        put_text(out, arg);
        fputc('_', out);
    }
}

static void put_option(FILE *out, const zl_option *row)
{
    put_name(out, row->name, row->arg);
    if (strcmp(row->name, "help") == 0) {
        fputs(", *-h*", out);
    }
    if (row->alias != NULL) {
        fputs(", ", out);
        put_name(out, row->alias, row->arg);
    }
    fprintf(out, "\n\t%c", toupper((unsigned char)row->text[0]));
    put_text(out, row->text + 1);
    fputs(".\n", out);
    /* A range is in the argument: 0..3. A single value is no choice. */
    if (row->values != NULL && strchr(row->values, ',') != NULL && strstr(row->arg, "..") == NULL) {
        char values[256];
        zl_list_spaced(row->values, values, sizeof values);
        fputs("\tOne of ", out);
        put_text(out, values);
        fputs(".\n", out);
    }
    fputc('\n', out);
}

static void put_options(FILE *out, const zl_command *command)
{
    static const char *const titles[] = {"The question", "The run", "Output"};
    int last = -1;
    int group = 0;
    const zl_option *row = NULL;
    fputs("# OPTIONS\n\n", out);
    for (size_t i = 0; (row = zl_command_option(command, i, &group)) != NULL; i++) {
        if (group != last) {
            fprintf(out, "## %s\n\n", titles[group]);
            last = group;
        }
        put_option(out, row);
    }
}

zl_status zl_cmd_man(int argc, char **argv, zl_err *err)
{
    const zl_command *command = NULL;
    if (argc != 2) {
        return zl_fail(err, ZL_E_USAGE, "usage: zl __man COMMAND");
    }
    ZL_TRY(zl_command_require(argv[1], &command, err));
    if (command->program != NULL) {
        return zl_fail(err, ZL_E_USAGE, "%s is another program: its own --help has its options",
                       argv[1]);
    }
    const zl_view view = {.out = "-"};
    zl_page page;
    ZL_TRY(zl_page_open(&page, &view, err));
    put_options(page.file, command);
    return zl_page_end(&page, ZL_OK, err);
}
