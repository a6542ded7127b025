/* External programs: zl train and zl validate are zl-train and zl-validate, found beside zl, then
 * in its libexec folder, then on PATH. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"

static bool runnable(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* The folder of the running program, without a slash at its end. */
static bool own_folder(char *folder, size_t size)
{
    const ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    if (length <= 0 || (size_t)length >= size - 1) {
        return false;
    }
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    return true;
}

bool zl_path_find(const char *name, char *path, size_t size)
{
    const char *begin = getenv("PATH");
    while (begin != NULL && *begin != '\0') {
        const size_t length = strcspn(begin, ":");
        const int used = length == 0 ? snprintf(path, size, "./%s", name)
                                     : snprintf(path, size, "%.*s/%s", (int)length, begin, name);
        if (used > 0 && (size_t)used < size && runnable(path)) {
            return true;
        }
        begin += length + (begin[length] == ':');
    }
    return false;
}

bool zl_program_find(const char *name, char *path, size_t size)
{
    const char *const places[] = {"", "../libexec/zeroledger/"};
    char folder[4096];
    if (own_folder(folder, sizeof folder)) {
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            const int used = snprintf(path, size, "%s/%s%s", folder, places[i], name);
            if (used > 0 && (size_t)used < size && runnable(path)) {
                return true;
            }
        }
    }
    return zl_path_find(name, path, size);
}

zl_status zl_program_exec(const char *name, char **argv, zl_err *err)
{
    char path[4352];
    if (!zl_program_find(name, path, sizeof path)) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "%s is neither beside zl nor in its libexec folder nor on PATH; "
                       "'zl doctor' says how to get it",
                       name);
    }
    argv[0] = path;
    execv(path, argv);
    return zl_fail(err, ZL_E_RESOURCE, "%s cannot be started: %s", path, strerror(errno));
}
