/* run.json; what a framework's setup makes of it; and whether it reads back as the same run. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "zeroledger/run.h"
#include "zeroledger/torch.h"

static void deaf(void *context, const char *line)
{
    (void)context;
    (void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zl_run run;
    zl_torch_run torch;
    zl_err err = {0};
    if (zl_run_load(zl_fuzz_file(0, data, size), &run, &err) != ZL_OK) {
        return 0;
    }
    char id[ZL_RUN_ID_SIZE];
    zl_run_id(&run, id);
    if (run.framework != ZL_FRAMEWORK_NATIVE) {
        (void)!zl_torch_run_from(&run, &torch, deaf, NULL, &err);
    }
    return 0;
}
