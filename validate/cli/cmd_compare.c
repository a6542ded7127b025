#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "compare/diff.h"
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
    zv_diff diff;
    zl_status status;
    ZL_TRY_GOTO(status, zl_ledger_load(s->operand[0], &predicted, err), out);
    ZL_TRY_GOTO(status, zl_ledger_load(s->operand[1], &measured, err), out);
    ZL_TRY_GOTO(status, zv_diff_ledgers(predicted, measured, s->skip_work, &diff, err), out);
    print_loopback(s->operand[0], predicted);
    print_loopback(s->operand[1], measured);
    print_diff(&diff);
    status = diff.first.found ? ZL_NO : ZL_OK;
out:
    zl_ledger_free(measured);
    zl_ledger_free(predicted);
    return status;
}

static void print_recheck(void *context, const char *path, const zv_diff *diff)
{
    (void)context;
    char text[ZV_DIFF_TEXT_SIZE];
    if (diff->first.found) {
        zv_difference_text(&diff->first, text, sizeof text);
        fprintf(stderr, "%s: %s\n", path, text);
    }
}

zl_status zv_cmd_recheck(const zv_settings *s, zl_err *err)
{
    zv_recheck_result result;
    ZL_TRY(zv_recheck(s->operand[0], print_recheck, NULL, &result, err));
    printf("%zu cases, %zu differ\n", result.cases, result.differ);
    return result.differ == 0 ? ZL_OK : ZL_NO;
}
