#define _DEFAULT_SOURCE /* scandir, lstat */

#include "drive/files.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

zl_status zv_path(char *path, const char *folder, const char *name, zl_err *err)
{
    const int used = snprintf(path, ZV_PATH_SIZE, "%s/%s", folder, name);
    if (used < 0 || used >= ZV_PATH_SIZE) {
        return zl_fail(err, ZL_E_USAGE, "the path of %s is longer than %d bytes", name,
                       ZV_PATH_SIZE - 1);
    }
    return ZL_OK;
}

zl_status zv_make_folder(const char *path, zl_err *err)
{
    char part[ZV_PATH_SIZE];
    const size_t length = strlen(path);
    if (length >= sizeof part) {
        return zl_fail(err, ZL_E_USAGE, "path longer than %d bytes", ZV_PATH_SIZE - 1);
    }
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        snprintf(part, sizeof part, "%.*s", (int)i, path);
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            return zl_fail(err, ZL_E_RESOURCE, "%s cannot be made: %s", part, strerror(errno));
        }
    }
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return zl_fail(err, ZL_E_RESOURCE, "%s is not a folder; choose another --out", path);
    }
    return ZL_OK;
}

static int is_result(const struct dirent *entry)
{
    return strncmp(entry->d_name, "ledger.rank", 11) == 0 ||
           strcmp(entry->d_name, "train.json") == 0 || strcmp(entry->d_name, "verdict.json") == 0;
}

static void free_entries(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(entries);
}

zl_status zv_clear_case(const char *folder, zl_err *err)
{
    struct dirent **entries;
    zl_status status = ZL_OK;
    const int count = scandir(folder, &entries, is_result, alphasort);
    if (count < 0) {
        return zl_fail(err, ZL_E_RESOURCE, "%s cannot be read: %s", folder, strerror(errno));
    }
    for (int i = 0; i < count && status == ZL_OK; i++) {
        char path[ZV_PATH_SIZE];
        status = zv_path(path, folder, entries[i]->d_name, err);
        if (status == ZL_OK && unlink(path) != 0) {
            status = zl_fail(err, ZL_E_RESOURCE, "%s cannot be deleted: %s", path, strerror(errno));
        }
    }
    free_entries(entries, count);
    return status;
}

zl_status zv_file_hash(const char *path, char hash[17], zl_err *err)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    unsigned char block[65536];
    size_t n;
    FILE *const file = fopen(path, "rb");
    if (file == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "%s cannot be read: %s", path, strerror(errno));
    }
    while ((n = fread(block, 1, sizeof block, file)) > 0) {
        for (size_t i = 0; i < n; i++) {
            h = (h ^ block[i]) * UINT64_C(0x100000001b3);
        }
    }
    const bool failed = ferror(file) != 0;
    fclose(file);
    if (failed) {
        return zl_fail(err, ZL_E_RESOURCE, "%s cannot be read", path);
    }
    snprintf(hash, 17, "%016" PRIx64, h);
    return ZL_OK;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

zl_status zv_walk(const char *folder, zv_visit_file visit, void *context, zl_err *err)
{
    struct dirent **entries;
    zl_status status = ZL_OK;
    const int count = scandir(folder, &entries, is_visible, alphasort);
    if (count < 0) {
        return zl_fail(err, ZL_E_RESOURCE, "%s cannot be read: %s", folder, strerror(errno));
    }
    for (int i = 0; i < count && status == ZL_OK; i++) {
        char path[ZV_PATH_SIZE];
        struct stat info;
        status = zv_path(path, folder, entries[i]->d_name, err);
        if (status != ZL_OK || lstat(path, &info) != 0) {
            continue;
        }
        if (S_ISDIR(info.st_mode)) {
            status = zv_walk(path, visit, context, err);
        } else if (S_ISREG(info.st_mode)) {
            status = visit(context, path, err);
        }
    }
    free_entries(entries, count);
    return status;
}
