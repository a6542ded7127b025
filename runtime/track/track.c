#include "track/track.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "track/account.h"
#include "track/arena.h"
#include "track/witness.h"

struct zr_track {
    zr_track_options options;
    zr_arena arena;
    zr_account account;
    zr_witness witness;
    bool in_phase;
    zl_visit visit;
    zl_phase phase;
    uint64_t peak; /* granted, since the last reset */
    bool settled;  /* the cold step has ended */
    uint64_t settled_accessible;
    zl_err fault; /* first misuse seen where nothing could be returned */
    zl_cell cell[ZL_VISIT_COUNT][ZL_PHASE_COUNT];
};

static const char *phase_name(const zr_track *track)
{
    return track->in_phase ? zl_phase_name(track->phase) : "no phase";
}

static const char *visit_name(const zr_track *track)
{
    return track->in_phase ? zl_visit_name(track->visit) : "between phases";
}

static uint64_t granted_of(uint64_t bytes)
{
    return zl_align_up(bytes, ZR_GRANULE);
}

zl_status zr_track_new(const zr_track_options *options, zr_track **out, zl_err *err)
{
    zr_track *const track = calloc(1, sizeof(*track));
    if (track == NULL) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory for the tracker's own tables");
    }
    const zl_status status = zr_arena_init(&track->arena, ZR_GRANULE, err);
    if (status != ZL_OK) {
        free(track);
        return status;
    }
    track->options = *options;
    *out = track;
    return ZL_OK;
}

void zr_track_free(zr_track *track)
{
    if (track != NULL) {
        zr_arena_release(&track->arena);
        free(track);
    }
}

static zl_status out_of_memory(const zr_track *track, zl_buf what, uint64_t bytes, zl_err *err)
{
    const uint64_t cap = track->options.cap;
    const uint64_t live = track->account.total[ZL_GRANTED];
    if (cap != 0 && zl_add(live, granted_of(bytes)) > cap) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "out of memory: buffer %s in %s (%s): requested %" PRIu64 " bytes, %" PRIu64
                       " available under the cap of %" PRIu64,
                       zl_buf_name(what), phase_name(track), visit_name(track), bytes,
                       cap > live ? cap - live : 0, cap);
    }
    char shortage[160];
    zr_memory_shortage(&track->arena.memory, shortage, sizeof(shortage));
    return zl_fail(err, ZL_E_RESOURCE,
                   "out of memory: buffer %s in %s (%s): requested %" PRIu64 " bytes, %s",
                   zl_buf_name(what), phase_name(track), visit_name(track), bytes, shortage);
}

/* The states of the optimizer are made in the cold step's update and stay: they go behind what
 * forward and backward took, which later steps find as the cold one left it. */
static bool take(zr_track *track, zl_buf what, uint64_t granted, void **out)
{
    const bool stays =
        zl_buf_kind(what) == ZL_KIND_OPT && track->in_phase && track->phase == ZL_PHASE_STEP;
    return stays ? zr_arena_take_behind(&track->arena, granted, out)
                 : zr_arena_take(&track->arena, granted, out);
}

zl_status zr_alloc(zr_track *track, zl_buf what, uint64_t bytes, zr_mem *out, zl_err *err)
{
    const uint64_t granted = granted_of(bytes);
    if (bytes == 0 || zl_poisoned(granted)) {
        return zl_fail(err, ZL_E_BUG, "buffer %s in %s (%s): %s", zl_buf_name(what),
                       phase_name(track), visit_name(track),
                       bytes == 0 ? "asked for 0 bytes" : "its size overflows 64 bits");
    }
    const uint64_t cap = track->options.cap;
    const uint64_t live = track->account.total[ZL_GRANTED];
    void *p;
    if ((cap != 0 && zl_add(live, granted) > cap) || !take(track, what, granted, &p)) {
        return out_of_memory(track, what, bytes, err);
    }
    zr_account_add(&track->account, what, bytes, granted);
    track->peak = zl_max(track->peak, track->account.total[ZL_GRANTED]);
    if (track->options.poison) {
        zr_memory_poison(p, granted);
    }
    *out = (zr_mem){.ptr = p, .bytes = bytes, .buf = what};
    return ZL_OK;
}

