#include "drive/matrix.h"

#include <stdio.h>
#include <string.h>

#include "compare/judge.h"
#include "drive/child.h"
#include "zeroledger/version.h"

static bool same_tolerance(const zv_tolerance *a, const zv_tolerance *b)
{
    return a->requested == b->requested && a->granted == b->granted &&
           a->outside_steady == b->outside_steady;
}

/* Whether the folder holds a verdict of exactly this case; then it is copied to *out. */
static bool find_finished(const zv_matrix *m, const zv_case *c, const char *folder, zv_verdict *out)
{
    char path[ZV_PATH_SIZE], id[ZL_RUN_ID_SIZE];
    zv_verdicts old;
    if (m->fresh || zv_path(path, folder, "verdict.json", NULL) != ZL_OK ||
        zv_verdicts_load(path, &old, NULL) != ZL_OK) {
        return false;
    }
    zl_run_id(&c->run, id);
    const bool same = old.count == 1 && strcmp(old.item[0].run_id, id) == 0 &&
                      strcmp(old.item[0].trainer, m->trainer->hash) == 0 &&
                      old.item[0].outcome != ZV_FAILED && strcmp(old.version, ZL_VERSION) == 0 &&
                      old.steps == m->trainer->steps && old.poison == m->trainer->poison &&
                      same_tolerance(&old.tolerance, &m->cases->tolerance);
    if (same) {
        *out = old.item[0];
    }
    zv_verdicts_release(&old);
    return same;
}

static void describe(const zv_matrix *m, zv_verdicts *verdicts)
{
    *verdicts = (zv_verdicts){.tolerance = m->cases->tolerance,
                              .steps = m->trainer->steps,
                              .poison = m->trainer->poison,
                              .planned = m->cases->count};
    snprintf(verdicts->name, sizeof verdicts->name, "%s", m->cases->name);
    snprintf(verdicts->version, sizeof verdicts->version, "%s", ZL_VERSION);
    snprintf(verdicts->commit, sizeof verdicts->commit, "%s", m->commit == NULL ? "" : m->commit);
}

static zl_status save_one(const zv_matrix *m, const zv_verdict *verdict, const char *folder,
                          zl_err *err)
{
    char path[ZV_PATH_SIZE];
    zv_verdicts one;
    describe(m, &one);
    one.planned = 1;
    ZL_TRY(zv_path(path, folder, "verdict.json", err));
    ZL_TRY(zv_verdicts_add(&one, verdict, err));
    const zl_status status = zv_verdicts_save(&one, path, err);
    zv_verdicts_release(&one);
    return status;
}

/* How a case came to its verdict. */
typedef struct ending {
    bool resumed;     /* not trained again */
    bool interrupted; /* the verdict is void */
} ending;

static zl_status train_case(const zv_matrix *m, const zv_judge_input *input, zv_verdict *v,
                            zl_err *err)
{
    const zv_job job = {.run = input->run, .folder = input->folder};
    *v = (zv_verdict){0};
    ZL_TRY(zv_trainer_run(m->trainer, &job, v, err));
    return v->outcome == ZV_FAILED ? ZL_OK : zv_judge(input, v, err);
}

/* Trains where needed and judges. */
static zl_status finish_case(const zv_matrix *m, const zv_case *c, zv_verdict *v, ending *end,
                             zl_err *err)
{
    char folder[ZV_PATH_SIZE];
    const zv_judge_input input = {
        .run = &c->run, .folder = folder, .tolerance = &m->cases->tolerance};
    ZL_TRY(zv_path(folder, m->out, c->id, err));
    ZL_TRY(zv_make_folder(folder, err));
    end->resumed = find_finished(m, c, folder, v);
    if (end->resumed) {
        ZL_TRY(zv_judge(&input, v, err));
        end->resumed = v->outcome != ZV_FAILED; /* else a ledger was lost: train again */
    }
    if (!end->resumed) {
        ZL_TRY(train_case(m, &input, v, err));
        end->interrupted = v->outcome == ZV_FAILED && zv_interrupted();
    }
    snprintf(v->id, sizeof v->id, "%s", c->id);
    return end->interrupted ? ZL_OK : save_one(m, v, folder, err);
}

/* Mean seconds of the cases trained now, times those to come. */
static double remaining(const zv_matrix *m, double trained_seconds, size_t trained, size_t done)
{
    return trained == 0 ? 0 : trained_seconds / (double)trained * (double)(m->cases->count - done);
}

static zl_status run_all(const zv_matrix *m, zv_verdicts *out, bool *interrupted, zl_err *err)
{
    double seconds = 0;
    size_t trained = 0;
    for (size_t i = 0; i < m->cases->count; i++) {
        zv_verdict verdict = {0};
        ending end = {.interrupted = zv_interrupted()};
        if (!end.interrupted) {
            ZL_TRY(finish_case(m, &m->cases->item[i], &verdict, &end, err));
        }
        *interrupted = end.interrupted;
        if (end.interrupted) {
            return ZL_OK;
        }
        ZL_TRY(zv_verdicts_add(out, &verdict, err));
        if (!end.resumed) {
            trained++;
            seconds += verdict.seconds;
        }
        if (m->progress != NULL) {
            const zv_progress p = {.done = i + 1,
                                   .total = m->cases->count,
                                   .verdict = &out->item[i],
                                   .resumed = end.resumed,
                                   .remaining = remaining(m, seconds, trained, i + 1)};
            m->progress(m->context, &p);
        }
    }
    return ZL_OK;
}

zl_status zv_matrix_run(const zv_matrix *m, zv_verdicts *out, bool *interrupted, zl_err *err)
{
    zv_verdicts verdicts;
    *interrupted = false;
    ZL_TRY(zv_make_folder(m->out, err));
    describe(m, &verdicts);
    zl_status status = run_all(m, &verdicts, interrupted, err);
    if (status == ZL_OK) {
        char path[ZV_PATH_SIZE];
        status = zv_path(path, m->out, "validate.json", err);
        if (status == ZL_OK) {
            status = zv_verdicts_save(&verdicts, path, err);
        }
    }
    if (status != ZL_OK) {
        zv_verdicts_release(&verdicts);
        return status;
    }
    *out = verdicts;
    return ZL_OK;
}
