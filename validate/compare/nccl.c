#include "compare/nccl.h"

#include <stdio.h>
#include <string.h>

#include "compare/read.h"
#include "zeroledger/bytes.h"
#include "zeroledger/json.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static zl_status read_rank(zl_json object, zv_nccl_row *row, size_t rank, zl_err *err)
{
    uint64_t gather = 0;
    uint64_t scatter = 0;
    const zv_member members[] = {
        {.key = "communicator", .count = &row->communicator[rank]},
        {.key = "all-gather", .count = &gather},
        {.key = "reduce-scatter", .count = &scatter},
        {.key = "broadcast"},
        {.key = "all-reduce"},
        {.key = "given_back", .count = &row->given_back[rank]},
    };
    ZL_TRY(zv_read_members(object, members, COUNT_OF(members), err));
    row->ring[rank] = zl_add(gather, scatter);
    return ZL_OK;
}

static zl_status read_row(zl_json object, uint64_t ranks, zv_nccl_row *row, zl_err *err)
{
    const zv_member members[] = {
        {.key = "name", .text = row->name, .size = sizeof row->name},
        {.key = "how"},
        {.key = "cap", .count = &row->cap},
        {.key = "cold", .flag = &row->cold},
        {.key = "rings", .count = &row->rings},
        {.key = "pairs", .count = &row->pairs},
        {.key = "ranks"},
    };
    ZL_TRY(zv_read_members(object, members, COUNT_OF(members), err));
    const zl_json list = zl_json_get(object, "ranks");
    if (zl_json_size(list) != ranks) {
        return zl_fail(err, ZL_E_INPUT, "%s: not one for each rank", list.path);
    }
    for (size_t r = 0; r < zl_json_size(list); r++) {
        ZL_TRY(read_rank(zl_json_item(list, r), row, r, err));
    }
    return ZL_OK;
}

static zl_status read_root(zl_json root, zv_nccl *n, zl_err *err)
{
    const zv_member members[] = {
        {.key = "schema"},
        {.key = "date", .text = n->date, .size = sizeof n->date},
        {.key = "gpu", .text = n->gpu, .size = sizeof n->gpu},
        {.key = "driver", .text = n->driver, .size = sizeof n->driver},
        {.key = "cuda", .text = n->cuda, .size = sizeof n->cuda},
        {.key = "nccl", .text = n->version, .size = sizeof n->version},
        {.key = "ranks", .count = &n->ranks},
        {.key = "context"},
        {.key = "configurations"},
    };
    zl_json list;
    ZL_TRY(zl_json_schema(root, "zeroledger.nccl/1", err));
    ZL_TRY(zv_read_members(root, members, COUNT_OF(members), err));
    ZL_TRY(zv_read_list(root, "configurations", &list, err));
    n->rows = zl_json_size(list);
    if (n->ranks == 0 || n->ranks > ZV_NCCL_RANKS_MAX || n->rows > ZV_NCCL_ROWS_MAX) {
        return zl_fail(err, ZL_E_INPUT, "%zu configurations of %zu ranks are more than are read",
                       n->rows, (size_t)n->ranks);
    }
    for (size_t i = 0; i < n->rows; i++) {
        ZL_TRY(read_row(zl_json_item(list, i), n->ranks, &n->row[i], err));
    }
    return ZL_OK;
}

zl_status zv_nccl_load(const char *path, zv_nccl *out, zl_err *err)
{
    zl_json_doc *doc = NULL;
    zv_nccl n = {.rows = 0};
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_status status = read_root(zl_json_root(doc), &n, err);
    zl_json_free(doc);
    if (status == ZL_OK) {
        *out = n;
    }
    return status == ZL_OK || err == NULL ? status : zl_fail_at(err, path);
}

/* Communicator and rings. */
static uint64_t taken(const zv_nccl_row *row, size_t rank)
{
    return zl_add(row->communicator[rank], row->ring[rank]);
}

static uint64_t predicted(const zl_nccl *nccl)
{
    return zl_add(zl_nccl_communicator_bytes(nccl), zl_nccl_ring_bytes(nccl));
}

