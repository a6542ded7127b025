/* zl compare: a log of training beside the prediction of its run. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "frameworks.h"
#include "gunzip.h"
#include "torch/log_compare.h"
#include "zeroledger/bytes.h"

const zl_option zl_compare_options[] = {
    {"at", NULL, "MARK", NULL,
     "where a memory_summary, a snapshot or nvidia-smi belongs (default after_step)"},
    {"first-step", NULL, "N", NULL, "the log begins at step N; 0, the default, is the run's first"},
    {"resets-at", NULL, "MARKS", NULL,
     "marks at which the program resets the peaks itself, as in init,after_step; or all"},
    {"rank", NULL, "R", NULL, "rank that wrote the log (default 0)"},
    {"gpu", NULL, "NAME", NULL, "GPU of the log, which decides workspaces; 'zl list gpus'"},
    {0},
};

enum { CHANGES_SHOWN = 3 };

typedef struct question {
    const char *name; /* of the log, in errors */
    zt_compare_options options;
    zl_walked walked;
    zt_log log;
    zt_compared compared;
    zt_change change[CHANGES_SHOWN];
    size_t changes;
} question;

/* ---- one row per figure ---- */

static const char *const verdicts[ZT_VERDICT_COUNT] = {
    [ZT_NOT_COMPARED] = "", [ZT_AGREES] = "yes", [ZT_DIFFERS] = "NO"};

static zl_figure place_of(const zt_row *row)
{
    zl_figure figure = {""};
    if (row->placed) {
        snprintf(figure.text, sizeof figure.text, "%s", row->at);
    }
    for (char *c = figure.text; *c != '\0'; c++) {
        *c = (char)(*c == '_' ? ' ' : *c);
    }
    return figure;
}

static zl_figure step_of(const zt_row *row)
{
    zl_figure figure = {""};
    if (row->placed && row->step >= 0) {
        snprintf(figure.text, sizeof figure.text, "%" PRId32, row->step);
    }
    return figure;
}

/* "+1.250" in the view's unit, what rounding leaves taken off. */
static zl_figure off_by(const zl_view *view, int64_t bytes)
{
    zl_figure figure = {""};
    if (bytes != 0) {
        const uint64_t size = bytes < 0 ? (uint64_t) - (bytes + 1) + 1 : (uint64_t)bytes;
        char exact[32];
        snprintf(exact, sizeof exact, "%" PRIu64, size);
        snprintf(figure.text, sizeof figure.text, "%s%.40s", bytes < 0 ? "-" : "+",
                 view->format == ZL_FORMAT_CSV ? exact : zl_bytes_in(view, size).text);
    }
    return figure;
}

static void put_bytes(zl_table *table, const zl_page *page, uint64_t bytes)
{
    if (page->view->format == ZL_FORMAT_CSV) {
        zl_table_count(table, bytes);
    } else {
        zl_table_text(table, "%s", zl_bytes_in(page->view, bytes).text);
    }
}

static void figure_row(zl_table *table, const zl_page *page, const zt_sighting *s,
                       const zt_row *row, zt_figure f)
{
    const zt_beside *b = &row->figure[f];
    const bool people = page->view->format != ZL_FORMAT_CSV;
    zl_table_text(table, "%" PRIu64, s->line);
    zl_table_text(table, "%s", s->message);
    zl_table_text(table, "%s", step_of(row).text);
    zl_table_text(table, "%s", people ? place_of(row).text : row->placed ? row->at : "");
    zl_table_text(table, "%s", zt_figure_name(f));
    put_bytes(table, page, s->figure[f].nominal);
    if (b->verdict == ZT_NOT_COMPARED && b->predicted == 0) {
        zl_table_text(table, "%s", "");
    } else {
        put_bytes(table, page, b->predicted);
    }
    zl_table_text(table, "%s", off_by(page->view, b->off_by).text);
    zl_table_text(table, "%s", verdicts[b->verdict]);
    zl_table_count(table, row->times);
    zl_table_text(table, "%s", b->cause);
}

