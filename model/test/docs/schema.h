/* A JSON Schema validator, as much of draft 2020-12 as docs/schema uses: type, const, enum, pattern
 * (POSIX extended), minimum, minItems, required, properties, propertyNames, additionalProperties,
 * items, anyOf, and $ref to "#/..." or "FILE#/..." beside the schema. Any other keyword is an
 * error, so that no schema promises what is not checked. An integer is one that zl_json_u64 reads.
 *
 *     zt_schemas schemas = {.folder = "docs/schema"};
 *     status = zt_schema_check(&schemas, "run.schema.json", zl_json_root(doc), &err);
 *     zt_schemas_release(&schemas);
 */
#ifndef ZT_SCHEMA_H
#define ZT_SCHEMA_H

#include "zeroledger/json.h"

enum { ZT_SCHEMAS_MAX = 16 };

/* Schema files read so far. */
typedef struct zt_schemas {
    const char *folder;
    struct {
        char name[64];
        zl_json_doc *doc;
    } file[ZT_SCHEMAS_MAX];
    size_t count;
} zt_schemas;

void zt_schemas_release(zt_schemas *schemas);

/* ZL_NO if the value is not what the schema says, naming the place and the rule; ZL_E_INPUT if the
 * schema cannot be used. */
ZL_NODISCARD zl_status zt_schema_check(zt_schemas *schemas, const char *name, zl_json value,
                                       zl_err *err);

#endif
