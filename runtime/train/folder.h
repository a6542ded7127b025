/* The folders of checkpoints: names, and changes of which either all or nothing is seen.
 *
 * Functions return ZL_E_RESOURCE with path and reason where they fail.
 */
#ifndef ZR_FOLDER_H
#define ZR_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"

enum { ZR_PATH = 4096, ZR_STEP_NAME = 40 };

/* "step-00000012", and ".step-00000012.tmp" while it is not complete, or not any more. */
void zr_step_name(uint64_t step, char name[ZR_STEP_NAME]);
void zr_step_temporary(uint64_t step, char name[ZR_STEP_NAME]);
/* Whether the name is that of a complete step. */
bool zr_step_parse(const char *name, uint64_t *step);

/* "FOLDER/NAME". */
ZL_NODISCARD zl_status zr_folder_path(const char *folder, const char *name, char path[ZR_PATH],
                                      zl_err *err);
/* Makes the folder if it is not there, and sees that files can be put into it. */
ZL_NODISCARD zl_status zr_folder_make(const char *path, zl_err *err);
/* The folder's names are on the disk. */
ZL_NODISCARD zl_status zr_folder_sync(const char *path, zl_err *err);
/* Removes the folder with its files; nothing there is fine. */
ZL_NODISCARD zl_status zr_folder_remove(const char *path, zl_err *err);

/* Removes everything temporary that a process has left in root when it was killed. */
ZL_NODISCARD zl_status zr_folder_clean(const char *root, zl_err *err);
/* The temporary folder of a step becomes the step, in place of one that is there. */
ZL_NODISCARD zl_status zr_folder_publish(const char *root, uint64_t step, zl_err *err);
/* Of the steps up to `step`, the `keep` newest stay. Later ones are not touched. */
ZL_NODISCARD zl_status zr_folder_keep(const char *root, uint64_t step, uint64_t keep, zl_err *err);

#endif
