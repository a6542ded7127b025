/* Numbers as people write them: counts, reals, bytes with units, releases of DeepSpeed. */
#include <stdlib.h>

#include "fuzz.h"
#include "zeroledger/text.h"
#include "zeroledger/torch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = zl_fuzz_text(data, size);
    uint64_t count = 0;
    uint32_t version = 0;
    double real = 0.0;
    zl_err err = {0};
    (void)!zl_parse_count("count", text, &count, &err);
    (void)!zl_parse_real("real", text, &real, &err);
    if (zl_parse_bytes("bytes", text, &count, &err) == ZL_OK) {
        char figure[64];
        zl_format_bytes(count, ZL_BYTES_GIB, 3, figure, sizeof figure);
        zl_format_count(count, figure, sizeof figure);
    }
    (void)!zl_ds_version_parse(text, &version, &err);
    free(text);
    return 0;
}
