/* base/json: strict JSON, then a walk over everything that was read. */
#include <stdlib.h>

#include "fuzz.h"
#include "zeroledger/json.h"

static void visit(zl_json value)
{
    uint64_t count = 0;
    double real = 0.0;
    bool flag = false;
    const char *text = NULL;
    zl_json item = {0};
    (void)!zl_json_u64(value, &count, NULL);
    (void)!zl_json_real(value, &real, NULL);
    (void)!zl_json_bool(value, &flag, NULL);
    (void)!zl_json_string(value, &text, NULL);
    for (size_t i = 0; zl_json_each(value, &i, &item);) {
        visit(item);
    }
    for (size_t i = 0; zl_json_is_object(value) && i < zl_json_size(value); i++) {
        visit(zl_json_get(value, zl_json_key(value, i)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = zl_fuzz_text(data, size);
    zl_json_doc *doc = NULL;
    zl_err err = {0};
    if (zl_json_parse("fuzz", text, size, &doc, &err) == ZL_OK) {
        zl_json_writer *const w = zl_json_writer_new();
        visit(zl_json_root(doc));
        zl_json_put(w, NULL, zl_json_root(doc));
        zl_json_writer_free(w);
        zl_json_free(doc);
    }
    free(text);
    return 0;
}
