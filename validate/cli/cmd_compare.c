#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "compare/device.h"
#include "compare/diff.h"
#include "compare/ladder.h"
#include "drive/recheck.h"

static void print_diff(const zv_diff *diff)
{
    char text[ZV_DIFF_TEXT_SIZE];
    if (!diff->first.found) {
        printf("equal: %" PRIu64 " figures in %" PRIu64 " visits of phases\n", diff->figures,
               diff->cells);
        return;
    }
    zv_difference_text(&diff->first, text, sizeof text);
    printf("differs: %s\n", text);
    printf("%" PRIu64 " of %" PRIu64 " figures differ; at most %" PRIu64 " requested and %" PRIu64
           " granted bytes\n",
           diff->differing, diff->figures, diff->off[ZL_REQUESTED], diff->off[ZL_GRANTED]);
}

/* A rank whose peers were not there has the job's buffers, and nobody should take it for the job.
 */
static void print_loopback(const char *path, const zl_ledger *ledger)
{
    if (ledger->loopback) {
        printf("loopback: %s is of rank %" PRIu64 " alone, of %" PRIu64 "\n", path, ledger->rank,
               ledger->run.ranks);
    }
}

zl_status zv_cmd_compare(const zv_settings *s, zl_err *err)
{
    zl_ledger *predicted = NULL;
    zl_ledger *measured = NULL;
    zv_device_verdict device = {.arena.rung = ZV_RUNG_ABSENT};
    zv_diff diff;
    zl_status status;
    ZL_TRY_GOTO(status, zl_ledger_load(s->operand[0], &predicted, err), out);
    ZL_TRY_GOTO(status, zl_ledger_load(s->operand[1], &measured, err), out);
    ZL_TRY_GOTO(status, zv_diff_ledgers(predicted, measured, s->skip_work, &diff, err), out);
    print_loopback(s->operand[0], predicted);
    print_loopback(s->operand[1], measured);
    print_diff(&diff);
    if (measured->origin == ZL_ORIGIN_MEASURED && !s->skip_work) { /* else of two backends */
        ZL_TRY_GOTO(status, zv_device_judge(s->operand[1], measured, NULL, &device, err), out);
        zv_ladder_print(&device, stdout);
    }
    status = diff.first.found || !zv_device_agrees(&device) ? ZL_NO : ZL_OK;
out:
    zl_ledger_free(measured);
    zl_ledger_free(predicted);
    return status;
}

static void print_recheck(void *context, const char *path, const zv_diff *diff,
                          const zv_device_verdict *device)
{
    (void)context;
    char text[ZV_DIFF_TEXT_SIZE];
    char rung[ZV_LADDER_TEXT_SIZE];
    if (diff->first.found) {
        zv_difference_text(&diff->first, text, sizeof text);
        fprintf(stderr, "%s: %s\n", path, text);
    }
    zv_ladder_first(device, rung);
    if (rung[0] != '\0') {
        fprintf(stderr, "%s: %s\n", path, rung);
    }
}

/* Nothing about a rung that nobody measured. */
static void print_rung(const char *name, const zv_rung_count *count)
{
    if (count->judged > 0) {
        printf("%s: %zu judged, %zu differ, at most %" PRIu64 " bytes apart\n", name, count->judged,
               count->differ, count->largest);
    }
    if (count->unknown > 0) {
        printf("%s: %zu not judged, no constants fit their machine\n", name, count->unknown);
    }
}

zl_status zv_cmd_recheck(const zv_settings *s, zl_err *err)
{
    zv_recheck_result result;
    ZL_TRY(zv_recheck(s->operand[0], print_recheck, NULL, &result, err));
    printf("L0 requested and L1 granted: %zu ledgers, %zu differ\n", result.ledgers,
           result.unequal);
    print_rung("L2 arena", &result.arena);
    print_rung("L2 by owner", &result.owner);
    print_rung("L2 NCCL", &result.nccl);
    print_rung("L3 device", &result.total);
    printf("%zu cases, %zu differ\n", result.cases, result.differ);
    return result.differ == 0 ? ZL_OK : ZL_NO;
}
