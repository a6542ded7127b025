#include "compare/verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compare/read.h"

static const char schema[] = "zeroledger.verdict/1";

static void write_first(zl_json_writer *w, const zv_verdict *v)
{
    const zl_difference *const d = &v->diff.first;
    zl_json_begin_object(w, "first");
    zl_json_put_u64(w, "rank", v->first_rank);
    zl_json_put_string(w, "visit", zl_visit_name(d->visit));
    zl_json_put_string(w, "phase", zl_phase_name(d->phase));
    zl_json_put_string(w, "rung", zl_rung_name(d->rung));
    zl_json_put_string(w, "what", d->what);
    if (d->has_buffer) {
        zl_json_put_string(w, "buffer", zl_buf_name(d->buffer));
    }
    zl_json_put_string(w, "kind", zl_kind_name(d->kind));
    zl_json_put_u64(w, "predicted", d->a);
    zl_json_put_u64(w, "measured", d->b);
    zl_json_end(w);
}

static void write_peaks(zl_json_writer *w, const zv_verdict *v)
{
    zl_json_begin_array(w, "peaks");
    for (size_t i = 0; i < v->peak_count; i++) {
        const zv_peak *const p = &v->peak[i];
        zl_json_begin_object(w, NULL);
        zl_json_put_string(w, "visit", zl_visit_name(p->visit));
        zl_json_put_string(w, "phase", zl_phase_name(p->phase));
        zl_json_put_u64(w, "predicted_requested", p->predicted[ZL_REQUESTED]);
        zl_json_put_u64(w, "measured_requested", p->measured[ZL_REQUESTED]);
        zl_json_put_u64(w, "predicted_granted", p->predicted[ZL_GRANTED]);
        zl_json_put_u64(w, "measured_granted", p->measured[ZL_GRANTED]);
        zl_json_end(w);
    }
    zl_json_end(w);
}

static void write_case(zl_json_writer *w, const zv_verdict *v)
{
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "id", v->id);
    zl_json_put_string(w, "run", v->run_id);
    zl_json_put_string(w, "trainer", v->trainer);
    zl_json_put_string(w, "outcome", zv_outcome_name(v->outcome));
    zl_json_put_string(w, "message", v->message);
    zl_json_put_u64(w, "ranks", v->ranks);
    zl_json_put_u64(w, "cells", v->diff.cells);
    zl_json_put_u64(w, "figures", v->diff.figures);
    zl_json_put_u64(w, "differing", v->diff.differing);
    zl_json_put_u64(w, "requested_off", v->diff.off[ZL_REQUESTED]);
    zl_json_put_u64(w, "granted_off", v->diff.off[ZL_GRANTED]);
    if (v->diff.first.found) {
        write_first(w, v);
    }
    if (v->has_witness) {
        zl_json_begin_object(w, "witness");
        zl_json_put_u64(w, "outside_steady", v->outside_steady);
        zl_json_put_u64(w, "outside_cold", v->outside_cold);
        zl_json_end(w);
    }
    zl_json_put_real(w, "seconds", v->seconds);
    zl_json_put_string(w, "machine", v->train.machine);
    zl_json_put_real(w, "tokens_per_second", v->train.tokens_per_second);
    zl_json_put_real(w, "first_loss", v->train.first_loss);
    zl_json_put_real(w, "last_loss", v->train.last_loss);
    write_peaks(w, v);
    zl_json_end(w);
}

