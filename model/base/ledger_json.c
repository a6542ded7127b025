#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "run_json.h"
#include "zeroledger/bytes.h"
#include "zeroledger/json.h"
#include "zeroledger/ledger.h"

static const char ledger_schema[] = "zeroledger.ledger/1";

#define KEYS(...)                                                                                  \
    (const char *const[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)

static void put_amount(zl_json_writer *w, const zl_amount *amount, zl_rung rung)
{
    zl_json_begin_object(w, zl_rung_name(rung));
    zl_json_put_u64(w, "end", amount->end);
    zl_json_put_u64(w, "at_peak", amount->at_peak);
    zl_json_put_u64(w, "max", amount->max);
    zl_json_end(w);
}

static bool line_is_zero(const zl_line *line)
{
    uint64_t any = 0;
    for (unsigned r = 0; r < ZL_RUNG_COUNT; r++) {
        any |= line->bytes[r].end | line->bytes[r].at_peak | line->bytes[r].max;
    }
    return any == 0;
}

static void put_line(zl_json_writer *w, const zl_line *line, zl_buf buf)
{
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "buffer", zl_buf_name(buf));
    zl_json_put_string(w, "kind", zl_kind_name(zl_buf_kind(buf)));
    for (unsigned r = 0; r < ZL_RUNG_COUNT; r++) {
        put_amount(w, &line->bytes[r], (zl_rung)r);
    }
    zl_json_end(w);
}

static void put_rungs(zl_json_writer *w, const uint64_t bytes[ZL_RUNG_COUNT])
{
    for (unsigned r = 0; r < ZL_RUNG_COUNT; r++) {
        zl_json_put_u64(w, zl_rung_name((zl_rung)r), bytes[r]);
    }
}

static void put_cell(zl_json_writer *w, const zl_cell *cell, zl_visit visit, zl_phase phase)
{
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "visit", zl_visit_name(visit));
    zl_json_put_string(w, "phase", zl_phase_name(phase));
    zl_json_begin_object(w, "peak");
    put_rungs(w, cell->peak);
    zl_json_end(w);
    zl_json_begin_array(w, "kind_max");
    for (unsigned k = 0; k < ZL_KIND_COUNT; k++) {
        if ((cell->kind_max[k][ZL_REQUESTED] | cell->kind_max[k][ZL_GRANTED]) != 0) {
            zl_json_begin_object(w, NULL);
            zl_json_put_string(w, "kind", zl_kind_name((zl_kind)k));
            put_rungs(w, cell->kind_max[k]);
            zl_json_end(w);
        }
    }
    zl_json_end(w);
    zl_json_begin_array(w, "buffers");
    for (unsigned b = 0; b < ZL_BUF_COUNT; b++) {
        if (!line_is_zero(&cell->line[b])) {
            put_line(w, &cell->line[b], (zl_buf)b);
        }
    }
    zl_json_end(w);
    zl_json_end(w);
}

/* Ledgers without one are of the first. */
static const char *const placements[ZL_PLACEMENT_COUNT] = {
    [ZL_PLACEMENT_MIXED] = "mixed", [ZL_PLACEMENT_APART] = "apart"};

static void put_witness(zl_json_writer *w, const zl_witness *witness)
{
    zl_json_begin_object(w, "witness");
    zl_json_put_string(w, "placement", placements[witness->placement]);
    zl_json_put_u64(w, "arena_reserved", witness->arena_reserved);
    zl_json_put_u64(w, "arena_resident", witness->arena_resident);
    zl_json_put_u64(w, "outside_cold", witness->outside_cold);
    zl_json_put_u64(w, "outside_steady", witness->outside_steady);
    zl_json_end(w);
}

