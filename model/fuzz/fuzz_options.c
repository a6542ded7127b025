/* Options of the run description: lines of "name value", as on a command line, and the run that
 * comes of them. */
#include <stdlib.h>

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
    char *const text = zl_fuzz_text(data, size);
    char *rest = text;
    const char *name = NULL;
    const char *value = NULL;
    zl_run run;
    zl_torch_run torch;
    zl_err err = {0};
    zl_run_init(&run);
    while (zl_fuzz_option(&rest, &name, &value)) {
        (void)!zl_run_set(&run, name, value, &err);
    }
    if (zl_run_check(&run, &err) == ZL_OK && run.framework != ZL_FRAMEWORK_NATIVE) {
        (void)!zl_torch_run_from(&run, &torch, deaf, NULL, &err);
    }
    free(text);
    return 0;
}
