/* zl predict of a framework other than native: the marks of a training step. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "frameworks.h"
#include "timeline.h"
#include "zeroledger/bytes.h"

enum { ROWS_MAX = 256 };

/* Marks that are shown: at init, of the first step, of the last. */
typedef struct shown {
    const zl_mark *mark[ROWS_MAX];
    size_t count;
    int32_t last; /* step */
} shown;

static bool is_shown(const zl_mark *mark, int32_t last)
{
    return mark->step == last || mark->step == 0 ||
           (mark->step < 0 && strcmp(mark->at, "init") == 0);
}

static void choose(const zl_walked *w, shown *out)
{
    *out = (shown){.last = (int32_t)w->torch.steps - 1};
    for (size_t i = 0; i < w->marks.count && out->count < ROWS_MAX; i++) {
        if (is_shown(&w->marks.mark[i], out->last)) {
            out->mark[out->count++] = &w->marks.mark[i];
        }
    }
}

/* "after_forward_0" as "after forward 0"; the first step is cold. */
static zl_figure label_of(const zl_mark *mark)
{
    zl_figure figure;
    snprintf(figure.text, sizeof figure.text, "%s%s", mark->at, mark->step == 0 ? " (cold)" : "");
    for (char *c = figure.text; *c != '\0'; c++) {
        *c = (char)(*c == '_' ? ' ' : *c);
    }
    return figure;
}

typedef struct column {
    const char *title;
    size_t offset; /* of a uint64_t in zl_mark */
} column;

static const column columns[] = {
    {"requested", offsetof(zl_mark, requested)},
    {"peak_requested", offsetof(zl_mark, peak_requested)},
    {"allocated", offsetof(zl_mark, allocated)},
    {"peak_allocated", offsetof(zl_mark, peak_allocated)},
    {"reserved", offsetof(zl_mark, reserved)},
    {"peak_reserved", offsetof(zl_mark, peak_reserved)},
    {"host.VmRSS", offsetof(zl_mark, host_rss)},
};

enum { COLUMNS = sizeof columns / sizeof columns[0] };

static uint64_t figure_of(const zl_mark *mark, const column *c)
{
    uint64_t value;
    memcpy(&value, (const char *)mark + c->offset, sizeof value);
    return value;
}

/* What activations move is unknown where they are. */
static bool is_known(const zl_walked *w, const zl_mark *mark, const column *c)
{
    const zl_depends depends = zl_mark_depends(mark);
    if (!w->torch.states_only || c->offset == offsetof(zl_mark, host_rss)) {
        return true;
    }
    return c->offset == offsetof(zl_mark, requested)        ? !depends.requested
           : c->offset == offsetof(zl_mark, peak_requested) ? !depends.peak_requested
                                                            : !depends.others;
}

/* Host memory only where the run keeps something there. */
static size_t columns_of(const zl_walked *w)
{
    for (size_t i = 0; i < w->marks.count; i++) {
        if (w->marks.mark[i].host_rss > 0) {
            return COLUMNS;
        }
    }
    return COLUMNS - 1;
}

