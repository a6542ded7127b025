/* Recordings of the meter. */
#include <stdlib.h>

#include "fuzz.h"
#include "trace/recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = zl_fuzz_text(data, size);
    zr_recording_read *const found = calloc(1, sizeof *found);
    zl_err err = {0};
    if (found != NULL && zr_recording_parse("fuzz", text, size, found, &err) == ZL_OK) {
        zr_meter_release(&found->meter);
    }
    free(found);
    free(text);
    return 0;
}
