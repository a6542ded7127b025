/* What the transports of this backend see of a lane. */
#ifndef ZR_COMM_CUDA_LANE_H
#define ZR_COMM_CUDA_LANE_H

#include <cuda_runtime_api.h>

#include "comm/lane.h"

cudaStream_t zr_lane_queue(const zr_lane *lane);

/* ZL_OK, or ZL_E_RESOURCE with `what` and CUDA's words. */
ZL_NODISCARD zl_status zr_lane_check(cudaError_t failure, const char *what, zl_err *err);

#endif
