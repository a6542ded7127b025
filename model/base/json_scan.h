/* Strict check of a JSON text before cJSON sees it, and its number tokens afterwards.
 * Private to base/. */
#ifndef ZL_BASE_JSON_SCAN_H
#define ZL_BASE_JSON_SCAN_H

#include <stddef.h>

#include "zeroledger/error.h"

enum { ZL_JSON_DEPTH = 64, ZL_JSON_NUMBER_SIZE = 64 };

/* ZL_E_INPUT with name, line and column unless the text is exactly one value by the grammar of
 * RFC 8259 in UTF-8, nested at most ZL_JSON_DEPTH deep, without \u0000, and without a number of
 * ZL_JSON_NUMBER_SIZE characters or more. */
ZL_NODISCARD zl_status zl_json_scan(const char *name, const char *text, size_t size, zl_err *err);

/* Next number token of a text that zl_json_scan accepted, in document order: its first character,
 * NULL at the end. *cursor moves behind it, and *length is its size. */
const char *zl_json_next_number(const char **cursor, const char *end, size_t *length);

#endif
