/* manifest.json of a checkpoint. */
#include "fuzz.h"
#include "train/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zr_manifest manifest;
    zl_err err = {0};
    if (zr_manifest_load(zl_fuzz_file(0, data, size), &manifest, &err) == ZL_OK) {
        zr_manifest_release(&manifest);
    }
    return 0;
}
