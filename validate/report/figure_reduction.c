#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/parts.h"
#include "svg/svg.h"

enum {
    POINTS = 7,
    PANELS = 5,
    WIDTH = 960,
    CELL_W = 310,
    CELL_H = 250,
    TOP = 52,
    PLOT_W = 200,
    PLOT_H = 165
};

static const char *const colours[ZV_STAGES] = {"#8C8C8C", "#C77DAE", "#009E73", "#2F8FCB"};

/* Peaks of every stage at 1, 2, 4, ... ranks. */
typedef struct plot {
    zv_svg svg;
    const zv_data *data;
    uint64_t peak[ZV_STAGES][POINTS][ZL_PHASE_COUNT];
    double low; /* logarithms to base 2 of the vertical axis */
    double high;
} plot;

static double factor(const plot *p, size_t stage, int point, zl_phase phase)
{
    return (double)p->peak[0][0][phase] / (double)p->peak[stage][point][phase];
}

static zl_status predict_all(plot *p, zl_err *err)
{
    zl_run run = p->data->family.run;
    for (run.stage = 0; run.stage < ZV_STAGES; run.stage++) {
        for (int i = 0; i < POINTS; i++) {
            run.ranks = UINT64_C(1) << i;
            ZL_TRY(zv_predicted_peaks(&run, p->peak[run.stage][i], err));
        }
    }
    double least = 1;
    double most = 2;
    for (size_t s = 0; s < ZV_STAGES; s++) {
        for (int i = 0; i < POINTS * PANELS; i++) {
            const double f = factor(p, s, i / PANELS, zv_report_phase((size_t)(i % PANELS)));
            least = fmin(least, f);
            most = fmax(most, f);
        }
    }
    p->low = floor(log2(least) * 2) / 2;
    p->high = ceil(log2(most));
    return ZL_OK;
}

static zv_point place(const plot *p, zv_point corner, double ranks, double reduction)
{
    return (zv_point){corner.x + log2(ranks) / (POINTS - 1) * PLOT_W,
                      corner.y + PLOT_H - (log2(reduction) - p->low) / (p->high - p->low) * PLOT_H};
}

static void frame(plot *p, zv_point corner, const char *name)
{
    for (int i = 0; i < POINTS; i++) {
        char label[16];
        const zv_point at = place(p, corner, exp2(i), 1);
        snprintf(label, sizeof label, "%d", 1 << i);
        zv_svg_line(&p->svg, (zv_point){at.x, corner.y}, (zv_point){at.x, corner.y + PLOT_H},
                    "grid");
        zv_svg_text(&p->svg, at.x, corner.y + PLOT_H + 16, "s m", label);
    }
    for (int e = (int)ceil(p->low); e <= (int)p->high; e++) {
        char label[16];
        const double y = place(p, corner, 1, exp2(e)).y;
        snprintf(label, sizeof label, "%.4gx", exp2(e));
        zv_svg_line(&p->svg, (zv_point){corner.x, y}, (zv_point){corner.x + PLOT_W, y},
                    e == 0 ? "axis" : "grid");
        zv_svg_text(&p->svg, corner.x - 6, y + 4, "s e", label);
    }
    zv_svg_text(&p->svg, corner.x, corner.y - 8, "b", name);
}

/* Labels at the right ends of the lines, pushed apart where they would overlap. */
static void end_labels(plot *p, zv_point corner, zl_phase phase)
{
    size_t order[ZV_STAGES] = {0, 1, 2, 3};
    double y[ZV_STAGES];
    for (size_t s = 0; s < ZV_STAGES; s++) {
        y[s] = place(p, corner, 1, factor(p, s, POINTS - 1, phase)).y;
    }
    for (size_t i = 1; i < ZV_STAGES; i++) {
        for (size_t k = i; k > 0 && y[order[k]] > y[order[k - 1]]; k--) {
            const size_t other = order[k];
            order[k] = order[k - 1];
            order[k - 1] = other;
        }
    }
    double below = corner.y + PLOT_H + 14;
    for (size_t i = 0; i < ZV_STAGES; i++) { /* from the lowest line upwards */
        const size_t s = order[i];
        char label[24];
        const double at = fmin(y[s], below - 14);
        below = at;
        snprintf(label, sizeof label, "%zu: %.1fx", s, factor(p, s, POINTS - 1, phase));
        zv_svg_dot(&p->svg, (zv_point){corner.x + PLOT_W + 9, at}, 3.2, colours[s]);
        zv_svg_text(&p->svg, corner.x + PLOT_W + 16, at + 4, "s", label);
    }
}