static void put_ledger(zl_json_writer *w, const zl_ledger *ledger)
{
    char id[ZL_RUN_ID_SIZE];
    zl_run_id(&ledger->run, id);
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", ledger_schema);
    zl_json_put_string(w, "origin", zl_origin_name(ledger->origin));
    zl_json_begin_object(w, "run");
    zl_run_put(w, &ledger->run, true);
    zl_json_end(w);
    zl_json_put_string(w, "run_id", id);
    if (ledger->origin == ZL_ORIGIN_MEASURED) {
        zl_json_put_bool(w, "loopback", ledger->loopback);
    }
    zl_json_put_u64(w, "rank", ledger->rank);
    zl_json_put_u64(w, "granule", ledger->granule);
    if (ledger->witness.present) {
        put_witness(w, &ledger->witness);
    }
    zl_json_begin_array(w, "cells");
    for (unsigned v = 0; v < ZL_VISIT_COUNT; v++) {
        for (unsigned p = 0; p < ZL_PHASE_COUNT; p++) {
            if (ledger->cell[v][p].present) {
                put_cell(w, &ledger->cell[v][p], (zl_visit)v, (zl_phase)p);
            }
        }
    }
    zl_json_end(w);
    zl_json_end(w);
}

zl_status zl_ledger_save(const zl_ledger *ledger, const char *path, zl_err *err)
{
    ZL_TRY(zl_ledger_check(ledger, err));
    zl_json_writer *w = zl_json_writer_new();
    put_ledger(w, ledger);
    const zl_status status = zl_json_writer_save(w, path, err);
    zl_json_writer_free(w);
    return status;
}

static zl_status get_amount(zl_json object, zl_amount *out, zl_err *err)
{
    ZL_TRY(zl_json_only(object, KEYS("end", "at_peak", "max"), err));
    ZL_TRY(zl_json_u64(zl_json_get(object, "end"), &out->end, err));
    ZL_TRY(zl_json_u64(zl_json_get(object, "at_peak"), &out->at_peak, err));
    ZL_TRY(zl_json_u64(zl_json_get(object, "max"), &out->max, err));
    if (out->end > out->max || out->at_peak > out->max) {
        return zl_fail(err, ZL_E_INPUT,
                       "%s: max %" PRIu64 " is below end %" PRIu64 " or at_peak %" PRIu64,
                       object.path, out->max, out->end, out->at_peak);
    }
    return ZL_OK;
}

static zl_status get_rungs(zl_json object, uint64_t out[ZL_RUNG_COUNT], zl_err *err)
{
    for (unsigned r = 0; r < ZL_RUNG_COUNT; r++) {
        ZL_TRY(zl_json_u64(zl_json_get(object, zl_rung_name((zl_rung)r)), &out[r], err));
    }
    return ZL_OK;
}

static zl_status unknown_word(const zl_json *value, const char *word, zl_err *err)
{
    return zl_fail(err, ZL_E_INPUT, "%s \"%.60s\" is not in the vocabulary; correct the name",
                   value->path, word);
}

static zl_status get_line(zl_json object, zl_cell *cell, zl_err *err)
{
    const char *name = NULL;
    const char *kind = NULL;
    zl_buf buf = (zl_buf)0;
    const zl_json where = zl_json_get(object, "buffer");
    ZL_TRY(zl_json_only(object, KEYS("buffer", "kind", "requested", "granted"), err));
    ZL_TRY(zl_json_string(where, &name, err));
    ZL_TRY(zl_json_string(zl_json_get(object, "kind"), &kind, err));
    if (!zl_buf_find(name, &buf)) {
        return unknown_word(&where, name, err);
    }
    if (strcmp(kind, zl_kind_name(zl_buf_kind(buf))) != 0) {
        return zl_fail(err, ZL_E_INPUT, "%s.kind of %s must be \"%s\", got \"%.60s\"", object.path,
                       name, zl_kind_name(zl_buf_kind(buf)), kind);
    }
    zl_line *line = &cell->line[buf];
    if (!line_is_zero(line)) {
        return zl_fail(err, ZL_E_INPUT, "%s: buffer %s is given twice; keep one of them",
                       object.path, name);
    }
    for (unsigned r = 0; r < ZL_RUNG_COUNT; r++) {
        ZL_TRY(get_amount(zl_json_get(object, zl_rung_name((zl_rung)r)), &line->bytes[r], err));
    }
    const zl_amount *requested = &line->bytes[ZL_REQUESTED];
    const zl_amount *granted = &line->bytes[ZL_GRANTED];
    if (granted->end < requested->end || granted->max < requested->max) {
        return zl_fail(err, ZL_E_INPUT, "%s: fewer bytes of %s are granted than requested",
                       object.path, name);
    }
    return ZL_OK;
}

