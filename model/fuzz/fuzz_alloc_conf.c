/* PYTORCH_ALLOC_CONF. */
#include <stdlib.h>

#include "fuzz.h"
#include "torch/alloc_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = zl_fuzz_text(data, size);
    zt_alloc_conf conf;
    zl_err err = {0};
    if (zt_alloc_conf_parse(text, &conf, &err) == ZL_OK) {
        (void)!zt_alloc_conf_check(&conf, &err);
    }
    free(text);
    return 0;
}
