/* The tagged allocator: the only door to memory in the trainer, and the measuring instrument.
 *
 * Every buffer is requested by its name in the vocabulary, at the size the operation needs, and
 * comes out of one arena. The tracker keeps, per phase visit, what a ledger cell defines.
 *
 *     zr_track *track;
 *     ZL_TRY(zr_track_new(&(zr_track_options){.cap = 0}, &track, err));
 *     zr_phase_enter(track, ZL_VISIT_COLD, ZL_PHASE_FORWARD);
 *     zr_mem qkv;
 *     ZL_TRY(zr_alloc(track, ZL_BUF_ACT_QKV, ZR_SHAPE(ZL_BF16, rows, packed), &qkv, err));
 *     ... kernels write and read qkv.ptr ...
 *     zr_free(track, &qkv);
 *     ZL_TRY(zr_phase_leave(track, err));
 *     ZL_TRY(zr_track_export(track, ledger, err));
 *     zr_track_free(track);
 */
#ifndef ZR_TRACK_H
#define ZR_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#include "zeroledger/bytes.h"
#include "zeroledger/error.h"
#include "zeroledger/ledger.h"
#include "zeroledger/vocab.h"

enum { ZR_GRANULE = 256 };

/* Bytes of a tensor: ZR_SHAPE(ZL_F32, rows, columns). Overflow is poison and zr_alloc refuses it.
 */
#define ZR_SHAPE(dtype, ...) zl_mul(zl_dtype_size(dtype), zl_prod(__VA_ARGS__))

typedef struct zr_track zr_track;

/* A live buffer. Zeroed: not allocated. The holder frees it. */
typedef struct zr_mem {
    void *ptr;
    uint64_t bytes; /* requested */
    zl_buf buf;
} zr_mem;

typedef struct zr_track_options {
    uint64_t cap; /* limit of granted bytes; 0 = none */
    bool poison;  /* fill with a pattern at allocation; a buffer freed untouched is an error that
                     zr_phase_leave reports */
    volatile uint32_t *beacon; /* where the phase being entered is written for a watcher in another
                                  process, see ZR_BEACON; NULL = nobody watches */
} zr_track_options;

/* A visit and phase in one word that is never 0. */
#define ZR_BEACON(visit, phase) ((uint32_t)(visit) << 8 | ((uint32_t)(phase) + 1))

/* Caller frees *out. */
ZL_NODISCARD zl_status zr_track_new(const zr_track_options *options, zr_track **out, zl_err *err);
void zr_track_free(zr_track *track);

/* bytes 0 and poison are refused. Beyond the cap or the machine's memory: ZL_E_RESOURCE, "out of
 * memory: buffer act.qkv in forward (cold): requested 4096 bytes, 1024 available under the cap of
 * ...". */
ZL_NODISCARD zl_status zr_alloc(zr_track *track, zl_buf what, uint64_t bytes, zr_mem *out,
                                zl_err *err);
/* Resets *mem to zero; freeing a zeroed mem does nothing. */
void zr_free(zr_track *track, zr_mem *mem);

/* Phases do not nest. Leave compares a repeated cell with its first occurrence and fails
 * (ZL_E_BUG naming the cell and the buffer) if they differ. */
void zr_phase_enter(zr_track *track, zl_visit visit, zl_phase phase);
ZL_NODISCARD zl_status zr_phase_leave(zr_track *track, zl_err *err);

/* Live and peak granted bytes since the last call of zr_track_peak_reset, for the step's printout.
 */
uint64_t zr_track_live(const zr_track *track);
uint64_t zr_track_peak(const zr_track *track);
void zr_track_peak_reset(zr_track *track);

/* Bytes that the arena asked of the system after the cold step, which had better be 0. */
uint64_t zr_track_late_growth(const zr_track *track);

/* Second witness: measures the arena's resident pages and everything outside it, at a mark; steady:
 * whether growth outside counts against the steady limit. The first call sets the baseline. */
ZL_NODISCARD zl_status zr_track_mark(zr_track *track, bool steady, zl_err *err);

/* Fills cells, granule and witness of `out`; origin becomes measured. run and rank are the
 * caller's. */
ZL_NODISCARD zl_status zr_track_export(const zr_track *track, zl_ledger *out, zl_err *err);

#endif
