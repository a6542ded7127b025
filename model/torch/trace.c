#include "torch/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"

static const char *const action_names[] = {
    [ZT_ALLOC] = "alloc",
    [ZT_FREE_REQUESTED] = "free_requested",
    [ZT_FREE_COMPLETED] = "free_completed",
    [ZT_TRACE_SEGMENT_ALLOC] = "segment_alloc",
    [ZT_TRACE_SEGMENT_FREE] = "segment_free",
    [ZT_TRACE_SEGMENT_MAP] = "segment_map",
    [ZT_TRACE_SEGMENT_UNMAP] = "segment_unmap",
    [ZT_OOM] = "oom",
};

static zt_action action_of(const char *name)
{
    for (size_t i = 0; i < sizeof action_names / sizeof action_names[0]; i++) {
        if (strcmp(name, action_names[i]) == 0) {
            return (zt_action)i;
        }
    }
    return ZT_OTHER;
}

static zl_status out_of_memory(zl_err *err)
{
    return zl_fail(err, ZL_E_RESOURCE, "out of memory while reading a trace");
}

static zl_status read_array(zl_json root, const char *key, zl_json *out, zl_err *err)
{
    const zl_json value = zl_json_get(root, key);
    if (!zl_json_is_array(value)) {
        return zl_fail(err, ZL_E_INPUT, "%s is missing, or no array: is it a trace?", value.path);
    }
    *out = value;
    return ZL_OK;
}

/* A zeroed array of one element per item; the caller frees it. */
static zl_status make_room(zl_json array, size_t size, void **out, zl_err *err)
{
    *out = calloc(zl_json_size(array) + 1, size);
    return *out != NULL ? ZL_OK : out_of_memory(err);
}

/* Addresses and sizes fit a GPU's address space; larger ones would wrap further on. */
static zl_status read_size(zl_json value, uint64_t *out, zl_err *err)
{
    uint64_t x = 0;
    ZL_TRY(zl_json_u64(value, &x, err));
    if (x > UINT64_C(1) << 52) {
        return zl_fail(err, ZL_E_INPUT, "%s must be at most 2^52, got %" PRIu64, value.path, x);
    }
    *out = x;
    return ZL_OK;
}

/* ---- streams ---- */

/* Handles of streams, sorted. */
typedef struct streams {
    uint64_t handle[ZT_STREAMS_MAX];
    uint32_t count;
} streams;

static zl_status streams_add(streams *s, uint64_t handle, zl_err *err)
{
    uint32_t i = 0;
    while (i < s->count && s->handle[i] < handle) {
        i++;
    }
    if (i < s->count && s->handle[i] == handle) {
        return ZL_OK;
    }
    if (s->count == ZT_STREAMS_MAX) {
        return zl_fail(err, ZL_E_INPUT, "the trace has more than %d streams", ZT_STREAMS_MAX);
    }
    memmove(&s->handle[i + 1], &s->handle[i], (s->count - i) * sizeof s->handle[0]);
    s->handle[i] = handle;
    s->count++;
    return ZL_OK;
}

static uint32_t streams_number(const streams *s, uint64_t handle)
{
    uint32_t i = 0;
    while (i < s->count && s->handle[i] < handle) {
        i++;
    }
    return i;
}

/* ---- rows ---- */

enum { COLUMNS_MAX = 8 };

/* Where the wanted columns stand in a row. */
typedef struct layout {
    size_t at[COLUMNS_MAX];
    size_t width;
} layout;

static zl_status read_layout(zl_json root, const char *key, const char *const *wanted, size_t count,
                             layout *out, zl_err *err)
{
    zl_json names = {0};
    ZL_TRY(read_array(root, key, &names, err));
    out->width = zl_json_size(names);
    for (size_t k = 0; k < count; k++) {
        out->at[k] = SIZE_MAX;
        zl_json item = {0};
        for (size_t i = 0; zl_json_each(names, &i, &item);) {
            const char *name = NULL;
            ZL_TRY(zl_json_string(item, &name, err));
            out->at[k] = strcmp(name, wanted[k]) == 0 ? i - 1 : out->at[k];
        }
        if (out->at[k] == SIZE_MAX) {
            return zl_fail(err, ZL_E_INPUT, "%s has no column '%s'", names.path, wanted[k]);
        }
    }
    return ZL_OK;
}

