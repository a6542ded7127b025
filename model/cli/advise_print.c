/* The page of zl advise. */
#include <inttypes.h>
#include <string.h>

#include "advise.h"
#include "explain.h"
#include "zeroledger/bytes.h"

enum { LABEL_SIZE = 512 };

static const char *const prices[ZL_PRICE_COUNT] = {
    [ZL_PRICE_NONE] = "same numbers",
    [ZL_PRICE_TIME] = "same result, more time",
    [ZL_PRICE_RANKS] = "more GPUs",
    [ZL_PRICE_RESULT] = "another result",
};

const char *zl_price_name(zl_price price)
{
    return prices[price];
}

/* "reduce_bucket_size 5e7 and --recompute full" */
static void set_label(const zl_set *set, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < set->count && used < size; i++) {
        char label[160];
        zl_change_label(&set->change[i], label, sizeof label);
        used += (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : " + ", label);
    }
}

/* How a cost changes: "+33.3 %" of what it was, or "+1.5" where there was none. */
static zl_figure change_of(const zl_view *view, uint64_t before, uint64_t after)
{
    zl_figure figure = {"-"};
    const bool more = after > before;
    if (before == after || zl_poisoned(before) || zl_poisoned(after)) {
        return figure;
    }
    const uint64_t difference = more ? zl_sub(after, before) : zl_sub(before, after);
    if (before == 0) {
        snprintf(figure.text, sizeof figure.text, "+%.40s", zl_bytes_named(view, difference).text);
    } else {
        snprintf(figure.text, sizeof figure.text, "%s%.40s", more ? "+" : "-",
                 zl_percent(difference, before).text);
    }
    return figure;
}

/* ---- tables ---- */

static void head_row(zl_table *table, const zl_asked *asked)
{
    zl_table_column(table, "", ZL_RIGHT);
    zl_table_column(table, "change", ZL_LEFT);
    zl_table_column(table, "peak", ZL_RIGHT);
    zl_table_column(table, "saves", ZL_RIGHT);
    zl_table_column(table, "largest in", ZL_LEFT);
    if (!asked->native) {
        zl_table_column(table, "reserved", ZL_RIGHT);
        zl_table_column(table, "saves", ZL_RIGHT);
    }
    if (asked->limited) {
        zl_table_column(table, "fits", ZL_LEFT);
    }
    zl_table_column(table, "compute", ZL_RIGHT);
    zl_table_column(table, "network", ZL_RIGHT);
    zl_table_column(table, "host", ZL_RIGHT);
    zl_table_column(table, "asks for", ZL_LEFT);
}

/* Less, or more: a change may lower what is allocated and raise what is reserved. */
static zl_figure saves(const zl_view *view, uint64_t before, uint64_t after)
{
    zl_figure figure;
    const zl_figure grown = zl_bytes_in(view, zl_saved(after, before));
    if (after > before) {
        snprintf(figure.text, sizeof figure.text, "-%.60s", grown.text);
        return figure;
    }
    return zl_bytes_in(view, zl_saved(before, after));
}

static void set_row(zl_table *table, const zl_page *page, const zl_asked *asked, size_t number,
                    const zl_set *set)
{
    char label[LABEL_SIZE];
    const zl_view *view = page->view;
    const zl_outlook *now = &asked->now;
    const zl_outlook *then = &set->outlook;
    set_label(set, label, sizeof label);
    zl_table_count(table, number);
    zl_table_text(table, "%s", label);
    zl_table_text(table, "%s", zl_bytes_in(view, then->peak).text);
    zl_table_text(table, "%s", saves(view, now->peak, then->peak).text);
    zl_table_text(table, "%s", zl_asked_phase(asked, then->worst));
    if (!asked->native) {
        zl_table_text(table, "%s", zl_bytes_in(view, then->reserved).text);
        zl_table_text(table, "%s", saves(view, now->reserved, then->reserved).text);
    }
    if (asked->limited) {
        zl_table_text(table, "%s", then->fits ? "yes" : "no");
    }
    zl_table_text(table, "%s", change_of(view, now->load.flops, then->load.flops).text);
    zl_table_text(table, "%s", change_of(view, now->load.network, then->load.network).text);
    zl_table_text(table, "%s", change_of(view, now->load.host, then->load.host).text);
    zl_table_text(table, "%s", zl_price_name(set->price));
}

