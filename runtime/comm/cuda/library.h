/* NCCL, found when it is needed: a program of one rank runs without it, and one of several says in
 * a sentence that it is missing.
 *
 *     const zr_nccl *nccl;
 *     ZL_TRY(zr_nccl_find(&nccl, err));
 *     nccl->GetUniqueId(&id);
 */
#ifndef ZR_COMM_CUDA_LIBRARY_H
#define ZR_COMM_CUDA_LIBRARY_H

#include <stddef.h>

#include "zeroledger/error.h"

typedef struct zr_nccl zr_nccl;

/* The functions of the library; the type is nccl.h's affair, see functions.h. */
ZL_NODISCARD zl_status zr_nccl_find(const zr_nccl **out, zl_err *err);

/* "2.28.9" of the library that is loaded; "not loaded" in a run of one rank. */
void zr_nccl_version(char *text, size_t size);

#endif
