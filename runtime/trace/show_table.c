#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/show.h"
#include "zeroledger/bytes.h"
#include "zeroledger/text.h"

enum { FIGURE = 32 };

static const char *mib(uint64_t bytes, char text[FIGURE])
{
    zl_format_bytes(bytes, ZL_BYTES_MIB, 2, text, FIGURE);
    return text;
}

/* Part of whole in tenths of a percent; 0 of nothing. */
static uint64_t tenths(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : zl_mul(part, 1000) / whole;
}

static void print_head(FILE *out, const char *where)
{
    (void)fprintf(out, "%-24s %-26s %14s %14s %9s %7s\n", where, "call", "end MiB", "peak MiB",
                  "count", "share");
}

static void print_row(FILE *out, const zr_meter *m, const zr_row *row, uint64_t whole)
{
    char end[FIGURE];
    char peak[FIGURE];
    const uint64_t share = tenths(row->at_peak, whole);
    (void)fprintf(out, "%-24.24s %-26.26s %14s %14s %9" PRIu64, zr_meter_owner_name(m, row->owner),
                  row->call, mib(row->now, end), mib(row->peak, peak), row->made);
    if (row->device >= 0) {
        (void)fprintf(out, " %3" PRIu64 ".%" PRIu64 " %%", share / 10, share % 10);
    }
    (void)fputc('\n', out);
}

/* Largest first. */
static int by_peak(const void *a, const void *b)
{
    const zr_row *const x = *(const zr_row *const *)a;
    const zr_row *const y = *(const zr_row *const *)b;
    if (x->at_peak != y->at_peak) {
        return x->at_peak < y->at_peak ? 1 : -1;
    }
    return x->peak < y->peak ? 1 : x->peak > y->peak ? -1 : strcmp(x->call, y->call);
}

static void print_rows(FILE *out, const zr_meter *m, int device, uint64_t whole)
{
    const zr_row **const row = malloc((m->rows + 1) * sizeof(const zr_row *));
    size_t count = 0;
    for (size_t i = 0; row != NULL && i < m->rows; i++) {
        if (m->row[i].device == device && m->row[i].peak > 0) {
            row[count++] = &m->row[i];
        }
    }
    if (count > 0) {
        qsort(row, count, sizeof(const zr_row *), by_peak);
    }
    for (size_t i = 0; i < count; i++) {
        print_row(out, m, row[i], whole);
    }
    free(row);
}

static void print_device(FILE *out, const zr_trace *t, const zr_meter *m, int device)
{
    const zr_traced_device *const d = &m->device[device];
    char text[FIGURE];
    char other[FIGURE];
    (void)snprintf(text, sizeof(text), "GPU %d", device);
    print_head(out, text);
    print_rows(out, m, device, d->peak);
    (void)fprintf(out, "%-24s %-26s %14s %14s\n", "traced", "", mib(d->traced, text),
                  mib(d->peak, other));
    const zr_mark_seen *last = NULL;
    for (size_t i = 0; i < m->marks; i++) {
        last = m->mark[i].device == device ? &m->mark[i] : last;
    }
    if (last != NULL) {
        const uint64_t time = zr_trace_time(t, last->time);
        (void)fprintf(out,
                      "untraced %s%s MiB, in use %s MiB of %s, at the mark %s (%" PRIu64
                      ".%03" PRIu64 " s)\n",
                      zr_overtraced(last) > 0 ? "-" : "",
                      mib(zl_add(zr_untraced(last), zr_overtraced(last)), text),
                      mib(last->used, other), d->name[0] != '\0' ? d->name : "the GPU", last->name,
                      time / 1000000000U, time / 1000000U % 1000U);
    }
}

static bool has_elsewhere(const zr_meter *m)
{
    bool any = false;
    for (size_t i = 0; i < m->rows; i++) {
        any = any || (m->row[i].device == ZR_NO_DEVICE && m->row[i].peak > 0);
    }
    return any;
}

static void print_process(FILE *out, const zr_trace *t, const zr_recording_read *p)
{
    const zr_meter *const m = &p->meter;
    (void)fprintf(out, "%s, process %" PRIu64 " on %s%s\n", p->program, p->pid, p->host,
                  p->complete ? "" : " (did not end by itself)");
    if (p->broken[0] != '\0') {
        (void)fprintf(out, "nothing recorded: %s\n", p->broken);
    }
    for (int device = 0; device < ZR_DEVICES_MAX; device++) {
        if (m->device[device].present) {
            print_device(out, t, m, device);
        }
    }
    if (has_elsewhere(m)) {
        print_head(out, "host, managed");
        print_rows(out, m, ZR_NO_DEVICE, 0);
    }
    for (size_t i = 0; i < m->refusals; i++) {
        const zr_refusal *const r = &m->refusal[i];
        (void)fprintf(out,
                      "refused: %s asked for %" PRIu64 " bytes by %s, CUDA error %" PRIu64 "\n",
                      zr_meter_owner_name(m, r->owner), r->bytes, r->call, r->result);
    }
    (void)fputc('\n', out);
}

static void place_text(const zr_trace *t, const zr_mark_seen *mark, char *text, size_t size)
{
    const uint64_t time = zr_trace_time(t, mark->time);
    (void)snprintf(text, size, "%s (%" PRIu64 ".%03" PRIu64 " s)", mark->name, time / 1000000000U,
                   time / 1000000U % 1000U);
}

void zr_found_text(const zr_trace *trace, const zr_found *found, char text[ZR_SENTENCE])
{
    const zr_finding *const f = &found->finding;
    const zr_recording_read *const p = &trace->recordings.process[found->process];
    char from[ZR_MARK_SIZE + FIGURE];
    char to[ZR_MARK_SIZE + FIGURE];
    char who[192] = "untraced memory";
    char how[64] = "";
    place_text(trace, &p->meter.mark[f->from], from, sizeof(from));
    place_text(trace, &p->meter.mark[f->to], to, sizeof(to));
    if (f->traced) {
        const zr_row *const row = &p->meter.row[f->row];
        (void)snprintf(who, sizeof(who), "%s of %s", row->call,
                       zr_meter_owner_name(&p->meter, row->owner));
        (void)snprintf(how, sizeof(how), " in %" PRIu64 " allocations", f->live);
    }
    (void)snprintf(text, ZR_SENTENCE,
                   "process %" PRIu64 ", GPU %d: %s grew by %" PRIu64
                   " bytes%s between the marks %s and %s",
                   p->pid, f->device, who, f->bytes, how, from, to);
}

void zr_trace_table(const zr_trace *trace, FILE *out)
{
    for (size_t i = 0; i < trace->recordings.count; i++) {
        print_process(out, trace, &trace->recordings.process[i]);
    }
    for (size_t i = 0; i < trace->count; i++) {
        char text[ZR_SENTENCE];
        zr_found_text(trace, &trace->found[i], text);
        (void)fprintf(out, "%s\n", text);
    }
}
