/* The header of a safetensors file. The first byte chooses: the file alone, or an index and, behind
 * a zero byte, the file that it may name, one.safetensors. */
#include <stdlib.h>
#include <string.h>

#include "base/safetensors.h"
#include "fuzz.h"

static void load(const char *path)
{
    zl_json_doc *doc = NULL;
    zl_err err = {0};
    if (zl_safetensors_load(path, &doc, &err) == ZL_OK) {
        zl_json_free(doc);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const uint8_t *const zero = memchr(data + 1, 0, size - 1);
    if (data[0] != 'i' || zero == NULL) {
        load(zl_fuzz_named(0, "one.safetensors", data + 1, size - 1));
        return 0;
    }
    (void)zl_fuzz_named(0, "one.safetensors", zero + 1, (size_t)(data + size - zero - 1));
    load(zl_fuzz_named(1, "model.safetensors.index.json", data + 1, (size_t)(zero - data - 1)));
    return 0;
}
