/* Case files of a matrix. */
#include "drive/cases.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zv_cases cases = {0};
    zl_err err = {0};
    if (zv_cases_load(zl_fuzz_file(0, data, size), &cases, &err) == ZL_OK) {
        zv_cases_release(&cases);
    }
    return 0;
}