zl_status zv_verdicts_save(const zv_verdicts *verdicts, const char *path, zl_err *err)
{
    zl_json_writer *const w = zl_json_writer_new();
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", schema);
    zl_json_put_string(w, "name", verdicts->name);
    zl_json_put_string(w, "version", verdicts->version);
    zl_json_put_string(w, "commit", verdicts->commit);
    zl_json_begin_object(w, "tolerance");
    zl_json_put_u64(w, "requested", verdicts->tolerance.requested);
    zl_json_put_u64(w, "granted", verdicts->tolerance.granted);
    zl_json_put_u64(w, "outside_steady", verdicts->tolerance.outside_steady);
    zl_json_end(w);
    zl_json_put_u64(w, "steps", verdicts->steps);
    zl_json_put_bool(w, "poison", verdicts->poison);
    zl_json_put_u64(w, "planned", verdicts->planned);
    zl_json_begin_array(w, "cases");
    for (size_t i = 0; i < verdicts->count; i++) {
        write_case(w, &verdicts->item[i]);
    }
    zl_json_end(w);
    zl_json_end(w);
    const zl_status status = zl_json_writer_save(w, path, err);
    zl_json_writer_free(w);
    return status;
}

#define READ(object, members, err)                                                                 \
    zv_read_members((object), (members), sizeof(members) / sizeof((members)[0]), (err))

static zl_status read_first(zl_json object, zv_verdict *v, zl_err *err)
{
    zl_difference d = {.found = true, .count = v->diff.differing};
    char rung[16], what[16];
    const zv_member members[] = {
        {.key = "rank", .count = &v->first_rank},
        {.key = "visit", .visit = &d.visit},
        {.key = "phase", .phase = &d.phase},
        {.key = "rung", .text = rung, .size = sizeof rung},
        {.key = "what", .text = what, .size = sizeof what},
        {.key = "buffer", .buffer = &d.buffer, .optional = true},
        {.key = "kind", .kind = &d.kind},
        {.key = "predicted", .count = &d.a},
        {.key = "measured", .count = &d.b},
    };
    ZL_TRY(READ(object, members, err));
    d.has_buffer = zl_json_get(object, "buffer").node != NULL;
    d.rung = strcmp(rung, zl_rung_name(ZL_GRANTED)) == 0 ? ZL_GRANTED : ZL_REQUESTED;
    d.what = zv_difference_what(what);
    if (d.what == NULL || strcmp(rung, zl_rung_name(d.rung)) != 0) {
        return zl_fail(err, ZL_E_INPUT, "%s: there is no figure \"%s %s\"", object.path, rung,
                       what);
    }
    v->diff.first = d;
    return ZL_OK;
}

static zl_status read_peak(zl_json object, zv_peak *p, zl_err *err)
{
    const zv_member members[] = {
        {.key = "visit", .visit = &p->visit},
        {.key = "phase", .phase = &p->phase},
        {.key = "predicted_requested", .count = &p->predicted[ZL_REQUESTED]},
        {.key = "measured_requested", .count = &p->measured[ZL_REQUESTED]},
        {.key = "predicted_granted", .count = &p->predicted[ZL_GRANTED]},
        {.key = "measured_granted", .count = &p->measured[ZL_GRANTED]},
    };
    return READ(object, members, err);
}

static zl_status read_peaks(zl_json array, zv_verdict *v, zl_err *err)
{
    v->peak_count = zl_json_size(array);
    if (!zl_json_is_array(array) || v->peak_count > ZV_CELLS_MAX) {
        return zl_fail(err, ZL_E_INPUT, "%s: must be a list of at most %d", array.path,
                       ZV_CELLS_MAX);
    }
    for (size_t i = 0; i < v->peak_count; i++) {
        ZL_TRY(read_peak(zl_json_item(array, i), &v->peak[i], err));
    }
    return ZL_OK;
}

static zl_status find_outcome(const char *name, const char *path, zv_outcome *out, zl_err *err)
{
    for (int o = 0; o < ZV_OUTCOME_COUNT; o++) {
        if (strcmp(name, zv_outcome_name((zv_outcome)o)) == 0) {
            *out = (zv_outcome)o;
            return ZL_OK;
        }
    }
    return zl_fail(err, ZL_E_INPUT, "%s.outcome: \"%s\" is none of equal, differs, failed", path,
                   name);
}

