/* The only door to cJSON: strict reading, exact integers, atomic writing.
 *
 * Reading refuses trailing text, nesting deeper than 64, a key given twice with different values,
 * and whatever else is not JSON ("FILE:LINE:COLUMN: expected this, got that"); a byte order mark
 * and carriage returns at the ends of lines are read over. Typed reading refuses integers beyond
 * 2^53 and wrong types, each with the path of the value ("cells[2].buffers[0].end"). Our own files
 * are read through zl_json_only, which rejects unknown keys and every duplicate; foreign files may
 * have both.
 */
#ifndef ZEROLEDGER_JSON_H
#define ZEROLEDGER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"
#include "zeroledger/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A value inside a parsed document, with the path that led to it. Borrowed from the document. */
typedef struct zl_json {
    const void *node; /* NULL: absent */
    char path[128];
} zl_json;

typedef struct zl_json_doc zl_json_doc;

/* Caller frees the document; values borrowed from it die with it. name is used in errors. Errors of
 * syntax give line and column. */
ZL_API ZL_NODISCARD zl_status zl_json_parse(const char *name, const char *text, size_t size,
                                            zl_json_doc **out, zl_err *err);
ZL_API ZL_NODISCARD zl_status zl_json_load(const char *path, zl_json_doc **out, zl_err *err);
/* What is no JSON, but what lenient readers forgive: the line of the first of each, 0: none. */
typedef struct zl_json_lapses {
    uint64_t comment; /* # and // up to the end of the line, or between slash-star and star-slash */
    uint64_t comma;   /* a comma behind the last member or element */
    uint64_t repeat;  /* a key given again with the same value */
    uint64_t mark;    /* a byte order mark; line 1 */
} zl_json_lapses;

/* As zl_json_load, for a file whose own readers are lenient: comments and trailing commas are read
 * over too. *lapses says what was forgiven. */
ZL_API ZL_NODISCARD zl_status zl_json_load_lenient(const char *path, zl_json_doc **out,
                                                   zl_json_lapses *lapses, zl_err *err);
ZL_API ZL_NODISCARD zl_status zl_json_parse_lenient(const char *name, const char *text, size_t size,
                                                    zl_json_doc **out, zl_json_lapses *lapses,
                                                    zl_err *err);
ZL_API void zl_json_free(zl_json_doc *doc);
ZL_API zl_json zl_json_root(const zl_json_doc *doc);

/* A member or element; node NULL if absent (or not an object / array, or JSON null for get). */
ZL_API zl_json zl_json_get(zl_json object, const char *key);
ZL_API zl_json zl_json_item(zl_json array, size_t index);
/* The elements one after another, where zl_json_item would count from the front each time:
 * `size_t i = 0; zl_json item; while (zl_json_each(array, &i, &item)) { ... }` with item left alone
 * between the calls. False past the end, and for anything but an array. */
ZL_API bool zl_json_each(zl_json array, size_t *index, zl_json *item);
/* The members likewise, null ones too; the key is borrowed. */
ZL_API bool zl_json_each_member(zl_json object, size_t *index, const char **key, zl_json *value);
ZL_API size_t zl_json_size(zl_json value); /* members or elements; 0 for anything else */
ZL_API const char *zl_json_key(zl_json object, size_t index); /* borrowed; NULL past the end */
ZL_API bool zl_json_is_object(zl_json value);
ZL_API bool zl_json_is_array(zl_json value);
ZL_API bool zl_json_is_string(zl_json value);
ZL_API bool zl_json_is_number(zl_json value);
ZL_API bool zl_json_is_bool(zl_json value);

/* Typed reading; absent or wrong type is ZL_E_INPUT naming the path. */
ZL_API ZL_NODISCARD zl_status zl_json_u64(zl_json value, uint64_t *out, zl_err *err);
ZL_API ZL_NODISCARD zl_status zl_json_real(zl_json value, double *out, zl_err *err);
ZL_API ZL_NODISCARD zl_status zl_json_bool(zl_json value, bool *out, zl_err *err);
ZL_API ZL_NODISCARD zl_status zl_json_string(zl_json value, const char **out,
                                             zl_err *err); /* borrowed */

/* ZL_E_INPUT naming the first member that is not in the list, with the nearest legal key. */
ZL_API ZL_NODISCARD zl_status zl_json_only(zl_json object, const char *const *keys, size_t count,
                                           zl_err *err);
/* ZL_E_INPUT unless object.schema equals schema. */
ZL_API ZL_NODISCARD zl_status zl_json_schema(zl_json object, const char *schema, zl_err *err);

/* A writer that produces canonical text: two-space indent, keys in the order given, integers exact.
 *
 *     zl_json_writer *w = zl_json_writer_new();
 *     zl_json_begin_object(w, NULL);
 *     zl_json_put_string(w, "schema", "zeroledger.run/1");
 *     zl_json_put_u64(w, "stage", 3);
 *     zl_json_end(w);
 *     status = zl_json_writer_save(w, path, err);      // atomic; "-" = stdout
 *     zl_json_writer_free(w);
 *
 * key is NULL inside arrays and at the top. Running out of memory is reported by save and text. */
typedef struct zl_json_writer zl_json_writer;
ZL_API zl_json_writer *zl_json_writer_new(void);
ZL_API void zl_json_writer_free(zl_json_writer *w);
ZL_API void zl_json_begin_object(zl_json_writer *w, const char *key);
ZL_API void zl_json_begin_array(zl_json_writer *w, const char *key);
ZL_API void zl_json_end(zl_json_writer *w);
ZL_API void zl_json_put_string(zl_json_writer *w, const char *key, const char *value);
ZL_API void zl_json_put_u64(zl_json_writer *w, const char *key, uint64_t value);
ZL_API void zl_json_put_real(zl_json_writer *w, const char *key,
                             double value); /* shortest text that reads back */
ZL_API void zl_json_put_number(zl_json_writer *w, const char *key,
                               const char *digits); /* a JSON number, as it was read */
ZL_API void zl_json_put_bool(zl_json_writer *w, const char *key, bool value);
ZL_API void zl_json_put_null(zl_json_writer *w, const char *key);
/* A parsed value with all below it; of duplicate keys the first. */
ZL_API void zl_json_put(zl_json_writer *w, const char *key, zl_json value);
/* The text so far, borrowed; NULL if memory ran out. */
ZL_API const char *zl_json_writer_text(const zl_json_writer *w, size_t *size);
ZL_API ZL_NODISCARD zl_status zl_json_writer_save(const zl_json_writer *w, const char *path,
                                                  zl_err *err);

#ifdef __cplusplus
}
#endif
#endif
