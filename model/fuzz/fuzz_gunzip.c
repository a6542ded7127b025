/* Files that may be packed by gzip. */
#include <stdlib.h>

#include "cli/gunzip.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = NULL;
    size_t length = 0;
    zl_err err = {0};
    if (zl_gunzip(zl_fuzz_file(0, data, size), &text, &length, &err) == ZL_OK) {
        free(text);
    }
    return 0;
}
