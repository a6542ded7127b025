/* Logs of training: see_memory_usage, timers, summaries, out-of-memory messages, nvidia-smi. */
#include <stdlib.h>

#include "fuzz.h"
#include "torch/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = zl_fuzz_text(data, size);
    zt_log log = {0};
    zl_err err = {0};
    if (zt_log_read(text, size, &log, &err) == ZL_OK) {
        for (size_t i = 0; i < log.count; i++) {
            (void)zt_oom_cause_of(&log.sighting[i].oom);
            (void)zt_oom_asks_for(&log.sighting[i].oom, size);
        }
        zt_log_release(&log);
    }
    free(text);
    return 0;
}
