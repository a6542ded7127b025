/* Completion of zl train, zl trace and zl validate: their own --help has their options, as argp
 * prints them, and the commands of zl-validate. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "complete.h"

enum { HELP_SIZE = 1 << 16 };

/* What a program prints, cut off at size - 1 characters; empty if it cannot be started. */
static void output_of(char *const *argv, char *text, size_t size)
{
    int ends[2];
    size_t used = 0;
    text[0] = '\0';
    if (pipe(ends) != 0) {
        return;
    }
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("ARGP_HELP_FMT", "rmargin=300", 1); /* a meaning on one line */
        execv(argv[0], argv);
        _exit(ZL_E_RESOURCE);
    }
    close(ends[1]);
    ssize_t got = 0;
    while (child > 0 && used + 1 < size &&
           (got = read(ends[0], text + used, size - 1 - used)) > 0) {
        used += (size_t)got;
    }
    text[used] = '\0';
    close(ends[0]);
    if (child > 0) {
        waitpid(child, NULL, 0);
    }
}

/* "-s, --stage=NAME, --level=NAME": the long ones. */
static void offer_names(const zl_typed *l, const char *names, size_t length, const char *text)
{
    char name[64];
    for (size_t at = 0; at < length;) {
        const size_t size = strcspn(names + at, ", ");
        const size_t whole = strcspn(names + at, "=[, ");
        if (strncmp(names + at, "--", 2) == 0) {
            snprintf(name, sizeof name, "%.*s", (int)(whole - 2), names + at + 2);
            zl_offer(l, "--", name, text);
        }
        at += size + strspn(names + at + size, ", ");
    }
}

/* One line of help: two columns, the first of options or, if wanted, of a command. */
static void offer_line(const zl_typed *l, char *line, bool commands)
{
    char *first = line + strspn(line, " ");
    char *gap = strstr(first, "  ");
    char *text = gap != NULL ? gap + strspn(gap, " ") : NULL;
    if (first == line) {
        return;
    }
    if (*first == '-') {
        offer_names(l, first, gap != NULL ? (size_t)(gap - first) : strlen(first), text);
    } else if (commands && gap != NULL && first == line + 2 && islower((unsigned char)*first)) {
        *gap = '\0';
        zl_offer(l, "", first, text);
    }
}

void zl_complete_program(const zl_typed *l, const char *program)
{
    static char help[HELP_SIZE];
    char path[4352];
    char flag[] = "--help";
    const bool after_command = l->at > 2 && l->argc > 2 && islower((unsigned char)l->argv[2][0]);
    if (!zl_program_find(program, path, sizeof path)) {
        return;
    }
    output_of(
        (char *[]){path, after_command ? l->argv[2] : flag, after_command ? flag : NULL, NULL},
        help, sizeof help);
    const bool commands = l->at == 2 && l->prefix[0] != '-';
    for (char *line = help; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        char *next = line + length + (line[length] == '\n');
        line[length] = '\0';
        if (commands || l->prefix[0] == '-') {
            offer_line(l, line, commands);
        }
        line = next;
    }
}
