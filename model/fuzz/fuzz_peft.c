/* adapter_config.json of Hugging Face peft. */
#include "cli/peft.h"
#include "fuzz.h"

static void deaf(void *context, const char *line)
{
    (void)context;
    (void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zl_peft found;
    zl_err err = {0};
    (void)!zl_peft_read(zl_fuzz_file(0, data, size), &found, deaf, NULL, &err);
    return 0;
}