static zl_status get_kind_max(zl_json object, zl_cell *cell, zl_err *err)
{
    const char *name = NULL;
    zl_kind kind = (zl_kind)0;
    const zl_json where = zl_json_get(object, "kind");
    ZL_TRY(zl_json_only(object, KEYS("kind", "requested", "granted"), err));
    ZL_TRY(zl_json_string(where, &name, err));
    if (!zl_kind_find(name, &kind)) {
        return unknown_word(&where, name, err);
    }
    uint64_t *bytes = cell->kind_max[kind];
    if ((bytes[ZL_REQUESTED] | bytes[ZL_GRANTED]) != 0) {
        return zl_fail(err, ZL_E_INPUT, "%s: kind %s is given twice; keep one of them", object.path,
                       name);
    }
    return get_rungs(object, bytes, err);
}

/* A kind's own maximum lies between what it holds at a moment we know and the sum of its buffers'
 * maxima. */
static zl_status check_kind(const zl_json *at, const zl_cell *cell, zl_kind kind, zl_rung rung,
                            zl_err *err)
{
    uint64_t sum = 0;
    bool any = false;
    for (unsigned b = 0; b < ZL_BUF_COUNT; b++) {
        if (zl_buf_kind((zl_buf)b) == kind) {
            sum = zl_add(sum, cell->line[b].bytes[rung].max);
            any = true;
        }
    }
    const uint64_t low =
        zl_max(zl_cell_kind_at_peak(cell, kind, rung), zl_cell_kind_end(cell, kind, rung));
    const uint64_t got = cell->kind_max[kind][rung];
    if (any && (got < low || got > sum)) {
        return zl_fail(err, ZL_E_INPUT,
                       "%s: the %s maximum of kind %s is %" PRIu64
                       ", but its buffers allow %" PRIu64 "..%" PRIu64,
                       at->path, zl_rung_name(rung), zl_kind_name(kind), got, low, sum);
    }
    return ZL_OK;
}

static zl_status check_cell(const zl_json *at, const zl_cell *cell, zl_err *err)
{
    for (unsigned r = 0; r < ZL_RUNG_COUNT; r++) {
        const zl_rung rung = (zl_rung)r;
        uint64_t sum = 0;
        for (unsigned k = 0; k < ZL_KIND_COUNT; k++) {
            sum = zl_add(sum, zl_cell_kind_at_peak(cell, (zl_kind)k, rung));
            ZL_TRY(check_kind(at, cell, (zl_kind)k, rung, err));
        }
        if (sum != cell->peak[r]) {
            return zl_fail(err, ZL_E_INPUT,
                           "%s: at_peak of the buffers adds up to %" PRIu64
                           ", but the %s peak is %" PRIu64,
                           at->path, sum, zl_rung_name(rung), cell->peak[r]);
        }
        if (zl_cell_end(cell, rung) > cell->peak[r]) {
            return zl_fail(err, ZL_E_INPUT,
                           "%s: end adds up to %" PRIu64 ", above the %s peak %" PRIu64, at->path,
                           zl_cell_end(cell, rung), zl_rung_name(rung), cell->peak[r]);
        }
    }
    return ZL_OK;
}

