#include "drive/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/device.h"
#include "compare/nccl.h"
#include "drive/files.h"
#include "zeroledger/bytes.h"
#include "zeroledger/json.h"
#include "zeroledger/ledger.h"

enum { EVERY = 4, LEAST_RUNS = 5 };

/* A case with its run, which the prediction needs. */
typedef struct entry {
    zv_case_used used;
    zl_run run;
    zl_placement placement;
    bool loopback;
} entry;

typedef struct collection {
    zv_calibration *out;
    entry *entry;
    size_t entries;
    size_t room;
    bool has_nccl;
    zl_nccl nccl;
} collection;

static zl_status same(char *text, size_t size, const char *value, const char *what, zl_err *err)
{
    if (text[0] != '\0' && strcmp(text, value) != 0) {
        return zl_fail(err, ZL_E_INPUT,
                       "%s %s and %s: constants are of one machine; calibrate each for itself",
                       what, text, value);
    }
    (void)snprintf(text, size, "%s", value);
    return ZL_OK;
}

static zl_status same_machine(zl_constants *c, const char *gpu, const char *driver,
                              const char *cuda, const char *date, zl_err *err)
{
    ZL_TRY(same(c->gpu, sizeof c->gpu, gpu, "GPU", err));
    ZL_TRY(same(c->driver, sizeof c->driver, driver, "driver", err));
    ZL_TRY(same(c->cuda, sizeof c->cuda, cuda, "CUDA", err));
    if (strcmp(date, c->date) > 0) {
        (void)snprintf(c->date, sizeof c->date, "%s", date);
    }
    return ZL_OK;
}

/* The last folder of a path without the file's name. */
static void folder_name(const char *path, char name[ZV_CASE_NAME_SIZE])
{
    const char *const end = strrchr(path, '/');
    const char *begin = end != NULL ? end : path;
    while (begin > path && begin[-1] != '/') {
        begin--;
    }
    (void)snprintf(name, ZV_CASE_NAME_SIZE, "%.*s", end != NULL ? (int)(end - begin) : 0, begin);
}

static zl_status add(collection *c, const char *path, const zl_ledger *ledger, const zv_used *used,
                     zl_err *err)
{
    if (c->entries == c->room) {
        const size_t room = c->room == 0 ? 64 : 2 * c->room;
        entry *const more = realloc(c->entry, room * sizeof *more);
        if (more == NULL) {
            return zl_fail(err, ZL_E_RESOURCE, "out of memory for %zu cases", room);
        }
        c->entry = more;
        c->room = room;
    }
    entry *const e = &c->entry[c->entries];
    *e = (entry){.run = ledger->run,
                 .placement = ledger->witness.placement,
                 .loopback = ledger->loopback || used->loopback};
    e->used.several = ledger->run.ranks > 1 && !e->loopback;
    e->used.used = used->used;
    e->used.arena = ledger->witness.arena_reserved;
    zl_run_id(&ledger->run, e->used.run_id);
    folder_name(path, e->used.name);
    ZL_TRY(same_machine(&c->out->constants, used->gpu, used->driver, used->cuda, used->date, err));
    c->entries++;
    return ZL_OK;
}

static zl_status take_ledger(collection *c, const char *path, zl_err *err)
{
    char trace[ZV_PATH_SIZE];
    zl_ledger *ledger = NULL;
    zv_used used = {.present = false};
    ZL_TRY(zl_ledger_load(path, &ledger, err));
    zl_status status = zv_used_load(path, ledger, &used, err);
    if (status == ZL_OK && used.present && ledger->witness.present &&
        ledger->run.backend == ZL_BACKEND_CUDA && !zv_trace_beside(path, trace)) {
        status = add(c, path, ledger, &used, err);
    }
    zl_ledger_free(ledger);
    return status;
}

static zl_status take_nccl(collection *c, const char *path, zl_err *err)
{
    static zv_nccl nccl;
    ZL_TRY(zv_nccl_load(path, &nccl, err));
    ZL_TRY(same_machine(&c->out->constants, nccl.gpu, nccl.driver, nccl.cuda, nccl.date, err));
    ZL_TRY(zv_nccl_usual(&nccl, &c->nccl, err));
    (void)snprintf(c->out->constants.nccl, sizeof c->out->constants.nccl, "%s", nccl.version);
    c->has_nccl = true;
    return ZL_OK;
}

static zl_status take_commit(collection *c, const char *path, zl_err *err)
{
    zl_json_doc *doc = NULL;
    const char *commit = NULL;
    ZL_TRY(zl_json_load(path, &doc, err));
    if (zl_json_string(zl_json_get(zl_json_root(doc), "commit"), &commit, NULL) == ZL_OK) {
        (void)snprintf(c->out->constants.commit, sizeof c->out->constants.commit, "%.40s", commit);
    }
    zl_json_free(doc);
    return ZL_OK;
}

