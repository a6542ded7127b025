/* zl decode: what an out-of-memory message of PyTorch says, and which buffers of a run have its
 * size. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "explain_framework.h"
#include "gunzip.h"
#include "torch/log_compare.h"
#include "zeroledger/bytes.h"

const zl_option zl_decode_options[] = {
    {"rank", NULL, "R", NULL, "rank that ran out of memory (default: the heaviest)"},
    {"gpu", NULL, "NAME", NULL, "GPU of the run, which decides workspaces; 'zl list gpus'"},
    {0},
};

static const uint64_t segment_unit = 2097152; /* of what the allocator takes from the driver */

enum { CANDIDATES_SHOWN = 24 };

typedef struct decoded {
    zt_oom oom;
    bool has_run;
    zl_walked walked;
    zl_moments moments;
    zt_candidate *candidate;
    size_t count;
} decoded;

/* ---- the message ---- */

static zl_status read_text(const zl_args *args, char **out, size_t *size, zl_err *err)
{
    if (args->operand == NULL) {
        return zl_fail(err, ZL_E_USAGE,
                       "no message; give it in quotes, as in zl decode 'Tried to allocate 3.14 "
                       "GiB ...', or - for the standard input");
    }
    if (strcmp(args->operand, "-") == 0) {
        return zl_gunzip("-", out, size, err);
    }
    *size = strlen(args->operand);
    *out = strdup(args->operand);
    return *out != NULL ? ZL_OK : zl_fail(err, ZL_E_RESOURCE, "out of memory");
}

/* The message, or a size alone. */
static zl_status read_message(const char *text, size_t size, zt_oom *out, zl_err *err)
{
    zt_cursor c = {text, size};
    while (zt_oom_find(&c, out)) {
        if (out->asked.present) {
            return ZL_OK;
        }
    }
    *out = (zt_oom){0};
    c = (zt_cursor){text, size};
    if (zt_take_bytes(&c, ZT_AS_WRITTEN, &out->asked)) {
        return ZL_OK;
    }
    if (zt_find((zt_cursor){text, size}, "more than 1EB") != NULL) {
        return zl_fail(err, ZL_E_INPUT,
                       "'more than 1EB' is no size but a negative number in the program");
    }
    if (zt_find((zt_cursor){text, size}, "out of memory") != NULL) {
        return zl_fail(err, ZL_E_INPUT,
                       "the message has no size: it is of the driver, not of PyTorch's allocator "
                       "(a context, NCCL, cuBLAS), or of PyTorch before 1.0");
    }
    return zl_fail(err, ZL_E_INPUT, "no 'Tried to allocate SIZE' is in the message");
}

/* ---- figures ---- */

typedef struct line {
    const char *name; /* in JSON */
    const zt_printed *figure;
    const char *text;
} line;

enum { LINES = 9 };

static void lines_of(const zt_oom *oom, line out[LINES])
{
    const bool as_it_is = oom->wording == ZT_OOM_ASYNC || oom->wording == ZT_OOM_HOST;
    const line lines[LINES] = {
        {"asked", &oom->asked,
         as_it_is ? "tensor that was asked for"
                  : "segment that the allocator asked the driver for"},
        {"total", &oom->total, "memory of the GPU"},
        {"free", &oom->free, "of it that no process has"},
        {"own", &oom->own, "this process: PyTorch, CUDA context, libraries"},
        {"others", &oom->others, "processes by number; in a container this one is among them"},
        {"allowed", &oom->allowed, "limit set for this process"},
        {"allocated", &oom->allocated, "tensors: blocks in use"},
        {"unallocated", &oom->unallocated, "cached: in segments, in no block in use"},
        {"private_pools", &oom->private_pools, "of the tensors, in pools of CUDA graphs"},
    };
    memcpy(out, lines, sizeof lines);
}

static const char *const causes[ZT_OOM_CAUSE_COUNT] = {
    [ZT_OOM_UNKNOWN] = "unknown",
    [ZT_OOM_CAPACITY] = "capacity",
    [ZT_OOM_FRAGMENTATION] = "fragmentation",
    [ZT_OOM_IMPOSSIBLE] = "larger than the GPU",
    [ZT_OOM_LIMIT] = "limit",
};

