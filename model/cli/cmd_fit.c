/* zl fit: the most of one thing that a capacity holds, or the least that is enough, certified: the
 * answer fits and its neighbour does not. */
#include <string.h>

#include "fit.h"
#include "frameworks.h"
#include "zeroledger/bytes.h"

const zl_option zl_fit_options[] = {
    {"find", NULL, "QUANTITY", "micro-batch,seq,layers,ranks,stage",
     "what to vary: largest micro-batch (default), longest seq, most layers, fewest ranks, lowest "
     "stage"},
    {"range", NULL, "LOW..HIGH", NULL, "only values of it from LOW to HIGH"},
    ZL_CAPACITY_OPTIONS,
    {0},
};

/* ---- words ---- */

static const struct {
    const char *option;
    const char *title; /* of the answer */
    const char *none;  /* nothing fits; NULL: the smallest value does not */
    const char *column;
} words[ZL_QUANTITY_COUNT] = {
    [ZL_QUANTITY_MICRO_BATCH] = {"--micro-batch", "Largest micro-batch", NULL, "micro-batch"},
    [ZL_QUANTITY_SEQ] = {"--seq", "Longest sequence", NULL, "seq"},
    [ZL_QUANTITY_LAYERS] = {"--layers", "Most layers", NULL, "layers"},
    [ZL_QUANTITY_RANKS] = {"--ranks", "Fewest ranks", "No number of ranks is enough", "ranks"},
    [ZL_QUANTITY_STAGE] = {"--stage", "Lowest stage", "No stage fits", "stage"},
};

const char *zl_fitting_option(const zl_fitting *f)
{
    return words[f->question.quantity].option;
}

uint64_t zl_fitting_limited(const zl_fitting *f)
{
    return f->fit.next.tried ? f->fit.next.value : f->fit.best.value;
}

static const char *column(const zl_fitting *f)
{
    return words[f->question.quantity].column;
}

/* "micro-batch 28", "28 layers", "1 layer" */
static zl_figure subject(const zl_fitting *f)
{
    zl_figure text;
    const zl_quantity q = f->question.quantity;
    const zl_figure count = zl_count(zl_fitting_limited(f));
    const int letters = (int)strlen(column(f)) - (zl_fitting_limited(f) == 1);
    if (q == ZL_QUANTITY_LAYERS || q == ZL_QUANTITY_RANKS) {
        snprintf(text.text, sizeof text.text, "%.32s %.*s", count.text, letters, column(f));
    } else {
        snprintf(text.text, sizeof text.text, "%s %.32s", column(f), count.text);
    }
    return text;
}

/* ---- the question ---- */

static zl_status read_range(const char *text, zl_question *q, zl_err *err)
{
    char low[32];
    const char *dots = strstr(text, "..");
    if (dots == NULL || (size_t)(dots - text) >= sizeof low) {
        return zl_fail(err, ZL_E_USAGE, "range must be two counts, as in 1..1024, got '%.60s'",
                       text);
    }
    snprintf(low, sizeof low, "%.*s", (int)(dots - text), text);
    ZL_TRY(zl_parse_count("range", low, &q->low, err));
    ZL_TRY(zl_parse_count("range", dots + 2, &q->high, err));
    if (q->low > q->high || (q->high == 0 && q->quantity != ZL_QUANTITY_STAGE)) {
        return zl_fail(err, ZL_E_USAGE, "range must begin with its smaller end, got '%.60s'", text);
    }
    return ZL_OK;
}

static zl_status read_question(const zl_args *args, zl_fitting *f, zl_err *err)
{
    const char *find = zl_args_value(args, "find");
    const char *range = zl_args_value(args, "range");
    for (int q = 0; find != NULL && q < ZL_QUANTITY_COUNT; q++) {
        if (strcmp(find, words[q].column) == 0) {
            f->question.quantity = (zl_quantity)q;
        }
    }
    f->anything = range == NULL;
    if (range != NULL) {
        ZL_TRY(read_range(range, &f->question, err));
    }
    ZL_TRY(zl_capacity_read(args, &f->c, err));
    f->question.capacity = f->c.usable;
    return zl_args_run(args, &f->run, err);
}

/* ---- a page ---- */

static void add_row(zl_table *table, const zl_view *view, const zl_trial *trial)
{
    if (trial->tried) {
        zl_table_count(table, trial->value);
        zl_table_count(table, trial->bytes);
        zl_table_text(table, "%s", zl_bytes_in(view, trial->bytes).text);
        zl_table_text(table, "%s", trial->fits ? "fits" : "does not fit");
    }
}

