/* zl explain: every term of a phase's peak, and why the phase is not N times smaller. */
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "explain.h"
#include "zeroledger/bytes.h"

const zl_option zl_explain_options[] = {
    {"phase", NULL, "NAME", "init,forward,backward,reduce,step,publish,eval,save",
     "which phase (default: the one with the largest peak)"},
    {"visit", NULL, "NAME", "cold,cold.later,steady,steady.later",
     "which visit of it (default: the largest)"},
    {"at", NULL, "NAME", "peak,end", "the phase's peak, or what is live when it ends"},
    {"gpu", NULL, "NAME", NULL,
     "whose constants the whole GPU (--backend cuda), whose kernels a framework is predicted with"},
    {"bars", NULL, "NAME", "auto,always,never",
     "bars in proportion to the bytes; auto draws them on a terminal"},
    {0},
};

enum { SYMBOLS_MAX = 32 };

typedef struct answer {
    const zl_ledger *ledger;
    zl_terms terms;
    zl_symbol symbol[SYMBOLS_MAX];
    size_t symbols;
    zl_shrinks shrinks;
    zl_device_answer device;
} answer;

static zl_status absent(const zl_ledger *ledger, const char *what, zl_err *err)
{
    char cells[400];
    size_t used = 0;
    for (int i = 0; i < ZL_PHASE_COUNT * ZL_VISIT_COUNT && used < sizeof cells; i++) {
        const zl_phase phase = (zl_phase)(i / ZL_VISIT_COUNT);
        const zl_visit visit = (zl_visit)(i % ZL_VISIT_COUNT);
        if (zl_ledger_at(ledger, visit, phase)->present) {
            const int more =
                snprintf(cells + used, sizeof cells - used, "%s%s %s", used == 0 ? "" : ", ",
                         zl_phase_name(phase), zl_visit_name(visit));
            used += more > 0 ? (size_t)more : 0;
        }
    }
    return zl_fail(err, ZL_E_USAGE, "%s does not occur in this run; those that do: %s", what,
                   cells);
}

static zl_status choose(const zl_args *args, const zl_ledger *ledger, zl_visit *visit,
                        zl_phase *phase, zl_err *err)
{
    const char *phase_name = zl_args_value(args, "phase");
    const char *visit_name = zl_args_value(args, "visit");
    zl_largest_cell(ledger, visit, phase);
    if (phase_name != NULL) {
        if (!zl_phase_find(phase_name, phase) || !zl_largest_visit(ledger, *phase, visit)) {
            return absent(ledger, phase_name, err);
        }
    }
    if (visit_name != NULL) {
        char what[64];
        snprintf(what, sizeof what, "%s %s", zl_phase_name(*phase), visit_name);
        if (!zl_visit_find(visit_name, visit) || !zl_ledger_at(ledger, *visit, *phase)->present) {
            return absent(ledger, what, err);
        }
    }
    return ZL_OK;
}

static void total_row(zl_table *table, const zl_view *view, const char *name, uint64_t bytes)
{
    zl_table_text(table, "%s", name);
    zl_table_text(table, "%s", "");
    zl_table_text(table, "%s", "");
    zl_table_text(table, "%s", "");
    zl_table_count(table, bytes);
    zl_table_text(table, "%s", zl_bytes_in(view, bytes).text);
    zl_table_text(table, "%s", "");
    zl_table_text(table, "%s", "");
    if (view->bars) {
        zl_table_count(table, 0);
    }
}

