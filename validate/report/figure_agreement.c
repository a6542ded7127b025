#define _DEFAULT_SOURCE /* reallocarray */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/parts.h"
#include "svg/svg.h"

enum {
    WIDTH = 960,
    HEIGHT = 470,
    TOP = 60,
    BOTTOM = 410,
    LEFT = 70,
    MIDDLE = 430,
    RIGHT = 560,
    END = 930
};

/* A peak, on the page. */
typedef struct mark {
    double predicted; /* bytes */
    double measured;
} mark;

typedef struct plot {
    zv_svg svg;
    mark *mark;
    size_t n;
    double low; /* logarithms to base 2 of the axes' ends, bytes */
    double high;
    double most; /* largest difference, bytes; at least 1 */
    size_t off;  /* marks that are not equal */
} plot;

static int by_predicted(const void *a, const void *b)
{
    const mark *const x = a;
    const mark *const y = b;
    if (x->predicted != y->predicted) {
        return x->predicted < y->predicted ? -1 : 1;
    }
    return (x->measured > y->measured) - (x->measured < y->measured);
}

static zl_status add(plot *p, const zv_peak *peak, zl_err *err)
{
    mark *const grown = reallocarray(p->mark, p->n + 1, sizeof *grown);
    if (grown == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for %zu points", p->n + 1);
    }
    p->mark = grown;
    grown[p->n++] =
        (mark){(double)peak->predicted[ZL_REQUESTED], (double)peak->measured[ZL_REQUESTED]};
    return ZL_OK;
}

/* All peaks, equal ones once. */
static zl_status collect(plot *p, const zv_data *data, zl_err *err)
{
    for (size_t i = 0; i < data->verdicts.count; i++) {
        const zv_verdict *const v = &data->verdicts.item[i];
        for (size_t k = 0; k < v->peak_count && v->outcome != ZV_FAILED; k++) {
            if (v->peak[k].predicted[ZL_REQUESTED] > 0 && v->peak[k].measured[ZL_REQUESTED] > 0) {
                ZL_TRY(add(p, &v->peak[k], err));
            }
        }
    }
    if (p->n == 0) {
        return zl_fail(err, ZL_E_INPUT, "there is no peak to draw");
    }
    qsort(p->mark, p->n, sizeof *p->mark, by_predicted);
    size_t kept = 1;
    for (size_t i = 1; i < p->n; i++) {
        if (by_predicted(&p->mark[i], &p->mark[kept - 1]) != 0) {
            p->mark[kept++] = p->mark[i];
        }
    }
    p->n = kept;
    return ZL_OK;
}

static void scale(plot *p)
{
    double least = (double)INFINITY;
    double most = 1;
    p->most = 1;
    for (size_t i = 0; i < p->n; i++) {
        least = fmin(least, fmin(p->mark[i].predicted, p->mark[i].measured));
        most = fmax(most, fmax(p->mark[i].predicted, p->mark[i].measured));
        p->most = fmax(p->most, fabs(p->mark[i].measured - p->mark[i].predicted));
        p->off += p->mark[i].measured != p->mark[i].predicted;
    }
    p->low = floor(log2(least));
    p->high = fmax(ceil(log2(most)), p->low + 1);
}

static double x_at(const plot *p, double bytes, double left, double right)
{
    return left + (log2(bytes) - p->low) / (p->high - p->low) * (right - left);
}

static double y_at(const plot *p, double bytes)
{
    return BOTTOM - (log2(bytes) - p->low) / (p->high - p->low) * (BOTTOM - TOP);
}

static double y_off(const plot *p, double bytes)
{
    return (TOP + BOTTOM) / 2.0 - bytes / p->most * 0.9 * (BOTTOM - TOP) / 2;
}

static void tick_label(double exponent, char *text, size_t size)
{
    snprintf(text, size, "%.4g", exp2(exponent - 20));
}

