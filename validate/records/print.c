#include "records/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/text.h"

static const char *stage_text(const zv_judged *record)
{
    return record->stage[0] == '\0' ? "-" : record->stage;
}

void zv_print_rows(FILE *out, const zv_judgement *all)
{
    for (size_t i = 0; i < all->records; i++) {
        const zv_judged *const record = &all->record[i];
        const char *const unjudged = zv_unjudged_reason(record);
        fprintf(out, "%s%s%s%s\n", record->id, unjudged == NULL ? "" : " (",
                unjudged == NULL ? "" : unjudged, unjudged == NULL ? "" : ")");
        if (!record->modelled) {
            fprintf(out, "  not modelled: %s\n\n", record->why);
            continue;
        }
        fprintf(out, "  %4s %4s %-18s %-15s %15s %15s %13s %9s\n", "rank", "step", "at", "quantity",
                "measured", "predicted", "error", "%");
        for (size_t r = 0; r < record->rows; r++) {
            const zv_row *const row = &record->row[r];
            fprintf(out,
                    "  %4" PRIu64 " %4" PRId64 " %-18s %-15s %15" PRIu64 " %15" PRIu64 " %13" PRId64
                    " %9.4f%s\n",
                    row->rank, row->step, row->at, zv_quantity_name(row->quantity), row->measured,
                    row->predicted, zv_row_error(row), zv_row_percent(row),
                    row->judged ? "" : "  not judged");
        }
        fputc('\n', out);
    }
}

static void print_group(FILE *out, const zv_group *group)
{
    fprintf(out, "%s %s, stage %s: %zu records", group->first->framework, group->first->version,
            stage_text(group->first), group->records);
    if (group->modelled < group->records) {
        fprintf(out, ", %zu not modelled", group->records - group->modelled);
    }
    fputc('\n', out);
    for (int q = 0; q < ZV_QUANTITY_COUNT; q++) {
        const zv_spread *const s = &group->spread[q];
        if (s->rows > 0) {
            fprintf(out, "  %-15s mean %8.4f %%  max %8.4f %%  exact at %5zu of %5zu marks\n",
                    zv_quantity_name((zv_quantity)q), s->mean, s->max, s->exact, s->rows);
        }
    }
}

static void print_figures(FILE *out, const zv_judgement *all)
{
    zv_figures figures;
    zv_figures_of(all, &figures);
    for (int f = 0; f < ZV_FIGURE_COUNT; f++) {
        const zv_figure_info *const info = zv_figure_describe((zv_figure)f);
        if (figures.known[f]) {
            fprintf(out, "%-32s %9.4f %%  (aim: at %s %g %%)\n", info->name, figures.value[f],
                    info->at_least ? "least" : "most", info->aim);
        }
    }
}

zl_status zv_print_summary(FILE *out, const zv_judgement *all, zl_err *err)
{
    zv_group *group = NULL;
    size_t groups = 0;
    ZL_TRY(zv_groups_of(all, &group, &groups, err));
    for (size_t i = 0; i < groups; i++) {
        print_group(out, &group[i]);
    }
    free(group);
    fputc('\n', out);
    print_figures(out, all);
    return ZL_OK;
}

/* "0-3", "1, 3": the bits that are set, less `first`. */
static void ranges(uint64_t bits, int first, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < 64 && used < size; i++) {
        int end = i;
        while (end < 64 && ((bits >> end) & 1) != 0) {
            end++;
        }
        if (end > i) {
            const char *const comma = used == 0 ? "" : ", ";
            const int n = end - i == 1
                              ? snprintf(text + used, size - used, "%s%d", comma, i - first)
                              : snprintf(text + used, size - used, "%s%d..%d", comma, i - first,
                                         end - 1 - first);
            used += n < 0 ? 0 : (size_t)n;
            i = end;
        }
    }
}

void zv_print_misses(FILE *out, const zv_miss *miss, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char steps[64], ranks[64];
        const zv_row *const row = miss[i].row;
        ranges(miss[i].steps, 1, steps, sizeof steps);
        ranges(miss[i].ranks, 0, ranks, sizeof ranks);
        fprintf(out,
                "%s rank %s step %s %s %s: measured %" PRIu64 ", predicted %" PRIu64
                ", error %" PRId64 " (%.4f %%): %s\n",
                miss[i].record->id, ranks, steps, row->at, zv_quantity_name(row->quantity),
                row->measured, row->predicted, zv_row_error(row), zv_row_percent(row),
                miss[i].cause == NULL ? "unexplained" : miss[i].cause);
    }
    fprintf(out, "%zu misses\n", count);
}

