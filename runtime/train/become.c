#define _DEFAULT_SOURCE /* readlink */
#include "train/become.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *program_of(zl_backend backend)
{
    switch (backend) {
    case ZL_BACKEND_CUDA:
        return "zl-train-cuda";
    case ZL_BACKEND_HOST:
    case ZL_BACKEND_COUNT:
        break;
    }
    return "zl-train";
}

zl_status zr_become(zl_backend backend, char *const *argv, zl_err *err)
{
    char path[4096];
    const char *const name = program_of(backend);
    const size_t room = sizeof path - strlen(name) - 1;
    const ssize_t length = readlink("/proc/self/exe", path, room);
    if (length <= 0 || (size_t)length == room) {
        return zl_fail(err, ZL_E_RESOURCE, "/proc/self/exe cannot be read; is /proc mounted?");
    }
    path[length] = '\0';
    char *const slash = strrchr(path, '/');
    (void)snprintf(slash == NULL ? path : slash + 1, strlen(name) + 1, "%s", name);
    execv(path, argv);
    if (errno == ENOENT) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "backend %s needs %s in the folder of this program, and it was not built "
                       "there%s",
                       zl_backend_name(backend), name,
                       backend == ZL_BACKEND_CUDA ? "; install a CUDA toolkit and build again"
                                                  : "");
    }
    return zl_fail(err, ZL_E_RESOURCE, "%s: %s", name, strerror(errno));
}
