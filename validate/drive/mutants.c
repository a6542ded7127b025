#define _DEFAULT_SOURCE /* reallocarray */

#include "drive/mutants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/judge.h"
#include "compare/read.h"
#include "drive/cases.h"
#include "drive/child.h"

static zl_status read_expectation(zl_json object, zv_mutant *m, zl_err *err)
{
    char witness[32] = "";
    const zv_member by_witness = {.key = "witness", .text = witness, .size = sizeof witness};
    const zv_member by_ledger[] = {{.key = "phase", .phase = &m->phase},
                                   {.key = "kind", .kind = &m->kind}};
    m->by_witness = zl_json_get(object, "witness").node != NULL;
    if (!m->by_witness) {
        return zv_read_members(object, by_ledger, 2, err);
    }
    ZL_TRY(zv_read_members(object, &by_witness, 1, err));
    if (strcmp(witness, "outside_steady") != 0) {
        return zl_fail(err, ZL_E_INPUT, "%s.witness: only outside_steady has a tolerance, got %s",
                       object.path, witness);
    }
    return ZL_OK;
}

static zl_status read_mutant(zl_json object, zv_mutant *m, zl_err *err)
{
    const zv_member members[] = {
        {.key = "name", .text = m->name, .size = sizeof m->name},
        {.key = "text", .text = m->text, .size = sizeof m->text},
        {.key = "run"},
        {.key = "steps", .count = &m->steps, .optional = true},
        {.key = "expect"},
    };
    m->steps = 2;
    ZL_TRY(zv_read_members(object, members, sizeof members / sizeof members[0], err));
    return read_expectation(zl_json_get(object, "expect"), m, err);
}

static zl_status read_run(zl_json object, zl_json base, const char *path, zl_run *out, zl_err *err)
{
    zl_run_init(out);
    ZL_TRY(zv_run_apply(out, base, path, err));
    ZL_TRY(zv_run_apply(out, zl_json_get(object, "run"), path, err));
    return zl_run_check(out, err);
}

static zl_status read_all(zl_json root, const char *path, zv_mutants *all, zl_err *err)
{
    static const zv_member members[] = {
        {.key = "schema"}, {.key = "tolerance"}, {.key = "base"}, {.key = "mutants"}};
    zl_json list;
    ZL_TRY(zl_json_schema(root, "zeroledger.mutants/1", err));
    ZL_TRY(zv_read_members(root, members, sizeof members / sizeof members[0], err));
    ZL_TRY(zv_read_tolerance(zl_json_get(root, "tolerance"), &all->tolerance, err));
    ZL_TRY(zv_read_list(root, "mutants", &list, err));
    all->item = calloc(zl_json_size(list), sizeof *all->item);
    if (all->item == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for the mutants");
    }
    for (; all->count < zl_json_size(list); all->count++) {
        zv_mutant *const m = &all->item[all->count];
        const zl_json object = zl_json_item(list, all->count);
        ZL_TRY(read_mutant(object, m, err));
        ZL_TRY(read_run(object, zl_json_get(root, "base"), path, &m->run, err));
    }
    return ZL_OK;
}

zl_status zv_mutants_load(const char *path, zv_mutants *out, zl_err *err)
{
    zl_json_doc *doc;
    zv_mutants all = {0};
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_status status = read_all(zl_json_root(doc), path, &all, err);
    zl_json_free(doc);
    if (status != ZL_OK) {
        zv_mutants_release(&all);
        zl_fail_at(err, path);
        return status;
    }
    *out = all;
    return ZL_OK;
}

void zv_mutants_release(zv_mutants *mutants)
{
    free(mutants->item);
    *mutants = (zv_mutants){0};
}

bool zv_mutant_caught(const zv_mutant *m, const zv_tolerance *tolerance, const zv_verdict *v,
                      char *why, size_t size)
{
    const zl_difference *const d = &v->diff.first;
    if (v->outcome == ZV_FAILED) {
        snprintf(why, size, "the trainer failed instead: %.200s", v->message);
    } else if (m->by_witness && !v->has_witness) {
        snprintf(why, size, "this trainer has no witness; build it without sanitizers");
    } else if (v->outcome == ZV_EQUAL) {
        snprintf(why, size, "nothing differs");
    } else if (m->by_witness) {
        if (!d->found && v->has_witness && v->outside_steady > tolerance->outside_steady) {
            return true;
        }
        snprintf(why, size, "expected the witness alone, got %.200s", v->message);
    } else if (d->found && d->phase == m->phase && d->kind == m->kind &&
               (d->has_buffer || strcmp(d->what, "kind max") == 0)) {
        return true;
    } else {
        snprintf(why, size, "expected %s in %s, got %.200s", zl_kind_name(m->kind),
                 zl_phase_name(m->phase), v->message);
    }
    return false;
}

/* One run in its own folder, judged. */
static zl_status run_once(const zv_trainer *trainer, const zv_job *job,
                          const zv_tolerance *tolerance, zv_verdict *v, zl_err *err)
{
    const zv_judge_input input = {.run = job->run, .folder = job->folder, .tolerance = tolerance};
    *v = (zv_verdict){0};
    ZL_TRY(zv_make_folder(job->folder, err));
    ZL_TRY(zv_trainer_run(trainer, job, v, err));
    return v->outcome == ZV_FAILED ? ZL_OK : zv_judge(&input, v, err);
}

zl_status zv_mutant_run(const zv_mutant *m, const zv_tolerance *tolerance, const zv_trainer *given,
                        const char *folder, zv_verdict *verdict, zl_err *err)
{
    char path[ZV_PATH_SIZE], name[ZV_NAME_SIZE + 16];
    zv_trainer trainer = *given;
    zv_job job = {.run = &m->run, .folder = path};
    trainer.steps = m->steps;
    trainer.poison = false;
    snprintf(name, sizeof name, "%s/without", m->name);
    ZL_TRY(zv_path(path, folder, name, err));
    ZL_TRY(run_once(&trainer, &job, tolerance, verdict, err));
    if (verdict->outcome == ZV_FAILED && zv_interrupted()) {
        return ZL_OK;
    }
    if (verdict->outcome != ZV_EQUAL) {
        return zl_fail(err, ZL_NO, "%s: its case is not equal without the fault: %.300s", m->name,
                       verdict->message);
    }
    snprintf(name, sizeof name, "%s/with", m->name);
    ZL_TRY(zv_path(path, folder, name, err));
    job.fault = m->name;
    return run_once(&trainer, &job, tolerance, verdict, err);
}
