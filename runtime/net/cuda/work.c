#include "net/work.h"

#include <stdlib.h>

#include "device/device.h"
#include "kernel/cuda/stream.h"
#include "net/parts.h"
#include "zeroledger/bytes.h"

static zl_status open_stream(zr_net *net, double *sums, zl_err *err)
{
    zr_stream *const stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the stream");
    }
    const zl_status status = zr_stream_init(stream, sums);
    if (status != ZL_OK) {
        free(stream);
        return zl_fail(err, status, "the stream and cuBLASLt cannot be made: %s",
                       zr_device_failure());
    }
    net->stream = stream;
    net->zero->stream = stream;
    return ZL_OK;
}

/* Partial sums of a reduction and the host's words to other ranks share a buffer: an exchange
 * begins after everything that computes, and has finished when it returns. */
zl_status zr_work_build(zr_net *net, zl_err *err)
{
    zr_scope *c = &net->constant;
    zr_comm *comm = net->zero->comm;
    ZL_TRY(zr_take(net, c, ZL_BUF_WORK_CUDA_GEMM, ZR_CUDA_GEMM_WORK_BYTES, err));
    ZL_TRY(zr_take(net, c, ZL_BUF_WORK_CUDA_SUMS, ZR_CUDA_SUMS_BYTES, err));
    net->work = c->mem[ZL_BUF_WORK_CUDA_GEMM];
    void *const sums = zr_ptr(c, ZL_BUF_WORK_CUDA_SUMS);
    ZL_TRY(open_stream(net, sums, err));
    ZL_TRY(zr_comm_attach(comm, net->stream, err));
    zr_comm_set_scratch(comm, sums, ZR_CUDA_SUMS_BYTES);
    return ZL_OK;
}

void zr_work_release(zr_net *net)
{
    if (net->stream != NULL) {
        (void)cudaStreamSynchronize(net->stream->queue);
        zr_stream_release(net->stream);
        free(net->stream);
    }
    net->stream = NULL;
    net->zero->stream = NULL;
    net->work = (zr_mem){.ptr = NULL};
}
