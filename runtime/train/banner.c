#include "train/banner.h"

#include <stdlib.h>
#include <string.h>

static bool is_rule(const char *line)
{
    const size_t dashes = strspn(line, "-");
    return dashes >= 40 && line[dashes] == '\0';
}

static bool starts(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

/* The number behind `key`, if the line has it. */
static bool number_after(const char *line, const char *key, long *out)
{
    const char *const found = strstr(line, key);
    if (found == NULL) {
        return false;
    }
    const char *const from = found + strlen(key);
    char *end;
    const long value = strtol(from, &end, 10);
    if (end == from) {
        return false;
    }
    *out = value;
    return true;
}

static void swallow(zr_banner *banner, const char *line)
{
    const size_t used = strlen(banner->swallowed);
    const size_t room = sizeof(banner->swallowed) - used;
    const size_t length = strlen(line);
    if (length == 0 || length + 2 > room) {
        return;
    }
    char *end = banner->swallowed + used;
    if (used > 0) {
        *end++ = ' ';
    }
    memcpy(end, line, length + 1);
}

/* Open MPI: "... process rank 2 with PID 4711 on node x exited on signal 9 (Killed)."
 *           "  Process name: [[14398,1],2]", then "  Exit code:    3"
 * MPICH:    "=   RANK 2 PID 4711 RUNNING AT x", "=   KILLED BY SIGNAL: 9 (Killed)" */
static void learn(zr_banner *banner, const char *line)
{
    long value;
    const char *const name = strstr(line, "Process name: [[");
    if (number_after(line, "process rank ", &value) || number_after(line, "RANK ", &value) ||
        (name != NULL && number_after(name, "],", &value))) {
        banner->dead = true;
        banner->rank = (uint64_t)value;
    }
    if (number_after(line, "exited on signal ", &value) ||
        number_after(line, "BY SIGNAL: ", &value)) {
        banner->signal = (int)value;
    }
    if (number_after(line, "Exit code:", &value) || number_after(line, "EXIT CODE:", &value)) {
        banner->code = (int)value;
    }
}

static bool is_rank_line(const char *line)
{
    static const char prefix[] = "zl-train: rank ";
    if (!starts(line, prefix)) {
        return false;
    }
    const char *const digits = line + sizeof(prefix) - 1;
    const size_t count = strspn(digits, "0123456789");
    return count > 0 && digits[count] == ':';
}

/* "[node:4711] ..." is Open MPI's way to talk; MPICH draws a box of "=". */
static bool is_chatter(const char *line)
{
    if (starts(line, "mpirun") || starts(line, "mpiexec") || starts(line, "prterun") ||
        starts(line, "=   ") || (line[0] == '=' && line[strspn(line, "=")] == '\0')) {
        return true;
    }
    const char *const colon = line[0] == '[' ? strchr(line, ':') : NULL;
    if (colon == NULL) {
        return false;
    }
    const size_t digits = strspn(colon + 1, "0123456789");
    return digits > 0 && (colon[1 + digits] == ']' || colon[1 + digits] == ',');
}

bool zr_banner_line(zr_banner *banner, const char *line)
{
    if (is_rule(line)) {
        banner->inside = !banner->inside;
        return false;
    }
    if (is_rank_line(line)) { /* all ranks may fail alike: the first to say so is enough */
        const bool first = !banner->told;
        banner->told = true;
        return first;
    }
    if (starts(line, "zl-train: ")) {
        return true;
    }
    if (banner->inside || is_chatter(line)) {
        learn(banner, line);
        swallow(banner, line);
        return false;
    }
    return true;
}