/* Measured factors, where the cases allow one: the same run at other stages and ranks. */
static void measured(plot *p, zv_point corner, zl_phase phase)
{
    zl_run run = p->data->family.run;
    run.stage = 0;
    run.ranks = 1;
    const zv_verdict *const base = zv_data_find(p->data, &run);
    if (base == NULL) {
        return;
    }
    for (run.stage = 0; run.stage < ZV_STAGES; run.stage++) {
        for (run.ranks = 1; run.ranks <= UINT64_C(1) << (POINTS - 1); run.ranks++) {
            const zv_verdict *const v = zv_data_find(p->data, &run);
            const uint64_t peak = v == NULL ? 0 : zv_measured_peak(v, phase);
            if (peak > 0) {
                const double f = (double)zv_measured_peak(base, phase) / (double)peak;
                zv_svg_dot(&p->svg, place(p, corner, (double)run.ranks, f), 3.6,
                           colours[run.stage]);
            }
        }
    }
}

/* Three panels to a row. */
static void panel(plot *p, size_t index)
{
    const zl_phase phase = zv_report_phase(index);
    const size_t row = index / 3;
    const size_t column = index % 3;
    const zv_point corner = {56 + (double)column * CELL_W, TOP + 28 + (double)row * CELL_H};
    frame(p, corner, zl_phase_name(phase));
    for (size_t s = 0; s < ZV_STAGES; s++) {
        zv_point line[POINTS];
        for (int i = 0; i < POINTS; i++) {
            line[i] = place(p, corner, exp2(i), factor(p, s, i, phase));
        }
        zv_svg_path(&p->svg, line, POINTS, colours[s]);
    }
    measured(p, corner, phase);
    end_labels(p, corner, phase);
}

static void key(plot *p)
{
    const double x = 56 + 2 * CELL_W;
    double y = TOP + 36 + CELL_H;
    for (size_t s = 0; s < ZV_STAGES; s++) {
        char label[16];
        snprintf(label, sizeof label, "stage %zu", s);
        zv_svg_path(&p->svg, (zv_point[]){{x, y}, {x + 26, y}}, 2, colours[s]);
        zv_svg_text(&p->svg, x + 34, y + 4, "", label);
        y += 22;
    }
    zv_svg_text(&p->svg, x, y + 8, "s", "lines: predicted; dots: measured");
    zv_svg_text(&p->svg, x, y + 28, "s", "across: ranks; at the right: 64 ranks");
    zv_svg_text(&p->svg, x, y + 48, "s", "1x: stage 0 on one rank");
}

zl_status zv_figure_reduction(const zv_data *data, const char *path, zl_err *err)
{
    static plot none;
    plot p = none;
    char run[256], description[512];
    p.data = data;
    ZL_TRY(predict_all(&p, err));
    zl_run_describe(&data->family.run, run, sizeof run);
    snprintf(description, sizeof description,
             "By what factor the peak of each phase is smaller than in stage 0 on one rank, for "
             "stages 0 "
             "to 3 and 1 to 64 ranks with the same batch per rank; lines predicted, dots measured. "
             "Case: %s.",
             run);
    const zv_svg_page page = {WIDTH, TOP + 2 * CELL_H + 6, "Reduction of each phase's peak",
                              description};
    ZL_TRY(zv_svg_open(&p.svg, &page, err));
    zv_svg_text(&p.svg, 12, 24, "b", page.title);
    for (size_t i = 0; i < PANELS; i++) {
        panel(&p, i);
    }
    key(&p);
    return zv_svg_close(&p.svg, path, err);
}
