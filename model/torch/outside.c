/* The buffers of NCCL follow from its sources; what loading code and making handles costs does not,
 * so it is measured: a calibration, with its provenance, for one kind of GPU and software. */
#include "torch/outside.h"

#include "torch/engine.h"
#include "zeroledger/bytes.h"

/* ---- NCCL: src/init.cc, src/channel.cc, src/transport/p2p.cc ---- */

/* A channel has three small arrays on the device, each in a granule of 2 MiB of its own. */
static const uint64_t channel_bytes = UINT64_C(6) << 20;
/* So has the communicator. */
static const uint64_t communicator_bytes = UINT64_C(6) << 20;
/* Buffers of one ring connection over NVLink: 10 MiB with the receiver, 2 MiB with the sender. */
static const uint64_t connection_bytes = UINT64_C(12) << 20;

/* ---- calibration ---- */

/* How the topology search of NCCL 2.28.9 ends on an HGX H200 with NVLS off: channels of the ring;
 * channels for send and receive, which is a power of two, and twice that with a single rank. */
static const uint64_t ring_channels = 24;
static const uint64_t p2p_channels = 32;

/* H200, driver 580, CUDA 13.0, torch 2.11, cuDNN of that wheel: how cudaMemGetInfo moved in eight
 * records below validate/records: of torch-h200.jsonl bert-large single bf16 eager, gpt2 single
 * bf16 sdpa, gpt2 ddp and gpt2 fsdp2 on two ranks; of deepspeed-h200.jsonl, 0.19.6, gpt2 stages 2
 * and 3 on two ranks, gpt2 stage 2 on one, bert-large-pretraining stage 2 on two simulated ones.
 * All other records are held out. */
static const struct {
    uint64_t kernels;          /* first kernels of PyTorch: code and local memory of the GPU */
    uint64_t deepspeed;        /* more for those of DeepSpeed's initialization */
    uint64_t blas;             /* a handle of cuBLAS, 64 MiB of them its workspace; per thread */
    uint64_t cudnn;            /* first attention of cuDNN; per thread */
    uint64_t nccl;             /* first communicator, kernels of PyTorch included */
    uint64_t first_collective; /* code and local memory of NCCL's kernels */
    uint64_t broadcast;        /* first broadcast */
} calibrated = {
    .kernels = UINT64_C(92) << 20,
    .deepspeed = UINT64_C(70) << 20,
    .blas = UINT64_C(66) << 20,
    .cudnn = UINT64_C(8) << 20,
    .nccl = UINT64_C(260) << 20,
    .first_collective = UINT64_C(186) << 20,
    .broadcast = UINT64_C(4) << 20,
};

static uint64_t nccl_bytes(const zt_process *p, zt_nccl nccl)
{
    const uint64_t channels = p->run->ranks == 1 ? 2 * p2p_channels : p2p_channels;
    const uint64_t each = zl_add(zl_mul(channel_bytes, channels), communicator_bytes);
    uint64_t bytes = zl_add(zl_mul(nccl.communicators, each), calibrated.nccl);
    if (nccl.used > 0 && p->run->ranks > 1) {
        bytes = zl_add(bytes, zl_prod(nccl.used, ring_channels, connection_bytes));
        bytes = zl_add(bytes, calibrated.first_collective);
        bytes = zl_add(bytes, nccl.broadcast ? calibrated.broadcast : 0);
    }
    return bytes;
}

uint64_t zt_outside_bytes(const zt_process *p)
{
    const zt_nccl nccl = p->framework->nccl == NULL ? (zt_nccl){0} : p->framework->nccl(p);
    const struct zt_engine *e = p->engine;
    uint64_t bytes = 0;
    if (nccl.communicators > 0) {
        bytes = nccl_bytes(p, nccl);
    } else if (nccl.kernels) {
        bytes = zl_add(calibrated.kernels, calibrated.deepspeed);
    } else if (e->workspace[ZT_MAIN_THREAD].blas) {
        bytes = calibrated.kernels;
    }
    for (int t = 0; t < ZT_THREAD_COUNT; t++) {
        bytes = zl_add(bytes, e->workspace[t].blas ? calibrated.blas : 0);
        bytes = zl_add(bytes, e->workspace[t].cudnn ? calibrated.cudnn : 0);
    }
    return bytes;
}