static zl_status print_marks(zl_page *page, const zl_walked *w, const shown *rows, zl_err *err)
{
    const size_t count = columns_of(w);
    const bool exact = page->view->format == ZL_FORMAT_CSV;
    zl_table *table = zl_table_new();
    if (exact) {
        zl_table_column(table, "step", ZL_RIGHT);
    }
    zl_table_column(table, "at", ZL_LEFT);
    for (size_t c = 0; c < count; c++) {
        zl_table_column(table, columns[c].title, ZL_RIGHT);
    }
    if (page->view->bars) {
        zl_table_column(table, "peak_requested", ZL_BAR);
    }
    for (size_t i = 0; i < rows->count; i++) {
        const zl_mark *mark = rows->mark[i];
        if (exact) {
            zl_table_text(table, "%" PRId32, mark->step);
        }
        zl_table_text(table, "%s", exact ? mark->at : label_of(mark).text);
        for (size_t c = 0; c < count; c++) {
            const uint64_t bytes = figure_of(mark, &columns[c]);
            if (!is_known(w, mark, &columns[c])) {
                zl_table_text(table, "%s", exact ? "" : "not modelled");
            } else if (exact) {
                zl_table_count(table, bytes);
            } else {
                zl_table_text(table, "%s", zl_bytes_in(page->view, bytes).text);
            }
        }
        if (page->view->bars) {
            zl_table_count(table, mark->peak_requested);
        }
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

static const zl_mark *largest(const shown *rows)
{
    const zl_mark *most = rows->mark[0];
    for (size_t i = 1; i < rows->count; i++) {
        if (rows->mark[i]->peak_requested >= most->peak_requested) {
            most = rows->mark[i];
        }
    }
    return most;
}

/* What "auto" of the ds_config.json became, and what else it leaves to others. */
static void print_resolved(zl_page *page, const zl_ds_config *ds)
{
    for (size_t i = 0; i < ds->resolved_count; i++) {
        const zl_ds_resolved *r = &ds->resolved[i];
        zl_page_say(page, "ds_config.json: %s is %s (%s)", r->key, r->value, r->why);
    }
}

static void put_resolved(zl_json_writer *j, const zl_ds_config *ds)
{
    if (ds->resolved_count == 0) {
        return;
    }
    zl_json_begin_array(j, "resolved");
    for (size_t i = 0; i < ds->resolved_count; i++) {
        const zl_ds_resolved *r = &ds->resolved[i];
        zl_json_begin_object(j, NULL);
        zl_json_put_string(j, "key", r->key);
        zl_json_put_string(j, "value", r->value);
        zl_json_put_string(j, "why", r->why);
        zl_json_end(j);
    }
    zl_json_end(j);
}

/* Of quantised weights there is nothing else. */
static void say_weights(zl_page *page, const zl_walked *w)
{
    zl_page_break(page);
    if (w->weights.bytes > 0) {
        zl_page_say(page, "The weights are %s as they are stored; quantised matrices with their",
                    zl_bytes_exact(page->view, w->weights.bytes).text);
        zl_page_say(page, "scales and zeros, the others in %s.", w->torch.model.stored);
    } else {
        zl_page_say(page, "The bytes of the weights are not known: config.json names no dtype.");
    }
    zl_page_say(page, "What training adds to them is not modelled.");
}

static zl_status fill_page(zl_page *page, const zl_walked *w, zl_err *err)
{
    shown rows;
    choose(w, &rows);
    zl_walked_head(page, w);
    if (w->marks.count == 0) {
        say_weights(page, w);
        return ZL_OK;
    }
    print_resolved(page, &w->torch.ds);
    zl_page_break(page);
    zl_page_say(page, "%s of one rank, as torch.cuda.memory_stats() shows them: what is there at a",
                zl_byte_unit_name(page->view->unit));
    zl_page_say(page,
                "mark, and the largest amounts since the mark above. The first step is cold,");
    zl_page_say(page, "then the %" PRId32 "th, a steady one.", rows.last + 1);
    zl_page_break(page);
    ZL_TRY(print_marks(page, w, &rows, err));
    zl_page_break(page);
    if (w->torch.states_only) {
        zl_page_say(page, "Activations are not modelled: what they move is left out, all else is");
        zl_page_say(page, "parameters, gradients, optimizer states and what the framework adds.");
        return ZL_OK;
    }
    const zl_mark *most = largest(&rows);
    zl_page_say(page, "Largest peak: %s requested, before the mark %s; largest reserved: %s",
                zl_bytes_exact(page->view, most->peak_requested).text, label_of(most).text,
                zl_bytes_named(page->view, zl_walked_reserved(w)).text);
    return ZL_OK;
}

static zl_status print_json(const zl_args *args, const zl_walked *w, zl_err *err)
{
    zl_json_writer *j = zl_json_writer_new();
    zl_json_begin_object(j, NULL);
    zl_json_put_string(j, "schema", "zeroledger.marks/1");
    zl_walked_json(w, j);
    put_resolved(j, &w->torch.ds);
    zl_json_begin_array(j, "marks");
    for (size_t i = 0; i < w->marks.count; i++) {
        const zl_mark *mark = &w->marks.mark[i];
        zl_json_begin_object(j, NULL);
        if (mark->step < 0) {
            zl_json_put_real(j, "step", mark->step);
        } else {
            zl_json_put_u64(j, "step", (uint64_t)mark->step);
        }
        zl_json_put_string(j, "at", mark->at);
        for (size_t c = 0; c < columns_of(w); c++) {
            if (is_known(w, mark, &columns[c])) {
                zl_json_put_u64(j, columns[c].title, figure_of(mark, &columns[c]));
            }
        }
        zl_json_end(j);
    }
    zl_json_end(j);
    zl_json_end(j);
    const zl_status status = zl_json_writer_save(j, args->view.out, err);
    zl_json_writer_free(j);
    return status;
}

static zl_status print_page(const zl_args *args, const zl_walked *w, zl_err *err)
{
    zl_page page;
    ZL_TRY(zl_page_open(&page, &args->view, err));
    return zl_page_end(&page, fill_page(&page, w, err), err);
}

zl_status zl_predict_framework(const zl_args *args, zl_run *run, zl_err *err)
{
    zl_walked w;
    const char *save = zl_args_value(args, "save-run");
    if (zl_args_value(args, "buffers") != NULL || zl_args_value(args, "visits") != NULL) {
        return zl_fail(err, ZL_E_USAGE,
                       "--buffers and --visits speak of the framework native, got %s; zl explain "
                       "names what is alive",
                       zl_framework_name(run->framework));
    }
    ZL_TRY(zl_walked_states(args, run, &w, err));
    zl_status status = save != NULL ? zl_run_save(&w.run, save, err) : ZL_OK;
    if (status == ZL_OK && zl_args_value(args, "timeline") != NULL) {
        status = zl_walked_verdict(&w, err);
    }
    if (status == ZL_OK && zl_args_value(args, "timeline") != NULL) {
        status = zl_timeline_walked(&w, zl_args_value(args, "timeline"), err);
    }
    if (status == ZL_OK) {
        status = args->view.format == ZL_FORMAT_JSON ? print_json(args, &w, err)
                                                     : print_page(args, &w, err);
    }
    if (status == ZL_OK) {
        status = zl_walked_verdict(&w, err);
    }
    zl_marks_clear(&w.marks);
    return status;
}
