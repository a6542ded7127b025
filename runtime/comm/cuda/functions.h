/* The functions of NCCL that are used, with the prototypes of its header. */
#ifndef ZR_COMM_CUDA_FUNCTIONS_H
#define ZR_COMM_CUDA_FUNCTIONS_H

#include <nccl.h>

#include "comm/cuda/library.h"

#define ZR_NCCL_FUNCTIONS(DO)                                                                      \
    DO(GetVersion)                                                                                 \
    DO(GetUniqueId)                                                                                \
    DO(CommInitRank)                                                                               \
    DO(CommDestroy)                                                                                \
    DO(CommAbort)                                                                                  \
    DO(CommGetAsyncError)                                                                          \
    DO(GetErrorString)                                                                             \
    DO(GetLastError)                                                                               \
    DO(ReduceScatter)                                                                              \
    DO(AllGather)

struct zr_nccl {
#define ZR_NCCL_MEMBER(name) __typeof__(&nccl##name) name;
    ZR_NCCL_FUNCTIONS(ZR_NCCL_MEMBER)
#undef ZR_NCCL_MEMBER
};

#endif
