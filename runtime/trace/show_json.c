#include <inttypes.h>
#include <string.h>

#include "trace/show.h"
#include "zeroledger/json.h"

uint64_t zr_trace_time(const zr_trace *trace, uint64_t time)
{
    const uint64_t begin = trace->recordings.count > 0 ? trace->recordings.process[0].begin : 0;
    return time > begin ? time - begin : 0;
}

static void put_row(zl_json_writer *w, const zr_meter *m, const zr_row *row)
{
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "owner", zr_meter_owner_name(m, row->owner));
    zl_json_put_string(w, "call", row->call);
    zl_json_put_u64(w, "end", row->now);
    zl_json_put_u64(w, "peak", row->peak);
    zl_json_put_u64(w, "at_peak", row->at_peak);
    zl_json_put_u64(w, "live", row->live);
    zl_json_put_u64(w, "made", row->made);
    zl_json_end(w);
}

static void put_rows(zl_json_writer *w, const char *key, const zr_meter *m, int device)
{
    zl_json_begin_array(w, key);
    for (size_t i = 0; i < m->rows; i++) {
        if (m->row[i].device == device) {
            put_row(w, m, &m->row[i]);
        }
    }
    zl_json_end(w);
}

static void put_mark(zl_json_writer *w, const zr_trace *t, const zr_mark_seen *mark)
{
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "name", mark->name);
    zl_json_put_u64(w, "time", zr_trace_time(t, mark->time));
    zl_json_put_bool(w, "automatic", mark->automatic);
    zl_json_put_bool(w, "settled", mark->settled);
    zl_json_put_u64(w, "used", mark->used);
    zl_json_put_u64(w, "traced", mark->traced);
    zl_json_put_u64(w, "untraced", zr_untraced(mark));
    zl_json_put_u64(w, "overtraced", zr_overtraced(mark));
    zl_json_end(w);
}

static void put_device(zl_json_writer *w, const zr_trace *t, const zr_meter *m, int device)
{
    const zr_traced_device *const d = &m->device[device];
    zl_json_begin_object(w, NULL);
    zl_json_put_u64(w, "device", (uint64_t)device);
    zl_json_put_string(w, "name", d->name);
    zl_json_put_u64(w, "total", d->total);
    zl_json_begin_object(w, "traced");
    zl_json_put_u64(w, "end", d->traced);
    zl_json_put_u64(w, "peak", d->peak);
    zl_json_put_u64(w, "peak_time", zr_trace_time(t, d->peak_time));
    zl_json_end(w);
    zl_json_put_u64(w, "used_peak", d->used_peak);
    put_rows(w, "owners", m, device);
    zl_json_begin_array(w, "marks");
    for (size_t i = 0; i < m->marks; i++) {
        if (m->mark[i].device == device) {
            put_mark(w, t, &m->mark[i]);
        }
    }
    zl_json_end(w);
    zl_json_end(w);
}

static void put_refused(zl_json_writer *w, const zr_trace *t, const zr_meter *m)
{
    zl_json_begin_array(w, "refused");
    for (size_t i = 0; i < m->refusals; i++) {
        const zr_refusal *const r = &m->refusal[i];
        zl_json_begin_object(w, NULL);
        zl_json_put_u64(w, "time", zr_trace_time(t, r->time));
        if (r->device >= 0) {
            zl_json_put_u64(w, "device", (uint64_t)r->device);
        }
        zl_json_put_string(w, "owner", zr_meter_owner_name(m, r->owner));
        zl_json_put_string(w, "call", r->call);
        zl_json_put_u64(w, "bytes", r->bytes);
        zl_json_put_u64(w, "result", r->result);
        zl_json_end(w);
    }
    zl_json_end(w);
}

static void put_process(zl_json_writer *w, const zr_trace *t, const zr_recording_read *p)
{
    const zr_meter *const m = &p->meter;
    zl_json_begin_object(w, NULL);
    zl_json_put_u64(w, "pid", p->pid);
    zl_json_put_string(w, "host", p->host);
    zl_json_put_string(w, "program", p->program);
    zl_json_put_u64(w, "date", p->date);
    zl_json_put_u64(w, "cuda", p->driver);
    zl_json_put_u64(w, "begin", zr_trace_time(t, p->begin));
    zl_json_put_u64(w, "end", zr_trace_time(t, p->end));
    zl_json_put_bool(w, "complete", p->complete);
    if (p->broken[0] != '\0') {
        zl_json_put_string(w, "broken", p->broken);
    }
    zl_json_put_u64(w, "allocations", m->allocations);
    zl_json_put_u64(w, "releases", m->releases);
    zl_json_put_u64(w, "unknown_releases", m->unknown);
    zl_json_begin_array(w, "devices");
    for (int device = 0; device < ZR_DEVICES_MAX; device++) {
        if (m->device[device].present) {
            put_device(w, t, m, device);
        }
    }
    zl_json_end(w);
    put_rows(w, "elsewhere", m, ZR_NO_DEVICE);
    put_refused(w, t, m);
    zl_json_end(w);
}

static void put_place(zl_json_writer *w, const char *key, const zr_trace *t,
                      const zr_mark_seen *mark)
{
    zl_json_begin_object(w, key);
    zl_json_put_string(w, "mark", mark->name);
    zl_json_put_u64(w, "time", zr_trace_time(t, mark->time));
    zl_json_end(w);
}

static void put_found(zl_json_writer *w, const zr_trace *t, const zr_found *found)
{
    const zr_finding *const f = &found->finding;
    const zr_recording_read *const p = &t->recordings.process[found->process];
    zl_json_begin_object(w, NULL);
    zl_json_put_u64(w, "process", found->process);
    zl_json_put_u64(w, "pid", p->pid);
    zl_json_put_u64(w, "device", (uint64_t)f->device);
    zl_json_put_string(w, "what", f->traced ? "owner" : "untraced");
    if (f->traced) {
        const zr_row *const row = &p->meter.row[f->row];
        zl_json_put_string(w, "owner", zr_meter_owner_name(&p->meter, row->owner));
        zl_json_put_string(w, "call", row->call);
        zl_json_put_u64(w, "live", f->live);
    }
    zl_json_put_u64(w, "bytes", f->bytes);
    put_place(w, "from", t, &p->meter.mark[f->from]);
    put_place(w, "to", t, &p->meter.mark[f->to]);
    zl_json_end(w);
}

static void put_trace(zl_json_writer *w, const zr_trace *t)
{
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", "zeroledger.trace/1");
    if (t->command != NULL) {
        zl_json_begin_array(w, "command");
        for (size_t i = 0; t->command[i] != NULL; i++) {
            zl_json_put_string(w, NULL, t->command[i]);
        }
        zl_json_end(w);
        zl_json_put_u64(w, "exit", (uint64_t)t->exit);
    }
    zl_json_put_string(w, "warm", t->judgement.warm);
    zl_json_put_u64(w, "tolerance", t->judgement.tolerance);
    zl_json_begin_array(w, "processes");
    for (size_t i = 0; i < t->recordings.count; i++) {
        put_process(w, t, &t->recordings.process[i]);
    }
    zl_json_end(w);
    zl_json_begin_array(w, "findings");
    for (size_t i = 0; i < t->count; i++) {
        put_found(w, t, &t->found[i]);
    }
    zl_json_end(w);
    zl_json_end(w);
}

zl_status zr_trace_json(const zr_trace *trace, const char *path, zl_err *err)
{
    zl_json_writer *const w = zl_json_writer_new();
    if (w == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    put_trace(w, trace);
    const zl_status status = zl_json_writer_save(w, path, err);
    zl_json_writer_free(w);
    return status;
}