static zl_status get_place(zl_json object, zl_visit *visit, zl_phase *phase, zl_err *err)
{
    const char *visit_name = "";
    const char *phase_name = "";
    const zl_json visit_at = zl_json_get(object, "visit");
    const zl_json phase_at = zl_json_get(object, "phase");
    ZL_TRY(zl_json_string(visit_at, &visit_name, err));
    ZL_TRY(zl_json_string(phase_at, &phase_name, err));
    if (!zl_visit_find(visit_name, visit)) {
        return unknown_word(&visit_at, visit_name, err);
    }
    if (!zl_phase_find(phase_name, phase)) {
        return unknown_word(&phase_at, phase_name, err);
    }
    return ZL_OK;
}

/* limit: how many different elements there can be; it bounds the time a wrong file takes. */
static zl_status get_array(zl_json object, const char *key, size_t limit, zl_json *out, zl_err *err)
{
    *out = zl_json_get(object, key);
    if (!zl_json_is_array(*out)) {
        return zl_fail(err, ZL_E_INPUT, "%s must be an array", out->path);
    }
    if (zl_json_size(*out) > limit) {
        return zl_fail(err, ZL_E_INPUT, "%s must have at most %zu elements, got %zu", out->path,
                       limit, zl_json_size(*out));
    }
    return ZL_OK;
}

static zl_status get_cell_figures(zl_json object, zl_cell *cell, zl_err *err)
{
    zl_json kinds;
    zl_json buffers;
    const zl_json peak = zl_json_get(object, "peak");
    ZL_TRY(zl_json_only(peak, KEYS("requested", "granted"), err));
    ZL_TRY(get_rungs(peak, cell->peak, err));
    ZL_TRY(get_array(object, "kind_max", ZL_KIND_COUNT, &kinds, err));
    for (size_t i = 0; i < zl_json_size(kinds); i++) {
        ZL_TRY(get_kind_max(zl_json_item(kinds, i), cell, err));
    }
    ZL_TRY(get_array(object, "buffers", ZL_BUF_COUNT, &buffers, err));
    for (size_t i = 0; i < zl_json_size(buffers); i++) {
        ZL_TRY(get_line(zl_json_item(buffers, i), cell, err));
    }
    return check_cell(&object, cell, err);
}

static zl_status get_cell(zl_json object, zl_ledger *ledger, zl_err *err)
{
    zl_visit visit = (zl_visit)0;
    zl_phase phase = (zl_phase)0;
    ZL_TRY(zl_json_only(object, KEYS("visit", "phase", "peak", "kind_max", "buffers"), err));
    ZL_TRY(get_place(object, &visit, &phase, err));
    zl_cell *cell = zl_ledger_cell(ledger, visit, phase);
    if (cell->present) {
        return zl_fail(err, ZL_E_INPUT, "%s: %s of the %s visit is given twice; keep one of them",
                       object.path, zl_phase_name(phase), zl_visit_name(visit));
    }
    cell->present = true;
    return get_cell_figures(object, cell, err);
}

