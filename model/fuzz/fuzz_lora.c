/* What --lora says: ranks, targets, patterns of Python. */
#include <stdlib.h>

#include "fuzz.h"
#include "torch/lora.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = zl_fuzz_text(data, size);
    zl_torch_run run;
    zl_err err = {0};
    zl_torch_run_init(&run);
    (void)!zt_lora_read(text, &run, &err);
    free(text);
    return 0;
}
