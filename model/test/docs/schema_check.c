/* Checks JSON files against a schema.
 * usage: schema_check SCHEMA FILE...      SCHEMA is the path of a schema, others lie beside it */
#include <libgen.h>
#include <stdio.h>
#include <string.h>

#include "schema.h"

static zl_status check_file(zt_schemas *schemas, const char *name, const char *path, zl_err *err)
{
    zl_json_doc *doc = NULL;
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_status status = zt_schema_check(schemas, name, zl_json_root(doc), err);
    zl_json_free(doc);
    return status;
}

int main(int argc, char **argv)
{
    char folder[4096];
    char name[4096];
    int worst = ZL_OK;
    if (argc < 3) {
        fputs("usage: schema_check SCHEMA FILE...\n", stderr);
        return ZL_E_USAGE;
    }
    snprintf(folder, sizeof folder, "%s", argv[1]);
    snprintf(name, sizeof name, "%s", argv[1]);
    zt_schemas schemas = {.folder = dirname(folder)};
    const char *const base = basename(name);
    for (int i = 2; i < argc; i++) {
        zl_err err = {0};
        const zl_status status = check_file(&schemas, base, argv[i], &err);
        if (status != ZL_OK) {
            printf("%s: %s: %s\n", argv[i], base, err.text);
            worst = (int)status > worst ? (int)status : worst;
        }
    }
    zt_schemas_release(&schemas);
    return worst;
}
