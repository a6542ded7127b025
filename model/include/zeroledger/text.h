/* Text in and out: numbers with units, nearest names, atomic files. Shared by the three programs.
 */
#ifndef ZEROLEDGER_TEXT_H
#define ZEROLEDGER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "zeroledger/error.h"
#include "zeroledger/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A whole decimal number, digits only. `what` names the option in the error. */
ZL_API ZL_NODISCARD zl_status zl_parse_count(const char *what, const char *text, uint64_t *out,
                                             zl_err *err);
/* A finite decimal number. */
ZL_API ZL_NODISCARD zl_status zl_parse_real(const char *what, const char *text, double *out,
                                            zl_err *err);
/* Bytes: "24GiB", "80GB" (10^9), "512", "1.42GiB" (rounded to the byte). Units B, K/KB/KiB ...
 * T/TB/TiB: K, M, G, T alone and with iB are binary, with B decimal. */
ZL_API ZL_NODISCARD zl_status zl_parse_bytes(const char *what, const char *text, uint64_t *out,
                                             zl_err *err);

/* Unit for people. */
typedef enum zl_byte_unit {
    ZL_BYTES_GIB,
    ZL_BYTES_GB,
    ZL_BYTES_MIB,
    ZL_BYTES_B,
    ZL_BYTES_COUNT
} zl_byte_unit;
ZL_API bool zl_byte_unit_find(const char *name, zl_byte_unit *out);
ZL_API const char *zl_byte_unit_name(zl_byte_unit unit);
/* "12.34" in the unit with `decimals` digits (B: whole), rounded half up, no unit text; no floats
 * involved. */
ZL_API void zl_format_bytes(uint64_t bytes, zl_byte_unit unit, int decimals, char *text,
                            size_t size);
/* "1,234,567". */
ZL_API void zl_format_count(uint64_t n, char *text, size_t size);

/* The name in the list nearest to `name` (edit distance; capitals do not matter, and a beginning is
 * near), or NULL if none is near. */
ZL_API const char *zl_nearest(const char *name, const char *const *names, size_t count);

/* Whether every word of argv[1..], NULL at the end, that begins with -- begins one of the names:
 * ZL_E_USAGE with the nearest if not. Ends at "--", and, in order, at the first word that is no
 * option. */
ZL_API ZL_NODISCARD zl_status zl_options_known(char *const *argv, bool in_order,
                                               const char *const *names, size_t count, zl_err *err);

/* Whole file into a NUL-terminated heap buffer the caller frees; a byte 0 inside is an error. "-" =
 * stdin. */
ZL_API ZL_NODISCARD zl_status zl_file_read(const char *path, char **text, size_t *size,
                                           zl_err *err);
/* Writes beside the target, fsyncs, renames; on failure nothing is left and the old file stands.
 * "-" = stdout, flushed and checked. */
ZL_API ZL_NODISCARD zl_status zl_file_write(const char *path, const char *text, size_t size,
                                            zl_err *err);

#ifdef __cplusplus
}
#endif
#endif
