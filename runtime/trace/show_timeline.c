/* Trace Event Format (Google, "Trace Event Format", phases C, i and M), which Perfetto opens: times
 * are microseconds, a counter is known by its process and its name. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "trace/show.h"
#include "zeroledger/json.h"

enum { TRACK = 192 };
static const uint64_t microsecond = 1000; /* nanoseconds */

static void begin_event(zl_json_writer *w, const char *phase, uint64_t pid, const char *name)
{
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "ph", phase);
    zl_json_put_u64(w, "pid", pid);
    zl_json_put_u64(w, "tid", pid);
    zl_json_put_string(w, "name", name);
}

static void put_time(zl_json_writer *w, const zr_trace *t, uint64_t time)
{
    zl_json_put_real(w, "ts", (double)zr_trace_time(t, time) / 1000.0);
}

static void put_counter(zl_json_writer *w, const zr_trace *t, uint64_t pid, const char *track,
                        uint64_t time, uint64_t bytes)
{
    begin_event(w, "C", pid, track);
    put_time(w, t, time);
    zl_json_begin_object(w, "args");
    zl_json_put_u64(w, "bytes", bytes);
    zl_json_end(w);
    zl_json_end(w);
}

/* No picture shows what did not last a microsecond, and a range that is unmapped has a point for
 * each of its mappings. */
static bool superseded(const zr_meter *m, size_t at)
{
    const uint64_t then = m->point[at].time / microsecond;
    for (size_t i = at + 1; i < m->points && m->point[i].time / microsecond == then; i++) {
        if (m->point[i].row == m->point[at].row) {
            return true;
        }
    }
    return false;
}

static void put_points(zl_json_writer *w, const zr_trace *t, const zr_recording_read *p)
{
    for (size_t i = 0; i < p->meter.points; i++) {
        if (superseded(&p->meter, i)) {
            continue;
        }
        const zr_point *const point = &p->meter.point[i];
        const zr_row *const row = &p->meter.row[point->row];
        const char *const owner = zr_meter_owner_name(&p->meter, row->owner);
        char track[TRACK];
        if (row->device >= 0) {
            (void)snprintf(track, sizeof(track), "GPU %d %s %s", row->device, owner, row->call);
        } else {
            (void)snprintf(track, sizeof(track), "elsewhere %s %s", owner, row->call);
        }
        put_counter(w, t, p->pid, track, point->time, point->bytes);
    }
}

static void put_marks(zl_json_writer *w, const zr_trace *t, const zr_recording_read *p)
{
    for (size_t i = 0; i < p->meter.marks; i++) {
        const zr_mark_seen *const mark = &p->meter.mark[i];
        char track[TRACK];
        (void)snprintf(track, sizeof(track), "mark %s (GPU %d)", mark->name, mark->device);
        begin_event(w, "i", p->pid, track);
        zl_json_put_string(w, "s", "p"); /* a line across the process */
        put_time(w, t, mark->time);
        zl_json_end(w);
        (void)snprintf(track, sizeof(track), "GPU %d in use", mark->device);
        put_counter(w, t, p->pid, track, mark->time, mark->used);
        (void)snprintf(track, sizeof(track), "GPU %d traced", mark->device);
        put_counter(w, t, p->pid, track, mark->time, mark->traced);
        (void)snprintf(track, sizeof(track), "GPU %d untraced", mark->device);
        put_counter(w, t, p->pid, track, mark->time, zr_untraced(mark));
    }
}

static void put_refusals(zl_json_writer *w, const zr_trace *t, const zr_recording_read *p)
{
    for (size_t i = 0; i < p->meter.refusals; i++) {
        const zr_refusal *const r = &p->meter.refusal[i];
        char track[TRACK];
        (void)snprintf(track, sizeof(track), "refused: %s %s",
                       zr_meter_owner_name(&p->meter, r->owner), r->call);
        begin_event(w, "i", p->pid, track);
        zl_json_put_string(w, "s", "p");
        put_time(w, t, r->time);
        zl_json_begin_object(w, "args");
        zl_json_put_u64(w, "bytes", r->bytes);
        zl_json_end(w);
        zl_json_end(w);
    }
}

static void put_process(zl_json_writer *w, const zr_trace *t, const zr_recording_read *p)
{
    begin_event(w, "M", p->pid, "process_name");
    zl_json_begin_object(w, "args");
    zl_json_put_string(w, "name", p->program);
    zl_json_end(w);
    zl_json_end(w);
    put_points(w, t, p);
    put_marks(w, t, p);
    put_refusals(w, t, p);
}

/* The text without its indent, which is half of it: there may be hundreds of thousands of events.
 */
static bool put_dense(const char *text, FILE *out)
{
    bool quoted = false;
    for (const char *c = text; *c != '\0'; c++) {
        if (!quoted && (*c == '\n' || *c == ' ')) {
            continue;
        }
        if (quoted && *c == '\\') { /* what comes next is no end of the string */
            (void)fputc(*c++, out);
        } else if (*c == '"') {
            quoted = !quoted;
        }
        (void)fputc(*c, out);
    }
    return fputc('\n', out) != EOF && ferror(out) == 0;
}

static zl_status save(const zl_json_writer *w, const char *path, zl_err *err)
{
    size_t size = 0;
    const char *const text = zl_json_writer_text(w, &size);
    if (text == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory while writing %s", path);
    }
    FILE *const out = fopen(path, "w");
    if (out == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "%s: %s", path, strerror(errno));
    }
    const bool put = put_dense(text, out);
    const int failure = errno;
    if (fclose(out) != 0) {
        return zl_fail(err, ZL_E_RESOURCE, "%s: %s", path, strerror(errno));
    }
    return put ? ZL_OK : zl_fail(err, ZL_E_RESOURCE, "%s: %s", path, strerror(failure));
}

zl_status zr_trace_timeline(const zr_trace *trace, const char *path, zl_err *err)
{
    zl_json_writer *const w = zl_json_writer_new();
    if (w == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "displayTimeUnit", "ms");
    zl_json_begin_array(w, "traceEvents");
    for (size_t i = 0; i < trace->recordings.count; i++) {
        put_process(w, trace, &trace->recordings.process[i]);
    }
    zl_json_end(w);
    zl_json_end(w);
    const zl_status status = save(w, path, err);
    zl_json_writer_free(w);
    return status;
}
