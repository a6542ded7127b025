#include "records/judgement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/text.h"

/* DDP frees its first buckets when its reducer's thread gets to it, which may be as late as the
 * backward of the step with index 2 (facts in docs/accuracy.md). */
static const int64_t ddp_settled_step = 3;

static const struct {
    const char *name;
    size_t offset; /* in zl_mark */
} quantities[ZV_QUANTITY_COUNT] = {
    [ZV_REQUESTED] = {"requested", offsetof(zl_mark, requested)},
    [ZV_PEAK_REQUESTED] = {"peak_requested", offsetof(zl_mark, peak_requested)},
    [ZV_ALLOCATED] = {"allocated", offsetof(zl_mark, allocated)},
    [ZV_PEAK_ALLOCATED] = {"peak_allocated", offsetof(zl_mark, peak_allocated)},
    [ZV_RESERVED] = {"reserved", offsetof(zl_mark, reserved)},
    [ZV_PEAK_RESERVED] = {"peak_reserved", offsetof(zl_mark, peak_reserved)},
    [ZV_DEVICE_USED] = {"device_used", offsetof(zl_mark, device_used)},
    [ZV_HOST_RSS] = {"host.VmRSS", offsetof(zl_mark, host_rss)},
    [ZV_HOST_HWM] = {"host.VmHWM", offsetof(zl_mark, host_hwm)},
};

const char *zv_quantity_name(zv_quantity quantity)
{
    return quantities[quantity].name;
}

int64_t zv_row_error(const zv_row *row)
{
    const bool above = row->predicted >= row->measured;
    uint64_t size = above ? row->predicted - row->measured : row->measured - row->predicted;
    size = size > INT64_MAX ? INT64_MAX : size;
    return above ? (int64_t)size : -(int64_t)size;
}

double zv_row_percent(const zv_row *row)
{
    const double error = (double)llabs(zv_row_error(row));
    return error == 0 ? 0 : 100 * error / (double)(row->measured == 0 ? 1 : row->measured);
}

static bool is_ddp(const zv_judged *record)
{
    return strcmp(record->framework, "ddp") == 0 || strcmp(record->framework, "zero1") == 0;
}

const char *zv_unjudged_reason(const zv_judged *record)
{
    if (is_ddp(record)) {
        return "judged from step 3 on: when DDP's first buckets go is timing";
    }
    return strcmp(record->framework, "fsdp1") == 0
               ? "judged on rank 0: when FSDP1's recorded streams let go is timing"
               : NULL;
}

static bool is_judged(const zv_judged *record, uint64_t rank, int64_t step)
{
    if (is_ddp(record)) {
        return step >= ddp_settled_step;
    }
    return strcmp(record->framework, "fsdp1") != 0 || rank == 0;
}

static zl_status add_row(zv_judged *record, const zv_row *row, zl_err *err)
{
    enum { STEP = 256 };
    if (record->rows % STEP == 0) {
        zv_row *const more = realloc(record->row, (record->rows + STEP) * sizeof *more);
        if (more == NULL) {
            return zl_fail(err, ZL_E_RESOURCE, "no memory for the marks of %s", record->id);
        }
        record->row = more;
    }
    record->row[record->rows++] = *row;
    return ZL_OK;
}

static const zl_mark *find_mark(const zl_marks *marks, int64_t step, const char *at)
{
    for (size_t i = 0; i < marks->count; i++) {
        if (marks->mark[i].step == step && strcmp(marks->mark[i].at, at) == 0) {
            return &marks->mark[i];
        }
    }
    return NULL;
}

/* "host.VmRSS" is the member VmRSS of the member host. */
static zl_json measured_value(zl_json phase, zv_quantity quantity)
{
    const char *const name = quantities[quantity].name;
    const char *const dot = strchr(name, '.');
    return dot == NULL ? zl_json_get(phase, name)
                       : zl_json_get(zl_json_get(phase, "host"), dot + 1);
}

static zl_status judge_mark(zl_json phase, uint64_t rank, bool host, const zl_marks *marks,
                            zv_judged *out, zl_err *err)
{
    zv_row row = {.rank = rank};
    double step = 0;
    const char *at = NULL;
    ZL_TRY(zl_json_real(zl_json_get(phase, "step"), &step, err));
    ZL_TRY(zl_json_string(zl_json_get(phase, "at"), &at, err));
    row.step = (int64_t)step;
    const zl_mark *const mark = find_mark(marks, row.step, at);
    if (mark == NULL || strlen(at) >= sizeof row.at) {
        return zl_fail(err, ZL_E_UNMODELLED, "the mark %.40s of step %" PRId64 " is not modelled",
                       at, row.step);
    }
    snprintf(row.at, sizeof row.at, "%s", at);
    row.judged = is_judged(out, rank, row.step);
    for (int q = 0; q < (host ? ZV_QUANTITY_COUNT : ZV_HOST_RSS); q++) {
        row.quantity = (zv_quantity)q;
        memcpy(&row.predicted, (const char *)mark + quantities[q].offset, sizeof row.predicted);
        const zl_json measured = measured_value(phase, row.quantity);
        if (measured.node != NULL) {
            ZL_TRY(zl_json_u64(measured, &row.measured, err));
            ZL_TRY(add_row(out, &row, err));
        }
    }
    return ZL_OK;
}

