#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/parts.h"
#include "svg/svg.h"
#include "zeroledger/bytes.h"

/* Fill, and class of words on it. Relatives have related hues; labels tell them apart. */
static const struct {
    const char *fill;
    const char *words;
} look[ZL_KIND_COUNT] = {
    [ZL_KIND_PARAM] = {"#0072B2", "on w m"},     [ZL_KIND_PARAM_FULL] = {"#56B4E9", "on m"},
    [ZL_KIND_MASTER] = {"#7A68B3", "on w m"},    [ZL_KIND_GRAD] = {"#C2500A", "on w m"},
    [ZL_KIND_GRAD_FULL] = {"#F2A25C", "on m"},   [ZL_KIND_OPT] = {"#CC79A7", "on m"},
    [ZL_KIND_ACT] = {"#009E73", "on m"},         [ZL_KIND_ACT_CKPT] = {"#7FD0B5", "on m"},
    [ZL_KIND_TEMP] = {"#F0E442", "on m"},        [ZL_KIND_LOGITS] = {"#E69F00", "on m"},
    [ZL_KIND_COMM_GATHER] = {"#B08D57", "on m"}, [ZL_KIND_COMM_REDUCE] = {"#C9B18A", "on m"},
    [ZL_KIND_WORK] = {"#999999", "on m"},        [ZL_KIND_INPUT] = {"#BBBBBB", "on m"},
    [ZL_KIND_CONST] = {"#8C8C8C", "on m"},       [ZL_KIND_SLACK] = {"#A0A0A0", "on m"},
    [ZL_KIND_LIB] = {"#777777", "on w m"},
};

enum { WIDTH = 960, LEFT = 150, RIGHT = 860, ROW = 21, GAP = 12, TOP = 66 };

typedef struct plot {
    zv_svg svg;
    double scale; /* pixels per byte */
    double y;
    uint64_t most;
    bool used[ZL_KIND_COUNT];
} plot;

static double words_width(const char *words)
{
    return 6.6 * (double)strlen(words) + 6;
}

static void bar(plot *p, const zl_cell *cell)
{
    double x = LEFT;
    for (int k = 0; k < ZL_KIND_COUNT; k++) {
        const uint64_t bytes = zl_cell_kind_at_peak(cell, (zl_kind)k, ZL_REQUESTED);
        if (bytes == 0) {
            continue;
        }
        const double width = (double)bytes * p->scale;
        const char *const name = zl_kind_name((zl_kind)k);
        p->used[k] = true;
        zv_svg_rect(&p->svg, (zv_box){x, p->y, fmax(width - 0.8, 0.4), ROW - 4}, look[k].fill);
        if (width > words_width(name)) {
            zv_svg_text(&p->svg, x + width / 2, p->y + 12.5, look[k].words, name);
        }
        x += width;
    }
    zv_svg_text(&p->svg, x + 6, p->y + 12.5, "s", zv_mib(cell->peak[ZL_REQUESTED]).text);
}

static void rows(plot *p, const zv_family *family)
{
    for (size_t i = 0; zv_report_phase(i) != ZL_PHASE_COUNT; i++) {
        const zl_phase phase = zv_report_phase(i);
        bool titled = false;
        for (size_t stage = 0; stage < ZV_STAGES; stage++) {
            zl_visit visit;
            char label[24];
            if (family->ledger[stage] == NULL ||
                !zv_main_visit(family->ledger[stage], phase, &visit)) {
                continue;
            }
            if (!titled) {
                zv_svg_text(&p->svg, 12, p->y + 12.5, "b", zl_phase_name(phase));
                titled = true;
            }
            snprintf(label, sizeof label, "stage %zu", stage);
            zv_svg_text(&p->svg, LEFT - 8, p->y + 12.5, "s e", label);
            bar(p, zl_ledger_at(family->ledger[stage], visit, phase));
            p->y += ROW;
        }
        p->y += titled ? GAP : 0;
    }
}

static void grid(plot *p, double bottom)
{
    const double mib = 1048576;
    const double step = zv_nice_step((double)p->most / mib, 5);
    for (int i = 0; i * step * mib <= (double)p->most * 1.0001; i++) {
        const double x = LEFT + i * step * mib * p->scale;
        char label[32];
        snprintf(label, sizeof label, "%.4g%s", i * step, i == 0 ? " MiB" : "");
        zv_svg_line(&p->svg, (zv_point){x, TOP - 8}, (zv_point){x, bottom}, "grid");
        zv_svg_text(&p->svg, x, TOP - 14, "s m", label);
    }
}

static void legend(plot *p)
{
    double x = LEFT;
    double y = p->y + 8;
    for (int k = 0; k < ZL_KIND_COUNT; k++) {
        const char *const name = zl_kind_name((zl_kind)k);
        if (!p->used[k]) {
            continue;
        }
        if (x + words_width(name) + 26 > WIDTH) {
            x = LEFT;
            y += 20;
        }
        zv_svg_rect(&p->svg, (zv_box){x, y, 12, 12}, look[k].fill);
        zv_svg_text(&p->svg, x + 17, y + 10.5, "s", name);
        x += words_width(name) + 26;
    }
}

/* Rows there will be, and the largest peak. */
static size_t survey(const zv_family *family, uint64_t *most, size_t *phases)
{
    size_t n = 0;
    *most = 1;
    *phases = 0;
    for (size_t i = 0; zv_report_phase(i) != ZL_PHASE_COUNT; i++) {
        const size_t before = n;
        for (size_t stage = 0; stage < ZV_STAGES; stage++) {
            const zl_ledger *const ledger = family->ledger[stage];
            const uint64_t peak = ledger == NULL ? 0 : zv_main_peak(ledger, zv_report_phase(i));
            *most = zl_max(*most, peak);
            n += peak > 0;
        }
        *phases += n > before;
    }
    return n;
}

zl_status zv_figure_peaks(const zv_data *data, const char *path, zl_err *err)
{
    plot p = {.y = TOP};
    size_t phases;
    char run[256], description[640];
    const size_t n = survey(&data->family, &p.most, &phases);
    const double bottom = TOP + (double)(n * ROW) + (double)(phases * GAP);
    zl_run_describe(&data->family.run, run, sizeof run);
    snprintf(description, sizeof description,
             "Measured requested bytes on rank 0 at the peak of each phase, stacked by kind, one "
             "bar for "
             "each stage. Cases: %s, and the same in the other stages. The largest peak is %s MiB.",
             run, zv_mib(p.most).text);
    const zv_svg_page page = {WIDTH, bottom + 56, "Memory at the peak of each phase, by stage",
                              description};
    p.scale = (RIGHT - LEFT) / (double)p.most;
    ZL_TRY(zv_svg_open(&p.svg, &page, err));
    zv_svg_text(&p.svg, 12, 24, "b", page.title);
    grid(&p, bottom - GAP);
    rows(&p, &data->family);
    legend(&p);
    return zv_svg_close(&p.svg, path, err);
}