static zl_status check_row(zl_json row, const layout *columns, zl_err *err)
{
    if (!zl_json_is_array(row) || zl_json_size(row) != columns->width) {
        return zl_fail(err, ZL_E_INPUT, "%s must be an array of %zu values, one for each column",
                       row.path, columns->width);
    }
    return ZL_OK;
}

/* What an event says before its stream has a number. */
typedef struct raw_event {
    zl_json action;
    zl_json address;
    zl_json size;
    zl_json stream;
} raw_event;

static zl_status read_event(const raw_event *raw, uint64_t *handle, zt_event *out, zl_err *err)
{
    const char *name = NULL;
    ZL_TRY(zl_json_string(raw->action, &name, err));
    out->action = action_of(name);
    if (out->action == ZT_OTHER) {
        return ZL_OK;
    }
    if (out->action != ZT_OOM) {
        ZL_TRY(read_size(raw->address, &out->address, err));
    }
    ZL_TRY(read_size(raw->size, &out->size, err));
    ZL_TRY(zl_json_u64(raw->stream, handle, err));
    const bool takes = out->action != ZT_FREE_REQUESTED && out->action != ZT_FREE_COMPLETED;
    if (takes && out->size == 0) {
        return zl_fail(err, ZL_E_INPUT, "%s must be more than 0", raw->size.path);
    }
    return ZL_OK;
}

static zl_status raw_of_row(zl_json row, const layout *columns, raw_event *out, zl_err *err)
{
    ZL_TRY(check_row(row, columns, err));
    *out = (raw_event){zl_json_item(row, columns->at[0]), zl_json_item(row, columns->at[1]),
                       zl_json_item(row, columns->at[2]), zl_json_item(row, columns->at[3])};
    return ZL_OK;
}

static raw_event raw_of_object(zl_json object)
{
    return (raw_event){zl_json_get(object, "action"), zl_json_get(object, "addr"),
                       zl_json_get(object, "size"), zl_json_get(object, "stream")};
}

/* columns NULL: the events are objects. */
static zl_status read_events(zl_json events, const layout *columns, streams *s, zt_trace *out,
                             zl_err *err)
{
    ZL_TRY(make_room(events, sizeof *out->event, (void **)&out->event, err));
    uint64_t *handles = calloc(zl_json_size(events) + 1, sizeof *handles);
    if (handles == NULL) {
        return out_of_memory(err);
    }
    zl_status status = ZL_OK;
    zl_json item = {0};
    for (size_t i = 0; zl_json_each(events, &i, &item);) {
        raw_event raw = {0};
        if (columns != NULL) {
            ZL_TRY_GOTO(status, raw_of_row(item, columns, &raw, err), out);
        } else {
            raw = raw_of_object(item);
        }
        ZL_TRY_GOTO(status, read_event(&raw, &handles[i - 1], &out->event[i - 1], err), out);
        ZL_TRY_GOTO(status, streams_add(s, handles[i - 1], err), out);
        out->events = i;
    }
    for (size_t i = 0; i < out->events; i++) {
        out->event[i].stream = streams_number(s, handles[i]);
    }
out:
    free(handles);
    return status;
}

/* ---- marks ---- */

static zl_status read_step(zl_json value, int64_t *out, zl_err *err)
{
    double step = 0.0;
    ZL_TRY(zl_json_real(value, &step, err));
    if (!(step >= -1.0 && step <= 1e9) || step > (double)(int64_t)step ||
        step < (double)(int64_t)step) {
        return zl_fail(err, ZL_E_INPUT, "%s must be a whole number from -1", value.path);
    }
    *out = (int64_t)step;
    return ZL_OK;
}

static zl_status read_mark(zl_json row, const layout *columns, zt_mark *out, zl_err *err)
{
    const char *at = NULL;
    uint64_t before = 0;
    ZL_TRY(check_row(row, columns, err));
    ZL_TRY(zl_json_u64(zl_json_item(row, columns->at[0]), &before, err));
    ZL_TRY(read_step(zl_json_item(row, columns->at[1]), &out->step, err));
    ZL_TRY(zl_json_string(zl_json_item(row, columns->at[2]), &at, err));
    ZL_TRY(read_size(zl_json_item(row, columns->at[3]), &out->allocated, err));
    ZL_TRY(read_size(zl_json_item(row, columns->at[4]), &out->reserved, err));
    out->events_before = (size_t)before;
    snprintf(out->at, sizeof out->at, "%s", at);
    return ZL_OK;
}

