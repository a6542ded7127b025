#define _DEFAULT_SOURCE /* isatty */

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "drive/child.h"
#include "drive/matrix.h"
#include "report/report.h"

static void show_progress(void *context, const zv_progress *p)
{
    const bool *const terminal = context;
    char left[48] = "";
    if (*terminal && p->remaining >= 1) {
        const int seconds = (int)p->remaining;
        snprintf(left, sizeof left, "   about %d min %02d s left", seconds / 60, seconds % 60);
    }
    fprintf(stderr, "[%*zu/%zu] %-56s %-8s%8.2f s%s%s\n", p->total > 99 ? 3 : 2, p->done, p->total,
            p->verdict->id, zv_outcome_name(p->verdict->outcome), p->verdict->seconds,
            p->resumed ? "   trained before" : "", left);
    if (p->verdict->outcome != ZV_EQUAL) {
        fprintf(stderr, "        %s\n", p->verdict->message);
    }
}

static zl_status find_trainer(const zv_settings *s, zv_trainer *out, zl_err *err)
{
    char folder[ZV_PATH_SIZE];
    if (s->train != NULL) {
        ZL_TRY(zv_trainer_at(s->train, out, err));
    } else {
        ZL_TRY(zv_program_folder(folder, err));
        ZL_TRY(zv_trainer_find(folder, out, err));
    }
    out->poison = !s->no_poison;
    out->limit = s->limit > UINT32_MAX ? 0 : (unsigned)s->limit;
    return ZL_OK;
}

static zl_status load_cases(const zv_settings *s, zv_cases *out, zl_err *err)
{
    char path[ZV_PATH_SIZE];
    if (s->cases != NULL) {
        return zv_cases_load(s->cases, out, err);
    }
    ZL_TRY(zv_data_file("cases/host.json", path, err));
    return zv_cases_load(path, out, err);
}

static zl_status conclude(const zv_settings *s, const zv_verdicts *verdicts, bool interrupted,
                          zl_err *err)
{
    if (interrupted) {
        return zl_fail(err, ZL_E_RESOURCE,
                       "interrupted after %zu of %" PRIu64
                       " cases, which are kept in %s; the same command goes on from there",
                       verdicts->count, verdicts->planned, s->out);
    }
    ZL_TRY(zv_report_write(s->out, err));
    fprintf(stderr, "report: %s/report.md\n", s->out);
    const size_t differing = zv_verdicts_differing(verdicts);
    printf("%zu cases, %zu differ\n", verdicts->count, differing);
    return differing == 0 ? ZL_OK : ZL_NO;
}

zl_status zv_cmd_run(const zv_settings *s, zl_err *err)
{
    zv_cases cases = {0};
    zv_trainer trainer;
    zv_verdicts verdicts = {0};
    bool interrupted = false;
    bool terminal = isatty(STDERR_FILENO) == 1;
    zl_status status;
    ZL_TRY(load_cases(s, &cases, err));
    const zv_matrix matrix = {.cases = &cases,
                              .trainer = &trainer,
                              .out = s->out,
                              .commit = s->commit,
                              .fresh = s->fresh,
                              .progress = show_progress,
                              .context = &terminal};
    ZL_TRY_GOTO(status, find_trainer(s, &trainer, err), out);
    ZL_TRY_GOTO(status, zv_signals_block(err), out);
    ZL_TRY_GOTO(status, zv_matrix_run(&matrix, &verdicts, &interrupted, err), out);
    status = conclude(s, &verdicts, interrupted, err);
out:
    zv_verdicts_release(&verdicts);
    zv_cases_release(&cases);
    return status;
}

zl_status zv_cmd_report(const zv_settings *s, zl_err *err)
{
    return zv_report_write(s->operand[0], err);
}
