/* ds_config.json on top of the defaults of a release, which the first byte chooses: 0.5 to 0.19. */
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
    if (size == 0) {
        return 0;
    }
    const uint32_t version = 5000U + data[0] % 15U * 1000U;
    char *const text = zl_fuzz_text(data + 1, size - 1);
    zl_json_doc *doc = NULL;
    zl_ds_config config;
    zl_err err = {0};
    if (zl_json_parse("ds_config.json", text, size - 1, &doc, &err) == ZL_OK) {
        (void)!zl_ds_config_read(zl_json_root(doc), version, &config, deaf, NULL, &err);
        zl_json_free(doc);
    }
    free(text);
    return 0;
}
