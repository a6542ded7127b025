/* config.json as the native framework reads it. */
#include "fuzz.h"
#include "zeroledger/model.h"
#include "zeroledger/predict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zl_model model;
    zl_err err = {0};
    if (zl_model_load(zl_fuzz_file(0, data, size), &model, &err) == ZL_OK) {
        (void)zl_params(&model);
    }
    return 0;
}
