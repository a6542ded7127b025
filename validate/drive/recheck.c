#include "drive/recheck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/nccl.h"
#include "drive/files.h"
#include "zeroledger/bytes.h"
#include "zeroledger/json.h"
#include "zeroledger/predict.h"

typedef struct recheck {
    zv_recheck_report report;
    void *context;
    zv_recheck_result result;
    char last[ZV_PATH_SIZE + ZL_RUN_ID_SIZE]; /* folder and run of the ledger before */
    bool last_differs;
} recheck;

/* Files come in the order of their names, so the ledgers of a case follow each other. */
static void count_case(recheck *r, const char *path, const zl_run *run, bool differs)
{
    char key[sizeof r->last], id[ZL_RUN_ID_SIZE];
    const char *const slash = strrchr(path, '/');
    zl_run_id(run, id);
    snprintf(key, sizeof key, "%.*s %s", slash == NULL ? 0 : (int)(slash - path), path, id);
    if (strcmp(key, r->last) != 0) {
        r->result.cases++;
        r->last_differs = false;
        memcpy(r->last, key, sizeof key);
    }
    if (differs && !r->last_differs) {
        r->result.differ++;
        r->last_differs = true;
    }
}

static void count_pair(zv_rung_count *count, const zv_pair *pair)
{
    switch (pair->rung) {
    case ZV_RUNG_ABSENT:
        break;
    case ZV_RUNG_UNKNOWN:
        count->unknown++;
        break;
    case ZV_RUNG_DIFFERS:
        count->differ++;
        /* fall through */
    case ZV_RUNG_AGREES:
        count->judged++;
        count->largest = zl_max(count->largest, pair->predicted > pair->measured
                                                    ? pair->predicted - pair->measured
                                                    : pair->measured - pair->predicted);
        break;
    }
}

static void count_device(zv_recheck_result *result, const zv_device_verdict *v)
{
    count_pair(&result->arena, &v->arena);
    count_pair(&result->owner, &v->trainer);
    count_pair(&result->owner, &v->nccl);
    count_pair(&result->owner, &v->blas);
    count_pair(&result->total, &v->total);
}

/* A case of its own: no run is described beside it. */
static zl_status check_nccl(recheck *r, const char *path, zl_err *err)
{
    static zv_nccl nccl;
    zl_nccl usual;
    size_t differ = 0;
    ZL_TRY(zv_nccl_load(path, &nccl, err));
    ZL_TRY(zv_nccl_usual(&nccl, &usual, err));
    for (size_t i = 0; i < nccl.rows; i++) {
        const zv_nccl_verdict v = zv_nccl_judge(&nccl.row[i], nccl.ranks, &usual);
        const zv_pair pair = {!v.judged            ? ZV_RUNG_ABSENT
                              : zv_nccl_agrees(&v) ? ZV_RUNG_AGREES
                                                   : ZV_RUNG_DIFFERS,
                              v.predicted, v.measured, 0};
        count_pair(&r->result.nccl, &pair);
        differ += zv_nccl_agrees(&v) ? 0 : 1;
    }
    r->result.cases++;
    r->result.differ += differ > 0 ? 1 : 0;
    return ZL_OK;
}

static zl_status check_ledger(recheck *r, const char *path, const zl_ledger *measured, zl_err *err)
{
    zv_diff diff;
    zv_device_verdict device = {.arena.rung = ZV_RUNG_ABSENT};
    zl_ledger *const predicted = zl_ledger_new();
    if (predicted == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for a predicted ledger");
    }
    zl_status status = zl_predict(&measured->run, measured->rank, predicted, err);
    if (status == ZL_OK) {
        status = zv_diff_ledgers(predicted, measured, false, &diff, err);
    }
    if (status == ZL_OK) {
        status = zv_device_judge(path, measured, NULL, &device, err);
    }
    zl_ledger_free(predicted);
    if (status != ZL_OK) {
        zl_fail_at(err, path);
        return status;
    }
    count_case(r, path, &measured->run, diff.first.found || !zv_device_agrees(&device));
    count_device(&r->result, &device);
    r->result.ledgers++;
    r->result.unequal += diff.first.found ? 1 : 0;
    if (r->report != NULL) {
        r->report(r->context, path, &diff, &device);
    }
    return ZL_OK;
}

/* ledger.rankN.same: this rank's ledger was, but for its number, that of rank 0 beside it; so
 * import_results.sh keeps it once. Judged like one of its own. */
static bool is_same(const char *name, uint64_t *rank)
{
    static const char begin[] = "ledger.rank";
    char *end = NULL;
    if (strncmp(name, begin, sizeof begin - 1) != 0) {
        return false;
    }
    *rank = strtoull(name + sizeof begin - 1, &end, 10);
    return strcmp(end, ".same") == 0;
}

static zl_status check_same(recheck *r, const char *path, uint64_t rank, zl_err *err)
{
    char first[ZV_PATH_SIZE];
    zl_ledger *ledger = NULL;
    const int folder = (int)(strrchr(path, '/') - path);
    const int used = snprintf(first, sizeof first, "%.*s/ledger.rank0.json", folder, path);
    if (used < 0 || (size_t)used >= sizeof first) {
        return zl_fail(err, ZL_E_USAGE, "%s: the path is too long", path);
    }
    ZL_TRY(zl_ledger_load(first, &ledger, err));
    zl_status status = ZL_OK;
    if (rank > 0 && rank < ledger->run.ranks && !ledger->loopback) {
        ledger->rank = rank;
        status = check_ledger(r, path, ledger, err);
    } else {
        status = zl_fail(err, ZL_E_INPUT, "%s: this run has no such rank", path);
    }
    zl_ledger_free(ledger);
    return status;
}

/* A file is a ledger if it says so. */
static bool is_ledger(const char *path)
{
    zl_json_doc *doc;
    const size_t length = strlen(path);
    if (length < 5 || strcmp(path + length - 5, ".json") != 0) {
        return false;
    }
    if (strstr(path, "/ledger.rank") != NULL) {
        return true; /* broken ones are errors, not passed over */
    }
    if (zl_json_load(path, &doc, NULL) != ZL_OK) {
        return false;
    }
    const bool ledger = zl_json_schema(zl_json_root(doc), "zeroledger.ledger/1", NULL) == ZL_OK;
    zl_json_free(doc);
    return ledger;
}

static zl_status visit(void *context, const char *path, zl_err *err)
{
    zl_ledger *ledger;
    uint64_t rank = 0;
    const char *const slash = strrchr(path, '/');
    const char *const name = slash == NULL ? path : slash + 1;
    if (strcmp(name, "nccl.json") == 0) {
        return check_nccl(context, path, err);
    }
    if (is_same(name, &rank)) {
        return check_same(context, path, rank, err);
    }
    if (!is_ledger(path)) {
        return ZL_OK;
    }
    ZL_TRY(zl_ledger_load(path, &ledger, err));
    zl_status status = ZL_OK;
    if (ledger->origin == ZL_ORIGIN_MEASURED) {
        status = check_ledger(context, path, ledger, err);
    }
    zl_ledger_free(ledger);
    return status;
}

zl_status zv_recheck(const char *folder, zv_recheck_report report, void *context,
                     zv_recheck_result *out, zl_err *err)
{
    recheck r = {.report = report, .context = context};
    ZL_TRY(zv_walk(folder, visit, &r, err));
    if (r.result.ledgers == 0) {
        return zl_fail(err, ZL_E_INPUT, "%s: no measured ledger in it", folder);
    }
    *out = r.result;
    return ZL_OK;
}
