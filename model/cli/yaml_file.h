/* YAML files, read as PyYAML's safe_load reads them: YAML 1.1, in which no, off and NO are the
 * boolean false and 5e7 is a string. What comes out is a document of JSON. */
#ifndef ZL_CLI_YAML_FILE_H
#define ZL_CLI_YAML_FILE_H

#include "zeroledger/error.h"
#include "zeroledger/json.h"
#include "zeroledger/torch.h"

/* The caller frees the document. Anchors are passed over, an alias, a merge key, a second document
 * and a tag beyond those of JSON's types are ZL_E_INPUT with line and column, as is what is no
 * YAML. Two members of one name may not differ. Warns of texts that look like numbers and are none.
 */
zl_status zl_yaml_load(const char *path, zl_json_doc **out, zl_warn *warn, void *context,
                       zl_err *err);

/* "0.2.5", of libyaml. */
const char *zl_yaml_version(void);

/* What a plain scalar is. Booleans are "true" and "false" in value, whole numbers decimal digits,
 * other numbers a text that strtod reads. */
typedef enum zl_yaml_kind {
    ZL_YAML_STRING,
    ZL_YAML_NULL,
    ZL_YAML_BOOL,
    ZL_YAML_COUNT, /* a whole number below 2^64 */
    ZL_YAML_REAL
} zl_yaml_kind;

enum { ZL_YAML_VALUE = 64 };
zl_yaml_kind zl_yaml_resolve(const char *text, char value[ZL_YAML_VALUE]);

#endif
