/* Host memory of DeepSpeed under offload: what it allocates, on top of what the process has anyway.
 */
#include "torch/deepspeed.h"
#include "zeroledger/bytes.h"

/* Resident memory of the process without model and offload, which cannot be derived: Python with
 * torch 2.11, transformers 5.17 and DeepSpeed 0.19.6, then the libraries and kernels that come with
 * the first uses. Bytes of VmRSS, measured on gpt2 stage 2 bf16 on two ranks of an H200 (before
 * init less the fp32 model; differences after that), the first backward with offload on the same
 * with its optimizer offloaded. */
static const struct {
    uint64_t imported;
    uint64_t initialized;
    uint64_t first_forward;
    uint64_t first_backward;
} process = {
    .imported = UINT64_C(1043) << 20,
    .initialized = UINT64_C(59) << 20,
    .first_forward = UINT64_C(370) << 20,
    .first_backward = UINT64_C(193) << 20,
};

/* CachingHostAllocator of PyTorch rounds a block up to a power of two. */
static uint64_t host_block(uint64_t bytes)
{
    uint64_t block = 1;
    while (block < bytes && block <= UINT64_MAX / 4) {
        block *= 2;
    }
    return bytes > 0 ? block : 0;
}

void zt_ds_host_pinned(zt_process *p, uint64_t bytes)
{
    zt_ds *const ds = zt_ds_of(p);
    ds->host_pinned = zl_add(ds->host_pinned, host_block(bytes));
}

void zt_ds_host_pageable(zt_process *p, uint64_t bytes)
{
    zt_ds *const ds = zt_ds_of(p);
    ds->host_pageable = zl_add(ds->host_pageable, bytes);
}

void zt_ds_host_mark(const zt_process *p, zl_mark *mark)
{
    zt_ds *const ds = zt_ds_of(p);
    if (ds->config->offload_optimizer == ZL_OFFLOAD_NONE &&
        ds->config->offload_param == ZL_OFFLOAD_NONE) {
        return;
    }
    uint64_t bytes = process.imported;
    if (!ds->initialized) { /* the model as its constructor made it */
        bytes = zl_add(bytes, ds->config->zero_init ? 0 : zl_mul(4, p->elements));
    } else {
        bytes = zl_add(bytes, process.initialized);
    }
    bytes = zl_add(bytes, ds->forwards > 0 ? process.first_forward : 0);
    bytes = zl_add(bytes, ds->started > 0 ? process.first_backward : 0);
    bytes = zl_add(bytes, zl_add(ds->host_pinned, ds->host_pageable));
    ds->host_peak = zl_max(ds->host_peak, bytes);
    mark->host_rss = bytes;
    mark->host_hwm = ds->host_peak;
}
