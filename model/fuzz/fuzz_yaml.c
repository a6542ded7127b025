/* YAML 1.1 files. */
#include "cli/yaml_file.h"
#include "fuzz.h"

static void deaf(void *context, const char *line)
{
    (void)context;
    (void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zl_json_doc *doc = NULL;
    zl_err err = {0};
    if (zl_yaml_load(zl_fuzz_file(0, data, size), &doc, deaf, NULL, &err) == ZL_OK) {
        zl_json_free(doc);
    }
    return 0;
}
