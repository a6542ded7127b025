/* ledger.json, predicted or measured. */
#include "fuzz.h"
#include "zeroledger/ledger.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zl_ledger *ledger = NULL;
    zl_err err = {0};
    if (zl_ledger_load(zl_fuzz_file(0, data, size), &ledger, &err) == ZL_OK) {
        zl_ledger_free(ledger);
    }
    return 0;
}