/* The first misuse is kept until the phase ends, because zr_free has no status. */
static void misuse(zr_track *track, zl_buf buf, const char *what)
{
    if (track->fault.status == ZL_OK) {
        (void)zl_fail(&track->fault, ZL_E_BUG, "buffer %s %s in %s (%s)", zl_buf_name(buf), what,
                      phase_name(track), visit_name(track));
    }
}

void zr_free(zr_track *track, zr_mem *mem)
{
    if (mem->ptr == NULL) {
        return;
    }
    const uint64_t granted = granted_of(mem->bytes);
    if (!zr_arena_give(&track->arena, mem->ptr)) {
        misuse(track, mem->buf, "was freed twice, or was never allocated,");
        *mem = (zr_mem){0};
        return;
    }
    if (track->options.poison) {
        if (zr_memory_poisoned(mem->ptr, 0, mem->bytes)) {
            misuse(track, mem->buf, "was freed untouched");
        } else if (!zr_memory_poisoned(mem->ptr, mem->bytes, granted)) {
            misuse(track, mem->buf, "was written beyond its end, noticed");
        }
        zr_memory_poison(mem->ptr, granted); /* whoever still reads it gets nonsense */
    }
    zr_account_sub(&track->account, mem->buf, mem->bytes, granted);
    *mem = (zr_mem){0};
}

void zr_phase_enter(zr_track *track, zl_visit visit, zl_phase phase)
{
    if (track->in_phase && track->fault.status == ZL_OK) {
        (void)zl_fail(&track->fault, ZL_E_BUG, "phase %s entered inside phase %s",
                      zl_phase_name(phase), zl_phase_name(track->phase));
    }
    track->in_phase = true;
    track->visit = visit;
    track->phase = phase;
    if (track->options.beacon != NULL) {
        *track->options.beacon = ZR_BEACON(visit, phase);
    }
    if (phase == ZL_PHASE_STEP) {
        zr_arena_wall(&track->arena);
    }
    zr_account_enter(&track->account);
}

zl_status zr_phase_leave(zr_track *track, zl_err *err)
{
    if (!track->in_phase) {
        return zl_fail(err, ZL_E_BUG, "a phase was left that had not been entered");
    }
    if (track->fault.status != ZL_OK) {
        return zl_fail(err, track->fault.status, "%s", track->fault.text);
    }
    zl_cell now;
    zr_account_leave(&track->account, &now);
    zl_cell *const first = &track->cell[track->visit][track->phase];
    if (first->present) {
        ZL_TRY(zr_cell_same(first, &now, track->visit, track->phase, err));
    } else {
        *first = now;
    }
    track->in_phase = false;
    if (track->phase == ZL_PHASE_STEP && !track->settled) {
        track->settled = true;
        track->settled_accessible = track->arena.memory.accessible;
    }
    return ZL_OK;
}

uint64_t zr_track_live(const zr_track *track)
{
    return track->account.total[ZL_GRANTED];
}

uint64_t zr_track_peak(const zr_track *track)
{
    return track->peak;
}

void zr_track_peak_reset(zr_track *track)
{
    track->peak = track->account.total[ZL_GRANTED];
}

uint64_t zr_track_late_growth(const zr_track *track)
{
    return track->settled ? track->arena.memory.accessible - track->settled_accessible : 0;
}

zl_status zr_track_mark(zr_track *track, bool steady, zl_err *err)
{
    return zr_witness_mark(&track->witness, &track->arena.memory, steady, err);
}

zl_status zr_track_export(const zr_track *track, zl_ledger *out, zl_err *err)
{
    if (track->in_phase) {
        return zl_fail(err, ZL_E_BUG, "the ledger was asked for inside phase %s",
                       phase_name(track));
    }
    if (track->fault.status != ZL_OK) {
        return zl_fail(err, track->fault.status, "%s", track->fault.text);
    }
    out->origin = ZL_ORIGIN_MEASURED;
    out->granule = ZR_GRANULE;
    out->witness = track->witness.seen;
    out->witness.placement = ZL_PLACEMENT_APART;
    out->witness.arena_reserved = track->arena.memory.accessible;
    memcpy(out->cell, track->cell, sizeof(out->cell));
    return ZL_OK;
}
