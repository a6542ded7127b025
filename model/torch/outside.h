/* Device memory that a process takes from the driver outside of PyTorch's allocator: NCCL, the
 * libraries' handles, loaded kernels. */
#ifndef ZT_OUTSIDE_H
#define ZT_OUTSIDE_H

#include "torch/eager.h"

/* What of it exists at this moment, bytes; the context itself is not in it. */
uint64_t zt_outside_bytes(const zt_process *p);

#endif
