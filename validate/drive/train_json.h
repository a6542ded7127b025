/* What the trainer says about a run besides memory: train.json ("zeroledger.train/1"). */
#ifndef ZV_TRAIN_JSON_H
#define ZV_TRAIN_JSON_H

#include "compare/verdict.h"

/* Members that the file does not have leave zeros: memory is judged from the ledgers alone. A
 * broken file is ZL_E_INPUT. */
ZL_NODISCARD zl_status zv_train_read(const char *path, zv_train *out, zl_err *err);
/* Reads folder/train.json; one that is missing leaves zeros too. */
ZL_NODISCARD zl_status zv_train_load(const char *folder, zv_train *out, zl_err *err);

#endif
