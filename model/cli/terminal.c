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

static bool wished(const char *wish, bool otherwise)
{
    return wish == NULL || strcmp(wish, "auto") == 0 ? otherwise : strcmp(wish, "always") == 0;
}

void zl_view_show(zl_view *view, const char *color, const char *bars)
{
    const bool terminal = strcmp(view->out, "-") == 0 && isatty(STDOUT_FILENO) != 0;
    const bool words = view->format == ZL_FORMAT_TABLE || view->format == ZL_FORMAT_MD;
    const char *none = getenv("NO_COLOR");
    view->color = wished(color, terminal && (none == NULL || *none == '\0'));
    view->bars = words && wished(bars, terminal && view->format == ZL_FORMAT_TABLE);
    view->utf8 = speaks_utf8();
    view->width = terminal ? terminal_width() : 0;
}
