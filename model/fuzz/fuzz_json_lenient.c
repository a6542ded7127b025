/* base/json: JSON with comments and trailing commas, as lenient readers take it. */
#include <stdlib.h>

#include "fuzz.h"
#include "zeroledger/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = zl_fuzz_text(data, size);
    zl_json_doc *doc = NULL;
    zl_json_lapses lapses = {0};
    zl_err err = {0};
    if (zl_json_parse_lenient("fuzz", text, size, &doc, &lapses, &err) == ZL_OK) {
        zl_json_writer *const w = zl_json_writer_new();
        zl_json_put(w, NULL, zl_json_root(doc));
        zl_json_writer_free(w);
        zl_json_free(doc);
    }
    free(text);
    return 0;
}