static zl_status print_rows(zl_page *page, const zl_asked *asked, const zl_set *set, size_t count,
                            size_t first, zl_err *err)
{
    zl_table *table = zl_table_new();
    head_row(table, asked);
    for (size_t i = 0; i < count; i++) {
        set_row(table, page, asked, first + i, &set[i]);
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

/* ---- words ---- */

static void say_now(zl_page *page, const zl_asked *asked)
{
    const zl_view *view = page->view;
    const zl_outlook *now = &asked->now;
    const char *phase = zl_asked_phase(asked, now->worst);
    if (asked->limited) {
        zl_capacity_say(page, &asked->c);
    }
    if (asked->native) {
        zl_page_say(page, "Largest peak: %s, in %s", zl_bytes_exact(view, now->peak).text, phase);
    } else {
        zl_page_say(
            page, "Largest peak: %s allocated, in %s; %s reserved, %s of that unused at most",
            zl_bytes_exact(view, now->peak).text, phase, zl_bytes_named(view, now->reserved).text,
            zl_bytes_named(view, zl_saved(now->reserved, now->peak)).text);
    }
    if (asked->limited) {
        zl_page_say(page, "%s", now->fits ? "It fits." : "It does not fit.");
    }
    if (!zl_poisoned(now->load.flops)) {
        zl_page_say(page,
                    "A step takes %s GFLOP of a rank; it sends %s, and %s go to and from the host.",
                    zl_count(zl_ceil_div(now->load.flops, 1000000000)).text,
                    zl_bytes_named(view, now->load.network).text,
                    zl_bytes_named(view, now->load.host).text);
    }
}

/* What to write for the changes of a set. */
static void say_lines(zl_page *page, const zl_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const zl_change *c = &set->change[i];
        zl_page_say(page, "    %s: %s", c->where, c->line);
        if (c->accelerate[0] != '\0') {
            zl_page_say(page, "    or in an accelerate config: %s", c->accelerate);
        }
    }
}

/* "backward 1.676, step 0.931" */
static void say_phases(zl_page *page, const zl_asked *asked, const zl_set *set)
{
    char text[256];
    const char *name = NULL;
    size_t used = 0;
    for (size_t i = 0; (name = zl_asked_phase(asked, i)) != NULL && used < sizeof text; i++) {
        const uint64_t saved = zl_saved(asked->now.phase[i], set->outlook.phase[i]);
        if (saved > 0 && set->outlook.phase[i] > 0) {
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%s %s", used == 0 ? "" : ", ",
                                 name, zl_bytes_in(page->view, saved).text);
        }
    }
    if (used > 0) {
        zl_page_say(page, "    saves at the peak of %s %s", text,
                    zl_byte_unit_name(page->view->unit));
    }
}

static void say_ones(zl_page *page, const zl_asked *asked, const zl_advice *advice)
{
    zl_page_break(page);
    zl_page_say(page, "What to write, and what is known of the cost:");
    for (size_t i = 0; i < advice->ones; i++) {
        char label[LABEL_SIZE];
        const zl_set *set = &advice->one[i];
        set_label(set, label, sizeof label);
        zl_page_break(page);
        zl_page_say(page, "%2zu. %s: %s", i + 1, label, set->change[0].knob->cost);
        say_phases(page, asked, set);
        say_lines(page, set);
    }
}

static zl_status print_sets(zl_page *page, const zl_asked *asked, const zl_advice *advice,
                            zl_err *err)
{
    zl_page_break(page);
    zl_page_say(page, "Together, the fewest changes that fit:");
    zl_page_break(page);
    ZL_TRY(print_rows(page, asked, advice->set, advice->sets, advice->ones + 1, err));
    for (size_t i = 0; i < advice->sets; i++) {
        const zl_set *set = &advice->set[i];
        zl_page_break(page);
        zl_page_say(page,
                    "%2zu. Every set of at most %zu of the %zu changes that ask for no more "
                    "was predicted: none fits.",
                    advice->ones + 1 + i, set->refuted, set->from);
        say_lines(page, set);
    }
    return ZL_OK;
}

