#include "records/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const zv_figure_info figures[ZV_FIGURE_COUNT] = {
    [ZV_TORCH_MODELLED] = {"torch.modelled", "records of PyTorch that are modelled", true, 100},
    [ZV_TORCH_REQUESTED] = {"torch.requested_within_1KiB",
                            "requested and peak requested bytes within 1 KiB, of all marks", true,
                            99},
    [ZV_TORCH_ALLOCATED] = {"torch.allocated_mean", "mean error of allocated bytes", false, 0.05},
    [ZV_TORCH_RESERVED_RECORDS] = {"torch.reserved_exact_records",
                                   "records whose reserved bytes are exact at every mark", true,
                                   80},
    [ZV_TORCH_RESERVED_MARKS] = {"torch.reserved_exact_marks",
                                 "marks at which reserved bytes are exact", true, 80},
    [ZV_TORCH_DEVICE] = {"torch.device_mean", "mean error of the whole device", false, 2},
    [ZV_DS_MODELLED] = {"deepspeed.modelled", "records of DeepSpeed that are modelled", true, 100},
    [ZV_DS_SETTLED] = {"deepspeed.settled_within_1KiB",
                       "requested bytes within 1 KiB, of the marks init, before_forward, "
                       "after_step",
                       true, 100},
    [ZV_DS_REQUESTED] = {"deepspeed.requested_within_1KiB",
                         "requested and peak requested bytes within 1 KiB, of all marks", true, 97},
    [ZV_DS_PEAK_MEAN] = {"deepspeed.peak_mean", "mean error of peaks", false, 0.1},
    [ZV_DS_PEAK_MAX] = {"deepspeed.peak_max", "largest error of a peak", false, 1},
    [ZV_DS_RESERVED_MARKS] = {"deepspeed.reserved_exact_marks",
                              "marks at which reserved bytes are exact", true, 85},
    [ZV_DS_RESERVED_MEAN] = {"deepspeed.reserved_mean", "mean error of reserved bytes", false, 1.5},
    [ZV_DS_DEVICE] = {"deepspeed.device_mean", "mean error of the whole device", false, 2},
    [ZV_DS_HOST] = {"deepspeed.host_mean", "mean error of the process's resident bytes", false, 5},
};

/* A miss beyond these shares is listed. */
static const double device_percent = 2;
static const double host_percent = 5;

const zv_figure_info *zv_figure_describe(zv_figure figure)
{
    return &figures[figure];
}

bool zv_row_misses(const zv_row *row)
{
    if (!row->judged) {
        return false;
    }
    switch (row->quantity) {
    case ZV_REQUESTED:
    case ZV_PEAK_REQUESTED:
    case ZV_ALLOCATED:
    case ZV_PEAK_ALLOCATED:
        return llabs(zv_row_error(row)) > ZV_SLACK;
    case ZV_RESERVED:
    case ZV_PEAK_RESERVED:
        return row->predicted != row->measured;
    case ZV_DEVICE_USED:
        return zv_row_percent(row) > device_percent;
    case ZV_HOST_RSS:
    case ZV_HOST_HWM:
        return zv_row_percent(row) > host_percent;
    case ZV_QUANTITY_COUNT:
        break;
    }
    return false;
}

/* A share (part of whole) or a mean (sum over whole) in the making. */
typedef struct tally {
    double part, whole, max;
} tally;

static void count(tally *t, bool yes)
{
    t->whole++;
    t->part += yes;
}

static void weigh(tally *t, double percent)
{
    t->whole++;
    t->part += percent;
    t->max = fmax(t->max, percent);
}

static bool within_slack(const zv_row *row)
{
    return llabs(zv_row_error(row)) <= ZV_SLACK;
}

static bool is_settled(const char *at)
{
    return strcmp(at, "init") == 0 || strcmp(at, "before_forward") == 0 ||
           strcmp(at, "after_step") == 0;
}

static void tally_row(const zv_judged *record, const zv_row *row, tally *t)
{
    const bool ds = record->deepspeed;
    const double percent = zv_row_percent(row);
    switch (row->quantity) {
    case ZV_REQUESTED:
        if (ds && is_settled(row->at)) {
            count(&t[ZV_DS_SETTLED], within_slack(row));
        }
        count(&t[ds ? ZV_DS_REQUESTED : ZV_TORCH_REQUESTED], within_slack(row));
        break;
    case ZV_PEAK_REQUESTED:
        count(&t[ds ? ZV_DS_REQUESTED : ZV_TORCH_REQUESTED], within_slack(row));
        if (ds) {
            weigh(&t[ZV_DS_PEAK_MEAN], percent);
        }
        break;
    case ZV_ALLOCATED:
        if (!ds) {
            weigh(&t[ZV_TORCH_ALLOCATED], percent);
        }
        break;
    case ZV_PEAK_ALLOCATED:
        if (ds) {
            weigh(&t[ZV_DS_PEAK_MEAN], percent);
        }
        break;
    case ZV_RESERVED:
        count(&t[ds ? ZV_DS_RESERVED_MARKS : ZV_TORCH_RESERVED_MARKS],
              row->predicted == row->measured);
        if (ds) {
            weigh(&t[ZV_DS_RESERVED_MEAN], percent);
        }
        break;
    case ZV_PEAK_RESERVED:
        break;
    case ZV_DEVICE_USED:
        weigh(&t[ds ? ZV_DS_DEVICE : ZV_TORCH_DEVICE], percent);
        break;
    case ZV_HOST_RSS:
        weigh(&t[ZV_DS_HOST], percent);
        break;
    case ZV_HOST_HWM:
    case ZV_QUANTITY_COUNT:
        break;
    }
}