static zl_status visit(void *context, const char *path, zl_err *err)
{
    collection *const c = context;
    const char *const slash = strrchr(path, '/');
    const char *const name = slash != NULL ? slash + 1 : path;
    if (strncmp(name, "ledger.rank", 11) == 0) {
        /* The figure of the whole GPU is that of one rank, whose ledger is kept. */
        return strstr(name, ".json") != NULL ? take_ledger(c, path, err) : ZL_OK;
    }
    if (strcmp(name, "nccl.json") == 0) {
        return take_nccl(c, path, err);
    }
    return strcmp(name, "provenance.json") == 0 ? take_commit(c, path, err) : ZL_OK;
}

/* Cases of one rank first, then by run. */
static int by_run(const void *a, const void *b)
{
    const zv_case_used *const x = &((const entry *)a)->used;
    const zv_case_used *const y = &((const entry *)b)->used;
    const int ids = strcmp(x->run_id, y->run_id);
    if (x->several != y->several) {
        return x->several ? 1 : -1;
    }
    return ids != 0 ? ids : strcmp(x->name, y->name);
}

/* Returns how many different runs there are with one rank, or with several. */
static size_t split(collection *c, bool several)
{
    const char *last = "";
    size_t runs = 0;
    for (size_t i = 0; i < c->entries; i++) {
        zv_case_used *const u = &c->entry[i].used;
        if (u->several == several) {
            runs += strcmp(u->run_id, last) != 0 ? 1 : 0;
            u->calibrates = (runs - 1) % EVERY == 0;
            last = u->run_id;
        }
    }
    return runs;
}

/* Without NCCL's channels runs of several ranks say nothing about constants. */
static void leave_out(collection *c)
{
    size_t kept = 0;
    while (kept < c->entries && !c->entry[kept].used.several) {
        kept++;
    }
    c->out->left_out = c->has_nccl ? 0 : c->entries - kept;
    c->entries = c->has_nccl ? c->entries : kept;
}

static zl_status enough(size_t runs, const char *which, zl_err *err)
{
    if (runs < LEAST_RUNS) {
        return zl_fail(err, ZL_E_INPUT,
                       "%zu runs of %s have a figure of the whole GPU (memory.device_used in "
                       "train.json); %d are needed to calibrate and to judge",
                       runs, which, LEAST_RUNS);
    }
    return ZL_OK;
}

/* What the constants have to explain; signed, as a difference of measurements. */
static double rest(const collection *c, const zv_case_used *u)
{
    const uint64_t nccl =
        zl_add(zl_nccl_communicator_bytes(&c->nccl), zl_nccl_ring_bytes(&c->nccl));
    return (double)u->used - (double)u->arena - (u->several ? (double)nccl : 0);
}

static zl_status rounded(double value, const char *what, uint64_t *out, zl_err *err)
{
    if (!(value >= 0) || value > 1e15) {
        return zl_fail(err, ZL_E_INPUT, "%s would be %.0f bytes: these measurements contradict it",
                       what, value);
    }
    *out = (uint64_t)llround(value);
    return ZL_OK;
}

static zl_status fit(collection *c, bool several, zl_err *err)
{
    zl_constants *const constants = &c->out->constants;
    const size_t terms = several ? 2 : 1;
    double *const term = calloc(2 * c->entries, sizeof *term);
    double *const measured = calloc(c->entries, sizeof *measured);
    size_t n = 0;
    for (size_t i = 0; term != NULL && measured != NULL && i < c->entries; i++) {
        if (c->entry[i].used.calibrates) {
            term[terms * n] = 1;
            term[terms * n + terms - 1] = several && !c->entry[i].used.several ? 0 : 1;
            measured[n++] = rest(c, &c->entry[i].used);
        }
    }
    const bool solved =
        term != NULL && measured != NULL && zv_fit_linear(term, terms, measured, n, &c->out->fit);
    free(measured);
    free(term);
    if (!solved) {
        return zl_fail(err, ZL_E_RESOURCE, "the constants of %zu cases cannot be fitted", n);
    }
    ZL_TRY(rounded(c->out->fit.coefficient[0], "the context", &constants->context, err));
    if (several) {
        ZL_TRY(rounded(c->out->fit.coefficient[1], "NCCL's code", &constants->communication, err));
        constants->rings = c->nccl.rings;
        constants->own = c->nccl.own;
    } else {
        constants->nccl[0] = '\0';
    }
    return ZL_OK;
}

static void count(zv_side *side, const zv_case_used *u)
{
    const uint64_t off = u->predicted > u->used ? u->predicted - u->used : u->used - u->predicted;
    side->mean = (side->mean * (double)side->cases + (double)off) / (double)(side->cases + 1);
    side->cases++;
    side->outside += off > zv_device_tolerance(u->used) ? 1 : 0;
    side->largest = zl_max(side->largest, off);
}

