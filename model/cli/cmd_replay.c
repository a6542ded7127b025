/* zl replay: a recording of PyTorch's caching allocator against the model of it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "gunzip.h"
#include "torch/replay.h"
#include "zeroledger/bytes.h"

const zl_option zl_replay_options[] = {
    {"addresses", NULL, "WHOSE", "recorded,ascending,descending",
     "where new segments lie (default recorded)"},
    {"alloc-conf", NULL, "TEXT", NULL, "PYTORCH_ALLOC_CONF of the recording, if it does not say"},
    {"device", NULL, "N", NULL, "device of a PyTorch snapshot (default: the first with events)"},
    {"device-total", NULL, "BYTES", NULL, "memory of the device, from which garbage is collected"},
    {0},
};

typedef struct question {
    const char *path;
    zl_json_doc *doc;
    zt_trace trace;
    zt_replay_options options;
} question;

static zl_status read_addresses(const zl_args *args, zt_addresses *out)
{
    const char *wish = zl_args_value(args, "addresses");
    *out = ZT_FROM_DRIVER;
    if (wish != NULL && strcmp(wish, "ascending") == 0) {
        *out = ZT_ASCENDING;
    } else if (wish != NULL && strcmp(wish, "descending") == 0) {
        *out = ZT_DESCENDING;
    }
    return ZL_OK;
}

static const char *addresses_name(zt_addresses addresses)
{
    switch (addresses) {
    case ZT_ASCENDING:
        return "ascending";
    case ZT_DESCENDING:
        return "descending";
    case ZT_FROM_DRIVER:
        return "recorded";
    case ZT_ADDRESSES_COUNT:
        break;
    }
    return "unknown";
}

static zl_status read_options(const zl_args *args, question *q, uint64_t *device, zl_err *err)
{
    const char *number = zl_args_value(args, "device");
    const char *total = zl_args_value(args, "device-total");
    q->path = args->operand;
    if (q->path == NULL) {
        return zl_fail(err, ZL_E_USAGE,
                       "no trace; give a file, gzip or not, or - for the standard "
                       "input");
    }
    ZL_TRY(read_addresses(args, &q->options.addresses));
    if (number != NULL) {
        ZL_TRY(zl_parse_count("device", number, device, err));
    }
    return total != NULL ? zl_parse_bytes("device-total", total, &q->options.device_total, err)
                         : ZL_OK;
}

/* The caller releases trace and document also on failure. */
static zl_status load(const zl_args *args, question *q, uint64_t device, zl_err *err)
{
    const char *conf = zl_args_value(args, "alloc-conf");
    char *text = NULL;
    size_t size = 0;
    ZL_TRY(zl_gunzip(q->path, &text, &size, err));
    const char *name = strcmp(q->path, "-") == 0 ? "standard input" : q->path;
    zl_status status = zl_json_parse(name, text, size, &q->doc, err);
    free(text);
    ZL_TRY(status);
    status = zt_trace_read(zl_json_root(q->doc), device, &q->trace, err);
    if (status != ZL_OK) {
        zl_fail_at(err, name);
        return status;
    }
    q->options.conf = q->trace.conf;
    return conf != NULL ? zt_alloc_conf_parse(conf, &q->options.conf, err) : ZL_OK;
}

/* ---- the page ---- */

/* "0", "+512", "-1,048,576" */
static zl_figure off_by(uint64_t replayed, uint64_t recorded)
{
    zl_figure figure;
    const bool more = replayed > recorded;
    const uint64_t bytes = more ? zl_sub(replayed, recorded) : zl_sub(recorded, replayed);
    snprintf(figure.text, sizeof figure.text, "%s%.40s",
             bytes == 0 ? ""
             : more     ? "+"
                        : "-",
             zl_count(bytes).text);
    return figure;
}

static void mark_row(zl_table *table, const zl_view *view, const zt_mark *mark,
                     const zt_replay_row *row)
{
    const uint64_t pairs[][2] = {{row->allocated, mark->allocated},
                                 {row->reserved, mark->reserved}};
    zl_table_text(table, "%" PRId64, mark->step);
    zl_table_text(table, "%s", mark->at);
    for (size_t i = 0; i < 2; i++) {
        if (view->format == ZL_FORMAT_CSV) {
            zl_table_count(table, pairs[i][0]);
            zl_table_count(table, pairs[i][1]);
        } else {
            zl_table_text(table, "%s", zl_bytes_in(view, pairs[i][0]).text);
            zl_table_text(table, "%s", zl_bytes_in(view, pairs[i][1]).text);
            zl_table_text(table, "%s", off_by(pairs[i][0], pairs[i][1]).text);
        }
    }
}

