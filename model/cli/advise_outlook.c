/* What a run takes: the closed form of native ones, the walk of the others. */
#include <string.h>

#include "advise.h"
#include "zeroledger/bytes.h"

const zl_torch_run *zl_asked_torch(const zl_asked *asked)
{
    return asked->native ? NULL : &asked->torch;
}

const char *zl_asked_phase(const zl_asked *asked, size_t index)
{
    const size_t count = asked->native ? (size_t)ZL_PHASE_COUNT : (size_t)ZL_SPANS;
    if (index >= count) {
        return NULL;
    }
    return asked->native ? zl_phase_name((zl_phase)index) : zl_span_name((zl_span)index);
}

uint64_t zl_saved(uint64_t before, uint64_t after)
{
    return before > after ? zl_sub(before, after) : 0;
}

static void take_worst(zl_outlook *out)
{
    for (size_t i = 0; i < ZL_OUTLOOK_PHASES; i++) {
        out->worst = out->phase[i] > out->phase[out->worst] ? i : out->worst;
    }
    out->peak = out->phase[out->worst];
}

/* ---- native ---- */

static zl_status native(const zl_asked *asked, const zl_run *run, zl_outlook *out, zl_err *err)
{
    zl_ledger *ledger = NULL;
    out->rank = asked->rank;
    ZL_TRY(zl_predicted(run, asked->rank, &ledger, err));
    for (int p = 0; p < ZL_PHASE_COUNT; p++) {
        zl_visit visit = ZL_VISIT_STEADY;
        if (zl_largest_visit(ledger, (zl_phase)p, &visit)) {
            out->phase[p] = zl_ledger_at(ledger, visit, (zl_phase)p)->peak[ZL_GRANTED];
        }
    }
    zl_ledger_free(ledger);
    take_worst(out);
    const uint64_t parameters = zl_params(&run->model);
    out->load = zl_load_of(run, NULL, (zl_sizes){parameters, parameters});
    return ZL_OK;
}

/* ---- frameworks ---- */

/* The phase that a mark belongs to: the last one that had begun before it. */
static zl_span span_of(const zl_mark *mark)
{
    if (mark->step < 0) {
        return ZL_SPAN_INIT;
    }
    if (strncmp(mark->at, "after_forward", 13) == 0 ||
        strncmp(mark->at, "before_backward", 15) == 0) {
        return ZL_SPAN_FORWARD;
    }
    if (strncmp(mark->at, "after_backward", 14) == 0) {
        return ZL_SPAN_BACKWARD;
    }
    return ZL_SPAN_STEP;
}

static void take_marks(const zl_run *run, const zl_torch_run *torch, const zl_marks *marks,
                       zl_outlook *out)
{
    for (size_t i = 0; i < marks->count; i++) {
        const zl_mark *mark = &marks->mark[i];
        uint64_t *phase = &out->phase[span_of(mark)];
        *phase = zl_max(*phase, mark->peak_allocated);
        out->reserved = zl_max(out->reserved, mark->peak_reserved);
    }
    take_worst(out);
    out->load = zl_load_of(run, torch, (zl_sizes){marks->parameters, marks->trainable});
}

static uint64_t requested(const zl_marks *marks)
{
    uint64_t most = 0;
    for (size_t i = 0; i < marks->count; i++) {
        most = zl_max(most, marks->mark[i].peak_requested);
    }
    return most;
}

/* The allocator frees what it caches before it fails: only a walk with the limit knows. */
static zl_status fits(const zl_torch_run *torch, uint64_t rank, const zl_outlook *o,
                      uint64_t usable, bool *out, zl_err *err)
{
    if (o->reserved <= usable || o->peak > usable) {
        *out = o->reserved <= usable;
        return ZL_OK;
    }
    zl_torch_run limited = *torch;
    zl_marks marks = {0};
    zl_err found = {.status = ZL_OK};
    limited.device_total = usable;
    const zl_status status = zl_torch_predict(&limited, rank, &marks, &found);
    zl_marks_clear(&marks);
    *out = status == ZL_OK;
    return status == ZL_OK || status == ZL_NO ? ZL_OK : zl_fail(err, status, "%s", found.text);
}

/* One rank; the one that `zl predict` would show is kept: that with the largest requested peak. */
static zl_status walk(const zl_asked *asked, const zl_run *run, const zl_torch_run *torch,
                      uint64_t rank, uint64_t *most, zl_outlook *out, zl_err *err)
{
    zl_marks marks = {0};
    zl_outlook here = {.rank = rank, .fits = true};
    ZL_TRY(zl_torch_predict(torch, rank, &marks, err));
    const uint64_t peak = requested(&marks);
    take_marks(run, torch, &marks, &here);
    zl_marks_clear(&marks);
    if (asked->limited) {
        ZL_TRY(fits(torch, rank, &here, asked->c.usable, &here.fits, err));
    }
    const bool fit_so_far = *most == 0 || out->fits;
    if (*most == 0 || peak > *most) {
        *out = here;
        *most = peak;
    }
    out->fits = fit_so_far && here.fits;
    return ZL_OK;
}

/* Without the peaks of a run that fails. */
static zl_status screen(const zl_asked *asked, const zl_run *run, const zl_torch_run *torch,
                        uint64_t rank, zl_outlook *out, zl_err *err)
{
    enum { STEPS = 2 };
    zl_torch_run limited = *torch;
    zl_marks marks = {0};
    limited.steps = STEPS;
    limited.device_total = asked->c.usable;
    const zl_status status = zl_torch_predict(&limited, rank, &marks, err);
    out->fits = status == ZL_OK;
    take_marks(run, torch, &marks, out);
    zl_marks_clear(&marks);
    return status == ZL_NO ? ZL_OK : status;
}

static zl_status framework(const zl_asked *asked, const zl_run *run, const zl_torch_run *torch,
                           zl_depth depth, zl_outlook *out, zl_err *err)
{
    uint64_t most = 0;
    uint64_t rank = zl_min(asked->rank, zl_sub(run->ranks, 1));
    if (depth == ZL_DEPTH_FITS && asked->limited) {
        return screen(asked, run, torch, rank, out, err);
    }
    if (depth != ZL_DEPTH_ALL || asked->one_rank) {
        return walk(asked, run, torch, rank, &most, out, err);
    }
    for (uint64_t i = 0; zl_torch_rank_at(torch, i, &rank); i++) {
        ZL_TRY(walk(asked, run, torch, rank, &most, out, err));
    }
    return ZL_OK;
}

zl_status zl_outlook_get(const zl_asked *asked, const zl_run *run, const zl_torch_run *torch,
                         zl_depth depth, zl_outlook *out, zl_err *err)
{
    zl_outlook found = {.fits = true};
    zl_err why = {.status = ZL_OK};
    const zl_status status = torch == NULL ? native(asked, run, &found, &why)
                                           : framework(asked, run, torch, depth, &found, &why);
    if (status == ZL_E_RESOURCE || status == ZL_E_BUG) {
        return zl_fail(err, status, "%s", why.text);
    }
    if (status != ZL_OK) {
        *out = (zl_outlook){.predicted = false};
        return ZL_OK;
    }
    found.predicted = true;
    if (torch == NULL) {
        found.reserved = found.peak;
        found.fits = !asked->limited || found.peak <= asked->c.usable;
    }
    *out = found;
    return ZL_OK;
}
