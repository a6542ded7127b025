#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "compare/device.h"
#include "drive/calibrate.h"

static void print_side(FILE *out, const char *name, const zv_side *side)
{
    fprintf(out,
            "%s: %zu cases, %zu outside 1 %% or 32 MiB; off by %.0f bytes in the mean, %" PRIu64
            " at most\n",
            name, side->cases, side->outside, side->mean, side->largest);
}

static void print_cases(FILE *out, const zv_calibration *c)
{
    for (size_t i = 0; i < c->cases; i++) {
        const zv_case_used *const u = &c->used[i];
        fprintf(out, "%-34s %-10s measured %12" PRIu64 ", predicted %12" PRIu64 ", %+" PRId64 "\n",
                u->name, u->calibrates ? "calibrates" : "judges", u->used, u->predicted,
                (int64_t)(u->predicted - u->used));
    }
}

static void print_constants(FILE *out, const zv_calibration *c)
{
    const zl_constants *const k = &c->constants;
    fprintf(out, "%s, driver %s, CUDA %s, commit %s\n", k->gpu, k->driver, k->cuda, k->commit);
    fprintf(out, "context and code %" PRIu64 " bytes, standard error %.0f\n", k->context,
            c->fit.error[0]);
    if (k->rings > 0) {
        fprintf(out, "nccl code %" PRIu64 " bytes, standard error %.0f\n", k->communication,
                c->fit.error[1]);
        fprintf(out, "NCCL %s: %" PRIu64 " rings, %" PRIu64 " bytes of a communicator's own\n",
                k->nccl, k->rings, k->own);
    }
    if (c->left_out > 0) {
        fprintf(out, "%zu cases of several ranks are left out: no folder has nccl.json\n",
                c->left_out);
    }
    fprintf(out, "residuals of the fit: deviation %.0f bytes, largest %.0f\n", c->fit.deviation,
            c->fit.largest_residual);
}

zl_status zv_cmd_calibrate(const zv_settings *s, zl_err *err)
{
    zv_calibration *c = NULL;
    ZL_TRY(zv_calibrate(s->operand, s->operands, &c, err));
    FILE *const words = strcmp(s->out, "-") == 0 ? stderr : stdout;
    print_cases(words, c);
    print_constants(words, c);
    print_side(words, "calibrated", &c->calibrated);
    print_side(words, "judged", &c->judged);
    zl_status status = zv_calibration_save(c, s->out, err);
    if (status == ZL_OK && c->judged.outside > 0) {
        status = ZL_NO;
    }
    zv_calibration_free(c);
    return status;
}
