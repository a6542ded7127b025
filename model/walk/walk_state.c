#include "walk/walk_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "zeroledger/bytes.h"

const uint64_t zl_walk_most_blocks = 1000000;
static const uint64_t granule = 256; /* docs/schedule.md, section 6 */

static void set_shapes(zl_walk_state *w, const zl_run *run)
{
    const zl_model *m = &run->model;
    w->batch = run->micro_batch;
    w->tokens = run->seq;
    w->rows = zl_prod(run->micro_batch, run->seq);
    w->width = m->width;
    w->heads = m->heads;
    w->head_dim = m->head_dim;
    w->attn = zl_prod(m->heads, m->head_dim);
    w->packed = zl_prod(zl_add(m->heads, zl_prod(2, m->kv_heads)), m->head_dim);
    w->ffn = m->ffn;
    w->vocab = m->vocab;
    w->positions = m->positions;
    w->types = m->types;
    w->layers = m->layers;
    w->ranks = run->ranks;
    w->stats = m->family == ZL_FAMILY_LLAMA ? 1 : 2;
}

static void set_options(zl_walk_state *w, const zl_run *run)
{
    const bool fp32 = run->precision == ZL_PRECISION_FP32;
    w->compute_size = fp32 ? 4 : 2;
    w->grad_size = run->grad_dtype == ZL_GRAD_FP32 ? 4 : w->compute_size;
    w->state_size = run->precision == ZL_PRECISION_BF16 ? 2 : 4;
    w->mixed =
        run->precision == ZL_PRECISION_BF16_MIXED || run->precision == ZL_PRECISION_FP16_MIXED;
    w->bert = run->model.family == ZL_FAMILY_BERT;
    w->llama = run->model.family == ZL_FAMILY_LLAMA;
    w->pooler = w->bert && run->model.pooler;
    w->flash = run->attention == ZL_ATTENTION_FLASH;
    w->dropout = run->dropout > 0.0;
    w->selective = run->recompute == ZL_RECOMPUTE_SELECTIVE;
    w->full = run->recompute == ZL_RECOMPUTE_FULL;
}

zl_status zl_walk_state_init(zl_walk_state *w, const zl_run *run, const zl_walk_watch *watch,
                             zl_ledger *ledger, zl_err *err)
{
    memset(w, 0, sizeof(*w));
    w->run = run;
    w->watch = watch;
    w->err = err;
    w->ledger = ledger;
    set_shapes(w, run);
    set_options(w, run);
    if (watch == NULL && zl_prod(w->layers, run->accumulation) > zl_walk_most_blocks) {
        return zl_fail(err, ZL_E_UNMODELLED,
                       "layers times accumulation must be at most %" PRIu64 " for the walk",
                       zl_walk_most_blocks);
    }
    w->head_unit = w->layers + 1;
    w->owners = w->layers + 2;
    w->slots = zl_min(run->reduce_slots, w->layers);
    w->held = calloc(zl_prod(ZL_BUF_COUNT, w->owners), sizeof(*w->held));
    w->landed = calloc(w->owners, sizeof(*w->landed));
    w->holder = calloc(w->slots + 1, sizeof(*w->holder));
    if (w->held == NULL || w->landed == NULL || w->holder == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "no memory for the walk's table");
    }
    for (uint64_t unit = 0; unit < w->owners; unit++) {
        w->landed[unit] = 1;
    }
    return ZL_OK;
}

void zl_walk_state_release(zl_walk_state *w)
{
    free(w->held);
    free(w->landed);
    free(w->holder);
}

void zl_walk_broken(zl_walk_state *w, zl_buf buf, uint64_t owner, const char *what)
{
    if (w->status == ZL_OK) {
        w->status =
            zl_fail(w->err, ZL_E_BUG, "walk: %s of owner %" PRIu64 " %s in %s %s", zl_buf_name(buf),
                    owner, what, zl_visit_name(w->visit), zl_phase_name(w->phase));
    }
}

/* The current instant, seen by the current cell. */
static void observe(zl_walk_state *w)
{
    for (int rung = 0; rung < ZL_RUNG_COUNT; rung++) {
        for (int buf = 0; buf < ZL_BUF_COUNT; buf++) {
            uint64_t *max = &w->cell.line[buf].bytes[rung].max;
            *max = zl_max(*max, w->live[rung][buf]);
        }
        for (int kind = 0; kind < ZL_KIND_COUNT; kind++) {
            uint64_t *max = &w->cell.kind_max[kind][rung];
            *max = zl_max(*max, w->kind_live[rung][kind]);
        }
        if (w->total[rung] > w->cell.peak[rung]) {
            w->cell.peak[rung] = w->total[rung];
            for (int buf = 0; buf < ZL_BUF_COUNT; buf++) {
                w->cell.line[buf].bytes[rung].at_peak = w->live[rung][buf];
            }
        }
    }
}