static zl_status print_terms(zl_page *page, const answer *a, zl_err *err)
{
    const uint64_t total = a->terms.total[ZL_REQUESTED];
    static const char *const titles[] = {"buffer", "kind", "formula", "in numbers", "bytes"};
    zl_table *table = zl_table_new();
    for (size_t c = 0; c < sizeof titles / sizeof titles[0]; c++) {
        zl_table_column(table, titles[c], c < 4 ? ZL_LEFT : ZL_RIGHT);
    }
    zl_table_column(table, zl_byte_unit_name(page->view->unit), ZL_RIGHT);
    zl_table_column(table, "share", ZL_RIGHT);
    zl_table_column(table, "per rank", ZL_LEFT);
    if (page->view->bars) {
        zl_table_column(table, "bytes", ZL_BAR);
    }
    for (size_t i = 0; i < a->terms.count; i++) {
        const zl_term *term = &a->terms.term[i];
        zl_table_text(table, "%s", zl_buf_name(term->buffer));
        zl_table_text(table, "%s", zl_kind_name(zl_buf_kind(term->buffer)));
        zl_table_text(table, "%s", term->symbols);
        zl_table_text(table, "%s", term->numbers);
        zl_table_count(table, term->bytes);
        zl_table_text(table, "%s", zl_bytes_in(page->view, term->bytes).text);
        zl_table_text(table, "%s", zl_percent(term->bytes, total).text);
        zl_table_text(table, "%s", term->shards ? "1/N" : "whole");
        if (page->view->bars) {
            zl_table_count(table, term->bytes);
        }
    }
    total_row(table, page->view, "requested", total);
    total_row(table, page->view, "granted", a->terms.total[ZL_GRANTED]);
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

static zl_status print_symbols(zl_page *page, const answer *a, zl_err *err)
{
    zl_table *table = zl_table_new();
    zl_table_column(table, "symbol", ZL_LEFT);
    zl_table_column(table, "value", ZL_RIGHT);
    zl_table_column(table, "meaning", ZL_LEFT);
    for (size_t i = 0; i < a->symbols; i++) {
        zl_table_text(table, "%s", a->symbol[i].name);
        zl_table_count(table, a->symbol[i].value);
        zl_table_text(table, "%s", a->symbol[i].text);
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

static zl_status fill_page(zl_page *page, const answer *a, zl_err *err)
{
    zl_page_run(page, &a->ledger->run, "");
    zl_page_break(page);
    zl_page_say(page, "%s of %s: %s at: %s.", a->terms.end ? "End" : "Peak",
                zl_cell_label(a->terms.visit, a->terms.phase).text,
                zl_bytes_exact(page->view, a->terms.total[ZL_GRANTED]).text,
                a->terms.count > 0 ? a->terms.term[0].instant : "-");
    zl_page_say(page,
                "Terms are requested bytes and add up; granted rounds every buffer up to %s bytes.",
                zl_count(a->ledger->granule).text);
    zl_page_break(page);
    ZL_TRY(print_terms(page, a, err));
    if (page->view->format == ZL_FORMAT_CSV) {
        return ZL_OK;
    }
    zl_page_break(page);
    ZL_TRY(print_symbols(page, a, err));
    zl_page_break(page);
    ZL_TRY(zl_shrinks_print(page, &a->ledger->run, &a->shrinks, err));
    return zl_device_print(page, &a->device, err);
}

static zl_status print_page(const zl_view *view, const answer *a, zl_err *err)
{
    zl_page page;
    ZL_TRY(zl_page_open(&page, view, err));
    return zl_page_end(&page, fill_page(&page, a, err), err);
}

static void json_terms(const answer *a, zl_json_writer *w)
{
    zl_json_begin_array(w, "terms");
    for (size_t i = 0; i < a->terms.count; i++) {
        const zl_term *term = &a->terms.term[i];
        zl_json_begin_object(w, NULL);
        zl_json_put_string(w, "buffer", zl_buf_name(term->buffer));
        zl_json_put_string(w, "kind", zl_kind_name(zl_buf_kind(term->buffer)));
        zl_json_put_string(w, "formula", term->symbols);
        zl_json_put_string(w, "numbers", term->numbers);
        zl_json_put_u64(w, "count", term->count);
        zl_json_put_u64(w, "each", term->each);
        zl_json_put_u64(w, "bytes", term->bytes);
        zl_json_put_u64(w, "share_ppm", zl_ppm(term->bytes, a->terms.total[ZL_REQUESTED]));
        zl_json_put_bool(w, "shards", term->shards);
        zl_json_end(w);
    }
    zl_json_end(w);
}

static zl_status print_json(const zl_view *view, const answer *a, zl_err *err)
{
    char text[512];
    char id[ZL_RUN_ID_SIZE];
    zl_json_writer *w = zl_json_writer_new();
    if (w == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    zl_run_describe(&a->ledger->run, text, sizeof text);
    zl_run_id(&a->ledger->run, id);
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", "zeroledger.terms/1");
    zl_json_put_string(w, "run_id", id);
    zl_json_put_string(w, "run", text);
    zl_json_put_string(w, "visit", zl_visit_name(a->terms.visit));
    zl_json_put_string(w, "phase", zl_phase_name(a->terms.phase));
    zl_json_put_string(w, "at", a->terms.end ? "end" : "peak");
    zl_json_put_string(w, "instant", a->terms.count > 0 ? a->terms.term[0].instant : "");
    zl_json_put_u64(w, "requested", a->terms.total[ZL_REQUESTED]);
    zl_json_put_u64(w, "granted", a->terms.total[ZL_GRANTED]);
    json_terms(a, w);
    zl_json_begin_array(w, "symbols");
    for (size_t i = 0; i < a->symbols; i++) {
        zl_json_begin_object(w, NULL);
        zl_json_put_string(w, "name", a->symbol[i].name);
        zl_json_put_u64(w, "value", a->symbol[i].value);
        zl_json_put_string(w, "text", a->symbol[i].text);
        zl_json_end(w);
    }
    zl_json_end(w);
    zl_shrinks_json(&a->shrinks, w);
    zl_device_json(&a->device, w);
    zl_json_end(w);
    const zl_status status = zl_json_writer_save(w, view->out, err);
    zl_json_writer_free(w);
    return status;
}

static zl_status answer_fill(const zl_args *args, const zl_ledger *ledger, answer *a, zl_err *err)
{
    zl_visit visit = ZL_VISIT_COLD;
    zl_phase phase = ZL_PHASE_INIT;
    ZL_TRY(choose(args, ledger, &visit, &phase, err));
    a->ledger = ledger;
    const char *at = zl_args_value(args, "at");
    const bool end = at != NULL && strcmp(at, "end") == 0;
    ZL_TRY(zl_terms_get(ledger, visit, phase, end, &a->terms, err));
    a->symbols = zl_symbols_used(&ledger->run, &a->terms, a->symbol, SYMBOLS_MAX);
    ZL_TRY(zl_device_ask(args, &ledger->run, &a->device, err));
    return zl_shrinks_get(ledger, &a->shrinks, err);
}

zl_status zl_cmd_explain(const zl_args *args, zl_err *err)
{
    zl_run run;
    zl_ledger *ledger = NULL;
    ZL_TRY(zl_args_run(args, &run, err));
    if (run.framework != ZL_FRAMEWORK_NATIVE) {
        return zl_explain_framework(args, &run, err);
    }
    ZL_TRY(zl_predicted(&run, 0, &ledger, err));
    answer *a = calloc(1, sizeof *a);
    if (a == NULL) {
        zl_ledger_free(ledger);
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    zl_status status = answer_fill(args, ledger, a, err);
    if (status == ZL_OK) {
        status = args->view.format == ZL_FORMAT_JSON ? print_json(&args->view, a, err)
                                                     : print_page(&args->view, a, err);
    }
    free(a);
    zl_ledger_free(ledger);
    return status;
}