/* The largest terms of what remains. */
static zl_status say_native_terms(zl_page *page, const zl_asked *asked, const zl_set *set,
                                  zl_err *err)
{
    zl_ledger *ledger = NULL;
    zl_terms terms;
    zl_share share[ZL_SHARES_SHOWN];
    zl_visit visit = ZL_VISIT_STEADY;
    const zl_phase phase = (zl_phase)set->outlook.worst;
    ZL_TRY(zl_predicted(&set->run, asked->rank, &ledger, err));
    zl_largest_visit(ledger, phase, &visit);
    const zl_status status = zl_terms_get(ledger, visit, phase, false, &terms, err);
    zl_ledger_free(ledger);
    ZL_TRY(status);
    const size_t count = zl_terms_largest(&terms, true, share, ZL_SHARES_SHOWN);
    for (size_t i = 0; i < count; i++) {
        zl_page_say(page, "    %s %s", zl_bytes_named(page->view, share[i].bytes).text,
                    zl_buf_name(share[i].buffer));
    }
    return ZL_OK;
}

static zl_status say_walked_terms(zl_page *page, const zl_asked *asked, const zl_set *set,
                                  zl_err *err)
{
    zl_run run = set->run;
    zl_torch_run torch;
    zl_moments moments = {0};
    const zl_moment *most = NULL;
    ZL_TRY(zl_torch_run_from(&run, &torch, NULL, NULL, err));
    torch.multiprocessors = asked->torch.multiprocessors;
    torch.capability = asked->torch.capability;
    ZL_TRY(zl_torch_explain(&torch, set->outlook.rank, &moments, err));
    for (size_t i = 0; i < moments.count; i++) {
        const zl_moment *m = &moments.moment[i];
        most = most == NULL || m->mark.peak_allocated > most->mark.peak_allocated ? m : most;
    }
    for (size_t i = 0; most != NULL && i < most->peak.count && i < ZL_SHARES_SHOWN; i++) {
        zl_page_say(page, "    %s %s", zl_bytes_named(page->view, most->peak.term[i].bytes).text,
                    most->peak.term[i].name);
    }
    zl_moments_clear(&moments);
    return ZL_OK;
}

static zl_status say_rest(zl_page *page, const zl_asked *asked, const zl_advice *advice,
                          zl_err *err)
{
    const zl_set *all = advice->all;
    zl_page_break(page);
    if (!all->outlook.predicted) {
        zl_page_say(page, "No set of these changes fits.");
        return ZL_OK;
    }
    zl_page_say(page,
                "No set of these changes fits. All that ask for no more GPUs, together, leave %s, "
                "in %s: %s too much. Most of it:",
                zl_bytes_exact(page->view, all->outlook.peak).text,
                zl_asked_phase(asked, all->outlook.worst),
                zl_bytes_named(page->view, zl_saved(all->outlook.peak, asked->c.usable)).text);
    return asked->native ? say_native_terms(page, asked, all, err)
                         : say_walked_terms(page, asked, all, err);
}

static void say_ranks(zl_page *page, const char *how, const zl_fit *fit)
{
    if (fit->found && fit->next.tried) {
        zl_page_say(page, "%s it fits on %s GPUs: %s each; on %s it does not.", how,
                    zl_count(fit->best.value).text,
                    zl_bytes_named(page->view, fit->best.bytes).text,
                    zl_count(fit->next.value).text);
    } else if (fit->found) {
        zl_page_say(page, "%s it fits on %s GPUs: %s each.", how, zl_count(fit->best.value).text,
                    zl_bytes_named(page->view, fit->best.bytes).text);
    } else {
        zl_page_say(page, "%s no number of GPUs up to 65,536 is enough.", how);
    }
}

