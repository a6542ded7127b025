#define _DEFAULT_SOURCE /* readlink */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

zl_status zv_program_folder(char folder[ZV_PATH_SIZE], zl_err *err)
{
    const ssize_t length = readlink("/proc/self/exe", folder, ZV_PATH_SIZE - 1);
    if (length <= 0) {
        return zl_fail(err, ZL_E_RESOURCE, "this program cannot find itself; is /proc mounted?");
    }
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
    return ZL_OK;
}

zl_status zv_data_file(const char *name, char path[ZV_PATH_SIZE], zl_err *err)
{
    char folder[ZV_PATH_SIZE], installed[ZV_PATH_SIZE];
    ZL_TRY(zv_program_folder(folder, err));
    ZL_TRY(zv_path(installed, folder, ZV_DATA_INSTALLED, err));
    ZL_TRY(zv_path(path, installed, name, err));
    if (access(path, R_OK) == 0) {
        return ZL_OK;
    }
    return zv_path(path, ZV_DATA_SOURCE, name, err);
}
