/* Recordings of PyTorch's allocator in both forms, replayed through the model of it. */
#include <stdlib.h>

#include "fuzz.h"
#include "torch/replay.h"

static void replay(const zt_trace *trace, zt_addresses addresses)
{
    const zt_replay_options options = {.conf = trace->conf, .addresses = addresses};
    zt_replay result;
    zl_err err = {0};
    if (zt_replay_run(trace, &options, &result, &err) == ZL_OK) {
        (void)zt_replay_differ(&result);
        zt_replay_release(&result);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = zl_fuzz_text(data, size);
    zl_json_doc *doc = NULL;
    zt_trace trace = {0};
    zl_err err = {0};
    if (zl_json_parse("trace", text, size, &doc, &err) == ZL_OK) {
        if (zt_trace_read(zl_json_root(doc), UINT64_MAX, &trace, &err) == ZL_OK) {
            replay(&trace, ZT_FROM_DRIVER);
            replay(&trace, ZT_DESCENDING);
        }
        zt_trace_release(&trace);
        zl_json_free(doc);
    }
    free(text);
    return 0;
}
