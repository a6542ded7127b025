/* Configurations of Hugging Face accelerate. */
#include "cli/accelerate.h"
#include "fuzz.h"

static void deaf(void *context, const char *line)
{
    (void)context;
    (void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static zl_accelerate found;
    zl_err err = {0};
    (void)!zl_accelerate_read(zl_fuzz_file(0, data, size), &found, deaf, NULL, &err);
    return 0;
}