static zl_status judge_rank(const zv_record *record, zl_json rank, zv_judged *out, zl_err *err)
{
    zl_torch_run run;
    zl_marks marks = {0};
    uint64_t number = 0;
    ZL_TRY(zv_record_rank(record, rank, &run, &number, err));
    ZL_TRY(zl_torch_predict(&run, number, &marks, err));
    out->parameters = marks.parameters;
    const bool host =
        run.framework == ZL_TORCH_DEEPSPEED &&
        (run.ds.offload_optimizer != ZL_OFFLOAD_NONE || run.ds.offload_param != ZL_OFFLOAD_NONE);
    const zl_json phases = zl_json_get(rank, "phases");
    const size_t count = zl_json_size(phases);
    zl_status status = ZL_OK;
    for (size_t i = 0; i < count && status == ZL_OK; i++) {
        status = judge_mark(zl_json_item(phases, i), number, host, &marks, out, err);
    }
    zl_marks_clear(&marks);
    return status;
}

static zl_status judge_record(zl_json line, const zv_setup *setup, zl_warn *warn, void *context,
                              zv_judged *out, zl_err *err)
{
    zv_record record;
    zl_status status = zv_record_read(line, setup, warn, context, &record, err);
    memcpy(out->id, record.id, sizeof out->id);
    memcpy(out->framework, record.framework, sizeof out->framework);
    memcpy(out->version, record.version, sizeof out->version);
    memcpy(out->stage, record.stage, sizeof out->stage);
    out->run = record.run;
    out->deepspeed = strcmp(record.framework, "deepspeed") == 0;
    const size_t ranks = zl_json_size(record.ranks);
    for (size_t i = 0; i < ranks && status == ZL_OK; i++) {
        status = judge_rank(&record, zl_json_item(record.ranks, i), out, err);
    }
    return status;
}

static zl_status add_record(zv_judgement *all, const zv_judged *record, zl_err *err)
{
    zv_judged *const more = realloc(all->record, (all->records + 1) * sizeof *more);
    if (more == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for %zu records", all->records + 1);
    }
    all->record = more;
    all->record[all->records++] = *record;
    return ZL_OK;
}

/* Python's json writes NaN and Infinity, which are not JSON: a loss may be either. Outside strings
 * they become 0; no figure of memory is one. */
static void replace_non_finite(char *text)
{
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    bool quoted = false;
    for (char *c = text; *c != '\0'; c++) {
        if (quoted && *c == '\\' && c[1] != '\0') {
            c++;
        } else if (*c == '"') {
            quoted = !quoted;
        }
        for (size_t i = 0; !quoted && i < sizeof words / sizeof words[0]; i++) {
            const size_t length = strlen(words[i]);
            if (strncmp(c, words[i], length) == 0) {
                memset(c, ' ', length);
                *c = '0';
                break;
            }
        }
    }
}

typedef struct place {
    zl_warn *warn;
    void *context;
    const char *name;
} place;

static void warn_here(void *context, const char *line)
{
    const place *const p = context;
    char text[512];
    snprintf(text, sizeof text, "%s: %s", p->name, line);
    p->warn(p->context, text);
}

static zl_status judge_line(const char *name, char *text, const zv_setup *setup, zl_warn *warn,
                            void *context, zv_judgement *all, zl_err *err)
{
    zl_json_doc *doc = NULL;
    zl_err own = {0};
    zv_judged judged = {0};
    place here = {.warn = warn, .context = context, .name = name};
    replace_non_finite(text);
    ZL_TRY(zl_json_parse(name, text, strlen(text), &doc, err));
    zl_status status = judge_record(zl_json_root(doc), setup, warn == NULL ? NULL : warn_here,
                                    &here, &judged, &own);
    zl_json_free(doc);
    judged.modelled = status == ZL_OK;
    if (status == ZL_E_UNMODELLED || status == ZL_NO || status == ZL_E_USAGE) {
        /* Without an answer for this one; the others keep theirs. */
        memcpy(judged.why, own.text, sizeof judged.why);
        free(judged.row);
        judged.row = NULL;
        judged.rows = 0;
        status = ZL_OK;
    }
    if (status == ZL_OK) {
        status = add_record(all, &judged, err);
    } else {
        status = zl_fail(err, status, "%s: %s", name, own.text);
    }
    if (status != ZL_OK) {
        free(judged.row);
    }
    return status;
}

zl_status zv_judge_file(const char *path, const zv_setup *setup, zl_warn *warn, void *context,
                        zv_judgement *all, zl_err *err)
{
    char *text = NULL;
    size_t size = 0;
    size_t number = 0;
    size_t first = all->records;
    zl_status status = ZL_OK;
    const char *const slash = strrchr(path, '/');
    ZL_TRY(zl_file_read(path, &text, &size, err));
    for (char *line = text; line != NULL && *line != '\0' && status == ZL_OK;) {
        char name[512];
        char *const end = strchr(line, '\n');
        char *const next = end == NULL ? NULL : end + 1;
        if (end != NULL) {
            *end = '\0';
        }
        snprintf(name, sizeof name, "%.480s:%zu", path, ++number);
        if (line[strspn(line, " \t\r")] != '\0') {
            status = judge_line(name, line, setup, warn, context, all, err);
        }
        line = next;
    }
    for (; first < all->records; first++) {
        snprintf(all->record[first].file, ZV_FILE_SIZE, "%s", slash == NULL ? path : slash + 1);
    }
    free(text);
    return status;
}

void zv_judgement_release(zv_judgement *all)
{
    for (size_t i = 0; i < all->records; i++) {
        free(all->record[i].row);
    }
    free(all->record);
    *all = (zv_judgement){0};
}
