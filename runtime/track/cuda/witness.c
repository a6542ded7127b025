/* What the driver says is in use on the GPU, at a moment when the GPU rests. */
#include "track/witness.h"

#include <cuda_runtime_api.h>

#include "trace/zltrace.h"
#include "zeroledger/bytes.h"

static uint64_t growth(uint64_t before, uint64_t now)
{
    return now > before ? now - before : 0;
}

zl_status zr_witness_mark(zr_witness *witness, const zr_memory *memory, bool steady, zl_err *err)
{
    size_t available = 0;
    size_t total = 0;
    const cudaError_t failure = cudaDeviceSynchronize();
    if (failure != cudaSuccess || cudaMemGetInfo(&available, &total) != cudaSuccess) {
        return zl_fail(err, ZL_E_RESOURCE, "the GPU does not say what is in use: %s",
                       cudaGetErrorString(failure));
    }
    const uint64_t used = (uint64_t)total - (uint64_t)available;
    const uint64_t outside = growth(memory->accessible, used);
    zl_witness *const seen = &witness->seen;
    seen->present = true;
    seen->arena_resident = memory->accessible; /* mapped memory has no other state */
    if (!witness->started) {
        witness->started = true;
        witness->first = outside;
    } else if (steady) {
        if (!witness->steady) { /* modules, stacks of kernels, NCCL's buffers: all are there now */
            zltrace_mark("warm");
        }
        witness->steady = true;
        seen->outside_steady = zl_max(seen->outside_steady, growth(witness->last, outside));
    } else if (!witness->steady) {
        seen->outside_cold = zl_max(seen->outside_cold, growth(witness->first, outside));
    }
    witness->last = outside;
    return ZL_OK;
}
