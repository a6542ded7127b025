/* A sweep as a heat map: two options are the axes, a third one gives a panel for each value. The
 * same answers give the same bytes: coordinates are whole, colours come from whole numbers. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"
#include "zeroledger/bytes.h"

enum {
    SIDE_MAX = 128,
    PANELS_MAX = 16,
    MAP_WIDTH = 800,
    MAP_HEIGHT = 480,
    CELL_WIDTH_MAX = 72,
    CELL_HEIGHT_MAX = 30,
    CELL_MIN = 4,
    LETTER = 7, /* width of a character, about */
    LINE = 16,
    TWO_LINES = 32,
    MARGIN = 24,
    HEAD = 76,
    FOOT = 40,
    LEGEND = 48,
    SWATCH = 26
};

static const char style[] =
    "<style>\n"
    "text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}\n"
    ".b{font-size:15px;font-weight:600}.m{text-anchor:middle}.e{text-anchor:end}\n"
    ".d{fill:#111}.w{fill:#fff}.paper{fill:#fff}.none{fill:#d0d7de}\n"
    ".edge{fill:none;stroke:#fff;stroke-width:5}.line{fill:none;stroke:#cf222e;stroke-width:3}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#e6edf3}.d{fill:#111}.w{fill:#fff}.paper{fill:#0d1117}.none{fill:#57606a}\n"
    "}\n"
    "</style>\n";

/* Viridis, from little to much; readers who do not tell red from green tell these. */
static const struct {
    const char *fill;
    bool dark;
} shade[] = {
    {"#fde725", false}, {"#bddf26", false}, {"#7ad151", false}, {"#44bf70", false},
    {"#22a884", false}, {"#21918c", true},  {"#2a788e", true},  {"#355f8d", true},
    {"#414487", true},  {"#482878", true},  {"#440154", true},
};

enum { SHADES = sizeof shade / sizeof shade[0], SHADES_WIDTH = SHADES * SWATCH };

/* What is drawn, and where. */
typedef struct map {
    const zl_sweep *s;
    const zl_swept *answer;
    const zl_axis *panel; /* NULL: one panel */
    const zl_axis *down, *across;
    size_t panels;
    uint64_t low, high; /* smallest and largest peak; high 0: there is none */
    uint64_t cell_width, cell_height;
    uint64_t left, panel_height; /* of the labels; of a panel with all around it */
    uint64_t width, height;
    FILE *file;
} map;

/* ---- what can be drawn ---- */

zl_status zl_sweep_drawable(const zl_sweep *s, zl_err *err)
{
    const zl_grid *g = &s->grid;
    if (g->axes != 2 && g->axes != 3) {
        return zl_fail(err, ZL_E_USAGE,
                       "a heat map has two options with several values, or three with a panel for "
                       "each value of the first; got %zu",
                       g->axes);
    }
    for (size_t i = 0; i < g->axes; i++) {
        const size_t most = g->axes == 3 && i == 0 ? PANELS_MAX : SIDE_MAX;
        if (g->axis[i].count > most) {
            return zl_fail(err, ZL_E_USAGE,
                           "%s has %zu values, a heat map shows at most %zu of it%s; take larger "
                           "steps",
                           g->axis[i].option->name, g->axis[i].count, most,
                           most == PANELS_MAX ? ", one to a panel" : "");
        }
    }
    return ZL_OK;
}

/* ---- shapes and words ---- */

static void escaped(FILE *file, const char *words)
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

static void text_at(const map *m, uint64_t x, uint64_t y, const char *look, const char *words)
{
    fprintf(m->file, "<text x=\"%" PRIu64 "\" y=\"%" PRIu64 "\"", x, y);
    if (look[0] != '\0') {
        fprintf(m->file, " class=\"%s\"", look);
    }
    fputs(">", m->file);
    escaped(m->file, words);
    fputs("</text>\n", m->file);
}

static void box_at(const map *m, uint64_t x, uint64_t y, uint64_t width, uint64_t height,
                   const char *look)
{
    fprintf(m->file,
            "<rect x=\"%" PRIu64 "\" y=\"%" PRIu64 "\" width=\"%" PRIu64 "\" height=\"%" PRIu64
            "\" %s=\"%s\"/>\n",
            x, y, width, height, look[0] == '#' ? "fill" : "class", look);
}

/* ---- colours ---- */

/* 256 log2 of a number, straight between powers of two. */
static uint64_t logarithm(uint64_t n)
{
    const uint64_t floor = 63 - (uint64_t)__builtin_clzll(n | 1);
    const uint64_t rest = floor >= 8 ? n >> (floor - 8) : n << (8 - floor);
    return 256 * floor + (rest & 255);
}

static size_t shade_of(const map *m, uint64_t bytes)
{
    const uint64_t low = logarithm(m->low);
    const uint64_t span = logarithm(m->high) - low;
    return span == 0 ? 0 : (size_t)((logarithm(bytes) - low) * (SHADES - 1) / span);
}

/* ---- places ---- */

static const zl_swept *answer_of(const map *m, size_t panel, size_t row, size_t col)
{
    return &m->answer[(panel * m->down->count + row) * m->across->count + col];
}

