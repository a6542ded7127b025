#define _GNU_SOURCE /* renameat2 */
#include "train/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zeroledger/text.h"

static zl_status failed(const char *path, zl_err *err)
{
    return zl_fail(err, ZL_E_RESOURCE, "%.200s: %s", path, strerror(errno));
}

void zr_step_name(uint64_t step, char name[ZR_STEP_NAME])
{
    (void)snprintf(name, ZR_STEP_NAME, "step-%08" PRIu64, step);
}

void zr_step_temporary(uint64_t step, char name[ZR_STEP_NAME])
{
    (void)snprintf(name, ZR_STEP_NAME, ".step-%08" PRIu64 ".tmp", step);
}

bool zr_step_parse(const char *name, uint64_t *step)
{
    static const char prefix[] = "step-";
    char again[ZR_STEP_NAME];
    uint64_t value;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 ||
        zl_parse_count("step", name + sizeof prefix - 1, &value, NULL) != ZL_OK) {
        return false;
    }
    zr_step_name(value, again);
    *step = value;
    return strcmp(name, again) == 0;
}

zl_status zr_folder_path(const char *folder, const char *name, char path[ZR_PATH], zl_err *err)
{
    const int length = snprintf(path, ZR_PATH, "%s/%s", folder, name);
    if (length < 0 || length >= ZR_PATH) {
        return zl_fail(err, ZL_E_RESOURCE, "%.200s: the path is too long", folder);
    }
    return ZL_OK;
}

zl_status zr_folder_make(const char *path, zl_err *err)
{
    struct stat info;
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return failed(path, err);
    }
    if (stat(path, &info) != 0) {
        return failed(path, err);
    }
    if (!S_ISDIR(info.st_mode)) {
        errno = ENOTDIR;
        return failed(path, err);
    }
    return access(path, W_OK | X_OK) == 0 ? ZL_OK : failed(path, err);
}

zl_status zr_folder_sync(const char *path, zl_err *err)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return failed(path, err);
    }
    /* Some file systems cannot, and then there is nothing to wait for. */
    const bool done = fsync(fd) == 0 || errno == EINVAL;
    const zl_status status = done ? ZL_OK : failed(path, err);
    close(fd);
    return status;
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

zl_status zr_folder_remove(const char *path, zl_err *err)
{
    DIR *const folder = opendir(path);
    if (folder == NULL) {
        return errno == ENOENT ? ZL_OK : failed(path, err);
    }
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (!is_dot(entry->d_name)) {
            (void)unlinkat(dirfd(folder), entry->d_name, 0); /* what stays keeps the folder */
        }
    }
    closedir(folder);
    return rmdir(path) == 0 ? ZL_OK : failed(path, err);
}

/* Ours are ".step-00000012.tmp" and, while `latest` is replaced, "latest.4711-0.tmp". */
static bool is_temporary(const char *name)
{
    static const char ending[] = ".tmp";
    const size_t length = strlen(name);
    const size_t tail = sizeof ending - 1;
    return length > tail && strcmp(name + length - tail, ending) == 0 &&
           (strncmp(name, ".step-", 6) == 0 || strncmp(name, "latest.", 7) == 0);
}

zl_status zr_folder_clean(const char *root, zl_err *err)
{
    DIR *const folder = opendir(root);
    if (folder == NULL) {
        return failed(root, err);
    }
    zl_status status = ZL_OK;
    const struct dirent *entry;
    while (status == ZL_OK && (entry = readdir(folder)) != NULL) {
        char path[ZR_PATH];
        if (!is_temporary(entry->d_name)) {
            continue;
        }
        status = zr_folder_path(root, entry->d_name, path, err);
        if (status == ZL_OK && unlink(path) != 0) { /* no file, but a folder */
            status = zr_folder_remove(path, err);
        }
    }
    closedir(folder);
    return status;
}

/* Both names at once, if the file system can; else there is a moment in which the step is missing.
 */
static bool exchange(const char *temporary, const char *final)
{
    char aside[ZR_PATH + 8];
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, final, RENAME_EXCHANGE) == 0) {
        return true;
    }
    (void)snprintf(aside, sizeof aside, "%s.tmp", temporary);
    return rename(final, aside) == 0 && rename(temporary, final) == 0 &&
           rename(aside, temporary) == 0;
}

zl_status zr_folder_publish(const char *root, uint64_t step, zl_err *err)
{
    char name[ZR_STEP_NAME];
    char temporary[ZR_PATH];
    char final[ZR_PATH];
    zr_step_temporary(step, name);
    ZL_TRY(zr_folder_path(root, name, temporary, err));
    zr_step_name(step, name);
    ZL_TRY(zr_folder_path(root, name, final, err));
    ZL_TRY(zr_folder_sync(temporary, err));
    const bool there = access(final, F_OK) == 0;
    if (there ? !exchange(temporary, final) : rename(temporary, final) != 0) {
        return failed(final, err);
    }
    ZL_TRY(zr_folder_sync(root, err));
    return there ? zr_folder_remove(temporary, err) : ZL_OK;
}

/* How many steps up to `step` there are, and the first of them. */
static zl_status count_steps(const char *root, uint64_t step, uint64_t *count, uint64_t *oldest,
                             zl_err *err)
{
    DIR *const folder = opendir(root);
    if (folder == NULL) {
        return failed(root, err);
    }
    *count = 0;
    *oldest = step;
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        uint64_t found;
        if (zr_step_parse(entry->d_name, &found) && found <= step) {
            *oldest = found < *oldest ? found : *oldest;
            (*count)++;
        }
    }
    closedir(folder);
    return ZL_OK;
}

/* First it gets a temporary name: no step is ever there in part. */
static zl_status remove_step(const char *root, uint64_t step, zl_err *err)
{
    char name[ZR_STEP_NAME];
    char from[ZR_PATH];
    char to[ZR_PATH];
    zr_step_name(step, name);
    ZL_TRY(zr_folder_path(root, name, from, err));
    zr_step_temporary(step, name);
    ZL_TRY(zr_folder_path(root, name, to, err));
    if (rename(from, to) != 0) {
        return failed(from, err);
    }
    return zr_folder_remove(to, err);
}

zl_status zr_folder_keep(const char *root, uint64_t step, uint64_t keep, zl_err *err)
{
    for (;;) {
        uint64_t count = 0;
        uint64_t oldest = step;
        ZL_TRY(count_steps(root, step, &count, &oldest, err));
        if (count <= keep || oldest == step) {
            return ZL_OK;
        }
        ZL_TRY(remove_step(root, oldest, err));
    }
}