static zl_status get_origin(zl_json value, zl_origin *out, zl_err *err)
{
    const char *name = NULL;
    ZL_TRY(zl_json_string(value, &name, err));
    for (unsigned i = 0; i < ZL_ORIGIN_COUNT; i++) {
        if (strcmp(zl_origin_name((zl_origin)i), name) == 0) {
            *out = (zl_origin)i;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_INPUT,
                   "%s must be predicted, measured, walked or imported, got \"%.60s\"", value.path,
                   name);
}

static zl_status get_placement(zl_json value, zl_placement *out, zl_err *err)
{
    const char *name = placements[ZL_PLACEMENT_MIXED];
    if (value.node != NULL) {
        ZL_TRY(zl_json_string(value, &name, err));
    }
    for (unsigned p = 0; p < ZL_PLACEMENT_COUNT; p++) {
        if (strcmp(name, placements[p]) == 0) {
            *out = (zl_placement)p;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_INPUT, "%s must be mixed or apart, got \"%.60s\"", value.path, name);
}

static zl_status get_witness(zl_json object, zl_witness *out, zl_err *err)
{
    if (object.node == NULL) {
        return ZL_OK;
    }
    ZL_TRY(zl_json_only(
        object,
        KEYS("placement", "arena_reserved", "arena_resident", "outside_cold", "outside_steady"),
        err));
    ZL_TRY(get_placement(zl_json_get(object, "placement"), &out->placement, err));
    ZL_TRY(zl_json_u64(zl_json_get(object, "arena_reserved"), &out->arena_reserved, err));
    ZL_TRY(zl_json_u64(zl_json_get(object, "arena_resident"), &out->arena_resident, err));
    ZL_TRY(zl_json_u64(zl_json_get(object, "outside_cold"), &out->outside_cold, err));
    ZL_TRY(zl_json_u64(zl_json_get(object, "outside_steady"), &out->outside_steady, err));
    out->present = true;
    return ZL_OK;
}

static zl_status get_head(zl_json root, zl_ledger *ledger, zl_err *err)
{
    const char *id = NULL;
    char own_id[ZL_RUN_ID_SIZE];
    ZL_TRY(get_origin(zl_json_get(root, "origin"), &ledger->origin, err));
    ZL_TRY(zl_run_get(zl_json_get(root, "run"), false, &ledger->run, err));
    ZL_TRY(zl_json_string(zl_json_get(root, "run_id"), &id, err));
    zl_run_id(&ledger->run, own_id);
    if (strcmp(id, own_id) != 0) {
        return zl_fail(
            err, ZL_E_INPUT,
            "run_id is %.40s, but the run has id %s; the file was changed after it was written", id,
            own_id);
    }
    const zl_json loopback = zl_json_get(root, "loopback"); /* younger than the format */
    if (loopback.node != NULL) {
        ZL_TRY(zl_json_bool(loopback, &ledger->loopback, err));
    }
    ZL_TRY(zl_json_u64(zl_json_get(root, "rank"), &ledger->rank, err));
    ZL_TRY(zl_json_u64(zl_json_get(root, "granule"), &ledger->granule, err));
    if (ledger->rank >= ledger->run.ranks || ledger->granule == 0) {
        return zl_fail(err, ZL_E_INPUT,
                       "rank must be below the run's ranks %" PRIu64
                       " and granule at least 1, got %" PRIu64 " and %" PRIu64,
                       ledger->run.ranks, ledger->rank, ledger->granule);
    }
    return get_witness(zl_json_get(root, "witness"), &ledger->witness, err);
}

static zl_status get_ledger(zl_json root, zl_ledger *ledger, zl_err *err)
{
    zl_json cells;
    ZL_TRY(zl_json_schema(root, ledger_schema, err));
    ZL_TRY(zl_json_only(root,
                        KEYS("schema", "origin", "run", "run_id", "loopback", "rank", "granule",
                             "witness", "cells"),
                        err));
    ZL_TRY(get_head(root, ledger, err));
    ZL_TRY(get_array(root, "cells", (size_t)ZL_VISIT_COUNT * ZL_PHASE_COUNT, &cells, err));
    for (size_t i = 0; i < zl_json_size(cells); i++) {
        ZL_TRY(get_cell(zl_json_item(cells, i), ledger, err));
    }
    return ZL_OK;
}

zl_status zl_ledger_load(const char *path, zl_ledger **out, zl_err *err)
{
    zl_json_doc *doc = NULL;
    ZL_TRY(zl_json_load(path, &doc, err));
    zl_ledger *ledger = zl_ledger_new();
    zl_status status = ledger != NULL ? get_ledger(zl_json_root(doc), ledger, err)
                                      : zl_fail(err, ZL_E_RESOURCE, "out of memory for a ledger");
    zl_json_free(doc);
    if (status != ZL_OK) {
        zl_ledger_free(ledger);
        zl_fail_at(err, strcmp(path, "-") == 0 ? "standard input" : path);
        return status;
    }
    *out = ledger;
    return ZL_OK;
}