/* ---- JSON ---- */

static void put_row(zl_json_writer *w, const zv_row *row)
{
    zl_json_begin_object(w, NULL);
    zl_json_put_u64(w, "rank", row->rank);
    if (row->step < 0) {
        zl_json_put_real(w, "step", (double)row->step);
    } else {
        zl_json_put_u64(w, "step", (uint64_t)row->step);
    }
    zl_json_put_string(w, "at", row->at);
    zl_json_put_string(w, "quantity", zv_quantity_name(row->quantity));
    zl_json_put_u64(w, "measured", row->measured);
    zl_json_put_u64(w, "predicted", row->predicted);
    zl_json_end(w);
}

zl_status zv_print_json(const zv_judgement *all, zl_err *err)
{
    zl_json_writer *const w = zl_json_writer_new();
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", "zeroledger.records/1");
    zl_json_begin_array(w, "records");
    for (size_t i = 0; i < all->records; i++) {
        const zv_judged *const record = &all->record[i];
        zl_json_begin_object(w, NULL);
        zl_json_put_string(w, "id", record->id);
        zl_json_put_string(w, "status", record->modelled ? "ok" : "not modelled");
        zl_json_put_string(w, "why", record->why);
        zl_json_begin_array(w, "rows");
        for (size_t r = 0; r < record->rows; r++) {
            put_row(w, &record->row[r]);
        }
        zl_json_end(w);
        zl_json_end(w);
    }
    zl_json_end(w);
    zl_json_end(w);
    const zl_status status = zl_json_writer_save(w, "-", err);
    zl_json_writer_free(w);
    return status;
}

/* ---- the page ---- */

static const char page_head[] = "# How accurate the prediction of PyTorch and DeepSpeed is\n"
                                "\n"
                                "Written by `zl-validate records --format md` from the "
                                "measurements in `validate/records/`; a test\n"
                                "keeps it up to date. Nothing of a measurement goes into a "
                                "prediction but the setup: configuration,\n"
                                "versions, the size of the GPU, what its context alone takes, and "
                                "which steps fp16 overflow skipped.\n";

static const char page_figures_head[] = "\n"
                                        "## Figures\n"
                                        "\n"
                                        "| figure | | today | aim |\n"
                                        "|---|---|---|---|\n";

static const char page_groups[] = "\n"
                                  "## By framework, version and stage\n"
                                  "\n"
                                  "Mean / largest error in percent of the measured bytes.\n"
                                  "\n"
                                  "| framework | version | stage | records | requested | peak "
                                  "requested | allocated | peak allocated |"
                                  " reserved | peak reserved | device |\n"
                                  "|---|---|---|---|---|---|---|---|---|---|---|\n";

static const char page_misses[] =
    "\n"
    "## Every mark that misses\n"
    "\n"
    "Requested and allocated bytes off by more than 1 KiB, reserved bytes off at all, the device "
    "by more\n"
    "than 2 %, bytes of the host by more than 5 %. Marks with the same error share a row.\n"
    "\n";

static const char page_columns[] =
    "\n"
    "| record | rank | quantity | marks, each with its steps | error, bytes | at most % | cause |\n"
    "|---|---|---|---|---|---|---|\n";

static void page_files(FILE *out, const zv_judgement *all)
{
    const char *last = "";
    for (size_t i = 0; i < all->records; i++) {
        if (strcmp(all->record[i].file, last) != 0) {
            fprintf(out, "%s `%s`", i == 0 ? "\nRuns of" : ",", all->record[i].file);
            last = all->record[i].file;
        }
    }
    fputs(".\n", out);
}

static void page_figures(FILE *out, const zv_judgement *all)
{
    zv_figures figures;
    fputs(page_figures_head, out);
    zv_figures_of(all, &figures);
    for (int f = 0; f < ZV_FIGURE_COUNT; f++) {
        const zv_figure_info *const info = zv_figure_describe((zv_figure)f);
        if (figures.known[f]) {
            fprintf(out, "| `%s` | %s | %.3f %% | at %s %g %% |\n", info->name, info->text,
                    figures.value[f], info->at_least ? "least" : "most", info->aim);
        }
    }
}

