/* The answer of one point of a sweep. */
#include <stdlib.h>
#include <string.h>

#include "frameworks.h"
#include "sweep.h"
#include "zeroledger/bytes.h"

struct zl_sweeper {
    const zl_sweep *sweep;
    zl_planner *planner;
    zl_ledger *ledger; /* NULL: kinds are not asked for */
    bool ready;        /* `run` is the one of `digit` */
    uint32_t digit[ZL_AXES_MAX];
    zl_run run;
};

zl_sweeper *zl_sweeper_new(const zl_sweep *sweep)
{
    zl_sweeper *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    s->sweep = sweep;
    s->planner = zl_planner_new();
    s->ledger = sweep->kinds ? zl_ledger_new() : NULL;
    if (s->planner == NULL || (sweep->kinds && s->ledger == NULL)) {
        zl_sweeper_free(s);
        return NULL;
    }
    return s;
}

void zl_sweeper_free(zl_sweeper *sweeper)
{
    if (sweeper != NULL) {
        zl_planner_free(sweeper->planner);
        zl_ledger_free(sweeper->ledger);
        free(sweeper);
    }
}

/* ---- the run of a point ---- */

/* zl_run_check resolved it for the point before, if it is no axis. */
static void restore_seq(const zl_grid *grid, const zl_run *base, zl_run *run)
{
    for (size_t i = 0; i < grid->axes; i++) {
        if (strcmp(grid->axis[i].option->name, "seq") == 0) {
            return;
        }
    }
    run->seq = base->seq;
}

/* A native run differs from that of the point before in what the options set, and a check changes
 * nothing else; a run of another framework is made anew. */
static zl_status take_run(zl_sweeper *s, const uint32_t *digit, zl_err *err)
{
    const zl_grid *grid = &s->sweep->grid;
    const size_t at = zl_grid_base(grid, digit);
    const zl_run *base = &grid->base[at];
    const bool again =
        s->ready && zl_grid_base(grid, s->digit) == at && base->framework == ZL_FRAMEWORK_NATIVE;
    if (grid->refusal[at].status != ZL_OK) {
        return zl_fail(err, grid->refusal[at].status, "%s", grid->refusal[at].text);
    }
    if (!again) {
        s->run = *base;
    } else {
        restore_seq(grid, base, &s->run);
    }
    s->ready = false;
    for (size_t i = 0; i < grid->axes; i++) {
        const zl_axis *axis = &grid->axis[i];
        if (!axis->slow && (!again || digit[i] != s->digit[i])) {
            ZL_TRY(zl_axis_set(axis, digit[i], &s->run, err));
        }
    }
    memcpy(s->digit, digit, grid->axes * sizeof *digit);
    s->ready = true;
    return zl_run_check(&s->run, err);
}

/* ---- native ---- */

static zl_status take_kinds(zl_sweeper *s, zl_swept *out, zl_err *err)
{
    ZL_TRY(zl_predict(&s->run, 0, s->ledger, err));
    const zl_cell *cell = zl_ledger_at(s->ledger, out->visit, out->phase);
    for (int k = 0; k < ZL_KIND_COUNT; k++) {
        out->kind[k] = zl_cell_kind_at_peak(cell, (zl_kind)k, ZL_GRANTED);
    }
    return ZL_OK;
}

static zl_status ask_native(zl_sweeper *s, zl_swept *out, zl_err *err)
{
    ZL_TRY(zl_planner_peak(s->planner, &s->run, &out->peak, &out->visit, &out->phase, err));
    if (zl_poisoned(out->peak)) {
        return zl_fail(err, ZL_E_USAGE, "sizes overflow 64 bits");
    }
    out->fits = s->sweep->capped && out->peak <= s->sweep->c.usable;
    return s->ledger != NULL ? take_kinds(s, out, err) : ZL_OK;
}

/* ---- other frameworks ---- */

static void take_marks(const zl_marks *marks, zl_swept *out)
{
    for (size_t i = 0; i < marks->count; i++) {
        const zl_mark *mark = &marks->mark[i];
        out->reserved = zl_max(out->reserved, mark->peak_reserved);
        if (mark->peak_allocated > out->peak) {
            out->peak = mark->peak_allocated;
            out->cold = mark->step == 0;
            (void)snprintf(out->at, sizeof out->at, "%s", mark->at);
        }
    }
}

/* As zl fit asks: PyTorch frees what it caches before it fails. Below the capacity a limit changes
 * nothing. */
static zl_status take_fit(const zl_sweep *s, zl_torch_run *torch, uint64_t rank, zl_swept *out,
                          zl_err *err)
{
    zl_marks marks = {0};
    zl_err found = {.status = ZL_OK};
    out->fits = out->reserved <= s->c.usable;
    if (out->fits || out->peak > s->c.usable) {
        return ZL_OK;
    }
    torch->device_total = s->c.usable;
    const zl_status status = zl_torch_predict(torch, rank, &marks, &found);
    zl_marks_clear(&marks);
    out->fits = status == ZL_OK;
    return status == ZL_OK || status == ZL_NO ? ZL_OK : zl_fail(err, status, "%s", found.text);
}

static zl_status ask_framework(zl_sweeper *s, zl_swept *out, zl_err *err)
{
    const zl_args *args = s->sweep->args;
    zl_torch_run torch;
    zl_marks marks = {0};
    uint64_t rank = 0;
    uint64_t looked = 0;
    bool wished = false;
    out->framework = true;
    ZL_TRY(zl_torch_run_from(&s->run, &torch, NULL, NULL, err));
    for (uint32_t i = torch.steps; i < s->sweep->steps; i++) {
        torch.skipped[i] = s->run.skipped_step;
    }
    torch.steps = s->sweep->steps > 0 ? s->sweep->steps : torch.steps;
    ZL_TRY(zl_walked_gpu(args, &torch, err));
    ZL_TRY(zl_args_rank(args, &s->run, &wished, &rank, err));
    ZL_TRY(wished ? zl_torch_predict(&torch, rank, &marks, err)
                  : zl_walk_heaviest(&torch, &rank, &looked, &marks, err));
    take_marks(&marks, out);
    zl_marks_clear(&marks);
    return s->sweep->capped ? take_fit(s->sweep, &torch, rank, out, err) : ZL_OK;
}

zl_status zl_sweeper_ask(zl_sweeper *sweeper, uint64_t point, zl_swept *out, zl_err *err)
{
    uint32_t digit[ZL_AXES_MAX];
    zl_err *why = &out->refusal;
    *out = (zl_swept){.refusal = {.status = ZL_OK}};
    zl_grid_digits(&sweeper->sweep->grid, point, digit);
    zl_status status = take_run(sweeper, digit, why);
    if (status == ZL_OK) {
        status = sweeper->run.framework == ZL_FRAMEWORK_NATIVE ? ask_native(sweeper, out, why)
                                                               : ask_framework(sweeper, out, why);
    }
    if (status == ZL_E_RESOURCE || status == ZL_E_BUG) {
        return zl_fail(err, status, "%s", why->text);
    }
    return ZL_OK;
}
