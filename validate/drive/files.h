/* Folders and files of a matrix. */
#ifndef ZV_FILES_H
#define ZV_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"

enum { ZV_PATH_SIZE = 4096 };

/* "folder/name" into path[ZV_PATH_SIZE]; too long is ZL_E_USAGE. */
ZL_NODISCARD zl_status zv_path(char *path, const char *folder, const char *name, zl_err *err);

/* Makes the folder and those above it; existing ones are fine. */
ZL_NODISCARD zl_status zv_make_folder(const char *path, zl_err *err);

/* Deletes what an earlier run of a case left: ledgers, train.json, verdict.json. */
ZL_NODISCARD zl_status zv_clear_case(const char *folder, zl_err *err);

/* FNV-1a 64 of the file's content, 16 hex digits and a NUL. */
ZL_NODISCARD zl_status zv_file_hash(const char *path, char hash[17], zl_err *err);

/* Visits every regular file below folder in the order of their names. Stops at the first failure.
 */
typedef zl_status (*zv_visit_file)(void *context, const char *path, zl_err *err);
ZL_NODISCARD zl_status zv_walk(const char *folder, zv_visit_file visit, void *context, zl_err *err);

#endif
