/* The closed form: memory per phase from the run description alone. No allocator, no measurement.
 *
 *     zl_ledger *ledger = zl_ledger_new();
 *     if (zl_predict(&run, 0, ledger, &err) != ZL_OK) { ... }
 */
#ifndef ZEROLEDGER_PREDICT_H
#define ZEROLEDGER_PREDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/export.h"
#include "zeroledger/ledger.h"
#include "zeroledger/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters of the model, tied ones once, without padding. Poison on overflow. */
ZL_API uint64_t zl_params(const zl_model *model);

/* Fills every cell that occurs. Overflow is ZL_E_USAGE; a run outside the closed form is
 * ZL_E_UNMODELLED and names what is outside. */
ZL_API ZL_NODISCARD zl_status zl_predict(const zl_run *run, uint64_t rank, zl_ledger *out,
                                         zl_err *err);

/* Largest granted peak over all phases and visits, without filling a ledger; poison on overflow.
 * phase and visit (may be NULL) receive where it falls, the first in program order. */
ZL_API ZL_NODISCARD zl_status zl_predict_peak(const zl_run *run, uint64_t *bytes, zl_visit *visit,
                                              zl_phase *phase, zl_err *err);

/* Peaks of many runs. A planner remembers the plans of some: where the next run differs from one of
 * them in counts alone (ranks, micro_batch, seq, accumulation, head_chunk, window, reduce_slots),
 * the answer takes about half the time. For one thread at a time.
 *
 *     zl_planner *planner = zl_planner_new();          // the caller frees it; NULL: out of memory
 *     for (run.micro_batch = 1; run.micro_batch <= 64; run.micro_batch++) {
 *         ZL_TRY_GOTO(status, zl_planner_peak(planner, &run, &bytes, NULL, NULL, err), out);
 *     ...
 *     zl_planner_free(planner);
 */
typedef struct zl_planner zl_planner;
ZL_API zl_planner *zl_planner_new(void);
ZL_API void zl_planner_free(zl_planner *planner);
/* As zl_predict_peak, to the byte. */
ZL_API ZL_NODISCARD zl_status zl_planner_peak(zl_planner *planner, const zl_run *run,
                                              uint64_t *bytes, zl_visit *visit, zl_phase *phase,
                                              zl_err *err);

/* Bytes that the largest granted peak is not below on any number of ranks from run->ranks to
 * most_ranks; where both are the same, that peak. It is no sharper than the padding of shards: with
 * N ranks a unit is a multiple of 256 N bytes. */
ZL_API ZL_NODISCARD zl_status zl_predict_floor(const zl_run *run, uint64_t most_ranks,
                                               uint64_t *bytes, zl_err *err);

/* One line of an explanation: count buffers of `each` bytes. */
typedef struct zl_term {
    zl_buf buffer;
    uint64_t count;
    uint64_t each;     /* requested bytes of one */
    uint64_t bytes;    /* count x each */
    bool shards;       /* becomes 1/N with N ranks at this stage */
    char instant[96];  /* the named instant of the peak */
    char symbols[160]; /* "(L+1)·B·T·C·e" */
    char numbers[160]; /* "(12+1)·8·1024·768·2" */
} zl_term;

/* Terms live at the requested peak of a phase visit, in vocabulary order; they add up to the peak.
 * At most cap are written, *n is the number there are. A cell that does not occur is ZL_E_USAGE. */
ZL_API ZL_NODISCARD zl_status zl_explain(const zl_run *run, zl_visit visit, zl_phase phase,
                                         zl_term *terms, size_t cap, size_t *n, zl_err *err);

/* The same for what is live when the visit ends: the boundary to the next phase. */
ZL_API ZL_NODISCARD zl_status zl_explain_end(const zl_run *run, zl_visit visit, zl_phase phase,
                                             zl_term *terms, size_t cap, size_t *n, zl_err *err);

/* Every term that is live at any instant of a phase visit, once, with the most pieces that one
 * instant has: what the buffer itself can take, so the terms do not add up. instant is empty; else
 * as zl_explain. */
ZL_API ZL_NODISCARD zl_status zl_explain_all(const zl_run *run, zl_visit visit, zl_phase phase,
                                             zl_term *terms, size_t cap, size_t *n, zl_err *err);

/* A letter of the formulas and what it stands for. */
typedef struct zl_letter {
    const char *symbol; /* "E_block" */
    const char *text;
} zl_letter;
/* The index-th; false past the end, then nothing is written. */
ZL_API bool zl_letter_at(size_t index, zl_letter *out);

/* A unit of sharding and its tensors, for explanations. */
typedef enum zl_unit { ZL_UNIT_EMBED, ZL_UNIT_BLOCK, ZL_UNIT_HEAD, ZL_UNIT_COUNT } zl_unit;
typedef struct zl_tensor {
    const char *name; /* "qkv.weight" */
    uint64_t elements;
    char symbols[64]; /* "C·(H+2G)·D" */
} zl_tensor;
ZL_API const char *zl_unit_name(zl_unit unit);
/* Tensors of one unit in storage order; at most cap are written, the return value is how many there
 * are. */
ZL_API size_t zl_unit_tensors(const zl_model *model, zl_unit unit, zl_tensor *tensors, size_t cap);
/* Elements of one unit's flat buffer, padding included. */
ZL_API uint64_t zl_unit_elements(const zl_run *run, zl_unit unit);

#ifdef __cplusplus
}
#endif
#endif