static void page_group(FILE *out, const zv_group *group)
{
    fprintf(out, "| %s | %s | %s | %zu |", group->first->framework, group->first->version,
            stage_text(group->first), group->records);
    for (int q = 0; q <= ZV_DEVICE_USED; q++) {
        const zv_spread *const spread = &group->spread[q];
        if (spread->rows > 0) {
            fprintf(out, " %.3f / %.3f |", spread->mean, spread->max);
        } else {
            fputs(" - |", out);
        }
    }
    fputc('\n', out);
}

static void page_notes(FILE *out, const zv_judgement *all)
{
    fputs("\n## Left out\n\n", out);
    for (size_t i = 0; i < all->records; i++) {
        const char *const reason = zv_unjudged_reason(&all->record[i]);
        if (reason != NULL) {
            fprintf(out, "- `%s`: %s\n", all->record[i].id, reason);
        }
        if (!all->record[i].modelled) {
            fprintf(out, "- `%s`: not modelled: %s\n", all->record[i].id, all->record[i].why);
        }
    }
}

/* The causes that occur, under their numbers. */
static void page_causes(FILE *out, const zv_miss *miss, size_t count)
{
    size_t last = 0;
    for (bool more = true; more;) {
        const zv_miss *next = NULL;
        for (size_t i = 0; i < count; i++) {
            if (miss[i].number > last && (next == NULL || miss[i].number < next->number)) {
                next = &miss[i];
            }
        }
        more = next != NULL;
        if (more) {
            fprintf(out, "%zu. %s\n", next->number, next->cause);
            last = next->number;
        }
    }
}

/* The same error of the same figure on the same ranks, at another mark. */
static bool joins(const zv_miss *a, const zv_miss *b)
{
    return a->record == b->record && a->row->quantity == b->row->quantity && a->ranks == b->ranks &&
           a->number == b->number && zv_row_error(a->row) == zv_row_error(b->row);
}

/* One row for the miss and all later ones that join it. */
static void page_miss(FILE *out, const zv_miss *miss, size_t count)
{
    char ranks[64], cause[32] = "unexplained";
    double percent = 0;
    ranges(miss->ranks, 0, ranks, sizeof ranks);
    if (miss->cause != NULL) {
        snprintf(cause, sizeof cause, "%zu", miss->number);
    }
    fprintf(out, "| `%s` | %s | %s |", miss->record->id, ranks,
            zv_quantity_name(miss->row->quantity));
    for (size_t i = 0; i < count; i++) {
        if (joins(miss, &miss[i])) {
            char steps[64];
            ranges(miss[i].steps, 1, steps, sizeof steps);
            fprintf(out, "%s %s %s", i == 0 ? "" : ";", miss[i].row->at, steps);
            percent = fmax(percent, zv_row_percent(miss[i].row));
        }
    }
    fprintf(out, " | %" PRId64 " | %.4f | %s |\n", zv_row_error(miss->row), percent, cause);
}

static void page_table(FILE *out, const zv_miss *miss, size_t count)
{
    fputs(page_columns, out);
    for (size_t i = 0; i < count; i++) {
        bool listed = false;
        for (size_t k = 0; k < i && !listed; k++) {
            listed = joins(&miss[k], &miss[i]);
        }
        if (!listed) {
            page_miss(out, &miss[i], count - i);
        }
    }
}

zl_status zv_print_page(FILE *out, const zv_judgement *all, const zv_miss *miss, size_t count,
                        zl_err *err)
{
    zv_group *group = NULL;
    size_t groups = 0;
    ZL_TRY(zv_groups_of(all, &group, &groups, err));
    fputs(page_head, out);
    page_files(out, all);
    page_figures(out, all);
    fputs(page_groups, out);
    for (size_t i = 0; i < groups; i++) {
        page_group(out, &group[i]);
    }
    free(group);
    page_notes(out, all);
    fputs(page_misses, out);
    page_causes(out, miss, count);
    page_table(out, miss, count);
    return ZL_OK;
}