static void say_unmodelled(zl_page *page, const zl_asked *asked)
{
    const char *what = NULL;
    const char *why = NULL;
    for (size_t i = 0; zl_unmodelled_at(asked, i, &what, &why); i++) {
        if (i == 0) {
            zl_page_break(page);
            zl_page_say(page, "May help, but is not predicted:");
        }
        zl_page_say(page, "  %s: %s", what, why);
    }
}

static zl_status say_more(zl_page *page, const zl_asked *asked, const zl_advice *advice,
                          zl_err *err)
{
    if (advice->sets > 0) {
        ZL_TRY(print_sets(page, asked, advice, err));
    }
    if (advice->all != NULL) {
        ZL_TRY(say_rest(page, asked, advice, err));
    }
    if (advice->ranked) {
        zl_page_break(page);
        say_ranks(page, "As it is", &advice->ranks_now);
        say_ranks(page, "With every change that keeps the result", &advice->ranks_all);
    }
    say_unmodelled(page, asked);
    return ZL_OK;
}

static zl_status fill_page(zl_page *page, const zl_asked *asked, const zl_advice *advice,
                           zl_err *err)
{
    if (asked->native) {
        zl_page_run(page, &asked->run, "");
    } else {
        zl_walked_head(page, &asked->w);
    }
    zl_page_break(page);
    say_now(page, asked);
    zl_page_break(page);
    if (advice->ones == 0) {
        zl_page_say(page, "No change by itself lowers the peak by a thousandth.");
    } else {
        zl_page_say(page, "One change at a time, predicted again; %s and what a step takes more:",
                    zl_byte_unit_name(page->view->unit));
        zl_page_break(page);
        ZL_TRY(print_rows(page, asked, advice->one, advice->ones, 1, err));
        say_ones(page, asked, advice);
    }
    return say_more(page, asked, advice, err);
}

/* ---- csv: a row for every change of every set ---- */

static void csv_rows(zl_table *table, const zl_asked *asked, size_t number, const zl_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const zl_change *c = &set->change[i];
        const zl_outlook *o = &set->outlook;
        zl_table_count(table, number);
        zl_table_text(table, "%s", c->knob->name);
        zl_table_text(table, "%s", c->value);
        zl_table_text(table, "%s", c->where);
        zl_table_text(table, "%s", c->line);
        zl_table_text(table, "%s", c->options);
        zl_table_count(table, o->peak);
        zl_table_count(table, zl_saved(asked->now.peak, o->peak));
        zl_table_count(table, o->reserved);
        zl_table_text(table, "%s", zl_asked_phase(asked, o->worst));
        zl_table_text(table, "%s", !asked->limited ? "" : o->fits ? "yes" : "no");
        zl_table_text(table, "%s", zl_price_name(set->price));
    }
}

static zl_status fill_csv(zl_page *page, const zl_asked *asked, const zl_advice *advice,
                          zl_err *err)
{
    static const char *const titles[] = {"set",      "setting", "value", "where",
                                         "line",     "options", "peak",  "saved",
                                         "reserved", "phase",   "fits",  "asks_for"};
    zl_table *table = zl_table_new();
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
        zl_table_column(table, titles[i], ZL_LEFT);
    }
    for (size_t i = 0; i < advice->ones; i++) {
        csv_rows(table, asked, i + 1, &advice->one[i]);
    }
    for (size_t i = 0; i < advice->sets; i++) {
        csv_rows(table, asked, advice->ones + 1 + i, &advice->set[i]);
    }
    const zl_status status = zl_page_table(page, table, err);
    zl_table_free(table);
    return status;
}

zl_status zl_advice_page(const zl_args *args, const zl_asked *asked, const zl_advice *advice,
                         zl_err *err)
{
    zl_page page;
    ZL_TRY(zl_page_open(&page, &args->view, err));
    return zl_page_end(&page,
                       args->view.format == ZL_FORMAT_CSV ? fill_csv(&page, asked, advice, err)
                                                          : fill_page(&page, asked, advice, err),
                       err);
}