static zl_status read_marks(zl_json root, zt_trace *out, zl_err *err)
{
    static const char *const wanted[] = {"events_before", "step", "at", "allocated", "reserved"};
    layout columns = {0};
    zl_json marks = {0};
    ZL_TRY(read_layout(root, "mark_columns", wanted, 5, &columns, err));
    ZL_TRY(read_array(root, "marks", &marks, err));
    ZL_TRY(make_room(marks, sizeof *out->mark, (void **)&out->mark, err));
    size_t before = 0;
    zl_json item = {0};
    for (size_t i = 0; zl_json_each(marks, &i, &item);) {
        zt_mark *mark = &out->mark[i - 1];
        ZL_TRY(read_mark(item, &columns, mark, err));
        if (mark->events_before < before || mark->events_before > out->events) {
            return zl_fail(err, ZL_E_INPUT,
                           "%s stands before event %zu: marks follow each other "
                           "and the trace has %zu events",
                           item.path, mark->events_before, out->events);
        }
        before = mark->events_before;
        out->marks = i;
    }
    return ZL_OK;
}

/* ---- the picture at the end ---- */

/* A block is [address, size, requested size, state], or an object with these names. */
static zl_status read_block(zl_json block, zt_piece *out, zl_err *err)
{
    const bool row = zl_json_is_array(block);
    const zl_json address = row ? zl_json_item(block, 0) : zl_json_get(block, "address");
    const char *state = NULL;
    if (row || address.node != NULL) { /* else it follows the block before, as in older torch */
        ZL_TRY(read_size(address, &out->address, err));
    }
    ZL_TRY(read_size(row ? zl_json_item(block, 1) : zl_json_get(block, "size"), &out->size, err));
    ZL_TRY(zl_json_string(row ? zl_json_item(block, 3) : zl_json_get(block, "state"), &state, err));
    out->active = strcmp(state, "inactive") != 0;
    out->allocated = strcmp(state, "active_allocated") == 0;
    out->requested = 0;
    if (!out->active) {
        return ZL_OK; /* its requested size is that of the block it once was */
    }
    const zl_json requested = row ? zl_json_item(block, 2) : zl_json_get(block, "requested_size");
    return read_size(requested, &out->requested, err);
}

static zl_status read_segment(zl_json segment, const streams *s, zt_trace *out, zl_err *err)
{
    zl_json blocks = {0};
    zt_piece piece = {0};
    uint64_t handle = 0;
    const char *type = NULL;
    ZL_TRY(read_size(zl_json_get(segment, "address"), &piece.address, err));
    ZL_TRY(zl_json_u64(zl_json_get(segment, "stream"), &handle, err));
    ZL_TRY(zl_json_string(zl_json_get(segment, "segment_type"), &type, err));
    ZL_TRY(read_array(segment, "blocks", &blocks, err));
    piece.stream = streams_number(s, handle);
    piece.small = strcmp(type, "small") == 0;
    zl_json item = {0};
    for (size_t i = 0; zl_json_each(blocks, &i, &item);) {
        ZL_TRY(read_block(item, &piece, err));
        out->final[out->finals++] = piece;
        piece.address = zl_add(piece.address, piece.size);
    }
    return ZL_OK;
}

