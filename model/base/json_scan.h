/* Strict check of a JSON text before cJSON sees it, and its number tokens afterwards.
 * Private to base/. */
#ifndef ZL_BASE_JSON_SCAN_H
#define ZL_BASE_JSON_SCAN_H

#include <stddef.h>

#include "zeroledger/error.h"
#include "zeroledger/json.h"

enum { ZL_JSON_DEPTH = 64, ZL_JSON_NUMBER_SIZE = 64 };

/* Both count from 1, columns in characters. */
typedef struct zl_json_place {
    size_t line, column;
} zl_json_place;
zl_json_place zl_json_place_of(const char *begin, const char *at);

/* ZL_E_INPUT with name:line:column unless the text is exactly one value by the grammar of RFC 8259
 * in UTF-8, nested at most ZL_JSON_DEPTH deep, without \u0000, and without a number of
 * ZL_JSON_NUMBER_SIZE characters or more. */
ZL_NODISCARD zl_status zl_json_scan(const char *name, const char *text, size_t size, zl_err *err);

/* The same with comments and trailing commas allowed and noted. blanked gets the text, `size`
 * bytes, with spaces in their place: zl_json_scan accepts it. */
ZL_NODISCARD zl_status zl_json_scan_lenient(const char *name, const char *text, size_t size,
                                            char *blanked, zl_json_lapses *lapses, zl_err *err);

/* Next number token of a text that zl_json_scan accepted, in document order: its first character,
 * NULL at the end. *cursor moves behind it, and *length is its size. */
const char *zl_json_next_number(const char **cursor, const char *end, size_t *length);

/* Where key number `index` of a text that zl_json_scan accepted stands, counted from 0 in document
 * order. */
zl_json_place zl_json_key_place(const char *text, size_t size, size_t index);

#endif