static zl_status say_trials(zl_page *page, const zl_fitting *f, zl_err *err)
{
    const zl_fit *fit = &f->fit;
    const bool native = f->run.framework == ZL_FRAMEWORK_NATIVE;
    const bool falling = f->question.quantity == ZL_QUANTITY_RANKS;
    zl_table *table = zl_table_new();
    zl_table_column(table, column(f), ZL_RIGHT);
    zl_table_column(table, native ? "peak, bytes" : "peak_allocated, bytes", ZL_RIGHT);
    zl_table_column(table, zl_byte_unit_name(page->view->unit), ZL_RIGHT);
    zl_table_column(table, "answer", ZL_LEFT);
    if (f->question.quantity == ZL_QUANTITY_STAGE) {
        for (int s = 0; s < ZL_STAGES; s++) {
            add_row(table, page->view, &fit->stage[s]);
        }
    } else {
        add_row(table, page->view, falling ? &fit->next : &fit->best);
        add_row(table, page->view, falling ? &fit->best : &fit->next);
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

static void say_answer(zl_page *page, const zl_fitting *f)
{
    const zl_fit *fit = &f->fit;
    const zl_quantity q = f->question.quantity;
    if (fit->found) {
        zl_page_say(page, "%s: %s", words[q].title, zl_count(fit->best.value).text);
        return;
    }
    if (words[q].none != NULL) {
        zl_page_say(page, "%s", words[q].none);
    } else {
        zl_page_say(page, "Not even %s fits", subject(f).text);
    }
    if (fit->floor > 0) {
        zl_page_say(
            page,
            "On %s number of ranks each holds at least %s: more of them make shards smaller, "
            "not the rest.",
            f->anything ? "any" : "every such", zl_bytes_exact(page->view, fit->floor).text);
    }
}

/* Why there is no better value to show. */
static void say_end(zl_page *page, const zl_fitting *f)
{
    const zl_figure best = zl_count(f->fit.best.value);
    switch (f->fit.end) {
    case ZL_FIT_CAPACITY:
        if (f->fit.found && !f->fit.exact) {
            zl_page_say(page,
                        "Nothing fits from %s %s %s, where even what is asked for is too much; of "
                        "those before, some may, if by chance little is lost between buffers.",
                        column(f), zl_count(f->fit.edge).text,
                        f->question.quantity == ZL_QUANTITY_RANKS ? "down" : "on");
        }
        break;
    case ZL_FIT_POSITIONS:
        zl_page_say(page,
                    "The model's position table ends there: %s tokens are its longest sequence, "
                    "whatever the memory.",
                    best.text);
        break;
    case ZL_FIT_WINDOW:
        zl_page_say(
            page, "Sequences longer than the model's sliding window are not modelled; up to there "
                  "memory is no limit.");
        break;
    case ZL_FIT_RANGE:
        zl_page_say(page, "There is nothing better%s: memory is not what limits it.",
                    f->anything ? "" : " in the range");
        break;
    case ZL_FIT_END_COUNT:
        break;
    }
}

static void say_limit(zl_page *page, const zl_fitting *f)
{
    char terms[512] = "";
    size_t used = 0;
    const zl_limit *limit = &f->limit;
    const zl_view *view = page->view;
    const zl_trial *next = &f->fit.next;
    for (size_t i = 0; i < limit->terms && used < sizeof terms; i++) {
        used += (size_t)snprintf(terms + used, sizeof terms - used, "%s%s %s", i > 0 ? ", " : "",
                                 limit->term[i].text, zl_bytes_in(view, limit->term[i].bytes).text);
    }
    zl_page_say(page, "With %s the peak is in %s; its largest terms: %s %s", subject(f).text,
                limit->where, terms, zl_byte_unit_name(view->unit));
    if (next->tried && next->bytes <= f->c.usable) {
        zl_page_say(page,
                    "That would be little enough; but in pieces that do not match, and without a "
                    "limit the allocator reserves %s for it.",
                    zl_bytes_named(view, next->reserved).text);
    }
    if (limit->levers > 0) {
        zl_page_say(page, "What lowers that peak, one change at a time:");
    }
    for (size_t i = 0; i < limit->levers; i++) {
        zl_page_say(page, "  %s: %s", limit->lever[i].text,
                    zl_bytes_named(view, limit->lever[i].bytes).text);
    }
}

static zl_status fill_page(zl_page *page, const zl_fitting *f, const zl_walked *w, zl_err *err)
{
    const bool native = f->run.framework == ZL_FRAMEWORK_NATIVE;
    if (native) {
        zl_page_run(page, &f->run, "");
    } else {
        zl_walked_head(page, w);
    }
    zl_page_break(page);
    zl_capacity_say(page, &f->c);
    say_answer(page, f);
    zl_page_break(page);
    ZL_TRY(say_trials(page, f, err));
    zl_page_break(page);
    say_end(page, f);
    say_limit(page, f);
    if (native) {
        zl_page_say(page,
                    "The prediction is the trainer's allocator; driver, context and libraries "
                    "come on top: leave headroom for them.");
    } else {
        zl_page_say(page, "The walk was given this capacity as the device's; PyTorch frees what it "
                          "caches before it gives up.");
        zl_page_say(page, "Context, NCCL and code come on top: leave headroom for them.");
    }
    return ZL_OK;
}

static zl_status print_page(const zl_view *view, const zl_fitting *f, const zl_walked *w,
                            zl_err *err)
{
    zl_page page;
    ZL_TRY(zl_page_open(&page, view, err));
    return zl_page_end(&page, fill_page(&page, f, w, err), err);
}

/* ---- JSON ---- */

static void put_limit(zl_json_writer *w, const zl_fitting *f)
{
    const bool native = f->run.framework == ZL_FRAMEWORK_NATIVE;
    const zl_limit *limit = &f->limit;
    zl_json_begin_object(w, "limit");
    zl_json_put_string(w, "visit", limit->visit);
    zl_json_put_string(w, "phase", limit->phase);
    zl_json_begin_array(w, native ? "largest" : "terms");
    for (size_t i = 0; i < limit->terms; i++) {
        zl_json_begin_object(w, NULL);
        zl_json_put_string(w, native ? "buffer" : "name", limit->term[i].text);
        zl_json_put_u64(w, "bytes", limit->term[i].bytes);
        zl_json_end(w);
    }
    zl_json_end(w);
    zl_json_begin_array(w, "lowered_by");
    for (size_t i = 0; i < limit->levers; i++) {
        zl_json_begin_object(w, NULL);
        zl_json_put_string(w, "change", limit->lever[i].text);
        zl_json_put_u64(w, "bytes", limit->lever[i].bytes);
        zl_json_end(w);
    }
    zl_json_end(w);
    zl_json_end(w);
}

static void put_stages(zl_json_writer *w, const zl_fit *fit)
{
    zl_json_begin_array(w, "stages");
    for (int s = 0; s < ZL_STAGES; s++) {
        if (fit->stage[s].tried) {
            zl_json_begin_object(w, NULL);
            zl_json_put_u64(w, "stage", fit->stage[s].value);
            zl_json_put_u64(w, "bytes", fit->stage[s].bytes);
            zl_json_put_bool(w, "fits", fit->stage[s].fits);
            zl_json_end(w);
        }
    }
    zl_json_end(w);
}

static void put_answer(zl_json_writer *w, const zl_fitting *f)
{
    const zl_fit *fit = &f->fit;
    zl_json_put_bool(w, "fits", fit->found);
    zl_json_put_u64(w, "best", fit->best.value);
    zl_json_put_u64(w, "best_bytes", fit->best.bytes);
    if (fit->next.tried) {
        zl_json_put_u64(w, "next", fit->next.value);
    } else {
        zl_json_put_null(w, "next");
    }
    zl_json_put_u64(w, "next_bytes", fit->next.bytes);
    zl_json_put_string(w, "ended_by", zl_fit_end_name(fit->end));
    if (f->run.framework != ZL_FRAMEWORK_NATIVE) {
        zl_json_put_bool(w, "exact", fit->exact);
        if (fit->edge > 0) {
            zl_json_put_u64(w, "edge", fit->edge);
        }
        zl_json_put_u64(w, "next_reserved", fit->next.reserved);
        zl_json_put_u64(w, "walks", fit->walks);
    }
    if (fit->floor > 0) {
        zl_json_put_u64(w, "floor", fit->floor);
    }
    if (f->question.quantity == ZL_QUANTITY_STAGE) {
        put_stages(w, fit);
    }
}

static zl_status print_json(const zl_view *view, const zl_fitting *f, zl_err *err)
{
    char id[ZL_RUN_ID_SIZE];
    zl_json_writer *w = zl_json_writer_new();
    if (w == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    zl_run_id(&f->run, id);
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", "zeroledger.fit/1");
    zl_json_put_string(w, "run_id", id);
    zl_json_put_string(w, "quantity", zl_quantity_name(f->question.quantity));
    zl_capacity_json(&f->c, w);
    put_answer(w, f);
    put_limit(w, f);
    zl_json_end(w);
    const zl_status status = zl_json_writer_save(w, view->out, err);
    zl_json_writer_free(w);
    return status;
}

zl_status zl_cmd_fit(const zl_args *args, zl_err *err)
{
    zl_fitting f = {.question = {.quantity = ZL_QUANTITY_MICRO_BATCH}};
    zl_walked w = {.rank = 0};
    ZL_TRY(read_question(args, &f, err));
    ZL_TRY(f.run.framework == ZL_FRAMEWORK_NATIVE ? zl_fit_native(&f, err)
                                                  : zl_fit_walked(args, &f, &w, err));
    ZL_TRY(args->view.format == ZL_FORMAT_JSON ? print_json(&args->view, &f, err)
                                               : print_page(&args->view, &f, &w, err));
    return f.fit.found ? ZL_OK : ZL_NO;
}