static uint64_t longest(const zl_axis *axis)
{
    return zl_max(axis->width, strlen(axis->option->name));
}

/* Values grow upwards, as in any diagram. */
static uint64_t top_of(const map *m, size_t panel, size_t row)
{
    const uint64_t begin =
        zl_add(HEAD + (m->panel != NULL ? LINE : 0), zl_mul(panel, m->panel_height));
    return zl_add(begin, zl_mul(m->down->count - 1 - row, m->cell_height));
}

static uint64_t left_of(const map *m, size_t col)
{
    return zl_add(m->left, zl_mul(col, m->cell_width));
}

static uint64_t between(uint64_t low, uint64_t n, uint64_t high)
{
    return zl_max(low, zl_min(n, high));
}

static void measure(map *m)
{
    for (uint64_t i = 0; i < m->s->grid.points; i++) {
        const zl_swept *a = &m->answer[i];
        if (a->refusal.status == ZL_OK) {
            m->low = m->high == 0 ? a->peak : zl_min(m->low, a->peak);
            m->high = zl_max(m->high, a->peak);
        }
    }
    m->cell_width = between(CELL_MIN, MAP_WIDTH / m->across->count, CELL_WIDTH_MAX);
    m->cell_height = between(CELL_MIN, MAP_HEIGHT / m->panels / m->down->count, CELL_HEIGHT_MAX);
    m->left = MARGIN + LETTER * longest(m->down) + LETTER;
    m->panel_height = m->down->count * m->cell_height + FOOT + (m->panel != NULL ? LINE : 0);
    m->width = zl_max(m->left + m->across->count * m->cell_width + MARGIN, 560);
    m->height = HEAD + m->panels * m->panel_height + LEGEND + MARGIN;
}

/* ---- the parts ---- */

static void draw_cell(const map *m, size_t panel, size_t row, size_t col)
{
    const zl_swept *a = answer_of(m, panel, row, col);
    const uint64_t x = left_of(m, col);
    const uint64_t y = top_of(m, panel, row);
    const bool known = a->refusal.status == ZL_OK;
    const size_t colour = known ? shade_of(m, a->peak) : 0;
    const char *words = "–";
    zl_figure figure;
    box_at(m, x, y, m->cell_width, m->cell_height, known ? shade[colour].fill : "none");
    if (known) {
        zl_view two = m->s->args->view;
        two.decimals = two.unit == ZL_BYTES_B ? 0 : 1;
        figure = zl_bytes_in(&two, a->peak);
        words = figure.text;
    }
    const uint64_t needed = LETTER * (known ? strlen(words) : 1);
    if (needed <= m->cell_width && m->cell_height >= LINE) {
        text_at(m, x + m->cell_width / 2, y + m->cell_height / 2 + 4,
                !known               ? "m"
                : shade[colour].dark ? "m w"
                                     : "m d",
                words);
    }
}

/* Of two cells with an answer one fits. */
static bool parted(const zl_swept *a, const zl_swept *b)
{
    return a->refusal.status == ZL_OK && b->refusal.status == ZL_OK && a->fits != b->fits;
}

static void put_edge(const map *m, size_t panel, size_t row, size_t col)
{
    const zl_swept *a = answer_of(m, panel, row, col);
    const uint64_t x = left_of(m, col);
    const uint64_t y = top_of(m, panel, row);
    if (col + 1 < m->across->count && parted(a, answer_of(m, panel, row, col + 1))) {
        fprintf(m->file, "M%" PRIu64 " %" PRIu64 "v%" PRIu64, x + m->cell_width, y, m->cell_height);
    }
    if (row + 1 < m->down->count && parted(a, answer_of(m, panel, row + 1, col))) {
        fprintf(m->file, "M%" PRIu64 " %" PRIu64 "h%" PRIu64, x, y, m->cell_width);
    }
}

static void draw_edges(const map *m, size_t panel)
{
    static const char *const looks[] = {"edge", "line"};
    for (size_t look = 0; look < 2 && m->s->capped; look++) {
        fprintf(m->file, "<path class=\"%s\" d=\"", looks[look]);
        for (size_t row = 0; row < m->down->count; row++) {
            for (size_t col = 0; col < m->across->count; col++) {
                put_edge(m, panel, row, col);
            }
        }
        fputs("\"/>\n", m->file);
    }
}

/* Every label, or every so many, so that they do not touch. */
static void draw_labels(const map *m, size_t panel)
{
    char scratch[ZL_AXIS_TEXT];
    const uint64_t bottom = top_of(m, panel, 0) + m->cell_height;
    const uint64_t sparse_x = zl_ceil_div(LETTER * (m->across->width + 1), m->cell_width);
    const uint64_t sparse_y = zl_ceil_div(LINE - 2, m->cell_height);
    for (size_t col = 0; col < m->across->count; col += sparse_x) {
        text_at(m, left_of(m, col) + m->cell_width / 2, bottom + LINE, "m",
                zl_axis_text(m->across, col, scratch));
    }
    for (size_t row = 0; row < m->down->count; row += sparse_y) {
        text_at(m, m->left - LETTER, top_of(m, panel, row) + m->cell_height / 2 + 4, "e",
                zl_axis_text(m->down, row, scratch));
    }
    text_at(m, left_of(m, 0) + m->across->count * m->cell_width / 2, bottom + TWO_LINES, "m",
            m->across->option->name);
    text_at(m, m->left - LETTER, top_of(m, panel, m->down->count - 1) - 6, "e",
            m->down->option->name);
}