static zl_status print_rows(zl_page *page, const question *q, zl_err *err)
{
    static const struct {
        const char *title;
        zl_align align;
    } columns[] = {
        {"line", ZL_RIGHT},  {"message", ZL_LEFT}, {"step", ZL_RIGHT},      {"at", ZL_LEFT},
        {"figure", ZL_LEFT}, {"logged", ZL_RIGHT}, {"predicted", ZL_RIGHT}, {"off_by", ZL_RIGHT},
        {"agrees", ZL_LEFT}, {"times", ZL_RIGHT},  {"difference", ZL_LEFT},
    };
    zl_table *table = zl_table_new();
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
        zl_table_column(table, columns[c].title, columns[c].align);
    }
    for (size_t i = 0; i < q->compared.rows; i++) {
        const zt_row *row = &q->compared.row[i];
        const zt_sighting *s = &q->log.sighting[row->sighting];
        for (zt_figure f = 0; f < ZT_FIGURE_COUNT; f++) {
            /* People look for what can be compared; csv has all. */
            const bool shown = row->placed || page->view->format == ZL_FORMAT_CSV;
            if (s->figure[f].present && f != ZT_HOST_USED && shown) {
                figure_row(table, page, s, row, f);
            }
        }
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

/* ---- words ---- */

static size_t unplaced(const question *q)
{
    size_t count = 0;
    for (size_t i = 0; i < q->compared.rows; i++) {
        const zt_row *row = &q->compared.row[i];
        count += !row->placed && q->log.sighting[row->sighting].source != ZT_OUT_OF_MEMORY ? 1 : 0;
    }
    return count;
}

static zl_status say_oom(zl_page *page, const question *q, const zt_sighting *s, zl_err *err)
{
    zt_candidate *candidate = NULL;
    size_t count = 0;
    if (s->oom.wording == ZT_OOM_HOST) {
        zl_page_say(page, "Line %" PRIu64 ": out of host memory, %s asked for.", s->line,
                    zl_bytes_named(page->view, s->oom.asked.nominal).text);
        return ZL_OK;
    }
    ZL_TRY(zt_oom_candidates(&s->oom, &q->walked.torch, q->walked.rank, &candidate, &count, err));
    zl_page_say(page, "Line %" PRIu64 ": out of memory, %s asked for; zl decode says more.",
                s->line, zl_bytes_named(page->view, s->oom.asked.nominal).text);
    for (size_t i = 0; i < count && i < CHANGES_SHOWN; i++) {
        zl_page_say(page, "  %s, %s B%s%s", candidate[i].name, zl_count(candidate[i].bytes).text,
                    candidate[i].step < 0 ? ", before " : ", in a step before ",
                    candidate[i].before);
    }
    if (count == 0) {
        zl_page_say(page, "  no buffer of this run has that size");
    }
    free(candidate);
    return ZL_OK;
}

static void say_smi(zl_page *page, const zt_sighting *s, const zt_beside *b)
{
    const uint64_t used = s->figure[ZT_DEVICE_USED].high;
    if (used >= b->predicted) {
        zl_page_say(page,
                    "Line %" PRIu64 ": GPU %" PRIu64 " has %s more in use than PyTorch reserves: "
                    "CUDA context, NCCL, other processes; these are not predicted.",
                    s->line, s->number,
                    zl_bytes_named(page->view, zl_sub(used, b->predicted)).text);
    }
}

static zl_status say_more(zl_page *page, const question *q, zl_err *err)
{
    for (size_t i = 0; i < q->compared.rows; i++) {
        const zt_row *row = &q->compared.row[i];
        const zt_sighting *s = &q->log.sighting[row->sighting];
        if (s->source == ZT_OUT_OF_MEMORY) {
            ZL_TRY(say_oom(page, q, s, err));
        } else if (s->source == ZT_NVIDIA_SMI && row->placed) {
            say_smi(page, s, &row->figure[ZT_DEVICE_USED]);
        }
    }
    return ZL_OK;
}

static void say_sum(zl_page *page, const question *q)
{
    const zt_compared *c = &q->compared;
    const size_t elsewhere = unplaced(q);
    zl_page_say(page, "%zu of %zu figures agree within the rounding of the log", c->agree,
                c->agree + c->differ);
    if (elsewhere > 0) {
        zl_page_say(page, "Messages of moments that are not predicted: %zu; --format csv has them",
                    elsewhere);
    }
    for (size_t i = 0; i < q->changes; i++) {
        zl_page_say(page, "%s %zu of %zu agree", q->change[i].text, q->change[i].agree,
                    q->change[i].agree + q->change[i].differ);
    }
}

static zl_status fill_page(zl_page *page, const question *q, zl_err *err)
{
    zl_walked_head(page, &q->walked);
    zl_page_break(page);
    zl_page_say(page,
                "%s: logged and predicted; what the rounding of the log explains is no difference",
                zl_byte_unit_name(page->view->unit));
    zl_page_break(page);
    ZL_TRY(print_rows(page, q, err));
    zl_page_break(page);
    ZL_TRY(say_more(page, q, err));
    say_sum(page, q);
    return ZL_OK;
}

/* ---- JSON ---- */

static void put_figure(zl_json_writer *j, const zt_printed *logged, const zt_beside *b, zt_figure f)
{
    static const char *const names[ZT_VERDICT_COUNT] = {
        [ZT_NOT_COMPARED] = "not compared", [ZT_AGREES] = "agrees", [ZT_DIFFERS] = "differs"};
    zl_json_begin_object(j, NULL);
    zl_json_put_string(j, "figure", zt_figure_name(f));
    zl_json_put_u64(j, "logged_low", logged->low);
    zl_json_put_u64(j, "logged_high", logged->high);
    zl_json_put_string(j, "verdict", names[b->verdict]);
    if (b->verdict != ZT_NOT_COMPARED) {
        zl_json_put_u64(j, "predicted", b->predicted);
        zl_json_put_real(j, "off_by", (double)b->off_by);
        zl_json_put_string(j, "difference", b->cause);
    }
    zl_json_end(j);
}

static void put_row(zl_json_writer *j, const zt_sighting *s, const zt_row *row)
{
    zl_json_begin_object(j, NULL);
    zl_json_put_string(j, "source", zt_source_name(s->source));
    zl_json_put_u64(j, "line", s->line);
    zl_json_put_string(j, "message", s->message);
    zl_json_put_u64(j, "times", row->times);
    if (row->placed) {
        zl_json_put_real(j, "step", row->step); /* -1 before the first */
        zl_json_put_string(j, "at", row->at);
    }
    zl_json_begin_array(j, "figures");
    for (zt_figure f = 0; f < ZT_FIGURE_COUNT; f++) {
        if (s->figure[f].present) {
            put_figure(j, &s->figure[f], &row->figure[f], f);
        }
    }
    zl_json_end(j);
    zl_json_end(j);
}

static zl_status print_json(const zl_view *view, const question *q, zl_err *err)
{
    zl_json_writer *j = zl_json_writer_new();
    zl_json_begin_object(j, NULL);
    zl_json_put_string(j, "schema", "zeroledger.compare/1");
    zl_walked_json(&q->walked, j);
    zl_json_put_u64(j, "agree", q->compared.agree);
    zl_json_put_u64(j, "differ", q->compared.differ);
    zl_json_begin_array(j, "rows");
    for (size_t i = 0; i < q->compared.rows; i++) {
        const zt_row *row = &q->compared.row[i];
        put_row(j, &q->log.sighting[row->sighting], row);
    }
    zl_json_end(j);
    zl_json_begin_array(j, "changes");
    for (size_t i = 0; i < q->changes; i++) {
        zl_json_begin_object(j, NULL);
        zl_json_put_string(j, "change", q->change[i].text);
        zl_json_put_u64(j, "agree", q->change[i].agree);
        zl_json_put_u64(j, "differ", q->change[i].differ);
        zl_json_end(j);
    }
    zl_json_end(j);
    zl_json_end(j);
    const zl_status status = zl_json_writer_save(j, view->out, err);
    zl_json_writer_free(j);
    return status;
}

/* ---- the command ---- */

static zl_status read_log(const zl_args *args, question *q, zl_err *err)
{
    char *text = NULL;
    size_t size = 0;
    if (args->operand == NULL) {
        return zl_fail(err, ZL_E_USAGE,
                       "no log; give a file, gzip or not, or - for the standard "
                       "input");
    }
    q->name = strcmp(args->operand, "-") == 0 ? "standard input" : args->operand;
    ZL_TRY(zl_gunzip(args->operand, &text, &size, err));
    const zl_status status = zt_log_read(text, size, &q->log, err);
    free(text);
    if (status != ZL_OK) {
        zl_fail_at(err, q->name);
    }
    return status;
}

/* Logs are written by one rank, as a rule by rank 0. */
static zl_status walk(const zl_args *args, question *q, zl_err *err)
{
    static const zl_option rank = {"rank", NULL, "R", NULL, ""};
    zl_run run;
    uint64_t step = 0;
    zl_args of_rank = *args;
    const char *first = zl_args_value(args, "first-step");
    q->options.at = zl_args_value(args, "at");
    q->options.resets_at = zl_args_value(args, "resets-at");
    if (first != NULL) {
        ZL_TRY(zl_parse_count("first-step", first, &step, err));
        q->options.first_step = step < UINT32_MAX ? (uint32_t)step : UINT32_MAX;
    }
    if (zl_args_value(args, "rank") == NULL && of_rank.settings < ZL_ARGS_MAX) {
        of_rank.setting[of_rank.settings++] = (zl_setting){&rank, "0"};
    }
    ZL_TRY(zl_args_run(args, &run, err));
    if (run.framework == ZL_FRAMEWORK_NATIVE) {
        return zl_fail(err, ZL_E_USAGE,
                       "a log of PyTorch needs --framework single, ddp, zero1, fsdp1, fsdp2 or "
                       "deepspeed@RELEASE");
    }
    return zl_walked_new(&of_rank, &run, &q->walked, err);
}

static zl_status compare(question *q, zl_err *err)
{
    const zl_torch_run *run = &q->walked.torch;
    ZL_TRY(zt_log_compare(&q->log, run, q->walked.rank, &q->options, &q->compared, err));
    if (q->compared.differ == 0) {
        return ZL_OK;
    }
    return zt_log_changes(&q->log, run, q->walked.rank, &q->options, q->change, CHANGES_SHOWN,
                          &q->changes, err);
}

static zl_status print_page(const zl_view *view, const question *q, zl_err *err)
{
    zl_page page;
    ZL_TRY(zl_page_open(&page, view, err));
    return zl_page_end(&page, fill_page(&page, q, err), err);
}

zl_status zl_cmd_compare(const zl_args *args, zl_err *err)
{
    question q = {0};
    zl_status status = read_log(args, &q, err);
    if (status == ZL_OK) {
        status = walk(args, &q, err);
    }
    if (status == ZL_OK) {
        status = compare(&q, err);
    }
    if (status == ZL_OK) {
        status = args->view.format == ZL_FORMAT_JSON ? print_json(&args->view, &q, err)
                                                     : print_page(&args->view, &q, err);
    }
    if (status == ZL_OK && q.compared.differ > 0) {
        status = ZL_NO;
    }
    zt_compared_release(&q.compared);
    zt_log_release(&q.log);
    zl_marks_clear(&q.walked.marks);
    return status;
}
