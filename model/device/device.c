#include "zeroledger/device.h"

#include <stdio.h>
#include <string.h>

#include "zeroledger/bytes.h"
#include "zeroledger/predict.h"

const char *zl_device_part_name(zl_device_part part)
{
    static const char *const names[ZL_DEVICE_PART_COUNT] = {
        [ZL_DEVICE_ARENA] = "arena",
        [ZL_DEVICE_NCCL] = "nccl buffers",
        [ZL_DEVICE_CONTEXT] = "context and code",
        [ZL_DEVICE_NCCL_CODE] = "nccl code",
    };
    return names[part];
}

static void put(zl_device *d, zl_device_part part, uint64_t bytes)
{
    d->part[part] = bytes;
    d->known[part] = true;
}

/* One communicator, and rings only: the trainer gathers and scatters. */
static void put_nccl(zl_device *d, const zl_constants *constants)
{
    d->nccl = zl_nccl_capped(constants->rings, constants->own, 0);
    put(d, ZL_DEVICE_NCCL,
        zl_add(zl_nccl_communicator_bytes(&d->nccl), zl_nccl_ring_bytes(&d->nccl)));
    put(d, ZL_DEVICE_NCCL_CODE, constants->communication);
}

static void put_constants(bool several, const zl_constants *constants, zl_device *d)
{
    if (!several) {
        put(d, ZL_DEVICE_NCCL, 0);
        put(d, ZL_DEVICE_NCCL_CODE, 0);
    }
    if (constants == NULL) {
        (void)snprintf(d->missing, sizeof d->missing,
                       "what is outside the arena is not known: nobody measured this GPU");
        return;
    }
    put(d, ZL_DEVICE_CONTEXT, constants->context);
    if (several && constants->rings > 0) {
        put_nccl(d, constants);
    } else if (several) {
        (void)snprintf(d->missing, sizeof d->missing,
                       "what NCCL takes is not known: %s was measured with one rank only",
                       constants->gpu);
    }
}

zl_status zl_predict_device(const zl_run *run, zl_placement placement, bool alone,
                            const zl_constants *constants, zl_device *out, zl_err *err)
{
    zl_device d = {.complete = true};
    uint64_t arena = 0;
    if (run->backend != ZL_BACKEND_CUDA) {
        return zl_fail(err, ZL_E_USAGE, "the backend is %s: there is no device",
                       zl_backend_name(run->backend));
    }
    ZL_TRY(zl_predict_arena(run, placement, &arena, err));
    ZL_TRY(zl_predict_peak(run, &d.peak, NULL, NULL, err));
    put(&d, ZL_DEVICE_ARENA, arena);
    put_constants(run->ranks > 1 && !alone, constants, &d);
    for (int p = 0; p < ZL_DEVICE_PART_COUNT; p++) {
        d.complete = d.complete && d.known[p];
        d.total = zl_add(d.total, d.part[p]);
    }
    d.total = d.complete ? d.total : 0;
    *out = d;
    return ZL_OK;
}