void zl_walk_enter(zl_walk_state *w, zl_visit visit, zl_phase phase)
{
    memset(&w->cell, 0, sizeof(w->cell));
    w->cell.present = true;
    w->visit = visit;
    w->phase = phase;
    if (w->watch != NULL) {
        w->watch->enter(w->watch->context, visit, phase);
    }
    observe(w);
}

static bool same_amount(const zl_amount *a, const zl_amount *b)
{
    return a->end == b->end && a->at_peak == b->at_peak && a->max == b->max;
}

static bool same_cell(const zl_cell *a, const zl_cell *b)
{
    for (int rung = 0; rung < ZL_RUNG_COUNT; rung++) {
        if (a->peak[rung] != b->peak[rung]) {
            return false;
        }
        for (int kind = 0; kind < ZL_KIND_COUNT; kind++) {
            if (a->kind_max[kind][rung] != b->kind_max[kind][rung]) {
                return false;
            }
        }
        for (int buf = 0; buf < ZL_BUF_COUNT; buf++) {
            if (!same_amount(&a->line[buf].bytes[rung], &b->line[buf].bytes[rung])) {
                return false;
            }
        }
    }
    return true;
}

void zl_walk_leave(zl_walk_state *w)
{
    for (int rung = 0; rung < ZL_RUNG_COUNT; rung++) {
        for (int buf = 0; buf < ZL_BUF_COUNT; buf++) {
            w->cell.line[buf].bytes[rung].end = w->live[rung][buf];
        }
    }
    if (w->watch != NULL) {
        w->watch->leave(w->watch->context, w->phase);
    }
    zl_cell *earlier = zl_ledger_cell(w->ledger, w->visit, w->phase);
    if (!earlier->present) {
        *earlier = w->cell;
    } else if (!same_cell(earlier, &w->cell) && w->status == ZL_OK) {
        w->status = zl_fail(w->err, ZL_E_BUG, "walk: two repetitions of %s %s differ",
                            zl_visit_name(w->visit), zl_phase_name(w->phase));
    }
}

static uint64_t *held_of(const zl_walk_state *w, zl_buf buf, uint64_t owner)
{
    return &w->held[zl_add(zl_prod((uint64_t)buf, w->owners), owner)];
}

bool zl_walk_live(const zl_walk_state *w, zl_buf buf, uint64_t owner)
{
    return *held_of(w, buf, owner) != 0;
}

void zl_walk_alloc(zl_walk_state *w, zl_buf buf, uint64_t owner, uint64_t bytes)
{
    const zl_kind kind = zl_buf_kind(buf);
    if (bytes == 0 || zl_walk_live(w, buf, owner)) {
        zl_walk_broken(w, buf, owner, bytes == 0 ? "is empty" : "is allocated twice");
        return;
    }
    uint64_t requested = bytes;
    if (++w->mutation->events == w->mutation->event) {
        requested = zl_add(bytes, granule);
        w->mutation->buffer = buf;
    }
    const uint64_t size[ZL_RUNG_COUNT] = {
        [ZL_REQUESTED] = requested,
        [ZL_GRANTED] = zl_align_up(requested, granule),
    };
    *held_of(w, buf, owner) = requested;
    for (int rung = 0; rung < ZL_RUNG_COUNT; rung++) {
        w->live[rung][buf] = zl_add(w->live[rung][buf], size[rung]);
        w->kind_live[rung][kind] = zl_add(w->kind_live[rung][kind], size[rung]);
        w->total[rung] = zl_add(w->total[rung], size[rung]);
    }
    if (w->watch != NULL) {
        w->watch->alloc(w->watch->context, buf, owner, size);
    }
    observe(w);
}

void zl_walk_drop(zl_walk_state *w, zl_buf buf, uint64_t owner)
{
    const zl_kind kind = zl_buf_kind(buf);
    if (!zl_walk_live(w, buf, owner)) {
        zl_walk_broken(w, buf, owner, "is freed but not live");
        return;
    }
    const uint64_t requested = *held_of(w, buf, owner);
    const uint64_t size[ZL_RUNG_COUNT] = {
        [ZL_REQUESTED] = requested,
        [ZL_GRANTED] = zl_align_up(requested, granule),
    };
    *held_of(w, buf, owner) = 0;
    for (int rung = 0; rung < ZL_RUNG_COUNT; rung++) {
        w->live[rung][buf] = zl_sub(w->live[rung][buf], size[rung]);
        w->kind_live[rung][kind] = zl_sub(w->kind_live[rung][kind], size[rung]);
        w->total[rung] = zl_sub(w->total[rung], size[rung]);
    }
    if (w->watch != NULL) {
        w->watch->drop(w->watch->context, buf, owner, size);
    }
}
