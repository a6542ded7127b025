/* What a judgement comes to: one number each, the aim of the project for it, and the limit that
 * keeps it from getting worse. */
#ifndef ZV_FIGURES_H
#define ZV_FIGURES_H

#include <stdbool.h>
#include <stddef.h>

#include "records/judgement.h"

typedef enum zv_figure {
    ZV_TORCH_MODELLED,
    ZV_TORCH_REQUESTED,
    ZV_TORCH_ALLOCATED,
    ZV_TORCH_RESERVED_RECORDS,
    ZV_TORCH_RESERVED_MARKS,
    ZV_TORCH_DEVICE,
    ZV_DS_MODELLED,
    ZV_DS_SETTLED,
    ZV_DS_REQUESTED,
    ZV_DS_PEAK_MEAN,
    ZV_DS_PEAK_MAX,
    ZV_DS_RESERVED_MARKS,
    ZV_DS_RESERVED_MEAN,
    ZV_DS_DEVICE,
    ZV_DS_HOST,
    ZV_FIGURE_COUNT
} zv_figure;

typedef struct zv_figure_info {
    const char *name; /* "torch.requested_within_1KiB" */
    const char *text; /* one line */
    bool at_least;    /* a share that should be large; else an error that should be small */
    double aim;       /* percent */
} zv_figure_info;

const zv_figure_info *zv_figure_describe(zv_figure figure);

typedef struct zv_figures {
    bool known[ZV_FIGURE_COUNT];   /* false: no row speaks about it */
    double value[ZV_FIGURE_COUNT]; /* percent */
} zv_figures;

void zv_figures_of(const zv_judgement *all, zv_figures *out);

/* Requested bytes count as met within this. */
enum { ZV_SLACK = 1024 };
/* Whether a judged row is further off than its quantity allows: requested and allocated bytes by
 * more than ZV_SLACK, reserved bytes at all, the device by more than 2 %, the host by more than
 * 5 %. */
bool zv_row_misses(const zv_row *row);

/* Errors of one quantity over the judged rows of some records, percent. */
typedef struct zv_spread {
    size_t rows, exact;
    double mean, max;
} zv_spread;

/* Records of one framework, version and stage. */
typedef struct zv_group {
    const zv_judged *first;
    size_t records, modelled;
    zv_spread spread[ZV_QUANTITY_COUNT];
} zv_group;

/* Groups in order of appearance; the caller frees *out with free(). */
ZL_NODISCARD zl_status zv_groups_of(const zv_judgement *all, zv_group **out, size_t *count,
                                    zl_err *err);

/* Compares figures with the file {"limits": [{"figure", "bound"}]}: ZL_NO names the first that is
 * worse than its bound, or that no row speaks about. */
ZL_NODISCARD zl_status zv_limits_check(const char *path, const zv_figures *figures, zl_err *err);

#endif