static zl_status judge(collection *c, zl_err *err)
{
    for (size_t i = 0; i < c->entries; i++) {
        entry *const e = &c->entry[i];
        zl_device device;
        ZL_TRY(zl_predict_device(&e->run, e->placement, e->loopback, &c->out->constants, &device,
                                 err));
        e->used.predicted = device.total;
        count(e->used.calibrates ? &c->out->calibrated : &c->out->judged, &e->used);
    }
    return ZL_OK;
}

static zl_status keep(collection *c, zl_err *err)
{
    c->out->used = calloc(c->entries, sizeof *c->out->used);
    if (c->out->used == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for %zu cases", c->entries);
    }
    for (size_t i = 0; i < c->entries; i++) {
        c->out->used[i] = c->entry[i].used;
    }
    c->out->cases = c->entries;
    return ZL_OK;
}

static zl_status work(collection *c, zl_err *err)
{
    if (c->entries > 0) {
        qsort(c->entry, c->entries, sizeof *c->entry, by_run);
    }
    leave_out(c);
    const size_t several = split(c, true);
    ZL_TRY(enough(split(c, false), "one rank", err));
    if (several > 0) {
        ZL_TRY(enough(several, "several ranks", err));
    }
    ZL_TRY(fit(c, several > 0, err));
    ZL_TRY(judge(c, err));
    return keep(c, err);
}

zl_status zv_calibrate(char *const *folders, size_t count_of, zv_calibration **out, zl_err *err)
{
    zv_calibration *const calibration = calloc(1, sizeof *calibration);
    if (calibration == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    (void)snprintf(calibration->constants.commit, sizeof calibration->constants.commit, "unknown");
    collection c = {.out = calibration};
    zl_status status = ZL_OK;
    for (size_t i = 0; i < count_of && status == ZL_OK; i++) {
        status = zv_walk(folders[i], visit, &c, err);
    }
    if (status == ZL_OK) {
        status = work(&c, err);
    }
    free(c.entry);
    if (status != ZL_OK) {
        zv_calibration_free(calibration);
        return status;
    }
    *out = calibration;
    return ZL_OK;
}

void zv_calibration_free(zv_calibration *calibration)
{
    if (calibration != NULL) {
        free(calibration->used);
        free(calibration);
    }
}

static void put_fitted(zl_json_writer *w, const char *key, uint64_t bytes, double error)
{
    zl_json_begin_object(w, key);
    zl_json_put_u64(w, "bytes", bytes);
    zl_json_put_real(w, "error", round(error));
    zl_json_end(w);
}

static void put_side(zl_json_writer *w, const zv_calibration *c, bool calibrates)
{
    const zv_side *const side = calibrates ? &c->calibrated : &c->judged;
    zl_json_begin_object(w, calibrates ? "calibrated" : "judged");
    zl_json_put_u64(w, "cases", side->cases);
    zl_json_put_u64(w, "outside", side->outside);
    zl_json_put_u64(w, "largest", side->largest);
    zl_json_put_real(w, "mean", round(side->mean));
    zl_json_begin_array(w, "list");
    for (size_t i = 0; i < c->cases; i++) {
        const zv_case_used *const u = &c->used[i];
        if (u->calibrates == calibrates) {
            zl_json_begin_object(w, NULL);
            zl_json_put_string(w, "case", u->name);
            zl_json_put_string(w, "run", u->run_id);
            zl_json_put_u64(w, "measured", u->used);
            zl_json_put_u64(w, "predicted", u->predicted);
            zl_json_end(w);
        }
    }
    zl_json_end(w);
    zl_json_end(w);
}

static void put_all(zl_json_writer *w, const zv_calibration *c)
{
    const zl_constants *const k = &c->constants;
    zl_json_begin_object(w, NULL);
    zl_json_put_string(w, "schema", "zeroledger.constants/1");
    zl_json_put_string(w, "gpu", k->gpu);
    zl_json_put_string(w, "driver", k->driver);
    zl_json_put_string(w, "cuda", k->cuda);
    zl_json_put_string(w, "commit", k->commit);
    zl_json_put_string(w, "date", k->date);
    put_fitted(w, "context", k->context, c->fit.error[0]);
    if (k->rings > 0) {
        put_fitted(w, "communication", k->communication, c->fit.error[1]);
        zl_json_begin_object(w, "nccl");
        zl_json_put_string(w, "version", k->nccl);
        zl_json_put_u64(w, "rings", k->rings);
        zl_json_put_u64(w, "own", k->own);
        zl_json_end(w);
    }
    zl_json_put_string(
        w, "rule",
        "runs in the order of their ids, one rank and several each for themselves: of "
        "every four the first calibrates, three judge");
    put_side(w, c, true);
    put_side(w, c, false);
    zl_json_end(w);
}

zl_status zv_calibration_save(const zv_calibration *calibration, const char *path, zl_err *err)
{
    zl_json_writer *const w = zl_json_writer_new();
    if (w == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the constants");
    }
    put_all(w, calibration);
    const zl_status status = zl_json_writer_save(w, path, err);
    zl_json_writer_free(w);
    return status;
}