static void axes(plot *p)
{
    const int step = (int)fmax(1, ceil((p->high - p->low) / 6));
    for (int e = (int)p->low; e <= (int)p->high; e += step) {
        char label[32];
        tick_label(e, label, sizeof label);
        const double x = x_at(p, exp2(e), LEFT, MIDDLE);
        const double other = x_at(p, exp2(e), RIGHT, END);
        const double y = y_at(p, exp2(e));
        zv_svg_line(&p->svg, (zv_point){x, TOP}, (zv_point){x, BOTTOM}, "grid");
        zv_svg_line(&p->svg, (zv_point){LEFT, y}, (zv_point){MIDDLE, y}, "grid");
        zv_svg_line(&p->svg, (zv_point){other, TOP}, (zv_point){other, BOTTOM}, "grid");
        zv_svg_text(&p->svg, x, BOTTOM + 18, "s m", label);
        zv_svg_text(&p->svg, other, BOTTOM + 18, "s m", label);
        zv_svg_text(&p->svg, LEFT - 8, y + 4, "s e", label);
    }
    for (int i = -1; i <= 1; i++) {
        char label[48];
        snprintf(label, sizeof label, "%s%.0f", i > 0 ? "+" : "", i * p->most);
        const double y = y_off(p, i * p->most);
        zv_svg_line(&p->svg, (zv_point){RIGHT, y}, (zv_point){END, y}, i == 0 ? "axis" : "grid");
        zv_svg_text(&p->svg, RIGHT - 8, y + 4, "s e", label);
    }
    zv_svg_text(&p->svg, (LEFT + MIDDLE) / 2.0, BOTTOM + 42, "m", "predicted peak, MiB");
    zv_svg_text(&p->svg, (RIGHT + END) / 2.0, BOTTOM + 42, "m", "predicted peak, MiB");
    zv_svg_text(&p->svg, LEFT, TOP - 12, "s", "measured peak, MiB");
    zv_svg_text(&p->svg, RIGHT, TOP - 12, "s", "measured less predicted, bytes");
}

static void marks(plot *p)
{
    zv_svg_line(&p->svg, (zv_point){LEFT, BOTTOM}, (zv_point){MIDDLE, TOP}, "ideal");
    for (size_t i = 0; i < p->n; i++) {
        const mark *const m = &p->mark[i];
        const zv_point left = {x_at(p, m->predicted, LEFT, MIDDLE), y_at(p, m->measured)};
        const zv_point right = {x_at(p, m->predicted, RIGHT, END),
                                y_off(p, m->measured - m->predicted)};
        if (m->predicted == m->measured) {
            zv_svg_dot(&p->svg, left, 3.2, "#2F8FCB");
            zv_svg_dot(&p->svg, right, 3.2, "#2F8FCB");
        } else {
            zv_svg_cross(&p->svg, left, 4, "#D55E00");
            zv_svg_cross(&p->svg, right, 4, "#D55E00");
        }
    }
}

static zl_status draw(plot *p, const char *path, zl_err *err)
{
    char description[256];
    snprintf(
        description, sizeof description,
        "Each mark is one or more peaks of a phase: %zu different pairs of predicted and measured "
        "requested bytes, %zu of them unequal (crosses). The largest difference is %.0f bytes.",
        p->n, p->off, p->off == 0 ? 0 : p->most);
    const zv_svg_page page = {WIDTH, HEIGHT, "Predicted against measured peaks", description};
    ZL_TRY(zv_svg_open(&p->svg, &page, err));
    zv_svg_text(&p->svg, 12, 24, "b", page.title);
    axes(p);
    marks(p);
    if (p->off == 0) {
        zv_svg_text(&p->svg, (RIGHT + END) / 2.0, y_off(p, 0) - 14, "m", "every difference is 0");
    }
    return zv_svg_close(&p->svg, path, err);
}

zl_status zv_figure_agreement(const zv_data *data, const char *path, zl_err *err)
{
    plot p = {.n = 0};
    zl_status status = collect(&p, data, err);
    if (status == ZL_OK) {
        scale(&p);
        status = draw(&p, path, err);
    }
    free(p.mark);
    return status;
}
