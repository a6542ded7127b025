#include "compare/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compare/read.h"
#include "zeroledger/bytes.h"
#include "zeroledger/json.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The program of the CUDA backend, as its memory's owner. */
static const char trainer[] = "zl-train-cuda";
static const char physical[] = "cuMemCreate";

static zl_status read_row(zl_json object, zv_owner *out, zl_err *err)
{
    const zv_member members[] = {
        {.key = "owner", .text = out->owner, .size = sizeof out->owner},
        {.key = "call", .text = out->call, .size = sizeof out->call},
        {.key = "end"},
        {.key = "peak", .count = &out->peak},
        {.key = "at_peak", .count = &out->at_peak},
        {.key = "live"},
        {.key = "made"},
    };
    return zv_read_members(object, members, COUNT_OF(members), err);
}

static zl_status read_device(zl_json object, zv_trace *out, zl_err *err)
{
    const zv_member members[] = {
        {.key = "device", .count = &out->device},
        {.key = "name"},
        {.key = "total"},
        {.key = "traced"},
        {.key = "used_peak"},
        {.key = "owners"},
        {.key = "marks"},
    };
    ZL_TRY(zv_read_members(object, members, COUNT_OF(members), err));
    ZL_TRY(zl_json_u64(zl_json_get(zl_json_get(object, "traced"), "peak"), &out->peak, err));
    const zl_json rows = zl_json_get(object, "owners");
    out->rows = zl_json_size(rows);
    if (out->rows > ZV_OWNERS_MAX) {
        return zl_fail(err, ZL_E_INPUT, "%s: %zu owners; at most %d are read", rows.path, out->rows,
                       ZV_OWNERS_MAX);
    }
    for (size_t i = 0; i < out->rows; i++) {
        ZL_TRY(read_row(zl_json_item(rows, i), &out->row[i], err));
    }
    return ZL_OK;
}

/* *found: it is the trainer, and has a device. */
static zl_status read_process(zl_json object, zv_trace *out, bool *found, zl_err *err)
{
    char program[ZV_OWNER_SIZE * 2];
    const zv_member members[] = {
        {.key = "pid", .count = &out->pid},
        {.key = "host"},
        {.key = "program", .text = program, .size = sizeof program},
        {.key = "date"},
        {.key = "cuda"},
        {.key = "begin"},
        {.key = "end"},
        {.key = "complete"},
        {.key = "broken", .optional = true},
        {.key = "allocations"},
        {.key = "releases"},
        {.key = "unknown_releases"},
        {.key = "devices"},
        {.key = "elsewhere"},
        {.key = "refused"},
    };
    ZL_TRY(zv_read_members(object, members, COUNT_OF(members), err));
    const zl_json devices = zl_json_get(object, "devices");
    *found = strcmp(program, trainer) == 0 && zl_json_size(devices) > 0;
    return *found ? read_device(zl_json_item(devices, 0), out, err) : ZL_OK;
}

static zl_status choose(zl_json root, uint64_t rank, zv_trace *out, zl_err *err)
{
    zl_json processes;
    size_t trainers = 0;
    bool exact = false;
    ZL_TRY(zv_read_list(root, "processes", &processes, err));
    for (size_t i = 0; i < zl_json_size(processes) && !exact; i++) {
        zv_trace one;
        bool found = false;
        ZL_TRY(read_process(zl_json_item(processes, i), &one, &found, err));
        exact = found && one.device == rank;
        trainers += found ? 1 : 0;
        if (found) {
            *out = one;
        }
    }
    if (exact || trainers == 1) {
        return ZL_OK;
    }
    return trainers == 0 ? zl_fail(err, ZL_E_INPUT, "%s: no process of %s", processes.path, trainer)
                         : zl_fail(err, ZL_E_INPUT, "%s: %zu processes of %s, none on GPU %" PRIu64,
                                   processes.path, trainers, trainer, rank);
}

static zl_status read_root(zl_json root, uint64_t rank, zv_trace *out, zl_err *err)
{
    const zv_member members[] = {
        {.key = "schema"},
        {.key = "command", .optional = true},
        {.key = "exit", .optional = true},
        {.key = "warm"},
        {.key = "tolerance"},
        {.key = "processes"},
        {.key = "findings"},
    };
    ZL_TRY(zl_json_schema(root, "zeroledger.trace/1", err));
    ZL_TRY(zv_read_members(root, members, COUNT_OF(members), err));
    return choose(root, rank, out, err);
}

zl_status zv_trace_load(const char *path, uint64_t rank, zv_trace *out, zl_err *err)
{
    zl_json_doc *doc = NULL;
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_status status = read_root(zl_json_root(doc), rank, out, err);
    zl_json_free(doc);
    return status == ZL_OK || err == NULL ? status : zl_fail_at(err, path);
}

static uint64_t largest_granted(const zl_ledger *ledger)
{
    uint64_t largest = 0;
    for (int visit = 0; visit < ZL_VISIT_COUNT; visit++) {
        for (int phase = 0; phase < ZL_PHASE_COUNT; phase++) {
            const zl_cell *const cell = zl_ledger_at(ledger, (zl_visit)visit, (zl_phase)phase);
            largest = cell->present ? zl_max(largest, cell->peak[ZL_GRANTED]) : largest;
        }
    }
    return largest;
}

/* Modules are code, which the driver loads; everything else is memory that was asked for. */
bool zv_owner_asked(const zv_owner *row)
{
    return strncmp(row->call, "cuMem", 5) == 0 || strncmp(row->call, "cuArray", 7) == 0;
}

zl_status zv_trace_judge(const zl_ledger *ledger, const zv_trace *trace, zv_trace_verdict *out,
                         zl_err *err)
{
    if (!ledger->witness.present) {
        return zl_fail(err, ZL_E_INPUT, "the ledger has no witness: give one that zl-train wrote");
    }
    zv_trace_verdict v = {.arena = ledger->witness.arena_reserved,
                          .granted = largest_granted(ledger)};
    for (size_t i = 0; i < trace->rows; i++) {
        const zv_owner *const row = &trace->row[i];
        if (strcmp(row->owner, trainer) == 0 && strcmp(row->call, physical) == 0) {
            v.traced = zl_add(v.traced, row->peak);
        } else if (strcmp(row->owner, trainer) == 0 && zv_owner_asked(row)) {
            v.past = zl_add(v.past, row->peak);
        }
    }
    *out = v;
    return ZL_OK;
}

bool zv_trace_agrees(const zv_trace_verdict *v)
{
    return v->arena == v->traced && v->past == 0 && v->granted <= v->arena;
}
