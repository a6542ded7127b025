/* The rows of options: which a command has, and which row a word means. */
#include <string.h>

#include "cmd.h"

static const zl_option output_options[] = {
    {"format", NULL, "NAME", "table,json,csv,md", "how to print"},
    {"units", NULL, "NAME", "GiB,GB,MiB,B", "unit of bytes for people; json and csv have bytes"},
    {"out", NULL, "FILE", NULL, "write there instead of the standard output"},
    {"color", NULL, "NAME", "auto,always,never",
     "auto colors a terminal unless the environment has NO_COLOR"},
    {"help", NULL, NULL, NULL, "print this"},
    {0},
};

/* Of the run, but read by the program: the library has no YAML. */
static const zl_option run_options[] = {
    {"accelerate-config", NULL, "FILE", NULL,
     "YAML of accelerate; other options may not contradict it"},
    {0},
};

static const zl_option help_only[] = {
    {"help", NULL, NULL, NULL, "print this"},
    {0},
};

/* Rows of one array; moves the index on by their number if it is beyond. */
static const zl_option *row_of(const zl_option *rows, size_t *index)
{
    size_t count = 0;
    while (rows != NULL && rows[count].name != NULL) {
        count++;
    }
    if (*index < count) {
        return &rows[*index];
    }
    *index -= count;
    return NULL;
}

const zl_option *zl_command_option(const zl_command *command, size_t index, int *group)
{
    int ignored = 0;
    int *const where = group != NULL ? group : &ignored;
    *where = 0;
    const zl_option *row = row_of(command->own, &index);
    if (row != NULL) {
        return row;
    }
    *where = 1;
    for (size_t i = 0; command->takes_run && (row = zl_run_option(i)) != NULL; i++) {
        if (index == 0) {
            return row;
        }
        index--;
    }
    row = row_of(command->takes_run ? run_options : NULL, &index);
    if (row != NULL) {
        return row;
    }
    *where = 2;
    return row_of(command->takes_output ? output_options : help_only, &index);
}

static bool abbreviates(const char *name, const char *word, size_t length)
{
    return name != NULL && strncmp(name, word, length) == 0;
}

static bool equals(const char *name, const char *word, size_t length)
{
    return abbreviates(name, word, length) && name[length] == '\0';
}

/* Another command that has an option of just this name, or NULL. */
static const zl_command *owner(const char *name)
{
    const zl_command *command = NULL;
    for (size_t i = 0; (command = zl_command_at(i)) != NULL; i++) {
        const zl_option *row = NULL;
        for (size_t k = 0;
             command->program == NULL && (row = zl_command_option(command, k, NULL)) != NULL; k++) {
            if (equals(row->name, name, strlen(name))) {
                return command;
            }
        }
    }
    return NULL;
}

static zl_status unknown(const zl_command *command, const char *word, size_t length, zl_err *err)
{
    const char *names[2 * ZL_ARGS_MAX];
    size_t count = 0;
    const zl_option *row = NULL;
    for (size_t i = 0; (row = zl_command_option(command, i, NULL)) != NULL; i++) {
        if (count + 2 > sizeof names / sizeof names[0]) {
            break;
        }
        names[count++] = row->name;
        if (row->alias != NULL) {
            names[count++] = row->alias;
        }
    }
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)(length < 60 ? length : 60), word);
    const zl_command *other = owner(text);
    if (other != NULL) {
        return zl_fail(err, ZL_E_USAGE, "option '--%s' is one of zl %s, not of zl %s", text,
                       other->name, command->name);
    }
    const char *near = zl_nearest(text, names, count);
    if (near != NULL) {
        return zl_fail(err, ZL_E_USAGE, "unknown option '--%s'; did you mean '--%s'?", text, near);
    }
    return zl_fail(err, ZL_E_USAGE, "unknown option '--%s'; 'zl %s --help' lists them", text,
                   command->name);
}

zl_status zl_command_match(const zl_command *command, const char *word, size_t length,
                           const zl_option **out, zl_err *err)
{
    const zl_option *found = NULL;
    const zl_option *other = NULL;
    const zl_option *row = NULL;
    for (size_t i = 0; (row = zl_command_option(command, i, NULL)) != NULL; i++) {
        if (equals(row->name, word, length) || equals(row->alias, word, length)) {
            *out = row;
            return ZL_OK;
        }
        if (abbreviates(row->name, word, length) || abbreviates(row->alias, word, length)) {
            other = found;
            found = row;
        }
    }
    if (other != NULL) {
        return zl_fail(err, ZL_E_USAGE, "option '--%.*s' could be '--%s' or '--%s'; write it out",
                       (int)(length < 60 ? length : 60), word, other->name, found->name);
    }
    if (found == NULL) {
        return unknown(command, word, length, err);
    }
    *out = found;
    return ZL_OK;
}

bool zl_list_item(const char *list, size_t index, char *name, size_t size)
{
    const char *begin = list;
    for (; begin != NULL && index > 0; index--) {
        begin = strchr(begin, ',');
        begin = begin != NULL ? begin + 1 : NULL;
    }
    if (begin == NULL) {
        return false;
    }
    snprintf(name, size, "%.*s", (int)strcspn(begin, ","), begin);
    return true;
}

bool zl_list_nearest(const char *word, const char *list, char *name, size_t size)
{
    char names[32][48];
    const char *pointers[32];
    size_t count = 0;
    while (count < 32 && zl_list_item(list, count, names[count], sizeof names[count])) {
        pointers[count] = names[count];
        count++;
    }
    const char *near = zl_nearest(word, pointers, count);
    if (near == NULL) {
        return false;
    }
    snprintf(name, size, "%s", near);
    return true;
}

void zl_list_spaced(const char *list, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    char name[48];
    for (size_t i = 0; used < size && zl_list_item(list, i, name, sizeof name); i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : ", ", name);
    }
}

zl_status zl_one_of(const char *what, const char *value, const char *values, zl_err *err)
{
    char name[48];
    char legal[256];
    zl_list_spaced(values, legal, sizeof legal);
    for (size_t i = 0; zl_list_item(values, i, name, sizeof name); i++) {
        if (strcmp(name, value) == 0) {
            return ZL_OK;
        }
    }
    if (zl_list_nearest(value, values, name, sizeof name)) {
        return zl_fail(err, ZL_E_USAGE, "%s must be one of %s, got '%.60s'; did you mean '%s'?",
                       what, legal, value, name);
    }
    return zl_fail(err, ZL_E_USAGE, "%s must be one of %s, got '%.60s'", what, legal, value);
}
