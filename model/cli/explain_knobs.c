/* What makes a phase of a framework's run smaller: the knobs, one at a time, predicted again. */
#include "explain_framework.h"

#include <stdio.h>
#include <string.h>

#include "knobs.h"

static bool helps(const zl_turn *turn, const zl_moments *moments, bool cold, uint32_t steps)
{
    for (int s = ZL_SPAN_FORWARD; s < ZL_SPANS; s++) {
        const zl_moment *here = zl_span_moment(moments, (zl_span)s, cold, steps);
        if (here != NULL && turn->peak[s] < here->mark.peak_requested) {
            return true;
        }
    }
    return false;
}

static void take_peaks(const zl_moments *moments, bool cold, uint32_t steps, zl_turn *turn)
{
    for (int s = 0; s < ZL_SPANS; s++) {
        const zl_moment *moment = zl_span_moment(moments, (zl_span)s, cold, steps);
        turn->peak[s] = moment != NULL ? moment->mark.peak_requested : 0;
    }
}

/* One knob at one level; what cannot be predicted is left out. */
static zl_status try_turn(const zl_walked *w, const zl_turned *turned, bool cold, zl_turn *out,
                          bool *predicted, zl_err *err)
{
    zl_moments moments = {0};
    const zl_status status =
        turned->possible ? zl_torch_explain(&turned->torch, w->rank, &moments, NULL) : ZL_E_USAGE;
    if (status == ZL_E_RESOURCE) {
        return zl_fail(err, ZL_E_RESOURCE, "out of memory");
    }
    *predicted = status == ZL_OK;
    *out = (zl_turn){.option = turned->change.knob->name};
    memcpy(out->value, turned->change.value, sizeof out->value);
    take_peaks(&moments, cold, turned->torch.steps, out);
    zl_moments_clear(&moments);
    return ZL_OK;
}

zl_status zl_turns_find(const zl_walked *w, const zl_moments *moments, bool cold, zl_turn *out,
                        size_t *count, zl_err *err)
{
    const zl_knob *knob = NULL;
    zl_turned turned;
    *count = 0;
    for (size_t i = 0; (knob = zl_knob_at(i)) != NULL; i++) {
        for (unsigned level = 0; level < knob->alone && *count < ZL_TURNS_MAX &&
                                 zl_knob_turn(knob, level, &w->run, &w->torch, &turned);
             level++) {
            zl_turn turn;
            bool predicted = false;
            ZL_TRY(try_turn(w, &turned, cold, &turn, &predicted, err));
            if (predicted && helps(&turn, moments, cold, w->torch.steps)) {
                out[(*count)++] = turn;
            }
        }
    }
    return ZL_OK;
}
