/* config.json as the frameworks read it. */
#include <stdlib.h>

#include "fuzz.h"
#include "zeroledger/json.h"
#include "zeroledger/torch.h"

static void deaf(void *context, const char *line)
{
    (void)context;
    (void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = zl_fuzz_text(data, size);
    zl_json_doc *doc = NULL;
    zl_hf_config config;
    zl_err err = {0};
    if (zl_json_parse("config.json", text, size, &doc, &err) == ZL_OK) {
        (void)!zl_hf_config_read(zl_json_root(doc), &config, &err);
        zl_hf_config_slips(zl_json_root(doc), deaf, NULL);
        zl_json_free(doc);
    }
    free(text);
    return 0;
}
