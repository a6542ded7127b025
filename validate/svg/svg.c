#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include "svg/svg.h"

#include <math.h>
#include <stdlib.h>

#include "zeroledger/text.h"

static const char style[] =
    "<style>\n"
    "text{font:13px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}\n"
    ".b{font-weight:600}.s{font-size:12px;fill:#57606a}.on{font-size:12px;fill:#111}.w{fill:#fff}\n"
    ".m{text-anchor:middle}.e{text-anchor:end}\n"
    ".paper{fill:#fff}.axis{stroke:#57606a}.grid{stroke:#d8dee4}\n"
    ".ideal{stroke:#57606a;stroke-dasharray:4 4}path{fill:none;stroke-width:2}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#e6edf3}.s{fill:#9da7b3}.on{fill:#111}.w{fill:#fff}\n"
    ".paper{fill:#0d1117}.axis{stroke:#9da7b3}.grid{stroke:#30363d}.ideal{stroke:#9da7b3}\n"
    "}\n"
    "</style>\n";

static void put_escaped(FILE *file, const char *words)
{
    for (; *words != '\0'; words++) {
        switch (*words) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        default:
            fputc(*words, file);
        }
    }
}

zl_status zv_svg_open(zv_svg *svg, const zv_svg_page *page, zl_err *err)
{
    *svg = (zv_svg){0};
    svg->file = open_memstream(&svg->text, &svg->size);
    if (svg->file == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for a picture");
    }
    fprintf(svg->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
            "height=\"%.0f\" role=\"img\" aria-labelledby=\"t d\">\n<title id=\"t\">",
            page->width, page->height, page->width, page->height);
    put_escaped(svg->file, page->title);
    fputs("</title>\n<desc id=\"d\">", svg->file);
    put_escaped(svg->file, page->description);
    fprintf(svg->file, "</desc>\n%s<rect class=\"paper\" width=\"%.0f\" height=\"%.0f\"/>\n", style,
            page->width, page->height);
    return ZL_OK;
}

/* One decimal, and no minus before a zero. */
static double tidy(double x)
{
    const double rounded = round(x * 10) / 10;
    return rounded == 0 ? 0 : rounded;
}

/* A class, or a colour as the value of an attribute. */
static void put_look(zv_svg *svg, const char *attribute, const char *look)
{
    if (look[0] == '#') {
        fprintf(svg->file, " %s=\"%s\"", attribute, look);
    } else {
        fprintf(svg->file, " class=\"%s\"", look);
    }
}

void zv_svg_rect(zv_svg *svg, zv_box box, const char *fill)
{
    fprintf(svg->file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", tidy(box.x),
            tidy(box.y), tidy(box.width), tidy(box.height));
    put_look(svg, "fill", fill);
    fputs("/>\n", svg->file);
}

void zv_svg_line(zv_svg *svg, zv_point from, zv_point to, const char *line)
{
    fprintf(svg->file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"", tidy(from.x),
            tidy(from.y), tidy(to.x), tidy(to.y));
    put_look(svg, "stroke", line);
    fputs("/>\n", svg->file);
}

void zv_svg_path(zv_svg *svg, const zv_point *points, size_t n, const char *line)
{
    fputs("<path d=\"", svg->file);
    for (size_t i = 0; i < n; i++) {
        fprintf(svg->file, "%s%.1f %.1f", i == 0 ? "M" : " L", tidy(points[i].x),
                tidy(points[i].y));
    }
    fputs("\"", svg->file);
    put_look(svg, "stroke", line);
    fputs("/>\n", svg->file);
}

void zv_svg_dot(zv_svg *svg, zv_point at, double radius, const char *fill)
{
    fprintf(svg->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"", tidy(at.x), tidy(at.y),
            radius);
    put_look(svg, "fill", fill);
    fputs("/>\n", svg->file);
}

void zv_svg_cross(zv_svg *svg, zv_point at, double radius, const char *line)
{
    const double r = radius;
    zv_svg_line(svg, (zv_point){at.x - r, at.y - r}, (zv_point){at.x + r, at.y + r}, line);
    zv_svg_line(svg, (zv_point){at.x - r, at.y + r}, (zv_point){at.x + r, at.y - r}, line);
}

void zv_svg_text(zv_svg *svg, double x, double y, const char *words_class, const char *words)
{
    fprintf(svg->file, "<text x=\"%.1f\" y=\"%.1f\"", tidy(x), tidy(y));
    if (words_class[0] != '\0') {
        put_look(svg, "", words_class);
    }
    fputs(">", svg->file);
    put_escaped(svg->file, words);
    fputs("</text>\n", svg->file);
}

zl_status zv_svg_close(zv_svg *svg, const char *path, zl_err *err)
{
    zl_status status = ZL_OK;
    fputs("</svg>\n", svg->file);
    if (fclose(svg->file) != 0) {
        status = zl_fail(err, ZL_E_RESOURCE, "no memory for %s", path);
    } else {
        status = zl_file_write(path, svg->text, svg->size, err);
    }
    free(svg->text);
    *svg = (zv_svg){0};
    return status;
}

double zv_nice_step(double most, int count)
{
    const double raw = most / count;
    const double ten = pow(10, floor(log10(raw)));
    const double unit = raw / ten;
    return (unit >= 5 ? 5 : unit >= 2 ? 2 : 1) * ten;
}
