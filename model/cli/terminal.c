/* What a view takes from the terminal that it is shown on, and from the environment. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd.h"

/* COLUMNS, as shells export it, else what the terminal says of itself. */
static int terminal_width(void)
{
    struct winsize size = {0};
    uint64_t columns = 0;
    const char *given = getenv("COLUMNS");
    if (given != NULL && zl_parse_count("COLUMNS", given, &columns, NULL) == ZL_OK && columns > 0) {
        return columns < 10000 ? (int)columns : 10000;
    }
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? (int)size.ws_col : 0;
}

/* The locale's first of three variables decides, as setlocale(3) has it. */
static bool speaks_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && *value != '\0') {
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
        }
    }
    return false;
}

static bool speaks_color(void)
{
    const char *none = getenv("NO_COLOR");
    const char *kind = getenv("TERM");
    return (none == NULL || *none == '\0') && (kind == NULL || strcmp(kind, "dumb") != 0);
}

static bool wished(const char *wish, bool otherwise)
{
    return wish == NULL || strcmp(wish, "auto") == 0 ? otherwise : strcmp(wish, "always") == 0;
}

void zl_help_width(void)
{
    enum { LEAST = 30, NARROW = 60, USUAL = 79 };
    char format[48];
    int width = isatty(STDOUT_FILENO) != 0 ? terminal_width() : 0;
    if (width == 0 || width > USUAL) {
        return;
    }
    width = width > LEAST ? width : LEAST;
    snprintf(format, sizeof format, "rmargin=%d,opt-doc-col=%d", width - 1,
             width < NARROW ? 10 : 29);
    setenv("ARGP_HELP_FMT", format, 0);
}

void zl_view_show(zl_view *view, const char *color, const char *bars)
{
    const bool terminal = strcmp(view->out, "-") == 0 && isatty(STDOUT_FILENO) != 0;
    const bool words = view->format == ZL_FORMAT_TABLE || view->format == ZL_FORMAT_MD;
    view->color = wished(color, terminal && speaks_color());
    view->bars = words && wished(bars, terminal && view->format == ZL_FORMAT_TABLE);
    view->utf8 = speaks_utf8();
    view->width = terminal ? terminal_width() : 0;
}
