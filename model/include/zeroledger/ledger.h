/* The ledger: what is live in each phase, by kind and by buffer. Predictions and measurements are
 * both ledgers, and that is all they share.
 *
 * For one visit of a phase on one rank, on each rung (requested, granted):
 *   peak     the largest total of live bytes in the visit, its entry included
 *   at_peak  live bytes of a buffer at the first instant that attains the peak of that rung
 *   end      live bytes at the visit's exit
 *   max      the buffer's (or kind's) own maximum within the visit
 * Maxima of buffers and kinds happen at different instants: they never add up to the peak.
 *
 *     zl_ledger *ledger = zl_ledger_new();
 *     zl_cell *cell = zl_ledger_cell(ledger, ZL_VISIT_STEADY, ZL_PHASE_FORWARD);
 *     cell->present = true;
 *     cell->line[ZL_BUF_ACT_QKV].bytes[ZL_REQUESTED].max = 4096;
 *     zl_ledger_free(ledger);
 */
#ifndef ZEROLEDGER_LEDGER_H
#define ZEROLEDGER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/export.h"
#include "zeroledger/run.h"
#include "zeroledger/vocab.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zl_origin {
    ZL_ORIGIN_PREDICTED,
    ZL_ORIGIN_MEASURED,
    ZL_ORIGIN_WALKED,
    ZL_ORIGIN_IMPORTED,
    ZL_ORIGIN_COUNT
} zl_origin;

typedef struct zl_amount {
    uint64_t end;
    uint64_t at_peak;
    uint64_t max;
} zl_amount;

typedef struct zl_line {
    zl_amount bytes[ZL_RUNG_COUNT];
} zl_line;

typedef struct zl_cell {
    bool present; /* false: this visit of this phase does not occur */
    uint64_t peak[ZL_RUNG_COUNT];
    uint64_t kind_max[ZL_KIND_COUNT]
                     [ZL_RUNG_COUNT]; /* a kind's own maximum, all its buffers together */
    zl_line line[ZL_BUF_COUNT];
} zl_cell;

/* How the arena places what it hands out, docs/schedule.md, section 6. What was measured by the
 * first rule stays comparable. */
typedef enum zl_placement {
    ZL_PLACEMENT_MIXED, /* until November 2026: the optimizer's states go where they fit */
    ZL_PLACEMENT_APART, /* they lie behind all that steps repeat */
    ZL_PLACEMENT_COUNT
} zl_placement;

/* What a measurement saw besides the tagged allocator; bytes. */
typedef struct zl_witness {
    bool present;
    zl_placement placement;
    uint64_t arena_reserved; /* address space the arena holds in memory at its largest */
    uint64_t arena_resident; /* resident pages of the arena's mapping at the last mark */
    uint64_t outside_cold;   /* growth outside the arena from init's end to the cold step's end */
    uint64_t
        outside_steady; /* largest growth outside the arena between two marks of a steady step */
} zl_witness;

typedef struct zl_ledger {
    zl_origin origin;
    zl_run run;
    uint64_t rank;
    bool loopback;    /* measured on one rank whose peers were not there */
    uint64_t granule; /* the allocator's rounding: granted = requested rounded up to it */
    zl_witness witness;
    zl_cell cell[ZL_VISIT_COUNT][ZL_PHASE_COUNT];
} zl_ledger;

/* Zeroed ledger on the heap; the caller frees it. NULL only if memory is exhausted. */
ZL_API zl_ledger *zl_ledger_new(void);
ZL_API void zl_ledger_free(zl_ledger *ledger);

static inline zl_cell *zl_ledger_cell(zl_ledger *ledger, zl_visit visit, zl_phase phase)
{
    return &ledger->cell[visit][phase];
}

static inline const zl_cell *zl_ledger_at(const zl_ledger *ledger, zl_visit visit, zl_phase phase)
{
    return &ledger->cell[visit][phase];
}

/* Sums over the buffers of a kind (poison if one is poisoned). end and at_peak add up exactly; for
 * the kind's own maximum read kind_max. */
ZL_API uint64_t zl_cell_kind_at_peak(const zl_cell *cell, zl_kind kind, zl_rung rung);
ZL_API uint64_t zl_cell_kind_end(const zl_cell *cell, zl_kind kind, zl_rung rung);
ZL_API uint64_t zl_cell_end(const zl_cell *cell, zl_rung rung); /* total live at the exit */

/* ZL_E_USAGE ("sizes overflow 64 bits: ...") if any number is poison. */
ZL_API ZL_NODISCARD zl_status zl_ledger_check(const zl_ledger *ledger, zl_err *err);

/* "zeroledger.ledger/1". The run is embedded. Buffers that are zero throughout a cell are left out.
 * Loading rejects unknown and duplicate keys, wrong types, and sums that contradict each other
 * (at_peak must add up to peak). Caller frees *out. path "-" = stdin / stdout; saving is atomic. */
ZL_API ZL_NODISCARD zl_status zl_ledger_load(const char *path, zl_ledger **out, zl_err *err);
ZL_API ZL_NODISCARD zl_status zl_ledger_save(const zl_ledger *ledger, const char *path,
                                             zl_err *err);

/* First difference in a fixed order (visit, phase, then peak, buffers, kinds; requested before
 * granted). */
typedef struct zl_difference {
    bool found;
    zl_visit visit;
    zl_phase phase;
    zl_rung rung;
    const char *what; /* "present", "peak", "end", "at_peak", "max", "kind max" */
    bool has_buffer;
    zl_buf buffer;  /* where has_buffer */
    zl_kind kind;   /* kind of the buffer, or the kind itself */
    uint64_t a;     /* bytes in the first ledger */
    uint64_t b;     /* bytes in the second */
    uint64_t count; /* number of differing figures in all */
} zl_difference;

/* Compares every figure of every cell. skip_work leaves kind work out (ledgers of two backends);
 * peaks are then compared without it as well. Runs with different ids are ZL_E_USAGE;
 * with skip_work the backend does not count towards the id. */
ZL_API ZL_NODISCARD zl_status zl_ledger_compare(const zl_ledger *a, const zl_ledger *b,
                                                bool skip_work, zl_difference *out, zl_err *err);

ZL_API const char *zl_origin_name(zl_origin origin);

#ifdef __cplusplus
}
#endif
#endif