static void tally_record(const zv_judged *record, tally *t)
{
    bool reserved_exact = true;
    size_t judged = 0;
    count(&t[record->deepspeed ? ZV_DS_MODELLED : ZV_TORCH_MODELLED], record->modelled);
    for (size_t i = 0; i < record->rows; i++) {
        const zv_row *const row = &record->row[i];
        if (row->judged) {
            tally_row(record, row, t);
            judged++;
            reserved_exact &= row->quantity != ZV_RESERVED || row->predicted == row->measured;
        }
    }
    if (judged > 0 && !record->deepspeed) {
        count(&t[ZV_TORCH_RESERVED_RECORDS], reserved_exact);
    }
}

void zv_figures_of(const zv_judgement *all, zv_figures *out)
{
    tally t[ZV_FIGURE_COUNT] = {{0}};
    for (size_t i = 0; i < all->records; i++) {
        tally_record(&all->record[i], t);
    }
    t[ZV_DS_PEAK_MAX] = t[ZV_DS_PEAK_MEAN];
    for (int f = 0; f < ZV_FIGURE_COUNT; f++) {
        out->known[f] = t[f].whole > 0;
        out->value[f] = out->known[f] ? t[f].part / t[f].whole : 0;
        if (figures[f].at_least) {
            out->value[f] *= 100;
        }
    }
    out->value[ZV_DS_PEAK_MAX] = t[ZV_DS_PEAK_MAX].max;
}

/* ---- groups ---- */

static zv_group *find_group(zv_group *group, size_t count_of, const zv_judged *record)
{
    for (size_t i = 0; i < count_of; i++) {
        if (strcmp(group[i].first->framework, record->framework) == 0 &&
            strcmp(group[i].first->version, record->version) == 0 &&
            strcmp(group[i].first->stage, record->stage) == 0) {
            return &group[i];
        }
    }
    return NULL;
}

/* Sums first; the mean is made of them at the end. */
static void add_to_group(zv_group *group, const zv_judged *record)
{
    group->records++;
    group->modelled += record->modelled;
    for (size_t i = 0; i < record->rows; i++) {
        const zv_row *const row = &record->row[i];
        zv_spread *const spread = &group->spread[row->quantity];
        if (row->judged) {
            const double percent = zv_row_percent(row);
            spread->rows++;
            spread->exact += row->predicted == row->measured;
            spread->mean += percent;
            spread->max = fmax(spread->max, percent);
        }
    }
}

zl_status zv_groups_of(const zv_judgement *all, zv_group **out, size_t *count_out, zl_err *err)
{
    size_t groups = 0;
    zv_group *const group = calloc(all->records + 1, sizeof *group);
    if (group == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for %zu groups", all->records);
    }
    for (size_t i = 0; i < all->records; i++) {
        zv_group *g = find_group(group, groups, &all->record[i]);
        if (g == NULL) {
            g = &group[groups++];
            g->first = &all->record[i];
        }
        add_to_group(g, &all->record[i]);
    }
    for (size_t i = 0; i < groups; i++) {
        for (int q = 0; q < ZV_QUANTITY_COUNT; q++) {
            zv_spread *const spread = &group[i].spread[q];
            spread->mean /= spread->rows > 0 ? (double)spread->rows : 1;
        }
    }
    *out = group;
    *count_out = groups;
    return ZL_OK;
}

/* ---- limits ---- */

static zl_status check_limit(zl_json limit, const zv_figures *measured, zl_err *err)
{
    static const char *const keys[] = {"figure", "bound"};
    const char *name = NULL;
    double bound = 0;
    ZL_TRY(zl_json_only(limit, keys, sizeof keys / sizeof keys[0], err));
    ZL_TRY(zl_json_string(zl_json_get(limit, "figure"), &name, err));
    ZL_TRY(zl_json_real(zl_json_get(limit, "bound"), &bound, err));
    for (int f = 0; f < ZV_FIGURE_COUNT; f++) {
        if (strcmp(figures[f].name, name) == 0) {
            const double value = measured->value[f];
            const bool met =
                measured->known[f] && (figures[f].at_least ? value >= bound : value <= bound);
            return met ? ZL_OK
                       : zl_fail(err, ZL_NO, "%s got worse: %.4f %%, the limit is %s %.4f %%", name,
                                 value, figures[f].at_least ? "at least" : "at most", bound);
        }
    }
    return zl_fail(err, ZL_E_INPUT, "%s: there is no figure \"%.60s\"", limit.path, name);
}

zl_status zv_limits_check(const char *path, const zv_figures *measured, zl_err *err)
{
    static const char *const keys[] = {"limits"};
    zl_json_doc *doc = NULL;
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_json root = zl_json_root(doc);
    const zl_json limits = zl_json_get(root, "limits");
    zl_status status = zl_json_only(root, keys, 1, err);
    if (status == ZL_OK && zl_json_size(limits) == 0) {
        status = zl_fail(err, ZL_E_INPUT, "limits must be a list of at least one");
    }
    for (size_t i = 0; i < zl_json_size(limits) && status == ZL_OK; i++) {
        status = check_limit(zl_json_item(limits, i), measured, err);
    }
    zl_json_free(doc);
    if (status == ZL_E_INPUT) {
        zl_fail_at(err, path);
    }
    return status;
}