static zl_status read_witness(zl_json object, zv_verdict *v, zl_err *err)
{
    const zv_member members[] = {{.key = "outside_steady", .count = &v->outside_steady},
                                 {.key = "outside_cold", .count = &v->outside_cold}};
    v->has_witness = object.node != NULL;
    return v->has_witness ? READ(object, members, err) : ZL_OK;
}

static zl_status read_case(zl_json object, zv_verdict *v, zl_err *err)
{
    char outcome[16];
    const zv_member members[] = {
        {.key = "id", .text = v->id, .size = sizeof v->id},
        {.key = "run", .text = v->run_id, .size = sizeof v->run_id},
        {.key = "trainer", .text = v->trainer, .size = sizeof v->trainer},
        {.key = "outcome", .text = outcome, .size = sizeof outcome},
        {.key = "message", .text = v->message, .size = sizeof v->message},
        {.key = "ranks", .count = &v->ranks},
        {.key = "cells", .count = &v->diff.cells},
        {.key = "figures", .count = &v->diff.figures},
        {.key = "differing", .count = &v->diff.differing},
        {.key = "requested_off", .count = &v->diff.off[ZL_REQUESTED]},
        {.key = "granted_off", .count = &v->diff.off[ZL_GRANTED]},
        {.key = "first", .optional = true},
        {.key = "witness", .optional = true},
        {.key = "seconds", .real = &v->seconds},
        {.key = "machine", .text = v->train.machine, .size = sizeof v->train.machine},
        {.key = "tokens_per_second", .real = &v->train.tokens_per_second},
        {.key = "first_loss", .real = &v->train.first_loss},
        {.key = "last_loss", .real = &v->train.last_loss},
        {.key = "peaks"},
    };
    ZL_TRY(READ(object, members, err));
    ZL_TRY(find_outcome(outcome, object.path, &v->outcome, err));
    ZL_TRY(read_witness(zl_json_get(object, "witness"), v, err));
    ZL_TRY(read_peaks(zl_json_get(object, "peaks"), v, err));
    const zl_json first = zl_json_get(object, "first");
    return first.node == NULL ? ZL_OK : read_first(first, v, err);
}

static zl_status read_cases(zl_json cases, zv_verdicts *all, zl_err *err)
{
    if (!zl_json_is_array(cases)) {
        return zl_fail(err, ZL_E_INPUT, "cases: must be a list");
    }
    for (size_t i = 0; i < zl_json_size(cases); i++) {
        zv_verdict verdict = {0};
        ZL_TRY(read_case(zl_json_item(cases, i), &verdict, err));
        ZL_TRY(zv_verdicts_add(all, &verdict, err));
    }
    return ZL_OK;
}

static zl_status read_all(zl_json root, zv_verdicts *all, zl_err *err)
{
    const zv_member members[] = {
        {.key = "schema"},
        {.key = "name", .text = all->name, .size = sizeof all->name},
        {.key = "version", .text = all->version, .size = sizeof all->version},
        {.key = "commit", .text = all->commit, .size = sizeof all->commit},
        {.key = "tolerance"},
        {.key = "steps", .count = &all->steps},
        {.key = "poison", .flag = &all->poison},
        {.key = "planned", .count = &all->planned},
        {.key = "cases"},
    };
    ZL_TRY(zl_json_schema(root, schema, err));
    ZL_TRY(READ(root, members, err));
    ZL_TRY(zv_read_tolerance(zl_json_get(root, "tolerance"), &all->tolerance, err));
    return read_cases(zl_json_get(root, "cases"), all, err);
}

zl_status zv_verdicts_load(const char *path, zv_verdicts *out, zl_err *err)
{
    zl_json_doc *doc;
    zv_verdicts all = {0};
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_status status = read_all(zl_json_root(doc), &all, err);
    zl_json_free(doc);
    if (status != ZL_OK) {
        zv_verdicts_release(&all);
        zl_fail_at(err, path);
        return status;
    }
    *out = all;
    return ZL_OK;
}
