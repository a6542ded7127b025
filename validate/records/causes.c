#include "records/causes.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_BIT = 63, CAUSES_MAX = 64 };

struct zv_causes {
    zl_json_doc *doc;
    zl_json list;
};

static zl_status check_cause(zl_json cause, zl_err *err)
{
    static const char *const keys[] = {"records", "quantities", "at", "cause"};
    const char *text = NULL;
    ZL_TRY(zl_json_only(cause, keys, sizeof keys / sizeof keys[0], err));
    ZL_TRY(zl_json_string(zl_json_get(cause, "cause"), &text, err));
    for (size_t k = 0; k < 3; k++) {
        const zl_json list = zl_json_get(cause, keys[k]);
        if (list.node != NULL && !zl_json_is_array(list)) {
            return zl_fail(err, ZL_E_INPUT, "%s must be a list", list.path);
        }
        for (size_t i = 0; i < zl_json_size(list); i++) {
            ZL_TRY(zl_json_string(zl_json_item(list, i), &text, err));
        }
    }
    return zl_json_get(cause, "records").node != NULL
               ? ZL_OK
               : zl_fail(err, ZL_E_INPUT, "%s.records is missing", cause.path);
}

zl_status zv_causes_load(const char *path, zv_causes **out, zl_err *err)
{
    zl_status status;
    zv_causes *const causes = calloc(1, sizeof *causes);
    if (causes == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for %s", path);
    }
    ZL_TRY_GOTO(status, zl_json_load(path, &causes->doc, err), fail);
    causes->list = zl_json_get(zl_json_root(causes->doc), "causes");
    if (!zl_json_is_array(causes->list) || zl_json_size(causes->list) > CAUSES_MAX) {
        status = zl_fail(err, ZL_E_INPUT, "causes must be a list of at most %d", CAUSES_MAX);
        goto fail;
    }
    for (size_t i = 0; i < zl_json_size(causes->list); i++) {
        ZL_TRY_GOTO(status, check_cause(zl_json_item(causes->list, i), err), fail);
    }
    *out = causes;
    return ZL_OK;
fail:
    zv_causes_free(causes);
    if (status == ZL_E_INPUT) {
        zl_fail_at(err, path);
    }
    return status;
}

void zv_causes_free(zv_causes *causes)
{
    if (causes != NULL) {
        zl_json_free(causes->doc);
        free(causes);
    }
}

/* An absent list means everything. */
static bool listed(zl_json list, const char *name)
{
    zl_err ignored = {0};
    const char *pattern = "";
    bool found = list.node == NULL;
    for (size_t i = 0; i < zl_json_size(list) && !found; i++) {
        found = zl_json_string(zl_json_item(list, i), &pattern, &ignored) == ZL_OK &&
                fnmatch(pattern, name, 0) == 0;
    }
    return found;
}

/* Fills in the first cause that matches. */
static void explain(const zv_causes *causes, zv_miss *miss, bool used[CAUSES_MAX])
{
    for (size_t i = 0; i < zl_json_size(causes->list); i++) {
        const zl_json cause = zl_json_item(causes->list, i);
        zl_err ignored = {0};
        if (listed(zl_json_get(cause, "records"), miss->record->id) &&
            listed(zl_json_get(cause, "quantities"), zv_quantity_name(miss->row->quantity)) &&
            listed(zl_json_get(cause, "at"), miss->row->at) &&
            zl_json_string(zl_json_get(cause, "cause"), &miss->cause, &ignored) == ZL_OK) {
            used[i] = true;
            miss->number = i + 1;
            return;
        }
    }
}

static uint64_t bit(int64_t index)
{
    return UINT64_C(1) << (index > LAST_BIT ? LAST_BIT : index);
}

static bool joins(const zv_miss *miss, const zv_judged *record, const zv_row *row)
{
    return miss->record == record && miss->row->quantity == row->quantity &&
           strcmp(miss->row->at, row->at) == 0 && miss->row->measured == row->measured &&
           miss->row->predicted == row->predicted;
}

static int by_place(const void *a, const void *b)
{
    const zv_miss *const x = a;
    const zv_miss *const y = b;
    if (x->record != y->record) {
        return x->record < y->record ? -1 : 1;
    }
    if (x->row->quantity != y->row->quantity) {
        return x->row->quantity < y->row->quantity ? -1 : 1;
    }
    return x->row < y->row ? -1 : x->row > y->row;
}

static void add_miss(const zv_judged *record, const zv_row *row, const zv_causes *causes,
                     bool used[CAUSES_MAX], zv_miss *miss, size_t *count)
{
    const uint64_t step = bit(row->step + 1);
    const uint64_t rank = bit(row->rank > LAST_BIT ? LAST_BIT : (int64_t)row->rank);
    for (size_t i = *count; i-- > 0 && miss[i].record == record;) {
        if (joins(&miss[i], record, row)) {
            miss[i].steps |= step;
            miss[i].ranks |= rank;
            return;
        }
    }
    miss[*count] = (zv_miss){.record = record, .row = row, .steps = step, .ranks = rank};
    explain(causes, &miss[*count], used);
    (*count)++;
}

static bool concerns(zl_json cause, const zv_judgement *all)
{
    for (size_t i = 0; i < all->records; i++) {
        if (listed(zl_json_get(cause, "records"), all->record[i].id)) {
            return true;
        }
    }
    return false;
}

static size_t count_misses(const zv_judgement *all)
{
    size_t count = 0;
    for (size_t i = 0; i < all->records; i++) {
        for (size_t r = 0; r < all->record[i].rows; r++) {
            count += zv_row_misses(&all->record[i].row[r]);
        }
    }
    return count;
}

zl_status zv_misses_of(const zv_judgement *all, const zv_causes *causes, zv_miss **out,
                       size_t *count_out, zl_err *err)
{
    bool used[CAUSES_MAX] = {false};
    size_t count = 0;
    zv_miss *const miss = calloc(count_misses(all) + 1, sizeof *miss);
    if (miss == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for the misses");
    }
    for (size_t i = 0; i < all->records; i++) {
        for (size_t r = 0; r < all->record[i].rows; r++) {
            if (zv_row_misses(&all->record[i].row[r])) {
                add_miss(&all->record[i], &all->record[i].row[r], causes, used, miss, &count);
            }
        }
    }
    for (size_t i = 0; i < zl_json_size(causes->list); i++) {
        const zl_json cause = zl_json_item(causes->list, i);
        if (!used[i] && concerns(cause, all)) {
            free(miss);
            return zl_fail(err, ZL_NO, "%s explains no miss; delete it", cause.path);
        }
    }
    qsort(miss, count, sizeof *miss, by_place);
    *out = miss;
    *count_out = count;
    return ZL_OK;
}
