/* Objects of our JSON files, read by a table of their members.
 *
 *     ZL_TRY(zv_read_members(object,
 *                            (zv_member[]){{.key = "name", .text = name, .size = sizeof name},
 *                                          {.key = "steps", .count = &steps, .optional = true}},
 *                            2, err));
 */
#ifndef ZV_READ_H
#define ZV_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compare/verdict.h"
#include "zeroledger/json.h"
#include "zeroledger/vocab.h"

/* A legal key and at most one place for its value; without one the caller reads it. */
typedef struct zv_member {
    const char *key;
    bool optional; /* may be absent; then nothing is written */
    uint64_t *count;
    double *real;
    bool *flag;
    char *text; /* a string that fits into size bytes with its NUL */
    size_t size;
    zl_visit *visit;
    zl_phase *phase;
    zl_kind *kind;
    zl_buf *buffer;
} zv_member;

enum { ZV_MEMBERS_MAX = 24 };

/* ZL_E_INPUT for anything but an object, for a key that is not in the table, for a member that is
 * absent or of another type, and for a word that is not in the vocabulary; each names the place. */
ZL_NODISCARD zl_status zv_read_members(zl_json object, const zv_member *members, size_t count,
                                       zl_err *err);

/* {"requested": 0, "granted": 0, "outside_steady": bytes}. The first two may only be 0: the figures
 * of two ledgers are equal or they are not. */
ZL_NODISCARD zl_status zv_read_tolerance(zl_json object, zv_tolerance *out, zl_err *err);

/* A list of at least one element. */
ZL_NODISCARD zl_status zv_read_list(zl_json object, const char *key, zl_json *out, zl_err *err);

#endif
