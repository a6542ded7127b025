/* zl fit: the largest micro-batch in a capacity, certified: the next one does not fit. */
#include <string.h>

#include "explain.h"
#include "fit.h"
#include "zeroledger/bytes.h"
#include "zeroledger/solve.h"

const zl_option zl_fit_options[] = {
    {"capacity", NULL, "BYTES", NULL, "memory of a device, as in 24GiB or 80GB"},
    {"gpu", NULL, "NAME", NULL, "capacity of a known GPU ('zl list gpus')"},
    {"headroom", NULL, "SHARE", NULL, "keep this free: 5%, or bytes as in 2GiB (default 0)"},
    {0},
};

typedef struct question {
    zl_run run;
    zl_capacity c;
} question;

typedef struct reply {
    zl_fit fit;
    zl_share share[ZL_SHARES_SHOWN]; /* largest terms at the peak of best + 1 */
    size_t shares;
} reply;

/* "5%" of the capacity, rounded up to the byte; four decimals of a percent count. */
static zl_status share_of(const char *text, uint64_t capacity, uint64_t *out, zl_err *err)
{
    char number[32];
    double percent = 0.0;
    snprintf(number, sizeof number, "%.*s", (int)strcspn(text, "%"), text);
    ZL_TRY(zl_parse_real("headroom", number, &percent, err));
    if (!(percent >= 0.0 && percent < 100.0) || strchr(text, '%')[1] != '\0') {
        return zl_fail(err, ZL_E_USAGE, "headroom must be from 0%% to below 100%%, got '%.60s'",
                       text);
    }
    const uint64_t million = 1000000;
    const uint64_t ppm = (uint64_t)(percent * 10000.0 + 0.5);
    const uint64_t rest = capacity % million;
    const uint64_t whole = zl_exact_div(zl_sub(capacity, rest), million);
    *out = zl_add(zl_mul(whole, ppm), zl_ceil_div(zl_mul(rest, ppm), million));
    return ZL_OK;
}

static zl_status read_capacity(const zl_args *args, question *q, zl_err *err)
{
    const char *capacity = zl_args_value(args, "capacity");
    const zl_gpu *gpu = NULL;
    q->c.gpu = zl_args_value(args, "gpu");
    if ((capacity == NULL) == (q->c.gpu == NULL)) {
        return zl_fail(err, ZL_E_USAGE, "give either --capacity BYTES or --gpu NAME");
    }
    if (capacity != NULL) {
        return zl_parse_bytes("capacity", capacity, &q->c.capacity, err);
    }
    ZL_TRY(zl_gpu_find(q->c.gpu, &gpu, err));
    q->c.capacity = gpu->bytes;
    return ZL_OK;
}

static zl_status read_question(const zl_args *args, question *q, zl_err *err)
{
    const char *headroom = zl_args_value(args, "headroom");
    ZL_TRY(read_capacity(args, q, err));
    if (headroom != NULL && strchr(headroom, '%') != NULL) {
        ZL_TRY(share_of(headroom, q->c.capacity, &q->c.headroom, err));
    } else if (headroom != NULL) {
        ZL_TRY(zl_parse_bytes("headroom", headroom, &q->c.headroom, err));
    }
    if (q->c.headroom > q->c.capacity) {
        return zl_fail(err, ZL_E_USAGE, "headroom %.40s is more than the capacity of %s bytes",
                       headroom, zl_count(q->c.capacity).text);
    }
    q->c.usable = zl_sub(q->c.capacity, q->c.headroom);
    return zl_args_run(args, &q->run, err);
}

static zl_status solve(question *q, reply *r, zl_err *err)
{
    ZL_TRY(zl_solve_micro_batch(&q->run, q->c.usable, &r->fit, err));
    zl_run next = q->run;
    /* The run of the answer is the one with the best micro-batch. */
    q->run.micro_batch = zl_max(r->fit.best, 1);
    zl_ledger *ledger = NULL;
    zl_terms terms;
    next.micro_batch = zl_add(r->fit.best, 1);
    ZL_TRY(zl_run_check(&next, err));
    ZL_TRY(zl_predicted(&next, 0, &ledger, err));
    const zl_status status = zl_terms_get(ledger, r->fit.visit, r->fit.phase, false, &terms, err);
    zl_ledger_free(ledger);
    ZL_TRY(status);
    r->shares = zl_terms_largest(&terms, true, r->share, ZL_SHARES_SHOWN);
    return ZL_OK;
}

void zl_capacity_say(zl_page *page, const zl_capacity *c)
{
    const zl_view *view = page->view;
    zl_page_say(page, "Capacity%s%s %s, headroom %s, usable %s", c->gpu != NULL ? " of " : "",
                c->gpu != NULL ? c->gpu : "", zl_bytes_named(view, c->capacity).text,
                zl_bytes_named(view, c->headroom).text, zl_bytes_exact(view, c->usable).text);
}

