/* Draws docs/seed.svg: the largest peaks of the question in docs/seed.md, by what is alive.
 * usage: zv_seed_figure FILE */
#include <stdio.h>
#include <string.h>

#include "svg/svg.h"
#include "zeroledger/run.h"
#include "zeroledger/torch.h"

/* What the terms of zl_torch_explain come to for a reader. */
static const struct {
    const char *title, *fill;
    const char *terms[5];
} groups[] = {
    {"states", "#0072B2", {"parameters", "parameter shards", "fp32 masters", "optimizer states"}},
    {"gradients",
     "#E69F00",
     {"gradients", "list of fp32 gradients", "fp32 gradient of the step",
      "gradients of the partition"}},
    {"activations", "#009E73", {"activations"}},
    {"reduce buckets", "#D55E00", {"ipg bucket"}},
    {"gathered parameters", "#CC79A7", {"gathered parameters", "persistent parameters"}},
};

enum { GROUPS = sizeof groups / sizeof groups[0] };

typedef struct bar {
    const char *title;
    const char *ranks, *stage;
    const char *phase; /* the mark that ends it */
    uint64_t bucket;   /* 0: as it is */
    bool one_buffer;
    double logged; /* GiB; 0: nobody logged it */
} bar;

static const bar bars[] = {
    {"1 GPU, step", "1", "0", "after_step", 0, false, 7.50},
    {"ZeRO-3 on 8, backward", "8", "3", "after_backward", 0, false, 4.04},
    {"  reduce_bucket_size 5e7", "8", "3", "after_backward", 50000000, false, 0},
    {"  overlap_comm false", "8", "3", "after_backward", 0, true, 0},
};

enum { BARS = sizeof bars / sizeof bars[0] };

static const double gib = 1073741824.0;
static const double left = 190;
static const double per_gib = 80;
static const double high = 34;

static zl_status ask(const bar *b, zl_torch_run *out, zl_err *err)
{
    const char *const words[][2] = {
        {"framework", "deepspeed@0.5.9"},
        {"model", "bing-bert-large"},
        {"ranks", b->ranks},
        {"stage", b->stage},
        {"precision", "fp16-mixed"},
        {"micro-batch", "64"},
        {"seq", "128"},
        {"activations", "1.42GiB"},
    };
    zl_run run;
    zl_run_init(&run);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        ZL_TRY(zl_run_set(&run, words[i][0], words[i][1], err));
    }
    ZL_TRY(zl_run_check(&run, err));
    ZL_TRY(zl_torch_run_from(&run, out, NULL, NULL, err));
    out->ds.reduce_bucket_size = b->bucket != 0 ? b->bucket : out->ds.reduce_bucket_size;
    out->ds.overlap_comm = out->ds.overlap_comm && !b->one_buffer;
    return ZL_OK;
}

static double group_bytes(const zl_alive *alive, size_t group)
{
    double bytes = 0;
    for (size_t i = 0; i < alive->count; i++) {
        for (size_t k = 0; k < 5 && groups[group].terms[k] != NULL; k++) {
            if (strcmp(groups[group].terms[k], alive->term[i].name) == 0) {
                bytes += (double)alive->term[i].bytes;
            }
        }
    }
    return bytes;
}

static void draw(zv_svg *svg, const bar *b, const zl_moment *m, double y)
{
    char words[64];
    double x = left;
    zv_svg_text(svg, left - 8, y + 21, "e", b->title);
    for (size_t g = 0; g < GROUPS; g++) {
        const double width = group_bytes(&m->peak, g) / gib * per_gib;
        if (width > 0) {
            zv_svg_rect(svg, (zv_box){x, y, width, high}, groups[g].fill);
        }
        x += width;
    }
    const double peak = (double)m->mark.peak_allocated / gib;
    if (b->logged > 0) {
        snprintf(words, sizeof words, "%.2f GiB, logged %.2f", peak, b->logged);
    } else {
        snprintf(words, sizeof words, "%.2f GiB", peak);
    }
    zv_svg_text(svg, x + 6, y + 21, "s", words);
}

static zl_status draw_bar(zv_svg *svg, const bar *b, double y, zl_err *err)
{
    zl_torch_run run;
    zl_moments moments = {0};
    ZL_TRY(ask(b, &run, err));
    ZL_TRY(zl_torch_explain(&run, 0, &moments, err));
    const int32_t last = (int32_t)run.steps - 1;
    for (size_t i = 0; i < moments.count; i++) {
        const zl_moment *m = &moments.moment[i];
        if (m->mark.step == last && strcmp(m->mark.at, b->phase) == 0) {
            draw(svg, b, m, y);
        }
    }
    zl_moments_clear(&moments);
    return ZL_OK;
}

static zl_status figure(const char *path, zl_err *err)
{
    static const zv_svg_page page = {
        960, 280, "BERT-large on DeepSpeed 0.5.9: the largest peaks of one GPU",
        "Stacked bars of what is alive at a peak. One GPU peaks in its step at 24 bytes per "
        "parameter. ZeRO-3 on 8 GPUs peaks in backward, nearly half of it two reduce buckets of "
        "5e8 elements; smaller buckets, or one instead of two, make it smaller."};
    zv_svg svg;
    ZL_TRY(zv_svg_open(&svg, &page, err));
    zv_svg_text(&svg, 12, 24, "b", page.title);
    double x = left;
    for (size_t g = 0; g < GROUPS; g++) {
        zv_svg_rect(&svg, (zv_box){x, 38, 12, 12}, groups[g].fill);
        zv_svg_text(&svg, x + 17, 49, "s", groups[g].title);
        x += 34 + 7 * (double)strlen(groups[g].title);
    }
    for (size_t i = 0; i < BARS; i++) {
        ZL_TRY(draw_bar(&svg, &bars[i], 66 + 50 * (double)i, err));
    }
    return zv_svg_close(&svg, path, err);
}

int main(int argc, char **argv)
{
    zl_err err = {.status = ZL_OK};
    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return ZL_E_USAGE;
    }
    const zl_status status = figure(argv[1], &err);
    if (status != ZL_OK) {
        fprintf(stderr, "%s: %s\n", argv[0], err.text);
    }
    return (int)status;
}