zl_status zv_nccl_usual(const zv_nccl *nccl, zl_nccl *out, zl_err *err)
{
    for (size_t i = 0; i < nccl->rows; i++) {
        const zv_nccl_row *const row = &nccl->row[i];
        if (strcmp(row->name, "default") != 0) {
            continue;
        }
        const zl_nccl channels = {.rings = row->rings, .pairs = row->pairs};
        const uint64_t least = predicted(&channels);
        if (taken(row, 0) < least) {
            return zl_fail(err, ZL_E_INPUT,
                           "the communicator named default took less than its channels do");
        }
        *out = (zl_nccl){row->rings, row->pairs, zl_sub(taken(row, 0), least)};
        return ZL_OK;
    }
    return zl_fail(err, ZL_E_INPUT, "no communicator is named default");
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

zv_nccl_verdict zv_nccl_judge(const zv_nccl_row *row, uint64_t ranks, const zl_nccl *usual)
{
    const zl_nccl here = zl_nccl_capped(usual->rings, usual->own, row->cap);
    zv_nccl_verdict v = {
        .judged = !row->cold && strcmp(row->name, "default") != 0,
        .channels = row->rings == here.rings && row->pairs == here.pairs,
        .predicted = predicted(&here),
        .measured = taken(row, 0),
    };
    for (size_t r = 1; r < ranks; r++) {
        if (distance(taken(row, r), v.predicted) > distance(v.measured, v.predicted)) {
            v.measured = taken(row, r);
        }
    }
    return v;
}

bool zv_nccl_agrees(const zv_nccl_verdict *v)
{
    return !v->judged || (v->channels && v->measured == v->predicted);
}

/* The growth of one device, and whether its marks have both stages. The meter also sets marks of
 * its own, wherever the program asks how much is in use: one lies between the communicator's
 * allocations and its mark, so what was there before is that of the last mark that the program set.
 */
static zl_status look(zl_json marks, const char *name, bool *found, uint64_t *bytes, zl_err *err)
{
    char first[ZV_NCCL_NAME_SIZE + 16];
    char last[ZV_NCCL_NAME_SIZE + 16];
    uint64_t before = 0;
    uint64_t begin = 0;
    bool set = false;
    bool begun = false;
    (void)snprintf(first, sizeof first, "%s communicator", name);
    (void)snprintf(last, sizeof last, "%s reduce-scatter", name);
    *found = false;
    for (size_t i = 0; i < zl_json_size(marks) && !*found; i++) {
        const zl_json mark = zl_json_item(marks, i);
        const char *text = NULL;
        uint64_t traced = 0;
        bool automatic = false;
        ZL_TRY(zl_json_string(zl_json_get(mark, "name"), &text, err));
        ZL_TRY(zl_json_u64(zl_json_get(mark, "traced"), &traced, err));
        ZL_TRY(zl_json_bool(zl_json_get(mark, "automatic"), &automatic, err));
        if (automatic) {
            continue;
        }
        if (set && strcmp(text, first) == 0) {
            begin = before;
            begun = true;
        }
        if (begun && strcmp(text, last) == 0) {
            *bytes = traced > begin ? traced - begin : 0;
            *found = true;
        }
        before = traced;
        set = true;
    }
    return ZL_OK;
}

static zl_status look_everywhere(zl_json root, const char *name, uint64_t expected, size_t *devices,
                                 uint64_t *bytes, zl_err *err)
{
    ZL_TRY(zl_json_schema(root, "zeroledger.trace/1", err));
    const zl_json processes = zl_json_get(root, "processes");
    for (size_t i = 0; i < zl_json_size(processes); i++) {
        const zl_json list = zl_json_get(zl_json_item(processes, i), "devices");
        for (size_t d = 0; d < zl_json_size(list); d++) {
            bool found = false;
            uint64_t here = 0;
            ZL_TRY(look(zl_json_get(zl_json_item(list, d), "marks"), name, &found, &here, err));
            if (found && (*devices == 0 || distance(here, expected) > distance(*bytes, expected))) {
                *bytes = here;
            }
            *devices += found ? 1 : 0;
        }
    }
    return ZL_OK;
}

zl_status zv_nccl_traced(const char *path, const char *name, uint64_t expected, size_t *devices,
                         uint64_t *bytes, zl_err *err)
{
    zl_json_doc *doc = NULL;
    *devices = 0;
    *bytes = 0;
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_status status =
        look_everywhere(zl_json_root(doc), name, expected, devices, bytes, err);
    zl_json_free(doc);
    return status == ZL_OK || err == NULL ? status : zl_fail_at(err, path);
}
