/* Calibrated constants of a GPU. */
#include "fuzz.h"
#include "zeroledger/device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zl_constants constants;
    zl_err err = {0};
    (void)!zl_constants_load(zl_fuzz_file(0, data, size), &constants, &err);
    return 0;
}