static const char *const wordings[ZT_OOM_WORDING_COUNT] = {
    [ZT_OOM_BARE] = "size only",
    [ZT_OOM_CACHED] = "PyTorch 1.0 to 1.3",
    [ZT_OOM_RESERVED] = "PyTorch 1.4 to 2.0",
    [ZT_OOM_UNALLOCATED] = "PyTorch from 2.1",
    [ZT_OOM_ASYNC] = "PyTorch with cudaMallocAsync",
    [ZT_OOM_HOST] = "PyTorch on the host",
};

/* Requests that end in a segment of that size: the small pool, the segments of 20 MiB that serve
 * what is below 10 MiB, and one segment each. */
static void say_requests(zl_page *page, const zt_oom *oom)
{
    const uint64_t small = 1048576;
    const uint64_t large = 10485760;
    const uint64_t first = zl_align_up(oom->asked.low, segment_unit);
    const uint64_t last = zl_mul(segment_unit, oom->asked.high / segment_unit);
    if (oom->wording == ZT_OOM_ASYNC) {
        zl_page_say(page, "The tensor has %s to %s bytes: CUDA's pools are asked for it as it is.",
                    zl_count(oom->asked.low).text, zl_count(oom->asked.high).text);
        return;
    }
    if (oom->wording == ZT_OOM_HOST) {
        zl_page_say(page, "The tensor has %s bytes of host memory.",
                    zl_count(oom->asked.nominal).text);
        return;
    }
    if (zt_agrees(&oom->asked, zt_segment_bytes(small))) {
        zl_page_say(page, "The tensor has at most %s bytes: small ones share segments of 2 MiB.",
                    zl_count(small).text);
        return;
    }
    if (zt_agrees(&oom->asked, zt_segment_bytes(small + 1))) {
        zl_page_say(page,
                    "The tensor has %s to %s bytes, which share segments of 20 MiB, or about "
                    "20 MiB itself.",
                    zl_count(small + 1).text, zl_count(large - 1).text);
        return;
    }
    if (first <= last) {
        zl_page_say(page, "The tensor has %s to %s bytes: segments come in steps of 2 MiB.",
                    zl_count(zl_add(zl_sub(first, segment_unit), 1)).text, zl_count(last).text);
    }
}

static zl_figure nominal(const zl_view *view, const zt_printed *figure)
{
    return zl_bytes_named(view, figure->nominal);
}

