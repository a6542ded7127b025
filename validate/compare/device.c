#include "compare/device.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "zeroledger/bytes.h"
#include "zeroledger/json.h"

static const uint64_t least_tolerance = UINT64_C(32) << 20;

/* A file in the folder of another; false if there is none. */
static bool beside(const char *path, const char *name, char out[4096])
{
    const char *const slash = strrchr(path, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - path) + 1;
    const int length = snprintf(out, 4096, "%.*s%s", folder, path, name);
    return length > 0 && length < 4096 && access(out, R_OK) == 0;
}

bool zv_trace_beside(const char *ledger_path, char path[4096])
{
    return beside(ledger_path, "trace.json", path);
}

static zl_status copy_text(zl_json object, const char *key, char *text, size_t size, zl_err *err)
{
    const char *value = NULL;
    ZL_TRY(zl_json_string(zl_json_get(object, key), &value, err));
    (void)snprintf(text, size, "%.*s", (int)size - 1, value);
    return ZL_OK;
}

/* Whether the figure is of this ledger's rank. */
static bool of_rank(zl_json root, const zl_ledger *ledger)
{
    uint64_t rank = 0;
    const zl_json loopback = zl_json_get(root, "loopback");
    return (loopback.node == NULL || zl_json_u64(loopback, &rank, NULL) == ZL_OK) &&
           rank == ledger->rank;
}

static zl_status read_used(zl_json root, const zl_ledger *ledger, zv_used *out, zl_err *err)
{
    char run[ZL_RUN_ID_SIZE];
    char wanted[ZL_RUN_ID_SIZE];
    const zl_json used = zl_json_get(zl_json_get(root, "memory"), "device_used");
    const zl_json provenance = zl_json_get(root, "provenance");
    ZL_TRY(zl_json_schema(root, "zeroledger.train/1", err));
    ZL_TRY(copy_text(root, "run", run, sizeof run, err));
    zl_run_id(&ledger->run, wanted);
    if (strcmp(run, wanted) != 0) {
        return zl_fail(err, ZL_E_INPUT, "it is of run %s, the ledger beside it of %s", run, wanted);
    }
    out->loopback = zl_json_get(root, "loopback").node != NULL;
    if (used.node == NULL || !of_rank(root, ledger)) {
        return ZL_OK;
    }
    ZL_TRY(zl_json_u64(used, &out->used, err));
    ZL_TRY(copy_text(provenance, "gpu", out->gpu, sizeof out->gpu, err));
    ZL_TRY(copy_text(provenance, "driver", out->driver, sizeof out->driver, err));
    ZL_TRY(copy_text(provenance, "cuda", out->cuda, sizeof out->cuda, err));
    ZL_TRY(copy_text(provenance, "date", out->date, sizeof "2026-11-30", err));
    out->present = true;
    return ZL_OK;
}

zl_status zv_used_load(const char *ledger_path, const zl_ledger *ledger, zv_used *out, zl_err *err)
{
    char path[4096];
    zl_json_doc *doc = NULL;
    zv_used used = {.present = false};
    if (!beside(ledger_path, "train.json", path)) {
        *out = used;
        return ZL_OK;
    }
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_status status = read_used(zl_json_root(doc), ledger, &used, err);
    zl_json_free(doc);
    if (status == ZL_OK) {
        *out = used;
    }
    return status == ZL_OK || err == NULL ? status : zl_fail_at(err, path);
}

uint64_t zv_device_tolerance(uint64_t measured)
{
    return zl_max(zl_ceil_div(measured, 100), least_tolerance);
}

static zv_pair pair_of(uint64_t predicted, uint64_t measured, uint64_t tolerance)
{
    const uint64_t off = predicted > measured ? predicted - measured : measured - predicted;
    return (zv_pair){off <= tolerance ? ZV_RUNG_AGREES : ZV_RUNG_DIFFERS, predicted, measured,
                     tolerance};
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Bytes that an owner asked for, each row at its peak: none of them is given back before the end.
 */
static uint64_t asked_by(const zv_trace *trace, const char *owner)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < trace->rows; i++) {
        const zv_owner *const row = &trace->row[i];
        if (begins(row->owner, owner) && zv_owner_asked(row)) {
            sum = zl_add(sum, row->peak);
        }
    }
    return sum;
}

static zl_status judge_owners(const char *path, const zl_ledger *ledger, const zl_device *device,
                              zv_device_verdict *v, zl_err *err)
{
    static zv_trace trace;
    zv_trace_verdict seen;
    ZL_TRY(zv_trace_load(path, ledger->rank, &trace, err));
    ZL_TRY(zv_trace_judge(ledger, &trace, &seen, err));
    v->trainer = pair_of(device->part[ZL_DEVICE_ARENA], zl_add(seen.traced, seen.past), 0);
    v->blas = pair_of(0, asked_by(&trace, "libcublas"), 0);
    v->nccl = pair_of(device->part[ZL_DEVICE_NCCL], asked_by(&trace, "libnccl"), 0);
    if (!device->known[ZL_DEVICE_NCCL]) {
        v->nccl.rung = ZV_RUNG_UNKNOWN;
    }
    return ZL_OK;
}

zl_status zv_device_judge(const char *path, const zl_ledger *ledger, const zl_constants *constants,
                          zv_device_verdict *out, zl_err *err)
{
    zv_device_verdict v = {.arena.rung = ZV_RUNG_ABSENT};
    zv_used used = {.present = false};
    zl_constants own;
    zl_device device;
    char trace[4096];
    if (ledger->run.backend != ZL_BACKEND_CUDA || ledger->run.framework != ZL_FRAMEWORK_NATIVE) {
        *out = v;
        return ZL_OK;
    }
    ZL_TRY(zv_used_load(path, ledger, &used, err));
    if (constants == NULL && used.present &&
        zl_constants_find(used.gpu, used.driver, used.cuda, &own)) {
        constants = &own;
    }
    ZL_TRY(zl_predict_device(&ledger->run, ledger->witness.placement,
                             ledger->loopback || used.loopback, constants, &device, err));
    if (ledger->witness.present) {
        v.arena = pair_of(device.part[ZL_DEVICE_ARENA], ledger->witness.arena_reserved, 0);
    }
    if (zv_trace_beside(path, trace)) {
        ZL_TRY(judge_owners(trace, ledger, &device, &v, err));
    } else if (used.present) {
        v.total = pair_of(device.total, used.used, zv_device_tolerance(used.used));
        v.total.rung = device.complete ? v.total.rung : ZV_RUNG_UNKNOWN;
    }
    *out = v;
    return ZL_OK;
}

bool zv_device_agrees(const zv_device_verdict *v)
{
    return v->arena.rung != ZV_RUNG_DIFFERS && v->trainer.rung != ZV_RUNG_DIFFERS &&
           v->nccl.rung != ZV_RUNG_DIFFERS && v->blas.rung != ZV_RUNG_DIFFERS &&
           v->total.rung != ZV_RUNG_DIFFERS;
}
