#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "compare/trace.h"
#include "zeroledger/ledger.h"

static void print_verdict(const zv_trace *trace, const zv_trace_verdict *v)
{
    printf("process %" PRIu64 " on GPU %" PRIu64 ", %" PRIu64 " bytes traced at the peak\n",
           trace->pid, trace->device, trace->peak);
    for (size_t i = 0; i < trace->rows; i++) {
        const zv_owner *const row = &trace->row[i];
        printf("  %-24s %-26s %16" PRIu64 " bytes\n", row->owner, row->call, row->at_peak);
    }
    printf("arena: ledger %" PRIu64 ", trace %" PRIu64 " bytes; %" PRIu64
           " of them granted at the peak; %" PRIu64 " past the allocator\n",
           v->arena, v->traced, v->granted, v->past);
    puts(zv_trace_agrees(v) ? "equal" : "differs");
}

zl_status zv_cmd_trace(const zv_settings *s, zl_err *err)
{
    zl_ledger *ledger = NULL;
    static zv_trace trace;
    zv_trace_verdict verdict;
    zl_status status;
    ZL_TRY_GOTO(status, zl_ledger_load(s->operand[0], &ledger, err), out);
    ZL_TRY_GOTO(status, zv_trace_load(s->operand[1], ledger->rank, &trace, err), out);
    ZL_TRY_GOTO(status, zv_trace_judge(ledger, &trace, &verdict, err), out);
    print_verdict(&trace, &verdict);
    status = zv_trace_agrees(&verdict) ? ZL_OK : ZL_NO;
out:
    zl_ledger_free(ledger);
    return status;
}