static void say_cause(zl_page *page, const zt_oom *oom)
{
    if (oom->wording == ZT_OOM_HOST) {
        zl_page_say(page, "Not the GPU: the memory of the machine or of its container is full. "
                          "Offloaded states, pinned");
        zl_page_say(page, "buffers and a model that every rank loads for itself are there.");
        return;
    }
    switch (zt_oom_cause_of(oom)) {
    case ZT_OOM_CAPACITY:
        zl_page_say(page, "Capacity: free and cached memory together are less than was asked for. "
                          "The run needs less memory");
        zl_page_say(page, "or a larger GPU; settings of the allocator cannot help.");
        return;
    case ZT_OOM_FRAGMENTATION:
        zl_page_say(page, "Fragmentation: free and cached memory together would be enough, but the "
                          "cached part lies in pieces,");
        zl_page_say(page, "or belongs to another stream. "
                          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True avoids most of this.");
        return;
    case ZT_OOM_IMPOSSIBLE:
        zl_page_say(page, "One tensor larger than the GPU: its shape is wrong, or the run needs "
                          "another method.");
        return;
    case ZT_OOM_LIMIT:
        zl_page_say(page,
                    "Not the GPU's capacity: it reports enough free memory and refused all the "
                    "same. The limit of this process");
        zl_page_say(page, "(set_per_process_memory_fraction) was reached, or another process was "
                          "faster to take or give back memory.");
        return;
    case ZT_OOM_UNKNOWN:
    case ZT_OOM_CAUSE_COUNT:
        break;
    }
    zl_page_say(page, "Capacity or fragmentation: the message does not say. %s",
                oom->wording == ZT_OOM_ASYNC ? "CUDA's pools do not tell what they hold unused."
                                             : "The whole of it has the figures.");
}

static zl_status print_figures(zl_page *page, const zt_oom *oom, zl_err *err)
{
    line lines[LINES];
    lines_of(oom, lines);
    zl_table *table = zl_table_new();
    zl_table_column(table, "figure", ZL_LEFT);
    zl_table_column(table, "about", ZL_RIGHT);
    zl_table_column(table, "meaning", ZL_LEFT);
    for (size_t i = 0; i < LINES; i++) {
        if (lines[i].figure->present) {
            zl_table_text(table, "%s", lines[i].name);
            zl_table_text(table, "%s", nominal(page->view, lines[i].figure).text);
            zl_table_text(table, "%s", lines[i].text);
        }
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

/* ---- candidates ---- */

static zl_figure phase_of(const zt_candidate *c)
{
    zl_figure figure;
    if (c->step < 0) {
        snprintf(figure.text, sizeof figure.text, "until %.40s", c->before);
    } else {
        snprintf(figure.text, sizeof figure.text, "step %" PRId32 ", until %.40s", c->step,
                 c->before);
    }
    for (char *p = figure.text; *p != '\0'; p++) {
        *p = (char)(*p == '_' ? ' ' : *p);
    }
    return figure;
}

static zl_formula formula_of(const decoded *d, const zt_candidate *c)
{
    return zl_term_formula(&d->walked.torch, &d->moments, &(zl_named_bytes){c->name, c->bytes});
}

static zl_status print_candidates(zl_page *page, const decoded *d, zl_err *err)
{
    const bool people = page->view->format != ZL_FORMAT_CSV;
    zl_table *table = zl_table_new();
    zl_table_column(table, "buffer", ZL_LEFT);
    zl_table_column(table, "bytes", ZL_RIGHT);
    zl_table_column(table, "formula", ZL_LEFT);
    zl_table_column(table, "when", ZL_LEFT);
    zl_table_column(table, "times", ZL_RIGHT);
    zl_table_column(table, people ? "allocated then" : "allocated_then", ZL_RIGHT);
    zl_table_column(table, "agrees", ZL_LEFT);
    const size_t shown = people && d->count > CANDIDATES_SHOWN ? CANDIDATES_SHOWN : d->count;
    for (size_t i = 0; i < shown; i++) {
        const zt_candidate *c = &d->candidate[i];
        zl_table_text(table, "%s", c->name);
        zl_table_count(table, c->bytes);
        zl_table_text(table, "%s", formula_of(d, c).symbols);
        zl_table_text(table, "%s", phase_of(c).text);
        zl_table_count(table, c->times);
        if (people) {
            zl_table_text(table, "%s", zl_bytes_in(page->view, c->allocated).text);
        } else {
            zl_table_count(table, c->allocated);
        }
        zl_table_text(table, "%s", c->agrees ? "yes" : "");
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    if (shown < d->count) {
        zl_page_say(page, "and %zu more; --format csv has them all", d->count - shown);
    }
    return status;
}

static zl_status fill_candidates(zl_page *page, const decoded *d, zl_err *err)
{
    if (!d->has_run) {
        zl_page_say(page, "Which buffer it was: describe the run (--model NAME --framework NAME "
                          "--micro-batch B --seq T ...)");
        zl_page_say(page, "and every buffer of that size is listed.");
        return ZL_OK;
    }
    zl_walked_head(page, &d->walked);
    zl_page_break(page);
    if (d->count == 0) {
        zl_page_say(page, "No buffer of this run has that size: the run is another one than "
                          "described.");
        return ZL_OK;
    }
    zl_page_say(
        page, "Buffers of this run that ask for such a %s%s:",
        d->oom.wording == ZT_OOM_ASYNC ? "tensor" : "segment",
        d->oom.allocated.present ? "; \"agrees\": with as much allocated as the message says" : "");
    zl_page_break(page);
    return print_candidates(page, d, err);
}

static zl_status fill_page(zl_page *page, const decoded *d, zl_err *err)
{
    if (page->view->format == ZL_FORMAT_CSV) {
        return d->has_run ? print_candidates(page, d, err) : print_figures(page, &d->oom, err);
    }
    zl_page_say(page, "Out of memory, wording of %s", wordings[d->oom.wording]);
    zl_page_break(page);
    ZL_TRY(print_figures(page, &d->oom, err));
    zl_page_break(page);
    say_requests(page, &d->oom);
    say_cause(page, &d->oom);
    if (d->oom.wording == ZT_OOM_HOST) {
        return ZL_OK;
    }
    zl_page_break(page);
    return fill_candidates(page, d, err);
}

/* ---- JSON ---- */

static void put_printed(zl_json_writer *j, const char *key, const zt_printed *figure)
{
    if (figure->present) {
        zl_json_begin_object(j, key);
        zl_json_put_u64(j, "low", figure->low);
        zl_json_put_u64(j, "high", figure->high);
        zl_json_end(j);
    }
}

static void put_candidates(zl_json_writer *j, const decoded *d)
{
    zl_json_begin_object(j, "run");
    zl_walked_json(&d->walked, j);
    zl_json_end(j);
    zl_json_begin_array(j, "candidates");
    for (size_t i = 0; i < d->count; i++) {
        const zt_candidate *c = &d->candidate[i];
        zl_json_begin_object(j, NULL);
        zl_json_put_string(j, "buffer", c->name);
        zl_json_put_u64(j, "bytes", c->bytes);
        zl_json_put_string(j, "formula", formula_of(d, c).symbols);
        zl_json_put_real(j, "step", c->step); /* -1 before the first */
        zl_json_put_string(j, "before", c->before);
        zl_json_put_u64(j, "times", c->times);
        zl_json_put_u64(j, "allocated_then", c->allocated);
        zl_json_put_bool(j, "agrees", c->agrees);
        zl_json_end(j);
    }
    zl_json_end(j);
}

static zl_status print_json(const zl_view *view, const decoded *d, zl_err *err)
{
    line lines[LINES];
    lines_of(&d->oom, lines);
    zl_json_writer *j = zl_json_writer_new();
    zl_json_begin_object(j, NULL);
    zl_json_put_string(j, "schema", "zeroledger.decode/1");
    zl_json_put_string(j, "wording", wordings[d->oom.wording]);
    zl_json_put_string(j, "cause", causes[zt_oom_cause_of(&d->oom)]);
    zl_json_begin_object(j, "figures");
    for (size_t i = 0; i < LINES; i++) {
        put_printed(j, lines[i].name, lines[i].figure);
    }
    zl_json_end(j);
    if (d->has_run) {
        put_candidates(j, d);
    }
    zl_json_end(j);
    const zl_status status = zl_json_writer_save(j, view->out, err);
    zl_json_writer_free(j);
    return status;
}

/* ---- the command ---- */

static zl_status find_candidates(const zl_args *args, decoded *d, zl_err *err)
{
    zl_run run;
    d->has_run = d->oom.wording != ZT_OOM_HOST &&
                 (zl_args_value(args, "model") != NULL || zl_args_value(args, "run") != NULL);
    if (!d->has_run) {
        return ZL_OK;
    }
    ZL_TRY(zl_args_run(args, &run, err));
    if (run.framework == ZL_FRAMEWORK_NATIVE) {
        return zl_fail(err, ZL_E_USAGE,
                       "a message of PyTorch needs --framework single, ddp, zero1, fsdp1, fsdp2 "
                       "or deepspeed@RELEASE");
    }
    ZL_TRY(zl_walked_new(args, &run, &d->walked, err));
    ZL_TRY(zl_torch_explain(&d->walked.torch, d->walked.rank, &d->moments, err));
    return zt_oom_candidates(&d->oom, &d->walked.torch, d->walked.rank, &d->candidate, &d->count,
                             err);
}

static zl_status print_page(const zl_view *view, const decoded *d, zl_err *err)
{
    zl_page page;
    ZL_TRY(zl_page_open(&page, view, err));
    return zl_page_end(&page, fill_page(&page, d, err), err);
}

zl_status zl_cmd_decode(const zl_args *args, zl_err *err)
{
    decoded d = {0};
    char *text = NULL;
    size_t size = 0;
    ZL_TRY(read_text(args, &text, &size, err));
    zl_status status = read_message(text, size, &d.oom, err);
    free(text);
    ZL_TRY(status);
    status = find_candidates(args, &d, err);
    if (status == ZL_OK) {
        status = args->view.format == ZL_FORMAT_JSON ? print_json(&args->view, &d, err)
                                                     : print_page(&args->view, &d, err);
    }
    free(d.candidate);
    zl_moments_clear(&d.moments);
    zl_marks_clear(&d.walked.marks);
    return status;
}