void zl_capacity_json(const zl_capacity *c, zl_json_writer *w)
{
    zl_json_put_string(w, "quantity", "micro_batch");
    if (c->gpu != NULL) {
        zl_json_put_string(w, "gpu", c->gpu);
    }
    zl_json_put_u64(w, "capacity", c->capacity);
    zl_json_put_u64(w, "headroom", c->headroom);
    zl_json_put_u64(w, "usable", c->usable);
}

static void fit_row(zl_table *table, const zl_view *view, uint64_t n, uint64_t bytes, bool fits)
{
    zl_table_count(table, n);
    zl_table_count(table, bytes);
    zl_table_text(table, "%s", zl_bytes_in(view, bytes).text);
    zl_table_text(table, "%s", fits ? "fits" : "does not fit");
}

zl_status zl_fit_rows(zl_page *page, const char *title, uint64_t best, uint64_t best_bytes,
                      uint64_t next_bytes, zl_err *err)
{
    zl_table *table = zl_table_new();
    zl_table_column(table, "micro-batch", ZL_RIGHT);
    zl_table_column(table, title, ZL_RIGHT);
    zl_table_column(table, zl_byte_unit_name(page->view->unit), ZL_RIGHT);
    zl_table_column(table, "answer", ZL_LEFT);
    if (best > 0) {
        fit_row(table, page->view, best, best_bytes, true);
    }
    fit_row(table, page->view, zl_add(best, 1), next_bytes, false);
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

static zl_status fill_page(zl_page *page, const question *q, const reply *r, zl_err *err)
{
    char shares[256];
    const zl_view *view = page->view;
    zl_page_run(page, &q->run, "");
    zl_page_break(page);
    zl_capacity_say(page, &q->c);
    if (r->fit.best > 0) {
        zl_page_say(page, "Largest micro-batch: %s", zl_count(r->fit.best).text);
    } else {
        zl_page_say(page, "Not even a micro-batch of 1 fits");
    }
    zl_page_break(page);
    ZL_TRY(
        zl_fit_rows(page, "peak, bytes", r->fit.best, r->fit.best_bytes, r->fit.next_bytes, err));
    zl_shares_text(view, r->share, r->shares, shares, sizeof shares);
    zl_page_break(page);
    zl_page_say(page, "Micro-batch %s is limited by %s; its largest terms: %s %s",
                zl_count(zl_add(r->fit.best, 1)).text,
                zl_cell_label(r->fit.visit, r->fit.phase).text, shares,
                zl_byte_unit_name(view->unit));
    zl_page_say(page, "The prediction is the trainer's allocator; driver, context and libraries "
                      "come on top: leave headroom for them.");
    return ZL_OK;
}

static zl_status print_page(const zl_view *view, const question *q, const reply *r, zl_err *err)
{
    zl_page page;
    ZL_TRY(zl_page_open(&page, view, err));
    return zl_page_end(&page, fill_page(&page, q, r, err), err);
}

static zl_status print_json(const zl_view *view, const question *q, const reply *r, zl_err *err)
{
    char id[ZL_RUN_ID_SIZE];
    zl_json_writer *w = zl_json_writer_new();
    if (w == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    zl_run_id(&q->run, id);
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", "zeroledger.fit/1");
    zl_json_put_string(w, "run_id", id);
    zl_capacity_json(&q->c, w);
    zl_json_put_bool(w, "fits", r->fit.best > 0);
    zl_json_put_u64(w, "best", r->fit.best);
    zl_json_put_u64(w, "best_bytes", r->fit.best_bytes);
    zl_json_put_u64(w, "next_bytes", r->fit.next_bytes);
    zl_json_begin_object(w, "limit");
    zl_json_put_string(w, "visit", zl_visit_name(r->fit.visit));
    zl_json_put_string(w, "phase", zl_phase_name(r->fit.phase));
    zl_json_begin_array(w, "largest");
    for (size_t i = 0; i < r->shares; i++) {
        zl_json_begin_object(w, NULL);
        zl_json_put_string(w, "buffer", zl_buf_name(r->share[i].buffer));
        zl_json_put_u64(w, "bytes", r->share[i].bytes);
        zl_json_end(w);
    }
    zl_json_end(w);
    zl_json_end(w);
    zl_json_end(w);
    const zl_status status = zl_json_writer_save(w, view->out, err);
    zl_json_writer_free(w);
    return status;
}

zl_status zl_cmd_fit(const zl_args *args, zl_err *err)
{
    question q = {0};
    reply r = {0};
    ZL_TRY(read_question(args, &q, err));
    if (q.run.framework != ZL_FRAMEWORK_NATIVE) {
        return zl_fit_framework(args, &q.run, &q.c, err);
    }
    ZL_TRY(solve(&q, &r, err));
    ZL_TRY(args->view.format == ZL_FORMAT_JSON ? print_json(&args->view, &q, &r, err)
                                               : print_page(&args->view, &q, &r, err));
    return r.fit.best > 0 ? ZL_OK : ZL_NO;
}