static zl_status print_marks(zl_page *page, const zt_trace *trace, const zt_replay *replay,
                             zl_err *err)
{
    static const char *const people[] = {"step",     "at",        "allocated",
                                         "recorded", "off by, B", "reserved",
                                         "recorded", "off by, B", NULL};
    static const char *const csv[] = {
        "step", "at", "allocated", "allocated_recorded", "reserved", "reserved_recorded", NULL};
    zl_table *table = zl_table_new();
    const char *const *title = page->view->format == ZL_FORMAT_CSV ? csv : people;
    for (size_t c = 0; title[c] != NULL; c++) {
        zl_table_column(table, title[c], c == 1 ? ZL_LEFT : ZL_RIGHT);
    }
    for (size_t i = 0; i < trace->marks; i++) {
        mark_row(table, page->view, &trace->mark[i], &replay->row[i]);
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

/* What differs, by kind. */
static void say_differences(zl_page *page, const zt_replay *r)
{
    if (zt_replay_differ(r) == 0) {
        return;
    }
    zl_page_say(page,
                "Segment events not predicted: %zu, predicted and not recorded: %zu, of "
                "another size: %zu;",
                r->missed, r->extra, r->resized);
    zl_page_say(page,
                "blocks at another address: %zu, pieces of the picture at the end that are "
                "not alike: %zu;",
                r->misplaced, r->final);
    zl_page_say(page, "the first difference is at event %zu.", r->first);
}

/* How far another choice of addresses leads away from the recording. */
static void say_spread(zl_page *page, const question *q, const zt_replay *r)
{
    size_t marks = 0;
    uint64_t largest = 0;
    for (size_t i = 0; i < q->trace.marks; i++) {
        const uint64_t a = r->row[i].reserved;
        const uint64_t b = q->trace.mark[i].reserved;
        marks += a != b;
        largest = zl_max(largest, a > b ? zl_sub(a, b) : zl_sub(b, a));
    }
    zl_page_say(page,
                "With %s addresses reserved memory differs at %zu of %zu marks, by at most "
                "%s bytes.",
                addresses_name(q->options.addresses), marks, q->trace.marks,
                zl_count(largest).text);
}

static zl_status fill_page(zl_page *page, const question *q, const zt_replay *r, zl_err *err)
{
    const bool recorded = q->options.addresses == ZT_FROM_DRIVER;
    if (q->trace.id[0] != '\0') {
        zl_page_say(page, "%s", q->trace.id);
        zl_page_break(page);
    }
    if (q->trace.marks > 0) {
        ZL_TRY(print_marks(page, &q->trace, r, err));
        zl_page_break(page);
    }
    zl_page_say(page, "Peaks: allocated %s, reserved %s",
                zl_bytes_exact(page->view, r->stats.allocated.peak).text,
                zl_bytes_exact(page->view, r->stats.reserved.peak).text);
    if (recorded) {
        say_differences(page, r);
        zl_page_say(page, "%zu events, %zu segments, %zu differ", r->events, r->segments,
                    zt_replay_differ(r));
    } else {
        say_spread(page, q, r);
    }
    return ZL_OK;
}

static zl_status print_page(const zl_view *view, const question *q, const zt_replay *r, zl_err *err)
{
    zl_page page;
    ZL_TRY(zl_page_open(&page, view, err));
    return zl_page_end(&page, fill_page(&page, q, r, err), err);
}

/* ---- JSON ---- */

static void put_marks(zl_json_writer *w, const zt_trace *trace, const zt_replay *r)
{
    zl_json_begin_array(w, "marks");
    for (size_t i = 0; i < trace->marks; i++) {
        const zt_mark *mark = &trace->mark[i];
        zl_json_begin_object(w, NULL);
        zl_json_put_real(w, "step", (double)mark->step); /* -1 before the first */
        zl_json_put_string(w, "at", mark->at);
        zl_json_put_u64(w, "allocated", r->row[i].allocated);
        zl_json_put_u64(w, "allocated_recorded", mark->allocated);
        zl_json_put_u64(w, "reserved", r->row[i].reserved);
        zl_json_put_u64(w, "reserved_recorded", mark->reserved);
        zl_json_end(w);
    }
    zl_json_end(w);
}

static void put_differences(zl_json_writer *w, const zt_replay *r)
{
    zl_json_put_u64(w, "differ", zt_replay_differ(r));
    zl_json_put_u64(w, "missed", r->missed);
    zl_json_put_u64(w, "extra", r->extra);
    zl_json_put_u64(w, "resized", r->resized);
    zl_json_put_u64(w, "misplaced", r->misplaced);
    zl_json_put_u64(w, "final", r->final);
    if (r->first != SIZE_MAX) {
        zl_json_put_u64(w, "first", r->first);
    }
}

static zl_status print_json(const zl_view *view, const question *q, const zt_replay *r, zl_err *err)
{
    zl_json_writer *w = zl_json_writer_new();
    if (w == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", "zeroledger.replay/1");
    zl_json_put_string(w, "id", q->trace.id);
    zl_json_put_string(w, "addresses", addresses_name(q->options.addresses));
    zl_json_put_u64(w, "events", r->events);
    zl_json_put_u64(w, "segments", r->segments);
    if (q->options.addresses == ZT_FROM_DRIVER) {
        put_differences(w, r);
    }
    zl_json_put_u64(w, "peak_allocated", r->stats.allocated.peak);
    zl_json_put_u64(w, "peak_reserved", r->stats.reserved.peak);
    put_marks(w, &q->trace, r);
    zl_json_end(w);
    const zl_status status = zl_json_writer_save(w, view->out, err);
    zl_json_writer_free(w);
    return status;
}

static zl_status answer(const zl_args *args, question *q, zl_err *err)
{
    zt_replay r;
    zl_status status = zt_replay_run(&q->trace, &q->options, &r, err);
    if (status != ZL_OK) {
        zl_fail_at(err, strcmp(q->path, "-") == 0 ? "standard input" : q->path);
        return status;
    }
    status = args->view.format == ZL_FORMAT_JSON ? print_json(&args->view, q, &r, err)
                                                 : print_page(&args->view, q, &r, err);
    if (status == ZL_OK && q->options.addresses == ZT_FROM_DRIVER && zt_replay_differ(&r) > 0) {
        status = ZL_NO;
    }
    zt_replay_release(&r);
    return status;
}

zl_status zl_cmd_replay(const zl_args *args, zl_err *err)
{
    question q = {0};
    uint64_t device = UINT64_MAX;
    ZL_TRY(read_options(args, &q, &device, err));
    zl_status status = load(args, &q, device, err);
    if (status == ZL_OK) {
        status = answer(args, &q, err);
    }
    zt_trace_release(&q.trace);
    zl_json_free(q.doc);
    return status;
}
