/* What would make the peak that limits smaller: every knob alone, at the levels that zl explain
 * tries, and the whole run predicted again. */
#include <string.h>

#include "fit.h"
#include "knobs.h"
#include "zeroledger/bytes.h"

/* The largest peak; poison where it cannot be predicted, or would run out of any memory. */
static zl_status peak_of(const zl_turned *turned, bool native, uint64_t rank, uint64_t *bytes,
                         zl_err *err)
{
    zl_marks marks = {0};
    *bytes = ZL_POISON;
    if (!turned->possible) {
        return ZL_OK;
    }
    const zl_status status = native ? zl_predict_peak(&turned->run, bytes, NULL, NULL, NULL)
                                    : zl_torch_predict(&turned->torch, rank, &marks, NULL);
    if (status == ZL_E_RESOURCE) {
        return zl_fail(err, status, "out of memory");
    }
    if (!native && status == ZL_OK) {
        *bytes = 0;
        for (size_t i = 0; i < marks.count; i++) {
            *bytes = zl_max(*bytes, marks.mark[i].peak_allocated);
        }
    }
    zl_marks_clear(&marks);
    return ZL_OK;
}

/* Keeps the strongest, in order. */
static void keep(zl_limit *out, const zl_lever *lever)
{
    size_t at = out->levers;
    while (at > 0 && out->lever[at - 1].bytes > lever->bytes) {
        at--;
    }
    if (at == ZL_LEVERS_SHOWN) {
        return;
    }
    const size_t kept = out->levers < ZL_LEVERS_SHOWN ? out->levers : ZL_LEVERS_SHOWN - 1;
    memmove(&out->lever[at + 1], &out->lever[at], (kept - at) * sizeof out->lever[0]);
    out->lever[at] = *lever;
    out->levers = kept + 1;
}

/* The best level of one knob. */
static zl_status pull(const zl_run *run, const zl_torch_run *torch, const zl_knob *knob,
                      uint64_t rank, zl_lever *out, zl_err *err)
{
    zl_turned turned;
    out->bytes = ZL_POISON;
    for (unsigned level = 0; level < knob->alone && zl_knob_turn(knob, level, run, torch, &turned);
         level++) {
        uint64_t bytes = 0;
        ZL_TRY(peak_of(&turned, torch == NULL, rank, &bytes, err));
        if (bytes < out->bytes) {
            out->bytes = bytes;
            zl_change_label(&turned.change, out->text, sizeof out->text);
        }
    }
    return ZL_OK;
}

zl_status zl_levers_find(const zl_run *run, const zl_torch_run *torch, uint64_t rank,
                         const char *without, uint64_t bytes, zl_limit *out, zl_err *err)
{
    const zl_knob *knob = NULL;
    for (size_t i = 0; (knob = zl_knob_at(i)) != NULL; i++) {
        zl_lever lever;
        if (knob->price == ZL_PRICE_RESULT || strcmp(knob->name, without) == 0) {
            continue;
        }
        ZL_TRY(pull(run, torch, knob, rank, &lever, err));
        if (lever.bytes < bytes) {
            keep(out, &lever);
        }
    }
    return ZL_OK;
}