static int by_address(const void *a, const void *b)
{
    const zt_piece *x = a;
    const zt_piece *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* device: UINT64_MAX takes segments of all. */
static zl_status read_final(zl_json segments, uint64_t device, const streams *s, zt_trace *out,
                            zl_err *err)
{
    size_t count = 0;
    zl_json item = {0};
    for (size_t i = 0; zl_json_each(segments, &i, &item);) {
        count += zl_json_size(zl_json_get(item, "blocks"));
    }
    out->final = calloc(count + 1, sizeof *out->final);
    if (out->final == NULL) {
        return out_of_memory(err);
    }
    for (size_t i = 0; zl_json_each(segments, &i, &item);) {
        uint64_t of = device;
        const zl_json number = zl_json_get(item, "device");
        if (device != UINT64_MAX && number.node != NULL) {
            ZL_TRY(zl_json_u64(number, &of, err));
        }
        if (of == device) {
            ZL_TRY(read_segment(item, s, out, err));
        }
    }
    qsort(out->final, out->finals, sizeof *out->final, by_address);
    out->has_final = true;
    return ZL_OK;
}

/* ---- the two forms ---- */

static zl_status read_compact(zl_json root, zt_trace *out, zl_err *err)
{
    static const char *const wanted[] = {"action", "addr", "size", "stream"};
    layout columns = {0};
    zl_json events = {0};
    streams s = {0};
    ZL_TRY(read_layout(root, "columns", wanted, 4, &columns, err));
    ZL_TRY(read_array(root, "events", &events, err));
    ZL_TRY(read_events(events, &columns, &s, out, err));
    if (zl_json_get(root, "marks").node != NULL) {
        ZL_TRY(read_marks(root, out, err));
    }
    const zl_json final = zl_json_get(root, "final_segments");
    return final.node != NULL ? read_final(final, UINT64_MAX, &s, out, err) : ZL_OK;
}

static zl_status choose_device(zl_json traces, uint64_t *device, zl_json *out, zl_err *err)
{
    zl_json item = {0};
    for (size_t i = 0; zl_json_each(traces, &i, &item);) {
        const bool chosen = *device == UINT64_MAX || *device == i - 1;
        if (chosen && zl_json_size(item) > 0) {
            *device = i - 1;
            *out = item;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_INPUT, "%s has no events of %s", traces.path,
                   *device == UINT64_MAX ? "any device" : "this device");
}

static zl_status read_settings(zl_json settings, zt_alloc_conf *out, zl_err *err)
{
    static const char *const keys[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
    for (size_t k = 0; k < 2; k++) {
        const zl_json value = zl_json_get(settings, keys[k]);
        const char *text = "";
        if (value.node != NULL) {
            ZL_TRY(zl_json_string(value, &text, err));
        }
        if (text[0] != '\0') {
            return zt_alloc_conf_parse(text, out, err);
        }
    }
    return ZL_OK;
}

static zl_status read_snapshot(zl_json root, uint64_t device, zt_trace *out, zl_err *err)
{
    zl_json traces = {0};
    zl_json events = {0};
    streams s = {0};
    ZL_TRY(read_array(root, "device_traces", &traces, err));
    ZL_TRY(choose_device(traces, &device, &events, err));
    ZL_TRY(read_events(events, NULL, &s, out, err));
    ZL_TRY(read_settings(zl_json_get(root, "allocator_settings"), &out->conf, err));
    const zl_json segments = zl_json_get(root, "segments");
    return segments.node != NULL ? read_final(segments, device, &s, out, err) : ZL_OK;
}

static bool maps_pages(const zt_trace *trace)
{
    for (size_t i = 0; i < trace->events; i++) {
        if (trace->event[i].action == ZT_TRACE_SEGMENT_MAP) {
            return true;
        }
    }
    return false;
}

static zl_status read_id(zl_json root, zt_trace *out, zl_err *err)
{
    const zl_json id = zl_json_get(root, "id");
    const char *text = "";
    if (id.node != NULL) {
        ZL_TRY(zl_json_string(id, &text, err));
    }
    snprintf(out->id, sizeof out->id, "%s", text);
    return ZL_OK;
}

zl_status zt_trace_read(zl_json root, uint64_t device, zt_trace *out, zl_err *err)
{
    zt_trace trace = {.conf = zt_alloc_conf_default()};
    const bool snapshot = zl_json_get(root, "device_traces").node != NULL;
    zl_status status = ZL_OK;
    ZL_TRY_GOTO(status, read_id(root, &trace, err), out);
    ZL_TRY_GOTO(
        status,
        snapshot ? read_snapshot(root, device, &trace, err) : read_compact(root, &trace, err), out);
    trace.conf.expandable_segments |= maps_pages(&trace);
out:
    if (status != ZL_OK) {
        zt_trace_release(&trace);
        return status;
    }
    *out = trace;
    return ZL_OK;
}

void zt_trace_release(zt_trace *trace)
{
    free(trace->event);
    free(trace->mark);
    free(trace->final);
    *trace = (zt_trace){0};
}