static void draw_panel(const map *m, size_t panel)
{
    char scratch[ZL_AXIS_TEXT];
    char words[160];
    if (m->panel != NULL) {
        (void)snprintf(words, sizeof words, "%s %.100s", m->panel->option->name,
                       zl_axis_text(m->panel, panel, scratch));
        text_at(m, m->left, top_of(m, panel, m->down->count - 1) - 6, "", words);
    }
    for (size_t row = 0; row < m->down->count; row++) {
        for (size_t col = 0; col < m->across->count; col++) {
            draw_cell(m, panel, row, col);
        }
    }
    draw_edges(m, panel);
    draw_labels(m, panel);
}

static void draw_legend(const map *m)
{
    const zl_view *view = &m->s->args->view;
    const uint64_t y = m->height - LEGEND - MARGIN / 2;
    char words[160];
    for (size_t i = 0; i < SHADES && m->high > 0; i++) {
        box_at(m, MARGIN + i * SWATCH, y, SWATCH, LINE, shade[i].fill);
    }
    if (m->high > 0) {
        text_at(m, MARGIN, y + TWO_LINES, "", zl_bytes_named(view, m->low).text);
        text_at(m, MARGIN + SHADES_WIDTH, y + TWO_LINES, "e", zl_bytes_named(view, m->high).text);
    }
    const uint64_t x = MARGIN + SHADES_WIDTH + SWATCH;
    if (m->s->capped) {
        fprintf(m->file, "<path class=\"line\" d=\"M%" PRIu64 " %" PRIu64 "h%d\"/>\n", x,
                y + LINE / 2, SWATCH);
        (void)snprintf(words, sizeof words, "where %s end",
                       zl_bytes_named(view, m->s->c.usable).text);
        text_at(m, x + SWATCH + LETTER, y + LINE - 4, "", words);
    }
    box_at(m, x, y + LINE + 4, SWATCH, LINE - 4, "none");
    text_at(m, x + SWATCH + LETTER, y + TWO_LINES, "", "impossible or not modelled");
}

static void draw_head(const map *m)
{
    char title[256];
    char fixed[128];
    const zl_view *view = &m->s->args->view;
    (void)snprintf(title, sizeof title, "Peak memory by %s and %s, %s", m->down->option->name,
                   m->across->option->name, zl_byte_unit_name(view->unit));
    zl_grid_fixed(&m->s->grid, m->s->args, fixed, sizeof fixed);
    fprintf(m->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %" PRIu64 " %" PRIu64
            "\" width=\"%" PRIu64 "\" height=\"%" PRIu64
            "\" role=\"img\" aria-labelledby=\"t d\">\n<title id=\"t\">",
            m->width, m->height, m->width, m->height);
    escaped(m->file, title);
    fputs("</title>\n<desc id=\"d\">", m->file);
    escaped(m->file, fixed);
    fprintf(m->file, ": %s points", zl_count(m->s->grid.points).text);
    if (m->high > 0) {
        fprintf(m->file, ", from %s", zl_bytes_named(view, m->low).text);
        fprintf(m->file, " to %s", zl_bytes_named(view, m->high).text);
    }
    if (m->s->capped) {
        fprintf(m->file, "; a line parts what fits into %s from what does not",
                zl_bytes_named(view, m->s->c.usable).text);
    }
    fprintf(m->file, ".</desc>\n%s", style);
    box_at(m, 0, 0, m->width, m->height, "paper");
    text_at(m, MARGIN, MARGIN + 4, "b", title);
    text_at(m, MARGIN, MARGIN + 4 + LINE, "", fixed);
}

static zl_status draw(map *m, const char *path, zl_err *err)
{
    zl_page page;
    zl_view view = m->s->args->view;
    view.out = path;
    ZL_TRY(zl_page_open(&page, &view, err));
    m->file = page.file;
    measure(m);
    draw_head(m);
    for (size_t panel = 0; panel < m->panels; panel++) {
        draw_panel(m, panel);
    }
    draw_legend(m);
    fputs("</svg>\n", m->file);
    return zl_page_end(&page, ZL_OK, err);
}

zl_status zl_sweep_draw(const zl_sweep *s, const zl_swept *answer, const char *path, zl_err *err)
{
    const zl_grid *g = &s->grid;
    map m = {.s = s,
             .answer = answer,
             .panel = g->axes == 3 ? &g->axis[0] : NULL,
             .down = &g->axis[g->axes - 2],
             .across = &g->axis[g->axes - 1],
             .panels = g->axes == 3 ? g->axis[0].count : 1};
    return draw(&m, path, err);
}
