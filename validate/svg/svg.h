/* A picture as text: plain shapes and real words, in the colours of the reader's light or dark
 * theme. The same calls give the same bytes: coordinates have one decimal, nothing else is
 * remembered.
 *
 *     zv_svg svg;
 *     ZL_TRY(zv_svg_open(&svg, &(zv_svg_page){960, 400, "Peaks", "What one sees here."}, err));
 *     zv_svg_rect(&svg, (zv_box){10, 10, 100, 20}, "#0072B2");
 *     zv_svg_text(&svg, 12, 24, "on", "param");
 *     ZL_TRY(zv_svg_close(&svg, "peaks.svg", err));
 *
 * Classes of words: "" (words), "b" (bold), "s" (small and quiet), "on" (on a light fill), "on w"
 * (on a dark fill); add " m" or " e" to anchor them in the middle or at the end. Classes of lines:
 * "axis", "grid", "ideal"; a colour beginning with '#' is taken as it is.
 */
#ifndef ZV_SVG_H
#define ZV_SVG_H

#include <stddef.h>
#include <stdio.h>

#include "zeroledger/error.h"

typedef struct zv_svg {
    FILE *file;
    char *text;
    size_t size;
} zv_svg;

typedef struct zv_svg_page {
    double width;
    double height;
    const char *title;
    const char *description; /* the whole message, for those who do not see it */
} zv_svg_page;

typedef struct zv_box {
    double x;
    double y;
    double width;
    double height;
} zv_box;

typedef struct zv_point {
    double x;
    double y;
} zv_point;

ZL_NODISCARD zl_status zv_svg_open(zv_svg *svg, const zv_svg_page *page, zl_err *err);
void zv_svg_rect(zv_svg *svg, zv_box box, const char *fill);
void zv_svg_line(zv_svg *svg, zv_point from, zv_point to, const char *line);
void zv_svg_path(zv_svg *svg, const zv_point *points, size_t n, const char *line);
void zv_svg_dot(zv_svg *svg, zv_point at, double radius, const char *fill);
void zv_svg_cross(zv_svg *svg, zv_point at, double radius, const char *line);
void zv_svg_text(zv_svg *svg, double x, double y, const char *words_class, const char *words);

/* Writes the file and frees the picture, whatever happens. */
ZL_NODISCARD zl_status zv_svg_close(zv_svg *svg, const char *path, zl_err *err);

/* Largest of 1, 2, 5 times a power of ten that gives at least `count` steps up to `most`. */
double zv_nice_step(double most, int count);

#endif
